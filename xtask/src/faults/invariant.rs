//! What must hold after a fault: no panic, one envelope, nothing alive, nothing acknowledged lost, no cap exceeded,
//! and a run that goes on or says exactly why not.

use serde_json::Value;

use super::{
    Row,
    scenario::{Place, Scenario},
};
use crate::support::Outcome;

/// Why a run may say that it does not go on, once work had been started: never.
const ONLY_BEFORE_WORK: &[&str] = &["run_not_found", "run_not_opened", "store_unusable"];
/// Exit class of a defect.
const INTERNAL: i32 = 50;

/// The one object on standard output, or why there is none.
pub(super) fn envelope(outcome: &Outcome) -> Result<Value, String> {
    let text = String::from_utf8_lossy(&outcome.stdout);
    let mut lines = text.lines();
    match (lines.next(), lines.next()) {
        (Some(line), None) => serde_json::from_str(line)
            .map_err(|error| format!("standard output is no JSON object ({error}): {line}")),
        (None, _) => Err("nothing on standard output".to_owned()),
        (Some(_), Some(_)) => Err(format!("more than one line on standard output: {text}")),
    }
}

/// A text field of an envelope.
pub(super) fn field<'a>(envelope: &'a Value, name: &str) -> &'a str {
    envelope.get(name).and_then(Value::as_str).unwrap_or("")
}

/// What is wrong with how a command ended, whatever it was asked.
pub(super) fn manners(what: &str, outcome: &Outcome) -> Vec<String> {
    let mut wrong = Vec::new();
    if outcome.hung {
        wrong.push(format!("{what} hung"));
    }
    if let Some(signal) = outcome.signal {
        wrong.push(format!("{what} died of signal {signal}"));
    }
    if !outcome.left.is_empty() {
        wrong.push(format!("{what} left alive: {}", outcome.left.join(", ")));
    }
    match envelope(outcome) {
        Err(why) => wrong.push(format!("{what}: {why}; stderr: {}", outcome.text())),
        Ok(object) if field(&object, "failure_cause") == "defect" => {
            wrong.push(format!("{what} met a defect: {}", outcome.text()));
        }
        Ok(_) => {}
    }
    if outcome.code == Some(101) {
        wrong.push(format!("{what} panicked: {}", outcome.text()));
    }
    wrong
}

/// Reads, goes on, reads again; adds what was wrong to the row. With `may_fail` the run may have ended with a failed command,
/// because the fault may have been made in one.
pub(super) fn recover(
    place: &Place,
    scenario: &Scenario,
    case: &str,
    may_fail: bool,
    row: &mut Row,
) -> Result<(), String> {
    let before = place.work_started();
    let mut wrong = Vec::new();
    for words in [
        &["check", "--json", "--run-id", "a"][..],
        &["verify", "--json", "--run-id", "a"],
    ] {
        let outcome = place.say(words)?;
        let name = words.first().copied().unwrap_or_default();
        wrong.extend(manners(name, &outcome));
    }
    let resumed = place.resume(&[])?;
    wrong.extend(manners("resume", &resumed));
    let object = envelope(&resumed).unwrap_or(Value::Null);
    let (reason, cause) = (
        field(&object, "halt_reason"),
        field(&object, "failure_cause"),
    );
    let after = place.work_started();
    if after > scenario.cap {
        wrong.push(format!(
            "{after} starts of work exceed the cap of {}",
            scenario.cap
        ));
    }
    if resumed.code == Some(scenario.exit) {
        row.count(format!("goes on to its end: {reason}"));
        wrong.extend(verified(place)?);
    } else if before == 0 && ONLY_BEFORE_WORK.contains(&cause) {
        row.count(format!("never began: {cause}"));
        wrong.extend(begun_again(place, scenario)?);
    } else if may_fail && reason == "execution_failure" {
        row.count(format!("a command failed: {cause}"));
        wrong.extend(verified(place)?);
    } else if reason == "max_iterations_reached" {
        // The interrupted attempt counts, so a run that would have converged may reach its cap.
        row.count("reaches its cap");
        wrong.extend(verified(place)?);
    } else {
        wrong.push(format!(
            "after {before} starts of work it does not go on: exit {:?} {reason} {cause} {}",
            resumed.code,
            resumed.text()
        ));
    }
    if resumed.code == Some(INTERNAL) {
        wrong.push(format!("internal error: {}", resumed.text()));
    }
    row.violations
        .extend(wrong.into_iter().map(|wrong| format!("{case}: {wrong}")));
    Ok(())
}

/// What a run that never began is told to do: begin again, under the same id.
fn begun_again(place: &Place, scenario: &Scenario) -> Result<Vec<String>, String> {
    let outcome = place.start(scenario, &[])?;
    let mut wrong = manners("the next start", &outcome);
    if outcome.code == Some(scenario.exit) {
        wrong.extend(verified(place)?);
    } else {
        wrong.push(format!(
            "a run that never began cannot be begun again: exit {:?} {}",
            outcome.code,
            outcome.text()
        ));
    }
    Ok(wrong)
}

fn verified(place: &Place) -> Result<Vec<String>, String> {
    let outcome = place.say(&["verify", "--json", "--run-id", "a"])?;
    let mut wrong = manners("verify after the end", &outcome);
    if outcome.code != Some(0) {
        wrong.push(format!(
            "the finished run does not verify: {}",
            outcome.text()
        ));
    }
    Ok(wrong)
}
