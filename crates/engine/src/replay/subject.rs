//! What a receipt says of its last check: the part that a replay repeats and compares.
//!
//! Must not read the workspace or run anything.

use std::time::Duration;

use loopexec_core::{
    digest::Digest,
    event::{Check, Outcome, Snapshot, ToolPin},
    state::RunState,
    units::RunMillis,
};

use super::compare::{Compared, Exit, Level};
use crate::{failure::Failure, recorded::Recorded, snapshot::StateView, verify::green};

/// A recorded check.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) run_id: String,
    pub(super) iteration: u32,
    pub(super) command: String,
    pub(super) exit: Exit,
    /// Recorded digests, the strongest level first.
    pub(super) digests: Vec<(Level, String)>,
    /// `None` for a receipt of contract 2.0.
    pub(super) normaliser: Option<u32>,
    pub(super) tools: Vec<ToolPin>,
    pub(super) environment: Option<Digest>,
    /// Content that the verdict was given on.
    pub(super) candidate: Option<Digest>,
    /// Content that a green left at the end: another one where a collector wrote after the check.
    pub(super) accepted: Option<Digest>,
    /// Where that content is kept, when it is.
    pub(super) kept: Option<Snapshot>,
    pub(super) workdir: String,
    pub(super) timeout: Option<Duration>,
    pub(super) idle: Option<Duration>,
    pub(super) grace: Duration,
}

/// From `SIGTERM` to `SIGKILL` where the receipt does not say (contract 2.0).
const GRACE: Duration = Duration::from_millis(250);

impl Subject {
    /// The last check of a recorded run.
    pub(super) fn of(recorded: &Recorded) -> Result<Self, Failure> {
        match recorded.state() {
            Some(state) => Self::of_state(state),
            None => Self::of_view(&recorded.view),
        }
    }

    /// The last check of a fold.
    pub(super) fn of_state(state: &RunState) -> Result<Self, Failure> {
        let Some(check) = &state.last_check else {
            return Err(no_verdict(&state.run_id, "no check was recorded"));
        };
        if check.outcome == Outcome::CannotJudge {
            let why = check
                .cause
                .map_or("its check could not be judged", |cause| cause.meaning());
            return Err(no_verdict(&state.run_id, why));
        }
        let millis = |limit: RunMillis| Duration::from_millis(limit.0);
        let policy = &state.run.policy;
        let deadlines = [policy.command_timeout_ms, policy.timeout_ms];
        Ok(Self {
            run_id: state.run_id.clone(),
            iteration: state.iteration,
            command: state.run.commands.check.clone(),
            exit: Exit {
                code: check.exit_code,
                signal: check.signal,
            },
            digests: digests(check),
            normaliser: Some(check.normaliser),
            tools: state.run.tools.clone(),
            environment: Some(state.run.environment_sha256),
            candidate: check.candidate_sha256,
            accepted: accepted(state),
            kept: kept(state, check),
            workdir: state.run.workdir.clone(),
            timeout: deadlines.into_iter().flatten().min().map(millis),
            idle: policy.idle_timeout_ms.map(millis),
            grace: millis(policy.terminate_grace_ms),
        })
    }

    /// The check of a receipt of contract 2.0: exit code and one digest.
    fn of_view(view: &StateView) -> Result<Self, Failure> {
        let Some(fingerprint) = view
            .fingerprint
            .as_ref()
            .filter(|fingerprint| !fingerprint.output_sha256.is_empty())
        else {
            return Err(no_verdict(
                &view.run_id,
                "its state holds no fingerprint of a check",
            ));
        };
        if view.check.is_empty() {
            return Err(no_verdict(&view.run_id, "its state names no check"));
        }
        Ok(Self {
            run_id: view.run_id.clone(),
            iteration: view.iteration,
            command: view.check.clone(),
            exit: Exit {
                code: Some(fingerprint.exit_code),
                signal: None,
            },
            digests: vec![(Level::Output, fingerprint.output_sha256.clone())],
            normaliser: None,
            tools: Vec::new(),
            environment: None,
            candidate: None,
            accepted: None,
            kept: None,
            workdir: view.workdir.clone(),
            timeout: None,
            idle: None,
            grace: GRACE,
        })
    }

    /// Whether a content is one that the verdict stands for.
    pub(super) fn stands_for(&self, manifest_sha256: &str) -> bool {
        let digest = Digest::from_hex(manifest_sha256);
        digest.is_some() && [self.candidate, self.accepted].contains(&digest)
    }

    /// The recorded digests beside those of now.
    pub(super) fn compared(&self, now: impl Fn(Level) -> Option<String>) -> Vec<Compared> {
        self.digests
            .iter()
            .map(|(level, recorded)| {
                let now = now(*level);
                Compared {
                    level: *level,
                    recorded: recorded.clone(),
                    equal: now.as_deref() == Some(recorded.as_str()),
                    now,
                }
            })
            .collect()
    }
}

