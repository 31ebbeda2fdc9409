//! The key that signs and the key that verifies. Ed25519 only: every verifier has it, and its signatures are
//! deterministic.
//!
//! Knows key files and [`super::agent`]; must not know where a person keeps keys, nor what is signed.

use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base64ct::{Base64, Encoding};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use ssh_key::public::{Ed25519PublicKey, KeyData};
use ssh_key::{Algorithm, HashAlg};

use super::agent::{self, AgentError};

/// A key file is a few hundred bytes; anything large is another file.
pub const KEY_FILE_BYTES: u64 = 64 << 10;

/// What an Ed25519 key looks like in a `SubjectPublicKeyInfo`, before its 32 bytes (RFC 8410).
const SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The key file cannot be read.
    #[error("the key file {path} cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The key file is too large to be one.
    #[error("{path} is {found} bytes; a key file has at most {KEY_FILE_BYTES}")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        found: u64,
    },
    /// Others can read the private key.
    #[error(
        "the private key {path} has mode {mode:04o}; others can read it: chmod 600 it, and replace the key if it may be known"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The private key has a passphrase.
    #[error(
        "the private key {path} is encrypted; add it to an SSH agent and name its .pub file instead"
    )]
    Encrypted {
        /// The file.
        path: PathBuf,
    },
    /// Not an Ed25519 key.
    #[error("{what} is a {algorithm} key; only ssh-ed25519 is supported: ssh-keygen -t ed25519")]
    Algorithm {
        /// The file or the text.
        what: String,
        /// What it is.
        algorithm: String,
    },
    /// A key on a security device.
    #[error(
        "{what} is a {algorithm} key on a security device; such signatures also cover a counter, which the bundle's verifiers do not read: use a plain ssh-ed25519 key held by an agent"
    )]
    SecurityDevice {
        /// The file or the text.
        what: String,
        /// What it is.
        algorithm: String,
    },
    /// Neither a private key nor a public key.
    #[error("{what} is no OpenSSH key: {reason}")]
    Malformed {
        /// The file or the text.
        what: String,
        /// What the reader says.
        reason: String,
    },
    /// A public key without an agent cannot sign.
    #[error(
        "{path} is a public key and there is no SSH agent to sign with it; start one and set SSH_AUTH_SOCK, or name the private key"
    )]
    NoAgent {
        /// The file.
        path: PathBuf,
    },
    /// The agent did not sign.
    #[error("the SSH agent did not sign")]
    Agent(#[from] AgentError),
    /// What the agent returned is no signature by the key.
    #[error("the SSH agent returned a signature that its key {key_id} does not verify")]
    BadAgentSignature {
        /// The key that was asked for.
        key_id: String,
    },
}

/// A public key. Equal when the key is, whatever comment stood beside it.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    key: VerifyingKey,
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.key_id())
    }
}

impl PublicKey {
    /// From the key's 32 bytes.
    ///
    /// # Errors
    /// Bytes that are no point of the curve.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, KeyError> {
        let malformed = |source: ed25519_dalek::SignatureError| KeyError::Malformed {
            what: "the public key".into(),
            reason: source.to_string(),
        };
        Ok(Self {
            key: VerifyingKey::from_bytes(bytes).map_err(malformed)?,
        })
    }

    /// From one line of OpenSSH form: `ssh-ed25519 AAAA… comment`. `what` names it in errors.
    ///
    /// # Errors
    /// Another algorithm, or no key.
    pub fn from_openssh(line: &str, what: &str) -> Result<Self, KeyError> {
        let line = line.trim();
        if let Some(algorithm) = line
            .split_ascii_whitespace()
            .next()
            .filter(|word| word.starts_with("sk-"))
        {
            return Err(KeyError::SecurityDevice {
                what: what.into(),
                algorithm: algorithm.into(),
            });
        }
        let key =
            ssh_key::PublicKey::from_openssh(line).map_err(|source| malformed(what, &source))?;
        Self::from_ssh(key.key_data(), what)
    }

    /// From a decoded SSH key. `what` names it in errors.
    ///
    /// # Errors
    /// Another algorithm.
    pub(super) fn from_ssh(key: &KeyData, what: &str) -> Result<Self, KeyError> {
        match key.ed25519() {
            Some(Ed25519PublicKey(bytes)) => Self::from_bytes(bytes),
            None => Err(refused_algorithm(&key.algorithm(), what)),
        }
    }

    /// Whether `signature` over `message` is this key's. Strict: no second encoding of a signature is accepted.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        Signature::from_slice(signature)
            .is_ok_and(|signature| self.key.verify_strict(message, &signature).is_ok())
    }

    /// The fingerprint as `ssh-keygen -l` prints it: `SHA256:…`.
    #[must_use]
    pub fn key_id(&self) -> String {
        self.ssh().fingerprint(HashAlg::Sha256).to_string()
    }

    /// The OpenSSH form, without a comment.
    #[must_use]
    pub fn to_openssh(&self) -> String {
        format!("ssh-ed25519 {}", Base64::encode_string(&self.wire()))
    }

    /// The PEM form that `openssl` and X.509 tools read.
    #[must_use]
    pub fn to_pem(&self) -> String {
        let mut spki = SPKI_PREFIX.to_vec();
        spki.extend_from_slice(self.key.as_bytes());
        format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
            Base64::encode_string(&spki)
        )
    }

    /// The key as the SSH protocols send it.
    pub(super) fn wire(&self) -> Vec<u8> {
        let mut wire = Vec::with_capacity(51);
        for field in [&b"ssh-ed25519"[..], self.key.as_bytes()] {
            agent::put_string(&mut wire, field);
        }
        wire
    }

    pub(super) fn ssh(&self) -> KeyData {
        KeyData::Ed25519(Ed25519PublicKey(*self.key.as_bytes()))
    }
}

