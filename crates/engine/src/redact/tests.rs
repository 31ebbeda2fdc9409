//! What is replaced, what stays, and who may see which variable.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};

use proptest::prelude::*;

use super::{
    MAX_VALUE_BYTES, MAX_VALUES, MIN_VALUE_BYTES, RedactError, Redactor, for_check, for_work,
    name_looks_secret,
};

fn redactor() -> Redactor {
    Redactor::new([
        ("GITHUB_TOKEN", "hunter2-hunter2"),
        ("DB_PASSWORD", "hunter2-hunter2-longer"),
        ("AUTH", "1"),
        ("SHORT_SECRET", "1234567"),
        ("EXACT_SECRET", "12345678"),
        ("HOME", "/home/someone"),
    ])
    .expect("a small environment")
}

fn redact(text: &str) -> String {
    String::from_utf8(redactor().redact(text.as_bytes()).into_owned()).expect("text stays text")
}

#[track_caller]
fn check(text: &str, expect: &str) {
    assert_eq!(redact(text), expect);
}

#[test]
fn values_of_secret_names_are_replaced_by_their_name() {
    check(
        "login hunter2-hunter2 ok",
        "login [redacted:GITHUB_TOKEN] ok",
    );
    check("/home/someone", "/home/someone");
}

#[test]
fn the_longest_of_two_values_at_one_place_is_replaced() {
    check("hunter2-hunter2-longer.", "[redacted:DB_PASSWORD].");
}

#[test]
fn a_value_below_the_smallest_length_stays_and_one_at_it_goes() {
    assert_eq!(MIN_VALUE_BYTES, 8);
    check("1 of 1234567", "1 of 1234567");
    check("x12345678x", "x[redacted:EXACT_SECRET]x");
}

#[test]
fn as_many_values_as_the_limit_are_replaced_and_one_more_is_refused() {
    let pairs = |count: usize| {
        (0..count).map(|number| (format!("N{number}_TOKEN"), format!("value-{number:06}")))
    };
    let redactor = Redactor::new(pairs(MAX_VALUES)).expect("at the limit");
    assert_eq!(
        redactor.redact(b"value-001023 value-001024").as_ref(),
        b"[redacted:N1023_TOKEN] value-001024"
    );
    let refused = Redactor::new(pairs(MAX_VALUES + 1));
    assert!(
        matches!(refused, Err(RedactError::TooManyValues { found }) if found == MAX_VALUES + 1)
    );
}

#[test]
fn the_longest_value_is_replaced_also_in_chunks() {
    let value = "0123456789abcdef".repeat(MAX_VALUE_BYTES / 16);
    let redactor = Redactor::new([("BIG_SECRET", value.as_str()), ("A_TOKEN", "other-value")])
        .expect("large table");
    let text = format!("x{value}y other-value");
    let mut stream = redactor.stream();
    let mut out = Vec::new();
    for chunk in text.as_bytes().chunks(10_000) {
        stream.push(chunk, &mut out);
    }
    stream.finish(&mut out);
    assert_eq!(out, b"x[redacted:BIG_SECRET]y [redacted:A_TOKEN]");
}

#[test]
fn one_value_under_two_names_gets_the_first_name_in_any_order() {
    for pairs in [
        [("B_TOKEN", "same-value"), ("A_TOKEN", "same-value")],
        [("A_TOKEN", "same-value"), ("B_TOKEN", "same-value")],
    ] {
        assert_eq!(
            Redactor::new(pairs)
                .expect("small")
                .redact(b"same-value")
                .as_ref(),
            b"[redacted:A_TOKEN]"
        );
    }
}

#[test]
fn text_without_a_secret_is_borrowed() {
    assert!(matches!(
        redactor().redact(b"task-2024 disk-full eyJ AKIA"),
        Cow::Borrowed(_)
    ));
}

