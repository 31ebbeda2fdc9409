//! Compares a receipt with its second copy outside the workspace.
//!
//! Must not change either.

use std::{
    io::{BufReader, Read},
    path::Path,
};

use loopexec_core::event::{EventName, parse};

use super::read_lines;

/// How a receipt and its outside copy relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// There is no copy.
    Absent,
    /// Equal byte for byte.
    Equal,
    /// The copy ends this many bytes before the receipt, and what it has is equal.
    CopyShorter(u64),
    /// The receipt ends this many bytes before the copy, and what it has is equal.
    ReceiptShorter(u64),
    /// They differ at this byte.
    Differ(u64),
}

/// How the parts of both that make sense relate: a torn or zeroed tail is what a crash leaves, and says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// There is no copy.
    NoCopy,
    /// Both hold the same records.
    Equal,
    /// The copy lacks the receipt's last records, as a crash leaves it: at most one of them was forced to the disk.
    CopyBehind {
        /// How many.
        records: u64,
    },
    /// The copy lacks more than a crash can have kept from it.
    CopyMissed {
        /// Records forced to the disk that it lacks.
        forced: u64,
    },
    /// The receipt lacks records that the copy has.
    ReceiptBehind {
        /// The records of the copy, as bytes.
        whole: Vec<u8>,
        /// How many the receipt lacks.
        records: u64,
    },
    /// They hold different records.
    Differ {
        /// The byte at which they differ.
        offset: u64,
    },
}

/// Relates a receipt to its copy, record by record.
///
/// Every record is written to the receipt and then to the copy, and each that is forced to the disk is forced in both
/// before the next: so no crash leaves more than one forced record in the receipt alone.
///
/// # Errors
///
/// When one that exists cannot be read.
pub fn relation(receipt: &Path, copy: &Path) -> std::io::Result<Relation> {
    match agreement(receipt, copy)? {
        Agreement::Absent => return Ok(Relation::NoCopy),
        Agreement::Equal => return Ok(Relation::Equal),
        Agreement::CopyShorter(_) | Agreement::ReceiptShorter(_) | Agreement::Differ(_) => {}
    }
    let (ours, theirs) = (good_part(receipt)?, good_part(copy)?);
    let same = ours
        .iter()
        .zip(&theirs)
        .take_while(|(ours, theirs)| ours == theirs)
        .count();
    if same < ours.len().min(theirs.len()) {
        return Ok(Relation::Differ {
            offset: length(same),
        });
    }
    if let Some(more) = theirs.get(ours.len()..).filter(|more| !more.is_empty()) {
        let records = length(more.iter().filter(|byte| **byte == b'\n').count());
        return Ok(Relation::ReceiptBehind {
            records,
            whole: theirs,
        });
    }
    let more = ours.get(theirs.len()..).unwrap_or_default();
    let lines = more
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let forced = length(lines.clone().filter(|line| forced(line)).count());
    let records = length(lines.count());
    Ok(match (records, forced) {
        (0, _) => Relation::Equal,
        (_, 0 | 1) => Relation::CopyBehind { records },
        (_, _) => Relation::CopyMissed { forced },
    })
}

