//! Which paths of a workspace belong to the candidate, by the ignore rules as read once at the beginning.
//!
//! A work command can write ignore files; those that appear later must not hide what it did. The rules are therefore read once,
//! can be kept as bytes, and are used by every later scan, also after a resume. Files that were tracked at the beginning belong
//! to the candidate even where a rule matches them. Left out always: `.git` at any depth, `.loopexec` at the top, and git
//! directories that lie elsewhere in the workspace. This module must not know digests, stores or git processes.
//!
//! Rule lines are read as UTF-8; a line that is not matches nothing. Matching respects case, whatever `core.ignoreCase` says.

#[cfg(test)]
mod tests;

use super::beneath::{self, Root};
use super::escape::{escape, unescape};
use crate::git::Repository;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The longest ignore file; the largest public collections have a few thousand lines.
pub const MAX_RULE_FILE_BYTES: u64 = 1 << 20;

/// The most ignore files; each costs a matcher in memory.
pub const MAX_RULE_FILES: usize = 50_000;

/// The deepest directory; each level holds a descriptor open, and 1,024 of those is a common limit of a process.
pub const MAX_DEPTH: usize = 256;

/// The encoding that this release writes and reads.
const VERSION: u32 = 1;

/// The rules, ready to be asked.
#[derive(Debug, Clone)]
pub struct IgnoreRules {
    recorded: Recorded,
    /// By directory relative to the top of the repository.
    by_directory: HashMap<Vec<u8>, Gitignore>,
    /// `info/exclude`, then the person's own file: the order in which git asks.
    general: Vec<Gitignore>,
    prefix: Vec<u8>,
    /// Sorted paths relative to the workspace.
    tracked: Vec<Vec<u8>>,
    left_out: Vec<Vec<u8>>,
}

/// Where rules come from in a git workspace.
#[derive(Debug)]
pub struct RuleSource<'a> {
    /// The repository the workspace lies in.
    pub repository: &'a Repository,
    /// The value of `core.excludesFile` of the person, or its default path; it need not exist.
    pub excludes_file: Option<&'a Path>,
    /// The paths in the index, relative to the workspace.
    pub tracked: &'a [Vec<u8>],
}

/// Why the rules could not be read.
#[derive(Debug, Error)]
pub enum RulesError {
    /// A directory or an ignore file could not be read.
    #[error("could not {action} {}", path.display())]
    Read {
        /// What was attempted.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An ignore file is too long.
    #[error("the ignore file {} is longer than {MAX_RULE_FILE_BYTES} bytes", path.display())]
    TooLong {
        /// The ignore file.
        path: PathBuf,
    },
    /// Too many ignore files, or directories too deep.
    #[error("{} is over the limits of {MAX_RULE_FILES} ignore files and {MAX_DEPTH} directories in depth", path.display())]
    TooMany {
        /// Where the limit was met.
        path: PathBuf,
    },
    /// Recorded rules that this release cannot read.
    #[error("the recorded ignore rules are not readable: {reason}")]
    Recorded {
        /// What is wrong with them.
        reason: String,
    },
}

/// The rules of one directory of the workspace, nearest first.
#[derive(Debug)]
pub(super) struct Scope<'a> {
    rules: &'a IgnoreRules,
    /// With the length of the directory that the patterns are relative to, separator included.
    matchers: Vec<(usize, &'a Gitignore)>,
}

/// What is kept of the rules. Paths are spelled as in [`super::escape`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recorded {
    version: u32,
    prefix: String,
    files: Vec<RuleFile>,
    general: Vec<String>,
    tracked: Vec<String>,
    left_out: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    directory: String,
    text: String,
}

impl IgnoreRules {
    /// The rules of a workspace without git: everything belongs to the candidate but `.git` and `.loopexec`.
    pub fn none() -> Self {
        IgnoreRules::compiled(Recorded {
            version: VERSION,
            ..Recorded::default()
        })
        .unwrap_or_else(|_| Self::empty())
    }