/// Keys are put together here so that no scanner takes this file for a leak.
fn keys() -> Vec<(&'static str, String)> {
    let alnum = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
    vec![
        ("anthropic-key", format!("sk-ant-api03-{alnum}_-x")),
        ("api-key", format!("sk-proj-{alnum}")),
        ("github-token", format!("ghp_{alnum}")),
        ("github-token", format!("gho_{alnum}")),
        ("github-token", format!("ghs_{alnum}")),
        ("github-token", format!("github_pat_{alnum}_{alnum}")),
        ("gitlab-token", format!("glpat-{alnum}")),
        ("slack-token", format!("xoxb-123456-{alnum}")),
        ("aws-access-key", format!("AKIA{}", "ABCDEFGH12345678")),
        (
            "google-key",
            format!("AIza{}", alnum.get(..35).expect("35 bytes")),
        ),
        ("npm-token", format!("npm_{alnum}")),
        ("json-web-token", format!("eyJ{alnum}.eyJ{alnum}.{alnum}")),
        ("private-key", pem("RSA PRIVATE KEY", "\n")),
        ("private-key", pem("OPENSSH PRIVATE KEY", "\\n")),
        ("private-key", pem("PGP PRIVATE KEY BLOCK", "\r\n")),
    ]
}

fn pem(label: &str, newline: &str) -> String {
    let line = "MIIEowIBAAKCAQEA7bq+/".repeat(3);
    format!("-----BEGIN {label}-----{newline}{line}{newline}{line}=={newline}-----END {label}-----")
}

#[test]
fn every_known_shape_is_replaced_whole_and_leaves_its_surroundings() {
    for (name, key) in keys() {
        check(
            &format!("a \"{key}\", b"),
            &format!("a \"[redacted:{name}]\", b"),
        );
        check(&format!("\\n{key}"), &format!("\\n[redacted:{name}]"));
        check(
            &format!("\u{1b}[32m{key}\u{1b}[0m"),
            &format!("\u{1b}[32m[redacted:{name}]\u{1b}[0m"),
        );
    }
}

#[test]
fn words_that_only_begin_like_a_key_stay() {
    for text in [
        "task-2024-01-02-repair-the-thing-12345",
        "sk-short1",
        "sk-without-any-number-in-the-name",
        "AKIAABCDEFGH987654321",
        "eyJhbGciOiJIUzI1NiJ9.not-a-second-object",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "-----BEGIN CERTIFICATE-----",
    ] {
        check(text, text);
    }
}

#[test]
fn an_unterminated_key_block_ends_at_the_first_foreign_byte_or_at_its_limit() {
    check(
        "-----BEGIN PRIVATE KEY-----\nabc (cut)",
        "[redacted:private-key](cut)",
    );
    let text = format!("-----BEGIN PRIVATE KEY-----{}", "A".repeat((16 << 10) + 5));
    check(&text, "[redacted:private-key]AAAAA");
}

#[test]
fn names_look_secret_by_words_and_not_by_accident() {
    for name in [
        "GITHUB_TOKEN",
        "NPMTOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "PGPASSWORD",
        "MYSQL_PWD",
        "DB_PASS",
        "api_key",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "HTTP_AUTHORIZATION",
        "LOOPEXEC_ATTEST_KEY",
        "TLS_PRIVATE_KEY",
    ] {
        assert!(name_looks_secret(OsStr::new(name)), "{name}");
    }
    for name in [
        "PATH",
        "PWD",
        "OLDPWD",
        "GIT_AUTHOR_NAME",
        "TOKENIZERS_PARALLELISM",
        "XAUTHORITY",
        "KEYBOARD",
        "COMPASS",
    ] {
        assert!(!name_looks_secret(OsStr::new(name)), "{name}");
    }
}

fn pairs(list: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    list.iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)))
        .collect()
}

fn start() -> Vec<(OsString, OsString)> {
    pairs(&[
        ("PATH", "/usr/bin"),
        ("ANTHROPIC_API_KEY", "sk-ant-something-long-0123456789"),
        ("LOOPEXEC_RUN_ID", "outer"),
        ("LOOPEXEC_ATTEST_KEY", "signing-secret"),
        ("SSH_AUTH_SOCK", "/run/agent.sock"),
        ("HARMLESS", "ghp_0123456789abcdefghij0123456789abcdef"),
        ("COPY", "sk-ant-something-long-0123456789"),
        ("AUTH", "1"),
        ("MAX_TOKENS", "200000"),
        ("TMUX", "session"),
        ("LANG", "C"),
    ])
}

