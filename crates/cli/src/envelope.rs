//! The JSON envelope: exactly one object on standard output, whatever happens (contract 1.3).
//!
//! Additive: a field never changes its meaning. What is absent is left out; the first three and `errors` are always there.

use std::path::Path;

use loopexec_core::event::Identity;
use loopexec_engine::run::WorkspaceBlock;
use schemars::JsonSchema;
use serde::Serialize;

use crate::identity::VERSION;

/// One object.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Envelope {
    /// `loopexec`.
    pub(crate) tool: &'static str,
    /// Version of the program.
    pub(crate) version: &'static str,
    /// `ok`, `initialized`, `halted`, `verified`, `attested`, `error`, …
    pub(crate) status: &'static str,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run_id: Option<String>,
    /// Its iteration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) iteration: Option<u32>,
    /// Why it stopped, or why the command could not do its work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) halt_reason: Option<String>,
    /// Which phase failed, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure_cause: Option<String>,
    /// Exit code of the last check; there whenever one ran to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) check_exit: Option<i32>,
    /// Path of the receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) receipt: Option<String>,
    /// Path of the best candidate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) best_candidate: Option<String>,
    /// Where the run that had this id before was moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) archived: Option<String>,
    /// What to do about a halt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<String>,
    /// Why, in one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    /// Whether the evidence bears the verdict out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) verified: Option<bool>,
    /// A signature, or its path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signature: Option<String>,
    /// Which program this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<Identity>,
    /// What is in the workspace, and what to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<WorkspaceBlock>,
    /// The block of the command, under the command's name.
    #[serde(flatten)]
    pub(crate) block: Block,
    /// What the person should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
    /// What went wrong.
    pub(crate) errors: Vec<String>,
}

/// The typed block of a command.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Block {
    /// `init`: the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) initialized: Option<String>,
    /// `run --dry-run`: what would run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<crate::command::Plan>,
    /// `status`: where a run stands.
    #[serde(rename = "state", skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<Box<loopexec_engine::snapshot::StateView>>,
    /// `status`: whether a governor works on it now; depends on now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-volatile" = true))]
    pub(crate) live: Option<command_blocks::Live>,
    /// `report`: the digest of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) report: Option<Box<loopexec_engine::report::Report>>,
    /// `ack`: what was, or would be, acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ack: Option<loopexec_engine::ack::Acknowledgement>,
    /// `attest`: the files, and the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attest: Option<crate::command::Attestation>,
    /// `completions`: the shell's text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) completions: Option<String>,
    /// `schema`: a JSON Schema, or the names of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) schema: Option<serde_json::Value>,
    /// `demo`: what it did, and where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) demo: Option<crate::command::Demo>,
    /// `replay`: the answer, the level that matched, and what differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replay: Option<Box<loopexec_engine::replay::Replay>>,
    /// `runs`: the list, or what was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) runs: Option<Box<crate::command::RunsBlock>>,
    /// `verify`: the five facts, kept apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) evidence: Option<loopexec_engine::evidence::Evidence>,
    /// `verify`: how strong the verdict is; what is not shown first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) strength: Vec<loopexec_engine::evidence::Strength>,
    /// `verify`, `check`: each thing that was looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) checks: Vec<loopexec_engine::verify::Item>,
}

pub(crate) use crate::command::blocks as command_blocks;

impl Envelope {
    /// An object with this status.
    pub(crate) fn new(status: &'static str) -> Self {
        Self {
            tool: "loopexec",
            version: VERSION,
            status,
            ..Self::default()
        }
    }

    /// A path as the envelope writes it.
    pub(crate) fn path(path: &Path) -> Option<String> {
        Some(path.to_string_lossy().into_owned())
    }

    /// The line on standard output, with its newline.
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_else(|_| {
            br#"{"tool":"loopexec","version":"","status":"error","errors":["the result could not be written as JSON"]}"#.to_vec()
        });
        line.push(b'\n');
        line
    }
}
