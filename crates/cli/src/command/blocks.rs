//! The typed blocks of the envelope that belong to no single command's engine type.

use schemars::JsonSchema;
use serde::Serialize;

/// Whether a governor works on the workspace now.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Live {
    /// Whether one does.
    pub(crate) running: bool,
    /// Its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<u32>,
    /// The command that is running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) phase: Option<String>,
    /// Age of the heartbeat, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) heartbeat_age_s: Option<i64>,
}
