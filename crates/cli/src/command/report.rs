//! `report`: the digest of a run. Exit 0 also for a run that failed.

use std::fmt::Write as _;

use loopexec_engine::report::{Report, report as build};

use super::{Answer, verify::evidence_lines};
use crate::{
    args::{Global, RunId},
    envelope::Envelope,
    error::CliError,
    invocation::Invocation,
    render::elapsed,
};

/// Reports a recorded run.
pub(super) fn report(
    global: &Global,
    arguments: &RunId,
    invocation: &Invocation,
) -> Result<Answer, CliError> {
    let layout = invocation.layout(global.workdir.as_deref())?;
    let (recorded, report) = build(&layout, arguments.run_id.as_deref())?;
    let view = &recorded.view;
    let explanation = recorded.explain();
    let mut envelope = Envelope::new("ok");
    envelope.run_id = Some(recorded.run_id.clone());
    envelope.iteration = Some(view.iteration);
    envelope.halt_reason.clone_from(&view.halt_reason);
    envelope.failure_cause.clone_from(&view.failure_cause);
    envelope.check_exit = view.last_check_exit;
    envelope.receipt = Envelope::path(&recorded.receipt);
    envelope.verdict = Some(explanation.advice.name().to_owned());
    envelope.why = Some(explanation.why.clone());
    let mut text = super::run::lines(&envelope);
    let _ = writeln!(
        text,
        "verdict: {}\nwhy: {}",
        explanation.advice.name(),
        explanation.why
    );
    text.push_str(&human(&report));
    text.push_str(&evidence_lines(report.evidence.as_ref(), &report.strength));
    envelope.block.report = Some(Box::new(report));
    Ok(Answer::new(envelope, text))
}

fn human(report: &Report) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "check: {}", report.check);
    let _ = writeln!(text, "elapsed: {}", elapsed(report.elapsed_ms));
    let _ = writeln!(text, "receipt_status: {}", report.receipt_status);
    let _ = writeln!(text, "attestation_status: {}", report.attestation_status);
    if report.left_processes > 0 {
        let _ = writeln!(
            text,
            "processes ended that outlived their command: {}",
            report.left_processes
        );
    }
    for warning in &report.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    let _ = writeln!(text, "iterations:");
    for event in &report.timeline {
        if let Some(line) = iteration_line(event) {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

/// One line for each verdict of the check and each failing set.
fn iteration_line(event: &serde_json::Value) -> Option<String> {
    let iteration = event.get("iteration")?.as_u64()?;
    let exit = event.get("exit_code").and_then(serde_json::Value::as_i64);
    match event.get("event")?.as_str()? {
        "check" | "baseline" => {
            let outcome = event
                .get("outcome")
                .and_then(serde_json::Value::as_str)
                .unwrap_or("");
            let code =
                exit.map_or_else(|| "no exit code".to_owned(), |code| format!("exit {code}"));
            Some(format!("{iteration:>4}  check {outcome:<12} {code}"))
        }
        "progress" => Some(format!(
            "{iteration:>4}  failing {}",
            exit.unwrap_or_default()
        )),
        _ => None,
    }
}
