//! Runs a recorded check once, below a guardian, and takes its digests.
//!
//! Must not compare: what it returns is what was seen.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use loopexec_os::{
    durable::create_private_directory,
    guardian::{
        Activity, CommandSpec, Ended, Exit, Guardian, GuardianOptions, Interruption, Limits,
        Observer, Stdin, Stream,
    },
    signals::Signals,
};

use crate::{
    failure::{Failure, chain},
    fingerprint::{self, Combined, Digests, Fingerprint, Settings},
    layout::Layout,
    redact::Redactor,
    run::output_tail,
};

/// How often the guardian's observer is called at least; nothing is shown, so rarely.
const TICK: Duration = Duration::from_secs(1);

/// What to run, and how.
#[derive(Debug)]
pub(super) struct Execution<'a> {
    /// The command string.
    pub(super) command: &'a str,
    /// Where.
    pub(super) directory: &'a Path,
    /// The run, which names the directory for reports.
    pub(super) run_id: &'a str,
    /// What the command sees, apart from the directory for reports.
    pub(super) environment: &'a [(OsString, OsString)],
    /// Its deadline.
    pub(super) timeout: Option<Duration>,
    /// Most time without output and without processor time.
    pub(super) idle: Option<Duration>,
    /// From `SIGTERM` to `SIGKILL`.
    pub(super) grace: Duration,
    /// How the output is normalised; `None` is the one digest of contract 2.0.
    pub(super) settings: Option<Settings>,
}

/// What was seen.
#[derive(Debug)]
pub(super) struct Seen {
    /// How it ended.
    pub(super) ended: Ended,
    /// The digests of its output.
    pub(super) output: Output,
    /// The end of its output, secrets replaced.
    pub(super) tail: Vec<u8>,
}

/// The digests of an output.
#[derive(Debug)]
pub(super) enum Output {
    /// Of both streams.
    Streams(Box<Digests>),
    /// Of contract 2.0.
    Combined(String),
}

/// Runs the check.
pub(super) fn execute(
    execution: &Execution<'_>,
    redactor: &Redactor,
    signals: &Signals,
) -> Result<Seen, Failure> {
    let script = match &execution.settings {
        Some(_) => execution.command.to_owned(),
        // Contract 2.0 hashed both streams as one: the shell joins them before anybody reads.
        None => format!("exec 2>&1\n{}", execution.command),
    };
    let spec = CommandSpec {
        argv: ["sh", "-c", &script].map(OsString::from).to_vec(),
        env: environment(execution)?,
        directory: execution.directory.to_owned(),
        stdin: Stdin::Empty,
    };
    let limits = Limits {
        timeout: execution.timeout,
        idle: execution.idle,
        grace: execution.grace,
        tick: TICK,
    };
    let mut hearing = match &execution.settings {
        None => Hearing::Combined(Box::new(Combined::new(redactor))),
        Some(settings) => {
            let fingerprint = Fingerprint::new(redactor, settings).map_err(|error| {
                Failure::unverified("normaliser_unknown", chain(&error))
                    .hint("use the version of loopexec that wrote the receipt, or a newer one")
            })?;
            Hearing::Streams(Box::new(fingerprint))
        }
    };
    let supervised = |error| {
        Failure::new(
            loopexec_core::halt::HaltReason::ExecutionFailure,
            format!("the check could not be supervised: {}", chain(&error)),
        )
        .because("supervision_failed")
    };
    let mut guardian =
        Guardian::start(GuardianOptions::this_program(), signals).map_err(supervised)?;
    let ended = guardian
        .run(&spec, &limits, &mut hearing)
        .map_err(supervised)?;
    if let Some(Interruption::Cancelled(signal)) = ended.interruption {
        return Err(Failure::new(
            loopexec_core::halt::HaltReason::ExecutionFailure,
            format!(
                "{} ended the replay before its check had ended",
                signal.name()
            ),
        )
        .because(loopexec_core::halt::FailureCause::Cancelled.name()));
    }
    let output = hearing.finish(match ended.exit {
        Exit::Code(code) => code,
        Exit::Signal(_) | Exit::NotStarted { .. } | Exit::Unknown => -1,
    });
    let tail = output_tail(redactor, &ended);
    Ok(Seen {
        ended,
        output,
        tail,
    })
}

/// The environment with an empty directory for reports, at the place where the run had it.
fn environment(execution: &Execution<'_>) -> Result<Vec<(OsString, OsString)>, Failure> {
    let layout = Layout::new(execution.directory, None);
    let run = layout.run_directory(execution.run_id);
    let report: PathBuf = run.join("report");
    let _ = fs_err::remove_dir_all(&report);
    let steps = [
        layout.store(),
        layout.store().join("runs"),
        run,
        report.clone(),
    ];
    for directory in steps {
        create_private_directory(&directory).map_err(|error| {
            Failure::workspace(format!(
                "the check needs a directory for its reports: {}",
                chain(&error)
            ))
            .because("report_directory_failed")
            .hint("replay in a copy with --in-copy")
        })?;
    }
    let mut environment = execution.environment.to_vec();
    environment.retain(|(name, _)| name != "LOOPEXEC_REPORT_DIR");
    environment.push(("LOOPEXEC_REPORT_DIR".into(), report.into()));
    Ok(environment)
}

/// Hears the output.
enum Hearing {
    Streams(Box<Fingerprint>),
    Combined(Box<Combined>),
}

impl Hearing {
    fn finish(self, exit_code: i32) -> Output {
        match self {
            Self::Streams(fingerprint) => Output::Streams(Box::new(fingerprint.finish(exit_code))),
            Self::Combined(combined) => Output::Combined(combined.finish()),
        }
    }
}

impl Observer for Hearing {
    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        match (self, stream) {
            (Self::Streams(fingerprint), Stream::Stdout) => {
                fingerprint.push(fingerprint::Stream::Stdout, bytes);
            }
            (Self::Streams(fingerprint), Stream::Stderr) => {
                fingerprint.push(fingerprint::Stream::Stderr, bytes);
            }
            (Self::Combined(combined), Stream::Stdout | Stream::Stderr) => combined.push(bytes),
        }
    }

    fn tick(&mut self, _: &Activity) {}
}
