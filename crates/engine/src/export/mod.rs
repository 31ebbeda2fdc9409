//! One run as one file that others can verify: receipt, state, what happened to it since, signatures, schemas, content, report.
//!
//! The same run always gives the same bytes. Must not run anything.

mod archive;
mod redacted;
mod unpack;

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use loopexec_core::{state::RunState, workspace::ActName};
use tempfile::TempDir;

pub use redacted::verify as verify_redacted;
pub use unpack::{Unpacked, is_archive, unpack};

use crate::{
    candidate::{Workspace, bundle::BundleError},
    failure::{Failure, chain},
    layout::Layout,
    log::{Chain, WorkspaceLog},
    recorded::{Recorded, load},
    report::report,
    run::workspace_config,
};

/// The member that lists the others.
pub(crate) const INDEX: &str = "export.json";
/// The member that holds the report.
pub(crate) const REPORT: &str = "report.json";
/// The member that holds the acts that concern the run since its halt.
pub(crate) const AFTER: &str = "after.jsonl";
/// The member that holds the contents.
pub(crate) const BUNDLE: &str = "content.bundle";
/// The directory of schemas.
pub(crate) const SCHEMAS: &str = "schemas";
/// Version of the form.
pub(crate) const FORMAT: u32 = 1;

/// What to export.
#[derive(Debug)]
pub struct ExportConfig<'a> {
    /// The workspace.
    pub layout: &'a Layout,
    /// The run.
    pub run_id: &'a str,
    /// The file to write; it must not be there.
    pub file: &'a Path,
    /// Withhold command strings, paths, pins and ids.
    pub redact: bool,
    /// Schemas by name.
    pub schemas: Vec<(String, Vec<u8>)>,
    /// Where `git` is looked for.
    pub search_path: Option<&'a OsStr>,
    /// The person's own ignore file of git.
    pub excludes_file: Option<PathBuf>,
}

/// What was exported.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The run.
    pub run_id: String,
    /// The file.
    pub file: PathBuf,
    /// Its members, in their order.
    pub members: Vec<String>,
    /// Bytes of the file.
    pub bytes: u64,
    /// Fields that were withheld.
    pub withheld: u64,
    /// Labels of the contents in it.
    pub contents: Vec<String>,
}

/// A member of the archive.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

impl Member {
    fn new(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self {
            name: name.into(),
            bytes,
        }
    }
}

/// Exports a run.
///
/// # Errors
///
/// The run is not recorded or has no chain, the file is there already, or it cannot be written.
pub fn export(config: &ExportConfig<'_>) -> Result<Exported, Failure> {
    if fs_err::symlink_metadata(config.file).is_ok() {
        return Err(Failure::workspace(format!(
            "{} is there already and is not overwritten",
            config.file.display()
        ))
        .because("file_exists")
        .hint("name another file, or remove that one"));
    }
    let recorded = load(config.layout, Some(config.run_id))?;
    let Some(state) = recorded.state() else {
        return Err(match recorded.log.as_ref().map(|log| log.chain) {
            Some(Chain::Absent) => Failure::workspace(
                "a receipt of contract 2.0 has no chain that somebody else could verify",
            )
            .because("chain_absent"),
            Some(Chain::Present) | None => Failure::workspace(format!(
                "the receipt {} cannot be read",
                recorded.receipt.display()
            ))
            .because("receipt_unreadable"),
        });
    };
    let receipt =
        loopexec_os::durable::read_regular(&recorded.receipt, loopexec_os::durable::LOG_FILE_BYTES)
            .map_err(|error| Failure::workspace(error.to_string()).because("receipt_unreadable"))?;
    let (mut members, withheld, contents) = if config.redact {
        let (bytes, withheld) = redacted::redact(&receipt)?;
        let name = format!("run-{}.redacted.jsonl", state.run_id);
        (vec![Member::new(name, bytes)], withheld, Vec::new())
    } else {
        let (members, contents) = whole(config, &recorded, state, receipt)?;
        (members, 0, contents)
    };
    members.extend(
        config
            .schemas
            .iter()
            .map(|(name, bytes)| Member::new(format!("{SCHEMAS}/{name}.json"), bytes.clone())),
    );
    members.sort_by(|left, right| left.name.cmp(&right.name));
    let bytes = archive::write(config.file, &state.run_id, config.redact, &members)?;
    Ok(Exported {
        run_id: state.run_id.clone(),
        file: config.file.to_owned(),
        members: members.into_iter().map(|member| member.name).collect(),
        bytes,
        withheld,
        contents,
    })
}