    /// Reads the rules that hold for `workdir` now.
    ///
    /// # Errors
    /// A directory or an ignore file cannot be read or is over a limit.
    pub fn read(workdir: &Path, source: Option<&RuleSource<'_>>) -> Result<Self, RulesError> {
        let Some(source) = source else {
            return Ok(Self::none());
        };
        let mut rules = IgnoreRules {
            prefix: source.repository.prefix.clone(),
            ..Self::empty()
        };
        rules.recorded.prefix = escape(&rules.prefix);
        rules.read_general(source)?;
        rules.read_above(source)?;
        if rules.prefix_is_ignored() {
            // A workspace in an ignored directory would be empty by the rules around it; they say nothing about its content.
            rules = IgnoreRules {
                prefix: rules.prefix,
                ..Self::empty()
            };
            rules.recorded.prefix = escape(&rules.prefix);
        }
        rules.leave_out(source.repository);
        let root = Root::open(workdir).map_err(|source| read_error("open", workdir, source))?;
        let handle = root
            .handle()
            .try_clone()
            .map_err(|source| RulesError::Read {
                action: "open",
                path: workdir.to_owned(),
                source,
            })?;
        rules.read_below(&root, handle, &mut Vec::new(), 0)?;
        rules.keep_tracked(source.tracked);
        Ok(rules)
    }

    /// The rules as bytes, for a record.
    pub fn encode(&self) -> Vec<u8> {
        // A struct of strings and lists has no way to fail.
        serde_json::to_vec(&self.recorded).unwrap_or_default()
    }

    /// Reads what [`IgnoreRules::encode`] wrote.
    ///
    /// # Errors
    /// Another version, or bytes that `encode` does not write.
    pub fn decode(bytes: &[u8]) -> Result<Self, RulesError> {
        let refused = |reason: String| RulesError::Recorded { reason };
        let recorded: Recorded =
            serde_json::from_slice(bytes).map_err(|error| refused(error.to_string()))?;
        if recorded.version != VERSION {
            return Err(refused(format!(
                "version {} where {VERSION} is known",
                recorded.version
            )));
        }
        Self::compiled(recorded)
    }

