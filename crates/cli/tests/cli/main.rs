//! The program as a user meets it: exit classes, envelopes, files, signals.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod deterministic;
mod exits;
mod integrity;
mod interruption;
mod loops;
mod output;
mod proving;
mod schemas;
mod snapshots;
mod undo;

use loopexec_testkit::env::TestEnv;

/// A fresh place with the binary under test.
fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_loopexec"))
}
