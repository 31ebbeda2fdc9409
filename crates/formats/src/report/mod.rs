//! What a check or a collector said about single tests or members.
//!
//! The parsers read one captured stream each. They must not know how the stream was produced, nor what is decided on
//! it; freshness and exit codes are the caller's business.

pub mod collector;
pub mod ids;
pub mod lines;

use std::collections::BTreeSet;

/// How much a parser reads before it refuses. Sizes are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest input.
    pub input_bytes: usize,
    /// Largest number of ids that are read, repeated ones counted.
    pub ids: usize,
    /// Longest single id, after trimming and after bad UTF-8 was replaced.
    pub id_bytes: usize,
}

impl Limits {
    /// For `--failures-cmd` and `--integrity-cmd`. A collector prints names only, so 1 MiB is already some ten
    /// thousand tests; a million ids is what every reporter is held to; a name of 4 KiB is a path at its longest.
    pub const COLLECTOR: Self = Self {
        input_bytes: 1 << 20,
        ids: 1_000_000,
        id_bytes: 4096,
    };
}

/// Why a report was refused. A refused report yields no ids at all: half a set is worse than none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The input is longer than [`Limits::input_bytes`].
    #[error("output is {found} bytes, more than the {limit} that are read; print only the ids")]
    InputTooLong {
        /// Bytes received.
        found: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// More ids than [`Limits::ids`].
    #[error("output has more than {limit} ids")]
    TooManyIds {
        /// Ids allowed.
        limit: usize,
    },
    /// An id is longer than [`Limits::id_bytes`].
    #[error("id {position} is {found} bytes long, more than the {limit} allowed")]
    IdTooLong {
        /// Which id, from 1, in the order of the input.
        position: usize,
        /// Its length in bytes.
        found: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// An id of the JSON form is empty or blank.
    #[error("id {position} of the JSON array is blank")]
    BlankId {
        /// Which id, from 1.
        position: usize,
    },
    /// A NUL byte: the output is binary, or separated by NUL where newlines were expected.
    #[error("NUL byte at offset {offset}; print one id a line, or a JSON object with `ids`")]
    NulByte {
        /// Offset in the input; for a NUL escaped in JSON, the number of the id.
        offset: usize,
    },
    /// Two ids became equal because their bad UTF-8 was replaced; a set would silently lose one.
    #[error("two ids are equal once their invalid UTF-8 is replaced: {id:?}; print valid UTF-8")]
    AmbiguousId {
        /// The id after replacement.
        id: String,
    },
    /// The input begins with `{` but is no JSON object of the expected form.
    #[error("output begins with `{{` but is not a JSON object with `ids`: {reason}")]
    MalformedJson {
        /// What the JSON reader said.
        reason: String,
    },
}

/// A set of test ids or members, as a collector printed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectedIds {
    ids: Vec<String>,
}

impl CollectedIds {
    /// The ids: sorted by bytes, each once, trimmed, none blank.
    #[must_use]
    pub fn ids(&self) -> &[String] {
        &self.ids
    }

    /// The ids, without a copy.
    #[must_use]
    pub fn into_ids(self) -> Vec<String> {
        self.ids
    }
}

/// Checks each id and makes the set.
struct Collector<'limits> {
    limits: &'limits Limits,
    set: BTreeSet<String>,
    read: usize,
    /// Whether the input had bad UTF-8, so that a repeated id may be two different ones.
    replaced: bool,
}

impl<'limits> Collector<'limits> {
    fn new(limits: &'limits Limits, replaced: bool) -> Self {
        Self {
            limits,
            set: BTreeSet::new(),
            read: 0,
            replaced,
        }
    }

    fn add(&mut self, id: &str) -> Result<(), ParseError> {
        if self.read >= self.limits.ids {
            return Err(ParseError::TooManyIds {
                limit: self.limits.ids,
            });
        }
        self.read += 1;
        if id.len() > self.limits.id_bytes {
            return Err(ParseError::IdTooLong {
                position: self.read,
                found: id.len(),
                limit: self.limits.id_bytes,
            });
        }
        if !self.set.insert(id.to_owned())
            && self.replaced
            && id.contains(char::REPLACEMENT_CHARACTER)
        {
            return Err(ParseError::AmbiguousId { id: id.to_owned() });
        }
        Ok(())
    }

    fn finish(self) -> CollectedIds {
        CollectedIds {
            ids: self.set.into_iter().collect(),
        }
    }
}

/// The checks that both forms share: size and NUL bytes.
fn admit(input: &[u8], limits: &Limits) -> Result<(), ParseError> {
    if input.len() > limits.input_bytes {
        return Err(ParseError::InputTooLong {
            found: input.len(),
            limit: limits.input_bytes,
        });
    }
    match memchr::memchr(0, input) {
        Some(offset) => Err(ParseError::NulByte { offset }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
