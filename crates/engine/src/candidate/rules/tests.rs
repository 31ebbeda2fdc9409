//! Rules are read once, within limits, and come back from their bytes. That they mean what git means is shown with git.

use super::*;
use crate::candidate::testing::{Workspace, link};

fn repository(workspace: &Workspace) -> Repository {
    let top = fs_err::canonicalize(workspace.path()).expect("a path");
    let git_dir = top.join(".git");
    Repository {
        git_dir: git_dir.clone(),
        common_dir: git_dir,
        top,
        prefix: Vec::new(),
    }
}

fn read(workspace: &Workspace, tracked: &[Vec<u8>]) -> Result<IgnoreRules, RulesError> {
    let repository = repository(workspace);
    IgnoreRules::read(
        &workspace.path(),
        Some(&RuleSource {
            repository: &repository,
            excludes_file: None,
            tracked,
        }),
    )
}

#[test]
fn rules_come_back_from_their_bytes_and_other_bytes_are_refused() {
    let workspace = Workspace::plain();
    workspace.write(".gitignore", b"*.o\n");
    workspace.write(b"sub\xff/.gitignore", b"only\n");
    let tracked = [b"a.o".to_vec(), b"b.c".to_vec(), b"sub\xff/only".to_vec()];
    let rules = read(&workspace, &tracked).expect("read");
    let again = IgnoreRules::decode(&rules.encode()).expect("decoded");
    assert_eq!(again.recorded, rules.recorded);
    for rules in [&rules, &again] {
        assert!(rules.scope(b"x").ignores(b"x/y.o", false));
        assert!(rules.scope(b"sub\xff").ignores(b"sub\xff/only", false));
        assert!(
            rules.is_tracked(b"a.o")
                && rules.is_tracked(b"sub\xff/only")
                && !rules.is_tracked(b"b.c")
        );
        assert!(rules.has_tracked_below(b"sub\xff") && !rules.has_tracked_below(b"sub"));
    }
    let newer = String::from_utf8(rules.encode())
        .expect("text")
        .replace("\"version\":1", "\"version\":2");
    for bytes in [
        newer.as_bytes(),
        b"{}",
        b"",
        br#"{"version":1,"prefix":"%zz"}"#,
    ] {
        assert!(matches!(
            IgnoreRules::decode(bytes),
            Err(RulesError::Recorded { .. })
        ));
    }
}

#[test]
fn an_ignore_file_is_read_up_to_its_limit_and_not_one_byte_beyond() {
    let workspace = Workspace::plain();
    let length = usize::try_from(MAX_RULE_FILE_BYTES).expect("a length");
    let mut text = vec![b'#'; length];
    workspace.write(".gitignore", &text);
    assert!(read(&workspace, &[]).is_ok());
    text.push(b'#');
    workspace.write(".gitignore", &text);
    assert!(matches!(
        read(&workspace, &[]),
        Err(RulesError::TooLong { .. })
    ));
}

#[test]
fn directories_are_read_down_to_the_limit_and_not_one_further() {
    let workspace = Workspace::plain();
    let deep = |depth: usize| vec!["d"; depth].join("/");
    fs_err::create_dir_all(workspace.at(deep(MAX_DEPTH))).expect("directories");
    assert!(read(&workspace, &[]).is_ok());
    fs_err::create_dir_all(workspace.at(deep(MAX_DEPTH + 1))).expect("directories");
    assert!(matches!(
        read(&workspace, &[]),
        Err(RulesError::TooMany { .. })
    ));
}

#[test]
fn an_ignore_file_that_is_a_link_or_a_pipe_is_passed_over() {
    let workspace = Workspace::plain();
    workspace.write("elsewhere", b"*\n");
    link("elsewhere", &workspace.at(".gitignore"));
    fs_err::create_dir(workspace.at("sub")).expect("a directory");
    rustix::fs::mkfifoat(rustix::fs::CWD, workspace.at("sub/.gitignore"), Mode::RUSR)
        .expect("a pipe");
    let rules = read(&workspace, &[]).expect("read");
    assert!(
        !rules.scope(b"").ignores(b"a", false) && !rules.scope(b"sub").ignores(b"sub/a", false)
    );
}

#[test]
fn a_git_directory_under_another_name_is_left_out() {
    let workspace = Workspace::plain();
    workspace.write("data/HEAD", b"x");
    let mut repository = repository(&workspace);
    repository.git_dir = repository.top.join("data");
    repository.common_dir = repository.git_dir.clone();
    let source = RuleSource {
        repository: &repository,
        excludes_file: None,
        tracked: &[],
    };
    let rules = IgnoreRules::read(&workspace.path(), Some(&source)).expect("read");
    assert!(
        rules.is_left_out(b"data")
            && rules.is_left_out(b"sub/.git")
            && rules.is_left_out(b".loopexec")
    );
    assert!(!rules.is_left_out(b"sub/data") && !rules.is_left_out(b"sub/.loopexec"));
}
