//! Where a check is repeated: the workspace under its lock, or a copy of the content that is kept.
//!
//! Must not run the check.

use std::path::{Path, PathBuf};

use loopexec_core::state::RunState;
use tempfile::TempDir;

use super::{ReplayConfig, subject::Subject};
use crate::{
    candidate::{
        Manifest, Workspace, escape,
        object::ObjectId,
        store::{Saved, Store},
    },
    failure::{Failure, chain},
    git::Git,
    run::{Held, hold, search_path, workspace_config},
    verify::{Surroundings, present},
};

/// Changed paths that are named.
const NAMED_MAX: usize = 20;

/// Where a check is repeated.
#[derive(Debug)]
pub(super) struct Place {
    directory: PathBuf,
    name: &'static str,
    content: &'static str,
    changed: Vec<String>,
    /// Keeps a governor out for as long as the check runs.
    _held: Option<Held>,
    /// Removed at the end.
    _copy: Option<TempDir>,
}

impl Place {
    /// The workspace; no governor may work in it meanwhile.
    pub(super) fn workspace(
        config: &ReplayConfig<'_>,
        subject: &Subject,
        state: Option<&RunState>,
    ) -> Result<Self, Failure> {
        let held = hold(config.layout, &subject.run_id).map_err(|failure| {
            failure.hint("wait until it ends, or replay in a copy with --in-copy")
        })?;
        let mut place = Self {
            directory: config.layout.workdir().to_owned(),
            name: "workspace",
            content: "not_recorded",
            changed: Vec::new(),
            _held: Some(held),
            _copy: None,
        };
        if let (Some(state), Some(_)) = (state, subject.candidate) {
            place.compare(config, subject, state)?;
        }
        Ok(place)
    }

    /// Compares what the workspace holds with what was judged.
    fn compare(
        &mut self,
        config: &ReplayConfig<'_>,
        subject: &Subject,
        state: &RunState,
    ) -> Result<(), Failure> {
        let surroundings = Surroundings {
            layout: config.layout,
            search_path: search_path(config.environment),
            excludes_file: config.excludes_file.clone(),
        };
        let now = present(state, &surroundings)?;
        if subject.stands_for(&now.digest()) {
            self.content = "as_recorded";
            return Ok(());
        }
        self.content = "changed";
        let before = recorded_manifest(config, subject);
        self.changed = before.map_or_else(Vec::new, |before| named(&before, &now));
        if self.changed.is_empty() {
            self.changed
                .push("(which paths cannot be said: the content was not kept)".to_owned());
        }
        Ok(())
    }

    /// A copy of the kept content, below a fresh temporary directory.
    pub(super) fn copy(
        config: &ReplayConfig<'_>,
        subject: &Subject,
        state: &RunState,
    ) -> Result<Self, Failure> {
        let workspace_config = workspace_config(
            config.layout,
            &state.run_id,
            search_path(config.environment),
            config.excludes_file.clone(),
        );
        let git = workspace_config.git.clone();
        let commit = kept_commit(subject)?;
        let (workspace, _) =
            Workspace::resume(workspace_config).map_err(|error| not_kept(&chain(&error)))?;
        Self::materialised(
            workspace.store(),
            git.as_ref(),
            &commit,
            subject,
            &config.temporary,
        )
    }

    /// A copy of a kept commit, out of whichever store.
    pub(super) fn materialised(
        store: &Store,
        git: Option<&Git>,
        commit: &ObjectId,
        subject: &Subject,
        temporary: &Path,
    ) -> Result<Self, Failure> {
        let saved = store
            .describe(git, commit)
            .map_err(|error| not_kept(&chain(&error)))?;
        if subject.candidate.is_some() && !subject.stands_for(&saved.manifest_sha256) {
            return Err(Failure::unverified(
                "candidate_drift",
                "the kept content is not the one that the verdict was given on",
            ));
        }
        let (copy, directory) = materialise(store, git, &saved, temporary)?;
        Ok(Self {
            directory,
            name: "copy",
            content: "as_recorded",
            changed: Vec::new(),
            _held: None,
            _copy: Some(copy),
        })
    }

    /// The directory to run in.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// `workspace` or `copy`.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// `as_recorded`, `changed` or `not_recorded`.
    pub(super) fn content(&self) -> &'static str {
        self.content
    }

    /// Paths that are not as recorded; with any of them nothing is run.
    pub(super) fn changed(&self) -> &[String] {
        &self.changed
    }
}

/// The commit of the content that was judged.
pub(super) fn kept_commit(subject: &Subject) -> Result<ObjectId, Failure> {
    let commit = subject
        .kept
        .as_ref()
        .and_then(|snapshot| snapshot.commit.as_deref());
    commit
        .and_then(ObjectId::from_hex)
        .ok_or_else(|| not_kept("only the content at t0 and of an accepted end is kept"))
}

fn not_kept(why: &str) -> Failure {
    Failure::workspace(format!("there is no content to make a copy of: {why}"))
        .because("content_not_kept")
        .hint("replay in the workspace, without --in-copy")
}

fn materialise(
    store: &Store,
    git: Option<&Git>,
    saved: &Saved,
    temporary: &Path,
) -> Result<(TempDir, PathBuf), Failure> {
    let failed = |why: String| {
        Failure::workspace(format!(
            "the copy could not be made below {}: {why}",
            temporary.display()
        ))
        .because("copy_failed")
        .hint("make room there, or name another directory in TMPDIR")
    };
    let copy = tempfile::Builder::new()
        .prefix("loopexec-replay-")
        .tempdir_in(temporary)
        .map_err(|error| failed(error.to_string()))?;
    let directory = copy.path().join("workspace");
    store
        .materialise(git, saved, &directory)
        .map_err(|error| failed(chain(&error)))?;
    let directory = fs_err::canonicalize(&directory).map_err(|error| failed(error.to_string()))?;
    Ok((copy, directory))
}

/// The manifest of the recorded content, where it was kept.
fn recorded_manifest(config: &ReplayConfig<'_>, subject: &Subject) -> Option<Manifest> {
    let workspace_config = workspace_config(
        config.layout,
        &subject.run_id,
        search_path(config.environment),
        config.excludes_file.clone(),
    );
    let git = workspace_config.git.clone();
    let commit = kept_commit(subject).ok()?;
    let (workspace, _) = Workspace::resume(workspace_config).ok()?;
    workspace.store().manifest(git.as_ref(), &commit).ok()
}

/// Paths that differ, with a sign each.
fn named(before: &Manifest, now: &Manifest) -> Vec<String> {
    let changes = before.diff(now);
    let signed = |sign: char, paths: &[Vec<u8>]| -> Vec<String> {
        paths
            .iter()
            .map(|path| format!("{sign} {}", escape::escape(path)))
            .collect()
    };
    let mut all = signed('M', &changes.changed);
    all.extend(signed('A', &changes.added));
    all.extend(signed('D', &changes.removed));
    let count = all.len();
    all.truncate(NAMED_MAX);
    if count > NAMED_MAX {
        all.push(format!("… {} more", count - NAMED_MAX));
    }
    all
}
