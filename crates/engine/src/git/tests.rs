//! Git is run with nothing of the person or the workspace; repositories are found where git finds them.

use super::*;
use crate::candidate::testing::{self, git_program};

#[test]
fn a_version_is_read_from_what_vendors_print() {
    for (text, expect) in [
        ("git version 2.47.3", Some((2, 47))),
        ("git version 2.39.5 (Apple Git-154)", Some((2, 39))),
        ("git version 2.31", Some((2, 31))),
        ("gat version 2.31", None),
    ] {
        assert_eq!(parse_version(text), expect, "{text}");
    }
}

#[test]
fn a_git_in_a_relative_directory_of_the_search_path_is_not_used() {
    assert!(matches!(
        Git::find(OsStr::new(".:bin:")),
        Err(GitError::NotFound)
    ));
}

#[test]
fn an_error_carries_the_arguments_and_what_git_said() {
    let Some(git) = git_program() else { return };
    let call = Call {
        arguments: vec!["rev-parse".into(), "--frobnicate\n".into(), "HEAD".into()],
        ..Call::default()
    };
    let error = git
        .run(&call)
        .expect_err("there is no repository")
        .to_string();
    assert!(
        error.starts_with("`git rev-parse --frobnicate HEAD` failed: fatal: not a git repository"),
        "{error}"
    );
}

#[test]
fn the_repository_is_found_from_a_subdirectory_a_linked_worktree_and_a_submodule() {
    let Some(workspace) = testing::Workspace::with_git() else {
        return;
    };
    workspace.write("sub/dir/file", b"x");
    workspace.git(&["add", "."]);
    workspace.git(&["commit", "-qm", "one"]);
    let top = fs_err::canonicalize(workspace.path()).expect("a path");
    let found = Repository::discover(&top.join("sub/dir"))
        .expect("readable")
        .expect("a repository");
    assert_eq!(
        (found.git_dir.as_path(), found.prefix.as_slice()),
        (top.join(".git").as_path(), &b"sub/dir"[..])
    );

    let other = testing::directory();
    let linked = other.path().join("linked");
    workspace.git(&["worktree", "add", "-q", linked.to_str().expect("a name")]);
    let found = Repository::discover(&linked)
        .expect("readable")
        .expect("a repository");
    assert_eq!(found.git_dir, top.join(".git/worktrees/linked"));
    assert_eq!(found.common_dir, top.join(".git"));
}

#[test]
fn no_repository_is_found_above_an_empty_dot_git_and_a_broken_pointer_is_named() {
    let directory = testing::directory();
    fs_err::create_dir(directory.path().join(".git")).expect("a directory");
    assert_eq!(
        Repository::discover(directory.path()).expect("readable"),
        None
    );
    fs_err::remove_dir(directory.path().join(".git")).expect("removed");
    testing::write(&directory.path().join(".git"), b"gitdir: nowhere\n");
    let error = Repository::discover(directory.path())
        .expect_err("it leads nowhere")
        .to_string();
    assert!(
        error.contains(".git does not name a git repository"),
        "{error}"
    );
}

#[test]
fn an_object_reader_serves_objects_in_turn_and_says_what_is_missing() {
    let Some(workspace) = testing::Workspace::with_git() else {
        return;
    };
    workspace.write("a", &vec![7; 200_000]);
    workspace.git(&["add", "."]);
    let git = git_program().expect("found before");
    let mut reader = git
        .object_reader(&workspace.path().join(".git"))
        .expect("started");
    let id = workspace.git(&["hash-object", "a"]);
    let mut bytes = Vec::new();
    let mut sink = |piece: &[u8]| {
        bytes.extend_from_slice(piece);
        Ok(())
    };
    let zero = "0".repeat(40);
    assert_eq!(reader.read(&zero, &mut sink).expect("answered"), None);
    assert_eq!(
        reader.read(id.trim(), &mut sink).expect("answered"),
        Some(("blob".to_owned(), 200_000))
    );
    assert_eq!(bytes, vec![7; 200_000]);
}

#[test]
fn a_git_that_hangs_on_a_planted_pipe_is_ended() {
    let Some(workspace) = testing::Workspace::with_git() else {
        return;
    };
    let config = workspace.at(".git/config");
    fs_err::remove_file(&config).expect("removed");
    rustix::fs::mkfifoat(rustix::fs::CWD, &config, rustix::fs::Mode::RUSR).expect("a pipe");
    let git = git_program()
        .expect("found before")
        .with_patience(Duration::from_millis(50));
    let git_dir = workspace.at(".git");
    let arguments = vec!["rev-parse".into(), "--git-dir".into()];
    let call = Call {
        git_dir: Some(&git_dir),
        arguments,
        ..Call::default()
    };
    let error = git.run(&call).expect_err("nobody writes to the pipe");
    let GitError::Process { source, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(source.kind(), io::ErrorKind::TimedOut);
}
