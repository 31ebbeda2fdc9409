//! What the tasks that run the built program share: starting commands with a deadline, ending what they leave,
//! scratch directories, whether a tool is there.
//!
//! Must not know what any task shows.

use std::{
    ffi::OsStr,
    io::Read,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, waitpid},
};

/// Bytes of each stream that are kept of a command; more is read and dropped.
const OUTPUT_BYTES_MAX: u64 = 16 << 20;
/// Longest wait for what a command left behind, once it has ended: the guardian needs milliseconds.
const LEFTOVER_DEADLINE: Duration = Duration::from_secs(20);

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Exit code, when it ended by itself.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// Standard output.
    pub(crate) stdout: Vec<u8>,
    /// Standard error.
    pub(crate) stderr: Vec<u8>,
    /// Whether it was still running at the deadline.
    pub(crate) hung: bool,
    /// Processes of it that had to be ended by us.
    pub(crate) left: Vec<String>,
    /// How long it took, without what it left.
    pub(crate) took: Duration,
}

impl Outcome {
    /// Both streams as text, the end first where it is long.
    pub(crate) fn text(&self) -> String {
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&self.stdout),
            String::from_utf8_lossy(&self.stderr)
        );
        let skip = text.chars().count().saturating_sub(600);
        text.chars().skip(skip).collect()
    }
}

/// A command. The tasks start programs of the machine, which is what the ban elsewhere is there to prevent.
#[expect(
    clippy::disallowed_methods,
    reason = "tasks start compilers, tracers and the built program; they have no guardian"
)]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

/// A variable of the environment.
#[expect(
    clippy::disallowed_methods,
    reason = "tasks are configured by the environment of whoever starts them"
)]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether what a task needs must be there, instead of being a reason to skip.
pub(crate) fn real_required() -> bool {
    variable("LOOPEXEC_REQUIRE_REAL").as_deref() == Some("1")
}

/// Where a program is in `PATH`.
pub(crate) fn which(program: &str) -> Option<PathBuf> {
    variable("PATH")?
        .split(':')
        .map(|directory| Path::new(directory).join(program))
        .find(|path| path.is_file())
}

/// Says `skipped: needs …`, or fails where nothing may be skipped.
pub(crate) fn skip(what: &str, needs: &str) -> Result<(), String> {
    if real_required() {
        return Err(format!(
            "{what} needs {needs}, and LOOPEXEC_REQUIRE_REAL=1 lets nothing be skipped"
        ));
    }
    crate::say(&format!("{what}: skipped: needs {needs}"));
    Ok(())
}

/// Lets what a command leaves behind become ours, so that none of it can be missed.
pub(crate) fn adopt_orphans() -> Result<(), String> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| format!("cannot become the parent of orphans: {error}"))
}

/// Runs a command to its end or to the deadline; what it leaves is waited for, then ended and named.
pub(crate) fn run(command: &mut Command, deadline: Duration) -> Result<Outcome, String> {
    run_and(command, deadline, LEFTOVER_DEADLINE, &mut |_| {})
}

/// As [`run`], with a deadline for leftovers, and `started` told the process id.
pub(crate) fn run_and(
    command: &mut Command,
    deadline: Duration,
    leftover_deadline: Duration,
    started: &mut dyn FnMut(u32),
) -> Result<Outcome, String> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let begun = Instant::now();
    let mut child = command.spawn().map_err(|error| {
        format!(
            "cannot start {}: {error}",
            command.get_program().to_string_lossy()
        )
    })?;
    started(child.id());
    let stdout = child.stdout.take().map(drain);
    let stderr = child.stderr.take().map(drain);
    let hung = !ended_within(&child, deadline);
    if hung {
        let _ = child.kill();
    }
    let status = child
        .wait()
        .map_err(|error| format!("cannot wait for a command: {error}"))?;
    let took = begun.elapsed();
    let left = end_leftovers(leftover_deadline);
    Ok(Outcome {
        code: status.code(),
        signal: status.signal(),
        stdout: collect(stdout),
        stderr: collect(stderr),
        hung,
        left,
        took,
    })
}

