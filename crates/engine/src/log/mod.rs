//! The receipt as a file: append, read, repair, and its second copy outside the workspace.
//!
//! Must not decide anything: it turns records into durable lines and lines into a fold.

mod ahead;
mod anchor;
mod read;
mod receipt;
mod workspace;

pub use anchor::{Agreement, Relation, agreement, relation};
pub use read::{Chain, Flaw, FlawKind, ReadError, ReadLog, read, read_lines};
pub use receipt::{LogError, Receipt, Tampering};
pub use workspace::{NewAct, WorkspaceLog, WorkspaceLogError};
