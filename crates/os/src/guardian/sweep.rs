//! Reaping what ended and ending what is left, until the kernel says that nothing is.
//!
//! It must not know why the tree has to end. The proof is `wait4` answering `ECHILD`: to a subreaper every orphan comes back, whatever
//! session or group it made for itself. The lists in `/proc` only say whom to signal.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;

use super::registry;
use super::wire::Swept;
use crate::cgroup::Leaf;
use crate::clock::boot_millis;
use crate::process::{self, Pid};
use crate::{signals, tree};

/// Names kept of what was left over: enough to recognise a server that was started, not a list of a fork bomb.
pub(super) const MAX_NAMES: usize = 16;
/// Without one process more having ended for this long, what is left hangs in the kernel or may not be signalled.
const HOPELESS_MILLIS: u64 = 5_000;
/// However much progress there is, a sweep ends after this long, so that a run cannot be held up for ever.
const LONGEST_MILLIS: u64 = 60_000;
/// A listing is repeated this often even when no end of a child was signalled.
const ROUND: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};
/// Passes that stop processes before those listed are killed: a stopped process does not fork, so the set closes.
const MAX_STOP_PASSES: u32 = 16;
/// Time between two signs of life to whoever waits for the end of the sweep.
const SIGN_OF_LIFE_MILLIS: u64 = 1_000;

/// Whose children are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// All children of this process: it is a guardian, and has no others.
    Everything,
    /// Orphans of a lost guardian that came to this process, the governor, which has other children too.
    Adopted,
}

/// What was reaped so far of one command.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) main_status: Option<i32>,
    pub(super) cpu_micros: u64,
    max_rss_kib: u64,
    reaped: u64,
    killed: u64,
}

impl Tally {
    fn record(&mut self, child: &Waited, main: Option<Pid>, sweeping: bool) {
        self.cpu_micros = self.cpu_micros.saturating_add(child.cpu_micros);
        self.max_rss_kib = self.max_rss_kib.max(child.max_rss_kib);
        self.reaped = self.reaped.saturating_add(1);
        if Some(child.pid) == main && self.main_status.is_none() {
            self.main_status = Some(child.status);
        } else if sweeping
            && libc::WIFSIGNALED(child.status)
            && libc::WTERMSIG(child.status) == libc::SIGKILL
        {
            self.killed = self.killed.saturating_add(1);
        }
    }

    /// The result, with what the sweep adds to it.
    pub(super) fn into_swept(self, names: Vec<String>, unkillable: u32) -> Swept {
        Swept {
            cpu_millis: self.cpu_micros / 1_000,
            max_rss_kib: self.max_rss_kib,
            left: self.killed.saturating_add(u64::from(unkillable)),
            names,
            unkillable,
        }
    }
}

/// Reaps everything that has ended. Answers whether children are left.
pub(super) fn reap(scope: Scope, main: Option<Pid>, tally: &mut Tally, sweeping: bool) -> bool {
    match scope {
        Scope::Everything => loop {
            match wait(ANY) {
                Wait::Ended(child) => tally.record(&child, main, sweeping),
                Wait::Running => return true,
                Wait::NoChild => return false,
            }
        },
        Scope::Adopted => {
            let adopted = adopted();
            // By groups: what comes back from a tree that keeps forking is reaped faster than it can be listed.
            for group in adopted
                .iter()
                .filter_map(|pid| group_of(*pid))
                .collect::<BTreeSet<u32>>()
            {
                while let Wait::Ended(child) =
                    wait(i32::try_from(group).map_or(NOBODY, |group| -group))
                {
                    tally.record(&child, main, sweeping);
                }
            }
            // Of what was reaped the children are ours now: only the next look can tell that nobody came.
            !adopted.is_empty()
        }
    }
}

/// Ends a tree.
pub(super) struct Sweep<'a> {
    pub(super) scope: Scope,
    pub(super) main: Option<Pid>,
    pub(super) leaf: Option<&'a Leaf>,
    /// Becomes readable when a child ends.
    pub(super) wake: Option<BorrowedFd<'a>>,
}

