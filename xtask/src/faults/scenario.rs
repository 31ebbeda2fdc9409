//! The runs that faults are made in: their command lines, a workspace each, what may come of them.
//!
//! Work is counted in a file outside of the store, one line a start, so that what the program did is known without its word.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::support::{self, Outcome};

/// The run's name in every scenario.
pub(super) const RUN: &str = "a";
/// Longest time for one run of a scenario, which takes a tenth of a second.
const DEADLINE: Duration = Duration::from_secs(60);

/// A run that faults are made in.
#[derive(Debug)]
pub(super) struct Scenario {
    /// For the table.
    pub(super) name: &'static str,
    /// Whether a cancelled run comes first, and the fault is made while it is gone on with.
    pub(super) resumes: bool,
    exec: &'static str,
    check: &'static str,
    /// `--max-iterations`, which no fault lets a run exceed.
    pub(super) cap: usize,
    /// How the undisturbed run ends.
    pub(super) exit: i32,
}

/// The four scenarios of F1 and F2.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "converges",
        resumes: false,
        exec: "echo x >> work",
        check: "test $(wc -l < work) -ge 2",
        cap: 4,
        exit: 10,
    },
    Scenario {
        name: "reaches its cap",
        resumes: false,
        exec: "echo x >> work",
        check: "false",
        cap: 2,
        exit: 12,
    },
    Scenario {
        name: "is cancelled, goes on",
        resumes: true,
        // The second start is the one that nobody interrupts.
        exec: "echo x >> work; if mkdir once 2>/dev/null; then kill -INT $(tr -dc '0-9,' < .loopexec/lock | cut -d, -f1); exec sleep 30; fi",
        check: "test $(wc -l < work) -ge 3",
        cap: 4,
        exit: 10,
    },
    Scenario {
        name: "loses its store to the work command",
        resumes: false,
        exec: "echo x >> work; rm -rf .loopexec",
        check: "test $(wc -l < work) -ge 2",
        cap: 4,
        exit: 10,
    },
];

/// A workspace of one scenario, with its own home.
#[derive(Debug)]
pub(super) struct Place {
    binary: PathBuf,
    root: PathBuf,
}

impl Place {
    /// A place below `root`.
    pub(super) fn new(binary: &Path, root: &Path) -> Self {
        Self {
            binary: binary.to_owned(),
            root: root.to_owned(),
        }
    }

    /// The workspace.
    pub(super) fn workdir(&self) -> PathBuf {
        self.root.join("workspace")
    }

    /// Where the program keeps its second copy.
    pub(super) fn state_home(&self) -> PathBuf {
        self.root.join("state")
    }

    /// Empties it.
    pub(super) fn clear(&self) -> Result<(), String> {
        for directory in [self.workdir(), self.state_home()] {
            match fs_err::remove_dir_all(&directory) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        for directory in [self.workdir(), self.root.join("home")] {
            fs_err::create_dir_all(directory).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The program with these words, behind `wrapper`.
    pub(super) fn program(&self, wrapper: &[String], words: &[&str]) -> Command {
        let mut argv = wrapper.iter();
        let mut command = match argv.next() {
            None => support::command(&self.binary),
            Some(first) => {
                let mut command = support::command(first);
                command.args(argv).arg(&self.binary);
                command
            }
        };
        command
            .args(words)
            .current_dir(self.workdir())
            .env_clear()
            .env("PATH", support::variable("PATH").unwrap_or_default())
            .env("HOME", self.root.join("home"))
            .env("XDG_STATE_HOME", self.state_home());
        command
    }

    /// Runs the program with these words.
    pub(super) fn say(&self, words: &[&str]) -> Result<Outcome, String> {
        support::run(&mut self.program(&[], words), DEADLINE)
    }

    /// Brings the workspace to where the fault is made.
    pub(super) fn prepare(&self, scenario: &Scenario) -> Result<(), String> {
        self.clear()?;
        if scenario.resumes {
            let outcome = self.start(scenario, &[])?;
            if outcome.code != Some(40) {
                return Err(format!(
                    "the run was not cancelled: {:?} {}",
                    outcome.code,
                    outcome.text()
                ));
            }
        }
        Ok(())
    }

    /// Runs the part of a scenario that the fault is made in.
    pub(super) fn disturbed(
        &self,
        scenario: &Scenario,
        wrapper: &[String],
    ) -> Result<Outcome, String> {
        if scenario.resumes {
            self.resume(wrapper)
        } else {
            self.start(scenario, wrapper)
        }
    }

    /// Begins the run.
    pub(super) fn start(&self, scenario: &Scenario, wrapper: &[String]) -> Result<Outcome, String> {
        let cap = scenario.cap.to_string();
        let words = [
            "run",
            "--json",
            "--quiet",
            "--run-id",
            RUN,
            "--exec",
            scenario.exec,
            "--check",
            scenario.check,
            "--max-iterations",
            &cap,
        ];
        support::run(&mut self.program(wrapper, &words), DEADLINE)
    }

    /// Goes on with the run.
    pub(super) fn resume(&self, wrapper: &[String]) -> Result<Outcome, String> {
        let words = ["run", "--json", "--quiet", "--resume", "--run-id", RUN];
        support::run(&mut self.program(wrapper, &words), DEADLINE)
    }

    /// How often work was started.
    pub(super) fn work_started(&self) -> usize {
        fs_err::read(self.workdir().join("work"))
            .unwrap_or_default()
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
    }
}
