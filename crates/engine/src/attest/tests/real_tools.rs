//! The same files before the tools that a third party has: `ssh-keygen`, an SSH agent, `openssl`, Python, Node.
//!
//! A missing tool skips its test with a line that says so, and fails it when `LOOPEXEC_REQUIRE_REAL=1`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use base64ct::{Base64, Encoding};

use super::super::bundle::Bundle;
use super::super::dsse::pre_authentication_encoding;
use super::super::key::{KeyError, Signer};
use super::super::sshsig::SignatureFile;
use super::super::{NAMESPACE, sshsig};
use super::{allowed, private_key_text, receipt, sign_both, signer, write_private};

#[expect(
    clippy::disallowed_methods,
    reason = "the tools under test are other people's; no guardian is needed for them"
)]
fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

#[expect(
    clippy::disallowed_methods,
    reason = "a switch of the test run, not of the program"
)]
fn real_tools_are_required() -> bool {
    std::env::var("LOOPEXEC_REQUIRE_REAL").is_ok_and(|value| value == "1")
}

/// Runs a tool; None when it is not installed.
fn run(program: &str, arguments: &[&str], input: &[u8]) -> Option<Output> {
    let spawned = command(program, arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => panic!("{program} cannot be started: {error}"),
    };
    // A tool that refuses early closes its input; its exit code is what counts.
    let _ = child.stdin.take().expect("piped").write_all(input);
    Some(child.wait_with_output().expect("waited"))
}

fn skip(what: &str) {
    assert!(
        !real_tools_are_required(),
        "{what} is required and not installed"
    );
    eprintln!("skipped: needs {what}");
}

