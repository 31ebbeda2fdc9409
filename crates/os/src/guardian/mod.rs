//! One supervised slot: commands run below a guardian, and nothing of them outlives it.
//!
//! The guardian is this program again, in a session of its own. It starts commands on request, is the parent every orphan falls back to,
//! sweeps after each command until the kernel says that no child is left, and ends everything when the socket to its governor closes,
//! which it does by any death of the governor. The governor's side is one poll loop on the calling thread.
//! This module must not know what commands are for.

mod registry;
mod server;
mod slot;
mod socket;
mod spawn;
mod sweep;
mod watch;
mod wire;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

pub use crate::capture::{Captured, HALF as CAPTURED_HALF};
pub use server::guardian_main;
pub use slot::Guardian;

use crate::signals::{Signal, SignalError};

/// The first argument that makes this program a guardian: see [`guardian_main`].
pub const ARGUMENT: &str = "__guardian";

/// How a guardian is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardianOptions {
    /// The program whose `main` calls [`guardian_main`] for [`ARGUMENT`].
    pub program: PathBuf,
    /// Whether to make a control group.
    pub cgroup: CgroupUse,
}

impl GuardianOptions {
    /// This program itself, also when its file was replaced or removed since it was started.
    #[must_use]
    pub fn this_program() -> Self {
        Self {
            program: PathBuf::from("/proc/self/exe"),
            cgroup: CgroupUse::WhereAllowed,
        }
    }
}

/// Whether a slot has a control group of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupUse {
    /// Where the system lets us make one.
    WhereAllowed,
    /// Not at all: the sweep goes by the lists of children alone.
    Never,
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// Program and arguments. A program without a slash is looked up in the `PATH` of `env`.
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory.
    pub directory: PathBuf,
    /// What the command reads.
    pub stdin: Stdin,
}

/// What a command reads from its standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: `/dev/null`.
    Empty,
    /// These bytes, then the end. A command that does not read them is no failure.
    Bytes(Vec<u8>),
}

/// The bounds of one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From the start until everything is told to end.
    pub timeout: Option<Duration>,
    /// The same for this long without output and without the tree taking processor time. Noticed at most an eighth later.
    pub idle: Option<Duration>,
    /// From `SIGTERM` to `SIGKILL`. Zero: `SIGKILL` at once.
    pub grace: Duration,
    /// How often [`Observer::tick`] is called at least.
    pub tick: Duration,
}

/// A stream a command writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// How a running command is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// Since the start, in milliseconds.
    pub elapsed_ms: u64,
    /// Since the last output, or the start, in milliseconds.
    pub silent_ms: u64,
    /// Bytes of standard output so far.
    pub stdout_bytes: u64,
    /// Bytes of standard error so far.
    pub stderr_bytes: u64,
}

/// Hears of a command while it runs. Called on the thread that runs it, so what it does delays the reading.
pub trait Observer {
    /// All bytes of both streams, in the order of each.
    fn output(&mut self, stream: Stream, bytes: &[u8]);
    /// Time passes.
    fn tick(&mut self, activity: &Activity);
}

/// How the command itself ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It never ran.
    NotStarted {
        /// The error number; `ECANCELED` when a signal was pending before the start.
        errno: i32,
        /// What could not be executed or entered, and why.
        reason: String,
    },
    /// Its guardian was lost before it could tell, or it cannot be killed.
    Unknown,
}

/// Why the command was told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// [`Limits::timeout`].
    Deadline,
    /// [`Limits::idle`].
    Idle,
    /// The program got this signal.
    Cancelled(Signal),
}

/// Processes of the command that still lived when it had ended, and were killed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftProcesses {
    /// How many.
    pub count: u64,
    /// The names of the first 16 seen.
    pub names: Vec<String>,
}

/// A command that is over, with everything below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How the command itself ended.
    pub exit: Exit,
    /// Whether it was told to.
    pub interruption: Option<Interruption>,
    /// What it wrote.
    pub stdout: Captured,
    /// What it wrote as diagnostics.
    pub stderr: Captured,
    /// From the request to the end of the command itself, in milliseconds.
    pub duration_ms: u64,
    /// Processor time of the whole tree, in milliseconds.
    pub cpu_ms: u64,
    /// Largest resident set of any process of the tree, in KiB.
    pub max_rss_kib: u64,
    /// What it left behind.
    pub left_processes: LeftProcesses,
    /// Whether the guardian died before the sweep was done; the governor then ended what came back to it.
    /// `left_processes`, `cpu_ms` and `max_rss_kib` are then of whatever came back, and where two slots lose their guardians at once they
    /// are not told apart.
    pub guardian_lost: bool,
    /// Processes that were left alive: in the kernel, or of another user.
    pub unkillable: u32,
}

/// Why a command could not be supervised. A command that cannot be executed is no such error.
#[derive(Debug, thiserror::Error)]
pub enum GuardianError {
    /// The guardian's program could not be started.
    #[error("cannot start the guardian {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It started and did not answer.
    #[error("the guardian {} ended or did not answer within {patience_ms} ms of its start", program.display())]
    NotReady {
        /// The program; perhaps its `main` does not call `guardian_main`.
        program: PathBuf,
        /// How long it was waited for.
        patience_ms: u64,
    },
    /// The system refused something the supervision needs.
    #[error("cannot {action} to supervise a command")]
    System {
        /// What was attempted.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// Signals cannot be heard while a command runs.
    #[error("cannot watch for signals")]
    Signals(#[from] SignalError),
}

impl GuardianError {
    fn system(action: &'static str, source: impl Into<io::Error>) -> Self {
        Self::System {
            action,
            source: source.into(),
        }
    }
}
