//! Tests that need processes of their own.
//!
//! The program owns its `main` because it must be able to act as the guardian and as a governor that gets killed.

fn main() {
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), Vec::new()).exit();
}
