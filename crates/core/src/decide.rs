//! From a state to what comes next.
//!
//! The shell asks after every record and does what it is told; [`crate::state::RunState::apply`] refuses a record that
//! this function would not have led to, so a log cannot tell of a step that the rules did not allow.

use crate::{
    event::{CommandPhase, Determinism, GuardStage, Outcome, Verdict, VerdictDecision},
    rule::RULES,
    state::{RunState, Stage},
};

/// What the shell is to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Run this command.
    Run(CommandPhase),
    /// Record the guards of this stage (the set of t0 itself, before the first iteration); it has been collected.
    Guard(GuardStage),
    /// Record the failing set; it has been collected.
    Progress,
    /// Record this verdict: the iteration is over and another may start.
    Continue(Verdict),
    /// Start the next iteration.
    Start,
    /// Record this verdict: the run ends.
    Halt(Verdict),
    /// Record the halt that the last verdict decided.
    Finish,
    /// Nothing: the run has ended.
    Ended,
}

/// Decides, on nothing but the state.
#[must_use]
pub fn decide(state: &RunState) -> Step {
    match state.stage {
        Stage::Halted => return Step::Ended,
        Stage::Decided => return Step::Finish,
        Stage::Opening | Stage::Open | Stage::Between => {}
    }
    if let Some(verdict) = halting(state) {
        return Step::Halt(verdict);
    }
    match state.stage {
        Stage::Opening => opening(state),
        Stage::Open => iteration(state),
        Stage::Between => Step::Start,
        Stage::Decided => Step::Finish,
        Stage::Halted => Step::Ended,
    }
}

/// The verdict that ends the run, when a rule fires.
fn halting(state: &RunState) -> Option<Verdict> {
    let fired: Vec<_> = RULES.iter().filter_map(|rule| rule(state)).collect();
    let first = *fired.first()?;
    Some(Verdict {
        decision: VerdictDecision::Halt,
        fired,
        halt_reason: Some(first.reason),
        failure_cause: first.cause,
        determinism: Determinism::NONE,
    })
}

/// The verdict that lets the run go on.
fn going_on() -> Step {
    Step::Continue(Verdict {
        decision: VerdictDecision::Continue,
        fired: Vec::new(),
        halt_reason: None,
        failure_cause: None,
        determinism: Determinism::NONE,
    })
}

/// Before the first iteration: the sets of t0, and the check when a baseline was asked for.
fn opening(state: &RunState) -> Step {
    let attempt = &state.attempt;
    if state.run.commands.integrity.is_some() && state.integrity_t0.is_none() {
        return collect(state, GuardStage::Static);
    }
    if !state.policy.baseline {
        return Step::Start;
    }
    match &attempt.check {
        None => Step::Run(CommandPhase::Check),
        Some(check) if check.outcome == Outcome::Pass => after_check(state),
        Some(_) => going_on(),
    }
}

/// Within an iteration, in the order of the contract (2.2).
fn iteration(state: &RunState) -> Step {
    let attempt = &state.attempt;
    if state.run.commands.exec.is_some() && attempt.exec.is_none() {
        return Step::Run(CommandPhase::Exec);
    }
    if state.run.commands.integrity.is_some() && !attempt.static_guards {
        return collect(state, GuardStage::Static);
    }
    if attempt.check.is_none() {
        return Step::Run(CommandPhase::Check);
    }
    after_check(state)
}

/// After the check: guards again, then the failing set, then the verdict.
fn after_check(state: &RunState) -> Step {
    let attempt = &state.attempt;
    if state.run.commands.integrity.is_some() && !attempt.result_guards {
        return collect(state, GuardStage::Result);
    }
    if state.iteration > 0 && state.run.commands.failures.is_some() {
        if attempt.failures.is_none() {
            return Step::Run(CommandPhase::Failures);
        }
        if !attempt.progress {
            return Step::Progress;
        }
    }
    going_on()
}

/// The set first, then the guard on it.
fn collect(state: &RunState, stage: GuardStage) -> Step {
    if state.attempt.integrity_collected {
        Step::Guard(stage)
    } else {
        Step::Run(CommandPhase::Integrity)
    }
}
