//! `cargo xtask proof`: the main job on real input. Three published packages with their own tests are broken in two places
//! each, a scripted worker repairs one place an iteration, and what is left behind is verified elsewhere.
//!
//! Nothing of the packages is kept. The packages come from their registries, at the versions named in [`package`].

use std::path::PathBuf;

use crate::{TaskResult, say, support};

mod package;
mod round;

use package::{Fetched, PACKAGES, Package};
use round::{Round, Worker};

/// Proves each package that is named, or all.
pub(crate) fn run(words: &[String]) -> TaskResult {
    if let Some(unknown) = words
        .iter()
        .find(|word| !PACKAGES.iter().any(|package| package.name == word.as_str()))
    {
        let known: Vec<&str> = PACKAGES.iter().map(|package| package.name).collect();
        return Err(format!(
            "{unknown:?} is no package; known are {}",
            known.join(", ")
        ));
    }
    support::adopt_orphans()?;
    let binary = support::binary()?;
    let (mut proved, mut failures) = (0, Vec::new());
    for package in PACKAGES {
        if !words.is_empty() && !words.iter().any(|word| word == package.name) {
            continue;
        }
        if let Some(tool) = package
            .needs
            .iter()
            .find(|tool| support::which(tool).is_none())
        {
            support::skip(&format!("proof {}", package.name), tool)?;
            continue;
        }
        let scratch = support::scratch("proof")?;
        let fetched = match package.fetch(scratch.path()) {
            Ok(fetched) => fetched,
            Err(why) => {
                say(&format!("proof {}: {why}", package.name));
                support::skip(
                    &format!("proof {}", package.name),
                    &format!("{} {} from its registry", package.name, package.version),
                )?;
                continue;
            }
        };
        let bench = Bench {
            package,
            binary: binary.clone(),
            root: scratch.path().to_owned(),
            fetched,
        };
        match bench.prove() {
            Ok(()) => proved += 1,
            Err(why) => {
                say(&format!("proof {}: FAILED: {why}", package.name));
                failures.push(package.name);
            }
        }
    }
    say(&format!(
        "proof: {proved} packages proved, {} failed",
        failures.len()
    ));
    if failures.is_empty() {
        Ok(())
    } else {
        Err(format!("failed: {}", failures.join(", ")))
    }
}

/// A package at hand, with everything that its rounds need.
#[derive(Debug)]
struct Bench<'a> {
    package: &'a Package,
    binary: PathBuf,
    root: PathBuf,
    fetched: Fetched,
}

impl Bench<'_> {
    /// Sees the package's own tests pass before anything is broken.
    fn own_tests(&self) -> Result<(), String> {
        let mut tests = support::command("sh");
        tests
            .args(["-c", &self.fetched.check])
            .current_dir(&self.fetched.source);
        let outcome = support::run(&mut tests, package::DEADLINE)?;
        if outcome.code == Some(0) {
            Ok(())
        } else {
            Err(format!(
                "its own tests do not pass here: {}",
                outcome.text()
            ))
        }
    }

    fn prove(&self) -> Result<(), String> {
        self.own_tests()?;
        let repaired = Round::run(self, "repaired", Worker::RepairsBoth)?;
        let verdicts = repaired.converged()?;
        repaired.verifies_here_and_elsewhere()?;
        say(&format!(
            "proof {} {}: two breaks repaired, verdicts {verdicts}, replayed and verified here, in a copy, and elsewhere",
            self.package.name, self.package.version
        ));
        let stuck = Round::run(self, "stuck", Worker::RepairsOne)?;
        let advice = stuck.did_not_converge()?;
        say(&format!(
            "proof {} {}: one of two breaks repaired, no convergence, advice {advice}",
            self.package.name, self.package.version
        ));
        Ok(())
    }
}
