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
    durable::{Appender, DurableError, PRIVATE_FILE, sync_directory},
    lock::{FileLock, LockError},
};

use crate::layout::Layout;

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
                opened_ts_ms: None,
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
    bytes: Vec<u8>,
}

impl WorkspaceLog {
    /// Reads the log of a workspace; a missing one is empty. A torn last line (no newline) is left out.
    ///
    /// Where the copy outside holds more, it is the log: the workspace has lost acts.
    ///
    /// # Errors
    ///
    /// When it cannot be read, a line within it is damaged, or it contradicts the copy outside.
    pub fn read(layout: &Layout) -> Result<Self, WorkspaceLogError> {
        let path = layout.workspace_log();
        let inside = good_part(&path)?;
        let outside = match copy_of(layout) {
            Some(copy) => good_part(&copy)?,
            None => Vec::new(),
        };
        let whole = match (inside.starts_with(&outside), outside.starts_with(&inside)) {
            (true, _) => inside,
            (false, true) => outside,
            (false, false) => {
                return Err(damaged(
                    &path,
                    0,
                    "it contradicts the copy outside the workspace",
                ));
            }
        };
        Self::parse(&path, &whole)
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, WorkspaceLogError> {
        let mut log = Self::default();
        for (line, number) in bytes.split_inclusive(|byte| *byte == b'\n').zip(1_u64..) {
            let content = line.strip_suffix(b"\n").unwrap_or(line);
            let act: Act = serde_json::from_slice(content)
                .map_err(|error| damaged(path, number, &error.to_string()))?;
            if act.prev != log.head.unwrap_or_else(genesis) || act.seq.saturating_add(1) != number {
                return Err(damaged(path, number, "it does not continue the chain"));
            }
            log.head = Some(Digest::of(content));
            log.acts.push(act);
        }
        log.bytes = bytes.to_vec();
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

    /// The log as bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Makes the log in the workspace and its copy outside equal again, and gives the log.
    ///
    /// # Errors
    ///
    /// As [`WorkspaceLog::append`].
    pub fn align(layout: &Layout) -> Result<Self, WorkspaceLogError> {
        let path = layout.workspace_log();
        if fs_err::symlink_metadata(&path).is_err()
            && copy_of(layout).is_none_or(|copy| !copy.exists())
        {
            return Ok(Self::default());
        }
        let _held = FileLock::acquire(&path, PATIENCE)?;
        let log = Self::read(layout)?;
        if let Some(copy) = copy_of(layout) {
            bring_to(&copy, &log.bytes)?;
        }
        bring_to(&path, &log.bytes)?;
        Ok(log)
    }

    /// Appends an act, durably, outside first: so the workspace never holds an act that the copy does not.
    ///
    /// # Errors
    ///
    /// When the log is damaged, in use, or the disk does not take it.
    pub fn append(layout: &Layout, new: NewAct) -> Result<Act, WorkspaceLogError> {
        let path = layout.workspace_log();
        let _held = FileLock::acquire(&path, PATIENCE)?;
        let log = Self::read(layout)?;
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
        let mut bytes = log.bytes;
        serde_json::to_writer(&mut bytes, &act)
            .map_err(|error| damaged(&path, 0, &error.to_string()))?;
        bytes.push(b'\n');
        if let Some(copy) = copy_of(layout) {
            bring_to(&copy, &bytes)?;
        }
        bring_to(&path, &bytes)?;
        Ok(act)
    }
}

/// The copy outside the workspace, where a place for it is there.
fn copy_of(layout: &Layout) -> Option<PathBuf> {
    layout
        .outside()
        .filter(|directory| directory.is_dir())
        .map(|directory| directory.join("workspace.jsonl"))
}

/// A log up to its last whole line; nothing of a log that is not there.
fn good_part(path: &Path) -> Result<Vec<u8>, WorkspaceLogError> {
    let mut bytes = match loopexec_os::durable::read_regular(path, BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(DurableError::System {
                action: "read",
                path: path.to_owned(),
                source: error,
            }
            .into());
        }
    };
    let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |end| end.saturating_add(1));
    bytes.truncate(whole);
    Ok(bytes)
}

