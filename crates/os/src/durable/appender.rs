//! The append-only file.
//!
//! It must not know lines or records: whoever calls passes one whole record an `append`.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::DurableError;

/// What became of the file since our own last write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Witness {
    /// Nobody else touched it.
    Same,
    /// Nothing is at its path any more. What was written is still readable with [`Appender::contents`].
    Missing,
    /// Another file is at its path.
    Replaced,
    /// It is the same file, but its size, modification or status-change time is not what our last write left.
    Changed,
}

/// Identity and times of a file, as of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Stamp {
    fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    fn same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// A file that only grows, opened for as long as its run lasts.
///
/// After a write or a sync has failed every later call fails with [`DurableError::Poisoned`].
#[derive(Debug)]
pub struct Appender {
    file: OwnedFd,
    path: PathBuf,
    length: u64,
    stamp: Stamp,
    poisoned: Option<&'static str>,
}

impl Appender {
    /// Creates a file that must not exist yet. The directory entry lasts only after [`super::sync_directory`] on the parent.
    ///
    /// # Errors
    /// The path exists (`AlreadyExists`), or the system refuses.
    pub fn create_new(path: &Path, mode: u32) -> Result<Self, DurableError> {
        let flags = OFlags::CREATE | OFlags::EXCL;
        Self::with_flags(path, "create", flags, Mode::from_raw_mode(mode))
    }

    /// Opens an existing regular file to go on with it. A symbolic link is refused: the file is ours, so it is where we put it.
    ///
    /// # Errors
    /// Nothing is there, it is not a regular file, or the system refuses.
    pub fn open(path: &Path) -> Result<Self, DurableError> {
        Self::with_flags(path, "open", OFlags::empty(), Mode::empty())
    }

    fn with_flags(
        path: &Path,
        action: &'static str,
        extra: OFlags,
        mode: Mode,
    ) -> Result<Self, DurableError> {
        // NONBLOCK: a named pipe planted at the path must not hang us before the type check.
        let flags = OFlags::RDWR
            | OFlags::APPEND
            | OFlags::CLOEXEC
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | extra;
        let file = rustix::fs::open(path, flags, mode)
            .map_err(|error| DurableError::system(action, path, error))?;
        let stat = rustix::fs::fstat(&file)
            .map_err(|error| DurableError::system("inspect", path, error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(DurableError::Unsafe {
                path: path.into(),
                why: "it is not a regular file; move it away",
            });
        }
        let stamp = Stamp::of(&stat);
        let length = u64::try_from(stamp.size).unwrap_or(0);
        Ok(Self {
            file,
            path: path.into(),
            length,
            stamp,
            poisoned: None,
        })
    }

    /// The path the file was opened under.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes in the file, as far as this appender wrote or found them.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether the file holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends one record with one `write`. A short write is completed by further writes.
    ///
    /// # Errors
    /// The system refused, or an earlier operation failed. What part of the record reached the file is then unknown.
    pub fn append(&mut self, record: &[u8]) -> Result<(), DurableError> {
        self.check_sound()?;
        let mut rest = record;
        while !rest.is_empty() {
            let written = match retry_on_intr(|| rustix::io::write(&self.file, rest)) {
                Ok(0) => return Err(self.poison("append to", Errno::IO)),
                Ok(written) => written,
                Err(error) => return Err(self.poison("append to", error)),
            };
            rest = rest.get(written..).unwrap_or_default();
        }
        self.length = self.length.saturating_add(record.len() as u64);
        self.remember()
    }

    /// Brings everything appended so far to the disk (`fdatasync`).
    ///
    /// # Errors
    /// The system refused: what was appended since the last good sync may be lost, also when a later sync would succeed.
    pub fn sync(&mut self) -> Result<(), DurableError> {
        self.check_sound()?;
        retry_on_intr(|| rustix::fs::fdatasync(&self.file))
            .map_err(|error| self.poison("sync", error))
    }

    /// Cuts the file to its first `length` bytes: for recovery, once what is cut off is kept elsewhere.
    ///
    /// # Errors
    /// The system refused, or `length` is beyond the end (`InvalidInput`).
    pub fn truncate(&mut self, length: u64) -> Result<(), DurableError> {
        self.check_sound()?;
        if length > self.length {
            return Err(DurableError::system("truncate", &self.path, Errno::INVAL));
        }
        retry_on_intr(|| rustix::fs::ftruncate(&self.file, length))
            .map_err(|error| self.poison("truncate", error))?;
        self.length = length;
        self.remember()
    }

    /// Whether the path still names this file and nobody else wrote to it since our last write: two `stat` calls.
    ///
    /// A metadata change (an added hard link, `chmod`) is also `Changed`; whoever calls may then compare the contents. Where the
    /// file system keeps coarse times, an equally long overwrite within one clock tick of our own write is not seen.
    ///
    /// # Errors
    /// The path or the descriptor cannot be inspected.
    pub fn unchanged(&self) -> Result<Witness, DurableError> {
        let inspect = |error: Errno| DurableError::system("inspect", &self.path, error);
        let at_path = match rustix::fs::lstat(&self.path) {
            Ok(stat) => Stamp::of(&stat),
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Witness::Missing),
            Err(error) => return Err(inspect(error)),
        };
        if !at_path.same_file(&self.stamp) {
            return Ok(Witness::Replaced);
        }
        let open = Stamp::of(&rustix::fs::fstat(&self.file).map_err(inspect)?);
        if open == self.stamp && at_path == self.stamp {
            Ok(Witness::Same)
        } else {
            Ok(Witness::Changed)
        }
    }

