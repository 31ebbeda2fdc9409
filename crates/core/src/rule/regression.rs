//! `same_test_regressed`: a resolved failure came back.

use crate::{event::Fired, halt::HaltReason, progress::Movement, state::RunState};

pub(super) fn fires(state: &RunState) -> Option<Fired> {
    (state.observed() && state.tracker.movement() == Movement::Regressed).then_some(Fired {
        reason: HaltReason::SameTestRegressed,
        cause: None,
    })
}
