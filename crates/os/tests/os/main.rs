//! Tests that need processes of their own.
//!
//! The program owns its `main` because it must be able to act as the guardian, and as a governor that gets killed.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests: a panic is their failure, and helpers talk through their output"
)]

mod commands;
mod endings;
mod files;
mod helper;
mod hostile;
mod signals;
mod support;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some(loopexec_os::guardian::ARGUMENT) => loopexec_os::guardian::guardian_main(),
        Some(mode) if mode.starts_with(helper::PREFIX) => helper::main(mode, &arguments[2..]),
        Some(_) | None => {}
    }
    let suites: [support::Tests; 5] = [
        commands::TESTS,
        endings::TESTS,
        hostile::TESTS,
        signals::TESTS,
        files::TESTS,
    ];
    let trials = suites.into_iter().flatten().map(|(name, test)| {
        let test = *test;
        Trial::test(*name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}
