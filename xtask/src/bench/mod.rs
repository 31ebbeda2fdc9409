//! `cargo xtask bench`: the figures of `docs/benchmarks.md`, each as a ratio to a peer measured in the same run.
//!
//! A figure with a goal that is gated fails the task when its median misses it, or where it says so its best round; the others are printed.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use crate::{TaskResult, say, support};

mod content;
mod memory;
mod overhead;
mod reading;
mod startup;

/// Rounds of each comparison: the fewest whose median means something.
const ROUNDS: usize = 5;
/// Longest time for one measured command.
const DEADLINE: Duration = Duration::from_secs(900);

/// What each bench needs.
struct Context {
    binary: PathBuf,
    /// Smaller amounts, for the gate.
    short: bool,
}

/// Several measurements of one thing.
#[derive(Clone, Debug)]
struct Spread {
    sorted: Vec<f64>,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self { sorted: values }
    }

    fn median(&self) -> f64 {
        self.at(self.sorted.len() / 2)
    }

    fn min(&self) -> f64 {
        self.at(0)
    }

    fn max(&self) -> f64 {
        self.at(self.sorted.len().saturating_sub(1))
    }

    fn at(&self, index: usize) -> f64 {
        self.sorted.get(index).copied().unwrap_or(f64::NAN)
    }
}

/// One line of the result.
#[derive(Clone, Debug)]
struct Figure {
    what: String,
    unit: &'static str,
    spread: Spread,
    goal: Option<Goal>,
}

/// What a figure should reach.
#[derive(Clone, Copy, Debug)]
struct Goal {
    at_most: f64,
    gated: bool,
    /// Whether the best round decides instead of the median one.
    best: bool,
}

impl Figure {
    fn new(what: impl Into<String>, unit: &'static str, values: Vec<f64>) -> Self {
        Self {
            what: what.into(),
            unit,
            spread: Spread::of(values),
            goal: None,
        }
    }

    /// A goal that fails the task when missed.
    fn gated(mut self, at_most: f64) -> Self {
        self.goal = Some(Goal {
            at_most,
            gated: true,
            best: false,
        });
        self
    }

    /// A goal that fails the task when missed; in the short form when every round misses it, because the gate runs beside
    /// other work, which takes the second processor away.
    fn gated_by_best_in_short(self, at_most: f64, context: &Context) -> Self {
        let mut figure = self.gated(at_most);
        if let Some(goal) = &mut figure.goal {
            goal.best = context.short;
        }
        figure
    }

    /// A goal that fails the task when missed, except in the short form: it is a ratio of wall times, and the gate runs
    /// beside other work.
    fn gated_in_full(self, at_most: f64, context: &Context) -> Self {
        if context.short {
            self.reported(at_most)
        } else {
            self.gated(at_most)
        }
    }

    /// A goal that is reported.
    fn reported(mut self, at_most: f64) -> Self {
        self.goal = Some(Goal {
            at_most,
            gated: false,
            best: false,
        });
        self
    }

    fn met(&self) -> bool {
        self.goal.is_none_or(|goal| {
            let value = if goal.best {
                self.spread.min()
            } else {
                self.spread.median()
            };
            value <= goal.at_most
        })
    }

    fn line(&self) -> String {
        let mut line = format!(
            "{:<62} {:>9.3} {:>9.3} {:>9.3} {:<6}",
            self.what,
            self.spread.min(),
            self.spread.median(),
            self.spread.max(),
            self.unit
        );
        if let Some(goal) = self.goal {
            let verdict = match (self.met(), goal.gated) {
                (true, _) => "met",
                (false, true) => "MISSED",
                (false, false) => "missed, not gated",
            };
            let _ = write!(line, " goal <= {:.3}: {verdict}", goal.at_most);
        }
        line
    }
}

type Bench = fn(&Context) -> Result<Vec<Figure>, String>;

/// Every bench: its name, what else it needs, how it is done.
const BENCHES: &[(&str, Option<&str>, Bench)] = &[
    ("startup", None, startup::run),
    ("overhead", None, overhead::run),
    ("memory", None, memory::run),
    ("verify", Some("jq"), reading::run),
    ("snapshot", Some("git"), content::run),
];

