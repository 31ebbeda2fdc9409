//! A golden log for each halt that this revision's rules can produce, byte for byte.

use std::path::PathBuf;

use loopexec_core::{
    halt::FailureCause,
    policy::{Commands, Policy},
    units::RunMillis,
};
use loopexec_testkit::log::{Attempt, Ending, LogBuilder};

use crate::{commands, fold, halt, run};

/// A name, how it halts, and the log.
type Golden = (
    &'static str,
    (&'static str, Option<&'static str>),
    LogBuilder,
);

fn red(failing: &[&str]) -> Attempt {
    Attempt::new(1, failing)
}

fn policy(change: impl FnOnce(&mut Policy)) -> Policy {
    let mut policy = Policy::default();
    change(&mut policy);
    policy
}

fn simple(attempts: &[Attempt]) -> LogBuilder {
    run(Policy::default(), commands(false, false), attempts)
}

fn tracked_failures(attempts: &[Attempt]) -> LogBuilder {
    run(Policy::default(), commands(true, false), attempts)
}

fn guarded(change: impl FnOnce(&mut Attempt)) -> LogBuilder {
    let mut attempt = Attempt::new(0, &[]);
    change(&mut attempt);
    let mut builder = LogBuilder::open(Policy::default(), commands(false, true));
    builder.drive(&Attempt::new(1, &[]), &[attempt]);
    builder
}

fn ended(exec: Option<FailureCause>, check: Option<FailureCause>) -> LogBuilder {
    let mut attempt = red(&[]);
    if let Some(cause) = exec {
        attempt.exec = Ending::cause(cause);
    }
    if let Some(cause) = check {
        attempt.check = Ending::cause(cause);
    }
    simple(&[attempt])
}

fn late() -> LogBuilder {
    let mut attempt = red(&[]);
    attempt.check.takes_ms = 991;
    run(
        policy(|p| p.timeout_ms = Some(RunMillis(1_001))),
        commands(false, false),
        &[attempt],
    )
}

fn convergence() -> Vec<Golden> {
    let sure = |reason| (reason, None);
    vec![
        (
            "success",
            sure("success_condition_met"),
            simple(&[red(&[]), Attempt::new(0, &[])]),
        ),
        (
            "success-at-t0",
            sure("success_condition_met"),
            run(
                policy(|p| p.baseline = true),
                commands(false, true),
                &[Attempt::new(0, &[])],
            ),
        ),
        (
            "cap",
            sure("max_iterations_reached"),
            run(
                policy(|p| p.max_iterations = 2),
                commands(false, false),
                &[red(&[]), red(&[])],
            ),
        ),
        (
            "comprehension",
            sure("comprehension_debt_exceeded"),
            run(
                policy(|p| p.comprehension_every = 2),
                commands(false, false),
                &[red(&[]), red(&[])],
            ),
        ),
        (
            "oscillation",
            sure("oscillation_detected"),
            tracked_failures(&[red(&["a"]), red(&["b"]), red(&["a"])]),
        ),
        (
            "regression",
            sure("same_test_regressed"),
            tracked_failures(&[red(&["a", "b"]), red(&["b"]), red(&["a", "c"])]),
        ),
        (
            "no-progress",
            sure("no_progress_detected"),
            tracked_failures(&[red(&["a"]), red(&["b"]), red(&["c"]), red(&["d"])]),
        ),
        (
            "require-red",
            ("check_inadequate", Some("green_before_work")),
            run(
                policy(|p| (p.baseline, p.require_red) = (true, true)),
                commands(false, false),
                &[Attempt::new(0, &[])],
            ),
        ),
    ]
}

