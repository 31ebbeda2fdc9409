//! The run: receive, record, fold, decide, act.

pub mod fingerprint;
pub mod redact;
