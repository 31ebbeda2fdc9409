//! F10: sixteen governors start in one workspace at once; and one starts while the work command of another deletes the store.

use std::{
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use rustix::process::Pid;

use super::{Context, Row, invariant, scenario::Place};
use crate::support::{self, Outcome};

const GOVERNORS: usize = 16;
/// A twentieth of a second each.
const ROUNDS: usize = 100;
/// Longest wait for a governor that is refused, or that may go on.
const DEADLINE: Duration = Duration::from_secs(30);
/// Exit class of a workspace that cannot be used.
const REFUSED: i32 = 30;
/// Work that lasts until the file `go` is there: the winner holds the lock until all others have answered.
const HOLDS: &str = "echo x >> work; while ! [ -e go ]; do sleep 0.005; done";
/// The same, after the store was deleted.
const DELETES: &str = "rm -rf .loopexec; echo x >> work; while ! [ -e go ]; do sleep 0.005; done";

/// Lets them race.
pub(super) fn run(context: &mut Context) -> Result<Row, String> {
    let scratch = support::scratch("race")?;
    let place = Place::new(&context.binary, scratch.path());
    let mut row = Row::default();
    for round in 0..ROUNDS {
        race(&place, round, &mut row)?;
        while_deleting(&place, round, &mut row)?;
    }
    Ok(row)
}

fn start(place: &Place, id: &str, exec: &str) -> Result<Child, String> {
    let words = [
        "run", "--json", "--quiet", "--run-id", id, "--exec", exec, "--check", "true", "--once",
    ];
    place
        .program(&[], &words)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())
}

fn pid(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

/// How a governor ended; its output is one line, so a pipe holds it.
fn ended(child: Child, deadline: Duration) -> Result<Outcome, String> {
    let begun = Instant::now();
    let hung = pid(&child).is_some_and(|pid| !support::gone_within(pid, deadline));
    let mut child = child;
    if hung {
        let _ = child.kill();
    }
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    Ok(Outcome {
        code: output.status.code(),
        signal: None,
        stdout: output.stdout,
        stderr: output.stderr,
        hung,
        left: Vec::new(),
        took: begun.elapsed(),
    })
}

fn let_go(workdir: &Path) -> Result<(), String> {
    fs_err::write(workdir.join("go"), "").map_err(|error| error.to_string())
}

/// The governors of a round that have not ended, once at most `most` of them have not.
fn all_but(
    mut running: Vec<Child>,
    most: usize,
    done: &mut Vec<Outcome>,
) -> Result<Vec<Child>, String> {
    let until = Instant::now() + DEADLINE;
    while running.len() > most && Instant::now() < until {
        let mut still = Vec::new();
        for child in running {
            let gone =
                pid(&child).is_none_or(|pid| support::gone_within(pid, Duration::from_millis(2)));
            if gone {
                done.push(ended(child, DEADLINE)?);
            } else {
                still.push(child);
            }
        }
        running = still;
    }
    Ok(running)
}

fn race(place: &Place, round: usize, row: &mut Row) -> Result<(), String> {
    place.clear()?;
    let governors = (0..GOVERNORS)
        .map(|number| start(place, &format!("r{number}"), HOLDS))
        .collect::<Result<Vec<_>, _>>()?;
    let mut refused = Vec::new();
    let holding = all_but(governors, 1, &mut refused)?;
    let held = holding.len();
    let_go(&place.workdir())?;
    let mut wrong = Vec::new();
    for child in holding {
        let outcome = ended(child, DEADLINE)?;
        if outcome.code != Some(10) {
            wrong.push(format!(
                "the winner ended with {:?}: {}",
                outcome.code,
                outcome.text()
            ));
        }
    }
    for outcome in &refused {
        wrong.extend(refusal(outcome));
    }
    let left = support::end_leftovers(DEADLINE);
    let starts = place.work_started();
    row.cases += 1;
    row.count("races of 16 governors");
    if held != 1 || starts != 1 || !left.is_empty() {
        wrong.push(format!(
            "{held} held the lock, work was started {starts} times, left {left:?}"
        ));
    }
    row.violations.extend(
        wrong
            .into_iter()
            .map(|wrong| format!("round {round}: {wrong}")),
    );
    Ok(())
}

fn refusal(outcome: &Outcome) -> Vec<String> {
    let mut wrong = invariant::manners("a refused governor", outcome);
    let object = invariant::envelope(outcome).unwrap_or_default();
    if outcome.code != Some(REFUSED)
        || invariant::field(&object, "failure_cause") != "workspace_locked"
    {
        wrong.push(format!(
            "refused with {:?}: {}",
            outcome.code,
            outcome.text()
        ));
    }
    wrong
}

fn while_deleting(place: &Place, round: usize, row: &mut Row) -> Result<(), String> {
    place.clear()?;
    let first = start(place, "first", DELETES)?;
    let until = Instant::now() + DEADLINE;
    while place.work_started() == 0 && Instant::now() < until {
        // The deletion is seen by its sign; the wait between two looks is for the governor itself, which must not end.
        if pid(&first).is_none_or(|pid| support::gone_within(pid, Duration::from_millis(2))) {
            break;
        }
    }
    let second = ended(start(place, "second", "echo second >> work")?, DEADLINE)?;
    let_go(&place.workdir())?;
    let first = ended(first, DEADLINE)?;
    let left = support::end_leftovers(DEADLINE);
    let mut wrong = refusal(&second);
    if first.code != Some(10) || place.work_started() != 1 || !left.is_empty() {
        wrong.push(format!(
            "the first ended with {:?}, work was started {} times, left {left:?}: {}",
            first.code,
            place.work_started(),
            first.text()
        ));
    }
    let verified = place.say(&["verify", "--json", "--run-id", "first"])?;
    if verified.code != Some(0) {
        wrong.push(format!(
            "the restored receipt does not verify: {}",
            verified.text()
        ));
    }
    row.cases += 1;
    row.count("starts while the store is deleted");
    row.violations.extend(
        wrong
            .into_iter()
            .map(|wrong| format!("deletion {round}: {wrong}")),
    );
    Ok(())
}
