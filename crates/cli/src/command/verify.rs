//! `verify`: everything that can be said about a receipt without running anything.

use std::fmt::Write as _;

use loopexec_core::halt::HaltReason;
use loopexec_engine::{
    attest::signers::AllowedSigners,
    evidence::{Evidence, Strength},
    export::{is_archive, unpack, verify_redacted},
    failure::{Failure, chain},
    verify::{
        Item, Parts, Status, Surroundings, Trust, Verification, parts, require, require_signature,
        verify as verify_parts,
    },
};
use loopexec_os::clock;

use super::Answer;
use crate::{
    args::{Global, Verify},
    envelope::Envelope,
    error::CliError,
    invocation::Invocation,
};

/// Verifies a recorded run, or a receipt from elsewhere.
pub(super) fn verify(
    global: &Global,
    arguments: &Verify,
    invocation: &Invocation,
) -> Result<Answer, CliError> {
    let signers = arguments
        .trusted
        .as_deref()
        .map(allowed_signers)
        .transpose()?;
    let trust = match &signers {
        None => Trust::Unasked,
        Some(signers) => Trust::Signers {
            signers,
            now: clock::wall_millis().div_euclid(1000),
        },
    };
    let layout = invocation.layout(global.workdir.as_deref())?;
    let mut verification = match &arguments.file {
        Some(file) => elsewhere(file, &invocation.temporary(), &trust)?,
        None => {
            let surroundings = Surroundings {
                layout: &layout,
                search_path: invocation
                    .variable("PATH")
                    .map(std::ffi::OsString::as_os_str),
                excludes_file: invocation.excludes_file(),
            };
            verify_parts(
                &parts(&layout, arguments.run.run_id.as_deref())?,
                Some(&surroundings),
                &trust,
            )?
        }
    };
    if signers.is_some() {
        require_signature(&mut verification);
    }
    require(&mut verification, &arguments.require)?;
    Ok(answer(&verification))
}

/// Verifies a receipt or an export that lies somewhere.
fn elsewhere(
    file: &std::path::Path,
    temporary: &std::path::Path,
    trust: &Trust<'_>,
) -> Result<Verification, Failure> {
    let unreadable = |error: std::io::Error| {
        Failure::workspace(format!("cannot read {}: {error}", file.display()))
            .because("file_unreadable")
    };
    if !is_archive(file).map_err(unreadable)? {
        return verify_parts(&Parts::beside(file.to_owned()), None, trust);
    }
    let unpacked = unpack(file, temporary)?;
    let mut verification = if unpacked.redacted {
        let bytes = fs_err::read(unpacked.redacted_receipt()).map_err(unreadable)?;
        verify_redacted(&bytes, &unpacked.run_id)
    } else {
        verify_parts(&unpacked.parts(), None, trust)?
    };
    // What was unpacked is gone in a moment; the file that was named stays.
    file.clone_into(&mut verification.receipt);
    Ok(verification)
}

/// Reads a list of allowed signers.
pub(super) fn allowed_signers(path: &std::path::Path) -> Result<AllowedSigners, Failure> {
    let unusable = |why: String| {
        Failure::workspace(format!(
            "cannot use the allowed signers {}: {why}",
            path.display()
        ))
        .because("trusted_unusable")
        .hint("one line a key, as ssh-keygen(1) describes under ALLOWED SIGNERS")
    };
    let text = fs_err::read(path).map_err(|error| unusable(error.to_string()))?;
    AllowedSigners::parse(&text).map_err(|error| unusable(chain(&error)))
}

fn answer(verification: &Verification) -> Answer {
    let verified = verification.verified();
    let mut envelope = Envelope::new(if verified { "verified" } else { "error" });
    envelope.run_id = Some(verification.run_id.clone()).filter(|id| !id.is_empty());
    envelope.iteration = verification.state.as_ref().map(|state| state.iteration);
    envelope.receipt = Envelope::path(&verification.receipt);
    envelope.verified = Some(verified);
    if !verified {
        envelope.halt_reason = Some(HaltReason::ObjectiveUnverified.name().to_owned());
        envelope.failure_cause = verification.cause().map(str::to_owned);
        envelope.errors = failures(&verification.items);
    }
    envelope.block.checks.clone_from(&verification.items);
    envelope.block.evidence.clone_from(&verification.evidence);
    envelope.block.strength.clone_from(&verification.strength);
    let mut text = super::run::lines(&envelope);
    text.push_str(&item_lines(&verification.items));
    text.push_str(&evidence_lines(
        verification.evidence.as_ref(),
        &verification.strength,
    ));
    let mut answer = Answer::new(envelope, text);
    if !verified {
        answer.class = HaltReason::ObjectiveUnverified.class();
    }
    answer
}

/// What failed, for `errors`.
pub(super) fn failures(items: &[Item]) -> Vec<String> {
    items
        .iter()
        .filter(|item| item.status == Status::Fail)
        .map(|item| format!("{}: {}", item.name, item.detail))
        .collect()
}

/// One line an item.
pub(super) fn item_lines(items: &[Item]) -> String {
    let mut text = String::new();
    for item in items {
        let status = match item.status {
            Status::Pass => "pass",
            Status::Fail => "FAIL",
            Status::Absent => "absent",
        };
        let _ = writeln!(text, "  {:<14} {status:<7} {}", item.name, item.detail);
    }
    text
}

/// The five facts, and how strong the verdict is.
pub(super) fn evidence_lines(evidence: Option<&Evidence>, strength: &[Strength]) -> String {
    let mut text = String::new();
    if let Some(evidence) = evidence {
        let basis = evidence
            .objective
            .basis
            .map_or("none", |basis| match basis {
                loopexec_core::event::VerdictBasis::ExitCode => "exit code",
                loopexec_core::event::VerdictBasis::Report => "report",
            });
        let halt = evidence
            .convergence
            .halt_reason
            .as_deref()
            .unwrap_or("not halted");
        let _ = writeln!(text, "evidence:");
        let _ = writeln!(
            text,
            "  objective      {} (basis: {basis})",
            evidence.objective.verdict
        );
        let kept = if evidence.retention.accepted.is_some() {
            "the judged content was accepted"
        } else {
            "nothing was accepted"
        };
        let _ = writeln!(text, "  retention      {kept}");
        let _ = writeln!(text, "  convergence    {halt}");
        let _ = writeln!(text, "  owner decision {}", evidence.owner_decision);
        let _ = writeln!(text, "  publication    {}", evidence.publication);
    }
    if !strength.is_empty() {
        let _ = writeln!(text, "strength:");
        for strength in strength {
            let _ = writeln!(
                text,
                "  {:<15} {:<9} {}",
                strength.name,
                strength.level.name(),
                strength.detail
            );
        }
    }
    text
}
