//! A digest of the lines of a text in whatever order: test runners that work in parallel print in the order of completion.
//!
//! The sha256 digests of the lines that are not blank are added up, so a line that stands twice counts twice. That is
//! weaker than a digest of the text against somebody who may choose the lines, but who may choose them can also print the
//! expected text: the digest tells an honest run from another one.

use sha2::{Digest, Sha256};

#[derive(Debug, Default)]
pub(super) struct Lines {
    line: Sha256,
    begun: bool,
    count: u64,
    /// 256 bits, the lowest limb first.
    sum: [u64; 4],
}

impl Lines {
    pub(super) fn take(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(newline) = memchr::memchr(b'\n', rest) {
            self.extend(rest.get(..newline).unwrap_or_default());
            self.end_line();
            rest = rest.get(newline + 1..).unwrap_or_default();
        }
        self.extend(rest);
    }

    /// Lower-case hex.
    pub(super) fn finish(mut self) -> String {
        self.end_line();
        let mut digest = Sha256::new().chain_update(self.count.to_le_bytes());
        for limb in self.sum {
            digest.update(limb.to_le_bytes());
        }
        format!("{:x}", digest.finalize())
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.line.update(bytes);
        self.begun |= !bytes.is_empty();
    }

    fn end_line(&mut self) {
        if !self.begun {
            return;
        }
        self.begun = false;
        self.count += 1;
        let digest = self.line.finalize_reset();
        let (limbs, _) = digest.as_chunks::<8>();
        let mut carry = false;
        for (limb, bytes) in self.sum.iter_mut().zip(limbs) {
            (*limb, carry) = limb.carrying_add(u64::from_le_bytes(*bytes), carry);
        }
    }
}
