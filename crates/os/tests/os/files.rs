//! Locks between processes, and a log on a full disk.

use crate::helper::{self, FULL, LOCK, first_line};
use crate::support::Tests;
use loopexec_os::lock::{LockError, WorkspaceLock};
use rustix::process::{Resource, Rlimit};

pub(crate) const TESTS: Tests = &[
    (
        "a_lock_excludes_other_processes_and_is_free_after_kill",
        a_lock_excludes_other_processes_and_is_free_after_kill,
    ),
    (
        "a_lock_survives_the_removal_of_everything_below",
        a_lock_survives_the_removal_of_everything_below,
    ),
    (
        "a_log_on_a_full_disk_takes_nothing_more",
        a_log_on_a_full_disk_takes_nothing_more,
    ),
];

fn a_lock_excludes_other_processes_and_is_free_after_kill() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let mut holder = helper::command(LOCK, &[path]).spawn().unwrap();
    assert_eq!(first_line(&mut holder), "held");
    assert!(matches!(
        WorkspaceLock::acquire(directory.path()),
        Err(LockError::Held { .. })
    ));
    let mut second = helper::command(LOCK, &[path]).spawn().unwrap();
    assert_eq!(
        first_line(&mut second),
        format!("{path} is locked by another process")
    );
    second.wait().unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();
    WorkspaceLock::acquire(directory.path()).unwrap();
}

fn a_lock_survives_the_removal_of_everything_below() {
    let directory = tempfile::tempdir().unwrap();
    let below = directory.path().join(".loopexec");
    fs_err::create_dir(&below).unwrap();
    fs_err::write(below.join("lock"), "").unwrap();
    let mut holder = helper::command(LOCK, &[directory.path().to_str().unwrap()])
        .spawn()
        .unwrap();
    assert_eq!(first_line(&mut holder), "held");
    fs_err::remove_dir_all(&below).unwrap();
    assert!(matches!(
        WorkspaceLock::acquire(directory.path()),
        Err(LockError::Held { .. })
    ));
    drop(holder.stdin.take());
    holder.wait().unwrap();
    WorkspaceLock::acquire(directory.path()).unwrap();
}

fn a_log_on_a_full_disk_takes_nothing_more() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let helper = helper::command(FULL, &[path.to_str().unwrap()])
        .spawn()
        .unwrap();
    let said = helper.wait_with_output().unwrap();
    assert_eq!(
        String::from_utf8(said.stdout).unwrap(),
        "Some(FileTooLarge) true true 90\n"
    );
    // What fitted is there: recovery finds a torn record behind the good one.
    let contents = fs_err::read(&path).unwrap();
    assert_eq!(contents.len(), 100);
    assert!(contents.starts_with(&[b'a'; 90]));
}

/// For the helper: files may have 100 bytes, and the handlers of the program make that an error of the write.
pub(crate) fn limit_file_size() {
    rustix::process::setrlimit(
        Resource::Fsize,
        Rlimit {
            current: Some(100),
            maximum: Some(100),
        },
    )
    .unwrap();
    loopexec_os::signals::Signals::install().unwrap();
}
