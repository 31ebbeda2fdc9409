//! F3: no file may grow beyond N bytes, for every N up to the length of a receipt, so that every write is cut at every byte.

use super::{
    Context, Row, Scale, invariant,
    scenario::{Place, RUN, SCENARIOS},
};
use crate::support;

/// Every how many bytes the gate cuts: a prime, so that all places within a line come up.
const GATE_STEP: usize = 7;

/// Cuts writes at every byte.
pub(super) fn run(context: &mut Context) -> Result<Row, String> {
    let scratch = support::scratch("short")?;
    let place = Place::new(&context.binary, scratch.path());
    let mut row = Row::default();
    let Some(scenario) = SCENARIOS.first() else {
        return Err("there is no scenario".to_owned());
    };
    place.prepare(scenario)?;
    place.disturbed(scenario, &[])?;
    let receipt = place.workdir().join(format!(".loopexec/run-{RUN}.jsonl"));
    let length = fs_err::read(&receipt)
        .map_err(|error| error.to_string())?
        .len();
    *row.counts
        .entry("bytes of the receipt".to_owned())
        .or_default() += u64::try_from(length).unwrap_or(0);
    let (first, step) = match context.scale {
        Scale::Full => (0, 1),
        Scale::Gate => (context.dice.below(GATE_STEP), GATE_STEP),
    };
    for limit in (first..=length).step_by(step) {
        let case = format!("files of at most {limit} bytes");
        place.prepare(scenario)?;
        let wrapper = ["prlimit".to_owned(), format!("--fsize={limit}")];
        let outcome = place.disturbed(scenario, &wrapper)?;
        row.cases += 1;
        row.count(outcome.code.map_or_else(
            || format!("signal {}", outcome.signal.unwrap_or(0)),
            |code| format!("exit {code}"),
        ));
        let wrong = invariant::manners("the run", &outcome);
        row.violations
            .extend(wrong.into_iter().map(|wrong| format!("{case}: {wrong}")));
        invariant::recover(&place, scenario, &case, false, &mut row)?;
    }
    Ok(row)
}
