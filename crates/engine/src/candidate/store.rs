//! Keeps contents of a workspace, each with its manifest, as objects in a git directory of the governor's own.
//!
//! Each content is a commit whose tree holds `worktree` (what git can hold), `manifest` (all of it, exactly) and, at the
//! beginning of a run, the index. What is new goes into one pack; what is kept already, or lies in the repository of the person
//! and is pinned there, is not written again. This module must not know how a workspace is read or written.

use super::beside::Beside;
use super::layout::{self, Durability, REFERENCE_PREFIX};
use super::manifest::{Content, Entry, Manifest, ManifestError, Sha256Bytes};
use super::object::{Object, ObjectFormat, ObjectId, ObjectKind, TreeLine, TreeMode};
use super::pack::{PackFile, PackWriter};
use super::scan::{self, Scanner};
use super::source::{self, ObjectError, ObjectSource, Pack};
use super::trees;
use crate::git::Git;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The longest label; it becomes a file name and part of a reference.
pub const MAX_LABEL_BYTES: usize = 64;

/// The names in the tree of a commit.
const WORKTREE: &[u8] = b"worktree";
const MANIFEST: &[u8] = b"manifest";

/// The store of one run.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    git_dir: PathBuf,
    format: ObjectFormat,
    packs: Vec<Pack>,
    references: BTreeMap<String, ObjectId>,
    /// Objects that lie in the repository beside and are pinned there.
    elsewhere: HashSet<ObjectId>,
    /// Files that were written and not flushed.
    unflushed: Vec<PathBuf>,
}

/// A content that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The commit that holds everything.
    pub commit: ObjectId,
    /// The tree of the files, as git would name it.
    pub tree: ObjectId,
    /// SHA-256 of the encoded manifest, lower-case hex.
    pub manifest_sha256: String,
}

