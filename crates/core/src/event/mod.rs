//! What happened: the vocabulary of the receipt, and its form as lines.
//!
//! A record is a header and one event; a line is their fields in one JSON object. Readers skip fields that they do not
//! know (the vocabulary only grows) and refuse events that they do not know.

mod line;
mod payload;

pub use line::{LINE_BYTES_MAX, LineError, encode, parse};
pub use payload::{
    CandidateNote, Check, CommandEnd, CommandMark, CommandPhase, CommandStart, ContextEntry,
    Determinism, DeterminismSource, Exec, Fired, GitHead, GuardName, GuardResult, GuardStage,
    GuardStatus, Guards, Halt, IdSet, Identity, IterationStart, LeftProcesses, Outcome, Pin,
    PinSource, Pins, Progress, Raise, ReceiptRestored, Restored, Resume, RunStart, Snapshot,
    SnapshotLabel, TestCounts, TestDelta, ToolPin, TornTail, Verdict, VerdictBasis,
    VerdictDecision, WorkspaceContent,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{digest::Digest, units::RunMillis};

/// The fields that every record has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// Wall clock, Unix seconds; for people, never for decisions.
    pub ts: i64,
    /// Wall clock, Unix milliseconds.
    pub ts_ms: i64,
    /// Boot-time milliseconds since this process's `run_start` or `resume`.
    pub t_ms: RunMillis,
    /// The run.
    pub run_id: String,
    /// The iteration it belongs to; 0 is before the first.
    pub iteration: u32,
    /// What happened.
    pub event: EventName,
    /// Position in the log, from zero, without gaps.
    pub seq: u64,
    /// Digest of the previous line's raw bytes without newline; of a text that names the run for the first line.
    pub prev: Digest,
    /// Whether the line was forced to the disk before the program went on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sync: bool,
}

/// One line of the receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What every record has.
    pub header: Header,
    /// What happened.
    pub event: Event,
}

macro_rules! events {
    ($($variant:ident($payload:ty), $name:literal, $meaning:literal;)*) => {
        /// The public names of the events.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        pub enum EventName {
            $(#[doc = $meaning] #[serde(rename = $name)] $variant,)*
        }

        impl EventName {
            /// Every event, in the order of the vocabulary.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The public string.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it records, in one sentence.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }

        /// A fact from the world, or a decision taken on the facts so far.
        #[expect(clippy::large_enum_variant, reason = "records pass one at a time and are not kept")]
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Event {
            $(#[doc = $meaning] $variant($payload),)*
        }

        impl Event {
            /// The public name of what happened.
            #[must_use]
            pub const fn name(&self) -> EventName {
                match self { $(Self::$variant(_) => EventName::$variant,)* }
            }

            pub(crate) fn payload_json(&self) -> serde_json::Result<Vec<u8>> {
                match self { $(Self::$variant(payload) => serde_json::to_vec(payload),)* }
            }

            pub(crate) fn from_json(name: EventName, line: &[u8]) -> serde_json::Result<Self> {
                match name {
                    $(EventName::$variant => serde_json::from_slice::<$payload>(line).map(Self::$variant),)*
                }
            }

            /// The JSON Schema of each event's own fields, by name.
            pub fn schemas(generator: &mut schemars::SchemaGenerator) -> Vec<(EventName, schemars::Schema)> {
                vec![$((EventName::$variant, generator.subschema_for::<$payload>()),)*]
            }
        }
    };
}

events! {
    RunStart(RunStart), "run_start", "The run was opened, with every limit and pin that decides it.";
    Resume(Resume), "resume", "Another process went on with the run.";
    Raise(Raise), "raise", "A person raised a limit.";
    IntegrityBaseline(IdSet), "integrity_baseline", "The test-determining set at t0.";
    Snapshot(Snapshot), "snapshot", "The content of the workspace was saved.";
    Baseline(Check), "baseline", "The check before the first work command.";
    IterStart(IterationStart), "iter_start", "An iteration began.";
    CommandStart(CommandStart), "command_start", "A command is about to be started; written before it is.";
    CommandEnd(CommandEnd), "command_end", "A command and everything it started is gone.";
    CommandTimeout(CommandMark), "command_timeout", "A command was ended because its time was over.";
    CommandCancelled(CommandMark), "command_cancelled", "A command was ended because the governor was asked to stop.";
    Exec(Exec), "exec", "The work command's result.";
    IntegrityViolation(IdSet), "integrity_violation", "Members of the test-determining set are gone.";
    Guards(Guards), "guards", "The guards were evaluated.";
    Check(Check), "check", "The check's verdict on this iteration's content.";
    Progress(Progress), "progress", "The failing set after this iteration.";
    CandidateAttempted(CandidateNote), "candidate_attempted", "The content that the check is about to judge.";
    CandidateAccepted(CandidateNote), "candidate_accepted", "The content became the accepted one.";
    CandidateRejected(CandidateNote), "candidate_rejected", "The content was refused.";
    CandidateRestored(Restored), "candidate_restored", "The workspace was put back to earlier content.";
    ReceiptRestored(ReceiptRestored), "receipt_restored", "The store had been deleted and was written again from the outside copy.";
    Verdict(Verdict), "verdict", "The rules' decision on the records before this one.";
    Halt(Halt), "halt", "The run ended; nothing but a resume may follow.";
}
