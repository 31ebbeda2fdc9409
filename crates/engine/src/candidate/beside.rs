//! Whether objects lie in the repository of the person, answered without git.
//!
//! A wrong `no` costs space, a wrong `yes` content: only what is plainly there counts. This module must not read objects.

use super::object::{ObjectFormat, ObjectId};
use super::pack_index::PackIndex;
use std::path::{Path, PathBuf};

/// How far repositories that name each other as sources of objects are followed; git stops at five.
const MAX_ALTERNATES_DEPTH: usize = 5;

/// A list of such repositories longer than this is something else.
const MAX_LIST_BYTES: u64 = 1 << 20;

/// The objects of a repository and of those it borrows from.
#[derive(Debug)]
pub(super) struct Beside {
    directories: Vec<PathBuf>,
    indexes: Vec<PackIndex>,
}

impl Beside {
    /// Reads the indexes that can be read; the others count as empty.
    pub(super) fn open(objects: &Path, format: ObjectFormat) -> Self {
        let directories = directories(objects);
        let mut indexes = Vec::new();
        for directory in &directories {
            let names = fs_err::read_dir(directory.join("pack"))
                .into_iter()
                .flatten();
            let paths = names.filter_map(|entry| Some(entry.ok()?.path()));
            let is_index = |path: &PathBuf| {
                path.extension().is_some_and(|extension| extension == "idx")
                    && path.with_extension("pack").is_file()
            };
            indexes.extend(
                paths
                    .filter(is_index)
                    .filter_map(|path| PackIndex::load(&path, format).ok().flatten()),
            );
        }
        Beside {
            directories,
            indexes,
        }
    }

    /// Whether the object is there, in a pack or alone.
    pub(super) fn contains(&self, id: &ObjectId) -> bool {
        self.indexes.iter().any(|index| index.contains(id))
            || self
                .directories
                .iter()
                .any(|directory| loose_path(directory, id).is_file())
    }
}

/// A directory of objects and those it names as further sources, as far as they are plain to read.
fn directories(objects: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    let mut open = vec![(objects.to_owned(), 0)];
    while let Some((directory, depth)) = open.pop() {
        if depth <= MAX_ALTERNATES_DEPTH && !all.contains(&directory) {
            let list = directory.join("info/alternates");
            let small = fs_err::metadata(&list)
                .is_ok_and(|found| found.is_file() && found.len() < MAX_LIST_BYTES);
            let text = if small {
                fs_err::read_to_string(list).unwrap_or_default()
            } else {
                String::new()
            };
            let lines = text
                .lines()
                .filter(|line| !line.is_empty() && !line.starts_with(['#', '"']));
            open.extend(lines.map(|line| (directory.join(line), depth + 1)));
            all.push(directory);
        }
    }
    all
}

fn loose_path(objects: &Path, id: &ObjectId) -> PathBuf {
    let hex = id.to_string();
    let (first, rest) = hex.split_at_checked(2).unwrap_or_default();
    objects.join(first).join(rest)
}
