//! Commands that fork much, kill their guardian, or outlive their governor.

use std::time::Duration;

use loopexec_os::guardian::{Exit, Guardian, Interruption};
use loopexec_os::process::{Pid, is_alive};
use rustix::process::Signal;

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
        "a_tree_that_keeps_forking_is_ended_without_its_guardian",
        a_tree_that_keeps_forking_is_ended_without_its_guardian,
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
        "a_killed_governor_wakes_a_stopped_guardian",
        a_killed_governor_wakes_a_stopped_guardian,
    ),
    (
        "what_a_dead_governor_and_a_dead_guardian_left_is_ended_by_the_next_start",
        the_next_start_ends_what_is_left,
    ),
    (
        "a_slot_says_whether_it_has_a_group",
        a_slot_says_whether_it_has_a_group,
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

/// Twenty chains: each link starts the next one and is gone, so that no list is ever true. Beside them a tree that doubles nine times.
/// Both are bounded on purpose: a failure of a test must not take the machine with it.
const FORKS: &str = "chain() { chain & }; double() { [ $1 -gt 0 ] || exec sleep 1000; double $(($1-1)) & double $(($1-1)) & }; \
    i=0; while [ $i -lt 20 ]; do chain & i=$((i+1)); done; double 9 & sleep 0.5;";

fn a_tree_that_keeps_forking_is_ended() {
    for mut guardian in guardians() {
        let tag = Tag::new();
        let ended = run(
            &mut guardian,
            &tag.shell(&format!("{FORKS} exit 0")),
            &limits(),
        );
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

fn a_tree_that_keeps_forking_is_ended_without_its_guardian() {
    for mut guardian in guardians() {
        let tag = Tag::new();
        let ended = run(
            &mut guardian,
            &tag.shell(&format!("{FORKS} kill -9 $PPID; exit 0")),
            &limits(),
        );
        assert_eq!(
            (ended.guardian_lost, ended.unkillable),
            (true, 0),
            "{:?}",
            ended.left_processes
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
        let process = Pid(pid.cast_unsigned());
        wait_until("the guardian is dead", || !is_alive(process));
        let ended = run(&mut guardian, &Tag::new().shell("echo $PPID"), &limits());
        assert_eq!(ended.exit, Exit::Code(0));
        assert_ne!(text(&ended.stdout.head).trim(), pid.to_string());
    }
}

/// A governor that runs a command, and the directory in which the command says something by a file.
struct Prey {
    governor: std::process::Child,
    tag: Tag,
    directory: tempfile::TempDir,
}

impl Prey {
    /// `@` in the script stands for the directory.
    fn start(script: &str, cgroup: &str) -> Self {
        let (tag, directory) = (Tag::new(), tempfile::tempdir().unwrap());
        let script = script.replace('@', directory.path().to_str().unwrap());
        let governor = helper::command(GOVERNOR, &[&script, "1000", cgroup])
            .env("OS_TEST_CHILD_TAG", tag.text())
            .spawn()
            .unwrap();
        Self {
            governor,
            tag,
            directory,
        }
    }

    /// Waits for the file and reads the number in it.
    fn said(&self) -> u32 {
        let path = self.directory.path().join("said");
        wait_until("the command says it", || path.exists());
        fs_err::read_to_string(path)
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    }

    fn kill_governor(&mut self) {
        self.governor.kill().unwrap();
        self.governor.wait().unwrap();
    }
}

const SAY_GUARDIAN: &str = "echo $PPID > @/new; mv @/new @/said";

fn a_killed_governor_leaves_nothing_alive() {
    for cgroup in ["cgroup", "lists"] {
        let script = format!(
            "trap '' TERM HUP INT; (setsid sh -c 'sleep 1000 & wait' &); (sleep 1000 &); setsid sleep 1000 & {SAY_GUARDIAN}; wait"
        );
        let mut prey = Prey::start(&script, cgroup);
        let guardian = Pid(prey.said());
        assert!(prey.tag.alive().len() >= 3);
        prey.kill_governor();
        wait_until("all of it is gone", || prey.tag.alive().is_empty());
        wait_until("the guardian is gone", || !is_alive(guardian));
    }
}

fn a_killed_governor_wakes_a_stopped_guardian() {
    let mut prey = Prey::start(&format!("{SAY_GUARDIAN}; exec sleep 1000"), "lists");
    let guardian = prey.said();
    let governor = prey.governor.id();
    // Stopped first, the governor does not wake its guardian at the next tick.
    send(governor, Signal::STOP);
    send(guardian, Signal::STOP);
    prey.kill_governor();
    wait_until("all of it is gone", || prey.tag.alive().is_empty());
    wait_until("the guardian is gone", || !is_alive(Pid(guardian)));
}

fn the_next_start_ends_what_is_left() {
    if !guardian().has_group() {
        // Without a group nobody can know afterwards whose they were: a limit that is stated.
        return;
    }
    let mut prey = Prey::start(
        &format!("(setsid sleep 1000 &); {SAY_GUARDIAN}; exec sleep 1000"),
        "cgroup",
    );
    let guardian = prey.said();
    // Stopped first, the governor does not see its guardian die, and ends nothing itself.
    send(prey.governor.id(), Signal::STOP);
    send(guardian, Signal::KILL);
    wait_until("the guardian is dead", || !is_alive(Pid(guardian)));
    // As long as the governor exists its group is not stale, whatever other slots start meanwhile.
    drop(self::guardian());
    assert!(!prey.tag.alive().is_empty());
    prey.kill_governor();
    drop(self::guardian());
    wait_until("all of it is gone", || prey.tag.alive().is_empty());
}

fn send(pid: u32, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

fn a_slot_says_whether_it_has_a_group() {
    assert!(!guardian_without_cgroup().has_group());
}
