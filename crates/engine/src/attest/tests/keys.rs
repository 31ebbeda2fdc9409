//! Key files, the identity of first use, and an agent that misbehaves.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use super::super::agent::{self, AgentError};
use super::super::identity::{IdentityError, load_or_create};
use super::super::key::{KeyError, PublicKey, Signer};
use super::{private_key_text, signer, write_private};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn mode(path: &Path) -> u32 {
    path.metadata().expect("exists").permissions().mode() & 0o777
}

#[test]
fn a_plain_private_key_signs_and_its_public_half_verifies() {
    let directory = directory();
    let path = directory.path().join("key");
    write_private(&path, private_key_text([7; 32]).as_bytes());
    let loaded = Signer::from_file(&path, None).expect("loaded");
    assert_eq!(loaded.public_key(), signer().public_key());
    assert!(loaded.key_id().starts_with("SHA256:"));
    let signature = loaded.sign(b"message").expect("signed");
    assert!(loaded.public_key().verifies(b"message", &signature));
    assert!(!loaded.public_key().verifies(b"messagE", &signature));
    assert!(!loaded.public_key().verifies(b"message", &signature[..63]));
}

#[test]
fn a_public_key_reads_back_from_its_openssh_form() {
    let key = signer().public_key();
    assert_eq!(
        PublicKey::from_openssh(&format!("{} some comment\n", key.to_openssh()), "x")
            .expect("read"),
        key
    );
    assert!(
        key.to_pem()
            .starts_with("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA")
    );
}

#[test]
fn a_private_key_that_others_can_read_is_refused() {
    let directory = directory();
    let path = directory.path().join("key");
    write_private(&path, private_key_text([7; 32]).as_bytes());
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("set");
    assert!(matches!(
        Signer::from_file(&path, None),
        Err(KeyError::Exposed { mode: 0o640, .. })
    ));
}

#[test]
fn files_that_are_no_usable_key_say_what_to_do() {
    let directory = directory();
    let check = |name: &str, text: &str, expect: &str| {
        let path = directory.path().join(name);
        write_private(&path, text.as_bytes());
        let error = Signer::from_file(&path, None)
            .expect_err("refused")
            .to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(
        "public",
        &signer().public_key().to_openssh(),
        "no SSH agent",
    );
    check(
        "device",
        "sk-ssh-ed25519@openssh.com AAAA",
        "security device",
    );
    check(
        "pem",
        "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n",
        "ssh-keygen -p -f",
    );
    check(
        "broken",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n",
        "no OpenSSH key",
    );
    check("text", "hello", "no OpenSSH key");
    check("empty", "", "no OpenSSH key");
    let missing = Signer::from_file(&directory.path().join("missing"), None);
    assert!(matches!(missing, Err(KeyError::Read { .. })));
    let large = directory.path().join("large");
    write_private(&large, &vec![b'x'; (64 << 10) + 1]);
    assert!(matches!(
        Signer::from_file(&large, None),
        Err(KeyError::TooLarge { found: 65_537, .. })
    ));
}

#[test]
fn the_identity_of_first_use_is_private_and_stays() {
    let directory = directory();
    let path = directory.path().join("a/b/id_ed25519");
    let first = load_or_create(&path, "loopexec").expect("made");
    assert!(first.created);
    assert_eq!(
        (mode(&path), mode(path.parent().expect("parent"))),
        (0o600, 0o700)
    );
    let second = load_or_create(&path, "loopexec").expect("loaded");
    assert!(!second.created);
    assert_eq!(first.signer.public_key(), second.signer.public_key());
    let public = std::fs::File::open(path.with_extension("pub"))
        .map(std::io::read_to_string)
        .expect("there")
        .expect("text");
    assert_eq!(
        PublicKey::from_openssh(&public, "x").expect("read"),
        first.signer.public_key()
    );
    assert_eq!(
        path.parent()
            .expect("parent")
            .read_dir()
            .expect("listed")
            .count(),
        2,
        "no temporary file is left"
    );
}

#[test]
fn programs_that_start_at_once_end_with_one_identity() {
    let directory = directory();
    let path = directory.path().join("id_ed25519");
    let keys: Vec<PublicKey> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    load_or_create(&path, "x")
                        .expect("one of them")
                        .signer
                        .public_key()
                })
            })
            .collect();
        started
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    assert!(keys.iter().all(|key| *key == keys[0]));
}

