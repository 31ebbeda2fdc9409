//! A record that was changed is noticed: by the running governor, and by whoever verifies later.

use crate::env;
use loopexec_testkit::env::TestEnv;

fn converged() -> TestEnv {
    let env = env();
    let ran = env.run(&[
        "run",
        "--exec",
        "echo x >>n",
        "--check",
        "test $(wc -l <n) -ge 2",
    ]);
    assert_eq!(ran.code, 10, "{}", ran.stdout);
    env
}

fn verify(env: &TestEnv) -> (i32, serde_json::Value) {
    let ran = env.run(&["--json", "verify"]);
    (ran.code, ran.json())
}

const RECEIPT: &str = ".loopexec/run-local.jsonl";
const STATE: &str = ".loopexec/run-local.state.json";

#[test]
fn an_honest_receipt_verifies_and_says_what_it_does_not_show() {
    let (code, value) = verify(&converged());
    assert_eq!(
        (code, value["verified"].as_bool()),
        (0, Some(true)),
        "{value}"
    );
    assert_eq!(value["status"], "verified");
    assert_eq!(value["strength"][0]["level"], "not_shown");
    assert_eq!(value["evidence"]["owner_decision"], "undecided");
    assert_eq!(value["evidence"]["publication"], "unpublished");
}

#[test]
fn editing_any_byte_of_the_receipt_is_noticed() {
    let env = converged();
    let bytes = fs_err::read(env.path(RECEIPT)).unwrap();
    for index in (0..bytes.len())
        .step_by(97)
        .chain([bytes.len() - 2, bytes.len() - 1])
    {
        let mut changed = bytes.clone();
        changed[index] ^= 1;
        fs_err::write(env.path(RECEIPT), &changed).unwrap();
        let (code, value) = verify(&env);
        assert_eq!(code, 13, "byte {index}: {value}");
        assert_eq!(value["halt_reason"], "objective_unverified");
    }
}

#[test]
fn deleting_the_last_line_is_called_truncation() {
    let env = converged();
    let text = env.read(RECEIPT);
    let shorter: Vec<&str> = text.lines().collect();
    env.write(RECEIPT, &(shorter[..shorter.len() - 1].join("\n") + "\n"));
    let (code, value) = verify(&env);
    assert_eq!(
        (code, value["failure_cause"].as_str()),
        (13, Some("truncated")),
        "{value}"
    );
}

#[test]
fn a_receipt_swapped_alone_does_not_fit_its_snapshot() {
    let (env, other) = (converged(), converged());
    fs_err::copy(other.path(RECEIPT), env.path(RECEIPT)).unwrap();
    let (code, value) = verify(&env);
    assert_eq!(
        (code, value["failure_cause"].as_str()),
        (13, Some("snapshot_mismatch")),
        "{value}"
    );
}

#[test]
fn a_receipt_swapped_with_its_state_does_not_fit_the_copy_outside() {
    let (env, other) = (converged(), converged());
    fs_err::copy(other.path(RECEIPT), env.path(RECEIPT)).unwrap();
    fs_err::copy(other.path(STATE), env.path(STATE)).unwrap();
    let (code, value) = verify(&env);
    assert_eq!(
        (code, value["failure_cause"].as_str()),
        (13, Some("anchor_mismatch")),
        "{value}"
    );
}

#[test]
fn a_workspace_that_moved_on_is_drift() {
    let env = converged();
    env.write("n", "another\n");
    let (code, value) = verify(&env);
    assert_eq!(
        (code, value["failure_cause"].as_str()),
        (13, Some("candidate_drift")),
        "{value}"
    );
}

#[test]
fn an_innocent_clean_is_repaired_and_recorded() {
    let env = env();
    env.shell("git init -q . && git config user.email a@b && git config user.name n && echo s >s && git add -A && git commit -qm s");
    let ran = env.run(&[
        "run",
        "--exec",
        "git clean -fdxq .; rm -rf .loopexec; echo ok >f",
        "--check",
        "test -f f",
    ]);
    assert_eq!(ran.code, 10, "{} {}", ran.stdout, ran.stderr);
    let names: Vec<String> = env
        .events("local")
        .iter()
        .map(|event| event["event"].as_str().unwrap().to_owned())
        .collect();
    assert!(names.contains(&"receipt_restored".to_owned()), "{names:?}");
    assert_eq!(verify(&env).0, 0);
    assert_eq!(env.run(&["check"]).code, 0);
}

