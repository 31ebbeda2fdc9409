//! Goes on with a recorded run: repairs what a crash left, refuses what no crash leaves.

use std::path::Path;

use loopexec_core::{
    event::{CommandPhase, Event, Raise, Resume, TornTail},
    state::{RunState, Stage},
};
use loopexec_os::{
    clock,
    durable::{PRIVATE_FILE, SyncMode, replace_file, sync_directory},
};

use super::{
    ResumeOptions, RunConfig, RunEnd, Watcher, command,
    content::Content,
    finish,
    open::{assemble, debt, settle_latest},
    session::{Session, unrecorded},
    store,
};
use crate::{
    failure::{Failure, chain},
    layout::Layout,
    log::{Chain, Flaw, FlawKind, ReadLog, Receipt, Relation, read, relation},
    snapshot::StateView,
};

/// A run that was gone on with, or one that had ended for good.
pub(super) enum Resumed {
    Going(Box<Session>),
    Ended(Box<RunEnd>),
}

/// What recovery found, for the record.
struct Recovered {
    state: RunState,
    content: Vec<u8>,
    torn: Option<TornTail>,
    from_anchor: u64,
    notes: Vec<String>,
}

/// Goes on with the run of this id.
pub(super) fn resume(
    config: &RunConfig,
    options: &ResumeOptions,
    watcher: &mut dyn Watcher,
) -> Result<Resumed, Failure> {
    let layout = Layout::new(&config.workdir, config.state_home.as_deref());
    let outside = store::prepare_outside(&layout).is_some();
    let lock = store::lock(&layout, &config.run_id)?;
    let recovered = recover(&layout, &config.run_id)?;
    compare_state(&layout, &recovered.state)?;
    if let Some(end) = ended(&layout, &recovered, options) {
        return Ok(Resumed::Ended(Box::new(end)));
    }
    same_policy(&recovered.state, options)?;
    raises(&recovered.state, options)?;
    copy_is_kept(&recovered.state, outside)?;
    settle_latest(&layout)?;
    let Recovered {
        state,
        content,
        torn,
        from_anchor,
        notes,
    } = recovered;
    let anchor = layout.anchor(&config.run_id).filter(|_| state.run.anchor);
    let record = resumption(config, &layout, &state, torn, from_anchor)?;
    let (receipt_path, interrupted) = (layout.receipt(&config.run_id), state.running);
    let receipt = Receipt::continue_from(state, &content, &receipt_path, anchor.as_deref())
        .map_err(|error| unrecorded(&error))?;
    let mut session = assemble(config, layout, lock, receipt)?;
    session.notes = notes;
    session.guardian = Some(command::start_guardian(&session)?);
    session.record(Event::Resume(record), true)?;
    raise(&mut session, options)?;
    session.publish_state()?;
    session.look_at_acts()?;
    reopen_content(&mut session, config);
    note_interruption(&mut session, interrupted);
    watcher.opened(session.state()?);
    Ok(Resumed::Going(Box::new(session)))
}

/// Refuses to go on without the second copy that the run was opened with.
fn copy_is_kept(state: &RunState, outside: bool) -> Result<(), Failure> {
    if outside || !state.run.anchor {
        return Ok(());
    }
    Err(Failure::workspace(format!(
        "the run {:?} keeps a second copy outside the workspace, and that place cannot be used now",
        state.run_id
    ))
    .because("anchor_unavailable")
    .hint("make $XDG_STATE_HOME (or ~/.local/state) writable again: going on without the copy would look like tampering"))
}

fn resumption(
    config: &RunConfig,
    layout: &Layout,
    state: &RunState,
    torn: Option<TornTail>,
    from_anchor: u64,
) -> Result<Resume, Failure> {
    Ok(Resume {
        from_seq: state.records.saturating_sub(1),
        gap_ms: clock::wall_millis().saturating_sub(state.last_ts_ms),
        identity: config.identity.clone(),
        interrupted: state.running,
        torn,
        from_anchor,
        comprehension_debt: debt(layout)?,
    })
}

fn reopen_content(session: &mut Session, config: &RunConfig) {
    let last = session
        .receipt
        .state()
        .and_then(|state| state.last_check.as_ref());
    let artefacts = last.map_or_else(Vec::new, |check| check.artefacts.clone());
    match Content::reopen(config, &session.layout, &artefacts) {
        Ok(content) => session.content = Some(content),
        Err(error) => session.notes.push(format!(
            "the workspace's content cannot be followed any more: {}",
            chain(&error)
        )),
    }
}

fn note_interruption(session: &mut Session, interrupted: Option<CommandPhase>) {
    if let Some(phase) = interrupted {
        session.notes.push(format!(
            "the {} command was interrupted by the end of the earlier process; it counts as an attempt and is not assumed to have finished",
            phase.name()
        ));
    }
}

