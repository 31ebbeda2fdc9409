//! Test support for the whole workspace: a log builder that follows the rules, a hermetic environment. Never shipped.

#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test support: a scenario that cannot be is a defect of the test, and says so"
)]

pub mod env;
pub mod log;
