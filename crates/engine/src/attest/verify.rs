//! Checks signatures against a receipt and says *why* one is refused.
//!
//! Runs nothing and reads no file. The order is: is the form right, is the key trusted, is the signature the key's, is
//! it of this receipt, and if not, how does the receipt differ.

use serde::Deserialize;
use serde_json::Value;

use super::bundle::Bundle;
use super::key::PublicKey;
use super::receipt::{ReceiptError, ReceiptFacts, sealed_beginnings};
use super::sha256_hex;
use super::signers::{AllowedSigners, NotAdmitted};
use super::sshsig::SignatureFile;
use super::statement::STATEMENT_TYPE;

/// How many resumes back a stale signature is looked for; each costs one pass over the receipt.
const BEGINNINGS: usize = 16;

/// Whose signatures are accepted.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// Those of a list, at a time in Unix seconds, of one identity or of anyone.
    Signers {
        /// The list.
        signers: &'a AllowedSigners,
        /// The identity that is asked for.
        wanted: Option<&'a str>,
        /// The time at which the list must admit the key.
        now: i64,
    },
    /// Those of one key.
    Key(&'a PublicKey),
}

/// Which file is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedFile {
    /// `run-<id>.jsonl.sig`.
    Signature,
    /// `run-<id>.sigstore.json`.
    Bundle,
}

impl std::fmt::Display for SignedFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Signature => "signature",
            Self::Bundle => "attestation bundle",
        })
    }
}

/// Why a file is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is none.
    #[error("there is no {file} for this run")]
    Absent {
        /// Which file.
        file: SignedFile,
    },
    /// It cannot be read as what it should be.
    #[error("the {file} is malformed: {reason}")]
    Malformed {
        /// Which file.
        file: SignedFile,
        /// What is wrong.
        reason: String,
    },
    /// It is by a key that is not trusted.
    #[error("the {file} is by {found}, which is not trusted: {reason}")]
    WrongKey {
        /// Which file.
        file: SignedFile,
        /// The fingerprint it names.
        found: String,
        /// Why it is not trusted.
        reason: String,
    },
    /// The bundle's own signature does not fit its statement.
    #[error("the statement in the bundle was changed after {found} signed it")]
    ChangedStatement {
        /// The key's fingerprint.
        found: String,
    },
    /// The receipt is not what was signed.
    #[error("the receipt was changed after it was signed")]
    ChangedReceipt,
    /// The receipt ends before its end.
    #[error("the receipt is shorter than when it was signed: {reason}")]
    Truncated {
        /// How that is seen.
        reason: String,
    },
    /// The run went on after it was signed.
    #[error(
        "the receipt was resumed after it was signed; the first {signed_bytes} bytes still match: attest it again"
    )]
    Stale {
        /// How much of it was signed.
        signed_bytes: u64,
    },
    /// The signed receipt is of another run.
    #[error(
        "what was signed is run {signed} and the receipt is run {found}, or another run of that id"
    )]
    WrongRun {
        /// The run in the statement.
        signed: String,
        /// The run in the receipt.
        found: String,
    },
}

impl Refusal {
    /// The cause as receipts and envelopes name it. A missing file is no failure but `absent`.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        match self {
            Self::Absent { .. } => "absent",
            Self::Malformed { .. }
            | Self::WrongKey { .. }
            | Self::ChangedStatement { .. }
            | Self::ChangedReceipt => "signature_mismatch",
            Self::Truncated { .. } => "truncated",
            Self::Stale { .. } => "stale_signature",
            Self::WrongRun { .. } => "wrong_run",
        }
    }
}

/// A signature that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The principals of the list, when there was one.
    pub principal: Option<String>,
    /// The key's fingerprint.
    pub key_id: String,
}

/// A bundle that holds.
#[derive(Clone, Debug, PartialEq)]
pub struct AcceptedBundle {
    /// Who signed it.
    pub signer: Accepted,
    /// The signed statement.
    pub statement: Value,
    /// What it says of the receipt.
    pub receipt: ReceiptFacts,
}

/// Checks a `.sig` file. `signed` are the facts of an accepted bundle, which help to say how a receipt differs.
///
/// # Errors
/// See [`Refusal`].
pub fn signature(
    receipt: &[u8],
    file: Option<&[u8]>,
    trust: &Trust<'_>,
    signed: Option<&ReceiptFacts>,
) -> Result<Accepted, Refusal> {
    let which = SignedFile::Signature;
    let text = file.ok_or(Refusal::Absent { file: which })?;
    let parsed = SignatureFile::parse(text).map_err(|reason| Refusal::Malformed {
        file: which,
        reason,
    })?;
    let accepted = trust.admit(&parsed.public_key, which)?;
    if parsed.is_of(receipt) {
        Ok(accepted)
    } else {
        Err(difference(receipt, signed, |beginning| {
            parsed.is_of(beginning)
        }))
    }
}

/// Checks a bundle: its signature, the type of its predicate, and that its first subject is this receipt.
///
/// `predicate_type` is [`super::statement::PREDICATE_TYPE`] for a run and [`super::svr::PREDICATE_TYPE`] for a replay:
/// the one must never pass for the other.
///
/// # Errors
/// See [`Refusal`].
pub fn bundle(
    receipt: &[u8],
    file: Option<&[u8]>,
    trust: &Trust<'_>,
    predicate_type: &str,
) -> Result<AcceptedBundle, Refusal> {
    let which = SignedFile::Bundle;
    let text = file.ok_or(Refusal::Absent { file: which })?;
    let malformed = |reason| Refusal::Malformed {
        file: which,
        reason,
    };
    let parsed = Bundle::parse(text).map_err(malformed)?;
    let body = parsed.dsse_envelope.body().map_err(malformed)?;
    let signer = trust.signer_of(&parsed, &body)?;
    // Only now, because what nobody trusted signed is not worth reading.
    let statement: Value =
        serde_json::from_slice(&body).map_err(|source| malformed(source.to_string()))?;
    let (subject, signed) = signed_receipt(&statement, predicate_type).map_err(malformed)?;
    if sha256_hex(receipt) == subject {
        Ok(AcceptedBundle {
            signer,
            statement,
            receipt: signed,
        })
    } else {
        Err(difference(receipt, Some(&signed), |beginning| {
            sha256_hex(beginning) == subject
        }))
    }
}

