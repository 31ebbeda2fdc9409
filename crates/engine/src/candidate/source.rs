//! Reads objects: our own packs in this process, everything else through one `git cat-file`.
//!
//! What a store has in common with the person's repository lies there, compressed and in deltas; git reads that. This module
//! must not know what the objects are for.

use super::object::{
    ObjectFormat, ObjectId, ObjectKind, TreeLine, TreeMode, parse_commit_tree, parse_tree,
};
use super::pack;
use super::pack_index::PackIndex;
use super::rules::{MAX_DEPTH, join};
use crate::git::{Git, GitError, ObjectReader};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The largest object that is taken into memory as a whole: trees, commits, manifests, indexes.
pub const MAX_OBJECT_IN_MEMORY: u64 = 1 << 30;

/// Why an object could not be had.
#[derive(Debug, Error)]
pub enum ObjectError {
    /// A pack could not be read, or the reader of the bytes failed.
    #[error("could not read object {id}")]
    Read {
        /// The object.
        id: ObjectId,
        /// What the system said.
        source: io::Error,
    },
    /// Git could not be asked.
    #[error("could not read object {id} through git")]
    Git {
        /// The object.
        id: ObjectId,
        /// Why not.
        source: GitError,
    },
    /// It is nowhere.
    #[error("object {id} is in no pack of the run and in no repository beside it")]
    Missing {
        /// The object.
        id: ObjectId,
    },
    /// It is something else than was expected.
    #[error("object {id} is no {expected} or is larger than {MAX_OBJECT_IN_MEMORY} bytes")]
    Unexpected {
        /// The object.
        id: ObjectId,
        /// What was asked for.
        expected: &'static str,
    },
}

/// A pack of ours.
#[derive(Debug)]
pub(super) struct Pack {
    pub(super) index: PackIndex,
    pub(super) file: fs_err::File,
}

/// Where objects are read from.
#[derive(Debug)]
pub(super) struct ObjectSource<'a> {
    packs: &'a [Pack],
    git_dir: PathBuf,
    git: Option<&'a Git>,
    reader: Option<ObjectReader>,
}

impl Pack {
    /// The packs in a directory of objects; those of another shape are passed over.
    pub(super) fn load_all(objects: &Path, format: ObjectFormat) -> io::Result<Vec<Self>> {
        let mut packs = Vec::new();
        for entry in fs_err::read_dir(objects.join("pack"))? {
            packs.extend(Self::load(&entry?.path(), format)?);
        }
        Ok(packs)
    }

    /// The pack with the index at `path`; `None` when the name is no index or the index is of another kind.
    pub(super) fn load(path: &Path, format: ObjectFormat) -> io::Result<Option<Self>> {
        let named = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"pack-"));
        if !named || path.extension().is_none_or(|extension| extension != "idx") {
            return Ok(None);
        }
        let Some(index) = PackIndex::load(path, format)? else {
            return Ok(None);
        };
        let pack = path.with_extension("pack");
        let file = fs_err::File::from_parts(loopexec_os::durable::open_regular(&pack)?, pack);
        // A loss of power can leave either of the two cut short; then their content must be kept anew.
        if !index.is_whole() || !index.is_of_pack(&file)? {
            return Ok(None);
        }
        Ok(Some(Pack { index, file }))
    }
}

/// The first pack with the object, and where in it.
pub(super) fn find<'a>(packs: &'a [Pack], id: &ObjectId) -> Option<(&'a Pack, u64)> {
    packs
        .iter()
        .find_map(|pack| Some((pack, pack.index.offset(id)?)))
}

impl<'a> ObjectSource<'a> {
    pub(super) fn new(packs: &'a [Pack], git_dir: &Path, git: Option<&'a Git>) -> Self {
        ObjectSource {
            packs,
            git_dir: git_dir.to_owned(),
            git,
            reader: None,
        }
    }

    /// Whether the object can be read without git.
    pub(super) fn is_own(&self, id: &ObjectId) -> bool {
        find(self.packs, id).is_some()
    }

