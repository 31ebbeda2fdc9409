//! Commands that fork much, kill their guardian, or outlive their governor.

use std::path::Path;
use std::time::Duration;

use loopexec_os::guardian::{Exit, Guardian, Interruption};

use crate::helper::{self, GOVERNOR};
use crate::support::{
    Tag, Tests, guardian, guardian_without_cgroup, limits, run, text, wait_until,
};

pub(crate) const TESTS: Tests = &[
    (
        "five_hundred_daemons_are_ended",
        five_hundred_daemons_are_ended,
    ),
    (
        "twenty_thousand_short_lived_descendants_do_not_pile_up",
        twenty_thousand_short_lived_descendants_do_not_pile_up,
    ),
    (
        "a_tree_that_keeps_forking_is_ended",
        a_tree_that_keeps_forking_is_ended,
    ),
    (
        "a_command_that_kills_its_guardian_is_ended_with_a_group",
        kills_its_guardian_with_a_group,
    ),
    (
        "a_command_that_kills_its_guardian_is_ended_without_a_group",
        kills_its_guardian_without_a_group,
    ),
    (
        "a_command_that_terminates_its_guardian_does_not_succeed",
        a_command_that_terminates_its_guardian_does_not_succeed,
    ),
    (
        "a_command_that_stops_its_guardian_does_not_hang_the_run",
        a_command_that_stops_its_guardian_does_not_hang_the_run,
    ),
    (
        "a_guardian_killed_between_two_commands_is_replaced",
        a_guardian_killed_between_two_commands_is_replaced,
    ),
    (
        "a_killed_governor_leaves_nothing_alive",
        a_killed_governor_leaves_nothing_alive,
    ),
];

fn guardians() -> [Guardian; 2] {
    [guardian(), guardian_without_cgroup()]
}

fn five_hundred_daemons_are_ended() {
    for mut guardian in guardians() {
        let tag = Tag::new();
        let script = "i=0; while [ $i -lt 500 ]; do (setsid sleep 1000 &); i=$((i+1)); done";
        let ended = run(&mut guardian, &tag.shell(script), &limits());
        assert_eq!((ended.exit, ended.unkillable), (Exit::Code(0), 0));
        assert!(
            ended.left_processes.count > 400,
            "{}",
            ended.left_processes.count
        );
        tag.assert_none_alive();
    }
}

fn twenty_thousand_short_lived_descendants_do_not_pile_up() {
    let tag = Tag::new();
    // Each `(… &)` makes an orphan that only the guardian can reap. The highest number of zombies is asked for along the way.
    let script = "worst=0; i=0; while [ $i -lt 20000 ]; do (: &); i=$((i+1)); \
        if [ $((i % 2000)) -eq 0 ]; then read -r _ < /dev/null; \
        set -- $(cat /proc/$PPID/task/$PPID/children); [ $# -gt $worst ] && worst=$#; fi; done; echo $worst";
    let mut limits = limits();
    limits.timeout = Some(Duration::from_secs(300));
    let ended = run(&mut guardian_without_cgroup(), &tag.shell(script), &limits);
    assert_eq!(ended.exit, Exit::Code(0));
    let worst: u32 = text(&ended.stdout.head).trim().parse().unwrap();
    assert!(worst < 1_000, "{worst} children waited to be reaped");
    tag.assert_none_alive();
}

fn a_tree_that_keeps_forking_is_ended() {
    // Twenty chains: each link starts the next one and is gone, so that no list is ever true. Beside them a tree that doubles ten times.
    // Both are bounded on purpose: a failure of this test must not take the machine with it.
    let script = "chain() { chain & }; double() { [ $1 -gt 0 ] || exec sleep 1000; double $(($1-1)) & double $(($1-1)) & }; \
        i=0; while [ $i -lt 20 ]; do chain & i=$((i+1)); done; double 9 & sleep 0.5; exit 0";
    for mut guardian in guardians() {
        let tag = Tag::new();
        let ended = run(&mut guardian, &tag.shell(script), &limits());
        assert_eq!(
            (ended.exit, ended.unkillable),
            (Exit::Code(0), 0),
            "{:?}",
            ended.left_processes
        );
        assert!(
            ended.left_processes.count > 20,
            "{}",
            ended.left_processes.count
        );
        tag.assert_none_alive();
    }
}

