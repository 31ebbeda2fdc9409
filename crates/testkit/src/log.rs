//! A shell without processes: it follows the core's decisions and records what a scenario says happened.
//!
//! Every log that it makes is one that the program could have written, byte for byte and without a clock.

use std::collections::BTreeSet;

use loopexec_core::{
    CONTRACT, RULES_REVISION,
    decide::{Step, decide},
    digest::{Digest, set_digest},
    event::{
        Check, CommandEnd, CommandMark, CommandPhase, CommandStart, Event, Exec, GuardStage,
        Guards, Halt, Header, IdSet, Identity, IterationStart, Pins, Progress, Raise, Record,
        Resume, RunStart, VerdictBasis, WorkspaceContent, encode,
    },
    guard,
    halt::FailureCause,
    judge,
    policy::{Commands, Mode, Policy, RunKind},
    state::RunState,
    units::RunMillis,
};

/// Wall clock of the first record: 2026-01-01T00:00:00Z.
const OPENED_TS_MS: i64 = 1_767_225_600_000;

/// How one command ends.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Exit code; `None` with a cause or a signal.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Why the governor ended it.
    pub cause: Option<FailureCause>,
    /// Run time it took.
    pub takes_ms: u64,
}

impl Ending {
    /// Ends by itself with this code after ten milliseconds.
    #[must_use]
    pub fn code(code: i32) -> Self {
        Self {
            exit_code: Some(code),
            signal: None,
            cause: None,
            takes_ms: 10,
        }
    }

    /// Is ended by the governor.
    #[must_use]
    pub fn cause(cause: FailureCause) -> Self {
        Self {
            exit_code: None,
            signal: Some(15),
            cause: Some(cause),
            takes_ms: 10,
        }
    }

    /// Is ended by a signal of somebody else.
    #[must_use]
    pub fn signal(signal: i32) -> Self {
        Self {
            exit_code: None,
            signal: Some(signal),
            cause: None,
            takes_ms: 10,
        }
    }
}

/// What one iteration observes (iteration 0: the baseline).
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The work command.
    pub exec: Ending,
    /// The check.
    pub check: Ending,
    /// The failing set; `None` makes its collector fail.
    pub failing: Option<Vec<String>>,
    /// The test-determining set before the check; `None` makes its collector fail.
    pub before: Option<Vec<String>>,
    /// The same after the check.
    pub after: Option<Vec<String>>,
}

impl Attempt {
    /// Work that succeeds, a check that ends with this code, and these failures.
    #[must_use]
    pub fn new(check: i32, failing: &[&str]) -> Self {
        let ids = |ids: &[&str]| Some(ids.iter().map(|id| (*id).to_owned()).collect());
        Self {
            exec: Ending::code(0),
            check: Ending::code(check),
            failing: ids(failing),
            before: ids(&["t1", "t2"]),
            after: ids(&["t1", "t2"]),
        }
    }
}

/// A log under construction.
#[derive(Debug)]
pub struct LogBuilder {
    lines: Vec<Vec<u8>>,
    state: Option<RunState>,
    run_id: String,
    elapsed_ms: u64,
    process_ms: u64,
    integrity: Option<Option<Vec<String>>>,
}

impl LogBuilder {
    /// Opens a run.
    ///
    /// # Panics
    ///
    /// When the policy is not valid.
    #[must_use]
    pub fn open(policy: Policy, commands: Commands) -> Self {
        Self::open_with_debt(policy, commands, 0)
    }

    /// Opens a run in a workspace where this many iterations are unacknowledged.
    ///
    /// # Panics
    ///
    /// When the policy is not valid.
    #[must_use]
    pub fn open_with_debt(policy: Policy, commands: Commands, debt: u32) -> Self {
        let mut builder = Self {
            lines: Vec::new(),
            state: None,
            run_id: "golden".to_owned(),
            elapsed_ms: 0,
            process_ms: 0,
            integrity: None,
        };
        builder.record(Event::RunStart(run_start(policy, commands, debt)));
        builder
    }

    /// The state after the records so far.
    ///
    /// # Panics
    ///
    /// Never: a builder always holds an opened run.
    #[must_use]
    pub fn state(&self) -> &RunState {
        self.state.as_ref().expect("opened")
    }

