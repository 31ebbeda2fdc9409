//! The keyed digest that integrations know: HMAC-SHA256 over the run, its head and what was checked.
//!
//! Whoever can verify it can also make it, so it proves nothing to a third party. There is no built-in key: a key that
//! everybody has is none. Where the key comes from, the caller says.

use hmac::{Hmac, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use super::{CanonicalError, canonical, sha256_hex};

/// A digest file is 65 bytes.
pub const DIGEST_FILE_BYTES: usize = 1024;

/// What the digest is over, beside the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The recorded check.
    pub check: Value,
    /// The recorded fingerprint.
    pub fingerprint: Value,
    /// The recorded model pins.
    pub model: Value,
    /// The recorded sampling settings.
    pub sampling: Value,
}

/// Why there is no digest, or it is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum HmacError {
    /// No key.
    #[error("the key is empty; there is no built-in key: give --key or set LOOPEXEC_ATTEST_KEY")]
    EmptyKey,
    /// The values have no canonical form.
    #[error("what was checked cannot be encoded")]
    Canonical(#[from] CanonicalError),
    /// There is no digest file.
    #[error("there is no keyed digest for this run")]
    Absent,
    /// The digest file holds something else.
    #[error("the keyed digest is malformed: {reason}")]
    Malformed {
        /// What is wrong.
        reason: String,
    },
    /// The digest is another one.
    #[error(
        "the keyed digest does not match: the key is another one, or receipt, check, fingerprint, model or sampling changed"
    )]
    Mismatch,
}

/// The lower-case hex digest. `head` is the sha256 hex of the receipt's last line.
///
/// # Errors
/// An empty key, or values without a canonical form.
pub fn digest(
    key: &[u8],
    run_id: &str,
    head: &str,
    checked: &Checked,
) -> Result<String, HmacError> {
    Ok(format!(
        "{:x}",
        keyed(key, run_id, head, checked)?.finalize().into_bytes()
    ))
}

/// Compares in constant time.
///
/// # Errors
/// Absent, malformed, or another digest.
pub fn verify(
    key: &[u8],
    run_id: &str,
    head: &str,
    checked: &Checked,
    file: Option<&[u8]>,
) -> Result<(), HmacError> {
    let expected = parse(file.ok_or(HmacError::Absent)?)?;
    keyed(key, run_id, head, checked)?
        .verify_slice(&expected)
        .map_err(|_| HmacError::Mismatch)
}

fn keyed(
    key: &[u8],
    run_id: &str,
    head: &str,
    checked: &Checked,
) -> Result<Hmac<Sha256>, HmacError> {
    if key.is_empty() {
        return Err(HmacError::EmptyKey);
    }
    let Checked {
        check,
        fingerprint,
        model,
        sampling,
    } = checked;
    let value =
        json!({ "check": check, "fingerprint": fingerprint, "model": model, "sampling": sampling });
    let checked = sha256_hex(&canonical(&value)?);
    // HMAC takes keys of any length; only an empty one is refused, above.
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|_| HmacError::EmptyKey)?;
    mac.update(format!("loopexec-attest-v1\n{run_id}\n{head}\n{checked}\n").as_bytes());
    Ok(mac)
}

fn parse(file: &[u8]) -> Result<[u8; 32], HmacError> {
    let malformed = |reason: &str| HmacError::Malformed {
        reason: reason.into(),
    };
    if file.len() > DIGEST_FILE_BYTES {
        return Err(malformed("it is too long"));
    }
    let mut digest = [0; 32];
    let hex = file.trim_ascii();
    if hex.len() != 2 * digest.len() {
        return Err(malformed("it is not 64 hex digits"));
    }
    for (byte, pair) in digest.iter_mut().zip(hex.chunks(2)) {
        let pair = pair.iter().try_fold(0, |value, digit| {
            Some(value * 16 + char::from(*digit).to_digit(16)?)
        });
        *byte = pair
            .and_then(|value| u8::try_from(value).ok())
            .ok_or_else(|| malformed("it is not 64 hex digits"))?;
    }
    Ok(digest)
}