fn kills_its_guardian(mut guardian: Guardian) {
    let tag = Tag::new();
    let script = "(setsid sleep 1000 &); sleep 1000 & kill -9 $PPID; setsid sleep 1000 & while :; do sleep 1; done";
    let ended = run(&mut guardian, &tag.shell(script), &limits());
    assert_eq!(
        (ended.exit, ended.guardian_lost, ended.unkillable),
        (Exit::Unknown, true, 0)
    );
    assert!(ended.left_processes.count >= 1);
    tag.assert_none_alive();
    assert_eq!(
        run(&mut guardian, &tag.shell("exit 6"), &limits()).exit,
        Exit::Code(6)
    );
}

fn kills_its_guardian_with_a_group() {
    kills_its_guardian(guardian());
}

fn kills_its_guardian_without_a_group() {
    kills_its_guardian(guardian_without_cgroup());
}

fn a_command_that_terminates_its_guardian_does_not_succeed() {
    let script = "for s in TERM INT HUP QUIT USR1 USR2; do kill -$s $PPID; done; sleep 0.1; exit 8";
    let ended = run(&mut guardian(), &Tag::new().shell(script), &limits());
    assert_eq!((ended.exit, ended.guardian_lost), (Exit::Code(8), false));
}

fn a_command_that_stops_its_guardian_does_not_hang_the_run() {
    let mut limits = limits();
    limits.timeout = Some(Duration::from_secs(20));
    let ended = run(
        &mut guardian(),
        &Tag::new().shell("kill -STOP $PPID; exit 9"),
        &limits,
    );
    assert_eq!(
        (ended.exit, ended.interruption, ended.guardian_lost),
        (Exit::Code(9), None::<Interruption>, false)
    );
}

fn a_guardian_killed_between_two_commands_is_replaced() {
    for mut guardian in guardians() {
        let ended = run(&mut guardian, &Tag::new().shell("echo $PPID"), &limits());
        let pid: i32 = text(&ended.stdout.head).trim().parse().unwrap();
        let target = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(target, rustix::process::Signal::KILL).unwrap();
        let process = loopexec_os::process::Pid(pid.cast_unsigned());
        wait_until("the guardian is dead", || {
            !loopexec_os::process::is_alive(process)
        });
        let ended = run(&mut guardian, &Tag::new().shell("echo $PPID"), &limits());
        assert_eq!(ended.exit, Exit::Code(0));
        assert_ne!(text(&ended.stdout.head).trim(), pid.to_string());
    }
}

fn a_killed_governor_leaves_nothing_alive() {
    for cgroup in ["cgroup", "lists"] {
        let tag = Tag::new();
        let directory = tempfile::tempdir().unwrap();
        let ready = directory.path().join("ready");
        let script = format!(
            "trap '' TERM HUP INT; (setsid sh -c 'sleep 1000 & wait' &); (sleep 1000 &); setsid sleep 1000 & echo $PPID > {0}.tmp; mv {0}.tmp {0}; wait",
            ready.display()
        );
        let mut governor = helper::command(GOVERNOR, &[&script, "1000", cgroup])
            .env("OS_TEST_CHILD_TAG", tag.text())
            .spawn()
            .unwrap();
        wait_until("the command runs", || Path::new(&ready).exists());
        let guardian: u32 = fs_err::read_to_string(&ready)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        assert!(tag.alive().len() >= 3);
        governor.kill().unwrap();
        governor.wait().unwrap();
        wait_until("all of it is gone", || tag.alive().is_empty());
        wait_until("the guardian is gone", || {
            !loopexec_os::process::is_alive(loopexec_os::process::Pid(guardian))
        });
    }
}
