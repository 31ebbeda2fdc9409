//! The recorded runs of a workspace: which there are, which is the latest.
//!
//! Must not judge a run; it finds and lists.

use std::collections::BTreeSet;

use crate::layout::{Layout, run_of_state_name, valid_run_id};

/// The run that `state.json` leads to; where that is gone, the one whose receipt changed last.
#[must_use]
pub fn latest(layout: &Layout) -> Option<String> {
    let link = fs_err::read_link(layout.latest()).ok();
    let named = link
        .as_deref()
        .and_then(|target| target.to_str())
        .and_then(run_of_state_name)
        .map(str::to_owned)
        .or_else(|| named_in(layout));
    named.or_else(|| {
        ids(layout).into_iter().max_by_key(|id| {
            fs_err::metadata(layout.receipt(id))
                .and_then(|metadata| metadata.modified())
                .ok()
        })
    })
}

/// The run that a `state.json` with content of its own names (contract 2.0, or a file system without links).
fn named_in(layout: &Layout) -> Option<String> {
    let bytes = loopexec_os::durable::read_regular(
        &layout.latest(),
        loopexec_os::durable::SMALL_FILE_BYTES,
    )
    .ok()?;
    let value: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    let id = value.get("run_id")?.as_str()?;
    valid_run_id(id).then(|| id.to_owned())
}

/// Every run with a receipt, sorted by id.
#[must_use]
pub fn ids(layout: &Layout) -> BTreeSet<String> {
    let Ok(entries) = fs_err::read_dir(layout.store()) else {
        return BTreeSet::new();
    };
    entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name();
            let id = name
                .to_str()?
                .strip_prefix("run-")?
                .strip_suffix(".jsonl")?;
            valid_run_id(id).then(|| id.to_owned())
        })
        .collect()
}