fn integrity() -> Vec<Golden> {
    let broken = |cause| ("metric_integrity_violation", Some(cause));
    let fewer = || Some(vec!["t1".to_owned()]);
    let mut at_t0 = LogBuilder::open(Policy::default(), commands(false, true));
    let unknown = Attempt {
        before: None,
        ..Attempt::new(1, &[])
    };
    at_t0.drive(&unknown, &[]);
    let no_list = Attempt {
        failing: None,
        ..red(&[])
    };
    vec![
        (
            "integrity-before-check",
            broken("integrity_members_removed"),
            guarded(|a| a.before = fewer()),
        ),
        (
            "integrity-by-check",
            broken("integrity_members_removed"),
            guarded(|a| a.after = fewer()),
        ),
        (
            "integrity-collector",
            broken("integrity_collector_failed"),
            guarded(|a| a.before = None),
        ),
        (
            "integrity-collector-at-t0",
            broken("integrity_collector_failed"),
            at_t0,
        ),
        (
            "failures-collector",
            ("objective_unverified", Some("failures_collector_failed")),
            tracked_failures(&[no_list]),
        ),
    ]
}

fn execution() -> Vec<Golden> {
    let failed = |cause| ("execution_failure", Some(cause));
    let work = |ending| {
        simple(&[Attempt {
            exec: ending,
            ..red(&[])
        }])
    };
    let check = |ending| {
        simple(&[Attempt {
            check: ending,
            ..red(&[])
        }])
    };
    let mut between = LogBuilder::open(
        Policy::default(),
        Commands {
            check: "x".into(),
            ..Commands::default()
        },
    );
    between.cancel();
    between.drive(&red(&[]), &[]);
    vec![
        (
            "work-failed",
            failed("work_command_failed"),
            work(Ending::code(3)),
        ),
        (
            "work-signalled",
            failed("work_command_signalled"),
            work(Ending::signal(9)),
        ),
        (
            "work-not-runnable",
            failed("work_command_not_runnable"),
            ended(Some(FailureCause::WorkCommandNotRunnable), None),
        ),
        (
            "work-timeout",
            failed("command_timeout"),
            ended(Some(FailureCause::CommandTimeout), None),
        ),
        (
            "work-idle",
            failed("idle_timeout"),
            ended(Some(FailureCause::IdleTimeout), None),
        ),
        (
            "check-not-runnable",
            failed("check_not_runnable"),
            check(Ending::code(127)),
        ),
        (
            "check-timeout",
            failed("check_timeout"),
            ended(None, Some(FailureCause::CommandTimeout)),
        ),
        (
            "check-signalled",
            failed("check_signalled"),
            check(Ending::signal(11)),
        ),
        (
            "cancelled-in-work",
            failed("cancelled"),
            ended(Some(FailureCause::Cancelled), None),
        ),
        ("cancelled-between", failed("cancelled"), between),
        (
            "deadline-in-work",
            failed("deadline_exceeded"),
            ended(Some(FailureCause::DeadlineExceeded), None),
        ),
        ("deadline-between", failed("deadline_exceeded"), late()),
    ]
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("golden/halt-{name}.jsonl"))
}

#[test]
fn every_golden_log_is_what_the_rules_produce_and_verifies() {
    let update = option_env!("LOOPEXEC_UPDATE_GOLDEN").is_some();
    let all = [convergence(), integrity(), execution()].concat_all();
    for (name, expected, builder) in &all {
        assert_eq!(halt(builder), Some(*expected), "{name}");
        if update {
            fs_err::write(path(name), builder.bytes()).unwrap();
        }
        let golden = fs_err::read(path(name)).unwrap();
        assert_eq!(
            golden,
            builder.bytes(),
            "{name} differs from its golden log"
        );
        let state = fold(&golden).unwrap_or_else(|| panic!("{name} does not verify"));
        assert_eq!(
            state.halt.map(|halt| halt.halt_reason.name()),
            Some(expected.0),
            "{name}"
        );
    }
    let files = fs_err::read_dir(path("x").parent().unwrap())
        .unwrap()
        .count();
    assert_eq!(
        files,
        all.len(),
        "a golden log without a scenario, or the other way round"
    );
}

/// Joins the groups.
trait ConcatAll {
    fn concat_all(self) -> Vec<Golden>;
}

impl ConcatAll for [Vec<Golden>; 3] {
    fn concat_all(self) -> Vec<Golden> {
        self.into_iter().flatten().collect()
    }
}
