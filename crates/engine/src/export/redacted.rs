//! A receipt with some of its fields withheld: each by its digest, every line with the digest of the original.
//!
//! The chain of digests can still be followed; what the fields decided cannot be derived again. A digest hides a value that
//! nobody can guess, no other.

use loopexec_core::digest::Digest;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    attest::canonical,
    failure::Failure,
    verify::{Item, Verification},
};

/// Fields that are withheld wherever they stand: commands, paths, pins, ids of tests, names of people and programs.
const WITHHELD: [&str; 17] = [
    "added",
    "artefacts",
    "changed_by_check",
    "commands",
    "context_manifest",
    "delta",
    "git",
    "ids",
    "left_processes",
    "now",
    "pins",
    "refused",
    "removed",
    "subject",
    "tests",
    "tools",
    "workdir",
];

/// A line of a redacted receipt.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    /// Digest of the original line.
    sha256: Digest,
    /// The record, with fields withheld.
    record: Map<String, Value>,
}

/// Redacts a receipt; gives its bytes and how many fields are withheld.
pub(super) fn redact(receipt: &[u8]) -> Result<(Vec<u8>, u64), Failure> {
    let mut out = Vec::with_capacity(receipt.len());
    let mut withheld = 0;
    for line in receipt.split_inclusive(|byte| *byte == b'\n') {
        let content = line.strip_suffix(b"\n").unwrap_or(line);
        let mut record: Map<String, Value> = serde_json::from_slice(content).map_err(|error| {
            Failure::unverified(
                "chain_broken",
                format!("the receipt cannot be read: {error}"),
            )
        })?;
        hide(&mut record, &mut withheld);
        let line = Line {
            sha256: Digest::of(content),
            record,
        };
        let text = serde_json::to_vec(&line)
            .map_err(|error| Failure::internal(error.to_string()).because("defect"))?;
        out.extend_from_slice(&text);
        out.push(b'\n');
    }
    Ok((out, withheld))
}

fn hide(object: &mut Map<String, Value>, withheld: &mut u64) {
    for (name, value) in object.iter_mut() {
        if WITHHELD.contains(&name.as_str()) && !empty(value) {
            let text = canonical(value).unwrap_or_default();
            *value = json!({ "redacted": Digest::of(&text).to_string() });
            *withheld = withheld.saturating_add(1);
        } else {
            descend(value, withheld);
        }
    }
}

fn descend(value: &mut Value, withheld: &mut u64) {
    if let Value::Object(object) = value {
        hide(object, withheld);
    } else if let Value::Array(items) = value {
        for item in items {
            descend(item, withheld);
        }
    }
}

fn empty(value: &Value) -> bool {
    value.is_null()
        || value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(Map::is_empty)
}

/// Verifies a redacted receipt: each record names the digest of the line before it, from the first on.
#[must_use]
pub fn verify(bytes: &[u8], run_id: &str) -> Verification {
    let (items, withheld) = match follow(bytes, run_id) {
        Ok((records, withheld)) => (
            vec![
                Item::pass(
                    "chain",
                    format!(
                        "redacted: the chain of digests holds over {records} records, {withheld} fields withheld"
                    ),
                ),
                Item::absent(
                    "decisions",
                    "what was withheld decided, so nothing can be derived again",
                ),
            ],
            withheld,
        ),
        Err((cause, why)) => (vec![Item::fail("chain", cause, why)], 0),
    };
    Verification {
        run_id: run_id.to_owned(),
        receipt: std::path::PathBuf::new(),
        state: None,
        items,
        evidence: None,
        strength: Vec::new(),
        withheld: Some(withheld),
    }
}

