//! The end of a run: its content kept, its halt recorded and on the disk, the workspace's debt settled.

use loopexec_core::{
    event::{Event, Halt, SnapshotLabel, WorkspaceContent},
    explain::{Advice, explain},
    halt::{FailureCause, HaltReason},
    state::RunState,
    workspace::ActName,
};
use loopexec_os::durable::SyncMode;

use super::{
    RunEnd, WorkspaceBlock,
    session::{Session, unrecorded},
    store,
};
use crate::{
    failure::{Failure, chain},
    layout::Layout,
    log::{NewAct, WorkspaceLog},
};

/// Records the halt that the verdict decided.
pub(super) fn halt(session: &mut Session) -> Result<(), Failure> {
    let state = session.state()?;
    let verdict = state
        .verdict
        .clone()
        .ok_or_else(|| Failure::internal("a halt without a verdict").because("defect"))?;
    let halt_reason = verdict
        .halt_reason
        .ok_or_else(|| Failure::internal("a halt without a reason").because("defect"))?;
    let green = halt_reason == HaltReason::SuccessConditionMet;
    let t0 = state.t0.clone();
    let iteration = state.iteration;
    if let Some(content) = session.content.as_mut() {
        match content.end(green, t0.as_ref()) {
            Ok(end) => {
                session.digest = end.digest.or(session.digest);
                if let Some(snapshot) = end.snapshot {
                    debug_assert_eq!(snapshot.label, SnapshotLabel::Final);
                    session.record(Event::Snapshot(snapshot), false)?;
                }
            }
            Err(error) => session.notes.push(format!(
                "the content at the end could not be kept: {}",
                chain(&error)
            )),
        }
    }
    let untouched = t0.is_some_and(|t0| Some(t0.manifest_sha256) == session.digest);
    let content = match (untouched, green && iteration > 0) {
        (true, false) => WorkspaceContent::T0,
        (_, true) => WorkspaceContent::Accepted,
        (false, false) => WorkspaceContent::LastAttempt,
    };
    session.record(
        Event::Halt(Halt {
            halt_reason,
            exit: halt_reason.class().code(),
            failure_cause: verdict.failure_cause,
            detail: halt_reason,
            content,
            workspace_sha256: session.digest,
        }),
        true,
    )?;
    session.write_state(SyncMode::Full)?;
    settle(&session.layout, session.state()?)?;
    // It was for the work command, which has ended.
    let directory = session.layout.run_directory(&session.state()?.run_id);
    let _ = fs_err::remove_file(directory.join("feedback.json"));
    let _ = fs_err::remove_dir(directory.join("report"));
    let _ = session.pulse.beat(iteration, None, true);
    Ok(())
}

/// Leaves a run open after one step.
pub(super) fn pause(session: &mut Session) -> Result<(), Failure> {
    session
        .receipt
        .bring_copy_up(true)
        .map_err(|error| unrecorded(&error))?;
    session.write_state(SyncMode::Full)?;
    settle(&session.layout, session.state()?)?;
    let iteration = session.state()?.iteration;
    let _ = session.pulse.beat(iteration, None, true);
    Ok(())
}

/// Adds a run's iterations to the workspace's debt, unless that was done for this very state.
pub(crate) fn settle(layout: &Layout, state: &RunState) -> Result<(), Failure> {
    let failed = |error| {
        Failure::workspace(format!(
            "the run could not be added to the workspace log: {}",
            chain(&error)
        ))
        .because("workspace_log_unusable")
    };
    let log = WorkspaceLog::read(layout).map_err(failed)?;
    let settled = log.acts.iter().any(|act| {
        act.event == ActName::RunEnded && act.run_id == state.run_id && act.head == Some(state.head)
    });
    if settled || state.completed() == 0 && state.halt.is_none() {
        return Ok(());
    }
    let mut act = NewAct::new(ActName::RunEnded, &state.run_id);
    act.fields.iterations = Some(state.completed());
    act.fields.t0_sha256 = state.t0.as_ref().map(|t0| t0.manifest_sha256);
    act.fields.to_sha256 = state.halt.as_ref().and_then(|halt| halt.workspace_sha256);
    act.fields.head = Some(state.head);
    act.fields.halt_reason = state
        .halt
        .as_ref()
        .map(|halt| halt.halt_reason.name().to_owned());
    act.fields.policy_hash = Some(state.run.policy_hash);
    act.fields.opened_ts_ms = Some(state.opened_ts_ms);
    WorkspaceLog::append(layout, act).map_err(failed)?;
    Ok(())
}

/// What the caller is told.
pub(super) fn end(session: Session) -> Result<RunEnd, Failure> {
    let state = session.state()?.clone();
    let block = workspace_block(&state, session.digest.map(|digest| digest.to_string()));
    store::forget_holder(&session.layout);
    drop(session.lock);
    Ok(RunEnd {
        receipt: session.receipt.path().to_owned(),
        workspace: block,
        archived: session.archived,
        notes: session.notes,
        state,
    })
}

/// The block that says what is in the tree and what to do next.
pub(crate) fn workspace_block(state: &RunState, digest: Option<String>) -> WorkspaceBlock {
    let id = &state.run_id;
    let (content, next_command) = match &state.halt {
        None => (
            WorkspaceContent::LastAttempt,
            format!("loopexec step --run-id {id}"),
        ),
        Some(halt) => (halt.content, next_command(state, halt)),
    };
    WorkspaceBlock {
        content,
        digest: digest.unwrap_or_default(),
        next_command,
    }
}

fn next_command(state: &RunState, halt: &Halt) -> String {
    let id = &state.run_id;
    let raise =
        |flag: &str| format!("loopexec run --resume --run-id {id} --raise {flag} --reviewer NAME");
    let worth_raising = explain(state).advice == Advice::RaiseTheLimit;
    match (halt.halt_reason, halt.failure_cause) {
        (HaltReason::SuccessConditionMet, _) => format!("loopexec replay --run-id {id}"),
        (HaltReason::ComprehensionDebtExceeded, _) => "loopexec ack --show".to_owned(),
        (HaltReason::MaxIterationsReached, _) if worth_raising => raise("--max-iterations N"),
        (_, Some(FailureCause::DeadlineExceeded)) if worth_raising => raise("--timeout D"),
        (_, Some(FailureCause::Cancelled)) => format!("loopexec run --resume --run-id {id}"),
        (_, _) => format!("loopexec report --run-id {id}"),
    }
}
