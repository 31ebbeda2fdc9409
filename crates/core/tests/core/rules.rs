//! Each rule at its limit and one before it, and the order in which rules name a halt.

use loopexec_core::{explain::explain, halt::FailureCause, policy::Policy, units::RunMillis};
use loopexec_testkit::log::{Attempt, Ending, LogBuilder};

use crate::{commands, halt, run};

fn red() -> Attempt {
    Attempt::new(1, &["a"])
}

fn green() -> Attempt {
    Attempt::new(0, &[])
}

fn policy(change: impl FnOnce(&mut Policy)) -> Policy {
    let mut policy = Policy::default();
    change(&mut policy);
    policy
}

fn fired(builder: &LogBuilder) -> Vec<&'static str> {
    let verdict = builder.state().verdict.as_ref().unwrap();
    verdict
        .fired
        .iter()
        .map(|fired| fired.reason.name())
        .collect()
}

#[test]
fn the_cap_is_reached_with_its_iteration_and_not_one_before() {
    let capped = |attempts: &[Attempt]| {
        halt(&run(
            policy(|p| p.max_iterations = 3),
            commands(false, false),
            attempts,
        ))
    };
    assert_eq!(capped(&[red(), red()]), None);
    assert_eq!(
        capped(&[red(), red(), red()]),
        Some(("max_iterations_reached", None))
    );
    assert_eq!(
        capped(&[red(), red(), green()]),
        Some(("success_condition_met", None))
    );
}

#[test]
fn debt_halts_at_its_number_and_not_one_before() {
    let owing = |debt, attempts: &[Attempt]| {
        let mut builder = LogBuilder::open_with_debt(
            policy(|p| p.comprehension_every = 3),
            commands(false, false),
            debt,
        );
        builder.drive(&red(), attempts);
        halt(&builder)
    };
    let debt = Some(("comprehension_debt_exceeded", None));
    assert_eq!(owing(0, &[red(), red()]), None);
    assert_eq!(owing(0, &[red(), red(), red()]), debt);
    assert_eq!(owing(2, &[red()]), debt);
    assert_eq!(
        owing(3, &[]),
        debt,
        "a workspace already in debt starts no work"
    );
    assert_eq!(
        owing(2, &[green()]),
        Some(("success_condition_met", None)),
        "a green is not withheld"
    );
}

#[test]
fn the_deadline_fires_when_time_is_up_and_not_a_millisecond_before() {
    let timed = |limit| {
        let mut attempt = red();
        attempt.check.takes_ms = 90;
        let limited = policy(|p| p.timeout_ms = Some(RunMillis(limit)));
        halt(&run(limited, commands(false, false), &[attempt]))
    };
    assert_eq!(timed(101), None);
    assert_eq!(
        timed(100),
        Some(("execution_failure", Some("deadline_exceeded")))
    );
}

#[test]
fn a_green_at_the_last_moment_is_a_green() {
    let mut attempt = green();
    attempt.check.takes_ms = 90;
    let limited = policy(|p| p.timeout_ms = Some(RunMillis(100)));
    let builder = run(limited, commands(false, false), &[attempt]);
    assert_eq!(halt(&builder), Some(("success_condition_met", None)));
    assert_eq!(
        fired(&builder),
        [
            "success_condition_met",
            "execution_failure",
            "max_iterations_reached"
        ][..2]
    );
}

#[test]
fn a_check_that_cannot_be_judged_does_not_pay_for_a_second_iteration() {
    let attempt = Attempt {
        check: Ending::code(127),
        ..red()
    };
    let builder = run(
        Policy::default(),
        commands(false, false),
        &[attempt, green()],
    );
    assert_eq!(
        halt(&builder),
        Some(("execution_failure", Some("check_not_runnable")))
    );
    assert_eq!(builder.state().iteration, 1);
}

#[test]
fn a_broken_guard_dominates_a_green_and_a_failed_work_command_runs_no_check() {
    let shrunk = Attempt {
        after: Some(vec!["t1".into()]),
        ..green()
    };
    let builder = run(Policy::default(), commands(false, true), &[shrunk]);
    assert_eq!(
        fired(&builder),
        ["metric_integrity_violation", "success_condition_met"]
    );
    let failed = Attempt {
        exec: Ending::code(1),
        ..green()
    };
    let builder = run(Policy::default(), commands(false, false), &[failed]);
    assert_eq!(builder.state().last_check, None);
    assert_eq!(
        halt(&builder),
        Some(("execution_failure", Some("work_command_failed")))
    );
}

