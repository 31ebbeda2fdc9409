//! The digest of a run: what happened, how it ended, what is shown and what is not. A function of the recorded state alone.
//!
//! Must not run, judge or repair anything.

use loopexec_core::{event::Pins, state::RunState, workspace::ActName};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    evidence::{Evidence, Strength, strength},
    failure::Failure,
    layout::Layout,
    log::WorkspaceLog,
    recorded::{Recorded, load},
    snapshot::{FingerprintView, Model, Sampling},
};

/// Events that a report carries; a longer receipt is read with other tools.
const TIMELINE_MAX: usize = 10_000;

/// The block `report`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Report {
    /// `running` or `halted`.
    pub phase: String,
    /// The process exit code of the halt; 0 while it runs.
    pub exit_code: u8,
    /// Iterations that were started.
    pub iterations: u32,
    /// The check.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub check: String,
    /// Absolute path of the workspace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub workdir: String,
    /// Declared cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Declared model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// Declared sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// Files of the prompt's context.
    pub context_files: u32,
    /// What a replay compares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<FingerprintView>,
    /// Records of the receipt.
    pub events: u64,
    /// Path of the receipt.
    pub receipt: String,
    /// `readable`, `incomplete`, `missing`, `unreadable`.
    pub receipt_status: &'static str,
    /// What the reader should know.
    pub warnings: Vec<String>,
    /// The events, as recorded.
    pub timeline: Vec<serde_json::Value>,
    /// `absent`, `present_unverified`, `unreadable`.
    pub attestation_status: &'static str,
    /// Whether a signature file exists: presence, not verification.
    pub attested: bool,
    /// The five facts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// How strong the verdict is; what is not shown first.
    pub strength: Vec<Strength>,
    /// Processes that outlived their command and were ended.
    pub left_processes: u64,
    /// Run time, milliseconds, sleep included.
    pub elapsed_ms: u64,
    /// Every pin with its source.
    pub pins: Vec<PinLine>,
    /// Reviewers that acknowledged after this run.
    pub acknowledged_by: Vec<String>,
}

/// A pin for display.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PinLine {
    /// Its public name.
    pub name: String,
    /// Its value, or `unknown`.
    pub value: String,
    /// `declared`, `reported`, `observed`, or `not given`.
    pub source: String,
}

/// Builds the report of a run.
///
/// # Errors
///
/// When neither receipt nor snapshot of it can be read.
pub fn report(layout: &Layout, run_id: Option<&str>) -> Result<(Recorded, Report), Failure> {
    let recorded = load(layout, run_id)?;
    let mut warnings = recorded.warnings.clone();
    let timeline = timeline(layout, &recorded, &mut warnings);
    let view = &recorded.view;
    let state = recorded.state();
    let (attestation_status, attested) = attestation(layout, &recorded.run_id);
    let report = Report {
        phase: view.phase.clone(),
        exit_code: view
            .exit_code
            .or_else(|| exit_of(view.halt_reason.as_deref()))
            .unwrap_or(0),
        iterations: view.iteration,
        check: view.check.clone(),
        workdir: view.workdir.clone(),
        cost_usd: view.cost_usd,
        model: view.model.clone(),
        sampling: view.sampling.clone(),
        context_files: view
            .context_manifest
            .as_ref()
            .map_or(0, |list| u32::try_from(list.len()).unwrap_or(u32::MAX)),
        fingerprint: view.fingerprint.clone(),
        events: state.map_or_else(
            || u64::try_from(timeline.len()).unwrap_or(u64::MAX),
            |state| state.records,
        ),
        receipt: recorded.receipt.to_string_lossy().into_owned(),
        receipt_status: recorded.receipt_status().name(),
        warnings,
        timeline,
        attestation_status,
        attested,
        evidence: state.map(Evidence::of),
        strength: state.map(strength).unwrap_or_default(),
        left_processes: state.map_or(0, |state| state.left_processes),
        elapsed_ms: view.elapsed_ms,
        pins: state
            .map(|state| pin_lines(&state.run.pins))
            .unwrap_or_default(),
        acknowledged_by: state
            .map(|state| reviewers(layout, state))
            .unwrap_or_default(),
    };
    Ok((recorded, report))
}

fn exit_of(reason: Option<&str>) -> Option<u8> {
    reason
        .and_then(loopexec_core::halt::HaltReason::from_name)
        .map(|reason| reason.class().code())
}

/// The events as they were recorded, also of a receipt of contract 2.0, and also behind a damaged line.
fn timeline(
    layout: &Layout,
    recorded: &Recorded,
    warnings: &mut Vec<String>,
) -> Vec<serde_json::Value> {
    let Ok(bytes) = loopexec_os::durable::read_regular(
        &layout.receipt(&recorded.run_id),
        loopexec_os::durable::LOG_FILE_BYTES,
    ) else {
        return Vec::new();
    };
    let mut events = Vec::new();
    let mut left_out = 0_usize;
    for line in bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        match serde_json::from_slice::<serde_json::Value>(line) {
            Ok(event) if event.is_object() && events.len() < TIMELINE_MAX => events.push(event),
            Ok(_) | Err(_) => left_out = left_out.saturating_add(1),
        }
    }
    if left_out > 0 {
        warnings.push(format!(
            "{left_out} lines of the receipt are not in the timeline"
        ));
    }
    events
}

/// Whether signature files exist; nothing is verified.
fn attestation(layout: &Layout, run_id: &str) -> (&'static str, bool) {
    let files = layout.signatures(run_id);
    let present: Vec<_> = files.iter().filter(|path| path.exists()).collect();
    if present.is_empty() {
        ("absent", false)
    } else if present.iter().all(|path| {
        loopexec_os::durable::read_regular(path, loopexec_os::durable::SMALL_FILE_BYTES).is_ok()
    }) {
        ("present_unverified", true)
    } else {
        ("unreadable", true)
    }
}

fn pin_lines(pins: &Pins) -> Vec<PinLine> {
    pins.entries()
        .into_iter()
        .map(|(name, pin)| PinLine {
            name: name.to_owned(),
            value: pin.map_or_else(|| "unknown".to_owned(), |pin| pin.value.clone()),
            source: pin.map_or_else(
                || "not given".to_owned(),
                |pin| format!("{:?}", pin.source).to_lowercase(),
            ),
        })
        .collect()
}

/// Who acknowledged the workspace after this run had ended.
fn reviewers(layout: &Layout, state: &RunState) -> Vec<String> {
    let Ok(log) = WorkspaceLog::read(layout) else {
        return Vec::new();
    };
    let ended = log
        .acts
        .iter()
        .position(|act| act.event == ActName::RunEnded && act.head == Some(state.head));
    let Some(ended) = ended else {
        return Vec::new();
    };
    log.acts
        .iter()
        .skip(ended)
        .filter(|act| act.event == ActName::Ack)
        .filter_map(|act| act.reviewer.clone())
        .collect()
}
