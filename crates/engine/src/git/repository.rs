//! Where the repository of a working directory is, found without asking git and so without reading its configuration.
//!
//! Follows what git does: walk up to the first `.git` that is a repository, a directory or a file that names one (linked
//! worktrees, submodules), within one file system. It must not read anything else of the repository.

use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A `.git` file or `commondir` holds one path; more than this is something else.
const MAX_POINTER_BYTES: u64 = 16 << 10;

/// A git repository and the working tree that a directory lies in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// HEAD and index of this working tree.
    pub git_dir: PathBuf,
    /// Objects and references; the same as `git_dir` except in a linked worktree.
    pub common_dir: PathBuf,
    /// The top of the working tree.
    pub top: PathBuf,
    /// The working directory relative to `top`: path bytes without a slash at either end, empty for the top itself.
    pub prefix: Vec<u8>,
}

/// Why no answer could be given.
#[derive(Debug, Error)]
pub enum RepositoryError {
    /// A file or directory could not be looked at.
    #[error("could not look for a git repository")]
    Read(#[from] io::Error),
    /// A `.git` file that names no repository.
    #[error("{} does not name a git repository; `git worktree repair` may mend it", path.display())]
    Pointer {
        /// The `.git` file.
        path: PathBuf,
    },
}

impl Repository {
    /// The repository that `workdir` lies in, if any. Paths in the answer are absolute and without links.
    ///
    /// # Errors
    /// `workdir` cannot be read, or a `.git` file leads nowhere.
    pub fn discover(workdir: &Path) -> Result<Option<Self>, RepositoryError> {
        let workdir = fs_err::canonicalize(workdir)?;
        let device = fs_err::metadata(&workdir)?.dev();
        for top in workdir.ancestors() {
            // As git does: a mount point is where the search ends.
            if fs_err::metadata(top).map_or(true, |found| found.dev() != device) {
                return Ok(None);
            }
            let Some(git_dir) = git_dir_of(top)? else {
                continue;
            };
            let common_dir = common_dir_of(&git_dir)?;
            let prefix = workdir
                .strip_prefix(top)
                .map(|path| path.as_os_str().as_bytes().to_vec());
            let prefix = prefix.unwrap_or_default();
            return Ok(Some(Repository {
                git_dir,
                common_dir,
                top: top.to_owned(),
                prefix,
            }));
        }
        Ok(None)
    }

    /// The directory of the objects.
    pub fn objects(&self) -> PathBuf {
        self.common_dir.join("objects")
    }

    /// The index file, which need not exist.
    pub fn index(&self) -> PathBuf {
        self.git_dir.join("index")
    }
}

fn git_dir_of(top: &Path) -> Result<Option<PathBuf>, RepositoryError> {
    let dot_git = top.join(".git");
    let found = match fs_err::metadata(&dot_git) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // A link to nowhere or in a circle is no repository.
        Err(_) if dot_git.is_symlink() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if found.is_dir() {
        return Ok(if is_git_dir(&dot_git) {
            Some(fs_err::canonicalize(&dot_git)?)
        } else {
            None
        });
    }
    let refused = || RepositoryError::Pointer {
        path: dot_git.clone(),
    };
    if !found.is_file() {
        return Err(refused());
    }
    let text = read_pointer(&dot_git)?;
    let named = text
        .strip_prefix(b"gitdir:")
        .map(|path| path.trim_ascii_start().to_vec())
        .ok_or_else(refused)?;
    let git_dir = top.join(PathBuf::from(std::ffi::OsString::from_vec(named)));
    if is_git_dir(&git_dir) {
        Ok(Some(fs_err::canonicalize(git_dir)?))
    } else {
        Err(refused())
    }
}

fn common_dir_of(git_dir: &Path) -> Result<PathBuf, RepositoryError> {
    let pointer = git_dir.join("commondir");
    if !pointer.is_file() {
        return Ok(git_dir.to_owned());
    }
    let named = PathBuf::from(std::ffi::OsString::from_vec(read_pointer(&pointer)?));
    Ok(fs_err::canonicalize(git_dir.join(named))?)
}

fn is_git_dir(path: &Path) -> bool {
    let has_data =
        |directory: &Path| directory.join("objects").is_dir() && directory.join("refs").is_dir();
    let has_head = path.join("HEAD").symlink_metadata().is_ok();
    has_head && (has_data(path) || path.join("commondir").is_file())
}

fn read_pointer(path: &Path) -> Result<Vec<u8>, RepositoryError> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    loopexec_os::durable::open_regular(path)?
        .take(MAX_POINTER_BYTES)
        .read_to_end(&mut bytes)?;
    while bytes
        .last()
        .is_some_and(|byte| *byte == b'\n' || *byte == b'\r')
    {
        bytes.pop();
    }
    Ok(bytes)
}