/// Something that is kept beside a content under a name of its own.
#[derive(Debug, Clone)]
pub(super) enum Extra {
    /// Bytes.
    Blob(&'static str, Vec<u8>),
    /// A tree that is in the repository beside.
    Tree(&'static str, ObjectId),
}

/// What a store takes on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskUsage {
    /// Regular files.
    pub files: u64,
    /// Bytes allocated for them. Packs that the repository of the person shares are counted here.
    pub bytes: u64,
}

/// Why a content could not be kept or found.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A file of the store could not be read or written.
    #[error("could not {action} in the store {}", path.display())]
    File {
        /// What was attempted.
        action: &'static str,
        /// The store or the file in it.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of the workspace could not be read again.
    #[error("could not keep {}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is another one than the manifest says.
    #[error("{} changed after it was scanned; end what writes to it", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// An object could not be had.
    #[error("the store is incomplete")]
    Object(#[from] ObjectError),
    /// The manifest of a content is damaged.
    #[error("the manifest of commit {commit} is damaged")]
    Manifest {
        /// The commit.
        commit: ObjectId,
        /// What is wrong with it.
        source: ManifestError,
    },
    /// The commit is none of ours.
    #[error("commit {commit} holds no `{name}`; it is no candidate")]
    NoCandidate {
        /// The commit.
        commit: ObjectId,
        /// What is missing.
        name: String,
    },
    /// A label that cannot be a file name and a reference.
    #[error("the label {label:?} is not 1 to {MAX_LABEL_BYTES} of a-z, 0-9, `-` and `_`")]
    Label {
        /// The label.
        label: String,
    },
}

impl Store {
    /// Opens the store of a run in its private directory, and makes it there when there is none. `objects` is the object
    /// directory of the repository of the person.
    ///
    /// # Errors
    /// The directory cannot be made or read.
    pub fn open(
        directory: &Path,
        format: ObjectFormat,
        objects: Option<&Path>,
    ) -> Result<Self, StoreError> {
        let git_dir = directory.join("git");
        let failed = |action| {
            let path = git_dir.clone();
            move |source| StoreError::File {
                action,
                path,
                source,
            }
        };
        layout::create(&git_dir, format, objects).map_err(failed("make a repository"))?;
        let packs =
            Pack::load_all(&git_dir.join("objects"), format).map_err(failed("read the packs"))?;
        let references =
            layout::read_references(&git_dir).map_err(failed("read the references"))?;
        let elsewhere = HashSet::new();
        Ok(Store {
            directory: directory.to_owned(),
            git_dir,
            format,
            packs,
            references,
            elsewhere,
            unflushed: Vec::new(),
        })
    }

    /// Opens a store that is there already; makes nothing.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open_existing(directory: &Path) -> Result<Option<Self>, StoreError> {
        match Self::format_of(directory)? {
            Some(format) => Self::open(directory, format, None).map(Some),
            None => Ok(None),
        }
    }

    /// The hash of a store that is there already, as its references tell.
    pub(super) fn format_of(directory: &Path) -> Result<Option<ObjectFormat>, StoreError> {
        let git_dir = directory.join("git");
        let references = layout::read_references(&git_dir).map_err(|source| StoreError::File {
            action: "read the references",
            path: git_dir,
            source,
        })?;
        Ok(references.values().next().map(ObjectId::format))
    }

    /// The git directory, for reading commands of git.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The hash that names its objects.
    pub fn format(&self) -> ObjectFormat {
        self.format
    }

    /// The labels of what is kept, sorted, with their commits.
    pub fn labels(&self) -> impl Iterator<Item = (&str, ObjectId)> {
        self.references
            .iter()
            .filter_map(|(name, id)| Some((name.strip_prefix(REFERENCE_PREFIX)?, *id)))
    }

    /// Keeps what `scanner` has just read as `manifest`, under `label`.
    ///
    /// # Errors
    /// A file cannot be read or is another one by now, the store cannot be written, or the label is refused.
    pub fn save(
        &mut self,
        scanner: &Scanner,
        manifest: &Manifest,
        label: &str,
        durability: Durability,
    ) -> Result<Saved, StoreError> {
        self.save_with(scanner, manifest, label, durability, Vec::new())
    }

    /// The content of a label.
    ///
    /// # Errors
    /// The store is damaged.
    pub fn find(&self, git: Option<&Git>, label: &str) -> Result<Option<Saved>, StoreError> {
        let commit = self.references.get(&format!("{REFERENCE_PREFIX}{label}"));
        commit.map(|commit| self.describe(git, commit)).transpose()
    }

    /// The content of a commit of ours, also of one that lies in the repository beside.
    ///
    /// # Errors
    /// The commit is not there or is none of ours.
    pub fn describe(&self, git: Option<&Git>, commit: &ObjectId) -> Result<Saved, StoreError> {
        let manifest_sha256 =
            super::manifest::hex(&Sha256::digest(self.read_named(git, commit, MANIFEST)?));
        let tree = self.named(&mut self.source(git), commit, WORKTREE)?;
        Ok(Saved {
            commit: *commit,
            tree,
            manifest_sha256,
        })
    }

    /// The manifest of a content.
    ///
    /// # Errors
    /// It is missing or damaged.
    pub fn manifest(&self, git: Option<&Git>, commit: &ObjectId) -> Result<Manifest, StoreError> {
        let bytes = self.read_named(git, commit, MANIFEST)?;
        Manifest::decode(&bytes).map_err(|source| StoreError::Manifest {
            commit: *commit,
            source,
        })
    }

    /// What the store takes on the disk.
    ///
    /// # Errors
    /// A directory of it cannot be read.
    pub fn disk_usage(&self) -> Result<DiskUsage, StoreError> {
        let mut usage = DiskUsage::default();
        let mut open = vec![self.git_dir.clone()];
        while let Some(directory) = open.pop() {
            let failed = |source| StoreError::File {
                action: "measure",
                path: directory.clone(),
                source,
            };
            for entry in fs_err::read_dir(&directory).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let found = entry.metadata().map_err(failed)?;
                if found.is_dir() {
                    open.push(entry.path());
                } else {
                    usage.files += 1;
                    usage.bytes += found.blocks() * 512;
                }
            }
        }
        Ok(usage)
    }

    /// Notes objects of the repository beside that are pinned there and need not be kept here. Those that are not really there
    /// are passed over.
    pub(super) fn rely_on(&mut self, objects: &Path, ids: impl IntoIterator<Item = ObjectId>) {
        let beside = Beside::open(objects, self.format);
        self.elsewhere
            .extend(ids.into_iter().filter(|id| beside.contains(id)));
    }

