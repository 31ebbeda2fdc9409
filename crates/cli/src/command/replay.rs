//! `replay`: the recorded check once more, and whether the verdict is the same.

use std::{fmt::Write as _, time::Duration};

use loopexec_core::halt::HaltReason;
use loopexec_engine::{
    failure::Failure,
    replay::{Answer as Outcome, Replay, ReplayConfig, replay as repeat},
};

use super::Answer;
use crate::{
    args::{Global, Replay as Arguments},
    duration::Span,
    envelope::Envelope,
    error::CliError,
    invocation::Invocation,
};

/// Replays a recorded run.
pub(super) fn replay(
    global: &Global,
    arguments: &Arguments,
    invocation: &Invocation,
) -> Result<Answer, CliError> {
    let layout = invocation.layout(global.workdir.as_deref())?;
    let found = repeat(&ReplayConfig {
        layout: &layout,
        run_id: arguments.run.run_id.as_deref(),
        in_copy: arguments.in_copy,
        strict: arguments.strict,
        timeout: arguments.timeout.map(deadline).transpose()?,
        environment: &invocation.environment,
        excludes_file: invocation.excludes_file(),
        temporary: invocation.temporary(),
        signals: &invocation.signals,
    })?;
    Ok(answer(found))
}

/// `--timeout` as a deadline.
fn deadline(span: Span) -> Result<Duration, Failure> {
    u64::try_from(span.millis)
        .ok()
        .filter(|millis| *millis > 0)
        .map(Duration::from_millis)
        .ok_or_else(|| {
            Failure::invariant(format!(
                "--timeout {} ms can never be right: it has to be longer than nothing",
                span.millis
            ))
            .because("limit_invalid")
        })
}

fn answer(found: Replay) -> Answer {
    let verified = found.answer == Outcome::Verified;
    let mut envelope = Envelope::new(if verified { "verified" } else { "error" });
    envelope.run_id = Some(found.run_id.clone());
    envelope.iteration = Some(found.iteration);
    envelope.check_exit = found.check_exit;
    envelope.receipt = Envelope::path(&found.receipt);
    envelope.verified = Some(verified);
    if !verified {
        envelope.halt_reason = Some(HaltReason::ObjectiveUnverified.name().to_owned());
        envelope.failure_cause = found.cause.map(str::to_owned);
        envelope.errors = vec![found.why.clone()];
    }
    let text = super::run::lines(&envelope) + &human(&found);
    envelope.block.replay = Some(Box::new(found));
    let mut answer = Answer::new(envelope, text);
    if !verified {
        answer.class = HaltReason::ObjectiveUnverified.class();
    }
    answer
}

/// What was repeated and how it came out, in lines.
pub(super) fn human(found: &Replay) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "answer: {}", found.answer.name());
    let _ = writeln!(text, "why: {}", found.why);
    let _ = writeln!(text, "check: {} (in the {})", found.check, found.place);
    if let Some(level) = found.level {
        let weaker = if found.weaker { " (weaker)" } else { "" };
        let _ = writeln!(text, "level: {}{weaker}", level.name());
    }
    for drift in &found.drift {
        let _ = writeln!(
            text,
            "drift: {} {} → {}",
            drift.name, drift.recorded, drift.now
        );
    }
    for path in &found.changed {
        let _ = writeln!(text, "changed: {path}");
    }
    for line in &found.difference {
        let _ = writeln!(text, "  {line}");
    }
    text
}
