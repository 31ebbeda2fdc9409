//! The fold's result: all that decisions may depend on. Must not know files or the form of a line.

mod fold;
mod illegal;

use std::collections::BTreeSet;

pub use illegal::IllegalRecord;

use crate::{
    digest::Digest,
    event::{
        Check, CommandEnd, CommandPhase, GuardResult, Halt, Identity, RunStart, Snapshot, Verdict,
    },
    policy::Policy,
    progress::Tracker,
    units::RunMillis,
};

/// Where in its life a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before the first iteration: t0.
    Opening,
    /// Within an iteration.
    Open,
    /// Between two iterations.
    Between,
    /// A verdict ended it; the halt is still to be recorded.
    Decided,
    /// Ended.
    Halted,
}

/// What has been seen of the iteration that is under way (of t0, before the first).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// How the work command ended.
    pub exec: Option<CommandEnd>,
    /// The check's verdict.
    pub check: Option<Check>,
    /// How the collector of failures ended.
    pub failures: Option<CommandEnd>,
    /// Every guard result so far.
    pub guards: Vec<GuardResult>,
    /// Whether the guards before the check are recorded.
    pub static_guards: bool,
    /// Whether the guards after the check are recorded.
    pub result_guards: bool,
    /// Whether the failing set is recorded.
    pub progress: bool,
    /// Whether a test-determining set has been collected that no guard has used yet.
    pub integrity_collected: bool,
    /// A command that has ended and whose result is the next record.
    pub ended: Option<CommandEnd>,
}

/// A run, summed up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunState {
    /// The run's id.
    pub run_id: String,
    /// The first record.
    pub run: RunStart,
    /// The program that wrote the latest part.
    pub identity: Identity,
    /// The limits now in force: those of the first record, and what was raised since.
    pub policy: Policy,
    /// Where in its life it is.
    pub stage: Stage,
    /// The iteration under way or last ended; 0 before the first.
    pub iteration: u32,
    /// Run time of the last record.
    pub now: RunMillis,
    /// Wall clock of the first record, Unix milliseconds; for people.
    pub opened_ts_ms: i64,
    /// Wall clock of the last record, Unix milliseconds; for people and for the gap of a resume.
    pub last_ts_ms: i64,
    /// What has been seen of the iteration under way.
    pub attempt: Attempt,
    /// The command that is running.
    pub running: Option<CommandPhase>,
    /// Whether a signal asked to stop.
    pub cancelled: bool,
    /// The verdict before the first work command.
    pub baseline: Option<Check>,
    /// The test-determining set at t0.
    pub integrity_t0: Option<BTreeSet<String>>,
    /// The last known failing set.
    pub failing: Option<BTreeSet<String>>,
    /// The trajectory of the failing set.
    pub tracker: Tracker,
    /// The last verdict of the check, of whatever iteration.
    pub last_check: Option<Check>,
    /// The last verdict of the check that could be judged.
    pub last_judged: Option<Check>,
    /// The content before the first work command.
    pub t0: Option<Snapshot>,
    /// The content at the end.
    pub end: Option<Snapshot>,
    /// The decision that ended the run.
    pub verdict: Option<Verdict>,
    /// The last record of a run that ended.
    pub halt: Option<Halt>,
    /// Processes that outlived their command, over the whole run.
    pub left_processes: u64,
    /// Times the run was gone on with.
    pub resumes: u32,
    /// Records folded.
    pub records: u64,
    /// Digest of the last line's raw bytes.
    pub head: Digest,
    /// `seq` of the last record that was forced to the disk.
    pub last_sync: u64,
    base: RunMillis,
    debt_before: u32,
    completed: u32,
}

impl RunState {
    /// Whether everything that has to be looked at in this attempt has been recorded.
    #[must_use]
    pub fn observed(&self) -> bool {
        let attempt = &self.attempt;
        let commands = &self.run.commands;
        let guarded = commands.integrity.is_none() || attempt.result_guards;
        let counted = match self.stage {
            Stage::Opening => true,
            Stage::Open | Stage::Between | Stage::Decided | Stage::Halted => {
                commands.failures.is_none() || attempt.progress
            }
        };
        attempt.check.is_some() && attempt.ended.is_none() && guarded && counted
    }

    /// Whether an iteration has just ended or none has begun yet.
    #[must_use]
    pub fn at_boundary(&self) -> bool {
        match self.stage {
            Stage::Opening => self.attempt == Attempt::default(),
            Stage::Open => self.observed(),
            Stage::Between => true,
            Stage::Decided | Stage::Halted => false,
        }
    }

    /// Iterations in this workspace that nobody has acknowledged, the one that has just been observed included.
    #[must_use]
    pub fn comprehension_debt(&self) -> u32 {
        let current = u32::from(self.stage == Stage::Open && self.observed());
        self.debt_before
            .saturating_add(self.completed)
            .saturating_add(current)
    }

    /// Iterations that this run added to the workspace's debt since it was opened or last resumed.
    #[must_use]
    pub fn completed(&self) -> u32 {
        self.completed
    }

    /// Time left until the run's deadline; `None` when it has none.
    #[must_use]
    pub fn remaining(&self) -> Option<RunMillis> {
        self.policy.timeout_ms.map(|limit| self.now.until(limit))
    }
}
