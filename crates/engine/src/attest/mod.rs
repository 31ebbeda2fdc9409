//! Signatures that a third party can check with a public key and tools it already has.
//!
//! One Ed25519 key makes two files: an SSH signature over the raw receipt ([`sshsig`]), and a Sigstore bundle ([`dsse`],
//! [`bundle`]) with an in-toto statement about the run ([`statement`]). A keyed digest for integrations stays beside
//! them ([`hmac_form`]), and a replay can be attested by its own verifier ([`svr`]). [`verify`] answers with a cause.
//!
//! This module must not know the loop: it reads a receipt as lines of JSON and takes every fact, path, time and secret
//! from its caller.

pub mod agent;
pub mod bundle;
pub mod dsse;
pub mod hmac_form;
pub mod identity;
pub mod key;
pub mod receipt;
pub mod signers;
pub mod sshsig;
pub mod statement;
pub mod svr;
pub mod verify;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The SSH signature namespace: a signature made for anything else is no signature of a receipt.
pub const NAMESPACE: &str = "receipt@loopexec.dev";

/// A value has no canonical form.
#[derive(Debug, thiserror::Error)]
#[error("the value has no RFC 8785 form")]
pub struct CanonicalError(#[from] serde_json::Error);

/// The RFC 8785 form of a JSON value: the bytes that are hashed or signed.
///
/// # Errors
/// A number that is not finite; JSON text cannot hold one, so only a value made in the program can fail.
pub fn canonical(value: &Value) -> Result<Vec<u8>, CanonicalError> {
    Ok(serde_json_canonicalizer::to_vec(value)?)
}

/// Lower-case hex sha256.
fn sha256_hex(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

#[cfg(test)]
mod tests;
