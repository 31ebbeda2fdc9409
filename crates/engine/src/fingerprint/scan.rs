//! The byte scanner of the stable normaliser: one pass, looking ahead from a digit, a slash or a dash.
//!
//! Text is hostile: nothing here recurses, and each look ahead or behind is bounded or moves the scan along.

use super::moment::{after_number, date_or_time, duration};
use super::stable::{Place, Rules};

pub(super) const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;

/// How far back a key, a host or the word `thread` is looked for.
const LOOK_BEHIND: usize = 256;

/// Copies `text` without terminal sequences. A sequence that does not end in the piece loses only its introducer.
pub(super) fn without_terminal_sequences(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(escape) = memchr::memchr(ESCAPE, rest) {
        out.extend_from_slice(rest.get(..escape).unwrap_or_default());
        let sequence = rest.get(escape + 1..).unwrap_or_default();
        rest = sequence.get(sequence_bytes(sequence)..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

/// The length of a sequence without its ESC.
fn sequence_bytes(sequence: &[u8]) -> usize {
    match sequence.first() {
        None => 0,
        Some(b'[') => {
            let parameters = sequence
                .iter()
                .skip(1)
                .take_while(|byte| (0x20..=0x3f).contains(*byte))
                .count();
            let complete = sequence
                .get(1 + parameters)
                .is_some_and(|byte| (0x40..=0x7e).contains(byte));
            1 + parameters + usize::from(complete)
        }
        Some(b']') => match memchr::memchr2(BELL, ESCAPE, sequence) {
            Some(end) if sequence.get(end) == Some(&BELL) => end + 1,
            Some(end) if sequence.get(end + 1) == Some(&b'\\') => end + 2,
            Some(_) | None => 1,
        },
        // Character sets take one more byte: `ESC ( B`.
        Some(b'(' | b')') => 2.min(sequence.len()),
        Some(0x30..=0x7e) => 1,
        Some(_) => 0,
    }
}

/// A replacement: `[start, end)` becomes `token`.
pub(super) struct Found {
    pub(super) end: usize,
    token: &'static str,
}

pub(super) fn found(end: usize, token: &'static str) -> Option<Found> {
    Some(Found { end, token })
}

/// Copies `text` with everything volatile replaced.
pub(super) fn replace(text: &[u8], rules: &Rules, out: &mut Vec<u8>) {
    let mut copied = 0;
    let mut at = 0;
    while let Some(next) = next_interesting(text, at) {
        at = next;
        let hit = match byte(text, at) {
            Some(b'/') => place(text, at, rules),
            Some(b'-') => build_hash(text, at),
            Some(_) | None => number(text, at),
        };
        match hit {
            Some(hit) => {
                out.extend_from_slice(text.get(copied..at).unwrap_or_default());
                out.extend_from_slice(hit.token.as_bytes());
                copied = hit.end;
                at = hit.end;
            }
            None if byte(text, at).is_some_and(|byte| byte.is_ascii_digit()) => {
                at = after_word(text, at)
            }
            None => at += 1,
        }
    }
    out.extend_from_slice(text.get(copied..).unwrap_or_default());
}

fn next_interesting(text: &[u8], at: usize) -> Option<usize> {
    // `-`, `/` and the digits: one range but for the dot, which keeps this loop fast.
    let interesting = |byte: &u8| (b'-'..=b'9').contains(byte) && *byte != b'.';
    Some(at + text.get(at..)?.iter().position(interesting)?)
}

pub(super) fn byte(text: &[u8], at: usize) -> Option<u8> {
    text.get(at).copied()
}

pub(super) fn byte_before(text: &[u8], at: usize) -> Option<u8> {
    byte(text, at.checked_sub(1)?)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

pub(super) fn ends_word(text: &[u8], at: usize) -> bool {
    !byte(text, at).is_some_and(is_word)
}

/// The end of a number or version with whatever letters follow it: nothing volatile begins inside.
fn after_word(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let word = rest
        .iter()
        .position(|byte| !is_word(*byte) && *byte != b'.')
        .unwrap_or(rest.len());
    at + word.max(1)
}

pub(super) fn digits(text: &[u8], at: usize) -> usize {
    text.get(at..)
        .unwrap_or_default()
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count()
}

/// A directory of the rules, at a slash that begins a path.
fn place(text: &[u8], at: usize, rules: &Rules) -> Option<Found> {
    if byte_before(text, at)
        .is_some_and(|byte| is_word(byte) || matches!(byte, b'.' | b'-' | b'~' | b'>'))
    {
        return None;
    }
    let rest = text.get(at..)?;
    let (path, place) = rules.places.iter().find(|(path, _)| {
        rest.starts_with(path)
            && !byte(rest, path.len())
                .is_some_and(|byte| is_word(byte) || matches!(byte, b'-' | b'.'))
    })?;
    match place {
        Place::Workspace => found(at + path.len(), "<workspace>"),
        Place::Temporary => {
            let below = rest.get(path.len()..)?;
            let length = below
                .iter()
                .position(|byte| ends_path(*byte))
                .unwrap_or(below.len());
            // The bare directory is the same everywhere.
            if length > 1 {
                found(at + path.len() + length, "<tmp>")
            } else {
                None
            }
        }
    }
}

fn ends_path(byte: u8) -> bool {
    byte.is_ascii_whitespace()
        || byte.is_ascii_control()
        || matches!(
            byte,
            b'\''
                | b'"'
                | b'`'
                | b':'
                | b';'
                | b','
                | b'('
                | b')'
                | b'['
                | b']'
                | b'{'
                | b'}'
                | b'<'
                | b'>'
                | b'|'
        )
}

/// Length of the hash that build tools append to the name of a program.
const HASH_DIGITS: usize = 16;

fn build_hash(text: &[u8], at: usize) -> Option<Found> {
    let end = at + 1 + HASH_DIGITS;
    let hash = text.get(at + 1..end)?;
    let hexadecimal = hash
        .iter()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let follows_name = byte_before(text, at).is_some_and(is_word);
    if hexadecimal && follows_name && ends_word(text, end) {
        found(end, "-<hash>")
    } else {
        None
    }
}

/// Everything that begins with a digit.
fn number(text: &[u8], at: usize) -> Option<Found> {
    if byte_before(text, at).is_some_and(is_word) {
        return None;
    }
    address(text, at)
        .or_else(|| date_or_time(text, at))
        .or_else(|| keyed(text, at))
        .or_else(|| process(text, at))
        .or_else(|| port(text, at))
        .or_else(|| duration(text, at))
}

/// Fewer hex digits are a constant, not an address.
const ADDRESS_DIGITS: usize = 6;

fn address(text: &[u8], at: usize) -> Option<Found> {
    let hexadecimal = text.get(at..)?.strip_prefix(b"0x")?;
    let length = hexadecimal
        .iter()
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    let end = at + 2 + length;
    if length >= ADDRESS_DIGITS && ends_word(text, end) {
        found(end, "<address>")
    } else {
        None
    }
}

/// A number named by the word before it: `pid=12`, `"elapsed": 0.3`, `port 8080`.
fn keyed(text: &[u8], at: usize) -> Option<Found> {
    let token = key_token(key_before(text, at)?)?;
    let end = if token == "<duration>" || token == "<time>" {
        // A unit, when there is one, is part of it.
        duration(text, at).map_or_else(|| after_number(text, at), |hit| hit.end)
    } else {
        at + digits(text, at)
    };
    if ends_word(text, end) {
        found(end, token)
    } else {
        None
    }
}

/// The word before a number, with at least one and at most four of `" ' = : blank` between.
fn key_before(text: &[u8], at: usize) -> Option<&[u8]> {
    let before = text.get(at.saturating_sub(LONGEST_KEY + 4)..at)?;
    let between = before
        .iter()
        .rev()
        .take(4)
        .take_while(|byte| matches!(byte, b'"' | b'\'' | b'=' | b':' | b' '))
        .count();
    let word_end = before.len() - between;
    let word = before.get(..word_end)?;
    let length = word
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'_')
        .count();
    let key = word.get(word_end - length..)?;
    (between > 0 && (1..=LONGEST_KEY).contains(&key.len())).then_some(key)
}

/// One more than the longest key of [`KEYS`], so that a longer word is never taken for one.
const LONGEST_KEY: usize = 13;

const KEYS: [(&str, &str); 20] = [
    ("duration", "<duration>"),
    ("duration_ms", "<duration>"),
    ("duration_ns", "<duration>"),
    ("duration_us", "<duration>"),
    ("durationms", "<duration>"),
    ("elapsed", "<duration>"),
    ("elapsed_ms", "<duration>"),
    ("elapsed_time", "<duration>"),
    ("runtime", "<duration>"),
    ("time", "<duration>"),
    ("time_ms", "<duration>"),
    ("took", "<duration>"),
    ("pid", "<pid>"),
    ("ppid", "<pid>"),
    ("tid", "<pid>"),
    ("port", "<port>"),
    ("starttime", "<time>"),
    ("endtime", "<time>"),
    ("timestamp", "<time>"),
    ("ts", "<time>"),
];

fn key_token(key: &[u8]) -> Option<&'static str> {
    KEYS.iter()
        .find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(key))
        .map(|(_, token)| *token)
}

/// `==123==` of memory checkers, and `thread 'name' (123) panicked`.
fn process(text: &[u8], at: usize) -> Option<Found> {
    let end = at + digits(text, at);
    let before = text.get(at.saturating_sub(LOOK_BEHIND)..at)?;
    let checker = at == 2 && before == b"==" && text.get(end..)?.starts_with(b"==");
    let thread = before.ends_with(b"' (")
        && byte(text, end) == Some(b')')
        && memchr::memmem::find(before, b"thread '").is_some();
    if checker || thread {
        found(end, "<pid>")
    } else {
        None
    }
}

/// The port of an address that is written as one: a bare `:12` may be a line.
fn port(text: &[u8], at: usize) -> Option<Found> {
    let length = digits(text, at);
    let before = text
        .get(at.saturating_sub(LOOK_BEHIND)..at)?
        .strip_suffix(b":")?;
    let end = at + length;
    if length > 5 || !ends_word(text, end) {
        return None;
    }
    let host_bytes = before
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
        .count();
    let (scheme, host) = before.split_at_checked(before.len() - host_bytes)?;
    let version_four = host
        .iter()
        .all(|byte| byte.is_ascii_digit() || *byte == b'.')
        && host.iter().filter(|byte| **byte == b'.').count() == 3;
    let url = !host.is_empty() && scheme.ends_with(b"://");
    if host == b"localhost" || before.ends_with(b"]") || version_four || url {
        found(end, "<port>")
    } else {
        None
    }
}