fn shown(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    fn write(&self, name: &str, contents: &[u8]) -> String {
        let path = self.path(name);
        write_private(&path, contents);
        path.display().to_string()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

fn changed(bytes: &[u8]) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    changed
}

#[test]
fn ssh_keygen_accepts_the_genuine_receipt_and_refuses_the_changed_one() {
    let files = Files::new();
    let signers = files.write(
        "allowed_signers",
        allowed(&signer().public_key()).as_bytes(),
    );
    let (signature, _) = sign_both(&signer(), &receipt("r1", 0));
    let signature = files.write("receipt.sig", signature.as_bytes());
    let verify = |input: &[u8], namespace: &str| {
        let arguments = [
            "-Y",
            "verify",
            "-f",
            &signers,
            "-I",
            "ann@example.org",
            "-n",
            namespace,
            "-s",
            &signature,
        ];
        run("ssh-keygen", &arguments, input)
    };
    let Some(genuine) = verify(&receipt("r1", 0), NAMESPACE) else {
        return skip("ssh-keygen");
    };
    assert!(genuine.status.success(), "{}", shown(&genuine));
    for (input, namespace) in [
        (changed(&receipt("r1", 0)), NAMESPACE),
        (receipt("r1", 0), "git"),
    ] {
        let refused = verify(&input, namespace).expect("installed");
        assert!(!refused.status.success(), "{}", shown(&refused));
    }
}

#[test]
fn a_signature_of_ssh_keygen_is_read_and_its_keys_are_told_apart() {
    let files = Files::new();
    let key = files.path("key").display().to_string();
    let made = run(
        "ssh-keygen",
        &["-q", "-t", "ed25519", "-N", "", "-C", "x", "-f", &key],
        b"",
    );
    let Some(made) = made else {
        return skip("ssh-keygen");
    };
    assert!(made.status.success(), "{}", shown(&made));
    let loaded = Signer::from_file(Path::new(&key), None).expect("a key of ssh-keygen");
    let listed = run("ssh-keygen", &["-lf", &key], b"").expect("installed");
    assert!(
        shown(&listed).contains(&loaded.key_id()),
        "{}",
        shown(&listed)
    );

    let sign = |namespace: &str| {
        run(
            "ssh-keygen",
            &["-Y", "sign", "-f", &key, "-n", namespace],
            b"message",
        )
        .expect("installed")
        .stdout
    };
    let file = SignatureFile::parse(&sign(NAMESPACE)).expect("a signature");
    assert_eq!(file.public_key, loaded.public_key());
    assert!(file.is_of(b"message") && !file.is_of(b"messagE"));
    assert!(
        SignatureFile::parse(&sign("git"))
            .expect_err("another namespace")
            .contains("git")
    );
    // Ed25519 is deterministic, so both programs make the same bytes.
    let ours = SignatureFile::parse(
        sshsig::sign(&loaded, b"message")
            .expect("signed")
            .as_bytes(),
    )
    .expect("read");
    assert!(ours.is_of(b"message"));
}

#[test]
fn encrypted_keys_and_keys_of_other_algorithms_are_refused() {
    let files = Files::new();
    let encrypted = files.path("encrypted").display().to_string();
    run(
        "ssh-keygen",
        &["-q", "-t", "ed25519", "-N", "secret", "-f", &encrypted],
        b"",
    )
    .expect("installed");
    assert!(matches!(
        Signer::from_file(Path::new(&encrypted), None),
        Err(KeyError::Encrypted { .. })
    ));
    for (name, kind) in [("rsa", "rsa"), ("ecdsa", "ecdsa")] {
        let path = files.path(name).display().to_string();
        run(
            "ssh-keygen",
            &["-q", "-t", kind, "-N", "", "-f", &path],
            b"",
        )
        .expect("installed");
        let error = Signer::from_file(Path::new(&path), None).expect_err("another algorithm");
        assert!(
            matches!(
                error,
                KeyError::Algorithm { .. } | KeyError::Malformed { .. }
            ),
            "{error}"
        );
    }
}

#[test]
fn an_ssh_agent_signs_with_a_key_that_only_it_holds() {
    let files = Files::new();
    let socket = files.path("agent.sock");
    let spawned = command("ssh-agent", &["-D", "-a", &socket.display().to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut agent = match spawned {
        Ok(agent) => agent,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return skip("ssh-agent"),
        Err(error) => panic!("ssh-agent cannot be started: {error}"),
    };
    let answer = sign_with_agent(&files, &socket);
    agent.kill().expect("ended");
    agent.wait().expect("waited");
    answer.expect("signed");
}

fn sign_with_agent(files: &Files, socket: &Path) -> Result<(), String> {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while std::os::unix::net::UnixStream::connect(socket).is_err() {
        if std::time::Instant::now() > deadline {
            return Err("the agent opened no socket".into());
        }
        std::thread::yield_now();
    }
    let key = files.write("key", private_key_text([7; 32]).as_bytes());
    let public = files.write("key.pub", signer().public_key().to_openssh().as_bytes());
    let signer =
        Signer::from_file(Path::new(&public), Some(socket)).map_err(|error| error.to_string())?;
    if signer.sign(b"message").is_ok() {
        return Err("signed before the key was added".into());
    }
    let added = command("ssh-add", &["-q", &key])
        .env("SSH_AUTH_SOCK", socket)
        .output()
        .map_err(|error| error.to_string())?;
    if !added.status.success() {
        return Err(shown(&added));
    }
    let text = sshsig::sign(&signer, b"message").map_err(|error| format!("{error:?}"))?;
    let file = SignatureFile::parse(text.as_bytes())?;
    if file.is_of(b"message") {
        Ok(())
    } else {
        Err("another signature".into())
    }
}

#[test]
fn openssl_accepts_the_genuine_envelope_and_refuses_the_changed_one() {
    let files = Files::new();
    let (_, bundle) = sign_both(&signer(), &receipt("r1", 0));
    let envelope = Bundle::parse(bundle.as_bytes())
        .expect("a bundle")
        .dsse_envelope;
    let encoded =
        pre_authentication_encoding(&envelope.payload_type, &envelope.body().expect("base64"));
    let signature = files.write(
        "sig",
        &Base64::decode_vec(&envelope.signatures[0].sig).expect("base64"),
    );
    let key = files.write("key.pem", signer().public_key().to_pem().as_bytes());
    let verify = |name: &str, contents: &[u8]| {
        let input = files.write(name, contents);
        run(
            "openssl",
            &[
                "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", &key, "-sigfile", &signature,
                "-in", &input,
            ],
            b"",
        )
    };
    let Some(genuine) = verify("genuine", &encoded) else {
        return skip("openssl");
    };
    assert!(genuine.status.success(), "{}", shown(&genuine));
    let refused = verify("changed", &changed(&encoded)).expect("installed");
    assert!(!refused.status.success(), "{}", shown(&refused));
}

/// A bundle whose statement was exchanged for another one's.
fn with_other_statement() -> String {
    let (_, genuine) = sign_both(&signer(), &receipt("r1", 0));
    let (_, other) = sign_both(&signer(), &receipt("r2", 0));
    let mut bundle = super::parse_json(&genuine);
    bundle["dsseEnvelope"]["payload"] =
        super::parse_json(&other)["dsseEnvelope"]["payload"].clone();
    bundle.to_string()
}

/// Runs a verifier script on a genuine and a changed bundle: exit 0 and exit 1.
fn check_script(program: &str, script: &str) {
    let files = Files::new();
    let (_, genuine) = sign_both(&signer(), &receipt("r1", 0));
    let key = files.write("key.pem", signer().public_key().to_pem().as_bytes());
    for (name, contents, code) in [
        ("genuine.json", genuine, 0),
        ("changed.json", with_other_statement(), 1),
    ] {
        let bundle = files.write(name, contents.as_bytes());
        let output = run(program, &[script, &bundle, &key], b"").expect("installed");
        assert_eq!(
            output.status.code(),
            Some(code),
            "{name}: {}",
            shown(&output)
        );
    }
}

#[test]
fn python_securesystemslib_accepts_the_genuine_bundle_and_refuses_the_changed_one() {
    let importable = run(
        "python3",
        &["-c", "import securesystemslib.dsse, cryptography"],
        b"",
    );
    if !importable.is_some_and(|output| output.status.success()) {
        return skip("python3 with securesystemslib and cryptography");
    }
    check_script(
        "python3",
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/verify_dsse.py"),
    );
}

#[test]
fn node_sigstore_accepts_the_genuine_bundle_and_refuses_the_changed_one() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/verify_bundle.cjs");
    if !run("node", &[script], b"").is_some_and(|output| output.status.success()) {
        return skip("node with @sigstore/verify and @sigstore/bundle in NODE_PATH");
    }
    check_script("node", script);
}
