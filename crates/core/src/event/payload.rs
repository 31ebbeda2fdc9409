//! The fields that each event adds to the common ones. Names are public; what is absent is left out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    digest::Digest,
    halt::{FailureCause, HaltReason},
    policy::{Commands, Mode, Policy, RunKind},
    units::{MicroUsd, RunMillis},
};

/// Which program wrote the record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    /// Version of the program.
    pub version: String,
    /// Version of the public contract.
    pub contract: String,
    /// Revision of the rules.
    pub rules_revision: u32,
    /// Commit it was built from, or `unknown`.
    pub commit: String,
    /// Whether the source differed from that commit.
    pub dirty: bool,
    /// Target triple.
    pub target: String,
    /// Compiler version.
    pub rustc: String,
}

/// Where a pinned value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PinSource {
    /// A person or a configuration said so.
    Declared,
    /// The tool or the agent reported it.
    Reported,
    /// The governor saw it itself.
    Observed,
}

/// A value that determines the verdict, with its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pin {
    /// The value, as text.
    pub value: String,
    /// Where it comes from.
    pub source: PinSource,
}

/// Model and sampling pins; what is absent is unknown, not default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pins {
    /// Who serves the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Pin>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<Pin>,
    /// Its version; a mutable alias is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Pin>,
    /// Its quantization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantization: Option<Pin>,
    /// What runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Pin>,
    /// Where it is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Pin>,
    /// Sampling temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Pin>,
    /// Nucleus sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<Pin>,
    /// Sampling seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<Pin>,
    /// Most tokens of one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<Pin>,
}

impl Pins {
    /// Each pin with its public name, in declared order.
    #[must_use]
    pub fn entries(&self) -> [(&'static str, Option<&Pin>); 10] {
        [
            ("provider", self.provider.as_ref()),
            ("model_id", self.model_id.as_ref()),
            ("version", self.version.as_ref()),
            ("quantization", self.quantization.as_ref()),
            ("runtime", self.runtime.as_ref()),
            ("endpoint", self.endpoint.as_ref()),
            ("temperature", self.temperature.as_ref()),
            ("top_p", self.top_p.as_ref()),
            ("seed", self.seed.as_ref()),
            ("max_tokens", self.max_tokens.as_ref()),
        ]
    }
}

/// A program that the check's command string resolves to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolPin {
    /// The word in the command string.
    pub name: String,
    /// Where it was found; absent when it could not be resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Digest of that file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Digest>,
}

/// A context file: path and digest, or `missing`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextEntry {
    /// The path as it was given.
    pub path: String,
    /// Its digest in hexadecimal, or `missing`.
    pub sha256: String,
}

/// The commit that the workspace stood on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GitHead {
    /// The commit; absent on an unborn branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Whether worktree or index differed from it.
    pub dirty: bool,
}

/// The first record: all that determines the verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunStart {
    /// Which program opened the run.
    pub identity: Identity,
    /// Version of the public contract.
    pub contract: String,
    /// Revision of the rules that decide it.
    pub rules_revision: u32,
    /// How it decides that it is done.
    pub mode: Mode,
    /// Legacy or tracked.
    pub kind: RunKind,
    /// Every resolved limit.
    pub policy: Policy,
    /// Digest of mode, kind, commands and limits.
    pub policy_hash: Digest,
    /// The command strings.
    pub commands: Commands,
    /// Absolute path of the workspace.
    pub workdir: String,
    /// Model and sampling pins.
    pub pins: Pins,
    /// Declared cost, metadata only; never shown beside metered actuals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_declared_microusd: Option<MicroUsd>,
    /// Digest of the check's environment: sorted names and values, secrets replaced.
    pub environment_sha256: Digest,
    /// The programs that the check's command string names.
    pub tools: Vec<ToolPin>,
    /// The commit, in a git workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<GitHead>,
    /// Files that were the prompt's context.
    pub context_manifest: Vec<ContextEntry>,
    /// Limits that are not set.
    pub unbounded: Vec<String>,
    /// Iterations in this workspace that nobody has acknowledged when the run starts.
    pub comprehension_debt: u32,
    /// How descendants that escape their session are ended: `subreaper`, `subreaper+cgroup`, `group`.
    pub containment: String,
    /// Whether a second copy of the receipt is kept outside the workspace.
    pub anchor: bool,
    /// Last line of the run that stood under this id before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_head: Option<Digest>,
}

/// Bytes behind the last good line, moved aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TornTail {
    /// How many.
    pub bytes: u64,
    /// Where they are kept, below `.loopexec/`.
    pub kept: String,
}

/// Another process went on with the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Resume {
    /// The record after which it goes on.
    pub from_seq: u64,
    /// Wall time since that record, milliseconds; negative when the clock was set back, and then counted as zero.
    pub gap_ms: i64,
    /// Which program went on.
    pub identity: Identity,
    /// The command that was running when the earlier process died, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<CommandPhase>,
    /// What lay behind the last good line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub torn: Option<TornTail>,
    /// Records that had been lost in the workspace and were taken from the outside copy.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub from_anchor: u64,
    /// Iterations in this workspace that nobody has acknowledged.
    pub comprehension_debt: u32,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A person raised a limit; nothing is reset by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Raise {
    /// The new cap of iterations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    /// The new total time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<RunMillis>,
    /// Who.
    pub reviewer: String,
}

