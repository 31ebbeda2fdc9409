//! What a person sees while a run works: one live line in a terminal, one line an event elsewhere.
//!
//! Must not influence the run.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use loopexec_core::{
    event::{CommandPhase, Outcome},
    state::RunState,
};
use loopexec_engine::run::Watcher;

use super::elapsed;
use crate::ui;

/// How to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// A line that is redrawn.
    Live,
    /// A line an event.
    Plain,
    /// Nothing.
    Nothing,
}

/// Shows a run on standard error.
pub(crate) struct Display {
    show: Show,
    colour: bool,
    bar: Option<ProgressBar>,
    told: (u32, bool),
}

impl Display {
    /// A display of this kind.
    pub(crate) fn new(show: Show, colour: bool) -> Self {
        let bar = (show == Show::Live).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
            bar.set_style(
                ProgressStyle::with_template("{wide_msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_spinner()),
            );
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Self {
            show,
            colour,
            bar,
            told: (0, false),
        }
    }

    fn say(&self, line: &str) {
        match (&self.bar, self.show) {
            (Some(bar), Show::Live) => bar.suspend(|| ui::say_painted(line)),
            (None, Show::Live) | (_, Show::Plain) => ui::say_painted(line),
            (_, Show::Nothing) => {}
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour && self.show == Show::Live {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    /// Takes the live line away, before the result is printed.
    pub(crate) fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// One line about an iteration whose check has been judged.
    fn verdict_line(&self, state: &RunState) -> Option<String> {
        let check = state.attempt.check.as_ref()?;
        let code = check
            .exit_code
            .map_or_else(|| "no exit code".to_owned(), |code| format!("exit {code}"));
        let word = match check.outcome {
            Outcome::Pass => self.paint("32", "green"),
            Outcome::Reject => self.paint("31", "red"),
            Outcome::CannotJudge => self.paint("33", "cannot be judged"),
        };
        let failing = state
            .failing
            .as_ref()
            .filter(|_| state.attempt.progress)
            .map_or_else(String::new, |set| format!(", {} failing", set.len()));
        let number = format!("{}/{}", state.iteration, state.policy.max_iterations);
        Some(format!(
            "iteration {number}: check {word} ({code}){failing}, {}",
            elapsed(state.now.0)
        ))
    }
}

impl Watcher for Display {
    fn opened(&mut self, state: &RunState) {
        self.say(&format!(
            "run {}: at most {} iterations",
            state.run_id, state.policy.max_iterations
        ));
    }

    fn started(&mut self, state: &RunState, phase: CommandPhase) {
        self.running(state, phase, 0, "");
    }

    fn running(&mut self, state: &RunState, phase: CommandPhase, elapsed_ms: u64, last_line: &str) {
        let Some(bar) = &self.bar else {
            return;
        };
        let failing = state
            .failing
            .as_ref()
            .map_or_else(String::new, |set| format!(", {} failing", set.len()));
        bar.set_message(format!(
            "{}/{} {} {}{failing}  {last_line}",
            state.iteration,
            state.policy.max_iterations,
            phase.name(),
            elapsed(elapsed_ms)
        ));
    }

    fn folded(&mut self, state: &RunState) {
        let key = (state.iteration, state.observed());
        if !state.observed() || key == self.told {
            return;
        }
        self.told = key;
        if let Some(line) = self.verdict_line(state) {
            self.say(&line);
        }
    }

    fn note(&mut self, text: &str) {
        self.say(&ui::plain(&format!("note: {text}")));
    }
}
