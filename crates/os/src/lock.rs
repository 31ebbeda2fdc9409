//! Locks between processes, held by the kernel for as long as the holder lives.
//!
//! It must not know what is protected. The descriptors are closed on `exec`, so no child keeps a lock alive.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::clock::boot_millis;
use crate::durable::PRIVATE_FILE;

/// Pause between two attempts on a contended file lock: `flock` has no time limit of its own, and its holders are quick.
const RETRY_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 2_000_000,
};
/// Reopenings when the file is replaced between opening and locking; somebody who replaces it this often means to.
const MAX_REOPENED: u32 = 16;

/// Why a lock is not held.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("{} is locked by another process", path.display())]
    Held {
        /// What was to be locked.
        path: PathBuf,
    },
    /// The file system does not lock directories: a file elsewhere has to stand for it.
    #[error("{} is on a file system that cannot lock directories", path.display())]
    Unsupported {
        /// What was to be locked.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused.
    #[error("cannot {action} {}", path.display())]
    System {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The path kept naming another file while it was being locked.
    #[error("{} was replaced again and again while it was being locked", path.display())]
    Replaced {
        /// What was to be locked.
        path: PathBuf,
    },
}

/// The one lock of a workspace. Dropped, or by any death of the process, it is free again.
#[derive(Debug)]
pub struct WorkspaceLock {
    file: OwnedFd,
    path: PathBuf,
}

impl WorkspaceLock {
    /// Locks a directory by its own descriptor: nothing below it can be unlinked to get around the lock.
    ///
    /// # Errors
    /// [`LockError::Held`] at once when another process has it; [`LockError::Unsupported`] where [`Self::acquire_file`] must be used.
    pub fn acquire(directory: &Path) -> Result<Self, LockError> {
        let open = || {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::open(directory, flags, Mode::empty())
                .map_err(|error| system("open", directory, error))
        };
        lock_at(directory, open, try_lock).map(|file| Self {
            file,
            path: directory.into(),
        })
    }

    /// Locks a file, which is created if need be: for directories that cannot be locked, at a place outside of them.
    ///
    /// # Errors
    /// [`LockError::Held`] at once when another process has it.
    pub fn acquire_file(path: &Path) -> Result<Self, LockError> {
        lock_at(path, || open_lock_file(path), try_lock).map(|file| Self {
            file,
            path: path.into(),
        })
    }

    /// Whether the path still names what is locked: `false` after the directory was moved away or made anew.
    ///
    /// # Errors
    /// The descriptor cannot be inspected.
    pub fn still_named(&self) -> Result<bool, LockError> {
        names(&self.path, &self.file)
    }
}

/// A lock for a short critical section on a file several processes append to.
#[derive(Debug)]
pub struct FileLock {
    _file: OwnedFd,
}

impl FileLock {
    /// Waits until the lock is free, for at most `patience`. The file is created if need be.
    ///
    /// # Errors
    /// [`LockError::Held`] when it is not free in time.
    pub fn acquire(path: &Path, patience: Duration) -> Result<Self, LockError> {
        let give_up =
            boot_millis().saturating_add(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX));
        let wait = |path: &Path, file: &OwnedFd| loop {
            match try_lock(path, file) {
                Err(LockError::Held { .. }) if boot_millis() < give_up => pause(),
                outcome => return outcome,
            }
        };
        lock_at(path, || open_lock_file(path), wait).map(|file| Self { _file: file })
    }
}

/// Opens, locks, and makes sure that the path still names what was locked: whoever replaced it meanwhile would lock another file.
fn lock_at(
    path: &Path,
    open: impl Fn() -> Result<OwnedFd, LockError>,
    lock: impl Fn(&Path, &OwnedFd) -> Result<(), LockError>,
) -> Result<OwnedFd, LockError> {
    for _ in 0..MAX_REOPENED {
        let file = open()?;
        lock(path, &file)?;
        if names(path, &file)? {
            return Ok(file);
        }
    }
    Err(LockError::Replaced { path: path.into() })
}

fn open_lock_file(path: &Path) -> Result<OwnedFd, LockError> {
    let flags =
        OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    rustix::fs::open(path, flags, Mode::from_raw_mode(PRIVATE_FILE))
        .map_err(|error| system("open", path, error))
}

