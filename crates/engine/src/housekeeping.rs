//! The recorded runs as things on a disk: a list, what they take, and the removal of old ones.
//!
//! Must not remove what somebody may still need: a run that is active, signed or not acknowledged.

use std::{ffi::OsStr, path::Path};

use loopexec_core::{digest::Digest, workspace::ActName};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    candidate::publish,
    failure::{Failure, chain},
    git::{Git, Repository},
    layout::Layout,
    log::WorkspaceLog,
    recorded::{live, load},
    run::{hold, holder_name},
    runs,
};

/// A recorded run, in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Listed {
    /// Its id.
    pub run_id: String,
    /// Why it halted; `running`, or `unreadable`, where it has no halt.
    pub halt_reason: String,
    /// Iterations that were started.
    pub iterations: u32,
    /// When it was opened, Unix seconds; absent where the receipt does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_ts: Option<i64>,
    /// The same in milliseconds: the order of runs that follow each other quickly.
    #[serde(skip)]
    pub started_ts_ms: Option<i64>,
    /// When its last record was written, Unix seconds.
    #[serde(skip)]
    pub ended_ts: i64,
    /// Bytes of all its files in the store.
    pub bytes: u64,
    /// Whether a signature of it exists, also of an archived run of this id: presence, not verification.
    pub signed: bool,
    /// Whether a person acknowledged the workspace after it ended; absent where that cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<bool>,
}

/// Every recorded run, by start time, then id.
///
/// # Errors
///
/// When the workspace log is damaged.
pub fn list(layout: &Layout) -> Result<Vec<Listed>, Failure> {
    let log = WorkspaceLog::read(layout)
        .map_err(|error| Failure::invariant(chain(&error)).because("workspace_log_damaged"))?;
    let mut listed: Vec<Listed> = runs::ids(layout)
        .iter()
        .map(|run_id| one(layout, &log, run_id))
        .collect();
    listed.sort_by(|left, right| {
        (left.started_ts_ms, &left.run_id).cmp(&(right.started_ts_ms, &right.run_id))
    });
    Ok(listed)
}

fn one(layout: &Layout, log: &WorkspaceLog, run_id: &str) -> Listed {
    let bytes = usage_of(layout, run_id).total();
    let signed = signed(layout, run_id);
    let Ok(recorded) = load(layout, Some(run_id)) else {
        return Listed {
            run_id: run_id.to_owned(),
            halt_reason: "unreadable".to_owned(),
            iterations: 0,
            started_ts: None,
            started_ts_ms: None,
            ended_ts: 0,
            bytes,
            signed,
            acknowledged: None,
        };
    };
    let view = &recorded.view;
    let state = recorded.state();
    Listed {
        run_id: run_id.to_owned(),
        halt_reason: view
            .halt_reason
            .clone()
            .unwrap_or_else(|| view.phase.clone()),
        iterations: view.iteration,
        started_ts: state.map(|state| state.opened_ts_ms.div_euclid(1000)),
        started_ts_ms: state.map(|state| state.opened_ts_ms),
        ended_ts: state.map_or(view.updated_ts, |state| state.last_ts_ms.div_euclid(1000)),
        bytes,
        signed,
        acknowledged: state.and_then(|state| acknowledged(log, run_id, state.head)),
    }
}

/// Whether an acknowledgement follows the end of the run in the workspace log.
fn acknowledged(log: &WorkspaceLog, run_id: &str, head: Digest) -> Option<bool> {
    let ended = log.acts.iter().rposition(|act| {
        act.event == ActName::RunEnded && act.run_id == run_id && act.head == Some(head)
    })?;
    let after = log.acts.iter().skip(ended);
    Some(after.into_iter().any(|act| act.event == ActName::Ack))
}

/// Whether a signature of the run, or of an archived one of its id, exists.
fn signed(layout: &Layout, run_id: &str) -> bool {
    let own = layout.signatures(run_id);
    let archive = layout.run_directory(run_id).join("archive");
    let archived = children(&archive).into_iter().flat_map(|place| {
        own.clone()
            .into_iter()
            .filter_map(move |path| Some(place.join(path.file_name()?)))
    });
    own.iter()
        .cloned()
        .chain(archived)
        .any(|path| path.exists())
}

/// What a run takes on the disk, bytes of its files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Usage {
    /// The run.
    pub run_id: String,
    /// Receipt, state and signatures.
    pub receipt_bytes: u64,
    /// Its private directory: contents, diagnostics, archive.
    pub private_bytes: u64,
    /// Its second copy outside the workspace.
    pub outside_bytes: u64,
}

impl Usage {
    /// All of it in the store, without the copy outside.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.receipt_bytes.saturating_add(self.private_bytes)
    }
}

