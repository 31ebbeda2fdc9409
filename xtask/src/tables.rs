//! Tables that the core's own tables generate: exit classes, halt reasons, causes, events, record fields.
//!
//! Must not hold a list of its own: what the core adds appears here.

use std::{collections::BTreeMap, fmt::Write as _};

use loopexec_core::{
    event::{Event, EventName},
    halt::{ExitClass, FailureCause, HaltReason},
};
use serde_json::Value;

use crate::schema;

/// The table of this name; `None` when there is none.
pub(crate) fn table(name: &str) -> Option<String> {
    match name {
        "exit-classes" => Some(exit_classes()),
        "halt-reasons" => Some(halt_reasons()),
        "failure-causes" => Some(failure_causes()),
        "events" => Some(events()),
        "record-fields" => Some(record_fields()),
        _ => None,
    }
}

/// Each exit code once, with the reasons that end in it.
fn exit_classes() -> String {
    let mut classes: BTreeMap<u8, (ExitClass, Vec<&str>)> = BTreeMap::new();
    for class in [ExitClass::Nominal, ExitClass::Usage] {
        classes.insert(class.code(), (class, Vec::new()));
    }
    for reason in HaltReason::ALL {
        let class = reason.class();
        let entry = classes
            .entry(class.code())
            .or_insert_with(|| (class, Vec::new()));
        entry.1.push(reason.name());
    }
    let mut text = String::from("| exit | class | halt reasons |\n|---|---|---|\n");
    for (code, (class, reasons)) in classes {
        let list: Vec<String> = reasons.iter().map(|name| format!("`{name}`")).collect();
        let list = if list.is_empty() {
            "none".to_owned()
        } else {
            list.join(", ")
        };
        let _ = writeln!(text, "| {code} | {} | {list} |", class.name());
    }
    text
}

fn halt_reasons() -> String {
    let mut text = String::from("| halt reason | exit | meaning |\n|---|---|---|\n");
    for reason in HaltReason::ALL {
        let _ = writeln!(
            text,
            "| `{reason}` | {} | {} |",
            reason.class().code(),
            schema::cell(reason.meaning())
        );
    }
    text
}

fn failure_causes() -> String {
    let mut text = String::from("| failure cause | meaning |\n|---|---|\n");
    for cause in FailureCause::ALL {
        let _ = writeln!(text, "| `{cause}` | {} |", schema::cell(cause.meaning()));
    }
    text
}

fn events() -> String {
    let mut text = String::from("| event | records |\n|---|---|\n");
    for event in EventName::ALL {
        let _ = writeln!(
            text,
            "| `{}` | {} |",
            event.name(),
            schema::cell(event.meaning())
        );
    }
    text
}

/// The fields of each event, then the types that they use.
fn record_fields() -> String {
    let mut generator = schemars::SchemaGenerator::default();
    let payloads = Event::schemas(&mut generator);
    let definitions = generator.take_definitions(true);
    let mut text = String::new();
    let mut used: Vec<String> = Vec::new();
    for (event, payload) in payloads {
        let payload = payload.to_value();
        let target = payload
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|target| target.rsplit('/').next());
        let fields = match target.and_then(|name| definitions.get(name)) {
            Some(definition) => schema::field_table(definition),
            None => schema::field_table(&payload),
        };
        used.extend(target.map(str::to_owned));
        let _ = writeln!(text, "**Event `{}`**\n\n{fields}", event.name());
    }
    let skip: Vec<&str> = used.iter().map(String::as_str).collect();
    text.push_str("Types that these fields use:\n\n");
    text.push_str(&schema::type_entries(&definitions, &skip));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_cause_and_event_is_in_its_table() {
        let (classes, reasons) = (exit_classes(), halt_reasons());
        for reason in HaltReason::ALL {
            assert!(classes.contains(reason.name()) && reasons.contains(reason.name()));
        }
        for cause in FailureCause::ALL {
            assert!(failure_causes().contains(cause.name()));
        }
        let fields = record_fields();
        for event in EventName::ALL {
            assert!(events().contains(event.name()));
            assert!(fields.contains(&format!("**Event `{}`**", event.name())));
        }
        assert!(table("none of these").is_none());
    }

    #[test]
    fn a_class_is_one_row_with_its_code_and_reasons() {
        let classes = exit_classes();
        assert!(classes.contains("| 10 | converged | `success_condition_met` |"));
        assert!(classes.contains("| 2 | usage | none |"));
    }
}
