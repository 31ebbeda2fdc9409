//! Words that must not stand in anything that ships, because they claim what is not so.
//!
//! Looks at lines of text alone, and must not know what a file is for.

use crate::sources::Sources;

/// This file lists the words, so it is the only one that may have them.
const SELF: &str = "xtask/src/words.rs";

/// What is refused wherever it stands, and why.
const PHRASES: &[(&str, &str)] = &[
    ("replayable run", "only verdicts are replayed"),
    ("reproducible run", "a live run is never the same twice"),
    (
        "deterministic agent",
        "the governor is deterministic, an agent is not",
    ),
    (
        "signed and verified",
        "a signature proves nothing until it was verified",
    ),
    (
        "verified by its signature",
        "a signature proves nothing until it was verified",
    ),
];

/// Words about money; beside them nothing is promised.
const MONEY: [&str; 8] = [
    "money", "budget", "spend", "spent", "cost", "usd", "price", "charge",
];

/// Words that deny what stands beside them.
const DENIALS: [&str; 6] = ["not ", "no ", "never", "nothing", "cannot", "without"];

/// Words that say that a signature is there and no more.
const PRESENCE: [&str; 3] = ["present", "exists", "is there"];

/// Every refused phrase with its place.
pub(crate) fn findings(sources: &Sources) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in sources {
        if path == SELF {
            continue;
        }
        for (number, line) in (1..).zip(text.lines()) {
            findings.extend(refused(line).map(|why| format!("{path}:{number}: {why}")));
        }
    }
    findings
}

/// Why a line is refused.
fn refused(line: &str) -> Option<String> {
    let line = line.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| line.contains(word));
    if let Some((phrase, why)) = PHRASES.iter().find(|(phrase, _)| line.contains(phrase)) {
        return Some(format!("{phrase:?}: {why}"));
    }
    if line.contains("guarantee") && has(&MONEY) && !has(&DENIALS) {
        return Some("nothing observed about money is a guarantee".to_owned());
    }
    let verified = line.replace("unverified", "").contains("verified");
    if verified && line.contains("signature") && has(&PRESENCE) && !has(&DENIALS) {
        return Some("a signature that is there is not verified by that".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refused_phrase_is_found_with_its_place() {
        let sources = Sources::from([
            (
                "a.md".to_owned(),
                "fine\nA Replayable Runs list\n".to_owned(),
            ),
            (SELF.to_owned(), "replayable run".to_owned()),
        ]);
        let found = findings(&sources);
        assert_eq!(found.len(), 1);
        assert!(found.concat().starts_with("a.md:2: "));
        for (phrase, _) in PHRASES {
            assert!(refused(phrase).is_some(), "{phrase}");
        }
    }

    #[test]
    fn promises_about_money_and_unverified_signatures_are_refused() {
        assert!(refused("The budget is guaranteed.").is_some());
        assert!(refused("Spending is never guaranteed to stop.").is_none());
        assert!(refused("Order is guaranteed.").is_none());
        assert!(refused("The signature exists and is verified").is_some());
        assert!(refused("A signature that exists is not verified by that").is_none());
        assert!(refused("the signature is present_unverified").is_none());
    }
}