fn digests(check: &Check) -> Vec<(Level, String)> {
    let verdict = check
        .verdict_sha256
        .map(|digest| (Level::Verdict, digest.to_string()));
    verdict
        .into_iter()
        .chain([
            (Level::StableOutput, check.stable_output_sha256.to_string()),
            (
                Level::UnorderedOutput,
                check.unordered_output_sha256.to_string(),
            ),
            (Level::Output, check.output_sha256.to_string()),
        ])
        .collect()
}

/// The snapshot that holds what the check judged.
fn kept(state: &RunState, check: &Check) -> Option<Snapshot> {
    let judged = check.candidate_sha256?;
    let holds = |snapshot: &&Snapshot| {
        snapshot.manifest_sha256 == judged || Some(snapshot.manifest_sha256) == accepted(state)
    };
    let snapshots = [&state.end, &state.t0];
    snapshots.into_iter().flatten().find(holds).cloned()
}

/// The content that a green left at its end.
fn accepted(state: &RunState) -> Option<Digest> {
    let halt = state.halt.as_ref().filter(|_| green(state))?;
    halt.workspace_sha256
}

fn no_verdict(run_id: &str, why: &str) -> Failure {
    Failure::unverified(
        "no_verdict",
        format!("there is no verdict of the run {run_id:?} to compare with: {why}"),
    )
    .hint("`loopexec explain-halt` says how the run ended")
}

#[cfg(test)]
mod tests {
    use loopexec_core::{
        halt::FailureCause,
        policy::{Commands, Policy},
    };
    use loopexec_testkit::log::{Attempt, Ending, LogBuilder};

    use super::*;
    use crate::snapshot::FingerprintView;

    fn run(policy: Policy, attempts: &[Attempt]) -> LogBuilder {
        let commands = Commands {
            check: "make test".to_owned(),
            ..Commands::default()
        };
        let mut log = LogBuilder::open(policy, commands);
        log.drive(&Attempt::new(1, &[]), attempts);
        log
    }

    fn capped(cap: u32) -> Policy {
        Policy {
            max_iterations: cap,
            ..Policy::default()
        }
    }

    #[test]
    fn the_last_verdict_is_what_is_repeated_red_or_green() {
        let red = run(capped(2), &[Attempt::new(1, &[]), Attempt::new(3, &[])]);
        let subject = Subject::of_state(red.state()).unwrap();
        assert_eq!(subject.exit.code, Some(3));
        assert_eq!(subject.iteration, 2);
        assert_eq!(subject.accepted, None, "a red end accepts nothing");
        let green = run(capped(2), &[Attempt::new(1, &[]), Attempt::new(0, &[])]);
        let subject = Subject::of_state(green.state()).unwrap();
        assert_eq!(subject.exit.code, Some(0));
        assert_eq!(subject.command, "make test");
        let levels: Vec<Level> = subject.digests.iter().map(|(level, _)| *level).collect();
        let wanted = [Level::StableOutput, Level::UnorderedOutput, Level::Output];
        assert_eq!(levels, wanted);
    }

    #[test]
    fn a_check_that_could_not_be_judged_leaves_nothing_to_repeat() {
        let attempt = Attempt {
            check: Ending::cause(FailureCause::CommandTimeout),
            ..Attempt::new(0, &[])
        };
        let log = run(capped(2), &[attempt]);
        let failure = Subject::of_state(log.state()).unwrap_err();
        assert_eq!(failure.cause, Some("no_verdict"));
        let opened = LogBuilder::open(Policy::default(), Commands::default());
        assert!(Subject::of_state(opened.state()).is_err());
    }

    #[test]
    fn the_tighter_of_two_recorded_deadlines_is_the_deadline() {
        let deadline = |command, total| {
            let policy = Policy {
                command_timeout_ms: command,
                timeout_ms: total,
                ..capped(1)
            };
            let log = run(policy, &[Attempt::new(1, &[])]);
            Subject::of_state(log.state()).unwrap().timeout
        };
        let (short, long) = (Some(RunMillis(60_000)), Some(RunMillis(90_000)));
        let wanted = Some(Duration::from_secs(60));
        assert_eq!(deadline(short, long), wanted);
        assert_eq!(deadline(long, short), wanted);
        assert_eq!(deadline(None, short), wanted);
        assert_eq!(deadline(None, None), None);
    }

    #[test]
    fn a_state_of_contract_2_is_repeated_by_its_one_digest() {
        let view = StateView {
            check: "true".to_owned(),
            fingerprint: Some(FingerprintView {
                exit_code: 0,
                output_sha256: "ab".to_owned(),
            }),
            ..StateView::default()
        };
        let subject = Subject::of_view(&view).unwrap();
        assert_eq!(subject.normaliser, None);
        assert_eq!(subject.digests, [(Level::Output, "ab".to_owned())]);
        let without = StateView {
            fingerprint: None,
            ..view.clone()
        };
        assert!(Subject::of_view(&without).is_err());
        let nameless = StateView {
            check: String::new(),
            ..view
        };
        assert!(Subject::of_view(&nameless).is_err());
    }
}
