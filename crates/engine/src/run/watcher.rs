//! Who is told how a run goes, while it goes.
//!
//! Must not influence the run: everything here returns nothing.

use loopexec_core::{event::CommandPhase, state::RunState};

/// Hears of a run while it runs.
pub trait Watcher {
    /// The run was opened or gone on with.
    fn opened(&mut self, state: &RunState);
    /// A command is about to start.
    fn started(&mut self, state: &RunState, phase: CommandPhase);
    /// Time passes while a command runs; `last_line` is the latest thing it printed, secrets replaced.
    fn running(&mut self, state: &RunState, phase: CommandPhase, elapsed_ms: u64, last_line: &str);
    /// A record was folded that a person may want to see.
    fn folded(&mut self, state: &RunState);
    /// Something worth saying once.
    fn note(&mut self, text: &str);
}

/// Nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Watcher for Silent {
    fn opened(&mut self, _: &RunState) {}
    fn started(&mut self, _: &RunState, _: CommandPhase) {}
    fn running(&mut self, _: &RunState, _: CommandPhase, _: u64, _: &str) {}
    fn folded(&mut self, _: &RunState) {}
    fn note(&mut self, _: &str) {}
}
