//! The few files that make a directory a bare git repository of our own, and its list of references.
//!
//! They are written here because `git init` would take a process, a template and somebody's configuration. References live in
//! one file, so that their number does not show in the number of files. This module must not know what they name.

use super::object::{ObjectFormat, ObjectId};
use super::pack::Durability;
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

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
            std::fs::DirBuilder::new()
                .mode(0o700)
                .recursive(true)
                .create(git_dir.join(directory))?;
        }
        fs_err::write(git_dir.join("config"), config(format))?;
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

/// The references of the repository, by name.
pub(super) fn read_references(git_dir: &Path) -> io::Result<BTreeMap<String, ObjectId>> {
    let bytes = match fs_err::read(git_dir.join("packed-refs")) {
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

/// Replaces the references of the repository.
pub(super) fn write_references(
    git_dir: &Path,
    references: &BTreeMap<String, ObjectId>,
    durability: Durability,
) -> io::Result<()> {
    let lines: String = references
        .iter()
        .map(|(name, id)| format!("{id} {name}\n"))
        .collect();
    replace(
        &git_dir.join("packed-refs"),
        format!("{REFERENCES_HEADER}{lines}").as_bytes(),
        durability,
    )
}

/// Replaces a file as a whole, by rename.
pub(super) fn replace(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = fs_err::File::create(&temporary)?;
    file.write_all(bytes)?;
    if durability == Durability::Synced {
        file.sync_all()?;
    }
    fs_err::rename(&temporary, path)?;
    match path.parent().filter(|_| durability == Durability::Synced) {
        Some(parent) => fs_err::File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

fn config(format: ObjectFormat) -> String {
    let (version, extension) = match format {
        ObjectFormat::Sha1 => (0, ""),
        ObjectFormat::Sha256 => (1, "[extensions]\n\tobjectFormat = sha256\n"),
    };
    format!(
        "[core]\n\trepositoryFormatVersion = {version}\n\tbare = true\n\tcompression = 0\n\tlogAllRefUpdates = false\n\
         \thooksPath = /dev/null\n\tfsmonitor = false\n{extension}[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
    )
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
