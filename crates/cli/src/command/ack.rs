//! `ack`: a person has read what the loops of this workspace changed.

use std::fmt::Write as _;

use loopexec_engine::{
    ack::{AckConfig, Acknowledgement, acknowledge, show},
    failure::Failure,
    inside,
};

use super::Answer;
use crate::{
    args::{Ack, Global},
    envelope::Envelope,
    error::CliError,
    invocation::Invocation,
};

/// Paths that a person is shown; `--json` holds all.
const SHOWN_MAX: usize = 200;

/// Acknowledges, or shows what is to be acknowledged.
pub(super) fn ack(
    global: &Global,
    arguments: &Ack,
    invocation: &Invocation,
) -> Result<Answer, CliError> {
    let layout = invocation.layout(global.workdir.as_deref())?;
    let config = AckConfig {
        layout: &layout,
        run_id: arguments.run.run_id.as_deref(),
        search_path: invocation
            .variable("PATH")
            .map(std::ffi::OsString::as_os_str),
        excludes_file: invocation.excludes_file(),
    };
    if arguments.show {
        return Ok(answer("ok", show(&config)?));
    }
    inside::refuse(&layout, "ack", invocation.inside_run().as_deref())?;
    let reviewer = arguments.reviewer.as_deref().ok_or_else(|| {
        Failure::workspace("an acknowledgement is a person's act: it needs --reviewer NAME")
            .because("reviewer_missing")
            .hint("`loopexec ack --show` prints what would be acknowledged")
    })?;
    Ok(answer("acknowledged", acknowledge(&config, reviewer)?))
}

fn answer(status: &'static str, found: Acknowledgement) -> Answer {
    let mut envelope = Envelope::new(status);
    envelope.run_id = Some(found.run_id.clone());
    let mut text = super::run::lines(&envelope);
    if let Some(reviewer) = &found.reviewer {
        let _ = writeln!(text, "reviewer: {reviewer}");
    }
    let verb = if found.reviewer.is_some() {
        "acknowledged"
    } else {
        "unacknowledged"
    };
    let runs = if found.runs.is_empty() {
        String::new()
    } else {
        format!(" (runs: {})", found.runs.join(", "))
    };
    let _ = writeln!(text, "{verb} iterations: {}{runs}", found.iterations);
    if !found.known {
        let _ = writeln!(
            text,
            "difference: not known, because a content was not kept; look at the workspace itself"
        );
    } else if found.difference.is_empty() {
        let _ = writeln!(text, "difference: none");
    } else {
        let _ = writeln!(text, "difference: {} paths", found.difference.len());
    }
    for line in found.difference.iter().take(SHOWN_MAX) {
        let _ = writeln!(text, "  {line}");
    }
    if found.difference.len() > SHOWN_MAX {
        let _ = writeln!(text, "  … {} more", found.difference.len() - SHOWN_MAX);
    }
    envelope.block.ack = Some(found);
    Answer::new(envelope, text)
}
