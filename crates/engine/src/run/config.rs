//! What a run is asked to do, resolved: no flag, environment or default is looked up after this.

use std::{ffi::OsString, path::PathBuf};

use loopexec_core::{
    event::{Identity, Pins, WorkspaceContent},
    policy::{Commands, Policy},
    state::RunState,
    units::{MicroUsd, RunMillis},
};
use loopexec_os::signals::Signals;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Until a rule ends the run.
    ToTheEnd,
    /// One iteration; the run stays open when no rule fired.
    OneIteration,
}

/// What a person raises at a resume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResumeOptions {
    /// Who raises; needed for any of the others.
    pub reviewer: Option<String>,
    /// The new cap.
    pub max_iterations: Option<u32>,
    /// The new total time.
    pub timeout_ms: Option<RunMillis>,
    /// The digest that the flags given now yield; `None` when none were given.
    pub policy_hash: Option<loopexec_core::digest::Digest>,
}

/// A new run, or one to go on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// A new one.
    Fresh,
    /// The recorded one of this id.
    Resume(ResumeOptions),
}

/// A run, resolved.
#[derive(Debug)]
pub struct RunConfig {
    /// The workspace, canonical.
    pub workdir: PathBuf,
    /// Directory for the state of programs, where a second copy of the receipt is kept.
    pub state_home: Option<PathBuf>,
    /// The run.
    pub run_id: String,
    /// A new run or a recorded one.
    pub start: Start,
    /// How far to go.
    pub extent: Extent,
    /// The limits.
    pub policy: Policy,
    /// The command strings.
    pub commands: Commands,
    /// Model and sampling pins.
    pub pins: Pins,
    /// Declared cost.
    pub cost_declared: Option<MicroUsd>,
    /// Files that were the prompt's context, as given.
    pub context_files: Vec<PathBuf>,
    /// The environment that the program was started with.
    pub environment: Vec<(OsString, OsString)>,
    /// The person's own ignore file of git.
    pub excludes_file: Option<PathBuf>,
    /// This program.
    pub identity: Identity,
    /// Signal handlers, installed once.
    pub signals: Signals,
}

/// What is in the workspace at the end, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceBlock {
    /// Whose content it is.
    pub content: WorkspaceContent,
    /// Digest of its manifest; empty when it could not be read.
    pub digest: String,
    /// The command that helps most now.
    pub next_command: String,
}

/// How a run ended, or where it stands after one step.
#[derive(Debug)]
pub struct RunEnd {
    /// The fold.
    pub state: RunState,
    /// The receipt.
    pub receipt: PathBuf,
    /// Where the run that had this id before was moved.
    pub archived: Option<PathBuf>,
    /// What is in the workspace.
    pub workspace: WorkspaceBlock,
    /// What the person should know, in the order it came up.
    pub notes: Vec<String>,
}
