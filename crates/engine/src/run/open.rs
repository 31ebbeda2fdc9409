//! Opens a new run: lock, store, the earlier run of this id moved aside, the first record, t0.

use loopexec_core::{
    CONTRACT, RULES_REVISION,
    event::{ContextEntry, Event, GitHead, RunStart, Snapshot},
    policy::{Mode, RunKind},
};
use loopexec_os::{durable::sync_directory, lock::WorkspaceLock};

use super::{
    RunConfig, Watcher, command,
    content::{Content, ContentError},
    finish,
    session::{Session, unrecorded},
    store, tools,
};
use crate::{
    failure::{Failure, chain},
    heartbeat::Pulse,
    layout::{Layout, valid_run_id},
    log::{LogError, Receipt, WorkspaceLog, read},
    redact::{Redactor, for_check, for_work},
};

/// Opens a new run.
pub(super) fn open(config: &RunConfig, watcher: &mut dyn Watcher) -> Result<Session, Failure> {
    refuse_impossible(config)?;
    let layout = Layout::new(&config.workdir, config.state_home.as_deref());
    let outside = store::prepare_outside(&layout).is_some();
    let lock = store::lock(&layout, &config.run_id)?;
    settle_latest(&layout)?;
    let archived = store::archive(&layout, &config.run_id)?;
    let previous_head = archived.as_ref().and_then(|place| {
        let receipt = place.join(format!("run-{}.jsonl", config.run_id));
        read(&receipt, &mut |_| {})
            .ok()?
            .state
            .map(|state| state.head)
    });
    let receipt = create_receipt(&layout, config, outside)?;
    let mut session = assemble(config, layout, lock, receipt)?;
    session.archived = archived;
    let guardian = command::start_guardian(&session)?;
    let containment = if guardian.has_group() {
        "subreaper+cgroup"
    } else {
        "subreaper"
    };
    session.guardian = Some(guardian);
    let kept = Content::begin(config, &session.layout);
    let git = kept.as_ref().ok().and_then(|(_, _, git)| git.clone());
    let start = RunStart {
        identity: config.identity.clone(),
        contract: CONTRACT.to_owned(),
        rules_revision: RULES_REVISION,
        mode: Mode::CheckFixpoint,
        kind: RunKind::Legacy,
        policy_hash: config
            .policy
            .hash(Mode::CheckFixpoint, RunKind::Legacy, &config.commands),
        unbounded: config.policy.unbounded(),
        policy: config.policy.clone(),
        commands: config.commands.clone(),
        workdir: config.workdir.to_string_lossy().into_owned(),
        pins: config.pins.clone(),
        cost_declared_microusd: config.cost_declared,
        environment_sha256: command::digest(
            &for_check(&session.redactor, &config.environment).sha256,
        ),
        tools: tools::resolve(
            &config.commands.check,
            &config.workdir,
            &session.check_environment,
        ),
        git,
        context_manifest: context_manifest(config),
        comprehension_debt: debt(&session.layout)?,
        containment: containment.to_owned(),
        anchor: outside,
        previous_head,
    };
    session.record(Event::RunStart(start), true)?;
    sync_directory(&session.layout.store().join("runs"))
        .and_then(|()| sync_directory(&session.layout.store()))
        .and_then(|()| sync_directory(session.layout.workdir()))
        .map_err(|error| unrecorded(&LogError::Write(error)))?;
    session.publish_state()?;
    session.look_at_acts()?;
    record_t0(&mut session, kept)?;
    watcher.opened(session.state()?);
    Ok(session)
}

/// Refuses what no run can have: a name that is none, a limit that can never be right.
fn refuse_impossible(config: &RunConfig) -> Result<(), Failure> {
    if !valid_run_id(&config.run_id) {
        return Err(Failure::workspace(format!(
            "{:?} cannot name a run: use 1 to 64 letters, digits, '.', '_', '-', beginning with a letter or digit",
            config.run_id
        ))
        .because("run_id_invalid"));
    }
    config
        .policy
        .validate()
        .map_err(|error| Failure::invariant(error.to_string()).because("limit_invalid"))
}

