//! The decision core: a run is a log, its state a fold over it, its verdicts a function of that state.
//!
//! Nothing in here does I/O, reads a clock or an environment, draws a random number, iterates in hash order or
//! computes with floats: a verdict derived again on another machine, years later, agrees to the bit.

#![forbid(unsafe_code)]

pub mod decide;
pub mod digest;
pub mod event;
pub mod explain;
pub mod fuzz;
pub mod guard;
pub mod halt;
pub mod judge;
pub mod policy;
pub mod progress;
pub mod replay;
pub mod rule;
pub mod state;
pub mod units;
pub mod workspace;

/// Revision of the rules in this build; the first record of a receipt names the one that decided it.
///
/// A build shows receipts of a newer revision but refuses to append to them.
pub const RULES_REVISION: u32 = 1;

/// Version of the public contract (commands, fields, halt reasons, files) that this build keeps.
pub const CONTRACT: &str = "2.1";
