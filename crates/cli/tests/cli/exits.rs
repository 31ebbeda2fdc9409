//! One table: what a command line ends with, as exit code, reason and cause, in both forms.

use loopexec_testkit::env::TestEnv;

use crate::env;

/// A case: its name, what prepares the workspace, the arguments, the exit code, reason and cause.
struct Case {
    name: &'static str,
    prepare: &'static str,
    arguments: &'static [&'static str],
    exit: i32,
    reason: Option<&'static str>,
    cause: Option<&'static str>,
}

const fn case(
    name: &'static str,
    prepare: &'static str,
    arguments: &'static [&'static str],
    exit: i32,
    reason: Option<&'static str>,
    cause: Option<&'static str>,
) -> Case {
    Case {
        name,
        prepare,
        arguments,
        exit,
        reason,
        cause,
    }
}

const EXECUTION: Option<&str> = Some("execution_failure");
const INTEGRITY: Option<&str> = Some("metric_integrity_violation");
const INVARIANT: Option<&str> = Some("invariant_failed");
const WORKSPACE: Option<&str> = Some("workspace_invalid");

#[rustfmt::skip] // a table: one line a case
const CASES: &[Case] = &[
    case("converged", "", &["run", "--exec", "touch done", "--check", "test -f done"], 10, Some("success_condition_met"), None),
    case("cap", "", &["run", "--check", "false", "--max-iterations", "2"], 12, Some("max_iterations_reached"), None),
    case("once is a cap of one", "", &["run", "--once", "--check", "false"], 12, Some("max_iterations_reached"), None),
    case("exec failure", "", &["run", "--exec", "exit 3", "--check", "true"], 40, EXECUTION, Some("work_command_failed")),
    case("exec not found", "", &["run", "--exec", "no-such-agent", "--check", "true"], 40, EXECUTION, Some("work_command_failed")),
    case("exec killed", "", &["run", "--exec", "kill -9 $$", "--check", "true"], 40, EXECUTION, Some("work_command_signalled")),
    case("exec timeout", "", &["run", "--command-timeout", "200ms", "--exec", "sleep 60", "--check", "true"], 40, EXECUTION, Some("command_timeout")),
    case("idle", "", &["run", "--idle-timeout", "300ms", "--exec", "sleep 60", "--check", "true"], 40, EXECUTION, Some("idle_timeout")),
    case("deadline", "", &["run", "--timeout", "300ms", "--exec", "sleep 60", "--check", "true"], 40, EXECUTION, Some("deadline_exceeded")),
    case("cancelled", "", &["run", "--exec", "kill -TERM $(sed 's/.*\"pid\":\\([0-9]*\\).*/\\1/' .loopexec/lock); sleep 60", "--check", "true"], 40, EXECUTION, Some("cancelled")),
    case("check timeout", "", &["run", "--command-timeout", "200ms", "--check", "sleep 60"], 40, EXECUTION, Some("check_timeout")),
    case("check not startable", "", &["run", "--check", "no-such-runner --all", "--max-iterations", "6"], 40, EXECUTION, Some("check_not_runnable")),
    case("check killed", "", &["run", "--check", "kill -9 $$"], 40, EXECUTION, Some("check_signalled")),
    case("integrity shrinks before the check", "printf 'a\\nb\\n' >s", &["run", "--exec", "printf 'a\\n' >s", "--integrity-cmd", "cat s", "--check", "true"], 13, INTEGRITY, Some("integrity_members_removed")),
    case("integrity shrinks by the check", "printf 'a\\nb\\n' >s", &["run", "--exec", "true", "--integrity-cmd", "cat s", "--check", "printf 'a\\n' >s"], 13, INTEGRITY, Some("integrity_members_removed")),
    case("integrity collector fails at t0", "", &["run", "--integrity-cmd", "exit 1", "--check", "true"], 13, INTEGRITY, Some("integrity_collector_failed")),
    case("integrity collector talks on stderr", "", &["run", "--integrity-cmd", "echo a; echo oops >&2", "--check", "true"], 13, INTEGRITY, Some("integrity_collector_failed")),
    case("failures collector fails", "", &["run", "--failures-cmd", "exit 1", "--check", "false"], 13, Some("objective_unverified"), Some("failures_collector_failed")),
    case("oscillation", "", &["run", "--exec", "true", "--check", "false", "--failures-cmd", "printf 'failure-A\\n'", "--max-iterations", "5"], 17, Some("oscillation_detected"), None),
    case("stall", "", &["run", "--exec", "echo x >>n", "--check", "false", "--failures-cmd", "wc -l <n", "--no-progress-k", "2"], 17, Some("no_progress_detected"), None),
    case("regression", "", &["run", "--exec", "echo x >>n", "--check", "false", "--failures-cmd", "case $(wc -l <n) in 1) printf 'a\\nb\\n';; 2) echo b;; *) printf 'a\\nc\\n';; esac"], 17, Some("same_test_regressed"), None),
    case("comprehension debt", "", &["run", "--check", "false", "--comprehension-every", "2"], 19, Some("comprehension_debt_exceeded"), None),
    case("green before work", "", &["run", "--exec", "touch ran", "--check", "true", "--baseline"], 10, Some("success_condition_met"), None),
    case("green before work, refused", "", &["run", "--check", "true", "--require-red"], 15, Some("check_inadequate"), Some("green_before_work")),
    case("success by another code", "", &["run", "--check", "exit 3", "--success-exit-code", "3"], 10, Some("success_condition_met"), None),
    case("our own success code", "", &["run", "--check", "true", "--success-exit", "0"], 0, Some("success_condition_met"), None),
    case("the record changed by the work command", "", &["run", "--exec", "echo '{}' >>.loopexec/run-local.jsonl", "--check", "true"], 13, INTEGRITY, Some("receipt_tampered")),
    case("the state changed by the work command", "", &["run", "--exec", "echo '{}' >.loopexec/run-local.state.json", "--check", "true"], 13, INTEGRITY, Some("receipt_tampered")),
    case("bad flag", "", &["run", "--no-such-flag"], 2, None, Some("usage")),
    case("a reason cannot be given", "", &["status", "--halt-reason", "x"], 2, None, Some("usage")),
    case("unknown command", "", &["frobnicate"], 2, None, Some("usage")),
    case("extra word", "", &["version", "more"], 2, None, Some("usage")),
    case("not a number", "", &["run", "--check", "true", "--max-iterations", "3.5"], 2, None, Some("usage")),
    case("not a duration", "", &["run", "--check", "true", "--timeout", "5"], 2, None, Some("usage")),
    case("no iterations", "", &["run", "--check", "true", "--max-iterations", "0"], 20, INVARIANT, Some("limit_invalid")),
    case("negative iterations", "", &["run", "--check", "true", "--max-iterations=-4"], 20, INVARIANT, Some("limit_invalid")),
    case("no patience", "", &["run", "--check", "true", "--no-progress-k", "0"], 20, INVARIANT, Some("limit_invalid")),
    case("zero is not endless", "", &["run", "--check", "true", "--timeout", "0s"], 20, INVARIANT, Some("limit_invalid")),
    case("negative duration", "", &["run", "--check", "true", "--timeout=-5s"], 20, INVARIANT, Some("limit_invalid")),
    case("negative cost", "", &["run", "--check", "true", "--cost-usd=-1"], 20, INVARIANT, Some("limit_invalid")),
    case("budget without a meter", "", &["run", "--check", "true", "--budget-usd", "1"], 30, WORKSPACE, Some("budget_without_meter")),
    case("no check, no loop", "", &["run", "--exec", "true"], 30, WORKSPACE, Some("check_missing")),
    case("missing workdir", "", &["run", "--check", "true", "--workdir", "nowhere"], 30, WORKSPACE, Some("workdir_missing")),
    case("bad run id", "", &["run", "--check", "true", "--run-id", "../x"], 30, WORKSPACE, Some("run_id_invalid")),
    case("nothing recorded", "", &["explain-halt"], 30, WORKSPACE, Some("run_not_found")),
    case("unreadable state", "mkdir -m 700 .loopexec && echo nonsense >.loopexec/run-x.state.json", &["status", "--run-id", "x"], 30, WORKSPACE, Some("state_unreadable")),
    case("store is a link", "mkdir elsewhere && ln -s elsewhere .loopexec", &["run", "--check", "true"], 30, WORKSPACE, Some("store_unusable")),
    case("store is a file", "touch .loopexec", &["run", "--check", "true"], 30, WORKSPACE, Some("store_unusable")),
    case("version", "", &["version"], 0, None, None),
    case("init", "", &["init"], 0, None, None),
    case("dry run", "", &["run", "--check", "exit 1", "--exec", "touch ran", "--dry-run"], 0, None, None),
];

