//! The one error of the program: a failure of the engine, or a command line that cannot be parsed.

use loopexec_core::halt::{ExitClass, HaltReason};
use loopexec_engine::failure::Failure;

/// Why a command did not do its work.
#[derive(Debug)]
pub(crate) enum CliError {
    /// The command line cannot be parsed; holds what clap would print.
    Usage(String),
    /// The engine, or a precondition.
    Failed(Box<Failure>),
}

impl CliError {
    /// The exit class.
    pub(crate) fn class(&self) -> ExitClass {
        match self {
            Self::Usage(_) => ExitClass::Usage,
            Self::Failed(failure) => failure.reason.class(),
        }
    }

    /// The halt reason that the envelope names.
    pub(crate) fn reason(&self) -> Option<HaltReason> {
        match self {
            Self::Usage(_) => None,
            Self::Failed(failure) => Some(failure.reason),
        }
    }

    /// The additive cause.
    pub(crate) fn cause(&self) -> Option<&'static str> {
        match self {
            Self::Usage(_) => Some("usage"),
            Self::Failed(failure) => failure.cause,
        }
    }

    /// What the envelope's `errors` hold: the message, then what to do.
    pub(crate) fn lines(&self) -> Vec<String> {
        match self {
            Self::Usage(text) => {
                let first = text
                    .lines()
                    .map(str::trim)
                    .find(|line| !line.is_empty())
                    .unwrap_or("usage error");
                vec![first.trim_start_matches("error: ").to_owned()]
            }
            Self::Failed(failure) => {
                let mut lines = vec![failure.message.clone()];
                lines.extend(failure.hint.clone());
                lines
            }
        }
    }
}

impl From<Failure> for CliError {
    fn from(failure: Failure) -> Self {
        Self::Failed(Box::new(failure))
    }
}
