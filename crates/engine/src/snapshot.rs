//! `state.json`: the fold of a receipt in the field names that integrations read. A cache, never a source.
//!
//! Must not decide. It is a function of the fold alone, so that `verify` can make it again and compare bytes.

use std::path::Path;

use loopexec_core::{
    digest::Digest,
    event::{ContextEntry, Pins, VerdictBasis, WorkspaceContent},
    policy::Mode,
    state::{RunState, Stage},
};
use loopexec_os::durable::{DurableError, PRIVATE_FILE, SyncMode, replace_file};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::layout::{Layout, state_name};

/// Version of this file's form.
const SCHEMA_VERSION: u32 = 2;

/// The model that a run declared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Model {
    /// Who serves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its quantization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantization: Option<String>,
    /// What runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Where it is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
}

/// The sampling that a run declared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Sampling {
    /// Temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Most tokens of one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
}

/// What a replay compares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FingerprintView {
    /// Exit code of the check.
    pub exit_code: i32,
    /// Digest of its normalised output.
    pub output_sha256: String,
}

/// The fold of a receipt, as integrations read it.
///
/// Reads the files of contract 2.0 as well: what those lack is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StateView {
    /// Version of this file's form; 1 is contract 2.0.
    pub schema_version: u32,
    /// The run.
    pub run_id: String,
    /// `running` or `halted`.
    pub phase: String,
    /// The iteration under way or last ended.
    pub iteration: u32,
    /// Why it halted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halt_reason: Option<String>,
    /// Which phase failed, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_cause: Option<String>,
    /// The process exit code of the halt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// Exit code of the last check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_check_exit: Option<i32>,
    /// Smallest failing set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_fail_count: Option<u32>,
    /// First failing set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_fail_count: Option<u32>,
    /// Iteration of the smallest failing set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_iteration: Option<u32>,
    /// Whether any failing set was smaller than the first.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ever_improved: bool,
    /// Last known failing set, by size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_count: Option<u32>,
    /// How the run decides that it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The check.
    pub check: String,
    /// The work command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<String>,
    /// The collector of failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures_cmd: Option<String>,
    /// The collector of the test-determining set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub integrity_cmd: Option<String>,
    /// Absolute path of the workspace.
    pub workdir: String,
    /// Iterations that may be started.
    pub max_iterations: u32,
    /// Attempts without a new minimum.
    pub no_progress_k: u32,
    /// Digest of the limits and commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_policy_hash: Option<String>,
    /// Declared model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// Declared sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// Files that were the prompt's context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_manifest: Option<Vec<ContextEntry>>,
    /// Declared cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// What a replay compares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<FingerprintView>,
    /// Digest of the output after the stable normaliser.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stable_output_sha256: Option<String>,
    /// What the verdict rests on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict_basis: Option<VerdictBasis>,
    /// Manifest of the content that the last check judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate_sha256: Option<String>,
    /// What is in the workspace at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<WorkspaceContent>,
    /// Members of the test-determining set at t0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub integrity_members: Option<u64>,
    /// Iterations that nobody has acknowledged.
    pub diffs_merged_unread: u32,
    /// Run time, milliseconds, sleep included.
    pub elapsed_ms: u64,
    /// Times the run was gone on with.
    pub resumes: u32,
    /// Records of the receipt.
    pub records: u64,
    /// Records up to the last one that was forced to the disk: a receipt with fewer was cut by no crash.
    pub synced_records: u64,
    /// Digest of the receipt's last line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Wall clock of the last record, Unix seconds.
    pub updated_ts: i64,
}

