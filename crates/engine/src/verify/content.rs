//! Compares the workspace with the content that a green was given for.
//!
//! Must not believe file times: every byte is read again.

use std::{ffi::OsStr, path::PathBuf};

use loopexec_core::state::RunState;

use super::{Item, green};
use crate::{
    candidate::{Manifest, Workspace},
    failure::{Failure, chain},
    layout::Layout,
    run::{unescaped, without, workspace_config},
};

/// The workspace that is compared.
#[derive(Clone, Debug)]
pub struct Surroundings<'a> {
    /// Where it is.
    pub layout: &'a Layout,
    /// Where `git` is looked for.
    pub search_path: Option<&'a OsStr>,
    /// The person's own ignore file.
    pub excludes_file: Option<PathBuf>,
}

/// Whether the workspace still is what the receipt accepted.
#[must_use]
pub fn content(state: &RunState, surroundings: &Surroundings<'_>) -> Item {
    const NAME: &str = "content";
    if !green(state) {
        return Item::absent(NAME, "no content was accepted");
    }
    let Some(accepted) = state.halt.as_ref().and_then(|halt| halt.workspace_sha256) else {
        return Item::absent(NAME, "the content was not recorded");
    };
    match present(state, surroundings) {
        Err(failure) => Item::absent(NAME, failure.message),
        Ok(manifest) if manifest.digest() == accepted.to_string() => {
            Item::pass(NAME, "the workspace holds the accepted content")
        }
        Ok(_) => Item::fail(
            NAME,
            "candidate_drift",
            "the workspace no longer holds the accepted content",
        ),
    }
}

/// What the workspace holds now, without the artefacts of the recorded check.
pub(crate) fn present(
    state: &RunState,
    surroundings: &Surroundings<'_>,
) -> Result<Manifest, Failure> {
    let failed = |error: crate::run::ContentError| {
        Failure::workspace(format!(
            "the workspace's content cannot be read: {}",
            chain(&error)
        ))
        .because("content_unreadable")
    };
    let config = workspace_config(
        surroundings.layout,
        &state.run_id,
        surroundings.search_path,
        surroundings.excludes_file.clone(),
    );
    let (mut workspace, _) = Workspace::resume(config).map_err(failed)?;
    workspace.scanner().forget();
    let artefacts = state
        .last_check
        .as_ref()
        .map(|check| unescaped(&check.artefacts))
        .unwrap_or_default();
    let manifest = workspace.scan().map_err(failed)?;
    Ok(without(&manifest, &artefacts))
}