fn create_receipt(layout: &Layout, config: &RunConfig, outside: bool) -> Result<Receipt, Failure> {
    let path = layout.receipt(&config.run_id);
    let anchor = layout.anchor(&config.run_id).filter(|_| outside);
    if let Some(anchor) = &anchor
        && anchor.exists()
    {
        // Left by a run whose workspace was removed: kept, because it is the only record of it.
        let name = format!(
            "orphan-{}-{}.jsonl",
            config.run_id,
            loopexec_os::clock::wall_millis()
        );
        fs_err::rename(anchor, anchor.with_file_name(name))
            .map_err(|error| Failure::workspace(error.to_string()).because("store_unusable"))?;
    }
    Receipt::create(&config.run_id, &path, anchor.as_deref()).map_err(|error| unrecorded(&error))
}

/// What a fresh and a resumed run have in common.
pub(super) fn assemble(
    config: &RunConfig,
    layout: Layout,
    lock: WorkspaceLock,
    receipt: Receipt,
) -> Result<Session, Failure> {
    let redactor = Redactor::new(config.environment.iter().map(|(name, value)| (name, value)))
        .map_err(|error| Failure::workspace(chain(&error)).because("environment_unusable"))?;
    Ok(Session {
        pulse: Pulse::new(layout.file("heartbeat"), &config.run_id),
        work_environment: for_work(&redactor, &config.environment).variables,
        check_environment: for_check(&redactor, &config.environment).variables,
        redactor,
        lock,
        receipt,
        layout,
        guardian: None,
        signals: config.signals.clone(),
        content: None,
        seen: None,
        acts: None,
        members: None,
        failing: None,
        regressed: Vec::new(),
        output_tail: String::new(),
        digest: None,
        archived: None,
        notes: Vec::new(),
    })
}

/// Records what the person had, which was saved before anything could change it.
fn record_t0(
    session: &mut Session,
    kept: Result<(Content, Snapshot, Option<GitHead>), ContentError>,
) -> Result<(), Failure> {
    match kept {
        Ok((content, snapshot, _)) => {
            session.digest = Some(snapshot.manifest_sha256);
            session.content = Some(content);
            session.record(Event::Snapshot(snapshot), false)
        }
        Err(error) => {
            session.notes.push(format!(
                "the workspace's content could not be saved, so `runs undo` cannot bring it back: {}",
                chain(&error)
            ));
            Ok(())
        }
    }
}

fn context_manifest(config: &RunConfig) -> Vec<ContextEntry> {
    config
        .context_files
        .iter()
        .map(|path| {
            let content = loopexec_os::durable::read_regular(
                &config.workdir.join(path),
                loopexec_os::durable::SMALL_FILE_BYTES,
            );
            ContextEntry {
                path: path.to_string_lossy().into_owned(),
                sha256: content.map_or_else(
                    |_| "missing".to_owned(),
                    |bytes| loopexec_core::digest::Digest::of(&bytes).to_string(),
                ),
            }
        })
        .collect()
}

/// Iterations in this workspace that nobody has acknowledged.
pub(super) fn debt(layout: &Layout) -> Result<u32, Failure> {
    WorkspaceLog::read(layout)
        .map(|log| log.debt().iterations())
        .map_err(|error| Failure::invariant(chain(&error)).because("workspace_log_damaged"))
}

/// Adds the iterations of a run whose process died before it could.
pub(crate) fn settle_latest(layout: &Layout) -> Result<(), Failure> {
    let Some(run_id) = crate::runs::latest(layout) else {
        return Ok(());
    };
    match read(&layout.receipt(&run_id), &mut |_| {}) {
        Ok(log) => log
            .state
            .map_or(Ok(()), |state| finish::settle(layout, &state)),
        Err(_) => Ok(()),
    }
}
