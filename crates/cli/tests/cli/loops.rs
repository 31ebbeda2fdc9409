//! What a loop does: order, environment, feedback, steps, resume, archive, debt.

use crate::env;

#[test]
fn the_work_command_is_told_the_truth_and_the_check_none_of_it() {
    let env = env();
    let exec = "cp \"$LOOPEXEC_FEEDBACK\" feedback-$LOOPEXEC_ITERATION; env | grep ^LOOPEXEC | sort >exec-env";
    let check = "env | grep ^LOOPEXEC >check-env; ls -a \"$LOOPEXEC_REPORT_DIR\" | wc -l >>check-env; echo broken >&2; test -f feedback-3";
    let ran = env.run(&[
        "run",
        "--exec",
        exec,
        "--check",
        check,
        "--failures-cmd",
        "test -f feedback-3 || echo open",
    ]);
    assert_eq!(ran.code, 17, "the same failing set twice: {}", ran.stdout);
    let first: serde_json::Value = serde_json::from_str(&env.read("feedback-1")).unwrap();
    let second: serde_json::Value = serde_json::from_str(&env.read("feedback-2")).unwrap();
    assert_eq!(
        (first["verdict"].as_str(), first["iteration"].as_u64()),
        (Some("none"), Some(1))
    );
    assert_eq!(second["verdict"].as_str(), Some("reject"));
    assert_eq!(second["exit_code"].as_i64(), Some(1));
    assert_eq!(second["failing"], serde_json::json!(["open"]));
    assert_eq!(second["remaining"]["iterations"].as_u64(), Some(9));
    assert!(second["output_tail"].as_str().unwrap().contains("broken"));
    let told = env.read("exec-env");
    for name in [
        "LOOPEXEC_RUN_ID=local",
        "LOOPEXEC_ITERATION=2",
        "LOOPEXEC_WORKDIR=",
        "LOOPEXEC_FEEDBACK=",
    ] {
        assert!(told.contains(name), "{told}");
    }
    let check = env.read("check-env");
    assert!(
        check.starts_with("LOOPEXEC_REPORT_DIR=/") && check.lines().count() == 2,
        "{check}"
    );
    assert_eq!(
        check.lines().last().map(str::trim),
        Some("2"),
        "the report directory is empty"
    );
}

#[test]
fn secrets_reach_neither_the_check_nor_any_file() {
    let env = env();
    let mut command = env.command(&[
        "run",
        "--exec",
        "echo $DEPLOY_TOKEN",
        "--check",
        "env; echo $DEPLOY_TOKEN; test -f never",
        "--max-iterations",
        "2",
    ]);
    command
        .env("DEPLOY_TOKEN", "hunter2-hunter2")
        .env("LOOPEXEC_ATTEST_KEY", "signing-signing");
    assert_eq!(command.output().unwrap().status.code(), Some(12));
    let found = env.shell("grep -rl 'hunter2\\|signing-signing' .loopexec \"$HOME\" || true");
    assert_eq!(found, "", "a secret was written");
}

#[test]
fn a_step_runs_one_iteration_and_the_next_continues() {
    let env = env();
    let step = [
        "step",
        "--exec",
        "echo x >>n",
        "--check",
        "test $(wc -l <n) -ge 3",
        "--max-iterations",
        "9",
    ];
    let first = env.run(&step);
    assert_eq!(
        (first.code, first.line("status")),
        (0, Some("ok")),
        "{}",
        first.stdout
    );
    assert_eq!(env.run(&["step"]).code, 0);
    let third = env.run(&["step"]);
    assert_eq!(
        (third.code, third.line("iteration")),
        (10, Some("3")),
        "{}",
        third.stdout
    );
    assert_eq!(env.run(&["verify"]).code, 0);
    assert_eq!(env.read("n").lines().count(), 3);
}

#[test]
fn a_used_id_is_archived_and_never_overwritten() {
    let env = env();
    env.run(&["run", "--check", "false", "--max-iterations", "1"]);
    let before = env.read(".loopexec/run-local.jsonl");
    let again = env.run(&["--json", "run", "--check", "true"]).json();
    let archived = again["archived"].as_str().unwrap();
    let kept = fs_err::read_to_string(format!("{archived}/run-local.jsonl")).unwrap();
    assert_eq!(kept, before);
    let head = env.events("local")[0]["previous_head"].clone();
    assert!(
        head.is_string(),
        "the new run names the last line of the old one"
    );
}

