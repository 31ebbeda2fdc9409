//! The content of a workspace, kept and brought back byte for byte.
//!
//! A [`Manifest`] lists what a workspace holds; a [`scan::Scanner`] makes one. No filter, attribute, hook or setting of the
//! workspace has a hand in it. This module must not know records, policies or the loop.

mod beneath;
mod beside;
pub mod bundle;
pub(crate) mod escape;
pub mod index;
mod layout;
pub mod manifest;
pub mod object;
mod pack;
mod pack_index;
pub mod publish;
pub mod restore;
pub mod rules;
pub mod scan;
pub mod source;
pub mod store;
#[cfg(test)]
pub(crate) mod testing;
mod trees;
pub mod undo;
pub mod workspace;

pub use layout::Durability;
pub use manifest::Manifest;
pub use workspace::{Baseline, Workspace, WorkspaceConfig, WorkspaceError};