impl Trust<'_> {
    fn admit(&self, key: &PublicKey, file: SignedFile) -> Result<Accepted, Refusal> {
        let refused = |reason: String| Refusal::WrongKey {
            file,
            found: key.key_id(),
            reason,
        };
        match self {
            Self::Key(trusted) if *trusted == key => Ok(Accepted {
                principal: None,
                key_id: key.key_id(),
            }),
            Self::Key(trusted) => Err(refused(format!("the trusted key is {}", trusted.key_id()))),
            Self::Signers {
                signers,
                wanted,
                now,
            } => match signers.admit(key, *wanted, *now) {
                Ok(admitted) => Ok(Accepted {
                    principal: Some(admitted.principal),
                    key_id: key.key_id(),
                }),
                Err(reason) => Err(refused(reason.to_string())),
            },
        }
    }

    /// A bundle only hints at its key. With one trusted key the hint tells a wrong key from a changed statement; with a
    /// list, every key of it is tried.
    fn signer_of(&self, bundle: &Bundle, body: &[u8]) -> Result<Accepted, Refusal> {
        let file = SignedFile::Bundle;
        let found = bundle.verification_material.public_key.hint.clone();
        let keys: Vec<&PublicKey> = match self {
            Self::Key(key) => vec![*key],
            Self::Signers { signers, .. } => signers.keys().collect(),
        };
        if let Some(key) = keys
            .iter()
            .find(|key| bundle.dsse_envelope.is_signed_by(key, body))
        {
            return self.admit(key, file);
        }
        if keys.iter().any(|key| key.key_id() == found) {
            return Err(Refusal::ChangedStatement { found });
        }
        let reason = match self {
            Self::Key(key) => format!("the trusted key is {}", key.key_id()),
            Self::Signers { .. } => NotAdmitted::UnknownKey.to_string(),
        };
        Err(Refusal::WrongKey {
            file,
            found,
            reason,
        })
    }
}

/// The part of a statement that names the receipt.
#[derive(Deserialize)]
struct SignedStatement {
    #[serde(rename = "_type")]
    statement_type: String,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    subject: Vec<Subject>,
    predicate: Predicate,
}

#[derive(Deserialize)]
struct Subject {
    digest: Digests,
}

#[derive(Deserialize)]
struct Digests {
    #[serde(default)]
    sha256: String,
}

#[derive(Deserialize)]
struct Predicate {
    loopexec: OwnMember,
}

#[derive(Deserialize)]
struct OwnMember {
    receipt: ReceiptFacts,
}

/// The digest of the first subject and the facts beside it, which must be of the same receipt.
fn signed_receipt(
    statement: &Value,
    predicate_type: &str,
) -> Result<(String, ReceiptFacts), String> {
    let signed = SignedStatement::deserialize(statement)
        .map_err(|source| format!("its statement: {source}"))?;
    if signed.statement_type != STATEMENT_TYPE || signed.predicate_type != predicate_type {
        return Err(format!(
            "its statement is a {}, not a {predicate_type}",
            signed.predicate_type
        ));
    }
    let facts = signed.predicate.loopexec.receipt;
    match signed.subject.into_iter().next() {
        Some(subject) if subject.digest.sha256 == facts.sha256 => {
            Ok((subject.digest.sha256, facts))
        }
        Some(_) => Err("its first subject is not the receipt that it describes".into()),
        None => Err("its statement has no subject".into()),
    }
}

/// How a receipt differs from what was signed.
fn difference(
    receipt: &[u8],
    signed: Option<&ReceiptFacts>,
    is_signed: impl Fn(&[u8]) -> bool,
) -> Refusal {
    let found = match ReceiptFacts::of(receipt) {
        Ok(found) => found,
        Err(reason @ (ReceiptError::Empty | ReceiptError::Cut)) => {
            return Refusal::Truncated {
                reason: reason.to_string(),
            };
        }
        Err(ReceiptError::NoRecord { .. }) => return Refusal::ChangedReceipt,
    };
    if let Some(beginning) =
        sealed_beginnings(receipt, BEGINNINGS).find(|beginning| is_signed(beginning))
    {
        return Refusal::Stale {
            signed_bytes: beginning.len() as u64,
        };
    }
    if let Some(signed) = signed {
        // An edit of the first line leaves the last one; another run of the same id differs in both.
        let other_run = signed.first_sha256 != found.first_sha256 && signed.head != found.head;
        if signed.run_id != found.run_id || other_run {
            return Refusal::WrongRun {
                signed: signed.run_id.clone(),
                found: found.run_id,
            };
        }
        if found.records < signed.records {
            let reason = format!("it has {} of {} records", found.records, signed.records);
            return Refusal::Truncated { reason };
        }
    }
    if found.is_sealed() {
        Refusal::ChangedReceipt
    } else {
        Refusal::Truncated {
            reason: format!("its last record is {:?}, not \"halt\"", found.last_event),
        }
    }
}
