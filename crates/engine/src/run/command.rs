//! One command of the run, from the intent in the log to its result in the log.
//!
//! Must not decide what its result means: the core's judge does.

use std::{ffi::OsString, time::Duration};

use loopexec_core::{
    digest::Digest,
    event::{Check, CommandEnd, CommandPhase, CommandStart, Event, Exec, VerdictBasis},
    judge,
    units::RunMillis,
};
use loopexec_os::{
    durable::{PRIVATE_FILE, SyncMode, create_private_directory, replace_file},
    guardian::{CommandSpec, Ended, Exit, Guardian, GuardianError, GuardianOptions, Limits, Stdin},
};

use super::{
    Watcher,
    content::Surroundings,
    ending::{end_of, marks, why_not},
    observer::{Listening, Plain, Taken, Taking},
    session::{Session, unrecorded},
    tail::keep_tail,
};
use crate::{
    failure::{Failure, chain},
    feedback::feedback,
    fingerprint::{Fingerprint, NORMALISER_VERSION, Settings},
};

/// The shell of every command string: by its path, so that no `PATH` of a workspace decides which shell runs.
const SHELL: &str = "/bin/sh";
/// How often the watcher is told that time passes.
const TICK: Duration = Duration::from_millis(250);

/// Runs the command of a phase and records everything about it.
pub(super) fn run(
    session: &mut Session,
    phase: CommandPhase,
    watcher: &mut dyn Watcher,
) -> Result<(), Failure> {
    let before = (phase == CommandPhase::Check)
        .then(|| session.content.as_mut()?.before_check())
        .flatten();
    let environment = environment(session, phase)?;
    session.record(Event::CommandStart(CommandStart { phase }), false)?;
    let state = session.state()?;
    watcher.started(state, phase);
    let iteration = state.iteration;
    session
        .receipt
        .bring_copy_up(false)
        .map_err(|error| unrecorded(&error))?;
    // A heartbeat that cannot be written stops nothing: a watcher then sees it as stale, which is true.
    let _ = session.pulse.moved(iteration, phase);
    let (ended, taken, limited) = supervise(session, phase, environment, watcher)?;
    let inspection = session.inspect(phase)?;
    let (end, collected) = end_of(session, phase, &ended, limited);
    session.record(Event::CommandEnd(end.clone()), false)?;
    marks(session, phase, &ended, limited)?;
    keep_tail(session, phase, &ended);
    match phase {
        CommandPhase::Exec => {
            session.digest = None;
            exec(session, &end, taken)?;
        }
        CommandPhase::Check => check(session, &end, taken, before)?,
        CommandPhase::Failures => session.failing = collected,
        CommandPhase::Integrity => {
            session.members = Some(collected.ok_or_else(|| why_not(&end)));
        }
    }
    session.report(inspection)
}

/// What the command of a phase sees.
fn environment(
    session: &mut Session,
    phase: CommandPhase,
) -> Result<Vec<(OsString, OsString)>, Failure> {
    let state = session.state()?;
    let directory = session.layout.run_directory(&state.run_id);
    if phase == CommandPhase::Exec {
        let path = directory.join("feedback.json");
        let file = feedback(state, &session.regressed, &session.output_tail);
        let bytes = serde_json::to_vec_pretty(&file).unwrap_or_default();
        let told: [(&str, OsString); 4] = [
            ("LOOPEXEC_RUN_ID", state.run_id.clone().into()),
            ("LOOPEXEC_ITERATION", state.iteration.to_string().into()),
            ("LOOPEXEC_WORKDIR", session.layout.workdir().into()),
            ("LOOPEXEC_FEEDBACK", path.clone().into()),
        ];
        // Nothing reads it between two work commands, and a rename over a file makes ext4 write the new one out at once.
        let _ = fs_err::remove_file(&path);
        replace_file(
            &path,
            &session.redactor.redact(&bytes),
            PRIVATE_FILE,
            SyncMode::None,
        )
        .map_err(|error| Failure::internal(chain(&error)).because("feedback_write_failed"))?;
        return Ok(with(&session.work_environment, told));
    }
    let report = directory.join("report");
    empty_directory(&report)?;
    Ok(with(
        &session.check_environment,
        [("LOOPEXEC_REPORT_DIR", report.into())],
    ))
}

