//! The one place that starts `git`: a scrubbed environment, no hook, no monitor, no network, no configuration of the person.
//!
//! What the workspace configures can run programs (`core.fsmonitor`, hooks, filters, helpers). Each call here therefore names
//! its git directory and switches those off; only commands that read or that change references are used, never one that
//! converts content. This module must not know what a candidate or a run is.

mod repository;
#[cfg(test)]
mod tests;

pub use repository::{Repository, RepositoryError};

use rustix::event::{PollFd, PollFlags, Timespec};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;
use thiserror::Error;

/// The oldest git that keeps the promises of this module: 2.32 was the first to obey `GIT_CONFIG_GLOBAL`.
pub const MINIMUM_VERSION: (u32, u32) = (2, 32);

/// The most output of one call that is kept in memory: a listing of two million paths of 256 bytes.
pub const MAX_OUTPUT_BYTES: u64 = 512 << 20;

/// How long git may say nothing before it is ended. It needs seconds for two million paths; a pipe that a work command planted
/// in the place of a file of the repository would hold it for ever.
pub const MAX_SILENCE: Duration = Duration::from_secs(120);

/// How much of what git said on stderr an error carries.
const STDERR_TAIL_BYTES: usize = 2048;

/// Switched off in every call, each because the workspace could otherwise run something or change something behind us.
const SETTINGS: [&str; 10] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.untrackedCache=false",
    "core.preloadIndex=false",
    "core.logAllRefUpdates=false",
    "protocol.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "index.threads=1",
];

/// The `git` program of this machine.
#[derive(Debug, Clone)]
pub struct Git {
    program: PathBuf,
    patience: Duration,
}

/// One call: where, and with which arguments.
#[derive(Debug, Default)]
pub struct Call<'a> {
    /// The git directory, so that git looks for none itself.
    pub git_dir: Option<&'a Path>,
    /// The top of the working tree.
    pub work_tree: Option<&'a Path>,
    /// Another index file than the repository's.
    pub index_file: Option<&'a Path>,
    /// The sub-command and its arguments.
    pub arguments: Vec<OsString>,
}

/// A call that was started and not yet waited for.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Option<PatientPipe>,
    stderr: Option<JoinHandle<Vec<u8>>>,
    command: String,
    git: Git,
}

/// The output of git, of which a read fails when nothing comes for too long.
#[derive(Debug)]
struct PatientPipe {
    pipe: ChildStdout,
    patience: Duration,
}

/// How a call ended.
#[derive(Debug)]
pub struct Output {
    /// Whether git exited with 0.
    pub success: bool,
    /// All of stdout.
    pub stdout: Vec<u8>,
    /// The end of stderr, at most 2 KiB, made printable.
    pub stderr: String,
}

/// A `git cat-file --batch` that serves objects one after the other.
#[derive(Debug)]
pub struct ObjectReader {
    running: Running,
    requests: ChildStdin,
    answers: io::BufReader<PatientPipe>,
}

/// Why git could not be asked.
#[derive(Debug, Error)]
pub enum GitError {
    /// No program of that name in the absolute directories of the search path.
    #[error("no `git` program was found in the search path; install git {}.{} or newer", MINIMUM_VERSION.0, MINIMUM_VERSION.1)]
    NotFound,
    /// An older git ignores settings that keep workspaces from running programs.
    #[error("git {found} is too old; {}.{} or newer is needed", MINIMUM_VERSION.0, MINIMUM_VERSION.1)]
    TooOld {
        /// What `git --version` said.
        found: String,
    },
    /// The process could not be started or talked to.
    #[error("could not run `{command}`")]
    Process {
        /// The program and its arguments.
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// Git ended with an error.
    #[error("`{command}` failed: {stderr}")]
    Failed {
        /// The program and its arguments.
        command: String,
        /// The end of what git said.
        stderr: String,
    },
    /// Git answered something that its documents do not allow.
    #[error("`{command}` gave an answer that is not understood: {answer}")]
    Answer {
        /// The program and its arguments.
        command: String,
        /// What was read, made printable.
        answer: String,
    },
    /// More output than is kept.
    #[error("`{command}` wrote more than {MAX_OUTPUT_BYTES} bytes")]
    TooMuchOutput {
        /// The program and its arguments.
        command: String,
    },
}

impl Git {
    /// Looks for the program in `search_path` (the value of `PATH`). Relative directories are passed over: a workspace must not
    /// be able to bring its own git.
    ///
    /// # Errors
    /// [`GitError::NotFound`].
    pub fn find(search_path: &OsStr) -> Result<Self, GitError> {
        std::env::split_paths(search_path)
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join("git"))
            .find(|program| is_executable_file(program))
            .map(|program| Git {
                program,
                patience: MAX_SILENCE,
            })
            .ok_or(GitError::NotFound)
    }

