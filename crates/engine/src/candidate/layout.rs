//! The few files that make a directory a bare git repository of our own, and its list of references.
//!
//! They are written here because `git init` would take a process, a template and somebody's configuration. References live in
//! one file, so that their number does not show in the number of files. This module must not know what they name.

use super::object::{ObjectFormat, ObjectId};
use fs_err::os::unix::fs::OpenOptionsExt as _;
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Whether what is written must outlive a loss of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Flushed to the disk before the call returns.
    Synced,
    /// Left to the system: enough for what a later record will acknowledge, or for what can be made again.
    Buffered,
}

/// Where our references are, in our own repository and below the run's name in the person's.
pub(super) const REFERENCE_PREFIX: &str = "refs/loopexec/";

/// Git must give back the bytes as they are, should anybody check a tree out from here.
const ATTRIBUTES: &[u8] = b"* -text -eol -ident -filter -working-tree-encoding\n";

const REFERENCES_HEADER: &str = "# pack-refs with: peeled fully-peeled sorted \n";

/// Makes the repository at `git_dir` unless it is there; `alternates` is another repository's directory of objects.
pub(super) fn create(
    git_dir: &Path,
    format: ObjectFormat,
    alternates: Option<&Path>,
) -> io::Result<()> {
    let fresh = !git_dir.join("HEAD").is_file();
    if fresh {
        for directory in ["objects/pack", "objects/info", "refs", "info"] {
            make_private(&git_dir.join(directory))?;
        }
        if let Some(config) = config(format) {
            fs_err::write(git_dir.join("config"), config)?;
        }
        fs_err::write(git_dir.join("info/attributes"), ATTRIBUTES)?;
    }
    if let Some(objects) = alternates {
        fs_err::write(
            git_dir.join("objects/info/alternates"),
            alternates_line(objects),
        )?;
    }
    if fresh {
        // Last, because it is what makes the directory a repository. It names no branch that exists.
        fs_err::write(git_dir.join("HEAD"), b"ref: refs/heads/none\n")?;
    }
    Ok(())
}

/// Makes a directory, and those above it, that only their owner can enter.
pub(super) fn make_private(directory: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(directory)
}

/// The references of the repository, by name.
pub(super) fn read_references(git_dir: &Path) -> io::Result<BTreeMap<String, ObjectId>> {
    let bytes = match loopexec_os::durable::read_regular(
        &git_dir.join("packed-refs"),
        loopexec_os::durable::LOG_FILE_BYTES,
    ) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().filter(|line| !line.starts_with(['#', '^']));
    Ok(lines
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(id, name)| Some((name.to_owned(), ObjectId::from_hex(id)?)))
        .collect())
}

/// Replaces the references of the repository. A power cut leaves the earlier ones or the new ones, for the earlier content may be all there is.
pub(super) fn write_references(
    git_dir: &Path,
    references: &BTreeMap<String, ObjectId>,
) -> io::Result<()> {
    let lines: String = references
        .iter()
        .map(|(name, id)| format!("{id} {name}\n"))
        .collect();
    let path = git_dir.join("packed-refs");
    let temporary = path.with_extension("new");
    fs_err::write(&temporary, format!("{REFERENCES_HEADER}{lines}"))?;
    flush([temporary.as_path()])?;
    fs_err::rename(&temporary, &path)
}

/// Replaces a file as a whole, by rename, without flushing.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut options = fs_err::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(&temporary)?.write_all(bytes)?;
    fs_err::rename(&temporary, path)
}

/// Flushes files and directories. One after the other at the end: the first takes most of what the others would wait for.
pub(super) fn flush<'a>(paths: impl IntoIterator<Item = &'a Path>) -> io::Result<()> {
    paths
        .into_iter()
        .try_for_each(|path| fs_err::File::open(path)?.sync_all())
}

/// A repository with SHA-1 names needs no settings: git takes a directory with HEAD, objects and refs for a bare one.
fn config(format: ObjectFormat) -> Option<&'static str> {
    match format {
        ObjectFormat::Sha1 => None,
        ObjectFormat::Sha256 => Some(
            "[core]\n\trepositoryFormatVersion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = sha256\n",
        ),
    }
}

/// One path a line; git reads a quoted one where it begins with a quotation mark.
fn alternates_line(objects: &Path) -> Vec<u8> {
    let bytes = objects.as_os_str().as_bytes();
    let plain = !bytes
        .iter()
        .any(|byte| byte.is_ascii_control() || *byte == b'"' || *byte == b'\\' || *byte >= 0x80);
    if plain {
        return [bytes, b"\n"].concat();
    }
    let mut line = vec![b'"'];
    for &byte in bytes {
        if byte.is_ascii_control() || byte == b'"' || byte == b'\\' || byte >= 0x80 {
            line.extend_from_slice(format!("\\{byte:03o}").as_bytes());
        } else {
            line.push(byte);
        }
    }
    line.extend_from_slice(b"\"\n");
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::testing::{self, Workspace, git_program};

    #[test]
    fn git_finds_objects_beside_on_any_path() {
        if git_program().is_none() {
            return;
        }
        for name in [
            &b"plain"[..],
            b"new\nline",
            b"quo\"te\\",
            b"#hash",
            b"latin\xff",
            b" blank ",
        ] {
            let workspace = Workspace::plain();
            let other = workspace.path().join(std::ffi::OsStr::from_bytes(name));
            fs_err::create_dir(&other).expect("a directory");
            workspace.git_in(&other, &["init", "-q"]);
            testing::write(&other.join("file"), name);
            let id = workspace.git_in(&other, &["hash-object", "-w", "file"]);
            let git_dir = workspace.at("own");
            create(
                &git_dir,
                ObjectFormat::Sha1,
                Some(&other.join(".git/objects")),
            )
            .expect("made");
            let kind = workspace.git_in(&git_dir, &["cat-file", "-t", id.trim()]);
            assert_eq!(kind, "blob\n", "{name:?}");
        }
    }

    #[test]
    fn references_come_back_and_git_lists_them() {
        if git_program().is_none() {
            return;
        }
        let workspace = Workspace::plain();
        let git_dir = workspace.at("own");
        for format in [ObjectFormat::Sha1, ObjectFormat::Sha256] {
            create(&git_dir, format, None).expect("made");
            let id = ObjectId::from_hex(&"a".repeat(format.id_length() * 2)).expect("an id");
            let references = BTreeMap::from([("refs/loopexec/t0".to_owned(), id)]);
            write_references(&git_dir, &references).expect("written");
            assert_eq!(read_references(&git_dir).expect("read"), references);
            let listed = workspace.git_in(
                &git_dir,
                &["for-each-ref", "--format=%(objectname) %(refname)"],
            );
            assert_eq!(listed, format!("{id} refs/loopexec/t0\n"));
            fs_err::remove_dir_all(&git_dir).expect("removed");
        }
    }
}
