//! The capability table: what is shipped, what is planned, and the test that shows it.
//!
//! One checked-in file, `docs/capabilities.toml`, is the source of the table in `SPEC.md`. Must not run a test.

use std::fmt::Write as _;

use loopexec_core::halt::HaltReason;
use serde::Deserialize;

use crate::{
    markdown::{self, Paragraph},
    schema,
    sources::Sources,
};

/// The file.
const FILE: &str = "docs/capabilities.toml";

/// Words in a heading or a paragraph that say that something is not there yet.
const NOT_YET: [&str; 3] = ["planned", "not in this version", "does not have"];

/// How far a capability is.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(crate) enum Status {
    /// It works, and a test shows it.
    #[serde(rename = "shipped")]
    Shipped,
    /// Its core works; `missing` says what does not.
    #[serde(rename = "shipped (core)")]
    Core,
    /// It does not exist.
    #[serde(rename = "planned")]
    Planned,
}

impl Status {
    const fn name(self) -> &'static str {
        match self {
            Self::Shipped => "shipped",
            Self::Core => "shipped (core)",
            Self::Planned => "planned",
        }
    }
}

/// One row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Capability {
    name: String,
    status: Status,
    #[serde(default)]
    missing: String,
    platforms: String,
    /// `path::name`, each an existing test.
    #[serde(default)]
    tests: Vec<String>,
    /// Commands that the row covers.
    #[serde(default)]
    commands: Vec<String>,
    /// Halt reasons that the row covers.
    #[serde(default)]
    halts: Vec<String>,
    /// Texts that name a planned capability wherever they stand.
    #[serde(default)]
    words: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    capability: Vec<Capability>,
}

/// Reads the file.
///
/// # Errors
/// When it is missing or has another form.
pub(crate) fn parse(sources: &Sources) -> Result<Vec<Capability>, String> {
    let text = sources.get(FILE).ok_or(format!("{FILE} is missing"))?;
    let file: File = toml::from_str(text).map_err(|error| format!("{FILE}: {error}"))?;
    Ok(file.capability)
}

/// The table for `SPEC.md`.
pub(crate) fn table(capabilities: &[Capability]) -> String {
    let mut text = String::from(
        "| capability | status | missing | platforms | shown by |\n|---|---|---|---|---|\n",
    );
    for each in capabilities {
        let tests: Vec<String> = each.tests.iter().map(|test| format!("`{test}`")).collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            schema::cell(&each.name),
            each.status.name(),
            schema::cell(&each.missing),
            schema::cell(&each.platforms),
            tests.join("<br>")
        );
    }
    text
}

/// What is wrong with the table or with pages that speak of it.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn findings(sources: &Sources) -> Result<Vec<String>, String> {
    let capabilities = parse(sources)?;
    let mut findings: Vec<String> = capabilities
        .iter()
        .flat_map(|each| row(each, sources))
        .collect();
    findings.extend(uncovered(&capabilities, sources));
    for each in &capabilities {
        if each.status == Status::Planned {
            findings.extend(presented(each, sources));
        }
    }
    Ok(findings)
}

fn row(each: &Capability, sources: &Sources) -> Vec<String> {
    let name = &each.name;
    let mut findings = Vec::new();
    match each.status {
        Status::Shipped | Status::Core if each.tests.is_empty() => {
            findings.push(format!("{name:?} is shipped, but names no test"));
        }
        Status::Core if each.missing.is_empty() => {
            findings.push(format!(
                "{name:?} is a core, but does not say what is missing"
            ));
        }
        Status::Planned if each.missing.is_empty() => {
            findings.push(format!(
                "{name:?} is planned, but does not say what is missing"
            ));
        }
        Status::Planned if each.words.is_empty() => {
            findings.push(format!("{name:?} is planned, but has no words to look for"));
        }
        Status::Shipped | Status::Core | Status::Planned => {}
    }
    findings.extend(
        each.tests
            .iter()
            .filter(|test| !exists(test, sources))
            .map(|test| format!("{name:?} names the test {test}, which does not exist")),
    );
    findings
}

/// Whether `path::name` is a function, or a named trial, of that file.
fn exists(test: &str, sources: &Sources) -> bool {
    let Some((path, name)) = test.split_once("::") else {
        return false;
    };
    sources.get(path).is_some_and(|text| {
        text.contains(&format!("fn {name}(")) || text.contains(&format!("\"{name}\""))
    })
}

