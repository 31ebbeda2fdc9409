//! Files that must last: an append-only file that knows when it was touched, replacement by rename, private directories.
//!
//! It must not know what the bytes mean. A failed write or sync is final: the page cache may have dropped the data, so a later sync that
//! succeeds would claim what is not true.

mod appender;
mod directory;
mod read;
mod replace;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

pub use appender::{Appender, Witness};
pub use directory::{create_private_directory, sync_directory};
pub use read::{LOG_FILE_BYTES, SMALL_FILE_BYTES, open_regular, read_regular};
pub use replace::{SyncMode, replace_file};

/// Mode of a file that only its owner may read.
pub const PRIVATE_FILE: u32 = 0o600;
/// Mode of a directory that only its owner may enter.
pub const PRIVATE_DIRECTORY: u32 = 0o700;

/// Why a durable file operation failed.
#[derive(Debug, thiserror::Error)]
pub enum DurableError {
    /// The system refused an operation.
    #[error("cannot {action} {}", path.display())]
    System {
        /// What was attempted, as a verb: `append to`, `sync`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// An earlier write or sync of this file failed, so nothing more is written to it.
    #[error("{} takes no more records: an earlier attempt to {since} it failed", path.display())]
    Poisoned {
        /// The file.
        path: PathBuf,
        /// The operation that failed first.
        since: &'static str,
    },
    /// The path holds something that is not ours to use.
    #[error("{} is unsafe to use: {why}", path.display())]
    Unsafe {
        /// The path.
        path: PathBuf,
        /// What is wrong with it and what to do.
        why: &'static str,
    },
}

impl DurableError {
    /// The error of the system, where there is one: `ENOSPC` and the like.
    #[must_use]
    pub fn system_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::System { source, .. } => Some(source.kind()),
            Self::Poisoned { .. } | Self::Unsafe { .. } => None,
        }
    }

    fn system(
        action: &'static str,
        path: impl Into<PathBuf>,
        source: impl Into<io::Error>,
    ) -> Self {
        Self::System {
            action,
            path: path.into(),
            source: source.into(),
        }
    }
}
