//! Reads a workspace into a [`Manifest`], in this process: no git, no link followed, no device opened.
//!
//! A file that was read before and looks the same (size, times, inode, mode) is not read again, unless it was changed so close
//! to the reading that its times could not tell. An unchanged tree therefore costs its directory listings and one `stat` a
//! path. This module must not know where content is kept.

#[cfg(test)]
mod tests;

use super::beneath::{self, Root};
use super::manifest::{Content, Entry, MAX_ENTRIES, Manifest, Sha256Bytes, Special, SpecialKind};
use super::object::{ObjectFormat, ObjectId, ObjectKind};
use super::rules::{IgnoreRules, MAX_DEPTH, join, list};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The most bytes of all files together; more than this is data, not source, and belongs behind an ignore rule.
pub const MAX_TOTAL_BYTES: u64 = 64 << 30;

/// How often a file that changes while it is read is read again.
const MAX_READINGS: u32 = 3;

/// Bytes read at a time: large enough that system calls do not count, small enough for the cache.
const READ_BYTES: usize = 256 << 10;

/// Times of files come from a clock that ticks at most every 10 ms; twice that is safe.
const TICK_NANOSECONDS: i64 = 20_000_000;

/// File systems that keep whole seconds only (some keep every second one).
const COARSE_SECONDS: i64 = 2;

/// What a scan refuses to exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanLimits {
    /// Paths in all.
    pub entries: usize,
    /// Bytes of all files together.
    pub bytes: u64,
    /// Directories below each other.
    pub depth: usize,
}

/// Reads one workspace again and again.
#[derive(Debug)]
pub struct Scanner {
    directory: PathBuf,
    root: Root,
    rules: IgnoreRules,
    format: ObjectFormat,
    limits: ScanLimits,
    known: HashMap<Vec<u8>, Known>,
    blobs: HashMap<Sha256Bytes, ObjectId>,
    buffer: Vec<u8>,
}

/// Why a workspace could not be read.
#[derive(Debug, Error)]
pub enum ScanError {
    /// The system refused.
    #[error("could not {action} {}", path.display())]
    Read {
        /// What was attempted.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file did not hold still.
    #[error("{} kept changing while it was read; end what writes to it", path.display())]
    Changing {
        /// The file.
        path: PathBuf,
    },
    /// More than a candidate may have.
    #[error("{} is over the limit of {limit} {what}; an ignore rule can leave data out", path.display())]
    TooLarge {
        /// Where the limit was met.
        path: PathBuf,
        /// What is limited.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
}

/// What tells whether a file is still the one that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    inode: u64,
    device: u64,
    mode: u32,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    stamp: Stamp,
    sha256: Sha256Bytes,
    /// When the reading began; `None` for a file that this program wrote itself a moment ago.
    read_at: Option<(i64, i64)>,
}

/// One scan under way.
struct Walk<'a> {
    root: &'a Root,
    rules: &'a IgnoreRules,
    format: ObjectFormat,
    limits: ScanLimits,
    before: HashMap<Vec<u8>, Known>,
    known: HashMap<Vec<u8>, Known>,
    blobs: &'a mut HashMap<Sha256Bytes, ObjectId>,
    buffer: &'a mut Vec<u8>,
    now: (i64, i64),
    bytes: u64,
    manifest: Manifest,
}

/// Whether untracked content of a directory counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Included,
    IgnoredDirectory,
}

impl Default for ScanLimits {
    fn default() -> Self {
        ScanLimits {
            entries: MAX_ENTRIES,
            bytes: MAX_TOTAL_BYTES,
            depth: MAX_DEPTH,
        }
    }
}

