//! The store of a workspace on the disk: made, its old run moved aside, watched for what others do to it.
//!
//! Must not know what a record means.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use loopexec_os::{
    durable::{DurableError, PRIVATE_FILE, SyncMode, create_private_directory, replace_file},
    lock::{LockError, WorkspaceLock},
    process,
};

use crate::{
    failure::{Failure, chain},
    layout::Layout,
};

/// Makes `.loopexec/` and the directories below it that a run needs.
pub(crate) fn prepare(layout: &Layout, run_id: Option<&str>) -> Result<(), Failure> {
    let unusable = |error: DurableError| {
        Failure::workspace(format!("cannot prepare the store: {}", chain(&error)))
            .because("store_unusable")
            .hint("check who owns .loopexec, its permissions, and the space on the disk")
    };
    create_private_directory(&layout.store()).map_err(unusable)?;
    let ignore = layout.file(".gitignore");
    if !ignore.exists() {
        replace_file(&ignore, b"*\n", PRIVATE_FILE, SyncMode::None).map_err(unusable)?;
    }
    if let Some(run_id) = run_id {
        create_private_directory(&layout.store().join("runs")).map_err(unusable)?;
        create_private_directory(&layout.run_directory(run_id)).map_err(unusable)?;
    }
    Ok(())
}

/// Makes the directory outside of the workspace; `None` where none can be had.
pub(super) fn prepare_outside(layout: &Layout) -> Option<PathBuf> {
    let directory = layout.outside()?;
    let parent = directory.parent()?;
    fs_err::create_dir_all(parent).ok()?;
    create_private_directory(directory).ok()?;
    Some(directory.to_owned())
}

/// Takes the workspace's lock, makes the store below it, and says who holds it when another does.
pub(crate) fn lock(layout: &Layout, run_id: &str) -> Result<WorkspaceLock, Failure> {
    let lock = match WorkspaceLock::acquire(layout.workdir()) {
        Err(LockError::Unsupported { .. }) => {
            let place = prepare_outside(layout).ok_or_else(|| {
                Failure::workspace("this file system cannot lock directories, and there is no state directory outside to lock in")
                    .because("workspace_not_lockable")
                    .hint("set XDG_STATE_HOME or HOME")
            })?;
            WorkspaceLock::acquire_file(&place.join("lock"))
        }
        outcome => outcome,
    };
    match lock {
        Ok(lock) => {
            prepare(layout, Some(run_id))?;
            name_holder(layout, run_id);
            Ok(lock)
        }
        Err(LockError::Held { .. }) => Err(held(layout)),
        Err(error) => Err(Failure::workspace(format!(
            "cannot lock the workspace: {}",
            chain(&error)
        ))
        .because("workspace_not_lockable")),
    }
}

/// The workspace's lock for a command beside the loop; the holder's name goes with it.
#[derive(Debug)]
pub(crate) struct Held {
    layout: Layout,
    _lock: WorkspaceLock,
}

impl Drop for Held {
    fn drop(&mut self) {
        forget_holder(&self.layout);
    }
}

/// Takes the lock for a command that is not the loop; refused while a governor works.
pub(crate) fn hold(layout: &Layout, run_id: &str) -> Result<Held, Failure> {
    lock(layout, run_id).map(|lock| Held {
        layout: layout.clone(),
        _lock: lock,
    })
}

/// Leaves the holder's name for whoever is refused; the lock itself is the kernel's.
fn name_holder(layout: &Layout, run_id: &str) {
    let name = format!(
        "{{\"pid\":{},\"run_id\":\"{run_id}\"}}\n",
        std::process::id()
    );
    for path in names(layout)
        .into_iter()
        .filter(|path| path.parent().is_some_and(Path::is_dir))
    {
        // A name that cannot be left only makes the refusal of another less helpful.
        let _ = replace_file(&path, name.as_bytes(), PRIVATE_FILE, SyncMode::None);
    }
}

/// The refusal of a second governor, with the name of the first where it can be read.
fn held(layout: &Layout) -> Failure {
    let name = holder(layout).map_or_else(
        || "its name cannot be read".to_owned(),
        |(pid, run_id)| format!("process {pid}, run {run_id:?}"),
    );
    Failure::workspace(format!(
        "another governor works in {}: {name}",
        layout.workdir().display()
    ))
    .because("workspace_locked")
    .hint("wait until it ends, or end it; the lock is free as soon as that process is gone")
}

/// Who holds the lock, as far as a name was left by a process that still runs.
fn holder(layout: &Layout) -> Option<(u32, String)> {
    holder_name(layout).filter(|(pid, _)| process::is_alive(process::Pid(*pid)))
}

