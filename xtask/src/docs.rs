//! The generated references: the command line, the tables in `SPEC.md`, the schemas.
//!
//! What can be computed from the program is never written by hand. This module must not know how a gate is run.

use crate::TaskResult;

/// Writes every generated reference.
///
/// # Errors
/// A message when a word is not understood.
pub(crate) fn run(words: &[String]) -> TaskResult {
    match words {
        [] => Ok(()),
        _ => Err(format!("unexpected words: {}", words.join(" "))),
    }
}
