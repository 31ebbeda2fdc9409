//! The workspace's content as the run sees it: kept at t0, looked at around each check, kept again at a green end.
//!
//! Paths that appear while a check runs are artefacts of the check: they stay where they are and are no part of the
//! content, until the work command changes them. Must not decide what a difference means.

use std::{collections::BTreeSet, ffi::OsStr, path::PathBuf};

use loopexec_core::{
    digest::Digest,
    event::{GitHead, Snapshot, SnapshotLabel},
};

use super::{RunConfig, command::digest};
use crate::{
    candidate::{
        Baseline, Durability, Manifest, Workspace, WorkspaceConfig, WorkspaceError, escape,
    },
    git::Git,
    layout::Layout,
};

/// Artefacts and changed paths that a record names; what a check leaves is collapsed to its topmost new directories.
const NAMED_MAX: usize = 10_000;
/// The label of the content at the end.
const END: &str = "final";

/// Why the content could not be kept or read.
pub type ContentError = WorkspaceError;

/// The content under the care of a run.
#[derive(Debug)]
pub struct Content {
    workspace: Workspace,
    artefacts: BTreeSet<Vec<u8>>,
}

/// The content right before a check.
#[derive(Debug)]
pub(super) struct Surroundings {
    manifest: Manifest,
}

/// The content right after a check.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) digest: Option<Digest>,
    pub(super) artefacts: Vec<String>,
    pub(super) changed: Vec<String>,
}

/// The content at the end.
#[derive(Debug, Default)]
pub(super) struct End {
    pub(super) digest: Option<Digest>,
    pub(super) snapshot: Option<Snapshot>,
}

/// Where a run's workspace is, for the mechanism below.
pub(crate) fn workspace_config(
    layout: &Layout,
    run_id: &str,
    search_path: Option<&OsStr>,
    excludes_file: Option<PathBuf>,
) -> WorkspaceConfig {
    WorkspaceConfig {
        directory: layout.workdir().to_owned(),
        run_directory: layout.run_directory(run_id),
        run: run_id.to_owned(),
        git: search_path.and_then(|path| Git::find(path).ok()),
        excludes_file,
        durability: Durability::Synced,
    }
}

pub(crate) fn search_path(
    environment: &[(std::ffi::OsString, std::ffi::OsString)],
) -> Option<&OsStr> {
    environment
        .iter()
        .find(|(name, _)| name == "PATH")
        .map(|(_, value)| value.as_os_str())
}

impl Content {
    /// Takes the workspace into care and keeps what is there.
    pub(super) fn begin(
        config: &RunConfig,
        layout: &Layout,
    ) -> Result<(Self, Snapshot, Option<GitHead>), ContentError> {
        let path = search_path(&config.environment);
        let excludes = config.excludes_file.clone();
        let (workspace, baseline) =
            Workspace::begin(workspace_config(layout, &config.run_id, path, excludes))?;
        let head = workspace.repository().map(|_| GitHead {
            head: baseline.head.map(|id| id.to_string()),
            dirty: baseline.dirty,
        });
        let snapshot = t0(&baseline);
        Ok((
            Self {
                workspace,
                artefacts: BTreeSet::new(),
            },
            snapshot,
            head,
        ))
    }

    /// Takes the workspace of a recorded run up again; `artefacts` are those of its last check.
    pub(super) fn reopen(
        config: &RunConfig,
        layout: &Layout,
        artefacts: &[String],
    ) -> Result<Self, ContentError> {
        let path = search_path(&config.environment);
        let excludes = config.excludes_file.clone();
        let (workspace, _) =
            Workspace::resume(workspace_config(layout, &config.run_id, path, excludes))?;
        Ok(Self {
            workspace,
            artefacts: unescaped(artefacts),
        })
    }

    /// Looks at the content before a check: an artefact that was changed since belongs to the work now.
    ///
    /// `None` when it cannot be read: the check's verdict does not depend on it.
    pub(super) fn before_check(&mut self) -> Option<Surroundings> {
        self.workspace
            .scan()
            .ok()
            .map(|manifest| Surroundings { manifest })
    }

    /// Looks at the content after a check.
    pub(super) fn after_check(&mut self, before: &Surroundings) -> Seen {
        let Ok(after) = self.workspace.scan() else {
            return Seen::default();
        };
        let changes = before.manifest.diff(&after);
        let touched = changes.changed.iter().chain(&changes.removed);
        let changed: Vec<String> = touched
            .filter(|path| !covered(&self.artefacts, path))
            .take(NAMED_MAX)
            .map(|path| escape::escape(path))
            .collect();
        for path in &changes.added {
            if !covered(&self.artefacts, path) {
                self.artefacts.insert(topmost_new(path, &before.manifest));
            }
        }
        Seen {
            digest: Some(self.digest(&after)),
            artefacts: self
                .artefacts
                .iter()
                .take(NAMED_MAX)
                .map(|path| escape::escape(path))
                .collect(),
            changed,
        }
    }

    fn digest(&self, manifest: &Manifest) -> Digest {
        digest(&without(manifest, &self.artefacts).digest())
    }

