//! Why a record cannot follow.

use crate::{event::EventName, policy::PolicyError};

/// The log cannot have been written by this program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IllegalRecord {
    /// A log begins with `run_start`, and has only one.
    #[error("a receipt begins with one run_start, at position 0")]
    NotOpened,
    /// The rules that decided it are newer than this program.
    #[error("rules revision {found} is newer than the {known} that this program knows")]
    NewerRules {
        /// What the log says.
        found: u32,
        /// What this program knows.
        known: u32,
    },
    /// A limit that no run can have had.
    #[error("the recorded limits are impossible: {0}")]
    Policy(#[from] PolicyError),
    /// The recorded digest of the limits is not theirs.
    #[error("policy_hash is not the digest of the recorded limits")]
    PolicyHash,
    /// A record is missing or doubled.
    #[error("expected record {expected}, found {found}")]
    OutOfSequence {
        /// What should have come.
        expected: u64,
        /// What came.
        found: u64,
    },
    /// A record does not name the line before it.
    #[error("record {seq} does not continue the chain: it names another line before it")]
    BrokenChain {
        /// The record.
        seq: u64,
    },
    /// A record of another run.
    #[error("record {seq} belongs to the run {found:?}")]
    WrongRun {
        /// The record.
        seq: u64,
        /// Its run.
        found: String,
    },
    /// A record of another iteration.
    #[error("record {seq} is of iteration {found}, but iteration {expected} is under way")]
    WrongIteration {
        /// The record.
        seq: u64,
        /// What should have come.
        expected: u32,
        /// What came.
        found: u32,
    },
    /// Time went back.
    #[error("record {seq} is earlier than the one before it")]
    TimeWentBack {
        /// The record.
        seq: u64,
    },
    /// The rules lead to another event here.
    #[error("record {seq} ({}) cannot follow here: {why}", event.name())]
    OutOfPlace {
        /// The record.
        seq: u64,
        /// What it says happened.
        event: EventName,
        /// What is wrong with that.
        why: &'static str,
    },
    /// A recorded fact contradicts the records before it.
    #[error("record {seq} ({}) contradicts the records before it: {why}", event.name())]
    Contradiction {
        /// The record.
        seq: u64,
        /// What it says happened.
        event: EventName,
        /// What is wrong with that.
        why: &'static str,
    },
    /// It records another decision than the rules give.
    #[error("record {seq} decides {recorded}; the rules give {derived}")]
    Decision {
        /// The record.
        seq: u64,
        /// What it says.
        recorded: String,
        /// What the rules say.
        derived: String,
    },
}
