//! `cargo xtask faults`: what the receipt, the state and the lock promise, asked under every fault that can be made here.
//!
//! Each fault is a module with `run(&mut Context) -> Result<Row, String>`; a row counts what was tried and what broke.

use std::{fmt::Write as _, path::PathBuf, time::Instant};

use crate::{
    TaskResult, say,
    support::{self, Dice},
};

mod crash;
mod disk;
mod invariant;
mod points;
mod processes;
mod race;
mod scenario;
mod short;
mod tamper;

/// How much is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    /// A seeded sample of each space, in minutes.
    Gate,
    /// Every point.
    Full,
}

/// What each fault needs.
struct Context {
    /// The program under test.
    binary: PathBuf,
    /// How much is tried.
    scale: Scale,
    /// The sample.
    dice: Dice,
}

impl Context {
    /// A part of all points: every one in full, `most` drawn ones in the gate, in their order.
    fn sample<T>(&mut self, all: Vec<T>, most: usize) -> Vec<T> {
        if self.scale == Scale::Full || all.len() <= most {
            return all;
        }
        let mut left = most;
        let total = all.len();
        all.into_iter()
            .enumerate()
            .filter_map(|(index, point)| {
                let take = self.dice.below(total.saturating_sub(index)) < left;
                left = left.saturating_sub(usize::from(take));
                take.then_some(point)
            })
            .collect()
    }
}

/// What a fault showed.
#[derive(Debug, Default)]
struct Row {
    /// Cases tried.
    cases: u64,
    /// Counts worth printing.
    counts: std::collections::BTreeMap<String, u64>,
    /// What broke, with enough to do it again.
    violations: Vec<String>,
}

impl Row {
    fn count(&mut self, name: impl Into<String>) {
        *self.counts.entry(name.into()).or_default() += 1;
    }
}

type Fault = fn(&mut Context) -> Result<Row, String>;

/// Every fault: its name, what it is, what it needs beside the program.
const FAULTS: &[(&str, &str, &[&str], Fault)] = &[
    (
        "kill",
        "F1 kill -9 at every system call",
        &["strace"],
        points::kill,
    ),
    (
        "refuse",
        "F2 each such call refused, once and from then on",
        &["strace"],
        points::refuse,
    ),
    (
        "short",
        "F3 a write cut short at every byte",
        &["prlimit"],
        short::run,
    ),
    (
        "tamper",
        "F4 every edit of a finished receipt",
        &[],
        tamper::run,
    ),
    (
        "crash",
        "F5 every state of the disk a crash may leave",
        &["strace"],
        crash::run,
    ),
    (
        "disk",
        "F8 a full, read-only, foreign or strange store",
        &["mount", "setpriv"],
        disk::run,
    ),
    (
        "race",
        "F10 sixteen governors for one workspace",
        &[],
        race::run,
    ),
    (
        "processes",
        "output, descendants, daemons, killed guardians",
        &["setsid"],
        processes::run,
    ),
];

/// Violations that are printed of each fault.
const VIOLATIONS_SHOWN: usize = 12;

/// Runs the faults that are named, or all.
pub(crate) fn run(words: &[String]) -> TaskResult {
    let (scale, seed, names) = parse(words)?;
    support::adopt_orphans()?;
    let mut context = Context {
        binary: support::binary()?,
        scale,
        dice: Dice::new(seed),
    };
    say(&format!(
        "faults: scale {}, seed {seed}",
        if scale == Scale::Full { "full" } else { "gate" }
    ));
    let mut table = String::new();
    let mut broken = 0;
    for (name, about, needs, fault) in FAULTS {
        if !names.is_empty() && !names.iter().any(|wanted| wanted == name) {
            continue;
        }
        if let Some(tool) = needs.iter().find(|tool| support::which(tool).is_none()) {
            support::skip(&format!("faults {name}"), tool)?;
            let _ = writeln!(table, "{about:<44} skipped: needs {tool}");
            continue;
        }
        let begun = Instant::now();
        let row = fault(&mut context).map_err(|error| format!("{name}: {error}"))?;
        broken += row.violations.len();
        let _ = writeln!(
            table,
            "{about:<44} {:>7} cases {:>4} violations {:>7.1} s",
            row.cases,
            row.violations.len(),
            begun.elapsed().as_secs_f64()
        );
        for (what, count) in &row.counts {
            let _ = writeln!(table, "    {what:<60} {count:>7}");
        }
        for violation in row.violations.iter().take(VIOLATIONS_SHOWN) {
            say(&format!("VIOLATION {name}: {violation}"));
        }
        say(&format!(
            "{name}: {} cases, {} violations",
            row.cases,
            row.violations.len()
        ));
    }
    say(&table);
    if broken == 0 {
        Ok(())
    } else {
        Err(format!("{broken} violations"))
    }
}

fn parse(words: &[String]) -> Result<(Scale, u64, Vec<String>), String> {
    let mut scale = Scale::Gate;
    let mut seed = 1;
    let mut names = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--scale" => {
                scale = match words.next().map(String::as_str) {
                    Some("gate") => Scale::Gate,
                    Some("full") => Scale::Full,
                    Some(_) | None => return Err("--scale is gate or full".to_owned()),
                }
            }
            "--seed" => {
                seed = words
                    .next()
                    .and_then(|seed| seed.parse().ok())
                    .ok_or("--seed takes a number")?;
            }
            name if FAULTS.iter().any(|(known, ..)| *known == name) => names.push(name.to_owned()),
            other => {
                let known: Vec<&str> = FAULTS.iter().map(|(name, ..)| *name).collect();
                return Err(format!(
                    "{other:?} is no fault; known are {}",
                    known.join(", ")
                ));
            }
        }
    }
    Ok((scale, seed, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_the_scale_the_seed_and_the_faults() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        assert_eq!(
            parse(&words("--scale full --seed 7 kill")).unwrap(),
            (Scale::Full, 7, vec!["kill".to_owned()])
        );
        assert!(parse(&words("--scale some")).is_err());
        assert!(parse(&words("flood")).is_err());
    }

    #[test]
    fn a_sample_has_as_many_points_as_asked_for_in_their_order() {
        let mut context = Context {
            binary: PathBuf::new(),
            scale: Scale::Gate,
            dice: Dice::new(3),
        };
        let sample = context.sample((0..100).collect(), 10);
        assert_eq!(sample.len(), 10);
        assert!(sample.is_sorted());
        assert_eq!(context.sample(vec![1, 2], 10), vec![1, 2]);
    }
}