    /// Looks at the content at the end, and keeps it when it is a green that differs from t0.
    pub(super) fn end(&mut self, green: bool, t0: Option<&Snapshot>) -> Result<End, ContentError> {
        let whole = self.workspace.scan()?;
        let now = self.digest(&whole);
        if !green {
            return Ok(End {
                digest: Some(now),
                snapshot: None,
            });
        }
        if let Some(t0) = t0.filter(|t0| t0.manifest_sha256 == now) {
            let snapshot = Snapshot {
                label: SnapshotLabel::Final,
                reference: None,
                ..t0.clone()
            };
            return Ok(End {
                digest: Some(now),
                snapshot: Some(snapshot),
            });
        }
        let kept = without(&whole, &self.artefacts);
        let saved = self.workspace.save(&kept, END)?;
        let reference = self.workspace.publish("accepted", &saved.commit)?;
        let snapshot = Snapshot {
            label: SnapshotLabel::Final,
            manifest_sha256: digest(&saved.manifest_sha256),
            tree: Some(saved.tree.to_string()),
            commit: Some(saved.commit.to_string()),
            reference,
            files: count(&kept),
        };
        Ok(End {
            digest: Some(now),
            snapshot: Some(snapshot),
        })
    }
}

fn t0(baseline: &Baseline) -> Snapshot {
    Snapshot {
        label: SnapshotLabel::T0,
        manifest_sha256: digest(&baseline.saved.manifest_sha256),
        tree: Some(baseline.saved.tree.to_string()),
        commit: Some(baseline.saved.commit.to_string()),
        reference: baseline.reference.clone(),
        files: count(&baseline.manifest),
    }
}

fn count(manifest: &Manifest) -> u64 {
    u64::try_from(manifest.entries.len()).unwrap_or(u64::MAX)
}

/// The artefacts of a record as paths.
pub(crate) fn unescaped(artefacts: &[String]) -> BTreeSet<Vec<u8>> {
    artefacts
        .iter()
        .filter_map(|path| escape::unescape(path.as_bytes()))
        .collect()
}

/// A manifest without artefacts and what is below them.
pub(crate) fn without(manifest: &Manifest, artefacts: &BTreeSet<Vec<u8>>) -> Manifest {
    if artefacts.is_empty() {
        return manifest.clone();
    }
    let keep = |path: &[u8]| !covered(artefacts, path);
    Manifest {
        entries: manifest
            .entries
            .iter()
            .filter(|entry| keep(&entry.path))
            .cloned()
            .collect(),
        special: manifest
            .special
            .iter()
            .filter(|special| keep(&special.path))
            .cloned()
            .collect(),
    }
}

/// Whether a path is an artefact or below one.
fn covered(artefacts: &BTreeSet<Vec<u8>>, path: &[u8]) -> bool {
    if artefacts.is_empty() {
        return false;
    }
    artefacts.contains(path)
        || memchr::memchr_iter(b'/', path).any(|end| {
            path.get(..end)
                .is_some_and(|above| artefacts.contains(above))
        })
}

/// The path, or the topmost directory above it that did not exist before.
fn topmost_new(path: &[u8], before: &Manifest) -> Vec<u8> {
    for end in memchr::memchr_iter(b'/', path) {
        let Some(above) = path.get(..end) else {
            continue;
        };
        let first = before
            .entries
            .partition_point(|entry| entry.path.as_slice() < above);
        let existed = before.entries.get(first).is_some_and(|entry| {
            entry.path == above
                || entry
                    .path
                    .get(..=end)
                    .is_some_and(|start| start == [above, b"/"].concat())
        });
        if !existed {
            return above.to_vec();
        }
    }
    path.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::manifest::{Content as Kind, Entry};

    fn manifest(paths: &[&str]) -> Manifest {
        let mut paths: Vec<&str> = paths.to_vec();
        paths.sort_unstable();
        let entries = paths
            .iter()
            .map(|path| Entry {
                path: path.as_bytes().to_vec(),
                mode: 0o644,
                content: Kind::Directory,
            })
            .collect();
        Manifest {
            entries,
            special: Vec::new(),
        }
    }

    #[test]
    fn what_a_check_leaves_is_named_by_its_topmost_new_directory() {
        let before = manifest(&["a", "a/b", "a-x", "src/main.rs"]);
        let top = |path: &str| String::from_utf8(topmost_new(path.as_bytes(), &before)).unwrap();
        assert_eq!(top("target/debug/x"), "target");
        assert_eq!(top("src/out/x"), "src/out");
        assert_eq!(top("src/x"), "src/x");
        assert_eq!(top("a/new"), "a/new");
        assert_eq!(top("a/deep/x"), "a/deep");
        assert_eq!(top("x"), "x");
    }

    #[test]
    fn a_path_is_covered_by_itself_and_by_a_directory_above() {
        let artefacts = BTreeSet::from([b"target".to_vec(), b"src/x".to_vec()]);
        for path in ["target", "target/a/b", "src/x"] {
            assert!(covered(&artefacts, path.as_bytes()), "{path}");
        }
        for path in ["target2", "src", "src/xy", "a/target"] {
            assert!(!covered(&artefacts, path.as_bytes()), "{path}");
        }
        assert_eq!(
            without(&manifest(&["target/a", "b"]), &artefacts),
            manifest(&["b"])
        );
    }
}