impl Scanner {
    /// A scanner of `workdir` by these rules; `format` is that of the store the content will go to.
    ///
    /// # Errors
    /// `workdir` is no directory that can be opened.
    pub fn open(
        workdir: &Path,
        rules: IgnoreRules,
        format: ObjectFormat,
    ) -> Result<Self, ScanError> {
        let failed = |source: Errno| ScanError::Read {
            action: "open",
            path: workdir.to_owned(),
            source: source.into(),
        };
        let root = Root::open(workdir).map_err(failed)?;
        let limits = ScanLimits::default();
        let (known, blobs, buffer) = (HashMap::new(), HashMap::new(), Vec::new());
        Ok(Scanner {
            directory: workdir.to_owned(),
            root,
            rules,
            format,
            limits,
            known,
            blobs,
            buffer,
        })
    }

    /// The same scanner with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: ScanLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The rules it scans by.
    pub fn rules(&self) -> &IgnoreRules {
        &self.rules
    }

    /// Forgets what was read, so that the next scan reads every byte: for a replay, which must not believe file times.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    /// What the workspace holds now.
    ///
    /// # Errors
    /// A path cannot be read, a file keeps changing, or a limit is met. What was known stays known.
    pub fn scan(&mut self) -> Result<Manifest, ScanError> {
        // Opened anew: a work command may have put another directory in the place of the workspace.
        let path = self.root.display(b"");
        let failed = |source: io::Error| ScanError::Read {
            action: "open",
            path: path.clone(),
            source,
        };
        self.root = Root::open(&self.directory).map_err(|source| failed(source.into()))?;
        let handle = self.root.handle().try_clone().map_err(failed)?;
        let mut walk = Walk {
            root: &self.root,
            rules: &self.rules,
            format: self.format,
            limits: self.limits,
            known: HashMap::with_capacity(self.known.len()),
            before: std::mem::take(&mut self.known),
            blobs: &mut self.blobs,
            buffer: &mut self.buffer,
            now: now(),
            bytes: 0,
            manifest: Manifest::default(),
        };
        let walked = walk.directory(&handle, &mut Vec::new(), 0, Within::Included);
        let Walk {
            before,
            known,
            mut manifest,
            ..
        } = walk;
        self.known = known;
        if let Err(error) = walked {
            for (path, entry) in before {
                self.known.entry(path).or_insert(entry);
            }
            return Err(error);
        }
        manifest
            .entries
            .sort_unstable_by(|left, right| left.path.cmp(&right.path));
        manifest
            .special
            .sort_unstable_by(|left, right| left.path.cmp(&right.path));
        Ok(manifest)
    }

    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    pub(super) fn format(&self) -> ObjectFormat {
        self.format
    }

    /// The git name of content that this scanner has read.
    pub(super) fn blob(&self, sha256: &Sha256Bytes) -> Option<ObjectId> {
        self.blobs.get(sha256).copied()
    }

    /// Notes a file that this program has just written; the next scan believes it, later ones by the usual rule.
    pub(super) fn note_written(
        &mut self,
        path: Vec<u8>,
        stat: &Stat,
        sha256: Sha256Bytes,
        id: ObjectId,
    ) {
        self.blobs.insert(sha256, id);
        self.known.insert(
            path,
            Known {
                stamp: Stamp::of(stat),
                sha256,
                read_at: None,
            },
        );
    }
}

impl Stamp {
    #[expect(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        reason = "the widths of these fields differ between systems"
    )]
    pub(super) fn of(stat: &Stat) -> Self {
        Stamp {
            size: stat.st_size as u64,
            modified: (i64::from(stat.st_mtime), stat.st_mtime_nsec as i64),
            changed: (i64::from(stat.st_ctime), stat.st_ctime_nsec as i64),
            inode: stat.st_ino as u64,
            device: stat.st_dev as u64,
            mode: u32::from(stat.st_mode),
        }
    }

    /// Whether a change after `read_at` would surely have given other times.
    fn tells_changes_since(&self, read_at: (i64, i64)) -> bool {
        [self.modified, self.changed].into_iter().all(|time| {
            let whole_seconds = self.modified.1 == 0 && self.changed.1 == 0;
            let slack = if whole_seconds {
                (COARSE_SECONDS, 0)
            } else {
                (0, TICK_NANOSECONDS)
            };
            let (seconds, nanoseconds) = (
                time.0.saturating_add(slack.0),
                time.1.saturating_add(slack.1),
            );
            let settled = (
                seconds.saturating_add(nanoseconds / 1_000_000_000),
                nanoseconds % 1_000_000_000,
            );
            settled < read_at
        })
    }
}

