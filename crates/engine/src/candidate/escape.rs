//! Path bytes as one printable word, for the manifest, the rules and our own messages.
//!
//! Each byte outside `!`..`~`, and `%` itself, becomes `%XX` with capital hex digits. There is exactly one spelling of
//! each byte string, so equal content has equal bytes and one digest. This module knows nothing of what a path means.

/// The printable spelling of `bytes`.
pub(crate) fn escape_into(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: [u8; 16] = *b"0123456789ABCDEF";
    for &byte in bytes {
        if is_plain(byte) {
            out.push(byte);
        } else {
            let digit = |value: u8| HEX.get(usize::from(value)).copied().unwrap_or(b'?');
            out.extend([b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

/// The printable spelling of `bytes` as text.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    escape_into(bytes, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// The bytes behind a spelling; `None` when it is not the one spelling that [`escape`] writes.
pub(crate) fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            if !is_plain(byte) {
                return None;
            }
            out.push(byte);
            continue;
        }
        let value = (hex_digit(rest.next()?)? << 4) | hex_digit(rest.next()?)?;
        if is_plain(value) {
            return None;
        }
        out.push(value);
    }
    Some(out)
}

fn is_plain(byte: u8) -> bool {
    (b'!'..=b'~').contains(&byte) && byte != b'%'
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{escape, unescape};
    use proptest::prelude::*;

    #[test]
    fn a_space_a_percent_sign_and_a_newline_are_spelled_in_hex() {
        assert_eq!(escape(b"a b%\n\xff~!"), "a%20b%25%0A%FF~!");
    }

    #[test]
    fn a_second_spelling_of_the_same_bytes_is_refused() {
        for text in ["%41", "%0a", "%0", "a b", "%"] {
            assert_eq!(unescape(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_byte_string_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(unescape(escape(&bytes).as_bytes()), Some(bytes));
        }
    }
}
