//! What the repository of a workspace says at one moment: its hash, HEAD, and the index, read through a copy.
//!
//! The index of the person is never opened by a git that could write it. This module must not know workspace content.

use super::layout;
use super::object::{ObjectFormat, ObjectId};
use crate::git::{Call, Git, GitError, Repository};
use memchr::memmem;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The largest index that is kept: two million paths of 500 bytes.
const MAX_INDEX_BYTES: u64 = 1 << 30;

/// Why the repository could not be read, or its index not put back.
#[derive(Debug, Error)]
pub enum IndexError {
    /// A file could not be read or written.
    #[error("could not {action} {}", path.display())]
    File {
        /// What was attempted.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Git could not answer.
    #[error("could not read the repository")]
    Git(#[from] GitError),
    /// Git answered something unknown.
    #[error("git listed {line:?}, which is not understood")]
    Listing {
        /// The line, made printable.
        line: String,
    },
    /// Another git is at work.
    #[error("{} exists: another git is at work, or one crashed; when none is running, remove the file", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The index is too large.
    #[error("{} is larger than {MAX_INDEX_BYTES} bytes", path.display())]
    TooLarge {
        /// The index.
        path: PathBuf,
    },
}

/// The repository at one moment.
#[derive(Debug, Clone)]
pub(super) struct Inspection {
    pub(super) format: ObjectFormat,
    /// The commit and its tree; none on a branch without commits.
    pub(super) head: Option<(ObjectId, ObjectId)>,
    /// None when there is no index file, as before the first `git add`.
    pub(super) index: Option<IndexState>,
}

/// The index at one moment.
#[derive(Debug, Clone)]
pub(super) struct IndexState {
    pub(super) raw: Vec<u8>,
    /// The file that a split index builds on: its name and its bytes.
    pub(super) shared: Option<(String, Vec<u8>)>,
    /// Its tree; none while paths are unmerged, or when objects are missing.
    pub(super) tree: Option<ObjectId>,
    /// Its entries below the workspace.
    pub(super) entries: Vec<IndexEntry>,
}

/// One line of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexEntry {
    /// Relative to the workspace.
    pub(super) path: Vec<u8>,
    pub(super) mode: u32,
    pub(super) id: ObjectId,
    pub(super) unmerged: bool,
    /// Left out of the working tree by a sparse checkout.
    pub(super) skipped: bool,
}

/// Reads the repository. `scratch` is a private directory for the copy of the index.
pub(super) fn inspect(
    git: &Git,
    repository: &Repository,
    scratch: &Path,
) -> Result<Inspection, IndexError> {
    let call = |arguments: &[&str]| Call {
        git_dir: Some(&repository.git_dir),
        work_tree: Some(&repository.top),
        index_file: None,
        arguments: arguments.iter().map(OsString::from).collect(),
    };
    let copy = scratch.join("index.copy");
    let raw = read_whole(&repository.index())?;
    // Started together: each is mostly the start of a process.
    let head = git.start(&call(&[
        "rev-parse",
        "--show-object-format",
        "HEAD^{commit}",
        "HEAD^{tree}",
    ]))?;
    let Some(raw) = raw else {
        let (format, head) = parse_head(&head.wait()?.stdout)?;
        return Ok(Inspection {
            format,
            head,
            index: None,
        });
    };
    write_copy(&copy, &raw)?;
    let mut listing = call(&["--literal-pathspecs", "ls-files", "-z", "-t", "--stage"]);
    listing.index_file = Some(&copy);
    if !repository.prefix.is_empty() {
        listing
            .arguments
            .extend(["--".into(), OsString::from_vec(repository.prefix.clone())]);
    }
    let mut tree = call(&["write-tree"]);
    tree.index_file = Some(&copy);
    let (listing, tree) = (git.start(&listing)?, git.start(&tree)?);
    let (format, head) = parse_head(&head.wait()?.stdout)?;
    let entries = parse_listing(&listing.succeed()?, &repository.prefix)?;
    let tree = tree.wait()?;
    let tree = if tree.success {
        hex_line(&tree.stdout)
    } else {
        None
    };
    fs_err::remove_file(&copy).map_err(|source| IndexError::File {
        action: "remove",
        path: copy.clone(),
        source,
    })?;
    let shared = read_shared(repository, &raw)?;
    Ok(Inspection {
        format,
        head,
        index: Some(IndexState {
            raw,
            shared,
            tree,
            entries,
        }),
    })
}

/// Writes the copy of the index that git is given.
fn write_copy(copy: &Path, raw: &[u8]) -> Result<(), IndexError> {
    // A git that was killed leaves its lock, and the next could then not write the copy.
    let leftover = copy.with_extension("copy.lock");
    if leftover.exists() {
        let removed = fs_err::remove_file(&leftover);
        removed.map_err(|source| IndexError::File {
            action: "remove",
            path: leftover,
            source,
        })?;
    }
    let scratch = copy.parent().unwrap_or(copy);
    let written = layout::make_private(scratch).and_then(|()| layout::replace(copy, raw));
    written.map_err(|source| IndexError::File {
        action: "write",
        path: copy.to_owned(),
        source,
    })
}

/// Makes the index of the repository these bytes again, or absent; tells whether it was changed.
pub(super) fn put_back(
    repository: &Repository,
    raw: Option<&[u8]>,
    shared: Option<(&str, &[u8])>,
) -> Result<bool, IndexError> {
    let (index, lock) = (repository.index(), repository.git_dir.join("index.lock"));
    if read_whole(&index)?.as_deref() == raw {
        return Ok(false);
    }
    let failed = |action| {
        let path = index.clone();
        move |source| IndexError::File {
            action,
            path,
            source,
        }
    };
    let mut file = match fs_err::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&lock)
    {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(IndexError::Locked { path: lock });
        }
        Err(source) => return Err(failed("lock")(source)),
    };
    let done = replace_locked(&mut file, &lock, &index, repository, raw, shared);
    if done.is_err() {
        // The error that is told is the first one.
        fs_err::remove_file(&lock).ok();
    }
    done.map(|()| true).map_err(failed("write"))
}