#[test]
fn a_cap_goes_on_only_when_a_person_raises_it() {
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
    let refused = env.run(&["run", "--resume"]);
    assert_eq!(
        (refused.code, env.read("n").lines().count()),
        (12, 2),
        "{}",
        refused.stdout
    );
    let nobody = env.run(&["run", "--resume", "--raise", "--max-iterations", "5"]);
    assert_eq!(
        (nobody.code, env.read("n").lines().count()),
        (30, 2),
        "{}",
        nobody.stderr
    );
    let raised = env.run(&[
        "run",
        "--resume",
        "--raise",
        "--reviewer",
        "ada",
        "--max-iterations",
        "5",
    ]);
    assert_eq!(
        (raised.code, raised.line("iteration")),
        (10, Some("3")),
        "{}",
        raised.stdout
    );
    assert_eq!(env.run(&["verify"]).code, 0);
}

#[test]
fn a_raise_that_raises_nothing_is_refused_and_not_recorded() {
    let env = env();
    let run = [
        "run",
        "--check",
        "false",
        "--max-iterations",
        "2",
        "--timeout",
        "1m",
    ];
    assert_eq!(env.run(&run).code, 12);
    let recorded = env.events("local").len();
    let raise = |flags: &[&str]| {
        let mut all = vec!["run", "--resume", "--raise", "--reviewer", "ada"];
        all.extend_from_slice(flags);
        env.run(&all)
    };
    for lower in [
        ["--max-iterations", "1"].as_slice(),
        &["--max-iterations", "3", "--timeout", "59s"],
    ] {
        let refused = raise(lower);
        assert_eq!(
            (refused.code, env.events("local").len()),
            (20, recorded),
            "{lower:?}: {}",
            refused.stderr
        );
    }
    let same = raise(&["--max-iterations", "2", "--timeout", "1m"]);
    assert_eq!((same.code, env.events("local").len()), (12, recorded));
    let higher = raise(&["--max-iterations", "3", "--timeout", "1m"]);
    assert_eq!(
        (higher.code, higher.line("iteration")),
        (12, Some("3")),
        "{}",
        higher.stderr
    );
}

#[test]
fn another_policy_is_not_the_same_run() {
    let env = env();
    let run = [
        "run",
        "--exec",
        "kill -TERM $PPID; sleep 60",
        "--check",
        "false",
        "--command-timeout",
        "2s",
    ];
    let _ = env.run(&run);
    let other = env.run(&["--json", "run", "--resume", "--check", "true"]);
    let value = other.json();
    assert!(
        value["failure_cause"] == "policy_changed" || value["status"] == "halted",
        "{value}"
    );
    assert_ne!(other.code, 10, "a resume never swaps the check");
}

#[test]
fn debt_is_the_workspaces_and_an_ended_run_refuses_to_go_on() {
    let env = env();
    env.run(&["run", "--check", "false", "--max-iterations", "2"]);
    let ran = env.run(&[
        "run",
        "--check",
        "false",
        "--comprehension-every",
        "3",
        "--run-id",
        "second",
    ]);
    assert_eq!(
        (ran.code, ran.line("iteration")),
        (19, Some("1")),
        "{}",
        ran.stdout
    );
    let done = env.run(&["run", "--resume", "--run-id", "second"]);
    assert_eq!(done.code, 19, "{}", done.stdout);
}

#[test]
fn status_shows_each_iteration_as_it_was() {
    let env = env();
    env.run(&[
        "run",
        "--exec",
        "echo x >>n",
        "--check",
        "test $(wc -l <n) -ge 3",
    ]);
    for (iteration, exit) in [(1, 1), (2, 1), (3, 0)] {
        let value = env
            .run(&["--json", "status", "--iteration", &iteration.to_string()])
            .json();
        assert_eq!(value["iteration"].as_u64(), Some(iteration));
        assert_eq!(value["check_exit"].as_i64(), Some(exit));
    }
    assert_eq!(env.run(&["status", "--iteration", "4"]).code, 20);
    assert_eq!(env.run(&["status", "--iteration=-1"]).code, 20);
}

#[test]
fn a_raise_that_raises_nothing_is_refused_before_it_is_recorded() {
    let env = env();
    assert_eq!(
        env.run(&["run", "--check", "false", "--max-iterations", "2"])
            .code,
        12
    );
    let before = env.read(".loopexec/run-local.jsonl");
    for arguments in [
        &["--max-iterations", "2"][..],
        &["--max-iterations", "1"],
        &["--max-iterations", "3", "--timeout", "1m"],
    ] {
        let all: Vec<&str> = ["run", "--resume", "--raise", "--reviewer", "ada"]
            .iter()
            .chain(arguments)
            .copied()
            .collect();
        let ran = env.run(&all);
        assert!(
            [12, 20, 30].contains(&ran.code),
            "{arguments:?}: {} {}",
            ran.code,
            ran.stderr
        );
        assert_eq!(
            env.read(".loopexec/run-local.jsonl"),
            before,
            "{arguments:?}"
        );
    }
}
