//! `schema`: the JSON Schema of every object that leaves the program, made from its types.
//!
//! The bytes are a function of the program alone; the checked-in copies are compared with them.

use loopexec_core::{
    event::{Event, Header},
    workspace::Act,
};
use loopexec_engine::{feedback::Feedback, heartbeat::Heartbeat, snapshot::StateView};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Value, json};

use super::Answer;
use crate::{
    args::{Schema, SchemaName},
    envelope::Envelope,
    error::CliError,
};

/// Prints one, or the names of all.
pub(super) fn schema(arguments: &Schema) -> Result<Answer, CliError> {
    let mut envelope = Envelope::new("ok");
    let (value, text) = match arguments.name {
        None => {
            let names: Vec<&str> = SchemaName::ALL.iter().map(|name| name.text()).collect();
            let text = names.iter().map(|name| format!("{name}\n")).collect();
            (json!(names), text)
        }
        Some(name) => (schema_of(name), text_of(name)),
    };
    envelope.block.schema = Some(value);
    Ok(Answer::new(envelope, text))
}

/// A schema as it stands in its file.
pub(super) fn text_of(name: SchemaName) -> String {
    let mut text = serde_json::to_string_pretty(&schema_of(name)).unwrap_or_default();
    text.push('\n');
    text
}

fn schema_of(name: SchemaName) -> Value {
    match name {
        SchemaName::Envelope => of::<Envelope>(name),
        SchemaName::Receipt => receipt(name),
        SchemaName::State => of::<StateView>(name),
        SchemaName::WorkspaceLog => of::<Act>(name),
        SchemaName::Feedback => of::<Feedback>(name),
        SchemaName::Heartbeat => of::<Heartbeat>(name),
    }
}

/// What the program writes, not what it would also read.
fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
}

fn of<T: JsonSchema>(name: SchemaName) -> Value {
    let mut value = generator().into_root_schema_for::<T>().to_value();
    if let Some(object) = value.as_object_mut() {
        object.insert("title".to_owned(), json!(name.title()));
    }
    value
}

/// One line of a receipt: the common fields, and those of exactly one event.
fn receipt(name: SchemaName) -> Value {
    let mut generator = generator();
    let header = generator.subschema_for::<Header>();
    let events: Vec<Value> = Event::schemas(&mut generator)
        .into_iter()
        .map(|(event, payload)| {
            json!({
                "title": event.name(),
                "description": event.meaning(),
                "properties": { "event": { "const": event.name() } },
                "allOf": [payload],
            })
        })
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name.title(),
        "description": "One line of a receipt: the fields that every record has, and those of its event.",
        "type": "object",
        "allOf": [header],
        "oneOf": events,
        "$defs": generator.take_definitions(true),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_is_a_schema_and_its_bytes_do_not_change_between_two_calls() {
        for name in SchemaName::ALL {
            let text = text_of(*name);
            assert_eq!(text, text_of(*name), "{}", name.text());
            let value: Value = serde_json::from_str(&text).unwrap();
            jsonschema::validator_for(&value).unwrap_or_else(|error| {
                panic!("{} is no schema: {error}", name.text());
            });
        }
    }

    #[test]
    fn the_envelope_of_a_command_is_an_envelope() {
        let validator = jsonschema::validator_for(&schema_of(SchemaName::Envelope)).unwrap();
        let version = super::super::version::version().unwrap();
        let line: Value = serde_json::from_slice(&version.envelope.line()).unwrap();
        assert!(validator.is_valid(&line), "{line}");
        assert!(!validator.is_valid(&json!({ "tool": "loopexec" })));
    }

    #[test]
    fn a_line_is_of_exactly_the_event_that_it_names() {
        let validator = jsonschema::validator_for(&schema_of(SchemaName::Receipt)).unwrap();
        let digest = "0".repeat(64);
        let line = |event: &str| {
            json!({
                "ts": 1, "ts_ms": 1000, "t_ms": 0, "run_id": "local", "iteration": 1,
                "event": event, "seq": 1, "prev": digest, "phase": "check",
            })
        };
        assert!(validator.is_valid(&line("command_start")));
        assert!(!validator.is_valid(&line("halt")));
        assert!(!validator.is_valid(&line("no_such_event")));
    }
}
