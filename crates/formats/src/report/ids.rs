//! A JSON object `{"ids": ["…"]}`: the structured form of the collectors, and the reporter `ids`.
//!
//! Other members are skipped, so that a collector may say more; a repeated member is refused, because two readers would
//! not agree on which of them counts.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{CollectedIds, Collector, Limits, ParseError, admit};

/// Members of the object beside `ids`: more than this is no collector's output.
const MEMBERS: usize = 64;

/// Reads the ids of one JSON object.
///
/// Bad UTF-8 is replaced by U+FFFD before the JSON is read; ids are trimmed.
///
/// # Errors
/// Each limit of `limits`, a NUL byte (also an escaped one), a blank id, an id that is no string, a repeated member,
/// no member `ids`, or text after the object.
pub fn parse(input: &[u8], limits: &Limits) -> Result<CollectedIds, ParseError> {
    admit(input, limits)?;
    let text = String::from_utf8_lossy(input);
    let mut refusal = None;
    let mut collector = Collector::new(limits, matches!(text, std::borrow::Cow::Owned(_)));
    let mut reader = serde_json::Deserializer::from_str(&text);
    let outcome = reader
        .deserialize_map(ObjectVisitor {
            collector: &mut collector,
            refusal: &mut refusal,
        })
        .and_then(|()| reader.end());
    match (outcome, refusal) {
        (_, Some(refusal)) => Err(refusal),
        (Err(source), None) => Err(ParseError::MalformedJson {
            reason: source.to_string(),
        }),
        (Ok(()), None) => Ok(collector.finish()),
    }
}

/// Keeps our own reason beside the JSON reader's, which can only carry text.
struct ObjectVisitor<'a, 'limits> {
    collector: &'a mut Collector<'limits>,
    refusal: &'a mut Option<ParseError>,
}

impl<'de> Visitor<'de> for ObjectVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with the member `ids`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut members = BTreeSet::new();
        while let Some(member) = map.next_key::<String>()? {
            let is_ids = member == "ids";
            if members.len() >= MEMBERS {
                return Err(de::Error::custom(format_args!(
                    "more than {MEMBERS} members"
                )));
            }
            if members.contains(&member) {
                return Err(de::Error::custom(format_args!(
                    "member {member:?} stands twice"
                )));
            }
            members.insert(member);
            if is_ids {
                map.next_value_seed(IdsSeed {
                    collector: self.collector,
                    refusal: self.refusal,
                })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if members.contains("ids") {
            Ok(())
        } else {
            Err(de::Error::missing_field("ids"))
        }
    }
}

struct IdsSeed<'a, 'limits> {
    collector: &'a mut Collector<'limits>,
    refusal: &'a mut Option<ParseError>,
}

impl<'de> DeserializeSeed<'de> for IdsSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for IdsSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array of strings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(id) = seq.next_element::<String>()? {
            let position = self.collector.read + 1;
            let id = id.trim();
            let added = if id.is_empty() {
                Err(ParseError::BlankId { position })
            } else if id.contains('\0') {
                Err(ParseError::NulByte { offset: position })
            } else {
                self.collector.add(id)
            };
            if let Err(refusal) = added {
                *self.refusal = Some(refusal);
                return Err(de::Error::custom("refused"));
            }
        }
        Ok(())
    }
}
