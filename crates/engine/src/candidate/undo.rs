//! Goes back to the beginning of a run: worktree and index, byte for byte, after keeping what is there now.
//!
//! An undo that was interrupted is simply run again: it keeps the state in between under the next number, and finishes. Commits
//! and branches stay as they are. This module must not know whether a run may be undone.

use super::index;
use super::publish;
use super::restore::{RestoreError, RestoreReport};
use super::store::Saved;
use super::workspace::{INDEX_RAW, INDEX_SHARED, Workspace, WorkspaceConfig, WorkspaceError};
use crate::git::GitError;
use std::io;

/// What was undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoReport {
    /// The state that was replaced.
    pub kept: Saved,
    /// The label of that state, `undo-<n>`.
    pub kept_label: String,
    /// Its reference in the repository of the person; none without one.
    pub kept_reference: Option<String>,
    /// The state that was brought back.
    pub beginning: Saved,
    /// What that took.
    pub restored: RestoreReport,
    /// Whether the index was another one.
    pub index_changed: bool,
}

/// Brings worktree and index back to the beginning of the run. The caller holds the lock of the workspace.
///
/// # Errors
/// The beginning was not kept, the present state cannot be kept (then nothing was changed), or a change was refused (then the
/// present state is kept, and calling this again goes on).
pub fn undo(config: WorkspaceConfig) -> Result<UndoReport, WorkspaceError> {
    let (mut workspace, beginning) = Workspace::resume(config)?;
    let kept_label = next_label(&workspace)?;
    let kept = workspace.keep_present(&kept_label)?;
    let restored = workspace.restore(&beginning)?;
    let index_changed = put_index_back(&workspace, &beginning)?;
    flush(&workspace)?;
    Ok(UndoReport {
        kept: kept.saved,
        kept_label,
        kept_reference: kept.reference,
        beginning,
        restored,
        index_changed,
    })
}

/// The first `undo-<n>` that neither the store nor the repository has.
fn next_label(workspace: &Workspace) -> Result<String, WorkspaceError> {
    let mut labels: Vec<String> = workspace
        .store()
        .labels()
        .map(|(label, _)| label.to_owned())
        .collect();
    if let Some(repository) = workspace.repository() {
        let config = workspace.config();
        let git = config
            .git
            .as_ref()
            .ok_or(WorkspaceError::Git(GitError::NotFound))?;
        labels.extend(publish::published_labels(git, repository, &config.run)?);
    }
    let numbers = labels
        .iter()
        .filter_map(|label| label.strip_prefix("undo-")?.parse::<u64>().ok());
    Ok(format!(
        "undo-{}",
        numbers.max().unwrap_or(0).saturating_add(1)
    ))
}

fn put_index_back(workspace: &Workspace, beginning: &Saved) -> Result<bool, WorkspaceError> {
    let Some(repository) = workspace.repository() else {
        return Ok(false);
    };
    let (store, git) = (workspace.store(), workspace.config().git.as_ref());
    let raw = store.read_optional(git, &beginning.commit, INDEX_RAW.as_bytes())?;
    let shared = store.read_optional(git, &beginning.commit, INDEX_SHARED.as_bytes())?;
    let shared = shared.as_deref().and_then(|bytes| {
        let (name, rest) = bytes.split_at_checked(memchr::memchr(b'\n', bytes)?)?;
        let name = std::str::from_utf8(name)
            .ok()
            .filter(|name| !name.contains('/'))?;
        Some((name, rest.get(1..)?))
    });
    Ok(index::put_back(repository, raw.as_deref(), shared)?)
}

/// Once at the end instead of once a file: what was brought back must outlive a loss of power.
#[cfg(target_os = "linux")]
fn flush(workspace: &Workspace) -> Result<(), WorkspaceError> {
    let path = &workspace.config().directory;
    let failed = |source: io::Error| RestoreError::Write {
        action: "flush",
        path: path.clone(),
        source,
    };
    let directory = fs_err::File::open(path).map_err(failed)?;
    rustix::fs::syncfs(directory.file()).map_err(|source| failed(source.into()))?;
    Ok(())
}

/// This system has no call for one file system; its own write-back does it.
#[cfg(not(target_os = "linux"))]
fn flush(_: &Workspace) -> Result<(), WorkspaceError> {
    Ok(())
}

#[cfg(test)]
mod tests;
