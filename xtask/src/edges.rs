//! Which crate may depend on which, and which dependency may stand where.
//!
//! `deny.toml` says the same about crates; what it cannot say (which *modules* may make system calls) is here.

use serde_json::Value;

use crate::sources::Sources;

/// What each package may use of the workspace, outside of its tests.
const EDGES: &[(&str, &[&str])] = &[
    ("loopexec-core", &[]),
    ("loopexec-formats", &["loopexec-core"]),
    ("loopexec-os", &[]),
    (
        "loopexec-engine",
        &["loopexec-core", "loopexec-formats", "loopexec-os"],
    ),
    (
        "loopexec",
        &["loopexec-core", "loopexec-engine", "loopexec-os"],
    ),
    ("loopexec-testkit", &["loopexec-core"]),
    (
        "xtask",
        &[
            "loopexec-core",
            "loopexec-engine",
            "loopexec-os",
            "loopexec-testkit",
        ],
    ),
];

/// Dependencies that only some packages may have.
const ONLY: &[(&str, &[&str])] = &[
    ("clap", &["loopexec"]),
    ("clap_complete", &["loopexec"]),
    ("rustix", &["loopexec-os", "loopexec-engine", "xtask"]),
    ("libc", &["loopexec-os"]),
    ("signal-hook", &["loopexec-os"]),
    ("tokio", &[]),
    ("hyper", &[]),
    ("git2", &[]),
    ("gix", &[]),
];

/// Places in the engine that may use `rustix`: files whose kind and name a hostile tree chooses, opened by descriptor, and
/// the wait for two pipes of `git` at once.
const SYSTEM_CALLS: &[&str] = &[
    "crates/engine/src/candidate/",
    "crates/engine/src/git.rs",
    "crates/engine/src/git/",
    "crates/engine/src/log/receipt.rs",
    "crates/engine/src/snapshot.rs",
];

/// Every edge that is not allowed.
pub(crate) fn findings(metadata: &Value, sources: &Sources) -> Vec<String> {
    let mut findings = Vec::new();
    let packages = metadata.get("packages").and_then(Value::as_array);
    for package in packages.into_iter().flatten() {
        let name = package.get("name").and_then(Value::as_str).unwrap_or("?");
        let Some((_, allowed)) = EDGES.iter().find(|(known, _)| *known == name) else {
            findings.push(format!(
                "the package {name} has no place in xtask/src/edges.rs"
            ));
            continue;
        };
        for dependency in dependencies(package) {
            let inside = EDGES.iter().any(|(known, _)| *known == dependency);
            if inside && !allowed.contains(&dependency) {
                findings.push(format!("{name} must not depend on {dependency}"));
            }
            let only = ONLY.iter().find(|(known, _)| *known == dependency);
            if only.is_some_and(|(_, holders)| !holders.contains(&name)) {
                findings.push(format!("{name} must not depend on {dependency}"));
            }
        }
    }
    findings.extend(asynchronous(sources));
    findings.extend(system_calls(sources));
    findings
}

/// Dependencies that are not only of tests.
fn dependencies(package: &Value) -> Vec<&str> {
    let all = package.get("dependencies").and_then(Value::as_array);
    all.into_iter()
        .flatten()
        .filter(|each| each.get("kind").and_then(Value::as_str) != Some("dev"))
        .filter_map(|each| each.get("name").and_then(Value::as_str))
        .collect()
}

/// No part of the program has an asynchronous runtime, also not through another crate.
fn asynchronous(sources: &Sources) -> Vec<String> {
    let lock = sources.get("Cargo.lock").map_or("", String::as_str);
    ["tokio", "async-std", "smol"]
        .iter()
        .filter(|name| lock.contains(&format!("name = \"{name}\"\n")))
        .map(|name| format!("Cargo.lock has {name}; nothing here is asynchronous"))
        .collect()
}

fn system_calls(sources: &Sources) -> Vec<String> {
    sources
        .iter()
        .filter(|(path, _)| path.starts_with("crates/") && path.ends_with(".rs"))
        .filter(|(path, _)| !path.starts_with("crates/os/"))
        .filter(|(path, text)| {
            text.contains("rustix::") && !SYSTEM_CALLS.iter().any(|place| path.starts_with(place))
        })
        .map(|(path, _)| format!("{path}: system calls belong in crates/os"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with(name: &str, dependency: &str, kind: Option<&str>) -> usize {
        let metadata = json!({"packages": [
            {"name": name, "dependencies": [{"name": dependency, "kind": kind}]}
        ]});
        findings(&metadata, &Sources::new()).len()
    }

    #[test]
    fn an_edge_against_the_direction_is_found_and_one_of_tests_is_not() {
        assert_eq!(with("loopexec-engine", "loopexec-os", None), 0);
        assert_eq!(with("loopexec-os", "loopexec-engine", None), 1);
        assert_eq!(with("loopexec-core", "loopexec-testkit", None), 1);
        assert_eq!(with("loopexec-core", "loopexec-testkit", Some("dev")), 0);
        assert_eq!(with("newcomer", "serde", None), 1);
    }

    #[test]
    fn a_dependency_outside_its_place_is_found() {
        assert_eq!(with("loopexec", "clap", None), 0);
        assert_eq!(with("loopexec-engine", "clap", None), 1);
        assert_eq!(with("loopexec", "tokio", None), 1);
        let sources = Sources::from([
            ("Cargo.lock".to_owned(), "name = \"tokio\"\n".to_owned()),
            (
                "crates/cli/src/ui.rs".to_owned(),
                "use rustix::fs;".to_owned(),
            ),
            (
                "crates/os/src/lock.rs".to_owned(),
                "use rustix::fs;".to_owned(),
            ),
        ]);
        assert_eq!(findings(&json!({}), &sources).len(), 2);
    }
}
