//! One round: a broken workspace, a worker, a run, and what it left.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use super::{Bench, package::DEADLINE};
use crate::support::{self, Outcome};

/// Exit class of a green.
const CONVERGED: i32 = 10;
/// Exit class of a run that gets nowhere.
const NO_CONVERGENCE: i32 = 17;
/// Iterations that a run may start: more than any round needs.
const CAP: &str = "8";
/// What may be said about a run that gets nowhere.
const ADVICE: &[&str] = &["do-not-retry", "investigate"];

/// What the scripted worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worker {
    /// Repairs one break an iteration.
    RepairsBoth,
    /// Repairs the first break and then nothing more.
    RepairsOne,
}

/// A round that was run.
#[derive(Debug)]
pub(super) struct Round<'a> {
    bench: &'a Bench<'a>,
    name: &'static str,
    root: PathBuf,
    outcome: Outcome,
}

impl<'a> Round<'a> {
    /// Breaks a fresh workspace and runs the loop in it.
    pub(super) fn run(
        bench: &'a Bench<'a>,
        name: &'static str,
        worker: Worker,
    ) -> Result<Self, String> {
        let root = bench.root.join(name);
        let workspace = root.join("workspace");
        fs_err::create_dir_all(&root).map_err(|error| error.to_string())?;
        copy(&bench.fetched.source, &workspace)?;
        let script = root.join("worker.sh");
        break_and_script(bench, &workspace, &root, &script, worker)?;
        commit(&workspace)?;
        let mut round = Self {
            bench,
            name,
            root,
            outcome: Outcome {
                code: None,
                signal: None,
                stdout: Vec::new(),
                stderr: Vec::new(),
                hung: false,
                left: Vec::new(),
                took: std::time::Duration::ZERO,
            },
        };
        let exec = format!("sh {}", script.display());
        let words = [
            "run",
            "--json",
            "--quiet",
            "--run-id",
            name,
            "--exec",
            &exec,
            "--check",
            &bench.fetched.check,
            "--failures-cmd",
            &bench.fetched.failures,
            "--max-iterations",
            CAP,
            "--command-timeout",
            "5m",
            "--timeout",
            "30m",
        ];
        round.outcome = round.program(&workspace, &words)?;
        Ok(round)
    }

    fn workspace(&self) -> PathBuf {
        self.root.join("workspace")
    }

    fn program(&self, directory: &Path, words: &[&str]) -> Result<Outcome, String> {
        let mut command = program(&self.bench.binary, &self.root, directory)?;
        support::run(command.args(words), DEADLINE)
    }

    fn must_say(&self, directory: &Path, words: &[&str], status: &str) -> Result<Value, String> {
        let outcome = self.program(directory, words)?;
        let object = object(&outcome)?;
        let said = object.get("status").and_then(Value::as_str).unwrap_or("");
        if outcome.code == Some(0) && said == status {
            Ok(object)
        } else {
            Err(format!(
                "`loopexec {}` ended with {:?}, status {said:?}: {}",
                words.join(" "),
                outcome.code,
                outcome.text()
            ))
        }
    }

    fn must_halt(&self, class: i32) -> Result<String, String> {
        let object = object(&self.outcome)?;
        let reason = object
            .get("halt_reason")
            .and_then(Value::as_str)
            .unwrap_or("");
        if self.outcome.code == Some(class) && self.outcome.left.is_empty() {
            Ok(reason.to_owned())
        } else {
            Err(format!(
                "the run ended with {:?} {reason} instead of {class}: {}",
                self.outcome.code,
                self.outcome.text()
            ))
        }
    }

    /// The run is green after two iterations, and its receipt names the verdict of each.
    pub(super) fn converged(&self) -> Result<String, String> {
        let reason = self.must_halt(CONVERGED)?;
        if reason != "success_condition_met" {
            return Err(format!("the run halted with {reason}"));
        }
        let verdicts = self.verdicts()?;
        let expected = ["1 reject continue", "2 pass halt"];
        if verdicts == expected {
            Ok(verdicts.join(", "))
        } else {
            Err(format!(
                "the receipt names the verdicts {verdicts:?}, not {expected:?}"
            ))
        }
    }

