//! One workspace with its store, from the beginning of a run to its end: the face of `candidate` to the rest of the engine.
//!
//! It binds repository, rules, scanner and store together, so that a caller cannot mix those of two runs. This module must not
//! know records, policies or the loop.

use super::index::{self, IndexEntry, IndexError, Inspection};
use super::layout::Durability;
use super::manifest::{Content, Manifest};
use super::object::{Object, ObjectFormat, ObjectId, ObjectKind, TreeMode};
use super::publish::{self, PublishError};
use super::restore::{RestoreError, RestoreReport};
use super::rules::{IgnoreRules, RuleSource, RulesError};
use super::scan::{ScanError, Scanner};
use super::store::{Extra, Saved, Store, StoreError};
use super::trees;
use crate::git::{Git, GitError, Repository, RepositoryError};
use std::collections::HashSet;
use std::path::PathBuf;
use thiserror::Error;

/// The label of the content at the beginning of a run.
pub const BEGINNING: &str = "t0";

/// What is kept beside a content, by name in the tree of its commit.
pub(super) const INDEX_TREE: &str = "index";
pub(super) const INDEX_RAW: &str = "index.raw";
pub(super) const INDEX_SHARED: &str = "index.shared";
pub(super) const RULES: &str = "rules";

/// The mode of a submodule in an index.
const GITLINK_MODE: u32 = 0o160000;

/// Where a workspace is, and with what it is read.
#[derive(Debug, Clone)]
pub struct WorkspaceConfig {
    /// The directory whose content is the candidate.
    pub directory: PathBuf,
    /// The private directory of the run, on the same file system where possible.
    pub run_directory: PathBuf,
    /// The id of the run, which names its references.
    pub run: String,
    /// The git program; needed only where the workspace is in a repository.
    pub git: Option<Git>,
    /// The person's own ignore file, if git would use one.
    pub excludes_file: Option<PathBuf>,
    /// Whether what is kept must outlive a loss of power.
    pub durability: Durability,
}

/// A workspace under the care of a run.
#[derive(Debug)]
pub struct Workspace {
    config: WorkspaceConfig,
    repository: Option<Repository>,
    store: Store,
    scanner: Scanner,
}

/// What was there at the beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Baseline {
    /// Where it is kept.
    pub saved: Saved,
    /// Everything that was there.
    pub manifest: Manifest,
    /// The reference in the repository of the person; none without one.
    pub reference: Option<String>,
    /// The commit that HEAD named; none without a repository or before the first commit.
    pub head: Option<ObjectId>,
    /// Whether the content, byte for byte, or the index was another than that of HEAD. Untracked files count; so does a checkout
    /// that converts content. `false` without a repository.
    pub dirty: bool,
    /// The tree of the index; none without one, or while paths were unmerged.
    pub index_tree: Option<ObjectId>,
}

