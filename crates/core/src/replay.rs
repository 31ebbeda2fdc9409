//! Derives a whole log again: the chain, the fold, every decision in it. Must not know where the bytes come from.

use crate::{
    digest::Digest,
    event::{LineError, parse},
    state::{IllegalRecord, RunState},
};

/// How a log fails to agree with itself.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A line is not a record.
    #[error("line {line} is not a record: {source}")]
    Line {
        /// Counted from 1.
        line: u64,
        /// Why.
        source: LineError,
    },
    /// A record cannot follow those before it.
    #[error("line {line}: {source}")]
    Illegal {
        /// Counted from 1.
        line: u64,
        /// Why.
        source: IllegalRecord,
    },
}

/// Folds lines one by one.
#[derive(Clone, Debug, Default)]
pub struct Folder {
    state: Option<RunState>,
    lines: u64,
}

impl Folder {
    /// Takes the next line, without its newline.
    ///
    /// # Errors
    ///
    /// When the line is no record or cannot follow; the fold is then as it was.
    pub fn line(&mut self, bytes: &[u8]) -> Result<(), ReplayError> {
        self.hashed(bytes, Digest::of(bytes))
    }

    /// Takes the next line with its digest, for callers that compute digests elsewhere.
    ///
    /// # Errors
    ///
    /// As [`Folder::line`].
    pub fn hashed(&mut self, bytes: &[u8], digest: Digest) -> Result<(), ReplayError> {
        let line = self.lines.saturating_add(1);
        let record = parse(bytes).map_err(|source| ReplayError::Line { line, source })?;
        let illegal = |source| ReplayError::Illegal { line, source };
        match &mut self.state {
            None => self.state = Some(RunState::open(&record, digest).map_err(illegal)?),
            Some(state) => state.apply(&record, digest).map_err(illegal)?,
        }
        self.lines = line;
        Ok(())
    }

    /// The state after the lines so far; `None` before the first.
    #[must_use]
    pub fn state(&self) -> Option<&RunState> {
        self.state.as_ref()
    }

    /// The state after the lines so far, taken out.
    #[must_use]
    pub fn into_state(self) -> Option<RunState> {
        self.state
    }
}
