//! The guards that compare sets with t0. Must not know how a set was collected.

use std::collections::BTreeSet;

use crate::{
    event::{GuardName, GuardResult, GuardStatus},
    halt::FailureCause,
};

/// Missing members that are named in the record; the rest is a count.
const SUBJECT_MAX: usize = 20;

/// The test-determining set may grow but never loses a member of t0.
#[must_use]
pub fn integrity(t0: &BTreeSet<String>, now: &BTreeSet<String>) -> GuardResult {
    let missing: Vec<&String> = t0.difference(now).collect();
    let violated = !missing.is_empty();
    GuardResult {
        name: GuardName::Integrity,
        status: if violated {
            GuardStatus::Violated
        } else {
            GuardStatus::Held
        },
        subject: missing
            .iter()
            .take(SUBJECT_MAX)
            .map(|id| (*id).clone())
            .collect(),
        t0: format!("{} members", t0.len()),
        now: format!("{} members, {} of t0 missing", now.len(), missing.len()),
        cause: violated.then_some(FailureCause::IntegrityMembersRemoved),
    }
}

/// The set could not be collected, which counts as a violation.
#[must_use]
pub fn integrity_unknown(t0: Option<&BTreeSet<String>>, why: &str) -> GuardResult {
    GuardResult {
        name: GuardName::Integrity,
        status: GuardStatus::Violated,
        subject: Vec::new(),
        t0: t0.map_or_else(
            || "unknown".to_owned(),
            |set| format!("{} members", set.len()),
        ),
        now: why.to_owned(),
        cause: Some(FailureCause::IntegrityCollectorFailed),
    }
}

/// The record of the run was changed by something else than the governor.
#[must_use]
pub fn receipt_tampered(subject: Vec<String>, now: &str) -> GuardResult {
    GuardResult {
        name: GuardName::Receipt,
        status: GuardStatus::Violated,
        subject,
        t0: "as the governor wrote it".to_owned(),
        now: now.to_owned(),
        cause: Some(FailureCause::ReceiptTampered),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ids: &[&str]) -> BTreeSet<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn a_set_may_grow_or_stay() {
        for now in [&["a", "b"][..], &["a", "b", "c"]] {
            let result = integrity(&set(&["a", "b"]), &set(now));
            assert_eq!((result.status, result.cause), (GuardStatus::Held, None));
        }
    }

    #[test]
    fn one_missing_member_is_a_violation_that_names_it() {
        let result = integrity(&set(&["a", "b"]), &set(&["a", "c"]));
        assert_eq!(result.status, GuardStatus::Violated);
        assert_eq!(result.subject, ["b"]);
        assert_eq!(result.cause, Some(FailureCause::IntegrityMembersRemoved));
        assert_eq!(result.now, "2 members, 1 of t0 missing");
    }

    #[test]
    fn a_long_list_of_missing_members_is_cut_but_counted() {
        let many: BTreeSet<String> = (0..50).map(|n| format!("t{n:02}")).collect();
        let result = integrity(&many, &BTreeSet::new());
        assert_eq!(result.subject.len(), SUBJECT_MAX);
        assert_eq!(result.now, "0 members, 50 of t0 missing");
    }
}
