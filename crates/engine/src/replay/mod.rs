//! Verifies a verdict: the recorded check, once more, on the recorded content; no work command, no spending.
//!
//! Must not touch the receipt or its state, and must not disturb a governor at work.

mod compare;
mod difference;
mod execute;
mod foreign;
mod place;
mod repeat;
mod subject;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use loopexec_os::signals::Signals;
use schemars::JsonSchema;
use serde::Serialize;

pub use compare::{Compared, Level};
pub use foreign::{Foreign, ForeignConfig, admit};
use place::Place;
use repeat::Repetition;
use subject::Subject;

use crate::{
    failure::{Failure, chain},
    layout::Layout,
    recorded,
    redact::{Redactor, for_check},
};

/// What a replay answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The same verdict again.
    Verified,
    /// Another verdict, or the content is another one.
    Refuted,
    /// Another verdict under another tool, or no verdict now: neither borne out nor contradicted.
    NotComparable,
}

impl Answer {
    /// The public string.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Refuted => "refuted",
            Self::NotComparable => "not_comparable",
        }
    }
}

/// Something around the check that is not as it was recorded. By itself it refutes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Drift {
    /// `environment`, or the program's name.
    pub name: String,
    /// As recorded.
    pub recorded: String,
    /// Now.
    pub now: String,
    /// Whether a difference of the output may come from it: then the two are not comparable.
    pub decides: bool,
}

/// A replay, and what it found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Replay {
    /// The run.
    #[serde(skip)]
    pub run_id: String,
    /// The iteration whose verdict was repeated.
    #[serde(skip)]
    pub iteration: u32,
    /// The receipt.
    #[serde(skip)]
    pub receipt: PathBuf,
    /// `verified`, `refuted` or `not_comparable`.
    pub answer: Answer,
    /// The level that matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// Whether that level is weaker than the strongest one that was recorded.
    pub weaker: bool,
    /// The additive cause when it is not verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<&'static str>,
    /// The command that was run.
    pub check: String,
    /// Who signed a receipt from elsewhere, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<String>,
    /// `workspace` or `copy`.
    pub place: &'static str,
    /// How the content stands: `as_recorded`, `changed`, or `not_recorded`.
    pub content: &'static str,
    /// Exit code in the receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_exit: Option<i32>,
    /// Exit code now; absent when nothing was run, or a signal ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_exit: Option<i32>,
    /// Each level, compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Compared>,
    /// Tools and environment that are not as recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<Drift>,
    /// Paths whose content is not as recorded, at most a few.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// The stable text that differs, `-` recorded and `+` now, where the recorded one was kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub difference: Vec<String>,
    /// Why, in words.
    pub why: String,
}

/// What to replay, and with what.
#[derive(Debug)]
pub struct ReplayConfig<'a> {
    /// The workspace.
    pub layout: &'a Layout,
    /// The run; the latest by default.
    pub run_id: Option<&'a str>,
    /// Run in a copy of the recorded content instead of the workspace.
    pub in_copy: bool,
    /// Compare the bytes of the output.
    pub strict: bool,
    /// Deadline where the receipt names none.
    pub timeout: Option<Duration>,
    /// The environment that the program was started with.
    pub environment: &'a [(OsString, OsString)],
    /// The person's own ignore file of git.
    pub excludes_file: Option<PathBuf>,
    /// Where temporary directories are made.
    pub temporary: PathBuf,
    /// Signal handlers.
    pub signals: &'a Signals,
}

/// Replays a recorded run.
///
/// # Errors
///
/// When there is no verdict to compare with, a governor works in the workspace, the copy cannot be made, the check cannot
/// be supervised, or a signal ended it. A verdict that is not borne out is no error.
pub fn replay(config: &ReplayConfig<'_>) -> Result<Replay, Failure> {
    let recorded = recorded::load(config.layout, config.run_id)?;
    if let Some(flaw) = recorded.log.as_ref().and_then(|log| log.flaw.as_ref())
        && recorded.state().is_some()
    {
        return Err(Failure::unverified(
            flaw.cause,
            format!(
                "the receipt does not agree with itself at line {}: {}",
                flaw.line, flaw.why
            ),
        )
        .hint("`loopexec verify` says what of it holds"));
    }
    let subject = Subject::of(&recorded)?;
    let state = recorded.state();
    let place = match (config.in_copy, state) {
        (false, _) => Place::workspace(config, &subject, state)?,
        (true, Some(state)) => Place::copy(config, &subject, state)?,
        (true, None) => {
            return Err(Failure::workspace(
                "a run of contract 2.0 kept no content to make a copy of",
            )
            .because("content_not_kept")
            .hint("replay it in its workspace, without --in-copy"));
        }
    };
    let mut replay = Replay::begun(&subject, recorded.receipt.clone(), &place);
    if !place.changed().is_empty() {
        replay.cause = Some("candidate_drift");
        "the workspace no longer holds the content that the verdict was given on; nothing was run"
            .clone_into(&mut replay.why);
        if subject.kept.is_some() {
            replay
                .why
                .push_str("; --in-copy repeats it on the content that was kept");
        }
        return Ok(replay);
    }
    let redactor = redactor(config.environment)?;
    let prepared = for_check(&redactor, config.environment);
    let repetition = Repetition {
        subject: &subject,
        place: &place,
        redactor: &redactor,
        environment: &prepared.variables,
        environment_sha256: &prepared.sha256,
        strict: config.strict,
        timeout: config.timeout,
        signals: config.signals,
        recorded_tail: tail(config.layout, &subject),
    };
    repetition.run(&mut replay)?;
    Ok(replay)
}

pub(crate) fn redactor(environment: &[(OsString, OsString)]) -> Result<Redactor, Failure> {
    Redactor::new(environment.iter().map(|(name, value)| (name, value)))
        .map_err(|error| Failure::workspace(chain(&error)).because("environment_unusable"))
}

/// The end of the recorded output, where it was kept.
fn tail(layout: &Layout, subject: &Subject) -> Option<Vec<u8>> {
    let name = format!("{:06}-check.log", subject.iteration);
    let directory = layout.run_directory(&subject.run_id).join("diagnostics");
    loopexec_os::durable::read_regular(
        &directory.join(name),
        loopexec_os::durable::SMALL_FILE_BYTES,
    )
    .ok()
}

impl Replay {
    /// A replay that has run nothing yet.
    fn begun(subject: &Subject, receipt: PathBuf, place: &Place) -> Self {
        Self {
            run_id: subject.run_id.clone(),
            iteration: subject.iteration,
            receipt,
            answer: Answer::Refuted,
            level: None,
            weaker: false,
            cause: None,
            check: subject.command.clone(),
            signer: None,
            place: place.name(),
            content: place.content(),
            recorded_exit: subject.exit.code,
            check_exit: None,
            levels: Vec::new(),
            drift: Vec::new(),
            changed: place.changed().to_vec(),
            difference: Vec::new(),
            why: String::new(),
        }
    }
}