/// Why the care of a workspace failed.
#[derive(Debug, Error)]
pub enum WorkspaceError {
    /// The repository could not be found.
    #[error("could not find out whether {} is in a git repository", path.display())]
    Repository {
        /// The workspace.
        path: PathBuf,
        /// Why not.
        source: RepositoryError,
    },
    /// The repository or its index could not be read or put back.
    #[error("could not handle the git index")]
    Index(#[from] IndexError),
    /// The workspace is in a repository and there is no git.
    #[error("the workspace is in a git repository")]
    Git(#[from] GitError),
    /// The ignore rules could not be read.
    #[error("could not read the ignore rules")]
    Rules(#[from] RulesError),
    /// The workspace could not be read.
    #[error("could not read the workspace")]
    Scan(#[from] ScanError),
    /// The store failed.
    #[error("could not keep or find content")]
    Store(#[from] StoreError),
    /// The content could not be published.
    #[error("could not record content in the repository")]
    Publish(#[from] PublishError),
    /// The content could not be brought back.
    #[error("could not bring content back")]
    Restore(#[from] RestoreError),
    /// There is nothing to go back to.
    #[error("run {run} kept no content of the beginning, neither in {} nor in the repository", directory.display())]
    NoBeginning {
        /// The run.
        run: String,
        /// Its private directory.
        directory: PathBuf,
    },
}

impl Workspace {
    /// Takes a workspace into care at the beginning of a run: reads the rules and keeps worktree and index.
    ///
    /// # Errors
    /// Something cannot be read or kept; nothing of the workspace was changed.
    pub fn begin(config: WorkspaceConfig) -> Result<(Self, Baseline), WorkspaceError> {
        let repository = discover(&config)?;
        let inspection = inspect(&config, repository.as_ref())?;
        let format = inspection
            .as_ref()
            .map_or(ObjectFormat::Sha1, |inspection| inspection.format);
        let store = open_store(&config, repository.as_ref(), format)?;
        let entries = inspection
            .as_ref()
            .and_then(|inspection| inspection.index.as_ref());
        let tracked: Vec<_> = entries
            .iter()
            .flat_map(|index| &index.entries)
            .map(|entry| entry.path.clone())
            .collect();
        let source = repository.as_ref().map(|repository| RuleSource {
            repository,
            excludes_file: config.excludes_file.as_deref(),
            tracked: &tracked,
        });
        let rules = IgnoreRules::read(&config.directory, source.as_ref())?;
        let scanner = Scanner::open(&config.directory, rules, format)?;
        let mut workspace = Workspace {
            config,
            repository,
            store,
            scanner,
        };
        let baseline = workspace.keep(BEGINNING, inspection)?;
        Ok((workspace, baseline))
    }

    /// Takes up a workspace again, with the rules of the beginning; gives the content of the beginning too.
    ///
    /// # Errors
    /// The run kept nothing, or it cannot be read.
    pub fn resume(config: WorkspaceConfig) -> Result<(Self, Saved), WorkspaceError> {
        let repository = discover(&config)?;
        let published = match &repository {
            Some(repository) => {
                publish::find_reference(needed_git(&config)?, repository, &config.run, BEGINNING)?
            }
            None => None,
        };
        let own = Store::format_of(&config.run_directory)?;
        let format = own.or(published.map(|commit| commit.format()));
        let format = format.unwrap_or(ObjectFormat::Sha1);
        let mut store = open_store(&config, repository.as_ref(), format)?;
        let git = config.git.as_ref();
        let kept = store.find(git, BEGINNING)?;
        // The repository serves where the private directory was lost.
        let beginning = match (kept, published) {
            (Some(saved), _) => saved,
            (None, Some(commit)) => store.describe(git, &commit)?,
            (None, None) => {
                let (run, directory) = (config.run.clone(), config.run_directory.clone());
                return Err(WorkspaceError::NoBeginning { run, directory });
            }
        };
        let rules =
            IgnoreRules::decode(&store.read_named(git, &beginning.commit, RULES.as_bytes())?)?;
        if let (Some(repository), Some(_)) = (&repository, published) {
            let leaves = store
                .source(git)
                .leaves(&beginning.tree)
                .map_err(StoreError::from)?;
            store.rely_on(&repository.objects(), leaves.into_values());
        }
        let scanner = Scanner::open(&config.directory, rules, format)?;
        Ok((
            Workspace {
                config,
                repository,
                store,
                scanner,
            },
            beginning,
        ))
    }

    /// What the workspace holds now.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn scan(&mut self) -> Result<Manifest, WorkspaceError> {
        Ok(self.scanner.scan()?)
    }

    /// Keeps what was just scanned under a label of the run's own store.
    ///
    /// # Errors
    /// A file changed meanwhile, or the store cannot be written.
    pub fn save(&mut self, manifest: &Manifest, label: &str) -> Result<Saved, WorkspaceError> {
        Ok(self
            .store
            .save(&self.scanner, manifest, label, self.config.durability)?)
    }

    /// Records a kept content in the repository, when there is one; gives the reference.
    ///
    /// # Errors
    /// Git refuses or cannot be asked.
    pub fn publish(
        &self,
        label: &str,
        commit: &ObjectId,
    ) -> Result<Option<String>, WorkspaceError> {
        let Some(repository) = &self.repository else {
            return Ok(None);
        };
        let (git, config) = (needed_git(&self.config)?, &self.config);
        Ok(Some(self.store.publish(
            git,
            repository,
            &config.run,
            label,
            commit,
            config.durability,
        )?))
    }

    /// Brings the workspace to a kept content; the index stays as it is.
    ///
    /// # Errors
    /// As [`Store::restore`].
    pub fn restore(&mut self, saved: &Saved) -> Result<RestoreReport, WorkspaceError> {
        Ok(self
            .store
            .restore(self.config.git.as_ref(), &mut self.scanner, saved)?)
    }

    /// The store of the run.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The scanner, for instance to make it forget before a replay.
    pub fn scanner(&mut self) -> &mut Scanner {
        &mut self.scanner
    }

    /// The repository the workspace lies in.
    pub fn repository(&self) -> Option<&Repository> {
        self.repository.as_ref()
    }

    pub(super) fn config(&self) -> &WorkspaceConfig {
        &self.config
    }

    /// Keeps worktree and index as they are now, and records them in the repository.
    pub(super) fn keep_present(&mut self, label: &str) -> Result<Baseline, WorkspaceError> {
        let inspection = inspect(&self.config, self.repository.as_ref())?;
        self.keep(label, inspection)
    }

    fn keep(
        &mut self,
        label: &str,
        inspection: Option<Inspection>,
    ) -> Result<Baseline, WorkspaceError> {
        let manifest = self.scanner.scan()?;
        let mut extras = vec![Extra::Blob(RULES, self.scanner.rules().encode())];
        let mut facts = (None, false, None);
        if let (Some(inspection), Some(repository)) = (inspection, &self.repository) {
            let dirty = is_dirty(&inspection, &manifest, &self.scanner);
            let head = inspection.head.map(|(commit, _)| commit);
            facts = (
                head,
                dirty,
                inspection.index.as_ref().and_then(|index| index.tree),
            );
            if let Some(index) = inspection.index {
                // The commit holds the tree of the index; only then are its objects pinned and need not be kept twice.
                if let Some(tree) = index.tree {
                    let ids = index
                        .entries
                        .iter()
                        .filter(|entry| entry.mode != GITLINK_MODE)
                        .map(|entry| entry.id);
                    self.store.rely_on(&repository.objects(), ids);
                    extras.push(Extra::Tree(INDEX_TREE, tree));
                }
                if let Some((name, bytes)) = index.shared {
                    extras.push(Extra::Blob(
                        INDEX_SHARED,
                        [name.as_bytes(), b"\n", &bytes].concat(),
                    ));
                }
                extras.push(Extra::Blob(INDEX_RAW, index.raw));
            }
        }
        let saved = self.store.save_with(
            &self.scanner,
            &manifest,
            label,
            self.config.durability,
            extras,
        )?;
        let reference = self.publish(label, &saved.commit)?;
        let (head, dirty, index_tree) = facts;
        Ok(Baseline {
            saved,
            manifest,
            reference,
            head,
            dirty,
            index_tree,
        })
    }
}

/// The repository of a workspace, found from its directory.
fn discover(config: &WorkspaceConfig) -> Result<Option<Repository>, WorkspaceError> {
    let failed = |source| WorkspaceError::Repository {
        path: config.directory.clone(),
        source,
    };
    Repository::discover(&config.directory).map_err(failed)
}

fn needed_git(config: &WorkspaceConfig) -> Result<&Git, WorkspaceError> {
    config
        .git
        .as_ref()
        .ok_or(WorkspaceError::Git(GitError::NotFound))
}

fn inspect(
    config: &WorkspaceConfig,
    repository: Option<&Repository>,
) -> Result<Option<Inspection>, WorkspaceError> {
    let Some(repository) = repository else {
        return Ok(None);
    };
    Ok(Some(index::inspect(
        needed_git(config)?,
        repository,
        &config.run_directory,
    )?))
}

fn open_store(
    config: &WorkspaceConfig,
    repository: Option<&Repository>,
    format: ObjectFormat,
) -> Result<Store, WorkspaceError> {
    let objects = repository.map(Repository::objects);
    Ok(Store::open(
        &config.run_directory,
        format,
        objects.as_deref(),
    )?)
}

/// Whether the content or the index is another than that of HEAD.
fn is_dirty(inspection: &Inspection, manifest: &Manifest, scanner: &Scanner) -> bool {
    let none = Vec::new();
    let index = inspection.index.as_ref();
    let entries = index.map_or(&none, |index| &index.entries);
    let staged = match (index, &inspection.head) {
        (None, None) => false,
        (None, Some(_)) => true,
        (Some(index), None) => !index.entries.is_empty(),
        (Some(index), Some((_, tree))) => index.tree.as_ref() != Some(tree),
    };
    let tracked: HashSet<_> = entries.iter().map(|entry| entry.path.as_slice()).collect();
    let is_untracked = |path: &[u8]| !tracked.contains(path) && !is_in_submodule(path, &tracked);
    staged
        || entries
            .iter()
            .any(|entry| !is_as_indexed(entry, manifest, scanner))
        || manifest
            .entries
            .iter()
            .any(|entry| entry.content != Content::Directory && is_untracked(&entry.path))
}

/// Whether a directory above the path is a submodule, which an index lists as one entry.
fn is_in_submodule(path: &[u8], tracked: &HashSet<&[u8]>) -> bool {
    memchr::memchr_iter(b'/', path)
        .filter_map(|end| path.get(..end))
        .any(|above| tracked.contains(above))
}

fn is_as_indexed(indexed: &IndexEntry, manifest: &Manifest, scanner: &Scanner) -> bool {
    if indexed.mode == GITLINK_MODE {
        return true;
    }
    let Some(entry) = manifest.get(&indexed.path) else {
        return indexed.skipped;
    };
    let id = match &entry.content {
        Content::Directory => None,
        Content::File { sha256, .. } => scanner.blob(sha256),
        Content::Symlink { target } => {
            Some(Object::new(scanner.format(), ObjectKind::Blob, target.clone()).id)
        }
    };
    let mode = match trees::tree_mode(entry) {
        Some(TreeMode::Executable) => 0o100755,
        Some(TreeMode::File) => 0o100644,
        Some(TreeMode::Symlink) => 0o120000,
        Some(TreeMode::Directory | TreeMode::Gitlink) | None => 0,
    };
    id == Some(indexed.id) && mode == indexed.mode && !indexed.unmerged
}

#[cfg(test)]
mod tests;
