//! What the work command is told about the attempt before it: one JSON file, true and free of secrets.
//!
//! Must not know how the work command reads it.

use loopexec_core::{event::Outcome, state::RunState, units::MicroUsd};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the file's form.
const SCHEMA_VERSION: u32 = 1;
/// Output of the last check that is passed on, bytes.
pub const TAIL_BYTES: usize = 16 * 1024;
/// Failing ids that are passed on; the file stays readable for a model, the rest is counted.
const IDS_MAX: usize = 1_000;

/// The verdict of the last check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LastVerdict {
    /// Green.
    Pass,
    /// Red.
    Reject,
    /// Neither.
    CannotJudge,
    /// No check has run yet.
    None,
}

/// What is left of each limit; `null` is without limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remaining {
    /// Iterations, the one that is starting included.
    pub iterations: u32,
    /// Seconds until the deadline.
    pub seconds: Option<u64>,
    /// Money.
    pub microusd: Option<MicroUsd>,
}

/// The file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Feedback {
    /// Version of this form.
    pub schema_version: u32,
    /// The run.
    pub run_id: String,
    /// The iteration that is starting.
    pub iteration: u32,
    /// What the last check said.
    pub verdict: LastVerdict,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// Ids that fail, sorted; at most 1,000.
    pub failing: Vec<String>,
    /// Ids that fail now and did not before.
    pub regressed: Vec<String>,
    /// Why the last attempt was refused.
    pub rejected_because: Option<String>,
    /// The end of the last check's output.
    pub output_tail: String,
    /// What is left.
    pub remaining: Remaining,
}

/// Builds the feedback for the iteration that is under way.
#[must_use]
pub fn feedback(state: &RunState, regressed: &[String], output_tail: &str) -> Feedback {
    let last = state.last_check.as_ref();
    let verdict = match last.map(|check| check.outcome) {
        None => LastVerdict::None,
        Some(Outcome::Pass) => LastVerdict::Pass,
        Some(Outcome::Reject) => LastVerdict::Reject,
        Some(Outcome::CannotJudge) => LastVerdict::CannotJudge,
    };
    let failing = state.failing.as_ref();
    let rejected = (verdict == LastVerdict::Reject).then(|| {
        let count = failing.map_or_else(String::new, |set| format!(", {} failing", set.len()));
        let code = last.and_then(|check| check.exit_code).unwrap_or(-1);
        format!("the check ended with exit code {code}{count}")
    });
    Feedback {
        schema_version: SCHEMA_VERSION,
        run_id: state.run_id.clone(),
        iteration: state.iteration,
        verdict,
        exit_code: last.and_then(|check| check.exit_code),
        failing: failing.map_or_else(Vec::new, |set| set.iter().take(IDS_MAX).cloned().collect()),
        regressed: regressed.iter().take(IDS_MAX).cloned().collect(),
        rejected_because: rejected,
        output_tail: output_tail.to_owned(),
        remaining: Remaining {
            iterations: state
                .policy
                .max_iterations
                .saturating_sub(state.iteration)
                .saturating_add(1),
            seconds: state.remaining().map(|left| left.0 / 1_000),
            microusd: state.policy.budget_microusd,
        },
    }
}