fn replace_locked(
    file: &mut fs_err::File,
    lock: &Path,
    index: &Path,
    repository: &Repository,
    raw: Option<&[u8]>,
    shared: Option<(&str, &[u8])>,
) -> io::Result<()> {
    use std::io::Write as _;
    if let Some((name, bytes)) = shared {
        let path = repository.git_dir.join(name);
        if !path.is_file() {
            layout::replace(&path, bytes)?;
            layout::flush([path.as_path()])?;
        }
    }
    let Some(raw) = raw else {
        fs_err::remove_file(index)?;
        return fs_err::remove_file(lock);
    };
    file.write_all(raw)?;
    if let Ok(found) = fs_err::metadata(index) {
        file.file().set_permissions(found.permissions())?;
    }
    file.sync_all()?;
    fs_err::rename(lock, index)
}

fn read_whole(path: &Path) -> Result<Option<Vec<u8>>, IndexError> {
    let failed = |source| IndexError::File {
        action: "read",
        path: path.to_owned(),
        source,
    };
    match fs_err::metadata(path) {
        // Reading a pipe that was planted here would never end.
        Ok(found) if !found.is_file() => Err(failed(io::Error::other("it is no regular file"))),
        Ok(found) if found.len() > MAX_INDEX_BYTES => Err(IndexError::TooLarge {
            path: path.to_owned(),
        }),
        Ok(_) => loopexec_os::durable::read_regular(path, MAX_INDEX_BYTES)
            .map(Some)
            .map_err(failed),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(failed(source)),
    }
}

/// A split index names the file it builds on by the raw id in its `link` part.
fn read_shared(
    repository: &Repository,
    raw: &[u8],
) -> Result<Option<(String, Vec<u8>)>, IndexError> {
    if memmem::find(raw, b"link").is_none() {
        return Ok(None);
    }
    let failed = |source| IndexError::File {
        action: "list",
        path: repository.git_dir.clone(),
        source,
    };
    for entry in fs_err::read_dir(&repository.git_dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let Some(name) = name.to_str() else { continue };
        let id = name
            .strip_prefix("sharedindex.")
            .and_then(ObjectId::from_hex);
        if id.is_some_and(|id| memmem::find(raw, id.as_bytes()).is_some()) {
            let bytes = read_whole(&repository.git_dir.join(name))?;
            return Ok(bytes.map(|bytes| (name.to_owned(), bytes)));
        }
    }
    Ok(None)
}

