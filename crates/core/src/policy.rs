//! The limits a run is held to, already validated; recorded in full in its first record.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    digest::Digest,
    units::{MicroUsd, RunMillis},
};

/// Whether a run takes candidates, the ratchet and the guards, or behaves as the public tool's integrations know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// As integrations of contract 2.0 know it: t0 reference only, work command first, iterations from 1.
    Legacy,
    /// Baseline, snapshots, ratchet and guards.
    Tracked,
}

/// How a run decides that it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// One external check, iterated to green.
    CheckFixpoint,
}

/// The limits and switches that decide. `None` is "unbounded", said so in `run_start.unbounded`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    /// Iterations that may be started; at least 1.
    pub max_iterations: u32,
    /// Total time of the run, sleep included.
    pub timeout_ms: Option<RunMillis>,
    /// Time of one command.
    pub command_timeout_ms: Option<RunMillis>,
    /// Time a command may neither print nor use the processor.
    pub idle_timeout_ms: Option<RunMillis>,
    /// Time between TERM and KILL.
    pub terminate_grace_ms: RunMillis,
    /// Attempts without a new minimum of the failing set; at least 1.
    pub no_progress_k: u32,
    /// Iterations since the last acknowledgement that halt the run; 0 is off.
    pub comprehension_every: u32,
    /// The check's exit code that means pass.
    pub success_exit_code: i32,
    /// Whether the check runs once before the first work command.
    pub baseline: bool,
    /// Whether a green before the work is refused.
    pub require_red: bool,
    /// Money that may be spent; needs a meter.
    pub budget_microusd: Option<MicroUsd>,
}

impl Default for Policy {
    /// The defaults of the command line.
    fn default() -> Self {
        Self {
            max_iterations: 10,
            timeout_ms: None,
            command_timeout_ms: None,
            idle_timeout_ms: None,
            terminate_grace_ms: RunMillis(250),
            no_progress_k: 3,
            comprehension_every: 0,
            success_exit_code: 0,
            baseline: false,
            require_red: false,
            budget_microusd: None,
        }
    }
}

/// The command strings of a run; each runs under `sh -c`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Commands {
    /// The work command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<String>,
    /// The external check.
    pub check: String,
    /// The legacy collector of open failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<String>,
    /// The legacy collector of the test-determining set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub integrity: Option<String>,
}

/// A value that can never be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No iteration could ever start.
    #[error("max-iterations is 0, but a run needs at least one iteration")]
    NoIteration,
    /// Every attempt would count as stalled.
    #[error("no-progress-k is 0, but patience needs at least one attempt")]
    NoPatience,
    /// A time limit that is over before it starts.
    #[error("{name} is 0, but 0 never means \"without limit\"; leave it out for that")]
    ZeroDuration {
        /// The limit's name.
        name: &'static str,
    },
    /// A green baseline cannot be refused without taking one.
    #[error("require-red needs the baseline: the check has to run before the work to be seen red")]
    RedWithoutBaseline,
    /// An allowance that allows nothing.
    #[error("budget-usd is 0, but 0 never means \"without limit\"; leave it out for that")]
    ZeroBudget,
}

impl Policy {
    /// Refuses what can never be right.
    ///
    /// # Errors
    ///
    /// The first value, in declared order, that is outside its domain.
    pub fn validate(&self) -> Result<(), PolicyError> {
        if self.max_iterations == 0 {
            return Err(PolicyError::NoIteration);
        }
        for (name, limit) in [
            ("timeout", self.timeout_ms),
            ("command-timeout", self.command_timeout_ms),
            ("idle-timeout", self.idle_timeout_ms),
        ] {
            if limit == Some(RunMillis(0)) {
                return Err(PolicyError::ZeroDuration { name });
            }
        }
        if self.no_progress_k == 0 {
            return Err(PolicyError::NoPatience);
        }
        if self.require_red && !self.baseline {
            return Err(PolicyError::RedWithoutBaseline);
        }
        if self.budget_microusd == Some(MicroUsd(0)) {
            return Err(PolicyError::ZeroBudget);
        }
        Ok(())
    }

    /// The names of the limits that are not set, for the record and the one warning.
    #[must_use]
    pub fn unbounded(&self) -> Vec<String> {
        [
            ("timeout", self.timeout_ms.is_none()),
            ("command_timeout", self.command_timeout_ms.is_none()),
            ("idle_timeout", self.idle_timeout_ms.is_none()),
        ]
        .into_iter()
        .filter(|(_, open)| *open)
        .map(|(name, _)| name.to_owned())
        .collect()
    }

    /// What a resume must agree with: the digest of mode, kind, commands and limits as compact JSON in declared order.
    #[must_use]
    pub fn hash(&self, mode: Mode, kind: RunKind, commands: &Commands) -> Digest {
        let bytes = serde_json::to_vec(&(mode, kind, commands, self)).unwrap_or_default();
        Digest::of(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_say_what_is_unbounded() {
        assert_eq!(Policy::default().validate(), Ok(()));
        assert_eq!(
            Policy::default().unbounded(),
            ["timeout", "command_timeout", "idle_timeout"]
        );
    }

    #[test]
    fn one_is_the_smallest_bound_and_zero_is_refused() {
        let with = |change: fn(&mut Policy)| {
            let mut policy = Policy::default();
            change(&mut policy);
            policy.validate()
        };
        assert_eq!(with(|p| p.max_iterations = 1), Ok(()));
        assert_eq!(
            with(|p| p.max_iterations = 0),
            Err(PolicyError::NoIteration)
        );
        assert_eq!(with(|p| p.no_progress_k = 1), Ok(()));
        assert_eq!(with(|p| p.no_progress_k = 0), Err(PolicyError::NoPatience));
        assert_eq!(with(|p| p.timeout_ms = Some(RunMillis(1))), Ok(()));
        assert!(with(|p| p.timeout_ms = Some(RunMillis(0))).is_err());
        assert!(with(|p| p.command_timeout_ms = Some(RunMillis(0))).is_err());
        assert!(with(|p| p.idle_timeout_ms = Some(RunMillis(0))).is_err());
        assert_eq!(with(|p| p.budget_microusd = Some(MicroUsd(1))), Ok(()));
        assert!(with(|p| p.budget_microusd = Some(MicroUsd(0))).is_err());
        assert_eq!(
            with(|p| p.require_red = true),
            Err(PolicyError::RedWithoutBaseline)
        );
    }

    #[test]
    fn any_change_of_a_limit_or_a_command_changes_the_hash() {
        let commands = Commands {
            check: "true".into(),
            ..Commands::default()
        };
        let hash = |policy: &Policy, commands: &Commands| {
            policy.hash(Mode::CheckFixpoint, RunKind::Legacy, commands)
        };
        let base = hash(&Policy::default(), &commands);
        assert_eq!(base, hash(&Policy::default(), &commands));
        let more = Policy {
            max_iterations: 11,
            ..Policy::default()
        };
        assert_ne!(base, hash(&more, &commands));
        let other = Commands {
            exec: Some("x".into()),
            ..commands.clone()
        };
        assert_ne!(base, hash(&Policy::default(), &other));
    }
}
