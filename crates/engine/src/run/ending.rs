//! How the end of a command becomes its record: exit, cause, what was left, and the ids that a collector printed.
//!
//! Must not decide what an end means for the loop: the core's judge does.

use std::collections::BTreeSet;

use loopexec_core::{
    event::{CommandEnd, CommandMark, CommandPhase, Event, LeftProcesses},
    halt::FailureCause,
    judge,
};
use loopexec_formats::report::{Limits as CollectorLimits, collector};
use loopexec_os::guardian::{Ended, Exit, Interruption};

use super::session::Session;
use crate::failure::{Failure, chain};

/// How the command's end is recorded, and the ids that a collector printed.
pub(super) fn end_of(
    session: &Session,
    phase: CommandPhase,
    ended: &Ended,
    by_deadline: bool,
) -> (CommandEnd, Option<BTreeSet<String>>) {
    let (exit_code, signal, unstarted) = match &ended.exit {
        Exit::Code(code) => (Some(*code), None, None),
        Exit::Signal(signal) => (None, Some(*signal), None),
        Exit::NotStarted { reason, .. } => (None, None, Some(reason.clone())),
        Exit::Unknown => (None, None, None),
    };
    let not_runnable = match phase {
        CommandPhase::Exec => FailureCause::WorkCommandNotRunnable,
        CommandPhase::Check | CommandPhase::Failures | CommandPhase::Integrity => {
            FailureCause::CheckNotRunnable
        }
    };
    let cause =
        interruption(ended, by_deadline).or_else(|| unstarted.is_some().then_some(not_runnable));
    let mut end = CommandEnd {
        phase,
        exit_code,
        signal,
        cause,
        duration_ms: ended.duration_ms,
        cpu_ms: ended.cpu_ms,
        max_rss_kib: ended.max_rss_kib,
        stdout_bytes: ended.stdout.total,
        stderr_bytes: ended.stderr.total,
        output_truncated: ended.stdout.truncated || ended.stderr.truncated,
        left_processes: (ended.left_processes.count > 0).then(|| LeftProcesses {
            count: ended.left_processes.count,
            names: ended.left_processes.names.clone(),
        }),
        guardian_lost: ended.guardian_lost,
        unkillable: u64::from(ended.unkillable),
        refused: unstarted,
    };
    let collects = matches!(phase, CommandPhase::Failures | CommandPhase::Integrity);
    if !collects || judge::collector_failed(&end) {
        return (end, None);
    }
    match collected(ended) {
        Ok(ids) => (end, Some(ids)),
        Err(why) => {
            let text = session.redactor.redact(why.as_bytes());
            end.refused = Some(String::from_utf8_lossy(&text).into_owned());
            (end, None)
        }
    }
}

/// The ids that a collector printed: exit 0, nothing on standard error, well-formed and not too long.
fn collected(ended: &Ended) -> Result<BTreeSet<String>, String> {
    if ended.stderr.total > 0 {
        return Err("it printed to standard error, so its list cannot be believed".to_owned());
    }
    if ended.stdout.truncated {
        return Err(format!(
            "its output of {} bytes is longer than a list may be",
            ended.stdout.total
        ));
    }
    let bytes = ended.stdout.clone().into_bytes();
    collector::parse(&bytes, &CollectorLimits::COLLECTOR)
        .map(|ids| ids.into_ids().into_iter().collect())
        .map_err(|error| chain(&error))
}

fn interruption(ended: &Ended, by_deadline: bool) -> Option<FailureCause> {
    ended.interruption.map(|interruption| match interruption {
        Interruption::Deadline if by_deadline => FailureCause::DeadlineExceeded,
        Interruption::Deadline => FailureCause::CommandTimeout,
        Interruption::Idle => FailureCause::IdleTimeout,
        Interruption::Cancelled(_) => FailureCause::Cancelled,
    })
}

/// The event that says why the governor ended a command.
pub(super) fn marks(
    session: &mut Session,
    phase: CommandPhase,
    ended: &Ended,
    by_deadline: bool,
) -> Result<(), Failure> {
    let Some(cause) = interruption(ended, by_deadline) else {
        return Ok(());
    };
    let signal = match ended.interruption {
        Some(Interruption::Cancelled(signal)) => Some(signal.number()),
        Some(Interruption::Deadline | Interruption::Idle) | None => None,
    };
    let mark = CommandMark {
        phase: Some(phase),
        cause,
        signal,
    };
    let event = if signal.is_some() {
        Event::CommandCancelled(mark)
    } else {
        Event::CommandTimeout(mark)
    };
    session.record(event, false)
}

/// Why a collector gave no set, for the guard's record.
pub(super) fn why_not(end: &CommandEnd) -> String {
    match (&end.refused, end.exit_code, end.cause) {
        (Some(why), _, _) => why.clone(),
        (None, _, Some(cause)) => cause.name().to_owned(),
        (None, Some(code), None) => format!("its command ended with exit code {code}"),
        (None, None, None) => "its command was ended by a signal".to_owned(),
    }
}
