//! How commands are ended, and that nothing of them is left.

use std::time::Duration;

use loopexec_os::clock::boot_millis;
use loopexec_os::guardian::{Activity, Exit, Guardian, Interruption, Observer, Stream};

use crate::support::{
    PATIENCE_MILLIS, Tag, Tests, guardian, guardian_without_cgroup, limits, run, text,
};

pub(crate) const TESTS: Tests = &[
    (
        "a_background_holder_of_the_pipe_is_ended",
        a_background_holder_of_the_pipe_is_ended,
    ),
    (
        "a_process_in_a_session_of_its_own_is_ended",
        a_process_in_a_session_of_its_own_is_ended,
    ),
    (
        "a_daemon_by_double_fork_is_ended",
        a_daemon_by_double_fork_is_ended,
    ),
    (
        "what_was_left_is_counted_and_named",
        what_was_left_is_counted_and_named,
    ),
    (
        "a_tree_that_ignores_term_is_killed_after_the_grace",
        a_tree_that_ignores_term_is_killed_after_the_grace,
    ),
    (
        "a_tree_that_obeys_term_has_time_to_clean_up",
        a_tree_that_obeys_term_has_time_to_clean_up,
    ),
    (
        "a_child_has_its_grace_when_the_command_itself_is_gone",
        a_child_has_its_grace_when_the_command_itself_is_gone,
    ),
    (
        "a_stopped_tree_ends_at_the_deadline",
        a_stopped_tree_ends_at_the_deadline,
    ),
    ("an_idle_command_is_ended", an_idle_command_is_ended),
    (
        "a_busy_silent_command_is_not_idle",
        a_busy_silent_command_is_not_idle,
    ),
    (
        "a_command_that_prints_is_not_idle",
        a_command_that_prints_is_not_idle,
    ),
    (
        "dropping_the_slot_leaves_no_guardian",
        dropping_the_slot_leaves_no_guardian,
    ),
    (
        "a_stream_held_by_a_foreign_process_is_not_waited_for",
        a_stream_held_by_a_foreign_process_is_not_waited_for,
    ),
    (
        "two_slots_leave_each_others_orphans_alone",
        two_slots_leave_each_others_orphans_alone,
    ),
];

fn both(test: impl Fn(&mut Guardian, &Tag)) {
    for mut guardian in [guardian(), guardian_without_cgroup()] {
        let tag = Tag::new();
        test(&mut guardian, &tag);
        tag.assert_none_alive();
    }
}

fn a_background_holder_of_the_pipe_is_ended() {
    both(|guardian, tag| {
        let ended = run(guardian, &tag.shell("sleep 1000 & echo done"), &limits());
        assert_eq!(
            (ended.exit, text(&ended.stdout.head)),
            (Exit::Code(0), "done\n".into())
        );
        assert_eq!(
            (ended.left_processes.count, ended.stdout.held_open),
            (1, false)
        );
        assert!(ended.duration_ms < PATIENCE_MILLIS / 2);
    });
}

fn a_process_in_a_session_of_its_own_is_ended() {
    both(|guardian, tag| {
        let ended = run(
            guardian,
            &tag.shell("setsid sleep 1000 & setsid setsid sleep 1000 & exit 4"),
            &limits(),
        );
        assert_eq!(ended.exit, Exit::Code(4));
    });
}

fn a_daemon_by_double_fork_is_ended() {
    both(|guardian, tag| {
        let ended = run(
            guardian,
            &tag.shell("(setsid sh -c 'sleep 1000 & sleep 1001' & ) ; exit 0"),
            &limits(),
        );
        assert_eq!(ended.exit, Exit::Code(0));
        assert!(ended.left_processes.count >= 1);
    });
}

fn what_was_left_is_counted_and_named() {
    both(|guardian, tag| {
        let script = "i=0; while [ $i -lt 20 ]; do sleep 1000 & i=$((i+1)); done; \
                      while [ $(grep -lx sleep /proc/[0-9]*/comm 2>/dev/null | wc -l) -lt 20 ]; do :; done";
        let ended = run(guardian, &tag.shell(script), &limits());
        assert_eq!(ended.left_processes.count, 20);
        assert_eq!(ended.left_processes.names.len(), 16);
        assert!(
            ended.left_processes.names.contains(&"sleep".into()),
            "{:?}",
            ended.left_processes.names
        );
    });
}

fn a_tree_that_ignores_term_is_killed_after_the_grace() {
    both(|guardian, tag| {
        let mut limits = limits();
        limits.timeout = Some(Duration::from_millis(300));
        limits.grace = Duration::from_millis(300);
        let script = "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' & while :; do sleep 1; done";
        let ended = run(guardian, &tag.shell(script), &limits);
        assert_eq!(
            (ended.exit, ended.interruption),
            (Exit::Signal(9), Some(Interruption::Deadline))
        );
        assert!(
            ended.duration_ms >= 600 && ended.duration_ms < 10_000,
            "{}",
            ended.duration_ms
        );
        assert!(ended.left_processes.count >= 2);
    });
}

