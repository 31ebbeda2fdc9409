//! The archive's form: a tar whose bytes depend on its members alone. It appears whole or not at all.
//!
//! Must not know what the members mean.

use std::{io::Write as _, path::Path};

use loopexec_core::digest::Digest;
use serde::{Deserialize, Serialize};

use super::{FORMAT, INDEX, Member};
use crate::failure::Failure;

/// Mode of every member.
const MEMBER_MODE: u32 = 0o644;

/// The first member: what the archive is and what is in it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Index {
    pub(super) format: u32,
    pub(super) run_id: String,
    pub(super) redacted: bool,
    pub(super) members: Vec<Listed>,
}

/// A member, as the index lists it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) sha256: Digest,
}

/// Writes the archive; gives its length.
pub(super) fn write(
    file: &Path,
    run_id: &str,
    redacted: bool,
    members: &[Member],
) -> Result<u64, Failure> {
    let failed = |error: std::io::Error| {
        Failure::workspace(format!("cannot write {}: {error}", file.display()))
            .because("file_unwritable")
    };
    let bytes = encode(run_id, redacted, members).map_err(failed)?;
    let parent = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    let mut temporary = tempfile::NamedTempFile::new_in(parent).map_err(failed)?;
    temporary.write_all(&bytes).map_err(failed)?;
    temporary.as_file().sync_all().map_err(failed)?;
    temporary
        .persist_noclobber(file)
        .map_err(|error| failed(error.error))?;
    loopexec_os::durable::sync_directory(parent)
        .map_err(|error| failed(std::io::Error::other(crate::failure::chain(&error))))?;
    Ok(u64::try_from(bytes.len()).unwrap_or(u64::MAX))
}

fn encode(run_id: &str, redacted: bool, members: &[Member]) -> std::io::Result<Vec<u8>> {
    let index = Index {
        format: FORMAT,
        run_id: run_id.to_owned(),
        redacted,
        members: members
            .iter()
            .map(|member| Listed {
                name: member.name.clone(),
                bytes: u64::try_from(member.bytes.len()).unwrap_or(u64::MAX),
                sha256: Digest::of(&member.bytes),
            })
            .collect(),
    };
    let mut text = serde_json::to_vec_pretty(&index)?;
    text.push(b'\n');
    let mut archive = tar::Builder::new(Vec::new());
    append(&mut archive, INDEX, &text)?;
    for member in members {
        append(&mut archive, &member.name, &member.bytes)?;
    }
    archive.into_inner()
}

fn append(archive: &mut tar::Builder<Vec<u8>>, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(MEMBER_MODE);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    archive.append_data(&mut header, name, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, bytes: &[u8]) -> Member {
        Member::new(name, bytes.to_vec())
    }

    #[test]
    fn the_same_members_are_the_same_bytes() {
        let members = [member("a", b"1"), member("schemas/b.json", b"{}")];
        let once = encode("local", false, &members).unwrap();
        assert_eq!(once, encode("local", false, &members).unwrap());
        assert_ne!(once, encode("other", false, &members).unwrap());
    }

    #[test]
    fn a_file_that_is_there_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x.tar");
        write(&file, "local", false, &[member("a", b"1")]).unwrap();
        let before = fs_err::read(&file).unwrap();
        assert!(write(&file, "local", false, &[member("a", b"2")]).is_err());
        assert_eq!(fs_err::read(&file).unwrap(), before);
        assert_eq!(fs_err::read_dir(directory.path()).unwrap().count(), 1);
    }
}
