//! A control group of our own, where one can be made: the kernel then ends everything in it at once, also what forks faster than anyone
//! lists it and what got rid of its guardian.
//!
//! It must not know commands. No controller is enabled: it is used as a set of processes only.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::process::{self, Identity, Pid};

/// Where a version 2 hierarchy is: alone, or beside the older ones.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// How the names of our groups begin.
const PREFIX: &str = "loopexec-";
/// Old groups looked at in one start; the rest is for the next one.
const MAX_STALE: usize = 256;

/// Levels of groups that a command made below ours and left behind: a program of this kind within this one makes one.
const MAX_NESTED: u32 = 8;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// One control group of ours.
#[derive(Debug)]
pub(crate) struct Leaf {
    path: PathBuf,
}

impl Leaf {
    /// Makes a group below the one this process is in. `None` where that is not allowed, which is the usual case in containers.
    pub(crate) fn create() -> Option<Self> {
        let base = base()?;
        let namespace = namespace()?;
        remove_stale(&base, &namespace);
        let me = process::self_identity().ok()?;
        let name = Name {
            namespace,
            owner: me,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        };
        let leaf = Self {
            path: base.join(name.to_string()),
        };
        fs_err::create_dir(&leaf.path).ok()?;
        if fs_err::metadata(leaf.path.join("cgroup.kill")).is_ok() {
            return Some(leaf);
        }
        leaf.remove();
        None
    }

    /// The group somebody else made.
    pub(crate) fn existing(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves this process into the group; what it starts from now on is born there.
    pub(crate) fn join(&self) -> io::Result<()> {
        order(&self.path.join("cgroup.procs"), b"0")
    }

    /// Moves this process back to where the group was made.
    pub(crate) fn leave(&self) -> io::Result<()> {
        match self.path.parent() {
            Some(base) => order(&base.join("cgroup.procs"), b"0"),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Ends every process in the group, at once and without exception.
    pub(crate) fn kill(&self) -> io::Result<()> {
        order(&self.path.join("cgroup.kill"), b"1")
    }

    /// Removes the group and empty ones below it. The kernel refuses while a living process is in it; it is then removed by a later start.
    pub(crate) fn remove(&self) {
        remove_groups(&self.path, MAX_NESTED);
    }
}

/// Groups are removed from the inside out. What looks like files in them is no content and goes with them.
fn remove_groups(path: &Path, levels: u32) {
    if levels > 0 && fs_err::remove_dir(path).is_err() {
        let Ok(entries) = fs_err::read_dir(path) else {
            return;
        };
        for entry in entries.flatten().take(MAX_STALE) {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove_groups(&entry.path(), levels - 1);
            }
        }
        let _ = fs_err::remove_dir(path);
    }
}

fn order(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = fs_err::OpenOptions::new().write(true).open(path)?;
    io::Write::write_all(&mut file, text)
}

/// Whose group it is. The process namespace is part of the name, because a number of another namespace says nothing here.
#[derive(Debug, PartialEq, Eq)]
struct Name {
    namespace: String,
    owner: Identity,
    number: u32,
}

impl std::fmt::Display for Name {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Identity { pid, start_ticks } = self.owner;
        write!(
            formatter,
            "{PREFIX}{}-{}-{start_ticks}-{}",
            self.namespace, pid.0, self.number
        )
    }
}

impl Name {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(PREFIX)?.split('-');
        let namespace = parts.next()?.to_owned();
        let pid = Pid(parts.next()?.parse().ok()?);
        let start_ticks = parts.next()?.parse().ok()?;
        let number = parts.next()?.parse().ok()?;
        match parts.next() {
            Some(_) => None,
            None => Some(Self {
                namespace,
                owner: Identity { pid, start_ticks },
                number,
            }),
        }
    }
}

/// The number of our process namespace: `/proc/self/ns/pid` is a link to `pid:[4026531836]`.
fn namespace() -> Option<String> {
    let link = fs_err::read_link("/proc/self/ns/pid").ok()?;
    let digits: String = link
        .to_str()?
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    if digits.is_empty() {
        None
    } else {
        Some(digits)
    }
}

/// The version 2 group this process is in.
fn base() -> Option<PathBuf> {
    let mount = MOUNTS
        .iter()
        .map(Path::new)
        .find(|mount| fs_err::metadata(mount.join("cgroup.controllers")).is_ok())?;
    let text = fs_err::read_to_string("/proc/self/cgroup").ok()?;
    let own = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(mount.join(own))
}

/// Groups of ours whose governor is dead: a guardian that was killed with it could not remove them. What still lives there is left over.
fn remove_stale(base: &Path, namespace: &str) {
    let Ok(entries) = fs_err::read_dir(base) else {
        return;
    };
    for entry in entries.flatten().take(MAX_STALE) {
        let Some(name) = entry.file_name().to_str().and_then(Name::parse) else {
            continue;
        };
        if name.namespace != namespace || process::is_running(name.owner) {
            continue;
        }
        let leaf = Leaf::existing(entry.path());
        // A group of another user refuses both.
        let _ = leaf.kill();
        leaf.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back_as_what_it_was_made_of() {
        let owner = Identity {
            pid: Pid(12),
            start_ticks: 3_456,
        };
        let name = Name {
            namespace: "4026531836".into(),
            owner,
            number: 7,
        };
        assert_eq!(name.to_string(), "loopexec-4026531836-12-3456-7");
        assert_eq!(Name::parse(&name.to_string()), Some(name));
    }

    #[test]
    fn a_foreign_name_is_not_ours() {
        for foreign in [
            "init.scope",
            "loopexec-",
            "loopexec-1-2-3",
            "loopexec-1-2-3-4-5",
            "loopexec-1-x-3-4",
        ] {
            assert_eq!(Name::parse(foreign), None, "{foreign}");
        }
    }
}
