//! Signs recorded runs and checks their signatures: takes what the receipt shows to the forms of [`crate::attest`].
//!
//! Must not sign what does not verify, and must not say more than was checked.

mod check;
mod predicate;
mod summary;

use std::path::{Path, PathBuf};

use loopexec_core::{digest::Digest, state::RunState, workspace::ActName};
use loopexec_os::durable::{SyncMode, replace_file};

pub use check::{Against, Checked, check, public_key};
pub use predicate::earlier_runs;
pub use summary::{Summary, summarise};

use crate::{
    attest::{
        bundle,
        hmac_form::{self, Checked as Hashed},
        identity::load_or_create,
        key::Signer,
        receipt::ReceiptFacts,
        sshsig, statement,
    },
    failure::{Failure, chain},
    layout::Layout,
    log::{NewAct, WorkspaceLog},
    recorded,
    snapshot::StateView,
    verify::{Parts, Status, Trust, Verification, verify},
};

/// Mode of a signature: it is made to be shown.
const PUBLIC_FILE: u32 = 0o644;
/// The comment of an identity that is made.
const IDENTITY_COMMENT: &str = "loopexec identity";

/// Where the signing key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A private key, or a public one whose private half the agent at this socket holds.
    File {
        /// The key file.
        path: PathBuf,
        /// The agent's socket.
        agent: Option<PathBuf>,
    },
    /// The identity at this path, made on first use.
    Identity(PathBuf),
}

/// What to sign with.
#[derive(Debug)]
pub struct AttestConfig<'a> {
    /// The workspace.
    pub layout: &'a Layout,
    /// The run; the latest by default.
    pub run_id: Option<&'a str>,
    /// The key of the two public forms; `None` leaves them out.
    pub key: Option<&'a KeySource>,
    /// The secret of the keyed digest; `None` leaves it out.
    pub secret: Option<&'a [u8]>,
}

/// What was signed.
#[derive(Clone, Debug)]
pub struct Attested {
    /// The run.
    pub run_id: String,
    /// Its receipt.
    pub receipt: PathBuf,
    /// The signature, or the keyed digest.
    pub signature: String,
    /// Each file that was written.
    pub files: Vec<PathBuf>,
    /// Fingerprint of the key, for the public forms.
    pub key_id: Option<String>,
    /// The public key in OpenSSH form, for the public forms.
    pub public_key: Option<String>,
    /// The identity that was made for this, if one was.
    pub created: Option<PathBuf>,
}

/// A signing key, and where it was made if it was.
#[derive(Debug)]
pub struct Key {
    /// The key.
    pub signer: Signer,
    /// The file that was made on first use.
    pub created: Option<PathBuf>,
}

/// Loads the key, or makes the identity.
///
/// # Errors
///
/// When it cannot be used.
pub fn key(source: &KeySource) -> Result<Key, Failure> {
    let unusable = |why: String| {
        Failure::workspace(format!("the signing key cannot be used: {why}"))
            .because("key_unusable")
            .hint("name an Ed25519 key in OpenSSH form with --key-file")
    };
    match source {
        KeySource::File { path, agent } => Signer::from_file(path, agent.as_deref())
            .map(|signer| Key {
                signer,
                created: None,
            })
            .map_err(|error| unusable(chain(&error))),
        KeySource::Identity(path) => load_or_create(path, IDENTITY_COMMENT)
            .map(|identity| Key {
                created: identity.created.then(|| path.clone()),
                signer: identity.signer,
            })
            .map_err(|error| unusable(chain(&error))),
    }
}

