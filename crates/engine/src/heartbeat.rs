//! The liveness marker that a watcher reads: who runs, in which iteration and phase, when it last moved.
//!
//! Must not decide; a lost heartbeat stops nothing.

use std::path::PathBuf;

use loopexec_core::event::CommandPhase;
use loopexec_os::{
    clock,
    durable::{DurableError, PRIVATE_FILE, SyncMode, replace_file},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How often it is refreshed while a command runs, milliseconds (contract 2.4).
pub const REFRESH_MS: u64 = 5_000;

/// Closest that two heartbeats follow each other when commands are short, milliseconds.
const MOVED_MS: u64 = 1_000;

/// One heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Heartbeat {
    /// Wall clock, Unix seconds.
    pub ts: i64,
    /// The governor.
    pub pid: u32,
    /// The run.
    #[serde(default)]
    pub run_id: String,
    /// The iteration.
    pub iteration: u32,
    /// `exec`, `check`, `failures`, `integrity`, or empty between commands.
    pub phase: String,
    /// `running` or `ended`.
    pub state: String,
}

/// Writes heartbeats of one run.
#[derive(Debug)]
pub struct Pulse {
    path: PathBuf,
    run_id: String,
    written: u64,
    /// What the last one said.
    said: (u32, Option<CommandPhase>),
}

impl Pulse {
    /// Heartbeats at `path`.
    #[must_use]
    pub fn new(path: PathBuf, run_id: &str) -> Self {
        Self {
            path,
            run_id: run_id.to_owned(),
            written: 0,
            said: (0, None),
        }
    }

    /// Writes one now.
    ///
    /// # Errors
    ///
    /// When the disk does not take it.
    pub fn beat(
        &mut self,
        iteration: u32,
        phase: Option<CommandPhase>,
        ended: bool,
    ) -> Result<(), DurableError> {
        self.written = clock::boot_millis();
        self.said = (iteration, phase);
        let beat = Heartbeat {
            ts: clock::wall_millis().div_euclid(1000),
            pid: std::process::id(),
            run_id: self.run_id.clone(),
            iteration,
            phase: phase.map_or("", CommandPhase::name).to_owned(),
            state: if ended { "ended" } else { "running" }.to_owned(),
        };
        let bytes = serde_json::to_vec(&beat).unwrap_or_default();
        replace_file(&self.path, &bytes, PRIVATE_FILE, SyncMode::None)
    }

    /// Writes one for a command that is starting, unless the last is less than a second old: no watcher looks closer.
    ///
    /// # Errors
    ///
    /// As [`Pulse::beat`].
    pub fn moved(&mut self, iteration: u32, phase: CommandPhase) -> Result<(), DurableError> {
        if self.written > 0 && clock::boot_millis().saturating_sub(self.written) < MOVED_MS {
            return Ok(());
        }
        self.beat(iteration, Some(phase), false)
    }

    /// Writes one when the last is old enough.
    ///
    /// # Errors
    ///
    /// As [`Pulse::beat`].
    pub fn refresh(&mut self, iteration: u32, phase: CommandPhase) -> Result<(), DurableError> {
        let wait = if self.said == (iteration, Some(phase)) {
            REFRESH_MS
        } else {
            MOVED_MS
        };
        if clock::boot_millis().saturating_sub(self.written) < wait {
            return Ok(());
        }
        self.beat(iteration, Some(phase), false)
    }
}
