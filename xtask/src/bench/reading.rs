//! Verifying a receipt of a million records against `jq -c .` on the same file.

use loopexec_core::policy::{Commands, Policy};
use loopexec_testkit::log::{Attempt, LogBuilder};

use super::{Context, Figure, ROUNDS, millis, program};
use crate::support;

/// Share of the peer's time.
const GOAL: f64 = 0.2;

/// Measures.
pub(super) fn run(context: &Context) -> Result<Vec<Figure>, String> {
    let root = support::scratch("verify")?;
    let records: usize = if context.short { 100_000 } else { 1_000_000 };
    let path = root.path().join("run-golden.jsonl");
    let bytes = log(records);
    let megabytes = f64::from(u32::try_from(bytes.len() / 1024).unwrap_or(u32::MAX)) / 1024.0;
    fs_err::write(&path, bytes).map_err(|error| error.to_string())?;
    let name = path.to_string_lossy().into_owned();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut verify = program(&context.binary, root.path())?;
        verify.args(["verify", &name, "--json"]);
        ours.push(millis(&mut verify, 0)?);
        let mut jq = support::command("sh");
        jq.args(["-c", "jq -c . \"$1\" > /dev/null", "jq", &name]);
        theirs.push(millis(&mut jq, 0)?);
    }
    Ok(vec![
        Figure::new(format!("verify: {records} records"), "MiB", vec![megabytes]),
        Figure::new("verify: loopexec verify", "ms", ours.clone()),
        Figure::new("verify: jq -c .", "ms", theirs.clone()),
        Figure::new("verify: ratio to jq", "x", super::ratios(&ours, &theirs))
            .gated_by_best_in_short(GOAL, context),
    ])
}

/// Records of one iteration: started, work (3), check (3), verdict.
const RECORDS_AN_ITERATION: usize = 8;

/// A finished log of about so many records: every iteration red, up to the cap.
fn log(records: usize) -> Vec<u8> {
    let iterations = records / RECORDS_AN_ITERATION;
    let policy = Policy {
        max_iterations: u32::try_from(iterations).unwrap_or(u32::MAX),
        ..Policy::default()
    };
    let commands = Commands {
        exec: Some("true".to_owned()),
        check: "false".to_owned(),
        ..Commands::default()
    };
    let attempt = Attempt::new(1, &[]);
    let mut builder = LogBuilder::open(policy, commands);
    builder.drive(&attempt, &vec![attempt.clone(); iterations]);
    builder.bytes()
}
