//! The end of what a command printed, kept for people: redacted, private, and never part of a verdict.
//!
//! Must not reach the receipt.

use std::path::PathBuf;

use loopexec_core::event::CommandPhase;
use loopexec_os::{
    durable::{PRIVATE_FILE, SyncMode, create_private_directory, replace_file},
    guardian::Ended,
};

use super::session::Session;
use crate::{feedback::TAIL_BYTES, redact::Redactor};

/// Keeps the end of what the command printed, where it printed anything: privately, secrets replaced.
pub(super) fn keep_tail(session: &mut Session, phase: CommandPhase, ended: &Ended) {
    let text = output_tail(&session.redactor, ended);
    if phase == CommandPhase::Check {
        session.output_tail = String::from_utf8_lossy(&text).into_owned();
    }
    if text.is_empty() {
        return;
    }
    if let Some(path) = diagnostics_path(session, phase) {
        // A diagnostic that cannot be kept is no reason to stop: the verdict does not rest on it.
        let _ = replace_file(&path, &text, PRIVATE_FILE, SyncMode::None);
    }
}

/// The end of what a command printed, secrets replaced; empty when it printed nothing.
pub(crate) fn output_tail(redactor: &Redactor, ended: &Ended) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, captured) in [("stdout", &ended.stdout), ("stderr", &ended.stderr)] {
        if captured.total == 0 {
            continue;
        }
        let bytes = captured.clone().into_bytes();
        let redacted = redactor.redact(&bytes);
        let tail = redacted
            .get(redacted.len().saturating_sub(TAIL_BYTES / 2)..)
            .unwrap_or_default();
        text.extend_from_slice(
            format!(
                "--- {name}: the last {} of {} bytes\n",
                tail.len(),
                captured.total
            )
            .as_bytes(),
        );
        text.extend_from_slice(tail);
        text.push(b'\n');
    }
    text
}

fn diagnostics_path(session: &Session, phase: CommandPhase) -> Option<PathBuf> {
    let state = session.receipt.state()?;
    let directory = session
        .layout
        .run_directory(&state.run_id)
        .join("diagnostics");
    create_private_directory(&directory).ok()?;
    Some(directory.join(format!("{:06}-{}.log", state.iteration, phase.name())))
}
