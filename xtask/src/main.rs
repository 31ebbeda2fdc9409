//! Development tasks, one subcommand each; nothing here is shipped.
//!
//! A task is one line in [`TASKS`] and one module with `run(&[String]) -> TaskResult`. This file finds the task
//! and prints how it ended; it knows nothing about what a task does.

use std::process::ExitCode;

mod bench;
mod blocks;
mod capability;
mod check;
mod continuity;
mod docs;
mod edges;
mod faults;
mod golden;
mod links;
mod markdown;
mod program;
mod proof;
mod published;
mod reached;
mod reference;
mod schema;
mod sources;
mod support;
mod tables;
mod tidy;
mod words;

/// How a task ends: a message for people when it failed. The task has printed its own output by then.
pub(crate) type TaskResult = Result<(), String>;

/// One subcommand.
struct Task {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> TaskResult,
}

/// Every task, in the order in which the help lists them.
const TASKS: &[Task] = &[
    Task {
        name: "bench",
        about: "print each ratio of docs/benchmarks.md; [--short] [NAME...]",
        run: bench::run,
    },
    Task {
        name: "check",
        about: "run every gate, or those that are named; --base REF adds the continuity since REF",
        run: check::run,
    },
    Task {
        name: "docs",
        about: "write the generated references; with --check compare them instead",
        run: docs::run,
    },
    Task {
        name: "docs-dist",
        about: "write the documents of a release, with their digests, into a new directory",
        run: published::write,
    },
    Task {
        name: "docs-verify",
        about: "compare a directory of published documents with the digests that it carries",
        run: published::verify,
    },
    Task {
        name: "faults",
        about: "kill, refuse, cut, flip, crash and race; [--scale gate|full] [--seed N] [NAME...]",
        run: faults::run,
    },
    Task {
        name: "proof",
        about: "break published packages, let a worker repair them, verify what is left behind",
        run: proof::run,
    },
];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let Some(name) = words.next() else {
        say(&usage());
        return ExitCode::from(2);
    };
    let rest: Vec<String> = words.collect();
    let Some(task) = TASKS.iter().find(|task| task.name == name) else {
        say(&usage());
        return ExitCode::from(2);
    };
    match (task.run)(&rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            say(&format!("xtask {name}: {message}"));
            ExitCode::FAILURE
        }
    }
}

fn usage() -> String {
    let mut text = String::from("usage: cargo xtask TASK [WORDS]\n");
    for task in TASKS {
        text.push_str(&format!("  {:<12} {}\n", task.name, task.about));
    }
    text
}

/// Every line a task prints goes through here: progress and findings are for people, so they go to stderr.
#[expect(
    clippy::print_stderr,
    reason = "a development task talks to a person at a terminal"
)]
pub(crate) fn say(line: &str) {
    eprintln!("{line}");
}
