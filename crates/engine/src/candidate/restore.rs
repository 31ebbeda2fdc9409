//! Brings a workspace back to a kept content, byte for byte, and proves that it did.
//!
//! Only what differs is touched. Each written file is a new one with a fresh modification time, because build tools would
//! otherwise take what they made of the rejected content for current. What the rules leave out stays; where it stands in the
//! way it is moved aside, never removed. Running it again after an interruption finishes the work. This module must not know
//! why a content is brought back, and keeps nothing of what it replaces: save that first.

#[cfg(test)]
mod tests;
mod write;

use super::beneath::{self, Parents, Root};
use super::manifest::{Changes, Content, Entry, Manifest};
use super::object::ObjectId;
use super::rules::IgnoreRules;
use super::scan::{self, ScanError, Scanner, permission_bits};
use super::source::ObjectError;
use super::store::{Saved, Store, StoreError};
use crate::git::Git;
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use write::{Job, write_files};

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoreReport {
    /// Files and links written.
    pub written: u64,
    /// Bytes of the files written.
    pub bytes: u64,
    /// Files, links, special files and directories removed.
    pub removed: u64,
    /// Files and directories whose mode alone was changed.
    pub modes: u64,
    /// Directories that the content does not have and that stay, because files that the rules leave out are in them.
    pub left: Vec<Vec<u8>>,
    /// Files that the rules leave out and that stood in the way, with where they are now.
    pub displaced: Vec<(Vec<u8>, PathBuf)>,
    /// Special files of the content that are gone; they have no content to bring back.
    pub not_restored: Vec<Vec<u8>>,
    /// What the workspace holds now. It differs from the content at most in `left` directories and `not_restored`.
    pub manifest: Manifest,
}

