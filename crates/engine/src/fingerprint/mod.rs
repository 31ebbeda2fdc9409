//! Digests over the whole output of a check, in bounded memory.
//!
//! Real output carries timings, temporary paths, addresses and colours, so a byte digest alone would make an honest
//! receipt unverifiable. Three digests are therefore made of the redacted streams: one over the text with trailing blanks
//! removed, one after the versioned normaliser of [`stable`], one over the normalised lines in whatever order. All take
//! standard output first and standard error after it, never in the order in which two readers saw them.
//!
//! This module must not know which check ran or what its verdict is.

mod moment;
mod scan;
mod stable;
mod trim;
mod unordered;

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::redact::{RedactionStream, Redactor};
use stable::{Pieces, Rules};
use trim::Trim;
use unordered::Lines;

pub use stable::PIECE_BYTES;

/// The newest normaliser. A receipt names the version it was made with, and a replay uses that one.
pub const NORMALISER_VERSION: u32 = 1;

/// Normalised standard error that is kept in memory, because it is hashed after standard output although both arrive at
/// once. Ordinary output is far below; see [`Joining`] for what lies above.
pub const KEPT_STDERR_BYTES: usize = 4 << 20;

/// The most that [`stable_text`] reads: a diff of more than the captured output helps nobody.
pub const STABLE_TEXT_BYTES: usize = 1 << 20;

/// Why a fingerprint cannot be taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FingerprintError {
    /// A receipt of a newer program, or a damaged one.
    #[error(
        "normaliser version {found} is unknown; this program has versions 1 to {NORMALISER_VERSION}, use a newer one"
    )]
    UnknownNormaliser {
        /// The version asked for.
        found: u32,
    },
}

/// What the stable normaliser has to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The normaliser's version.
    pub normaliser: u32,
    /// Directories that become `<workspace>`: the one the check runs in, also under its other names.
    pub workspaces: Vec<Vec<u8>>,
    /// Directories whose contents become `<tmp>`, beside the usual ones (`$TMPDIR` of the check).
    pub temporary: Vec<Vec<u8>>,
}

/// One of the two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// How the two streams were joined into one digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joining {
    /// sha256 of normalised stdout, NUL, normalised stderr.
    Concatenated,
    /// Normalised stderr is longer than [`KEPT_STDERR_BYTES`]: sha256 of the hex sha256 of normalised stdout, NUL, the
    /// hex sha256 of normalised stderr. Which form is used depends on the output alone, so a replay uses the same.
    Digests,
}

/// What a check's output comes to. All digests are lower-case hex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digests {
    /// The exit code that was given.
    pub exit_code: i32,
    /// Over both streams, trailing blanks of lines and trailing newlines removed.
    pub output_sha256: String,
    /// How `output_sha256` was joined.
    pub output_joining: Joining,
    /// Over both streams after the stable normaliser.
    pub stable_output_sha256: String,
    /// How `stable_output_sha256` was joined.
    pub stable_joining: Joining,
    /// Over the lines of both streams after the stable normaliser, in whatever order each stream has them.
    pub unordered_output_sha256: String,
    /// Over redacted standard output, otherwise as it came.
    pub stdout_sha256: String,
    /// Over redacted standard error, otherwise as it came.
    pub stderr_sha256: String,
    /// The normaliser's version.
    pub normaliser: u32,
}

/// Takes both streams in chunks of any size, in any order between the streams.
#[derive(Debug)]
pub struct Fingerprint {
    version: u32,
    stdout: Lane,
    stderr: Lane,
}

impl Fingerprint {
    /// Begins a fingerprint.
    ///
    /// # Errors
    /// A normaliser version that this program does not have.
    pub fn new(redactor: &Redactor, settings: &Settings) -> Result<Self, FingerprintError> {
        let rules = Arc::new(Rules::new(settings)?);
        Ok(Self {
            version: settings.normaliser,
            stdout: Lane::new(redactor, &rules, 0),
            stderr: Lane::new(redactor, &rules, KEPT_STDERR_BYTES),
        })
    }

    /// Takes the next bytes of one stream.
    pub fn push(&mut self, stream: Stream, chunk: &[u8]) {
        match stream {
            Stream::Stdout => self.stdout.push(chunk),
            Stream::Stderr => self.stderr.push(chunk),
        }
    }

    /// Ends both streams.
    #[must_use]
    pub fn finish(self, exit_code: i32) -> Digests {
        let stdout = self.stdout.finish();
        let stderr = self.stderr.finish();
        let (output_sha256, output_joining) = join(stdout.plain, stderr.plain);
        let unordered_output_sha256 =
            hex(join_digests(&stdout.lines.finish(), &stderr.lines.finish()));
        let (stable_output_sha256, stable_joining) = join(stdout.stable, stderr.stable);
        Digests {
            exit_code,
            output_sha256,
            output_joining,
            stable_output_sha256,
            stable_joining,
            unordered_output_sha256,
            stdout_sha256: hex(stdout.raw),
            stderr_sha256: hex(stderr.raw),
            normaliser: self.version,
        }
    }
}

fn hex(sha256: Sha256) -> String {
    format!("{:x}", sha256.finalize())
}

