//! Checks the signatures of a run against keys that somebody trusts.
//!
//! Must not trust a key because it stands in the file that it signed.

use std::path::{Path, PathBuf};

use super::{facts, hashed};
use crate::{
    attest::{
        hmac_form::{self, HmacError},
        key::{KEY_FILE_BYTES, PublicKey, Signer},
    },
    failure::{Failure, chain},
    layout::Layout,
    recorded,
    verify::{Item, Parts, Status, Trust, signature_items},
};

/// Whose signatures count.
#[derive(Debug)]
pub enum Against<'a> {
    /// Those of keys.
    Keys(Trust<'a>),
    /// The keyed digest with this secret.
    Secret(&'a [u8]),
}

/// What a check of the signatures found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The run.
    pub run_id: String,
    /// Its receipt.
    pub receipt: PathBuf,
    /// Each file.
    pub items: Vec<Item>,
}

impl Checked {
    /// Whether there is a signature and none fails.
    #[must_use]
    pub fn verified(&self) -> bool {
        let any = |wanted: Status| self.items.iter().any(|item| item.status == wanted);
        any(Status::Pass) && !any(Status::Fail)
    }

    /// The first failure's public cause; `absent` when there is nothing to check.
    #[must_use]
    pub fn cause(&self) -> &str {
        self.items
            .iter()
            .find_map(|item| item.cause.as_deref())
            .unwrap_or("absent")
    }
}

/// Checks the signatures of a recorded run.
///
/// # Errors
///
/// When there is no such run.
pub fn check(
    layout: &Layout,
    run_id: Option<&str>,
    against: &Against<'_>,
) -> Result<Checked, Failure> {
    let run_id = recorded::run_id(layout, run_id)?;
    let parts = Parts::of(layout, &run_id);
    if fs_err::symlink_metadata(&parts.receipt).is_err() {
        return Err(Failure::workspace(format!(
            "there is no receipt of the run {run_id:?} at {}",
            parts.receipt.display()
        ))
        .because("run_not_found"));
    }
    let items = match against {
        Against::Keys(trust) => signature_items(&parts, trust),
        Against::Secret(secret) => vec![keyed(layout, &run_id, secret)?],
    };
    Ok(Checked {
        run_id,
        receipt: parts.receipt,
        items,
    })
}

/// The keyed digest.
fn keyed(layout: &Layout, run_id: &str, secret: &[u8]) -> Result<Item, Failure> {
    const NAME: &str = "keyed digest";
    let recorded = recorded::load(layout, Some(run_id))?;
    if let Some(flaw) = recorded.log.as_ref().and_then(|log| log.flaw.as_ref()) {
        // The secret covers the last line, which names the one before it, and so on: only a whole chain is covered.
        let detail = format!(
            "the receipt makes sense up to byte {}: {}",
            flaw.offset, flaw.why
        );
        return Ok(Item::fail(NAME, flaw.cause, detail));
    }
    let [_, _, path] = layout.signatures(run_id);
    let file =
        loopexec_os::durable::read_regular(&path, loopexec_os::durable::SMALL_FILE_BYTES).ok();
    let receipt =
        loopexec_os::durable::read_regular(&recorded.receipt, loopexec_os::durable::LOG_FILE_BYTES)
            .unwrap_or_default();
    let head = match facts(&receipt) {
        Ok(facts) if facts.run_id != run_id => {
            let detail = format!("the receipt is of the run {:?}", facts.run_id);
            return Ok(Item::fail(NAME, "wrong_run", detail));
        }
        Ok(facts) => facts.head,
        Err(failure) => return Ok(Item::fail(NAME, "truncated", failure.message)),
    };
    let outcome = hmac_form::verify(
        secret,
        run_id,
        &head,
        &hashed(&recorded.view),
        file.as_deref(),
    );
    Ok(match outcome {
        Ok(()) => Item::pass(
            NAME,
            "made with this secret; whoever can check it can also make it",
        ),
        Err(HmacError::Absent) => Item::absent(NAME, "there is none"),
        Err(error @ (HmacError::Malformed { .. } | HmacError::Mismatch)) => {
            Item::fail(NAME, "signature_mismatch", error.to_string())
        }
        Err(error @ (HmacError::EmptyKey | HmacError::Canonical(_))) => {
            return Err(Failure::workspace(chain(&error)).because("key_missing"));
        }
    })
}

/// The public half of a key file, private or public.
///
/// # Errors
///
/// When it is no usable key.
pub fn public_key(path: &Path) -> Result<PublicKey, Failure> {
    let unusable = |why: String| {
        Failure::workspace(format!("the key cannot be used: {why}")).because("key_unusable")
    };
    let size = fs_err::metadata(path)
        .map_err(|error| unusable(error.to_string()))?
        .len();
    if size > KEY_FILE_BYTES {
        return Err(unusable(format!(
            "{} is {size} bytes; a key file has at most {KEY_FILE_BYTES}",
            path.display()
        )));
    }
    let text = fs_err::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
    if text.starts_with("-----BEGIN") {
        return Signer::from_file(path, None)
            .map(|signer| signer.public_key())
            .map_err(|error| unusable(chain(&error)));
    }
    PublicKey::from_openssh(&text, &path.display().to_string())
        .map_err(|error| unusable(chain(&error)))
}
