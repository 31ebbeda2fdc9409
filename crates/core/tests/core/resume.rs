//! Going on with a run: what is kept, what is forgotten, and what never is.

use loopexec_core::{
    decide::{Step, decide},
    event::{CommandPhase, CommandStart, Event, GuardStage, Guards, IterationStart},
    guard,
    halt::FailureCause,
    policy::Policy,
    state::{IllegalRecord, Stage},
    units::RunMillis,
};
use loopexec_testkit::log::{Attempt, Ending, LogBuilder};

use crate::{commands, halt};

fn open(change: impl FnOnce(&mut Policy)) -> LogBuilder {
    let mut policy = Policy {
        max_iterations: 5,
        ..Policy::default()
    };
    change(&mut policy);
    LogBuilder::open(policy, commands(false, false))
}

fn red() -> Attempt {
    Attempt::new(1, &[])
}

#[test]
fn an_interrupted_work_command_counts_as_an_attempt_and_is_never_assumed_finished() {
    let mut builder = open(|_| {});
    builder.drive(&red(), &[red(), red()]);
    builder.record(Event::IterStart(IterationStart {}));
    builder.record(Event::CommandStart(CommandStart {
        phase: CommandPhase::Exec,
    }));
    builder.resume(1_000);
    assert_eq!(
        (builder.state().iteration, builder.state().stage),
        (3, Stage::Between)
    );
    builder.drive(&red(), &[red(), red(), red(), red(), red()]);
    assert_eq!(
        builder.state().iteration,
        5,
        "the cap counts the interrupted attempt"
    );
    assert_eq!(halt(&builder), Some(("max_iterations_reached", None)));
}

#[test]
fn elapsed_time_goes_on_and_a_clock_set_back_adds_nothing() {
    for (gap, expected) in [(1_000, 1_020), (0, 20), (-5_000, 20)] {
        let mut builder = open(|_| {});
        builder.drive(&red(), &[red()]);
        builder.resume(gap);
        assert_eq!(builder.state().now, RunMillis(expected), "{gap}");
    }
}

#[test]
fn the_absolute_deadline_is_kept_over_a_resume() {
    let mut builder = open(|p| p.timeout_ms = Some(RunMillis(5_000)));
    builder.drive(&red(), &[red()]);
    builder.resume(10_000);
    builder.drive(&red(), &[red(), red()]);
    assert_eq!(
        halt(&builder),
        Some(("execution_failure", Some("deadline_exceeded")))
    );
}

#[test]
fn only_interrupted_runs_and_caps_can_be_gone_on_with() {
    let mut done = open(|_| {});
    done.drive(&red(), &[Attempt::new(0, &[])]);
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| done.resume(0)));
    assert!(refused.is_err(), "a converged run has ended");
    let mut cancelled = open(|_| {});
    cancelled.drive(
        &red(),
        &[Attempt {
            exec: Ending::cause(FailureCause::Cancelled),
            ..red()
        }],
    );
    cancelled.resume(0);
    cancelled.drive(&red(), &[red(), Attempt::new(0, &[])]);
    assert_eq!(halt(&cancelled), Some(("success_condition_met", None)));
}

#[test]
fn a_cap_halts_again_unless_it_was_raised() {
    let capped = || {
        let mut builder = open(|p| p.max_iterations = 1);
        builder.drive(&red(), &[red()]);
        builder.resume(0);
        builder
    };
    let mut again = capped();
    again.drive(&red(), &[red()]);
    assert_eq!(halt(&again), Some(("max_iterations_reached", None)));
    let mut raised = capped();
    raised.raise(2);
    raised.drive(&red(), &[red(), Attempt::new(0, &[])]);
    assert_eq!(halt(&raised), Some(("success_condition_met", None)));
    assert_eq!(
        raised.state().run.policy.max_iterations,
        1,
        "the first record is never rewritten"
    );
}

#[test]
fn a_limit_is_never_lowered_and_never_raised_in_the_middle() {
    let mut builder = open(|p| p.max_iterations = 2);
    let raise = |cap| {
        Event::Raise(loopexec_core::event::Raise {
            max_iterations: Some(cap),
            timeout_ms: None,
            reviewer: "r".into(),
        })
    };
    assert!(matches!(
        builder.try_record(raise(3)),
        Err(IllegalRecord::OutOfPlace { .. })
    ));
    builder.drive(&red(), &[red()]);
    builder.resume(0);
    assert!(matches!(
        builder.try_record(raise(2)),
        Err(IllegalRecord::Contradiction { .. })
    ));
    assert!(builder.try_record(raise(3)).is_ok());
}

#[test]
fn ending_the_governor_does_not_undo_a_broken_guard() {
    let mut builder = open(|_| {});
    builder.drive(&red(), &[]);
    builder.record(Event::IterStart(IterationStart {}));
    let step = decide(builder.state());
    builder.step(step, &red());
    builder.record(Event::Guards(Guards {
        stage: GuardStage::Static,
        results: vec![guard::receipt_tampered(
            vec!["run-golden.jsonl".into()],
            "changed",
        )],
    }));
    builder.resume(50);
    assert!(matches!(decide(builder.state()), Step::Halt(_)));
    builder.drive(&red(), &[red(), red()]);
    assert_eq!(
        halt(&builder),
        Some(("metric_integrity_violation", Some("receipt_tampered")))
    );
}

#[test]
fn a_green_that_was_recorded_survives_the_process_that_recorded_it() {
    let mut builder = open(|_| {});
    builder.record(Event::IterStart(IterationStart {}));
    while !matches!(decide(builder.state()), Step::Halt(_)) {
        let step = decide(builder.state());
        builder.step(step, &Attempt::new(0, &[]));
    }
    builder.resume(50);
    builder.drive(&red(), &[red()]);
    assert_eq!(halt(&builder), Some(("success_condition_met", None)));
    assert_eq!(builder.state().iteration, 1);
}

#[test]
fn a_verdict_without_its_halt_is_finished_by_the_next_process() {
    let mut builder = open(|p| p.max_iterations = 1);
    builder.record(Event::IterStart(IterationStart {}));
    while builder.state().stage != Stage::Decided {
        let step = decide(builder.state());
        builder.step(step, &red());
    }
    builder.resume(50);
    assert_eq!(decide(builder.state()), Step::Finish);
    builder.drive(&red(), &[red()]);
    assert_eq!(halt(&builder), Some(("max_iterations_reached", None)));
}
