//! A person's acknowledgement: what the loops of a workspace changed since the last one, and that somebody has read it.
//!
//! Must not touch a receipt or its signature: an acknowledgement is an act in the workspace log.

use std::{ffi::OsStr, path::PathBuf};

use loopexec_core::{
    digest::Digest,
    workspace::{ActName, Debt},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    candidate::{Manifest, escape},
    failure::{Failure, chain},
    git::Git,
    kept,
    layout::Layout,
    log::{NewAct, WorkspaceLog},
    recorded,
    run::{hold, settle_latest},
    verify::{Surroundings, present},
};

/// Longest name of a reviewer, bytes: it is a name, not a text.
const REVIEWER_BYTES_MAX: usize = 200;

/// What is asked for.
#[derive(Debug)]
pub struct AckConfig<'a> {
    /// The workspace.
    pub layout: &'a Layout,
    /// The run that the act names; the latest by default.
    pub run_id: Option<&'a str>,
    /// Where `git` is looked for.
    pub search_path: Option<&'a OsStr>,
    /// The person's own ignore file of git.
    pub excludes_file: Option<PathBuf>,
}

/// What nobody has acknowledged yet, or has just been acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Acknowledgement {
    /// The run that the act names.
    #[serde(skip)]
    pub run_id: String,
    /// Who acknowledged; absent when it was only shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reviewer: Option<String>,
    /// Iterations that it clears.
    pub iterations: u32,
    /// Runs that they belong to, sorted.
    pub runs: Vec<String>,
    /// Digest of the content at the acknowledgement before, or at the first t0 since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_sha256: Option<String>,
    /// Digest of the content at the end of the latest run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_sha256: Option<String>,
    /// Digest of the difference, as its lines with a newline each; absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference_sha256: Option<String>,
    /// `M` changed, `A` added, `D` removed, and the path; sorted by path.
    pub difference: Vec<String>,
    /// Whether both contents are known, so that the difference is all of it.
    pub known: bool,
}

/// What nobody has acknowledged yet.
///
/// # Errors
///
/// When no run is recorded, or the workspace log is damaged.
pub fn show(config: &AckConfig<'_>) -> Result<Acknowledgement, Failure> {
    let run_id = recorded::run_id(config.layout, config.run_id)?;
    recorded::load(config.layout, Some(&run_id))?;
    let debt = debt(config.layout)?;
    Ok(open(config, run_id, &debt).0)
}

/// Acknowledges it.
///
/// # Errors
///
/// As [`show`]; the name is none; or the act cannot be recorded.
pub fn acknowledge(config: &AckConfig<'_>, reviewer: &str) -> Result<Acknowledgement, Failure> {
    let reviewer = reviewer.trim();
    if reviewer.is_empty()
        || reviewer.len() > REVIEWER_BYTES_MAX
        || reviewer.chars().any(char::is_control)
    {
        return Err(Failure::workspace(format!(
            "{reviewer:?} is no reviewer's name: it has to be 1 to {REVIEWER_BYTES_MAX} printable bytes"
        ))
        .because("reviewer_missing"));
    }
    let run_id = recorded::run_id(config.layout, config.run_id)?;
    recorded::load(config.layout, Some(&run_id))?;
    // The iterations of a run whose process died are not in the workspace log yet; those of a live one are not over.
    if let Ok(_held) = hold(config.layout, &run_id) {
        settle_latest(config.layout)?;
    }
    let debt = debt(config.layout)?;
    let (mut acknowledgement, latest) = open(config, run_id.clone(), &debt);
    let mut act = NewAct::new(ActName::Ack, &run_id);
    act.fields.reviewer = Some(reviewer.to_owned());
    act.fields.iterations = Some(acknowledgement.iterations);
    act.fields.from_sha256 = debt.acknowledged.or(debt.first_t0);
    act.fields.to_sha256 = debt.latest;
    act.fields.difference_sha256 = acknowledgement
        .difference_sha256
        .as_deref()
        .and_then(Digest::from_hex);
    let layout = config.layout;
    WorkspaceLog::append(layout, act).map_err(|error| {
        Failure::workspace(format!(
            "the acknowledgement could not be recorded: {}",
            chain(&error)
        ))
        .because("workspace_log_unusable")
    })?;
    if let Some(manifest) = latest {
        // Without it the next difference cannot be told; what was acknowledged is recorded by its digest all the same.
        let _ = kept::remember(layout, &run_id, &manifest);
    }
    acknowledgement.reviewer = Some(reviewer.to_owned());
    Ok(acknowledgement)
}