/// The permission bits of a mode, with the three special ones.
pub(super) fn permission_bits(stat: &Stat) -> u16 {
    (stat.st_mode & 0o7777) as u16
}

impl Walk<'_> {
    /// Reads a directory; tells whether it is an entry: it is when it holds one, or nothing at all.
    fn directory(
        &mut self,
        handle: &OwnedFd,
        path: &mut Vec<u8>,
        depth: usize,
        within: Within,
    ) -> Result<bool, ScanError> {
        if depth > self.limits.depth {
            return Err(self.too_large(path, "directories in depth", self.limits.depth as u64));
        }
        let names = list(handle).map_err(|source| self.error("list", path, source))?;
        let mut holds_entries = names.is_empty() && within == Within::Included;
        let rules = self.rules;
        let scope = rules.scope(path);
        for (name, kind) in names {
            let length = path.len();
            join(path, &name);
            let ignored = within == Within::IgnoredDirectory
                || scope.ignores(path, kind == FileType::Directory);
            if !rules.is_left_out(path) {
                holds_entries |= self.item(handle, &name, kind, path, depth, ignored)?;
            }
            path.truncate(length);
        }
        Ok(holds_entries)
    }

    fn item(
        &mut self,
        parent: &OwnedFd,
        name: &[u8],
        kind: FileType,
        path: &mut Vec<u8>,
        depth: usize,
        ignored: bool,
    ) -> Result<bool, ScanError> {
        let wanted = !ignored
            || if kind == FileType::Directory {
                self.rules.has_tracked_below(path)
            } else {
                self.rules.is_tracked(path)
            };
        if !wanted {
            return Ok(false);
        }
        let Some(stat) =
            beneath::stat(parent, name).map_err(|source| self.error("look at", path, source))?
        else {
            return Ok(false);
        };
        let mut mode = permission_bits(&stat);
        let content = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let handle = beneath::open_directory(parent, name)
                    .map_err(|source| self.error("open", path, source))?;
                let within = if ignored {
                    Within::IgnoredDirectory
                } else {
                    Within::Included
                };
                if !self.directory(&handle, path, depth + 1, within)? {
                    return Ok(false);
                }
                Content::Directory
            }
            FileType::RegularFile => match self.file(parent, name, path, &stat)? {
                Some(content) => content,
                None => return Ok(false),
            },
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(parent, OsStr::from_bytes(name), Vec::new());
                let target = target.map_err(|source| self.error("read the link", path, source))?;
                // Links have no mode of their own that could be set everywhere.
                mode = 0o777;
                Content::Symlink {
                    target: target.into_bytes(),
                }
            }
            FileType::Fifo => return self.special(path, SpecialKind::Fifo),
            FileType::Socket => return self.special(path, SpecialKind::Socket),
            FileType::CharacterDevice => return self.special(path, SpecialKind::CharacterDevice),
            FileType::BlockDevice => return self.special(path, SpecialKind::BlockDevice),
            FileType::Unknown => return Err(self.error("tell the kind of", path, Errno::NOTSUP)),
        };
        self.count(path)?;
        self.manifest.entries.push(Entry {
            path: path.clone(),
            mode,
            content,
        });
        Ok(true)
    }

    fn special(&mut self, path: &[u8], kind: SpecialKind) -> Result<bool, ScanError> {
        self.count(path)?;
        self.manifest.special.push(Special {
            path: path.to_vec(),
            kind,
        });
        Ok(true)
    }

    fn count(&self, path: &[u8]) -> Result<(), ScanError> {
        let entries = self.manifest.entries.len() + self.manifest.special.len();
        if entries >= self.limits.entries {
            return Err(self.too_large(path, "paths", self.limits.entries as u64));
        }
        Ok(())
    }

    /// The content of a regular file, or `None` when it is gone by now.
    fn file(
        &mut self,
        parent: &OwnedFd,
        name: &[u8],
        path: &[u8],
        stat: &Stat,
    ) -> Result<Option<Content>, ScanError> {
        let mut known = self.before.remove_entry(path).filter(|(_, known)| {
            known.stamp == Stamp::of(stat)
                && known
                    .read_at
                    .is_none_or(|read_at| known.stamp.tells_changes_since(read_at))
        });
        if known.is_none() {
            known = self
                .read(parent, name, path)?
                .map(|known| (path.to_vec(), known));
        }
        let Some((path, mut known)) = known else {
            return Ok(None);
        };
        self.bytes = self.bytes.saturating_add(known.stamp.size);
        if self.bytes > self.limits.bytes {
            return Err(self.too_large(&path, "bytes in all", self.limits.bytes));
        }
        known.read_at.get_or_insert(self.now);
        self.known.insert(path, known);
        Ok(Some(Content::File {
            size: known.stamp.size,
            sha256: known.sha256,
        }))
    }

    fn read(
        &mut self,
        parent: &OwnedFd,
        name: &[u8],
        path: &[u8],
    ) -> Result<Option<Known>, ScanError> {
        for _ in 0..MAX_READINGS {
            let file = match open_file(parent, name) {
                Ok(file) => file,
                Err(Errno::NOENT) => return Ok(None),
                Err(Errno::LOOP) => continue,
                Err(source) => return Err(self.error("open", path, source)),
            };
            let stat =
                rustix::fs::fstat(&file).map_err(|source| self.error("look at", path, source))?;
            let stamp = Stamp::of(&stat);
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                continue;
            }
            if stamp.size > self.limits.bytes {
                return Err(self.too_large(path, "bytes in all", self.limits.bytes));
            }
            let digests = self
                .digest(&file, stamp.size)
                .map_err(|source| self.error("read", path, source))?;
            let after =
                rustix::fs::fstat(&file).map_err(|source| self.error("look at", path, source))?;
            if let Some((sha256, id)) = digests
                && Stamp::of(&after) == stamp
            {
                self.blobs.insert(sha256, id);
                return Ok(Some(Known {
                    stamp,
                    sha256,
                    read_at: Some(self.now),
                }));
            }
        }
        Err(ScanError::Changing {
            path: self.root.display(path),
        })
    }

    /// Both digests over exactly `size` bytes, or `None` when the file has fewer.
    fn digest(
        &mut self,
        file: &OwnedFd,
        size: u64,
    ) -> Result<Option<(Sha256Bytes, ObjectId)>, Errno> {
        let mut sha256 = Sha256::new();
        let mut object = self.format.object_hasher(ObjectKind::Blob, size);
        self.buffer.resize(READ_BYTES, 0);
        let mut left = size;
        while left > 0 {
            let length = usize::try_from(left).unwrap_or(READ_BYTES).min(READ_BYTES);
            let read = rustix::io::read(file, self.buffer.get_mut(..length).unwrap_or_default())?;
            let piece = self.buffer.get(..read).unwrap_or_default();
            if piece.is_empty() {
                return Ok(None);
            }
            sha256.update(piece);
            object.update(piece);
            left -= piece.len() as u64;
        }
        Ok(Some((sha256.finalize().into(), object.finish())))
    }

    fn error(&self, action: &'static str, path: &[u8], source: Errno) -> ScanError {
        ScanError::Read {
            action,
            path: self.root.display(path),
            source: source.into(),
        }
    }

    fn too_large(&self, path: &[u8], what: &'static str, limit: u64) -> ScanError {
        ScanError::TooLarge {
            path: self.root.display(path),
            what,
            limit,
        }
    }
}

/// Opens a regular file for reading: no link, and no waiting should it have become a pipe.
pub(super) fn open_file(parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::openat(parent, OsStr::from_bytes(name), flags, Mode::empty())
}

/// The clock that file times come from.
fn now() -> (i64, i64) {
    let time = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    (
        i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        i64::from(time.subsec_nanos()),
    )
}
