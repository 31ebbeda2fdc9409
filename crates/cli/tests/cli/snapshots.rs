//! What people read, word for word. A changed text is accepted on purpose, never by accident.

use loopexec_testkit::env::TestEnv;

use crate::env;

/// Takes out what differs from run to run: the place, durations and digests.
fn redacted(env: &TestEnv, text: &str) -> String {
    let place = env
        .work()
        .canonicalize()
        .unwrap()
        .to_string_lossy()
        .into_owned();
    text.replace(&place, "<work>")
        .lines()
        .map(|line| match line.split_once(": ") {
            Some(("elapsed", _)) => "elapsed: <time>".to_owned(),
            // Whether a control group can be made is the machine's affair.
            _ if line.trim_start().starts_with("containment ") => {
                "  containment <as the machine allows>".to_owned()
            }
            Some(_) | None => without_times(line),
        })
        .collect::<Vec<_>>()
        .join("\n")
}

/// `…, 37 ms` at the end of a progress line.
fn without_times(line: &str) -> String {
    match line.rsplit_once(", ") {
        Some((before, after)) if after.ends_with(" ms") || after.ends_with(" s") => {
            format!("{before}, <time>")
        }
        Some(_) | None => line.to_owned(),
    }
}

fn converged() -> TestEnv {
    let env = env();
    let run = [
        "run",
        "--exec",
        "echo x >>n",
        "--check",
        "test $(wc -l <n) -ge 3",
        "--failures-cmd",
        "seq $(wc -l <n) 3",
        "--timeout",
        "5m",
        "--command-timeout",
        "1m",
        "--idle-timeout",
        "1m",
    ];
    let ran = env.run(&run);
    assert_eq!(ran.code, 10, "{}", ran.stderr);
    insta::assert_snapshot!("run_stdout", redacted(&env, &ran.stdout));
    insta::assert_snapshot!("run_stderr", redacted(&env, &ran.stderr));
    env
}

#[test]
fn a_converged_run_and_everything_that_reads_it() {
    let env = converged();
    for (name, arguments) in [
        ("status", &["status"][..]),
        ("status_of_an_iteration", &["status", "--iteration", "2"]),
        ("explain_halt", &["explain-halt"]),
        ("report", &["report"]),
        ("verify", &["verify"]),
        ("check", &["check"]),
        ("replay", &["replay"]),
        ("ack_show", &["ack", "--show"]),
        ("ack", &["ack", "--reviewer", "ada"]),
    ] {
        let ran = env.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
        insta::assert_snapshot!(name, redacted(&env, &ran.stdout));
    }
}

#[test]
fn what_a_loop_that_failed_is_told() {
    for (name, arguments) in [
        (
            "halted_by_oscillation",
            &[
                "run",
                "--quiet",
                "--exec",
                "true",
                "--check",
                "false",
                "--failures-cmd",
                "echo a",
            ][..],
        ),
        (
            "halted_at_the_cap",
            &[
                "run",
                "--quiet",
                "--check",
                "false",
                "--max-iterations",
                "1",
            ],
        ),
        (
            "halted_by_a_failed_command",
            &["run", "--quiet", "--exec", "exit 3", "--check", "true"],
        ),
        (
            "dry_run",
            &[
                "run",
                "--dry-run",
                "--exec",
                "fix",
                "--check",
                "cargo test",
                "--integrity-cmd",
                "ls tests",
                "--timeout",
                "2h",
                "--command-timeout",
                "20m",
            ],
        ),
    ] {
        let env = env();
        insta::assert_snapshot!(name, redacted(&env, &env.run(arguments).stdout));
    }
}

#[test]
fn what_a_refusal_says() {
    for (name, arguments) in [
        ("refused_without_check", &["run", "--exec", "true"][..]),
        (
            "refused_limit",
            &["run", "--check", "true", "--max-iterations", "0"],
        ),
        (
            "refused_budget",
            &["run", "--check", "true", "--budget-usd", "5"],
        ),
        (
            "refused_workdir",
            &["run", "--check", "true", "--workdir", "nowhere"],
        ),
        ("refused_flag", &["run", "--max-iteration", "3"]),
        ("refused_without_runs", &["report"]),
    ] {
        let env = env();
        insta::assert_snapshot!(name, redacted(&env, &env.run(arguments).stderr));
    }
}

#[test]
fn the_help_of_the_program_and_of_run() {
    let env = env();
    insta::assert_snapshot!("help", env.run(&["--help"]).stdout);
    insta::assert_snapshot!("help_run", env.run(&["run", "--help"]).stdout);
}
