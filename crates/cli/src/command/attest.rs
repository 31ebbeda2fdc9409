//! `attest`: sign a receipt, or check its signatures.

use std::fmt::Write as _;

use loopexec_core::halt::HaltReason;
use loopexec_engine::{
    attesting::{
        Against, AttestConfig, Attested, Checked, KeySource, attest as sign, check, public_key,
    },
    failure::Failure,
    inside,
    verify::Trust,
};
use loopexec_os::clock;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Answer,
    verify::{allowed_signers, failures, item_lines},
};
use crate::{
    args::{Attest as Arguments, Global},
    envelope::Envelope,
    error::CliError,
    invocation::Invocation,
};

/// The secret of the keyed digest.
const SECRET_VARIABLE: &str = "LOOPEXEC_ATTEST_KEY";

/// What was signed, and with which key.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Attestation {
    /// Each file that was written.
    pub(crate) files: Vec<String>,
    /// Fingerprint of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_id: Option<String>,
    /// The key in OpenSSH form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) public_key: Option<String>,
    /// The identity that was made for this, if one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created: Option<String>,
}

/// Signs, or checks.
pub(super) fn attest(
    global: &Global,
    arguments: &Arguments,
    invocation: &Invocation,
) -> Result<Answer, CliError> {
    let secret = secret(arguments, invocation);
    let mut answer = if arguments.verify {
        checked(global, arguments, invocation, secret.as_deref())?
    } else {
        signed(global, arguments, invocation, secret.as_deref())?
    };
    if arguments.key.is_some() {
        let warning = format!(
            "a secret on the command line can be seen by every process of this machine; set {SECRET_VARIABLE} instead"
        );
        answer.talk.push(format!("warning: {warning}"));
        answer.envelope.warnings.push(warning);
    }
    Ok(answer)
}

fn secret(arguments: &Arguments, invocation: &Invocation) -> Option<Vec<u8>> {
    let from_environment = || {
        invocation
            .variable(SECRET_VARIABLE)
            .map(|value| value.as_encoded_bytes().to_vec())
    };
    match &arguments.key {
        Some(secret) => Some(secret.as_bytes().to_vec()),
        None => from_environment(),
    }
}

/// The key that is named, or the identity.
pub(super) fn key_source(
    key_file: Option<&std::path::Path>,
    invocation: &Invocation,
) -> Result<KeySource, Failure> {
    if let Some(path) = key_file {
        return Ok(KeySource::File {
            path: path.to_owned(),
            agent: invocation.variable("SSH_AUTH_SOCK").map(Into::into),
        });
    }
    invocation
        .config_home()
        .map(|home| KeySource::Identity(home.join("loopexec/identity")))
        .ok_or_else(|| {
            Failure::workspace("there is no place for an identity: neither HOME nor XDG_CONFIG_HOME names a directory")
                .because("key_missing")
                .hint("name an Ed25519 key in OpenSSH form with --key-file")
        })
}

fn signed(
    global: &Global,
    arguments: &Arguments,
    invocation: &Invocation,
    secret: Option<&[u8]>,
) -> Result<Answer, CliError> {
    let layout = invocation.layout(global.workdir.as_deref())?;
    inside::refuse(&layout, "attest", invocation.inside_run().as_deref())?;
    if arguments.key.as_deref() == Some("") {
        return Err(Failure::workspace(format!(
            "--key is empty, and there is no built-in key: give a secret, or set {SECRET_VARIABLE}"
        ))
        .because("key_missing")
        .into());
    }
    // A secret asks for the keyed digest alone, as integrations know it, unless a key is named too.
    let key = match (secret, &arguments.key_file) {
        (Some(_), None) => None,
        (_, file) => Some(key_source(file.as_deref(), invocation)?),
    };
    let attested = sign(&AttestConfig {
        layout: &layout,
        run_id: arguments.run.run_id.as_deref(),
        key: key.as_ref(),
        secret,
    })?;
    Ok(signed_answer(&attested))
}

