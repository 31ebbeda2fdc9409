//! Hostile commands: output without end, many descendants, daemons, a command that ends its guardian or its governor.
//! After each nothing of it is alive, the governor has stayed small, and there is a receipt that verifies.

use std::time::Duration;

use super::{Context, Row, invariant, scenario::Place};
use crate::support;

/// What the governor may hold, in KiB.
const PEAK_KIB: u64 = 20 * 1024;
/// Longest time for one case; ten gigabytes are hashed in a minute.
const DEADLINE: Duration = Duration::from_secs(600);
/// How soon after the end of the governor nothing of the run may be alive.
const LEFTOVER: Duration = Duration::from_secs(10);
/// Daemons of one command: enough to show, and far from the limits of a machine.
const DAEMONS: u32 = 500;
/// Output of one command, in GiB.
const GIGABYTES: u32 = 10;
/// Descendants of one command, one after the other.
const DESCENDANTS: u32 = 20_000;
/// The process id of the governor, for a command.
const GOVERNOR: &str = "$(tr -dc '0-9,' < .loopexec/lock | cut -d, -f1)";

/// One hostile command.
struct Case {
    name: &'static str,
    exec: String,
    check: String,
    /// Exit codes that are an answer to it; `None`: the governor was killed.
    ends: &'static [i32],
}

/// Runs each.
pub(super) fn run(context: &mut Context) -> Result<Row, String> {
    let scratch = support::scratch("processes")?;
    let place = Place::new(&context.binary, scratch.path());
    let mut row = Row::default();
    for case in cases() {
        place.clear()?;
        let watch = format!("grep VmHWM /proc/{GOVERNOR}/status > peak; ");
        let check = format!("{}{}", watch, case.check);
        let words = [
            "run", "--json", "--quiet", "--run-id", "a", "--exec", &case.exec, "--check", &check,
            "--once",
        ];
        let outcome = support::run_and(
            &mut place.program(&[], &words),
            DEADLINE,
            LEFTOVER,
            &mut |_| {},
        )?;
        row.cases += 1;
        let mut wrong = Vec::new();
        if case.ends.is_empty() {
            if outcome.signal != Some(9) {
                wrong.push(format!("the governor was not killed: {:?}", outcome.code));
            }
            if !outcome.left.is_empty() {
                wrong.push(format!("left alive: {}", outcome.left.join(", ")));
            }
            let resumed = place.resume(&[])?;
            wrong.extend(invariant::manners("resume", &resumed));
        } else {
            wrong.extend(invariant::manners("the run", &outcome));
            if !outcome.code.is_some_and(|code| case.ends.contains(&code)) {
                wrong.push(format!("ended with {:?}: {}", outcome.code, outcome.text()));
            }
        }
        let verified = place.say(&["verify", "--json", "--run-id", "a"])?;
        if verified.code != Some(0) {
            wrong.push(format!("its receipt does not verify: {}", verified.text()));
        }
        if let Some(kib) = peak(&place) {
            row.counts
                .insert(format!("{}: peak of the governor, KiB", case.name), kib);
            if kib > PEAK_KIB {
                wrong.push(format!("the governor held {kib} KiB"));
            }
        }
        let millis = u64::try_from(outcome.took.as_millis()).unwrap_or(u64::MAX);
        row.counts.insert(format!("{}: ms", case.name), millis);
        row.violations.extend(
            wrong
                .into_iter()
                .map(|wrong| format!("{}: {wrong}", case.name)),
        );
    }
    Ok(row)
}

fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "output of gigabytes",
            exec: format!("head -c {GIGABYTES}G /dev/zero"),
            check: "true".to_owned(),
            ends: &[10],
        },
        Case {
            name: "short-lived descendants",
            exec: format!("i=0; while [ $i -lt {DESCENDANTS} ]; do /bin/true; i=$((i+1)); done"),
            check: "true".to_owned(),
            ends: &[10],
        },
        Case {
            name: "500 daemons",
            exec: format!(
                "i=0; while [ $i -lt {DAEMONS} ]; do setsid sleep 600 & i=$((i+1)); done; exit 0"
            ),
            check: "true".to_owned(),
            ends: &[10],
        },
        Case {
            name: "the guardian is killed by the work command",
            exec: "setsid sleep 600 & kill -9 $PPID; exec sleep 600".to_owned(),
            check: "true".to_owned(),
            ends: &[40],
        },
        Case {
            name: "the guardian is killed by the check",
            exec: "true".to_owned(),
            check: "setsid sleep 600 & kill -9 $PPID; exec sleep 600".to_owned(),
            ends: &[40],
        },
        Case {
            name: "the governor is killed beside 50 daemons",
            exec: format!(
                "i=0; while [ $i -lt 50 ]; do setsid sleep 600 & i=$((i+1)); done; kill -9 {GOVERNOR}; sleep 600"
            ),
            check: "true".to_owned(),
            ends: &[],
        },
    ]
}

/// The governor's own high-water mark, as the check saw it.
fn peak(place: &Place) -> Option<u64> {
    let text = fs_err::read_to_string(place.workdir().join("peak")).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}
