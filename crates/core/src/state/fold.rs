//! The fold: one more record into the state, or a reason why it cannot follow.

use std::collections::BTreeSet;

use super::{Attempt, IllegalRecord, RunState, Stage};
use crate::{
    RULES_REVISION,
    decide::{Step, decide},
    digest::{Digest, set_digest},
    event::{
        Check, CommandEnd, CommandMark, CommandPhase, Event, EventName, Exec, GuardName,
        GuardStage, Guards, Halt, Header, IdSet, Outcome, Progress, Raise, Record, Resume,
        RunStart, Snapshot, SnapshotLabel, Verdict, VerdictDecision,
    },
    halt::FailureCause,
    judge,
    progress::Tracker,
    units::RunMillis,
};

/// What is wrong with a record, before its position is added.
enum Wrong {
    Place(&'static str),
    Fact(&'static str),
    Other(IllegalRecord),
}

type Folded = Result<(), Wrong>;

impl RunState {
    /// Starts the fold with the first record; `line` is the digest of its raw bytes.
    ///
    /// # Errors
    ///
    /// When the record does not open a run that this program can read.
    pub fn open(record: &Record, line: Digest) -> Result<Self, IllegalRecord> {
        let header = &record.header;
        let Event::RunStart(run) = &record.event else {
            return Err(IllegalRecord::NotOpened);
        };
        if header.seq != 0 || header.iteration != 0 {
            return Err(IllegalRecord::NotOpened);
        }
        if header.prev != Digest::genesis(&header.run_id) {
            return Err(IllegalRecord::BrokenChain { seq: 0 });
        }
        if run.rules_revision > RULES_REVISION {
            return Err(IllegalRecord::NewerRules {
                found: run.rules_revision,
                known: RULES_REVISION,
            });
        }
        run.policy.validate()?;
        if run.policy_hash != run.policy.hash(run.mode, run.kind, &run.commands) {
            return Err(IllegalRecord::PolicyHash);
        }
        Ok(Self::opened(header, run, line))
    }

    fn opened(header: &Header, run: &RunStart, line: Digest) -> Self {
        Self {
            run_id: header.run_id.clone(),
            identity: run.identity.clone(),
            policy: run.policy.clone(),
            stage: Stage::Opening,
            iteration: 0,
            now: header.t_ms,
            opened_ts_ms: header.ts_ms,
            last_ts_ms: header.ts_ms,
            attempt: Attempt::default(),
            running: None,
            cancelled: false,
            baseline: None,
            integrity_t0: None,
            failing: None,
            tracker: Tracker::default(),
            last_check: None,
            last_judged: None,
            t0: None,
            end: None,
            verdict: None,
            halt: None,
            left_processes: 0,
            resumes: 0,
            records: 1,
            head: line,
            last_sync: 0,
            base: RunMillis(0),
            debt_before: run.comprehension_debt,
            completed: 0,
            run: run.clone(),
        }
    }

    /// Folds one more record in; `line` is the digest of its raw bytes.
    ///
    /// # Errors
    ///
    /// When the record cannot follow; the state is then as it was.
    pub fn apply(&mut self, record: &Record, line: Digest) -> Result<(), IllegalRecord> {
        let header = &record.header;
        self.follows(header)?;
        let before = self.now;
        if !matches!(record.event, Event::Resume(_)) {
            let now = self.base.saturating_add(header.t_ms);
            if now < before {
                return Err(IllegalRecord::TimeWentBack { seq: header.seq });
            }
            self.now = now;
        }
        if let Err(wrong) = self.event(header, &record.event) {
            self.now = before;
            return Err(named(header, wrong));
        }
        self.records = self.records.saturating_add(1);
        self.last_ts_ms = header.ts_ms;
        self.head = line;
        if header.sync {
            self.last_sync = header.seq;
        }
        Ok(())
    }

    fn follows(&self, header: &Header) -> Result<(), IllegalRecord> {
        let seq = header.seq;
        if seq != self.records {
            return Err(IllegalRecord::OutOfSequence {
                expected: self.records,
                found: seq,
            });
        }
        if header.prev != self.head {
            return Err(IllegalRecord::BrokenChain { seq });
        }
        if header.run_id != self.run_id {
            return Err(IllegalRecord::WrongRun {
                seq,
                found: header.run_id.clone(),
            });
        }
        let opens = header.event == EventName::IterStart;
        let expected = self.iteration.saturating_add(u32::from(opens));
        if header.iteration != expected {
            return Err(IllegalRecord::WrongIteration {
                seq,
                expected,
                found: header.iteration,
            });
        }
        Ok(())
    }

    fn event(&mut self, header: &Header, event: &Event) -> Folded {
        match event {
            Event::RunStart(_) => Err(Wrong::Other(IllegalRecord::NotOpened)),
            Event::Resume(resume) => self.resume(header, resume),
            Event::Raise(raise) => self.raise(raise),
            Event::IntegrityBaseline(set) => self.integrity_baseline(set),
            Event::Snapshot(snapshot) => self.snapshot(snapshot),
            Event::Baseline(check) => self.check(check, Stage::Opening),
            Event::IterStart(_) => self.iteration_start(),
            Event::CommandStart(start) => self.command_start(start.phase),
            Event::CommandEnd(end) => self.command_end(end),
            Event::CommandTimeout(mark) => self.timed_out(mark),
            Event::CommandCancelled(mark) => self.cancelled(mark),
            Event::Exec(exec) => self.exec(exec),
            Event::IntegrityViolation(set) => self.integrity_violation(set),
            Event::Guards(guards) => self.guards(guards),
            Event::Check(check) => self.check(check, Stage::Open),
            Event::Progress(progress) => self.progress(progress),
            Event::CandidateAttempted(_)
            | Event::CandidateAccepted(_)
            | Event::CandidateRejected(_)
            | Event::CandidateRestored(_) => Err(Wrong::Place("a legacy run takes no candidates")),
            Event::ReceiptRestored(_) => self.not_ended(),
            Event::Verdict(verdict) => self.verdict(header.seq, verdict),
            Event::Halt(halt) => self.halt(halt),
        }
    }

    fn not_ended(&self) -> Folded {
        match self.stage {
            Stage::Opening | Stage::Open | Stage::Between => Ok(()),
            Stage::Decided | Stage::Halted => Err(Wrong::Place("the run has ended")),
        }
    }

    fn resume(&mut self, header: &Header, resume: &Resume) -> Folded {
        if resume.from_seq.saturating_add(1) != header.seq {
            return Err(Wrong::Fact("from_seq is not the record before it"));
        }
        if resume.interrupted != self.running {
            return Err(Wrong::Fact("another command was running, or none"));
        }
        if let Some(halt) = &self.halt
            && !halt.continuable()
        {
            return Err(Wrong::Place("a run that halted so cannot go on"));
        }
        let gap = u64::try_from(resume.gap_ms).unwrap_or(0);
        self.now = self.now.saturating_add(RunMillis(gap));
        self.base = self.now;
        self.identity = resume.identity.clone();
        self.debt_before = resume.comprehension_debt;
        self.completed = 0;
        self.resumes = self.resumes.saturating_add(1);
        self.running = None;
        self.halt = None;
        if self.stage == Stage::Decided || self.owes_a_halt() {
            return Ok(());
        }
        self.cancelled = false;
        self.verdict = None;
        self.end = None;
        self.attempt = Attempt::default();
        self.stage = if self.iteration == 0 {
            Stage::Opening
        } else {
            Stage::Between
        };
        Ok(())
    }

    /// Whether what is recorded already ends the run for good, and only the verdict was lost with the process.
    ///
    /// A resume must not forget it: otherwise ending the governor at the right moment would undo a broken guard.
    fn owes_a_halt(&self) -> bool {
        match decide(self) {
            Step::Halt(Verdict {
                halt_reason: Some(reason),
                failure_cause,
                ..
            }) => !reason.continuable(failure_cause),
            Step::Halt(_)
            | Step::Run(_)
            | Step::Guard(_)
            | Step::Progress
            | Step::Continue(_)
            | Step::Start
            | Step::Finish
            | Step::Ended => false,
        }
    }

    fn raise(&mut self, raise: &Raise) -> Folded {
        if !self.at_boundary() || self.resumes == 0 {
            return Err(Wrong::Place("a limit is raised right after a resume"));
        }
        let mut policy = self.policy.clone();
        if let Some(cap) = raise.max_iterations {
            if cap <= policy.max_iterations {
                return Err(Wrong::Fact("max_iterations is not higher than before"));
            }
            policy.max_iterations = cap;
        }
        if let Some(timeout) = raise.timeout_ms {
            if policy.timeout_ms.is_none_or(|before| timeout <= before) {
                return Err(Wrong::Fact("timeout_ms is not higher than before"));
            }
            policy.timeout_ms = Some(timeout);
        }
        self.policy = policy;
        Ok(())
    }

    fn integrity_baseline(&mut self, set: &IdSet) -> Folded {
        if decide(self) != Step::Guard(GuardStage::Static) || self.stage != Stage::Opening {
            return Err(Wrong::Place(
                "the set of t0 is recorded once, before the first iteration",
            ));
        }
        if set_digest(&set.ids) != set.set_sha256 || !set.ids.is_sorted() {
            return Err(Wrong::Fact(
                "set_sha256 is not the digest of the sorted ids",
            ));
        }
        self.integrity_t0 = Some(set.ids.iter().cloned().collect());
        self.attempt.integrity_collected = false;
        Ok(())
    }

    fn snapshot(&mut self, snapshot: &Snapshot) -> Folded {
        match (snapshot.label, self.stage) {
            (SnapshotLabel::T0, Stage::Opening) if self.t0.is_none() => {
                self.t0 = Some(snapshot.clone());
                Ok(())
            }
            (SnapshotLabel::Final, Stage::Decided) => {
                self.end = Some(snapshot.clone());
                Ok(())
            }
            (SnapshotLabel::T0 | SnapshotLabel::Final, _) => Err(Wrong::Place(
                "t0 is saved before the first iteration, the end after the verdict",
            )),
        }
    }

    fn iteration_start(&mut self) -> Folded {
        if decide(self) != Step::Start {
            return Err(Wrong::Place("the rules do not start an iteration here"));
        }
        self.iteration = self.iteration.saturating_add(1);
        self.stage = Stage::Open;
        self.attempt = Attempt::default();
        Ok(())
    }

    fn command_start(&mut self, phase: CommandPhase) -> Folded {
        if self.running.is_some() || self.attempt.ended.is_some() {
            return Err(Wrong::Place("another command is running"));
        }
        if decide(self) != Step::Run(phase) {
            return Err(Wrong::Place("the rules do not run this command here"));
        }
        self.running = Some(phase);
        Ok(())
    }

    fn command_end(&mut self, end: &CommandEnd) -> Folded {
        if self.running != Some(end.phase) {
            return Err(Wrong::Place("this command is not running"));
        }
        self.running = None;
        if let Some(left) = &end.left_processes {
            self.left_processes = self.left_processes.saturating_add(left.count);
        }
        match end.phase {
            CommandPhase::Exec | CommandPhase::Check => self.attempt.ended = Some(end.clone()),
            CommandPhase::Failures => self.attempt.failures = Some(end.clone()),
            CommandPhase::Integrity => self.attempt.integrity_collected = true,
        }
        Ok(())
    }

    fn timed_out(&self, mark: &CommandMark) -> Folded {
        self.not_ended()?;
        let limits = [
            FailureCause::CommandTimeout,
            FailureCause::IdleTimeout,
            FailureCause::DeadlineExceeded,
        ];
        if limits.contains(&mark.cause) {
            Ok(())
        } else {
            Err(Wrong::Fact("the cause is no time limit"))
        }
    }

    fn cancelled(&mut self, mark: &CommandMark) -> Folded {
        self.not_ended()?;
        if mark.cause != FailureCause::Cancelled {
            return Err(Wrong::Fact("the cause is no cancellation"));
        }
        self.cancelled = true;
        Ok(())
    }

    fn exec(&mut self, exec: &Exec) -> Folded {
        let Some(end) = self.ended(CommandPhase::Exec) else {
            return Err(Wrong::Place("no work command has just ended"));
        };
        if end.exit_code != exec.exit_code {
            return Err(Wrong::Fact(
                "exit_code is not the one the command ended with",
            ));
        }
        self.attempt.exec = self.attempt.ended.take();
        Ok(())
    }

    fn ended(&self, phase: CommandPhase) -> Option<&CommandEnd> {
        self.attempt.ended.as_ref().filter(|end| end.phase == phase)
    }

    fn check(&mut self, check: &Check, stage: Stage) -> Folded {
        if self.stage != stage {
            return Err(Wrong::Place(
                "a baseline is before the first iteration, a check within one",
            ));
        }
        let Some(end) = self.ended(CommandPhase::Check) else {
            return Err(Wrong::Place("no check has just ended"));
        };
        if (end.exit_code, end.signal) != (check.exit_code, check.signal) {
            return Err(Wrong::Fact(
                "exit code or signal is not the one the command ended with",
            ));
        }
        let derived = judge::check(end, self.policy.success_exit_code);
        if derived != (check.outcome, check.cause) {
            return Err(Wrong::Fact(
                "the outcome does not follow from how the command ended",
            ));
        }
        self.attempt.ended = None;
        self.attempt.check = Some(check.clone());
        if check.outcome != Outcome::CannotJudge {
            self.last_judged = Some(check.clone());
        }
        self.last_check = Some(check.clone());
        if stage == Stage::Opening {
            self.baseline = Some(check.clone());
        }
        Ok(())
    }

    fn integrity_violation(&self, set: &IdSet) -> Folded {
        self.not_ended()?;
        if set_digest(&set.ids) == set.set_sha256 {
            Ok(())
        } else {
            Err(Wrong::Fact(
                "set_sha256 is not the digest of the sorted ids",
            ))
        }
    }

    fn guards(&mut self, guards: &Guards) -> Folded {
        self.not_ended()?;
        let integrity = guards.results.iter().any(|result| match result.name {
            GuardName::Integrity => true,
            GuardName::Receipt => false,
        });
        if integrity {
            if decide(self) != Step::Guard(guards.stage) {
                return Err(Wrong::Place("the rules do not look at this guard here"));
            }
            match guards.stage {
                GuardStage::Static => self.attempt.static_guards = true,
                GuardStage::Result => self.attempt.result_guards = true,
            }
            self.attempt.integrity_collected = false;
        }
        self.attempt.guards.extend(guards.results.iter().cloned());
        Ok(())
    }

    fn progress(&mut self, progress: &Progress) -> Folded {
        if decide(self) != Step::Progress {
            return Err(Wrong::Place("no failing set has just been collected"));
        }
        let empty = BTreeSet::new();
        let last = self.failing.as_ref().unwrap_or(&empty);
        let removed: BTreeSet<&String> = progress.removed.iter().collect();
        if removed.iter().any(|id| !last.contains(*id))
            || progress.added.iter().any(|id| last.contains(id))
        {
            return Err(Wrong::Fact(
                "added and removed do not fit the last known set",
            ));
        }
        let mut now: BTreeSet<String> = last
            .iter()
            .filter(|id| !removed.contains(id))
            .cloned()
            .collect();
        now.extend(progress.added.iter().cloned());
        if set_digest(&now) != progress.detail || u32::try_from(now.len()) != Ok(progress.exit_code)
        {
            return Err(Wrong::Fact("size or digest is not that of the set"));
        }
        let red = self
            .attempt
            .check
            .as_ref()
            .is_some_and(|check| check.outcome == Outcome::Reject);
        if red {
            let k = self.policy.no_progress_k;
            self.tracker
                .observe(self.iteration, &now, progress.detail, k);
        }
        self.failing = Some(now);
        self.attempt.progress = true;
        Ok(())
    }

    fn verdict(&mut self, seq: u64, verdict: &Verdict) -> Folded {
        let step = decide(self);
        let (Step::Continue(derived) | Step::Halt(derived)) = &step else {
            return Err(Wrong::Place("the rules decide nothing here"));
        };
        if derived != verdict {
            return Err(Wrong::Other(IllegalRecord::Decision {
                seq,
                recorded: in_words(verdict),
                derived: in_words(derived),
            }));
        }
        match verdict.decision {
            VerdictDecision::Halt => {
                if self.stage == Stage::Open && self.observed() {
                    self.completed = self.completed.saturating_add(1);
                }
                self.stage = Stage::Decided;
                self.verdict = Some(verdict.clone());
            }
            VerdictDecision::Continue => {
                if self.stage == Stage::Open {
                    self.completed = self.completed.saturating_add(1);
                }
                self.stage = Stage::Between;
                self.attempt = Attempt::default();
            }
        }
        Ok(())
    }

    fn halt(&mut self, halt: &Halt) -> Folded {
        let Some(verdict) = self
            .verdict
            .as_ref()
            .filter(|_| self.stage == Stage::Decided)
        else {
            return Err(Wrong::Place("no verdict ended the run"));
        };
        let same = verdict.halt_reason == Some(halt.halt_reason)
            && verdict.failure_cause == halt.failure_cause
            && halt.detail == halt.halt_reason
            && halt.exit == halt.halt_reason.class().code();
        if !same {
            return Err(Wrong::Fact("it is not the halt that the verdict decided"));
        }
        self.stage = Stage::Halted;
        self.halt = Some(halt.clone());
        Ok(())
    }
}

fn in_words(verdict: &Verdict) -> String {
    match (verdict.halt_reason, verdict.failure_cause) {
        (None, _) => "continue".to_owned(),
        (Some(reason), None) => reason.name().to_owned(),
        (Some(reason), Some(cause)) => format!("{reason}/{cause}"),
    }
}

fn named(header: &Header, wrong: Wrong) -> IllegalRecord {
    let (seq, event) = (header.seq, header.event);
    match wrong {
        Wrong::Place(why) => IllegalRecord::OutOfPlace { seq, event, why },
        Wrong::Fact(why) => IllegalRecord::Contradiction { seq, event, why },
        Wrong::Other(illegal) => illegal,
    }
}
