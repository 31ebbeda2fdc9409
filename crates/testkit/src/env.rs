//! A hermetic place to run the program in: own home, own workspace, a fixed environment, no network needed.

use std::{
    ffi::OsStr,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

/// How long a test waits for an event before it fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// One place.
#[derive(Debug)]
pub struct TestEnv {
    root: TempDir,
    program: PathBuf,
}

/// What a run of the program gave.
#[derive(Debug)]
pub struct Ran {
    /// Exit code; -1 when a signal ended it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The one JSON object on standard output.
    ///
    /// # Panics
    ///
    /// When there is not exactly one, on one line.
    #[must_use]
    pub fn json(&self) -> Value {
        let lines: Vec<&str> = self.stdout.lines().collect();
        assert_eq!(
            lines.len(),
            1,
            "one line on stdout: {:?} / {:?}",
            self.stdout,
            self.stderr
        );
        let value: Value = serde_json::from_str(lines[0]).expect("stdout is JSON");
        assert!(value.is_object() && value["errors"].is_array(), "{value}");
        value
    }

    /// The value of a `key: value` line of human output.
    #[must_use]
    pub fn line(&self, key: &str) -> Option<&str> {
        self.stdout
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
    }
}

impl TestEnv {
    /// A new place with an empty workspace; `program` is the binary under test.
    ///
    /// # Panics
    ///
    /// When no temporary directory can be made.
    #[must_use]
    pub fn new(program: &str) -> Self {
        let root = TempDir::with_prefix("loopexec test ").expect("a temporary directory");
        fs_err::create_dir(root.path().join("home")).expect("a home");
        fs_err::create_dir(root.path().join("work")).expect("a workspace");
        Self {
            root,
            program: program.into(),
        }
    }

    /// The home.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// The workspace.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// A path below the workspace.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.work().join(name)
    }

    /// Writes a file of the workspace.
    ///
    /// # Panics
    ///
    /// When it cannot be written.
    pub fn write(&self, name: &str, content: &str) {
        fs_err::write(self.path(name), content).expect("written");
    }

    /// A file of the workspace.
    ///
    /// # Panics
    ///
    /// When it cannot be read.
    #[must_use]
    pub fn read(&self, name: &str) -> String {
        fs_err::read_to_string(self.path(name)).expect("read")
    }

    /// The receipt's events of a run, in order.
    ///
    /// # Panics
    ///
    /// When the receipt cannot be read.
    #[must_use]
    pub fn events(&self, run_id: &str) -> Vec<Value> {
        self.read(&format!(".loopexec/run-{run_id}.jsonl"))
            .lines()
            .map(|line| serde_json::from_str(line).expect("a record"))
            .collect()
    }

    /// The program with these arguments, in the workspace, not started yet.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "tests start the program as a user does"
    )]
    pub fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .current_dir(self.work())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .env("TERM", "dumb")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the program.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Ran {
        Ran::of(&self.command(arguments).output().expect("the program runs"))
    }

    /// Starts the program and leaves it running, with the signals of a terminal: whoever runs the tests may ignore some.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[expect(
        clippy::disallowed_methods,
        reason = "tests start the program as a user does"
    )]
    pub fn start<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Child {
        let mut plain = self.command(arguments);
        if !cfg!(target_os = "linux") {
            return plain.spawn().expect("the program starts");
        }
        let mut command = Command::new("env");
        command
            .arg("--default-signal=HUP,INT,QUIT,TERM")
            .arg(plain.get_program())
            .args(plain.get_args())
            .current_dir(self.work())
            .env_clear()
            .envs(
                plain
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().expect("the program starts")
    }

    /// Waits for a started program.
    ///
    /// # Panics
    ///
    /// When it cannot be waited for.
    #[must_use]
    pub fn finish(child: Child) -> Ran {
        Ran::of(&child.wait_with_output().expect("it ends"))
    }

    /// Runs a shell command in the workspace.
    ///
    /// # Panics
    ///
    /// When it fails.
    #[expect(
        clippy::disallowed_methods,
        reason = "tests prepare their workspace as a user does"
    )]
    pub fn shell(&self, script: &str) -> String {
        let output = Command::new("sh")
            .arg("-ec")
            .arg(script)
            .current_dir(self.work())
            .env("HOME", self.home())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .expect("sh runs");
        assert!(
            output.status.success(),
            "{script}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Waits until something holds, by looking again whenever the scheduler lets us.
///
/// # Panics
///
/// When it does not hold within [`PATIENCE`].
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < give_up, "waited in vain for {what}");
        std::thread::yield_now();
    }
}

/// Waits for a file with something in it.
pub fn until_file(path: &Path) {
    until(&path.display().to_string(), || {
        fs_err::metadata(path).is_ok_and(|metadata| metadata.len() > 0)
    });
}

/// Says why a test did nothing; fails instead when real components are required.
///
/// # Panics
///
/// When `LOOPEXEC_REQUIRE_REAL` is 1.
#[expect(
    clippy::disallowed_methods,
    reason = "the one variable by which the gate asks for real components"
)]
pub fn skipped(needs: &str) {
    let required = std::env::var_os("LOOPEXEC_REQUIRE_REAL").is_some_and(|value| value == "1");
    assert!(!required, "needs {needs}, and real components are required");
    let _ = writeln!(std::io::stderr(), "skipped: needs {needs}");
}
