//! Each way in which a signature can fail, with its own cause.

use super::super::receipt::ReceiptFacts;
use super::super::signers::AllowedSigners;
use super::super::statement::{self, PREDICATE_TYPE};
use super::super::verify::{Refusal, SignedFile, Trust, bundle, signature};
use super::super::{bundle as bundles, sshsig, svr};
use super::{allowed, other_signer, receipt, sign_both, signer, test_result};

const NOW: i64 = 1_767_225_600;

/// Both answers for a receipt, against the files that were made for `receipt("r1", 0)`.
fn answers(receipt_now: &[u8]) -> (Result<(), Refusal>, Result<(), Refusal>) {
    let (sig, bun) = sign_both(&signer(), &receipt("r1", 0));
    let key = signer().public_key();
    let trust = Trust::Key(&key);
    let facts = ReceiptFacts::of(&receipt("r1", 0)).expect("whole");
    (
        signature(receipt_now, Some(sig.as_bytes()), &trust, Some(&facts)).map(|_| ()),
        bundle(receipt_now, Some(bun.as_bytes()), &trust, PREDICATE_TYPE).map(|_| ()),
    )
}

#[track_caller]
fn check(receipt_now: &[u8], cause: &str) {
    let (by_signature, by_bundle) = answers(receipt_now);
    for (file, answer) in [("signature", by_signature), ("bundle", by_bundle)] {
        assert_eq!(
            answer.as_ref().err().map(Refusal::cause),
            Some(cause),
            "{file}: {answer:?}"
        );
    }
}

#[test]
fn the_genuine_receipt_is_accepted_by_key_and_by_list() {
    assert_eq!(answers(&receipt("r1", 0)), (Ok(()), Ok(())));
    let (sig, bun) = sign_both(&signer(), &receipt("r1", 0));
    let signers =
        AllowedSigners::parse(allowed(&signer().public_key()).as_bytes()).expect("understood");
    let trust = Trust::Signers {
        signers: &signers,
        wanted: Some("ann@example.org"),
        now: NOW,
    };
    let by_signature =
        signature(&receipt("r1", 0), Some(sig.as_bytes()), &trust, None).expect("accepted");
    let by_bundle = bundle(
        &receipt("r1", 0),
        Some(bun.as_bytes()),
        &trust,
        PREDICATE_TYPE,
    )
    .expect("accepted");
    assert_eq!(by_signature.principal.as_deref(), Some("ann@example.org"));
    assert_eq!(by_bundle.signer, by_signature);
    assert_eq!(
        by_bundle.statement,
        statement::statement(&test_result(&receipt("r1", 0)))
    );
}

#[test]
fn any_edited_byte_of_the_receipt_is_refused() {
    let genuine = receipt("r1", 0);
    for at in 0..genuine.len() {
        let mut edited = genuine.clone();
        edited[at] ^= 1;
        let (by_signature, by_bundle) = answers(&edited);
        assert!(by_signature.is_err() && by_bundle.is_err(), "byte {at}");
    }
    let text = String::from_utf8(genuine).expect("text");
    check(
        text.replace("\"ts\":2", "\"ts\":5").as_bytes(),
        "signature_mismatch",
    );
    check(
        text.replace("\"ts\":0", "\"ts\":7").as_bytes(),
        "signature_mismatch",
    );
}

#[test]
fn a_deleted_last_line_and_a_cut_line_are_truncation() {
    let text = String::from_utf8(receipt("r1", 0)).expect("text");
    let (without_last, _) = text.trim_end().rsplit_once('\n').expect("lines");
    check(format!("{without_last}\n").as_bytes(), "truncated");
    check(text.trim_end().as_bytes(), "truncated");
    check(b"", "truncated");
}

#[test]
fn another_run_is_told_by_its_id_and_also_under_the_same_id() {
    check(&receipt("r2", 0), "wrong_run");
    check(&receipt("r1", 100), "wrong_run");
}

#[test]
fn a_resumed_receipt_makes_the_signature_stale() {
    let mut resumed = receipt("r1", 0);
    let signed = resumed.len() as u64;
    resumed.extend_from_slice(b"{\"seq\":4,\"run_id\":\"r1\",\"event\":\"resume\"}\n");
    assert_eq!(
        answers(&resumed).0,
        Err(Refusal::Stale {
            signed_bytes: signed
        })
    );
    check(&resumed, "stale_signature");
    resumed.extend_from_slice(b"{\"seq\":5,\"run_id\":\"r1\",\"event\":\"halt\"}\n");
    check(&resumed, "stale_signature");
}

#[test]
fn without_the_bundles_facts_a_swapped_receipt_is_still_refused() {
    let (sig, _) = sign_both(&signer(), &receipt("r1", 0));
    let key = signer().public_key();
    let answer = signature(
        &receipt("r1", 100),
        Some(sig.as_bytes()),
        &Trust::Key(&key),
        None,
    );
    assert_eq!(answer, Err(Refusal::ChangedReceipt));
}