/// Makes sure that a directory of ours is there and has nothing in it.
fn empty_directory(path: &std::path::Path) -> Result<(), Failure> {
    create_private_directory(path)
        .map_err(|error| Failure::internal(chain(&error)).because("report_directory_failed"))?;
    if fs_err::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()) {
        return Ok(());
    }
    fs_err::remove_dir_all(path)
        .map_err(|error| Failure::internal(error.to_string()).because("report_directory_failed"))?;
    create_private_directory(path)
        .map_err(|error| Failure::internal(chain(&error)).because("report_directory_failed"))
}

fn with<const N: usize>(
    base: &[(OsString, OsString)],
    more: [(&str, OsString); N],
) -> Vec<(OsString, OsString)> {
    let mut environment = base.to_vec();
    environment.retain(|(name, _)| !more.iter().any(|(told, _)| name == told));
    environment.extend(more.into_iter().map(|(name, value)| (name.into(), value)));
    environment
}

/// Runs the command below the guardian. The third value says whether the run's own deadline was the tighter one.
fn supervise(
    session: &mut Session,
    phase: CommandPhase,
    environment: Vec<(OsString, OsString)>,
    watcher: &mut dyn Watcher,
) -> Result<(Ended, Taken, bool), Failure> {
    let Some(line) = command_line(session, phase)? else {
        return Err(Failure::internal("a phase without its command").because("defect"));
    };
    let spec = CommandSpec {
        argv: [SHELL, "-c", &line].map(OsString::from).to_vec(),
        env: environment,
        directory: session.layout.workdir().to_owned(),
        stdin: Stdin::Empty,
    };
    let (limits, by_deadline) = limits(session)?;
    let taking = taking(session, phase)?;
    let mut guardian = match session.guardian.take() {
        Some(guardian) => guardian,
        None => start_guardian(session)?,
    };
    let state = session
        .receipt
        .state()
        .ok_or_else(|| Failure::internal("a run without its first record").because("defect"))?;
    let mut listening = Listening {
        state,
        phase,
        taking,
        redactor: &session.redactor,
        pulse: &mut session.pulse,
        watcher,
        latest: Vec::new(),
        pulse_failed: false,
        signals: &session.signals,
        grace_ms: u64::try_from(limits.grace.as_millis()).unwrap_or(u64::MAX),
        told: false,
    };
    let ended = guardian
        .run(&spec, &limits, &mut listening)
        .map_err(|error| unsupervised(&error))?;
    let code = match ended.exit {
        Exit::Code(code) => code,
        Exit::Signal(_) | Exit::NotStarted { .. } | Exit::Unknown => -1,
    };
    let taken = listening.taking.finish(code);
    session.guardian = Some(guardian);
    Ok((ended, taken, by_deadline))
}

pub(super) fn start_guardian(session: &Session) -> Result<Guardian, Failure> {
    Guardian::start(GuardianOptions::this_program(), &session.signals)
        .map_err(|error| unsupervised(&error))
}

pub(super) fn unsupervised(error: &GuardianError) -> Failure {
    Failure::new(
        loopexec_core::halt::HaltReason::ExecutionFailure,
        format!("a command could not be supervised: {}", chain(error)),
    )
    .because("supervision_failed")
}

fn command_line(session: &Session, phase: CommandPhase) -> Result<Option<String>, Failure> {
    let commands = &session.state()?.run.commands;
    Ok(match phase {
        CommandPhase::Exec => commands.exec.clone(),
        CommandPhase::Check => Some(commands.check.clone()),
        CommandPhase::Failures => commands.failures.clone(),
        CommandPhase::Integrity => commands.integrity.clone(),
    })
}

