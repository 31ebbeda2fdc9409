//! Durations as people write them: `250ms`, `30s`, `10m`, `2h`, `1h30m`.

use std::str::FromStr;

/// A duration from the command line; its sign is kept, because a negative one parses and is refused by its domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Milliseconds.
    pub(crate) millis: i64,
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("{text:?} is not a duration such as 250ms, 30s, 10m, 2h or 1h30m");
        let (sign, mut rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
        if rest.is_empty() {
            return Err(refused());
        }
        let mut millis = 0_i64;
        let mut smallest = i64::MAX;
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, after) = rest.split_at_checked(digits).ok_or_else(refused)?;
            let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
            let (unit, next) = after.split_at_checked(letters).ok_or_else(refused)?;
            let factor = match unit {
                "ms" => 1,
                "s" => 1_000,
                "m" => 60_000,
                "h" => 3_600_000,
                _ => return Err(refused()),
            };
            if factor >= smallest {
                return Err(refused());
            }
            smallest = factor;
            let number: i64 = number.parse().map_err(|_| refused())?;
            millis = number
                .checked_mul(factor)
                .and_then(|part| millis.checked_add(part))
                .ok_or_else(refused)?;
            rest = next;
        }
        Ok(Self {
            millis: sign * millis,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_written_forms_are_read() {
        for (text, millis) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("10m", 600_000),
            ("2h", 7_200_000),
            ("1h30m", 5_400_000),
            ("1m1ms", 60_001),
            ("0s", 0),
            ("-5s", -5_000),
        ] {
            assert_eq!(
                text.parse::<Span>().map(|span| span.millis),
                Ok(millis),
                "{text}"
            );
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "-",
            "5",
            "s",
            "1.5s",
            "5 s",
            "5S",
            "30m1h",
            "1s1s",
            "1d",
            "9223372036854775807h",
            "1é",
        ] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
