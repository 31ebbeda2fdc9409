//! The generated references: the command line, the tables between markers, the schemas.
//!
//! What can be computed from the program is never written by hand. This module must not know how a gate is run.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    TaskResult, capability, markdown,
    program::{self, Program},
    reference, say,
    sources::{self, Sources},
    tables,
};

/// Where the schemas are checked in.
const SCHEMAS: &str = "docs/schemas";

/// Writes every generated reference, or compares with `--check`.
///
/// # Errors
/// A message when a word is not understood, the program does not build, or something differs.
pub(crate) fn run(words: &[String]) -> TaskResult {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let root = sources::root();
    let sources = sources::read(&root)?;
    match words.as_slice() {
        [] => write(&root, &sources),
        ["--check"] => {
            let findings = compare(&root, &sources)?;
            for finding in &findings {
                say(finding);
            }
            if findings.is_empty() {
                Ok(())
            } else {
                Err(
                    "the references are not those of this source; run `cargo xtask docs`"
                        .to_owned(),
                )
            }
        }
        _ => Err(format!("unexpected words: {}", words.join(" "))),
    }
}

fn write(root: &Path, sources: &Sources) -> TaskResult {
    for (path, text) in generate(root, sources)? {
        if sources.get(&path) == Some(&text) {
            continue;
        }
        let target = root.join(&path);
        if let Some(parent) = target.parent() {
            fs_err::create_dir_all(parent).map_err(|error| error.to_string())?;
        }
        fs_err::write(&target, text).map_err(|error| error.to_string())?;
        say(&format!("wrote {path}"));
    }
    Ok(())
}

/// What differs from the checked-in references.
///
/// # Errors
/// When the program does not build or cannot be asked.
pub(crate) fn compare(root: &Path, sources: &Sources) -> Result<Vec<String>, String> {
    Ok(differences(&generate(root, sources)?, sources))
}

fn differences(generated: &BTreeMap<String, String>, sources: &Sources) -> Vec<String> {
    let mut findings: Vec<String> = generated
        .iter()
        .filter(|(path, text)| sources.get(*path) != Some(*text))
        .map(|(path, _)| format!("{path} is not what the source generates"))
        .collect();
    findings.extend(
        sources
            .keys()
            .filter(|path| path.starts_with(SCHEMAS) && !generated.contains_key(*path))
            .map(|path| format!("{path} belongs to no schema of the program")),
    );
    findings
}

/// Every generated file with its text.
fn generate(root: &Path, sources: &Sources) -> Result<BTreeMap<String, String>, String> {
    let asked = Asked {
        binary: sources::build(root)?,
        root: root.to_owned(),
    };
    let mut files = BTreeMap::new();
    let mut envelope = None;
    for name in asked.schema_names()? {
        let text = asked.text(&["schema", &name])?;
        if name == "envelope" {
            envelope = Some(parse(&name, &text)?);
        }
        files.insert(format!("{SCHEMAS}/{name}.json"), text);
    }
    let envelope = envelope.ok_or("the program prints no schema \"envelope\"")?;
    files.insert(
        "docs/cli.md".to_owned(),
        reference::command_line(&|words| asked.text(words), &envelope)?,
    );
    let capabilities = capability::parse(sources)?;
    let table = capability::table(&capabilities);
    for (path, text) in sources {
        if !path.ends_with(".md") || !text.contains("<!-- generated: ") {
            continue;
        }
        let generator = |name: &str| match name {
            "capabilities" => Some(table.clone()),
            other => tables::table(other),
        };
        let made =
            markdown::regenerate(text, &generator).map_err(|error| format!("{path}: {error}"))?;
        files.insert(path.clone(), made);
    }
    Ok(files)
}

fn parse(name: &str, text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("schema {name} is not JSON: {error}"))
}

/// The built program, asked for what it prints.
struct Asked {
    binary: PathBuf,
    root: PathBuf,
}

impl Asked {
    /// What it prints for these words, in an environment of fixed width.
    fn text(&self, words: &[&str]) -> Result<String, String> {
        let output = program::output(Program {
            name: &self.binary,
            arguments: words,
            directory: &self.root,
            environment: Some(vec![("COLUMNS", OsString::from("100"))]),
        })?;
        if !output.status.success() {
            return Err(format!(
                "loopexec {} ended with {}: {}",
                words.join(" "),
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            ));
        }
        String::from_utf8(output.stdout)
            .map_err(|_| format!("loopexec {} printed what is not UTF-8", words.join(" ")))
    }

    fn schema_names(&self) -> Result<Vec<String>, String> {
        let names = self.text(&["schema"])?;
        Ok(names
            .lines()
            .map(str::trim)
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| !name.ends_with(':'))
            .map(str::to_owned)
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_a_missing_and_a_leftover_reference_are_each_named() {
        let generated = BTreeMap::from([
            ("docs/cli.md".to_owned(), "new".to_owned()),
            ("docs/schemas/a.json".to_owned(), "{}".to_owned()),
            ("SPEC.md".to_owned(), "same".to_owned()),
        ]);
        let sources = Sources::from([
            ("docs/cli.md".to_owned(), "old".to_owned()),
            ("docs/schemas/b.json".to_owned(), "{}".to_owned()),
            ("SPEC.md".to_owned(), "same".to_owned()),
        ]);
        let findings = differences(&generated, &sources);
        assert_eq!(findings.len(), 3);
        assert!(findings.iter().any(|each| each.starts_with("docs/cli.md")));
        assert!(findings.iter().any(|each| each.contains("a.json is not")));
        assert!(findings.iter().any(|each| each.contains("b.json belongs")));
    }
}
