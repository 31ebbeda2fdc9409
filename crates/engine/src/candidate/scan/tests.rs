//! A scan reads each byte once, believes nothing that is too fresh, follows nothing, and keeps its limits.

use super::*;
use crate::candidate::testing::{Workspace, directory, link};
use rustix::fs::{Timespec, Timestamps};

fn scanner(workspace: &Workspace) -> Scanner {
    Scanner::open(&workspace.path(), IgnoreRules::none(), ObjectFormat::Sha1).expect("a scanner")
}

fn limited(workspace: &Workspace, limits: ScanLimits) -> Result<Manifest, ScanError> {
    scanner(workspace).with_limits(limits).scan()
}

/// Ages what was read, as if the scan had come long after the last change.
fn settle(scanner: &mut Scanner) {
    for known in scanner.known.values_mut() {
        known.read_at = known
            .read_at
            .map(|(seconds, nanoseconds)| (seconds + 10, nanoseconds));
    }
}

#[test]
fn the_number_of_paths_is_limited_at_the_limit_and_not_one_before() {
    let workspace = Workspace::plain();
    workspace.write("a/b", b"x");
    workspace.write("c", b"x");
    let limits = |entries| ScanLimits {
        entries,
        ..ScanLimits::default()
    };
    assert!(limited(&workspace, limits(3)).is_ok());
    let error = limited(&workspace, limits(2))
        .expect_err("there are three")
        .to_string();
    assert!(error.contains("is over the limit of 2 paths"), "{error}");
}

#[test]
fn bytes_and_depth_are_limited_at_the_limit_and_not_one_before() {
    let workspace = Workspace::plain();
    workspace.write("a/b/c", b"12345");
    workspace.write("d", b"12345");
    let bytes = |bytes| ScanLimits {
        bytes,
        ..ScanLimits::default()
    };
    assert!(limited(&workspace, bytes(10)).is_ok());
    assert!(matches!(
        limited(&workspace, bytes(9)),
        Err(ScanError::TooLarge { limit: 9, .. })
    ));
    let depth = |depth| ScanLimits {
        depth,
        ..ScanLimits::default()
    };
    assert!(limited(&workspace, depth(2)).is_ok());
    assert!(matches!(
        limited(&workspace, depth(1)),
        Err(ScanError::TooLarge { limit: 1, .. })
    ));
}

