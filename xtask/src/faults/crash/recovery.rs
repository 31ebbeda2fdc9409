//! Puts a state on the disk and recovers from it with the program itself.

use std::path::Path;

use loopexec_engine::{
    layout::Layout,
    verify::{Parts, Trust, verify},
};
use serde_json::Value;

use super::{
    super::{
        Row, invariant,
        scenario::{Place, RUN, Scenario},
    },
    model::{Content, CrashState},
    trace::Promised,
};

/// What the program may say instead of going on when nothing had been promised.
const BEFORE_ANY_PROMISE: &[&str] = &["run_not_found", "run_not_opened"];

/// Recovers; what was promised and is not kept.
pub(super) fn recover(
    place: &Place,
    scenario: &Scenario,
    state: &CrashState,
    promised: Promised,
    row: Option<&mut Row>,
) -> Result<Vec<String>, String> {
    place.clear()?;
    put(state)?;
    // The work that was asked for may have been done: the person's files say so.
    let work = "x\n".repeat(promised.work);
    fs_err::write(place.workdir().join("work"), work).map_err(|error| error.to_string())?;
    let mut wrong = Vec::new();
    if promised.work > 0 && !saved_content(place) {
        wrong.push("work was started and the content saved before it is gone".to_owned());
    }
    if promised.answered {
        wrong.extend(answered(place));
    }
    let outcome = place.resume(&[])?;
    wrong.extend(invariant::manners("resume", &outcome));
    let object = invariant::envelope(&outcome).unwrap_or(Value::Null);
    let reason = invariant::field(&object, "halt_reason").to_owned();
    let cause = invariant::field(&object, "failure_cause").to_owned();
    let went_on = outcome.code == Some(scenario.exit) || reason == "max_iterations_reached";
    // A snapshot is replaced without being forced, so it may get ahead of the log; the rules then say so and stop (SPEC 2.5).
    let ahead = !promised.answered && cause == "snapshot_mismatch";
    let excused = ahead || promised.work == 0 && BEFORE_ANY_PROMISE.contains(&cause.as_str());
    if !went_on && !excused {
        wrong.push(format!(
            "exit {:?} {reason} {cause} after {promised:?}: {}",
            outcome.code,
            outcome.text()
        ));
    }
    // Attempts are forced to the disk with the next sync point only (SPEC 2.5), so a power cut may forget some. What is
    // recorded never exceeds the cap; what is done again is counted.
    let recorded = object.get("iteration").and_then(Value::as_u64);
    if recorded
        .is_some_and(|iteration| usize::try_from(iteration).unwrap_or(usize::MAX) > scenario.cap)
    {
        wrong.push(format!(
            "{recorded:?} recorded iterations exceed the cap of {}",
            scenario.cap
        ));
    }
    if let Some(row) = row {
        if place.work_started() > scenario.cap {
            row.count("forgotten attempts were made again");
        }
        row.count(match (went_on, promised.answered, excused) {
            (true, true, _) => "the recorded halt again".to_owned(),
            (true, false, _) => format!("goes on to its end: {reason}"),
            (false, _, true) if ahead => format!("says why not: {cause}"),
            (false, _, true) => format!("nothing was promised: {cause}"),
            (false, _, false) => format!("does not go on: {cause}"),
        });
    }
    Ok(wrong)
}

/// What an answer promised: the halt in the receipt, the snapshot that agrees with it.
fn answered(place: &Place) -> Vec<String> {
    let layout = Layout::new(&place.workdir(), Some(&place.state_home()));
    let mut wrong = Vec::new();
    match verify(&Parts::of(&layout, RUN), None, &Trust::Unasked) {
        Ok(found) => {
            if !found.verified() {
                wrong.push(format!(
                    "answered, and it does not verify: {:?}",
                    found.cause()
                ));
            }
            if found.state.is_none_or(|state| state.halt.is_none()) {
                wrong.push("answered, and the halt is lost".to_owned());
            }
        }
        Err(error) => wrong.push(format!("answered, and {}", error.message)),
    }
    let snapshot = fs_err::read(layout.state(RUN)).unwrap_or_default();
    let named: Option<Value> = serde_json::from_slice(&snapshot).ok();
    if !named.is_some_and(|value| value.get("halt_reason").is_some_and(Value::is_string)) {
        wrong.push("answered, and the snapshot is lost".to_owned());
    }
    wrong
}

/// Whether the person's own content, saved before the first work, is still there: its reference and the pack.
fn saved_content(place: &Place) -> bool {
    let run = place.workdir().join(".loopexec/runs").join(RUN);
    let references = fs_err::read_to_string(run.join("git/packed-refs")).unwrap_or_default();
    let listed = references.contains("t0");
    let packs = fs_err::read_dir(run.join("git/objects/pack"))
        .into_iter()
        .flatten()
        .flatten();
    let whole = packs
        .filter(|entry| {
            entry
                .path()
                .extension()
                .is_some_and(|extension| extension == "pack")
        })
        .any(|entry| fs_err::read(entry.path()).is_ok_and(|pack| pack.starts_with(b"PACK")));
    listed && whole
}

fn put(state: &CrashState) -> Result<(), String> {
    for (path, content) in &state.content {
        let parent = path.parent().unwrap_or(Path::new("/"));
        let put = || -> std::io::Result<()> {
            match content {
                Content::Directory => fs_err::create_dir_all(path),
                Content::File(bytes) => {
                    fs_err::create_dir_all(parent)?;
                    fs_err::write(path, bytes)
                }
                Content::Link(target) => {
                    fs_err::create_dir_all(parent)?;
                    fs_err::os::unix::fs::symlink(target, path)
                }
            }
        };
        put().map_err(|error| error.to_string())?;
    }
    Ok(())
}
