//! `comprehension_debt_exceeded`: more iterations than allowed since a person last acknowledged the changes.

use crate::{event::Fired, halt::HaltReason, state::RunState};

pub(super) fn fires(state: &RunState) -> Option<Fired> {
    let every = state.policy.comprehension_every;
    (every > 0 && state.at_boundary() && state.comprehension_debt() >= every).then_some(Fired {
        reason: HaltReason::ComprehensionDebtExceeded,
        cause: None,
    })
}