    /// The same git, ended after another time of silence than [`MAX_SILENCE`].
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Git { patience, ..self }
    }

    /// Asks for the version. One process; other calls ask it only to explain a failure.
    ///
    /// # Errors
    /// [`GitError::TooOld`], or git could not be run.
    pub fn check_version(&self) -> Result<(u32, u32), GitError> {
        let call = Call {
            arguments: vec!["--version".into()],
            ..Call::default()
        };
        let output = self.start(&call)?.wait()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let version = parse_version(&text).ok_or_else(|| GitError::TooOld {
            found: text.clone(),
        })?;
        if version < MINIMUM_VERSION {
            Err(GitError::TooOld { found: text })
        } else {
            Ok(version)
        }
    }

    /// Starts a call with empty stdin.
    ///
    /// # Errors
    /// The process could not be started.
    pub fn start(&self, call: &Call<'_>) -> Result<Running, GitError> {
        self.spawn(call, Stdio::null())
    }

    /// Starts a call, waits, and demands exit 0; gives its stdout.
    ///
    /// # Errors
    /// Git is missing, too old, failed, or wrote too much.
    pub fn run(&self, call: &Call<'_>) -> Result<Vec<u8>, GitError> {
        self.start(call)?.succeed()
    }

    /// Starts a reader of the objects of `git_dir`.
    ///
    /// # Errors
    /// The process could not be started.
    pub fn object_reader(&self, git_dir: &Path) -> Result<ObjectReader, GitError> {
        let arguments = vec!["cat-file".into(), "--batch".into()];
        let call = Call {
            git_dir: Some(git_dir),
            arguments,
            ..Call::default()
        };
        let mut running = self.spawn(&call, Stdio::piped())?;
        match (running.child.stdin.take(), running.stdout.take()) {
            (Some(requests), Some(stdout)) => Ok(ObjectReader {
                running,
                requests,
                answers: io::BufReader::with_capacity(1 << 16, stdout),
            }),
            _ => Err(running.process_error(io::Error::other("a pipe is missing"))),
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that starts git"
    )]
    fn command(&self, call: &Call<'_>) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", "/nonexistent")
            .env("LC_ALL", "C");
        command
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1");
        command
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_REPLACE_OBJECTS", "1");
        // A partial clone would otherwise reach for the network to fill in objects.
        command.env("GIT_NO_LAZY_FETCH", "1");
        if let Some(directory) = call.git_dir {
            command.env("GIT_DIR", directory).current_dir(directory);
        } else {
            command.current_dir("/");
        }
        if let Some(directory) = call.work_tree {
            command
                .env("GIT_WORK_TREE", directory)
                .current_dir(directory);
        }
        if let Some(file) = call.index_file {
            command.env("GIT_INDEX_FILE", file);
        }
        for setting in SETTINGS {
            command.arg("-c").arg(setting);
        }
        command.args(&call.arguments);
        command
    }

    fn spawn(&self, call: &Call<'_>, stdin: Stdio) -> Result<Running, GitError> {
        let name = describe(&call.arguments);
        let mut command = self.command(call);
        command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let failed = |source| GitError::Process {
            command: name.clone(),
            source,
        };
        let mut child = command.spawn().map_err(failed)?;
        let stderr = child
            .stderr
            .take()
            .ok_or_else(|| failed(io::Error::other("a pipe is missing")))?;
        let patience = self.patience;
        let stdout = child
            .stdout
            .take()
            .map(|pipe| PatientPipe { pipe, patience });
        // Drained beside stdout, else a git that complains at length would never end.
        let stderr = std::thread::spawn(move || tail(stderr));
        Ok(Running {
            child,
            stdout,
            stderr: Some(stderr),
            command: name,
            git: self.clone(),
        })
    }
}

impl Running {
    /// Reads all output and waits for the end, whatever the exit code.
    ///
    /// # Errors
    /// The output could not be read or was too much.
    pub fn wait(mut self) -> Result<Output, GitError> {
        let mut stdout = Vec::new();
        if let Some(pipe) = self.stdout.take() {
            let read = pipe.take(MAX_OUTPUT_BYTES + 1).read_to_end(&mut stdout);
            read.map_err(|source| self.process_error(source))?;
        }
        if stdout.len() as u64 > MAX_OUTPUT_BYTES {
            return Err(GitError::TooMuchOutput {
                command: self.command.clone(),
            });
        }
        let status = self
            .child
            .wait()
            .map_err(|source| self.process_error(source))?;
        let stderr = self
            .stderr
            .take()
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default();
        Ok(Output {
            success: status.success(),
            stdout,
            stderr: printable(&stderr),
        })
    }

