//! The loop itself: ask the core, do what it says, until it says that the run has ended.

use std::collections::BTreeSet;

use loopexec_core::{
    decide::{Step, decide},
    digest::set_digest,
    event::{
        CommandMark, Event, GuardStage, GuardStatus, Guards, IdSet, IterationStart, Outcome,
        Progress,
    },
    guard,
    halt::FailureCause,
    state::Stage,
};
use loopexec_os::durable::SyncMode;

use super::{Extent, RunConfig, Watcher, command, finish, session::Session};
use crate::failure::Failure;

/// What is said when check and collector contradict each other.
const NOTHING_LISTED: &str = "the check was red while --failures-cmd listed nothing: a second empty list is called an oscillation";

/// Drives a run to its end, or through one iteration.
pub(super) fn drive(
    session: &mut Session,
    config: &RunConfig,
    watcher: &mut dyn Watcher,
) -> Result<(), Failure> {
    loop {
        heed_signals(session)?;
        watcher.folded(session.state()?);
        match decide(session.state()?) {
            Step::Run(phase) => command::run(session, phase, watcher)?,
            Step::Guard(stage) => guards(session, stage)?,
            Step::Progress => progress(session)?,
            Step::Start => session.record(Event::IterStart(IterationStart {}), false)?,
            Step::Continue(verdict) => {
                let in_loop = session.state()?.stage == Stage::Open;
                session.record(Event::Verdict(verdict), false)?;
                session.write_state(SyncMode::None)?;
                if in_loop && config.extent == Extent::OneIteration {
                    return finish::pause(session);
                }
            }
            Step::Halt(verdict) => session.record(Event::Verdict(verdict), false)?,
            Step::Finish => finish::halt(session)?,
            Step::Ended => return Ok(()),
        }
    }
}

/// Records a signal that arrived between two commands; one that came after the verdict changes nothing.
fn heed_signals(session: &mut Session) -> Result<(), Failure> {
    let state = session.state()?;
    let open = matches!(state.stage, Stage::Opening | Stage::Open | Stage::Between);
    let pending = session
        .signals
        .pending()
        .filter(|_| open && !state.cancelled);
    let Some(signal) = pending else {
        return Ok(());
    };
    session.record(
        Event::CommandCancelled(CommandMark {
            phase: None,
            cause: FailureCause::Cancelled,
            signal: Some(signal.number()),
        }),
        false,
    )
}

/// Records the test-determining set of t0, or the guard on a later one.
fn guards(session: &mut Session, stage: GuardStage) -> Result<(), Failure> {
    let members = session
        .members
        .take()
        .unwrap_or_else(|| Err("it was not collected".to_owned()));
    let t0 = session.state()?.integrity_t0.clone();
    let result = match (t0, members) {
        (None, Ok(now)) => {
            let ids: Vec<String> = now.into_iter().collect();
            let set_sha256 = set_digest(&ids);
            return session.record(Event::IntegrityBaseline(IdSet { ids, set_sha256 }), false);
        }
        (Some(t0), Ok(now)) => guard::integrity(&t0, &now),
        (t0, Err(why)) => guard::integrity_unknown(t0.as_ref(), &why),
    };
    if result.status == GuardStatus::Violated && !result.subject.is_empty() {
        let ids = result.subject.clone();
        let set_sha256 = set_digest(&ids);
        session.record(Event::IntegrityViolation(IdSet { ids, set_sha256 }), false)?;
    }
    session.record(
        Event::Guards(Guards {
            stage,
            results: vec![result],
        }),
        false,
    )
}

/// Records the failing set as a difference from the last known one.
fn progress(session: &mut Session) -> Result<(), Failure> {
    let now = session.failing.take().unwrap_or_default();
    note_contradiction(session, &now)?;
    let last: BTreeSet<String> = session.state()?.failing.clone().unwrap_or_default();
    let first = session.state()?.failing.is_none();
    let added: Vec<String> = now.difference(&last).cloned().collect();
    session.regressed = if first { Vec::new() } else { added.clone() };
    session.record(
        Event::Progress(Progress {
            exit_code: u32::try_from(now.len()).unwrap_or(u32::MAX),
            detail: set_digest(&now),
            added,
            removed: last.difference(&now).cloned().collect(),
        }),
        false,
    )
}

/// Says once that a red check without a listed failure gives the progress rules nothing to go by.
fn note_contradiction(session: &mut Session, failing: &BTreeSet<String>) -> Result<(), Failure> {
    let red = session
        .state()?
        .attempt
        .check
        .as_ref()
        .is_some_and(|check| check.outcome == Outcome::Reject);
    let said = session.notes.iter().any(|note| note == NOTHING_LISTED);
    if red && failing.is_empty() && !said {
        session.notes.push(NOTHING_LISTED.to_owned());
    }
    Ok(())
}