#[test]
fn a_copy_outside_that_was_deleted_is_made_again_and_one_that_was_changed_is_tampering() {
    for (act, code) in [
        ("chmod 644 \"$f\"", 10),
        ("rm \"$f\"", 10),
        ("rm -r ~/.local/state", 10),
        ("echo '{}' >>\"$f\"", 13),
        (": >\"$f\"", 13),
        ("rm \"$f\"; mkfifo \"$f\"", 13),
        ("rm \"$f\"; mkdir \"$f\"", 13),
    ] {
        let env = env();
        let exec = format!("for f in ~/.local/state/loopexec/*/run-local.jsonl; do {act}; done");
        let ran = env.run(&["--json", "run", "--exec", &exec, "--check", "true"]);
        assert_eq!(ran.code, code, "{act}: {} {}", ran.stdout, ran.stderr);
        let (verified, value) = verify(&env);
        assert_eq!(verified, 0, "{act}: {value}");
        let checks = value["checks"].as_array().unwrap();
        let anchor = checks
            .iter()
            .find(|check| check["name"] == "anchor")
            .unwrap();
        assert_eq!(anchor["status"], "pass", "{act}: {anchor}");
    }
}

#[test]
fn no_work_command_drops_the_debt_of_earlier_runs() {
    for (exec, code) in [
        ("rm -rf .loopexec", 12),
        ("rm .loopexec/workspace.jsonl", 12),
        (": >.loopexec/workspace.jsonl", 13),
        (
            "rm .loopexec/workspace.jsonl; mkfifo .loopexec/workspace.jsonl",
            13,
        ),
    ] {
        let env = env();
        let run = |exec: &str| {
            env.run(&[
                "run",
                "--comprehension-every",
                "3",
                "--exec",
                exec,
                "--check",
                "false",
                "--max-iterations",
                "1",
            ])
        };
        assert_eq!(run("true").code, 12);
        let ran = run(exec);
        assert_eq!(ran.code, code, "{exec}: {} {}", ran.stdout, ran.stderr);
        let log = fs_err::read_to_string(env.path(".loopexec/workspace.jsonl")).unwrap();
        assert_eq!(log.lines().count(), 2, "{exec}: {log}");
        // An iteration that ended before its check is none that anybody has to understand.
        let next = if code == 13 { 12 } else { 19 };
        assert_eq!(run("true").code, next, "{exec}");
    }
}

#[test]
fn a_workspace_that_was_exchanged_for_another_directory_ends_the_run() {
    let env = env();
    let exec = r#"mv "$LOOPEXEC_WORKDIR" "$LOOPEXEC_WORKDIR.away"; mkdir "$LOOPEXEC_WORKDIR""#;
    let ran = env.run(&["--json", "run", "--exec", exec, "--check", "true"]);
    assert_eq!(ran.code, 30, "{}", ran.stdout);
    assert_eq!(ran.json()["failure_cause"], "workspace_replaced");
}

#[test]
fn a_touch_is_no_tampering_and_a_replaced_file_is() {
    let env = env();
    let ran = env.run(&[
        "run",
        "--exec",
        "touch .loopexec/run-local.jsonl; chmod 644 .loopexec/run-local.jsonl",
        "--check",
        "true",
    ]);
    assert_eq!(ran.code, 10, "{}", ran.stdout);
    let env = crate::env();
    let exec = "cp .loopexec/run-local.jsonl x; echo '{}' >>x; mv x .loopexec/run-local.jsonl";
    let ran = env.run(&["--json", "run", "--exec", exec, "--check", "true"]);
    assert_eq!(ran.json()["failure_cause"], "receipt_tampered");
    assert_eq!(verify(&env).0, 0, "the record itself was put right");
    assert!(
        env.path(".loopexec/runs/local/tampered").is_dir(),
        "the changed one is kept"
    );
}

#[test]
fn a_requirement_that_is_not_shown_fails() {
    let env = converged();
    let ran = env.run(&["--json", "verify", "--require", "adequacy,isolation"]);
    assert_eq!(ran.code, 13);
    assert_eq!(ran.json()["errors"].as_array().unwrap().len(), 2);
    assert_eq!(env.run(&["verify", "--require", "beauty"]).code, 20);
}

