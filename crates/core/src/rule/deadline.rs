//! `execution_failure`/`deadline_exceeded`: the run's total time is over.

use crate::{
    event::Fired,
    halt::{FailureCause, HaltReason},
    state::RunState,
};

pub(super) fn fires(state: &RunState) -> Option<Fired> {
    let timeout = state.policy.timeout_ms?;
    (timeout <= state.now).then_some(Fired {
        reason: HaltReason::ExecutionFailure,
        cause: Some(FailureCause::DeadlineExceeded),
    })
}
