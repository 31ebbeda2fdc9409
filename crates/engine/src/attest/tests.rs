//! Shared values of the attestation tests, and the suites by subject.

mod forms;
mod keys;
mod real_tools;
mod trust;
mod verdicts;

use std::collections::BTreeMap;
use std::path::Path;

use ed25519_dalek::SigningKey;
use serde_json::{Value, json};

use super::key::{PublicKey, Signer};
use super::receipt::ReceiptFacts;
use super::statement::{
    Candidate, Configuration, Cost, EarlierRun, GuardResult, Pin, ProbeBound, TestOutcome,
    TestResult, statement,
};
use super::{bundle, sshsig};

fn signer() -> Signer {
    Signer::Private(SigningKey::from_bytes(&[7; 32]))
}

fn other_signer() -> Signer {
    Signer::Private(SigningKey::from_bytes(&[9; 32]))
}

/// A receipt as it looks from outside; `salt` makes another run of the same id.
fn receipt(run_id: &str, salt: u32) -> Vec<u8> {
    let line = |seq: u32, event: &str| {
        json!({"seq": seq, "run_id": run_id, "event": event, "ts": salt + seq}).to_string()
    };
    let lines = [
        line(0, "run_start"),
        line(1, "iter_start"),
        line(2, "check"),
        line(3, "halt"),
    ];
    (lines.join("\n") + "\n").into_bytes()
}

fn test_result(receipt: &[u8]) -> TestResult {
    TestResult {
        receipt_name: ".loopexec/run-r1.jsonl".into(),
        receipt: ReceiptFacts::of(receipt).expect("a whole receipt"),
        candidate: Some(Candidate {
            tree: "4b825dc642cb6eb9a060e54bf8d69288fbee4904".into(),
            manifest_sha256: "ab".repeat(32),
        }),
        commit: Some("9".repeat(40)),
        outcome: TestOutcome::Passed,
        configuration: vec![Configuration {
            name: "loop.yml".into(),
            sha256: "cd".repeat(32),
        }],
        passed_tests: vec!["tests::a".into()],
        warned_tests: Vec::new(),
        failed_tests: Vec::new(),
        halt_reason: "success_condition_met".into(),
        policy_hash: "ef".repeat(32),
        pins: BTreeMap::from([
            (
                "provider".to_owned(),
                Pin::Known {
                    value: "example".into(),
                    source: "declared".into(),
                },
            ),
            (
                "model_id".to_owned(),
                Pin::Unknown {
                    reason: "not given".into(),
                },
            ),
        ]),
        guards: vec![GuardResult {
            name: "integrity".into(),
            status: "held".into(),
        }],
        probe_bound: Some(ProbeBound {
            samples: 59,
            disagreements: 0,
            upper_bound_ppm: 49_508,
            confidence_ppm: 950_000,
            method: "clopper_pearson".into(),
            source: "probe".into(),
        }),
        cost: Cost {
            microusd: None,
            source: "none".into(),
        },
        evidence: json!({"objective": "pass"}),
        strength: json!({"oracle": "not_shown"}),
        earlier_runs: vec![EarlierRun {
            run_id: "r0".into(),
            halt_reason: "oscillation_detected".into(),
        }],
        key_exposed: true,
        anchor_exposed: false,
    }
}

fn sign_both(signer: &Signer, receipt: &[u8]) -> (String, String) {
    let signature = sshsig::sign(signer, receipt).expect("a private key signs");
    let bundle =
        bundle::sign(signer, &statement(&test_result(receipt))).expect("a private key signs");
    (signature, bundle)
}

/// Writes a file of mode 0600.
fn write_private(path: &Path, contents: &[u8]) {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .expect("created");
    file.write_all(contents).expect("written");
}

fn private_key_text(seed: [u8; 32]) -> String {
    let pair = ssh_key::private::Ed25519Keypair::from_seed(&seed);
    let key = ssh_key::PrivateKey::new(ssh_key::private::KeypairData::Ed25519(pair), "someone")
        .expect("a plain key");
    key.to_openssh(ssh_key::LineEnding::LF)
        .expect("encoded")
        .to_string()
}

fn allowed(key: &PublicKey) -> String {
    format!(
        "ann@example.org namespaces=\"receipt@loopexec.dev\" {} Ann\n",
        key.to_openssh()
    )
}

fn parse_json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}
