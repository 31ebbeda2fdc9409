//! The operating system: processes, locks, durable files, signals, clocks.
//!
//! This crate alone makes system calls by hand and holds `unsafe` code. It knows nothing of loops, records or receipts: it is told
//! what to run, to lock or to write, and reports what happened.

mod capture;
mod cgroup;
pub mod clock;
pub mod durable;
pub mod guardian;
pub mod lock;
pub mod process;
pub mod signals;
mod tree;