/// The name that the last holder left, and takes away when it ends in order.
pub(crate) fn holder_name(layout: &Layout) -> Option<(u32, String)> {
    names(layout).into_iter().find_map(|path| {
        let value: serde_json::Value = serde_json::from_slice(
            &loopexec_os::durable::read_regular(&path, loopexec_os::durable::SMALL_FILE_BYTES)
                .ok()?,
        )
        .ok()?;
        let pid = u32::try_from(value.get("pid")?.as_u64()?).ok()?;
        Some((pid, value.get("run_id")?.as_str()?.to_owned()))
    })
}

/// Takes the holder's name away.
pub(super) fn forget_holder(layout: &Layout) {
    for path in names(layout) {
        let _ = fs_err::remove_file(path);
    }
}

fn names(layout: &Layout) -> Vec<PathBuf> {
    let outside = layout.outside().map(|directory| directory.join("holder"));
    [Some(layout.file("lock")), outside]
        .into_iter()
        .flatten()
        .collect()
}

/// Moves what a run of this id left to `runs/<id>/archive/<n>/`; the receipt last, so that a crash in between is seen.
pub(super) fn archive(layout: &Layout, run_id: &str) -> Result<Option<PathBuf>, Failure> {
    let receipt = layout.receipt(run_id);
    if fs_err::symlink_metadata(&receipt).is_err() {
        return Ok(None);
    }
    let failed = |error: std::io::Error| {
        Failure::workspace(format!(
            "cannot move the earlier run {run_id:?} aside: {error}"
        ))
        .because("archive_failed")
    };
    let run = layout.run_directory(run_id);
    let place = next_archive(&run.join("archive"));
    fs_err::create_dir_all(&place).map_err(failed)?;
    let [sshsig, bundle, hmac] = layout.signatures(run_id);
    let parts = [
        sshsig,
        bundle,
        hmac,
        layout.summary(run_id),
        layout.state(run_id),
    ];
    let inner = [
        "git",
        "diagnostics",
        "feedback.json",
        "rules.json",
        "t0.json",
        "acknowledged.manifest",
        "t0.manifest",
        "final.manifest",
    ]
    .map(|name| run.join(name));
    for path in parts.into_iter().chain(inner).chain([receipt]) {
        let Some(name) = path.file_name() else {
            continue;
        };
        match fs_err::rename(&path, place.join(name)) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    if let Some(anchor) = layout.anchor(run_id)
        && anchor.exists()
    {
        let number = place
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let aside = anchor.with_file_name(format!("archive-{run_id}-{number}.jsonl"));
        fs_err::rename(&anchor, aside).map_err(failed)?;
    }
    Ok(Some(place))
}

fn next_archive(archive: &Path) -> PathBuf {
    let taken = fs_err::read_dir(archive).map_or(0, |entries| {
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
            .max()
            .unwrap_or(0)
    });
    archive.join(taken.saturating_add(1).to_string())
}

/// What a file looked like after our own last write of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    path: PathBuf,
    stamp: [i128; 6],
    bytes: Vec<u8>,
}

/// What became of a file since then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    Same,
    Gone,
    Changed,
}

impl Seen {
    pub(super) fn now(path: PathBuf, bytes: Vec<u8>) -> Self {
        let stamp = stamp(&path).unwrap_or_default();
        Self { path, stamp, bytes }
    }

    /// A file that may not be there yet.
    pub(super) fn of(path: PathBuf) -> Self {
        let bytes = loopexec_os::durable::read_regular(&path, loopexec_os::durable::LOG_FILE_BYTES);
        Self::now(path, bytes.unwrap_or_default())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Costs one `stat` when nobody touched it.
    pub(super) fn since(&mut self) -> Since {
        match stamp(&self.path) {
            None => Since::Gone,
            Some(now) if now == self.stamp => Since::Same,
            Some(now) => {
                if loopexec_os::durable::read_regular(
                    &self.path,
                    loopexec_os::durable::SMALL_FILE_BYTES,
                )
                .is_ok_and(|bytes| bytes == self.bytes)
                {
                    self.stamp = now;
                    Since::Same
                } else {
                    Since::Changed
                }
            }
        }
    }
}

fn stamp(path: &Path) -> Option<[i128; 6]> {
    let metadata = fs_err::symlink_metadata(path).ok()?;
    let nanos = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    Some([
        i128::from(metadata.dev()),
        i128::from(metadata.ino()),
        i128::from(metadata.size()),
        i128::from(metadata.mode()),
        nanos(metadata.mtime(), metadata.mtime_nsec()),
        nanos(metadata.ctime(), metadata.ctime_nsec()),
    ])
}
