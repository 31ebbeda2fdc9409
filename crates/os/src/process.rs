//! Other processes, as `/proc` shows them: who is alive, who started whom.
//!
//! It must not end anything, and it must not know why somebody asks.

use std::io;

/// Steps up the tree before giving up: parents change while one walks, and a chain this long is no honest one.
const MAX_ANCESTORS: usize = 256;
/// Longest process name reported; the kernel keeps 15 bytes.
const MAX_NAME: usize = 64;

/// The number of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub u32);

/// A process that cannot be confused with a later one of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Its number.
    pub pid: Pid,
    /// When it started, in clock ticks since the machine did.
    pub start_ticks: u64,
}

/// What `/proc/<pid>/stat` says, as far as it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: u8,
    pub(crate) parent: Pid,
    /// User and system time of the process and of its reaped children, in clock ticks.
    pub(crate) cpu_ticks: u64,
    pub(crate) start_ticks: u64,
}

/// This process.
///
/// # Errors
/// `/proc` is not there.
pub fn self_identity() -> io::Result<Identity> {
    let pid = Pid(std::process::id());
    start_ticks(pid).map(|start_ticks| Identity { pid, start_ticks })
}

/// When a process started, in clock ticks since the machine did.
///
/// # Errors
/// There is no such process (`NotFound`), or `/proc` is not there.
pub fn start_ticks(pid: Pid) -> io::Result<u64> {
    stat(pid).map(|stat| stat.start_ticks)
}

/// Whether a process of this number runs. A zombie has ended.
#[must_use]
pub fn is_alive(pid: Pid) -> bool {
    match stat(pid) {
        Ok(stat) => stat.state != b'Z' && stat.state != b'X',
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        // Hidden by the mount options of /proc: whoever may not be asked about exists.
        Err(_) => exists(pid),
    }
}

/// Whether exactly this process still runs.
#[must_use]
pub fn is_running(identity: Identity) -> bool {
    is_alive(identity.pid)
        && start_ticks(identity.pid).is_ok_and(|ticks| ticks == identity.start_ticks)
}

/// The parent of this process, its parent, and so on to the first process that can be seen.
#[must_use]
pub fn ancestors() -> Vec<Pid> {
    let mut found = Vec::new();
    let mut next = Pid(std::process::id());
    while found.len() < MAX_ANCESTORS {
        let Ok(stat) = stat(next) else { break };
        if stat.parent.0 == 0 {
            break;
        }
        found.push(stat.parent);
        next = stat.parent;
    }
    found
}

/// The name of a process, as the kernel keeps it: without its path, cut at 15 bytes. Not UTF-8 becomes U+FFFD.
#[must_use]
pub fn name(pid: Pid) -> Option<String> {
    let bytes = fs_err::read(format!("/proc/{}/comm", pid.0)).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    Some(text.trim_end_matches('\n').chars().take(MAX_NAME).collect())
}

pub(crate) fn stat(pid: Pid) -> io::Result<Stat> {
    let bytes = fs_err::read(format!("/proc/{}/stat", pid.0)).map_err(gone)?;
    parse_stat(&bytes).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("/proc/{}/stat has an unknown form", pid.0),
        )
    })
}

/// A process that ends while it is read answers ESRCH, which the standard library has no kind for.
fn gone(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(libc::ESRCH) {
        io::Error::new(io::ErrorKind::NotFound, error)
    } else {
        error
    }
}

/// The name is in parentheses and may itself hold parentheses and blanks, so fields are counted from the last one.
fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    let end = bytes.iter().rposition(|byte| *byte == b')')?;
    let text = std::str::from_utf8(bytes.get(end + 1..)?).ok()?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let number = |index: usize| {
        fields
            .get(index)
            .and_then(|field| field.parse::<u64>().ok())
    };
    let small = |index: usize| number(index).and_then(|value| u32::try_from(value).ok());
    let cpu_ticks = number(11)?
        .saturating_add(number(12)?)
        .saturating_add(number(13)?)
        .saturating_add(number(14)?);
    Some(Stat {
        state: *fields.first()?.as_bytes().first()?,
        parent: Pid(small(1)?),
        cpu_ticks,
        start_ticks: number(19)?,
    })
}

fn exists(pid: Pid) -> bool {
    let Some(pid) = i32::try_from(pid.0)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    else {
        return false;
    };
    match rustix::process::test_kill_process(pid) {
        Ok(()) => true,
        Err(error) => error == rustix::io::Errno::PERM,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_and_has_its_parent_among_its_ancestors() {
        let me = self_identity().unwrap();
        assert!(is_alive(me.pid) && is_running(me));
        assert_eq!(
            ancestors().first().map(|pid| pid.0),
            Some(std::os::unix::process::parent_id())
        );
    }

    #[test]
    fn another_start_time_is_another_process() {
        let me = self_identity().unwrap();
        assert!(!is_running(Identity {
            start_ticks: me.start_ticks + 1,
            ..me
        }));
    }

    #[test]
    fn a_number_beyond_all_processes_is_not_alive() {
        assert!(!is_alive(Pid(u32::MAX)));
        assert_eq!(
            start_ticks(Pid(u32::MAX)).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn a_name_with_parentheses_and_blanks_does_not_shift_the_fields() {
        let line = b"77 (a) S 1 (b)) Z 5 6 7 0 -1 4 0 0 0 0 10 20 30 40 20 0 1 0 999 0 0";
        let expected = Stat {
            state: b'Z',
            parent: Pid(5),
            cpu_ticks: 100,
            start_ticks: 999,
        };
        assert_eq!(parse_stat(line), Some(expected));
    }

    #[test]
    fn a_cut_line_is_refused() {
        assert_eq!(parse_stat(b"77 (a) S 1 2"), None);
        assert_eq!(parse_stat(b""), None);
        assert_eq!(parse_stat(b"77 (a)"), None);
    }

    #[test]
    fn the_name_is_the_one_of_the_program() {
        assert!(name(Pid(std::process::id())).is_some_and(|name| !name.is_empty()));
    }
}
