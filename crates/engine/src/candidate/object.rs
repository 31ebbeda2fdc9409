//! Git objects as bytes: ids, trees and commits, made and read without a git process.
//!
//! The shapes are those of git's own documents (`gitformat-*`); repositories with SHA-256 ids are served alike. This module
//! must not know files, packs or what the objects are for.

use super::manifest::{hex, unhex};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// The hash that names the objects of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectFormat {
    /// 20-byte ids, the default of git.
    Sha1,
    /// 32-byte ids (`extensions.objectFormat = sha256`).
    Sha256,
}

/// The name of an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    format: ObjectFormat,
    /// Zero after the length of the format.
    bytes: [u8; 32],
}

/// The kinds of objects that are written here, with their numbers in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Commit,
    Tree,
    Blob,
}

/// A running object id or pack checksum.
#[derive(Debug, Clone)]
pub(super) enum ObjectHasher {
    Sha1(Sha1),
    Sha256(Sha256),
}

/// An object whose bytes are in memory.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) id: ObjectId,
    pub(super) kind: ObjectKind,
    pub(super) bytes: Vec<u8>,
}

/// One line of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeLine {
    pub(super) mode: TreeMode,
    pub(super) name: Vec<u8>,
    pub(super) id: ObjectId,
}

/// The modes a git tree knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TreeMode {
    Directory,
    File,
    Executable,
    Symlink,
    Gitlink,
}

impl ObjectFormat {
    /// The name in git's configuration and output.
    pub fn name(self) -> &'static str {
        match self {
            ObjectFormat::Sha1 => "sha1",
            ObjectFormat::Sha256 => "sha256",
        }
    }

    /// Bytes of an id.
    pub(super) fn id_length(self) -> usize {
        match self {
            ObjectFormat::Sha1 => 20,
            ObjectFormat::Sha256 => 32,
        }
    }

    pub(super) fn hasher(self) -> ObjectHasher {
        match self {
            ObjectFormat::Sha1 => ObjectHasher::Sha1(Sha1::new()),
            ObjectFormat::Sha256 => ObjectHasher::Sha256(Sha256::new()),
        }
    }

    /// A hasher that has seen the header of an object of that kind and size.
    pub(super) fn object_hasher(self, kind: ObjectKind, size: u64) -> ObjectHasher {
        let mut hasher = self.hasher();
        hasher.update(format!("{} {size}\0", kind.name()).as_bytes());
        hasher
    }
}

impl ObjectId {
    /// An id from exactly the bytes of its format.
    pub(super) fn from_raw(format: ObjectFormat, raw: &[u8]) -> Option<Self> {
        let mut bytes = [0; 32];
        if raw.len() != format.id_length() {
            return None;
        }
        for (byte, &value) in bytes.iter_mut().zip(raw) {
            *byte = value;
        }
        Some(ObjectId { format, bytes })
    }

    /// An id from 40 or 64 lower-case hex digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let format = match text.len() {
            40 => ObjectFormat::Sha1,
            64 => ObjectFormat::Sha256,
            _ => return None,
        };
        let mut bytes = [0; 32];
        unhex(text.as_bytes(), bytes.get_mut(..format.id_length())?)?;
        Some(ObjectId { format, bytes })
    }

    /// The hash that made it.
    pub fn format(&self) -> ObjectFormat {
        self.format
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes
            .get(..self.format.id_length())
            .unwrap_or(&self.bytes)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex(self.as_bytes()))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl ObjectKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            ObjectKind::Commit => "commit",
            ObjectKind::Tree => "tree",
            ObjectKind::Blob => "blob",
        }
    }

    pub(super) fn pack_number(self) -> u8 {
        match self {
            ObjectKind::Commit => 1,
            ObjectKind::Tree => 2,
            ObjectKind::Blob => 3,
        }
    }
}

impl ObjectHasher {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            ObjectHasher::Sha1(hasher) => hasher.update(bytes),
            ObjectHasher::Sha256(hasher) => hasher.update(bytes),
        }
    }

    pub(super) fn finish(self) -> ObjectId {
        let mut bytes = [0; 32];
        let (format, digest) = match self {
            ObjectHasher::Sha1(hasher) => (ObjectFormat::Sha1, hasher.finalize().to_vec()),
            ObjectHasher::Sha256(hasher) => (ObjectFormat::Sha256, hasher.finalize().to_vec()),
        };
        for (byte, value) in bytes.iter_mut().zip(digest) {
            *byte = value;
        }
        ObjectId { format, bytes }
    }
}

impl Object {
    pub(super) fn new(format: ObjectFormat, kind: ObjectKind, bytes: Vec<u8>) -> Self {
        let mut hasher = format.object_hasher(kind, bytes.len() as u64);
        hasher.update(&bytes);
        Object {
            id: hasher.finish(),
            kind,
            bytes,
        }
    }

