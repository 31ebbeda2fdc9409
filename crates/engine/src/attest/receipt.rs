//! What a signature needs to know of a receipt: its length, its ends, and whether it is sealed.
//!
//! Reads lines and four members of them; it does not fold and does not judge.

use serde::{Deserialize, Serialize};

use super::sha256_hex;

/// A line is one record; a longer one is not read here.
const LINE_BYTES: usize = 64 << 20;

/// Why a receipt has no facts.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptError {
    /// No line at all.
    #[error("the receipt is empty")]
    Empty,
    /// The last line has no end.
    #[error("the last line of the receipt has no newline; it was cut")]
    Cut,
    /// The first or last line is no record.
    #[error("the {which} line of the receipt is no record: {reason}")]
    NoRecord {
        /// `first` or `last`.
        which: &'static str,
        /// What the reader says.
        reason: String,
    },
}

/// The facts of one receipt. They stand in the statement, so that a later reader can say *how* a receipt differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptFacts {
    /// The run that the first record names.
    pub run_id: String,
    /// Number of lines.
    pub records: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// sha256 hex of the whole file.
    pub sha256: String,
    /// sha256 hex of the first line's bytes: two runs of the same id differ here.
    pub first_sha256: String,
    /// sha256 hex of the last line's bytes.
    pub head: String,
    /// The event of the last record.
    pub last_event: String,
}

#[derive(Deserialize)]
struct Record {
    #[serde(default)]
    run_id: String,
    #[serde(default)]
    event: String,
}

impl ReceiptFacts {
    /// Reads the facts of a whole receipt.
    ///
    /// # Errors
    /// Empty, cut in a line, or a first or last line that is no record.
    pub fn of(receipt: &[u8]) -> Result<Self, ReceiptError> {
        let Some(body) = receipt.strip_suffix(b"\n") else {
            return Err(if receipt.is_empty() {
                ReceiptError::Empty
            } else {
                ReceiptError::Cut
            });
        };
        let (first, last) = ends(body);
        Ok(Self {
            run_id: record(first, "first")?.run_id,
            records: memchr::memchr_iter(b'\n', receipt).count() as u64,
            bytes: receipt.len() as u64,
            sha256: sha256_hex(receipt),
            first_sha256: sha256_hex(first),
            head: sha256_hex(last),
            last_event: record(last, "last")?.event,
        })
    }

    /// Whether the run ended: only then may it be signed.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.last_event == "halt"
    }
}

/// First and last line of a body without its last newline.
fn ends(body: &[u8]) -> (&[u8], &[u8]) {
    let first = memchr::memchr(b'\n', body)
        .and_then(|end| body.get(..end))
        .unwrap_or(body);
    let last = memchr::memrchr(b'\n', body)
        .and_then(|end| body.get(end + 1..))
        .unwrap_or(body);
    (first, last)
}

fn record(line: &[u8], which: &'static str) -> Result<Record, ReceiptError> {
    if line.len() > LINE_BYTES {
        return Err(ReceiptError::NoRecord {
            which,
            reason: format!("it is longer than {LINE_BYTES} bytes"),
        });
    }
    serde_json::from_slice(line).map_err(|source| ReceiptError::NoRecord {
        which,
        reason: source.to_string(),
    })
}

/// The beginnings of the receipt that end in a `halt` record, longest first, at most `limit`, without the whole itself.
pub(super) fn sealed_beginnings(receipt: &[u8], limit: usize) -> impl Iterator<Item = &[u8]> {
    let whole = receipt.len();
    memchr::memrchr_iter(b'\n', receipt)
        .filter(move |end| end + 1 < whole)
        .filter_map(move |end| Some((receipt.get(..=end)?, ends(receipt.get(..end)?).1)))
        // A cheap look first: parsing every line of a long receipt backwards would take seconds.
        .filter(|(_, last)| memchr::memmem::find(last, b"\"halt\"").is_some())
        .filter(|(_, last)| record(last, "last").is_ok_and(|record| record.event == "halt"))
        .map(|(beginning, _)| beginning)
        .take(limit)
}
