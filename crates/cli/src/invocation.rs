//! What the program was started with: the only reader of the environment and of HOME.

use std::{
    ffi::OsString,
    io::IsTerminal as _,
    path::{Path, PathBuf},
};

use loopexec_engine::{failure::Failure, layout::Layout};
use loopexec_os::signals::Signals;

/// The process's surroundings, read once.
#[derive(Debug)]
pub(crate) struct Invocation {
    /// The environment as it was at the start.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Signal handlers.
    pub(crate) signals: Signals,
}

impl Invocation {
    /// A variable of the start environment, unless it is empty.
    pub(crate) fn variable(&self, name: &str) -> Option<&OsString> {
        self.environment
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value)
            .filter(|value| !value.is_empty())
    }

    /// The person's home.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.variable("HOME")
            .map(PathBuf::from)
            .filter(|home| home.is_absolute())
    }

    /// `$XDG_STATE_HOME`, or `~/.local/state`.
    pub(crate) fn state_home(&self) -> Option<PathBuf> {
        self.base("XDG_STATE_HOME", ".local/state")
    }

    /// `$XDG_CONFIG_HOME`, or `~/.config`.
    pub(crate) fn config_home(&self) -> Option<PathBuf> {
        self.base("XDG_CONFIG_HOME", ".config")
    }

    fn base(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        self.variable(variable)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .or_else(|| Some(self.home()?.join(below_home)))
    }

    /// The person's own ignore file of git, where git looks without being told.
    pub(crate) fn excludes_file(&self) -> Option<PathBuf> {
        self.config_home()
            .map(|config| config.join("git/ignore"))
            .filter(|file| file.is_file())
    }

    /// Where temporary directories are made: `$TMPDIR`, or `/tmp`.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.variable("TMPDIR")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .unwrap_or_else(|| PathBuf::from("/tmp"))
    }

    /// The run that a work command of this program was started for, if any.
    pub(crate) fn inside_run(&self) -> Option<String> {
        self.variable("LOOPEXEC_RUN_ID")
            .map(|id| id.to_string_lossy().into_owned())
    }

    /// The workspace named on the command line, or the current directory: canonical, and a directory.
    pub(crate) fn workdir(&self, given: Option<&Path>) -> Result<PathBuf, Failure> {
        let path = given.unwrap_or_else(|| Path::new("."));
        let refused = |why: &dyn std::fmt::Display| {
            Failure::workspace(format!(
                "cannot use the workspace {}: {why}",
                path.display()
            ))
            .because("workdir_missing")
            .hint("name an existing directory with --workdir")
        };
        let canonical = fs_err::canonicalize(path).map_err(|error| refused(&error))?;
        if canonical.is_dir() {
            Ok(canonical)
        } else {
            Err(refused(&"it is not a directory"))
        }
    }

    /// The layout of the workspace named on the command line.
    pub(crate) fn layout(&self, given: Option<&Path>) -> Result<Layout, Failure> {
        let state_home = self.state_home();
        self.workdir(given)
            .map(|workdir| Layout::new(&workdir, state_home.as_deref()))
    }

    /// Whether a person may be looking at standard error.
    pub(crate) fn terminal(&self) -> bool {
        std::io::stderr().is_terminal() && self.variable("TERM").is_none_or(|term| term != "dumb")
    }
}
