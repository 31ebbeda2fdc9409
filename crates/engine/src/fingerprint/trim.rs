//! Removes trailing blanks of each line and trailing newlines, in bounded memory.
//!
//! Blanks are space, tab, carriage return, vertical tab and form feed. A run of blanks is held back until it is known
//! whether something follows; of a run longer than [`HELD_BLANKS`] the first full multiples are passed on as they are, so
//! only its rest is ever trimmed. The rule counts from the start of the run, never from the start of a chunk.

/// How much of one run of blanks is held back.
const HELD_BLANKS: usize = 64 << 10;

/// Newlines that are passed on at once.
static NEWLINES: [u8; 256] = [b'\n'; 256];

#[derive(Debug, Default)]
pub(super) struct Trim {
    newlines: u64,
    blanks: Vec<u8>,
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

impl Trim {
    /// Passes on what is certainly not trailing. What is held at the end of the stream is trailing: there is no `finish`.
    pub(super) fn push(&mut self, bytes: &[u8], sink: &mut impl FnMut(&[u8])) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let newline = memchr::memchr(b'\n', rest);
            let line = rest
                .get(..newline.unwrap_or(rest.len()))
                .unwrap_or_default();
            let kept = line
                .iter()
                .rposition(|byte| !is_blank(*byte))
                .map_or(0, |last| last + 1);
            let (body, blanks) = line.split_at_checked(kept).unwrap_or((line, &[]));
            if !body.is_empty() {
                self.release(sink);
                sink(body);
            }
            self.hold(blanks, sink);
            let Some(newline) = newline else { return };
            self.blanks.clear();
            self.newlines += 1;
            rest = rest.get(newline + 1..).unwrap_or_default();
        }
    }

    fn hold(&mut self, blanks: &[u8], sink: &mut impl FnMut(&[u8])) {
        self.blanks.extend_from_slice(blanks);
        while self.blanks.len() > HELD_BLANKS {
            let later = self.blanks.split_off(HELD_BLANKS);
            self.release(sink);
            self.blanks = later;
        }
    }

    /// Something follows: what was held is no trailing blank.
    fn release(&mut self, sink: &mut impl FnMut(&[u8])) {
        while self.newlines > 0 {
            let count = self.newlines.min(NEWLINES.len() as u64);
            sink(
                NEWLINES
                    .get(..usize::try_from(count).unwrap_or(NEWLINES.len()))
                    .unwrap_or_default(),
            );
            self.newlines -= count;
        }
        if !self.blanks.is_empty() {
            sink(&self.blanks);
            self.blanks.clear();
        }
    }
}
