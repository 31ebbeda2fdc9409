//! Reads a large log ahead of the fold: a second thread splits lines and takes their digests.
//!
//! Half of what it costs to verify a log is hashing it, and that does not depend on the fold. Must not fold or judge.

use std::{
    io::{BufRead, Read},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
};

use loopexec_core::{digest::Digest, event::LINE_BYTES_MAX};

/// Lines that travel together: large enough that handing them over does not count.
const BLOCK_BYTES: usize = 1 << 20;
/// Blocks under way: the fold is the slower side, so more would only be memory.
const BLOCKS: usize = 4;

/// One line: its bytes as far as a record can have them, what it took in the source, and the digest of its content.
pub(super) struct Line<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) length: u64,
    pub(super) digest: Digest,
}

/// Lines that travel together.
#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    lines: Vec<(usize, u64, Digest)>,
}

/// One line with its newline, at most as long as a record can be; the rest of a longer one is read and dropped.
pub(super) fn next_line<R: BufRead>(source: &mut R, line: &mut Vec<u8>) -> std::io::Result<u64> {
    line.clear();
    let limit = u64::try_from(LINE_BYTES_MAX)
        .unwrap_or(u64::MAX)
        .saturating_add(2);
    let mut read = Read::take(&mut *source, limit).read_until(b'\n', line)?;
    if line.len() > LINE_BYTES_MAX && line.last() != Some(&b'\n') {
        read = read.saturating_add(source.skip_until(b'\n')?);
    }
    Ok(u64::try_from(read).unwrap_or(u64::MAX))
}

/// The digest of a line's content, which is what the next record names.
pub(super) fn digest(line: &[u8]) -> Digest {
    Digest::of(line.strip_suffix(b"\n").unwrap_or(line))
}

/// Gives each line of the source to `each`, in order.
pub(super) fn lines<R: BufRead + Send>(
    source: R,
    mut each: impl FnMut(Line<'_>),
) -> std::io::Result<()> {
    let (sender, receiver) = sync_channel(BLOCKS);
    std::thread::scope(|scope| {
        scope.spawn(move || split(source, &sender));
        hand_over(&receiver, &mut each)
    })
}

fn split<R: BufRead>(mut source: R, sender: &SyncSender<std::io::Result<Block>>) {
    let mut line = Vec::new();
    let mut block = Block::default();
    loop {
        match next_line(&mut source, &mut line) {
            Ok(0) => break,
            Ok(length) => {
                block.bytes.extend_from_slice(&line);
                block.lines.push((line.len(), length, digest(&line)));
            }
            Err(error) => {
                let _ = sender.send(Ok(std::mem::take(&mut block)));
                let _ = sender.send(Err(error));
                return;
            }
        }
        if block.bytes.len() >= BLOCK_BYTES && sender.send(Ok(std::mem::take(&mut block))).is_err()
        {
            return;
        }
    }
    let _ = sender.send(Ok(block));
}

fn hand_over(
    receiver: &Receiver<std::io::Result<Block>>,
    each: &mut impl FnMut(Line<'_>),
) -> std::io::Result<()> {
    for block in receiver {
        let block = block?;
        let mut rest = block.bytes.as_slice();
        for (length_kept, length, digest) in block.lines {
            let Some((bytes, after)) = rest.split_at_checked(length_kept) else {
                break;
            };
            rest = after;
            each(Line {
                bytes,
                length,
                digest,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_and_in_order_also_over_block_borders() {
        let text: Vec<u8> = (0..90_000_u32)
            .flat_map(|n| format!("{n} {}\n", "x".repeat(30)).into_bytes())
            .collect();
        let mut together = Vec::new();
        let mut total = 0;
        lines(text.as_slice(), |line| {
            assert_eq!(line.digest, digest(line.bytes));
            total += line.length;
            together.extend_from_slice(line.bytes);
        })
        .unwrap();
        assert!(together == text);
        assert_eq!(total, u64::try_from(text.len()).unwrap());
    }

    #[test]
    fn a_last_line_without_a_newline_comes_as_it_is() {
        let mut seen = Vec::new();
        lines(&b"a\nb"[..], |line| seen.push(line.bytes.to_vec())).unwrap();
        assert_eq!(seen, [b"a\n".to_vec(), b"b".to_vec()]);
    }
}
