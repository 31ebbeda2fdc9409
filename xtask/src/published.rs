//! The documents of a release: a directory with every page, and the proof that published pages are those.
//!
//! `docs/.source.json` names the commit and the digest of each page. Must not generate or change a page.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use loopexec_core::digest::Digest;
use serde::{Deserialize, Serialize};

use crate::{
    TaskResult, program, say,
    sources::{self, Sources},
};

/// Where the directory says what it is.
const SOURCE: &str = "docs/.source.json";

/// What `docs/.source.json` holds.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
struct Source {
    /// The commit that the pages are of.
    commit: String,
    /// Page and sha256 of its bytes, hex.
    pages: BTreeMap<String, String>,
}

/// Whether a file is a document of the release.
fn is_page(path: &str) -> bool {
    let root = [
        "README.md",
        "SPEC.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    ];
    root.contains(&path)
        || path.starts_with("LICENSE-")
        || (path.starts_with("docs/")
            && (path.ends_with(".md") || path.ends_with(".json"))
            && path != SOURCE)
}

fn digests(sources: &Sources, commit: &str) -> Source {
    let pages = sources
        .iter()
        .filter(|(path, _)| is_page(path))
        .map(|(path, text)| (path.clone(), Digest::of(text.as_bytes()).to_string()))
        .collect();
    Source {
        commit: commit.to_owned(),
        pages,
    }
}

/// Writes every page and `docs/.source.json` below a new directory.
///
/// # Errors
/// When the directory is there already, or a page cannot be written.
pub(crate) fn write(words: &[String]) -> TaskResult {
    let target = directory(words)?;
    let root = sources::root();
    let sources = sources::read(&root)?;
    let commit = program::text(&root, "git", &["rev-parse", "HEAD"])?;
    fs_err::create_dir(&target).map_err(|error| error.to_string())?;
    let source = digests(&sources, commit.trim());
    let pages = sources.iter().filter(|(path, _)| is_page(path));
    for (path, text) in pages {
        put(&target, path, text)?;
    }
    let text = serde_json::to_string_pretty(&source).map_err(|error| error.to_string())?;
    put(&target, SOURCE, &format!("{text}\n"))?;
    say(&format!(
        "wrote {} pages to {}",
        source.pages.len(),
        target.display()
    ));
    Ok(())
}

fn put(target: &Path, path: &str, text: &str) -> TaskResult {
    let file = target.join(path);
    if let Some(parent) = file.parent() {
        fs_err::create_dir_all(parent).map_err(|error| error.to_string())?;
    }
    fs_err::write(&file, text).map_err(|error| error.to_string())
}

/// Compares a directory of published pages with what it says of itself.
///
/// # Errors
/// When a page differs, is missing or is not named.
pub(crate) fn verify(words: &[String]) -> TaskResult {
    let target = directory(words)?;
    let text = fs_err::read_to_string(target.join(SOURCE)).map_err(|error| error.to_string())?;
    let source: Source =
        serde_json::from_str(&text).map_err(|error| format!("{SOURCE} cannot be read: {error}"))?;
    let findings = differing(&source, &|page| fs_err::read(target.join(page)).ok());
    for finding in &findings {
        say(finding);
    }
    if findings.is_empty() {
        say(&format!(
            "{} pages are those of {}",
            source.pages.len(),
            source.commit
        ));
        Ok(())
    } else {
        Err(format!(
            "{} pages are not those of {}",
            findings.len(),
            source.commit
        ))
    }
}

fn differing(source: &Source, read: &dyn Fn(&str) -> Option<Vec<u8>>) -> Vec<String> {
    source
        .pages
        .iter()
        .filter_map(|(page, expected)| {
            if !is_page(page) || page.contains("..") {
                return Some(format!("{page}: is no page"));
            }
            match read(page) {
                None => Some(format!("{page}: is missing")),
                Some(bytes) if Digest::of(&bytes).to_string() != *expected => {
                    Some(format!("{page}: differs"))
                }
                Some(_) => None,
            }
        })
        .collect()
}

fn directory(words: &[String]) -> Result<PathBuf, String> {
    match words {
        [directory] => Ok(PathBuf::from(directory)),
        _ => Err("give one directory".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_a_missing_and_a_foreign_page_are_each_named() {
        let sources = Sources::from([
            ("README.md".to_owned(), "a".to_owned()),
            ("docs/cli.md".to_owned(), "b".to_owned()),
            ("crates/core/src/lib.rs".to_owned(), "no page".to_owned()),
        ]);
        let mut source = digests(&sources, "c0ffee");
        assert_eq!(source.pages.len(), 2);
        let same = |page: &str| sources.get(page).map(|text| text.clone().into_bytes());
        assert_eq!(differing(&source, &same), Vec::<String>::new());
        let changed = |page: &str| (page == "README.md").then(|| b"other".to_vec());
        assert_eq!(differing(&source, &changed).len(), 2);
        source
            .pages
            .insert("docs/../x.md".to_owned(), String::new());
        assert_eq!(differing(&source, &same), ["docs/../x.md: is no page"]);
    }
}
