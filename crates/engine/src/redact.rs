//! Secrets are replaced before anything is hashed or stored.
//!
//! Two kinds are known: the values of environment variables whose *name* looks secret, and texts that have the shape of
//! a well-known key. Both become `[redacted:NAME]`. This is a net against leaks, not a proof that there is none: a
//! secret in another encoding passes, and of two secret values that overlap in the text only the first is replaced.
//!
//! This module reads no environment and writes no file: the caller hands in the pairs it started with.

mod environment;
mod shapes;

use std::borrow::Cow;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};

pub use environment::{MODEL_KEYS, PreparedEnvironment, for_check, for_work, name_looks_secret};
use shapes::{Shape, Swallow};

/// Shortest value that is replaced. Below it a value is as likely a word (`AUTH=1`, `TOKEN=none`), and replacing it
/// would eat ordinary text.
pub const MIN_VALUE_BYTES: usize = 8;

/// Longest value that is looked for: the kernel passes no longer string to a program.
pub const MAX_VALUE_BYTES: usize = 128 << 10;

/// More secret variables than any environment holds; the rest would make the search table too large.
pub const MAX_VALUES: usize = 1024;

/// What is searched for of a value; the rest is compared where this much is found. It keeps the search table at most some
/// megabytes: searching for whole values of [`MAX_VALUE_BYTES`] took minutes.
const NEEDLE_BYTES: usize = 16;

/// Why a redactor cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum RedactError {
    /// The environment has more secret-looking values than [`MAX_VALUES`].
    #[error(
        "the environment has {found} secret-looking values, more than the {MAX_VALUES} that can be replaced; start with fewer variables"
    )]
    TooManyValues {
        /// How many were found.
        found: usize,
    },
    /// The search table could not be built.
    #[error("the search table for {values} secret values cannot be built")]
    Table {
        /// How many values it was to hold.
        values: usize,
        /// What the search library says.
        source: aho_corasick::BuildError,
    },
}

/// Finds and replaces secrets. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Redactor {
    inner: Arc<Inner>,
}

struct Inner {
    automaton: AhoCorasick,
    /// `(name, value)`, longest value first.
    values: Vec<(String, Vec<u8>)>,
    /// How far a search must see past a start to decide it.
    lookahead: usize,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Values are secret; a debug print must not become the leak.
        formatter
            .debug_list()
            .entries(self.values.iter().map(|(name, _)| name))
            .finish()
    }
}

/// What was found at a place: `[start, end)` is replaced by the name, then `then` goes on.
struct Hit<'a> {
    start: usize,
    end: usize,
    name: &'a str,
    then: Option<Swallow>,
}

impl Redactor {
    /// Chooses the pairs whose name looks secret and whose value is long enough.
    ///
    /// # Errors
    /// Too many values, or a table that cannot be built.
    pub fn new<N, V>(pairs: impl IntoIterator<Item = (N, V)>) -> Result<Self, RedactError>
    where
        N: AsRef<std::ffi::OsStr>,
        V: AsRef<std::ffi::OsStr>,
    {
        let mut values: Vec<(String, Vec<u8>)> = Vec::new();
        for (name, value) in pairs {
            let bytes = value.as_ref().as_encoded_bytes();
            if environment::is_secret(name.as_ref(), bytes) && bytes.len() >= MIN_VALUE_BYTES {
                let bytes = bytes.get(..MAX_VALUE_BYTES).unwrap_or(bytes);
                values.push((name.as_ref().to_string_lossy().into_owned(), bytes.to_vec()));
            }
        }
        // One value under two names gets the name that sorts first, whatever order the environment has.
        values.sort_by(|left, right| (&left.1, &left.0).cmp(&(&right.1, &right.0)));
        values.dedup_by(|next, kept| next.1 == kept.1);
        values.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        if values.len() > MAX_VALUES {
            return Err(RedactError::TooManyValues {
                found: values.len(),
            });
        }
        let needles = values
            .iter()
            .map(|(_, value)| value.get(..NEEDLE_BYTES).unwrap_or(value));
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .kind(Some(AhoCorasickKind::DFA))
            .build(needles.chain(shapes::prefixes()))
            .map_err(|source| RedactError::Table {
                values: values.len(),
                source,
            })?;
        let longest = values
            .iter()
            .map(|(_, value)| value.len())
            .max()
            .unwrap_or(0);
        let lookahead = longest.max(shapes::CONFIRM_BYTES);
        Ok(Self {
            inner: Arc::new(Inner {
                automaton,
                values,
                lookahead,
            }),
        })
    }

