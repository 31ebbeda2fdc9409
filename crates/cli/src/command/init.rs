//! `init`: the store of a workspace. Never overwrites anything.

use loopexec_engine::run::prepare_store;

use super::Answer;
use crate::{
    args::{Global, Init},
    envelope::Envelope,
    error::CliError,
    invocation::Invocation,
};

/// Makes `.loopexec/`.
pub(super) fn init(
    global: &Global,
    arguments: &Init,
    invocation: &Invocation,
) -> Result<Answer, CliError> {
    let layout = invocation.layout(global.workdir.as_deref())?;
    let existed = layout.store().is_dir();
    prepare_store(&layout)?;
    let mut envelope = Envelope::new("initialized");
    let path = layout.store();
    envelope.block.initialized = Envelope::path(&path);
    let said = if existed { "was there already" } else { "made" };
    let next = if arguments.bare {
        String::new()
    } else {
        "next: loopexec run --dry-run --exec 'YOUR AGENT' --check 'YOUR TESTS' --timeout 2h --command-timeout 20m --idle-timeout 10m\n".to_owned()
    };
    Ok(Answer::new(
        envelope,
        format!(
            "status: initialized\n{} ({said}; it ignores itself in git)\n{next}",
            path.display()
        ),
    ))
}
