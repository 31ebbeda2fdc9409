//! One repetition of a recorded check: drift noted, the command run, the levels compared, the difference shown.
//!
//! Must not know where the receipt comes from.

use std::{ffi::OsString, os::unix::ffi::OsStrExt as _, path::Path, time::Duration};

use loopexec_core::{digest::Digest, event::ToolPin};
use loopexec_os::{
    guardian::{Ended, Exit as Ending, Interruption},
    signals::Signals,
};

use super::{
    Answer, Drift, Level, Replay,
    compare::{Exit, conclude},
    difference,
    execute::{Execution, Output, Seen, execute},
    place::Place,
    subject::Subject,
};
use crate::{
    failure::Failure,
    fingerprint::{Settings, stable_text},
    redact::Redactor,
    run::{digest, fingerprint_settings, resolve_tools},
};

/// What a repetition needs.
pub(super) struct Repetition<'a> {
    pub(super) subject: &'a Subject,
    pub(super) place: &'a Place,
    pub(super) redactor: &'a Redactor,
    /// What the check sees.
    pub(super) environment: &'a [(OsString, OsString)],
    /// Digest of it.
    pub(super) environment_sha256: &'a str,
    pub(super) strict: bool,
    /// Deadline where the receipt names none.
    pub(super) timeout: Option<Duration>,
    pub(super) signals: &'a Signals,
    /// The end of the recorded output, where it was kept.
    pub(super) recorded_tail: Option<Vec<u8>>,
}

impl Repetition<'_> {
    /// Runs the check and fills in what was found.
    pub(super) fn run(&self, replay: &mut Replay) -> Result<(), Failure> {
        let subject = self.subject;
        replay.drift = self.drift();
        let settings = self.settings();
        let seen = execute(
            &Execution {
                command: &subject.command,
                directory: self.place.directory(),
                run_id: &subject.run_id,
                environment: self.environment,
                timeout: subject.timeout.or(self.timeout),
                idle: subject.idle,
                grace: subject.grace,
                settings: settings.clone(),
            },
            self.redactor,
            self.signals,
        )?;
        let now = exit(&seen.ended);
        replay.check_exit = now.code;
        replay.levels = subject.compared(|level| digest_of(&seen.output, level));
        if let Some((cause, why)) = no_verdict(&seen.ended) {
            replay.answer = Answer::NotComparable;
            replay.cause = Some(cause);
            replay.why = why;
            return Ok(());
        }
        // A receipt of contract 2.0 has no other level than the bytes.
        let strict = self.strict || subject.normaliser.is_none();
        let conclusion = conclude(subject.exit, now, &replay.levels, strict, &replay.drift);
        replay.answer = conclusion.answer;
        replay.level = conclusion.level;
        replay.cause = conclusion.cause;
        replay.weaker = conclusion.level == Some(Level::UnorderedOutput);
        self.explain(replay, now, &seen, settings.as_ref());
        Ok(())
    }

    fn settings(&self) -> Option<Settings> {
        let normaliser = self.subject.normaliser?;
        let mut settings = fingerprint_settings(self.place.directory(), self.environment);
        settings.normaliser = normaliser;
        // A check may name the place where it was recorded, whatever place it runs in.
        let recorded = Path::new(&self.subject.workdir).as_os_str().as_bytes();
        settings.workspaces.push(recorded.to_vec());
        Some(settings)
    }

    fn drift(&self) -> Vec<Drift> {
        let subject = self.subject;
        let tools = resolve_tools(&subject.command, self.place.directory(), self.environment);
        let mut drift = tool_drift(&subject.tools, &tools);
        let now = digest(self.environment_sha256);
        if let Some(recorded) = subject.environment.filter(|recorded| *recorded != now) {
            drift.push(Drift {
                name: "environment".to_owned(),
                recorded: recorded.to_string(),
                now: now.to_string(),
                decides: false,
            });
        }
        drift
    }

    /// Why, in words, and what differs.
    fn explain(&self, replay: &mut Replay, now: Exit, seen: &Seen, settings: Option<&Settings>) {
        let level = replay.level.map_or("", Level::name);
        replay.why = match replay.answer {
            Answer::Verified if replay.weaker => format!(
                "the check gave the same verdict again: {}, and the same lines in another order ({level}, weaker than stable_output)",
                words(now)
            ),
            Answer::Verified => format!(
                "the check gave the same verdict again: {}, equal at the level {level}",
                words(now)
            ),
            Answer::Refuted if self.subject.exit != now => format!(
                "the check ended with {}, the receipt says {}",
                words(now),
                words(self.subject.exit)
            ),
            Answer::Refuted => format!(
                "the check ended with {} as recorded, but its output differs{}",
                words(now),
                if replay.levels.iter().any(|compared| compared.equal) {
                    " byte for byte; without --strict it is verified"
                } else {
                    ""
                }
            ),
            Answer::NotComparable => format!(
                "the verdict differs and so do the tools: {}",
                changed_tools(&replay.drift)
            ),
        };
        if replay.answer == Answer::Verified {
            return;
        }
        match (&self.recorded_tail, settings) {
            (Some(recorded), Some(settings)) => {
                let stable = |text: &[u8]| stable_text(text, settings).unwrap_or_default();
                replay.difference =
                    difference::between(&stable(&body(recorded)), &stable(&body(&seen.tail)));
            }
            (None, _) | (_, None) => replay
                .why
                .push_str("; the recorded output was not kept, so what differs cannot be shown"),
        }
    }
}

