//! `version`: which program this is.

use super::Answer;
use crate::{envelope::Envelope, error::CliError, identity::identity};

/// Prints the identity.
pub(super) fn version() -> Result<Answer, CliError> {
    let identity = identity();
    let dirty = if identity.dirty {
        " (changed since)"
    } else {
        ""
    };
    let text = format!(
        "loopexec {}\ncontract: {}\nrules: {}\ncommit: {}{dirty}\ntarget: {}\nrustc: {}\n",
        identity.version,
        identity.contract,
        identity.rules_revision,
        identity.commit,
        identity.target,
        identity.rustc
    );
    let mut envelope = Envelope::new("ok");
    envelope.identity = Some(identity);
    Ok(Answer::new(envelope, text))
}
