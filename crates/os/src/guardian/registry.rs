//! The guardians of this process that live: a sweep of orphans must not take another slot's guardian for one.
//!
//! It must not know what guardians do.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::process::Pid;

static LIVE: Mutex<BTreeSet<Pid>> = Mutex::new(BTreeSet::new());

/// Starts a guardian and notes it before anybody can look: a sweep waits for as long as this takes.
pub(super) fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut live = lock();
    let child = command.spawn()?;
    live.insert(Pid(child.id()));
    Ok(child)
}

/// The guardians that live now.
pub(super) fn live() -> BTreeSet<Pid> {
    lock().clone()
}

/// To be called once a guardian is reaped: its number may come back as an orphan's.
pub(super) fn forget(pid: Pid) {
    lock().remove(&pid);
}

fn lock() -> MutexGuard<'static, BTreeSet<Pid>> {
    // A set of numbers is whole after any panic.
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}
