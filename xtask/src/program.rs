//! Runs other programs for a task: `git`, `cargo`, the built `loopexec`.
//!
//! The only place in this package that starts a process. It must not know what the output means.

use std::{ffi::OsString, path::Path, process::Output};

/// What to run, and where.
pub(crate) struct Program<'a> {
    /// Name or path.
    pub(crate) name: &'a Path,
    /// Its arguments.
    pub(crate) arguments: &'a [&'a str],
    /// Working directory.
    pub(crate) directory: &'a Path,
    /// `None` inherits the environment; otherwise exactly these variables.
    pub(crate) environment: Option<Vec<(&'static str, OsString)>>,
}

/// Runs it to its end with empty input and gives what it printed, whatever its exit code.
///
/// # Errors
/// When it could not be started.
#[expect(
    clippy::disallowed_methods,
    reason = "a development task is not a governed command; this is its one way to start a program"
)]
pub(crate) fn output(program: Program<'_>) -> Result<Output, String> {
    let mut command = std::process::Command::new(program.name);
    command
        .args(program.arguments)
        .current_dir(program.directory)
        .stdin(std::process::Stdio::null());
    if let Some(environment) = program.environment {
        command.env_clear().envs(environment);
    }
    command
        .output()
        .map_err(|error| format!("cannot start {}: {error}", program.name.display()))
}

/// Runs a program that has to succeed and gives its standard output.
///
/// # Errors
/// When it could not be started, failed, or printed what is not UTF-8.
pub(crate) fn text(directory: &Path, name: &str, arguments: &[&str]) -> Result<String, String> {
    let output = output(Program {
        name: Path::new(name),
        arguments,
        directory,
        environment: None,
    })?;
    if !output.status.success() {
        return Err(format!(
            "{name} {} ended with {}: {}",
            arguments.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    String::from_utf8(output.stdout)
        .map_err(|_| format!("{name} {} printed what is not UTF-8", arguments.join(" ")))
}