/// Commands of the reference and halt reasons of the core that no row covers, and names that are neither.
fn uncovered(capabilities: &[Capability], sources: &Sources) -> Vec<String> {
    let commands = commands(sources);
    let mut findings = Vec::new();
    for command in &commands {
        if !capabilities
            .iter()
            .any(|each| each.commands.contains(command))
        {
            findings.push(format!("the command {command} is in no row of {FILE}"));
        }
    }
    for reason in HaltReason::ALL {
        let covered = |each: &Capability| each.halts.iter().any(|name| name == reason.name());
        if !capabilities.iter().any(covered) {
            findings.push(format!("the halt reason {reason} is in no row of {FILE}"));
        }
    }
    for each in capabilities {
        for name in &each.halts {
            if HaltReason::from_name(name).is_none() {
                findings.push(format!(
                    "{:?} covers {name}, which is no halt reason",
                    each.name
                ));
            }
        }
        for name in &each.commands {
            let known = commands.contains(name);
            if known == (each.status == Status::Planned) {
                let state = if known { "exists" } else { "does not exist" };
                findings.push(format!(
                    "{:?} is {}, but the command {name} {state}",
                    each.name,
                    each.status.name()
                ));
            }
        }
    }
    findings
}

/// The commands that the generated reference has.
fn commands(sources: &Sources) -> Vec<String> {
    let reference = sources.get("docs/cli.md").map_or("", String::as_str);
    reference
        .lines()
        .filter_map(|line| line.strip_prefix("## `loopexec "))
        .filter_map(|rest| rest.strip_suffix('`'))
        .map(str::to_owned)
        .collect()
}

/// Paragraphs and blocks of README and guides that speak of a planned capability as if it were there.
fn presented(each: &Capability, sources: &Sources) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in sources {
        let guide = path.starts_with("docs/guides/") && path.ends_with(".md");
        if path != "README.md" && !guide {
            continue;
        }
        let named = |text: &str| each.words.iter().find(|word| text.contains(word.as_str()));
        for paragraph in markdown::paragraphs(text) {
            if let Some(word) = named(&paragraph.text)
                && !says_not_yet(&paragraph)
            {
                findings.push(format!(
                    "{path}:{}: {word:?} is planned, but the text does not say so",
                    paragraph.line
                ));
            }
        }
        for fence in markdown::fences(text) {
            if let Some(word) = named(&fence.body) {
                findings.push(format!(
                    "{path}:{}: the block uses {word:?}, which is planned",
                    fence.line
                ));
            }
        }
    }
    findings
}

fn says_not_yet(paragraph: &Paragraph) -> bool {
    let text = format!("{} {}", paragraph.heading, paragraph.text).to_lowercase();
    NOT_YET.iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(rows: &str, readme: &str) -> Vec<String> {
        let reasons: Vec<String> = HaltReason::ALL
            .iter()
            .map(|reason| format!("{:?}", reason.name()))
            .collect();
        let base = format!(
            "[[capability]]\nname = \"all\"\nstatus = \"shipped\"\nplatforms = \"Linux\"\ntests = [\"t.rs::it_works\"]\ncommands = [\"run\"]\nhalts = [{}]\n",
            reasons.join(", ")
        );
        let sources = Sources::from([
            (FILE.to_owned(), base + rows),
            ("t.rs".to_owned(), "fn it_works() {}".to_owned()),
            ("docs/cli.md".to_owned(), "## `loopexec run`\n".to_owned()),
            ("README.md".to_owned(), readme.to_owned()),
        ]);
        findings(&sources).unwrap_or_else(|error| vec![error])
    }

    const PLANNED: &str = "[[capability]]\nname = \"zones\"\nstatus = \"planned\"\nmissing = \"all\"\nplatforms = \"Linux\"\nwords = [\"--isolate\"]\n";

    #[test]
    fn a_true_table_has_no_findings() {
        assert_eq!(with("", ""), Vec::<String>::new());
        assert_eq!(
            with(PLANNED, "`--isolate` is planned."),
            Vec::<String>::new()
        );
        assert_eq!(
            with(PLANNED, "## Planned\n\nUse `--isolate`."),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_shipped_row_needs_a_test_that_exists() {
        let row = "[[capability]]\nname = \"x\"\nstatus = \"shipped\"\nplatforms = \"Linux\"\n";
        assert_eq!(with(row, "").len(), 1);
        let row = format!("{row}tests = [\"t.rs::other\"]\n");
        assert!(with(&row, "").concat().contains("does not exist"));
    }

    #[test]
    fn a_planned_row_is_not_presented_as_working() {
        assert_eq!(with(PLANNED, "Use `--isolate` at night.").len(), 1);
        assert_eq!(
            with(PLANNED, "```text\nloopexec run --isolate\n```\n").len(),
            1
        );
    }

    #[test]
    fn unknown_names_and_uncovered_commands_are_found() {
        let row = "[[capability]]\nname = \"x\"\nstatus = \"shipped\"\nplatforms = \"Linux\"\ntests = [\"t.rs::it_works\"]\ncommands = [\"doctor\"]\nhalts = [\"done\"]\n";
        assert_eq!(with(row, "").len(), 2);
        let sources = Sources::from([
            (FILE.to_owned(), PLANNED.to_owned()),
            ("docs/cli.md".to_owned(), "## `loopexec run`\n".to_owned()),
        ]);
        let found = findings(&sources).unwrap_or_default();
        assert_eq!(found.len(), HaltReason::ALL.len() + 1);
    }
}