/// Makes a file hold these bytes, in place: what it has of them stays, the rest is cut and appended.
fn bring_to(path: &Path, bytes: &[u8]) -> Result<(), WorkspaceLogError> {
    let (mut file, is_new) = match Appender::open(path) {
        Ok(file) => (file, false),
        Err(error) if error.system_kind() == Some(std::io::ErrorKind::NotFound) => {
            (Appender::create_new(path, PRIVATE_FILE)?, true)
        }
        Err(error) => return Err(error.into()),
    };
    let have = file.contents(usize::MAX)?;
    let common = have
        .iter()
        .zip(bytes)
        .take_while(|(have, want)| have == want)
        .count();
    if common < have.len() {
        file.truncate(u64::try_from(common).unwrap_or(u64::MAX))?;
    }
    if let Some(rest) = bytes.get(common..).filter(|rest| !rest.is_empty()) {
        file.append(rest)?;
    }
    if is_new || common < have.len() || common < bytes.len() {
        file.sync()?;
    }
    if let (true, Some(parent)) = (is_new, path.parent()) {
        sync_directory(parent)?;
    }
    Ok(())
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

    /// A workspace with a place outside of it.
    fn place() -> (tempfile::TempDir, Layout) {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(
            &directory.path().join("work"),
            Some(&directory.path().join("state")),
        );
        fs_err::create_dir_all(layout.store()).unwrap();
        fs_err::create_dir_all(layout.outside().unwrap()).unwrap();
        (directory, layout)
    }

    fn debt(layout: &Layout) -> u32 {
        WorkspaceLog::read(layout).unwrap().debt().iterations()
    }

    #[test]
    fn acts_are_chained_and_an_acknowledgement_clears_the_debt() {
        let (_directory, layout) = place();
        let append = |act| WorkspaceLog::append(&layout, act).unwrap();
        append(ended("a", 2));
        append(ended("b", 3));
        assert_eq!(debt(&layout), 5);
        append(NewAct::new(ActName::Ack, "b"));
        append(ended("b", 1));
        let log = WorkspaceLog::read(&layout).unwrap();
        assert_eq!(log.debt().iterations(), 1);
        assert_eq!(
            log.acts.iter().map(|act| act.seq).collect::<Vec<_>>(),
            [0, 1, 2, 3]
        );
        let copy = fs_err::read(copy_of(&layout).unwrap()).unwrap();
        assert_eq!(copy, fs_err::read(layout.workspace_log()).unwrap());
    }

    #[test]
    fn what_the_workspace_loses_is_taken_from_the_copy() {
        let (_directory, layout) = place();
        WorkspaceLog::append(&layout, ended("a", 2)).unwrap();
        for lost in ["", "{\"ts\":1"] {
            fs_err::write(layout.workspace_log(), lost).unwrap();
            assert_eq!(debt(&layout), 2);
        }
        fs_err::remove_file(layout.workspace_log()).unwrap();
        WorkspaceLog::append(&layout, ended("a", 1)).unwrap();
        assert_eq!(debt(&layout), 3);
    }

    #[test]
    fn a_changed_line_is_damage_or_a_contradiction() {
        let (_directory, layout) = place();
        WorkspaceLog::append(&layout, ended("a", 2)).unwrap();
        WorkspaceLog::append(&layout, ended("a", 1)).unwrap();
        let text = fs_err::read_to_string(layout.workspace_log()).unwrap();
        let changed = text.replacen("\"iterations\":2", "\"iterations\":0", 1);
        fs_err::write(layout.workspace_log(), &changed).unwrap();
        let error = WorkspaceLog::read(&layout).unwrap_err().to_string();
        assert!(error.contains("contradicts the copy"), "{error}");
        fs_err::write(copy_of(&layout).unwrap(), &changed).unwrap();
        let error = WorkspaceLog::read(&layout).unwrap_err().to_string();
        assert!(
            error.contains("line 2") && error.contains("chain"),
            "{error}"
        );
    }
}
