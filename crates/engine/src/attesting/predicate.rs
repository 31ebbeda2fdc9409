//! What a statement says about a run: every value from its fold and from the workspace log.
//!
//! Must not sign.

use std::collections::BTreeMap;

use loopexec_core::{
    digest::Digest,
    event::{GuardName, GuardStatus, PinSource},
    state::RunState,
    workspace::{Act, ActName},
};
use serde_json::Value;

use crate::{
    attest::{
        receipt::ReceiptFacts,
        statement::{
            Candidate, Configuration, Cost, EarlierRun, GuardResult, Pin, TestOutcome, TestResult,
        },
    },
    evidence::{Evidence, strength},
    failure::{Failure, chain},
    layout::Layout,
    log::WorkspaceLog,
    verify::green,
};

/// Everything that the statement about a run says.
pub(super) fn test_result(
    layout: &Layout,
    state: &RunState,
    receipt: ReceiptFacts,
) -> Result<TestResult, Failure> {
    let commands = &state.run.commands;
    let command = |name: &str, text: &str| Configuration {
        name: name.to_owned(),
        sha256: Digest::of(text.as_bytes()).to_string(),
    };
    let mut configuration = vec![
        command("check", &commands.check),
        Configuration {
            name: "policy".to_owned(),
            sha256: state.run.policy_hash.to_string(),
        },
    ];
    configuration.extend(commands.exec.as_deref().map(|text| command("exec", text)));
    let json = |value: serde_json::Result<Value>| value.unwrap_or(Value::Null);
    Ok(TestResult {
        receipt_name: format!(".loopexec/run-{}.jsonl", state.run_id),
        receipt,
        candidate: candidate(state),
        commit: state.run.git.as_ref().and_then(|git| git.head.clone()),
        outcome: if green(state) {
            TestOutcome::Passed
        } else {
            TestOutcome::Failed
        },
        configuration,
        passed_tests: Vec::new(),
        warned_tests: Vec::new(),
        failed_tests: Vec::new(),
        halt_reason: state
            .halt
            .as_ref()
            .map_or_else(String::new, |halt| halt.halt_reason.name().to_owned()),
        policy_hash: state.run.policy_hash.to_string(),
        pins: pins(state),
        guards: guards(state),
        probe_bound: None,
        cost: cost(state),
        evidence: json(serde_json::to_value(Evidence::of(state))),
        strength: json(serde_json::to_value(strength(state))),
        earlier_runs: earlier_runs(layout, state)?,
        // No work command is isolated from its user's files yet.
        key_exposed: true,
        anchor_exposed: true,
    })
}

/// The accepted content.
pub(super) fn candidate(state: &RunState) -> Option<Candidate> {
    let end = state.end.as_ref().filter(|_| green(state))?;
    Some(Candidate {
        tree: end.tree.clone()?,
        manifest_sha256: end.manifest_sha256.to_string(),
    })
}

fn pins(state: &RunState) -> BTreeMap<String, Pin> {
    let entries = state.run.pins.entries().into_iter();
    entries
        .map(|(name, pin)| {
            let pin = match pin {
                None => Pin::Unknown {
                    reason: "not given".to_owned(),
                },
                Some(pin) => Pin::Known {
                    value: pin.value.clone(),
                    source: match pin.source {
                        PinSource::Declared => "declared",
                        PinSource::Reported => "reported",
                        PinSource::Observed => "observed",
                    }
                    .to_owned(),
                },
            };
            (name.to_owned(), pin)
        })
        .collect()
}

/// How each guard stood at the end; one that is not on says so.
fn guards(state: &RunState) -> Vec<GuardResult> {
    let integrity = state.run.commands.integrity.is_some();
    [
        (GuardName::Integrity, "integrity", integrity),
        (GuardName::Receipt, "receipt", true),
    ]
    .into_iter()
    .map(|(guard, name, on)| {
        let results = state.attempt.guards.iter();
        let statuses: Vec<GuardStatus> = results
            .filter(|result| result.name == guard)
            .map(|result| result.status)
            .collect();
        let status = match (on, statuses.contains(&GuardStatus::Violated), guard) {
            (false, _, _) => "off",
            (true, true, _) => "violated",
            // Only a broken receipt is recorded: an untouched one makes no record.
            (true, false, GuardName::Receipt) => "held",
            (true, false, GuardName::Integrity) if statuses.contains(&GuardStatus::Held) => "held",
            (true, false, GuardName::Integrity) => "not_applicable",
        };
        GuardResult {
            name: name.to_owned(),
            status: status.to_owned(),
        }
    })
    .collect()
}

fn cost(state: &RunState) -> Cost {
    match state.run.cost_declared_microusd {
        None => Cost {
            microusd: None,
            source: "none".to_owned(),
        },
        Some(cost) => Cost {
            microusd: Some(cost.0),
            source: "declared".to_owned(),
        },
    }
}

/// Earlier runs of the same workspace and policy, newest first: ten runs of which one was green look like ten runs.
///
/// # Errors
///
/// When the workspace log is damaged.
pub fn earlier_runs(layout: &Layout, state: &RunState) -> Result<Vec<EarlierRun>, Failure> {
    let log = WorkspaceLog::read(layout)
        .map_err(|error| Failure::invariant(chain(&error)).because("workspace_log_damaged"))?;
    let this = (state.run_id.as_str(), Some(state.opened_ts_ms));
    let mut last: Vec<(&Act, EarlierRun)> = Vec::new();
    for act in log.acts.iter().filter(|act| act.event == ActName::RunEnded) {
        if act.head == Some(state.head) {
            break;
        }
        if act
            .opened_ts_ms
            .is_some_and(|opened| opened > state.opened_ts_ms)
            || (act.run_id.as_str(), act.opened_ts_ms) == this
            || act.policy_hash != Some(state.run.policy_hash)
        {
            continue;
        }
        let Some(halt_reason) = act.halt_reason.clone() else {
            continue;
        };
        // A run that was gone on with has ended more than once: its last end is its outcome.
        let same = |(known, _): &(&Act, EarlierRun)| {
            known.run_id == act.run_id
                && act.opened_ts_ms.is_some()
                && known.opened_ts_ms == act.opened_ts_ms
        };
        last.retain(|entry| !same(entry));
        last.push((
            act,
            EarlierRun {
                run_id: act.run_id.clone(),
                halt_reason,
            },
        ));
    }
    let mut earlier: Vec<EarlierRun> = last.into_iter().map(|(_, run)| run).collect();
    earlier.reverse();
    Ok(earlier)
}
