//! The run: receive one input, record it, fold it, decide, act; and everything that reads what a run left.
//!
//! Must not print, read HOME or the environment, or parse flags: what it needs is handed to it.

#![forbid(unsafe_code)]

pub mod ack;
pub mod attest;
pub mod attesting;
pub mod candidate;
pub mod evidence;
pub mod export;
pub mod failure;
pub mod feedback;
pub mod fingerprint;
pub mod git;
pub mod heartbeat;
pub mod housekeeping;
pub mod hygiene;
pub mod inside;
pub mod kept;
pub mod layout;
pub mod log;
pub mod recorded;
pub mod redact;
pub mod replay;
pub mod report;
pub mod run;
pub mod runs;
pub mod snapshot;
pub mod undo;
pub mod verify;
