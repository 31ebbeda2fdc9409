//! What this program does when a test starts it as somebody else: a governor to be killed, a holder of a lock, a writer on a full disk.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use loopexec_os::durable::{Appender, DurableError, PRIVATE_FILE};
use loopexec_os::guardian::{CgroupUse, Guardian, GuardianOptions};
use loopexec_os::lock::WorkspaceLock;

use crate::support::{Heard, Tag, limits, signals};

/// How all modes begin.
pub(crate) const PREFIX: &str = "__test-";
/// Runs the shell script of the first argument under a guardian and prints how it ended; the second is the grace in milliseconds, the
/// third `cgroup` or `lists`.
pub(crate) const GOVERNOR: &str = "__test-governor";
/// Locks the directory of its argument and holds it until its input ends.
pub(crate) const LOCK: &str = "__test-lock";
/// Appends to the file of its argument beyond the largest file size.
pub(crate) const FULL: &str = "__test-full";

#[expect(
    clippy::disallowed_methods,
    reason = "tests start helpers outside of any guardian, to kill them"
)]
pub(crate) fn command(mode: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("os-test-helper")
        .arg(mode)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// Reads the first line a helper says.
pub(crate) fn first_line(child: &mut Child) -> String {
    let mut line = Vec::new();
    let mut byte = [0_u8];
    let output = child.stdout.as_mut().unwrap();
    while output.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        line.extend_from_slice(&byte);
    }
    String::from_utf8(line).unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the whole main of a helper"
)]
pub(crate) fn main(mode: &str, arguments: &[String]) -> ! {
    match mode {
        GOVERNOR => governor(&arguments[0], arguments[1].parse().unwrap(), &arguments[2]),
        LOCK => hold_lock(Path::new(&arguments[0])),
        FULL => fill(Path::new(&arguments[0])),
        other => panic!("no such mode: {other}"),
    }
    std::process::exit(0);
}

#[expect(
    clippy::disallowed_methods,
    reason = "the helper is told its mark through its environment, like every process of the test"
)]
fn governor(script: &str, grace_millis: u64, cgroup: &str) {
    let cgroup = if cgroup == "cgroup" {
        CgroupUse::WhereAllowed
    } else {
        CgroupUse::Never
    };
    let options = GuardianOptions {
        cgroup,
        ..GuardianOptions::this_program()
    };
    let mut guardian = Guardian::start(options, signals()).unwrap();
    let mut command = Tag::new().shell(script);
    command.env.retain(|(name, _)| name != "OS_TEST_TAG");
    command.env.push((
        "OS_TEST_TAG".into(),
        std::env::var_os("OS_TEST_CHILD_TAG").unwrap(),
    ));
    let mut limits = limits();
    limits.grace = Duration::from_millis(grace_millis);
    println!("started");
    let ended = guardian
        .run(&command, &limits, &mut Heard::default())
        .unwrap();
    println!("{:?} {:?}", ended.interruption, ended.exit);
    let again = guardian
        .run(&command, &limits, &mut Heard::default())
        .unwrap();
    println!("{:?} {:?}", again.interruption, again.exit);
    // What has to run after a cancellation does, once the signal is acknowledged.
    signals().acknowledge();
    let last = guardian
        .run(&Tag::new().shell("exit 0"), &limits, &mut Heard::default())
        .unwrap();
    println!("{:?} {:?}", last.interruption, last.exit);
}

fn hold_lock(directory: &Path) {
    match WorkspaceLock::acquire(directory) {
        Ok(_lock) => {
            println!("held");
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
        }
        Err(error) => println!("{error}"),
    }
}

/// A write of more than the size limit first writes what fits, and only the next one fails: a short write, then an error.
fn fill(path: &Path) {
    crate::files::limit_file_size();
    let mut appender = Appender::create_new(path, PRIVATE_FILE).unwrap();
    appender.append(&[b'a'; 90]).unwrap();
    appender.sync().unwrap();
    let failure = appender.append(&[b'b'; 90]).unwrap_err();
    let appended = matches!(
        appender.append(b"c"),
        Err(DurableError::Poisoned {
            since: "append to",
            ..
        })
    );
    let synced = matches!(appender.sync(), Err(DurableError::Poisoned { .. }));
    println!(
        "{:?} {appended} {synced} {}",
        failure.system_kind(),
        appender.len()
    );
    std::io::stdout().flush().unwrap();
}
