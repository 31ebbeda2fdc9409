//! Reads an export from elsewhere: every byte is hostile, nothing in it names a path.
//!
//! Must not believe the index: members are taken by their known names, and their digests are compared.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use loopexec_core::digest::Digest;
use tempfile::TempDir;

use super::{AFTER, BUNDLE, FORMAT, INDEX, REPORT, SCHEMAS, archive::Index};
use crate::{failure::Failure, layout::valid_run_id, verify::Parts};

/// More members than any export has.
const MEMBERS_MAX: usize = 64;
/// Larger than any export: contents have the same bound when they are kept.
const BYTES_MAX: u64 = 64 << 30;
/// The index lists a few names.
const INDEX_BYTES_MAX: u64 = 1 << 20;
/// Where `ustar` stands in the first header.
const MAGIC_AT: usize = 257;

/// An export, unpacked into a private directory that goes with this value.
#[derive(Debug)]
pub struct Unpacked {
    directory: TempDir,
    /// The run.
    pub run_id: String,
    /// Whether fields are withheld.
    pub redacted: bool,
}

impl Unpacked {
    /// The parts that a verification looks at.
    #[must_use]
    pub fn parts(&self) -> Parts {
        Parts {
            run_id: Some(self.run_id.clone()),
            ..Parts::beside(
                self.directory
                    .path()
                    .join(format!("run-{}.jsonl", self.run_id)),
            )
        }
    }

    /// The redacted receipt.
    #[must_use]
    pub fn redacted_receipt(&self) -> PathBuf {
        self.directory
            .path()
            .join(format!("run-{}.redacted.jsonl", self.run_id))
    }

    /// The git bundle of its contents, when it has one.
    #[must_use]
    pub fn bundle(&self) -> Option<PathBuf> {
        Some(self.directory.path().join(BUNDLE)).filter(|path| path.is_file())
    }

    /// The private directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// Whether a file is an archive rather than a receipt.
///
/// # Errors
///
/// When it cannot be read.
pub fn is_archive(file: &Path) -> std::io::Result<bool> {
    let mut head = Vec::new();
    let limit = u64::try_from(MAGIC_AT + 5).unwrap_or(u64::MAX);
    fs_err::File::open(file)?
        .take(limit)
        .read_to_end(&mut head)?;
    Ok(head.get(MAGIC_AT..) == Some(b"ustar".as_slice()))
}

/// Unpacks an export below `temporary`.
///
/// # Errors
///
/// It cannot be read, is none of ours, or a member is not what the index says.
pub fn unpack(file: &Path, temporary: &Path) -> Result<Unpacked, Failure> {
    let refused = |why: String| {
        Failure::unverified(
            "export_damaged",
            format!("{} is no export that can be used: {why}", file.display()),
        )
    };
    let system = |error: std::io::Error| refused(error.to_string());
    let directory = tempfile::Builder::new()
        .prefix("loopexec-export-")
        .tempdir_in(temporary)
        .map_err(|error| {
            Failure::workspace(format!(
                "the export cannot be unpacked below {}: {error}",
                temporary.display()
            ))
            .because("copy_failed")
        })?;
    let source = fs_err::File::open(file).map_err(|error| {
        Failure::workspace(format!("cannot read the export: {error}")).because("file_unreadable")
    })?;
    let mut archive = tar::Archive::new(std::io::BufReader::new(source).take(BYTES_MAX));
    // Raw: the extensions of the format for long names would be read into memory, whatever length they claim.
    let mut entries = archive.entries().map_err(system)?.raw(true);
    let first = entries
        .next()
        .ok_or_else(|| refused("it is empty".to_owned()))?
        .map_err(system)?;
    let index = index(first).map_err(refused)?;
    let mut seen = 0;
    for entry in entries {
        let mut entry = entry.map_err(system)?;
        let listed = index.members.get(seen);
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let listed = listed
            .filter(|listed| listed.name == name && entry.header().entry_type().is_file())
            .ok_or_else(|| refused(format!("the member {name:?} is not the one listed")))?;
        let kept = kept(&name, &index);
        let digest =
            copy(&mut entry, kept.map(|kept| directory.path().join(kept))).map_err(system)?;
        if digest != listed.sha256 {
            return Err(refused(format!("the member {name:?} was changed")));
        }
        seen += 1;
    }
    if seen != index.members.len() {
        return Err(refused(format!(
            "it holds {seen} of {} members",
            index.members.len()
        )));
    }
    Ok(Unpacked {
        directory,
        run_id: index.run_id,
        redacted: index.redacted,
    })
}

fn index(entry: tar::Entry<'_, impl std::io::Read>) -> Result<Index, String> {
    if entry.path_bytes().as_ref() != INDEX.as_bytes() {
        return Err(format!("its first member is not {INDEX}"));
    }
    let mut text = Vec::new();
    entry
        .take(INDEX_BYTES_MAX)
        .read_to_end(&mut text)
        .map_err(|error| error.to_string())?;
    let index: Index = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    if index.format != FORMAT {
        return Err(format!("its form is {}, not {FORMAT}", index.format));
    }
    if !valid_run_id(&index.run_id) {
        return Err(format!("{:?} cannot name a run", index.run_id));
    }
    if index.members.len() > MEMBERS_MAX {
        return Err(format!("it lists {} members", index.members.len()));
    }
    Ok(index)
}

/// The name under which a member is kept; `None` for one that nothing here reads.
fn kept<'a>(name: &'a str, index: &Index) -> Option<&'a str> {
    let id = &index.run_id;
    let known = [
        format!("run-{id}.jsonl"),
        format!("run-{id}.redacted.jsonl"),
        format!("run-{id}.state.json"),
        format!("run-{id}.jsonl.sig"),
        format!("run-{id}.sigstore.json"),
        format!("run-{id}.svr.json"),
        format!("attest-{id}.sig"),
    ];
    let wanted = known.iter().any(|known| known == name) || [AFTER, BUNDLE, REPORT].contains(&name);
    (wanted && !name.starts_with(SCHEMAS)).then_some(name)
}

