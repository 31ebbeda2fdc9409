//! F5: a run is recorded call by call, the states of the disk that a crash may leave by POSIX are enumerated after each call,
//! and each is recovered from.
//!
//! What is acknowledged is an effect: the first request to start work acknowledges the first record and the saved
//! content, the object on standard output acknowledges the halt and the snapshot. The recording with one kind of sync taken
//! out is enumerated as well: each time a violation must be found, or this enumeration shows nothing.

use std::collections::BTreeSet;

use super::{
    Context, Row, Scale,
    scenario::{Place, SCENARIOS, Scenario},
};
use crate::support::{self, Dice};

mod model;
mod recovery;
mod trace;

use model::{CrashState, Disk, EXTREMES};
use trace::{Operation, Sync, Trace};

/// Distinct states that are recovered from, in both scenarios together.
const FULL_STATES: usize = 10_000;
/// The same in the gate.
const GATE_STATES: usize = 1_200;
/// Rounds over all points after which no new state is expected: early points have few.
const ROUNDS_MAX: usize = 40;

/// The kinds of sync that the controls take out.
const CONTROLS: &[(&str, Sync)] = &[
    (
        "without fdatasync of the receipt and its copy",
        Sync::Receipt,
    ),
    ("without fsync of directories", Sync::Directory),
    ("without fsync of the snapshot", Sync::Snapshot),
];

/// Enumerates, recovers, and does the controls.
pub(super) fn run(context: &mut Context) -> Result<Row, String> {
    let scratch = support::scratch("crash")?;
    let place = Place::new(&context.binary, scratch.path());
    let mut row = Row::default();
    let states = match context.scale {
        Scale::Full => FULL_STATES,
        Scale::Gate => GATE_STATES,
    };
    let scenarios = SCENARIOS.get(..2).unwrap_or_default();
    for scenario in scenarios {
        let trace = Trace::record(&place, scenario, &scratch.path().join("trace"))?;
        let count = u64::try_from(trace.operations.len()).unwrap_or(0);
        row.counts
            .insert(format!("operations of {:?}", scenario.name), count);
        let dice = Dice::new(context.dice.next());
        let survey = Survey {
            place: &place,
            scenario,
            trace: &trace,
        };
        let most = states / scenarios.len().max(1);
        survey.look(most, dice, &mut row)?;
        for (name, kind) in CONTROLS {
            survey.control(name, *kind, context, &mut row)?;
        }
    }
    Ok(row)
}

/// One recorded run, from which states are drawn.
struct Survey<'a> {
    place: &'a Place,
    scenario: &'a Scenario,
    trace: &'a Trace,
}

impl Survey<'_> {
    /// Recovers from distinct states, in rounds over every point of the run: first the extremes, then drawn ones.
    fn look(&self, most: usize, mut dice: Dice, row: &mut Row) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        let points = self.trace.operations.len().saturating_add(1);
        for round in 0..ROUNDS_MAX {
            for done in (0..points).rev() {
                let operations = self.trace.operations.get(..done).unwrap_or_default();
                let disk = Disk::after(operations);
                for number in (round * EXTREMES..).take(EXTREMES) {
                    let state = disk.state(number, &mut dice);
                    if seen.len() >= most || !seen.insert(state.digest()) {
                        continue;
                    }
                    row.cases += 1;
                    let wrong = self.recover(operations, &state, Some(row))?;
                    let case = format!(
                        "{}, after {done} operations, state {number}",
                        self.scenario.name
                    );
                    row.violations
                        .extend(wrong.into_iter().map(|wrong| format!("{case}: {wrong}")));
                }
            }
            if seen.len() >= most {
                break;
            }
        }
        Ok(())
    }

    /// Takes one kind of sync out; a violation must be found.
    fn control(
        &self,
        name: &str,
        kind: Sync,
        context: &mut Context,
        row: &mut Row,
    ) -> Result<(), String> {
        let mut without = Vec::new();
        let mut removed = 0_u64;
        for operation in &self.trace.operations {
            if matches!(operation, Operation::Sync { kind: found, .. } if *found == kind) {
                removed += 1;
            } else {
                without.push(operation.clone());
            }
        }
        let mut dice = Dice::new(context.dice.next());
        let mut looked = 0_u64;
        let mut found = None;
        let acknowledged = acknowledgements(&without);
        let unchanged = acknowledgements(&self.trace.operations);
        'points: for (done, done_unchanged) in acknowledged.into_iter().zip(unchanged) {
            let operations = without.get(..done).unwrap_or_default();
            let disk = Disk::after(operations);
            let with = self
                .trace
                .operations
                .get(..done_unchanged)
                .unwrap_or_default();
            let disk_with = Disk::after(with);
            for number in 0..EXTREMES {
                looked += 1;
                // Only what the missing sync breaks counts: with it, the same state must be in order.
                if !self
                    .recover(with, &disk_with.state(number, &mut dice), None)?
                    .is_empty()
                {
                    continue;
                }
                let wrong = self.recover(operations, &disk.state(number, &mut dice), None)?;
                if let Some(wrong) = wrong.into_iter().next() {
                    found = Some(wrong);
                    break 'points;
                }
            }
        }
        let scenario = self.scenario.name;
        match found {
            Some(_) if removed > 0 => {
                row.counts
                    .insert(format!("control {name} ({scenario}): found at state"), looked);
            }
            Some(_) | None => row.violations.push(format!(
                "control {name} ({scenario}): {removed} syncs taken out, {looked} states, no violation found"
            )),
        }
        Ok(())
    }

    fn recover(
        &self,
        operations: &[Operation],
        state: &CrashState,
        row: Option<&mut Row>,
    ) -> Result<Vec<String>, String> {
        let promised = trace::promised(operations);
        recovery::recover(self.place, self.scenario, state, promised, row)
    }
}

/// The points right after each acknowledgement, and after everything.
fn acknowledgements(operations: &[Operation]) -> Vec<usize> {
    operations
        .iter()
        .enumerate()
        .filter(|(_, operation)| matches!(operation, Operation::StartsWork | Operation::Answers))
        .map(|(index, _)| index.saturating_add(1))
        .collect()
}
