//! `demo`: a red fixture, a real loop, a green check, a receipt, a replay. Offline; nothing is scripted around the engine.

use std::{fmt::Write as _, path::PathBuf};

use loopexec_core::{
    halt::{FailureCause, HaltReason},
    policy::{Commands, Policy},
    units::RunMillis,
};
use loopexec_engine::{
    failure::Failure,
    layout::{Layout, STORE},
    replay::{Answer as Outcome, Replay, ReplayConfig, replay},
    run::{Extent, RunConfig, RunEnd, Silent, Start, run},
    verify::{Parts, Trust, verify},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::Answer;
use crate::{
    args::Global, envelope::Envelope, error::CliError, identity::identity, invocation::Invocation,
};

/// The file that the loop repairs.
const FIXTURE: &str = "status.txt";
/// What it holds at first.
const RED: &[u8] = b"red\n";
/// A worker that needs two attempts: red becomes amber, amber becomes green.
const WORK: &str = "case \"$(cat status.txt)\" in red) echo amber ;; *) echo green ;; esac > next.txt && mv next.txt status.txt";
/// The check; its exit code is the verdict.
const CHECK: &str = "cat status.txt && grep -qx green status.txt";
/// The run's name.
const RUN_ID: &str = "demo";
/// Iterations that may be started: one more than are needed.
const ITERATIONS: u32 = 3;
/// No command of the demo takes a second; one that takes this long hangs.
const COMMAND_TIMEOUT: RunMillis = RunMillis(20_000);
/// The demo promises a minute.
const TIMEOUT: RunMillis = RunMillis(50_000);

/// What the demo did.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Demo {
    /// Where it ran; kept.
    pub(crate) workdir: String,
    /// Each stage in one line.
    pub(crate) stages: Vec<String>,
}

/// Runs the demo.
pub(super) fn demo(global: &Global, invocation: &Invocation) -> Result<Answer, CliError> {
    let workdir = prepare(global, invocation)?;
    let layout = Layout::new(&workdir, invocation.state_home().as_deref());
    let config = config(workdir.clone(), invocation);
    let end = run(&config, &mut Silent)?;
    converged(&end)?;
    let verification = verify(&Parts::of(&layout, RUN_ID), None, &Trust::Unasked)?;
    let replayed = replay(&ReplayConfig {
        layout: &layout,
        run_id: Some(RUN_ID),
        in_copy: true,
        strict: false,
        timeout: None,
        environment: &invocation.environment,
        excludes_file: invocation.excludes_file(),
        temporary: invocation.temporary(),
        signals: &invocation.signals,
    })?;
    let stages = stages(&end, verification.verified(), &replayed);
    let verified = verification.verified() && replayed.answer == Outcome::Verified;
    Ok(answer(&end, &workdir, stages, verified, &replayed))
}

/// The directory with the red fixture in it.
fn prepare(global: &Global, invocation: &Invocation) -> Result<PathBuf, Failure> {
    let unusable = |why: String| {
        Failure::workspace(format!("the demo cannot be prepared: {why}"))
            .because("workspace_unusable")
    };
    let workdir = match &global.workdir {
        Some(given) => invocation.workdir(Some(given))?,
        None => {
            let place = fs_err::canonicalize(invocation.temporary())
                .map_err(|error| unusable(error.to_string()))?;
            fresh(&place).map_err(unusable)?
        }
    };
    for name in [STORE, FIXTURE] {
        if fs_err::symlink_metadata(workdir.join(name)).is_ok() {
            return Err(Failure::workspace(format!(
                "the demo does not use {}: it already holds {name}",
                workdir.display()
            ))
            .because("workspace_in_use")
            .hint("name an empty directory with --workdir, or leave it out"));
        }
    }
    fs_err::write(workdir.join(FIXTURE), RED).map_err(|error| unusable(error.to_string()))?;
    Ok(workdir)
}

