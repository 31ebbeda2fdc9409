//! SSH signatures over a receipt, as `ssh-keygen -Y sign` and `-Y verify` make and read them.
//!
//! Only the form: who is trusted is [`super::signers`]' business, what is signed is the caller's.

use ssh_key::{Algorithm, HashAlg, LineEnding, Signature, SshSig};

use super::NAMESPACE;
use super::key::{KeyError, PublicKey, Signer};

/// A signature file is some 300 bytes.
pub const SIGNATURE_FILE_BYTES: usize = 16 << 10;

/// Why there is no signature.
#[derive(Debug, thiserror::Error)]
pub enum SshSigError {
    /// The key did not sign.
    #[error("the receipt was not signed")]
    Key(#[from] KeyError),
    /// The signature has no form.
    #[error("the SSH signature cannot be encoded")]
    Encode(#[from] ssh_key::Error),
}

/// Signs a message in the namespace of receipts. The result is the text of a `.sig` file.
///
/// # Errors
/// The key did not sign.
pub fn sign(signer: &Signer, message: &[u8]) -> Result<String, SshSigError> {
    let signature = signer.sign(&SshSig::signed_data(NAMESPACE, HashAlg::Sha512, message)?)?;
    let signature = Signature::new(Algorithm::Ed25519, signature.to_vec())?;
    Ok(SshSig::new(
        signer.public_key().ssh(),
        NAMESPACE,
        HashAlg::Sha512,
        signature,
    )?
    .to_pem(LineEnding::LF)?)
}

/// A signature file that was read.
#[derive(Debug)]
pub struct SignatureFile {
    signature: SshSig,
    /// The key that the file says it is by. Being named here makes it no trusted key.
    pub public_key: PublicKey,
}

impl SignatureFile {
    /// Reads a `.sig` file.
    ///
    /// # Errors
    /// The reason as text: too large, no SSH signature, another namespace, another kind of key.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        if text.len() > SIGNATURE_FILE_BYTES {
            return Err(format!(
                "it is {} bytes, more than {SIGNATURE_FILE_BYTES}",
                text.len()
            ));
        }
        // What follows the last line is no part of the form, but editors and shells add newlines.
        let signature = SshSig::from_pem(text.trim_ascii()).map_err(|source| source.to_string())?;
        if signature.namespace() != NAMESPACE {
            return Err(format!(
                "it is a signature for {:?}, not for {NAMESPACE:?}",
                signature.namespace()
            ));
        }
        let public_key = PublicKey::from_ssh(signature.public_key(), "its key")
            .map_err(|source| source.to_string())?;
        Ok(Self {
            signature,
            public_key,
        })
    }

    /// Whether this is a signature of the message by [`SignatureFile::public_key`].
    #[must_use]
    pub fn is_of(&self, message: &[u8]) -> bool {
        SshSig::signed_data(NAMESPACE, self.signature.hash_alg(), message).is_ok_and(|signed| {
            self.public_key
                .verifies(&signed, self.signature.signature_bytes())
        })
    }
}
