//! F1 and F2: the governor is killed at, or refused, each of its system calls that change something.

use std::{collections::BTreeMap, path::Path};

use super::{
    Context, Row, Scale, invariant,
    scenario::{Place, SCENARIOS, Scenario},
};
use crate::support;

/// The calls at which the outside world changes; `openat` is both a creation and what every recovery begins with.
const CALLS: &[&str] = &[
    "open",
    "openat",
    "write",
    "fdatasync",
    "fsync",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "symlink",
    "symlinkat",
    "ftruncate",
    "clone",
    "clone3",
    "fork",
    "vfork",
    "sendmsg",
    "sendto",
    "flock",
];
/// Calls that take no error of a disk: there is nothing to refuse.
const NO_DISK: &[&str] = &[
    "clone", "clone3", "fork", "vfork", "sendmsg", "sendto", "flock",
];
/// Errors of a disk.
const ERRORS: &[&str] = &["EIO", "ENOSPC", "EROFS", "EDQUOT"];
/// Points of each scenario at which the gate refuses a call: about a second for a dozen. It kills at every point.
const GATE_REFUSED: usize = 100;

/// Which processes of a run a fault is made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Among {
    /// The governor's first thread: the guardian and the commands stay as they are.
    Governor,
    /// Whichever process comes to its nth such call: also the guardian, a thread, a command.
    All,
}

/// One call of one kind, counted from 1 in the governor's first thread.
#[derive(Clone, Debug)]
struct Point {
    call: String,
    nth: usize,
}

/// F1: SIGKILL at the entry of each call.
pub(super) fn kill(context: &mut Context) -> Result<Row, String> {
    let scratch = support::scratch("kill")?;
    let place = Place::new(&context.binary, scratch.path());
    let mut row = Row::default();
    let among = match context.scale {
        Scale::Full => &[Among::Governor, Among::All][..],
        Scale::Gate => &[Among::Governor],
    };
    for scenario in SCENARIOS {
        let points = points(&place, scenario, scratch.path(), &mut row)?;
        for among in among {
            for point in &points {
                kill_one(&place, scenario, point, *among, &mut row)?;
            }
        }
    }
    Ok(row)
}

fn kill_one(
    place: &Place,
    scenario: &Scenario,
    point: &Point,
    among: Among,
    row: &mut Row,
) -> Result<(), String> {
    let case = format!(
        "{}, kill {among:?} at {} {}",
        scenario.name, point.call, point.nth
    );
    place.prepare(scenario)?;
    let inject = format!("inject={}:signal=SIGKILL:when={}", point.call, point.nth);
    let outcome = place.disturbed(scenario, &tracer(&point.call, &inject, among))?;
    row.cases += 1;
    let killed = outcome.signal == Some(9) || outcome.code == Some(137);
    row.count(match (killed, among) {
        (true, _) => "killed",
        (false, Among::Governor) => "ended before that call",
        (false, Among::All) => "another process of the run was killed, or none",
    });
    if !outcome.left.is_empty() {
        row.violations
            .push(format!("{case}: left alive: {}", outcome.left.join(", ")));
    }
    if !killed && among == Among::All {
        let wrong = invariant::manners("the run", &outcome);
        row.violations
            .extend(wrong.into_iter().map(|wrong| format!("{case}: {wrong}")));
    }
    let may_fail = among == Among::All;
    invariant::recover(place, scenario, &case, may_fail, row)
}

/// How long a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    Once,
    FromThenOn,
}

/// F2: each call fails with an error of a disk, once, and from then on.
pub(super) fn refuse(context: &mut Context) -> Result<Row, String> {
    let scratch = support::scratch("refuse")?;
    let place = Place::new(&context.binary, scratch.path());
    let mut row = Row::default();
    for scenario in SCENARIOS {
        let all: Vec<Point> = points(&place, scenario, scratch.path(), &mut row)?
            .into_iter()
            .filter(|point| !NO_DISK.contains(&point.call.as_str()))
            .collect();
        for point in context.sample(all, GATE_REFUSED) {
            for error in errors(context) {
                for refused in durations(context) {
                    refuse_one(&place, scenario, &point, (error, refused), &mut row)?;
                }
            }
        }
    }
    Ok(row)
}

