//! `replay`: the recorded check once more, and whether the verdict is the same.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use loopexec_core::{halt::HaltReason, state::RunState};
use loopexec_engine::{
    attest::signers::AllowedSigners,
    attesting::{Summary, summarise},
    failure::Failure,
    inside,
    layout::Layout,
    replay::{Answer as Outcome, ForeignConfig, Replay, ReplayConfig, admit, replay as repeat},
    verify::{Parts, Status, Trust, verify},
};
use loopexec_os::clock;

use super::{Answer, verify::allowed_signers};
use crate::{
    args::{Global, Replay as Arguments},
    duration::Span,
    envelope::Envelope,
    error::CliError,
    invocation::Invocation,
};

/// Replays a recorded run, or a receipt from elsewhere.
pub(super) fn replay(
    global: &Global,
    arguments: &Arguments,
    invocation: &Invocation,
) -> Result<Answer, CliError> {
    let signers = arguments
        .trusted
        .as_deref()
        .map(allowed_signers)
        .transpose()?;
    if let Some(file) = &arguments.from {
        return from(global, file, signers.as_ref(), arguments, invocation);
    }
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
        inside::refuse(
            &layout,
            "replay --attest",
            invocation.inside_run().as_deref(),
        )?;
        Some(attested(
            &layout,
            signers.as_ref(),
            arguments,
            invocation,
            &found,
        )?)
    } else {
        None
    };
    Ok(answer(found, summary))
}

/// Replays a receipt or an export from elsewhere.
fn from(
    global: &Global,
    file: &Path,
    signers: Option<&AllowedSigners>,
    arguments: &Arguments,
    invocation: &Invocation,
) -> Result<Answer, CliError> {
    let config = ForeignConfig {
        file,
        trusted: signers.map(|signers| (signers, clock::wall_millis().div_euclid(1000))),
        confirmed: arguments.confirm,
        strict: arguments.strict,
        timeout: arguments.timeout.map(deadline).transpose()?,
        search_path: invocation
            .variable("PATH")
            .map(std::ffi::OsString::as_os_str),
        temporary: invocation.temporary(),
        signals: &invocation.signals,
    };
    let foreign = admit(&config)?;
    if !global.json {
        crate::ui::say(&format!(
            "runs in a copy: `{}` (signature: {})",
            foreign.command, foreign.signer
        ));
    }
    let found = foreign.replay(&config)?;
    let summary = if arguments.attest && found.answer == Outcome::Verified {
        let file = file.with_file_name(format!("run-{}.svr.json", found.run_id));
        let held = Held {
            replay: &found,
            receipt: &foreign.receipt,
            state: &foreign.state,
            signed: foreign.signed,
        };
        Some(sign(&held, file, arguments, invocation)?)
    } else {
        None
    };
    Ok(answer(found, summary))
}

/// Signs what held of a recorded run; gives the file.
fn attested(
    layout: &Layout,
    signers: Option<&AllowedSigners>,
    arguments: &Arguments,
    invocation: &Invocation,
    found: &Replay,
) -> Result<PathBuf, CliError> {
    let trust = match signers {
        None => Trust::Unasked,
        Some(signers) => Trust::Signers {
            signers,
            now: clock::wall_millis().div_euclid(1000),
        },
    };
    let verification = verify(&Parts::of(layout, &found.run_id), None, &trust)?;
    let Some(state) = verification
        .state
        .as_ref()
        .filter(|_| verification.verified())
    else {
        return Err(Failure::unverified(
            "not_verified",
            "the verdict was repeated, but the receipt does not verify, so nothing is attested",
        )
        .hint("`loopexec verify` says what of it holds")
        .into());
    };
    let signed = signers.is_some()
        && verification
            .items
            .iter()
            .any(|item| item.name == "signature" && item.status == Status::Pass);
    let held = Held {
        replay: found,
        receipt: &found.receipt,
        state,
        signed,
    };
    sign(&held, layout.summary(&found.run_id), arguments, invocation)
}

/// What held, for the summary.
struct Held<'a> {
    replay: &'a Replay,
    receipt: &'a Path,
    state: &'a RunState,
    signed: bool,
}

/// Signs what held, with the verifier's own key; gives the file.
fn sign(
    held: &Held<'_>,
    file: PathBuf,
    arguments: &Arguments,
    invocation: &Invocation,
) -> Result<PathBuf, CliError> {
    summarise(&Summary {
        replay: held.replay,
        receipt: held.receipt,
        state: held.state,
        signed: held.signed,
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
pub(super) fn timestamp(millis: i64) -> String {
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
    if let Some(signer) = &found.signer {
        let _ = writeln!(text, "signer: {signer}");
    }
    for drift in &found.drift {
        let _ = writeln!(
            text,
            "drift: {} is not as recorded: {} → {}",
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
