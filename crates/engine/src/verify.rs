//! Verifies a receipt without running anything: chain, fold, every decision, snapshot, outside copy, content, signatures.
//!
//! Must not repair or run anything. Each thing that is looked at is `pass`, `fail` or `absent`, and says why.

use std::path::PathBuf;

use loopexec_core::{halt::HaltReason, state::RunState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    evidence::{Evidence, Level, Strength, strength},
    failure::{Failure, chain},
    layout::Layout,
    log::{Chain, Flaw, ReadLog, Relation, read, relation},
    recorded,
    snapshot::StateView,
};

mod content;
mod signatures;

pub(crate) use content::present;
pub use content::{Surroundings, content};
pub use signatures::{Trust, items as signature_items};

/// How one thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It is as it should be.
    Pass,
    /// It is not.
    Fail,
    /// There is nothing to look at.
    Absent,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Item {
    /// What.
    pub name: String,
    /// How it stands.
    pub status: Status,
    /// Why, in words.
    pub detail: String,
    /// The public cause of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

impl Item {
    pub(crate) fn pass(name: &str, detail: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            status: Status::Pass,
            detail: detail.into(),
            cause: None,
        }
    }

    pub(crate) fn absent(name: &str, detail: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            status: Status::Absent,
            detail: detail.into(),
            cause: None,
        }
    }

    pub(crate) fn fail(name: &str, cause: &str, detail: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            status: Status::Fail,
            detail: detail.into(),
            cause: Some(cause.to_owned()),
        }
    }
}

/// What a verification found.
#[derive(Clone, Debug)]
pub struct Verification {
    /// The run.
    pub run_id: String,
    /// The receipt.
    pub receipt: PathBuf,
    /// The fold, as far as it makes sense.
    pub state: Option<RunState>,
    /// Each thing that was looked at.
    pub items: Vec<Item>,
    /// The five facts.
    pub evidence: Option<Evidence>,
    /// How strong the verdict is.
    pub strength: Vec<Strength>,
    /// Fields that a redacted export withholds; `None` for a whole receipt.
    pub withheld: Option<u64>,
}

impl Verification {
    /// Whether nothing failed and the receipt is chained.
    #[must_use]
    pub fn verified(&self) -> bool {
        (self.state.is_some() || self.withheld.is_some())
            && self.items.iter().all(|item| item.status != Status::Fail)
    }

    /// The first failure's public cause.
    #[must_use]
    pub fn cause(&self) -> Option<&str> {
        self.items.iter().find_map(|item| item.cause.as_deref())
    }
}

/// Where the parts of a run are.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The receipt.
    pub receipt: PathBuf,
    /// Its snapshot.
    pub state: Option<PathBuf>,
    /// Its outside copy.
    pub anchor: Option<PathBuf>,
    /// SSHSIG and Sigstore bundle.
    pub signatures: Option<[PathBuf; 2]>,
    /// The id that the run should have; `None` when only the receipt says it.
    pub run_id: Option<String>,
}

impl Parts {
    /// The parts of a run recorded in a workspace.
    #[must_use]
    pub fn of(layout: &Layout, run_id: &str) -> Self {
        let [sshsig, bundle, _] = layout.signatures(run_id);
        Self {
            receipt: layout.receipt(run_id),
            state: Some(layout.state(run_id)),
            anchor: layout.anchor(run_id),
            signatures: Some([sshsig, bundle]),
            run_id: Some(run_id.to_owned()),
        }
    }

    /// A receipt that lies somewhere, with its snapshot and signatures where they lie beside it under their own names.
    #[must_use]
    pub fn beside(receipt: PathBuf) -> Self {
        let beside = |suffix: &str| {
            let name = receipt.file_name()?.to_str()?.strip_suffix(".jsonl")?;
            Some(receipt.with_file_name(format!("{name}{suffix}")))
        };
        Self {
            state: beside(".state.json").filter(|path| path.exists()),
            signatures: beside(".jsonl.sig")
                .zip(beside(".sigstore.json"))
                .map(|(sshsig, bundle)| [sshsig, bundle]),
            anchor: None,
            run_id: None,
            receipt,
        }
    }
}

