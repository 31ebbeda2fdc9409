//! Contents come back byte for byte, whatever took their place, and nothing else is touched.

use super::write::PARALLEL_FILES;
use super::*;
use crate::candidate::Durability;
use crate::candidate::testing::{self, Workspace, link, seen, spoil, write_odd_content};
use proptest::prelude::*;
use std::os::unix::fs::MetadataExt as _;

fn open(workspace: &Workspace) -> (Store, Scanner) {
    let store = Store::open(
        &workspace.store_path(),
        super::super::object::ObjectFormat::Sha1,
        None,
    )
    .expect("a store");
    let scanner =
        Scanner::open(&workspace.path(), IgnoreRules::none(), store.format()).expect("a scanner");
    (store, scanner)
}

fn keep(store: &mut Store, scanner: &mut Scanner, label: &str) -> Saved {
    let manifest = scanner.scan().expect("scanned");
    store
        .save(scanner, &manifest, label, Durability::Buffered)
        .expect("saved")
}

#[test]
fn every_odd_content_comes_back_after_it_was_replaced_by_other_kinds() {
    let workspace = Workspace::plain();
    write_odd_content(&workspace);
    let (mut store, mut scanner) = open(&workspace);
    let before = seen(&workspace.path());
    let saved = keep(&mut store, &mut scanner, "t0");
    spoil(&workspace);
    let report = store.restore(None, &mut scanner, &saved).expect("restored");
    assert_eq!(seen(&workspace.path()), before);
    assert_eq!(report.manifest.digest(), saved.manifest_sha256);
    assert!(
        report.left.is_empty() && report.displaced.is_empty() && report.not_restored.is_empty()
    );
}

#[test]
fn what_is_right_already_is_not_touched_and_what_is_written_has_a_fresh_time() {
    let workspace = Workspace::plain();
    workspace.write("same", b"same");
    workspace.write("other", b"right");
    let (mut store, mut scanner) = open(&workspace);
    let saved = keep(&mut store, &mut scanner, "t0");
    let inode = |name: &str| fs_err::metadata(workspace.at(name)).expect("there").ino();
    let (same, began) = (inode("same"), std::time::SystemTime::now());
    workspace.write("other", b"wrong");
    let report = store.restore(None, &mut scanner, &saved).expect("restored");
    assert_eq!(
        (report.written, report.bytes, report.removed, report.modes),
        (1, 5, 0, 0)
    );
    assert_eq!(inode("same"), same);
    let modified = fs_err::metadata(workspace.at("other"))
        .expect("there")
        .modified()
        .expect("a time");
    let tick = std::time::Duration::from_millis(20);
    assert!(modified + tick >= began, "{modified:?} is before {began:?}");
    let report = store.restore(None, &mut scanner, &saved).expect("restored");
    assert_eq!((report.written, report.removed, report.modes), (0, 0, 0));
}

#[test]
fn a_directory_that_became_a_link_out_of_the_workspace_is_not_followed() {
    let workspace = Workspace::plain();
    let outside = testing::directory();
    testing::write(&outside.path().join("file"), b"not yours");
    testing::write(&outside.path().join("extra"), b"not yours");
    workspace.write("directory/file", b"mine");
    let (mut store, mut scanner) = open(&workspace);
    let saved = keep(&mut store, &mut scanner, "t0");
    fs_err::remove_dir_all(workspace.at("directory")).expect("removed");
    link(
        outside.path().to_str().expect("a name"),
        &workspace.at("directory"),
    );
    store.restore(None, &mut scanner, &saved).expect("restored");
    assert_eq!(
        fs_err::read(workspace.at("directory/file")).expect("there"),
        b"mine"
    );
    assert_eq!(
        fs_err::read(outside.path().join("file")).expect("there"),
        b"not yours"
    );
    assert!(outside.path().join("extra").is_file());
}

#[test]
fn kept_bytes_that_were_damaged_are_named_and_not_left_in_the_workspace() {
    let workspace = Workspace::plain();
    workspace.write("file", b"precious content");
    let (mut store, mut scanner) = open(&workspace);
    let saved = keep(&mut store, &mut scanner, "t0");
    let pack = fs_err::read_dir(store.git_dir().join("objects/pack"))
        .expect("a directory")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            path.extension()
                .is_some_and(|extension| extension == "pack")
        })
        .expect("a pack");
    let mut bytes = fs_err::read(&pack).expect("readable");
    let at = memchr::memmem::find(&bytes, b"precious").expect("not compressed");
    bytes[at] = b'P';
    fs_err::remove_file(&pack).expect("removed");
    fs_err::write(&pack, bytes).expect("written");
    workspace.write("file", b"other");
    let (store, mut scanner) = open(&workspace);
    let error = store
        .restore(None, &mut scanner, &saved)
        .expect_err("it is damaged")
        .to_string();
    assert!(
        error.contains("file are not those of the manifest"),
        "{error}"
    );
    assert!(!workspace.at("file").exists());
}