/// The bounds of the next command, and whether the run's deadline is the tighter one.
fn limits(session: &Session) -> Result<(Limits, bool), Failure> {
    let state = session.state()?;
    let millis = |limit: RunMillis| Duration::from_millis(limit.0);
    let left = state.remaining();
    let by_deadline = match (left, state.policy.command_timeout_ms) {
        (Some(left), Some(one)) => left <= one,
        (Some(_), None) => true,
        (None, _) => false,
    };
    let timeout = if by_deadline {
        left
    } else {
        state.policy.command_timeout_ms
    };
    let grace = if session.signals.interrupts() > 1 {
        RunMillis(0)
    } else {
        state.policy.terminate_grace_ms
    };
    let limits = Limits {
        timeout: timeout.map(millis),
        idle: state.policy.idle_timeout_ms.map(millis),
        grace: millis(grace),
        tick: TICK,
    };
    Ok((limits, by_deadline))
}

fn taking(session: &Session, phase: CommandPhase) -> Result<Taking, Failure> {
    Ok(match phase {
        CommandPhase::Exec => Taking::Plain(Box::new((
            Plain::new(&session.redactor),
            Plain::new(&session.redactor),
        ))),
        CommandPhase::Check => {
            let settings =
                fingerprint_settings(session.layout.workdir(), &session.check_environment);
            let fingerprint = Fingerprint::new(&session.redactor, &settings)
                .map_err(|error| Failure::internal(chain(&error)).because("defect"))?;
            Taking::Fingerprint(Box::new(fingerprint))
        }
        CommandPhase::Failures | CommandPhase::Integrity => Taking::Nothing,
    })
}

/// What the stable normaliser is told: the newest version, the workspace, and where temporary files are.
pub(crate) fn fingerprint_settings(
    workdir: &std::path::Path,
    environment: &[(OsString, OsString)],
) -> Settings {
    let temporary = environment
        .iter()
        .filter(|(name, _)| name == "TMPDIR")
        .map(|(_, value)| value.as_encoded_bytes().to_vec())
        .collect();
    Settings {
        normaliser: NORMALISER_VERSION,
        workspaces: vec![workdir.as_os_str().as_encoded_bytes().to_vec()],
        temporary,
    }
}

fn exec(session: &mut Session, end: &CommandEnd, taken: Taken) -> Result<(), Failure> {
    let (stdout_sha256, stderr_sha256) = match taken {
        Taken::Plain { stdout, stderr } => (stdout, stderr),
        Taken::Fingerprint(_) | Taken::Nothing => (Digest::of(b""), Digest::of(b"")),
    };
    session.record(
        Event::Exec(Exec {
            exit_code: end.exit_code,
            stdout_sha256,
            stderr_sha256,
        }),
        false,
    )
}

fn check(
    session: &mut Session,
    end: &CommandEnd,
    taken: Taken,
    before: Option<Surroundings>,
) -> Result<(), Failure> {
    let digests = match taken {
        Taken::Fingerprint(digests) => *digests,
        Taken::Plain { .. } | Taken::Nothing => {
            return Err(Failure::internal("a check without its fingerprint").because("defect"));
        }
    };
    let (outcome, cause) = judge::check(end, session.state()?.policy.success_exit_code);
    let seen = match (before, session.content.as_mut()) {
        (Some(before), Some(content)) => content.after_check(&before),
        (None, _) | (_, None) => super::content::Seen::default(),
    };
    // Content that could not be read has no digest: an earlier one would be of something else.
    session.digest = seen.digest;
    let at_t0 = session.state()?.iteration == 0;
    let check = Check {
        exit_code: end.exit_code,
        signal: end.signal,
        verdict_basis: VerdictBasis::ExitCode,
        outcome,
        cause,
        run: 0,
        output_sha256: digest(&digests.output_sha256),
        stable_output_sha256: digest(&digests.stable_output_sha256),
        unordered_output_sha256: digest(&digests.unordered_output_sha256),
        verdict_sha256: None,
        normaliser: digests.normaliser,
        candidate_sha256: seen.digest,
        artefacts: seen.artefacts,
        changed_by_check: seen.changed,
        tests: None,
        delta: None,
    };
    session.record(
        if at_t0 {
            Event::Baseline(check)
        } else {
            Event::Check(check)
        },
        false,
    )
}

/// A digest that another part of this program has just printed as hexadecimal.
pub(crate) fn digest(hex: &str) -> Digest {
    Digest::from_hex(hex).unwrap_or_else(|| Digest::of(hex.as_bytes()))
}
