//! A workspace is taken into care with everything it holds, in each kind of repository, and the person's own git sees nothing.

mod keeping;

use super::*;
use crate::candidate::testing::{self, git_program, link, seen, write_odd_content};
use std::path::Path;

fn config(workspace: &testing::Workspace, directory: &Path) -> WorkspaceConfig {
    WorkspaceConfig {
        directory: directory.to_owned(),
        run_directory: workspace.store_path(),
        run: "r1".to_owned(),
        git: git_program(),
        excludes_file: None,
        durability: Durability::Buffered,
    }
}

fn begin(workspace: &testing::Workspace) -> (Workspace, Baseline) {
    Workspace::begin(config(workspace, &workspace.path())).expect("begun")
}

fn committed() -> Option<testing::Workspace> {
    let workspace = testing::Workspace::with_git()?;
    workspace.write(".gitignore", b"*.o\n/build/\n.loopexec/\n");
    workspace.write("main.c", b"int main;\n");
    workspace.git(&["add", "."]);
    workspace.git(&["commit", "-qm", "one"]);
    Some(workspace)
}

fn paths(manifest: &Manifest) -> Vec<String> {
    manifest
        .entries
        .iter()
        .map(|entry| crate::candidate::escape::escape(&entry.path))
        .collect()
}

#[test]
fn without_git_everything_but_the_governor_s_directory_is_kept_and_no_reference_is_made() {
    let workspace = testing::Workspace::plain();
    workspace.write("a", b"a");
    workspace.write("nested/.loopexec/x", b"a file like any other");
    workspace.write("nested/.git/HEAD", b"never content");
    workspace.write(".gitignore", b"a\n");
    let (_, baseline) = begin(&workspace);
    let expect = [
        ".gitignore",
        "a",
        "nested",
        "nested/.loopexec",
        "nested/.loopexec/x",
    ];
    assert_eq!(paths(&baseline.manifest), expect);
    assert_eq!(
        (
            baseline.reference,
            baseline.head,
            baseline.dirty,
            baseline.index_tree
        ),
        (None, None, false, None)
    );
}

#[test]
fn a_clean_checkout_is_not_dirty_and_nothing_of_it_is_stored_twice() {
    let Some(workspace) = committed() else { return };
    let (care, baseline) = begin(&workspace);
    assert!(!baseline.dirty);
    assert_eq!(
        baseline.head.map(|id| id.to_string()),
        Some(workspace.git(&["rev-parse", "HEAD"]).trim().to_owned())
    );
    assert_eq!(baseline.index_tree, Some(baseline.saved.tree));
    assert_eq!(
        baseline.saved.tree.to_string(),
        workspace.git(&["rev-parse", "HEAD^{tree}"]).trim()
    );
    let id =
        ObjectId::from_hex(workspace.git(&["rev-parse", "HEAD:main.c"]).trim()).expect("an id");
    assert!(!care.store().source(None).is_own(&id));
    assert!(
        care.store()
            .source(git_program().as_ref())
            .bytes(&id, ObjectKind::Blob)
            .is_ok()
    );
}

#[test]
fn each_kind_of_change_makes_a_checkout_dirty() {
    let changes: [fn(&testing::Workspace); 6] = [
        |workspace| workspace.write("main.c", b"int m4in;\n"),
        |workspace| workspace.write("new", b""),
        |workspace| testing::set_mode(&workspace.at("main.c"), 0o755),
        |workspace| fs_err::remove_file(workspace.at("main.c")).expect("removed"),
        |workspace| drop(workspace.git(&["rm", "-q", "--cached", "main.c"])),
        |workspace| {
            workspace.write("staged", b"x");
            workspace.git(&["add", "staged"]);
        },
    ];
    for change in changes {
        let Some(workspace) = committed() else { return };
        change(&workspace);
        assert!(begin(&workspace).1.dirty);
    }
}