fn names(list: &[(OsString, OsString)]) -> Vec<&str> {
    list.iter().filter_map(|(name, _)| name.to_str()).collect()
}

#[test]
fn a_check_gets_neither_secrets_nor_signing_keys_nor_the_runs_own_variables() {
    let redactor = Redactor::new(start()).expect("small");
    let check = for_check(&redactor, &start());
    assert_eq!(
        names(&check.variables),
        ["LANG", "MAX_TOKENS", "PATH", "TMUX"]
    );
    assert_eq!(
        check.withheld,
        [
            "ANTHROPIC_API_KEY",
            "AUTH",
            "COPY",
            "HARMLESS",
            "LOOPEXEC_ATTEST_KEY",
            "LOOPEXEC_RUN_ID",
            "SSH_AUTH_SOCK"
        ]
    );
}

#[test]
fn a_work_command_keeps_its_model_key_but_no_signing_key() {
    let redactor = Redactor::new(start()).expect("small");
    let work = for_work(&redactor, &start());
    assert_eq!(work.withheld, ["LOOPEXEC_ATTEST_KEY", "SSH_AUTH_SOCK"]);
    assert!(names(&work.variables).contains(&"ANTHROPIC_API_KEY"));
}

#[test]
fn the_environment_digest_ignores_order_session_names_and_the_values_of_secrets() {
    let digest = |list: Vec<(OsString, OsString)>| {
        for_work(&Redactor::new(list.clone()).expect("small"), &list).sha256
    };
    let base = digest(start());
    let mut other = start();
    other.reverse();
    for (name, value) in &mut other {
        if name == "TMUX" || name == "ANTHROPIC_API_KEY" || name == "COPY" {
            *value = if name == "TMUX" {
                "other".into()
            } else {
                "sk-ant-rotated-since-then-9876543210".into()
            };
        }
    }
    assert_eq!(base, digest(other.clone()));
    other.push(("NEW".into(), "x".into()));
    assert_ne!(base, digest(other));
}

#[test]
fn a_debug_print_shows_names_only() {
    let shown = format!("{:?}", redactor());
    assert!(
        shown.contains("DB_PASSWORD") && !shown.contains("hunter2"),
        "{shown}"
    );
}

fn text_with_secrets() -> impl Strategy<Value = Vec<u8>> {
    let fixed: Vec<Vec<u8>> = keys()
        .into_iter()
        .flat_map(|(_, key)| [key.as_bytes()[..key.len() / 2].to_vec(), key.into_bytes()])
        .chain(
            [
                "hunter2-hunter2",
                "hunter2-hunter2-lon",
                "12345678",
                " ",
                "\n",
                "-----",
                "x",
            ]
            .map(|text| text.as_bytes().to_vec()),
        )
        .collect();
    let piece = prop_oneof![
        4 => proptest::sample::select(fixed),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => (0..3000_usize).prop_map(|count| vec![b'a'; count]),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_chunking_gives_the_bytes_of_the_whole(text in text_with_secrets(), cuts in proptest::collection::vec(1..4000_usize, 1..40)) {
        let redactor = redactor();
        let mut stream = redactor.stream();
        let mut out = Vec::new();
        let mut rest = text.as_slice();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, after) = rest.split_at((*cut).min(rest.len()));
            stream.push(chunk, &mut out);
            prop_assert!(stream.held.len() <= 2048, "bounded: {}", stream.held.len());
            rest = after;
        }
        stream.finish(&mut out);
        prop_assert_eq!(out, redactor.redact(&text).into_owned());
    }

    #[test]
    fn no_value_survives_wherever_it_stands(before in "[ -~]{0,30}", after in "[ -~]{0,30}") {
        let text = format!("{before}hunter2-hunter2-longer{after}");
        prop_assert!(!redact(&text).contains("hunter2-hunter2"));
    }
}
