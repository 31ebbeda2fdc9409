//! The loop's shell: receive, record, fold, decide, act; always in this order.
//!
//! Must not hold a rule: what comes next is asked of the core after every record.

mod command;
mod config;
mod content;
mod drive;
mod ending;
mod finish;
mod observer;
mod open;
mod resume;
mod session;
mod store;
mod tail;
mod tools;
mod watcher;

pub(crate) use command::{digest, fingerprint_settings};
pub use config::{Extent, ResumeOptions, RunConfig, RunEnd, Start, WorkspaceBlock};
pub use content::{Content, ContentError};
pub(crate) use content::{search_path, unescaped, without, workspace_config};
pub(crate) use open::settle_latest;
pub(crate) use store::{Held, hold, holder_name};
pub(crate) use tail::output_tail;
pub use tools::resolve as resolve_tools;
pub use watcher::{Silent, Watcher};

use crate::{failure::Failure, layout::Layout};

/// Makes the store of a workspace, where it is not there yet.
///
/// # Errors
///
/// When it cannot be made, or what is there is not ours to use.
pub fn prepare_store(layout: &Layout) -> Result<(), Failure> {
    store::prepare(layout, None)
}

/// Runs, or goes on with, one loop.
///
/// # Errors
///
/// What keeps a run from starting, and what keeps it from recording; a halt is no error.
pub fn run(config: &RunConfig, watcher: &mut dyn Watcher) -> Result<RunEnd, Failure> {
    let mut session = match &config.start {
        Start::Fresh => open::open(config, watcher)?,
        Start::Resume(options) => match resume::resume(config, options, watcher)? {
            resume::Resumed::Ended(end) => return Ok(*end),
            resume::Resumed::Going(session) => *session,
        },
    };
    let outcome = drive::drive(&mut session, config, watcher);
    session.close();
    outcome?;
    finish::end(session)
}
