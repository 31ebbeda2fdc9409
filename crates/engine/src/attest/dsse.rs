//! DSSE: a payload with its type, signed together.
//!
//! What is signed is never the JSON around it, so no reader has to agree on white space.

use base64ct::{Base64, Encoding};
use serde::{Deserialize, Serialize};

use super::key::{KeyError, PublicKey, Signer};

/// The type of in-toto statements.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// The bytes that are signed: type and body with their lengths, so that neither can run into the other.
#[must_use]
pub fn pre_authentication_encoding(payload_type: &str, body: &[u8]) -> Vec<u8> {
    let mut encoded = format!(
        "DSSEv1 {} {payload_type} {} ",
        payload_type.len(),
        body.len()
    )
    .into_bytes();
    encoded.extend_from_slice(body);
    encoded
}

/// An envelope as it stands in a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// The body in base64.
    pub payload: String,
    /// The body's type.
    pub payload_type: String,
    /// One or more signatures.
    pub signatures: Vec<EnvelopeSignature>,
}

/// One signature of an envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvelopeSignature {
    /// The key's fingerprint: a hint, never a proof.
    #[serde(default)]
    pub keyid: String,
    /// The signature in base64.
    pub sig: String,
}

impl Envelope {
    /// Signs a body.
    ///
    /// # Errors
    /// The key did not sign.
    pub fn sign(signer: &Signer, payload_type: &str, body: &[u8]) -> Result<Self, KeyError> {
        let signature = signer.sign(&pre_authentication_encoding(payload_type, body))?;
        Ok(Self {
            payload: Base64::encode_string(body),
            payload_type: payload_type.to_owned(),
            signatures: vec![EnvelopeSignature {
                keyid: signer.key_id(),
                sig: Base64::encode_string(&signature),
            }],
        })
    }

    /// The body.
    ///
    /// # Errors
    /// The reason as text: the payload is no base64.
    pub fn body(&self) -> Result<Vec<u8>, String> {
        Base64::decode_vec(&self.payload)
            .map_err(|source| format!("its payload is no base64: {source}"))
    }

    /// Whether one of the signatures over `body` is by the key.
    #[must_use]
    pub fn is_signed_by(&self, key: &PublicKey, body: &[u8]) -> bool {
        let signed = pre_authentication_encoding(&self.payload_type, body);
        self.signatures
            .iter()
            .filter_map(|signature| Base64::decode_vec(&signature.sig).ok())
            .any(|signature| key.verifies(&signed, &signature))
    }
}
