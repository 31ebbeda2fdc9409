//! Which program this is.

use loopexec_core::{CONTRACT, RULES_REVISION, event::Identity};

/// Version of the program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The identity that `version` prints and receipts record.
pub(crate) fn identity() -> Identity {
    Identity {
        version: VERSION.to_owned(),
        contract: CONTRACT.to_owned(),
        rules_revision: RULES_REVISION,
        commit: env!("LOOPEXEC_COMMIT").to_owned(),
        dirty: env!("LOOPEXEC_DIRTY") == "true",
        target: env!("LOOPEXEC_TARGET").to_owned(),
        rustc: env!("LOOPEXEC_RUSTC").to_owned(),
    }
}
