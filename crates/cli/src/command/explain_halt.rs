//! `explain-halt`: why a run stopped and what to do.

use loopexec_engine::recorded;

use super::Answer;
use crate::{
    args::{Global, RunId},
    envelope::Envelope,
    error::CliError,
    invocation::Invocation,
};

/// Explains a recorded run.
pub(super) fn explain_halt(
    global: &Global,
    arguments: &RunId,
    invocation: &Invocation,
) -> Result<Answer, CliError> {
    let layout = invocation.layout(global.workdir.as_deref())?;
    let run = recorded::load(&layout, arguments.run_id.as_deref())?;
    let explanation = run.explain();
    let mut envelope = Envelope::new("ok");
    envelope.run_id = Some(run.view.run_id.clone());
    envelope.iteration = Some(run.view.iteration);
    envelope.halt_reason.clone_from(&run.view.halt_reason);
    envelope.failure_cause.clone_from(&run.view.failure_cause);
    envelope.verdict = Some(explanation.advice.name().to_owned());
    envelope.why = Some(explanation.why.clone());
    envelope.warnings.clone_from(&run.warnings);
    let mut text = super::run::lines(&envelope);
    text.push_str(&format!(
        "verdict: {}\nwhy: {}\n",
        explanation.advice.name(),
        explanation.why
    ));
    if recorded::live(&layout, &run.view.run_id).is_none() {
        text.push_str(&super::status::nobody_works(&run));
    }
    for warning in &run.warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    Ok(Answer::new(envelope, text))
}
