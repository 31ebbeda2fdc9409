//! The two signature files of a run, as items of a verification.
//!
//! Must not say more than was checked: without trusted keys a signature shows only that the receipt is what some key signed.

use std::path::Path;

use super::{Item, Parts};
use crate::attest::{
    key::PublicKey,
    signers::AllowedSigners,
    sshsig::SignatureFile,
    statement::PREDICATE_TYPE,
    verify::{Refusal, Trust as Keys, bundle, signature},
};

/// Whose signatures count.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// Nobody was named: the key in the signature file itself is used, and said to be unknown.
    Unasked,
    /// Those of a list.
    Signers {
        /// The list.
        signers: &'a AllowedSigners,
        /// The time at which it must admit a key, Unix seconds.
        now: i64,
    },
    /// Those of one key.
    Key(&'a PublicKey),
}

/// Both files, each against the raw bytes of the receipt.
#[must_use]
pub fn items(parts: &Parts, trust: &Trust<'_>) -> Vec<Item> {
    const NAMES: [&str; 2] = ["signature", "attestation"];
    let Some([sshsig_path, bundle_path]) = &parts.signatures else {
        return NAMES
            .map(|name| Item::absent(name, "there is none"))
            .to_vec();
    };
    let receipt =
        loopexec_os::durable::read_regular(&parts.receipt, loopexec_os::durable::LOG_FILE_BYTES)
            .unwrap_or_default();
    let sshsig_file = file(sshsig_path);
    let bundle_file = file(bundle_path);
    let own_key = sshsig_file
        .as_deref()
        .and_then(|text| SignatureFile::parse(text).ok())
        .map(|parsed| parsed.public_key);
    let (keys, asked) = match (trust, &own_key) {
        (Trust::Signers { signers, now }, _) => (
            Keys::Signers {
                signers,
                wanted: None,
                now: *now,
            },
            true,
        ),
        (Trust::Key(key), _) => (Keys::Key(key), true),
        (Trust::Unasked, Some(key)) => (Keys::Key(key), false),
        (Trust::Unasked, None) => {
            let detail = match (&sshsig_file, &bundle_file) {
                (None, None) => "there is none",
                _ => "its key is not in it; name trusted keys with --trusted",
            };
            return NAMES.map(|name| Item::absent(name, detail)).to_vec();
        }
    };
    let attested = bundle(&receipt, bundle_file.as_deref(), &keys, PREDICATE_TYPE);
    let facts = attested.as_ref().ok().map(|accepted| &accepted.receipt);
    let signed = signature(&receipt, sshsig_file.as_deref(), &keys, facts);
    let signed = signed.map(|accepted| who(accepted.principal.as_deref(), &accepted.key_id, asked));
    let attested = attested.map(|accepted| {
        who(
            accepted.signer.principal.as_deref(),
            &accepted.signer.key_id,
            asked,
        )
    });
    NAMES
        .into_iter()
        .zip([signed, attested])
        .map(|(name, outcome)| item(name, outcome, asked))
        .collect()
}

fn file(path: &Path) -> Option<Vec<u8>> {
    loopexec_os::durable::read_regular(path, loopexec_os::durable::SMALL_FILE_BYTES).ok()
}

fn who(principal: Option<&str>, key_id: &str, asked: bool) -> String {
    match (principal, asked) {
        (Some(principal), _) => format!("by {principal}, {key_id}; time: claimed by signer"),
        (None, true) => format!("by the named key {key_id}; time: claimed by signer"),
        (None, false) => {
            format!(
                "it is by {key_id}, and nobody was named whose key may be trusted (--trusted FILE)"
            )
        }
    }
}

fn item(name: &str, outcome: Result<String, Refusal>, asked: bool) -> Item {
    match outcome {
        Ok(detail) if asked => Item::pass(name, detail),
        // It fits the key that lies in it, which whoever changed the receipt could also have made.
        Ok(detail) => Item::absent(name, format!("present_unverified: {detail}")),
        Err(refusal @ Refusal::Absent { .. }) => Item::absent(name, refusal.to_string()),
        Err(refusal) => Item::fail(name, refusal.cause(), refusal.to_string()),
    }
}
