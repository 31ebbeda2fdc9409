//! Ordinary commands: what they get, what is reported of them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

use loopexec_os::guardian::{CAPTURED_HALF, Exit, Interruption, Stdin};

use crate::support::{Heard, Tag, Tests, guardian, guardian_without_cgroup, limits, run, text};

pub(crate) const TESTS: Tests = &[
    (
        "the_code_and_both_streams_are_reported",
        the_code_and_both_streams_are_reported,
    ),
    (
        "a_signal_that_ends_the_command_is_reported",
        a_signal_that_ends_the_command_is_reported,
    ),
    (
        "arguments_and_environment_need_not_be_text",
        arguments_and_environment_need_not_be_text,
    ),
    (
        "a_missing_program_is_not_started",
        a_missing_program_is_not_started,
    ),
    (
        "a_missing_directory_is_not_started",
        a_missing_directory_is_not_started,
    ),
    (
        "arguments_beyond_the_kernels_limit_are_not_started",
        arguments_beyond_the_kernels_limit_are_not_started,
    ),
    (
        "empty_input_is_the_end_at_once",
        empty_input_is_the_end_at_once,
    ),
    (
        "input_larger_than_the_pipe_arrives_whole",
        input_larger_than_the_pipe_arrives_whole,
    ),
    (
        "input_nobody_reads_is_no_failure",
        input_nobody_reads_is_no_failure,
    ),
    (
        "output_beyond_the_capture_keeps_head_and_tail_of_both_streams",
        output_beyond_the_capture_keeps_head_and_tail,
    ),
    ("one_slot_runs_many_commands", one_slot_runs_many_commands),
    (
        "signals_and_descriptors_are_as_of_a_fresh_process",
        signals_and_descriptors_are_as_of_a_fresh_process,
    ),
    (
        "processor_time_and_memory_of_the_tree_are_reported",
        processor_time_and_memory_of_the_tree_are_reported,
    ),
    (
        "ticks_come_while_a_command_is_silent",
        ticks_come_while_a_command_is_silent,
    ),
    (
        "the_deadline_at_zero_ends_at_once",
        the_deadline_at_zero_ends_at_once,
    ),
];

fn the_code_and_both_streams_are_reported() {
    let ended = run(
        &mut guardian(),
        &Tag::new().shell("echo out; echo err >&2; exit 7"),
        &limits(),
    );
    assert_eq!(ended.exit, Exit::Code(7));
    assert_eq!(
        (text(&ended.stdout.head), text(&ended.stderr.head)),
        ("out\n".into(), "err\n".into())
    );
    assert_eq!(
        (
            ended.stdout.total,
            ended.stdout.truncated,
            ended.stdout.held_open
        ),
        (4, false, false)
    );
    assert_eq!(
        (
            ended.interruption,
            ended.left_processes.count,
            ended.guardian_lost
        ),
        (None, 0, false)
    );
}

fn a_signal_that_ends_the_command_is_reported() {
    let ended = run(
        &mut guardian(),
        &Tag::new().shell("kill -SEGV $$"),
        &limits(),
    );
    assert_eq!(ended.exit, Exit::Signal(11));
}

fn arguments_and_environment_need_not_be_text() {
    let mut command = Tag::new().shell("printf '%s|%s' \"$1\" \"$ODD\"");
    command.argv.push("name".into());
    command
        .argv
        .push(OsString::from_vec(vec![0xff, b'a', 0xfe]));
    command
        .env
        .push(("ODD".into(), OsString::from_vec(vec![b'\n', 0x80, 0xc3])));
    let ended = run(&mut guardian(), &command, &limits());
    assert_eq!(
        ended.stdout.head,
        [0xff, b'a', 0xfe, b'|', b'\n', 0x80, 0xc3]
    );
}

fn a_missing_program_is_not_started() {
    let mut command = Tag::new().shell("");
    command.argv = vec!["no-such-program".into()];
    let mut guardian = guardian();
    let Exit::NotStarted { errno, reason } = run(&mut guardian, &command, &limits()).exit else {
        panic!("it was started")
    };
    assert_eq!(errno, 2);
    assert_eq!(
        reason,
        "cannot execute no-such-program: No such file or directory (os error 2)"
    );
    command.argv = vec!["/etc/passwd".into()];
    let Exit::NotStarted { errno, .. } = run(&mut guardian, &command, &limits()).exit else {
        panic!("it was started")
    };
    assert_eq!(errno, 13);
    command.argv = Vec::new();
    assert!(matches!(
        run(&mut guardian, &command, &limits()).exit,
        Exit::NotStarted { errno: 22, .. }
    ));
    command.argv = vec!["/bin/echo".into(), OsString::from_vec(vec![b'a', 0])];
    assert!(matches!(
        run(&mut guardian, &command, &limits()).exit,
        Exit::NotStarted { errno: 22, .. }
    ));
}

fn a_missing_directory_is_not_started() {
    let mut command = Tag::new().shell("");
    command.directory = "/no-such-directory".into();
    let Exit::NotStarted { errno, reason } = run(&mut guardian(), &command, &limits()).exit else {
        panic!("it was started")
    };
    assert_eq!(errno, 2);
    assert_eq!(
        reason,
        "cannot enter the directory /no-such-directory: No such file or directory (os error 2)"
    );
}

