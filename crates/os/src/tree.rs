//! The tree of processes below one process: who is in it, what time it took, signals to all of it.
//!
//! It must not know when a tree has to end. A listing is never complete while processes fork: whoever ends a tree repeats it until the
//! kernel says that no child is left.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::OnceLock;

use rustix::process::Signal;

use crate::process::{self, Pid};

/// Processes listed in one round. More are found in the next one, when these are gone: memory stays bounded under a fork bomb.
const MAX_LISTED: usize = 65_536;

/// The direct children of a process, of all its threads; zombies included.
pub(crate) fn children(pid: Pid) -> Vec<Pid> {
    if !kernel_lists_children() {
        return parents_and_children().remove(&pid).unwrap_or_default();
    }
    let Ok(threads) = fs_err::read_dir(format!("/proc/{}/task", pid.0)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for thread in threads.flatten() {
        let Ok(text) = fs_err::read_to_string(thread.path().join("children")) else {
            continue;
        };
        found.extend(
            text.split_ascii_whitespace()
                .filter_map(|number| number.parse().ok())
                .map(Pid),
        );
    }
    found
}

/// The given processes and everything below them.
pub(crate) fn with_descendants(roots: Vec<Pid>) -> Vec<Pid> {
    let edges = if kernel_lists_children() {
        None
    } else {
        Some(parents_and_children())
    };
    let mut seen = BTreeSet::new();
    let mut queue: VecDeque<Pid> = roots.into();
    let mut found = Vec::new();
    while let Some(pid) = queue.pop_front() {
        if found.len() >= MAX_LISTED || !seen.insert(pid) {
            continue;
        }
        found.push(pid);
        match &edges {
            None => queue.extend(children(pid)),
            Some(edges) => queue.extend(edges.get(&pid).into_iter().flatten()),
        }
    }
    found
}

/// User and system time of living processes and of the children they waited for, in milliseconds.
pub(crate) fn cpu_millis(pids: &[Pid]) -> u64 {
    let ticks: u64 = pids
        .iter()
        .filter_map(|pid| process::stat(*pid).ok())
        .map(|stat| stat.cpu_ticks)
        .sum();
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    ticks.saturating_mul(1_000) / per_second
}

/// Sends a signal. That the process is gone already, or may not be signalled, shows in the next listing.
pub(crate) fn send(pid: Pid, signal: Signal) {
    // Neither everybody (0), nor the first process (1), nor a number that would name a group.
    let Some(target) = i32::try_from(pid.0).ok().filter(|number| *number > 1) else {
        return;
    };
    if let Some(target) = rustix::process::Pid::from_raw(target) {
        let _ = rustix::process::kill_process(target, signal);
    }
}

/// Sends a signal to a whole process group at once: unlike a list, the kernel misses nobody who is just forking.
pub(crate) fn send_to_group(group: u32, signal: Signal) {
    // As above: 1 would again mean everybody.
    let Some(target) = i32::try_from(group).ok().filter(|number| *number > 1) else {
        return;
    };
    if let Some(target) = rustix::process::Pid::from_raw(target) {
        let _ = rustix::process::kill_process_group(target, signal);
    }
}

/// Whether the kernel was built with lists of children. Asked once: it does not change.
fn kernel_lists_children() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let me = std::process::id();
        fs_err::metadata(format!("/proc/{me}/task/{me}/children")).is_ok()
    })
}

/// Without those lists: one walk over all processes.
fn parents_and_children() -> BTreeMap<Pid, Vec<Pid>> {
    let mut edges: BTreeMap<Pid, Vec<Pid>> = BTreeMap::new();
    let Ok(entries) = fs_err::read_dir("/proc") else {
        return edges;
    };
    for entry in entries.flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
            .map(Pid)
        else {
            continue;
        };
        if let Ok(stat) = process::stat(pid) {
            edges.entry(stat.parent).or_default().push(pid);
        }
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_over_all_processes_knows_the_parent_of_this_one() {
        let edges = parents_and_children();
        let parent = Pid(std::os::unix::process::parent_id());
        assert!(
            edges
                .get(&parent)
                .is_some_and(|children| children.contains(&Pid(std::process::id())))
        );
    }

    #[test]
    fn the_kernel_lists_this_process_among_the_children_of_its_parent() {
        let parent = Pid(std::os::unix::process::parent_id());
        assert!(children(parent).contains(&Pid(std::process::id())));
        assert!(with_descendants(vec![parent]).contains(&Pid(std::process::id())));
    }

    #[test]
    fn a_process_is_listed_once_even_when_it_is_a_root_twice() {
        let me = Pid(std::process::id());
        let found = with_descendants(vec![me, me]);
        assert_eq!(found.iter().filter(|pid| **pid == me).count(), 1);
    }

    #[test]
    fn a_process_that_is_gone_has_no_time_and_no_children() {
        assert_eq!(cpu_millis(&[Pid(u32::MAX)]), 0);
        assert!(children(Pid(u32::MAX)).is_empty());
    }
}
