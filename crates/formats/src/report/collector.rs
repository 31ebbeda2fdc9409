//! The output of `--failures-cmd` and `--integrity-cmd`: ids a line, or one JSON object with `ids`.
//!
//! The first byte that is not blank decides the form: `{` begins an object, anything else is lines. So a line form whose
//! first id begins with `{` is read as broken JSON and refused, never guessed at. Empty output is the valid empty set;
//! the exit code and the error stream are judged by the caller.

use super::{CollectedIds, Limits, ParseError, ids, lines};

/// A mark that some programs put before UTF-8; it is no part of an id.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a collector's whole standard output.
///
/// # Errors
/// See [`lines::parse`] and [`ids::parse`]; every error fails closed.
pub fn parse(input: &[u8], limits: &Limits) -> Result<CollectedIds, ParseError> {
    if input.len() > limits.input_bytes {
        return Err(ParseError::InputTooLong {
            found: input.len(),
            limit: limits.input_bytes,
        });
    }
    let body = input.strip_prefix(BYTE_ORDER_MARK).unwrap_or(input);
    if body.trim_ascii_start().first() == Some(&b'{') {
        ids::parse(body, limits)
    } else {
        lines::parse(body, limits)
    }
}
