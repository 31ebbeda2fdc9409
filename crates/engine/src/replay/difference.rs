//! A small difference of two texts for a person: what lies between their common beginning and their common end.
//!
//! Must not know where the texts come from.

/// Lines that are shown of each side; more helps nobody who has the output before them.
const LINES_MAX: usize = 12;
/// Bytes that are shown of a line.
const LINE_BYTES_MAX: usize = 240;

/// The lines that differ, `-` recorded and `+` now; empty when the texts are equal.
pub(super) fn between(recorded: &[u8], now: &[u8]) -> Vec<String> {
    let before: Vec<&[u8]> = recorded.split(|byte| *byte == b'\n').collect();
    let after: Vec<&[u8]> = now.split(|byte| *byte == b'\n').collect();
    let start = before
        .iter()
        .zip(&after)
        .take_while(|(before, after)| before == after)
        .count();
    let most = before.len().min(after.len()).saturating_sub(start);
    let end = before
        .iter()
        .rev()
        .zip(after.iter().rev())
        .take(most)
        .take_while(|(before, after)| before == after)
        .count();
    let mut lines = Vec::new();
    for (sign, side) in [('-', &before), ('+', &after)] {
        let changed = side
            .get(start..side.len().saturating_sub(end))
            .unwrap_or_default();
        lines.extend(
            changed
                .iter()
                .take(LINES_MAX)
                .map(|line| format!("{sign} {}", shown(line))),
        );
        if let Some(more) = changed
            .len()
            .checked_sub(LINES_MAX)
            .filter(|more| *more > 0)
        {
            lines.push(format!("{sign} … {more} lines more"));
        }
    }
    lines
}

fn shown(line: &[u8]) -> String {
    let cut = line.get(..LINE_BYTES_MAX).unwrap_or(line);
    String::from_utf8_lossy(cut)
        .chars()
        .filter(|character| !character.is_control())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_shown() {
        assert_eq!(between(b"a\nb\nc", b"a\nb\nc"), Vec::<String>::new());
        assert_eq!(between(b"a\nb\nc", b"a\nx\ny\nc"), ["- b", "+ x", "+ y"]);
        assert_eq!(between(b"", b"x"), ["- ", "+ x"]);
        assert_eq!(between(b"a\na", b"a"), ["- a"]);
    }

    #[test]
    fn a_long_difference_is_cut_at_twelve_lines_a_side() {
        let text = |count: usize| "x\n".repeat(count);
        let shown = |count: usize| between(text(count).as_bytes(), b"");
        assert!(!shown(11).iter().any(|line| line.contains("more")));
        assert!(!shown(12).iter().any(|line| line.contains("more")));
        assert_eq!(shown(13).last().unwrap(), "- … 1 lines more");
    }

    #[test]
    fn a_line_cannot_move_the_cursor() {
        assert_eq!(between(b"\x1b[2Ja", b"a"), ["- [2Ja", "+ a"]);
    }
}
