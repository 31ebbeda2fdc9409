//! A recorded run for commands that only read: its fold, its snapshot, its explanation, whether it is live.
//!
//! Reads receipts of contract 2.0 too. Must not write, lock or run anything.

use std::path::PathBuf;

use loopexec_core::{
    explain::{Advice, Explanation, explain},
    halt::{FailureCause, HaltReason},
    replay::Folder,
    state::RunState,
};
use loopexec_os::{clock, process};

use crate::{
    failure::{Failure, chain},
    heartbeat::Heartbeat,
    layout::{Layout, valid_run_id},
    log::{Chain, ReadError, ReadLog, WorkspaceLog, read},
    runs,
    snapshot::StateView,
};

/// A recorded run.
#[derive(Debug)]
pub struct Recorded {
    /// The run.
    pub run_id: String,
    /// Its receipt.
    pub receipt: PathBuf,
    /// The receipt, as far as it makes sense; `None` when only a snapshot is there.
    pub log: Option<ReadLog>,
    /// The fold in public names; the snapshot file where there is no fold.
    pub view: StateView,
    /// What the reader should know.
    pub warnings: Vec<String>,
}

/// How a receipt stands. The names are public.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptStatus {
    /// All of it makes sense.
    Readable,
    /// A part of it does.
    Incomplete,
    /// There is none.
    Missing,
    /// None of it does.
    Unreadable,
}

impl ReceiptStatus {
    /// The public string.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Readable => "readable",
            Self::Incomplete => "incomplete",
            Self::Missing => "missing",
            Self::Unreadable => "unreadable",
        }
    }
}

/// The run that is asked for: the given id, or the latest.
///
/// # Errors
///
/// When the id is malformed or nothing is recorded.
pub fn run_id(layout: &Layout, given: Option<&str>) -> Result<String, Failure> {
    match given {
        Some(id) if valid_run_id(id) => Ok(id.to_owned()),
        Some(id) => {
            Err(Failure::workspace(format!("{id:?} cannot name a run")).because("run_id_invalid"))
        }
        None => runs::latest(layout).ok_or_else(|| {
            Failure::workspace(format!(
                "no run is recorded in {}",
                layout.workdir().display()
            ))
            .because("run_not_found")
            .hint("`loopexec run` records one; --workdir names another workspace")
        }),
    }
}

/// Loads a run.
///
/// # Errors
///
/// When neither a receipt nor a snapshot of it is there, or neither can be read.
pub fn load(layout: &Layout, given: Option<&str>) -> Result<Recorded, Failure> {
    let run_id = run_id(layout, given)?;
    let receipt = layout.receipt(&run_id);
    let mut warnings = Vec::new();
    let log = match read(&receipt, &mut |_| {}) {
        Ok(log) => Some(log),
        Err(ReadError::Missing { .. }) => None,
        Err(error @ ReadError::Unreadable { .. }) => {
            warnings.push(chain(&error));
            None
        }
    };
    let view = match log.as_ref().and_then(|log| log.state.as_ref()) {
        Some(state) => StateView::of(state),
        None => snapshot(layout, &run_id, log.is_some())?,
    };
    if let Some(log) = &log {
        warnings.extend(remarks(log));
    }
    Ok(Recorded {
        run_id,
        receipt,
        log,
        view,
        warnings,
    })
}

fn remarks(log: &ReadLog) -> Option<String> {
    if log.chain == Chain::Absent {
        return Some("the receipt is of contract 2.0 and has no chain".to_owned());
    }
    log.flaw.as_ref().map(|flaw| {
        format!(
            "the receipt makes sense up to byte {}: {}",
            flaw.offset, flaw.why
        )
    })
}

/// The snapshot file of a run without a fold.
fn snapshot(layout: &Layout, run_id: &str, has_receipt: bool) -> Result<StateView, Failure> {
    let own = layout.state(run_id);
    let latest = layout.latest();
    let path = if own.exists() { own } else { latest };
    let bytes = loopexec_os::durable::read_regular(&path, loopexec_os::durable::SMALL_FILE_BYTES)
        .map_err(|_| {
        let what = if has_receipt {
            "its receipt makes no sense and there is no snapshot of it"
        } else {
            "there is no receipt and no snapshot of it"
        };
        Failure::workspace(format!(
            "the run {run_id:?} cannot be read in {}: {what}",
            layout.store().display()
        ))
        .because("run_not_found")
        .hint("`loopexec runs list` names the recorded runs")
    })?;
    let view: StateView = serde_json::from_slice(&bytes).map_err(|error| {
        Failure::workspace(format!("cannot read the state {}: {error}", path.display()))
            .because("state_unreadable")
            .hint("`loopexec check` says what of the store can still be read")
    })?;
    if view.run_id == run_id {
        return Ok(view);
    }
    Err(Failure::workspace(format!(
        "the run {run_id:?} is not recorded in {}",
        layout.store().display()
    ))
    .because("run_not_found")
    .hint("`loopexec runs list` names the recorded runs"))
}

impl Recorded {
    /// The fold of the receipt, as far as it makes sense.
    #[must_use]
    pub fn state(&self) -> Option<&RunState> {
        self.log.as_ref()?.state.as_ref()
    }

