//! Signals to a governor while a command runs.

use std::io::Read as _;
use std::path::Path;
use std::process::Child;

use loopexec_os::clock::boot_millis;

use crate::helper::{self, GOVERNOR};
use crate::support::{Tag, Tests, wait_until};

pub(crate) const TESTS: Tests = &[
    (
        "each_signal_cancels_and_the_next_command_is_not_started",
        each_signal_cancels_and_the_next_command_is_not_started,
    ),
    (
        "a_second_interrupt_makes_the_grace_zero",
        a_second_interrupt_makes_the_grace_zero,
    ),
    (
        "one_interrupt_leaves_the_grace",
        one_interrupt_leaves_the_grace,
    ),
    (
        "an_ignored_hangup_stays_ignored",
        an_ignored_hangup_stays_ignored,
    ),
];

struct Governor {
    child: Child,
    tag: Tag,
    directory: tempfile::TempDir,
}

impl Governor {
    /// The command of the script says `ready` by a file, and notes each `SIGTERM` it gets by another.
    fn start(body: &str, grace_millis: &str, through: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let script = format!("cd {}; {body}", directory.path().display());
        let tag = Tag::new();
        let arguments = [script.as_str(), grace_millis, "lists"];
        let mut command = if through.is_empty() {
            helper::command(GOVERNOR, &arguments)
        } else {
            wrapped(through, &arguments)
        };
        let child = command
            .env("OS_TEST_CHILD_TAG", tag.text())
            .spawn()
            .unwrap();
        let governor = Self {
            child,
            tag,
            directory,
        };
        wait_until("the command runs", || governor.said("ready"));
        governor
    }

    fn said(&self, name: &str) -> bool {
        Path::new(&self.directory.path().join(name)).exists()
    }

    fn send(&self, signal: i32) {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(
            pid,
            rustix::process::Signal::from_named_raw(signal).unwrap(),
        )
        .unwrap();
    }

    fn finish(mut self) -> String {
        let mut said = String::new();
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        assert!(self.child.wait().unwrap().success());
        self.tag.assert_none_alive();
        said
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests start helpers outside of any guardian, to send them signals"
)]
fn wrapped(through: &[&str], arguments: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new(through[0]);
    command
        .args(&through[1..])
        .arg(std::env::current_exe().unwrap())
        .arg(GOVERNOR)
        .args(arguments);
    command.stdout(std::process::Stdio::piped());
    command
}

const OBEYS: &str = "echo > ready; exec sleep 1000";
const IGNORES: &str = "trap 'echo > term' TERM; echo > ready; while :; do sleep 0.05; done";

fn each_signal_cancels_and_the_next_command_is_not_started() {
    let signals = [
        (libc::SIGINT, "Interrupt"),
        (libc::SIGTERM, "Terminate"),
        (libc::SIGHUP, "Hangup"),
        (libc::SIGQUIT, "Quit"),
    ];
    // Whoever runs the tests may ignore some of them, as `nohup` does.
    let as_at_a_terminal = ["env", "--default-signal=HUP,INT,QUIT,TERM"];
    for (number, name) in signals {
        let governor = Governor::start(OBEYS, "60000", &as_at_a_terminal);
        governor.send(number);
        let said = governor.finish();
        let expected = format!(
            "started\nSome(Cancelled({name})) Signal(15)\nSome(Cancelled({name})) NotStarted {{ errno: 125"
        );
        assert!(
            said.starts_with(&expected) && said.ends_with("\nNone Code(0)\n"),
            "{said}"
        );
    }
}

fn a_second_interrupt_makes_the_grace_zero() {
    let governor = Governor::start(IGNORES, "60000", &[]);
    governor.send(libc::SIGINT);
    wait_until("TERM has come", || governor.said("term"));
    let before = boot_millis();
    governor.send(libc::SIGINT);
    let said = governor.finish();
    assert!(
        said.contains("Some(Cancelled(Interrupt)) Signal(9)"),
        "{said}"
    );
    assert!(boot_millis() - before < 30_000);
}

fn one_interrupt_leaves_the_grace() {
    let governor = Governor::start(IGNORES, "500", &[]);
    let before = boot_millis();
    governor.send(libc::SIGINT);
    let said = governor.finish();
    assert!(
        said.contains("Some(Cancelled(Interrupt)) Signal(9)"),
        "{said}"
    );
    assert!(boot_millis() - before >= 500);
}

fn an_ignored_hangup_stays_ignored() {
    let body = "echo > ready; while [ ! -e go ]; do sleep 0.05; done; exit 3";
    let governor = Governor::start(body, "1000", &["nohup"]);
    governor.send(libc::SIGHUP);
    fs_err::write(governor.directory.path().join("go"), "").unwrap();
    let said = governor.finish();
    assert!(said.contains("None Code(3)"), "{said}");
}