fn try_lock(path: &Path, file: &OwnedFd) -> Result<(), LockError> {
    match retry_on_intr(|| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(LockError::Held { path: path.into() }),
        // Network file systems emulate flock by a record lock, which needs a writable descriptor: a directory has none.
        Err(
            error @ (Errno::BADF
            | Errno::OPNOTSUPP
            | Errno::NOSYS
            | Errno::INVAL
            | Errno::NOLCK
            | Errno::ISDIR),
        ) => Err(LockError::Unsupported {
            path: path.into(),
            source: error.into(),
        }),
        Err(error) => Err(system("lock", path, error)),
    }
}

fn names(path: &Path, file: &OwnedFd) -> Result<bool, LockError> {
    let held = rustix::fs::fstat(file).map_err(|error| system("inspect", path, error))?;
    match rustix::fs::stat(path) {
        Ok(named) => Ok((named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
        Err(error) => Err(system("inspect", path, error)),
    }
}

fn pause() {
    // An early return by a signal only means one attempt more.
    let _ = rustix::event::poll(&mut [], Some(&RETRY_PAUSE));
}

fn system(action: &'static str, path: &Path, error: Errno) -> LockError {
    LockError::System {
        action,
        path: path.into(),
        source: error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_directory_is_refused_at_once_and_free_after_the_drop() {
        let directory = tempfile::tempdir().unwrap();
        let lock = WorkspaceLock::acquire(directory.path()).unwrap();
        assert!(matches!(
            WorkspaceLock::acquire(directory.path()),
            Err(LockError::Held { .. })
        ));
        drop(lock);
        WorkspaceLock::acquire(directory.path()).unwrap();
    }

    #[test]
    fn nothing_below_the_directory_frees_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        fs_err::create_dir(directory.path().join("below")).unwrap();
        let lock = WorkspaceLock::acquire(directory.path()).unwrap();
        fs_err::remove_dir_all(directory.path().join("below")).unwrap();
        assert!(matches!(
            WorkspaceLock::acquire(directory.path()),
            Err(LockError::Held { .. })
        ));
        assert!(lock.still_named().unwrap());
    }

    #[test]
    fn a_directory_made_anew_is_noticed() {
        let outer = tempfile::tempdir().unwrap();
        let inner = outer.path().join("workspace");
        fs_err::create_dir(&inner).unwrap();
        let lock = WorkspaceLock::acquire(&inner).unwrap();
        fs_err::rename(&inner, outer.path().join("elsewhere")).unwrap();
        assert!(!lock.still_named().unwrap());
        fs_err::create_dir(&inner).unwrap();
        assert!(!lock.still_named().unwrap());
    }

    #[test]
    fn a_file_stands_for_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let _lock = WorkspaceLock::acquire_file(&path).unwrap();
        assert!(matches!(
            WorkspaceLock::acquire_file(&path),
            Err(LockError::Held { .. })
        ));
    }

    #[test]
    fn a_short_lock_waits_and_then_gives_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = FileLock::acquire(&path, Duration::ZERO).unwrap();
        assert!(matches!(
            FileLock::acquire(&path, Duration::ZERO),
            Err(LockError::Held { .. })
        ));
        let before = boot_millis();
        assert!(matches!(
            FileLock::acquire(&path, Duration::from_millis(30)),
            Err(LockError::Held { .. })
        ));
        assert!(boot_millis() - before >= 30);
        drop(held);
        FileLock::acquire(&path, Duration::ZERO).unwrap();
    }

    #[test]
    fn a_short_lock_gets_its_turn_among_many() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let count = directory.path().join("count");
        fs_err::write(&count, "0").unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let _lock = FileLock::acquire(&path, Duration::from_secs(30)).unwrap();
                        let value: u32 = fs_err::read_to_string(&count).unwrap().parse().unwrap();
                        fs_err::write(&count, (value + 1).to_string()).unwrap();
                    }
                });
            }
        });
        assert_eq!(fs_err::read_to_string(&count).unwrap(), "100");
    }

    #[test]
    fn a_missing_directory_is_an_error_that_names_it() {
        let error = WorkspaceLock::acquire(Path::new("/nonexistent-workspace")).unwrap_err();
        assert_eq!(error.to_string(), "cannot open /nonexistent-workspace");
    }
}