/// Signs a recorded run that has ended.
///
/// # Errors
///
/// The run has not ended, its receipt does not verify, the key cannot be used, or a file cannot be written.
pub fn attest(config: &AttestConfig<'_>) -> Result<Attested, Failure> {
    let run_id = recorded::run_id(config.layout, config.run_id)?;
    let parts = Parts::of(config.layout, &run_id);
    let verification = verify(&parts, None, &Trust::Unasked)?;
    let state = sound(&verification)?;
    let receipt =
        loopexec_os::durable::read_regular(&parts.receipt, loopexec_os::durable::LOG_FILE_BYTES)
            .map_err(|error| Failure::workspace(error.to_string()).because("receipt_unreadable"))?;
    let facts = facts(&receipt)?;
    if !facts.is_sealed() {
        return Err(Failure::workspace(format!(
            "the run {run_id:?} has not ended: its last record is {:?}, and only a receipt that ends with \"halt\" is signed",
            facts.last_event
        ))
        .because("receipt_not_sealed")
        .hint("`loopexec run --resume` goes on with it"));
    }
    let mut attested = Attested {
        run_id: run_id.clone(),
        receipt: parts.receipt.clone(),
        signature: String::new(),
        files: Vec::new(),
        key_id: None,
        public_key: None,
        created: None,
    };
    let [sshsig_path, bundle_path, hmac_path] = config.layout.signatures(&run_id);
    if let Some(secret) = config.secret {
        let digest = keyed(secret, &run_id, &facts.head, state)?;
        write(&hmac_path, format!("{digest}\n").as_bytes())?;
        record(config.layout, &run_id, state.head, None)?;
        attested.signature = digest;
        attested.files.push(hmac_path);
    }
    if let Some(source) = config.key {
        let key = key(source)?;
        let unsigned = |why: String| {
            Failure::workspace(format!("the receipt was not signed: {why}")).because("key_unusable")
        };
        let result = predicate::test_result(config.layout, state, facts)?;
        let signature =
            sshsig::sign(&key.signer, &receipt).map_err(|error| unsigned(chain(&error)))?;
        let signed = bundle::sign(&key.signer, &statement::statement(&result))
            .map_err(|error| unsigned(chain(&error)))?;
        write(&sshsig_path, signature.as_bytes())?;
        write(&bundle_path, signed.as_bytes())?;
        let key_id = key.signer.key_id();
        record(config.layout, &run_id, state.head, Some(&key_id))?;
        if attested.signature.is_empty() {
            attested.signature = sshsig_path.to_string_lossy().into_owned();
        }
        attested.files.extend([sshsig_path, bundle_path]);
        attested.public_key = Some(key.signer.public_key().to_openssh());
        attested.key_id = Some(key_id);
        attested.created = key.created;
    }
    Ok(attested)
}

/// The fold of a receipt that is worth signing: everything but its signatures has to hold.
fn sound(verification: &Verification) -> Result<&RunState, Failure> {
    let broken = verification
        .items
        .iter()
        .filter(|item| item.status == Status::Fail)
        .find(|item| !["signature", "attestation"].contains(&item.name.as_str()));
    match (broken, &verification.state) {
        (None, Some(state)) => Ok(state),
        (Some(item), _) => Err(Failure::unverified(
            crate::verify::known_cause(item.cause.as_deref()),
            format!(
                "a receipt that does not verify is not signed: {}: {}",
                item.name, item.detail
            ),
        )
        .hint("`loopexec verify` says what of it holds")),
        (None, None) => Err(Failure::unverified(
            "chain_absent",
            "there is no chained receipt to sign",
        )),
    }
}

fn facts(receipt: &[u8]) -> Result<ReceiptFacts, Failure> {
    ReceiptFacts::of(receipt).map_err(|error| Failure::unverified("truncated", chain(&error)))
}

/// The keyed digest of contract 2.0.
fn keyed(secret: &[u8], run_id: &str, head: &str, state: &RunState) -> Result<String, Failure> {
    hmac_form::digest(secret, run_id, head, &hashed(&StateView::of(state)))
        .map_err(|error| Failure::workspace(chain(&error)).because("key_missing"))
}

/// What the keyed digest covers beside the receipt.
fn hashed(view: &StateView) -> Hashed {
    let json = |value: Result<serde_json::Value, serde_json::Error>| {
        value.unwrap_or(serde_json::Value::Null)
    };
    Hashed {
        check: serde_json::Value::String(view.check.clone()),
        fingerprint: json(serde_json::to_value(&view.fingerprint)),
        model: json(serde_json::to_value(&view.model)),
        sampling: json(serde_json::to_value(&view.sampling)),
    }
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    replace_file(path, bytes, PUBLIC_FILE, SyncMode::Full).map_err(|error| {
        Failure::workspace(format!(
            "the signature cannot be written: {}",
            chain(&error)
        ))
        .because("signature_write_failed")
    })
}

/// Says in the workspace log that the receipt with this head was signed.
fn record(
    layout: &Layout,
    run_id: &str,
    head: Digest,
    key_id: Option<&str>,
) -> Result<(), Failure> {
    let mut act = NewAct::new(ActName::Attested, run_id);
    act.fields.head = Some(head);
    act.fields.key_id = key_id.map(str::to_owned);
    act.fields.detail = Some(if key_id.is_some() { "ssh" } else { "hmac" }.to_owned());
    WorkspaceLog::append(layout, act)
        .map(|_| ())
        .map_err(|error| {
            Failure::workspace(format!(
                "the signature is written, but not noted in the workspace log: {}",
                chain(&error)
            ))
            .because("workspace_log_unusable")
        })
}

#[cfg(test)]
mod tests;