fn malformed(what: &str, source: &ssh_key::Error) -> KeyError {
    KeyError::Malformed {
        what: what.into(),
        reason: source.to_string(),
    }
}

fn refused_algorithm(algorithm: &Algorithm, what: &str) -> KeyError {
    let (what, name) = (what.to_owned(), algorithm.to_string());
    if name.starts_with("sk-") {
        KeyError::SecurityDevice {
            what,
            algorithm: name,
        }
    } else {
        KeyError::Algorithm {
            what,
            algorithm: name,
        }
    }
}

/// Something that can sign.
pub enum Signer {
    /// A private key in this process; wiped from memory when dropped.
    Private(SigningKey),
    /// A key that an SSH agent holds.
    Agent {
        /// The agent's Unix socket.
        socket: PathBuf,
        /// Which of its keys.
        public_key: PublicKey,
    },
}

impl fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Private(_) => formatter
                .debug_tuple("Private")
                .field(&self.key_id())
                .finish(),
            Self::Agent { socket, .. } => formatter
                .debug_struct("Agent")
                .field("socket", socket)
                .field("key", &self.key_id())
                .finish(),
        }
    }
}

impl Signer {
    /// From `--key-file`: a private key without passphrase, or a public key whose private half the agent at `agent` holds.
    ///
    /// # Errors
    /// Every variant of [`KeyError`] but the ones of signing itself.
    pub fn from_file(path: &Path, agent: Option<&Path>) -> Result<Self, KeyError> {
        let text = read_key_file(path)?;
        let what = path.display().to_string();
        if !text.starts_with("-----BEGIN") {
            let public_key = PublicKey::from_openssh(&text, &what)?;
            let socket = agent.ok_or_else(|| KeyError::NoAgent { path: path.into() })?;
            return Ok(Self::Agent {
                socket: socket.into(),
                public_key,
            });
        }
        let mode = permissions(path)?;
        if mode & 0o077 != 0 {
            return Err(KeyError::Exposed {
                path: path.into(),
                mode,
            });
        }
        Self::from_private_text(&text, path)
    }

    fn from_private_text(text: &str, path: &Path) -> Result<Self, KeyError> {
        let what = path.display().to_string();
        if !text.starts_with("-----BEGIN OPENSSH PRIVATE KEY-----") {
            let reason = "it is in another format; convert it with ssh-keygen -p -f FILE, or make one with ssh-keygen -t ed25519";
            return Err(KeyError::Malformed {
                what,
                reason: reason.into(),
            });
        }
        let key =
            ssh_key::PrivateKey::from_openssh(text).map_err(|source| malformed(&what, &source))?;
        if key.is_encrypted() {
            return Err(KeyError::Encrypted { path: path.into() });
        }
        match key.key_data().ed25519() {
            Some(pair) => Ok(Self::Private(SigningKey::from_bytes(
                &pair.private.to_bytes(),
            ))),
            None => Err(refused_algorithm(&key.algorithm(), &what)),
        }
    }

    /// Signs the bytes as they are; the forms around them are [`super::sshsig`]'s and [`super::dsse`]'s.
    ///
    /// # Errors
    /// Only an agent can fail.
    pub fn sign(&self, message: &[u8]) -> Result<[u8; 64], KeyError> {
        match self {
            Self::Private(key) => Ok(key.sign(message).to_bytes()),
            Self::Agent { socket, public_key } => {
                let signature = agent::sign(socket, public_key, message)?;
                // An agent is another program: what it returns is checked before it is written anywhere.
                if public_key.verifies(message, &signature) {
                    Ok(signature)
                } else {
                    Err(KeyError::BadAgentSignature {
                        key_id: public_key.key_id(),
                    })
                }
            }
        }
    }

    /// The key that verifies.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        match self {
            Self::Private(key) => PublicKey {
                key: key.verifying_key(),
            },
            Self::Agent { public_key, .. } => public_key.clone(),
        }
    }

    /// The fingerprint of the public key, `SHA256:…`.
    #[must_use]
    pub fn key_id(&self) -> String {
        self.public_key().key_id()
    }
}

fn permissions(path: &Path) -> Result<u32, KeyError> {
    let metadata = fs_err::metadata(path).map_err(|source| KeyError::Read {
        path: path.into(),
        source,
    })?;
    Ok(metadata.permissions().mode() & 0o7777)
}

fn read_key_file(path: &Path) -> Result<String, KeyError> {
    let read = |source| KeyError::Read {
        path: path.into(),
        source,
    };
    let size = fs_err::metadata(path).map_err(read)?.len();
    if size > KEY_FILE_BYTES {
        return Err(KeyError::TooLarge {
            path: path.into(),
            found: size,
        });
    }
    fs_err::read_to_string(path).map_err(read)
}
