//! The bodies of the fuzz targets: what must hold for every input.
//!
//! The targets under `fuzz/` and the property tests call the same functions, so that a finding of either is a test of
//! both. A violated property panics; nothing else in this crate does.

use crate::report::{CollectedIds, Limits, ParseError, collector, ids, lines};

/// Whatever `collector` accepts is a set of clean ids, and printing that set in either form gives it back.
pub fn fuzz_collector(data: &[u8]) {
    let limits = Limits::COLLECTOR;
    let Some(set) = check_set(collector::parse(data, &limits), &limits) else {
        return;
    };
    let object = serde_json::json!({ "ids": set.ids() }).to_string();
    if object.len() <= limits.input_bytes {
        assert_eq!(
            collector::parse(object.as_bytes(), &limits),
            Ok(set),
            "the JSON form reads back"
        );
    }
}

/// Whatever `lines` accepts reads back from one id a line.
pub fn fuzz_lines(data: &[u8]) {
    let limits = Limits::COLLECTOR;
    let Some(set) = check_set(lines::parse(data, &limits), &limits) else {
        return;
    };
    let text = set.ids().join("\n");
    if text.len() <= limits.input_bytes {
        assert_eq!(
            lines::parse(text.as_bytes(), &limits),
            Ok(set),
            "the line form reads back"
        );
    }
}

/// Whatever `ids` accepts is a set of clean ids.
pub fn fuzz_ids(data: &[u8]) {
    let limits = Limits::COLLECTOR;
    check_set(ids::parse(data, &limits), &limits);
}

fn check_set(parsed: Result<CollectedIds, ParseError>, limits: &Limits) -> Option<CollectedIds> {
    let set = parsed.ok()?;
    assert!(
        set.ids()
            .is_sorted_by(|left, right| left.as_bytes() < right.as_bytes()),
        "sorted by bytes, each id once"
    );
    assert!(set.ids().len() <= limits.ids, "no more ids than the limit");
    for id in set.ids() {
        assert!(
            !id.is_empty() && id.trim() == id,
            "trimmed and not blank: {id:?}"
        );
        assert!(
            id.len() <= limits.id_bytes && !id.contains('\0'),
            "within the limit, without NUL: {id:?}"
        );
    }
    Some(set)
}
