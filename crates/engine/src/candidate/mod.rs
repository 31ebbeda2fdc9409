//! The content of a workspace, kept and brought back byte for byte.
//!
//! ```text
//! rules   which paths count, as read once at the beginning
//! scan    workspace -> manifest, in this process, with a cache of what was read
//! store   manifest and files -> objects in a git directory of our own, one pack for what is new
//! publish objects -> repository of the person, under refs/loopexec/<run>/
//! restore objects -> workspace, only what differs, checked against the manifest
//! undo    keeps what is there, then restores worktree and index of the beginning
//! ```
//!
//! [`Workspace`] binds them together and is what the rest of the engine uses. No filter, attribute, hook or setting of the
//! workspace has a hand in any of it: the bytes are hashed, packed and written here, and git is asked for what only git knows.
//! This module must not know records, policies or the loop.

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
