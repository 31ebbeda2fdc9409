//! Reads a receipt line by line and folds it; says exactly where and how it stops making sense.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
};

use loopexec_core::{
    event::parse,
    replay::{Folder, ReplayError},
    state::{IllegalRecord, RunState},
};

use super::ahead::{Line, digest, lines, next_line};

/// Read at a time: large enough that the system call does not count.
const BUFFER_BYTES: usize = 1 << 20;

/// From here on a second thread that reads ahead costs less than it saves.
const LARGE_BYTES: u64 = 4 << 20;

/// Why a receipt cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is none.
    #[error("there is no receipt at {}", path.display())]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// The system refused, or it is no regular file.
    #[error("cannot read the receipt {}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

/// What is wrong with the first bad line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlawKind {
    /// Behind the last record that was forced to the disk: what a crash leaves.
    Torn,
    /// Before it: nothing that a crash leaves.
    Damage,
}

/// The first place where a log stops making sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// Torn or damaged.
    pub kind: FlawKind,
    /// Byte at which the bad line begins.
    pub offset: u64,
    /// The line, counted from 1.
    pub line: u64,
    /// Why it is bad.
    pub why: String,
    /// The additive cause: `chain_broken`, `decision_mismatch`, …
    pub cause: &'static str,
}

/// Whether the log is chained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// Each record names the line before it.
    Present,
    /// A receipt of contract 2.0.
    Absent,
}

/// A receipt, as far as it makes sense.
#[derive(Clone, Debug)]
pub struct ReadLog {
    /// Whether it is chained; an unchained one is not folded.
    pub chain: Chain,
    /// The fold of the good lines.
    pub state: Option<RunState>,
    /// Bytes of the good lines.
    pub good_bytes: u64,
    /// Bytes of the file.
    pub total_bytes: u64,
    /// Where it stops making sense, if it does.
    pub flaw: Option<Flaw>,
}

/// Reads and folds the receipt at `path`; a line that is given to `each` has been folded.
///
/// # Errors
///
/// When the file is missing or cannot be read. A damaged log is no error here: [`ReadLog::flaw`] says where it ends.
pub fn read(path: &Path, each: &mut dyn FnMut(&[u8])) -> Result<ReadLog, ReadError> {
    let unreadable = |why: String| ReadError::Unreadable {
        path: path.to_owned(),
        why,
    };
    let metadata = match fs_err::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(ReadError::Missing {
                path: path.to_owned(),
            });
        }
        Err(error) => return Err(unreadable(error.to_string())),
    };
    if !metadata.is_file() {
        return Err(unreadable("it is not a regular file".to_owned()));
    }
    let file =
        loopexec_os::durable::open_regular(path).map_err(|error| unreadable(error.to_string()))?;
    let reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let log = if metadata.len() < LARGE_BYTES {
        read_lines(reader, each)
    } else {
        read_ahead(reader, each)
    };
    log.map_err(|error| unreadable(error.to_string()))
}

/// Reads and folds lines from anywhere; `each` as in [`read`].
///
/// # Errors
///
/// When the source cannot be read.
pub fn read_lines<R: BufRead>(
    mut source: R,
    each: &mut dyn FnMut(&[u8]),
) -> std::io::Result<ReadLog> {
    let mut reading = Reading::default();
    let mut line = Vec::new();
    loop {
        let length = next_line(&mut source, &mut line)?;
        if length == 0 {
            return Ok(reading.finish());
        }
        let digest = digest(&line);
        reading.line(
            &Line {
                bytes: &line,
                length,
                digest,
            },
            each,
        );
    }
}

/// The same for a large source: lines are split and hashed by a second thread.
fn read_ahead<R: BufRead + Send>(
    source: R,
    each: &mut dyn FnMut(&[u8]),
) -> std::io::Result<ReadLog> {
    let mut reading = Reading::default();
    lines(source, |line| reading.line(&line, each))?;
    Ok(reading.finish())
}

/// A log that is being read.
struct Reading {
    folder: Folder,
    log: ReadLog,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            folder: Folder::default(),
            log: ReadLog {
                chain: Chain::Present,
                state: None,
                good_bytes: 0,
                total_bytes: 0,
                flaw: None,
            },
        }
    }
}

impl Reading {
    fn line(&mut self, line: &Line<'_>, each: &mut dyn FnMut(&[u8])) {
        let log = &mut self.log;
        log.total_bytes = log.total_bytes.saturating_add(line.length);
        if let Some(flaw) = &mut log.flaw {
            if forced_to_disk(line.bytes) {
                flaw.kind = FlawKind::Damage;
            }
            return;
        }
        match fold(&mut self.folder, line) {
            Ok(content) => {
                log.good_bytes = log.total_bytes;
                each(content);
            }
            Err((cause, why)) => {
                let folded = self.folder.state();
                if folded.is_none() && unchained(line.bytes) {
                    log.chain = Chain::Absent;
                }
                log.flaw = Some(Flaw {
                    kind: FlawKind::Torn,
                    offset: log.good_bytes,
                    line: folded.map_or(1, |state| state.records.saturating_add(1)),
                    why,
                    cause,
                });
            }
        }
    }

    fn finish(self) -> ReadLog {
        let mut log = self.log;
        log.state = self.folder.into_state();
        if log.state.is_none()
            && let Some(flaw) = &mut log.flaw
        {
            flaw.kind = FlawKind::Damage;
        }
        log
    }
}

fn fold<'a>(folder: &mut Folder, line: &Line<'a>) -> Result<&'a [u8], (&'static str, String)> {
    let Some(content) = line.bytes.strip_suffix(b"\n") else {
        return Err((
            "truncated",
            "the last line does not end with a newline".to_owned(),
        ));
    };
    match folder.hashed(content, line.digest) {
        Ok(()) => Ok(content),
        Err(error) => Err((cause(&error), crate::failure::chain(&error))),
    }
}

fn cause(error: &ReplayError) -> &'static str {
    match error {
        ReplayError::Line { .. } => "chain_broken",
        ReplayError::Illegal { source, .. } => match source {
            IllegalRecord::Decision { .. }
            | IllegalRecord::Contradiction { .. }
            | IllegalRecord::OutOfPlace { .. } => "decision_mismatch",
            IllegalRecord::WrongRun { .. } => "wrong_run",
            IllegalRecord::NewerRules { .. } => "newer_rules",
            IllegalRecord::NotOpened
            | IllegalRecord::Policy(_)
            | IllegalRecord::PolicyHash
            | IllegalRecord::OutOfSequence { .. }
            | IllegalRecord::BrokenChain { .. }
            | IllegalRecord::WrongIteration { .. }
            | IllegalRecord::TimeWentBack { .. } => "chain_broken",
        },
    }
}

/// Whether a line after a bad one is a record that had been forced to the disk.
fn forced_to_disk(line: &[u8]) -> bool {
    parse(line.strip_suffix(b"\n").unwrap_or(line)).is_ok_and(|record| record.header.sync)
}

/// Whether a first line is one of contract 2.0: an event of a run, without a chain.
fn unchained(line: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(line).is_ok_and(|value| {
        value.get("event").is_some_and(serde_json::Value::is_string)
            && value.get("run_id").is_some()
            && value.get("prev").is_none()
    })
}
