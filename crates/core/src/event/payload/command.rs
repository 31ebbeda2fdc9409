//! The commands of a run: what they are for and how they ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_zero;
use crate::{digest::Digest, halt::FailureCause};

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
