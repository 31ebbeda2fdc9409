//! What a receipt shows, kept apart: five facts that are never merged, and how strong the verdict is.
//!
//! Must not judge anew: it reads the fold, and what later versions will show is `not_shown` until they do.

use loopexec_core::{
    event::{Outcome, PinSource, Pins, VerdictBasis},
    halt::HaltReason,
    policy::RunKind,
    state::RunState,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The check's verdict on one content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Objective {
    /// `pass`, `reject`, `cannot_judge`, or `none` before the first check.
    pub verdict: String,
    /// What the verdict rests on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<VerdictBasis>,
    /// Manifest of the content that was judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate_sha256: Option<String>,
}

/// What was kept. A kept candidate is not an accepted one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Retention {
    /// Last content that was attempted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempted: Option<String>,
    /// Content that was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
    /// Best content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<String>,
    /// Content that was put back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored: Option<String>,
    /// Whether the accepted content is what lies in the workspace at the end.
    pub exposed: bool,
}

/// The computed halt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Convergence {
    /// Why it stopped; absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halt_reason: Option<String>,
    /// Whether that is `success_condition_met`.
    pub converged: bool,
}

/// The five facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The check's verdict on one content.
    pub objective: Objective,
    /// What was kept.
    pub retention: Retention,
    /// The computed halt.
    pub convergence: Convergence,
    /// What an owner decided; `undecided` until one did.
    pub owner_decision: String,
    /// Where it was published; `unpublished` until somebody recorded it.
    pub publication: String,
}

impl Evidence {
    /// What the fold shows.
    #[must_use]
    pub fn of(state: &RunState) -> Self {
        let last = state.last_check.as_ref();
        let verdict = match last.map(|check| check.outcome) {
            None => "none",
            Some(Outcome::Pass) => "pass",
            Some(Outcome::Reject) => "reject",
            Some(Outcome::CannotJudge) => "cannot_judge",
        };
        let judged = last
            .and_then(|check| check.candidate_sha256)
            .map(|digest| digest.to_string());
        let reason = state.halt.as_ref().map(|halt| halt.halt_reason);
        let converged = reason == Some(HaltReason::SuccessConditionMet);
        Self {
            objective: Objective {
                verdict: verdict.to_owned(),
                basis: last.map(|check| check.verdict_basis),
                candidate_sha256: judged.clone(),
            },
            retention: Retention {
                accepted: judged.clone().filter(|_| converged),
                attempted: judged,
                best: None,
                restored: None,
                exposed: converged,
            },
            convergence: Convergence {
                halt_reason: reason.map(|reason| reason.name().to_owned()),
                converged,
            },
            owner_decision: "undecided".to_owned(),
            publication: "unpublished".to_owned(),
        }
    }
}

/// How well something is shown; what is not shown is printed first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing shows it.
    NotShown,
    /// Somebody said so.
    Declared,
    /// The receipt shows it.
    Shown,
}

impl Level {
    /// The public string.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotShown => "not_shown",
            Self::Declared => "declared",
            Self::Shown => "shown",
        }
    }
}

/// One strength of a verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Strength {
    /// What: `determinism`, `isolation`, …
    pub name: String,
    /// How well.
    pub level: Level,
    /// How it stands, in words.
    pub detail: String,
}

/// The names of all strengths, in the order in which equal levels are printed.
pub const STRENGTHS: [&str; 11] = [
    "oracle_basis",
    "determinism",
    "adequacy",
    "hermeticity",
    "guards",
    "isolation",
    "pins",
    "money",
    "key_exposure",
    "anchor_exposure",
    "containment",
];