/// A kept tail without the lines that say how much was cut: those hold sizes.
fn body(tail: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(tail.len());
    for line in tail.split_inclusive(|byte| *byte == b'\n') {
        if !line.starts_with(b"--- stdout: the last ")
            && !line.starts_with(b"--- stderr: the last ")
        {
            body.extend_from_slice(line);
        }
    }
    body
}

/// Why there is no verdict now.
fn no_verdict(ended: &Ended) -> Option<(&'static str, String)> {
    match (ended.interruption, &ended.exit) {
        (Some(Interruption::Deadline), _) => Some((
            "command_timeout",
            format!(
                "the check was ended at its deadline after {} ms",
                ended.duration_ms
            ),
        )),
        (Some(Interruption::Idle), _) => Some((
            "idle_timeout",
            "the check was ended because it neither printed nor worked".to_owned(),
        )),
        (_, Ending::NotStarted { reason, .. }) => Some((
            "check_not_runnable",
            format!("the check could not be started: {reason}"),
        )),
        (_, Ending::Unknown) => Some((
            "check_not_runnable",
            "how the check ended could not be seen: its supervisor was lost".to_owned(),
        )),
        (Some(Interruption::Cancelled(_)) | None, Ending::Code(_) | Ending::Signal(_)) => None,
    }
}

fn exit(ended: &Ended) -> Exit {
    match ended.exit {
        Ending::Code(code) => Exit {
            code: Some(code),
            signal: None,
        },
        Ending::Signal(signal) => Exit {
            code: None,
            signal: Some(signal),
        },
        Ending::NotStarted { .. } | Ending::Unknown => Exit::default(),
    }
}

fn words(exit: Exit) -> String {
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit code".to_owned(),
    }
}

fn digest_of(output: &Output, level: Level) -> Option<String> {
    match (output, level) {
        (Output::Streams(digests), Level::StableOutput) => {
            Some(digests.stable_output_sha256.clone())
        }
        (Output::Streams(digests), Level::UnorderedOutput) => {
            Some(digests.unordered_output_sha256.clone())
        }
        (Output::Streams(digests), Level::Output) => Some(digests.output_sha256.clone()),
        (Output::Combined(digest), Level::Output) => Some(digest.clone()),
        (Output::Streams(_), Level::Verdict)
        | (Output::Combined(_), Level::Verdict | Level::StableOutput | Level::UnorderedOutput) => {
            None
        }
    }
}

/// Programs that are another file now. Where only the path differs, the program is the same.
fn tool_drift(recorded: &[ToolPin], now: &[ToolPin]) -> Vec<Drift> {
    recorded
        .iter()
        .filter_map(|before| {
            let after = now.iter().find(|tool| tool.name == before.name)?;
            let same = match (before.sha256, after.sha256) {
                (Some(before), Some(after)) => before == after,
                (None, None) => before.path.is_some() == after.path.is_some(),
                (Some(_), None) | (None, Some(_)) => false,
            };
            (!same).then(|| Drift {
                name: before.name.clone(),
                recorded: tool(before),
                now: tool(after),
                decides: true,
            })
        })
        .collect()
}

fn tool(pin: &ToolPin) -> String {
    match (&pin.path, pin.sha256) {
        (Some(path), Some(sha256)) => format!("{path} {}", short(sha256)),
        (Some(path), None) => path.clone(),
        (None, _) => "not found".to_owned(),
    }
}

fn short(digest: Digest) -> String {
    digest.to_string().chars().take(12).collect()
}

fn changed_tools(drift: &[Drift]) -> String {
    let changed: Vec<String> = drift
        .iter()
        .filter(|drift| drift.decides)
        .map(|drift| format!("{}: {} → {}", drift.name, drift.recorded, drift.now))
        .collect();
    changed.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(path: Option<&str>, content: Option<&[u8]>) -> ToolPin {
        ToolPin {
            name: "tool".to_owned(),
            path: path.map(str::to_owned),
            sha256: content.map(Digest::of),
        }
    }

    #[test]
    fn a_tool_is_another_one_when_its_bytes_are() {
        let drifts = |before: ToolPin, after: ToolPin| !tool_drift(&[before], &[after]).is_empty();
        let at = |path, content: &[u8]| pin(Some(path), Some(content));
        assert!(!drifts(at("/a", b"x"), at("/a", b"x")));
        assert!(!drifts(at("/a", b"x"), at("/b", b"x")));
        assert!(drifts(at("/a", b"x"), at("/a", b"y")));
        assert!(drifts(at("/a", b"x"), pin(None, None)));
        assert!(!drifts(pin(None, None), pin(None, None)));
        assert!(drifts(pin(None, None), at("/a", b"x")));
        assert!(drifts(pin(Some("/huge"), None), pin(None, None)));
    }

    #[test]
    fn the_lines_that_say_how_much_was_cut_are_no_part_of_a_difference() {
        let tail =
            b"--- stdout: the last 2 of 2 bytes\na\n\n--- stderr: the last 1 of 9 bytes\nb\n";
        assert_eq!(body(tail), b"a\n\nb\n");
    }
}
