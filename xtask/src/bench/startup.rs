//! Start-up: `version --json` against `/bin/true`, alternately.

use super::{Context, Figure, ROUNDS, millis};
use crate::support;

/// Starts a round. The fastest counts: whatever else the machine does only adds to the others.
const STARTS: usize = 60;
/// What the contract allows beside twice the peer, in milliseconds.
const ALLOWANCE_MS: f64 = 1.0;

/// Measures.
pub(super) fn run(context: &Context) -> Result<Vec<Figure>, String> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (mut our_best, mut their_best) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..STARTS {
            let mut version = support::command(&context.binary);
            version.args(["version", "--json"]);
            our_best = millis(&mut version, 0)?.min(our_best);
            their_best = millis(&mut support::command("/bin/true"), 0)?.min(their_best);
        }
        ours.push(our_best);
        theirs.push(their_best);
    }
    let allowed: Vec<f64> = theirs
        .iter()
        .map(|theirs| 2.0 * theirs + ALLOWANCE_MS)
        .collect();
    let share = super::ratios(&ours, &allowed);
    Ok(vec![
        Figure::new("start-up: version --json", "ms", ours),
        Figure::new("start-up: /bin/true", "ms", theirs),
        Figure::new("start-up: share of (2 x /bin/true + 1 ms)", "x", share).gated(1.0),
    ])
}
