//! What is kept is kept once, can be carried away, and can be removed.

use super::*;

#[test]
fn saving_the_same_content_again_writes_no_object() {
    let workspace = testing::Workspace::plain();
    write_odd_content(&workspace);
    let (mut care, baseline) = begin(&workspace);
    let packs = care.store().packs().len();
    let manifest = care.scan().expect("scanned");
    let saved = care.save(&manifest, "n1").expect("saved");
    assert_eq!(
        (saved.tree, &saved.manifest_sha256),
        (baseline.saved.tree, &baseline.saved.manifest_sha256)
    );
    let again = care.save(&manifest, "n2").expect("saved");
    assert_eq!(again, saved);
    // The first has no rules beside it and so another commit; the second has nothing new at all.
    assert_eq!(care.store().packs().len(), packs + 1);
    assert!(care.store().disk_usage().expect("measured").files < 12);
}

#[test]
fn a_bundle_has_the_same_bytes_each_time_and_git_reads_it() {
    let Some(workspace) = committed() else { return };
    write_odd_content(&workspace);
    link("main.c", &workspace.at("to main"));
    let (care, _) = begin(&workspace);
    let files = ["one.bundle", "two.bundle"].map(|name| workspace.at("..").join(name));
    for file in &files {
        care.store()
            .bundle(git_program().as_ref(), &["t0"], file)
            .expect("bundled");
    }
    let [one, two] = files
        .each_ref()
        .map(|file| fs_err::read(file).expect("there"));
    assert_eq!(one, two);
    let clone = testing::Workspace::with_git().expect("git is here");
    clone.git(&[
        "fetch",
        "-q",
        files[0].to_str().expect("a name"),
        "refs/loopexec/*:refs/loopexec/*",
    ]);
    assert_eq!(
        clone.git(&["show", "refs/loopexec/t0:worktree/main.c"]),
        "int main;\n"
    );
    clone.git(&["fsck", "--strict", "--no-dangling"]);
    assert!(care.store().bundle(None, &["t9"], &files[0]).is_err());
}

#[test]
fn a_label_and_a_run_id_that_cannot_be_references_are_refused() {
    let Some(workspace) = committed() else { return };
    let (mut care, _) = begin(&workspace);
    let manifest = care.scan().expect("scanned");
    for label in ["", "../x", "a/b", "A", "-a", &"a".repeat(65)] {
        assert!(
            matches!(
                care.save(&manifest, label),
                Err(WorkspaceError::Store(StoreError::Label { .. }))
            ),
            "{label}"
        );
    }
    assert!(care.save(&manifest, &"a".repeat(64)).is_ok());
    for run in [
        "",
        "a/b",
        "a..b",
        "a.lock",
        ".a",
        "-a",
        "a b",
        &"a".repeat(129),
    ] {
        let mut config = config(&workspace, &workspace.path());
        config.run = run.to_owned();
        assert!(
            matches!(Workspace::begin(config), Err(WorkspaceError::Publish(_))),
            "{run}"
        );
    }
}

#[test]
fn references_of_a_run_can_be_listed_and_removed() {
    let Some(workspace) = committed() else { return };
    let (care, baseline) = begin(&workspace);
    care.publish("n1", &baseline.saved.commit)
        .expect("published");
    let (git, repository) = (
        git_program().expect("git is here"),
        care.repository().expect("a repository"),
    );
    assert_eq!(
        publish::remove_references(&git, repository, "r1").expect("removed"),
        ["n1", "t0"]
    );
    assert_eq!(workspace.git(&["for-each-ref", "refs/loopexec"]), "");
}

#[test]
fn a_store_that_somebody_packed_anew_is_read_through_git() {
    if git_program().is_none() {
        return;
    }
    let workspace = testing::Workspace::plain();
    write_odd_content(&workspace);
    let before = seen(&workspace.path());
    let (care, baseline) = begin(&workspace);
    let own = care.store().git_dir().to_owned();
    drop(care);
    workspace.git_in(
        &own,
        &["-c", "core.compression=9", "repack", "-q", "-a", "-d", "-f"],
    );
    testing::spoil(&workspace);
    let (mut care, beginning) =
        Workspace::resume(config(&workspace, &workspace.path())).expect("resumed");
    assert_eq!(beginning, baseline.saved);
    care.restore(&beginning).expect("restored");
    assert_eq!(seen(&workspace.path()), before);
}

#[test]
fn a_file_that_changes_between_scan_and_save_is_named_and_nothing_is_kept() {
    let workspace = testing::Workspace::plain();
    let (mut care, _) = begin(&workspace);
    for change in [&b"12345"[..], b"123456789", b"1"] {
        workspace.write("file", b"abcde");
        let manifest = care.scan().expect("scanned");
        workspace.write("file", change);
        let saved = care.save(&manifest, "n1");
        assert!(
            matches!(
                saved,
                Err(WorkspaceError::Store(StoreError::Changed { .. }))
            ),
            "{change:?}"
        );
    }
    assert!(care.store().labels().all(|(label, _)| label == BEGINNING));
    let packs = fs_err::read_dir(care.store().git_dir().join("objects/pack")).expect("a directory");
    assert!(
        packs
            .filter_map(Result::ok)
            .all(|entry| entry.file_name().to_string_lossy().starts_with("pack-"))
    );
}
