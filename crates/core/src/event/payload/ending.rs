//! What was decided, and how the run ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{digest::Digest, halt::FailureCause, halt::HaltReason};

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
