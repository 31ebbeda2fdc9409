//! `execution_failure`: the work command failed, ran out of time or left what cannot be ended.

use crate::{event::Fired, halt::HaltReason, judge, state::RunState};

pub(super) fn fires(state: &RunState) -> Option<Fired> {
    let cause = judge::work(state.attempt.exec.as_ref()?)?;
    Some(Fired {
        reason: HaltReason::ExecutionFailure,
        cause: Some(cause),
    })
}
