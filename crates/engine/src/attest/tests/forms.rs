//! The forms themselves: canonical JSON, DSSE, statements, the keyed digest.

use base64ct::{Base64, Encoding};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::dsse::{Envelope, PAYLOAD_TYPE, pre_authentication_encoding};
use super::super::hmac_form::{self, Checked, HmacError};
use super::super::receipt::{ReceiptError, ReceiptFacts};
use super::super::statement::{self, EarlierRun, TestOutcome};
use super::super::{bundle, canonical, svr};
use super::{other_signer, parse_json, receipt, sign_both, signer, test_result};

#[track_caller]
fn check_canonical(input: &str, expect: &str) {
    assert_eq!(
        String::from_utf8(canonical(&parse_json(input)).expect("canonical")).expect("text"),
        expect
    );
}

#[test]
fn canonical_json_is_rfc_8785() {
    check_canonical(
        r#"{"b":1.0,"a":1e21,"é":"\u2028","\ud83d\ude00":1,"\ufb33":2}"#,
        "{\"a\":1e+21,\"b\":1,\"é\":\"\u{2028}\",\"😀\":1,\"\u{fb33}\":2}",
    );
    check_canonical(
        "[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001,-0.0]",
        "[333333333.3333333,1e+30,4.5,0.002,1e-27,0]",
    );
    check_canonical(r#"{"x":"\u000f\n\"\\/"}"#, r#"{"x":"\u000f\n\"\\/"}"#);
}

#[test]
fn the_pre_authentication_encoding_has_both_lengths() {
    assert_eq!(
        pre_authentication_encoding("http://example.com/HelloWorld", b"hello world"),
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    );
    assert_eq!(pre_authentication_encoding("", b""), b"DSSEv1 0  0 ");
}

#[test]
fn an_envelope_names_its_key_and_only_that_key_verifies_it() {
    let envelope = Envelope::sign(&signer(), PAYLOAD_TYPE, b"body").expect("signed");
    assert_eq!(envelope.signatures[0].keyid, signer().key_id());
    assert!(envelope.is_signed_by(&signer().public_key(), b"body"));
    assert!(!envelope.is_signed_by(&signer().public_key(), b"bodY"));
    assert!(!envelope.is_signed_by(&other_signer().public_key(), b"body"));
    let retyped = Envelope {
        payload_type: "text/plain".into(),
        ..envelope
    };
    assert!(!retyped.is_signed_by(&signer().public_key(), b"body"));
}

#[test]
fn a_bundle_holds_the_canonical_statement() {
    let receipt = receipt("r1", 0);
    let (_, text) = sign_both(&signer(), &receipt);
    let value = parse_json(&text);
    assert_eq!(
        value["mediaType"],
        "application/vnd.dev.sigstore.bundle.v0.3+json"
    );
    assert_eq!(
        value["verificationMaterial"],
        json!({"publicKey": {"hint": signer().key_id()}, "tlogEntries": []})
    );
    let payload = Base64::decode_vec(value["dsseEnvelope"]["payload"].as_str().expect("text"))
        .expect("base64");
    assert_eq!(
        payload,
        canonical(&statement::statement(&test_result(&receipt))).expect("canonical")
    );
}

#[test]
fn the_statement_names_receipt_candidate_and_commit_and_no_file() {
    let receipt = receipt("r1", 0);
    let statement = statement::statement(&test_result(&receipt));
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(
        statement["predicateType"],
        "https://in-toto.io/attestation/test-result/v0.1"
    );
    let subjects: Vec<(&str, Vec<&String>)> = statement["subject"]
        .as_array()
        .expect("subjects")
        .iter()
        .map(|subject| {
            (
                subject["name"].as_str().expect("name"),
                subject["digest"]
                    .as_object()
                    .expect("digest")
                    .keys()
                    .collect(),
            )
        })
        .collect();
    assert_eq!(subjects.len(), 3);
    assert_eq!(subjects[0].0, ".loopexec/run-r1.jsonl");
    assert_eq!(
        subjects[1],
        (
            "candidate",
            vec![&"gitTree".to_owned(), &"sha256".to_owned()]
        )
    );
    assert_eq!(subjects[2], ("commit", vec![&"gitCommit".to_owned()]));
    let own = &statement["predicate"]["loopexec"];
    assert_eq!(own["time"], "claimed by signer");
    assert_eq!(own["key_exposed"], true);
    assert_eq!(own["anchor_exposed"], false);
    assert_eq!(
        own["pins"]["model_id"],
        json!({"state": "unknown", "reason": "not given"})
    );
    assert_eq!(own["strength"], json!({"oracle": "not_shown"}));
}

#[test]
fn results_without_candidate_or_commit_have_one_subject() {
    let result = super::TestResult {
        candidate: None,
        commit: None,
        outcome: TestOutcome::Failed,
        ..test_result(&receipt("r1", 0))
    };
    let statement = statement::statement(&result);
    assert_eq!(statement["subject"].as_array().map(Vec::len), Some(1));
    assert_eq!(statement["predicate"]["result"], "FAILED");
}

#[test]
fn too_many_tests_or_earlier_runs_are_counted_instead_of_listed() {
    let many = |count: usize| {
        (0..count)
            .map(|number| number.to_string())
            .collect::<Vec<String>>()
    };
    let listed = |count: usize| {
        let result = super::TestResult {
            passed_tests: many(count),
            failed_tests: Vec::new(),
            ..test_result(&receipt("r1", 0))
        };
        let statement = statement::statement(&result);
        (
            statement["predicate"]["passedTests"]
                .as_array()
                .map(Vec::len),
            statement["predicate"]["loopexec"]["tests"].clone(),
        )
    };
    assert_eq!(listed(statement::TESTS).0, Some(statement::TESTS));
    let (length, counts) = listed(statement::TESTS + 1);
    assert_eq!(length, Some(0));
    assert_eq!(
        counts,
        json!({"passed": statement::TESTS + 1, "warned": 0, "failed": 0, "listed": false})
    );

    let run = EarlierRun {
        run_id: "r".into(),
        halt_reason: "cancelled".into(),
    };
    let result = super::TestResult {
        earlier_runs: vec![run; statement::EARLIER_RUNS + 1],
        ..test_result(&receipt("r1", 0))
    };
    let own = statement::statement(&result)["predicate"]["loopexec"].clone();
    assert_eq!(
        own["earlier_runs"].as_array().map(Vec::len),
        Some(statement::EARLIER_RUNS)
    );
    assert_eq!(own["earlier_runs_total"], statement::EARLIER_RUNS + 1);
}

#[test]
fn a_replay_statement_lists_what_held_sorted_and_once() {
    let verification = svr::Verification {
        receipt_name: "run-r1.jsonl".into(),
        receipt: ReceiptFacts::of(&receipt("r1", 0)).expect("whole"),
        candidate: None,
        verifier_id: "https://loopexec.dev/replay/v1".into(),
        policy_hash: "ef".repeat(32),
        time_created: "2026-01-31T00:00:00Z".into(),
        properties: vec![
            svr::Property::CheckReproduced,
            svr::Property::ReceiptConsistent,
            svr::Property::CheckReproduced,
        ],
    };
    let statement = svr::statement(&verification);
    assert_eq!(
        statement["predicateType"],
        "https://in-toto.io/attestation/svr/v0.2"
    );
    assert_eq!(
        statement["predicate"]["properties"],
        json!(["LOOPEXEC_RECEIPT_CONSISTENT", "LOOPEXEC_CHECK_REPRODUCED"])
    );
    assert_eq!(
        statement["predicate"]["verifier"]["policies"][0]["digest"]["sha256"],
        "ef".repeat(32)
    );
}

#[test]
fn receipt_facts_are_of_the_first_and_last_line() {
    let facts = ReceiptFacts::of(&receipt("r1", 0)).expect("whole");
    assert_eq!(
        (facts.records, facts.run_id.as_str(), facts.is_sealed()),
        (4, "r1", true)
    );
    assert_eq!(ReceiptFacts::of(b""), Err(ReceiptError::Empty));
    assert_eq!(ReceiptFacts::of(b"{}"), Err(ReceiptError::Cut));
    assert!(matches!(
        ReceiptFacts::of(b"{}\nx\n"),
        Err(ReceiptError::NoRecord { which: "last", .. })
    ));
    assert!(matches!(
        ReceiptFacts::of(b"\n"),
        Err(ReceiptError::NoRecord { which: "first", .. })
    ));
    let one = ReceiptFacts::of(b"{\"run_id\":\"a\",\"event\":\"run_start\"}\n").expect("one line");
    assert_eq!(
        (one.records, one.first_sha256 == one.head, one.is_sealed()),
        (1, true, false)
    );
}

fn checked() -> Checked {
    Checked {
        check: json!("make test"),
        fingerprint: json!({"exit_code": 0}),
        model: Value::Null,
        sampling: json!({"seed": 1}),
    }
}

#[test]
fn the_keyed_digest_is_the_documented_text_under_hmac_sha256() {
    // printf 'loopexec-attest-v1\nr1\nHEAD\n%s\n' "$(printf '{"check":"make test","fingerprint":{"exit_code":0},"model":null,"sampling":{"seed":1}}' | sha256sum | cut -d' ' -f1)" | openssl dgst -sha256 -hmac secret
    let digest = hmac_form::digest(b"secret", "r1", "HEAD", &checked()).expect("a key");
    assert_eq!(
        digest,
        "b34c085019665e2f32bd999f0b93607a13bd6d56f39696aa27c3026ff1b3dd15"
    );
}

#[test]
fn the_keyed_digest_verifies_with_its_key_and_values_only() {
    let file = hmac_form::digest(b"secret", "r1", "head", &checked()).expect("a key") + "\n";
    let verify = |key: &[u8], run: &str, head: &str, checked: &Checked| {
        hmac_form::verify(key, run, head, checked, Some(file.as_bytes()))
    };
    assert!(verify(b"secret", "r1", "head", &checked()).is_ok());
    let other = Checked {
        model: json!("m"),
        ..checked()
    };
    for refused in [
        verify(b"Secret", "r1", "head", &checked()),
        verify(b"secret", "r2", "head", &checked()),
        verify(b"secret", "r1", "heaD", &checked()),
        verify(b"secret", "r1", "head", &other),
    ] {
        assert!(matches!(refused, Err(HmacError::Mismatch)));
    }
}

#[test]
fn an_empty_key_a_missing_file_and_a_malformed_file_have_their_own_reasons() {
    let verify =
        |key: &[u8], file: Option<&[u8]>| hmac_form::verify(key, "r1", "head", &checked(), file);
    assert!(matches!(
        hmac_form::digest(b"", "r1", "head", &checked()),
        Err(HmacError::EmptyKey)
    ));
    assert!(matches!(verify(b"k", None), Err(HmacError::Absent)));
    for file in [
        &b""[..],
        b"abc",
        &[b'a'; 63],
        &[b'g'; 64],
        &[b'a'; 65],
        &[b'a'; 2000],
    ] {
        assert!(
            matches!(verify(b"k", Some(file)), Err(HmacError::Malformed { .. })),
            "{file:?}"
        );
    }
    assert!(matches!(
        verify(b"k", Some(&[b'a'; 64])),
        Err(HmacError::Mismatch)
    ));
}

proptest! {
    #[test]
    fn a_bundle_that_is_not_one_is_refused_without_panic(text in "[ -~]{0,200}") {
        prop_assert!(bundle::Bundle::parse(text.as_bytes()).is_err());
    }

    #[test]
    fn any_changed_byte_of_a_bundle_is_refused_or_changes_nothing_that_is_signed(at in 0..3000_usize, to in any::<u8>()) {
        let (_, text) = sign_both(&signer(), &receipt("r1", 0));
        let mut bytes = text.into_bytes();
        let at = at % bytes.len();
        bytes[at] = to;
        if let Ok(parsed) = bundle::Bundle::parse(&bytes)
            && let Ok(body) = parsed.dsse_envelope.body()
            && parsed.dsse_envelope.is_signed_by(&signer().public_key(), &body)
        {
            prop_assert_eq!(body, canonical(&statement::statement(&test_result(&receipt("r1", 0)))).expect("canonical"));
        }
    }
}