    /// `iteration outcome decision` of each verdict in the receipt.
    fn verdicts(&self) -> Result<Vec<String>, String> {
        let path = self
            .workspace()
            .join(format!(".loopexec/run-{}.jsonl", self.name));
        let text = fs_err::read_to_string(path).map_err(|error| error.to_string())?;
        let (mut verdicts, mut outcome) = (Vec::new(), String::new());
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
            let word = |name: &str| {
                record
                    .get(name)
                    .and_then(Value::as_str)
                    .unwrap_or("")
                    .to_owned()
            };
            match word("event").as_str() {
                "check" => outcome = word("outcome"),
                "verdict" => {
                    let iteration = record.get("iteration").and_then(Value::as_u64).unwrap_or(0);
                    verdicts.push(format!("{iteration} {outcome} {}", word("decision")));
                }
                _ => {}
            }
        }
        Ok(verdicts)
    }

    /// Replay and verification pass in place, in a copy of the recorded tree, in a copy of the workspace on another path, and
    /// from an export.
    pub(super) fn verifies_here_and_elsewhere(&self) -> Result<(), String> {
        let (here, id) = (self.workspace(), self.name);
        self.must_say(&here, &["verify", "--json", "--run-id", id], "verified")?;
        self.must_say(&here, &["replay", "--json", "--run-id", id], "verified")?;
        self.must_say(
            &here,
            &["replay", "--json", "--run-id", id, "--in-copy"],
            "verified",
        )?;
        let export = self.root.join("export.tar");
        let file = export.to_string_lossy().into_owned();
        self.must_say(&here, &["runs", "export", id, &file, "--json"], "ok")?;
        let elsewhere = self.root.join("elsewhere/workspace");
        fs_err::create_dir_all(self.root.join("elsewhere")).map_err(|error| error.to_string())?;
        copy(&here, &elsewhere)?;
        self.must_say(
            &elsewhere,
            &["verify", "--json", "--run-id", id],
            "verified",
        )?;
        self.must_say(
            &elsewhere,
            &["replay", "--json", "--run-id", id, "--in-copy"],
            "verified",
        )?;
        let empty = self.root.join("empty");
        fs_err::create_dir_all(&empty).map_err(|error| error.to_string())?;
        self.must_say(&empty, &["verify", "--json", &file], "verified")?;
        self.must_say(
            &empty,
            &["replay", "--json", "--from", &file, "--confirm"],
            "verified",
        )?;
        Ok(())
    }

    /// The run gets nowhere, and says what to do about it.
    pub(super) fn did_not_converge(&self) -> Result<String, String> {
        let reason = self.must_halt(NO_CONVERGENCE)?;
        let outcome = self.program(
            &self.workspace(),
            &["explain-halt", "--json", "--run-id", self.name],
        )?;
        let object = object(&outcome)?;
        let advice = object.get("verdict").and_then(Value::as_str).unwrap_or("");
        if ADVICE.contains(&advice) {
            Ok(format!("{advice} ({reason})"))
        } else {
            Err(format!("{reason} is explained with {advice:?}"))
        }
    }
}

fn object(outcome: &Outcome) -> Result<Value, String> {
    serde_json::from_slice(&outcome.stdout).map_err(|error| {
        format!(
            "no JSON object on standard output ({error}): {}",
            outcome.text()
        )
    })
}

fn program(binary: &Path, root: &Path, directory: &Path) -> Result<Command, String> {
    let home = root.join("home");
    fs_err::create_dir_all(&home).map_err(|error| error.to_string())?;
    let mut command = support::command(binary);
    command
        .current_dir(directory)
        .env_clear()
        .env("PATH", support::variable("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("XDG_STATE_HOME", root.join("state"));
    Ok(command)
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let mut copy = support::command("cp");
    copy.arg("-a").arg(from).arg(to);
    support::must(&mut copy, DEADLINE).map(|_| ())
}

/// Breaks the file in two places, and writes a worker that puts one place right a call.
fn break_and_script(
    bench: &Bench<'_>,
    workspace: &Path,
    root: &Path,
    script: &Path,
    worker: Worker,
) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let file = workspace.join(bench.package.file);
    let original = fs_err::read_to_string(&file).map_err(failed)?;
    let [both, half] = bench.package.broken(&original)?;
    let (file_name, root_name) = (file.display(), root.display());
    for (name, text) in [("both", &both), ("half", &half), ("original", &original)] {
        fs_err::write(root.join(name), text).map_err(failed)?;
    }
    fs_err::write(&file, &both).map_err(failed)?;
    let second = match worker {
        Worker::RepairsBoth => format!("cat {root_name}/original > {file_name}"),
        Worker::RepairsOne => "true".to_owned(),
    };
    let text = format!(
        "set -e\nif cmp -s {file_name} {root_name}/both; then cat {root_name}/half > {file_name}; else {second}; fi\n"
    );
    fs_err::write(script, text).map_err(failed)
}

/// A repository with one commit, as a person's workspace is.
fn commit(workspace: &Path) -> Result<(), String> {
    for words in [
        &["init", "--quiet"][..],
        &["add", "--all"],
        &[
            "commit",
            "--quiet",
            "--message",
            "as published, broken in two places",
        ],
    ] {
        let mut git = support::command("git");
        git.args(["-c", "user.name=proof", "-c", "user.email=proof@localhost"])
            .args(words)
            .current_dir(workspace);
        support::must(&mut git, DEADLINE)?;
    }
    Ok(())
}
