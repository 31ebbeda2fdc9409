//! Brings a workspace back to what it was before a run, under its lock, after keeping what is there now.
//!
//! Must not decide whether that is wise: nothing is lost by it.

use std::{ffi::OsStr, path::PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    candidate::{WorkspaceError, escape, undo::undo as bring_back},
    failure::{Failure, chain},
    layout::Layout,
    recorded,
    run::{hold, workspace_config},
};

/// What to undo.
#[derive(Debug)]
pub struct UndoConfig<'a> {
    /// The workspace.
    pub layout: &'a Layout,
    /// The run; the latest by default.
    pub run_id: Option<&'a str>,
    /// Where `git` is looked for.
    pub search_path: Option<&'a OsStr>,
    /// The person's own ignore file of git.
    pub excludes_file: Option<PathBuf>,
}

/// What was undone, and where what was there is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Undone {
    /// The run.
    #[serde(skip)]
    pub run_id: String,
    /// Label of the replaced content in the run's own store.
    pub kept: String,
    /// Reference to it in the repository; absent outside of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_reference: Option<String>,
    /// Commit that holds it.
    pub kept_commit: String,
    /// Manifest of what is in the workspace now.
    pub content_sha256: String,
    /// Files and links that were written.
    pub written: u64,
    /// Files, links and directories that were removed.
    pub removed: u64,
    /// Files and directories whose mode alone was changed.
    pub modes: u64,
    /// Whether the index was another one.
    pub index_changed: bool,
    /// Directories that stay because ignored files are in them.
    pub left: Vec<String>,
    /// Ignored files that stood in the way, and where they are now.
    pub displaced: Vec<String>,
}

/// Undoes a run.
///
/// # Errors
///
/// No such run, a governor at work, nothing was kept at its beginning, or a change was refused.
pub fn undo(config: &UndoConfig<'_>) -> Result<Undone, Failure> {
    let run_id = recorded::run_id(config.layout, config.run_id)?;
    recorded::load(config.layout, Some(&run_id))?;
    let _held = hold(config.layout, &run_id)?;
    let report = bring_back(workspace_config(
        config.layout,
        &run_id,
        config.search_path,
        config.excludes_file.clone(),
    ))
    .map_err(|error| {
        let cause = if matches!(error, WorkspaceError::NoBeginning { .. }) {
            "content_not_kept"
        } else {
            "undo_failed"
        };
        Failure::workspace(format!(
            "the workspace was not brought back to the beginning of the run {run_id:?}: {}",
            chain(&error)
        ))
        .because(cause)
        .hint("what is there now is kept first, so calling it again is safe")
    })?;
    let escaped = |path: &[u8]| escape::escape(path);
    Ok(Undone {
        run_id,
        kept: report.kept_label,
        kept_reference: report.kept_reference,
        kept_commit: report.kept.commit.to_string(),
        content_sha256: report.restored.manifest.digest(),
        written: report.restored.written,
        removed: report.restored.removed,
        modes: report.restored.modes,
        index_changed: report.index_changed,
        left: report
            .restored
            .left
            .iter()
            .map(|path| escaped(path))
            .collect(),
        displaced: report
            .restored
            .displaced
            .iter()
            .map(|(path, place)| format!("{} is now {}", escaped(path), place.display()))
            .collect(),
    })
}
