//! Reading whole files at places where others can write: a pipe, a device or an endless file there must neither hang nor fill the memory.
//!
//! It must not know what the bytes mean.

use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

/// Largest small file: a snapshot, a heartbeat, a signature. The largest of them holds a failing set of a few megabytes.
pub const SMALL_FILE_BYTES: u64 = 64 << 20;
/// Largest log that is taken into memory whole: about three million records.
pub const LOG_FILE_BYTES: u64 = 4 << 30;

/// Reads the regular file at `path`, of at most `limit` bytes. A link is followed; what it leads to has to be a regular file.
///
/// # Errors
/// Nothing is there, it is no regular file (`InvalidInput`), it is longer than `limit` (`FileTooLarge`), or the system refuses.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let named = |error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("cannot read {}: {error}", path.display()),
        )
    };
    let file = open_regular(path).map_err(named)?;
    let size = file.metadata().map_err(named)?.len();
    let too_large = || {
        let why = format!("it is longer than {limit} bytes");
        named(io::Error::new(io::ErrorKind::FileTooLarge, why))
    };
    if size > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    // The file may grow between the look and the read.
    file.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(named)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        return Err(too_large());
    }
    Ok(bytes)
}

/// Opens the regular file at `path` for reading; what is anything else is not opened, or let go before a byte is read.
///
/// # Errors
/// Nothing is there, it is no regular file (`InvalidInput`), or the system refuses.
pub fn open_regular(path: &Path) -> io::Result<std::fs::File> {
    let other = || io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file");
    // Opening a device can already do something, so it is looked at first; what was opened is looked at again, because the
    // two can differ. NONBLOCK: a pipe would wait for a writer.
    let regular = |mode| FileType::from_raw_mode(mode) == FileType::RegularFile;
    if !regular(rustix::fs::stat(path)?.st_mode) {
        return Err(other());
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    if !regular(rustix::fs::fstat(&file)?.st_mode) {
        return Err(other());
    }
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_at_the_limit_is_read_and_a_longer_one_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs_err::write(&path, b"1234").unwrap();
        assert_eq!(read_regular(&path, 4).unwrap(), b"1234");
        let error = read_regular(&path, 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_pipe_a_directory_and_an_endless_device_are_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        for path in [pipe.as_path(), directory.path(), &link] {
            let error = read_regular(path, SMALL_FILE_BYTES).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path:?}");
        }
    }

    #[test]
    fn a_missing_file_is_not_found_and_a_link_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("file", &link).unwrap();
        let error = read_regular(&link, 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        fs_err::write(directory.path().join("file"), b"x").unwrap();
        assert_eq!(read_regular(&link, 1).unwrap(), b"x");
    }
}