#[test]
fn another_key_is_refused_before_the_receipt_is_looked_at() {
    let (sig, bun) = sign_both(&other_signer(), &receipt("r1", 0));
    let key = signer().public_key();
    let signers = AllowedSigners::parse(allowed(&key).as_bytes()).expect("understood");
    for trust in [
        Trust::Key(&key),
        Trust::Signers {
            signers: &signers,
            wanted: None,
            now: NOW,
        },
    ] {
        let by_signature = signature(&receipt("r1", 0), Some(sig.as_bytes()), &trust, None);
        let by_bundle = bundle(
            &receipt("r1", 0),
            Some(bun.as_bytes()),
            &trust,
            PREDICATE_TYPE,
        );
        assert!(
            matches!(
                by_signature,
                Err(Refusal::WrongKey {
                    file: SignedFile::Signature,
                    ..
                })
            ),
            "{by_signature:?}"
        );
        assert!(
            matches!(
                by_bundle,
                Err(Refusal::WrongKey {
                    file: SignedFile::Bundle,
                    ..
                })
            ),
            "{by_bundle:?}"
        );
    }
}

#[test]
fn a_changed_statement_is_told_from_a_wrong_key() {
    let (_, genuine) = sign_both(&signer(), &receipt("r1", 0));
    let (_, forged) = sign_both(&other_signer(), &receipt("r1", 100));
    let mut bundle_file = super::parse_json(&genuine);
    bundle_file["dsseEnvelope"]["payload"] =
        super::parse_json(&forged)["dsseEnvelope"]["payload"].clone();
    let key = signer().public_key();
    let answer = bundle(
        &receipt("r1", 100),
        Some(bundle_file.to_string().as_bytes()),
        &Trust::Key(&key),
        PREDICATE_TYPE,
    );
    assert_eq!(
        answer.map(|_| ()),
        Err(Refusal::ChangedStatement {
            found: signer().key_id()
        })
    );
}

#[test]
fn absent_and_malformed_files_are_told_apart() {
    let key = signer().public_key();
    let trust = Trust::Key(&key);
    let receipt = receipt("r1", 0);
    assert_eq!(
        signature(&receipt, None, &trust, None),
        Err(Refusal::Absent {
            file: SignedFile::Signature
        })
    );
    assert_eq!(
        bundle(&receipt, None, &trust, PREDICATE_TYPE).map(|_| ()),
        Err(Refusal::Absent {
            file: SignedFile::Bundle
        })
    );
    let (sig, bun) = sign_both(&signer(), &receipt);
    let large = vec![b'x'; sshsig::SIGNATURE_FILE_BYTES + 1];
    for file in [
        &b""[..],
        b"x",
        &sig.as_bytes()[..60],
        bun.as_bytes(),
        &large,
    ] {
        let answer = signature(&receipt, Some(file), &trust, None);
        assert!(
            matches!(
                answer,
                Err(Refusal::Malformed {
                    file: SignedFile::Signature,
                    ..
                })
            ),
            "{answer:?}"
        );
    }
    for file in [
        &b""[..],
        b"{}",
        sig.as_bytes(),
        bun.replace("v0.3", "v0.2").as_bytes(),
        bun.replace("in-toto", "in-tutu").as_bytes(),
    ] {
        let answer = bundle(&receipt, Some(file), &trust, PREDICATE_TYPE);
        assert!(
            matches!(
                answer,
                Err(Refusal::Malformed {
                    file: SignedFile::Bundle,
                    ..
                })
            ),
            "{answer:?}"
        );
    }
}

#[test]
fn a_statement_of_another_kind_never_passes_for_one_about_the_run() {
    let receipt = receipt("r1", 0);
    let verification = svr::Verification {
        receipt_name: "r".into(),
        receipt: ReceiptFacts::of(&receipt).expect("whole"),
        candidate: None,
        verifier_id: "v".into(),
        policy_hash: "00".repeat(32),
        time_created: "2026-01-31T00:00:00Z".into(),
        properties: Vec::new(),
    };
    let file = bundles::sign(&signer(), &svr::statement(&verification)).expect("signed");
    let key = signer().public_key();
    let as_run = bundle(
        &receipt,
        Some(file.as_bytes()),
        &Trust::Key(&key),
        PREDICATE_TYPE,
    );
    assert!(
        matches!(as_run, Err(Refusal::Malformed { .. })),
        "{as_run:?}"
    );
    assert!(
        bundle(
            &receipt,
            Some(file.as_bytes()),
            &Trust::Key(&key),
            svr::PREDICATE_TYPE
        )
        .is_ok()
    );
}
