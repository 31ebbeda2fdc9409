//! `oscillation_detected`: the failing set returned to an earlier one.

use crate::{event::Fired, halt::HaltReason, progress::Movement, state::RunState};

pub(super) fn fires(state: &RunState) -> Option<Fired> {
    (state.observed() && state.tracker.movement() == Movement::Oscillated).then_some(Fired {
        reason: HaltReason::OscillationDetected,
        cause: None,
    })
}
