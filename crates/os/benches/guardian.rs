//! What supervision costs: a command through the guardian against one started directly, and output that passes through.
//!
//! Prints numbers; it asserts nothing, because they depend on the machine. Owns its `main` to be able to act as the guardian.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints its result, and a panic is its failure"
)]

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use loopexec_os::clock::boot_micros;
use loopexec_os::guardian::{
    ARGUMENT, Activity, CgroupUse, CommandSpec, Guardian, GuardianOptions, Limits, Observer, Stdin,
    Stream, guardian_main,
};
use loopexec_os::signals::Signals;

const COMMANDS: usize = 1_000;
const STARTS: usize = 50;
const LIMITS: Limits = Limits {
    timeout: Some(Duration::from_secs(600)),
    idle: None,
    grace: Duration::from_secs(1),
    tick: Duration::from_secs(1),
};

struct Deaf;

impl Observer for Deaf {
    fn output(&mut self, _: Stream, _: &[u8]) {}
    fn tick(&mut self, _: &Activity) {}
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments
        .get(1)
        .is_some_and(|argument| argument == ARGUMENT)
    {
        guardian_main();
    }
    let signals = Signals::install().unwrap();
    for cgroup in [CgroupUse::WhereAllowed, CgroupUse::Never] {
        let what = format!("start and end of a guardian, cgroup {cgroup:?}");
        report(&what, STARTS, || drop(start(cgroup, &signals)));
    }
    let mut with_group = start(CgroupUse::WhereAllowed, &signals);
    let mut without_group = start(CgroupUse::Never, &signals);
    // Taken in turns, so that other work on the machine slows all of them alike.
    let (mut directly, mut grouped, mut listed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..COMMANDS {
        directly.push(micros(direct));
        grouped.push(micros(|| run(&mut with_group, "true")));
        listed.push(micros(|| run(&mut without_group, "true")));
    }
    print("sh -c true, started directly", directly);
    print("sh -c true, supervised with a group", grouped);
    print("sh -c true, supervised without", listed);
    report(
        "sh -c with one process left over, supervised",
        COMMANDS / 10,
        || run(&mut with_group, "sleep 9 &"),
    );
    let mut guardian = Guardian::start(GuardianOptions::this_program(), &signals).unwrap();
    let before = boot_micros();
    run(&mut guardian, "head -c 10000000000 /dev/zero");
    let taken = boot_micros() - before;
    println!(
        "10 GB of output: {:.2} GB/s, largest resident set {}",
        10_000.0 * 1e6 / taken as f64 / 1_000.0,
        resident()
    );
}

fn run(guardian: &mut Guardian, script: &str) {
    let command = CommandSpec {
        argv: ["/bin/sh", "-c", script].map(OsString::from).to_vec(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        directory: PathBuf::from("/"),
        stdin: Stdin::Empty,
    };
    let ended = guardian.run(&command, &LIMITS, &mut Deaf).unwrap();
    assert!(!ended.guardian_lost);
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is what supervision is compared with"
)]
fn direct() {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", "true"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    assert!(command.output().unwrap().status.success());
}

fn start(cgroup: CgroupUse, signals: &Signals) -> Guardian {
    Guardian::start(
        GuardianOptions {
            cgroup,
            ..GuardianOptions::this_program()
        },
        signals,
    )
    .unwrap()
}

fn micros(once: impl FnOnce()) -> u64 {
    let before = boot_micros();
    once();
    boot_micros() - before
}

fn report(what: &str, times: usize, mut once: impl FnMut()) {
    print(what, (0..times).map(|_| micros(&mut once)).collect());
}

fn print(what: &str, mut taken: Vec<u64>) {
    taken.sort_unstable();
    let at = |share: usize| taken.get(taken.len() * share / 100).copied().unwrap_or(0);
    println!(
        "{what}: median {} us, 10 % below {} us, 90 % below {} us",
        at(50),
        at(10),
        at(90)
    );
}

fn resident() -> String {
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap()
        .trim()
        .to_owned()
}