    /// The rules that hold in `directory` of the workspace (empty for the top).
    pub(super) fn scope(&self, directory: &[u8]) -> Scope<'_> {
        let full = self.full(directory);
        let mut matchers = Vec::new();
        if !self.by_directory.is_empty() {
            let mut end = full.len();
            loop {
                let base = full.get(..end).unwrap_or_default();
                let strip = if base.is_empty() { 0 } else { base.len() + 1 };
                matchers.extend(self.by_directory.get(base).map(|matcher| (strip, matcher)));
                if base.is_empty() {
                    break;
                }
                end = memchr::memrchr(b'/', base).unwrap_or(0);
            }
        }
        matchers.extend(self.general.iter().map(|matcher| (0, matcher)));
        Scope {
            rules: self,
            matchers,
        }
    }

    /// Whether the path is never part of a candidate, whatever the rules say.
    pub(super) fn is_left_out(&self, path: &[u8]) -> bool {
        let (parent, name) = beneath::split_last(path);
        name == b".git"
            || (parent.is_empty() && name == b".loopexec")
            || self.left_out.iter().any(|out| out == path)
    }

    /// Whether the path was tracked at the beginning although a rule matches it.
    pub(super) fn is_tracked(&self, path: &[u8]) -> bool {
        self.tracked
            .binary_search_by(|tracked| tracked.as_slice().cmp(path))
            .is_ok()
    }

    /// Whether such a path lies below the directory.
    pub(super) fn has_tracked_below(&self, directory: &[u8]) -> bool {
        let mut start = directory.to_vec();
        start.push(b'/');
        let index = self
            .tracked
            .partition_point(|tracked| tracked.as_slice() < start.as_slice());
        self.tracked
            .get(index)
            .is_some_and(|tracked| tracked.starts_with(&start))
    }

    fn empty() -> Self {
        IgnoreRules {
            recorded: Recorded {
                version: VERSION,
                ..Recorded::default()
            },
            by_directory: HashMap::new(),
            general: Vec::new(),
            prefix: Vec::new(),
            tracked: Vec::new(),
            left_out: Vec::new(),
        }
    }

    fn compiled(recorded: Recorded) -> Result<Self, RulesError> {
        let path = |text: &String| {
            let refused = || RulesError::Recorded {
                reason: format!("{text:?} is no path"),
            };
            unescape(text.as_bytes()).ok_or_else(refused)
        };
        let mut rules = Self::empty();
        rules.prefix = path(&recorded.prefix)?;
        for file in &recorded.files {
            rules
                .by_directory
                .insert(path(&file.directory)?, compile(&file.text));
        }
        rules.general = recorded.general.iter().map(|text| compile(text)).collect();
        rules.tracked = recorded
            .tracked
            .iter()
            .map(path)
            .collect::<Result<_, _>>()?;
        rules.tracked.sort();
        rules.left_out = recorded
            .left_out
            .iter()
            .map(path)
            .collect::<Result<_, _>>()?;
        rules.recorded = recorded;
        Ok(rules)
    }

    fn read_general(&mut self, source: &RuleSource<'_>) -> Result<(), RulesError> {
        let exclude = source.repository.common_dir.join("info/exclude");
        for path in std::iter::once(exclude.as_path()).chain(source.excludes_file) {
            // These two are the person's own and may be links, as git allows. Opening a pipe must not wait for a writer.
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = match rustix::fs::open(path, flags, Mode::empty()) {
                Ok(file) => fs_err::File::from_parts(file.into(), path),
                Err(Errno::NOENT | Errno::NOTDIR) => continue,
                Err(source) => return Err(read_error("read", path, source)),
            };
            if file.metadata().is_ok_and(|found| found.is_file()) {
                let text = read_text(file, path)?;
                self.general.push(compile(&text));
                self.recorded.general.push(text);
            }
        }
        Ok(())
    }

    /// The ignore files between the top of the repository and the workspace.
    fn read_above(&mut self, source: &RuleSource<'_>) -> Result<(), RulesError> {
        let prefix = self.prefix.clone();
        let ends = memchr::memchr_iter(b'/', &prefix).chain(std::iter::once(prefix.len()));
        let mut directory: &[u8] = &[];
        for end in ends.filter(|_| !prefix.is_empty()) {
            let path = source.repository.top.join(OsStr::from_bytes(directory));
            let root = Root::open(&path).map_err(|error| read_error("open", &path, error))?;
            self.read_file(&root, root.handle(), &[], directory)?;
            directory = prefix.get(..end).unwrap_or_default();
        }
        Ok(())
    }

    fn prefix_is_ignored(&self) -> bool {
        let whole = IgnoreRules {
            prefix: Vec::new(),
            ..self.clone()
        };
        let ends =
            memchr::memchr_iter(b'/', &self.prefix).chain(std::iter::once(self.prefix.len()));
        ends.filter_map(|end| self.prefix.get(..end))
            .filter(|path| !path.is_empty())
            .any(|path| whole.scope(beneath::split_last(path).0).ignores(path, true))
    }

    /// A git directory that lies in the workspace under another name is no content.
    fn leave_out(&mut self, repository: &Repository) {
        for directory in [&repository.git_dir, &repository.common_dir] {
            let Ok(relative) = directory.strip_prefix(&repository.top) else {
                continue;
            };
            let Some(path) = self.relative(relative.as_os_str().as_bytes()) else {
                continue;
            };
            let path = path.to_vec();
            if !path.is_empty() && !self.is_left_out(&path) {
                self.recorded.left_out.push(escape(&path));
                self.left_out.push(path);
            }
        }
    }

    fn read_below(
        &mut self,
        root: &Root,
        handle: OwnedFd,
        path: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), RulesError> {
        if depth > MAX_DEPTH {
            return Err(RulesError::TooMany {
                path: root.display(path),
            });
        }
        let failed = |action, source| read_error(action, &root.display(path), source);
        let names = list(&handle).map_err(|source| failed("list", source))?;
        let full = self.full(path).into_owned();
        if names.iter().any(|(name, _)| name == b".gitignore") {
            self.read_file(root, &handle, path, &full)?;
        }
        for (name, kind) in names {
            if kind != FileType::Directory {
                continue;
            }
            let length = path.len();
            join(path, &name);
            let ignored = self.is_left_out(path) || {
                let parent = path.get(..length).unwrap_or_default();
                self.scope(parent).ignores(path, true)
            };
            if !ignored {
                match beneath::open_directory(&handle, &name) {
                    Ok(below) => self.read_below(root, below, path, depth + 1)?,
                    Err(Errno::NOENT) => {}
                    Err(source) => return Err(read_error("open", &root.display(path), source)),
                }
            }
            path.truncate(length);
        }
        Ok(())
    }

    /// Reads `.gitignore` of the directory behind `handle`. As git, it does not follow a link there.
    fn read_file(
        &mut self,
        root: &Root,
        handle: &OwnedFd,
        path: &[u8],
        directory: &[u8],
    ) -> Result<(), RulesError> {
        let mut name = path.to_vec();
        join(&mut name, b".gitignore");
        let path = root.display(&name);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(handle, ".gitignore", flags, Mode::empty()) {
            Ok(file) => fs_err::File::from_parts(file.into(), &path),
            Err(Errno::NOENT | Errno::LOOP) => return Ok(()),
            Err(source) => return Err(read_error("open", &path, source)),
        };
        if !file.metadata().is_ok_and(|found| found.is_file()) {
            return Ok(());
        }
        if self.by_directory.len() >= MAX_RULE_FILES {
            return Err(RulesError::TooMany { path });
        }
        let text = read_text(file, &path)?;
        self.by_directory.insert(directory.to_vec(), compile(&text));
        self.recorded.files.push(RuleFile {
            directory: escape(directory),
            text,
        });
        Ok(())
    }

    /// Keeps those tracked paths that a rule would leave out.
    fn keep_tracked(&mut self, tracked: &[Vec<u8>]) {
        if self.by_directory.is_empty() && self.general.is_empty() {
            return;
        }
        let mut verdicts = HashMap::new();
        let mut kept: Vec<_> = tracked
            .iter()
            .filter(|path| self.is_ignored(path, false, &mut verdicts))
            .cloned()
            .collect();
        kept.sort();
        self.recorded.tracked = kept.iter().map(|path| escape(path)).collect();
        self.tracked = kept;
    }

    /// Whether a rule matches the path or a directory above it; `verdicts` remembers directories.
    fn is_ignored(
        &self,
        path: &[u8],
        is_directory: bool,
        verdicts: &mut HashMap<Vec<u8>, bool>,
    ) -> bool {
        let parent = beneath::split_last(path).0;
        let above = match verdicts.get(parent) {
            Some(&verdict) => verdict,
            None if parent.is_empty() => false,
            None => {
                let verdict = self.is_ignored(parent, true, verdicts);
                verdicts.insert(parent.to_vec(), verdict);
                verdict
            }
        };
        above || self.scope(parent).ignores(path, is_directory)
    }

    /// A path of the workspace relative to the top of the repository.
    fn full<'path>(&self, path: &'path [u8]) -> Cow<'path, [u8]> {
        if self.prefix.is_empty() {
            return Cow::Borrowed(path);
        }
        let mut full = self.prefix.clone();
        if !path.is_empty() {
            join(&mut full, path);
        }
        Cow::Owned(full)
    }

    /// A path relative to the top of the repository as one of the workspace, if it lies there.
    fn relative<'path>(&self, path: &'path [u8]) -> Option<&'path [u8]> {
        if self.prefix.is_empty() {
            return Some(path);
        }
        path.strip_prefix(self.prefix.as_slice())?
            .strip_prefix(b"/")
    }
}

