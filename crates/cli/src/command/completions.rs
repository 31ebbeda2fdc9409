//! `completions`: what a shell needs to complete command lines.

use clap::CommandFactory as _;

use super::Answer;
use crate::{
    args::{Arguments, Completions},
    envelope::Envelope,
    error::CliError,
};

/// Prints the completions of a shell.
pub(super) fn completions(arguments: &Completions) -> Result<Answer, CliError> {
    let mut command = Arguments::command();
    let mut bytes = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "loopexec", &mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let mut envelope = Envelope::new("ok");
    envelope.block.completions = Some(text.clone());
    Ok(Answer::new(envelope, text))
}
