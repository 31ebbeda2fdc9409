//! The content of a workspace, kept and brought back byte for byte.
//!
//! A [`Manifest`] lists what a workspace holds; a [`scan::Scanner`] makes one. No filter, attribute, hook or setting of the
//! workspace has a hand in it. This module must not know records, policies or the loop.

mod beneath;
mod escape;
pub mod manifest;
pub mod object;
pub mod rules;
pub mod scan;
#[cfg(test)]
pub(crate) mod testing;

pub use manifest::Manifest;