/// Verifies the parts of a run; `surroundings` is the workspace whose content is compared, where there is one.
///
/// # Errors
///
/// When there is no receipt to look at. A receipt that does not verify is no error.
pub fn verify(
    parts: &Parts,
    surroundings: Option<&Surroundings<'_>>,
    trust: &Trust<'_>,
) -> Result<Verification, Failure> {
    let log = read(&parts.receipt, &mut |_| {})
        .map_err(|error| Failure::workspace(chain(&error)).because("run_not_found"))?;
    let mut items = vec![chain_item(&log), decisions(&log)];
    if let (Some(state), Some(expected)) = (&log.state, &parts.run_id)
        && state.run_id != *expected
    {
        items.push(Item::fail(
            "run",
            "wrong_run",
            format!(
                "the receipt is of the run {:?}, not {expected:?}",
                state.run_id
            ),
        ));
    }
    items.push(snapshot_item(parts, &log));
    items.push(anchor_item(parts));
    items.push(match (&log.state, surroundings) {
        (Some(state), Some(surroundings)) => content(state, surroundings),
        (None, _) | (_, None) => Item::absent("content", "there is no workspace to compare"),
    });
    if let (Some(state), Some(surroundings)) = (&log.state, surroundings) {
        items.extend(earlier(state, surroundings));
    }
    items.extend(signatures::items(parts, trust));
    let run_id = log
        .state
        .as_ref()
        .map(|state| state.run_id.clone())
        .or_else(|| parts.run_id.clone());
    Ok(Verification {
        run_id: run_id.unwrap_or_default(),
        receipt: parts.receipt.clone(),
        evidence: log.state.as_ref().map(Evidence::of),
        strength: log.state.as_ref().map(strength).unwrap_or_default(),
        state: log.state,
        items,
        withheld: None,
    })
}

/// Names earlier runs of the same workspace and policy: ten runs of which one was green look like ten runs.
fn earlier(state: &RunState, surroundings: &Surroundings<'_>) -> Option<Item> {
    const NAME: &str = "earlier runs";
    /// Outcomes that are listed; the rest is counted.
    const NAMED_MAX: usize = 10;
    let runs = crate::attesting::earlier_runs(surroundings.layout, state).ok()?;
    if runs.is_empty() {
        return None;
    }
    let mut named: Vec<String> = runs
        .iter()
        .take(NAMED_MAX)
        .map(|run| format!("{} {}", run.run_id, run.halt_reason))
        .collect();
    if runs.len() > NAMED_MAX {
        named.push(format!("and {} more", runs.len() - NAMED_MAX));
    }
    Some(Item::pass(
        NAME,
        format!(
            "{} of the same workspace and policy, the newest first: {}",
            runs.len(),
            named.join(", ")
        ),
    ))
}

/// A public cause as the constant that a failure carries.
pub(crate) fn known_cause(cause: Option<&str>) -> &'static str {
    const KNOWN: [&str; 14] = [
        "anchor_mismatch",
        "anchor_unreadable",
        "candidate_drift",
        "chain_absent",
        "chain_broken",
        "content_unreadable",
        "decision_mismatch",
        "newer_rules",
        "receipt_not_sealed",
        "signature_mismatch",
        "snapshot_mismatch",
        "stale_signature",
        "truncated",
        "wrong_run",
    ];
    KNOWN
        .into_iter()
        .find(|known| Some(*known) == cause)
        .unwrap_or("not_verified")
}

/// Fails a receipt that no named key signed: whoever names trusted keys asks for a signature.
pub fn require_signature(verification: &mut Verification) {
    let signed = |item: &Item| item.name == "signature" && item.status != Status::Absent;
    if !verification.items.iter().any(signed) {
        verification.items.push(Item::fail(
            "trusted",
            "signature_absent",
            "keys were named to trust, and none of them signed this receipt",
        ));
    }
}

/// Fails what a caller requires and the receipt does not show.
///
/// # Errors
///
/// A name that is no strength.
pub fn require(verification: &mut Verification, names: &[String]) -> Result<(), Failure> {
    for name in names {
        let shown = verification
            .strength
            .iter()
            .find(|strength| strength.name == *name);
        let Some(strength) = shown else {
            if verification.state.is_none() {
                continue;
            }
            return Err(Failure::invariant(format!(
                "{name:?} is no strength; known are {}",
                crate::evidence::STRENGTHS.join(", ")
            ))
            .because("limit_invalid"));
        };
        if strength.level != Level::Shown {
            let item = Item::fail(
                &format!("require {name}"),
                "strength_not_shown",
                format!("{}: {}", strength.level.name(), strength.detail),
            );
            verification.items.push(item);
        }
    }
    Ok(())
}

fn chain_item(log: &ReadLog) -> Item {
    match (log.chain, &log.flaw) {
        (Chain::Absent, _) => Item::fail("chain", "chain_absent", "absent (contract 2.0)"),
        (Chain::Present, None) => {
            let records = log.state.as_ref().map_or(0, |state| state.records);
            Item::pass(
                "chain",
                format!("{records} records, each names the one before it"),
            )
        }
        (Chain::Present, Some(flaw)) if of_the_rules(flaw) => {
            Item::pass("chain", format!("up to byte {}", flaw.offset))
        }
        (Chain::Present, Some(flaw)) => Item::fail(
            "chain",
            flaw.cause,
            format!("line {}, byte {}: {}", flaw.line, flaw.offset, flaw.why),
        ),
    }
}

fn decisions(log: &ReadLog) -> Item {
    match (&log.state, &log.flaw) {
        (None, _) => Item::absent("decisions", "nothing can be folded"),
        (Some(_), Some(flaw)) if of_the_rules(flaw) => Item::fail(
            "decisions",
            flaw.cause,
            format!("line {}, byte {}: {}", flaw.line, flaw.offset, flaw.why),
        ),
        (Some(state), _) => Item::pass(
            "decisions",
            format!(
                "every verdict was derived again with rules revision {}",
                state.run.rules_revision
            ),
        ),
    }
}

