//! What makes a verdict worth something to others: replay, attestation, export, acknowledgement, and what each refuses.

use loopexec_testkit::env::{TestEnv, skipped};

use crate::env;

/// A check that prints interleaved lines on both streams, with timings, addresses and temporary paths in them.
const NOISY: &str = "for i in 1 2 3 4 5; do echo \"ok $i in 0.$$ s at /tmp/run-$$/x\"; echo \"warn 0x$$ $(date +%H:%M:%S)\" >&2; done; test $(wc -l <n) -ge 2";

fn noisy() -> TestEnv {
    let env = env();
    let ran = env.run(&["run", "--exec", "echo x >>n", "--check", NOISY]);
    assert_eq!(ran.code, 10, "{}", ran.stdout);
    env
}

fn replayed(env: &TestEnv, more: &[&str]) -> (i32, serde_json::Value) {
    let arguments: Vec<&str> = ["--json", "replay"].iter().chain(more).copied().collect();
    let ran = env.run(&arguments);
    (ran.code, ran.json())
}

#[test]
fn an_honest_green_with_noisy_output_is_verified_forty_of_forty() {
    let env = noisy();
    for round in 0..20 {
        for arguments in [&[][..], &["--in-copy"]] {
            let (code, value) = replayed(&env, arguments);
            assert_eq!(
                (code, value["verified"].as_bool()),
                (0, Some(true)),
                "round {round}: {value}"
            );
        }
    }
    assert_eq!(
        replayed(&env, &["--strict"]).0,
        13,
        "byte for byte it differs"
    );
}

#[test]
fn a_replay_of_other_content_or_another_verdict_is_refused() {
    let env = noisy();
    env.write("n", "only one\n");
    let (code, value) = replayed(&env, &[]);
    assert_eq!(
        (code, value["failure_cause"].as_str()),
        (13, Some("candidate_drift")),
        "{value}"
    );
    let (code, value) = replayed(&env, &["--in-copy"]);
    assert_eq!(code, 0, "the recorded content is still there: {value}");
    let env = crate::env();
    let outside = env.home().join("switch");
    fs_err::write(&outside, "on").unwrap();
    let check = format!("test -f '{}'", outside.display());
    assert_eq!(env.run(&["run", "--check", &check]).code, 10);
    fs_err::remove_file(&outside).unwrap();
    let (code, value) = replayed(&env, &[]);
    assert_eq!(
        (code, value["halt_reason"].as_str()),
        (13, Some("objective_unverified")),
        "{value}"
    );
}

#[test]
fn a_hung_replay_is_ended_by_the_recorded_deadline() {
    let env = env();
    let check = "test ! -f ../home/hang || sleep 300";
    assert_eq!(
        env.run(&["run", "--check", check, "--command-timeout", "2s"])
            .code,
        10
    );
    fs_err::write(env.home().join("hang"), "").unwrap();
    let (code, value) = replayed(&env, &[]);
    assert_ne!(code, 0, "{value}");
}

#[test]
fn signatures_hold_over_an_acknowledgement_and_go_stale_over_a_resume() {
    let env = env();
    let run = [
        "run",
        "--exec",
        "echo x >>n",
        "--check",
        "test $(wc -l <n) -ge 3",
        "--max-iterations",
        "2",
    ];
    assert_eq!(env.run(&run).code, 12);
    assert_eq!(env.run(&["attest"]).code, 0);
    assert_eq!(env.run(&["ack", "--reviewer", "ada"]).code, 0);
    assert_eq!(
        env.run(&["attest", "--verify"]).code,
        0,
        "an acknowledgement leaves it valid"
    );
    assert_eq!(
        env.run(&[
            "run",
            "--resume",
            "--raise",
            "--reviewer",
            "ada",
            "--max-iterations",
            "5"
        ])
        .code,
        10
    );
    let stale = env.run(&["--json", "attest", "--verify"]);
    assert_eq!(
        (stale.code, stale.json()["failure_cause"].as_str()),
        (13, Some("stale_signature")),
        "{}",
        stale.stdout
    );
}

#[test]
fn a_changed_receipt_or_another_key_is_refused_by_each_form() {
    let env = noisy();
    assert_eq!(env.run(&["attest"]).code, 0);
    let hmac = env.run(&["--json", "attest", "--key", "secret-of-an-integration"]);
    assert_eq!(
        (hmac.code, hmac.json()["status"].as_str()),
        (0, Some("attested"))
    );
    assert_eq!(
        env.run(&["attest", "--verify", "--key", "secret-of-an-integration"])
            .code,
        0
    );
    assert_eq!(
        env.run(&["attest", "--verify", "--key", "another-secret"])
            .code,
        13
    );
    let receipt = ".loopexec/run-local.jsonl";
    let text = env.read(receipt);
    env.write(receipt, &text.replacen("\"dirty\":", "\"dirtY\":", 1));
    assert_eq!(env.run(&["attest", "--verify"]).code, 13);
    assert_eq!(
        env.run(&["attest", "--verify", "--key", "secret-of-an-integration"])
            .code,
        13
    );
}