/// The members of an export that withholds nothing, and the labels of its contents.
fn whole(
    config: &ExportConfig<'_>,
    recorded: &Recorded,
    state: &RunState,
    receipt: Vec<u8>,
) -> Result<(Vec<Member>, Vec<String>), Failure> {
    let id = &state.run_id;
    let mut members = vec![Member::new(format!("run-{id}.jsonl"), receipt)];
    let mut files = vec![config.layout.state(id), config.layout.summary(id)];
    files.extend(config.layout.signatures(id));
    for file in files {
        if let (Ok(bytes), Some(name)) = (
            loopexec_os::durable::read_regular(&file, loopexec_os::durable::SMALL_FILE_BYTES),
            file.file_name(),
        ) {
            members.push(Member::new(name.to_string_lossy(), bytes));
        }
    }
    let after = after(config.layout, state)?;
    if !after.is_empty() {
        members.push(Member::new(AFTER, after));
    }
    let (_, digest) = report(config.layout, Some(&recorded.run_id))?;
    let mut text = serde_json::to_vec_pretty(&digest)
        .map_err(|error| Failure::internal(error.to_string()).because("defect"))?;
    text.push(b'\n');
    members.push(Member::new(REPORT, text));
    let contents = match contents(config, state)? {
        None => Vec::new(),
        Some((labels, bytes)) => {
            members.push(Member::new(BUNDLE, bytes));
            labels
        }
    };
    Ok((members, contents))
}

/// The acts that concern the run since it ended: acknowledgements of the workspace, and signatures of this receipt.
fn after(layout: &Layout, state: &RunState) -> Result<Vec<u8>, Failure> {
    let log = WorkspaceLog::read(layout)
        .map_err(|error| Failure::invariant(chain(&error)).because("workspace_log_damaged"))?;
    let ended = log
        .acts
        .iter()
        .position(|act| act.event == ActName::RunEnded && act.head == Some(state.head));
    let Some(ended) = ended else {
        return Ok(Vec::new());
    };
    let mut text = Vec::new();
    for act in log.acts.iter().skip(ended) {
        let concerns = match act.event {
            ActName::Ack => true,
            ActName::RunEnded | ActName::Attested | ActName::Raise => act.run_id == state.run_id,
        };
        if concerns {
            let line = serde_json::to_vec(act)
                .map_err(|error| Failure::internal(error.to_string()).because("defect"))?;
            text.extend_from_slice(&line);
            text.push(b'\n');
        }
    }
    Ok(text)
}

/// Labels of contents, and the bundle that holds them.
type Contents = (Vec<String>, Vec<u8>);

/// The contents at the beginning and of an accepted end, as one git bundle; `None` where none was kept.
fn contents(config: &ExportConfig<'_>, state: &RunState) -> Result<Option<Contents>, Failure> {
    let failed = |why: String| {
        Failure::workspace(format!("the kept contents cannot be exported: {why}"))
            .because("content_not_kept")
    };
    if state.t0.is_none() {
        return Ok(None);
    }
    let workspace_config = workspace_config(
        config.layout,
        &state.run_id,
        config.search_path,
        config.excludes_file.clone(),
    );
    let git = workspace_config.git.clone();
    let (workspace, _) =
        Workspace::resume(workspace_config).map_err(|error| failed(chain(&error)))?;
    let store = workspace.store();
    let labels: Vec<&str> = store
        .labels()
        .map(|(label, _)| label)
        .filter(|label| ["t0", "final"].contains(label))
        .collect();
    if labels.is_empty() {
        return Ok(None);
    }
    let place = TempDir::new_in(config.layout.run_directory(&state.run_id))
        .map_err(|error| failed(error.to_string()))?;
    let file = place.path().join(BUNDLE);
    store
        .bundle(git.as_ref(), &labels, &file)
        .map_err(|error: BundleError| failed(chain(&error)))?;
    let bytes = loopexec_os::durable::read_regular(&file, loopexec_os::durable::LOG_FILE_BYTES)
        .map_err(|error| failed(error.to_string()))?;
    Ok(Some((
        labels.into_iter().map(str::to_owned).collect(),
        bytes,
    )))
}
