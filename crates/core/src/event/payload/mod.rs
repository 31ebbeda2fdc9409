//! The fields that each event adds to the common ones. Names are public; what is absent is left out.

mod command;
mod ending;
mod observation;
mod opening;

pub use command::{
    CommandEnd, CommandMark, CommandPhase, CommandStart, Exec, IterationStart, LeftProcesses,
};
pub use ending::{
    Determinism, DeterminismSource, Fired, Halt, Verdict, VerdictDecision, WorkspaceContent,
};
pub use observation::{
    CandidateNote, Check, GuardName, GuardResult, GuardStage, GuardStatus, Guards, Outcome,
    Progress, ReceiptRestored, Restored, TestCounts, TestDelta, VerdictBasis,
};
pub use opening::{
    ContextEntry, GitHead, IdSet, Identity, Pin, PinSource, Pins, Raise, Resume, RunStart,
    Snapshot, SnapshotLabel, ToolPin, TornTail,
};

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
