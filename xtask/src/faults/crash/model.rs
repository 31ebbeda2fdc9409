//! What a crash may leave on the disk after some operations, by what POSIX promises and not by what one file system does.
//!
//! Data that was not forced may be absent, a prefix, or zeroes of the full length, each file for itself. An entry of a
//! directory that was not forced may be there or not, each for itself, and renames are whole. It knows nothing about receipts.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use loopexec_core::digest::Digest;

use super::trace::Operation;
use crate::support::Dice;

/// The first states of each point, which are not drawn: see [`Disk::state`].
pub(super) const EXTREMES: usize = 5;

/// A change of a directory.
#[derive(Clone, Debug)]
enum Entry {
    Directory(PathBuf),
    File(PathBuf, usize),
    Link(PathBuf, PathBuf),
    Renamed(PathBuf, PathBuf),
    Removed(PathBuf),
}

impl Entry {
    /// The directory whose sync makes it last.
    fn directory(&self) -> &Path {
        let path = match self {
            Self::Directory(path)
            | Self::File(path, _)
            | Self::Link(path, _)
            | Self::Removed(path) => path,
            Self::Renamed(_, to) => to,
        };
        path.parent().unwrap_or(path)
    }
}

/// What is under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Directory,
    File(Vec<u8>),
    Link(PathBuf),
}

/// One state that a crash may leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CrashState {
    /// What is under each name.
    pub(super) content: BTreeMap<PathBuf, Content>,
}

impl CrashState {
    /// Equal for equal states.
    pub(super) fn digest(&self) -> Digest {
        Digest::of(format!("{:?}", self.content).as_bytes())
    }
}

#[derive(Clone, Debug, Default)]
struct Data {
    bytes: Vec<u8>,
    forced: usize,
}

/// The disk with what is forced to it and what is not.
#[derive(Debug, Default)]
pub(super) struct Disk {
    data: Vec<Data>,
    open: BTreeMap<PathBuf, usize>,
    entries: Vec<(Entry, bool)>,
}

impl Disk {
    /// The disk after these operations.
    pub(super) fn after(operations: &[Operation]) -> Self {
        let mut disk = Self::default();
        for operation in operations {
            disk.apply(operation);
        }
        disk
    }

    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Create(path) => {
                let number = self.data.len();
                self.data.push(Data::default());
                self.open.insert(path.clone(), number);
                self.entries
                    .push((Entry::File(path.clone(), number), false));
            }
            Operation::MakeDirectory(path) => {
                self.entries.push((Entry::Directory(path.clone()), false));
            }
            Operation::Link { path, target } => {
                self.entries
                    .push((Entry::Link(path.clone(), target.clone()), false));
            }
            Operation::Write { path, bytes } => {
                if let Some(data) = self.data_of(path) {
                    data.bytes.extend_from_slice(bytes);
                }
            }
            Operation::Truncate(path) => {
                if let Some(data) = self.data_of(path) {
                    *data = Data::default();
                }
            }
            Operation::Rename { from, to } => {
                if let Some(number) = self.open.remove(from) {
                    self.open.insert(to.clone(), number);
                }
                self.entries
                    .push((Entry::Renamed(from.clone(), to.clone()), false));
            }
            Operation::Remove(path) => {
                self.open.remove(path);
                self.entries.push((Entry::Removed(path.clone()), false));
            }
            Operation::Sync { path, .. } => self.sync(path),
            Operation::StartsWork | Operation::Answers => {}
        }
    }

    fn data_of(&mut self, path: &Path) -> Option<&mut Data> {
        let number = *self.open.get(path)?;
        self.data.get_mut(number)
    }

    fn sync(&mut self, path: &Path) {
        if let Some(data) = self.data_of(path) {
            data.forced = data.bytes.len();
            return;
        }
        for (entry, forced) in &mut self.entries {
            *forced |= entry.directory() == path;
        }
    }

    /// State number 0: nothing but what was forced. 1: everything. 2: all names, only forced data. 3: all data, only forced
    /// names. 4: all names, zeroes for what was not forced. From there on: drawn.
    pub(super) fn state(&self, number: usize, dice: &mut Dice) -> CrashState {
        let names = |dice: &mut Dice| match number {
            0 | 3 => false,
            1 | 2 | 4 => true,
            _ => dice.below(2) == 0,
        };
        let tree = self.tree(&mut || names(dice));
        let content = tree
            .into_iter()
            .map(|(path, node)| {
                let content = match node {
                    Node::Directory => Content::Directory,
                    Node::Link(target) => Content::Link(target),
                    Node::File(file) => Content::File(self.bytes(file, number, dice)),
                };
                (path, content)
            })
            .collect();
        CrashState { content }
    }

    /// The names that are there when each that was not forced is asked for.
    fn tree(&self, there: &mut dyn FnMut() -> bool) -> BTreeMap<PathBuf, Node> {
        let mut tree: BTreeMap<PathBuf, Node> = BTreeMap::new();
        let mut files: BTreeMap<PathBuf, Node> = BTreeMap::new();
        for (entry, forced) in &self.entries {
            // What a later rename moves is known by its first name, also where that name itself was lost.
            let applied = *forced || there();
            match entry {
                Entry::Directory(path) if applied => {
                    tree.insert(path.clone(), Node::Directory);
                }
                Entry::Directory(_) => {}
                Entry::File(path, number) => {
                    files.insert(path.clone(), Node::File(*number));
                    if applied {
                        tree.insert(path.clone(), Node::File(*number));
                    }
                }
                Entry::Link(path, target) => {
                    files.insert(path.clone(), Node::Link(target.clone()));
                    if applied {
                        tree.insert(path.clone(), Node::Link(target.clone()));
                    }
                }
                Entry::Renamed(from, to) => {
                    let node = files.remove(from);
                    if let Some(node) = node {
                        files.insert(to.clone(), node.clone());
                        if applied {
                            tree.remove(from);
                            tree.insert(to.clone(), node);
                        }
                    }
                }
                Entry::Removed(path) => {
                    files.remove(path);
                    if applied {
                        tree.remove(path);
                    }
                }
            }
        }
        reachable(tree)
    }

    fn bytes(&self, file: usize, number: usize, dice: &mut Dice) -> Vec<u8> {
        let Some(data) = self.data.get(file) else {
            return Vec::new();
        };
        let forced = data.bytes.get(..data.forced).unwrap_or_default().to_vec();
        let rest = data.bytes.get(data.forced..).unwrap_or_default();
        let kind = match number {
            0 | 2 => 0,
            1 | 3 => 1,
            4 => 2,
            _ => dice.below(6),
        };
        let kept = match kind {
            0 => 0,
            1 | 2 => rest.len(),
            3 => usize::from(!rest.is_empty()),
            4 => rest.len().saturating_sub(1),
            _ => dice.below(rest.len().saturating_add(1)),
        };
        let mut bytes = forced;
        if kind == 2 {
            bytes.resize(bytes.len().saturating_add(kept), 0);
        } else {
            bytes.extend_from_slice(rest.get(..kept).unwrap_or_default());
        }
        bytes
    }
}

