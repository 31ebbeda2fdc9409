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
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
