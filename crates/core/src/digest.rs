//! SHA-256 digests: the chain's links and the names of contents.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest, written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// What the first record of a run's receipt names as its predecessor.
    #[must_use]
    pub fn genesis(run_id: &str) -> Self {
        Self::of(format!("loopexec-receipt-v1 {run_id}").as_bytes())
    }

    /// Reads 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut out = [0_u8; 32];
        let bytes = text.as_bytes();
        if bytes.len() != 64 {
            return None;
        }
        for (slot, pair) in out.iter_mut().zip(bytes.chunks_exact(2)) {
            let &[high, low] = pair else { return None };
            *slot = (nibble(high)? << 4) | nibble(low)?;
        }
        Some(Self(out))
    }
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// The digest of a set of ids: sorted by bytes, joined by newlines, as the public tool's tracker keys its sets.
#[must_use]
pub fn set_digest<'a>(sorted: impl IntoIterator<Item = &'a String>) -> Digest {
    let mut hash = Sha256::new();
    for (index, id) in sorted.into_iter().enumerate() {
        if index > 0 {
            hash.update(b"\n");
        }
        hash.update(id.as_bytes());
    }
    Digest(hash.finalize().into())
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = [0_u8; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            for (digit, value) in pair.iter_mut().zip([byte >> 4, byte & 15]) {
                *digit = if value < 10 {
                    b'0' + value
                } else {
                    b'a' + value - 10
                };
            }
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Hex;
        impl de::Visitor<'_> for Hex {
            type Value = Digest;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("64 lower-case hexadecimal digits")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Digest, E> {
                Digest::from_hex(text)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Hex)
    }
}

impl JsonSchema for Digest {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Digest".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^[0-9a-f]{64}$",
            "description": "SHA-256, 64 lower-case hexadecimal digits"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_survives_its_own_text() {
        let digest = Digest::of(b"abc");
        assert_eq!(
            digest.to_string(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(Digest::from_hex(&digest.to_string()), Some(digest));
    }

    #[test]
    fn only_64_lower_case_digits_are_a_digest() {
        let text = Digest::of(b"").to_string();
        assert_eq!(Digest::from_hex(&text.to_uppercase()), None);
        assert_eq!(Digest::from_hex(text.trim_end_matches('5')), None);
        assert_eq!(Digest::from_hex(&format!("{text}0")), None);
    }

    #[test]
    fn the_first_link_depends_on_the_run() {
        assert_eq!(
            Digest::genesis("local"),
            Digest::of(b"loopexec-receipt-v1 local")
        );
        assert_ne!(Digest::genesis("a"), Digest::genesis("b"));
    }

    #[test]
    fn a_set_is_keyed_by_its_sorted_lines() {
        let ids = ["a".to_owned(), "b".to_owned()];
        assert_eq!(set_digest(&ids), Digest::of(b"a\nb"));
        assert_eq!(set_digest(&[]), Digest::of(b""));
    }
}
