//! `metric_integrity_violation`: a guard is broken, and no green counts over a broken guard.

use crate::{
    event::{Fired, GuardStatus},
    halt::HaltReason,
    state::RunState,
};

pub(super) fn fires(state: &RunState) -> Option<Fired> {
    state
        .attempt
        .guards
        .iter()
        .find(|result| result.status == GuardStatus::Violated)
        .map(|result| Fired {
            reason: HaltReason::MetricIntegrityViolation,
            cause: result.cause,
        })
}
