//! `run` and `step`: resolve the flags, run the loop, say how it ended.

mod dry;
mod resolve;

pub(crate) use dry::Plan;

use std::fmt::Write as _;

use loopexec_core::{explain::explain, halt::HaltReason};
use loopexec_engine::run::{Extent, RunConfig, RunEnd, Start, run as run_loop};

use super::Answer;
use crate::{
    args::{Global, ProgressMode, Run},
    envelope::Envelope,
    error::CliError,
    invocation::Invocation,
    render::live::{Display, Show},
};

/// `run`.
pub(super) fn run(
    global: &Global,
    arguments: &Run,
    invocation: &Invocation,
) -> Result<Answer, CliError> {
    let config = resolve::resolve(global, arguments, invocation, Extent::ToTheEnd)?;
    if arguments.dry_run {
        return Ok(dry::describe(&config));
    }
    execute(global, arguments, invocation, &config)
}

/// `step`.
pub(super) fn step(
    global: &Global,
    arguments: &Run,
    invocation: &Invocation,
) -> Result<Answer, CliError> {
    let config = resolve::resolve(global, arguments, invocation, Extent::OneIteration)?;
    if arguments.dry_run {
        return Ok(dry::describe(&config));
    }
    execute(global, arguments, invocation, &config)
}

fn execute(
    global: &Global,
    arguments: &Run,
    invocation: &Invocation,
    config: &RunConfig,
) -> Result<Answer, CliError> {
    let mut display = display(global, arguments, invocation);
    let warnings = unbounded_warning(config);
    if !global.json && !arguments.quiet {
        for warning in &warnings {
            crate::ui::say(&format!("warning: {warning}"));
        }
    }
    let outcome = run_loop(config, &mut display);
    display.end();
    let end = outcome?;
    let code = success_code(arguments, &end)?;
    Ok(answer(end, warnings, code))
}

fn display(global: &Global, arguments: &Run, invocation: &Invocation) -> Display {
    let show = match arguments.progress {
        _ if global.json || arguments.quiet => Show::Nothing,
        ProgressMode::None => Show::Nothing,
        ProgressMode::Plain => Show::Plain,
        ProgressMode::Auto if invocation.terminal() => Show::Live,
        ProgressMode::Auto => Show::Plain,
    };
    Display::new(
        show,
        !arguments.no_color && invocation.variable("NO_COLOR").is_none(),
    )
}

/// One warning that names each limit that is not set, for a new run.
fn unbounded_warning(config: &RunConfig) -> Vec<String> {
    let open = config.policy.unbounded();
    if config.start != Start::Fresh || open.is_empty() {
        return Vec::new();
    }
    let flags: Vec<String> = open
        .iter()
        .map(|name| format!("--{}", name.replace('_', "-")))
        .collect();
    let ended = config.policy.timeout_ms.is_some() || config.policy.command_timeout_ms.is_some();
    let consequence = if ended {
        "a command that hangs is ended by the other limits alone"
    } else if config.policy.idle_timeout_ms.is_some() {
        "a command that keeps busy for ever is never ended"
    } else {
        "a command that hangs is never ended"
    };
    vec![format!("without {}: {consequence}", flags.join(", "))]
}

/// `--success-exit`, for a converged run.
fn success_code(arguments: &Run, end: &RunEnd) -> Result<Option<u8>, CliError> {
    let converged = end
        .state
        .halt
        .as_ref()
        .is_some_and(|halt| halt.halt_reason == HaltReason::SuccessConditionMet);
    let code = resolve::success_exit(arguments)?;
    Ok(code.filter(|_| converged))
}

fn answer(end: RunEnd, warnings: Vec<String>, code: Option<u8>) -> Answer {
    let state = &end.state;
    let halt = state.halt.as_ref();
    let explanation = explain(state);
    let mut envelope = Envelope::new(if halt.is_some() { "halted" } else { "ok" });
    envelope.run_id = Some(state.run_id.clone());
    envelope.iteration = Some(state.iteration);
    envelope.halt_reason = halt.map(|halt| halt.halt_reason.name().to_owned());
    envelope.failure_cause = halt
        .and_then(|halt| halt.failure_cause)
        .map(|cause| cause.name().to_owned());
    envelope.check_exit = state.last_check.as_ref().and_then(|check| check.exit_code);
    envelope.receipt = Envelope::path(&end.receipt);
    if halt.is_some() {
        envelope.verdict = Some(explanation.advice.name().to_owned());
        envelope.why = Some(explanation.why.clone());
    }
    envelope.archived = end.archived.as_deref().and_then(Envelope::path);
    envelope.workspace = Some(end.workspace.clone());
    envelope.warnings = warnings;
    envelope.warnings.extend(end.notes.iter().cloned());
    let mut text = lines(&envelope);
    if halt.is_some() {
        let _ = writeln!(
            text,
            "verdict: {}\nwhy: {}",
            explanation.advice.name(),
            explanation.why
        );
    }
    if let Some(archived) = &envelope.archived {
        let _ = writeln!(text, "archived: {archived}");
    }
    for note in &end.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let _ = writeln!(text, "next: {}", end.workspace.next_command);
    let mut answer = Answer::new(envelope, text);
    if let Some(halt) = halt {
        answer.class = halt.halt_reason.class();
    }
    answer.code = code;
    answer
}

/// The `key: value` lines that scripts read.
pub(crate) fn lines(envelope: &Envelope) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: Option<&str>| {
        if let Some(value) = value {
            let _ = writeln!(text, "{key}: {value}");
        }
    };
    line("status", Some(envelope.status));
    line("run_id", envelope.run_id.as_deref());
    line(
        "iteration",
        envelope
            .iteration
            .map(|iteration| iteration.to_string())
            .as_deref(),
    );
    line("halt_reason", envelope.halt_reason.as_deref());
    line("failure_cause", envelope.failure_cause.as_deref());
    line("receipt", envelope.receipt.as_deref());
    line(
        "verified",
        envelope
            .verified
            .map(|verified| verified.to_string())
            .as_deref(),
    );
    line("signature", envelope.signature.as_deref());
    text
}
