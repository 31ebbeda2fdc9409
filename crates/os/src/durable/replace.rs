//! Replacement of a whole file by rename: a reader sees the old bytes or the new ones, never a mixture.
//!
//! It must not know what the file is for.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::{DurableError, sync_directory};

/// How far a replacement goes before it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// Renamed: another process sees it at once, a loss of power may undo it.
    None,
    /// The bytes, then the name, are on the disk.
    Full,
}

/// Temporary names tried before giving up. A name is taken only where a dead process of the same id left one behind.
const NAME_ATTEMPTS: u32 = 64;

static NEXT_NAME: AtomicU64 = AtomicU64::new(0);

/// Replaces the file at `path` by `bytes` with `mode`, through a temporary file in the same directory.
///
/// # Errors
/// The system refused; the old file is then untouched, and the temporary one is removed where that was possible.
pub fn replace_file(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    sync: SyncMode,
) -> Result<(), DurableError> {
    let (temporary, file) = create_temporary(path, mode)?;
    let outcome = fill(&file, &temporary, bytes, sync).and_then(|()| {
        rustix::fs::rename(&temporary, path)
            .map_err(|error| DurableError::system("replace", path, error))
    });
    if outcome.is_err() {
        // The first failure is what counts; a temporary file that stays behind breaks nothing.
        let _ = rustix::fs::unlink(&temporary);
    }
    outcome?;
    match sync {
        SyncMode::None => Ok(()),
        SyncMode::Full => sync_directory(parent(path)),
    }
}

fn create_temporary(path: &Path, mode: u32) -> Result<(PathBuf, OwnedFd), DurableError> {
    let Some(name) = path.file_name() else {
        return Err(DurableError::system("replace", path, Errno::INVAL));
    };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    for _ in 0..NAME_ATTEMPTS {
        let mut temporary_name = OsString::from(".");
        temporary_name.push(name);
        temporary_name.push(format!(
            ".{}.{}.tmp",
            std::process::id(),
            NEXT_NAME.fetch_add(1, Ordering::Relaxed)
        ));
        let temporary = parent(path).join(temporary_name);
        match rustix::fs::open(&temporary, flags, Mode::from_raw_mode(mode)) {
            Ok(file) => return Ok((temporary, file)),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(DurableError::system("create", temporary, error)),
        }
    }
    Err(DurableError::system(
        "create a temporary file beside",
        path,
        Errno::EXIST,
    ))
}

fn fill(file: &OwnedFd, path: &Path, bytes: &[u8], sync: SyncMode) -> Result<(), DurableError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = retry_on_intr(|| rustix::io::write(file, rest))
            .map_err(|error| DurableError::system("write", path, error))?;
        if written == 0 {
            return Err(DurableError::system("write", path, Errno::IO));
        }
        rest = rest.get(written..).unwrap_or_default();
    }
    match sync {
        SyncMode::None => Ok(()),
        SyncMode::Full => retry_on_intr(|| rustix::fs::fsync(file))
            .map_err(|error| DurableError::system("sync", path, error)),
    }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}
