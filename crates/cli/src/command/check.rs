//! `check`: the hygiene of the store. Not the application's check.

use loopexec_core::halt::HaltReason;
use loopexec_engine::hygiene;

use super::{
    Answer,
    verify::{failures, item_lines},
};
use crate::{
    args::{Global, RunId},
    envelope::Envelope,
    error::CliError,
    invocation::Invocation,
};

/// Checks the store.
pub(super) fn check(
    global: &Global,
    arguments: &RunId,
    invocation: &Invocation,
) -> Result<Answer, CliError> {
    let layout = invocation.layout(global.workdir.as_deref())?;
    let found = hygiene::check(&layout, arguments.run_id.as_deref())?;
    let clean = found.clean();
    let mut envelope = Envelope::new(if clean { "ok" } else { "error" });
    envelope.run_id.clone_from(&found.run_id);
    if !clean {
        envelope.halt_reason = Some(HaltReason::InvariantFailed.name().to_owned());
        envelope.failure_cause = found.items.iter().find_map(|item| item.cause.clone());
        envelope.errors = failures(&found.items);
    }
    let text = super::run::lines(&envelope) + &item_lines(&found.items);
    envelope.block.checks = found.items;
    let mut answer = Answer::new(envelope, text);
    if !clean {
        answer.class = HaltReason::InvariantFailed.class();
    }
    Ok(answer)
}
