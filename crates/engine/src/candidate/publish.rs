//! Brings what a store keeps into the repository of the person, under references of the run, and takes it away again.
//!
//! Packs are shared by hard links where the file system allows it. HEAD, branches, index, stash and reflogs are not touched
//! and no hook runs. This module must not know what is in the packs.

use super::layout::{self, Durability, REFERENCE_PREFIX};
use super::object::ObjectId;
use super::store::Store;
use crate::git::{Call, Git, GitError, Repository};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The longest run id that can be part of a reference.
const MAX_RUN_BYTES: usize = 128;

/// Why something could not be published or taken away.
#[derive(Debug, Error)]
pub enum PublishError {
    /// A pack could not be brought over.
    #[error("could not bring the pack {} into the repository", path.display())]
    Pack {
        /// The pack.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Git refused.
    #[error("could not change references of the run")]
    Git(#[from] GitError),
    /// The run id cannot be part of a reference.
    #[error("the run id {run:?} cannot be part of a git reference")]
    Run {
        /// The run id.
        run: String,
    },
    /// Git answered something unknown.
    #[error("git answered {answer:?} where the name of an object was expected")]
    Answer {
        /// What git said.
        answer: String,
    },
}

impl Store {
    /// Makes `commit` reachable in the repository as `refs/loopexec/<run>/<label>`; gives that name.
    ///
    /// # Errors
    /// The packs cannot be brought over, git refuses, or the run id cannot be part of a reference.
    pub fn publish(
        &self,
        git: &Git,
        repository: &Repository,
        run: &str,
        label: &str,
        commit: &ObjectId,
        durability: Durability,
    ) -> Result<String, PublishError> {
        let reference = format!("{}{label}", run_prefix(run)?);
        let from = self.git_dir().join("objects/pack");
        let into = repository.objects().join("pack");
        let failed = |source| PublishError::Pack {
            path: into.clone(),
            source,
        };
        fs_err::create_dir_all(&into).map_err(failed)?;
        let mut names = Vec::new();
        for entry in fs_err::read_dir(&from).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            // What a crash left under another name is no pack.
            if name.as_encoded_bytes().starts_with(b"pack-") {
                names.push(name);
            }
        }
        // A pack before its index, as when they were made.
        for suffix in ["pack", "idx"] {
            let matching = |name: &&OsString| {
                Path::new(name)
                    .extension()
                    .is_some_and(|found| found == suffix)
            };
            for name in names.iter().filter(matching) {
                let path = from.join(name);
                share(&path, &into, name).map_err(|source| PublishError::Pack { path, source })?;
            }
        }
        if durability == Durability::Synced {
            layout::flush([into.as_path()]).map_err(failed)?;
        }
        let flushing = match durability {
            Durability::Synced => "core.fsync=reference",
            Durability::Buffered => "core.fsync=none",
        };
        let commit = commit.to_string();
        let arguments = ["-c", flushing, "update-ref", &reference, &commit];
        git.run(&call(repository, &arguments))?;
        Ok(reference)
    }
}

/// The commit of a reference of the run in the repository, if there is one.
///
/// # Errors
/// Git cannot be asked.
pub fn find_reference(
    git: &Git,
    repository: &Repository,
    run: &str,
    label: &str,
) -> Result<Option<ObjectId>, PublishError> {
    let reference = format!("{}{label}", run_prefix(run)?);
    let output = git
        .start(&call(
            repository,
            &["rev-parse", "--verify", "--quiet", &reference],
        ))?
        .wait()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.success {
        return Ok(None);
    }
    ObjectId::from_hex(&text)
        .map(Some)
        .ok_or(PublishError::Answer { answer: text })
}

/// The labels that the run has in the repository, sorted.
///
/// # Errors
/// Git cannot be asked.
pub fn published_labels(
    git: &Git,
    repository: &Repository,
    run: &str,
) -> Result<Vec<String>, PublishError> {
    let prefix = run_prefix(run)?;
    let stdout = git.run(&call(
        repository,
        &["for-each-ref", "--format=%(refname)", &prefix],
    ))?;
    let text = String::from_utf8_lossy(&stdout);
    Ok(text
        .lines()
        .filter_map(|name| name.strip_prefix(&prefix))
        .map(str::to_owned)
        .collect())
}

/// Removes all references of the run from the repository; gives the labels that were there. The content goes when git next
/// cleans up.
///
/// # Errors
/// Git cannot be asked or refuses.
pub fn remove_references(
    git: &Git,
    repository: &Repository,
    run: &str,
) -> Result<Vec<String>, PublishError> {
    let prefix = run_prefix(run)?;
    let labels = published_labels(git, repository, run)?;
    for label in &labels {
        git.run(&call(
            repository,
            &["update-ref", "-d", &format!("{prefix}{label}")],
        ))?;
    }
    Ok(labels)
}

/// Where the references of a run are.
fn run_prefix(run: &str) -> Result<String, PublishError> {
    let plain = run
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let fits = (1..=MAX_RUN_BYTES).contains(&run.len());
    let allowed = !run.starts_with(['.', '-'])
        && !run.ends_with('.')
        && !run.contains("..")
        && !run.ends_with(".lock");
    if plain && fits && allowed {
        Ok(format!("{REFERENCE_PREFIX}{run}/"))
    } else {
        Err(PublishError::Run {
            run: run.to_owned(),
        })
    }
}

fn call<'a>(repository: &'a Repository, arguments: &[&str]) -> Call<'a> {
    Call {
        git_dir: Some(&repository.git_dir),
        work_tree: None,
        index_file: None,
        arguments: arguments.iter().map(OsString::from).collect(),
    }
}

/// Links a file into a directory, or copies it where links cannot reach.
fn share(path: &Path, into: &Path, name: &OsString) -> io::Result<()> {
    let target = into.join(name);
    if target.symlink_metadata().is_ok() || fs_err::hard_link(path, &target).is_ok() {
        return Ok(());
    }
    let temporary = into.join(format!("tmp_loopexec_{}", std::process::id()));
    fs_err::copy(path, &temporary)?;
    fs_err::File::open(&temporary)?.sync_all()?;
    fs_err::rename(&temporary, &target)
}