/// A fresh directory that stays; the number only keeps two demos apart.
fn fresh(place: &std::path::Path) -> Result<PathBuf, String> {
    /// More demos than this were never kept in one temporary directory.
    const NUMBERS: u32 = 10_000;
    for number in 1..=NUMBERS {
        let path = place.join(format!("loopexec-demo-{number}"));
        match fs_err::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Err(format!("{} holds {NUMBERS} demos", place.display()))
}

fn config(workdir: PathBuf, invocation: &Invocation) -> RunConfig {
    RunConfig {
        workdir,
        state_home: invocation.state_home(),
        run_id: RUN_ID.to_owned(),
        start: Start::Fresh,
        extent: Extent::ToTheEnd,
        policy: Policy {
            max_iterations: ITERATIONS,
            command_timeout_ms: Some(COMMAND_TIMEOUT),
            timeout_ms: Some(TIMEOUT),
            baseline: true,
            ..Policy::default()
        },
        commands: Commands {
            exec: Some(WORK.to_owned()),
            check: CHECK.to_owned(),
            ..Commands::default()
        },
        pins: loopexec_core::event::Pins::default(),
        cost_declared: None,
        context_files: Vec::new(),
        environment: invocation.environment.clone(),
        excludes_file: invocation.excludes_file(),
        identity: identity(),
        signals: invocation.signals.clone(),
    }
}

/// Whether the loop came to its green; a signal is told apart from a demo that fails.
fn converged(end: &RunEnd) -> Result<(), Failure> {
    let halt = end.state.halt.as_ref();
    let reason = halt.map(|halt| halt.halt_reason);
    if reason == Some(HaltReason::SuccessConditionMet) {
        return Ok(());
    }
    if halt.and_then(|halt| halt.failure_cause) == Some(FailureCause::Cancelled) {
        return Err(
            Failure::new(HaltReason::ExecutionFailure, "a signal ended the demo")
                .because(FailureCause::Cancelled.name()),
        );
    }
    Err(Failure::unverified(
        "demo_not_converged",
        format!(
            "the demo's loop ended with {} instead of a green; its receipt is {}",
            reason.map_or("no halt", HaltReason::name),
            end.receipt.display()
        ),
    )
    .hint("its commands need sh, cat, mv and grep in PATH"))
}

/// Each stage in one line.
fn stages(end: &RunEnd, verified: bool, replayed: &Replay) -> Vec<String> {
    let state = &end.state;
    let red = state
        .baseline
        .as_ref()
        .and_then(|check| check.exit_code)
        .map_or_else(|| "no exit code".to_owned(), |code| format!("exit {code}"));
    let held = if verified {
        "its chain holds and every decision in it was derived again"
    } else {
        "it does not agree with itself"
    };
    vec![
        format!("fixture   {FIXTURE} says red; the check is `{CHECK}`"),
        format!("red       the check before any work: {red}"),
        format!("loop      `{WORK}`, then the check, until it passes or a limit ends it"),
        format!(
            "green     after {} of at most {ITERATIONS} iterations the check passed: {}",
            state.iteration,
            HaltReason::SuccessConditionMet.name()
        ),
        format!(
            "receipt   {} records, one line each, every line names the digest of the one before it",
            state.records
        ),
        format!("verify    {held}; nothing was run for that"),
        format!(
            "replay    {}: {} (in a fresh copy of the accepted content)",
            replayed.answer.name(),
            replayed.why
        ),
    ]
}

fn answer(
    end: &RunEnd,
    workdir: &std::path::Path,
    stages: Vec<String>,
    verified: bool,
    replayed: &Replay,
) -> Answer {
    let mut envelope = Envelope::new(if verified { "verified" } else { "error" });
    envelope.run_id = Some(RUN_ID.to_owned());
    envelope.iteration = Some(end.state.iteration);
    envelope.check_exit = replayed.check_exit;
    envelope.receipt = Envelope::path(&end.receipt);
    envelope.verified = Some(verified);
    if !verified {
        envelope.halt_reason = Some(HaltReason::ObjectiveUnverified.name().to_owned());
        envelope.failure_cause = Some(replayed.cause.unwrap_or("decision_mismatch").to_owned());
        envelope.errors = vec![replayed.why.clone()];
    }
    let mut text = super::run::lines(&envelope);
    for stage in &stages {
        let _ = writeln!(text, "  {stage}");
    }
    let place = workdir.display();
    let _ = writeln!(
        text,
        "\nThe verdict is the check's exit code; nobody was asked whether the work is done. What happened is kept in\n{place}\nTry there:"
    );
    for (command, meaning) in [
        (
            "report",
            "what happened, and what the receipt does not show",
        ),
        ("verify", "the receipt alone, without running anything"),
        ("replay", "the check once more, on the accepted content"),
        ("attest", "sign it, so that others can verify it"),
    ] {
        let _ = writeln!(text, "  loopexec {command} --workdir {place}  # {meaning}");
    }
    envelope.block.demo = Some(Demo {
        workdir: place.to_string(),
        stages,
    });
    let mut answer = Answer::new(envelope, text);
    if !verified {
        answer.class = HaltReason::ObjectiveUnverified.class();
    }
    answer
}