/// What each run takes, sorted by id.
#[must_use]
pub fn usage(layout: &Layout) -> Vec<Usage> {
    runs::ids(layout)
        .iter()
        .map(|run_id| usage_of(layout, run_id))
        .collect()
}

fn usage_of(layout: &Layout, run_id: &str) -> Usage {
    let mut files = vec![
        layout.receipt(run_id),
        layout.state(run_id),
        layout.summary(run_id),
    ];
    files.extend(layout.signatures(run_id));
    let outside = outside(layout, run_id);
    let sum = |paths: &[std::path::PathBuf]| {
        paths
            .iter()
            .fold(0_u64, |sum, path| sum.saturating_add(size(path)))
    };
    Usage {
        run_id: run_id.to_owned(),
        receipt_bytes: sum(&files),
        private_bytes: size(&layout.run_directory(run_id)),
        outside_bytes: sum(&outside),
    }
}

/// The copies outside of a run and of archived ones of its id.
fn outside(layout: &Layout, run_id: &str) -> Vec<std::path::PathBuf> {
    let Some(anchor) = layout.anchor(run_id) else {
        return Vec::new();
    };
    let mut all = vec![anchor.clone()];
    let archive = layout.run_directory(run_id).join("archive");
    for place in children(&archive) {
        let number = place.file_name().unwrap_or_default().to_string_lossy();
        all.push(anchor.with_file_name(format!("archive-{run_id}-{number}.jsonl")));
    }
    all
}

/// Bytes of a file, or of every file below a directory; links are not followed.
fn size(path: &Path) -> u64 {
    match fs_err::symlink_metadata(path) {
        Err(_) => 0,
        Ok(metadata) if metadata.is_dir() => children(path)
            .iter()
            .fold(0, |sum, child| sum.saturating_add(size(child))),
        Ok(metadata) => metadata.len(),
    }
}

/// What a directory holds, sorted; nothing where there is none.
fn children(directory: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = fs_err::read_dir(directory) else {
        return Vec::new();
    };
    let mut all: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    all.sort();
    all
}

/// Which runs to remove.
#[derive(Debug)]
pub struct PruneConfig<'a> {
    /// The workspace.
    pub layout: &'a Layout,
    /// Newest runs that stay; `None` protects none by its age.
    pub keep: Option<usize>,
    /// Seconds since its last record that a run must have to go; `None` is any age.
    pub older_s: Option<i64>,
    /// Now, Unix seconds.
    pub now: i64,
    /// Where `git` is looked for.
    pub search_path: Option<&'a OsStr>,
}

/// What was removed, and what stays and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Pruned {
    /// Runs that were removed.
    pub removed: Vec<String>,
    /// Bytes that they took in the store and outside.
    pub bytes: u64,
    /// Runs that stay.
    pub kept: Vec<Kept>,
}

/// A run that stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Kept {
    /// The run.
    pub run_id: String,
    /// Why.
    pub why: &'static str,
}

/// Removes old runs, with their copies outside and their references.
///
/// # Errors
///
/// A governor works in the workspace, or something cannot be removed; what was removed up to there is gone.
pub fn prune(config: &PruneConfig<'_>) -> Result<Pruned, Failure> {
    let layout = config.layout;
    let Some(latest) = runs::latest(layout) else {
        return Ok(Pruned::default());
    };
    // Said before the lock is taken: while a governor works its run is active, and so is the workspace.
    let active = active(layout);
    let held = hold(layout, &latest)?;
    let mut listed = list(layout)?;
    listed.reverse();
    let mut pruned = Pruned::default();
    for (position, run) in listed.iter().enumerate() {
        match reason(config, position, run, active.as_deref()) {
            Some(why) => pruned.kept.push(Kept {
                run_id: run.run_id.clone(),
                why,
            }),
            None => {
                let usage = usage_of(layout, &run.run_id);
                remove(config, &run.run_id)?;
                pruned.bytes = pruned
                    .bytes
                    .saturating_add(usage.total())
                    .saturating_add(usage.outside_bytes);
                pruned.removed.push(run.run_id.clone());
            }
        }
    }
    drop(held);
    Ok(pruned)
}

fn active(layout: &Layout) -> Option<String> {
    let holder = holder_name(layout).map(|(_, run_id)| run_id);
    holder.or_else(|| runs::latest(layout).filter(|run_id| live(layout, run_id).is_some()))
}

