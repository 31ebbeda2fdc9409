//! Signals, a governor that is killed, two governors at once: nothing runs on, nothing is forgotten.

use std::{
    io::{BufRead, BufReader},
    process::Child,
};

use loopexec_testkit::env::{TestEnv, until, until_file};

use crate::env;

fn kill(signal: &str, pid: u32, env: &TestEnv) {
    env.shell(&format!("kill -{signal} {pid}"));
}

fn gone(pid: &str) -> bool {
    let state = fs_err::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    state.is_empty()
        || state
            .rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

/// A run whose work command has started something that escapes its session, and says so.
fn running(env: &TestEnv, more: &[&str]) -> Child {
    let exec = "setsid sh -c 'echo $$ >escaped; exec sleep 300' & echo $$ >worker; sleep 300";
    let mut arguments = vec![
        "--json",
        "run",
        "--exec",
        exec,
        "--check",
        "false",
        "--max-iterations",
        "3",
    ];
    arguments.extend(more);
    let child = env.start(&arguments);
    until_file(&env.path("escaped"));
    until_file(&env.path("worker"));
    child
}

#[test]
fn each_signal_ends_everything_and_yields_the_one_object() {
    for signal in ["INT", "TERM", "HUP", "QUIT"] {
        let env = env();
        let child = running(&env, &[]);
        kill(signal, child.id(), &env);
        let ran = TestEnv::finish(child);
        let value = ran.json();
        assert_eq!(
            (ran.code, value["failure_cause"].as_str()),
            (40, Some("cancelled")),
            "{signal}: {value}"
        );
        for name in ["worker", "escaped"] {
            assert!(gone(&env.read(name)), "{signal}: {name} still lives");
        }
        let last = env.events("local").pop().unwrap();
        assert_eq!(last["event"], "halt");
        assert_eq!(env.run(&["verify"]).code, 0, "{signal}");
    }
}

#[test]
fn an_interrupt_says_what_it_waits_for_and_a_second_one_does_not_wait() {
    let env = env();
    let exec = "trap : TERM; echo $$ >worker; while :; do sleep 0.05; done";
    let mut child = env.start(&[
        "run",
        "--exec",
        exec,
        "--check",
        "false",
        "--terminate-grace",
        "10m",
    ]);
    until_file(&env.path("worker"));
    kill("INT", child.id(), &env);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let said = lines.find(|line| line.as_ref().unwrap().contains("SIGINT"));
    assert_eq!(
        said.unwrap().unwrap(),
        "note: SIGINT: the command was asked to end and is killed after 600 s; a second interrupt kills it at once"
    );
    kill("INT", child.id(), &env);
    let ran = TestEnv::finish(child);
    assert_eq!(ran.code, 40, "{}", ran.stdout);
    assert!(gone(&env.read("worker")));
}

#[test]
fn a_killed_governor_leaves_nothing_running_and_is_seen_as_interrupted() {
    let env = env();
    let mut child = running(&env, &[]);
    kill("KILL", child.id(), &env);
    child.wait().unwrap();
    for name in ["worker", "escaped"] {
        let pid = env.read(name);
        until(name, || gone(&pid));
    }
    let hygiene = env.run(&["--json", "check"]);
    assert_eq!(
        hygiene.code, 20,
        "an interrupted run is not clean: {}",
        hygiene.stdout
    );
    for asked in ["status", "explain-halt"] {
        let said = env.run(&[asked]);
        assert!(
            said.stdout.contains("live: no governor works on it"),
            "{asked}: {}",
            said.stdout
        );
        assert_eq!(
            said.line("next"),
            Some("loopexec run --resume --run-id local"),
            "{asked}"
        );
    }
}

#[test]
fn a_resume_counts_the_interrupted_attempt() {
    let env = env();
    let exec = "echo x >>n; test -e go || { echo $$ >worker; sleep 300; }";
    let mut child = env.start(&[
        "run",
        "--exec",
        exec,
        "--check",
        "false",
        "--max-iterations",
        "3",
    ]);
    until_file(&env.path("worker"));
    kill("KILL", child.id(), &env);
    child.wait().unwrap();
    env.write("go", "");
    let resumed = env.run(&["--json", "run", "--resume"]);
    let value = resumed.json();
    assert_eq!(
        (resumed.code, value["iteration"].as_u64()),
        (12, Some(3)),
        "{value}"
    );
    assert_eq!(
        env.read("n").lines().count(),
        3,
        "three attempts for a cap of three"
    );
    let events = env.events("local");
    let resume = events
        .iter()
        .find(|event| event["event"] == "resume")
        .unwrap();
    assert_eq!(resume["interrupted"], "exec");
    assert_eq!(env.run(&["verify"]).code, 0);
}

#[test]
fn a_second_governor_is_refused_with_the_name_of_the_first() {
    let env = env();
    let child = running(&env, &["--run-id", "first"]);
    let second = env.run(&[
        "--json",
        "run",
        "--exec",
        "touch second",
        "--check",
        "true",
        "--run-id",
        "other",
    ]);
    let value = second.json();
    assert_eq!(
        (second.code, value["failure_cause"].as_str()),
        (30, Some("workspace_locked")),
        "{value}"
    );
    let message = value["errors"][0].as_str().unwrap();
    assert!(
        message.contains(&child.id().to_string()) && message.contains("first"),
        "{message}"
    );
    assert!(!env.path("second").exists());
    let live = env.run(&["--json", "status", "--run-id", "first"]).json();
    assert_eq!(live["live"]["running"], true);
    kill("TERM", child.id(), &env);
    assert_eq!(TestEnv::finish(child).code, 40);
    assert_eq!(
        env.run(&["run", "--check", "true", "--run-id", "other"])
            .code,
        10,
        "the lock is free again"
    );
}

#[test]
fn the_lock_holds_when_the_work_command_removes_the_store() {
    let env = env();
    let exec = "rm -rf .loopexec; echo gone >flag; sleep 300";
    let child = env.start(&["run", "--exec", exec, "--check", "false"]);
    until_file(&env.path("flag"));
    let second = env.run(&["--json", "run", "--check", "true"]);
    assert_eq!(
        (second.code, second.json()["failure_cause"].as_str()),
        (30, Some("workspace_locked"))
    );
    kill("TERM", child.id(), &env);
    assert_eq!(TestEnv::finish(child).code, 40);
}

#[test]
fn what_a_command_leaves_behind_is_ended_and_noted() {
    let env = env();
    let exec = "sleep 300 & (setsid sleep 301 &) ; (setsid sh -c 'sleep 302 & sleep 303' >/dev/null 2>&1 &); echo $! >bg";
    let ran = env.run(&["run", "--exec", exec, "--check", "true"]);
    assert_eq!(ran.code, 10, "{}", ran.stdout);
    assert!(gone(&env.read("bg")));
    let events = env.events("local");
    let end = events
        .iter()
        .find(|event| event["event"] == "command_end")
        .unwrap();
    assert!(
        end["left_processes"]["count"].as_u64().unwrap() >= 2,
        "{end}"
    );
}
