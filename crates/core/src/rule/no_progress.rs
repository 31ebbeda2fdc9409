//! `no_progress_detected`: K attempts without a new minimum.

use crate::{event::Fired, halt::HaltReason, progress::Movement, state::RunState};

pub(super) fn fires(state: &RunState) -> Option<Fired> {
    (state.observed() && state.tracker.movement() == Movement::Stalled).then_some(Fired {
        reason: HaltReason::NoProgressDetected,
        cause: None,
    })
}