fn arguments_beyond_the_kernels_limit_are_not_started() {
    let mut guardian = guardian();
    for length in [3 << 20, 17 << 20] {
        let mut command = Tag::new().shell("");
        command.argv.push(OsString::from_vec(vec![b'a'; length]));
        assert!(
            matches!(
                run(&mut guardian, &command, &limits()).exit,
                Exit::NotStarted { errno: 7, .. }
            ),
            "{length}"
        );
    }
    assert_eq!(
        run(&mut guardian, &Tag::new().shell("true"), &limits()).exit,
        Exit::Code(0)
    );
}

fn empty_input_is_the_end_at_once() {
    let mut command = Tag::new().shell("cat; echo end");
    let mut guardian = guardian();
    for stdin in [Stdin::Empty, Stdin::Bytes(Vec::new())] {
        command.stdin = stdin;
        assert_eq!(
            text(&run(&mut guardian, &command, &limits()).stdout.head),
            "end\n"
        );
    }
}

fn input_larger_than_the_pipe_arrives_whole() {
    let mut command = Tag::new().shell("cat");
    let bytes: Vec<u8> = (0..900_000_u32).map(|index| (index % 253) as u8).collect();
    command.stdin = Stdin::Bytes(bytes.clone());
    let ended = run(&mut guardian(), &command, &limits());
    assert_eq!(ended.stdout.into_bytes(), bytes);
}

fn input_nobody_reads_is_no_failure() {
    let mut command = Tag::new().shell("exec <&-; exit 3");
    command.stdin = Stdin::Bytes(vec![b'x'; 500_000]);
    assert_eq!(
        run(&mut guardian(), &command, &limits()).exit,
        Exit::Code(3)
    );
}

fn output_beyond_the_capture_keeps_head_and_tail() {
    let script = "(printf HEAD; head -c 3000000 /dev/zero; printf TAIL) & (printf head; head -c 3000000 /dev/zero; printf tail) >&2; wait";
    let mut heard = Heard::default();
    let ended = guardian()
        .run(&Tag::new().shell(script), &limits(), &mut heard)
        .unwrap();
    for (captured, head, tail) in [
        (&ended.stdout, b"HEAD", b"TAIL"),
        (&ended.stderr, b"head", b"tail"),
    ] {
        assert_eq!(captured.total, 3_000_008);
        assert!(captured.truncated);
        assert_eq!(
            (captured.head.len(), captured.tail.len()),
            (CAPTURED_HALF, CAPTURED_HALF)
        );
        assert!(captured.head.starts_with(head) && captured.tail.ends_with(tail));
    }
    assert_eq!((heard.stdout, heard.stderr), (3_000_008, 3_000_008));
}

fn one_slot_runs_many_commands() {
    for mut guardian in [guardian(), guardian_without_cgroup()] {
        for code in 0..50 {
            let ended = run(
                &mut guardian,
                &Tag::new().shell(&format!("exit {code}")),
                &limits(),
            );
            assert_eq!(
                (ended.exit, ended.left_processes.count),
                (Exit::Code(code), 0)
            );
        }
    }
}

fn signals_and_descriptors_are_as_of_a_fresh_process() {
    // No shell in between: it blocks signals and opens pipes of its own while it starts something.
    let mut guardian = guardian();
    let mut command = Tag::new().shell("");
    command.argv = ["grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status"]
        .map(OsString::from)
        .to_vec();
    let said = text(&run(&mut guardian, &command, &limits()).stdout.head);
    let masks: Vec<u64> = said
        .lines()
        .map(|line| u64::from_str_radix(line.split('\t').next_back().unwrap(), 16).unwrap())
        .collect();
    // The C library keeps its own two signals, 32 and 33, ignored in whatever it spawns.
    assert_eq!((masks[0], masks[1] & !0x1_8000_0000), (0, 0));
    // The fourth is the directory that is being listed.
    command.argv = ["ls", "/proc/self/fd"].map(OsString::from).to_vec();
    assert_eq!(
        text(&run(&mut guardian, &command, &limits()).stdout.head),
        "0\n1\n2\n3\n"
    );
}

fn processor_time_and_memory_of_the_tree_are_reported() {
    let script = "(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done) & wait";
    let ended = run(&mut guardian(), &Tag::new().shell(script), &limits());
    assert!(
        ended.cpu_ms > 10 && ended.cpu_ms <= ended.duration_ms + 50,
        "{} of {}",
        ended.cpu_ms,
        ended.duration_ms
    );
    assert!(ended.max_rss_kib > 100);
}

fn ticks_come_while_a_command_is_silent() {
    let mut heard = Heard::default();
    let mut limits = limits();
    limits.tick = Duration::from_millis(20);
    let ended = guardian()
        .run(&Tag::new().shell("sleep 0.3"), &limits, &mut heard)
        .unwrap();
    assert_eq!(ended.exit, Exit::Code(0));
    assert!(heard.ticks >= 3, "{}", heard.ticks);
}

fn the_deadline_at_zero_ends_at_once() {
    let tag = Tag::new();
    let mut limits = limits();
    limits.timeout = Some(Duration::ZERO);
    let ended = run(&mut guardian(), &tag.shell("sleep 1000"), &limits);
    assert_eq!(
        (ended.exit, ended.interruption),
        (Exit::Signal(15), Some(Interruption::Deadline))
    );
    tag.assert_none_alive();
}