    /// Takes the present times of the file as those of our own last write: once [`Witness::Changed`] turned out to be harmless, a new hard
    /// link or another mode, because [`Self::contents`] is still what was written.
    ///
    /// # Errors
    /// The file no longer has the length we gave it ([`DurableError::Unsafe`]), or cannot be inspected.
    pub fn acknowledge_times(&mut self) -> Result<(), DurableError> {
        let stat = rustix::fs::fstat(&self.file)
            .map_err(|error| DurableError::system("inspect", &self.path, error))?;
        let stamp = Stamp::of(&stat);
        if u64::try_from(stamp.size) != Ok(self.length) {
            return Err(DurableError::Unsafe {
                path: self.path.clone(),
                why: "somebody else changed its length",
            });
        }
        self.stamp = stamp;
        Ok(())
    }

    /// What the open file holds now, also after its path is gone: up to `limit` bytes from its start.
    ///
    /// # Errors
    /// The system refused, or the file is longer than `limit` (`FileTooLarge`).
    pub fn contents(&self, limit: usize) -> Result<Vec<u8>, DurableError> {
        let failed = |error: Errno| DurableError::system("read", &self.path, error);
        let mut contents = Vec::new();
        let mut buffer = vec![0_u8; READ_BUFFER];
        loop {
            let read = retry_on_intr(|| {
                rustix::io::pread(&self.file, buffer.as_mut_slice(), contents.len() as u64)
            })
            .map_err(failed)?;
            if read == 0 {
                return Ok(contents);
            }
            contents.extend_from_slice(buffer.get(..read).unwrap_or_default());
            if contents.len() > limit {
                return Err(failed(Errno::FBIG));
            }
        }
    }

    fn remember(&mut self) -> Result<(), DurableError> {
        match rustix::fs::fstat(&self.file) {
            Ok(stat) => {
                self.stamp = Stamp::of(&stat);
                Ok(())
            }
            Err(error) => Err(self.poison("inspect", error)),
        }
    }

    fn check_sound(&self) -> Result<(), DurableError> {
        match self.poisoned {
            Some(since) => Err(DurableError::Poisoned {
                path: self.path.clone(),
                since,
            }),
            None => Ok(()),
        }
    }

    fn poison(&mut self, action: &'static str, error: Errno) -> DurableError {
        self.poisoned = Some(action);
        DurableError::system(action, &self.path, error)
    }
}

/// Bytes of one read when the contents are taken back: large enough that a receipt of some megabytes takes few calls.
const READ_BUFFER: usize = 64 * 1024;