/// The hash, then the commit and the tree where HEAD has them; git repeats what it cannot resolve.
fn parse_head(stdout: &[u8]) -> Result<(ObjectFormat, Option<(ObjectId, ObjectId)>), IndexError> {
    let text = String::from_utf8_lossy(stdout);
    let mut lines = text.lines();
    let format = lines.next().unwrap_or_default();
    let format = [ObjectFormat::Sha1, ObjectFormat::Sha256]
        .into_iter()
        .find(|known| known.name() == format);
    let format = format.ok_or_else(|| IndexError::Listing {
        line: text.chars().take(200).collect(),
    })?;
    let mut ids = lines.map_while(ObjectId::from_hex);
    Ok((format, ids.next().zip(ids.next())))
}

fn hex_line(stdout: &[u8]) -> Option<ObjectId> {
    ObjectId::from_hex(std::str::from_utf8(stdout).ok()?.trim_end())
}

/// Lines of `<tag> <mode> <id> <stage>\t<path>`, each ended by a NUL.
fn parse_listing(stdout: &[u8], prefix: &[u8]) -> Result<Vec<IndexEntry>, IndexError> {
    let lines = stdout
        .split(|&byte| byte == 0)
        .filter(|line| !line.is_empty());
    let refused = |line: &[u8]| IndexError::Listing {
        line: super::escape::escape(line),
    };
    lines
        .map(|line| parse_entry(line, prefix).ok_or_else(|| refused(line)))
        .collect()
}

fn parse_entry(line: &[u8], prefix: &[u8]) -> Option<IndexEntry> {
    let (facts, path) = line.split_at_checked(memchr::memchr(b'\t', line)?)?;
    let mut words = std::str::from_utf8(facts).ok()?.split(' ');
    let skipped = words.next()? == "S";
    let mode = u32::from_str_radix(words.next()?, 8).ok()?;
    let id = ObjectId::from_hex(words.next()?)?;
    let unmerged = words.next()? != "0";
    let path = path.get(1..)?;
    // A submodule or link at the place of the workspace itself has no path below it.
    let path = if prefix.is_empty() {
        path
    } else {
        path.strip_prefix(prefix)?
            .strip_prefix(b"/")
            .unwrap_or_default()
    };
    Some(IndexEntry {
        path: path.to_vec(),
        mode,
        id,
        unmerged,
        skipped,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_gives_paths_below_the_workspace_and_what_git_says_of_them() {
        let zero = "0".repeat(40);
        let text = format!(
            "H 100644 {zero} 0\tsub/a\nb\0S 120000 {zero} 0\tsub/c\0M 100755 {zero} 2\tsub/d\0"
        );
        let entries = parse_listing(text.as_bytes(), b"sub").expect("understood");
        let facts: Vec<_> = entries
            .iter()
            .map(|entry| {
                (
                    entry.path.as_slice(),
                    entry.mode,
                    entry.skipped,
                    entry.unmerged,
                )
            })
            .collect();
        let expect: [(&[u8], u32, bool, bool); 3] = [
            (b"a\nb", 0o100644, false, false),
            (b"c", 0o120000, true, false),
            (b"d", 0o100755, false, true),
        ];
        assert_eq!(facts, expect);
        assert!(parse_listing(b"H 100644 0\tx\0", b"").is_err());
    }

    #[test]
    fn a_branch_without_commits_has_a_hash_and_no_head() {
        let (format, head) = parse_head(b"sha256\nHEAD^{commit}\n").expect("understood");
        assert_eq!((format, head), (ObjectFormat::Sha256, None));
        assert!(parse_head(b"").is_err());
    }
}
