//! The halt reasons and their exit classes: one table, nowhere else.
//!
//! A reason is a public, stable string; an unknown one cannot be represented. Must not know how a reason is computed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The coarse class of an outcome: the process exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExitClass {
    /// The command did its work and no loop halted.
    Nominal,
    /// The command line could not be parsed.
    Usage,
    /// The check passed and every guard held.
    Converged,
    /// Nothing left that the loop may do.
    TerminalBlocked,
    /// The iteration cap was reached.
    IterationCap,
    /// What the verdict rests on was changed, or cannot be trusted.
    Integrity,
    /// The check is not a reliable oracle.
    OracleUntrusted,
    /// The check does not test enough.
    CheckInadequate,
    /// A person must judge before the loop may go on.
    ResumableJudgment,
    /// The loop does not come closer to its goal.
    NoConvergence,
    /// Money or calls ran out, or cost behaves oddly.
    Budget,
    /// A liveness or drift limit.
    LivenessDrift,
    /// A value that can never be right, or state that contradicts its log.
    Invariant,
    /// The workspace or its configuration cannot be used.
    Workspace,
    /// A command could not do its work.
    Execution,
    /// A defect of this program, or a disk that does not take the record.
    Internal,
}

impl ExitClass {
    /// The process exit code.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Nominal => 0,
            Self::Usage => 2,
            Self::Converged => 10,
            Self::TerminalBlocked => 11,
            Self::IterationCap => 12,
            Self::Integrity => 13,
            Self::OracleUntrusted => 14,
            Self::CheckInadequate => 15,
            Self::ResumableJudgment => 16,
            Self::NoConvergence => 17,
            Self::Budget => 18,
            Self::LivenessDrift => 19,
            Self::Invariant => 20,
            Self::Workspace => 30,
            Self::Execution => 40,
            Self::Internal => 50,
        }
    }

    /// The class's public name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nominal => "nominal",
            Self::Usage => "usage",
            Self::Converged => "converged",
            Self::TerminalBlocked => "terminal-blocked",
            Self::IterationCap => "iteration-cap",
            Self::Integrity => "integrity",
            Self::OracleUntrusted => "oracle-untrusted",
            Self::CheckInadequate => "check-inadequate",
            Self::ResumableJudgment => "resumable-judgment",
            Self::NoConvergence => "no-convergence",
            Self::Budget => "budget",
            Self::LivenessDrift => "liveness/drift",
            Self::Invariant => "invariant",
            Self::Workspace => "workspace",
            Self::Execution => "execution",
            Self::Internal => "internal",
        }
    }
}

