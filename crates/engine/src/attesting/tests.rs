//! A run is signed and checked through files, as the commands do it.

use loopexec_core::{
    policy::{Commands, Policy},
    workspace::ActName,
};
use loopexec_testkit::log::{Attempt, LogBuilder};
use tempfile::TempDir;

use super::*;
use crate::attest::key::PublicKey;

const RUN: &str = "golden";

struct Workspace {
    directory: TempDir,
    layout: Layout,
    key: KeySource,
}

/// A workspace in which a run of two iterations came to its green.
fn make(log: &LogBuilder) -> Workspace {
    let directory = tempfile::tempdir().unwrap();
    let layout = Layout::new(directory.path(), None);
    fs_err::create_dir(layout.store()).unwrap();
    fs_err::write(layout.receipt(RUN), log.bytes()).unwrap();
    fs_err::write(layout.state(RUN), StateView::of(log.state()).bytes()).unwrap();
    let key = KeySource::Identity(directory.path().join("config/identity"));
    Workspace {
        directory,
        layout,
        key,
    }
}

fn green() -> LogBuilder {
    let mut log = LogBuilder::open(
        Policy::default(),
        Commands {
            check: "make test".to_owned(),
            ..Commands::default()
        },
    );
    let attempts = [Attempt::new(1, &[]), Attempt::new(0, &[])];
    log.drive(&Attempt::new(1, &[]), &attempts);
    log
}

fn sign(workspace: &Workspace, secret: Option<&[u8]>) -> Result<Attested, Failure> {
    attest(&AttestConfig {
        layout: &workspace.layout,
        run_id: Some(RUN),
        key: secret.is_none().then_some(&workspace.key),
        secret,
    })
}

fn own_key(workspace: &Workspace) -> PublicKey {
    public_key(&workspace.directory.path().join("config/identity.pub")).unwrap()
}

fn causes(workspace: &Workspace, key: &PublicKey) -> Vec<String> {
    let checked = check(
        &workspace.layout,
        Some(RUN),
        &Against::Keys(Trust::Key(key)),
    );
    let items = checked.unwrap().items;
    items.into_iter().filter_map(|item| item.cause).collect()
}

#[test]
fn a_signed_run_is_accepted_noted_and_its_receipt_is_as_it_was() {
    let log = green();
    let workspace = make(&log);
    let attested = sign(&workspace, None).unwrap();
    assert!(attested.created.is_some());
    assert_eq!(attested.files.len(), 2);
    let key = own_key(&workspace);
    assert_eq!(causes(&workspace, &key), Vec::<String>::new());
    let receipt = fs_err::read(workspace.layout.receipt(RUN)).unwrap();
    assert_eq!(receipt, log.bytes());
    let acts = WorkspaceLog::read(&workspace.layout).unwrap().acts;
    assert_eq!(acts.len(), 1);
    assert_eq!(acts[0].event, ActName::Attested);
    assert_eq!(acts[0].head, Some(log.state().head));
    assert!(sign(&workspace, None).unwrap().created.is_none());
}

#[test]
fn another_key_and_another_receipt_are_refused_by_name() {
    let workspace = make(&green());
    sign(&workspace, None).unwrap();
    let other = make(&green());
    sign(&other, None).unwrap();
    let found = causes(&workspace, &own_key(&other));
    assert_eq!(found, ["signature_mismatch", "signature_mismatch"]);
    let key = own_key(&workspace);
    let path = workspace.layout.receipt(RUN);
    let receipt = fs_err::read_to_string(&path).unwrap();
    let cut = receipt.lines().count() - 1;
    let short: String = receipt.split_inclusive('\n').take(cut).collect();
    fs_err::write(&path, short).unwrap();
    assert_eq!(causes(&workspace, &key), ["truncated", "truncated"]);
    fs_err::write(&path, receipt.replacen("make test", "make tess", 1)).unwrap();
    let found = causes(&workspace, &key);
    assert_eq!(found, ["signature_mismatch", "signature_mismatch"]);
}

#[test]
fn a_receipt_that_does_not_verify_or_has_not_ended_is_not_signed() {
    let log = green();
    let workspace = make(&log);
    let path = workspace.layout.receipt(RUN);
    let text = String::from_utf8(log.bytes()).unwrap();
    fs_err::write(&path, text.replacen("make test", "make tess", 1)).unwrap();
    let failure = sign(&workspace, None).unwrap_err();
    assert_eq!(failure.reason.class().code(), 13);
    let open = LogBuilder::open(Policy::default(), Commands::default());
    let workspace = make(&open);
    let failure = sign(&workspace, None).unwrap_err();
    assert_eq!(failure.cause, Some("receipt_not_sealed"));
    assert!(
        workspace
            .layout
            .signatures(RUN)
            .iter()
            .all(|file| !file.exists())
    );
}

#[test]
fn the_keyed_digest_is_of_this_secret_and_needs_one() {
    let workspace = make(&green());
    assert!(sign(&workspace, Some(b"")).is_err());
    let attested = sign(&workspace, Some(b"secret")).unwrap();
    assert_eq!(attested.signature.len(), 64);
    let verified = |secret: &[u8]| {
        let against = Against::Secret(secret);
        check(&workspace.layout, Some(RUN), &against)
            .unwrap()
            .verified()
    };
    assert!(verified(b"secret"));
    assert!(!verified(b"secreT"));
}

#[test]
fn earlier_runs_are_those_of_the_same_policy_that_ended_before_the_newest_first() {
    let log = green();
    let workspace = make(&log);
    let state = log.state();
    let ended = |run_id: &str, same_policy: bool, head: Digest| {
        let mut act = NewAct::new(ActName::RunEnded, run_id);
        act.fields.head = Some(head);
        act.fields.halt_reason = Some("max_iterations_reached".to_owned());
        act.fields.policy_hash = Some(if same_policy {
            state.run.policy_hash
        } else {
            Digest::of(b"another")
        });
        let layout = &workspace.layout;
        WorkspaceLog::append(layout, act).unwrap();
    };
    ended("first", true, Digest::of(b"1"));
    ended("other", false, Digest::of(b"2"));
    ended("second", true, Digest::of(b"3"));
    ended(RUN, true, state.head);
    ended("later", true, Digest::of(b"4"));
    let earlier = earlier_runs(&workspace.layout, state).unwrap();
    let names: Vec<&str> = earlier.iter().map(|run| run.run_id.as_str()).collect();
    assert_eq!(names, ["second", "first"]);
}

#[test]
fn nothing_signed_is_absent_and_no_success() {
    let workspace = make(&green());
    let other = make(&green());
    sign(&other, None).unwrap();
    let key = own_key(&other);
    let against = Against::Keys(Trust::Key(&key));
    let checked = check(&workspace.layout, Some(RUN), &against).unwrap();
    assert!(!checked.verified());
    assert_eq!(checked.cause(), "absent");
}
