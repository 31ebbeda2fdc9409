//! F8: a disk that is full at each level, one that becomes read-only, a store that may not be used, and a store that is
//! something else.

use std::{
    os::unix::fs::{PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    Context, Row, Scale, invariant,
    scenario::{Place, SCENARIOS, Scenario},
};
use crate::support::{self, Outcome};

/// Size of the disk: a run leaves about forty kibibytes.
const DISK_KIB: usize = 512;
/// Free kibibytes that are tried, from none; a page is four.
const FREE_KIB_MAX: usize = 128;
const PAGE_KIB: usize = 4;
/// Longest time for mounting.
const DEADLINE: Duration = Duration::from_secs(30);
/// Someone who owns nothing.
const NOBODY: u32 = 65534;

/// Tries each.
pub(super) fn run(context: &mut Context) -> Result<Row, String> {
    let mut row = Row::default();
    if !rustix::process::geteuid().is_root() {
        support::skip("faults disk", "root, to mount a small disk")?;
        return Ok(row);
    }
    let scratch = support::scratch("disk")?;
    let open = std::fs::Permissions::from_mode(0o755);
    fs_err::set_permissions(scratch.path(), open).map_err(|error| error.to_string())?;
    let disk = Mounted::tmpfs(&scratch.path().join("disk"))?;
    let place = Place::new(&context.binary, &disk.path);
    let scenario = SCENARIOS.first().ok_or("there is no scenario")?;
    let step = match context.scale {
        Scale::Full => PAGE_KIB,
        Scale::Gate => PAGE_KIB * 2,
    };
    for free in (0..=FREE_KIB_MAX).step_by(step) {
        full(&place, &disk, scenario, free, &mut row)?;
    }
    read_only(&place, &disk, &mut row)?;
    strange_stores(&place, scenario, &mut row)?;
    foreign(&place, scenario, &mut row)?;
    Ok(row)
}

/// A small disk in memory that is unmounted at the end.
struct Mounted {
    path: PathBuf,
}

impl Mounted {
    fn tmpfs(path: &Path) -> Result<Self, String> {
        fs_err::create_dir_all(path).map_err(|error| error.to_string())?;
        let options = format!("size={DISK_KIB}k,mode=755");
        let mut mount = support::command("mount");
        mount
            .args(["-t", "tmpfs", "-o", &options, "loopexec-faults"])
            .arg(path);
        support::must(&mut mount, DEADLINE)?;
        Ok(Self {
            path: path.to_owned(),
        })
    }

    fn remount(&self, how: &str) -> Result<(), String> {
        let mut mount = support::command("mount");
        mount
            .args(["-o", &format!("remount,{how}")])
            .arg(&self.path);
        support::must(&mut mount, DEADLINE).map(|_| ())
    }

    /// Leaves so many kibibytes free.
    fn fill(&self, free_kib: usize) -> Result<(), String> {
        let space = rustix::fs::statvfs(&self.path).map_err(|error| error.to_string())?;
        let available = usize::try_from(space.f_bavail.saturating_mul(space.f_frsize)).unwrap_or(0);
        let bytes = available.saturating_sub(free_kib.saturating_mul(1024));
        fs_err::write(self.path.join("filling"), vec![0; bytes]).map_err(|error| error.to_string())
    }

    fn empty(&self) -> Result<(), String> {
        fs_err::remove_file(self.path.join("filling")).map_err(|error| error.to_string())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let mut umount = support::command("umount");
        umount.arg("--lazy").arg(&self.path);
        let _ = support::run(&mut umount, DEADLINE);
    }
}

fn note(row: &mut Row, kind: &str, case: &str, outcome: &Outcome) {
    row.cases += 1;
    row.count(format!("{kind}: exit {}", outcome.code.unwrap_or(-1)));
    let wrong = invariant::manners("the run", outcome);
    row.violations.extend(
        wrong
            .into_iter()
            .map(|wrong| format!("{kind}, {case}: {wrong}")),
    );
}

fn full(
    place: &Place,
    disk: &Mounted,
    scenario: &Scenario,
    free: usize,
    row: &mut Row,
) -> Result<(), String> {
    let case = format!("full disk, {free} KiB free");
    place.prepare(scenario)?;
    disk.fill(free)?;
    let outcome = place.disturbed(scenario, &[])?;
    note(row, "full disk", &case, &outcome);
    disk.empty()?;
    invariant::recover(place, scenario, &case, true, row)
}

fn read_only(place: &Place, disk: &Mounted, row: &mut Row) -> Result<(), String> {
    let scenario = SCENARIOS.first().ok_or("there is no scenario")?;
    place.prepare(scenario)?;
    disk.remount("ro")?;
    let outcome = place.disturbed(scenario, &[]);
    disk.remount("rw")?;
    let outcome = outcome?;
    note(row, "read-only from the start", "", &outcome);
    if outcome.code != Some(30) {
        row.violations.push(format!(
            "read-only from the start: ended with {:?}: {}",
            outcome.code,
            outcome.text()
        ));
    }
    // In the middle of a run the kernel refuses it, because the receipt is open: the errors of F2 stand for that.
    Ok(())
}

/// The store is a link, a dangling link, a file, a directory nobody may write: nothing is written through it.
fn strange_stores(place: &Place, scenario: &Scenario, row: &mut Row) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    for kind in ["a link to a directory", "a dangling link", "a file"] {
        place.prepare(scenario)?;
        let (store, target) = (
            place.workdir().join(".loopexec"),
            place.workdir().join("target"),
        );
        match kind {
            "a file" => fs_err::write(&store, "").map_err(failed)?,
            _ => symlink(&target, &store).map_err(failed)?,
        }
        if kind == "a link to a directory" {
            fs_err::create_dir(&target).map_err(failed)?;
        }
        let outcome = place.disturbed(scenario, &[])?;
        let case = format!("the store is {kind}");
        note(row, &case, "", &outcome);
        let through = fs_err::read_dir(&target).map_or(0, Iterator::count);
        if through > 0 || outcome.code != Some(30) {
            row.violations.push(format!(
                "{case}: ended with {:?}, {through} files were written through it: {}",
                outcome.code,
                outcome.text()
            ));
        }
    }
    Ok(())
}

/// Someone who may not write the workspace, or not the store in it, is refused and told so.
fn foreign(place: &Place, scenario: &Scenario, row: &mut Row) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let wrapper = [
        "setpriv",
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
    ]
    .map(str::to_owned);
    for kind in ["a workspace of someone else", "a store of someone else"] {
        place.prepare(scenario)?;
        fs_err::create_dir_all(place.state_home()).map_err(failed)?;
        chown(place.state_home(), Some(NOBODY), Some(NOBODY)).map_err(failed)?;
        if kind == "a store of someone else" {
            chown(place.workdir(), Some(NOBODY), Some(NOBODY)).map_err(failed)?;
            let store = place.workdir().join(".loopexec");
            fs_err::create_dir(&store).map_err(failed)?;
            fs_err::set_permissions(&store, std::fs::Permissions::from_mode(0o700))
                .map_err(failed)?;
        }
        let outcome = place.disturbed(scenario, &wrapper)?;
        note(row, kind, "", &outcome);
        if outcome.code != Some(30) {
            row.violations.push(format!(
                "{kind}: ended with {:?}: {}",
                outcome.code,
                outcome.text()
            ));
        }
    }
    Ok(())
}