#[test]
fn a_cancellation_names_the_halt_whatever_else_is_broken() {
    let attempt = Attempt {
        exec: Ending::cause(FailureCause::Cancelled),
        ..red()
    };
    let builder = run(
        policy(|p| p.max_iterations = 1),
        commands(false, false),
        &[attempt],
    );
    assert_eq!(fired(&builder), ["execution_failure", "execution_failure"]);
    assert_eq!(
        halt(&builder),
        Some(("execution_failure", Some("cancelled")))
    );
}

#[test]
fn oscillation_comes_before_no_progress_and_the_cap() {
    let builder = run(
        policy(|p| (p.max_iterations, p.no_progress_k) = (2, 1)),
        commands(true, false),
        &[red(), red()],
    );
    assert_eq!(
        fired(&builder),
        ["oscillation_detected", "max_iterations_reached"]
    );
}

#[test]
fn a_green_check_is_never_an_observation_of_the_tracker() {
    let odd = Attempt::new(0, &["a"]);
    let builder = run(Policy::default(), commands(true, false), &[red(), odd]);
    assert_eq!(halt(&builder), Some(("success_condition_met", None)));
    assert_eq!(builder.state().tracker.observations().len(), 1);
}

#[test]
fn a_red_baseline_goes_on_and_a_green_one_spends_nothing() {
    let baseline = |attempt: &Attempt, require_red| {
        let mut builder = LogBuilder::open(
            policy(|p| (p.baseline, p.require_red) = (true, require_red)),
            commands(false, false),
        );
        builder.drive(attempt, &[green()]);
        (halt(&builder), builder.state().iteration)
    };
    let done = Some(("success_condition_met", None));
    assert_eq!(baseline(&red(), false), (done, 1));
    assert_eq!(baseline(&green(), false), (done, 0));
    assert_eq!(baseline(&red(), true), (done, 1));
    assert_eq!(
        baseline(&green(), true),
        (Some(("check_inadequate", Some("green_before_work"))), 0)
    );
    let unjudged = Attempt {
        check: Ending::code(126),
        ..red()
    };
    assert_eq!(
        baseline(&unjudged, false),
        (Some(("execution_failure", Some("check_not_runnable"))), 0)
    );
}

#[test]
fn another_success_code_is_honoured() {
    let three = policy(|p| p.success_exit_code = 3);
    let builder = run(
        three,
        commands(false, false),
        &[green(), Attempt::new(3, &[])],
    );
    assert_eq!(builder.state().iteration, 2);
    assert_eq!(halt(&builder), Some(("success_condition_met", None)));
}

#[test]
fn advice_follows_the_trajectory() {
    let advise = |policy: Policy, attempts: &[Attempt]| {
        let explanation = explain(run(policy, commands(true, false), attempts).state());
        (explanation.advice.name(), explanation.why)
    };
    let attempt = |ids: &[&str]| Attempt::new(1, ids);
    let capped = |k| policy(move |p| (p.max_iterations, p.no_progress_k) = (k, 3));
    let falling = [
        attempt(&["a", "b", "c"]),
        attempt(&["a", "b"]),
        attempt(&["a"]),
    ];
    assert_eq!(advise(capped(3), &falling).0, "raise-the-limit");
    let early = [attempt(&["a", "b", "c"]), attempt(&["a"]), attempt(&["b"])];
    let (advice, why) = advise(capped(3), &early);
    assert_eq!(advice, "do-not-retry");
    assert!(
        why.contains("3 failing in iteration 1, at best 1 in iteration 2, 1 at the end"),
        "{why}"
    );
    assert_eq!(
        advise(capped(9), &[attempt(&["a"]), attempt(&["a"])]).0,
        "do-not-retry"
    );
    assert_eq!(advise(capped(9), &[Attempt::new(0, &[])]).0, "done");
    let stalled = [&["a", "b"][..], &["b"], &["c"], &["d"], &["e"]].map(attempt);
    assert_eq!(advise(capped(9), &stalled).0, "investigate");
    let never = [&["a"][..], &["b"], &["c"], &["d"]].map(attempt);
    assert_eq!(advise(capped(9), &never).0, "do-not-retry");
    let failed = Attempt {
        exec: Ending::code(9),
        ..red()
    };
    assert_eq!(advise(capped(9), &[failed]).0, "fix-substrate");
    let unrunnable = Attempt {
        check: Ending::code(127),
        ..red()
    };
    assert_eq!(advise(capped(9), &[unrunnable]).0, "fix-check");
}
