//! The core's rules on whole logs: golden logs, examples at each limit and one before it, properties.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod golden;
mod properties;
mod resume;
mod rules;
mod tamper;

use loopexec_core::{
    policy::{Commands, Policy},
    replay::Folder,
    state::RunState,
};
use loopexec_testkit::log::{Attempt, LogBuilder};

/// The commands of a scenario: which of the optional ones are configured.
fn commands(failures: bool, integrity: bool) -> Commands {
    Commands {
        exec: Some("./work".to_owned()),
        check: "./check".to_owned(),
        failures: failures.then(|| "./failures".to_owned()),
        integrity: integrity.then(|| "./members".to_owned()),
    }
}

/// Runs a scenario and derives it again from its bytes.
fn run(policy: Policy, commands: Commands, attempts: &[Attempt]) -> LogBuilder {
    let mut builder = LogBuilder::open(policy, commands);
    let baseline = attempts
        .first()
        .cloned()
        .unwrap_or_else(|| Attempt::new(1, &[]));
    builder.drive(&baseline, attempts);
    assert_eq!(fold(&builder.bytes()).as_ref(), Some(builder.state()));
    builder
}

/// Folds the lines of a log; `None` when it does not verify.
fn fold(bytes: &[u8]) -> Option<RunState> {
    let mut folder = Folder::default();
    for line in bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        folder.line(line).ok()?;
    }
    folder.into_state()
}

/// How a scenario halted: reason and cause.
fn halt(builder: &LogBuilder) -> Option<(&'static str, Option<&'static str>)> {
    builder.state().halt.as_ref().map(|halt| {
        (
            halt.halt_reason.name(),
            halt.failure_cause.map(|cause| cause.name()),
        )
    })
}