/// Reads the receipt and its copy, and repairs what a crash leaves of them.
fn recover(layout: &Layout, run_id: &str) -> Result<Recovered, Failure> {
    let path = layout.receipt(run_id);
    let mut notes = Vec::new();
    let anchor = layout.anchor(run_id).filter(|anchor| anchor.exists());
    let mut from_anchor = 0;
    if let Some(anchor) = &anchor {
        from_anchor = take_back(&path, anchor, &mut notes)?;
    }
    let log = read(&path, &mut |_| {}).map_err(|error| {
        Failure::workspace(chain(&error))
            .because("run_not_found")
            .hint("`loopexec runs list` names the recorded runs")
    })?;
    if never_opened(&log) {
        return Err(Failure::workspace(format!(
            "the run {run_id:?} ended before its first record was written: nothing was run"
        ))
        .because("run_not_opened")
        .hint("start it again without --resume"));
    }
    let torn = repair(layout, run_id, &path, &log)?;
    let state = log
        .state
        .ok_or_else(|| damaged(&path, 0, "it has no first record"))?;
    if torn.is_some() {
        notes.push("the receipt ended in a torn line; it was cut and kept".to_owned());
    }
    let content = loopexec_os::durable::read_regular(&path, loopexec_os::durable::LOG_FILE_BYTES)
        .map_err(|error| Failure::workspace(error.to_string()))?;
    Ok(Recovered {
        state,
        content,
        torn,
        from_anchor,
        notes,
    })
}

/// Whether the receipt holds at most a torn first record, which is what a process leaves that dies while it opens a run.
fn never_opened(log: &ReadLog) -> bool {
    let torn = |flaw: &Flaw| flaw.offset == 0 && flaw.cause == "truncated";
    log.state.is_none() && log.flaw.as_ref().is_none_or(torn)
}

/// Takes records back from the outside copy that the workspace lost, and refuses what contradicts it.
fn take_back(path: &Path, anchor: &Path, notes: &mut Vec<String>) -> Result<u64, Failure> {
    let failed =
        |error: std::io::Error| Failure::workspace(error.to_string()).because("receipt_unreadable");
    match relation(path, anchor).map_err(failed)? {
        Relation::NoCopy | Relation::Equal | Relation::CopyBehind { .. } => Ok(0),
        Relation::CopyMissed { forced } => Err(tampered(
            path,
            &format!("it has {forced} records forced to the disk that the copy outside never saw"),
        )),
        Relation::Differ { offset } => Err(tampered(
            path,
            &format!(
                "it differs from the copy outside ({}) at byte {offset}",
                anchor.display()
            ),
        )),
        Relation::ReceiptBehind { whole, records } => {
            replace_file(path, &whole, PRIVATE_FILE, SyncMode::Full).map_err(|error| {
                Failure::internal(chain(&error)).because("receipt_write_failed")
            })?;
            notes.push(format!(
                "{records} records that the workspace had lost were taken from the copy outside"
            ));
            Ok(records)
        }
    }
}

fn tampered(path: &Path, why: &str) -> Failure {
    Failure::new(
        loopexec_core::halt::HaltReason::MetricIntegrityViolation,
        format!("the receipt {} was changed: {why}", path.display()),
    )
    .because("receipt_tampered")
    .hint(
        "`loopexec verify` says what differs; a new run under another --run-id is always possible",
    )
}

fn damaged(path: &Path, offset: u64, why: &str) -> Failure {
    Failure::invariant(format!(
        "the receipt {} is damaged at byte {offset}: {why}",
        path.display()
    ))
    .because("receipt_damaged")
    .hint("`loopexec report` still shows the part before it")
}

/// Cuts a torn tail and keeps it aside; refuses damage.
fn repair(
    layout: &Layout,
    run_id: &str,
    path: &Path,
    log: &ReadLog,
) -> Result<Option<TornTail>, Failure> {
    if log.chain == Chain::Absent {
        return Err(Failure::workspace(format!(
            "{} is a receipt of contract 2.0 without a chain; it can be read but not gone on with",
            path.display()
        ))
        .because("chain_absent"));
    }
    let Some(flaw) = &log.flaw else {
        return Ok(None);
    };
    if flaw.kind == FlawKind::Damage || flaw.cause == "newer_rules" {
        return Err(damaged(path, flaw.offset, &flaw.why));
    }
    let failed = |error: &dyn std::error::Error| {
        Failure::internal(chain(error)).because("receipt_write_failed")
    };
    let bytes = loopexec_os::durable::read_regular(path, loopexec_os::durable::LOG_FILE_BYTES)
        .map_err(|error| failed(&error))?;
    let good = usize::try_from(log.good_bytes).unwrap_or(usize::MAX);
    let tail = bytes.get(good..).unwrap_or_default();
    let name = format!("torn-{}", log.good_bytes);
    let kept = layout.run_directory(run_id).join(&name);
    replace_file(&kept, tail, PRIVATE_FILE, SyncMode::Full).map_err(|error| failed(&error))?;
    let mut file = loopexec_os::durable::Appender::open(path).map_err(|error| failed(&error))?;
    file.truncate(log.good_bytes)
        .map_err(|error| failed(&error))?;
    file.sync().map_err(|error| failed(&error))?;
    sync_directory(&layout.store()).map_err(|error| failed(&error))?;
    let bytes = u64::try_from(tail.len()).unwrap_or(u64::MAX);
    Ok(Some(TornTail {
        bytes,
        kept: format!("runs/{run_id}/{name}"),
    }))
}

