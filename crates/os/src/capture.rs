//! Bounded capture of a stream: its first and its last part, and how long it was.
//!
//! It must not know what the bytes mean; whoever needs every byte looks at them as they pass.

/// Bytes kept of the beginning of a stream, and as many of its end: together 1 MiB, whatever a command prints.
pub const HALF: usize = 512 * 1024;

/// What was kept of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// Its first bytes, at most [`HALF`].
    pub head: Vec<u8>,
    /// Its last bytes, at most [`HALF`], none of them also in `head`.
    pub tail: Vec<u8>,
    /// Its whole length in bytes.
    pub total: u64,
    /// Whether bytes between `head` and `tail` were dropped.
    pub truncated: bool,
    /// Whether a process outside of the command's tree still held the stream when reading was given up.
    pub held_open: bool,
}

impl Captured {
    /// `head` and `tail` in one piece: the whole stream, unless it was truncated.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        let mut bytes = self.head;
        bytes.extend_from_slice(&self.tail);
        bytes
    }
}

/// Takes a stream chunk by chunk and keeps its first and last [`HALF`].
#[derive(Debug, Default)]
pub(crate) struct Capture {
    head: Vec<u8>,
    /// A ring once it is full; `oldest` is then where its first byte is.
    tail: Vec<u8>,
    oldest: usize,
    total: u64,
}

impl Capture {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        let room = HALF.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        // Only the end of a chunk longer than the ring can stay in it.
        let rest = rest
            .get(rest.len().saturating_sub(HALF)..)
            .unwrap_or_default();
        let (grow, wrap) = rest.split_at(HALF.saturating_sub(self.tail.len()).min(rest.len()));
        self.tail.extend_from_slice(grow);
        self.overwrite(wrap);
    }

    fn overwrite(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let Some(target) = self.tail.get_mut(self.oldest..) else {
                return;
            };
            let (now, later) = bytes.split_at(target.len().min(bytes.len()));
            let (place, _) = target.split_at_mut(now.len());
            place.copy_from_slice(now);
            self.oldest = (self.oldest + now.len()) % HALF;
            bytes = later;
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn finish(mut self, held_open: bool) -> Captured {
        self.tail.rotate_left(self.oldest);
        let kept = (self.head.len() + self.tail.len()) as u64;
        Captured {
            truncated: kept < self.total,
            head: self.head,
            tail: self.tail,
            total: self.total,
            held_open,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn captured(chunks: &[Vec<u8>]) -> Captured {
        let mut capture = Capture::default();
        for chunk in chunks {
            capture.push(chunk);
        }
        capture.finish(false)
    }

    fn pattern(length: usize) -> Vec<u8> {
        (0..length).map(|index| (index % 251) as u8).collect()
    }

    #[test]
    fn a_stream_at_the_limit_is_whole() {
        let bytes = pattern(2 * HALF);
        let kept = captured(std::slice::from_ref(&bytes));
        assert!(!kept.truncated);
        assert_eq!(kept.into_bytes(), bytes);
    }

    #[test]
    fn one_byte_beyond_the_limit_is_dropped_in_the_middle() {
        let bytes = pattern(2 * HALF + 1);
        let kept = captured(std::slice::from_ref(&bytes));
        assert!(kept.truncated);
        assert_eq!(kept.total, bytes.len() as u64);
        assert_eq!(kept.head, bytes[..HALF]);
        assert_eq!(kept.tail, bytes[HALF + 1..]);
    }

    #[test]
    fn nothing_is_an_empty_stream() {
        assert_eq!(captured(&[]), Captured::default());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn the_first_and_the_last_bytes_are_kept_however_they_come(lengths in prop::collection::vec(0_usize..700_000, 0..8)) {
            let total: usize = lengths.iter().sum();
            let bytes = pattern(total);
            let mut chunks = Vec::new();
            let mut at = 0;
            for length in lengths {
                chunks.push(bytes[at..at + length].to_vec());
                at += length;
            }
            let kept = captured(&chunks);
            prop_assert_eq!(kept.total, total as u64);
            prop_assert_eq!(kept.truncated, total > 2 * HALF);
            prop_assert_eq!(&kept.head[..], &bytes[..total.min(HALF)]);
            let tail = total.saturating_sub(HALF).min(HALF);
            prop_assert_eq!(&kept.tail[..], &bytes[total - tail..]);
        }
    }
}