/// A set of ids, or the part of one that matters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IdSet {
    /// Sorted by bytes, unique.
    pub ids: Vec<String>,
    /// Digest of the sorted lines.
    pub set_sha256: Digest,
}

/// Which content a snapshot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotLabel {
    /// Before the first work command.
    T0,
    /// At the end.
    Final,
}

/// The content of the workspace was saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// Which content.
    pub label: SnapshotLabel,
    /// Digest of the sidecar manifest.
    pub manifest_sha256: Digest,
    /// Id of the git tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// Id of the commit that holds worktree and index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Reference in the user's repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Files in it.
    pub files: u64,
}

/// What a command of the program is for.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CommandPhase {
    /// The work command.
    Exec,
    /// The check.
    Check,
    /// The collector of open failures.
    Failures,
    /// The collector of the test-determining set.
    Integrity,
}

impl CommandPhase {
    /// The public string.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Check => "check",
            Self::Failures => "failures",
            Self::Integrity => "integrity",
        }
    }
}

/// An iteration began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IterationStart {}

/// A command is about to be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandStart {
    /// What for.
    pub phase: CommandPhase,
}

/// Processes that outlived their command and were ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftProcesses {
    /// How many.
    pub count: u64,
    /// The first few of their names.
    pub names: Vec<String>,
}

/// A command and everything it started is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandEnd {
    /// What for.
    pub phase: CommandPhase,
    /// Exit code; absent when a signal ended it or it never started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Why the governor ended it, or why it could not be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<FailureCause>,
    /// Wall time, sleep included.
    pub duration_ms: u64,
    /// Processor time of the whole tree.
    pub cpu_ms: u64,
    /// Largest resident set.
    pub max_rss_kib: u64,
    /// Bytes on standard output.
    pub stdout_bytes: u64,
    /// Bytes on standard error.
    pub stderr_bytes: u64,
    /// Whether more was printed than is kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub output_truncated: bool,
    /// What outlived the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_processes: Option<LeftProcesses>,
    /// Whether the command ended its own supervisor; what it left was then ended by other means.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guardian_lost: bool,
    /// Processes that could not be ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unkillable: u64,
    /// Why a collector's output was refused; its text is in the diagnostics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// The governor ended a command, or was told to stop between two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandMark {
    /// What the command was for; absent between two commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<CommandPhase>,
    /// Why.
    pub cause: FailureCause,
    /// The signal that the governor received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

/// The work command's result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exec {
    /// Exit code; absent when a signal ended it or it never started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Digest of standard output, secrets replaced.
    pub stdout_sha256: Digest,
    /// Digest of standard error, secrets replaced.
    pub stderr_sha256: Digest,
}

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

/// What the rules decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerdictDecision {
    /// Another iteration may start.
    Continue,
    /// The run ends.
    Halt,
}

/// A rule that fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fired {
    /// What it is called.
    pub reason: HaltReason,
    /// Which phase failed, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<FailureCause>,
}

/// Where the knowledge about the check's determinism comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeterminismSource {
    /// A probe before the run.
    Probe,
    /// Re-runs within the run.
    InLoop,
    /// Nothing is known.
    None,
}

/// What is known about the check's determinism when the verdict is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Determinism {
    /// Comparisons on an identical key.
    pub samples: u32,
    /// Of which contradicted.
    pub disagreements: u32,
    /// Upper bound of the disagreement rate, parts per million; absent when nothing is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper_bound_ppm: Option<u32>,
    /// Confidence of the bound, parts per million.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence_ppm: Option<u32>,
    /// How the bound was computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Digest of tree, environment, tools and command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_digest: Option<Digest>,
    /// Where it comes from.
    pub source: DeterminismSource,
}

impl Determinism {
    /// Nothing is known.
    pub const NONE: Self = Self {
        samples: 0,
        disagreements: 0,
        upper_bound_ppm: None,
        confidence_ppm: None,
        method: None,
        key_digest: None,
        source: DeterminismSource::None,
    };
}

/// The rules' decision on the records before this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Go on, or end.
    pub decision: VerdictDecision,
    /// Every rule that fired, in order of precedence.
    pub fired: Vec<Fired>,
    /// The rule that names the halt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halt_reason: Option<HaltReason>,
    /// Which phase failed, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_cause: Option<FailureCause>,
    /// What is known about the check's determinism.
    pub determinism: Determinism,
}

/// What is in the workspace at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceContent {
    /// What was there before the first work command.
    T0,
    /// The accepted candidate.
    Accepted,
    /// The best candidate.
    Best,
    /// Whatever the last attempt left.
    LastAttempt,
}

/// The run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Halt {
    /// Why.
    pub halt_reason: HaltReason,
    /// The exit class of the reason.
    pub exit: u8,
    /// Which phase failed, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_cause: Option<FailureCause>,
    /// The reason once more, where the public tool puts it.
    pub detail: HaltReason,
    /// What is in the workspace.
    pub content: WorkspaceContent,
    /// Manifest of it; absent when it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_sha256: Option<Digest>,
}

impl Halt {
    /// Whether the run may be gone on with.
    #[must_use]
    pub fn continuable(&self) -> bool {
        self.halt_reason.continuable(self.failure_cause)
    }
}
