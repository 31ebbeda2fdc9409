//! Tests of the durable files.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use proptest::prelude::*;

use super::*;

fn appended(directory: &std::path::Path) -> Appender {
    let mut appender = Appender::create_new(&directory.join("log"), PRIVATE_FILE).unwrap();
    appender.append(b"one\n").unwrap();
    appender
}

#[test]
fn a_new_file_is_private_and_holds_what_was_appended() {
    let directory = tempfile::tempdir().unwrap();
    let mut appender = appended(directory.path());
    appender.append(b"two\n").unwrap();
    appender.sync().unwrap();
    assert_eq!(appender.len(), 8);
    assert_eq!(fs_err::read(appender.path()).unwrap(), b"one\ntwo\n");
    assert_eq!(
        fs_err::metadata(appender.path())
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
}

#[test]
fn an_existing_file_is_never_created_over() {
    let directory = tempfile::tempdir().unwrap();
    let appender = appended(directory.path());
    let error = Appender::create_new(appender.path(), PRIVATE_FILE).unwrap_err();
    assert_eq!(error.system_kind(), Some(io::ErrorKind::AlreadyExists));
    assert!(error.to_string().starts_with("cannot create /"));
}

#[test]
fn an_opened_file_goes_on_at_its_end() {
    let directory = tempfile::tempdir().unwrap();
    drop(appended(directory.path()));
    let mut appender = Appender::open(&directory.path().join("log")).unwrap();
    assert_eq!(appender.len(), 4);
    appender.append(b"two\n").unwrap();
    assert_eq!(appender.contents(8).unwrap(), b"one\ntwo\n");
    assert_eq!(
        appender.contents(7).unwrap_err().system_kind(),
        Some(io::ErrorKind::FileTooLarge)
    );
}

#[test]
fn links_and_pipes_are_not_opened_as_a_log() {
    let directory = tempfile::tempdir().unwrap();
    let appender = appended(directory.path());
    let link = directory.path().join("link");
    symlink(appender.path(), &link).unwrap();
    assert!(Appender::open(&link).is_err());
    let pipe = directory.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    assert!(matches!(
        Appender::open(&pipe),
        Err(DurableError::Unsafe { .. })
    ));
}

#[test]
fn truncation_keeps_the_head_and_refuses_to_grow() {
    let directory = tempfile::tempdir().unwrap();
    let mut appender = appended(directory.path());
    appender.truncate(4).unwrap();
    assert!(appender.truncate(5).is_err());
    appender.truncate(2).unwrap();
    appender.append(b"!\n").unwrap();
    assert_eq!(fs_err::read(appender.path()).unwrap(), b"on!\n");
    assert_eq!(appender.unchanged().unwrap(), Witness::Same);
}

#[test]
fn the_witness_tells_own_writes_from_foreign_ones() {
    let directory = tempfile::tempdir().unwrap();
    let mut appender = appended(directory.path());
    let path = appender.path().to_path_buf();
    assert_eq!(appender.unchanged().unwrap(), Witness::Same);
    appender.append(b"two\n").unwrap();
    appender.sync().unwrap();
    assert_eq!(appender.unchanged().unwrap(), Witness::Same);

    fs_err::OpenOptions::new()
        .append(true)
        .open(&path)
        .map(|mut file| io::Write::write_all(&mut file, b"x"))
        .unwrap()
        .unwrap();
    assert_eq!(appender.unchanged().unwrap(), Witness::Changed);
}

#[test]
fn the_witness_sees_a_missing_and_a_replaced_file() {
    let directory = tempfile::tempdir().unwrap();
    let appender = appended(directory.path());
    let path = appender.path().to_path_buf();
    fs_err::remove_file(&path).unwrap();
    assert_eq!(appender.unchanged().unwrap(), Witness::Missing);
    assert_eq!(appender.contents(100).unwrap(), b"one\n");
    replace_file(&path, b"one\n", PRIVATE_FILE, SyncMode::None).unwrap();
    assert_eq!(appender.unchanged().unwrap(), Witness::Replaced);
}

#[test]
fn the_witness_sees_a_changed_mode() {
    let directory = tempfile::tempdir().unwrap();
    let mut appender = appended(directory.path());
    // Metadata times may be coarse: repeat until the clock of the file system has moved on.
    let deadline = crate::clock::boot_millis() + 5_000;
    while appender.unchanged().unwrap() == Witness::Same {
        fs_err::set_permissions(appender.path(), std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(crate::clock::boot_millis() < deadline);
    }
    assert_eq!(appender.unchanged().unwrap(), Witness::Changed);
    appender.acknowledge_times().unwrap();
    assert_eq!(appender.unchanged().unwrap(), Witness::Same);
    fs_err::write(appender.path(), b"one\nand more").unwrap();
    assert!(matches!(
        appender.acknowledge_times(),
        Err(DurableError::Unsafe { .. })
    ));
}

#[test]
fn a_replacement_leaves_no_temporary_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.json");
    for sync in [SyncMode::None, SyncMode::Full] {
        replace_file(&path, b"new", PRIVATE_FILE, sync).unwrap();
        assert_eq!(fs_err::read(&path).unwrap(), b"new");
    }
    assert_eq!(fs_err::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn a_failed_replacement_leaves_the_target_and_no_temporary_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.json");
    fs_err::create_dir(&path).unwrap();
    assert!(replace_file(&path, b"new", PRIVATE_FILE, SyncMode::Full).is_err());
    assert!(path.is_dir());
    assert_eq!(fs_err::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn readers_see_whole_contents_while_two_threads_replace() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.json");
    replace_file(&path, &[b'a'; 10_000], PRIVATE_FILE, SyncMode::None).unwrap();
    std::thread::scope(|scope| {
        for letter in [b'a', b'b'] {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..300 {
                    replace_file(path, &[letter; 10_000], PRIVATE_FILE, SyncMode::None).unwrap();
                }
            });
        }
        for _ in 0..600 {
            let seen = fs_err::read(&path).unwrap();
            assert_eq!(seen.len(), 10_000);
            assert!(seen.iter().all(|byte| *byte == seen[0]));
        }
    });
}

#[test]
fn a_private_directory_is_made_or_made_private() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("private");
    create_private_directory(&path).unwrap();
    fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    create_private_directory(&path).unwrap();
    assert_eq!(
        fs_err::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o700
    );
    sync_directory(&path).unwrap();
}

