//! The text files of the repository, read once: what `git` tracks or would track.
//!
//! Gates look at this map and at nothing else, so that each can be tested on a few lines. Must not judge what it reads.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::program;

/// Larger files are data, not text that people wrote.
const TEXT_BYTES_MAX: u64 = 4 << 20;

/// Path (with `/`, relative to the root) and text.
pub(crate) type Sources = BTreeMap<String, String>;

/// The root of the repository this program was built from.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Reads every text file.
///
/// # Errors
/// When `git` cannot list them or one cannot be read.
pub(crate) fn read(root: &Path) -> Result<Sources, String> {
    let listed = program::text(
        root,
        "git",
        &[
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ],
    )?;
    let mut sources = Sources::new();
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        let path = root.join(name);
        let Ok(metadata) = fs_err::symlink_metadata(&path) else {
            continue; // removed, and not yet committed as removed
        };
        if !metadata.is_file() || metadata.len() > TEXT_BYTES_MAX {
            continue;
        }
        let bytes = fs_err::read(&path).map_err(|error| error.to_string())?;
        if let Ok(text) = String::from_utf8(bytes) {
            sources.insert(name.to_owned(), text);
        }
    }
    Ok(sources)
}

/// The built program: built now, so that what is compared is this source.
///
/// # Errors
/// When it does not build.
pub(crate) fn build(root: &Path) -> Result<PathBuf, String> {
    program::text(
        root,
        "cargo",
        &["build", "--quiet", "--package", "loopexec"],
    )?;
    let metadata = metadata(root)?;
    let target = metadata
        .get("target_directory")
        .and_then(serde_json::Value::as_str)
        .ok_or("cargo metadata names no target directory")?;
    Ok(Path::new(target).join("debug").join("loopexec"))
}

/// What cargo knows about the workspace.
///
/// # Errors
/// When cargo fails.
pub(crate) fn metadata(root: &Path) -> Result<serde_json::Value, String> {
    let text = program::text(
        root,
        "cargo",
        &["metadata", "--format-version", "1", "--no-deps"],
    )?;
    serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))
}