    /// A tree of these lines, in the order git demands.
    pub(super) fn tree(format: ObjectFormat, mut lines: Vec<TreeLine>) -> Self {
        lines.sort_by(|left, right| left.order().cmp(right.order()));
        let mut bytes = Vec::with_capacity(lines.len() * 48);
        for line in &lines {
            bytes.extend_from_slice(line.mode.text().as_bytes());
            bytes.push(b' ');
            bytes.extend_from_slice(&line.name);
            bytes.push(0);
            bytes.extend_from_slice(line.id.as_bytes());
        }
        Object::new(format, ObjectKind::Tree, bytes)
    }

    /// A commit without parents whose id depends on the tree alone: the same content always has the same name, so saving it
    /// twice writes nothing.
    pub(super) fn commit(tree: &ObjectId) -> Self {
        let who = "loopexec <loopexec@localhost> 0 +0000";
        let text = format!("tree {tree}\nauthor {who}\ncommitter {who}\n\nloopexec candidate\n");
        Object::new(tree.format(), ObjectKind::Commit, text.into_bytes())
    }
}

/// The lines of a tree, or `None` when the bytes are no tree.
pub(super) fn parse_tree(format: ObjectFormat, mut bytes: &[u8]) -> Option<Vec<TreeLine>> {
    let mut lines = Vec::new();
    while !bytes.is_empty() {
        let (mode, rest) = bytes.split_at_checked(memchr::memchr(b' ', bytes)?)?;
        let rest = rest.get(1..)?;
        let (name, rest) = rest.split_at_checked(memchr::memchr(0, rest)?)?;
        let (raw, rest) = rest.get(1..)?.split_at_checked(format.id_length())?;
        let (mode, id) = (TreeMode::from_text(mode)?, ObjectId::from_raw(format, raw)?);
        lines.push(TreeLine {
            mode,
            name: name.to_vec(),
            id,
        });
        bytes = rest;
    }
    Some(lines)
}

/// The tree of a commit, or `None` when the bytes are no commit.
pub(super) fn parse_commit_tree(bytes: &[u8]) -> Option<ObjectId> {
    let line = bytes
        .strip_prefix(b"tree ")?
        .split(|&byte| byte == b'\n')
        .next()?;
    ObjectId::from_hex(std::str::from_utf8(line).ok()?)
}

impl TreeLine {
    /// Git sorts a directory as if its name ended in `/`.
    fn order(&self) -> impl Iterator<Item = u8> + '_ {
        let slash = match self.mode {
            TreeMode::Directory => Some(b'/'),
            TreeMode::File | TreeMode::Executable | TreeMode::Symlink | TreeMode::Gitlink => None,
        };
        self.name.iter().copied().chain(slash)
    }
}

impl TreeMode {
    fn text(self) -> &'static str {
        match self {
            TreeMode::Directory => "40000",
            TreeMode::File => "100644",
            TreeMode::Executable => "100755",
            TreeMode::Symlink => "120000",
            TreeMode::Gitlink => "160000",
        }
    }

    fn from_text(text: &[u8]) -> Option<Self> {
        match text {
            b"40000" => Some(TreeMode::Directory),
            // Old tools wrote group-writable files.
            b"100644" | b"100664" => Some(TreeMode::File),
            b"100755" => Some(TreeMode::Executable),
            b"120000" => Some(TreeMode::Symlink),
            b"160000" => Some(TreeMode::Gitlink),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_tree_and_the_empty_blob_have_their_known_names() {
        let cases = [
            (
                ObjectFormat::Sha1,
                ObjectKind::Tree,
                "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            ),
            (
                ObjectFormat::Sha1,
                ObjectKind::Blob,
                "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
            ),
            (
                ObjectFormat::Sha256,
                ObjectKind::Blob,
                "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
            ),
        ];
        for (format, kind, expect) in cases {
            assert_eq!(Object::new(format, kind, Vec::new()).id.to_string(), expect);
            assert_eq!(
                ObjectId::from_hex(expect)
                    .map(|id| id.to_string())
                    .as_deref(),
                Some(expect)
            );
        }
    }

    #[test]
    fn a_tree_comes_back_and_a_directory_sorts_after_a_dot_and_before_a_letter() {
        let id = Object::new(ObjectFormat::Sha1, ObjectKind::Blob, Vec::new()).id;
        let line = |mode, name: &str| TreeLine {
            mode,
            name: name.into(),
            id,
        };
        let lines = vec![
            line(TreeMode::Executable, "a0"),
            line(TreeMode::Directory, "a"),
            line(TreeMode::File, "a.b"),
        ];
        let tree = Object::tree(ObjectFormat::Sha1, lines);
        let names: Vec<_> = parse_tree(ObjectFormat::Sha1, &tree.bytes)
            .expect("a tree")
            .into_iter()
            .map(|line| String::from_utf8(line.name).expect("a name"))
            .collect();
        assert_eq!(names, ["a.b", "a", "a0"]);
        assert_eq!(
            parse_tree(ObjectFormat::Sha1, tree.bytes.get(1..).expect("longer")),
            None
        );
    }

    #[test]
    fn a_commit_names_its_tree() {
        let tree = Object::tree(ObjectFormat::Sha1, Vec::new());
        assert_eq!(
            parse_commit_tree(&Object::commit(&tree.id).bytes),
            Some(tree.id)
        );
    }
}
