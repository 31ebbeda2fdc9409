//! Ids a line: the plain form of the collectors, and the reporter `lines`.
//!
//! A line is trimmed (so CRLF is no part of an id) and skipped when blank. It knows no comments and no other syntax:
//! whatever stands in a line is the id.

use super::{CollectedIds, Collector, Limits, ParseError, admit};

/// Reads one id from each line that is not blank.
///
/// Bad UTF-8 is replaced by U+FFFD; an empty input is the empty set.
///
/// # Errors
/// Each limit of `limits`, a NUL byte, or two ids that differ only in the bytes that were replaced.
pub fn parse(input: &[u8], limits: &Limits) -> Result<CollectedIds, ParseError> {
    admit(input, limits)?;
    let text = String::from_utf8_lossy(input);
    let replaced = matches!(text, std::borrow::Cow::Owned(_));
    let mut collector = Collector::new(limits, replaced);
    for id in text.split('\n').map(str::trim).filter(|id| !id.is_empty()) {
        collector.add(id)?;
    }
    Ok(collector.finish())
}