/// The bytes of a log up to its last record that makes sense; nothing of a log that is not there.
fn good_part(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes =
        match loopexec_os::durable::read_regular(path, loopexec_os::durable::LOG_FILE_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
    let log = read_lines(bytes.as_slice(), &mut |_| {})?;
    bytes.truncate(usize::try_from(log.good_bytes).unwrap_or(usize::MAX));
    Ok(bytes)
}

/// Whether a record is one that the program forces to the disk, whatever the record itself says.
fn forced(line: &[u8]) -> bool {
    parse(line).is_ok_and(|record| {
        let always = [EventName::RunStart, EventName::Resume, EventName::Halt];
        record.header.sync || always.contains(&record.header.event)
    })
}

/// Compared at a time.
const BLOCK: usize = 64 * 1024;

/// Compares two files, in constant memory.
///
/// # Errors
///
/// When one that exists cannot be read.
pub fn agreement(receipt: &Path, copy: &Path) -> std::io::Result<Agreement> {
    let open = |path: &Path| match loopexec_os::durable::open_regular(path) {
        Ok(file) => Ok(Some(BufReader::new(file))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    let Some(mut copy) = open(copy)? else {
        return Ok(Agreement::Absent);
    };
    let Some(mut receipt) = open(receipt)? else {
        let rest = drain(&mut copy)?;
        return Ok(Agreement::ReceiptShorter(rest));
    };
    let (mut left, mut right) = (vec![0; BLOCK], vec![0; BLOCK]);
    let mut offset = 0_u64;
    loop {
        let ours = fill(&mut receipt, &mut left)?;
        let theirs = fill(&mut copy, &mut right)?;
        let same = ours
            .iter()
            .zip(theirs)
            .take_while(|(ours, theirs)| ours == theirs)
            .count();
        let at = offset.saturating_add(length(same));
        if same < ours.len().min(theirs.len()) {
            return Ok(Agreement::Differ(at));
        }
        match (ours.len(), theirs.len()) {
            (0, 0) => return Ok(Agreement::Equal),
            (ours, theirs) if ours > theirs => {
                let rest = drain(&mut receipt)?.saturating_add(length(ours - theirs));
                return Ok(Agreement::CopyShorter(rest));
            }
            (ours, theirs) if ours < theirs => {
                let rest = drain(&mut copy)?.saturating_add(length(theirs - ours));
                return Ok(Agreement::ReceiptShorter(rest));
            }
            (both, _) => offset = offset.saturating_add(length(both)),
        }
    }
}

fn length(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn fill<'a>(source: &mut impl Read, buffer: &'a mut [u8]) -> std::io::Result<&'a [u8]> {
    let mut filled = 0;
    while let Some(space) = buffer.get_mut(filled..).filter(|space| !space.is_empty()) {
        match source.read(space)? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(buffer.get(..filled).unwrap_or_default())
}

fn drain(source: &mut impl Read) -> std::io::Result<u64> {
    std::io::copy(source, &mut std::io::sink())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(receipt: Option<&[u8]>, copy: Option<&[u8]>) -> Agreement {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str, content: Option<&[u8]>| {
            let path = directory.path().join(name);
            if let Some(content) = content {
                fs_err::write(&path, content).unwrap();
            }
            path
        };
        agreement(&put("receipt", receipt), &put("copy", copy)).unwrap()
    }

    #[test]
    fn every_relation_is_told_apart_also_at_block_borders() {
        let long = vec![b'x'; BLOCK + 1];
        let block = &long[..BLOCK];
        assert_eq!(compare(Some(b"a"), None), Agreement::Absent);
        assert_eq!(compare(Some(b"ab"), Some(b"ab")), Agreement::Equal);
        assert_eq!(compare(Some(block), Some(block)), Agreement::Equal);
        assert_eq!(compare(Some(&long), Some(block)), Agreement::CopyShorter(1));
        assert_eq!(
            compare(Some(block), Some(&long)),
            Agreement::ReceiptShorter(1)
        );
        assert_eq!(compare(Some(b"abc"), Some(b"a")), Agreement::CopyShorter(2));
        assert_eq!(
            compare(Some(b""), Some(b"abc")),
            Agreement::ReceiptShorter(3)
        );
        assert_eq!(compare(None, Some(b"abc")), Agreement::ReceiptShorter(3));
        assert_eq!(compare(Some(b"axc"), Some(b"abc")), Agreement::Differ(1));
        let mut other = long.clone();
        other[BLOCK] = b'y';
        assert_eq!(
            compare(Some(&long), Some(&other)),
            Agreement::Differ(u64::try_from(BLOCK).unwrap())
        );
    }
}
