//! The blocks of README and guides, run as tests: what a page says that works, works.
//!
//! A page is a walk: its blocks run in order in one empty directory, with an empty home and the built program first in
//! `PATH`. A block that is not meant to run says `text`. Must not compare what is printed.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{
    markdown::{self, Fence},
    program::{self, Program},
    sources::{self, Sources},
};

/// Longest block: a page that needs longer is no example.
const SECONDS: &str = "120";

/// Infos that a shell block could have been written with; only `sh test` is one that runs.
const SHELLS: [&str; 5] = ["sh", "bash", "shell", "console", "zsh"];

/// Runs every block.
///
/// # Errors
/// When the program does not build or there is no temporary directory.
pub(crate) fn findings(root: &Path, sources: &Sources) -> Result<Vec<String>, String> {
    let binary = sources::build(root)?;
    let mut findings = Vec::new();
    for (path, text) in sources {
        if path != "README.md" && !(path.starts_with("docs/") && path.ends_with(".md")) {
            continue;
        }
        let fences = markdown::fences(text);
        findings.extend(unmarked(path, &fences));
        let page: Vec<&Fence> = fences
            .iter()
            .filter(|fence| fence.info == "sh test")
            .collect();
        if !page.is_empty() {
            findings.extend(walk(path, &page, &binary)?);
        }
    }
    Ok(findings)
}

/// Blocks that do not say whether they run.
fn unmarked(path: &str, fences: &[Fence]) -> Vec<String> {
    fences
        .iter()
        .filter(|fence| {
            let first = fence.info.split_whitespace().next().unwrap_or_default();
            first.is_empty() || (SHELLS.contains(&first) && fence.info != "sh test")
        })
        .map(|fence| {
            format!(
                "{path}:{}: a block {:?}; say `sh test` when it runs, `text` when it does not",
                fence.line, fence.info
            )
        })
        .collect()
}

/// Runs the blocks of one page until one fails.
fn walk(path: &str, page: &[&Fence], binary: &Path) -> Result<Vec<String>, String> {
    let place = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let (home, work) = (place.path().join("home"), place.path().join("work"));
    for directory in [&home, &work] {
        fs_err::create_dir(directory).map_err(|error| error.to_string())?;
    }
    for fence in page {
        let script = format!("set -eu\n{}", fence.body);
        let output = program::output(Program {
            name: Path::new("timeout"),
            arguments: &[SECONDS, "sh", "-c", &script],
            directory: &work,
            environment: Some(environment(&home, binary)),
        })?;
        if !output.status.success() {
            return Ok(vec![format!(
                "{path}:{}: the block ended with {}\n{}{}",
                fence.line,
                output.status,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            )]);
        }
    }
    Ok(Vec::new())
}

fn environment(home: &Path, binary: &Path) -> Vec<(&'static str, OsString)> {
    let mut path = OsString::from(binary.parent().map_or_else(PathBuf::new, Path::to_owned));
    path.push(":/usr/local/bin:/usr/bin:/bin");
    let person = [
        ("GIT_AUTHOR_NAME", "Reader"),
        ("GIT_AUTHOR_EMAIL", "reader@example.org"),
        ("GIT_COMMITTER_NAME", "Reader"),
        ("GIT_COMMITTER_EMAIL", "reader@example.org"),
        ("LANG", "C.UTF-8"),
    ];
    let mut all: Vec<(&'static str, OsString)> = person
        .into_iter()
        .map(|(name, value)| (name, OsString::from(value)))
        .collect();
    all.push(("HOME", home.as_os_str().to_owned()));
    all.push(("PATH", path));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_says_whether_it_runs() {
        let page = "```sh\na\n```\n```console\na\n```\n```\na\n```\n```text\na\n```\n```sh test\na\n```\n```json\n{}\n```\n";
        assert_eq!(unmarked("a.md", &markdown::fences(page)).len(), 3);
    }

    #[test]
    fn a_page_is_one_walk_and_stops_at_the_first_block_that_fails() {
        let run = |text: &str| {
            let fences = markdown::fences(text);
            let page: Vec<&Fence> = fences.iter().collect();
            walk("a.md", &page, Path::new("/nowhere/loopexec")).unwrap_or_default()
        };
        let good = "```sh test\necho x > kept\n```\n```sh test\ntest -f kept\n```\n";
        assert_eq!(run(good), Vec::<String>::new());
        let bad = "```sh test\nfalse\ntrue\n```\n```sh test\nexit 3\n```\n";
        let found = run(bad);
        assert_eq!(found.len(), 1);
        assert!(found.concat().starts_with("a.md:1: "));
    }
}