#[derive(Clone, Debug)]
enum Node {
    Directory,
    File(usize),
    Link(PathBuf),
}

/// Drops what lies in directories that are not there themselves.
fn reachable(tree: BTreeMap<PathBuf, Node>) -> BTreeMap<PathBuf, Node> {
    let made: BTreeSet<PathBuf> = tree
        .iter()
        .filter(|(_, node)| matches!(node, Node::Directory))
        .map(|(path, _)| path.clone())
        .collect();
    let mut kept: BTreeMap<PathBuf, Node> = BTreeMap::new();
    for (path, node) in tree {
        // A parent sorts before what it holds. One that the run did not make, nor could lose, was there before.
        let parent = path.parent().unwrap_or(&path);
        let store = path
            .ancestors()
            .any(|above| above.file_name().is_some_and(|name| name == ".loopexec"));
        let top = path.file_name().is_some_and(|name| name == ".loopexec");
        let lost = store && !top && !made.contains(parent);
        let above_lost = store && !top && !kept.contains_key(parent);
        if !lost && !above_lost {
            kept.insert(path, node);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::crash::trace::Sync;

    fn path(name: &str) -> PathBuf {
        Path::new("/w/.loopexec").join(name)
    }

    fn operations() -> Vec<Operation> {
        vec![
            Operation::MakeDirectory(path("")),
            Operation::Create(path("log")),
            Operation::Write {
                path: path("log"),
                bytes: b"one\n".to_vec(),
            },
        ]
    }

    fn file(state: &CrashState, name: &str) -> Option<Vec<u8>> {
        match state.content.get(&path(name)) {
            Some(Content::File(bytes)) => Some(bytes.clone()),
            Some(Content::Directory | Content::Link(_)) | None => None,
        }
    }

    #[test]
    fn what_was_not_forced_may_be_missing_and_may_be_there() {
        let disk = Disk::after(&operations());
        let mut dice = Dice::new(1);
        assert!(disk.state(0, &mut dice).content.is_empty());
        assert_eq!(
            file(&disk.state(1, &mut dice), "log"),
            Some(b"one\n".to_vec())
        );
        assert_eq!(file(&disk.state(2, &mut dice), "log"), Some(Vec::new()));
        assert_eq!(file(&disk.state(4, &mut dice), "log"), Some(vec![0; 4]));
    }

    #[test]
    fn what_was_forced_is_there_in_every_state() {
        let mut operations = operations();
        for directory in ["/w", "/w/.loopexec"] {
            operations.push(Operation::Sync {
                path: directory.into(),
                kind: Sync::Directory,
            });
        }
        operations.push(Operation::Sync {
            path: path("log"),
            kind: Sync::Receipt,
        });
        let disk = Disk::after(&operations);
        let mut dice = Dice::new(2);
        for number in 0..40 {
            assert_eq!(
                file(&disk.state(number, &mut dice), "log"),
                Some(b"one\n".to_vec())
            );
        }
    }

    #[test]
    fn a_rename_that_was_not_forced_leaves_the_old_name_or_the_new_one() {
        let mut operations = operations();
        operations.push(Operation::Rename {
            from: path("log"),
            to: path("kept"),
        });
        let disk = Disk::after(&operations);
        let mut dice = Dice::new(3);
        let mut seen = BTreeSet::new();
        for _ in 0..200 {
            let state = disk.state(9, &mut dice);
            seen.insert((
                file(&state, "log").is_some(),
                file(&state, "kept").is_some(),
            ));
        }
        assert!(seen.contains(&(true, false)) && seen.contains(&(false, true)));
        assert!(!seen.contains(&(true, true)));
    }
}
