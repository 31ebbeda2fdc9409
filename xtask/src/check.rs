//! Every gate of the repository, each with a name; all are run and all findings are printed.
//!
//! A gate is a function from the sources to findings. This module must not know what a gate looks for.

use std::path::Path;

use crate::{
    TaskResult, blocks, capability, continuity, docs, edges, golden, links, reached, say,
    sources::{self, Sources},
    tidy, words,
};

/// What a gate found; an error when it could not look.
type Findings = Result<Vec<String>, String>;

/// One gate.
struct Gate {
    name: &'static str,
    run: fn(&Path, &Sources) -> Findings,
}

/// Every gate; those that need no built program first.
const GATES: &[Gate] = &[
    Gate {
        name: "tidy",
        run: |_, sources| Ok(tidy::findings(sources)),
    },
    Gate {
        name: "words",
        run: |_, sources| Ok(words::findings(sources)),
    },
    Gate {
        name: "forgotten",
        run: |_, sources| reached::findings(sources),
    },
    Gate {
        name: "golden",
        run: |_, sources| golden::findings(sources),
    },
    Gate {
        name: "links",
        run: |_, sources| Ok(links::findings(sources)),
    },
    Gate {
        name: "edges",
        run: |root, sources| Ok(edges::findings(&sources::metadata(root)?, sources)),
    },
    Gate {
        name: "capabilities",
        run: |_, sources| capability::findings(sources),
    },
    Gate {
        name: "docs",
        run: docs::compare,
    },
    Gate {
        name: "blocks",
        run: blocks::findings,
    },
];

/// Runs the gates: all, or those that are named; with `--base REF` also the continuity since that commit.
///
/// # Errors
/// How many gates failed.
pub(crate) fn run(words: &[String]) -> TaskResult {
    let (base, names) = understand(words)?;
    let root = sources::root();
    let sources = sources::read(&root)?;
    let mut failed = 0_usize;
    for gate in GATES {
        if names.is_empty() || names.contains(&gate.name) {
            failed = failed.saturating_add(report(gate.name, (gate.run)(&root, &sources)));
        }
    }
    if let Some(base) = base {
        failed = failed.saturating_add(report(
            "continuity",
            continuity::findings(&root, &sources, base),
        ));
    }
    if failed == 0 {
        Ok(())
    } else {
        Err(format!("{failed} gates failed"))
    }
}

/// The base commit, if one was given, and the gates that were named.
fn understand(words: &[String]) -> Result<(Option<&str>, Vec<&str>), String> {
    let (mut base, mut names) = (None, Vec::new());
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        if word == "--base" {
            base = Some(rest.next().ok_or("--base needs a commit")?);
        } else if GATES.iter().any(|gate| gate.name == word) {
            names.push(word);
        } else {
            let known: Vec<&str> = GATES.iter().map(|gate| gate.name).collect();
            return Err(format!("no gate {word:?}; there are {}", known.join(", ")));
        }
    }
    Ok((base, names))
}

/// Prints how a gate stands; 1 when it failed.
fn report(name: &str, findings: Findings) -> usize {
    let lines = match findings {
        Ok(lines) if lines.is_empty() => {
            say(&format!("gate {name}: pass"));
            return 0;
        }
        Ok(lines) => lines,
        Err(error) => vec![format!("could not look: {error}")],
    };
    say(&format!("gate {name}: FAIL"));
    for line in lines {
        say(&format!("  {line}"));
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn gates_are_named_and_a_base_needs_its_commit() {
        let given = words("tidy --base main words");
        assert_eq!(
            understand(&given),
            Ok((Some("main"), vec!["tidy", "words"]))
        );
        assert!(understand(&words("--base")).is_err());
        assert!(understand(&words("tidiness")).is_err());
    }

    #[test]
    fn a_gate_fails_by_a_finding_and_when_it_could_not_look() {
        assert_eq!(report("a", Ok(Vec::new())), 0);
        assert_eq!(report("a", Ok(vec!["found".to_owned()])), 1);
        assert_eq!(report("a", Err("no disk".to_owned())), 1);
    }
}