#[test]
fn a_restore_that_stopped_half_way_is_finished_by_the_next() {
    let workspace = Workspace::plain();
    write_odd_content(&workspace);
    let (mut store, mut scanner) = open(&workspace);
    let before = seen(&workspace.path());
    let saved = keep(&mut store, &mut scanner, "t0");
    spoil(&workspace);
    // As after a crash: a part is back, one file is cut short, a directory still has its working mode.
    fs_err::remove_dir_all(workspace.at("plain.txt")).expect("removed");
    workspace.write("plain.txt", b"one\n");
    fs_err::remove_file(workspace.at("sub")).expect("removed");
    fs_err::create_dir_all(workspace.at("sub/deep")).expect("a directory");
    let (store, mut scanner) = (open(&workspace).0, open(&workspace).1);
    store.restore(None, &mut scanner, &saved).expect("restored");
    assert_eq!(seen(&workspace.path()), before);
}

#[test]
fn a_copy_on_another_path_is_the_same_and_only_goes_into_an_empty_directory() {
    let workspace = Workspace::plain();
    write_odd_content(&workspace);
    let (mut store, mut scanner) = open(&workspace);
    let saved = keep(&mut store, &mut scanner, "t0");
    let copy = testing::directory();
    let into = copy.path().join("on/another path");
    let manifest = store.materialise(None, &saved, &into).expect("copied");
    assert_eq!(manifest.digest(), saved.manifest_sha256);
    let names = |top: &Path| {
        let relative = |path: &PathBuf| path.strip_prefix(top).expect("below").to_owned();
        seen(top)
            .into_iter()
            .map(|(path, seen)| (relative(&path), seen))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&into), names(&workspace.path()));
    let error = store
        .materialise(None, &saved, &into)
        .expect_err("it is not empty")
        .to_string();
    assert!(error.starts_with("could not write into "), "{error}");
}

#[test]
fn many_files_are_written_side_by_side() {
    let workspace = Workspace::plain();
    for number in 0..(PARALLEL_FILES + 10) {
        workspace.write(
            format!("d{}/{number}", number % 7),
            number.to_string().as_bytes(),
        );
    }
    let (mut store, mut scanner) = open(&workspace);
    let before = seen(&workspace.path());
    let saved = keep(&mut store, &mut scanner, "t0");
    for number in 0..7 {
        fs_err::remove_dir_all(workspace.at(format!("d{number}"))).expect("removed");
    }
    let report = store.restore(None, &mut scanner, &saved).expect("restored");
    assert_eq!(report.written, (PARALLEL_FILES + 10) as u64);
    assert_eq!(seen(&workspace.path()), before);
}

/// A step of a random change.
#[derive(Debug, Clone)]
enum Step {
    Write(usize, Vec<u8>, bool),
    Directory(usize),
    Link(usize, usize),
}

/// Few names below each other, so that kinds clash often.
const NAMES: [&str; 8] = ["a", "a/b", "a/b/c", "a.b", "d", "d/e", "d/e/f", "g"];

fn step() -> impl Strategy<Value = Step> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..6);
    prop_oneof![
        (0..NAMES.len(), bytes, any::<bool>())
            .prop_map(|(name, bytes, executable)| Step::Write(name, bytes, executable)),
        (0..NAMES.len()).prop_map(Step::Directory),
        (0..NAMES.len(), 0..NAMES.len()).prop_map(|(name, target)| Step::Link(name, target)),
    ]
}

fn take(workspace: &Workspace, steps: &[Step]) {
    for step in steps {
        let (Step::Write(name, ..) | Step::Directory(name) | Step::Link(name, _)) = step;
        let path = workspace.at(NAMES[*name]);
        // A step that cannot be taken, because something is in the way above, is passed over.
        let is_plain = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        let top = workspace.path();
        if !path
            .ancestors()
            .skip(1)
            .take_while(|above| *above != top)
            .all(is_plain)
        {
            continue;
        }
        if is_plain(&path) {
            fs_err::remove_dir_all(&path).expect("removed");
        } else if path.symlink_metadata().is_ok() {
            fs_err::remove_file(&path).expect("removed");
        }
        match step {
            Step::Directory(_) => fs_err::create_dir(&path).expect("a directory"),
            Step::Link(_, target) => link(NAMES[*target], &path),
            Step::Write(_, bytes, executable) => {
                fs_err::write(&path, bytes).expect("written");
                testing::set_mode(&path, if *executable { 0o755 } else { 0o644 });
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_content_comes_back_after_any_change(first in proptest::collection::vec(step(), 0..12),
        second in proptest::collection::vec(step(), 0..12)) {
        let workspace = Workspace::plain();
        let (mut store, mut scanner) = open(&workspace);
        take(&workspace, &first);
        let (before, saved) = (seen(&workspace.path()), keep(&mut store, &mut scanner, "a"));
        take(&workspace, &second);
        let (after, later) = (seen(&workspace.path()), keep(&mut store, &mut scanner, "b"));
        let report = store.restore(None, &mut scanner, &saved).expect("restored");
        prop_assert_eq!(seen(&workspace.path()), before);
        prop_assert_eq!(report.manifest.digest(), saved.manifest_sha256);
        store.restore(None, &mut scanner, &later).expect("restored");
        prop_assert_eq!(seen(&workspace.path()), after);
    }
}
