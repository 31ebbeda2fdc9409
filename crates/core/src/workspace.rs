//! Human and outside acts on a workspace: the vocabulary of `workspace.jsonl`, and the debt that is its fold.
//!
//! Same line format and chain as a receipt; the chain's first link names the workspace log instead of a run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// What the first line of the workspace log names as its predecessor.
#[must_use]
pub fn genesis() -> Digest {
    Digest::of(b"loopexec-workspace-v1")
}

/// What a person, or something outside the run, did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActName {
    /// A person acknowledged the changes.
    Ack,
    /// A run ended; its iterations become debt.
    RunEnded,
    /// A receipt was signed.
    Attested,
    /// A limit was raised.
    Raise,
}

/// One line of the workspace log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Act {
    /// Wall clock, Unix seconds.
    pub ts: i64,
    /// Wall clock, Unix milliseconds.
    pub ts_ms: i64,
    /// The run it concerns.
    pub run_id: String,
    /// What was done.
    pub event: ActName,
    /// Position, from zero.
    pub seq: u64,
    /// Digest of the previous line's raw bytes without newline.
    pub prev: Digest,
    /// Who, for acts of people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewer: Option<String>,
    /// `run_ended`: iterations of the run so far. `ack`: iterations that it clears.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u32>,
    /// `ack`: content at the acknowledgement before, or at the first t0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_sha256: Option<Digest>,
    /// `ack`: content that was acknowledged. `run_ended`: content at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_sha256: Option<Digest>,
    /// `ack`: digest of the difference between the two contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference_sha256: Option<Digest>,
    /// `run_ended`: content at t0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t0_sha256: Option<Digest>,
    /// `run_ended`, `attested`: the receipt's last line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Digest>,
    /// `run_ended`: the halt reason, or absent for a step that did not halt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halt_reason: Option<String>,
    /// `run_ended`: digest of the limits and commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_hash: Option<Digest>,
    /// `run_ended`: wall clock of the run's first record, Unix milliseconds: tells a run that was resumed from another of its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_ts_ms: Option<i64>,
    /// `attested`: fingerprint of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// What else there is to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The fold of a workspace log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Debt {
    /// Iterations since the last acknowledgement, by run and archive-safe order of first appearance.
    unread: BTreeMap<String, u32>,
    /// Content of the last acknowledgement.
    pub acknowledged: Option<Digest>,
    /// Content at the end of the latest run.
    pub latest: Option<Digest>,
    /// Content at t0 of the first run since the last acknowledgement.
    pub first_t0: Option<Digest>,
}

impl Debt {
    /// Takes one act.
    pub fn apply(&mut self, act: &Act) {
        match act.event {
            ActName::Ack => {
                self.unread.clear();
                self.acknowledged = act.to_sha256.or(self.latest);
                self.first_t0 = None;
            }
            ActName::RunEnded => {
                let unread = self.unread.entry(act.run_id.clone()).or_default();
                *unread = unread.saturating_add(act.iterations.unwrap_or(0));
                self.latest = act.to_sha256.or(self.latest);
                self.first_t0 = self.first_t0.or(act.t0_sha256);
            }
            ActName::Attested | ActName::Raise => {}
        }
    }

    /// Iterations that nobody has acknowledged.
    #[must_use]
    pub fn iterations(&self) -> u32 {
        self.unread
            .values()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Runs with unacknowledged iterations.
    pub fn runs(&self) -> impl Iterator<Item = &str> {
        self.unread.keys().map(String::as_str)
    }
}
