//! `check_inadequate`: with `--require-red`, a check that is green before the work proves nothing about the work.

use crate::{
    event::Fired,
    halt::{FailureCause, HaltReason},
    state::RunState,
};

pub(super) fn fires(state: &RunState) -> Option<Fired> {
    (state.policy.require_red && state.iteration == 0 && super::success::green(state)).then_some(
        Fired {
            reason: HaltReason::CheckInadequate,
            cause: Some(FailureCause::GreenBeforeWork),
        },
    )
}