    /// The lines so far, each with its newline.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in &self.lines {
            bytes.extend_from_slice(line);
            bytes.push(b'\n');
        }
        bytes
    }

    /// Lets run time pass.
    pub fn wait(&mut self, ms: u64) {
        self.elapsed_ms += ms;
        self.process_ms += ms;
    }

    /// Records an event as the program would.
    ///
    /// # Panics
    ///
    /// When the event cannot follow: a scenario that the rules do not allow.
    pub fn record(&mut self, event: Event) {
        self.try_record(event)
            .expect("the scenario follows the rules");
    }

    /// Records an event, or says why it cannot follow.
    ///
    /// # Errors
    ///
    /// As [`RunState::apply`].
    ///
    /// # Panics
    ///
    /// When a type of the core cannot be written as JSON.
    pub fn try_record(&mut self, event: Event) -> Result<(), loopexec_core::state::IllegalRecord> {
        let started = matches!(event, Event::IterStart(_));
        let (seq, prev, iteration) = match &self.state {
            None => (0, Digest::genesis(&self.run_id), 0),
            Some(state) => (
                state.records,
                state.head,
                state.iteration + u32::from(started),
            ),
        };
        let ts_ms = OPENED_TS_MS + i64::try_from(self.elapsed_ms).expect("small");
        let header = Header {
            ts: ts_ms.div_euclid(1000),
            ts_ms,
            t_ms: RunMillis(self.process_ms),
            run_id: self.run_id.clone(),
            iteration,
            event: event.name(),
            seq,
            prev,
            sync: matches!(event, Event::RunStart(_) | Event::Halt(_)),
        };
        let record = Record { header, event };
        let line = encode(&record).expect("writable");
        let digest = Digest::of(&line);
        match &mut self.state {
            None => self.state = Some(RunState::open(&record, digest)?),
            Some(state) => state.apply(&record, digest)?,
        }
        self.lines.push(line);
        Ok(())
    }

    /// Another process goes on after `gap_ms` of wall time.
    pub fn resume(&mut self, gap_ms: i64) {
        self.elapsed_ms += u64::try_from(gap_ms).unwrap_or(0);
        self.process_ms = 0;
        let (from_seq, interrupted) = (self.state().records - 1, self.state().running);
        let debt = self.state().comprehension_debt();
        self.record(Event::Resume(Resume {
            from_seq,
            gap_ms,
            identity: identity(),
            interrupted,
            torn: None,
            from_anchor: 0,
            comprehension_debt: debt,
        }));
    }

    /// A person raises the cap.
    pub fn raise(&mut self, cap: u32) {
        self.record(Event::Raise(Raise {
            max_iterations: Some(cap),
            timeout_ms: None,
            reviewer: "reviewer".to_owned(),
        }));
    }

    /// A signal arrives between two commands.
    pub fn cancel(&mut self) {
        self.record(Event::CommandCancelled(CommandMark {
            phase: None,
            cause: FailureCause::Cancelled,
            signal: Some(15),
        }));
    }

    /// Follows the decisions, with `attempts[i]` for iteration i + 1, until the run ends or the attempts do.
    pub fn drive(&mut self, baseline: &Attempt, attempts: &[Attempt]) {
        loop {
            let index = usize::try_from(self.state().iteration).expect("small");
            let attempt = match index.checked_sub(1) {
                None => baseline,
                Some(index) => &attempts[index],
            };
            let step = decide(self.state());
            let out_of_attempts = step == Step::Start && index >= attempts.len();
            if step == Step::Ended || out_of_attempts {
                return;
            }
            self.step(step, attempt);
        }
    }

    /// Does one step as the scenario says.
    ///
    /// # Panics
    ///
    /// When the run has ended.
    pub fn step(&mut self, step: Step, attempt: &Attempt) {
        match step {
            Step::Run(phase) => self.command(phase, attempt),
            Step::Guard(stage) => self.guard(stage),
            Step::Progress => self.progress(attempt.failing.as_deref().unwrap_or_default()),
            Step::Continue(verdict) | Step::Halt(verdict) => self.record(Event::Verdict(verdict)),
            Step::Start => self.record(Event::IterStart(IterationStart {})),
            Step::Finish => self.halt(),
            Step::Ended => panic!("the run has ended"),
        }
    }

    fn command(&mut self, phase: CommandPhase, attempt: &Attempt) {
        let collected = |ids: &Option<Vec<String>>| Ending::code(i32::from(ids.is_none()));
        let set = match self.state().attempt.check {
            None => &attempt.before,
            Some(_) => &attempt.after,
        };
        let ending = match phase {
            CommandPhase::Exec => attempt.exec.clone(),
            CommandPhase::Check => attempt.check.clone(),
            CommandPhase::Failures => collected(&attempt.failing),
            CommandPhase::Integrity => {
                self.integrity = Some(set.clone());
                collected(set)
            }
        };
        self.record(Event::CommandStart(CommandStart { phase }));
        self.wait(ending.takes_ms);
        let end = command_end(phase, &ending);
        self.record(Event::CommandEnd(end.clone()));
        match ending.cause {
            Some(cause @ FailureCause::Cancelled) => {
                self.record(Event::CommandCancelled(CommandMark {
                    phase: Some(phase),
                    cause,
                    signal: Some(2),
                }))
            }
            Some(
                cause @ (FailureCause::CommandTimeout
                | FailureCause::IdleTimeout
                | FailureCause::DeadlineExceeded),
            ) => {
                self.record(Event::CommandTimeout(CommandMark {
                    phase: Some(phase),
                    cause,
                    signal: None,
                }));
            }
            Some(_) | None => {}
        }
        match phase {
            CommandPhase::Exec => self.record(Event::Exec(Exec {
                exit_code: end.exit_code,
                stdout_sha256: Digest::of(b""),
                stderr_sha256: Digest::of(b""),
            })),
            CommandPhase::Check => self.check(&end),
            CommandPhase::Failures | CommandPhase::Integrity => {}
        }
    }

    fn check(&mut self, end: &CommandEnd) {
        let (outcome, cause) = judge::check(end, self.state().policy.success_exit_code);
        let check = Check {
            exit_code: end.exit_code,
            signal: end.signal,
            verdict_basis: VerdictBasis::ExitCode,
            outcome,
            cause,
            run: 0,
            output_sha256: Digest::of(b"\0"),
            stable_output_sha256: Digest::of(b"\0"),
            unordered_output_sha256: Digest::of(b"\0"),
            verdict_sha256: None,
            normaliser: 1,
            candidate_sha256: None,
            artefacts: Vec::new(),
            changed_by_check: Vec::new(),
            tests: None,
            delta: None,
        };
        self.record(if self.state().iteration == 0 {
            Event::Baseline(check)
        } else {
            Event::Check(check)
        });
    }

    fn guard(&mut self, stage: GuardStage) {
        let ids = self.integrity.take().flatten();
        let t0 = self.state().integrity_t0.clone();
        let event = match (t0, ids) {
            (None, Some(mut ids)) => {
                ids.sort();
                Event::IntegrityBaseline(IdSet {
                    set_sha256: set_digest(&ids),
                    ids,
                })
            }
            (Some(t0), Some(ids)) => Event::Guards(Guards {
                stage,
                results: vec![guard::integrity(&t0, &ids.into_iter().collect())],
            }),
            (t0, None) => Event::Guards(Guards {
                stage,
                results: vec![guard::integrity_unknown(
                    t0.as_ref(),
                    "the collector failed",
                )],
            }),
        };
        self.record(event);
    }

    fn progress(&mut self, ids: &[String]) {
        let now: BTreeSet<String> = ids.iter().cloned().collect();
        let last = self.state().failing.clone().unwrap_or_default();
        self.record(Event::Progress(Progress {
            exit_code: u32::try_from(now.len()).expect("small"),
            detail: set_digest(&now),
            added: now.difference(&last).cloned().collect(),
            removed: last.difference(&now).cloned().collect(),
        }));
    }

    fn halt(&mut self) {
        let verdict = self.state().verdict.clone().expect("decided");
        let halt_reason = verdict.halt_reason.expect("a halting verdict has a reason");
        self.record(Event::Halt(Halt {
            halt_reason,
            exit: halt_reason.class().code(),
            failure_cause: verdict.failure_cause,
            detail: halt_reason,
            content: WorkspaceContent::LastAttempt,
            workspace_sha256: None,
        }));
    }
}

