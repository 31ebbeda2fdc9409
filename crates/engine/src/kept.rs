//! Finds kept contents again by their digest, in the stores of all runs of a workspace, the archived ones too.
//!
//! Must not keep or change anything.

use std::path::PathBuf;

use loopexec_core::digest::Digest;

use crate::{
    candidate::{Manifest, store::Store},
    git::Git,
    layout::Layout,
};

/// The manifest with this digest, where some run kept that content.
#[must_use]
pub fn manifest(layout: &Layout, git: Option<&Git>, digest: Digest) -> Option<Manifest> {
    let wanted = digest.to_string();
    stores(layout).into_iter().find_map(|directory| {
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