impl Sweep<'_> {
    /// Repeats until nothing is left, or nothing more can be done. Answers the names of what was left and how many cannot be ended.
    pub(super) fn run(
        &self,
        tally: &mut Tally,
        sign_of_life: &mut dyn FnMut(),
    ) -> (Vec<String>, u32) {
        let started = boot_millis();
        let (mut last_progress, mut last_sign, mut names, mut round) =
            (started, started, BTreeMap::new(), 0_u32);
        loop {
            if let Some(wake) = self.wake {
                signals::drain(wake);
            }
            let before = tally.reaped;
            if !reap(self.scope, self.main, tally, true) {
                return (names.into_values().collect(), 0);
            }
            let now = boot_millis();
            if tally.reaped != before {
                last_progress = now;
            }
            let targets = self.targets();
            self.note_names(&targets, &mut names);
            if now - last_progress >= HOPELESS_MILLIS || now - started >= LONGEST_MILLIS {
                // Also when nobody can be listed: the kernel has just said that there is somebody.
                let alive = u32::try_from(targets.len().max(1)).unwrap_or(u32::MAX);
                return (names.into_values().collect(), alive);
            }
            self.kill(targets, round);
            round = round.saturating_add(1);
            self.wait_for_an_end();
            if now - last_sign >= SIGN_OF_LIFE_MILLIS {
                last_sign = now;
                sign_of_life();
            }
        }
    }

    fn targets(&self) -> Vec<Pid> {
        let roots = match self.scope {
            Scope::Everything => tree::children(Pid(std::process::id())),
            Scope::Adopted => adopted(),
        };
        tree::with_descendants(roots)
    }

    /// The first round takes what is usual, a few processes that were left over. What outlives it may be forking.
    fn kill(&self, mut targets: Vec<Pid>, round: u32) {
        kill_groups(&targets);
        if round > 0 {
            self.kill_leaf();
            targets = self.stop_all(self.targets());
        }
        for pid in targets {
            tree::send(pid, Signal::KILL);
        }
    }

    /// Ends the group from outside: a guardian steps out first, and in again afterwards. What left the group is not ended by it.
    fn kill_leaf(&self) {
        let Some(leaf) = self.leaf else { return };
        match self.scope {
            Scope::Everything if leaf.leave().is_err() => return,
            Scope::Everything | Scope::Adopted => {}
        }
        let _ = leaf.kill();
        match self.scope {
            // Where coming back fails, later commands live outside of the group and are swept by the lists alone.
            Scope::Everything => drop(leaf.join()),
            Scope::Adopted => {}
        }
    }

    fn stop_all(&self, mut targets: Vec<Pid>) -> Vec<Pid> {
        let mut stopped = BTreeSet::new();
        for _ in 0..MAX_STOP_PASSES {
            let fresh: Vec<Pid> = targets
                .iter()
                .copied()
                .filter(|pid| stopped.insert(*pid))
                .collect();
            if fresh.is_empty() {
                break;
            }
            for pid in fresh {
                tree::send(pid, Signal::STOP);
            }
            targets = self.targets();
        }
        targets
    }

    fn note_names(&self, targets: &[Pid], names: &mut BTreeMap<Pid, String>) {
        for pid in targets.iter().filter(|pid| Some(**pid) != self.main) {
            if names.len() >= MAX_NAMES {
                return;
            }
            if let Some(name) = process::name(*pid) {
                names.entry(*pid).or_insert(name);
            }
        }
    }

    fn wait_for_an_end(&self) {
        // Too early a return only makes one round more.
        let _ = match self.wake {
            Some(wake) => rustix::event::poll(
                &mut [PollFd::from_borrowed_fd(wake, PollFlags::IN)],
                Some(&ROUND),
            ),
            None => rustix::event::poll(&mut [], Some(&ROUND)),
        };
    }
}

/// Ends the process groups of a tree. A group never reaches beyond its session, and the sessions of a tree were made in it; only the
/// guardian's own group, which a command of its session can join, is left to the lists.
fn kill_groups(targets: &[Pid]) {
    let own = group_of(Pid(std::process::id()));
    let groups: BTreeSet<u32> = targets.iter().filter_map(|pid| group_of(*pid)).collect();
    for group in groups.into_iter().filter(|group| Some(*group) != own) {
        tree::send_to_group(group, Signal::KILL);
    }
}

/// Children of this process that it did not start: they are of another session than it and no guardian of it.
fn adopted() -> Vec<Pid> {
    let me = Pid(std::process::id());
    let Some(own) = session_of(me) else {
        return Vec::new();
    };
    let guardians = registry::live();
    let foreign = |pid: &Pid| session_of(*pid).is_some_and(|session| session != own);
    tree::children(me)
        .into_iter()
        .filter(|pid| !guardians.contains(pid) && foreign(pid))
        .collect()
}

/// The session of a process; 0 when it was made outside of our process namespace, which is why the safe wrapper does not do.
#[expect(unsafe_code, reason = "the safe wrapper cannot give back the number 0")]
fn session_of(pid: Pid) -> Option<i32> {
    let pid = i32::try_from(pid.0).ok()?;
    // SAFETY: takes and gives back a number.
    Some(unsafe { libc::getsid(pid) }).filter(|session| *session >= 0)
}

/// The group of a process, when it can be named: 0 would name our own and 1, made negative, everybody.
#[expect(unsafe_code, reason = "the safe wrapper cannot give back the number 0")]
fn group_of(pid: Pid) -> Option<u32> {
    let pid = i32::try_from(pid.0).ok()?;
    // SAFETY: takes and gives back a number.
    let group = unsafe { libc::getpgid(pid) };
    u32::try_from(group).ok().filter(|group| *group > 1)
}

/// Any child, for [`wait`].
const ANY: i32 = -1;
/// A child that cannot be: the first process is nobody's child.
const NOBODY: i32 = 1;

struct Waited {
    pid: Pid,
    status: i32,
    cpu_micros: u64,
    max_rss_kib: u64,
}

enum Wait {
    Ended(Waited),
    Running,
    NoChild,
}

#[expect(
    unsafe_code,
    reason = "no safe wrapper of wait4 gives the use of resources"
)]
fn wait(pid: i32) -> Wait {
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // WALL: children made by a bare `clone` without an exit signal count too, or the answer ECHILD would prove nothing.
    // SAFETY: both pointers are to live values of the right type.
    let pid = unsafe {
        libc::wait4(
            pid,
            &raw mut status,
            libc::WNOHANG | libc::__WALL,
            &raw mut usage,
        )
    };
    match u32::try_from(pid) {
        Ok(0) => Wait::Running,
        Ok(pid) => Wait::Ended(Waited {
            pid: Pid(pid),
            status,
            cpu_micros: micros(usage.ru_utime).saturating_add(micros(usage.ru_stime)),
            max_rss_kib: u64::try_from(usage.ru_maxrss).unwrap_or(0),
        }),
        Err(_) => Wait::NoChild,
    }
}

fn micros(time: libc::timeval) -> u64 {
    let micros = time
        .tv_sec
        .saturating_mul(1_000_000)
        .saturating_add(time.tv_usec);
    u64::try_from(micros).unwrap_or(0)
}
