//! The run: receive one input, record it, fold it, decide, act; and everything that reads what a run left.
//!
//! Must not print, read HOME or the environment, or parse flags: what it needs is handed to it.

#![forbid(unsafe_code)]

pub mod failure;
pub mod feedback;
pub mod heartbeat;
pub mod layout;
pub mod log;
pub mod snapshot;
pub mod run;
pub mod runs;