type Broken = (&'static str, String);

fn follow(bytes: &[u8], run_id: &str) -> Result<(u64, u64), Broken> {
    let mut previous = Digest::of(format!("loopexec-receipt-v1 {run_id}").as_bytes());
    let (mut records, mut withheld) = (0_u64, 0_u64);
    let mut last_event = String::new();
    for text in bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let number = records.saturating_add(1);
        let broken = |why: &str| ("chain_broken", format!("line {number}: {why}"));
        let line: Line =
            serde_json::from_slice(text).map_err(|error| broken(&error.to_string()))?;
        let field = |name: &str| line.record.get(name).and_then(Value::as_str).unwrap_or("");
        if field("run_id") != run_id {
            return Err((
                "wrong_run",
                format!("line {number} is of the run {:?}", field("run_id")),
            ));
        }
        if Digest::from_hex(field("prev")) != Some(previous) {
            return Err(broken("it does not name the line before it"));
        }
        if line.record.get("seq").and_then(Value::as_u64) != Some(records) {
            return Err(broken("it is out of sequence"));
        }
        withheld = withheld.saturating_add(count(&line.record));
        field("event").clone_into(&mut last_event);
        previous = line.sha256;
        records = number;
    }
    if records == 0 {
        return Err(("truncated", "there is no record".to_owned()));
    }
    if last_event != "halt" {
        return Err((
            "truncated",
            format!("the last record is {last_event:?}, not \"halt\""),
        ));
    }
    Ok((records, withheld))
}

fn count(object: &Map<String, Value>) -> u64 {
    object.iter().fold(0, |sum, (name, value)| {
        let below = if WITHHELD.contains(&name.as_str()) && value.get("redacted").is_some() {
            1
        } else if let Value::Object(object) = value {
            count(object)
        } else if let Value::Array(items) = value {
            let objects = items.iter().filter_map(Value::as_object);
            objects.fold(0_u64, |sum, object| sum.saturating_add(count(object)))
        } else {
            0
        };
        sum.saturating_add(below)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::Status;

    fn receipt() -> Vec<u8> {
        let mut previous = Digest::of(b"loopexec-receipt-v1 local").to_string();
        let mut out = String::new();
        for (seq, rest) in [
            r#""event":"run_start","commands":{"check":"make secret"},"pins":{}"#,
            r#""event":"guards","results":[{"name":"integrity","subject":["a::test"]}]"#,
            r#""event":"halt""#,
        ]
        .iter()
        .enumerate()
        {
            let line = format!(r#"{{"run_id":"local","seq":{seq},"prev":"{previous}",{rest}}}"#);
            previous = Digest::of(line.as_bytes()).to_string();
            out.push_str(&line);
            out.push('\n');
        }
        out.into_bytes()
    }

    #[test]
    fn nothing_of_what_is_withheld_is_left_and_the_chain_still_holds() {
        let (bytes, withheld) = redact(&receipt()).unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert_eq!(withheld, 2);
        assert!(
            !text.contains("secret") && !text.contains("a::test"),
            "{text}"
        );
        assert!(
            text.contains(r#""pins":{}"#),
            "an empty field tells nothing: {text}"
        );
        let found = verify(&bytes, "local");
        assert!(found.verified());
        assert!(
            found.items[0]
                .detail
                .contains("3 records, 2 fields withheld")
        );
    }

    #[test]
    fn a_line_that_is_missing_changed_or_of_another_run_is_said() {
        let (bytes, _) = redact(&receipt()).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let cause = |text: String, run: &str| {
            let found = verify(text.as_bytes(), run);
            assert!(found.items.iter().any(|item| item.status == Status::Fail));
            found.cause().unwrap().to_owned()
        };
        assert_eq!(
            cause(format!("{}\n{}\n", lines[0], lines[2]), "local"),
            "chain_broken"
        );
        assert_eq!(
            cause(format!("{}\n{}\n", lines[0], lines[1]), "local"),
            "truncated"
        );
        assert_eq!(cause(String::new(), "local"), "truncated");
        assert_eq!(cause(text.clone(), "other"), "wrong_run");
        let digest = Digest::of(b"x").to_string();
        let own = text.get(11..75).unwrap().to_owned();
        assert_eq!(
            cause(text.replacen(&own, &digest, 1), "local"),
            "chain_broken"
        );
    }
}