/// Refuses a snapshot that is ahead of the log, or of another log; one that is behind is a cache that was not written.
pub(crate) fn compare_state(layout: &Layout, state: &RunState) -> Result<(), Failure> {
    let path = layout.state(&state.run_id);
    let Ok(bytes) =
        loopexec_os::durable::read_regular(&path, loopexec_os::durable::SMALL_FILE_BYTES)
    else {
        return Ok(());
    };
    let Ok(view) = serde_json::from_slice::<StateView>(&bytes) else {
        return Ok(());
    };
    let contradicts = |why: String| {
        Err(
            Failure::invariant(format!("{} contradicts its receipt: {why}", path.display()))
                .because("snapshot_mismatch")
                .hint("`loopexec verify` says what differs"),
        )
    };
    if view.synced_records > state.records {
        return contradicts(format!(
            "it has seen {} records forced to the disk, the receipt holds {}",
            view.synced_records, state.records
        ));
    }
    if view.records == state.records && view.head != Some(state.head.to_string()) {
        return contradicts("it names another last line".to_owned());
    }
    Ok(())
}

/// The recorded end of a run that cannot be gone on with.
fn ended(layout: &Layout, recovered: &Recovered, options: &ResumeOptions) -> Option<RunEnd> {
    let state = &recovered.state;
    if state.stage != Stage::Halted {
        return None;
    }
    let halt = state.halt.as_ref()?;
    let capped = halt.halt_reason == loopexec_core::halt::HaltReason::MaxIterationsReached;
    let raised = options.reviewer.is_some() && options.max_iterations.is_some();
    if halt.continuable() && (!capped || raised) {
        return None;
    }
    let digest = halt.workspace_sha256.map(|digest| digest.to_string());
    let mut notes = recovered.notes.clone();
    notes.push(if capped {
        "the run is at its cap; go on with --resume --raise --reviewer NAME --max-iterations N"
            .to_owned()
    } else {
        "the run has ended; nothing was run".to_owned()
    });
    Some(RunEnd {
        receipt: layout.receipt(&state.run_id),
        workspace: finish::workspace_block(state, digest),
        archived: None,
        notes,
        state: state.clone(),
    })
}

fn same_policy(state: &RunState, options: &ResumeOptions) -> Result<(), Failure> {
    match options.policy_hash {
        Some(given) if given != state.run.policy_hash => Err(Failure::workspace(
            "the flags given now make another policy than the recorded one",
        )
        .because("policy_changed")
        .hint("leave flags out to take the recorded ones; a limit is raised with --raise --reviewer NAME")),
        Some(_) | None => Ok(()),
    }
}

/// Refuses a raise that raises nothing, before anything is recorded.
fn raises(state: &RunState, options: &ResumeOptions) -> Result<(), Failure> {
    let refused = |what: &str, now: u64| {
        Err(Failure::invariant(format!(
            "{what} is not higher than the {now} in force, so it raises nothing"
        ))
        .because("limit_invalid"))
    };
    let cap = state.policy.max_iterations;
    if options.max_iterations.is_some_and(|given| given <= cap) {
        return refused("--max-iterations", cap.into());
    }
    match (options.timeout_ms, state.policy.timeout_ms) {
        (Some(given), Some(now)) if given <= now => refused("--timeout", now.0),
        (Some(_), None) => Err(Failure::invariant(
            "--timeout cannot be raised: the run has no total time to raise",
        )
        .because("limit_invalid")),
        (Some(_), Some(_)) | (None, _) => Ok(()),
    }
}

fn raise(session: &mut Session, options: &ResumeOptions) -> Result<(), Failure> {
    let Some(reviewer) = &options.reviewer else {
        return Ok(());
    };
    if options.max_iterations.is_none() && options.timeout_ms.is_none() {
        return Ok(());
    }
    session.record(
        Event::Raise(Raise {
            max_iterations: options.max_iterations,
            timeout_ms: options.timeout_ms,
            reviewer: reviewer.clone(),
        }),
        true,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::read_lines;

    #[test]
    fn a_torn_first_record_was_never_opened_and_a_whole_one_that_makes_no_sense_is_damage() {
        let log = |bytes: &[u8]| read_lines(bytes, &mut |_| {}).unwrap();
        for torn in [&b""[..], b"{\"ts\":1", &[0; 4096]] {
            assert!(never_opened(&log(torn)), "{torn:?}");
        }
        for damage in [&b"\n"[..], b"{\"ts\":1\n", b"{}\n{}"] {
            assert!(!never_opened(&log(damage)), "{damage:?}");
        }
    }
}
