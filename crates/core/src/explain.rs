//! From how a run ended to one piece of advice and one sentence with its numbers.
//!
//! Must not know the receipt's form or how it is printed.

use crate::{
    halt::{FailureCause, HaltReason},
    progress::Tracker,
    state::RunState,
};

/// What to do about a halt. The names are public.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing: it converged.
    Done,
    /// More iterations are rational.
    RaiseTheLimit,
    /// The rest needs another approach.
    Investigate,
    /// The same again will not converge.
    DoNotRetry,
    /// The work command or its surroundings failed.
    FixSubstrate,
    /// The check could not be judged.
    FixCheck,
    /// A precondition or a value is wrong.
    FixConfig,
    /// A person has to look.
    Review,
}

impl Advice {
    /// The public string.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::RaiseTheLimit => "raise-the-limit",
            Self::Investigate => "investigate",
            Self::DoNotRetry => "do-not-retry",
            Self::FixSubstrate => "fix-substrate",
            Self::FixCheck => "fix-check",
            Self::FixConfig => "fix-config",
            Self::Review => "review",
        }
    }
}

/// Advice and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What to do.
    pub advice: Advice,
    /// Why, in one sentence.
    pub why: String,
}

/// Explains how a run stands; a run that has not ended is explained as such.
#[must_use]
pub fn explain(state: &RunState) -> Explanation {
    let Some(halt) = &state.halt else {
        return Explanation {
            advice: Advice::Review,
            why: format!(
                "the run has not halted; it stands in iteration {} of at most {}",
                state.iteration, state.policy.max_iterations
            ),
        };
    };
    halted(halt.halt_reason, halt.failure_cause, state)
}

fn halted(reason: HaltReason, cause: Option<FailureCause>, state: &RunState) -> Explanation {
    let tracker = &state.tracker;
    let say = |advice, why| Explanation { advice, why };
    match reason {
        HaltReason::SuccessConditionMet => say(Advice::Done, success(state)),
        HaltReason::MaxIterationsReached => cap(state),
        HaltReason::NoProgressDetected if tracker.ever_improved() => say(
            Advice::Investigate,
            format!(
                "progress stalled after improving: {}, then no new minimum for {} iterations; the rest needs another approach",
                trajectory(tracker),
                state.policy.no_progress_k
            ),
        ),
        HaltReason::NoProgressDetected => say(
            Advice::DoNotRetry,
            format!(
                "no progress was ever made on the failing set: {}",
                trajectory(tracker)
            ),
        ),
        HaltReason::OscillationDetected => say(
            Advice::DoNotRetry,
            format!(
                "the failing set returned to an earlier one ({}); the same again will not converge",
                trajectory(tracker)
            ),
        ),
        HaltReason::SameTestRegressed => say(
            Advice::DoNotRetry,
            format!(
                "a failure that had been resolved came back ({}); look at what undid it before retrying",
                trajectory(tracker)
            ),
        ),
        HaltReason::SameFailureRepeated
        | HaltReason::UnsatisfiableConstraints
        | HaltReason::InfeasibleSuspected => say(Advice::DoNotRetry, lower(reason.meaning())),
        HaltReason::ExecutionFailure => execution(cause, state),
        HaltReason::WorkspaceInvalid
        | HaltReason::IsolationUnsatisfiable
        | HaltReason::InvariantFailed => say(Advice::FixConfig, with_cause(reason, cause)),
        HaltReason::CheckFlaky
        | HaltReason::CheckNotDeterministic
        | HaltReason::CheckHasSideEffects
        | HaltReason::CheckNotHermetic
        | HaltReason::HermeticityViolation
        | HaltReason::CheckInadequate => say(Advice::FixCheck, with_cause(reason, cause)),
        HaltReason::ObjectiveUnverified => say(Advice::FixCheck, with_cause(reason, cause)),
        HaltReason::NoActionableTasks
        | HaltReason::HumanRequired
        | HaltReason::BlockedPathModified
        | HaltReason::RewardHackingDetected
        | HaltReason::MetricIntegrityViolation
        | HaltReason::CredentialScopeInvalid
        | HaltReason::EscalationPending
        | HaltReason::ReviewerRejected
        | HaltReason::BudgetExceeded
        | HaltReason::CostAnomaly
        | HaltReason::HeartbeatStale
        | HaltReason::ModelDriftDetected
        | HaltReason::ComprehensionDebtExceeded
        | HaltReason::ContextBudgetUnsatisfiable
        | HaltReason::InternalError => say(Advice::Review, with_cause(reason, cause)),
    }
}