    /// How the receipt stands.
    #[must_use]
    pub fn receipt_status(&self) -> ReceiptStatus {
        match &self.log {
            None if self.receipt.exists() => ReceiptStatus::Unreadable,
            None => ReceiptStatus::Missing,
            Some(log) if log.chain == Chain::Absent => ReceiptStatus::Readable,
            Some(log) if log.state.is_none() => ReceiptStatus::Unreadable,
            Some(log) if log.flaw.is_some() => ReceiptStatus::Incomplete,
            Some(_) => ReceiptStatus::Readable,
        }
    }

    /// Why it stopped and what to do.
    #[must_use]
    pub fn explain(&self) -> Explanation {
        self.state()
            .map_or_else(|| explain_view(&self.view), explain)
    }

    /// The fold up to the end of an iteration.
    ///
    /// # Errors
    ///
    /// When the run has not reached it, or there is no receipt to fold.
    pub fn as_of(&self, layout: &Layout, iteration: u32) -> Result<StateView, Failure> {
        let last = self.state().map(|state| state.iteration);
        if last.is_none_or(|last| iteration > last) {
            let reached = last.map_or_else(
                || "it cannot be folded".to_owned(),
                |last| format!("it reached iteration {last}"),
            );
            return Err(Failure::invariant(format!(
                "the run {:?} has no iteration {iteration}: {reached}",
                self.run_id
            ))
            .because("iteration_unknown"));
        }
        let mut folder = Folder::default();
        let mut past = false;
        let receipt = layout.receipt(&self.run_id);
        let log = read(&receipt, &mut |line| {
            let of = loopexec_core::event::parse(line).map(|record| record.header.iteration);
            past |= of.is_ok_and(|of| of > iteration);
            if !past {
                // These lines have just been folded by the reader, so this cannot fail.
                let _ = folder.line(line);
            }
        });
        log.map_err(|error| Failure::workspace(chain(&error)))?;
        folder.state().map(StateView::of).ok_or_else(|| {
            Failure::invariant("the receipt has no first record").because("receipt_damaged")
        })
    }
}

/// The explanation of a snapshot without a fold: a receipt of contract 2.0, or one that was lost.
fn explain_view(view: &StateView) -> Explanation {
    let say = |advice, why: &str| Explanation {
        advice,
        why: why.to_owned(),
    };
    let reason = view.halt_reason.as_deref().and_then(HaltReason::from_name);
    let cause = view
        .failure_cause
        .as_deref()
        .and_then(|name| FailureCause::ALL.iter().find(|cause| cause.name() == name));
    match reason {
        None => say(Advice::Review, "the run has not halted"),
        Some(HaltReason::SuccessConditionMet) => say(Advice::Done, "the external check passed"),
        Some(HaltReason::MaxIterationsReached) if view.ever_improved => say(
            Advice::RaiseTheLimit,
            "the failing set had become smaller before the cap; more iterations may be rational",
        ),
        Some(HaltReason::NoProgressDetected) if view.ever_improved => say(
            Advice::Investigate,
            "progress stalled after improving; the rest needs another approach",
        ),
        Some(HaltReason::ExecutionFailure) => say(
            Advice::FixSubstrate,
            cause.map_or("a command could not do its work", |cause| cause.meaning()),
        ),
        Some(HaltReason::WorkspaceInvalid) => say(Advice::FixConfig, "a precondition failed"),
        Some(reason) if reason.class() == loopexec_core::halt::ExitClass::NoConvergence => {
            say(Advice::DoNotRetry, reason.meaning())
        }
        Some(HaltReason::MaxIterationsReached) => say(
            Advice::DoNotRetry,
            "the cap was reached without any improvement of the failing set",
        ),
        Some(reason) => say(Advice::Review, reason.meaning()),
    }
}

/// Iterations in this workspace that nobody has acknowledged; `None` when the workspace log cannot be read.
#[must_use]
pub fn unacknowledged(layout: &Layout) -> Option<u32> {
    WorkspaceLog::read(layout)
        .ok()
        .map(|log| log.debt().iterations())
}

/// A governor at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// Its process.
    pub pid: u32,
    /// The command that is running; empty between commands.
    pub phase: String,
    /// Age of its heartbeat, seconds. Depends on now.
    pub heartbeat_age_s: i64,
}

/// The governor that works on this run now, if one does.
#[must_use]
pub fn live(layout: &Layout, run_id: &str) -> Option<Live> {
    let bytes = loopexec_os::durable::read_regular(
        &layout.file("heartbeat"),
        loopexec_os::durable::SMALL_FILE_BYTES,
    )
    .ok()?;
    let beat: Heartbeat = serde_json::from_slice(&bytes).ok()?;
    let alive = beat.run_id == run_id
        && beat.state == "running"
        && process::is_alive(process::Pid(beat.pid));
    alive.then(|| Live {
        pid: beat.pid,
        phase: beat.phase,
        heartbeat_age_s: clock::wall_millis()
            .div_euclid(1000)
            .saturating_sub(beat.ts)
            .max(0),
    })
}
