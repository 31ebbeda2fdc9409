//! The reasons to halt, one function each, in order of precedence.
//!
//! Every rule that fires is recorded; the first names the halt. A rule sees the state and nothing else.

mod cancelled;
mod cannot_judge;
mod cap;
mod comprehension;
mod deadline;
mod guards;
mod no_progress;
mod oscillation;
mod regression;
mod require_red;
mod success;
mod work_failed;

use crate::{event::Fired, state::RunState};

/// One rule: whether it fires on a state, and what the halt is then called.
pub(crate) type Rule = fn(&RunState) -> Option<Fired>;

/// All rules of this revision, strongest first (contract 4.3).
///
/// Above them stands the failed write of the log itself: a governor that cannot record stops without recording.
pub(crate) const RULES: &[Rule] = &[
    cancelled::fires,
    guards::fires,
    work_failed::fires,
    cannot_judge::fires,
    require_red::fires,
    success::fires,
    comprehension::fires,
    regression::fires,
    oscillation::fires,
    no_progress::fires,
    deadline::fires,
    cap::fires,
];
