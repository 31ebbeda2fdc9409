//! State hygiene of a store: the log parses, the chain holds, the snapshot is its fold, nothing is left over.
//!
//! It is not the application's check, and must not run or repair anything.

use loopexec_core::state::Stage;
use loopexec_os::process;

use crate::{
    failure::{Failure, chain},
    layout::Layout,
    log::WorkspaceLog,
    recorded,
    run::holder_name,
    runs,
    verify::{Item, Parts, Status, Trust, verify},
};

/// What a check of the store found.
#[derive(Clone, Debug)]
pub struct Hygiene {
    /// The run that was looked at; `None` when none is recorded.
    pub run_id: Option<String>,
    /// Each thing that was looked at.
    pub items: Vec<Item>,
}

impl Hygiene {
    /// Whether nothing failed.
    #[must_use]
    pub fn clean(&self) -> bool {
        self.items.iter().all(|item| item.status != Status::Fail)
    }
}

/// Checks the store of a workspace and one run of it.
///
/// # Errors
///
/// When there is no store, or the named run is not recorded.
pub fn check(layout: &Layout, run_id: Option<&str>) -> Result<Hygiene, Failure> {
    if !layout.store().is_dir() {
        return Err(Failure::workspace(format!(
            "there is no store at {}",
            layout.store().display()
        ))
        .because("store_missing")
        .hint("`loopexec init` makes one"));
    }
    let mut items = vec![workspace_log(layout), leftovers(layout)];
    let run_id = match run_id {
        None if runs::ids(layout).is_empty() => None,
        given => Some(recorded::run_id(layout, given)?),
    };
    if let Some(run_id) = &run_id {
        items.extend(run_items(layout, run_id)?);
    }
    Ok(Hygiene { run_id, items })
}

fn run_items(layout: &Layout, run_id: &str) -> Result<Vec<Item>, Failure> {
    let verification = verify(&Parts::of(layout, run_id), None, &Trust::Unasked)?;
    let wanted = ["chain", "decisions", "run", "snapshot", "anchor"];
    let mut items: Vec<Item> = verification
        .items
        .into_iter()
        .filter(|item| wanted.contains(&item.name.as_str()))
        .collect();
    if let Some(state) = &verification.state
        && state.stage != Stage::Halted
        && recorded::live(layout, run_id).is_none()
    {
        let left = state.running.map_or(
            "between two commands",
            loopexec_core::event::CommandPhase::name,
        );
        items.push(match state.running {
            Some(_) => Item::fail(
                "interrupted",
                "run_interrupted",
                format!("its process ended while the {left} command ran; `loopexec run --resume` goes on"),
            ),
            None => Item::pass("interrupted", format!("the run is open {left}; `loopexec step` or `run --resume` goes on")),
        });
    }
    Ok(items)
}

fn workspace_log(layout: &Layout) -> Item {
    const NAME: &str = "workspace log";
    match WorkspaceLog::read(layout) {
        Ok(log) if log.acts.is_empty() => Item::absent(NAME, "nothing has been recorded"),
        Ok(log) => Item::pass(
            NAME,
            format!("{} acts, each names the one before it", log.acts.len()),
        ),
        Err(error) => Item::fail(NAME, "workspace_log_damaged", chain(&error)),
    }
}

/// A name that a dead process left; the lock itself is the kernel's and is free.
fn leftovers(layout: &Layout) -> Item {
    const NAME: &str = "lock";
    match holder_name(layout) {
        None => Item::pass(NAME, "no governor works here"),
        Some((pid, run_id)) if process::is_alive(process::Pid(pid)) => {
            Item::pass(NAME, format!("process {pid} works on the run {run_id:?}"))
        }
        Some((pid, run_id)) => Item::fail(
            NAME,
            "stale_lock",
            format!(
                "process {pid} ended without finishing the run {run_id:?}; the lock is free and the next run takes it"
            ),
        ),
    }
}
