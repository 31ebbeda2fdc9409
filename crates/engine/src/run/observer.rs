//! Hears a command's output: takes its digests, remembers its last line, keeps the heartbeat going.
//!
//! Must not keep the output: what is kept is bounded whatever the command prints.

use loopexec_core::{digest::Digest, event::CommandPhase, state::RunState};
use loopexec_os::{
    guardian::{Activity, Observer, Stream},
    signals::{Signal, Signals},
};
use sha2::{Digest as _, Sha256};

use super::Watcher;
use crate::{
    fingerprint::{self, Digests, Fingerprint},
    heartbeat::Pulse,
    redact::{RedactionStream, Redactor},
};

/// Bytes of the latest output from which the last line is taken.
const LAST_LINE_BYTES: usize = 400;

/// The digests that a command's output needs.
pub(super) enum Taking {
    /// Fingerprints: a check.
    Fingerprint(Box<Fingerprint>),
    /// Plain digests, secrets replaced: the work command.
    Plain(Box<(Plain, Plain)>),
    /// None: a collector, whose ids are recorded themselves.
    Nothing,
}

/// A digest of one redacted stream.
pub(super) struct Plain {
    redaction: RedactionStream,
    hash: Sha256,
    buffer: Vec<u8>,
}

impl Plain {
    pub(super) fn new(redactor: &Redactor) -> Self {
        Self {
            redaction: redactor.stream(),
            hash: Sha256::new(),
            buffer: Vec::new(),
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.buffer.clear();
        self.redaction.push(bytes, &mut self.buffer);
        self.hash.update(&self.buffer);
    }

    fn finish(mut self) -> Digest {
        self.buffer.clear();
        self.redaction.finish(&mut self.buffer);
        self.hash.update(&self.buffer);
        Digest(self.hash.finalize().into())
    }
}

/// What was taken.
pub(super) enum Taken {
    Fingerprint(Box<Digests>),
    Plain { stdout: Digest, stderr: Digest },
    Nothing,
}

impl Taking {
    pub(super) fn finish(self, exit_code: i32) -> Taken {
        match self {
            Self::Fingerprint(fingerprint) => {
                Taken::Fingerprint(Box::new(fingerprint.finish(exit_code)))
            }
            Self::Plain(both) => {
                let (stdout, stderr) = *both;
                Taken::Plain {
                    stdout: stdout.finish(),
                    stderr: stderr.finish(),
                }
            }
            Self::Nothing => Taken::Nothing,
        }
    }
}

/// The observer of one command.
pub(super) struct Listening<'a> {
    pub(super) state: &'a RunState,
    pub(super) phase: CommandPhase,
    pub(super) taking: Taking,
    pub(super) redactor: &'a Redactor,
    pub(super) pulse: &'a mut Pulse,
    pub(super) watcher: &'a mut dyn Watcher,
    pub(super) latest: Vec<u8>,
    pub(super) pulse_failed: bool,
    pub(super) signals: &'a Signals,
    /// Milliseconds that the command has to end after it was asked to.
    pub(super) grace_ms: u64,
    /// Whether a person was told what a signal has set going.
    pub(super) told: bool,
}

impl Observer for Listening<'_> {
    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        match (&mut self.taking, stream) {
            (Taking::Fingerprint(fingerprint), Stream::Stdout) => {
                fingerprint.push(fingerprint::Stream::Stdout, bytes);
            }
            (Taking::Fingerprint(fingerprint), Stream::Stderr) => {
                fingerprint.push(fingerprint::Stream::Stderr, bytes);
            }
            (Taking::Plain(both), Stream::Stdout) => both.0.push(bytes),
            (Taking::Plain(both), Stream::Stderr) => both.1.push(bytes),
            (Taking::Nothing, _) => {}
        }
        let start = bytes.len().saturating_sub(LAST_LINE_BYTES);
        self.latest
            .extend_from_slice(bytes.get(start..).unwrap_or_default());
        let excess = self.latest.len().saturating_sub(LAST_LINE_BYTES);
        self.latest.drain(..excess);
    }

    fn tick(&mut self, activity: &Activity) {
        if self
            .pulse
            .refresh(self.state.iteration, self.phase)
            .is_err()
        {
            self.pulse_failed = true;
        }
        if let (false, Some(signal)) = (self.told, self.signals.pending()) {
            self.told = true;
            self.watcher.note(&cancelling(signal, self.grace_ms));
        }
        let line = last_line(&self.redactor.redact(&self.latest));
        self.watcher
            .running(self.state, self.phase, activity.elapsed_ms, &line);
    }
}

/// What a person is told whose signal waits for the command's end.
fn cancelling(signal: Signal, grace_ms: u64) -> String {
    format!(
        "{}: the command was asked to end and is killed after {} s; a second interrupt kills it at once",
        signal.name(),
        grace_ms.div_ceil(1000)
    )
}

/// The last line with something on it, printable.
fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text
        .rsplit(['\n', '\r'])
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    printable(line)
}

/// Without control characters and escape sequences, which would move the cursor of whoever prints it.
fn printable(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            if characters.next_if_eq(&'[').is_some() {
                while characters
                    .next()
                    .is_some_and(|next| !next.is_ascii_alphabetic())
                {}
            }
        } else if !character.is_control() {
            out.push(character);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_last_with_something_on_it() {
        assert_eq!(last_line(b"one\ntwo\n\n"), "two");
        assert_eq!(last_line(b"10%\r20%\r"), "20%");
        assert_eq!(last_line(b""), "");
        assert_eq!(last_line(b"\xff\xfe ok"), "\u{fffd}\u{fffd} ok");
    }

    #[test]
    fn a_line_cannot_move_the_cursor() {
        assert_eq!(last_line(b"\x1b[2K\x1b[31mred\x1b[0m\x07"), "red");
    }
}
