//! Before the first command: who runs, with which limits and pins, on which content.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CommandPhase, is_zero};
use crate::{
    digest::Digest, policy::Commands, policy::Mode, policy::Policy, policy::RunKind,
    units::MicroUsd, units::RunMillis,
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