    /// Reads an object piece by piece; gives its kind as git names it and its size.
    pub(super) fn read(
        &mut self,
        id: &ObjectId,
        mut sink: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(String, u64), ObjectError> {
        if let Some((pack, offset)) = find(self.packs, id) {
            let read = pack::read_object(&pack.file, offset, &mut sink);
            if let Some((kind, size)) =
                read.map_err(|source| ObjectError::Read { id: *id, source })?
            {
                return Ok((kind.name().to_owned(), size));
            }
        }
        let failed = |source| ObjectError::Git { id: *id, source };
        let Some(git) = self.git else {
            return Err(ObjectError::Missing { id: *id });
        };
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => git.object_reader(&self.git_dir).map_err(failed)?,
        };
        let found = reader.read(&id.to_string(), sink).map_err(failed)?;
        // A reader that failed is out of step and is not kept.
        self.reader = Some(reader);
        found.ok_or(ObjectError::Missing { id: *id })
    }

    /// The whole bytes of an object of this kind.
    pub(super) fn bytes(
        &mut self,
        id: &ObjectId,
        kind: ObjectKind,
    ) -> Result<Vec<u8>, ObjectError> {
        let mut bytes = Vec::new();
        let (found, _) = self.read(id, |piece| {
            if bytes.len() as u64 + piece.len() as u64 > MAX_OBJECT_IN_MEMORY {
                return Err(io::Error::other("it is larger than is taken into memory"));
            }
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        if found == kind.name() {
            Ok(bytes)
        } else {
            Err(ObjectError::Unexpected {
                id: *id,
                expected: kind.name(),
            })
        }
    }

    /// The lines of a tree.
    pub(super) fn tree(&mut self, id: &ObjectId) -> Result<Vec<TreeLine>, ObjectError> {
        let bytes = self.bytes(id, ObjectKind::Tree)?;
        parse_tree(id.format(), &bytes).ok_or(ObjectError::Unexpected {
            id: *id,
            expected: "tree",
        })
    }

    /// The tree of a commit.
    pub(super) fn commit_tree(&mut self, id: &ObjectId) -> Result<ObjectId, ObjectError> {
        let bytes = self.bytes(id, ObjectKind::Commit)?;
        parse_commit_tree(&bytes).ok_or(ObjectError::Unexpected {
            id: *id,
            expected: "commit",
        })
    }

    /// The names of all files and links below a tree.
    pub(super) fn leaves(
        &mut self,
        tree: &ObjectId,
    ) -> Result<BTreeMap<Vec<u8>, ObjectId>, ObjectError> {
        let mut leaves = BTreeMap::new();
        let mut open = vec![(Vec::new(), *tree, 0)];
        while let Some((path, id, depth)) = open.pop() {
            if depth > MAX_DEPTH {
                return Err(ObjectError::Unexpected {
                    id,
                    expected: "tree of the depth a workspace may have",
                });
            }
            for line in self.tree(&id)? {
                let mut below = path.clone();
                join(&mut below, &line.name);
                match line.mode {
                    TreeMode::Directory => open.push((below, line.id, depth + 1)),
                    TreeMode::File | TreeMode::Executable | TreeMode::Symlink => {
                        leaves.insert(below, line.id);
                    }
                    TreeMode::Gitlink => {}
                }
            }
        }
        Ok(leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::object::Object;
    use crate::candidate::pack::PackFile;
    use crate::candidate::testing::directory;

    #[test]
    fn a_pack_or_index_that_was_cut_short_is_passed_over() {
        let format = ObjectFormat::Sha1;
        let objects = directory();
        fs_err::create_dir(objects.path().join("pack")).expect("a directory");
        let mut pack = PackFile::begin(&objects.path().join("pack"), format, 1).expect("begun");
        pack.writer()
            .add(&Object::new(format, ObjectKind::Blob, vec![7; 1000]))
            .expect("added");
        let index = pack.finish().expect("finished");
        assert_eq!(
            Pack::load_all(objects.path(), format).expect("read").len(),
            1
        );
        for path in [index.with_extension("pack"), index] {
            let bytes = fs_err::read(&path).expect("readable");
            fs_err::remove_file(&path).expect("removed");
            for cut in [bytes.get(..bytes.len() - 1).expect("shorter"), &[]] {
                fs_err::write(&path, cut).expect("written");
                assert_eq!(
                    Pack::load_all(objects.path(), format).expect("read").len(),
                    0,
                    "{path:?}"
                );
            }
            fs_err::write(&path, bytes).expect("written");
        }
    }
}
