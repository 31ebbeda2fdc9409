//! From a JSON Schema to Markdown: fields, their types, their meaning.
//!
//! Must not know which schema it is given.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The fields of an object schema as table rows, sorted by name.
pub(crate) fn field_rows(schema: &Value) -> String {
    let mut rows = String::new();
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    for (name, field) in object(schema, "properties") {
        let presence = if required.contains(&name.as_str()) {
            "always"
        } else {
            "optional"
        };
        let _ = writeln!(
            rows,
            "| `{name}` | {} | {presence} | {} |",
            type_name(field),
            cell(description(field))
        );
    }
    rows
}

/// A table of the fields, or a sentence when there are none.
pub(crate) fn field_table(schema: &Value) -> String {
    let rows = field_rows(schema);
    if rows.is_empty() {
        return "No fields of its own.\n".to_owned();
    }
    format!("| field | type | present | meaning |\n|---|---|---|---|\n{rows}")
}

/// The named values of an enumeration, or `None` when the schema is none.
pub(crate) fn values(schema: &Value) -> Option<Vec<(String, String)>> {
    if let Some(names) = schema.get("enum").and_then(Value::as_array) {
        return Some(
            names
                .iter()
                .filter_map(Value::as_str)
                .map(|name| (name.to_owned(), String::new()))
                .collect(),
        );
    }
    let variants = schema.get("oneOf").and_then(Value::as_array)?;
    let mut all = Vec::new();
    for variant in variants {
        let meaning = description(variant).to_owned();
        match variant.get("const").and_then(Value::as_str) {
            Some(name) => all.push((name.to_owned(), meaning)),
            None => all.extend(values(variant)?),
        }
    }
    Some(all)
}

/// One entry a type: its fields or its values.
pub(crate) fn type_entries(definitions: &Map<String, Value>, skip: &[&str]) -> String {
    let mut text = String::new();
    for (name, schema) in definitions {
        if skip.contains(&name.as_str()) {
            continue;
        }
        let _ = writeln!(text, "**`{name}`**: {}\n", description(schema));
        match values(schema) {
            Some(values) => {
                for (value, meaning) in values {
                    let colon = if meaning.is_empty() { "" } else { ": " };
                    let _ = writeln!(text, "- `{value}`{colon}{meaning}");
                }
            }
            None if schema.get("properties").is_some() => text.push_str(&field_table(schema)),
            None => {
                let _ = writeln!(text, "Written as {}.", type_name(schema));
            }
        }
        text.push('\n');
    }
    text
}

/// The type of a field in a few words.
pub(crate) fn type_name(schema: &Value) -> String {
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let name = target.rsplit('/').next().unwrap_or(target);
        return format!("`{name}`");
    }
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
        let names: Vec<String> = choices
            .iter()
            .filter(|choice| choice.get("type").and_then(Value::as_str) != Some("null"))
            .map(type_name)
            .collect();
        return names.join(" or ");
    }
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => {
            let kinds: Vec<&str> = kinds
                .iter()
                .filter_map(Value::as_str)
                .filter(|kind| *kind != "null")
                .collect();
            kinds.join(" or ")
        }
        Some(_) | None if values(schema).is_some() => "one of a list".to_owned(),
        Some(_) | None => "any".to_owned(),
    };
    match (kind.as_str(), schema.get("items")) {
        ("array", Some(items)) => format!("list of {}", type_name(items)),
        _ => kind,
    }
}

/// The description of a schema; empty when it has none.
pub(crate) fn description(schema: &Value) -> &str {
    schema
        .get("description")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The members of an object below `name`.
pub(crate) fn object<'a>(
    schema: &'a Value,
    name: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema
        .get(name)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

/// Text that does not end its table cell.
pub(crate) fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_have_their_type_presence_and_meaning() {
        let schema = json!({
            "required": ["a"],
            "properties": {
                "a": {"type": ["integer", "null"], "description": "One | two."},
                "b": {"anyOf": [{"$ref": "#/$defs/Digest"}, {"type": "null"}]},
                "c": {"type": "array", "items": {"type": "string"}},
            }
        });
        assert_eq!(
            field_rows(&schema),
            "| `a` | integer | always | One \\| two. |\n| `b` | `Digest` | optional |  |\n| `c` | list of string | optional |  |\n"
        );
    }

    #[test]
    fn an_enumeration_is_its_values() {
        let schema = json!({"oneOf": [{"const": "x", "description": "X."}, {"enum": ["y"]}]});
        assert_eq!(
            values(&schema),
            Some(vec![
                ("x".to_owned(), "X.".to_owned()),
                ("y".to_owned(), String::new())
            ])
        );
        assert_eq!(values(&json!({"type": "string"})), None);
    }
}
