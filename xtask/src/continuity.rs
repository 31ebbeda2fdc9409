//! What changed since a commit must be told where people look: the changelog, and the contract when names changed.
//!
//! Must not judge whether a change is good; it compares names, not words.

use std::{collections::BTreeSet, path::Path};

use crate::{program, sources::Sources};

/// Trailer of a commit that needs no line in the changelog.
const WAY_OUT: &str = "Changelog: none, ";

/// What `git` knows about the changes since the base.
struct Changes {
    /// Paths that differ.
    paths: Vec<String>,
    /// Messages of the commits between.
    messages: String,
    /// The changelog at the base.
    changelog_before: String,
    /// The names of the interface at the base.
    names_before: BTreeSet<String>,
}

/// What is not told.
///
/// # Errors
/// When `git` does not know the base.
pub(crate) fn findings(root: &Path, sources: &Sources, base: &str) -> Result<Vec<String>, String> {
    let fork = program::text(root, "git", &["merge-base", base, "HEAD"])?;
    let fork = fork.trim();
    let differ = program::text(root, "git", &["diff", "--name-only", fork])?;
    let messages = program::text(
        root,
        "git",
        &["log", "--format=%B", &format!("{fork}..HEAD")],
    )?;
    let show = |path: &str| {
        program::text(root, "git", &["show", &format!("{fork}:{path}")]).unwrap_or_default()
    };
    let paths: Vec<String> = differ.lines().map(str::to_owned).collect();
    let mut before = Sources::new();
    for path in paths.iter().filter(|path| is_interface(path)) {
        before.insert(path.clone(), show(path));
    }
    for (path, text) in sources {
        if is_interface(path) && !paths.contains(path) {
            before.insert(path.clone(), text.clone());
        }
    }
    let changes = Changes {
        paths,
        messages,
        changelog_before: show("CHANGELOG.md"),
        names_before: names(&before),
    };
    Ok(untold(&changes, sources))
}

/// Files whose names are the interface: flags, fields, events, reasons, files of the store.
fn is_interface(path: &str) -> bool {
    path == "docs/cli.md"
        || path == "crates/engine/src/layout.rs"
        || (path.starts_with("docs/schemas/") && path.ends_with(".json"))
}

fn untold(changes: &Changes, sources: &Sources) -> Vec<String> {
    let mut findings = Vec::new();
    let touched = |prefix: &str| changes.paths.iter().any(|path| path.starts_with(prefix));
    let now = sources.get("CHANGELOG.md").map_or("", String::as_str);
    let told = unreleased(now) != unreleased(&changes.changelog_before);
    let excused = changes.messages.lines().any(|line| {
        line.strip_prefix(WAY_OUT)
            .is_some_and(|why| !why.trim().is_empty())
    });
    if touched("crates/") && !told && !excused {
        findings.push(format!(
            "crates/ changed, but \"Unreleased\" of CHANGELOG.md did not; way out: a trailer `{WAY_OUT}REASON`"
        ));
    }
    let names_now = names(sources);
    let changed: Vec<&str> = names_now
        .symmetric_difference(&changes.names_before)
        .map(String::as_str)
        .collect();
    if !changed.is_empty() && !touched("SPEC.md") {
        findings.push(format!(
            "names of the interface changed, but SPEC.md did not: {}",
            changed.join(", ")
        ));
    }
    findings
}

/// The lines under the heading `Unreleased`.
fn unreleased(changelog: &str) -> Vec<&str> {
    changelog
        .lines()
        .skip_while(|line| !(line.starts_with("## ") && line.contains("Unreleased")))
        .skip(1)
        .take_while(|line| !line.starts_with("## "))
        .filter(|line| !line.trim().is_empty())
        .collect()
}

