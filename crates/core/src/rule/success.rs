//! `success_condition_met`: the check is green and everything that has to be looked at after it was.

use crate::{
    event::{Fired, Outcome},
    halt::HaltReason,
    state::RunState,
};

/// Whether this attempt's check passed and nothing is left to observe.
pub(super) fn green(state: &RunState) -> bool {
    let passed = state
        .attempt
        .check
        .as_ref()
        .is_some_and(|check| check.outcome == Outcome::Pass);
    passed && state.observed()
}

pub(super) fn fires(state: &RunState) -> Option<Fired> {
    green(state).then_some(Fired {
        reason: HaltReason::SuccessConditionMet,
        cause: None,
    })
}