impl StateView {
    /// The view of a fold.
    #[must_use]
    pub fn of(state: &RunState) -> Self {
        let halt = state.halt.as_ref();
        let judged = state.last_judged.as_ref();
        let commands = &state.run.commands;
        let text = |digest: Digest| digest.to_string();
        Self {
            schema_version: SCHEMA_VERSION,
            run_id: state.run_id.clone(),
            phase: phase(state.stage).to_owned(),
            iteration: state.iteration,
            halt_reason: halt.map(|halt| halt.halt_reason.name().to_owned()),
            failure_cause: halt
                .and_then(|halt| halt.failure_cause)
                .map(|cause| cause.name().to_owned()),
            exit_code: halt.map(|halt| halt.exit),
            last_check_exit: state.last_check.as_ref().and_then(|check| check.exit_code),
            best_fail_count: state.tracker.best().map(|best| best.failing),
            initial_fail_count: state.tracker.initial().map(|initial| initial.failing),
            best_iteration: state.tracker.best().map(|best| best.iteration),
            ever_improved: state.tracker.ever_improved(),
            fail_count: state
                .failing
                .as_ref()
                .map(|set| u32::try_from(set.len()).unwrap_or(u32::MAX)),
            mode: Some(state.run.mode),
            check: commands.check.clone(),
            exec: commands.exec.clone(),
            failures_cmd: commands.failures.clone(),
            integrity_cmd: commands.integrity.clone(),
            workdir: state.run.workdir.clone(),
            max_iterations: state.policy.max_iterations,
            no_progress_k: state.policy.no_progress_k,
            run_policy_hash: Some(text(state.run.policy_hash)),
            model: model(&state.run.pins),
            sampling: sampling(&state.run.pins),
            context_manifest: Some(state.run.context_manifest.clone())
                .filter(|list| !list.is_empty()),
            cost_usd: state
                .run
                .cost_declared_microusd
                .and_then(|cost| cost.to_string().parse().ok()),
            fingerprint: judged.map(|check| FingerprintView {
                exit_code: check.exit_code.unwrap_or(-1),
                output_sha256: text(check.output_sha256),
            }),
            stable_output_sha256: judged.map(|check| text(check.stable_output_sha256)),
            verdict_basis: judged.map(|check| check.verdict_basis),
            candidate_sha256: judged.and_then(|check| check.candidate_sha256).map(text),
            content: halt.map(|halt| halt.content),
            integrity_members: state
                .integrity_t0
                .as_ref()
                .map(|set| u64::try_from(set.len()).unwrap_or(u64::MAX)),
            diffs_merged_unread: state.comprehension_debt(),
            elapsed_ms: state.now.0,
            resumes: state.resumes,
            records: state.records,
            synced_records: state.last_sync.saturating_add(1),
            head: Some(text(state.head)),
            updated_ts: state.last_ts_ms.div_euclid(1000),
        }
    }

    /// The file's bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

fn phase(stage: Stage) -> &'static str {
    match stage {
        Stage::Opening | Stage::Open | Stage::Between | Stage::Decided => "running",
        Stage::Halted => "halted",
    }
}

/// The declared model, where anything of it was declared.
#[must_use]
pub fn model(pins: &Pins) -> Option<Model> {
    let value = |pin: &Option<loopexec_core::event::Pin>| pin.as_ref().map(|pin| pin.value.clone());
    let model = Model {
        provider: value(&pins.provider),
        id: value(&pins.model_id),
        version: value(&pins.version),
        quantization: value(&pins.quantization),
        runtime: value(&pins.runtime),
        endpoint: value(&pins.endpoint),
    };
    (model != Model::default()).then_some(model)
}

/// The declared sampling, where anything of it was declared.
#[must_use]
pub fn sampling(pins: &Pins) -> Option<Sampling> {
    fn number<T: std::str::FromStr>(pin: &Option<loopexec_core::event::Pin>) -> Option<T> {
        pin.as_ref().and_then(|pin| pin.value.parse().ok())
    }
    let sampling = Sampling {
        temperature: number(&pins.temperature),
        top_p: number(&pins.top_p),
        seed: number(&pins.seed),
        max_tokens: number(&pins.max_tokens),
    };
    (sampling != Sampling::default()).then_some(sampling)
}

/// Replaces a run's snapshot.
///
/// # Errors
///
/// When the disk does not take it.
pub fn write(layout: &Layout, state: &RunState, sync: SyncMode) -> Result<(), DurableError> {
    replace_file(
        &layout.state(&state.run_id),
        &StateView::of(state).bytes(),
        PRIVATE_FILE,
        sync,
    )
}

/// Makes `state.json` lead to a run's snapshot: a link where the file system has them, a copy elsewhere.
///
/// # Errors
///
/// When the disk does not take either.
pub fn point_latest(layout: &Layout, run_id: &str, bytes: &[u8]) -> Result<(), DurableError> {
    let latest = layout.latest();
    let name = state_name(run_id);
    let temporary = layout.file(&format!(".latest-{}", std::process::id()));
    let _ = fs_err::remove_file(&temporary);
    let linked = rustix::fs::symlink(Path::new(&name), &temporary)
        .and_then(|()| rustix::fs::rename(&temporary, &latest));
    match linked {
        Ok(()) => Ok(()),
        Err(_) => {
            let _ = fs_err::remove_file(&temporary);
            replace_file(&latest, bytes, PRIVATE_FILE, SyncMode::None)
        }
    }
}
