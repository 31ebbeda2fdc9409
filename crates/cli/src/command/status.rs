//! `status`: where a run stands, live or as recorded, now or as of an iteration.

use loopexec_engine::{
    failure::Failure,
    recorded::{self, Recorded},
    snapshot::StateView,
};

use super::{Answer, blocks::Live};
use crate::{
    args::{Global, Status},
    envelope::Envelope,
    error::CliError,
    invocation::Invocation,
};

/// Shows a recorded run.
pub(super) fn status(
    global: &Global,
    arguments: &Status,
    invocation: &Invocation,
) -> Result<Answer, CliError> {
    let layout = invocation.layout(global.workdir.as_deref())?;
    let run = recorded::load(&layout, arguments.run.run_id.as_deref())?;
    let view = match arguments.iteration {
        None => run.view.clone(),
        Some(iteration) => {
            let wanted = u32::try_from(iteration).map_err(|_| {
                Failure::invariant(format!(
                    "--iteration {iteration} is negative; iterations count from 0"
                ))
                .because("limit_invalid")
            })?;
            run.as_of(&layout, wanted)?
        }
    };
    let live = recorded::live(&layout, &view.run_id).filter(|_| arguments.iteration.is_none());
    let mut envelope = Envelope::new("ok");
    envelope.run_id = Some(view.run_id.clone());
    envelope.iteration = Some(view.iteration);
    envelope.halt_reason.clone_from(&view.halt_reason);
    envelope.failure_cause.clone_from(&view.failure_cause);
    envelope.check_exit = view.last_check_exit;
    envelope.receipt = Envelope::path(&layout.receipt(&view.run_id));
    envelope.warnings.clone_from(&run.warnings);
    let mut text = super::run::lines(&envelope);
    text.push_str(&details(&view));
    let unread = recorded::unacknowledged(&layout).filter(|count| *count > 0);
    if let Some(count) = unread.filter(|_| arguments.iteration.is_none()) {
        text.push_str(&format!(
            "unacknowledged iterations in this workspace: {count}\n"
        ));
    }
    if let Some(live) = &live {
        text.push_str(&format!(
            "live: process {}, {} when it last moved, {} s ago\n",
            live.pid,
            if live.phase.is_empty() {
                "between commands"
            } else {
                &live.phase
            },
            live.heartbeat_age_s
        ));
    } else if arguments.iteration.is_none() {
        text.push_str(&nobody_works(&run));
    }
    for warning in &run.warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    envelope.block.live = Some(Live {
        running: live.is_some(),
        pid: live.as_ref().map(|live| live.pid),
        phase: live.as_ref().map(|live| live.phase.clone()),
        heartbeat_age_s: live.as_ref().map(|live| live.heartbeat_age_s),
    });
    envelope.block.state = Some(Box::new(view));
    Ok(Answer::new(envelope, text))
}

/// What to do about a run that has not ended although no governor works on it: it was a step, or was killed.
pub(super) fn nobody_works(run: &Recorded) -> String {
    if run.view.halt_reason.is_some() {
        return String::new();
    }
    let next = if run.warnings.is_empty() {
        "run --resume"
    } else {
        "verify"
    };
    format!(
        "live: no governor works on it\nnext: loopexec {next} --run-id {}\n",
        run.run_id
    )
}

/// What a person wants to see besides the common lines.
fn details(view: &StateView) -> String {
    let mut text = format!(
        "phase: {}\nmax_iterations: {}\n",
        view.phase, view.max_iterations
    );
    if let Some(code) = view.last_check_exit {
        text.push_str(&format!("check_exit: {code}\n"));
    }
    if let (Some(initial), Some(best), Some(iteration)) = (
        view.initial_fail_count,
        view.best_fail_count,
        view.best_iteration,
    ) {
        let now = view.fail_count.unwrap_or(best);
        text.push_str(&format!(
            "failing: {now} now, {initial} at first, {best} at best (iteration {iteration})\n"
        ));
    }
    text.push_str(&format!(
        "elapsed: {}\n",
        crate::render::elapsed(view.elapsed_ms)
    ));
    text
}