#[test]
fn attest_refuses_a_run_that_has_not_halted_and_has_no_built_in_key() {
    let env = env();
    assert_eq!(
        env.run(&["step", "--exec", "true", "--check", "false"])
            .code,
        0
    );
    let open = env.run(&["--json", "attest"]);
    assert_ne!(open.code, 0, "{}", open.stdout);
    assert!(!env.path(".loopexec/run-local.jsonl.sig").exists());
    let missing = env.run(&["--json", "attest", "--verify"]);
    assert_eq!(
        missing.json()["verified"],
        serde_json::Value::Null,
        "{}",
        missing.stdout
    );
}

#[test]
fn the_work_command_cannot_acknowledge_sign_or_raise() {
    let env = env();
    let program = env!("CARGO_BIN_EXE_loopexec");
    let exec = format!(
        "'{program}' --json ack --reviewer agent >ack; '{program}' --json attest >attest; \
         env -u LOOPEXEC_RUN_ID '{program}' --json ack --reviewer agent >hidden; true"
    );
    assert_eq!(
        env.run(&["run", "--exec", &exec, "--check", "true"]).code,
        10
    );
    for name in ["ack", "attest", "hidden"] {
        let value: serde_json::Value = serde_json::from_str(&env.read(name)).unwrap();
        assert_eq!(
            (value["status"].as_str(), value["failure_cause"].as_str()),
            (Some("error"), Some("refused_inside_run")),
            "{name}: {value}"
        );
    }
    assert_eq!(
        env.run(&["--json", "status"]).json()["state"]["diffs_merged_unread"],
        1
    );
}

#[test]
fn an_export_is_reproducible_and_verifies_and_replays_elsewhere() {
    let env = noisy();
    assert_eq!(env.run(&["attest"]).code, 0);
    for file in ["../a.tar", "../b.tar"] {
        let ran = env.run(&["runs", "export", "local", file]);
        assert_eq!(ran.code, 0, "{} {}", ran.stdout, ran.stderr);
    }
    let read = |name: &str| fs_err::read(env.path(name)).unwrap();
    assert!(read("../a.tar") == read("../b.tar"), "two exports differ");
    let elsewhere = crate::env();
    fs_err::copy(env.path("../a.tar"), elsewhere.path("run.tar")).unwrap();
    let verified = elsewhere.run(&["--json", "verify", "run.tar"]);
    assert_eq!(verified.code, 0, "{}", verified.stdout);
    let unasked = elsewhere.run(&["--json", "replay", "--from", "run.tar"]);
    assert_ne!(
        unasked.code, 0,
        "a command from elsewhere needs --trusted or --confirm: {}",
        unasked.stdout
    );
    let confirmed = elsewhere.run(&["--json", "replay", "--from", "run.tar", "--confirm"]);
    assert_eq!(
        confirmed.code, 0,
        "{} {}",
        confirmed.stdout, confirmed.stderr
    );
    let mut bytes = fs_err::read(elsewhere.path("run.tar")).unwrap();
    let at = bytes
        .windows(9)
        .position(|window| window == b"\"verdict\"")
        .unwrap();
    bytes[at + 1] ^= 1;
    fs_err::write(elsewhere.path("run.tar"), bytes).unwrap();
    assert_eq!(elsewhere.run(&["verify", "run.tar"]).code, 13);
}

#[test]
fn public_tools_accept_the_genuine_signature_and_refuse_the_changed_receipt() {
    let env = noisy();
    if env.shell("command -v ssh-keygen || true").is_empty() {
        skipped("ssh-keygen");
        return;
    }
    assert_eq!(env.run(&["attest"]).code, 0);
    let verify = "printf 'ada %s\\n' \"$(cat \"$HOME/.config/loopexec/identity.pub\")\" >signers; \
                  ssh-keygen -Y verify -f signers -I ada -n receipt@loopexec.dev -s .loopexec/run-local.jsonl.sig <.loopexec/run-local.jsonl >/dev/null 2>&1 && echo good || echo bad";
    assert_eq!(env.shell(verify).trim(), "good");
    let trusted = env.run(&["--json", "verify", "--trusted", "signers"]);
    assert_eq!(
        trusted.json()["checks"][5]["status"],
        "pass",
        "{}",
        trusted.stdout
    );
    env.shell("printf ' ' >>.loopexec/run-local.jsonl");
    assert_eq!(env.shell(verify).trim(), "bad");
}

#[test]
fn prune_keeps_what_is_signed_or_not_acknowledged() {
    let env = env();
    for id in ["one", "two", "three"] {
        assert_eq!(
            env.run(&["run", "--check", "true", "--run-id", id]).code,
            10
        );
    }
    assert_eq!(env.run(&["attest", "--run-id", "one"]).code, 0);
    assert_ne!(
        env.run(&["runs", "prune"]).code,
        0,
        "nothing without a limit"
    );
    env.run(&["runs", "prune", "--keep", "0"]);
    assert!(
        env.path(".loopexec/run-two.jsonl").exists(),
        "not acknowledged"
    );
    assert_eq!(env.run(&["ack", "--reviewer", "ada"]).code, 0);
    assert_eq!(env.run(&["runs", "prune", "--keep", "1"]).code, 0);
    assert!(env.path(".loopexec/run-one.jsonl").exists(), "signed");
    assert!(!env.path(".loopexec/run-two.jsonl").exists());
    assert!(env.path(".loopexec/run-three.jsonl").exists(), "the newest");
}
