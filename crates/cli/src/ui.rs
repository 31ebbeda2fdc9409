//! The only writer to standard output and standard error: stdout is data, stderr is talk.
//!
//! Must not decide what to say.

use std::{
    io::{ErrorKind, Write as _},
    sync::Mutex,
};

/// What became of the data on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It was written.
    Written,
    /// The reader went away: silence, as every filter does.
    ReaderGone,
    /// The disk, or whatever stands behind standard output, did not take it.
    Refused,
}

/// Whether the one object was printed already; a signal and the command's own end may race for it.
static PRINTED: Mutex<bool> = Mutex::new(false);

/// Writes data to standard output once; whoever comes second is silent.
pub(crate) fn print_once(bytes: &[u8]) -> Delivery {
    let mut printed = PRINTED
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if *printed {
        return Delivery::Written;
    }
    *printed = true;
    print(bytes)
}

/// Writes data to standard output.
fn print(bytes: &[u8]) -> Delivery {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Delivery::Written,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Delivery::ReaderGone,
        Err(error) => {
            say(&format!("error: cannot write to standard output: {error}"));
            Delivery::Refused
        }
    }
}

/// Says a line on standard error; nobody there is no error.
pub(crate) fn say(text: &str) {
    say_painted(&plain(text));
}

/// Says a line of our own making, whose colours are meant.
pub(crate) fn say_painted(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// A text for people in which nothing can act on a terminal or show letters in another order.
///
/// Paths, ids and commands come from others: a receipt from elsewhere must not hide the command that it asks to be confirmed.
pub(crate) fn plain(text: &str) -> String {
    let acts = |letter: char| {
        (letter.is_control() && letter != '\n' && letter != '\t')
            || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if acts(letter) {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn what_acts_on_a_terminal_or_turns_letters_around_is_shown_and_the_rest_is_left() {
        assert_eq!(plain("a\tb\nc \u{fc}"), "a\tb\nc \u{fc}");
        assert_eq!(
            plain("rm -rf ~\r\u{1b}[2Ktrue \u{9b}2J \u{202e}x"),
            "rm -rf ~\\r\\u{1b}[2Ktrue \\u{9b}2J \\u{202e}x"
        );
    }
}
