//! The signed summary of a replay: what another party found to hold, with that party's own key.
//!
//! Must not claim what was not looked at.

use std::path::{Path, PathBuf};

use loopexec_core::state::RunState;

use super::{facts, key, predicate::candidate, write};
use crate::{
    attest::{
        bundle,
        svr::{Property, Verification, statement},
    },
    attesting::KeySource,
    failure::{Failure, chain},
    replay::{Answer, Level, Replay},
};

/// What a summary is made of.
#[derive(Debug)]
pub struct Summary<'a> {
    /// The replay; only a verified one is summarised.
    pub replay: &'a Replay,
    /// The receipt itself.
    pub receipt: &'a Path,
    /// The fold of its receipt, which verified.
    pub state: &'a RunState,
    /// Whether a trusted key had signed the receipt.
    pub signed: bool,
    /// The verifier's key.
    pub key: &'a KeySource,
    /// URI of the verifier with its version.
    pub verifier: String,
    /// When, in RFC 3339 form.
    pub time_created: String,
    /// Where to write it.
    pub file: &'a Path,
}

/// Signs and writes the summary; gives the key's fingerprint, and the identity that was made for it.
///
/// # Errors
///
/// The replay is not verified, the key cannot be used, or the file cannot be written.
pub fn summarise(summary: &Summary<'_>) -> Result<(String, Option<PathBuf>), Failure> {
    let replay = summary.replay;
    if replay.answer != Answer::Verified {
        return Err(Failure::unverified(
            "not_verified",
            format!("a replay that is {} is not attested", replay.answer.name()),
        ));
    }
    let receipt =
        loopexec_os::durable::read_regular(summary.receipt, loopexec_os::durable::LOG_FILE_BYTES)
            .map_err(|error| Failure::workspace(error.to_string()).because("receipt_unreadable"))?;
    let facts = facts(&receipt)?;
    let same_bytes =
        |compared: &crate::replay::Compared| compared.level == Level::Output && compared.equal;
    let held = [
        (Property::ReceiptConsistent, true),
        (Property::ReceiptSigned, summary.signed),
        (Property::CandidateMatches, replay.content == "as_recorded"),
        (Property::CheckReproduced, true),
        (
            Property::OutputReproduced,
            replay.levels.iter().any(same_bytes),
        ),
    ];
    let verification = Verification {
        receipt_name: format!("run-{}.jsonl", replay.run_id),
        receipt: facts,
        candidate: candidate(summary.state),
        verifier_id: summary.verifier.clone(),
        policy_hash: summary.state.run.policy_hash.to_string(),
        time_created: summary.time_created.clone(),
        properties: held
            .into_iter()
            .filter_map(|(property, held)| held.then_some(property))
            .collect(),
    };
    let key = key(summary.key)?;
    let signed = bundle::sign(&key.signer, &statement(&verification)).map_err(|error| {
        Failure::workspace(format!("the summary was not signed: {}", chain(&error)))
            .because("key_unusable")
    })?;
    write(summary.file, signed.as_bytes())?;
    Ok((key.signer.key_id(), key.created))
}