/// Copies a member, or only reads it; gives its digest.
fn copy(entry: &mut impl std::io::Read, into: Option<PathBuf>) -> std::io::Result<Digest> {
    use sha2::Digest as _;
    let mut file = into.map(fs_err::File::create_new).transpose()?;
    let mut hash = sha2::Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        let read = entry.read(&mut buffer)?;
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
            return Ok(Digest(hash.finalize().into()));
        };
        hash.update(bytes);
        if let Some(file) = &mut file {
            std::io::Write::write_all(file, bytes)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::{Member, archive};

    fn archive_of(members: &[(&str, &[u8])], run_id: &str) -> (TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x.tar");
        let members: Vec<Member> = members
            .iter()
            .map(|(name, bytes)| Member::new(*name, bytes.to_vec()))
            .collect();
        archive::write(&file, run_id, false, &members).unwrap();
        (directory, file)
    }

    #[test]
    fn what_was_packed_comes_back_and_nothing_else_is_written() {
        let members: [(&str, &[u8]); 3] = [
            ("run-a.jsonl", b"{}\n"),
            ("schemas/state.json", b"{}"),
            ("../evil", b"x"),
        ];
        let (directory, file) = archive_of(&members[..2], "a");
        assert!(is_archive(&file).unwrap());
        let unpacked = unpack(&file, directory.path()).unwrap();
        assert_eq!(fs_err::read(unpacked.parts().receipt).unwrap(), b"{}\n");
        assert_eq!(fs_err::read_dir(unpacked.directory()).unwrap().count(), 1);
        assert!(unpacked.bundle().is_none());
    }

    #[test]
    fn a_changed_byte_a_short_file_and_a_strange_name_are_refused() {
        let (directory, file) = archive_of(&[("run-a.jsonl", b"content\n")], "a");
        let good = fs_err::read(&file).unwrap();
        let at = good
            .windows(7)
            .rposition(|window| window == b"content")
            .unwrap();
        let mut changed = good.clone();
        changed[at] = b'C';
        fs_err::write(&file, &changed).unwrap();
        let cause = |file: &Path| unpack(file, directory.path()).unwrap_err().cause;
        assert_eq!(cause(&file), Some("export_damaged"));
        fs_err::write(&file, &good[..at]).unwrap();
        assert_eq!(cause(&file), Some("export_damaged"));
        let mut long = good.clone();
        // The type of the second header: a name of the length that it claims would follow.
        let second = good
            .windows(11)
            .rposition(|window| window == b"run-a.jsonl")
            .unwrap();
        long[second + 156] = b'L';
        fs_err::write(&file, &long).unwrap();
        assert_eq!(cause(&file), Some("export_damaged"));
        let (_kept, file) = archive_of(&[], "..");
        assert_eq!(cause(&file), Some("export_damaged"));
        fs_err::write(&file, b"{\"event\":\"run_start\"}\n").unwrap();
        assert!(!is_archive(&file).unwrap());
    }
}