#[test]
fn an_identity_that_is_no_key_is_never_replaced() {
    let directory = directory();
    let path = directory.path().join("id_ed25519");
    write_private(&path, b"precious");
    assert!(matches!(
        load_or_create(&path, "x"),
        Err(IdentityError::Key(_))
    ));
    assert_eq!(path.metadata().expect("still there").len(), 8);
    let dangling = directory.path().join("dangling");
    std::os::unix::fs::symlink("nowhere", &dangling).expect("linked");
    assert!(load_or_create(&dangling, "x").is_err());
}

/// An agent that reads requests and gives these answers, one each.
fn fake_agent(directory: &Path, answers: Vec<Vec<u8>>) -> PathBuf {
    let socket = directory.join("agent");
    let listener = UnixListener::bind(&socket).expect("bound");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        for answer in answers {
            let mut length = [0; 4];
            stream.read_exact(&mut length).expect("a request");
            let mut request = vec![0; u32::from_be_bytes(length) as usize];
            stream.read_exact(&mut request).expect("its body");
            stream.write_all(&answer).expect("written");
        }
    });
    socket
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut framed = Vec::new();
    agent::put_string(&mut framed, body);
    framed
}

fn identities(keys: &[PublicKey]) -> Vec<u8> {
    let mut body = vec![12];
    body.extend_from_slice(&u32::try_from(keys.len()).expect("few").to_be_bytes());
    for key in keys {
        agent::put_string(&mut body, &key.wire());
        agent::put_string(&mut body, b"comment");
    }
    framed(&body)
}

fn signed(signature: &[u8]) -> Vec<u8> {
    let mut inner = Vec::new();
    agent::put_string(&mut inner, b"ssh-ed25519");
    agent::put_string(&mut inner, signature);
    let mut body = vec![14];
    agent::put_string(&mut body, &inner);
    framed(&body)
}

fn ask(answers: Vec<Vec<u8>>) -> Result<[u8; 64], KeyError> {
    let directory = directory();
    let socket = fake_agent(directory.path(), answers);
    Signer::Agent {
        socket,
        public_key: signer().public_key(),
    }
    .sign(b"message")
}

#[test]
fn an_agent_that_holds_the_key_signs() {
    let signature = signer().sign(b"message").expect("signed");
    let held = identities(&[super::other_signer().public_key(), signer().public_key()]);
    assert_eq!(
        ask(vec![held, signed(&signature)]).expect("signed"),
        signature
    );
}

#[test]
fn each_bad_answer_of_an_agent_has_its_own_reason() {
    let held = || identities(&[signer().public_key()]);
    let agent_error = |answers| match ask(answers) {
        Err(KeyError::Agent(error)) => error,
        other => panic!("expected the agent's error, got {other:?}"),
    };
    assert!(matches!(
        agent_error(vec![identities(&[])]),
        AgentError::UnknownKey { .. }
    ));
    assert!(matches!(
        agent_error(vec![held(), framed(&[5])]),
        AgentError::Refused { .. }
    ));
    assert!(matches!(
        agent_error(vec![framed(&[12, 0, 0, 0, 9])]),
        AgentError::Malformed { .. }
    ));
    assert!(matches!(
        agent_error(vec![framed(&[])]),
        AgentError::Malformed { .. }
    ));
    assert!(matches!(
        agent_error(vec![held(), signed(&[0; 63])]),
        AgentError::Malformed { .. }
    ));
    assert!(matches!(
        agent_error(vec![vec![0xff; 4]]),
        AgentError::AnswerTooLong { .. }
    ));
    assert!(matches!(agent_error(vec![]), AgentError::Connection { .. }));
    assert!(matches!(
        ask(vec![held(), signed(&[0; 64])]),
        Err(KeyError::BadAgentSignature { .. })
    ));
    let nowhere = Signer::Agent {
        socket: "/nonexistent/agent".into(),
        public_key: signer().public_key(),
    };
    assert!(matches!(
        nowhere.sign(b"m"),
        Err(KeyError::Agent(AgentError::Connection { .. }))
    ));
}
