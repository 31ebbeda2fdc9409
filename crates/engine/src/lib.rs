//! The run: receive, record, fold, decide, act.

pub mod attest;
pub mod fingerprint;
pub mod redact;