fn join(stdout: Sink, stderr: Sink) -> (String, Joining) {
    match stderr.kept {
        Some(kept) => {
            let mut joined = stdout.sha256;
            joined.update(b"\0");
            joined.update(&kept);
            (hex(joined), Joining::Concatenated)
        }
        None => (
            hex(join_digests(&hex(stdout.sha256), &hex(stderr.sha256))),
            Joining::Digests,
        ),
    }
}

/// Over two hex digests with a NUL between.
fn join_digests(stdout: &str, stderr: &str) -> Sha256 {
    Sha256::new()
        .chain_update(stdout)
        .chain_update(b"\0")
        .chain_update(stderr)
}

/// A digest, and the text itself as long as it is short enough.
#[derive(Debug)]
struct Sink {
    sha256: Sha256,
    kept: Option<Vec<u8>>,
    keep: usize,
}

impl Sink {
    fn new(keep: usize) -> Self {
        Self {
            sha256: Sha256::new(),
            kept: Some(Vec::new()),
            keep,
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.sha256.update(bytes);
        if let Some(kept) = &mut self.kept {
            if kept.len() + bytes.len() <= self.keep {
                kept.extend_from_slice(bytes);
            } else {
                self.kept = None;
            }
        }
    }
}

/// One stream on its way: redacted, then hashed as it is, trimmed, and normalised.
#[derive(Debug)]
struct Lane {
    redaction: RedactionStream,
    redacted: Vec<u8>,
    digesters: Digesters,
}

#[derive(Debug)]
struct Digesters {
    raw: Sha256,
    plain: Sink,
    plain_trim: Trim,
    stable: Sink,
    stable_trim: Trim,
    lines: Lines,
    pieces: Pieces,
}

impl Lane {
    fn new(redactor: &Redactor, rules: &Arc<Rules>, keep: usize) -> Self {
        Self {
            redaction: redactor.stream(),
            redacted: Vec::new(),
            digesters: Digesters {
                raw: Sha256::new(),
                plain: Sink::new(keep),
                plain_trim: Trim::default(),
                stable: Sink::new(keep),
                stable_trim: Trim::default(),
                lines: Lines::default(),
                pieces: Pieces::new(rules),
            },
        }
    }

    fn push(&mut self, chunk: &[u8]) {
        // A large chunk is taken in parts, so that memory does not follow the caller's chunk.
        for part in chunk.chunks(PIECE_BYTES) {
            self.redacted.clear();
            self.redaction.push(part, &mut self.redacted);
            self.digesters.take(&self.redacted);
        }
    }

    fn finish(mut self) -> Digesters {
        self.redacted.clear();
        self.redaction.finish(&mut self.redacted);
        self.digesters.take(&self.redacted);
        self.digesters.end();
        self.digesters
    }
}

impl Digesters {
    fn take(&mut self, bytes: &[u8]) {
        let Self {
            raw,
            plain,
            plain_trim,
            stable,
            stable_trim,
            lines,
            pieces,
        } = self;
        raw.update(bytes);
        plain_trim.push(bytes, &mut |text| plain.take(text));
        pieces.push(bytes, &mut |piece| {
            stable_trim.push(piece, &mut |text| take_stable(stable, lines, text))
        });
    }

    fn end(&mut self) {
        let Self {
            stable,
            stable_trim,
            lines,
            pieces,
            ..
        } = self;
        pieces.finish(&mut |piece| {
            stable_trim.push(piece, &mut |text| take_stable(stable, lines, text))
        });
    }
}

fn take_stable(stable: &mut Sink, lines: &mut Lines, text: &[u8]) {
    stable.take(text);
    lines.take(text);
}

/// The digest of contract 2.0: both streams in the order in which they were written, trailing blanks and newlines removed.
#[derive(Debug)]
pub struct Combined {
    redaction: RedactionStream,
    redacted: Vec<u8>,
    trim: Trim,
    sha256: Sha256,
}

impl Combined {
    /// Begins a digest.
    #[must_use]
    pub fn new(redactor: &Redactor) -> Self {
        Self {
            redaction: redactor.stream(),
            redacted: Vec::new(),
            trim: Trim::default(),
            sha256: Sha256::new(),
        }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, chunk: &[u8]) {
        for part in chunk.chunks(PIECE_BYTES) {
            self.redacted.clear();
            self.redaction.push(part, &mut self.redacted);
            self.trim
                .push(&self.redacted, &mut |text| self.sha256.update(text));
        }
    }

    /// The digest, lower-case hex.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.redacted.clear();
        self.redaction.finish(&mut self.redacted);
        self.trim
            .push(&self.redacted, &mut |text| self.sha256.update(text));
        hex(self.sha256)
    }
}

/// The text that the stable digest is taken of, for a diff. Reads at most [`STABLE_TEXT_BYTES`].
///
/// # Errors
/// A normaliser version that this program does not have.
pub fn stable_text(text: &[u8], settings: &Settings) -> Result<Vec<u8>, FingerprintError> {
    let rules = Arc::new(Rules::new(settings)?);
    let text = text.get(..STABLE_TEXT_BYTES).unwrap_or(text);
    let mut out = Vec::with_capacity(text.len());
    let mut trim = Trim::default();
    let mut pieces = Pieces::new(&rules);
    pieces.push(text, &mut |piece| {
        trim.push(piece, &mut |trimmed| out.extend_from_slice(trimmed))
    });
    pieces.finish(&mut |piece| trim.push(piece, &mut |trimmed| out.extend_from_slice(trimmed)));
    Ok(out)
}

#[cfg(test)]
mod tests;
