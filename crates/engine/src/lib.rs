//! Placeholder of the first commit.

pub mod candidate;
pub mod git;
