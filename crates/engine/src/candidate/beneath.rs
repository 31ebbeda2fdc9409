//! Directory handles below one root, reached component by component and never through a symbolic link.
//!
//! A workspace is hostile: a directory may become a link between two calls. Every other module of `candidate` therefore
//! names files as (handle of the parent, last component). This module must not know what is read or written.

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How directories are opened: for reading names, and only when they are directories themselves.
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The directory that everything stays below.
#[derive(Debug)]
pub(super) struct Root {
    handle: Arc<OwnedFd>,
    path: PathBuf,
}

/// Walks to parents; keeps the last one, because neighbours in a sorted list share it.
#[derive(Debug)]
pub(super) struct Parents<'a> {
    root: &'a Root,
    last: Option<(Vec<u8>, Arc<OwnedFd>)>,
}

impl Root {
    /// Opens the directory itself; `path` may pass links, what is below may not.
    pub(super) fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Root {
            handle: Arc::new(handle),
            path: path.to_owned(),
        })
    }

    /// The handle of the directory itself.
    pub(super) fn handle(&self) -> &OwnedFd {
        &self.handle
    }

    /// For messages only: where `relative` lies.
    pub(super) fn display(&self, relative: &[u8]) -> PathBuf {
        self.path.join(OsStr::from_bytes(relative))
    }

    pub(super) fn parents(&self) -> Parents<'_> {
        Parents {
            root: self,
            last: None,
        }
    }
}

impl Parents<'_> {
    /// The directory at `relative` (empty for the root).
    pub(super) fn directory(&mut self, relative: &[u8]) -> Result<Arc<OwnedFd>, Errno> {
        if let Some((path, handle)) = &self.last
            && path == relative
        {
            return Ok(Arc::clone(handle));
        }
        let mut handle = Arc::clone(&self.root.handle);
        for name in relative
            .split(|&byte| byte == b'/')
            .filter(|name| !name.is_empty())
        {
            handle = Arc::new(open_directory(&handle, name)?);
        }
        self.last = Some((relative.to_vec(), Arc::clone(&handle)));
        Ok(handle)
    }

    /// The parent directory of `relative` and the last component.
    pub(super) fn parent<'path>(
        &mut self,
        relative: &'path [u8],
    ) -> Result<(Arc<OwnedFd>, &'path [u8]), Errno> {
        let (parent, name) = split_last(relative);
        Ok((self.directory(parent)?, name))
    }

    /// Forgets the kept handle, after directories were replaced.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }
}

/// Opens the directory `name` of `parent`, refusing a link.
pub(super) fn open_directory(parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(parent, OsStr::from_bytes(name), DIRECTORY, Mode::empty())
}

/// What is at `name` of `parent` itself; a link is not followed. `None` when nothing is there.
pub(super) fn stat(parent: &OwnedFd, name: &[u8]) -> Result<Option<Stat>, Errno> {
    match rustix::fs::statat(parent, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The parent and the last component of a relative path.
pub(super) fn split_last(relative: &[u8]) -> (&[u8], &[u8]) {
    let mut pieces = relative.rsplitn(2, |&byte| byte == b'/');
    let name = pieces.next().unwrap_or_default();
    (pieces.next().unwrap_or_default(), name)
}