fn errors(context: &mut Context) -> Vec<&'static str> {
    match context.scale {
        Scale::Full => ERRORS.to_vec(),
        Scale::Gate => {
            let drawn = context.dice.below(ERRORS.len());
            ERRORS.get(drawn).into_iter().copied().collect()
        }
    }
}

fn durations(context: &mut Context) -> Vec<Refused> {
    let both = [Refused::Once, Refused::FromThenOn];
    match context.scale {
        Scale::Full => both.to_vec(),
        Scale::Gate => {
            let drawn = context.dice.below(both.len());
            both.get(drawn).into_iter().copied().collect()
        }
    }
}

fn refuse_one(
    place: &Place,
    scenario: &Scenario,
    point: &Point,
    (error, refused): (&str, Refused),
    row: &mut Row,
) -> Result<(), String> {
    let case = format!(
        "{}, {error} at {} {} {refused:?}",
        scenario.name, point.call, point.nth
    );
    place.prepare(scenario)?;
    let more = match refused {
        Refused::Once => "",
        Refused::FromThenOn => "+",
    };
    let inject = format!(
        "inject={}:error={error}:when={}{more}",
        point.call, point.nth
    );
    let outcome = place.disturbed(scenario, &tracer(&point.call, &inject, Among::Governor))?;
    row.cases += 1;
    // 127: the loader of the program was refused its libraries, so the program never ran.
    if outcome.code == Some(127) {
        row.count("the loader was refused");
    } else {
        row.count(format!("{refused:?}: exit {}", outcome.code.unwrap_or(-1)));
        // The envelope itself may be what was refused; the exit code then says so.
        let refused_envelope =
            point.call == "write" && outcome.stdout.is_empty() && outcome.code == Some(50);
        if !refused_envelope {
            let wrong = invariant::manners("the run", &outcome);
            row.violations
                .extend(wrong.into_iter().map(|wrong| format!("{case}: {wrong}")));
        }
    }
    invariant::recover(place, scenario, &case, false, row)
}

/// A tracer that makes one fault.
fn tracer(call: &str, inject: &str, among: Among) -> Vec<String> {
    let trace = format!("trace={call}");
    let mut words = vec![
        "strace",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        &trace,
        "-e",
        inject,
    ];
    if among == Among::All {
        words.push("-f");
    }
    words.into_iter().map(str::to_owned).collect()
}

/// Every point of a scenario, from a recording of it undisturbed.
fn points(
    place: &Place,
    scenario: &Scenario,
    scratch: &Path,
    row: &mut Row,
) -> Result<Vec<Point>, String> {
    let record = scratch.join("trace");
    place.prepare(scenario)?;
    let trace = format!("trace={}", CALLS.join(","));
    let name = record.to_string_lossy().into_owned();
    let wrapper = ["strace", "-qq", "-o", &name, "-e", &trace].map(str::to_owned);
    let outcome = place.disturbed(scenario, &wrapper)?;
    if outcome.code != Some(scenario.exit) {
        return Err(format!(
            "the scenario {:?} does not end with {}: {:?} {}",
            scenario.name,
            scenario.exit,
            outcome.code,
            outcome.text()
        ));
    }
    let text = fs_err::read_to_string(&record).map_err(|error| error.to_string())?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in text.lines() {
        if let Some((call, _)) = line.split_once('(')
            && CALLS.contains(&call)
        {
            *counts.entry(call).or_default() += 1;
        }
    }
    let total: usize = counts.values().sum();
    *row.counts
        .entry(format!("points of {:?}", scenario.name))
        .or_default() += u64::try_from(total).unwrap_or(0);
    Ok(counts
        .into_iter()
        .flat_map(|(call, count)| {
            (1..=count).map(move |nth| Point {
                call: call.to_owned(),
                nth,
            })
        })
        .collect())
}
