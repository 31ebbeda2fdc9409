//! The in-toto statement about a run: what was checked, on what, with which result.
//!
//! The predicate is the public *test result*; everything that type has no word for stands in one member `loopexec`
//! beside it. Nothing here decides or measures: every value is given.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::receipt::ReceiptFacts;

/// The type of statements.
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";

/// The type of the predicate.
pub const PREDICATE_TYPE: &str = "https://in-toto.io/attestation/test-result/v0.1";

/// The most ids of tests in one statement, over all three lists. With more, the lists are left out and counted.
pub const TESTS: usize = 100_000;

/// The most earlier runs that are named, newest first; the rest is counted.
pub const EARLIER_RUNS: usize = 100;

/// The candidate that was accepted. Never a list of files: names in a private workspace are nobody's business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The git tree id, hex.
    pub tree: String,
    /// sha256 hex of the manifest.
    pub manifest_sha256: String,
}

/// What the recorded check said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestOutcome {
    /// The check passed.
    Passed,
    /// It passed, with what the run must warn of.
    Warned,
    /// It did not pass.
    Failed,
}

impl TestOutcome {
    fn word(self) -> &'static str {
        match self {
            Self::Passed => "PASSED",
            Self::Warned => "WARNED",
            Self::Failed => "FAILED",
        }
    }
}

/// A file or text that configured the run, by its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// What it is called.
    pub name: String,
    /// sha256 hex of its bytes.
    pub sha256: String,
}

/// A pin of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "state")]
pub enum Pin {
    /// A value, and whether it was `declared`, `reported` or `observed`.
    Known {
        /// The value.
        value: String,
        /// Where it is from.
        source: String,
    },
    /// No value.
    Unknown {
        /// Why not.
        reason: String,
    },
}

/// The result of one guard over the whole run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GuardResult {
    /// The guard.
    pub name: String,
    /// `held`, `violated`, `not_applicable` or `off`.
    pub status: String,
}

/// How often the check was run on one key, and what that shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProbeBound {
    /// Runs that were compared.
    pub samples: u64,
    /// Runs that disagreed.
    pub disagreements: u64,
    /// Upper bound of the rate of disagreement, in parts per million.
    pub upper_bound_ppm: u64,
    /// Confidence of the bound, in parts per million.
    pub confidence_ppm: u64,
    /// How the bound is computed.
    pub method: String,
    /// `probe`, `in_loop` or `none`.
    pub source: String,
}

/// What the run cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// In 1e-6 USD; none when it was not metered.
    pub microusd: Option<u64>,
    /// `metered`, `observed`, `declared` or `none`.
    pub source: String,
}

/// Another run of the same workspace and policy, so that ten runs of which one was green look like ten runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EarlierRun {
    /// Its id.
    pub run_id: String,
    /// How it ended.
    pub halt_reason: String,
}

/// Everything that a statement says.
#[derive(Clone, Debug, PartialEq)]
pub struct TestResult {
    /// The receipt's name, relative to the workspace.
    pub receipt_name: String,
    /// The receipt's facts.
    pub receipt: ReceiptFacts,
    /// The accepted candidate, when there is one.
    pub candidate: Option<Candidate>,
    /// The commit id of the workspace, when there is one.
    pub commit: Option<String>,
    /// The check's result.
    pub outcome: TestOutcome,
    /// What configured the run.
    pub configuration: Vec<Configuration>,
    /// Ids of tests that passed.
    pub passed_tests: Vec<String>,
    /// Ids of tests that passed with a warning.
    pub warned_tests: Vec<String>,
    /// Ids of tests that failed.
    pub failed_tests: Vec<String>,
    /// The computed halt.
    pub halt_reason: String,
    /// sha256 hex of the resolved policy.
    pub policy_hash: String,
    /// The pins, by name.
    pub pins: BTreeMap<String, Pin>,
    /// The guards' results.
    pub guards: Vec<GuardResult>,
    /// What is known of the check's determinism.
    pub probe_bound: Option<ProbeBound>,
    /// What the run cost.
    pub cost: Cost,
    /// The five facts that are never merged, as `report` has them.
    pub evidence: Value,
    /// What was shown, declared or not shown, as `report` has it.
    pub strength: Value,
    /// Earlier runs of the same workspace and policy, newest first.
    pub earlier_runs: Vec<EarlierRun>,
    /// An unconfined agent of the same user could have read the signing key.
    pub key_exposed: bool,
    /// An unconfined agent of the same user could have changed the second copy of the receipt.
    pub anchor_exposed: bool,
}

/// Makes the statement.
#[must_use]
pub fn statement(result: &TestResult) -> Value {
    let configuration: Vec<Value> = result
        .configuration
        .iter()
        .map(|item| json!({ "name": item.name, "digest": { "sha256": item.sha256 } }))
        .collect();
    let counted = result.passed_tests.len() + result.warned_tests.len() + result.failed_tests.len();
    let listed = |tests: &[String]| {
        if counted <= TESTS {
            json!(tests)
        } else {
            json!([])
        }
    };
    json!({
        "_type": STATEMENT_TYPE,
        "subject": subjects(result),
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "result": result.outcome.word(),
            "configuration": configuration,
            "passedTests": listed(&result.passed_tests),
            "warnedTests": listed(&result.warned_tests),
            "failedTests": listed(&result.failed_tests),
            "loopexec": own_member(result, counted <= TESTS),
        },
    })
}

fn subjects(result: &TestResult) -> Vec<Value> {
    let mut subjects = vec![receipt_subject(&result.receipt_name, &result.receipt)];
    if let Some(candidate) = &result.candidate {
        subjects.push(candidate_subject(candidate));
    }
    if let Some(commit) = &result.commit {
        subjects.push(json!({ "name": "commit", "digest": { "gitCommit": commit } }));
    }
    subjects
}

pub(super) fn receipt_subject(name: &str, receipt: &ReceiptFacts) -> Value {
    json!({ "name": name, "digest": { "sha256": receipt.sha256 } })
}

pub(super) fn candidate_subject(candidate: &Candidate) -> Value {
    let Candidate {
        tree,
        manifest_sha256,
    } = candidate;
    json!({ "name": "candidate", "digest": { "gitTree": tree, "sha256": manifest_sha256 } })
}

fn own_member(result: &TestResult, tests_listed: bool) -> Value {
    let named: Vec<&EarlierRun> = result.earlier_runs.iter().take(EARLIER_RUNS).collect();
    json!({
        "run_id": result.receipt.run_id,
        "receipt": result.receipt,
        "halt_reason": result.halt_reason,
        "policy_hash": result.policy_hash,
        "pins": result.pins,
        "guards": result.guards,
        "probe_bound": result.probe_bound,
        "cost": result.cost,
        "tests": {
            "passed": result.passed_tests.len(),
            "warned": result.warned_tests.len(),
            "failed": result.failed_tests.len(),
            "listed": tests_listed,
        },
        "evidence": result.evidence,
        "strength": result.strength,
        "earlier_runs": named,
        "earlier_runs_total": result.earlier_runs.len(),
        "key_exposed": result.key_exposed,
        "anchor_exposed": result.anchor_exposed,
        "time": "claimed by signer",
    })
}