/// How a command's end is recorded.
#[must_use]
pub fn command_end(phase: CommandPhase, ending: &Ending) -> CommandEnd {
    CommandEnd {
        phase,
        exit_code: ending.exit_code,
        signal: ending.signal,
        cause: ending.cause,
        duration_ms: ending.takes_ms,
        cpu_ms: 0,
        max_rss_kib: 0,
        stdout_bytes: 0,
        stderr_bytes: 0,
        output_truncated: false,
        left_processes: None,
        guardian_lost: false,
        unkillable: 0,
        refused: None,
    }
}

fn identity() -> Identity {
    Identity {
        version: "0.0.0".to_owned(),
        contract: CONTRACT.to_owned(),
        rules_revision: RULES_REVISION,
        commit: "unknown".to_owned(),
        dirty: false,
        target: "test".to_owned(),
        rustc: "test".to_owned(),
    }
}

fn run_start(policy: Policy, commands: Commands, comprehension_debt: u32) -> RunStart {
    let (mode, kind) = (Mode::CheckFixpoint, RunKind::Legacy);
    RunStart {
        identity: identity(),
        contract: CONTRACT.to_owned(),
        rules_revision: RULES_REVISION,
        mode,
        kind,
        policy_hash: policy.hash(mode, kind, &commands),
        unbounded: policy.unbounded(),
        policy,
        commands,
        workdir: "/workspace".to_owned(),
        pins: Pins::default(),
        cost_declared_microusd: None,
        environment_sha256: Digest::of(b""),
        tools: Vec::new(),
        git: None,
        context_manifest: Vec::new(),
        comprehension_debt,
        containment: "subreaper".to_owned(),
        anchor: false,
        previous_head: None,
    }
}
