//! The workspace log: what people and outside commands did, chained like a receipt.
//!
//! Each append takes a short lock, reads to the end, and writes one line, so that commands beside a run never tear it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use loopexec_core::{
    digest::Digest,
    workspace::{Act, ActName, Debt, genesis},
};
use loopexec_os::{
    clock,
    durable::{Appender, DurableError, sync_directory},
    lock::{FileLock, LockError},
};

/// How long another command may hold the short lock.
const PATIENCE: Duration = Duration::from_secs(10);
/// Larger than any workspace log that people made.
const BYTES_MAX: u64 = 256 << 20;

/// Why the workspace log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceLogError {
    /// Another command holds it.
    #[error("the workspace log is in use")]
    Busy(#[from] LockError),
    /// The system refused.
    #[error("the workspace log cannot be used")]
    Disk(#[from] DurableError),
    /// It contradicts itself.
    #[error("line {line} of {} is damaged: {why}; move the file away to start a new one", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// What is wrong.
        why: String,
    },
}

/// An act without its place in the chain.
#[derive(Clone, Debug)]
pub struct NewAct {
    /// What was done.
    pub event: ActName,
    /// The run it concerns.
    pub run_id: String,
    /// The fields that the act has.
    pub fields: Act,
}

impl NewAct {
    /// An act with no fields yet.
    #[must_use]
    pub fn new(event: ActName, run_id: &str) -> Self {
        Self {
            event,
            run_id: run_id.to_owned(),
            fields: Act {
                ts: 0,
                ts_ms: 0,
                run_id: run_id.to_owned(),
                event,
                seq: 0,
                prev: genesis(),
                reviewer: None,
                iterations: None,
                from_sha256: None,
                to_sha256: None,
                difference_sha256: None,
                t0_sha256: None,
                head: None,
                halt_reason: None,
                policy_hash: None,
                key_id: None,
                detail: None,
            },
        }
    }
}

/// The acts of a workspace, read whole.
#[derive(Clone, Debug, Default)]
pub struct WorkspaceLog {
    /// In order.
    pub acts: Vec<Act>,
    head: Option<Digest>,
    good_bytes: u64,
}

impl WorkspaceLog {
    /// Reads the log; a missing one is empty. A torn last line (no newline) is left out.
    ///
    /// # Errors
    ///
    /// When it cannot be read or a line within it is damaged.
    pub fn read(path: &Path) -> Result<Self, WorkspaceLogError> {
        let bytes = match loopexec_os::durable::read_regular(path, BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => {
                return Err(DurableError::System {
                    action: "read",
                    path: path.to_owned(),
                    source: error,
                }
                .into());
            }
        };
        let mut log = Self::default();
        for (line, number) in bytes.split_inclusive(|byte| *byte == b'\n').zip(1_u64..) {
            let Some(content) = line.strip_suffix(b"\n") else {
                break;
            };
            let act: Act = serde_json::from_slice(content)
                .map_err(|error| damaged(path, number, &error.to_string()))?;
            if act.prev != log.head.unwrap_or_else(genesis) || act.seq.saturating_add(1) != number {
                return Err(damaged(path, number, "it does not continue the chain"));
            }
            log.head = Some(Digest::of(content));
            log.good_bytes = log
                .good_bytes
                .saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
            log.acts.push(act);
        }
        Ok(log)
    }

    /// The fold: what nobody has acknowledged.
    #[must_use]
    pub fn debt(&self) -> Debt {
        let mut debt = Debt::default();
        for act in &self.acts {
            debt.apply(act);
        }
        debt
    }

    /// Appends an act, durably. The log itself carries the short lock.
    ///
    /// # Errors
    ///
    /// When the log is damaged, in use, or the disk does not take it.
    pub fn append(path: &Path, new: NewAct) -> Result<Act, WorkspaceLogError> {
        let is_new = fs_err::symlink_metadata(path).is_err();
        let _held = FileLock::acquire(path, PATIENCE)?;
        let log = Self::read(path)?;
        let mut file = Appender::open(path)?;
        if is_new && let Some(parent) = path.parent() {
            sync_directory(parent)?;
        }
        if file.len() > log.good_bytes {
            file.truncate(log.good_bytes)?;
        }
        let ts_ms = clock::wall_millis();
        let act = Act {
            ts: ts_ms.div_euclid(1000),
            ts_ms,
            seq: u64::try_from(log.acts.len()).unwrap_or(u64::MAX),
            prev: log.head.unwrap_or_else(genesis),
            event: new.event,
            run_id: new.run_id,
            ..new.fields
        };
        let mut line =
            serde_json::to_vec(&act).map_err(|error| damaged(path, 0, &error.to_string()))?;
        line.push(b'\n');
        file.append(&line)?;
        file.sync()?;
        Ok(act)
    }
}

fn damaged(path: &Path, line: u64, why: &str) -> WorkspaceLogError {
    WorkspaceLogError::Damaged {
        path: path.to_owned(),
        line,
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(run: &str, iterations: u32) -> NewAct {
        let mut act = NewAct::new(ActName::RunEnded, run);
        act.fields.iterations = Some(iterations);
        act
    }

    #[test]
    fn acts_are_chained_and_an_acknowledgement_clears_the_debt() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("workspace.jsonl");
        let append = |act| WorkspaceLog::append(&path, act).unwrap();
        append(ended("a", 2));
        append(ended("b", 3));
        assert_eq!(WorkspaceLog::read(&path).unwrap().debt().iterations(), 5);
        append(NewAct::new(ActName::Ack, "b"));
        append(ended("b", 1));
        let log = WorkspaceLog::read(&path).unwrap();
        assert_eq!(log.debt().iterations(), 1);
        assert_eq!(
            log.acts.iter().map(|act| act.seq).collect::<Vec<_>>(),
            [0, 1, 2, 3]
        );
    }

    #[test]
    fn a_torn_tail_is_cut_by_the_next_append_and_a_changed_line_is_damage() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("workspace.jsonl");
        WorkspaceLog::append(&path, ended("a", 2)).unwrap();
        let good = fs_err::read(&path).unwrap();
        let mut torn = good.clone();
        torn.extend_from_slice(b"{\"ts\":1");
        fs_err::write(&path, &torn).unwrap();
        WorkspaceLog::append(&path, ended("a", 1)).unwrap();
        assert_eq!(WorkspaceLog::read(&path).unwrap().debt().iterations(), 3);
        let text = fs_err::read_to_string(&path).unwrap().replacen(
            "\"iterations\":2",
            "\"iterations\":0",
            1,
        );
        fs_err::write(&path, text).unwrap();
        let error = WorkspaceLog::read(&path).unwrap_err().to_string();
        assert!(
            error.contains("line 2") && error.contains("chain"),
            "{error}"
        );
    }
}