/// Why a content could not be brought back.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// The workspace could not be read.
    #[error("could not read the workspace")]
    Scan(#[from] ScanError),
    /// The content could not be found.
    #[error("could not find what is to be brought back")]
    Store(#[from] StoreError),
    /// The bytes of a file could not be had.
    #[error("could not get the bytes of {}", path.display())]
    Object {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: ObjectError,
    },
    /// The system refused.
    #[error("could not {action} {}", path.display())]
    Write {
        /// What was attempted.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The kept content is not what its manifest says.
    #[error("the kept bytes of {} are not those of the manifest", path.display())]
    Damaged {
        /// The path.
        path: PathBuf,
    },
    /// The workspace is another one than it should be after all was done.
    #[error("{} is not as it should be after it was brought back; end what writes to the workspace", path.display())]
    Differs {
        /// The first path that differs.
        path: PathBuf,
    },
}

/// The work under way.
struct Restore<'a> {
    root: &'a Root,
    displaced_directory: PathBuf,
    present: &'a Manifest,
    target: &'a Manifest,
    parents: Parents<'a>,
    /// Directories whose mode is to be set at the end.
    touched: BTreeSet<Vec<u8>>,
    report: RestoreReport,
}

impl Store {
    /// Brings the workspace of `scanner` to the content `saved`.
    ///
    /// # Errors
    /// The content is incomplete or damaged, the system refuses a change, or the result is not that content. The workspace may
    /// then be in between; calling this again goes on.
    pub fn restore(
        &self,
        git: Option<&Git>,
        scanner: &mut Scanner,
        saved: &Saved,
    ) -> Result<RestoreReport, RestoreError> {
        let target = self.manifest(git, &saved.commit)?;
        if target.digest() != saved.manifest_sha256 {
            return Err(RestoreError::Damaged {
                path: self.git_dir().to_owned(),
            });
        }
        let present = scanner.scan()?;
        let displaced_directory = self.directory().join("displaced");
        let mut report = bring(
            self,
            git,
            scanner,
            &present,
            &target,
            saved,
            displaced_directory,
        )?;
        report.manifest = scanner.scan()?;
        check(scanner.root(), &target, &mut report)?;
        Ok(report)
    }

    /// Writes the content `saved` into the directory `into`, which must be empty or absent, and gives its manifest.
    ///
    /// # Errors
    /// As [`Store::restore`]; `into` has something in it.
    pub fn materialise(
        &self,
        git: Option<&Git>,
        saved: &Saved,
        into: &Path,
    ) -> Result<Manifest, RestoreError> {
        let failed = |action| {
            move |source| RestoreError::Write {
                action,
                path: into.to_owned(),
                source,
            }
        };
        fs_err::create_dir_all(into).map_err(failed("make the directory"))?;
        if fs_err::read_dir(into)
            .map_err(failed("list"))?
            .next()
            .is_some()
        {
            return Err(failed("write into")(
                io::ErrorKind::DirectoryNotEmpty.into(),
            ));
        }
        let mut scanner = Scanner::open(into, IgnoreRules::none(), self.format())?;
        Ok(self.restore(git, &mut scanner, saved)?.manifest)
    }
}

fn bring(
    store: &Store,
    git: Option<&Git>,
    scanner: &mut Scanner,
    present: &Manifest,
    target: &Manifest,
    saved: &Saved,
    displaced_directory: PathBuf,
) -> Result<RestoreReport, RestoreError> {
    let root = scanner.root();
    let (parents, touched, report) = (root.parents(), BTreeSet::new(), RestoreReport::default());
    let mut restore = Restore {
        root,
        displaced_directory,
        present,
        target,
        parents,
        touched,
        report,
    };
    restore.remove_surplus()?;
    restore.make_directories()?;
    let mut source = store.source(git);
    // Where nothing is to be written, the trees need not be read.
    let wanted: Vec<_> = target
        .entries
        .iter()
        .filter(|entry| restore.is_wanted(entry))
        .collect();
    let ids = if wanted.is_empty() {
        BTreeMap::new()
    } else {
        source
            .leaves(&saved.tree)
            .map_err(|source| RestoreError::Object {
                path: root.display(b""),
                source,
            })?
    };
    let mut jobs = Vec::new();
    for entry in wanted {
        jobs.extend(restore.prepare(entry, &ids)?);
    }
    let written = write_files(root, store.packs(), &mut source, jobs)?;
    restore.report.written += written.len() as u64;
    restore.report.bytes += written.iter().map(|(job, _)| job.size).sum::<u64>();
    restore.set_directory_modes()?;
    let report = restore.report;
    for (job, stat) in written {
        scanner.note_written(job.path.to_vec(), &stat, job.sha256, job.id);
    }
    Ok(report)
}

impl Restore<'_> {
    /// Removes what the target does not have, or has as another kind of thing; children before their directories.
    fn remove_surplus(&mut self) -> Result<(), RestoreError> {
        for special in &self.present.special {
            if !self.target.special.contains(special) {
                self.remove(&special.path, AtFlags::empty())?;
                self.report.removed += 1;
            }
        }
        for entry in self.present.entries.iter().rev() {
            let wanted = self.target.get(&entry.path);
            let is_directory = entry.content == Content::Directory;
            let stays =
                wanted.is_some_and(|wanted| is_directory == (wanted.content == Content::Directory));
            if stays {
                continue;
            }
            let flags = if is_directory {
                AtFlags::REMOVEDIR
            } else {
                AtFlags::empty()
            };
            // Only files that the rules leave out can be in a directory still.
            if self.remove(&entry.path, flags)? {
                self.report.removed += 1;
            } else if wanted.is_some() {
                self.displace(&entry.path)?;
            } else {
                self.report.left.push(entry.path.clone());
            }
        }
        self.report.left.reverse();
        self.parents.forget();
        Ok(())
    }

    fn make_directories(&mut self) -> Result<(), RestoreError> {
        for entry in self
            .target
            .entries
            .iter()
            .filter(|entry| entry.content == Content::Directory)
        {
            match self
                .present
                .get(&entry.path)
                .filter(|present| present.content == Content::Directory)
            {
                Some(present) => {
                    if present.mode != entry.mode {
                        self.touched.insert(entry.path.clone());
                        self.report.modes += 1;
                    }
                    continue;
                }
                None => self.touched.insert(entry.path.clone()),
            };
            if self.make_way(&entry.path, true)? {
                continue;
            }
            let (parent, name) = self.parent(&entry.path)?;
            let made = rustix::fs::mkdirat(&parent, OsStr::from_bytes(name), Mode::RWXU);
            made.map_err(|source| self.error("make the directory", &entry.path, source))?;
        }
        self.parents.forget();
        Ok(())
    }

    fn is_wanted(&self, entry: &Entry) -> bool {
        entry.content != Content::Directory && self.present.get(&entry.path) != Some(entry)
    }

    /// Does what can be done at once for a file or link; gives the job of writing a file.
    fn prepare<'entry>(
        &mut self,
        entry: &'entry Entry,
        ids: &BTreeMap<Vec<u8>, ObjectId>,
    ) -> Result<Option<Job<'entry>>, RestoreError> {
        let present = self.present.get(&entry.path);
        match &entry.content {
            Content::Directory => Ok(None),
            Content::Symlink { target } => {
                self.clear(entry, present)?;
                let (parent, name) = self.parent(&entry.path)?;
                let made = rustix::fs::symlinkat(
                    OsStr::from_bytes(target),
                    &parent,
                    OsStr::from_bytes(name),
                );
                made.map_err(|source| self.error("make the link", &entry.path, source))?;
                self.report.written += 1;
                Ok(None)
            }
            Content::File { size, sha256 } => {
                if present.is_some_and(|present| present.content == entry.content)
                    && self.set_mode(entry)?
                {
                    return Ok(None);
                }
                self.clear(entry, present)?;
                let damaged = || RestoreError::Damaged {
                    path: self.root.display(&entry.path),
                };
                let id = *ids.get(&entry.path).ok_or_else(damaged)?;
                Ok(Some(Job {
                    path: &entry.path,
                    mode: entry.mode,
                    size: *size,
                    sha256: *sha256,
                    id,
                }))
            }
        }
    }

    /// Removes what is at the place of a file or link.
    fn clear(&mut self, entry: &Entry, present: Option<&Entry>) -> Result<(), RestoreError> {
        match present {
            Some(present) if present.content != Content::Directory => {
                self.remove(&entry.path, AtFlags::empty())?;
            }
            Some(_) | None => {
                self.make_way(&entry.path, false)?;
            }
        }
        Ok(())
    }

    /// Moves aside what no manifest knows; tells whether a directory is there and may stay.
    fn make_way(&mut self, path: &[u8], as_directory: bool) -> Result<bool, RestoreError> {
        let (parent, name) = self.parent(path)?;
        let found =
            beneath::stat(&parent, name).map_err(|source| self.error("look at", path, source))?;
        let Some(stat) = found else { return Ok(false) };
        if as_directory && FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Ok(true);
        }
        self.displace(path)?;
        Ok(false)
    }

    fn displace(&mut self, path: &[u8]) -> Result<(), RestoreError> {
        let (parent, name) = self.parent(path)?;
        let directory = self.displaced_directory.clone();
        let failed = |source: io::Error| RestoreError::Write {
            action: "move aside",
            path: self.root.display(path),
            source,
        };
        fs_err::create_dir_all(&directory).map_err(failed)?;
        let mut number = fs_err::read_dir(&directory).map_err(failed)?.count();
        let mut place = directory.join(number.to_string());
        while place.symlink_metadata().is_ok() {
            number += 1;
            place = directory.join(number.to_string());
        }
        let moved = rustix::fs::renameat(&parent, OsStr::from_bytes(name), rustix::fs::CWD, &place);
        moved.map_err(|source| failed(source.into()))?;
        self.report.displaced.push((path.to_vec(), place));
        self.parents.forget();
        Ok(())
    }

    /// Removes a path; tells whether it is gone (a directory with something in it is not).
    fn remove(&mut self, path: &[u8], flags: AtFlags) -> Result<bool, RestoreError> {
        let (parent, name) = self.parent(path)?;
        match rustix::fs::unlinkat(&parent, OsStr::from_bytes(name), flags) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(source) => Err(self.error("remove", path, source)),
        }
    }

    /// Sets the mode of a file that is right otherwise; `false` when it must be written anew for that.
    fn set_mode(&mut self, entry: &Entry) -> Result<bool, RestoreError> {
        let (parent, name) = self.parent(&entry.path)?;
        let set = scan::open_file(&parent, name)
            .and_then(|file| rustix::fs::fchmod(&file, mode_of(entry.mode)));
        match set {
            Ok(()) => {
                self.report.modes += 1;
                Ok(true)
            }
            Err(Errno::ACCESS | Errno::PERM) => Ok(false),
            Err(source) => Err(self.error("set the mode of", &entry.path, source)),
        }
    }

    /// The parent directory, made writable when it is not; its mode is then set again at the end.
    fn parent<'path>(
        &mut self,
        path: &'path [u8],
    ) -> Result<(Arc<OwnedFd>, &'path [u8]), RestoreError> {
        let (parent, name) = self
            .parents
            .parent(path)
            .map_err(|source| self.error("reach", path, source))?;
        let directory = beneath::split_last(path).0;
        if !directory.is_empty() && !self.touched.contains(directory) {
            let stat = rustix::fs::fstat(&parent)
                .map_err(|source| self.error("look at", directory, source))?;
            let mode = permission_bits(&stat);
            if mode & 0o300 != 0o300 {
                let set = rustix::fs::fchmod(&parent, mode_of(mode | 0o700));
                set.map_err(|source| self.error("make writable", directory, source))?;
                self.touched.insert(directory.to_vec());
            }
        }
        Ok((parent, name))
    }

    /// The deepest first, because a directory above may become closed.
    fn set_directory_modes(&mut self) -> Result<(), RestoreError> {
        for path in std::mem::take(&mut self.touched).iter().rev() {
            let Some(entry) = self
                .target
                .get(path)
                .filter(|entry| entry.content == Content::Directory)
            else {
                continue;
            };
            let handle = self
                .parents
                .directory(path)
                .map_err(|source| self.error("reach", path, source))?;
            let set = rustix::fs::fchmod(&handle, mode_of(entry.mode));
            set.map_err(|source| self.error("set the mode of", path, source))?;
        }
        Ok(())
    }

    fn error(&self, action: &'static str, path: &[u8], source: Errno) -> RestoreError {
        write_error(self.root, action, path, source.into())
    }
}

