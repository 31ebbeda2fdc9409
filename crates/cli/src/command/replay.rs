//! `replay`: the recorded check once more, and whether the verdict is the same.

use std::{fmt::Write as _, path::PathBuf, time::Duration};

use loopexec_core::halt::HaltReason;
use loopexec_engine::{
    attesting::{Summary, summarise},
    failure::Failure,
    inside,
    layout::Layout,
    replay::{Answer as Outcome, Replay, ReplayConfig, replay as repeat},
    verify::{Parts, Status, Trust, verify},
};
use loopexec_os::clock;

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
    let summary = if arguments.attest && found.answer == Outcome::Verified {
        Some(attested(&layout, arguments, invocation, &found)?)
    } else {
        None
    };
    Ok(answer(found, summary))
}

/// Signs what held, with the verifier's own key; gives the file.
fn attested(
    layout: &Layout,
    arguments: &Arguments,
    invocation: &Invocation,
    found: &Replay,
) -> Result<PathBuf, CliError> {
    inside::refuse(
        layout,
        "replay --attest",
        invocation.inside_run().as_deref(),
    )?;
    let signers = arguments
        .trusted
        .as_deref()
        .map(super::verify::allowed_signers)
        .transpose()?;
    let trust = match &signers {
        None => Trust::Unasked,
        Some(signers) => Trust::Signers {
            signers,
            now: clock::wall_millis().div_euclid(1000),
        },
    };
    let verification = verify(&Parts::of(layout, &found.run_id), None, &trust)?;
    let state = verification.state.as_ref().ok_or_else(|| {
        Failure::unverified(
            "chain_absent",
            "a receipt without a chain is not attested: nothing ties its records together",
        )
    })?;
    if !verification.verified() {
        return Err(Failure::unverified(
            "not_verified",
            "the verdict was repeated, but the receipt does not verify, so nothing is attested",
        )
        .hint("`loopexec verify` says what of it holds")
        .into());
    }
    let passed = |name: &str| {
        verification
            .items
            .iter()
            .any(|item| item.name == name && item.status == Status::Pass)
    };
    let file = layout.summary(&found.run_id);
    summarise(&Summary {
        replay: found,
        state,
        signed: signers.is_some() && passed("signature"),
        key: &super::attest::key_source(arguments.key_file.as_deref(), invocation)?,
        verifier: format!(
            "https://loopexec.dev/loopexec/v{}",
            crate::identity::VERSION
        ),
        time_created: timestamp(clock::wall_millis()),
        file: &file,
    })?;
    Ok(file)
}

/// A wall time in RFC 3339 form, UTC, to the second.
fn timestamp(millis: i64) -> String {
    jiff::Timestamp::from_second(millis.div_euclid(1000)).map_or_else(
        |_| "1970-01-01T00:00:00Z".to_owned(),
        |time| time.to_string(),
    )
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

fn answer(found: Replay, summary: Option<PathBuf>) -> Answer {
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
    envelope.signature = summary.as_deref().and_then(Envelope::path);
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