fn success(state: &RunState) -> String {
    if state.iteration == 0 {
        "the external check was green before any work; nothing was spent".to_owned()
    } else {
        format!("the external check passed in iteration {}", state.iteration)
    }
}

fn cap(state: &RunState) -> Explanation {
    let tracker = &state.tracker;
    let limit = state.policy.max_iterations;
    if tracker.falling(state.policy.no_progress_k) {
        return Explanation {
            advice: Advice::RaiseTheLimit,
            why: format!(
                "the failing set was still shrinking at the cap of {limit} ({}); more iterations are rational",
                trajectory(tracker)
            ),
        };
    }
    let seen = if tracker.observations().is_empty() {
        "no failing set was recorded (--failures-cmd), so nothing shows that it came closer"
            .to_owned()
    } else {
        format!(
            "the last observations did not fall ({})",
            trajectory(tracker)
        )
    };
    Explanation {
        advice: Advice::DoNotRetry,
        why: format!(
            "the cap of {limit} was reached and {seen}; a higher limit alone will not help"
        ),
    }
}

fn execution(cause: Option<FailureCause>, state: &RunState) -> Explanation {
    let advice = match cause {
        Some(
            FailureCause::CheckNotRunnable
            | FailureCause::CheckTimeout
            | FailureCause::CheckSignalled,
        ) => Advice::FixCheck,
        Some(FailureCause::DeadlineExceeded)
            if state.tracker.falling(state.policy.no_progress_k) =>
        {
            Advice::RaiseTheLimit
        }
        Some(FailureCause::Cancelled) => Advice::Review,
        Some(_) | None => Advice::FixSubstrate,
    };
    let why = with_cause(HaltReason::ExecutionFailure, cause);
    let code = (cause == Some(FailureCause::WorkCommandFailed))
        .then_some(state.attempt.exec.as_ref())
        .flatten();
    let code = match code.and_then(|end| end.exit_code) {
        Some(127) => ", exit code 127: the shell found no such program".to_owned(),
        Some(126) => ", exit code 126: the shell may not run that program".to_owned(),
        Some(code) => format!(", exit code {code}"),
        None => String::new(),
    };
    Explanation {
        advice,
        why: format!("{why} (iteration {}{code})", state.iteration),
    }
}

fn with_cause(reason: HaltReason, cause: Option<FailureCause>) -> String {
    cause.map_or_else(|| lower(reason.meaning()), |cause| lower(cause.meaning()))
}

/// First and best size with their iterations, and the last.
fn trajectory(tracker: &Tracker) -> String {
    let (Some(initial), Some(best), Some(last)) = (
        tracker.initial(),
        tracker.best(),
        tracker.observations().last(),
    ) else {
        return "no failing set was recorded".to_owned();
    };
    format!(
        "{} failing in iteration {}, at best {} in iteration {}, {} at the end",
        initial.failing, initial.iteration, best.failing, best.iteration, last.failing
    )
}

/// A sentence of the tables as a fragment: lower case, no full stop.
fn lower(sentence: &str) -> String {
    let mut letters = sentence.trim_end_matches('.').chars();
    letters.next().map_or_else(String::new, |first| {
        let acronym = letters
            .as_str()
            .chars()
            .next()
            .is_some_and(char::is_uppercase);
        if acronym {
            format!("{first}{}", letters.as_str())
        } else {
            format!("{}{}", first.to_lowercase(), letters.as_str())
        }
    })
}
