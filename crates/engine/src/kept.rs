//! Finds manifests again by their digest: in the stores of all runs of a workspace, the archived ones too, and among those
//! that somebody acknowledged.
//!
//! Must not keep content: what was acknowledged is remembered by its manifest alone.

use std::path::PathBuf;

use loopexec_core::digest::Digest;
use loopexec_os::durable::{
    DurableError, PRIVATE_FILE, SyncMode, create_private_directory, replace_file,
};

use crate::{
    candidate::{Manifest, store::Store},
    git::Git,
    layout::Layout,
};

/// Where a run keeps the manifest that was acknowledged after it.
const ACKNOWLEDGED: &str = "acknowledged.manifest";

/// Remembers the manifest that was acknowledged after a run: the content of a red end is kept nowhere else.
///
/// # Errors
///
/// When the disk does not take it.
pub fn remember(layout: &Layout, run_id: &str, manifest: &Manifest) -> Result<(), DurableError> {
    let directory = layout.run_directory(run_id);
    create_private_directory(&layout.store().join("runs"))?;
    create_private_directory(&directory)?;
    let path = directory.join(ACKNOWLEDGED);
    replace_file(&path, &manifest.encode(), PRIVATE_FILE, SyncMode::None)
}

/// The manifest with this digest, where some run kept that content.
#[must_use]
pub fn manifest(layout: &Layout, git: Option<&Git>, digest: Digest) -> Option<Manifest> {
    let wanted = digest.to_string();
    stores(layout).into_iter().find_map(|directory| {
        let acknowledged = loopexec_os::durable::read_regular(
            &directory.join(ACKNOWLEDGED),
            loopexec_os::durable::SMALL_FILE_BYTES,
        )
        .ok()
        .and_then(|bytes| Manifest::decode(&bytes).ok())
        .filter(|manifest| manifest.digest() == wanted);
        if acknowledged.is_some() {
            return acknowledged;
        }
        let store = Store::open_existing(&directory).ok()??;
        let found = store.labels().find_map(|(_, commit)| {
            let saved = store.describe(git, &commit).ok()?;
            (saved.manifest_sha256 == wanted).then_some(commit)
        });
        store.manifest(git, &found?).ok()
    })
}

/// Every directory that may hold a store, sorted.
fn stores(layout: &Layout) -> Vec<PathBuf> {
    let children = |directory: PathBuf| -> Vec<PathBuf> {
        let Ok(entries) = fs_err::read_dir(directory) else {
            return Vec::new();
        };
        entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect()
    };
    let runs = children(layout.store().join("runs"));
    let archives = runs.iter().flat_map(|run| children(run.join("archive")));
    let mut all: Vec<PathBuf> = runs.iter().cloned().chain(archives).collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_is_found_by_its_digest_and_nothing_else_is() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path(), None);
        fs_err::create_dir(layout.store()).unwrap();
        let empty = Manifest {
            entries: Vec::new(),
            special: Vec::new(),
        };
        let digest = Digest::from_hex(&empty.digest()).unwrap();
        assert_eq!(manifest(&layout, None, digest), None);
        remember(&layout, "local", &empty).unwrap();
        assert_eq!(manifest(&layout, None, digest), Some(empty));
        assert_eq!(manifest(&layout, None, Digest::of(b"other")), None);
    }
}
