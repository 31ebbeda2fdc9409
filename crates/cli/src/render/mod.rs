//! How values look to people. A function of its arguments alone: no clock, locale or terminal.

pub(crate) mod live;

/// A duration in its two largest units: `450 ms`, `12.3 s`, `4 m 05 s`, `2 h 03 m`.
pub(crate) fn elapsed(millis: u64) -> String {
    let seconds = millis / 1_000;
    match seconds {
        0 => format!("{millis} ms"),
        1..60 => format!("{seconds}.{} s", millis % 1_000 / 100),
        60..3_600 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} m", seconds / 3_600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::elapsed;

    #[test]
    fn a_duration_shows_its_two_largest_units() {
        for (millis, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1.0 s"),
            (59_999, "59.9 s"),
            (60_000, "1 m 00 s"),
            (3_599_999, "59 m 59 s"),
            (3_600_000, "1 h 00 m"),
            (90_000_000, "25 h 00 m"),
        ] {
            assert_eq!(elapsed(millis), text);
        }
    }
}