/// How strong the verdict is: what is not shown first.
#[must_use]
pub fn strength(state: &RunState) -> Vec<Strength> {
    let say = |name: &str, level, detail: String| Strength {
        name: name.to_owned(),
        level,
        detail,
    };
    let not_shown = |name: &str, detail: &str| say(name, Level::NotShown, detail.to_owned());
    let mut all = vec![
        oracle(state),
        not_shown(
            "determinism",
            "the check was run once an iteration; nothing shows that it would say the same again",
        ),
        not_shown(
            "adequacy",
            "nothing shows that the check tells good work from bad",
        ),
        not_shown(
            "hermeticity",
            "nothing shows that the verdict depends on the workspace alone",
        ),
        guards(state),
        not_shown(
            "isolation",
            "the work command ran as the same user, with the network and the home directory",
        ),
        pins(&state.run.pins),
        money(state),
        not_shown(
            "key_exposure",
            "an unisolated work command of the same user could have read a signing key",
        ),
        anchor(state),
        containment(&state.run.containment),
    ];
    all.sort_by_key(|strength| strength.level);
    all
}

fn oracle(state: &RunState) -> Strength {
    let basis = state.last_check.as_ref().map(|check| check.verdict_basis);
    let (level, detail) = match basis {
        None => (Level::NotShown, "no check has run"),
        Some(VerdictBasis::ExitCode) => (
            Level::Declared,
            "the exit code alone, which a program can forge",
        ),
        Some(VerdictBasis::Report) => (
            Level::Shown,
            "exit code, fresh report and collected set agree",
        ),
    };
    Strength {
        name: "oracle_basis".to_owned(),
        level,
        detail: detail.to_owned(),
    }
}

fn guards(state: &RunState) -> Strength {
    let integrity = state.run.commands.integrity.is_some();
    let (level, detail) = match (state.run.kind, integrity) {
        (RunKind::Legacy, false) => (
            Level::NotShown,
            "on: receipt; off: integrity, protected files, collected set, assertions, canaries",
        ),
        (RunKind::Legacy, true) => (
            Level::Declared,
            "on: receipt, integrity (--integrity-cmd); off: protected files, collected set, assertions, canaries",
        ),
        (RunKind::Tracked, _) => (Level::Shown, "on: as recorded"),
    };
    Strength {
        name: "guards".to_owned(),
        level,
        detail: detail.to_owned(),
    }
}

fn pins(pins: &Pins) -> Strength {
    let entries = pins.entries();
    let named = |wanted: PinSource| -> Vec<&str> {
        entries
            .iter()
            .filter(|(_, pin)| pin.is_some_and(|pin| pin.source == wanted))
            .map(|(name, _)| *name)
            .collect()
    };
    let (observed, declared) = (named(PinSource::Observed), named(PinSource::Declared));
    let level = match (observed.is_empty(), declared.is_empty()) {
        (false, _) => Level::Shown,
        (true, false) => Level::Declared,
        (true, true) => Level::NotShown,
    };
    let detail = if level == Level::NotShown {
        "no model is pinned".to_owned()
    } else {
        format!(
            "observed: {}; declared: {}",
            list(&observed),
            list(&declared)
        )
    };
    Strength {
        name: "pins".to_owned(),
        level,
        detail,
    }
}

fn list(names: &[&str]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

fn money(state: &RunState) -> Strength {
    let (level, detail) = match state.run.cost_declared_microusd {
        None => (Level::NotShown, "not metered".to_owned()),
        Some(cost) => (Level::Declared, format!("{cost} USD declared; not metered")),
    };
    Strength {
        name: "money".to_owned(),
        level,
        detail,
    }
}

fn anchor(state: &RunState) -> Strength {
    let detail = if state.run.anchor {
        "a second copy is outside the workspace, but within reach of the same user"
    } else {
        "no second copy was kept outside the workspace"
    };
    Strength {
        name: "anchor_exposure".to_owned(),
        level: Level::NotShown,
        detail: detail.to_owned(),
    }
}

fn containment(how: &str) -> Strength {
    let (level, detail) = match how {
        "subreaper+cgroup" => (
            Level::Shown,
            "every descendant is ended, also one that ends its supervisor",
        ),
        "subreaper" => (
            Level::Declared,
            "every descendant is ended; one that ends supervisor and governor at once would escape",
        ),
        _ => (Level::NotShown, "only the process group is ended"),
    };
    Strength {
        name: "containment".to_owned(),
        level,
        detail: detail.to_owned(),
    }
}
