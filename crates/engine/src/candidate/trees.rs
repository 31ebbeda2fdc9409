//! Git trees from a manifest, and paths from git trees.
//!
//! A tree holds what git can hold: files, executables and links. Modes beyond that and empty directories are in the manifest
//! alone. This module must not read or write files.

use super::manifest::{Content, Entry, Manifest, Sha256Bytes};
use super::object::{Object, ObjectFormat, ObjectId, ObjectKind, TreeLine, TreeMode};

/// The trees of a manifest.
#[derive(Debug)]
pub(super) struct Trees {
    /// The tree of the whole.
    pub(super) top: ObjectId,
    /// Link targets first, then trees, the deepest first.
    pub(super) objects: Vec<Object>,
}

/// Makes the trees of `manifest`; `blob` gives the git name of content. On a digest without a name it gives that digest's path.
pub(super) fn build(
    format: ObjectFormat,
    manifest: &Manifest,
    blob: impl Fn(&Sha256Bytes) -> Option<ObjectId>,
) -> Result<Trees, Vec<u8>> {
    let mut objects = Vec::new();
    let mut leaves = Vec::with_capacity(manifest.entries.len());
    for entry in &manifest.entries {
        leaves.extend(leaf(format, entry, &blob, &mut objects)?);
    }
    let top = subtree(format, &leaves, 0, &mut objects);
    Ok(Trees { top, objects })
}

/// The mode git gives an entry, if it holds it at all.
pub(super) fn tree_mode(entry: &Entry) -> Option<TreeMode> {
    match entry.content {
        Content::Directory => None,
        Content::Symlink { .. } => Some(TreeMode::Symlink),
        Content::File { .. } if entry.mode & 0o100 != 0 => Some(TreeMode::Executable),
        Content::File { .. } => Some(TreeMode::File),
    }
}

type Leaf<'a> = (&'a [u8], TreeMode, ObjectId);

fn leaf<'a>(
    format: ObjectFormat,
    entry: &'a Entry,
    blob: &impl Fn(&Sha256Bytes) -> Option<ObjectId>,
    objects: &mut Vec<Object>,
) -> Result<Option<Leaf<'a>>, Vec<u8>> {
    let Some(mode) = tree_mode(entry) else {
        return Ok(None);
    };
    let id = match &entry.content {
        Content::Directory => return Ok(None),
        Content::File { sha256, .. } => blob(sha256).ok_or_else(|| entry.path.clone())?,
        Content::Symlink { target } => {
            let object = Object::new(format, ObjectKind::Blob, target.clone());
            let id = object.id;
            objects.push(object);
            id
        }
    };
    Ok(Some((&entry.path, mode, id)))
}

/// Leaves are sorted by path, so those of one directory lie together: `start` is where names begin in all of them.
fn subtree(
    format: ObjectFormat,
    leaves: &[Leaf<'_>],
    start: usize,
    objects: &mut Vec<Object>,
) -> ObjectId {
    let mut lines = Vec::new();
    let mut rest = leaves;
    while let Some((path, mode, id)) = rest.first() {
        let name = path.get(start..).unwrap_or_default();
        let Some(length) = memchr::memchr(b'/', name) else {
            lines.push(TreeLine {
                mode: *mode,
                name: name.to_vec(),
                id: *id,
            });
            rest = rest.get(1..).unwrap_or_default();
            continue;
        };
        let below = path.get(..=start + length).unwrap_or_default();
        let (inside, outside) =
            rest.split_at(rest.partition_point(|(path, ..)| path.starts_with(below)));
        let id = subtree(format, inside, start + length + 1, objects);
        lines.push(TreeLine {
            mode: TreeMode::Directory,
            name: name.get(..length).unwrap_or_default().to_vec(),
            id,
        });
        rest = outside;
    }
    let tree = Object::tree(format, lines);
    let id = tree.id;
    objects.push(tree);
    id
}
