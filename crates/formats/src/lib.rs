//! Readers of what other programs print.
//!
//! Every parser here takes bytes that a hostile program may have written and returns a value or a reason, within a
//! limit on everything it counts. This crate does no I/O, keeps no state, and knows neither runs nor rules.

pub mod fuzz;
pub mod report;