fn signed_answer(attested: &Attested) -> Answer {
    let mut envelope = Envelope::new("attested");
    envelope.run_id = Some(attested.run_id.clone());
    envelope.receipt = Envelope::path(&attested.receipt);
    envelope.signature = Some(attested.signature.clone());
    let mut text = super::run::lines(&envelope);
    let files: Vec<String> = attested
        .files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    for file in &files {
        let _ = writeln!(text, "written: {file}");
    }
    if let Some(key) = &attested.public_key {
        let _ = writeln!(text, "key: {key}");
        let _ = writeln!(
            text,
            "verify: loopexec verify --run-id {} --trusted FILE, where FILE holds `NAME {key}`",
            attested.run_id
        );
    }
    let mut talk = Vec::new();
    if let Some(created) = &attested.created {
        talk.push(format!(
            "note: a signing identity was made at {}; keep it private, and give others its .pub",
            created.display()
        ));
    }
    envelope.block.attest = Some(Attestation {
        files,
        key_id: attested.key_id.clone(),
        public_key: attested.public_key.clone(),
        created: attested.created.as_deref().and_then(Envelope::path),
    });
    let mut answer = Answer::new(envelope, text);
    answer.talk = talk;
    answer
}

fn checked(
    global: &Global,
    arguments: &Arguments,
    invocation: &Invocation,
    secret: Option<&[u8]>,
) -> Result<Answer, CliError> {
    let layout = invocation.layout(global.workdir.as_deref())?;
    let run_id = arguments.run.run_id.as_deref();
    let signers = arguments
        .trusted
        .as_deref()
        .map(allowed_signers)
        .transpose()?;
    let found = match (&signers, &arguments.key_file, secret) {
        (Some(signers), _, _) => {
            let now = clock::wall_millis().div_euclid(1000);
            check(
                &layout,
                run_id,
                &Against::Keys(Trust::Signers { signers, now }),
            )?
        }
        (None, Some(file), _) => {
            let key = public_key(file)?;
            check(&layout, run_id, &Against::Keys(Trust::Key(&key)))?
        }
        (None, None, Some(secret)) => check(&layout, run_id, &Against::Secret(secret))?,
        (None, None, None) => {
            let key = own_key(invocation)?;
            check(&layout, run_id, &Against::Keys(Trust::Key(&key)))?
        }
    };
    Ok(checked_answer(found))
}

/// The public half of the identity, which is trusted where nobody was named: it is the person's own.
fn own_key(invocation: &Invocation) -> Result<loopexec_engine::attest::key::PublicKey, Failure> {
    let identity = invocation
        .config_home()
        .map(|home| home.join("loopexec/identity"))
        .filter(|path| path.is_file());
    match identity {
        Some(path) => public_key(&path),
        None => Err(Failure::workspace(
            "nobody is trusted: there is no identity here, and no key was named",
        )
        .because("trust_missing")
        .hint("name keys with --trusted FILE or --key-file FILE, or the secret with --key")),
    }
}

fn checked_answer(found: Checked) -> Answer {
    let verified = found.verified();
    let cause = found.cause().to_owned();
    let status = match (verified, cause.as_str()) {
        (true, _) => "verified",
        (false, "absent") => "absent",
        (false, _) => "error",
    };
    let mut envelope = Envelope::new(status);
    envelope.run_id = Some(found.run_id.clone());
    envelope.receipt = Envelope::path(&found.receipt);
    envelope.verified = Some(verified);
    if !verified {
        envelope.halt_reason = Some(HaltReason::ObjectiveUnverified.name().to_owned());
        envelope.errors = failures(&found.items);
        if envelope.errors.is_empty() {
            envelope
                .errors
                .push("the run has no signature of the kind that was asked for".to_owned());
        }
        envelope.failure_cause = Some(cause);
    }
    let text = super::run::lines(&envelope) + &item_lines(&found.items);
    envelope.block.checks = found.items;
    let mut answer = Answer::new(envelope, text);
    if !verified {
        answer.class = HaltReason::ObjectiveUnverified.class();
    }
    answer
}