/// Runs a command that must succeed within the deadline; its output.
pub(crate) fn must(command: &mut Command, deadline: Duration) -> Result<Vec<u8>, String> {
    let what = format!("{command:?}");
    let outcome = run(command, deadline)?;
    if outcome.code == Some(0) {
        return Ok(outcome.stdout);
    }
    let how = match (outcome.hung, outcome.code, outcome.signal) {
        (true, _, _) => format!("did not end within {} s", deadline.as_secs()),
        (false, Some(code), _) => format!("ended with {code}"),
        (false, None, signal) => format!("ended by signal {}", signal.unwrap_or(0)),
    };
    Err(format!("{what} {how}: {}", outcome.text()))
}

fn drain<R: Read + Send + 'static>(mut source: R) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let _ = Read::take(&mut source, OUTPUT_BYTES_MAX).read_to_end(&mut kept);
        let _ = std::io::copy(&mut source, &mut std::io::sink());
        kept
    })
}

fn collect(thread: Option<JoinHandle<Vec<u8>>>) -> Vec<u8> {
    thread
        .and_then(|thread| thread.join().ok())
        .unwrap_or_default()
}

fn ended_within(child: &Child, deadline: Duration) -> bool {
    i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .is_none_or(|pid| gone_within(pid, deadline))
}

/// Waits for the end of a process, which the kernel tells through a descriptor of it.
pub(crate) fn gone_within(pid: Pid, deadline: Duration) -> bool {
    let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) else {
        return true;
    };
    let until = Instant::now() + deadline;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(&descriptor, PollFlags::IN)];
        let wait = Timespec::try_from(left).ok();
        match poll(&mut fds, wait.as_ref()) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// The children of this process that it did not start itself: all of them, once its own command was waited for.
fn orphans() -> Vec<Pid> {
    let mut found = Vec::new();
    let Ok(tasks) = fs_err::read_dir("/proc/self/task") else {
        return found;
    };
    for task in tasks.flatten() {
        let children = fs_err::read_to_string(task.path().join("children")).unwrap_or_default();
        found.extend(
            children
                .split_whitespace()
                .filter_map(|pid| Pid::from_raw(pid.parse().ok()?)),
        );
    }
    found
}

/// Waits until nothing that a command left is alive; ends and names what stays.
pub(crate) fn end_leftovers(deadline: Duration) -> Vec<String> {
    let until = Instant::now() + deadline;
    let mut left = Vec::new();
    loop {
        let mut any = false;
        for pid in orphans() {
            any = true;
            if !gone_within(pid, until.saturating_duration_since(Instant::now())) {
                left.push(name_of(pid));
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = waitpid(Some(pid), WaitOptions::empty());
        }
        if !any {
            return left;
        }
    }
}

fn name_of(pid: Pid) -> String {
    let raw = pid.as_raw_nonzero();
    let words = fs_err::read(format!("/proc/{raw}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).replace('\0', " ");
    format!("{raw} ({})", words.trim())
}

/// Pseudo-random numbers from a printed seed (splitmix64), so that a sample can be drawn again.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// From a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`; 0 when that is 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % limit).unwrap_or(0)
    }
}

/// The program under test: `LOOPEXEC_BINARY`, or the release build, made now.
pub(crate) fn binary() -> Result<PathBuf, String> {
    if let Some(path) = variable("LOOPEXEC_BINARY") {
        return fs_err::canonicalize(path).map_err(|error| error.to_string());
    }
    let root = root()?;
    let target = variable("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mut build = command("cargo");
    build
        .args(["build", "--release", "--quiet", "--package", "loopexec"])
        .current_dir(&root);
    must(&mut build, Duration::from_secs(1800))?;
    Ok(target.join("release/loopexec"))
}

/// The root of the repository.
pub(crate) fn root() -> Result<PathBuf, String> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_owned)
        .ok_or_else(|| "the package has no parent directory".to_owned())
}

/// A scratch directory in memory where there is one: what is asked there is never about the disk.
pub(crate) fn scratch(name: &str) -> Result<tempfile::TempDir, String> {
    let memory = Path::new("/dev/shm");
    let mut builder = tempfile::Builder::new();
    let prefix = format!("loopexec-{name}-");
    builder.prefix(&prefix);
    if memory.is_dir() {
        builder.tempdir_in(memory)
    } else {
        builder.tempdir()
    }
    .map_err(|error| format!("cannot make a scratch directory: {error}"))
}