/// Flags and commands of the reference, strings of the schemas, file names of the store.
fn names(sources: &Sources) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (path, text) in sources.iter().filter(|(path, _)| is_interface(path)) {
        if path == "docs/cli.md" {
            let flags = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
            names.extend(
                flags
                    .filter(|word| word.starts_with("--") && word.len() > 2)
                    .map(str::to_owned),
            );
            let headings = text
                .lines()
                .filter(|line| line.starts_with("## `loopexec "));
            names.extend(headings.map(str::to_owned));
        } else if path.ends_with(".json") {
            let schema = serde_json::from_str(text).unwrap_or_default();
            collect(&schema, &mut names);
        } else {
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let strings = code.split('"').skip(1).step_by(2);
            names.extend(strings.filter(|name| name.contains('.')).map(str::to_owned));
        }
    }
    names
}

/// Names of properties, and the values of `const` and `enum`.
fn collect(schema: &serde_json::Value, names: &mut BTreeSet<String>) {
    use serde_json::Value;
    match schema {
        Value::Object(members) => {
            for (key, value) in members {
                match (key.as_str(), value) {
                    ("properties", Value::Object(fields)) => names.extend(fields.keys().cloned()),
                    ("const", Value::String(name)) => {
                        names.insert(name.clone());
                    }
                    ("enum", Value::Array(all)) => {
                        names.extend(all.iter().filter_map(Value::as_str).map(str::to_owned));
                    }
                    _ => {}
                }
                collect(value, names);
            }
        }
        Value::Array(all) => all.iter().for_each(|each| collect(each, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(paths: &[&str], messages: &str) -> Changes {
        Changes {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            messages: messages.to_owned(),
            changelog_before: "## Unreleased\n- a\n## 0.1\n".to_owned(),
            names_before: BTreeSet::from(["--check".to_owned()]),
        }
    }

    fn now(changelog: &str, reference: &str) -> Sources {
        Sources::from([
            ("CHANGELOG.md".to_owned(), changelog.to_owned()),
            ("docs/cli.md".to_owned(), reference.to_owned()),
        ])
    }

    #[test]
    fn a_change_of_the_program_needs_a_line_or_the_way_out() {
        let same = now("## Unreleased\n- a\n## 0.2\n", "--check");
        let told = now("## Unreleased\n- a\n- b\n", "--check");
        assert_eq!(untold(&changes(&["crates/x.rs"], ""), &same).len(), 1);
        assert_eq!(untold(&changes(&["crates/x.rs"], ""), &told).len(), 0);
        assert_eq!(untold(&changes(&["docs/x.md"], ""), &same).len(), 0);
        let excused = changes(&["crates/x.rs"], "x\n\nChangelog: none, a comment\n");
        assert_eq!(untold(&excused, &same).len(), 0);
        let empty = changes(&["crates/x.rs"], "x\n\nChangelog: none, \n");
        assert_eq!(untold(&empty, &same).len(), 1);
    }

    #[test]
    fn a_changed_name_needs_the_contract() {
        let changed = now("## Unreleased\n- a\n", "--check --other");
        assert_eq!(untold(&changes(&["docs/cli.md"], ""), &changed).len(), 1);
        let told = changes(&["docs/cli.md", "SPEC.md"], "");
        assert_eq!(untold(&told, &changed).len(), 0);
    }

    #[test]
    fn names_are_flags_fields_values_and_files() {
        let sources = Sources::from([
            (
                "docs/cli.md".to_owned(),
                "## `loopexec run`\n --timeout <D> (--x)".to_owned(),
            ),
            (
                "docs/schemas/a.json".to_owned(),
                r#"{"properties":{"f":{"enum":["v"]}},"x":[{"const":"c"}]}"#.to_owned(),
            ),
            (
                "crates/engine/src/layout.rs".to_owned(),
                "self.file(\"workspace.jsonl\") #[cfg(test)] \"no.pe\"".to_owned(),
            ),
        ]);
        let found = names(&sources);
        for name in [
            "--timeout",
            "--x",
            "## `loopexec run`",
            "f",
            "v",
            "c",
            "workspace.jsonl",
        ] {
            assert!(found.contains(name), "{name}");
        }
        assert_eq!(found.len(), 7);
    }
}
