//! `max_iterations_reached`: every iteration that may be started was, and the check is still red.

use crate::{event::Fired, halt::HaltReason, state::RunState};

pub(super) fn fires(state: &RunState) -> Option<Fired> {
    (state.at_boundary() && state.iteration >= state.policy.max_iterations).then_some(Fired {
        reason: HaltReason::MaxIterationsReached,
        cause: None,
    })
}