#[test]
fn every_ending_has_its_exit_reason_and_cause_in_both_forms() {
    for case in CASES {
        let (json, human) = (place(case), place(case));
        let arguments: Vec<&str> = ["--json"].iter().chain(case.arguments).copied().collect();
        let ran = json.run(&arguments);
        let value = ran.json();
        assert_eq!(
            ran.code, case.exit,
            "{}: {} / {}",
            case.name, ran.stdout, ran.stderr
        );
        assert_eq!(
            value["halt_reason"].as_str(),
            case.reason,
            "{}: {value}",
            case.name
        );
        assert_eq!(
            value["failure_cause"].as_str(),
            case.cause,
            "{}: {value}",
            case.name
        );
        assert_eq!(
            ran.stderr, "",
            "{}: with --json nothing is said on stderr",
            case.name
        );
        let ran = human.run(case.arguments);
        assert_eq!(
            ran.code, case.exit,
            "{}: {} / {}",
            case.name, ran.stdout, ran.stderr
        );
        assert_eq!(
            ran.line("halt_reason"),
            case.reason,
            "{}: {}",
            case.name,
            ran.stdout
        );
        assert!(
            !json.path("ran").exists(),
            "{}: the work command must not run",
            case.name
        );
    }
}

fn place(case: &Case) -> TestEnv {
    let env = env();
    env.shell(case.prepare);
    env
}

#[test]
fn a_refused_limit_runs_nothing() {
    for bad in ["0", "-1", "abc", "3.5", "", "99999999999"] {
        let env = env();
        let ran = env.run(&[
            "run",
            "--exec",
            "touch ran",
            "--check",
            "false",
            &format!("--max-iterations={bad}"),
        ]);
        assert!([2, 20].contains(&ran.code), "{bad:?}: {}", ran.code);
        assert!(!env.path("ran").exists(), "{bad:?}");
    }
}

#[test]
fn every_recorded_ending_verifies_and_is_clean() {
    for case in CASES
        .iter()
        .filter(|case| case.arguments[0] == "run" && case.reason.is_some())
    {
        let env = place(case);
        env.run(case.arguments);
        if !env.path(".loopexec/run-local.jsonl").is_file() {
            continue;
        }
        for command in ["verify", "check"] {
            let ran = env.run(&["--json", command]);
            assert_eq!(
                ran.code, 0,
                "{} after {}: {}",
                command, case.name, ran.stdout
            );
        }
    }
}