    pub(super) fn packs(&self) -> &[Pack] {
        &self.packs
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn source<'a>(&'a self, git: Option<&'a Git>) -> ObjectSource<'a> {
        ObjectSource::new(&self.packs, &self.git_dir, git)
    }

    /// The bytes kept under a name beside a content.
    pub(super) fn read_named(
        &self,
        git: Option<&Git>,
        commit: &ObjectId,
        name: &[u8],
    ) -> Result<Vec<u8>, StoreError> {
        let mut source = self.source(git);
        let id = self.named(&mut source, commit, name)?;
        Ok(source.bytes(&id, ObjectKind::Blob)?)
    }

    /// As [`Store::read_named`], where the name may be absent.
    pub(super) fn read_optional(
        &self,
        git: Option<&Git>,
        commit: &ObjectId,
        name: &[u8],
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let mut source = self.source(git);
        let tree = source.commit_tree(commit)?;
        let lines = source.tree(&tree)?;
        let found = lines.iter().find(|line| line.name == name);
        Ok(found
            .map(|line| source.bytes(&line.id, ObjectKind::Blob))
            .transpose()?)
    }

    /// [`Store::save`] with more in the commit.
    pub(super) fn save_with(
        &mut self,
        scanner: &Scanner,
        manifest: &Manifest,
        label: &str,
        durability: Durability,
        extras: Vec<Extra>,
    ) -> Result<Saved, StoreError> {
        check_label(label)?;
        let format = self.format;
        let built = trees::build(format, manifest, |sha256| scanner.blob(sha256));
        // The digests of a manifest that this scanner did not make have no names here.
        let built = built.map_err(|path| StoreError::Changed {
            path: scanner.root().display(&path),
        })?;
        let encoded = manifest.encode();
        let manifest_sha256 = super::manifest::hex(&Sha256::digest(&encoded));
        let extras = std::iter::once(Extra::Blob("manifest", encoded)).chain(extras);
        let (tree, mut objects) = (built.top, built.objects);
        let commit = compose(format, tree, extras, &mut objects);
        let reference = format!("{REFERENCE_PREFIX}{label}");
        let is_kept = self.references.get(&reference) == Some(&commit);
        if !is_kept {
            self.write_pack(scanner, manifest, objects)?;
            self.references.insert(reference, commit);
            let written = layout::write_references(&self.git_dir, &self.references);
            written.map_err(|source| self.error("write the references", source))?;
            self.unflushed.push(self.git_dir.join("packed-refs"));
        }
        if durability == Durability::Synced {
            self.flush()?;
        }
        Ok(Saved {
            commit,
            tree,
            manifest_sha256,
        })
    }

    /// Flushes all that was written since the last time; what was kept before may be what the latest content needs.
    fn flush(&mut self) -> Result<(), StoreError> {
        if self.unflushed.is_empty() {
            return Ok(());
        }
        let objects = self.git_dir.join("objects");
        let packs = objects.join("pack");
        let always = [&packs, &objects, &self.git_dir, &self.directory];
        let paths = self.unflushed.iter().chain(always).map(PathBuf::as_path);
        layout::flush(paths).map_err(|source| self.error("flush", source))?;
        self.unflushed.clear();
        Ok(())
    }

    /// Writes what is not kept yet as one pack.
    fn write_pack(
        &mut self,
        scanner: &Scanner,
        manifest: &Manifest,
        objects: Vec<Object>,
    ) -> Result<(), StoreError> {
        let mut fresh = HashSet::new();
        let mut is_new = |id: &ObjectId| {
            !self.elsewhere.contains(id)
                && source::find(&self.packs, id).is_none()
                && fresh.insert(*id)
        };
        let objects: Vec<_> = objects
            .into_iter()
            .filter(|object| is_new(&object.id))
            .collect();
        let mut files = Vec::new();
        for entry in &manifest.entries {
            if let Content::File { size, sha256 } = &entry.content
                && let Some(id) = scanner.blob(sha256).filter(|id| is_new(id))
            {
                files.push((entry, *size, *sha256, id));
            }
        }
        if objects.is_empty() && files.is_empty() {
            return Ok(());
        }
        let directory = self.git_dir.join("objects/pack");
        // Both numbers are below the limit of entries and some.
        let count = u32::try_from(objects.len() + files.len()).unwrap_or(u32::MAX);
        let begun = PackFile::begin(&directory, self.format, count);
        let mut pack = begun.map_err(|source| self.error("begin a pack", source))?;
        let mut parents = scanner.root().parents();
        let mut buffer = vec![0; 256 << 10];
        let mut write = || {
            for (entry, size, sha256, id) in &files {
                add_file(
                    pack.writer(),
                    scanner,
                    &mut parents,
                    &mut buffer,
                    entry,
                    (*size, *sha256, *id),
                )?;
            }
            for object in &objects {
                pack.writer()
                    .add(object)
                    .map_err(|source| self.error("write a pack", source))?;
            }
            Ok(())
        };
        if let Err(error) = write() {
            // The error that is told is the first one.
            pack.abandon().ok();
            return Err(error);
        }
        let path = pack
            .finish()
            .map_err(|source| self.error("finish a pack", source))?;
        let loaded =
            Pack::load(&path, self.format).map_err(|source| self.error("read the pack", source))?;
        self.packs.extend(loaded);
        self.unflushed.extend([path.with_extension("pack"), path]);
        Ok(())
    }

    fn named(
        &self,
        source: &mut ObjectSource<'_>,
        commit: &ObjectId,
        name: &[u8],
    ) -> Result<ObjectId, StoreError> {
        let tree = source.commit_tree(commit)?;
        let lines = source.tree(&tree)?;
        let found = lines
            .iter()
            .find(|line| line.name == name)
            .map(|line| line.id);
        let name = String::from_utf8_lossy(name).into_owned();
        found.ok_or(StoreError::NoCandidate {
            commit: *commit,
            name,
        })
    }

    fn error(&self, action: &'static str, source: io::Error) -> StoreError {
        StoreError::File {
            action,
            path: self.git_dir.clone(),
            source,
        }
    }
}

/// Makes the tree and the commit of a content and what is kept beside it; gives the commit.
fn compose(
    format: ObjectFormat,
    worktree: ObjectId,
    extras: impl Iterator<Item = Extra>,
    objects: &mut Vec<Object>,
) -> ObjectId {
    let line = |name: &[u8], mode, id| TreeLine {
        mode,
        name: name.to_vec(),
        id,
    };
    let mut lines = vec![line(WORKTREE, TreeMode::Directory, worktree)];
    for extra in extras {
        match extra {
            Extra::Tree(name, id) => lines.push(line(name.as_bytes(), TreeMode::Directory, id)),
            Extra::Blob(name, bytes) => {
                let object = Object::new(format, ObjectKind::Blob, bytes);
                lines.push(line(name.as_bytes(), TreeMode::File, object.id));
                objects.push(object);
            }
        }
    }
    let root = Object::tree(format, lines);
    let commit = Object::commit(&root.id);
    let id = commit.id;
    objects.extend([root, commit]);
    id
}

/// Copies a file of the workspace into the pack, provided that it is still what the manifest says.
fn add_file<W: io::Write>(
    pack: &mut PackWriter<W>,
    scanner: &Scanner,
    parents: &mut super::beneath::Parents<'_>,
    buffer: &mut [u8],
    entry: &Entry,
    (size, sha256, id): (u64, Sha256Bytes, ObjectId),
) -> Result<(), StoreError> {
    let path = || scanner.root().display(&entry.path);
    let failed = |source: io::Error| StoreError::Content {
        path: path(),
        source,
    };
    let opened = parents
        .parent(&entry.path)
        .and_then(|(parent, name)| scan::open_file(&parent, name));
    let file = opened.map_err(|source| failed(source.into()))?;
    let mut digest = Sha256::new();
    let mut left = size;
    pack.add_pieces(id, ObjectKind::Blob, size, |sink| {
        while left > 0 {
            let length = usize::try_from(left)
                .unwrap_or(buffer.len())
                .min(buffer.len());
            let read = rustix::io::read(&file, buffer.get_mut(..length).unwrap_or_default())?;
            let piece = buffer.get(..read).filter(|piece| !piece.is_empty());
            let piece = piece.ok_or(io::ErrorKind::UnexpectedEof)?;
            digest.update(piece);
            sink(piece)?;
            left -= read as u64;
        }
        Ok(())
    })
    .map_err(|error: io::Error| {
        let shrunk = error.kind() == io::ErrorKind::UnexpectedEof;
        if shrunk {
            StoreError::Changed { path: path() }
        } else {
            failed(error)
        }
    })?;
    if <Sha256Bytes>::from(digest.finalize()) == sha256 {
        Ok(())
    } else {
        Err(StoreError::Changed { path: path() })
    }
}

/// Whether a word may be a label: it becomes a file name and the last part of a reference.
fn check_label(label: &str) -> Result<(), StoreError> {
    let fits = (1..=MAX_LABEL_BYTES).contains(&label.len());
    let plain = label
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte));
    if fits && plain && !label.starts_with('-') {
        Ok(())
    } else {
        Err(StoreError::Label {
            label: label.to_owned(),
        })
    }
}