fn a_tree_that_obeys_term_has_time_to_clean_up() {
    both(|guardian, tag| {
        let mut limits = limits();
        limits.timeout = Some(Duration::from_millis(300));
        let script = "trap 'sleep 0.2; echo cleaned; exit 5' TERM; while :; do sleep 0.05; done";
        let before = boot_millis();
        let ended = run(guardian, &tag.shell(script), &limits);
        assert_eq!(
            (ended.exit, ended.interruption),
            (Exit::Code(5), Some(Interruption::Deadline))
        );
        assert_eq!(text(&ended.stdout.head), "cleaned\n");
        // Not the whole grace: it is over when all have gone.
        assert!(boot_millis() - before < 10_000);
    });
}

fn a_child_has_its_grace_when_the_command_itself_is_gone() {
    both(|guardian, tag| {
        let mut limits = limits();
        limits.timeout = Some(Duration::from_millis(400));
        let script = "setsid sh -c 'trap \"sleep 0.3; echo cleaned; exit\" TERM; while :; do sleep 0.05; done' & wait";
        let ended = run(guardian, &tag.shell(script), &limits);
        assert_eq!(
            (ended.exit, text(&ended.stdout.head)),
            (Exit::Signal(15), "cleaned\n".into())
        );
        assert_eq!(ended.left_processes.count, 0);
    });
}

fn a_stopped_tree_ends_at_the_deadline() {
    both(|guardian, tag| {
        let mut limits = limits();
        limits.timeout = Some(Duration::from_millis(300));
        let ended = run(guardian, &tag.shell("kill -STOP $$"), &limits);
        assert_eq!(
            (ended.exit, ended.interruption),
            (Exit::Signal(15), Some(Interruption::Deadline))
        );
    });
}

fn an_idle_command_is_ended() {
    both(|guardian, tag| {
        let mut limits = limits();
        limits.idle = Some(Duration::from_millis(600));
        let ended = run(guardian, &tag.shell("echo once; exec sleep 1000"), &limits);
        assert_eq!(
            (ended.exit, ended.interruption),
            (Exit::Signal(15), Some(Interruption::Idle))
        );
        assert!(ended.duration_ms >= 600, "{}", ended.duration_ms);
    });
}

fn a_busy_silent_command_is_not_idle() {
    both(|guardian, tag| {
        let mut limits = limits();
        limits.idle = Some(Duration::from_millis(600));
        // Computes in a grandchild for well over two windows, by the clock.
        let script =
            "sh -c 'end=$(($(date +%s) + 3)); while [ $(date +%s) -lt $end ]; do :; done' & wait";
        let ended = run(guardian, &tag.shell(script), &limits);
        assert_eq!((ended.exit, ended.interruption), (Exit::Code(0), None));
    });
}

fn a_command_that_prints_is_not_idle() {
    both(|guardian, tag| {
        let mut limits = limits();
        limits.idle = Some(Duration::from_millis(900));
        let script = "for i in 1 2 3 4 5 6 7 8; do sleep 0.2; echo . >&2; done";
        let ended = run(guardian, &tag.shell(script), &limits);
        assert_eq!((ended.exit, ended.interruption), (Exit::Code(0), None));
    });
}

fn dropping_the_slot_leaves_no_guardian() {
    let mut guardian = guardian();
    let ended = run(&mut guardian, &Tag::new().shell("echo $PPID"), &limits());
    let pid: u32 = text(&ended.stdout.head).trim().parse().unwrap();
    let process = loopexec_os::process::Pid(pid);
    assert!(loopexec_os::process::is_alive(process));
    drop(guardian);
    assert!(!loopexec_os::process::is_alive(process));
}

/// Opens the writing end of the command's output, like a foreign server that was handed the descriptor.
#[derive(Default)]
struct Holder(Option<fs_err::File>);

impl Observer for Holder {
    fn output(&mut self, _: Stream, bytes: &[u8]) {
        let path = format!("/proc/{}/fd/1", text(bytes).trim());
        self.0 = Some(fs_err::OpenOptions::new().write(true).open(path).unwrap());
    }

    fn tick(&mut self, _: &Activity) {}
}

fn a_stream_held_by_a_foreign_process_is_not_waited_for() {
    let mut holder = Holder::default();
    let command = Tag::new().shell("echo $$; sleep 0.5");
    let ended = guardian().run(&command, &limits(), &mut holder).unwrap();
    assert!(holder.0.is_some());
    assert_eq!(
        (ended.exit, ended.stdout.held_open, ended.stderr.held_open),
        (Exit::Code(0), true, false)
    );
}

fn two_slots_leave_each_others_orphans_alone() {
    // The long one's orphan writes at the end; meanwhile the other slot sweeps again and again.
    let tag = Tag::new();
    std::thread::scope(|scope| {
        let long = scope.spawn(|| {
            let script = "(setsid sh -c 'sleep 1; echo survived' &) ; sleep 1.5";
            run(&mut guardian(), &tag.shell(script), &limits())
        });
        let mut other = guardian();
        while !long.is_finished() {
            let ended = run(
                &mut other,
                &Tag::new().shell("(setsid sleep 1000 &); exit 0"),
                &limits(),
            );
            assert_eq!(ended.exit, Exit::Code(0));
        }
        assert_eq!(text(&long.join().unwrap().stdout.head), "survived\n");
    });
    tag.assert_none_alive();
}