impl Scope<'_> {
    /// Whether a rule matches `path`, a direct child of the directory of this scope.
    pub(super) fn ignores(&self, path: &[u8], is_directory: bool) -> bool {
        if self.matchers.is_empty() {
            return false;
        }
        let full = self.rules.full(path);
        for (strip, matcher) in &self.matchers {
            let relative = full.get(*strip..).unwrap_or_default();
            match matcher.matched(OsStr::from_bytes(relative), is_directory) {
                Match::None => {}
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
            }
        }
        false
    }
}

/// Appends a component (or more) to a path.
pub(super) fn join(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

/// The names in a directory with their kinds; where the file system does not tell the kind, it is asked.
pub(super) fn list(handle: &OwnedFd) -> Result<Vec<(Vec<u8>, FileType)>, Errno> {
    let mut names = Vec::new();
    for item in rustix::fs::Dir::read_from(handle)? {
        let item = item?;
        let name = item.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let mut kind = item.file_type();
        if kind == FileType::Unknown {
            match beneath::stat(handle, name)? {
                Some(stat) => kind = FileType::from_raw_mode(stat.st_mode),
                None => continue,
            }
        }
        names.push((name.to_vec(), kind));
    }
    Ok(names)
}

fn compile(text: &str) -> Gitignore {
    let mut builder = GitignoreBuilder::new("");
    for line in text.trim_start_matches('\u{feff}').lines() {
        // A pattern that is no glob matches nothing, in git as here.
        builder.add_line(None, line).ok();
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

fn read_text(file: fs_err::File, path: &Path) -> Result<String, RulesError> {
    let mut bytes = Vec::new();
    file.take(MAX_RULE_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| RulesError::Read {
            action: "read",
            path: path.to_owned(),
            source,
        })?;
    if bytes.len() as u64 > MAX_RULE_FILE_BYTES {
        return Err(RulesError::TooLong {
            path: path.to_owned(),
        });
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn read_error(action: &'static str, path: &Path, source: Errno) -> RulesError {
    RulesError::Read {
        action,
        path: path.to_owned(),
        source: source.into(),
    }
}
