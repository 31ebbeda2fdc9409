//! The check, or a collector of failures, gave nothing that can be judged: no further iteration is paid for on it.

use crate::{
    event::{Fired, Outcome},
    halt::{FailureCause, HaltReason},
    judge,
    state::RunState,
};

pub(super) fn fires(state: &RunState) -> Option<Fired> {
    if let Some(check) = &state.attempt.check
        && check.outcome == Outcome::CannotJudge
    {
        return Some(Fired {
            reason: HaltReason::ExecutionFailure,
            cause: check.cause,
        });
    }
    let collector = state.attempt.failures.as_ref()?;
    judge::collector_failed(collector).then_some(Fired {
        reason: HaltReason::ObjectiveUnverified,
        cause: Some(FailureCause::FailuresCollectorFailed),
    })
}