/// Compares what is there with the target, and completes the report.
fn check(root: &Root, target: &Manifest, report: &mut RestoreReport) -> Result<(), RestoreError> {
    let Changes {
        added,
        changed,
        removed,
    } = report.manifest.diff(target);
    let differs = |path: &[u8]| RestoreError::Differs {
        path: root.display(path),
    };
    if let Some(path) = changed.first().or(removed.first()) {
        return Err(differs(path));
    }
    let mut parents = root.parents();
    for path in added {
        if target.special.iter().any(|special| special.path == path) {
            report.not_restored.push(path);
            continue;
        }
        // A directory that has nothing but left-out files in it is no entry of a scan, and yet it is there.
        let entry = target
            .get(&path)
            .filter(|entry| entry.content == Content::Directory)
            .ok_or_else(|| differs(&path))?;
        let handle = parents.directory(&path).map_err(|_| differs(&path))?;
        let stat = rustix::fs::fstat(&*handle).map_err(|_| differs(&path))?;
        if permission_bits(&stat) != entry.mode {
            return Err(differs(&path));
        }
    }
    Ok(())
}

fn mode_of(mode: u16) -> Mode {
    Mode::from_raw_mode(mode.into())
}

fn write_error(root: &Root, action: &'static str, path: &[u8], source: io::Error) -> RestoreError {
    RestoreError::Write {
        action,
        path: root.display(path),
        source,
    }
}