/// Why a run stays; `None` when it goes. `position` counts from the newest.
fn reason(
    config: &PruneConfig<'_>,
    position: usize,
    run: &Listed,
    active: Option<&str>,
) -> Option<&'static str> {
    let age = config.now.saturating_sub(run.ended_ts);
    if config.keep.is_some_and(|keep| position < keep) {
        Some("it is one of the newest (--keep)")
    } else if config.older_s.is_some_and(|older| age <= older) {
        Some("it is not old enough (--older)")
    } else if active == Some(run.run_id.as_str()) || run.halt_reason == "running" {
        Some("it has not ended")
    } else if run.halt_reason == "unreadable" {
        Some("its receipt cannot be read, so nothing is known of it")
    } else if run.signed {
        Some("it is signed")
    } else {
        match run.acknowledged {
            Some(true) => None,
            Some(false) if run.iterations == 0 => None,
            Some(false) => Some("nobody has acknowledged it (loopexec ack)"),
            None => Some("whether it was acknowledged cannot be told"),
        }
    }
}

/// Removes everything of a run; the receipt last, so that an interrupted removal is seen and can be repeated.
fn remove(config: &PruneConfig<'_>, run_id: &str) -> Result<(), Failure> {
    let layout = config.layout;
    let failed = |what: String| {
        Failure::workspace(format!("the run {run_id:?} cannot be removed: {what}"))
            .because("prune_failed")
    };
    let repository =
        Repository::discover(layout.workdir()).map_err(|error| failed(chain(&error)))?;
    if let Some(repository) = repository {
        let git = config
            .search_path
            .and_then(|path| Git::find(path).ok())
            .ok_or_else(|| failed("git is needed to remove its references".to_owned()))?;
        publish::remove_references(&git, &repository, run_id)
            .map_err(|error| failed(chain(&error)))?;
    }
    for copy in outside(layout, run_id) {
        gone(fs_err::remove_file(copy)).map_err(&failed)?;
    }
    gone(fs_err::remove_dir_all(layout.run_directory(run_id))).map_err(&failed)?;
    let own = Path::new(&crate::layout::state_name(run_id)).to_owned();
    if fs_err::read_link(layout.latest()).is_ok_and(|target| target == own) {
        gone(fs_err::remove_file(layout.latest())).map_err(&failed)?;
    }
    gone(fs_err::remove_file(layout.state(run_id))).map_err(&failed)?;
    gone(fs_err::remove_file(layout.receipt(run_id))).map_err(&failed)
}

/// A removal of what is not there has nothing left to do.
fn gone(outcome: std::io::Result<()>) -> Result<(), String> {
    match outcome {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.to_string()),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(halt: &str, signed: bool, acknowledged: Option<bool>) -> Listed {
        Listed {
            run_id: "a".to_owned(),
            halt_reason: halt.to_owned(),
            iterations: 1,
            started_ts: Some(0),
            started_ts_ms: Some(0),
            ended_ts: 1_000,
            bytes: 0,
            signed,
            acknowledged,
        }
    }

    fn why(keep: Option<usize>, older_s: Option<i64>, position: usize, run: &Listed) -> bool {
        let layout = Layout::new(Path::new("/nowhere"), None);
        let config = PruneConfig {
            layout: &layout,
            keep,
            older_s,
            now: 1_100,
            search_path: None,
        };
        reason(&config, position, run, None).is_some()
    }

    #[test]
    fn the_newest_n_stay_and_the_one_after_them_goes() {
        let done = run("success_condition_met", false, Some(true));
        assert!(why(Some(2), None, 1, &done));
        assert!(!why(Some(2), None, 2, &done));
        assert!(!why(Some(0), None, 0, &done));
    }

    #[test]
    fn a_run_goes_when_it_is_older_than_the_limit_and_not_at_it() {
        let done = run("success_condition_met", false, Some(true));
        assert!(why(None, Some(100), 0, &done));
        assert!(!why(None, Some(99), 0, &done));
        assert!(why(Some(1), Some(99), 0, &done));
    }

    #[test]
    fn what_is_running_signed_or_not_acknowledged_stays_whatever_its_age() {
        let stays = |run: &Listed| why(Some(0), Some(0), 9, run);
        assert!(stays(&run("running", false, Some(true))));
        assert!(stays(&run("unreadable", false, None)));
        assert!(stays(&run("success_condition_met", true, Some(true))));
        assert!(stays(&run("success_condition_met", false, Some(false))));
        assert!(stays(&run("success_condition_met", false, None)));
        let mut idle = run("success_condition_met", false, Some(false));
        idle.iterations = 0;
        assert!(!stays(&idle));
    }

    #[test]
    fn a_size_is_that_of_every_file_below_and_of_no_link() {
        let directory = tempfile::tempdir().unwrap();
        fs_err::create_dir(directory.path().join("a")).unwrap();
        fs_err::write(directory.path().join("a/x"), b"123").unwrap();
        fs_err::write(directory.path().join("y"), b"4").unwrap();
        assert_eq!(size(directory.path()), 4);
        assert_eq!(size(&directory.path().join("missing")), 0);
    }
}
