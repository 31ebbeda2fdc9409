//! Properties over generated scenarios: every log that the rules write verifies, and no green counts over a broken guard.

use loopexec_core::{
    event::GuardStatus, event::parse, halt::HaltReason, policy::Policy, units::RunMillis,
};
use loopexec_testkit::log::{Attempt, Ending, LogBuilder};
use proptest::prelude::*;

use crate::{commands, fold};

fn ids() -> impl Strategy<Value = Vec<String>> {
    prop::collection::btree_set("[a-d]", 0..4).prop_map(|set| set.into_iter().collect())
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        6 => Just(Ending::code(0)),
        6 => Just(Ending::code(1)),
        1 => Just(Ending::code(127)),
        1 => Just(Ending::signal(9)),
    ]
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let exec = prop_oneof![9 => Just(Ending::code(0)), 1 => Just(Ending::code(2))];
    let set = || {
        prop_oneof![
            8 => Just(Some(vec!["t1".to_owned(), "t2".to_owned()])),
            1 => ids().prop_map(Some),
            1 => Just(None),
        ]
    };
    (
        exec,
        ending(),
        prop::option::weighted(0.9, ids()),
        set(),
        set(),
    )
        .prop_map(|(exec, check, failing, before, after)| Attempt {
            exec,
            check,
            failing,
            before,
            after,
        })
}

fn policy() -> impl Strategy<Value = Policy> {
    (
        1..6_u32,
        prop::option::of(1..200_u64),
        1..4_u32,
        0..4_u32,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(max_iterations, timeout, no_progress_k, comprehension_every, baseline, red)| Policy {
                max_iterations,
                timeout_ms: timeout.map(RunMillis),
                no_progress_k,
                comprehension_every,
                baseline,
                require_red: baseline && red,
                ..Policy::default()
            },
        )
}

proptest! {
    #[test]
    fn every_log_that_the_rules_write_verifies_and_its_prefixes_too(
        policy in policy(),
        failures: bool,
        integrity: bool,
        attempts in prop::collection::vec(attempt(), 1..7),
        resumed in prop::option::of(0..30_usize),
    ) {
        let mut builder = LogBuilder::open(policy, commands(failures, integrity));
        if let Some(steps) = resumed {
            for _ in 0..steps {
                let step = loopexec_core::decide::decide(builder.state());
                if step == loopexec_core::decide::Step::Ended || builder.state().iteration >= 1 { break; }
                builder.step(step, &attempts[0]);
            }
            let ended = builder.state().halt.as_ref().is_some_and(|halt| !halt.continuable());
            if !ended { builder.resume(7); }
        }
        builder.drive(&attempts[0], &attempts);
        let bytes = builder.bytes();
        let state = fold(&bytes);
        prop_assert_eq!(state.as_ref(), Some(builder.state()));
        let mut folder = loopexec_core::replay::Folder::default();
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            prop_assert!(folder.line(line).is_ok());
            prop_assert_eq!(
                loopexec_core::event::encode(&parse(line).unwrap()).unwrap(), line,
                "a line survives being read and written"
            );
        }
    }

    #[test]
    fn no_green_ever_counts_over_a_broken_guard(attempts in prop::collection::vec(attempt(), 1..7)) {
        let mut builder = LogBuilder::open(Policy::default(), commands(true, true));
        builder.drive(&attempts[0], &attempts);
        let state = builder.state();
        let broken = state.attempt.guards.iter().any(|guard| guard.status == GuardStatus::Violated);
        let reason = state.halt.as_ref().map(|halt| halt.halt_reason);
        prop_assert!(!broken || reason == Some(HaltReason::MetricIntegrityViolation));
    }

    #[test]
    fn no_run_starts_more_iterations_than_its_cap(
        cap in 1..5_u32,
        attempts in prop::collection::vec(attempt(), 6..9),
    ) {
        let policy = Policy { max_iterations: cap, ..Policy::default() };
        let mut builder = LogBuilder::open(policy, commands(false, false));
        builder.drive(&attempts[0], &attempts);
        prop_assert!(builder.state().iteration <= cap);
        prop_assert!(builder.state().halt.is_some());
    }

    #[test]
    fn arbitrary_bytes_never_panic_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes);
        let _ = fold(&bytes);
    }
}

/// A golden log with a few bytes changed: closer to a real log than random bytes ever come.
fn changed_log() -> impl Strategy<Value = Vec<u8>> {
    let logs: Vec<Vec<u8>> = fs_err::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/golden"))
        .unwrap()
        .map(|entry| fs_err::read(entry.unwrap().path()).unwrap())
        .collect();
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (prop::sample::select(logs), changes).prop_map(|(mut log, changes)| {
        for (index, byte) in changes {
            let at = index.index(log.len());
            log.splice(at..=at, [byte]);
        }
        log
    })
}

proptest! {
    #[test]
    fn no_bytes_read_as_a_log_break_what_a_log_promises(log in changed_log()) {
        loopexec_core::fuzz::fuzz_receipt(&log);
    }
}
