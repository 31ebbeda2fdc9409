//! Golden logs: each has its scenario, and each reason and cause has its place in the guide.
//!
//! The core's own test compares the bytes; this finds what that test cannot miss because it does not know of it.

use std::collections::BTreeSet;

use loopexec_core::halt::FailureCause;

use crate::sources::Sources;

/// Where the logs are.
const LOGS: &str = "crates/core/golden/halt-";
/// Where the scenarios are.
const SCENARIOS: &str = "crates/core/tests/core/golden.rs";
/// Where a person looks a reason up.
const GUIDE: &str = "docs/guides/halt-reasons.md";

/// Logs without a scenario, logs that do not end in a halt, and reasons and causes that the guide does not have.
///
/// # Errors
/// When the scenarios are missing.
pub(crate) fn findings(sources: &Sources) -> Result<Vec<String>, String> {
    let scenarios = sources
        .get(SCENARIOS)
        .ok_or(format!("{SCENARIOS} is missing"))?;
    let guide = sources.get(GUIDE).map_or("", String::as_str);
    let mut findings = Vec::new();
    let mut reasons = BTreeSet::new();
    for (path, text) in sources {
        let name = path
            .strip_prefix(LOGS)
            .and_then(|name| name.strip_suffix(".jsonl"));
        let Some(name) = name else {
            continue;
        };
        if !scenarios.contains(&format!("\"{name}\"")) {
            findings.push(format!("{path}: no scenario of this name in {SCENARIOS}"));
        }
        match halt_reason(text) {
            Some(reason) => {
                reasons.insert(reason);
            }
            None => findings.push(format!("{path}: its last record is no halt")),
        }
    }
    findings.extend(
        reasons
            .iter()
            .filter(|reason| !guide.lines().any(|line| line == format!("## {reason}")))
            .map(|reason| {
                format!("{GUIDE}: has no heading for {reason}, which a run can end with")
            }),
    );
    findings.extend(
        FailureCause::ALL
            .iter()
            .filter(|cause| !guide.contains(&format!("`{cause}`")))
            .map(|cause| format!("{GUIDE}: does not speak of the cause {cause}")),
    );
    Ok(findings)
}

/// The reason in the last record, when that is a halt.
fn halt_reason(log: &str) -> Option<String> {
    let last: serde_json::Value = serde_json::from_str(log.lines().last()?).ok()?;
    if last.get("event")?.as_str()? != "halt" {
        return None;
    }
    last.get("halt_reason")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(log: &str, scenarios: &str, guide: &str) -> usize {
        let sources = Sources::from([
            (format!("{LOGS}cap.jsonl"), log.to_owned()),
            (SCENARIOS.to_owned(), scenarios.to_owned()),
            (GUIDE.to_owned(), guide.to_owned()),
        ]);
        findings(&sources).map_or(usize::MAX, |found| found.len())
    }

    const HALT: &str = "{\"event\":\"halt\",\"halt_reason\":\"max_iterations_reached\"}\n";

    #[test]
    fn a_log_needs_a_scenario_a_halt_and_a_heading() {
        let causes: Vec<String> = FailureCause::ALL
            .iter()
            .map(|cause| format!("`{cause}`"))
            .collect();
        let causes = causes.join("\n");
        let guide = format!("## max_iterations_reached\n{causes}");
        assert_eq!(with(HALT, "\"cap\"", &guide), 0);
        assert_eq!(with(HALT, "\"cap-2\"", &guide), 1);
        assert_eq!(with("{\"event\":\"verdict\"}\n", "\"cap\"", &guide), 1);
        assert_eq!(with(HALT, "\"cap\"", &causes), 1);
        let silent = "## max_iterations_reached\n";
        assert_eq!(with(HALT, "\"cap\"", silent), FailureCause::ALL.len());
        assert!(findings(&Sources::new()).is_err());
    }
}