#[test]
fn the_reference_holds_two_trees_and_the_repository_is_sound() {
    let Some(workspace) = committed() else { return };
    write_odd_content(&workspace);
    workspace.git(&["add", "plain.txt"]);
    workspace.write("plain.txt", b"changed again\n");
    let (_, baseline) = begin(&workspace);
    let reference = baseline.reference.expect("a reference");
    assert_eq!(reference, "refs/loopexec/r1/t0");
    let show = |path: &str| workspace.git(&["show", &format!("{reference}:{path}")]);
    assert_eq!(show("worktree/plain.txt"), "changed again\n");
    assert_eq!(show("index/plain.txt"), "one\ntwo\n");
    assert_eq!(show("worktree/crlf.txt"), "one\r\ntwo\r\n$Id$\r\n");
    assert!(show("manifest").contains("d 1777 hollow\n"));
    workspace.git(&["fsck", "--strict", "--no-dangling"]);
    workspace.git(&["gc", "-q", "--prune=now"]);
    let own = workspace.store_path().join("git");
    workspace.git_in(&own, &["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn head_index_branches_stash_and_reflogs_stay_as_they_are() {
    let Some(workspace) = committed() else { return };
    workspace.write("main.c", b"stashed\n");
    workspace.git(&["stash", "-q"]);
    workspace.write("main.c", b"staged\n");
    workspace.git(&["add", "."]);
    workspace.git(&["config", "core.logAllRefUpdates", "always"]);
    let state = || {
        let files = [
            "index",
            "HEAD",
            "logs/HEAD",
            "logs/refs/heads/main",
            "refs/stash",
            "logs/refs/stash",
        ];
        files.map(|name| fs_err::read(workspace.at(".git").join(name)).expect("there"))
    };
    let before = state();
    let (mut care, baseline) = begin(&workspace);
    workspace.write("main.c", b"work\n");
    care.restore(&baseline.saved).expect("restored");
    assert_eq!(state(), before);
    assert!(!workspace.at(".git/logs/refs/loopexec").exists());
    assert_eq!(
        fs_err::read(workspace.at("main.c")).expect("there"),
        b"staged\n"
    );
}

#[test]
fn no_hook_filter_or_monitor_of_the_workspace_runs() {
    let Some(workspace) = committed() else { return };
    let proof = workspace.at("../proof");
    let script = format!("#!/bin/sh\necho ran >> '{}'\ncat\n", proof.display());
    for hook in [
        "post-index-change",
        "reference-transaction",
        "pre-auto-gc",
        "fsmonitor-watchman",
        "filter",
    ] {
        workspace.write(format!(".git/hooks/{hook}"), script.as_bytes());
        testing::set_mode(&workspace.at(format!(".git/hooks/{hook}")), 0o755);
    }
    let hook = |name: &str| {
        workspace
            .at(format!(".git/hooks/{name}"))
            .display()
            .to_string()
    };
    workspace.write(".gitattributes", b"* filter=evil ident text eol=crlf\n");
    for (name, value) in [
        ("filter.evil.clean", hook("filter")),
        ("filter.evil.smudge", hook("filter")),
        ("filter.evil.required", "true".to_owned()),
        ("core.fsmonitor", hook("fsmonitor-watchman")),
        ("core.autocrlf", "true".to_owned()),
    ] {
        fs_err::OpenOptions::new()
            .append(true)
            .open(workspace.at(".git/config"))
            .and_then(|mut file| {
                use std::io::Write as _;
                let (section, key) = name.rsplit_once('.').expect("a name");
                let section =
                    section.replacen('.', " \"", 1) + if section.contains('.') { "\"" } else { "" };
                writeln!(file, "[{section}]\n\t{key} = {value}")
            })
            .expect("configured");
    }
    workspace.write("crlf", b"a\r\nb\n$Id$\n");
    let before = seen(&workspace.path());
    let (mut care, baseline) = begin(&workspace);
    workspace.write("crlf", b"spoilt");
    workspace.write("main.c", b"spoilt");
    care.restore(&baseline.saved).expect("restored");
    assert_eq!(seen(&workspace.path()), before);
    assert!(
        !proof.exists(),
        "{}",
        fs_err::read_to_string(&proof).unwrap_or_default()
    );
}

#[test]
fn what_the_rules_leave_out_stays_and_what_stands_in_the_way_is_moved_aside() {
    let Some(workspace) = committed() else { return };
    workspace.write("build", b"a file; the rule names a directory");
    workspace.write("tool/source", b"s");
    let (mut care, baseline) = begin(&workspace);
    fs_err::remove_file(workspace.at("build")).expect("removed");
    workspace.write("build/output", b"ignored");
    workspace.write("tool/cache.o", b"ignored");
    workspace.write("fresh/cache.o", b"ignored");
    workspace.write("fresh/added", b"added");
    let report = care.restore(&baseline.saved).expect("restored");
    assert_eq!(report.left, [b"fresh".to_vec()]);
    let [(path, place)] = report.displaced.as_slice() else {
        panic!("{:?}", report.displaced)
    };
    assert_eq!(path, b"build");
    assert_eq!(
        fs_err::read(place.join("output")).expect("kept"),
        b"ignored"
    );
    assert!(workspace.at("build").is_file() && workspace.at("tool/cache.o").is_file());
    assert!(workspace.at("fresh/cache.o").is_file() && !workspace.at("fresh/added").exists());
}

#[test]
fn rules_that_appear_later_hide_nothing_and_tracked_files_are_in_whatever_the_rules_say() {
    let Some(workspace) = committed() else { return };
    workspace.write("build/keep/tracked.o", b"t");
    workspace.write("build/not", b"n");
    workspace.git(&["add", "-f", "build/keep/tracked.o"]);
    let (mut care, baseline) = begin(&workspace);
    let expect = [
        ".gitignore",
        "build",
        "build/keep",
        "build/keep/tracked.o",
        "main.c",
    ];
    assert_eq!(paths(&baseline.manifest), expect);
    workspace.write(".gitignore", b"*\n");
    workspace.write("hidden", b"h");
    workspace.write(".git/info/exclude", b"hidden\n");
    let manifest = care.scan().expect("scanned");
    assert!(manifest.get(b"hidden").is_some() && manifest.get(b"main.c").is_some());
    let (mut care, _) = Workspace::resume(config(&workspace, &workspace.path())).expect("resumed");
    assert_eq!(care.scan().expect("scanned"), manifest);
}

/// Paths around each rule of the test below, matched and just missed.
const ODD_PATHS: [&str; 31] = [
    "a.log",
    "keep.log",
    "root",
    "sub/root",
    "lib/x",
    "sub/lib/y",
    "libx",
    "#hash",
    "trail ",
    "trail",
    "q/deep/a.tmp",
    "q/deep/r/b.tmp",
    "a/z",
    "a/b/c/z",
    "xqy",
    "sub/xqy",
    "a.c",
    "c.c",
    "sub/b.log",
    "sub/only",
    "sub/s/only",
    "sub/nested/n",
    "excluded/x",
    "sub/excluded",
    "personal",
    "sub/personal",
    "sub/anchored",
    "sub/sub/anchored",
    "UPPER.LOG",
    "with space",
    "lib.d/lib/z/.gitignore",
];

#[test]
fn the_rules_leave_out_what_git_leaves_out() {
    let Some(workspace) = testing::Workspace::with_git() else {
        return;
    };
    let rules = "*.log\n!keep.log\n/root\nlib/\n\\#hash\ntrail\\ \n**/deep/*.tmp\na/**/z\nx?y\n[ab].c\n# a comment\n!*/\n";
    workspace.write(".gitignore", rules.replace('\n', "\r\n").as_bytes());
    workspace.write("sub/.gitignore", b"!*.log\n/only\nnested/\n");
    workspace.write(".git/info/exclude", b"excluded\n.loopexec\n");
    workspace.write("../person", b"personal\nsub/anchored\n");
    for path in ODD_PATHS {
        workspace.write(path, b"x");
    }
    let excludes = workspace.at("../person");
    let git = |flags: &[&str]| {
        let excludes = format!("core.excludesFile={}", excludes.display());
        workspace.git(
            &[
                &["-c", &excludes, "ls-files", "-z", "--exclude-standard"],
                flags,
            ]
            .concat(),
        )
    };
    let mut expect: Vec<_> = git(&["-co"])
        .split_terminator('\0')
        .map(str::to_owned)
        .collect();
    expect.sort();
    let mut config = config(&workspace, &workspace.path());
    config.excludes_file = Some(excludes.clone());
    let (_, baseline) = Workspace::begin(config).expect("begun");
    let files = baseline
        .manifest
        .entries
        .iter()
        .filter(|entry| entry.content != Content::Directory);
    let found: Vec<_> = files
        .map(|entry| String::from_utf8(entry.path.clone()).expect("a name"))
        .collect();
    assert_eq!(found, expect);
}

#[test]
fn a_branch_without_commits_and_a_detached_head_are_served() {
    let Some(workspace) = testing::Workspace::with_git() else {
        return;
    };
    workspace.write("a", b"a");
    let (_, baseline) = begin(&workspace);
    assert_eq!(
        (baseline.head, baseline.dirty, baseline.index_tree),
        (None, true, None)
    );
    workspace.git(&["add", "a"]);
    workspace.git(&["commit", "-qm", "one"]);
    workspace.git(&["checkout", "-q", "--detach"]);
    workspace.write(".git/info/exclude", b".loopexec\n");
    let (_, baseline) = begin(&workspace);
    assert!(baseline.head.is_some() && !baseline.dirty);
}

#[test]
fn a_linked_worktree_keeps_its_own_index_and_shares_the_reference() {
    let Some(workspace) = committed() else { return };
    let linked = workspace.path().join("../linked");
    workspace.git(&["worktree", "add", "-q", linked.to_str().expect("a name")]);
    testing::write(&linked.join("main.c"), b"linked\n");
    workspace.git_in(&linked, &["add", "main.c"]);
    let (mut care, baseline) = Workspace::begin(config(&workspace, &linked)).expect("begun");
    assert_eq!(
        workspace.git(&["show", "refs/loopexec/r1/t0:index/main.c"]),
        "linked\n"
    );
    fs_err::remove_file(linked.join("main.c")).expect("removed");
    care.restore(&baseline.saved).expect("restored");
    assert_eq!(
        fs_err::read(linked.join("main.c")).expect("there"),
        b"linked\n"
    );
    assert!(linked.join(".git").is_file());
}

#[test]
fn a_submodule_is_kept_as_plain_files_and_its_git_is_not_touched() {
    let Some(workspace) = committed() else { return };
    let other = committed().expect("git is here");
    workspace.git(&[
        "submodule",
        "--quiet",
        "add",
        other.path().to_str().expect("a name"),
        "module",
    ]);
    workspace.git(&["commit", "-qm", "two"]);
    let (mut care, baseline) = begin(&workspace);
    assert!(!baseline.dirty);
    assert!(
        baseline.manifest.get(b"module/main.c").is_some()
            && baseline.manifest.get(b"module/.git").is_none()
    );
    fs_err::remove_file(workspace.at("module/main.c")).expect("removed");
    care.restore(&baseline.saved).expect("restored");
    assert_eq!(
        workspace.git_in(&workspace.at("module"), &["status", "--porcelain"]),
        ""
    );
    workspace.git(&["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn a_sparse_checkout_is_not_dirty_and_is_restored_as_it_is() {
    let Some(workspace) = committed() else { return };
    workspace.write("in/a", b"a");
    workspace.write("out/b", b"b");
    workspace.git(&["add", "."]);
    workspace.git(&["commit", "-qm", "two"]);
    for flags in [&["--cone"][..], &["--cone", "--sparse-index"]] {
        workspace.git(&[&["sparse-checkout", "set"], flags, &["in"]].concat());
        let (mut care, baseline) = begin(&workspace);
        assert!(
            !baseline.dirty
                && baseline.manifest.get(b"out/b").is_none()
                && baseline.index_tree.is_some()
        );
        workspace.write("in/a", b"changed");
        care.restore(&baseline.saved).expect("restored");
        assert!(!workspace.at("out").exists());
        assert_eq!(fs_err::read(workspace.at("in/a")).expect("there"), b"a");
    }
}

#[test]
fn a_subdirectory_of_a_repository_is_kept_alone_under_the_rules_above_it() {
    let Some(workspace) = committed() else { return };
    workspace.write("sub/dir/a.txt", b"a");
    workspace.write("sub/dir/a.o", b"ignored by the rule at the top");
    workspace.write("sub/.gitignore", b"/dir/only\n");
    workspace.write("sub/dir/only", b"ignored by the rule between");
    workspace.git(&["add", "."]);
    workspace.git(&["commit", "-qm", "two"]);
    workspace.write("main.c", b"changed outside of the subdirectory");
    let directory = workspace.at("sub/dir");
    let (mut care, baseline) = Workspace::begin(config(&workspace, &directory)).expect("begun");
    assert_eq!(paths(&baseline.manifest), ["a.txt"]);
    assert!(!baseline.dirty);
    workspace.write("sub/dir/b.txt", b"b");
    care.restore(&baseline.saved).expect("restored");
    assert!(!workspace.at("sub/dir/b.txt").exists() && workspace.at("sub/dir/a.o").exists());
    assert_eq!(
        fs_err::read(workspace.at("main.c")).expect("there"),
        b"changed outside of the subdirectory"
    );
}

#[test]
fn a_workspace_in_an_ignored_directory_is_not_empty() {
    let Some(workspace) = committed() else { return };
    workspace.write("build/demo/file", b"x");
    workspace.write("build/demo/.gitignore", b"own\n");
    workspace.write("build/demo/own", b"x");
    let (_, baseline) =
        Workspace::begin(config(&workspace, &workspace.at("build/demo"))).expect("begun");
    assert_eq!(paths(&baseline.manifest), [".gitignore", "file"]);
}

#[test]
fn unmerged_and_intended_entries_leave_the_raw_index_and_no_wrong_tree() {
    let Some(workspace) = committed() else { return };
    workspace.write("later", b"later");
    workspace.git(&["add", "--intent-to-add", "later"]);
    let (_, baseline) = begin(&workspace);
    let tree = baseline
        .index_tree
        .expect("git writes a tree without intended entries");
    assert_eq!(
        tree.to_string(),
        workspace.git(&["rev-parse", "HEAD^{tree}"]).trim()
    );

    let id = workspace.git(&["hash-object", "-w", "main.c"]);
    let lines: String = (1..=3)
        .map(|stage| format!("100644 {} {stage}\tmain.c\n", id.trim()))
        .collect();
    let input = workspace.at("../lines");
    testing::write(&input, lines.as_bytes());
    let command = format!("git update-index --index-info < '{}'", input.display());
    workspace.git(&["-c", &format!("alias.feed=!{command}"), "feed"]);
    let raw = fs_err::read(workspace.at(".git/index")).expect("an index");
    let (care, baseline) = begin(&workspace);
    assert_eq!((baseline.index_tree, baseline.dirty), (None, true));
    let kept = care
        .store()
        .read_named(None, &baseline.saved.commit, INDEX_RAW.as_bytes())
        .expect("kept");
    assert_eq!(kept, raw);
}

#[test]
fn a_repository_with_sha256_names_is_served() {
    let workspace = testing::Workspace::plain();
    if git_program().is_none() {
        return;
    }
    workspace.git(&["init", "-q", "--object-format=sha256"]);
    workspace.write("a", b"a");
    workspace.git(&["add", "a"]);
    let (mut care, baseline) = begin(&workspace);
    assert_eq!(baseline.saved.commit.format(), ObjectFormat::Sha256);
    workspace.write("a", b"b");
    care.restore(&baseline.saved).expect("restored");
    assert_eq!(fs_err::read(workspace.at("a")).expect("there"), b"a");
    workspace.git(&["update-ref", "-d", "refs/loopexec/r1/t0"]);
    let (_, beginning) = Workspace::resume(config(&workspace, &workspace.path())).expect("resumed");
    assert_eq!(beginning, baseline.saved);
    workspace.git(&["fsck", "--strict", "--no-dangling"]);
}
