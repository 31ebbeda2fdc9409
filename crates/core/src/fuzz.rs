//! What must hold for any bytes that are read as a log; run as a property test here and by a fuzzer outside.

use crate::{
    event::{encode, parse},
    replay::Folder,
};

/// Reads bytes as a log: nothing panics, and a record that was read survives being written and read again.
///
/// # Panics
///
/// When that does not hold.
pub fn fuzz_receipt(data: &[u8]) {
    let mut folder = Folder::default();
    for line in data.split(|byte| *byte == b'\n') {
        let Ok(record) = parse(line) else {
            assert!(
                folder.line(line).is_err(),
                "a line that is no record was folded"
            );
            continue;
        };
        if let Ok(written) = encode(&record) {
            let again = parse(&written);
            assert!(
                again.is_ok_and(|again| again == record),
                "a record changed by being written"
            );
        }
        let before = folder.state().map_or(0, |state| state.records);
        let taken = folder.line(line).is_ok();
        let after = folder.state().map_or(0, |state| state.records);
        assert_eq!(
            after,
            before.saturating_add(u64::from(taken)),
            "a refused record changed the fold"
        );
    }
}