/// Whether a flaw is one of the fold, not of the chain.
fn of_the_rules(flaw: &Flaw) -> bool {
    flaw.cause == "decision_mismatch"
}

fn snapshot_item(parts: &Parts, log: &ReadLog) -> Item {
    let Some(bytes) = parts.state.as_ref().and_then(|path| {
        loopexec_os::durable::read_regular(path, loopexec_os::durable::SMALL_FILE_BYTES).ok()
    }) else {
        return Item::absent("snapshot", "there is none");
    };
    let Some(state) = &log.state else {
        return Item::absent("snapshot", "there is no fold to compare it with");
    };
    let Ok(found) = serde_json::from_slice::<StateView>(&bytes) else {
        return Item::fail("snapshot", "snapshot_mismatch", "it cannot be read");
    };
    let derived = StateView::of(state);
    if is_view_of(&bytes, &derived) {
        return Item::pass("snapshot", "it is the fold of the receipt");
    }
    if found.run_id == derived.run_id && found.synced_records > derived.records {
        return Item::fail(
            "snapshot",
            "truncated",
            format!(
                "it has seen {} records, the receipt holds {}",
                found.records, derived.records
            ),
        );
    }
    if found.run_id == derived.run_id && found.records > derived.records {
        return Item::pass(
            "snapshot",
            format!(
                "it is ahead of the receipt ({} of {} records) by records that were never forced to the disk, as a loss of power leaves it",
                found.records, derived.records
            ),
        );
    }
    if found.run_id == derived.run_id
        && found.records < derived.records
        && log_contains(parts, &found)
    {
        return Item::pass(
            "snapshot",
            format!(
                "it is behind the receipt ({} of {} records), as a crash leaves it",
                found.records, derived.records
            ),
        );
    }
    Item::fail(
        "snapshot",
        "snapshot_mismatch",
        "it is not the fold of this receipt",
    )
}

/// Whether every field that a snapshot has is that of the derived one: a later version may have more, an earlier one fewer.
fn is_view_of(bytes: &[u8], derived: &StateView) -> bool {
    let found = serde_json::from_slice::<serde_json::Value>(bytes);
    let (Ok(serde_json::Value::Object(found)), Ok(derived)) =
        (found, serde_json::to_value(derived))
    else {
        return false;
    };
    let known = |name: &str| found.contains_key(name);
    ["run_id", "records", "head", "phase"]
        .into_iter()
        .all(known)
        && found
            .iter()
            .all(|(name, value)| derived.get(name) == Some(value))
}

/// Whether the head that a snapshot names is the digest of that line of the receipt.
fn log_contains(parts: &Parts, view: &StateView) -> bool {
    let mut lines = 0_u64;
    let mut found = false;
    let outcome = read(&parts.receipt, &mut |line| {
        lines = lines.saturating_add(1);
        if lines == view.records {
            let head = loopexec_core::digest::Digest::of(line).to_string();
            found = view.head.as_deref() == Some(head.as_str());
        }
    });
    outcome.is_ok() && found
}

fn anchor_item(parts: &Parts) -> Item {
    const NAME: &str = "anchor";
    let Some(anchor) = &parts.anchor else {
        return Item::absent(NAME, "no copy is kept outside the workspace");
    };
    match relation(&parts.receipt, anchor) {
        Err(error) => Item::fail(NAME, "anchor_unreadable", error.to_string()),
        Ok(Relation::NoCopy) => Item::absent(NAME, "no copy is kept outside the workspace"),
        Ok(Relation::Equal) => Item::pass(NAME, "the copy outside the workspace is equal"),
        Ok(Relation::CopyBehind { records }) => Item::pass(
            NAME,
            format!(
                "the copy outside the workspace is {records} records behind, as a crash leaves it"
            ),
        ),
        Ok(Relation::CopyMissed { forced }) => Item::fail(
            NAME,
            "anchor_mismatch",
            format!(
                "the receipt has {forced} records forced to the disk that the copy outside the workspace never saw"
            ),
        ),
        Ok(Relation::ReceiptBehind { records, .. }) => Item::fail(
            NAME,
            "truncated",
            format!("the copy outside the workspace has {records} records more"),
        ),
        Ok(Relation::Differ { offset }) => Item::fail(
            NAME,
            "anchor_mismatch",
            format!("it differs from the copy outside the workspace at byte {offset}"),
        ),
    }
}

/// The parts of the run that is asked for, in a workspace.
///
/// # Errors
///
/// When no such run is recorded.
pub fn parts(layout: &Layout, run_id: Option<&str>) -> Result<Parts, Failure> {
    recorded::run_id(layout, run_id).map(|run_id| Parts::of(layout, &run_id))
}

/// Whether a run claims a green.
pub(crate) fn green(state: &RunState) -> bool {
    state
        .halt
        .as_ref()
        .is_some_and(|halt| halt.halt_reason == HaltReason::SuccessConditionMet)
}