#[test]
fn special_files_are_named_and_not_read_and_links_are_not_followed() {
    let workspace = Workspace::plain();
    let outside = directory();
    link(
        outside.path().to_str().expect("a name"),
        &workspace.at("out"),
    );
    let pipe = workspace.at("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR).expect("a pipe");
    let _socket = std::os::unix::net::UnixListener::bind(workspace.at("socket")).expect("a socket");
    let manifest = scanner(&workspace).scan().expect("scanned");
    let special: Vec<_> = manifest
        .special
        .iter()
        .map(|special| (special.path.as_slice(), special.kind))
        .collect();
    assert_eq!(
        special,
        [
            (&b"pipe"[..], SpecialKind::Fifo),
            (b"socket", SpecialKind::Socket)
        ]
    );
    let [entry] = manifest.entries.as_slice() else {
        panic!("{manifest:?}")
    };
    assert_eq!(entry.path, b"out");
    assert!(matches!(entry.content, Content::Symlink { .. }));
}

#[test]
fn a_change_that_keeps_size_and_times_is_seen_while_the_reading_is_fresh() {
    let workspace = Workspace::plain();
    workspace.write("file", b"one");
    let mut scanner = scanner(&workspace);
    let before = scanner.scan().expect("scanned");
    // In the same tick, or with the clock set back, even the time of the last change of the inode can be the same.
    let known = scanner.known.get_mut(b"file".as_slice()).expect("known");
    workspace.write("file", b"two");
    let stat = rustix::fs::stat(workspace.at("file")).expect("there");
    known.stamp = Stamp::of(&stat);
    assert_ne!(scanner.scan().expect("scanned"), before);
}

#[test]
fn what_has_settled_is_not_read_again_and_a_forgetful_scanner_reads_everything() {
    let workspace = Workspace::plain();
    workspace.write("file", b"one");
    let mut scanner = scanner(&workspace);
    let before = scanner.scan().expect("scanned");
    settle(&mut scanner);
    let known = scanner.known.get_mut(b"file".as_slice()).expect("known");
    workspace.write("file", b"two");
    known.stamp = Stamp::of(&rustix::fs::stat(workspace.at("file")).expect("there"));
    assert_eq!(
        scanner.scan().expect("scanned"),
        before,
        "the stamp is all that is looked at"
    );
    scanner.forget();
    assert_ne!(scanner.scan().expect("scanned"), before);
}

#[test]
fn a_modification_time_that_was_set_back_does_not_hide_a_change() {
    let workspace = Workspace::plain();
    workspace.write("file", b"one");
    let file = workspace.at("file");
    let mut scanner = scanner(&workspace);
    let before = scanner.scan().expect("scanned");
    settle(&mut scanner);
    let stat = rustix::fs::stat(&file).expect("there");
    workspace.write("file", b"two");
    let time = Timespec {
        tv_sec: stat.st_mtime,
        tv_nsec: stat.st_mtime_nsec as _,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    let handle = std::fs::File::open(&file).expect("opened");
    rustix::fs::futimens(&handle, &times).expect("set back");
    assert_ne!(scanner.scan().expect("scanned"), before);
}

#[test]
fn a_time_is_believed_two_ticks_after_it_and_whole_seconds_after_two_of_them() {
    let stamp = |nanoseconds| Stamp {
        size: 0,
        modified: (100, nanoseconds),
        changed: (100, nanoseconds),
        inode: 1,
        device: 1,
        mode: 0,
    };
    let fine = stamp(5);
    assert!(!fine.tells_changes_since((100, 5 + TICK_NANOSECONDS)));
    assert!(fine.tells_changes_since((100, 6 + TICK_NANOSECONDS)));
    let late = stamp(999_999_999);
    assert!(!late.tells_changes_since((101, TICK_NANOSECONDS - 1)));
    assert!(late.tells_changes_since((101, TICK_NANOSECONDS)));
    let coarse = stamp(0);
    assert!(!coarse.tells_changes_since((102, 0)));
    assert!(coarse.tells_changes_since((102, 1)));
    assert!(
        !Stamp {
            modified: (i64::MAX, 0),
            ..fine
        }
        .tells_changes_since((i64::MAX, 0))
    );
}

#[test]
fn a_workspace_that_was_replaced_by_another_directory_is_read_as_it_is_now() {
    let workspace = Workspace::plain();
    workspace.write("old", b"old");
    let mut scanner = scanner(&workspace);
    scanner.scan().expect("scanned");
    fs_err::rename(workspace.path(), workspace.at("../gone")).expect("moved");
    assert!(matches!(
        scanner.scan(),
        Err(ScanError::Read { action: "open", .. })
    ));
    workspace.write("new", b"new");
    let manifest = scanner.scan().expect("scanned");
    assert!(manifest.get(b"new").is_some() && manifest.get(b"old").is_none());
}

#[test]
fn a_directory_is_an_entry_when_it_is_empty_or_holds_one() {
    let workspace = Workspace::plain();
    fs_err::create_dir_all(workspace.at("empty")).expect("a directory");
    workspace.write("nested/.git/config", b"left out");
    workspace.write("full/file", b"x");
    let manifest = scanner(&workspace).scan().expect("scanned");
    let paths: Vec<_> = manifest
        .entries
        .iter()
        .map(|entry| entry.path.as_slice())
        .collect();
    assert_eq!(paths, [&b"empty"[..], b"full", b"full/file"]);
}

#[test]
fn an_unreadable_file_is_named() {
    let workspace = Workspace::plain();
    workspace.write("secret", b"x");
    crate::candidate::testing::set_mode(&workspace.at("secret"), 0o000);
    match scanner(&workspace).scan() {
        // The superuser reads everything.
        Ok(manifest) => {
            assert!(rustix::process::geteuid().is_root() && manifest.get(b"secret").is_some())
        }
        Err(error) => assert!(
            error.to_string().contains("could not open") && error.to_string().contains("secret")
        ),
    }
}
