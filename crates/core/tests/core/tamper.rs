//! What a changed log is caught by: the chain, the facts, the decisions.

use loopexec_core::{
    digest::Digest,
    event::{Event, Outcome, encode, parse},
    policy::Policy,
    replay::{Folder, ReplayError},
    state::IllegalRecord,
};
use loopexec_testkit::log::Attempt;

use crate::{commands, fold, run};

fn lines() -> Vec<Vec<u8>> {
    let attempts = [
        Attempt::new(1, &["a", "b"]),
        Attempt::new(1, &["a"]),
        Attempt::new(0, &[]),
    ];
    let builder = run(Policy::default(), commands(true, true), &attempts);
    builder
        .bytes()
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(<[u8]>::to_vec)
        .collect()
}

fn joined(lines: &[Vec<u8>]) -> Vec<u8> {
    lines.join(&b'\n')
}

/// Chains changed lines anew, as somebody would who knows the format.
fn rechained(lines: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut prev = Digest::genesis("golden");
    let mut out = Vec::new();
    for (line, seq) in lines.iter().zip(0..) {
        let mut record = parse(line).unwrap();
        (record.header.prev, record.header.seq) = (prev, seq);
        let line = encode(&record).unwrap();
        prev = Digest::of(&line);
        out.push(line);
    }
    out
}

fn first_error(lines: &[Vec<u8>]) -> Option<ReplayError> {
    let mut folder = Folder::default();
    lines.iter().find_map(|line| folder.line(line).err())
}

#[test]
fn deleting_swapping_or_doubling_any_line_breaks_the_fold() {
    let lines = lines();
    for index in 0..lines.len() - 1 {
        let mut deleted = lines.clone();
        deleted.remove(index);
        let mut swapped = lines.clone();
        swapped.swap(index, index + 1);
        let mut doubled = lines.clone();
        doubled.insert(index, lines[index].clone());
        for (what, changed) in [("delete", deleted), ("swap", swapped), ("double", doubled)] {
            assert!(fold(&joined(&changed)).is_none(), "{what} {index}");
        }
    }
}

#[test]
fn any_flipped_bit_before_the_last_line_breaks_the_fold() {
    let lines = lines();
    let bytes = joined(&lines);
    let last = bytes.len() - lines.last().unwrap().len();
    for index in (0..last).step_by(7) {
        let mut changed = bytes.clone();
        changed[index] ^= 1 << (index % 7);
        assert!(fold(&changed).is_none(), "byte {index}");
    }
}

#[test]
fn a_log_chained_anew_after_removing_any_record_is_still_caught() {
    let lines = lines();
    for index in 0..lines.len() - 1 {
        let mut fewer = lines.clone();
        fewer.remove(index);
        let event = parse(&lines[index]).unwrap().event.name().name();
        let caught = index == 0 || first_error(&rechained(&fewer)).is_some();
        assert!(
            caught,
            "without record {index} ({event}) the log still folds"
        );
    }
}

#[test]
fn a_red_called_green_contradicts_its_exit_code() {
    let mut lines = lines();
    let index = lines
        .iter()
        .position(|line| matches!(parse(line).unwrap().event, Event::Check(_)))
        .unwrap();
    let mut record = parse(&lines[index]).unwrap();
    let Event::Check(check) = &mut record.event else {
        unreachable!()
    };
    check.outcome = Outcome::Pass;
    lines[index] = encode(&record).unwrap();
    let error = first_error(&rechained(&lines)).unwrap();
    assert!(
        matches!(
            error,
            ReplayError::Illegal {
                source: IllegalRecord::Contradiction { .. },
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn another_decision_than_the_rules_give_is_named() {
    let mut lines = lines();
    let index = lines
        .iter()
        .position(|line| matches!(parse(line).unwrap().event, Event::Verdict(_)))
        .unwrap();
    let mut record = parse(&lines[index]).unwrap();
    let last = lines
        .iter()
        .rposition(|line| matches!(parse(line).unwrap().event, Event::Verdict(_)))
        .unwrap();
    record.event = parse(&lines[last]).unwrap().event;
    lines[index] = encode(&record).unwrap();
    let error = first_error(&rechained(&lines)).unwrap().to_string();
    assert!(
        error.contains("decides success_condition_met; the rules give continue"),
        "{error}"
    );
}

#[test]
fn a_receipt_of_newer_rules_is_refused_with_both_revisions() {
    let mut lines = lines();
    let mut record = parse(&lines[0]).unwrap();
    let Event::RunStart(run) = &mut record.event else {
        unreachable!()
    };
    run.rules_revision += 1;
    lines[0] = encode(&record).unwrap();
    let error = first_error(&rechained(&lines)).unwrap().to_string();
    assert!(error.contains("newer than the 1"), "{error}");
}

#[test]
fn unknown_fields_are_skipped_and_unknown_events_are_not() {
    let lines = lines();
    let text = String::from_utf8(lines[0].clone()).unwrap();
    let more = text.replacen('{', "{\"later_field\":{\"deep\":[1,2]},", 1);
    assert!(parse(more.as_bytes()).is_ok());
    let other = text.replacen("\"run_start\"", "\"run_begin\"", 1);
    assert!(parse(other.as_bytes()).is_err());
}
