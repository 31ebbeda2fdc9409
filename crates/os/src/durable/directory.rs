//! Directories that only their owner may enter, and their durability.
//!
//! It must not know what is kept in them.

use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::{DurableError, PRIVATE_DIRECTORY};

/// Brings the names in a directory to the disk (`fsync`): a created or renamed file is only then found after a loss of power.
///
/// # Errors
/// The directory cannot be opened or synced.
pub fn sync_directory(path: &Path) -> Result<(), DurableError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|error| DurableError::system("open the directory", path, error))?;
    retry_on_intr(|| rustix::fs::fsync(&directory))
        .map_err(|error| DurableError::system("sync the directory", path, error))
}

/// Makes sure that `path` is a directory of ours with mode 0700. Its parent must exist.
///
/// # Errors
/// What is there is a symbolic link, no directory, or belongs to another user; or the system refuses.
pub fn create_private_directory(path: &Path) -> Result<(), DurableError> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(PRIVATE_DIRECTORY)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(DurableError::system("create the directory", path, error)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(directory) => directory,
        // With DIRECTORY and NOFOLLOW a link is ELOOP or ENOTDIR, by kernel.
        Err(Errno::LOOP | Errno::NOTDIR) => {
            return Err(DurableError::Unsafe {
                path: path.into(),
                why: "it is a link or no directory; move it away",
            });
        }
        Err(error) => return Err(DurableError::system("open the directory", path, error)),
    };
    let stat = rustix::fs::fstat(&directory)
        .map_err(|error| DurableError::system("inspect", path, error))?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(DurableError::Unsafe {
            path: path.into(),
            why: "it belongs to another user; remove it or run as its owner",
        });
    }
    if Mode::from_raw_mode(stat.st_mode) == Mode::from_raw_mode(PRIVATE_DIRECTORY) {
        return Ok(());
    }
    rustix::fs::fchmod(&directory, Mode::from_raw_mode(PRIVATE_DIRECTORY))
        .map_err(|error| DurableError::system("make private", path, error))
}