#[test]
fn a_receipt_of_contract_2_0_is_read_but_has_no_chain() {
    let env = env();
    env.shell("mkdir -m 700 .loopexec");
    env.write(RECEIPT, "{\"duration_ms\":0,\"ts\":1,\"run_id\":\"local\",\"iteration\":0,\"event\":\"run_start\",\"detail\":\"max=3\"}\n{\"duration_ms\":0,\"ts\":2,\"run_id\":\"local\",\"iteration\":1,\"event\":\"halt\",\"detail\":\"max_iterations_reached\"}\n");
    env.write(STATE, "{\"schema_version\":1,\"run_id\":\"local\",\"phase\":\"halted\",\"iteration\":1,\"halt_reason\":\"max_iterations_reached\",\"last_check_exit\":1,\"check\":\"false\",\"max_iterations\":1,\"updated_ts\":2}");
    fs_err::copy(env.path(STATE), env.path(".loopexec/state.json")).unwrap();
    let report = env.run(&["--json", "report"]);
    assert_eq!(
        (report.code, report.json()["halt_reason"].as_str()),
        (0, Some("max_iterations_reached"))
    );
    let explained = env.run(&["explain-halt"]);
    assert_eq!(
        (explained.code, explained.line("verdict")),
        (0, Some("do-not-retry"))
    );
    let (code, value) = verify(&env);
    assert_eq!(
        (code, value["failure_cause"].as_str()),
        (13, Some("chain_absent")),
        "{value}"
    );
    assert!(
        value["checks"][0]["detail"]
            .as_str()
            .unwrap()
            .contains("absent (contract 2.0)")
    );
    let resumed = env.run(&["--json", "run", "--resume"]);
    assert_eq!(
        (resumed.code, resumed.json()["failure_cause"].as_str()),
        (30, Some("chain_absent"))
    );
}

#[test]
fn the_work_command_cannot_clear_the_debt() {
    let attacks = [
        ("rm -rf .loopexec", 0),
        (": >.loopexec/workspace.jsonl", 13),
        (
            "sed -i 's/\"iterations\":3/\"iterations\":0/' .loopexec/workspace.jsonl",
            13,
        ),
        (
            "tail -n 1 .loopexec/workspace.jsonl >>.loopexec/workspace.jsonl",
            13,
        ),
        (
            "for f in .loopexec/workspace.jsonl \"$HOME\"/.local/state/loopexec/*/workspace.jsonl; do : >\"$f\"; done",
            13,
        ),
        (
            "rm .loopexec/workspace.jsonl \"$HOME\"/.local/state/loopexec/*/workspace.jsonl",
            0,
        ),
    ];
    for (attack, exit) in attacks {
        let env = env();
        env.run(&[
            "run",
            "--check",
            "false",
            "--max-iterations",
            "3",
            "--run-id",
            "debt",
        ]);
        let ran = env.run(&[
            "--json",
            "run",
            "--exec",
            attack,
            "--check",
            "false",
            "--max-iterations",
            "1",
        ]);
        let expected = if exit == 0 { 12 } else { exit };
        assert_eq!(ran.code, expected, "{attack}: {}", ran.stdout);
        let shown = env.run(&["--json", "ack", "--show"]).stdout;
        assert!(
            shown.contains("\"iterations\":4") || exit == 13,
            "{attack}: {shown}"
        );
        assert!(
            env.path(".loopexec/run-debt.jsonl").is_file(),
            "{attack}: the earlier receipt is there"
        );
        assert_eq!(env.run(&["verify", "--run-id", "debt"]).code, 0, "{attack}");
        assert_eq!(env.run(&["check"]).code, 0, "{attack}");
    }
}

#[test]
fn naming_trusted_keys_asks_for_a_signature() {
    let env = converged();
    env.shell("ssh-keygen -q -t ed25519 -N '' -f key && printf 'ada %s\\n' \"$(cat key.pub)\" >signers && mv key key.pub signers ..");
    let unsigned = env.run(&["--json", "verify", "--trusted", "../signers"]);
    assert_eq!(
        (unsigned.code, unsigned.json()["failure_cause"].as_str()),
        (13, Some("signature_absent")),
        "{}",
        unsigned.stdout
    );
    assert_eq!(env.run(&["attest", "--key-file", "../key"]).code, 0);
    assert_eq!(env.run(&["verify", "--trusted", "../signers"]).code, 0);
    let unasked = env.run(&["verify"]);
    assert!(
        unasked.stdout.contains("present_unverified"),
        "{}",
        unasked.stdout
    );
}