/// Runs the benches that are named, or all.
pub(crate) fn run(words: &[String]) -> TaskResult {
    let short = words.iter().any(|word| word == "--short");
    let names: Vec<&String> = words.iter().filter(|word| *word != "--short").collect();
    if let Some(unknown) = names
        .iter()
        .find(|name| !BENCHES.iter().any(|(known, ..)| *known == name.as_str()))
    {
        let known: Vec<&str> = BENCHES.iter().map(|(name, ..)| *name).collect();
        return Err(format!(
            "{unknown:?} is no bench; known are {}",
            known.join(", ")
        ));
    }
    support::adopt_orphans()?;
    let context = Context {
        binary: support::binary()?,
        short,
    };
    say(&format!(
        "{:<62} {:>9} {:>9} {:>9}",
        "figure", "min", "median", "max"
    ));
    let mut missed = Vec::new();
    for (name, needs, bench) in BENCHES {
        if !names.is_empty() && !names.iter().any(|wanted| wanted.as_str() == *name) {
            continue;
        }
        if let Some(tool) = needs.filter(|tool| support::which(tool).is_none()) {
            support::skip(&format!("bench {name}"), tool)?;
            continue;
        }
        for figure in bench(&context).map_err(|error| format!("{name}: {error}"))? {
            say(&figure.line());
            if !figure.met() && figure.goal.is_some_and(|goal| goal.gated) {
                missed.push(figure.what);
            }
        }
    }
    if missed.is_empty() {
        Ok(())
    } else {
        Err(format!("missed: {}", missed.join("; ")))
    }
}

/// How long a command takes that must end with this code, in milliseconds.
fn millis(command: &mut Command, code: i32) -> Result<f64, String> {
    let what = format!("{command:?}");
    let outcome = support::run(command, DEADLINE)?;
    if outcome.code != Some(code) {
        return Err(format!(
            "{what} ended with {:?} instead of {code}: {}",
            outcome.code,
            outcome.text()
        ));
    }
    Ok(outcome.took.as_secs_f64() * 1000.0)
}

/// How long something takes in this process, in milliseconds.
fn elapsed<T>(work: impl FnOnce() -> Result<T, String>) -> Result<(f64, T), String> {
    let begun = Instant::now();
    let value = work()?;
    Ok((begun.elapsed().as_secs_f64() * 1000.0, value))
}

/// The program in an own workspace and home below `root`.
fn program(binary: &Path, root: &Path) -> Result<Command, String> {
    let workdir = root.join("workspace");
    for directory in [&workdir, &root.join("home")] {
        fs_err::create_dir_all(directory).map_err(|error| error.to_string())?;
    }
    let mut command = support::command(binary);
    command
        .current_dir(workdir)
        .env_clear()
        .env("PATH", support::variable("PATH").unwrap_or_default())
        .env("HOME", root.join("home"))
        .env("XDG_STATE_HOME", root.join("state"));
    Ok(command)
}

/// Empties what [`program`] made.
fn clear(root: &Path) -> Result<(), String> {
    for name in ["workspace", "state"] {
        match fs_err::remove_dir_all(root.join(name)) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// Element by element.
fn ratios(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    ours.iter()
        .zip(theirs)
        .map(|(ours, theirs)| ours / theirs)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_meets_its_goal_by_its_median() {
        let figure = |values: &[f64]| Figure::new("x", "x", values.to_vec()).gated(2.0);
        assert!(figure(&[1.0, 2.0, 9.0]).met());
        assert!(!figure(&[1.0, 2.001, 2.002]).met());
        assert!(
            figure(&[3.0, 1.0, 2.0])
                .line()
                .ends_with("goal <= 2.000: met")
        );
        assert!(figure(&[3.0]).line().ends_with("MISSED"));
        let mut by_best = figure(&[1.0, 2.001, 2.002]);
        by_best.goal = by_best.goal.map(|goal| Goal { best: true, ..goal });
        assert!(by_best.met());
    }
}