    /// Replaces every secret in a whole text. Borrows when there is none.
    #[must_use]
    pub fn redact<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        if self.next_hit(text, 0, text.len(), [0; 2]).is_none() {
            return Cow::Borrowed(text);
        }
        let mut redacted = Vec::with_capacity(text.len());
        let mut stream = self.stream();
        stream.push(text, &mut redacted);
        stream.finish(&mut redacted);
        Cow::Owned(redacted)
    }

    /// A stream that gives the same bytes as [`Redactor::redact`] on the whole, whatever the chunks.
    #[must_use]
    pub fn stream(&self) -> RedactionStream {
        RedactionStream {
            redactor: self.clone(),
            held: Vec::new(),
            before: [0; 2],
            swallow: None,
        }
    }

    /// The first hit that starts in `[from, limit)`. `before` are the two bytes before the text.
    fn next_hit(&self, text: &[u8], from: usize, limit: usize, before: [u8; 2]) -> Option<Hit<'_>> {
        let mut from = from;
        while from < limit {
            let found = self.inner.automaton.find(Input::new(text).range(from..))?;
            let start = found.start();
            if start >= limit {
                return None;
            }
            if let Some(hit) = self.hit_at(text, start, before) {
                return Some(hit);
            }
            from = start + 1;
        }
        None
    }

    /// Decides a candidate: the longest value that stands at `start`, and a key of a known shape.
    fn hit_at(&self, text: &[u8], start: usize, before: [u8; 2]) -> Option<Hit<'_>> {
        let rest = text.get(start..)?;
        let shape = Shape::confirm(rest, preceding(text, start, before));
        let value = self
            .inner
            .values
            .iter()
            .find(|(_, value)| rest.starts_with(value));
        let (name, length) = match (value, &shape) {
            (Some((name, value)), None) => (name.as_str(), value.len()),
            (Some((name, value)), Some(shape)) => (name.as_str(), value.len().max(shape.confirmed)),
            (None, Some(shape)) => (shape.name, shape.confirmed),
            (None, None) => return None,
        };
        Some(Hit {
            start,
            end: start + length,
            name,
            then: shape.and_then(|shape| shape.swallow),
        })
    }
}

/// The two bytes before `start`, the nearer one last.
fn preceding(text: &[u8], start: usize, before: [u8; 2]) -> [u8; 2] {
    let byte = |back: usize| match start.checked_sub(back) {
        Some(index) => text.get(index).copied().unwrap_or(0),
        None => before.get(2 + start - back).copied().unwrap_or(0),
    };
    [byte(2), byte(1)]
}

/// A redaction in chunks. Holds back only as much as one undecided candidate can need: [`Redactor`]'s longest value, at
/// least 2 KiB.
#[derive(Debug)]
pub struct RedactionStream {
    redactor: Redactor,
    /// Bytes whose fate later bytes may change.
    held: Vec<u8>,
    /// The two bytes before `held`, as they came in.
    before: [u8; 2],
    /// The rest of a key whose beginning is replaced already.
    swallow: Option<Swallow>,
}

impl RedactionStream {
    /// Takes a chunk and appends to `out` what is decided.
    pub fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(chunk);
        let limit = self
            .held
            .len()
            .saturating_sub(self.redactor.inner.lookahead);
        self.drain(limit, out);
    }

    /// Appends the rest. The stream is then as new.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.drain(self.held.len(), out);
        self.before = [0; 2];
        self.swallow = None;
    }

    /// Decides every start before `limit`.
    fn drain(&mut self, limit: usize, out: &mut Vec<u8>) {
        let mut position = 0;
        loop {
            if let Some(swallow) = &mut self.swallow {
                let rest = self.held.get(position..).unwrap_or_default();
                let (taken, ended) = swallow.take(rest);
                position += taken;
                if !ended {
                    break;
                }
                self.swallow = None;
            }
            if position >= limit {
                break;
            }
            match self
                .redactor
                .next_hit(&self.held, position, limit, self.before)
            {
                None => {
                    out.extend_from_slice(self.held.get(position..limit).unwrap_or_default());
                    position = limit;
                }
                Some(hit) => {
                    out.extend_from_slice(self.held.get(position..hit.start).unwrap_or_default());
                    out.extend_from_slice(b"[redacted:");
                    out.extend_from_slice(hit.name.as_bytes());
                    out.push(b']');
                    position = hit.end;
                    self.swallow = hit.then;
                }
            }
        }
        self.before = preceding(&self.held, position, self.before);
        self.held.drain(..position);
    }
}

#[cfg(test)]
mod tests;
