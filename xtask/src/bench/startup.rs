//! Start-up: `version --json` against `/bin/true`, alternately.

use super::{Context, Figure, ROUNDS, millis};
use crate::support;

/// Starts a round, so that one start's noise does not count.
const STARTS: usize = 60;
/// What the contract allows beside twice the peer, in milliseconds.
const ALLOWANCE_MS: f64 = 1.0;

/// Measures.
pub(super) fn run(context: &Context) -> Result<Vec<Figure>, String> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (mut our_sum, mut their_sum) = (0.0, 0.0);
        for _ in 0..STARTS {
            let mut version = support::command(&context.binary);
            version.args(["version", "--json"]);
            our_sum += millis(&mut version, 0)?;
            their_sum += millis(&mut support::command("/bin/true"), 0)?;
        }
        ours.push(our_sum / STARTS as f64);
        theirs.push(their_sum / STARTS as f64);
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
