//! The program `loopexec`: parse, call the engine, render. No policy in here.

#![forbid(unsafe_code)]

mod args;
mod command;
mod duration;
mod envelope;
mod error;
mod exit;
mod identity;
mod invocation;
mod render;
mod ui;

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == loopexec_os::guardian::ARGUMENT)
    {
        loopexec_os::guardian::guardian_main();
    }
    exit::run()
}
