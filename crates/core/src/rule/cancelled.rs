//! `execution_failure`/`cancelled`: a signal asked the governor to stop.

use crate::{
    event::Fired,
    halt::{FailureCause, HaltReason},
    state::RunState,
};

pub(super) fn fires(state: &RunState) -> Option<Fired> {
    state.cancelled.then_some(Fired {
        reason: HaltReason::ExecutionFailure,
        cause: Some(FailureCause::Cancelled),
    })
}
