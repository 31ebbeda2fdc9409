//! The statement of a replay: another party ran the recorded check again, and signs what held with its own key.
//!
//! It lists only what was verified; the predicate has no place for what was not. The time is given by the caller.

use serde_json::{Value, json};

use super::receipt::ReceiptFacts;
use super::statement::{Candidate, STATEMENT_TYPE, candidate_subject, receipt_subject};

/// The type of the predicate: a simple verification result.
pub const PREDICATE_TYPE: &str = "https://in-toto.io/attestation/svr/v0.2";

/// Something that a verifier found to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// The receipt's chain, fold and decisions are consistent.
    ReceiptConsistent,
    /// The receipt's signature is by a trusted key.
    ReceiptSigned,
    /// The candidate's content is what the receipt accepted.
    CandidateMatches,
    /// The check was run again with the same verdict.
    CheckReproduced,
    /// The check was run again with the same bytes.
    OutputReproduced,
}

impl Property {
    /// Scoped, as the predicate's type asks for.
    fn word(self) -> &'static str {
        match self {
            Self::ReceiptConsistent => "LOOPEXEC_RECEIPT_CONSISTENT",
            Self::ReceiptSigned => "LOOPEXEC_RECEIPT_SIGNED",
            Self::CandidateMatches => "LOOPEXEC_CANDIDATE_MATCHES",
            Self::CheckReproduced => "LOOPEXEC_CHECK_REPRODUCED",
            Self::OutputReproduced => "LOOPEXEC_OUTPUT_REPRODUCED",
        }
    }
}

/// Everything that the statement says.
#[derive(Clone, Debug, PartialEq)]
pub struct Verification {
    /// The receipt's name.
    pub receipt_name: String,
    /// The receipt's facts.
    pub receipt: ReceiptFacts,
    /// The candidate that was checked again, when there was one.
    pub candidate: Option<Candidate>,
    /// URI of the verifier with its version.
    pub verifier_id: String,
    /// sha256 hex of the recorded policy.
    pub policy_hash: String,
    /// When, in RFC 3339 form.
    pub time_created: String,
    /// What held.
    pub properties: Vec<Property>,
}

/// Makes the statement; properties are sorted, each once.
#[must_use]
pub fn statement(verification: &Verification) -> Value {
    let mut subjects = vec![receipt_subject(
        &verification.receipt_name,
        &verification.receipt,
    )];
    subjects.extend(verification.candidate.as_ref().map(candidate_subject));
    let mut properties = verification.properties.clone();
    properties.sort();
    properties.dedup();
    let properties: Vec<&str> = properties.into_iter().map(Property::word).collect();
    json!({
        "_type": STATEMENT_TYPE,
        "subject": subjects,
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "verifier": {
                "id": verification.verifier_id,
                "policies": [{ "name": "policy", "digest": { "sha256": verification.policy_hash } }],
            },
            "timeCreated": verification.time_created,
            "properties": properties,
            "loopexec": { "run_id": verification.receipt.run_id, "receipt": verification.receipt },
        },
    })
}
