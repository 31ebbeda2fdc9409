//! What was looked at: guards, the check's verdict, the failing set, candidates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CommandPhase;
use crate::{digest::Digest, halt::FailureCause};

/// When the guards were evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GuardStage {
    /// Before the check.
    Static,
    /// After the check.
    Result,
}

/// How a guard stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GuardStatus {
    /// As at t0, or better.
    Held,
    /// Broken, or could not be evaluated where that counts.
    Violated,
    /// Says nothing here.
    NotApplicable,
}

/// Which guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GuardName {
    /// The test-determining set keeps every member of t0.
    Integrity,
    /// The receipt, its state and the store are as the governor wrote them.
    Receipt,
}

/// One guard, compared with t0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuardResult {
    /// Which.
    pub name: GuardName,
    /// How it stands.
    pub status: GuardStatus,
    /// What was broken, at most a few names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subject: Vec<String>,
    /// At t0.
    pub t0: String,
    /// Now.
    pub now: String,
    /// Why it is violated, where that is not a missing member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<FailureCause>,
}

/// The guards were evaluated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Guards {
    /// Before or after the check.
    pub stage: GuardStage,
    /// Each guard that is on.
    pub results: Vec<GuardResult>,
}

/// The three-way verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Green.
    Pass,
    /// Red.
    Reject,
    /// Neither: no further iteration is paid for on it.
    CannotJudge,
}

/// What the verdict rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerdictBasis {
    /// The exit code alone.
    ExitCode,
    /// Exit code, fresh report and collected set agree.
    Report,
}

/// Tests of a set by status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestCounts {
    /// Passing ids.
    pub passed: Vec<String>,
    /// Failing ids.
    pub failed: Vec<String>,
    /// Skipped ids.
    pub skipped: Vec<String>,
}

/// Tests whose status changed since the last set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestDelta {
    /// Now passing.
    pub to_passed: Vec<String>,
    /// Now failing.
    pub to_failed: Vec<String>,
    /// Now skipped.
    pub to_skipped: Vec<String>,
    /// Not there before.
    pub added: Vec<String>,
    /// Not there any more.
    pub removed: Vec<String>,
}

/// The check's verdict, at t0 (`baseline`) or after an iteration (`check`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Exit code; absent when a signal ended it or it never started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// What the verdict rests on.
    pub verdict_basis: VerdictBasis,
    /// The verdict.
    pub outcome: Outcome,
    /// Why it could not be judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<FailureCause>,
    /// 0: the first run of this iteration; 1, 2: confirmations.
    pub run: u32,
    /// Digest of the normalised output.
    pub output_sha256: Digest,
    /// Digest of the output after the stable normaliser.
    pub stable_output_sha256: Digest,
    /// Digest of the same lines in whatever order: parallel tests print in another order each time.
    pub unordered_output_sha256: Digest,
    /// Digest of the verdict and its ids, with a reporter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict_sha256: Option<Digest>,
    /// Version of the stable normaliser.
    pub normaliser: u32,
    /// Manifest of the content that was judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate_sha256: Option<Digest>,
    /// Paths that appeared while the check ran; left in place, no part of the content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artefacts: Vec<String>,
    /// Paths of the content that the check changed or removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_by_check: Vec<String>,
    /// Ids by status, on the baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestCounts>,
    /// Ids whose status changed, afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<TestDelta>,
}

/// The failing set after an iteration, as a difference from the last known one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// |F|: how many fail; the name is the public tool's.
    pub exit_code: u32,
    /// Digest of the sorted set; the name is the public tool's.
    pub detail: Digest,
    /// Failing now, not in the last known set.
    pub added: Vec<String>,
    /// In the last known set, not failing now.
    pub removed: Vec<String>,
}

/// A candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CandidateNote {
    /// Its number: the iteration that made it.
    pub n: u32,
    /// Id of the git tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// Digest of the sidecar manifest.
    pub manifest_sha256: Digest,
}

/// The workspace was put back to earlier content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Restored {
    /// The candidate whose content it is; 0 is t0.
    pub n: u32,
    /// Digest of the sidecar manifest.
    pub manifest_sha256: Digest,
}

/// The store had been deleted and was written again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiptRestored {
    /// The phase after which it was missing.
    pub phase: CommandPhase,
    /// Lines that were written again.
    pub records: u64,
}