macro_rules! halt_reasons {
    ($($variant:ident, $name:literal, $class:ident, $meaning:literal;)*) => {
        /// Why a run stopped. The names are in receipts for ever.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        pub enum HaltReason {
            $(#[doc = $meaning] #[serde(rename = $name)] $variant,)*
        }

        impl HaltReason {
            /// Every reason, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The public string.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The exit class.
            #[must_use]
            pub const fn class(self) -> ExitClass {
                match self { $(Self::$variant => ExitClass::$class,)* }
            }

            /// What it means, in one sentence for people.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

halt_reasons! {
    SuccessConditionMet, "success_condition_met", Converged, "The external check passed and every guard held.";
    NoActionableTasks, "no_actionable_tasks", TerminalBlocked, "No task of the plan can be started.";
    HumanRequired, "human_required", TerminalBlocked, "A task is blocked and only a person can unblock it.";
    MaxIterationsReached, "max_iterations_reached", IterationCap, "The iteration cap was reached while the check was still red.";
    BlockedPathModified, "blocked_path_modified", Integrity, "A path that may not change was changed.";
    RewardHackingDetected, "reward_hacking_detected", Integrity, "The green was obtained without doing the work.";
    MetricIntegrityViolation, "metric_integrity_violation", Integrity, "What measures the work, or the record of it, was changed.";
    CredentialScopeInvalid, "credential_scope_invalid", Integrity, "A credential reaches further than the run allows.";
    ObjectiveUnverified, "objective_unverified", Integrity, "The evidence for the verdict is missing or contradicts itself.";
    CheckFlaky, "check_flaky", OracleUntrusted, "The check's verdict varies on identical input.";
    CheckNotDeterministic, "check_not_deterministic", OracleUntrusted, "The check contradicted itself within the run.";
    CheckHasSideEffects, "check_has_side_effects", OracleUntrusted, "Running the check changes its own next verdict.";
    CheckNotHermetic, "check_not_hermetic", OracleUntrusted, "The check's verdict depends on something outside the workspace.";
    HermeticityViolation, "hermeticity_violation", OracleUntrusted, "A check declared hermetic depends on something outside the workspace.";
    CheckInadequate, "check_inadequate", CheckInadequate, "The check does not tell good work from bad.";
    EscalationPending, "escalation_pending", ResumableJudgment, "A page to a person has not been acknowledged.";
    ReviewerRejected, "reviewer_rejected", ResumableJudgment, "A reviewer vetoed the green.";
    NoProgressDetected, "no_progress_detected", NoConvergence, "No new minimum of the failing set for K attempts.";
    SameFailureRepeated, "same_failure_repeated", NoConvergence, "The same failures on the same content, K times: the work command changes nothing.";
    OscillationDetected, "oscillation_detected", NoConvergence, "The failing set returned to an earlier one.";
    SameTestRegressed, "same_test_regressed", NoConvergence, "A failure that had been resolved came back.";
    UnsatisfiableConstraints, "unsatisfiable_constraints", NoConvergence, "Making one test pass always makes the same other one fail.";
    InfeasibleSuspected, "infeasible_suspected", NoConvergence, "Every attempt failed in the same way without any gain.";
    BudgetExceeded, "budget_exceeded", Budget, "The allowance of money or calls is used up.";
    CostAnomaly, "cost_anomaly", Budget, "Cost left its recorded pattern, or cannot be reconciled.";
    HeartbeatStale, "heartbeat_stale", LivenessDrift, "The governor's heartbeat is older than allowed.";
    ModelDriftDetected, "model_drift_detected", LivenessDrift, "The model that answered is not the one assigned.";
    ComprehensionDebtExceeded, "comprehension_debt_exceeded", LivenessDrift, "Too many iterations since a person last acknowledged the changes.";
    ContextBudgetUnsatisfiable, "context_budget_unsatisfiable", LivenessDrift, "The mandatory context does not fit the budget.";
    InvariantFailed, "invariant_failed", Invariant, "A value that can never be right, or state that contradicts its log.";
    WorkspaceInvalid, "workspace_invalid", Workspace, "The workspace or its configuration cannot be used.";
    IsolationUnsatisfiable, "isolation_unsatisfiable", Workspace, "The isolation asked for cannot be had here.";
    ExecutionFailure, "execution_failure", Execution, "A command failed, ran out of time, was cancelled or could not be started.";
    InternalError, "internal_error", Internal, "A defect of this program, or a disk that does not take the record.";
}

impl HaltReason {
    /// The reason with this public name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|reason| reason.name() == name)
    }

    /// Whether a run that halted so may be gone on with: cancelled, out of time, or (with a raised limit) at its cap.
    #[must_use]
    pub fn continuable(self, cause: Option<FailureCause>) -> bool {
        let interrupted = [
            Some(FailureCause::Cancelled),
            Some(FailureCause::DeadlineExceeded),
        ];
        self == Self::MaxIterationsReached
            || (self == Self::ExecutionFailure && interrupted.contains(&cause))
    }
}

impl std::fmt::Display for HaltReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! failure_causes {
    ($($variant:ident, $name:literal, $meaning:literal;)*) => {
        /// Which phase failed, and how: the additive `failure_cause` beside a halt reason.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        pub enum FailureCause {
            $(#[doc = $meaning] #[serde(rename = $name)] $variant,)*
        }

        impl FailureCause {
            /// Every cause, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The public string.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it means, in one sentence for people.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

failure_causes! {
    WorkCommandFailed, "work_command_failed", "The work command ended with a non-zero exit code.";
    WorkCommandSignalled, "work_command_signalled", "The work command was ended by a signal that the governor did not send.";
    WorkCommandNotRunnable, "work_command_not_runnable", "The work command could not be started.";
    CommandTimeout, "command_timeout", "A command ran longer than the limit for one command.";
    IdleTimeout, "idle_timeout", "A command neither printed nor used the processor for too long.";
    DeadlineExceeded, "deadline_exceeded", "The run's total time is over.";
    Cancelled, "cancelled", "A signal asked the governor to stop.";
    CheckNotRunnable, "check_not_runnable", "The check could not be started.";
    CheckTimeout, "check_timeout", "The check did not finish in its time.";
    CheckSignalled, "check_signalled", "The check was ended by a signal that the governor did not send.";
    IntegrityMembersRemoved, "integrity_members_removed", "The test-determining set lost members that it had at t0.";
    IntegrityCollectorFailed, "integrity_collector_failed", "The command that lists the test-determining set failed.";
    FailuresCollectorFailed, "failures_collector_failed", "The command that lists the open failures failed.";
    ReceiptTampered, "receipt_tampered", "The receipt, its state or the store was changed from outside.";
    GreenBeforeWork, "green_before_work", "The check is green before any work, so it proves nothing about the work.";
    ProcessNotEnded, "process_not_ended", "A process that a command left behind could not be ended.";
}

impl std::fmt::Display for FailureCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_one_name_and_finds_itself_by_it() {
        for reason in HaltReason::ALL {
            assert_eq!(HaltReason::from_name(reason.name()), Some(*reason));
            let json = serde_json::to_string(reason).unwrap();
            assert_eq!(json, format!("\"{}\"", reason.name()));
        }
        assert_eq!(HaltReason::from_name("done"), None);
    }

    #[test]
    fn the_classes_of_the_contract_hold() {
        let code = |name: &str| HaltReason::from_name(name).map(|reason| reason.class().code());
        for (name, exit) in [
            ("success_condition_met", 10),
            ("human_required", 11),
            ("max_iterations_reached", 12),
            ("metric_integrity_violation", 13),
            ("check_flaky", 14),
            ("check_inadequate", 15),
            ("reviewer_rejected", 16),
            ("oscillation_detected", 17),
            ("budget_exceeded", 18),
            ("comprehension_debt_exceeded", 19),
            ("invariant_failed", 20),
            ("workspace_invalid", 30),
            ("execution_failure", 40),
            ("internal_error", 50),
        ] {
            assert_eq!(code(name), Some(exit), "{name}");
        }
        assert_eq!(HaltReason::ALL.len(), 34);
    }

    #[test]
    fn causes_are_snake_case() {
        for cause in FailureCause::ALL {
            assert!(
                cause
                    .name()
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
                "{cause}"
            );
            assert!(cause.meaning().ends_with('.'));
        }
    }
}