    /// As [`Running::wait`], and an exit code other than 0 is an error.
    ///
    /// # Errors
    /// As [`Running::wait`]; [`GitError::Failed`], or [`GitError::TooOld`] when that explains it.
    pub fn succeed(self) -> Result<Vec<u8>, GitError> {
        let (git, command) = (self.git.clone(), self.command.clone());
        let output = self.wait()?;
        if output.success {
            return Ok(output.stdout);
        }
        git.check_version()?;
        Err(GitError::Failed {
            command,
            stderr: output.stderr,
        })
    }

    fn process_error(&self, source: io::Error) -> GitError {
        GitError::Process {
            command: self.command.clone(),
            source,
        }
    }
}

impl ObjectReader {
    /// Asks for the object `id` (hex) and hands its bytes to `sink` piece by piece. Gives its kind as git names it and its size,
    /// or `None` when there is no such object.
    ///
    /// # Errors
    /// Git ended or answered out of turn, or `sink` failed (its error is the source).
    pub fn read(
        &mut self,
        id: &str,
        mut sink: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<Option<(String, u64)>, GitError> {
        let header = self
            .ask(id)
            .map_err(|source| self.running.process_error(source))?;
        let mut words = header.split_ascii_whitespace().skip(1);
        let (kind, size) = match (
            words.next(),
            words.next().and_then(|size| size.parse::<u64>().ok()),
        ) {
            (Some("missing"), _) => return Ok(None),
            (Some(kind), Some(size)) => (kind.to_owned(), size),
            (Some(_) | None, _) => return Err(self.answer_error(&header)),
        };
        let mut left = size;
        let mut buffer = vec![0; 1 << 16];
        while left > 0 {
            let length = usize::try_from(left)
                .unwrap_or(buffer.len())
                .min(buffer.len());
            let piece = buffer.get_mut(..length).unwrap_or_default();
            let copied = self.answers.read_exact(piece).and_then(|()| sink(piece));
            copied.map_err(|source| self.running.process_error(source))?;
            left -= length as u64;
        }
        let mut newline = [0];
        self.answers
            .read_exact(&mut newline)
            .map_err(|source| self.running.process_error(source))?;
        if newline == [b'\n'] {
            Ok(Some((kind, size)))
        } else {
            Err(self.answer_error(&header))
        }
    }

    fn ask(&mut self, id: &str) -> io::Result<String> {
        use std::io::BufRead as _;
        writeln!(self.requests, "{id}")?;
        self.requests.flush()?;
        let mut header = Vec::new();
        (&mut self.answers)
            .take(1024)
            .read_until(b'\n', &mut header)?;
        Ok(String::from_utf8_lossy(&header).into_owned())
    }

    fn answer_error(&self, answer: &str) -> GitError {
        GitError::Answer {
            command: self.running.command.clone(),
            answer: printable(answer.as_bytes()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After `wait` both do nothing. Before it the process may be blocked on an answer nobody reads, and there is nothing to
        // be done about a failure here.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Read for PatientPipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let patience = Timespec::try_from(self.patience).map_err(io::Error::other)?;
        let mut waiting = [PollFd::new(&self.pipe, PollFlags::IN)];
        if rustix::event::poll(&mut waiting, Some(&patience))? == 0 {
            let silence = format!("it said nothing for {} seconds", self.patience.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, silence));
        }
        self.pipe.read(buffer)
    }
}

fn is_executable_file(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs_err::metadata(path)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix("git version ")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn describe(arguments: &[OsString]) -> String {
    let words = arguments
        .iter()
        .map(|argument| printable(argument.as_bytes()));
    std::iter::once("git".to_owned())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

/// One line without control characters, at most [`STDERR_TAIL_BYTES`] long.
fn printable(bytes: &[u8]) -> String {
    let start = bytes.len().saturating_sub(STDERR_TAIL_BYTES);
    let text = String::from_utf8_lossy(bytes.get(start..).unwrap_or_default());
    let lines: Vec<_> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines
        .join("; ")
        .chars()
        .map(|letter| {
            if letter.is_control() {
                '\u{fffd}'
            } else {
                letter
            }
        })
        .collect()
}

/// Reads to the end and keeps the last bytes.
fn tail(mut pipe: impl Read) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) | Err(_) => return kept,
            Ok(length) => {
                kept.extend_from_slice(buffer.get(..length).unwrap_or_default());
                let surplus = kept.len().saturating_sub(STDERR_TAIL_BYTES);
                kept.drain(..surplus);
            }
        }
    }
}
