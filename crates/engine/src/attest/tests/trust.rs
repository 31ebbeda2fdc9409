//! The list of allowed signers.

use proptest::prelude::*;

use super::super::signers::{AllowedSigners, NotAdmitted, SignersError};
use super::{other_signer, signer};

const NOW: i64 = 1_767_225_600; // 2026-01-01T00:00:00Z

fn key() -> String {
    signer().public_key().to_openssh()
}

fn admit(text: &str, wanted: Option<&str>) -> Result<(String, usize), NotAdmitted> {
    let signers = AllowedSigners::parse(text.as_bytes()).expect("understood");
    signers
        .admit(&signer().public_key(), wanted, NOW)
        .map(|admitted| (admitted.principal, admitted.line))
}

#[track_caller]
fn check_refused(text: &str, expect_line: usize, expect: &str) {
    match AllowedSigners::parse(text.as_bytes()) {
        Err(SignersError::Line { line, reason }) => {
            assert_eq!(line, expect_line);
            assert!(reason.contains(expect), "{reason}");
        }
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[test]
fn comments_and_blank_lines_are_skipped_and_the_line_is_named() {
    let text = format!("# people\n\n  ann@example.org {} Ann's key\r\n", key());
    assert_eq!(admit(&text, None), Ok(("ann@example.org".into(), 3)));
}

#[test]
fn an_identity_matches_the_patterns_of_the_principals() {
    let text = format!("*@example.org,!bob@example.org {}\n", key());
    assert_eq!(
        admit(&text, Some("ann@example.org")),
        Ok(("ann@example.org".into(), 1))
    );
    for wanted in ["bob@example.org", "ann@example.com"] {
        assert_eq!(
            admit(&text, Some(wanted)),
            Err(NotAdmitted::OtherPrincipal {
                line: 1,
                wanted: wanted.into()
            })
        );
    }
    assert!(admit(&format!("\"ann smith,x\" {}\n", key()), Some("ann smith")).is_ok());
}

#[test]
fn the_namespace_must_match_when_it_is_given() {
    let with =
        |namespaces: &str| admit(&format!("a namespaces=\"{namespaces}\" {}\n", key()), None);
    assert!(with("git,receipt@loopexec.dev").is_ok());
    assert!(with("*@loopexec.dev").is_ok());
    assert_eq!(with("git"), Err(NotAdmitted::OtherNamespace { line: 1 }));
    assert_eq!(
        with("*,!receipt@*"),
        Err(NotAdmitted::OtherNamespace { line: 1 })
    );
}

#[test]
fn times_hold_from_their_first_second_to_the_one_before_their_last() {
    let with = |options: &str| admit(&format!("a {options} {}\n", key()), None);
    assert!(with("valid-after=\"20260101Z\"").is_ok());
    assert_eq!(
        with("valid-after=\"20260101000001Z\""),
        Err(NotAdmitted::OtherTime { line: 1 })
    );
    assert!(with("valid-before=\"20260101000001Z\"").is_ok());
    assert_eq!(
        with("valid-before=\"202601010000Z\""),
        Err(NotAdmitted::OtherTime { line: 1 })
    );
    assert!(with("namespaces=\"*\",valid-after=\"20240229Z\",valid-before=\"20280229Z\"").is_ok());
}

#[test]
fn a_second_line_may_admit_what_the_first_does_not() {
    let text = format!("a namespaces=\"git\" {}\nb {}\n", key(), key());
    assert_eq!(admit(&text, None), Ok(("b".into(), 2)));
}

#[test]
fn an_unknown_key_is_told_from_a_known_one() {
    let text = format!("a {}\n", other_signer().public_key().to_openssh());
    assert_eq!(admit(&text, None), Err(NotAdmitted::UnknownKey));
    assert_eq!(admit("", None), Err(NotAdmitted::UnknownKey));
}

#[test]
fn keys_of_other_types_are_kept_out_but_do_not_refuse_the_file() {
    let text = format!(
        "a ssh-rsa AAAA\nb sk-ssh-ed25519@openssh.com AAAA\nc {}\n",
        key()
    );
    assert_eq!(admit(&text, None), Ok(("c".into(), 3)));
}

#[test]
fn what_is_not_understood_refuses_the_file_with_its_line() {
    check_refused("\nonly-a-principal\n", 2, "needs principals");
    check_refused(&format!("a cert-authority {}\n", key()), 1, "not supported");
    check_refused(
        &format!("a verify-required=\"x\" {}\n", key()),
        1,
        "not supported",
    );
    check_refused(&format!("a namespaces=git {}\n", key()), 1, "not in quotes");
    check_refused(
        &format!("a namespaces=\"a\",namespaces=\"b\" {}\n", key()),
        1,
        "stands twice",
    );
    check_refused(
        &format!("a namespaces=\"a\"x {}\n", key()),
        1,
        "follows option",
    );
    check_refused(
        &format!("a valid-after=\"20260101\" {}\n", key()),
        1,
        "local time",
    );
    check_refused(
        &format!("a valid-after=\"20261301Z\" {}\n", key()),
        1,
        "is not YYYYMMDD",
    );
    check_refused("a ssh-ed25519 AAAA\n", 1, "its key");
    check_refused("a nonsense AAAA\n", 1, "not supported");
    assert!(AllowedSigners::parse(b"\xff\n").is_err());
    assert_eq!(
        AllowedSigners::parse(&vec![b'#'; (1 << 20) + 1]).err(),
        Some(SignersError::TooLarge {
            found: (1 << 20) + 1
        })
    );
    assert!(AllowedSigners::parse(&vec![b'#'; 1 << 20]).is_ok());
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-z\"=,! #\\n*?Z0-9@.-]{0,80}", key_at in 0..3_usize) {
        let lines = [text.clone(), format!("{text} {}", key()), format!("a {text} {}", key())];
        let _ = AllowedSigners::parse(lines[key_at].as_bytes());
    }

    #[test]
    fn a_pattern_of_stars_ends_in_time(stars in 1..200_usize, text in "a{0,200}") {
        let line = format!("{}b {}\n", "*a".repeat(stars), key());
        let signers = AllowedSigners::parse(line.as_bytes()).expect("understood");
        let admitted = signers.admit(&signer().public_key(), Some(&text), NOW).is_ok();
        prop_assert!(!admitted, "the text does not end in b");
    }
}
