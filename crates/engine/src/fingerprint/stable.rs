//! The stable normaliser, version 1: replaces what differs between two honest runs of one check.
//!
//! Each line is normalised on its own; a line longer than [`PIECE_BYTES`] in pieces of that length counted from its
//! start, so that the result does not depend on chunks. In a piece, terminal sequences are removed first (CSI, OSC, and
//! two-byte escapes), then these are replaced, left to right:
//!
//! | text | becomes |
//! |---|---|
//! | a workspace directory | `<workspace>` |
//! | a path below `/tmp`, `/var/tmp`, `/var/folders`, `/dev/shm` (also under `/private`) or a given directory | `<tmp>` |
//! | `2026-01-31`, `2026/01/31` | `<date>` |
//! | a date with a time and zone, `20260131T120000Z`, `12:34:56.789` | `<time>` |
//! | a number after `timestamp` or `ts` | `<time>` |
//! | `0.12s`, `12ms`, `3.4 seconds`, `1m02s`, a number after `time`, `elapsed`, `duration`, `took` … | `<duration>` |
//! | `0x` and at least six hex digits | `<address>` |
//! | a number after `pid`, `ppid`, `tid`; `==123==` at the start; the thread id of a Rust panic | `<pid>` |
//! | the port after `localhost:`, an IPv4 address, `]:` or `://host:`; a number after `port` | `<port>` |
//! | `-` and sixteen lower-case hex digits (names of built test programs) | `-<hash>` |
//!
//! Numbers alone are never replaced: a count of tests must count. A rule that changes is a new version.

use std::sync::Arc;

use super::scan;
use super::{FingerprintError, NORMALISER_VERSION, Settings};

/// Longest part of a line that is looked at as one.
pub const PIECE_BYTES: usize = 64 << 10;

/// Where programs put temporary files.
const TEMPORARY: [&[u8]; 7] = [
    b"/tmp",
    b"/var/tmp",
    b"/var/folders",
    b"/dev/shm",
    b"/private/tmp",
    b"/private/var/tmp",
    b"/private/var/folders",
];

/// What stands in for a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Workspace,
    Temporary,
}

/// The directories to replace, longest first, so that a workspace in a temporary directory is a workspace.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) places: Vec<(Vec<u8>, Place)>,
}

impl Rules {
    pub(super) fn new(settings: &Settings) -> Result<Self, FingerprintError> {
        if !(1..=NORMALISER_VERSION).contains(&settings.normaliser) {
            return Err(FingerprintError::UnknownNormaliser {
                found: settings.normaliser,
            });
        }
        let workspaces = settings
            .workspaces
            .iter()
            .map(|path| (path.as_slice(), Place::Workspace));
        let given = settings
            .temporary
            .iter()
            .map(|path| (path.as_slice(), Place::Temporary));
        let usual = TEMPORARY.iter().map(|path| (*path, Place::Temporary));
        let mut places: Vec<(Vec<u8>, Place)> = workspaces
            .chain(given)
            .chain(usual)
            .map(|(path, place)| (without_last_slash(path).to_vec(), place))
            // Only absolute paths are told apart from other words; `/` itself would be every path.
            .filter(|(path, _)| path.len() > 1 && path.first() == Some(&b'/'))
            .collect();
        places.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Ok(Self { places })
    }
}

fn without_last_slash(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}

/// Cuts a stream into pieces and passes on each, normalised.
#[derive(Debug)]
pub(super) struct Pieces {
    rules: Arc<Rules>,
    /// The beginning of a piece that is not complete.
    begun: Vec<u8>,
    plain: Vec<u8>,
    normalised: Vec<u8>,
}

impl Pieces {
    pub(super) fn new(rules: &Arc<Rules>) -> Self {
        Self {
            rules: Arc::clone(rules),
            begun: Vec::new(),
            plain: Vec::new(),
            normalised: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8], sink: &mut impl FnMut(&[u8])) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let newline = memchr::memchr(b'\n', rest);
            let line = rest
                .get(..newline.unwrap_or(rest.len()))
                .unwrap_or_default();
            if newline.is_some() && self.begun.is_empty() && line.len() <= PIECE_BYTES {
                self.normalise(line);
                self.normalised.push(b'\n');
                sink(&self.normalised);
            } else {
                self.begin(line, sink);
                if newline.is_some() {
                    self.finish(sink);
                    sink(b"\n");
                }
            }
            let Some(newline) = newline else { return };
            rest = rest.get(newline + 1..).unwrap_or_default();
        }
    }

    /// Ends the last line.
    pub(super) fn finish(&mut self, sink: &mut impl FnMut(&[u8])) {
        let begun = std::mem::take(&mut self.begun);
        self.normalise(&begun);
        sink(&self.normalised);
        self.begun = begun;
        self.begun.clear();
    }

    fn begin(&mut self, line: &[u8], sink: &mut impl FnMut(&[u8])) {
        let mut rest = line;
        while !rest.is_empty() {
            let room = PIECE_BYTES - self.begun.len().min(PIECE_BYTES);
            let (taken, later) = rest.split_at_checked(room).unwrap_or((rest, &[]));
            self.begun.extend_from_slice(taken);
            rest = later;
            if self.begun.len() == PIECE_BYTES {
                self.finish(sink);
            }
        }
    }

    /// Leaves the normalised piece in `self.normalised`.
    fn normalise(&mut self, piece: &[u8]) {
        self.normalised.clear();
        if memchr::memchr(scan::ESCAPE, piece).is_some() {
            self.plain.clear();
            scan::without_terminal_sequences(piece, &mut self.plain);
            scan::replace(&self.plain, &self.rules, &mut self.normalised);
        } else {
            scan::replace(piece, &self.rules, &mut self.normalised);
        }
    }
}
