//! Dates, clock times and durations of the stable normaliser.
//!
//! Called by [`super::scan`] at a digit that begins a word; knows nothing of what stands before it but one byte.

use super::scan::{Found, byte, byte_before, digits, ends_word, found};

pub(super) fn date_or_time(text: &[u8], at: usize) -> Option<Found> {
    match digits(text, at) {
        4 => {
            let separator = byte(text, at + 4).filter(|byte| matches!(byte, b'-' | b'/'))?;
            let month = two_digits(text, at + 5, 12)?;
            let day =
                (byte(text, month)? == separator).then(|| two_digits(text, month + 1, 31))??;
            let time = byte(text, day)
                .filter(|byte| matches!(byte, b'T' | b't' | b' ' | b'_'))
                .and_then(|_| clock(text, day + 1, Seconds::Optional));
            match time {
                Some(end) => found(after_zone(text, end), "<time>"),
                None if ends_word(text, day) => found(day, "<date>"),
                None => None,
            }
        }
        8 if byte(text, at + 8) == Some(b'T') && digits(text, at + 9) == 6 => {
            found(after_zone(text, at + 15), "<time>")
        }
        1 | 2 if byte_before(text, at) != Some(b':') => found(
            after_zone(text, clock(text, at, Seconds::Required)?),
            "<time>",
        ),
        _ => None,
    }
}

/// The end of exactly two digits, at most `limit`.
fn two_digits(text: &[u8], at: usize, limit: u8) -> Option<usize> {
    let [tens, ones] = *text.get(at..at + 2)?.as_array::<2>()?;
    let both = tens.is_ascii_digit() && ones.is_ascii_digit();
    (both && (tens - b'0') * 10 + (ones - b'0') <= limit && digits(text, at) == 2).then_some(at + 2)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seconds {
    /// After a date, hours and minutes are a time.
    Optional,
    /// Alone, `12:34` may be a line and a column.
    Required,
}

/// The end of `h:mm:ss` with a fraction.
fn clock(text: &[u8], at: usize, seconds: Seconds) -> Option<usize> {
    let hours = digits(text, at);
    if !(1..=2).contains(&hours) || byte(text, at + hours) != Some(b':') {
        return None;
    }
    let minutes = two_digits(text, at + hours + 1, 59)?;
    let whole = if byte(text, minutes) == Some(b':') {
        two_digits(text, minutes + 1, 60)
    } else {
        None
    };
    let end = match (whole, seconds) {
        (Some(end), _) => after_fraction(text, end),
        (None, Seconds::Optional) => minutes,
        (None, Seconds::Required) => return None,
    };
    (byte(text, end) != Some(b':')).then_some(end)
}

fn after_fraction(text: &[u8], at: usize) -> usize {
    match byte(text, at) {
        Some(b'.' | b',') => match digits(text, at + 1) {
            0 => at,
            fraction => at + 1 + fraction,
        },
        Some(_) | None => at,
    }
}

fn after_zone(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let blank = usize::from(rest.first() == Some(&b' '));
    match rest.get(blank) {
        Some(b'Z' | b'z') if blank == 0 => at + 1,
        Some(b'+' | b'-') => {
            let first = digits(rest, blank + 1);
            let colon = usize::from(rest.get(blank + 1 + first) == Some(&b':'));
            match (first, colon, digits(rest, blank + 1 + first + colon)) {
                (2, 1, 2) => at + blank + 6,
                (4, 0, 0) => at + blank + 5,
                _ => at,
            }
        }
        Some(b'U')
            if rest
                .get(blank..)
                .is_some_and(|zone| zone.starts_with(b"UTC")) =>
        {
            at + blank + 3
        }
        Some(_) | None => at,
    }
}

/// The end of a number with fraction and exponent.
pub(super) fn after_number(text: &[u8], at: usize) -> usize {
    let mut end = at + digits(text, at);
    if byte(text, end) == Some(b'.') && digits(text, end + 1) > 0 {
        end += 1 + digits(text, end + 1);
    }
    if matches!(byte(text, end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(byte(text, end + 1), Some(b'+' | b'-')));
        let exponent = digits(text, end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    end
}

/// Units that may follow a number directly or after one blank. Longer ones first.
const UNITS: [&str; 16] = [
    "seconds", "second", "minutes", "minute", "hours", "hour", "secs", "mins", "sec", "min", "hrs",
    "ms", "us", "ns", "\u{b5}s", "\u{3bc}s",
];

/// Units that are also other things: `s` may stand apart, `m` and `h` only directly after the number.
const SHORT_UNITS: [(&str, bool); 3] = [("s", true), ("m", false), ("h", false)];

fn unit(text: &[u8], at: usize) -> Option<usize> {
    let blank = usize::from(byte(text, at) == Some(b' '));
    let rest = text.get(at + blank..)?;
    let long = UNITS
        .iter()
        .find(|unit| rest.starts_with(unit.as_bytes()))
        .map(|unit| unit.len());
    let short = || {
        let (unit, apart) = SHORT_UNITS
            .iter()
            .find(|(unit, _)| rest.starts_with(unit.as_bytes()))?;
        (*apart || blank == 0).then_some(unit.len())
    };
    Some(at + blank + long.or_else(short)?)
}

/// A number and its unit, as often as they follow each other: `1h 02m 3.5s`.
pub(super) fn duration(text: &[u8], at: usize) -> Option<Found> {
    let mut ended = None;
    let mut from = at;
    while let Some(end) = unit(text, after_number(text, from)) {
        if ends_word(text, end) {
            ended = Some(end);
        }
        let blank = usize::from(byte(text, end) == Some(b' '));
        if digits(text, end + blank) == 0 {
            break;
        }
        from = end + blank;
    }
    found(ended?, "<duration>")
}