#[test]
fn a_link_or_a_file_is_no_private_directory() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("link");
    symlink(directory.path(), &link).unwrap();
    let file = directory.path().join("file");
    fs_err::write(&file, b"").unwrap();
    for path in [link, file] {
        assert!(
            matches!(
                create_private_directory(&path),
                Err(DurableError::Unsafe { .. })
            ),
            "{}",
            path.display()
        );
    }
}

#[test]
fn a_missing_parent_is_named() {
    let error =
        create_private_directory(std::path::Path::new("/nonexistent-parent/x")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot create the directory /nonexistent-parent/x"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_appended_and_cut_is_what_is_read(records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..12), cut in any::<prop::sample::Index>()) {
        let directory = tempfile::tempdir().unwrap();
        let mut appender = Appender::create_new(&directory.path().join("log"), PRIVATE_FILE).unwrap();
        let mut expected = Vec::new();
        for record in &records {
            appender.append(record).unwrap();
            expected.extend_from_slice(record);
        }
        let keep = cut.index(expected.len() + 1);
        appender.truncate(keep as u64).unwrap();
        expected.truncate(keep);
        prop_assert_eq!(appender.contents(1 << 20).unwrap(), expected);
        prop_assert_eq!(appender.len(), keep as u64);
        prop_assert_eq!(appender.unchanged().unwrap(), Witness::Same);
    }
}
