//! Kept contents as one file that any git can fetch from: the same contents always give the same bytes.
//!
//! All objects are in it, also those that the store has in common with the repository of the person; sorted by name and whole.
//! This module must not know what the contents are for.

use super::layout::REFERENCE_PREFIX;
use super::object::{Object, ObjectFormat, ObjectId, ObjectKind, TreeMode};
use super::pack::PackWriter;
use super::source::{ObjectError, ObjectSource};
use super::store::Store;
use crate::git::Git;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why no bundle could be made.
#[derive(Debug, Error)]
pub enum BundleError {
    /// There is no such content.
    #[error("no content is kept as {label:?}")]
    Label {
        /// The label.
        label: String,
    },
    /// An object is not there.
    #[error("the bundle would be incomplete")]
    Object(#[from] ObjectError),
    /// The file could not be written.
    #[error("could not write the bundle {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Store {
    /// Writes the contents of these labels into the bundle `file`, under references `refs/loopexec/<label>`.
    ///
    /// # Errors
    /// A label is unknown, an object is missing or too large for memory, or the file cannot be written.
    pub fn bundle(
        &self,
        git: Option<&Git>,
        labels: &[&str],
        file: &Path,
    ) -> Result<(), BundleError> {
        let kept: BTreeMap<_, _> = self.labels().collect();
        let mut references = BTreeMap::new();
        for label in labels {
            let commit = kept.get(label).ok_or_else(|| BundleError::Label {
                label: (*label).to_owned(),
            })?;
            references.insert(*label, *commit);
        }
        let mut source = self.source(git);
        let objects = reachable(&mut source, references.values())?;
        let failed = |source| BundleError::Write {
            path: file.to_owned(),
            source,
        };
        let temporary = file.with_extension("new");
        let out = io::BufWriter::with_capacity(
            1 << 20,
            fs_err::File::create(&temporary).map_err(failed)?,
        );
        let written =
            write(self.format(), &mut source, &references, &objects, out).and_then(|out| {
                let file = out
                    .into_inner()
                    .map_err(io::IntoInnerError::into_error)
                    .map_err(failed)?;
                file.sync_all().map_err(failed)
            });
        if let Err(error) = written {
            // The error that is told is the first one.
            fs_err::remove_file(&temporary).ok();
            return Err(match error {
                BundleError::Write { source, .. } => failed(source),
                other @ (BundleError::Label { .. } | BundleError::Object(_)) => other,
            });
        }
        fs_err::rename(&temporary, file).map_err(failed)
    }
}

/// All objects that the commits need, sorted by name.
fn reachable<'a>(
    source: &mut ObjectSource<'_>,
    commits: impl Iterator<Item = &'a ObjectId>,
) -> Result<BTreeMap<ObjectId, ObjectKind>, ObjectError> {
    let mut found = BTreeMap::new();
    let mut open = Vec::new();
    for commit in commits {
        found.insert(*commit, ObjectKind::Commit);
        open.push(source.commit_tree(commit)?);
    }
    while let Some(tree) = open.pop() {
        if found.insert(tree, ObjectKind::Tree).is_some() {
            continue;
        }
        for line in source.tree(&tree)? {
            match line.mode {
                TreeMode::Directory => open.push(line.id),
                TreeMode::File | TreeMode::Executable | TreeMode::Symlink => {
                    found.insert(line.id, ObjectKind::Blob);
                }
                TreeMode::Gitlink => {}
            }
        }
    }
    Ok(found)
}

fn write<W: io::Write>(
    format: ObjectFormat,
    source: &mut ObjectSource<'_>,
    references: &BTreeMap<&str, ObjectId>,
    objects: &BTreeMap<ObjectId, ObjectKind>,
    mut out: W,
) -> Result<W, BundleError> {
    let failed = |source| BundleError::Write {
        path: PathBuf::new(),
        source,
    };
    let header = match format {
        ObjectFormat::Sha1 => "# v2 git bundle\n",
        ObjectFormat::Sha256 => "# v3 git bundle\n@object-format=sha256\n",
    };
    out.write_all(header.as_bytes()).map_err(failed)?;
    for (label, commit) in references {
        writeln!(out, "{commit} {REFERENCE_PREFIX}{label}").map_err(failed)?;
    }
    out.write_all(b"\n").map_err(failed)?;
    let count = u32::try_from(objects.len()).map_err(|error| failed(io::Error::other(error)))?;
    let mut pack = PackWriter::begin(out, format, count).map_err(failed)?;
    for (&id, &kind) in objects {
        let bytes = source.bytes(&id, kind)?;
        pack.add(&Object { id, kind, bytes }).map_err(failed)?;
    }
    Ok(pack.finish().map_err(failed)?.0)
}
