//! The Sigstore bundle, version 0.3, around one DSSE envelope.
//!
//! It names its key by a hint and has neither certificate nor log entry: the time in it is the signer's claim.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::dsse::{Envelope, PAYLOAD_TYPE};
use super::key::{KeyError, Signer};
use super::{CanonicalError, canonical};

/// The media type of version 0.3.
pub const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// A bundle holds ids of tests, not output; a hundred thousand of them fit.
pub const BUNDLE_BYTES: usize = 16 << 20;

/// More signatures than this is no bundle of ours, and each costs a verification.
const SIGNATURES: usize = 16;

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The key did not sign.
    #[error("the statement was not signed")]
    Key(#[from] KeyError),
    /// The statement has no canonical form.
    #[error("the statement cannot be encoded")]
    Canonical(#[from] CanonicalError),
    /// The bundle has no JSON form.
    #[error("the bundle cannot be encoded")]
    Encode(#[from] serde_json::Error),
}

/// A bundle as it stands in its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bundle {
    /// [`MEDIA_TYPE`].
    pub media_type: String,
    /// Which key verifies.
    pub verification_material: VerificationMaterial,
    /// What is signed.
    pub dsse_envelope: Envelope,
}

/// Which key verifies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerificationMaterial {
    /// The key, which the verifier has from elsewhere.
    pub public_key: PublicKeyHint,
    /// Entries of a transparency log: none. Readers of the format want the member.
    #[serde(default)]
    pub tlog_entries: Vec<Value>,
}

/// How to find the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicKeyHint {
    /// The key's fingerprint.
    pub hint: String,
}

/// Signs a statement. The result is the text of a `.sigstore.json` file, in one line with a newline.
///
/// # Errors
/// The key did not sign, or the statement has no canonical form.
pub fn sign(signer: &Signer, statement: &Value) -> Result<String, BundleError> {
    let bundle = Bundle {
        media_type: MEDIA_TYPE.to_owned(),
        verification_material: VerificationMaterial {
            public_key: PublicKeyHint {
                hint: signer.key_id(),
            },
            tlog_entries: Vec::new(),
        },
        dsse_envelope: Envelope::sign(signer, PAYLOAD_TYPE, &canonical(statement)?)?,
    };
    let mut text = serde_json::to_string(&bundle)?;
    text.push('\n');
    Ok(text)
}

impl Bundle {
    /// Reads a bundle file.
    ///
    /// # Errors
    /// The reason as text: too large, no bundle of version 0.3, another payload type, no or too many signatures.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        if text.len() > BUNDLE_BYTES {
            return Err(format!(
                "it is {} bytes, more than {BUNDLE_BYTES}",
                text.len()
            ));
        }
        let bundle: Self = serde_json::from_slice(text).map_err(|source| source.to_string())?;
        if bundle.media_type != MEDIA_TYPE {
            return Err(format!(
                "its media type is {:?}, not {MEDIA_TYPE:?}",
                bundle.media_type
            ));
        }
        if bundle.dsse_envelope.payload_type != PAYLOAD_TYPE {
            return Err(format!(
                "its payload type is {:?}, not {PAYLOAD_TYPE:?}",
                bundle.dsse_envelope.payload_type
            ));
        }
        let signatures = bundle.dsse_envelope.signatures.len();
        if !(1..=SIGNATURES).contains(&signatures) {
            return Err(format!(
                "it has {signatures} signatures, not 1 to {SIGNATURES}"
            ));
        }
        Ok(bundle)
    }
}
