//! Undo brings back worktree and index byte for byte, keeps what it replaces, and can be run again.

use super::*;
use crate::candidate::Durability;
use crate::candidate::testing::{self, git_program, seen, spoil, write_odd_content};

fn config(workspace: &testing::Workspace) -> WorkspaceConfig {
    WorkspaceConfig {
        directory: workspace.path(),
        run_directory: workspace.store_path(),
        run: "r1".to_owned(),
        git: git_program(),
        excludes_file: None,
        durability: Durability::Buffered,
    }
}

fn prepared() -> Option<testing::Workspace> {
    let workspace = testing::Workspace::with_git()?;
    workspace.write(".gitignore", b"*.o\n.loopexec/\n");
    workspace.write("tracked", b"one\n");
    workspace.git(&["add", "."]);
    workspace.git(&["commit", "-qm", "one"]);
    write_odd_content(&workspace);
    workspace.write("tracked", b"staged\n");
    workspace.git(&["add", "tracked", "plain.txt", "crlf.txt"]);
    workspace.write("tracked", b"unstaged\n");
    workspace.write("out.o", b"ignored");
    Some(workspace)
}

fn index(workspace: &testing::Workspace) -> Option<Vec<u8>> {
    fs_err::read(workspace.at(".git/index")).ok()
}

#[test]
fn worktree_and_index_come_back_and_the_commits_made_meanwhile_stay() {
    let Some(workspace) = prepared() else { return };
    let (files, raw, status) = (
        seen(&workspace.path()),
        index(&workspace),
        workspace.git(&["status", "--porcelain"]),
    );
    Workspace::begin(config(&workspace)).expect("begun");
    spoil(&workspace);
    workspace.git(&["add", "-A"]);
    workspace.git(&["commit", "-qm", "by the work command"]);
    let head = workspace.git(&["rev-parse", "HEAD"]);
    workspace.write("out.o", b"built anew");

    let report = undo(config(&workspace)).expect("undone");
    workspace.write("out.o", b"ignored");
    assert_eq!(seen(&workspace.path()), files);
    assert_eq!(index(&workspace), raw);
    assert!(report.index_changed);
    assert_eq!(workspace.git(&["rev-parse", "HEAD"]), head);
    workspace.git(&["reset", "-q", "--soft", "HEAD~"]);
    assert_eq!(workspace.git(&["status", "--porcelain"]), status);
    workspace.git(&["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn what_undo_replaces_is_kept_and_can_be_brought_back_too() {
    let Some(workspace) = prepared() else { return };
    Workspace::begin(config(&workspace)).expect("begun");
    workspace.write("tracked", b"the work of a night\n");
    workspace.write("out.o", b"untouched");
    let after = seen(&workspace.path());
    let report = undo(config(&workspace)).expect("undone");
    assert_eq!(
        report.kept_reference.as_deref(),
        Some("refs/loopexec/r1/undo-1")
    );
    assert_eq!(
        workspace.git(&["show", "refs/loopexec/r1/undo-1:worktree/tracked"]),
        "the work of a night\n"
    );
    let (mut care, _) = Workspace::resume(config(&workspace)).expect("resumed");
    care.restore(&report.kept).expect("restored");
    assert_eq!(seen(&workspace.path()), after);
}

#[test]
fn an_undo_that_was_interrupted_is_run_again_and_keeps_each_state() {
    let Some(workspace) = prepared() else { return };
    let (files, raw) = (seen(&workspace.path()), index(&workspace));
    Workspace::begin(config(&workspace)).expect("begun");
    spoil(&workspace);
    workspace.git(&["add", "-A"]);
    // Another git holds the index: the undo stops after the worktree.
    workspace.write(".git/index.lock", b"");
    let error = undo(config(&workspace)).expect_err("the index is locked");
    let text = std::error::Error::source(&error)
        .expect("a cause")
        .to_string();
    assert!(text.contains("index.lock exists"), "{text}");
    fs_err::remove_file(workspace.at(".git/index.lock")).expect("removed");
    workspace.write("tracked", b"cut sho");
    let report = undo(config(&workspace)).expect("undone");
    assert_eq!(report.kept_label, "undo-2");
    assert_eq!((seen(&workspace.path()), index(&workspace)), (files, raw));
    assert!(
        workspace
            .git(&["show", "refs/loopexec/r1/undo-1:manifest"])
            .contains(" added/new%20file\n")
    );
}

#[test]
fn an_index_that_was_not_there_is_removed_again() {
    let Some(workspace) = testing::Workspace::with_git() else {
        return;
    };
    workspace.write("a", b"a");
    Workspace::begin(config(&workspace)).expect("begun");
    workspace.git(&["add", "a"]);
    assert!(undo(config(&workspace)).expect("undone").index_changed);
    assert_eq!(index(&workspace), None);
    assert!(!workspace.at(".git/index.lock").exists());
}

#[test]
fn the_index_comes_back_where_it_was_split_unmerged_or_intended() {
    let Some(workspace) = prepared() else { return };
    workspace.git(&["add", "--intent-to-add", "binary"]);
    workspace.git(&["update-index", "--split-index"]);
    workspace.git(&["add", "large"]);
    let (raw, staged) = (index(&workspace), workspace.git(&["ls-files", "--stage"]));
    Workspace::begin(config(&workspace)).expect("begun");
    workspace.git(&["update-index", "--no-split-index"]);
    workspace.git(&["add", "-A"]);
    for entry in fs_err::read_dir(workspace.at(".git")).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("sharedindex."))
        {
            fs_err::remove_file(path).expect("removed");
        }
    }
    undo(config(&workspace)).expect("undone");
    assert_eq!(index(&workspace), raw);
    assert_eq!(workspace.git(&["ls-files", "--stage"]), staged);
}

#[test]
fn the_reference_serves_where_the_governor_s_directory_was_removed() {
    let Some(workspace) = prepared() else { return };
    let (files, raw) = (seen(&workspace.path()), index(&workspace));
    Workspace::begin(config(&workspace)).expect("begun");
    spoil(&workspace);
    fs_err::remove_dir_all(workspace.at(".loopexec")).expect("removed");
    undo(config(&workspace)).expect("undone");
    assert_eq!((seen(&workspace.path()), index(&workspace)), (files, raw));
}

#[test]
fn without_git_the_state_that_is_replaced_is_kept_in_the_store() {
    let workspace = testing::Workspace::plain();
    write_odd_content(&workspace);
    let files = seen(&workspace.path());
    Workspace::begin(config(&workspace)).expect("begun");
    spoil(&workspace);
    let report = undo(config(&workspace)).expect("undone");
    assert_eq!((report.kept_reference, report.index_changed), (None, false));
    assert_eq!(seen(&workspace.path()), files);
    let (mut care, _) = Workspace::resume(config(&workspace)).expect("resumed");
    care.restore(&report.kept).expect("restored");
    assert!(workspace.at("added/new file").is_file());
}

#[test]
fn a_run_that_kept_nothing_cannot_be_undone() {
    let workspace = testing::Workspace::plain();
    workspace.write("a", b"a");
    assert!(matches!(
        undo(config(&workspace)),
        Err(WorkspaceError::NoBeginning { .. })
    ));
}
