//! The collectors' two forms, each limit, and the fuzz properties.

use proptest::prelude::*;

use super::{Limits, ParseError, collector, ids, lines};

const SMALL: Limits = Limits {
    input_bytes: 32,
    ids: 3,
    id_bytes: 8,
};

#[track_caller]
fn check(input: &[u8], expect: &[&str]) {
    let set = collector::parse(input, &Limits::COLLECTOR).expect("accepted");
    assert_eq!(set.ids(), expect);
}

#[track_caller]
fn check_json_refused(input: &str, expect: &str) {
    match collector::parse(input.as_bytes(), &Limits::COLLECTOR) {
        Err(ParseError::MalformedJson { reason }) => assert!(reason.contains(expect), "{reason}"),
        other => panic!("expected malformed JSON, got {other:?}"),
    }
}

#[test]
fn empty_and_blank_output_is_the_empty_set() {
    check(b"", &[]);
    check(b"\n \r\n\t\n", &[]);
    check(b"{\"ids\":[]}", &[]);
}

#[test]
fn lines_are_trimmed_sorted_by_bytes_and_unique() {
    check(b"b\r\n  a \nb\n\xc3\xa9\nZ", &["Z", "a", "b", "\u{e9}"]);
}

#[test]
fn a_line_keeps_inner_blanks_and_needs_no_last_newline() {
    check(
        b"tests/a.py::test [x y]\nz",
        &["tests/a.py::test [x y]", "z"],
    );
}

#[test]
fn the_json_form_gives_the_same_set_as_lines() {
    check(
        b" {\"note\": {\"a\": [1, null]}, \"ids\": [\" b\", \"a\", \"b\"]}\n",
        &["a", "b"],
    );
}

#[test]
fn a_byte_order_mark_is_no_part_of_an_id() {
    check(b"\xef\xbb\xbfa\n", &["a"]);
    check(b"\xef\xbb\xbf{\"ids\":[\"a\"]}", &["a"]);
}

#[test]
fn bad_utf8_is_replaced_and_refused_where_two_ids_would_become_one() {
    check(b"x\xff\ny", &["x\u{fffd}", "y"]);
    assert_eq!(
        collector::parse(b"x\xff\nx\xfe\n", &Limits::COLLECTOR),
        Err(ParseError::AmbiguousId {
            id: "x\u{fffd}".into()
        })
    );
    // Replacement characters that the program itself printed are text like any other.
    check("x\u{fffd}\nx\u{fffd}\n".as_bytes(), &["x\u{fffd}"]);
}

#[test]
fn malformed_json_fails_closed_with_the_readers_reason() {
    check_json_refused("{", "EOF");
    check_json_refused("{\"ids\":[\"a\"]} trailing", "trailing");
    check_json_refused("{\"ids\":[\"a\"],\"ids\":[]}", "stands twice");
    check_json_refused("{\"x\":1,\"x\":2,\"ids\":[]}", "stands twice");
    check_json_refused("{\"ids\":[1]}", "expected a string");
    check_json_refused("{\"ids\":\"a\"}", "array of strings");
    check_json_refused("{\"failures\":[]}", "missing field `ids`");
}

#[test]
fn deep_nesting_in_a_skipped_member_costs_no_stack() {
    let nested = format!(
        "{{\"x\":{}1{},\"ids\":[\"a\"]}}",
        "[".repeat(200_000),
        "]".repeat(200_000)
    );
    check(nested.as_bytes(), &["a"]);
}

#[test]
fn more_members_than_a_collector_would_print_are_refused() {
    let object = |members: usize| {
        let rest: String = (0..members)
            .map(|number| format!(",\"m{number}\":0"))
            .collect();
        format!("{{\"ids\":[\"a\"]{rest}}}")
    };
    check(object(63).as_bytes(), &["a"]);
    check_json_refused(&object(64), "more than 64 members");
}

#[test]
fn a_blank_id_or_an_escaped_nul_in_json_is_refused() {
    assert_eq!(
        collector::parse(b"{\"ids\":[\"a\",\" \"]}", &Limits::COLLECTOR),
        Err(ParseError::BlankId { position: 2 })
    );
    assert_eq!(
        collector::parse(b"{\"ids\":[\"a\\u0000\"]}", &Limits::COLLECTOR),
        Err(ParseError::NulByte { offset: 1 })
    );
}

#[test]
fn a_nul_byte_is_refused_in_both_forms() {
    for input in [&b"a\0b"[..], b"{\"ids\":[\"a\0\"]}"] {
        assert!(matches!(
            collector::parse(input, &Limits::COLLECTOR),
            Err(ParseError::NulByte { .. })
        ));
    }
}

#[test]
fn each_limit_refuses_one_more_and_accepts_the_limit_itself() {
    let input = |count: usize| vec![b' '; count];
    assert!(collector::parse(&input(32), &SMALL).is_ok());
    assert_eq!(
        collector::parse(&input(33), &SMALL),
        Err(ParseError::InputTooLong {
            found: 33,
            limit: 32
        })
    );
    assert!(collector::parse(b"a\nb\nc", &SMALL).is_ok());
    assert_eq!(
        collector::parse(b"a\nb\nb\nc", &SMALL),
        Err(ParseError::TooManyIds { limit: 3 })
    );
    assert!(collector::parse(b"12345678", &SMALL).is_ok());
    assert_eq!(
        collector::parse(b"a\n123456789", &SMALL),
        Err(ParseError::IdTooLong {
            position: 2,
            found: 9,
            limit: 8
        })
    );
    assert_eq!(
        ids::parse(b"{\"ids\":[\"a\",\"a\",\"a\",\"a\"]}", &SMALL),
        Err(ParseError::TooManyIds { limit: 3 })
    );
}

#[test]
fn a_million_ids_of_one_byte_are_within_their_own_limits() {
    let limits = Limits {
        input_bytes: 4 << 20,
        ..Limits::COLLECTOR
    };
    assert!(lines::parse(&b"a\n".repeat(1_000_000), &limits).is_ok());
    assert_eq!(
        lines::parse(&b"a\n".repeat(1_000_001), &limits),
        Err(ParseError::TooManyIds { limit: 1_000_000 })
    );
}

/// Text that is likely to get past the first byte of either form.
fn likely_input() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"{\"ids\":[".to_vec()),
        Just(b"]}".to_vec()),
        Just(b"\"a\",".to_vec()),
        Just(b"\"".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\xef\xbb\xbf".to_vec()),
        Just(b"\xff".to_vec()),
        Just(b"\\u0000".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..8),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn the_fuzz_properties_hold_for_likely_input(data in likely_input()) {
        crate::fuzz::fuzz_collector(&data);
        crate::fuzz::fuzz_lines(&data);
        crate::fuzz::fuzz_ids(&data);
    }

    #[test]
    fn any_set_of_lines_reads_back_in_any_order(names in proptest::collection::vec("[a-z:/\\[\\] ]{1,12}", 0..20)) {
        let mut expect: Vec<String> =
            names.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
        let forwards = lines::parse(expect.join("\n").as_bytes(), &Limits::COLLECTOR);
        let object = serde_json::json!({ "ids": expect }).to_string();
        expect.reverse();
        let backwards = lines::parse(expect.join("\r\n").as_bytes(), &Limits::COLLECTOR);
        prop_assert_eq!(&forwards, &backwards);
        prop_assert_eq!(forwards, ids::parse(object.as_bytes(), &Limits::COLLECTOR));
    }
}