fn debt(layout: &Layout) -> Result<Debt, Failure> {
    WorkspaceLog::read(layout)
        .map(|log| log.debt())
        .map_err(|error| Failure::invariant(chain(&error)).because("workspace_log_damaged"))
}

/// What is open, and the manifest of the latest content where it is known.
fn open(
    config: &AckConfig<'_>,
    run_id: String,
    debt: &Debt,
) -> (Acknowledgement, Option<Manifest>) {
    let from = debt.acknowledged.or(debt.first_t0);
    let to = debt.latest;
    let latest = to.and_then(|digest| content(config, digest));
    let difference = match (from, to, &latest) {
        (None, None, _) => Some(Vec::new()),
        (Some(from), Some(to), _) if from == to => Some(Vec::new()),
        (Some(from), Some(_), Some(latest)) => {
            content(config, from).map(|from| lines(&from, latest))
        }
        (Some(_), Some(_), None) | (None, Some(_), _) | (Some(_), None, _) => None,
    };
    let acknowledgement = Acknowledgement {
        run_id,
        reviewer: None,
        iterations: debt.iterations(),
        runs: debt.runs().map(str::to_owned).collect(),
        from_sha256: from.map(|digest| digest.to_string()),
        to_sha256: to.map(|digest| digest.to_string()),
        difference_sha256: difference.as_deref().map(digest_of),
        known: difference.is_some(),
        difference: difference.unwrap_or_default(),
    };
    (acknowledgement, latest)
}

/// A content by its digest: as some run kept it, or as it lies in the workspace.
fn content(config: &AckConfig<'_>, digest: Digest) -> Option<Manifest> {
    let git = config.search_path.and_then(|path| Git::find(path).ok());
    kept::manifest(config.layout, git.as_ref(), digest).or_else(|| {
        let latest = recorded::load(config.layout, None).ok()?;
        let surroundings = Surroundings {
            layout: config.layout,
            search_path: config.search_path,
            excludes_file: config.excludes_file.clone(),
        };
        present(latest.state()?, &surroundings)
            .ok()
            .filter(|manifest| manifest.digest() == digest.to_string())
    })
}

/// The difference of two contents, sorted by path.
fn lines(from: &Manifest, to: &Manifest) -> Vec<String> {
    let changes = from.diff(to);
    let mut all: Vec<(&[u8], char)> = Vec::new();
    for (sign, paths) in [
        ('M', &changes.changed),
        ('A', &changes.added),
        ('D', &changes.removed),
    ] {
        all.extend(paths.iter().map(|path| (path.as_slice(), sign)));
    }
    all.sort_unstable();
    all.into_iter()
        .map(|(path, sign)| format!("{sign} {}", escape::escape(path)))
        .collect()
}

fn digest_of(lines: &[String]) -> String {
    let mut text = lines.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    Digest::of(text.as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::manifest::{Content, Entry};

    fn manifest(entries: &[(&str, u16)]) -> Manifest {
        Manifest {
            entries: entries
                .iter()
                .map(|(path, mode)| Entry {
                    path: path.as_bytes().to_vec(),
                    mode: *mode,
                    content: Content::Directory,
                })
                .collect(),
            special: Vec::new(),
        }
    }

    #[test]
    fn a_difference_is_sorted_by_path_whatever_kind_each_change_is() {
        let from = manifest(&[("a", 0o700), ("b", 0o700), ("d", 0o700)]);
        let to = manifest(&[("a", 0o755), ("c", 0o700), ("d", 0o700)]);
        assert_eq!(lines(&from, &to), ["M a", "D b", "A c"]);
        assert_eq!(lines(&from, &from), Vec::<String>::new());
    }

    #[test]
    fn a_workspace_without_runs_owes_nothing_and_has_nothing_to_acknowledge() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path(), None);
        let config = AckConfig {
            layout: &layout,
            run_id: None,
            search_path: None,
            excludes_file: None,
        };
        assert_eq!(show(&config).unwrap_err().cause, Some("run_not_found"));
        let failure = acknowledge(&config, " \n").unwrap_err();
        assert_eq!(failure.cause, Some("reviewer_missing"));
    }
}
