//! For tests only: real directories and real repositories, each in a temporary directory with its own HOME.

use crate::git::Git;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// A directory that goes away.
pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// The git of this machine; says so when there is none, and the test then ends.
pub(crate) fn git_program() -> Option<Git> {
    let found = Git::find(OsStr::new("/usr/local/bin:/usr/bin:/bin")).ok();
    if found.is_none() {
        println!("skipped: needs git");
    }
    found
}

pub(crate) fn write(path: &Path, bytes: &[u8]) {
    fs_err::create_dir_all(path.parent().expect("a parent")).expect("a parent directory");
    fs_err::write(path, bytes).expect("written");
}

/// A workspace with the governor's directory outside the candidate.
#[derive(Debug)]
pub(crate) struct Workspace {
    directory: tempfile::TempDir,
}

impl Workspace {
    pub(crate) fn plain() -> Self {
        let directory = directory();
        fs_err::create_dir_all(directory.path().join("tree/.loopexec/runs/r"))
            .expect("directories");
        Workspace { directory }
    }

    pub(crate) fn with_git() -> Option<Self> {
        git_program()?;
        let workspace = Workspace::plain();
        workspace.git(&["init", "-q", "-b", "main"]);
        Some(workspace)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("tree")
    }

    pub(crate) fn store_path(&self) -> PathBuf {
        self.path().join(".loopexec/runs/r")
    }

    pub(crate) fn at(&self, name: impl AsRef<[u8]>) -> PathBuf {
        self.path().join(OsStr::from_bytes(name.as_ref()))
    }

    pub(crate) fn write(&self, name: impl AsRef<[u8]>, bytes: &[u8]) {
        write(&self.at(name), bytes);
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        self.git_in(&self.path(), arguments)
    }

    /// A git as a person would run it, with a fixed identity.
    #[expect(
        clippy::disallowed_methods,
        reason = "the test plays the person, whose git is not scrubbed"
    )]
    pub(crate) fn git_in(&self, path: &Path, arguments: &[&str]) -> String {
        let mut command = std::process::Command::new("git");
        command
            .current_dir(path)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command
            .env("HOME", self.directory.path())
            .env("GIT_CONFIG_NOSYSTEM", "1");
        for who in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{who}_NAME"), "A Person")
                .env(format!("GIT_{who}_EMAIL"), "person@example.org");
        }
        command
            .args([
                "-c",
                "protocol.file.allow=always",
                "-c",
                "core.excludesFile=/dev/null",
            ])
            .args(arguments);
        let output = command.output().expect("git runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {stderr}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// What a person would see at a path, found out in another way than the scanner does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    kind: &'static str,
    mode: u32,
    bytes: Vec<u8>,
}

/// Everything below a directory but `.git` and `.loopexec`.
pub(crate) fn seen(top: &Path) -> std::collections::BTreeMap<PathBuf, Seen> {
    use std::os::unix::fs::MetadataExt as _;
    let mut all = std::collections::BTreeMap::new();
    let mut open = vec![top.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs_err::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.ends_with(".git") || path.ends_with(".loopexec") {
                continue;
            }
            let found = fs_err::symlink_metadata(&path).expect("it is there");
            let mode = found.mode() & 0o7777;
            let (kind, mode, bytes) = if found.is_symlink() {
                (
                    "link",
                    0,
                    fs_err::read_link(&path)
                        .expect("a link")
                        .as_os_str()
                        .as_bytes()
                        .to_vec(),
                )
            } else if found.is_dir() {
                open.push(path.clone());
                ("directory", mode, Vec::new())
            } else {
                ("file", mode, fs_err::read(&path).expect("readable"))
            };
            all.insert(path, Seen { kind, mode, bytes });
        }
    }
    all
}

/// Content of every odd kind: names, modes, links, line ends, sizes.
pub(crate) fn write_odd_content(workspace: &Workspace) {
    workspace.write("plain.txt", b"one\ntwo\n");
    workspace.write("crlf.txt", b"one\r\ntwo\r\n$Id$\r\n");
    workspace.write("binary", &(0..=255).collect::<Vec<u8>>());
    workspace.write("empty", b"");
    workspace.write(
        "large",
        &(0..1_500_000_u32)
            .map(|number| (number % 251) as u8)
            .collect::<Vec<u8>>(),
    );
    workspace.write("Case", b"upper");
    workspace.write("case", b"lower");
    for name in [
        &b"new\nline"[..],
        b"quo\"te'",
        b"back\\slash",
        b"latin\xff\xfe",
        b" lead and trail ",
        b"-dash",
        b"a%b",
    ] {
        workspace.write(name, name);
    }
    workspace.write("sub/deep/er/file", b"deep");
    workspace.write("sub.x/file", b"sorts before sub/");
    fs_err::create_dir_all(workspace.at("hollow/inner")).expect("directories");
    link("plain.txt", &workspace.at("link"));
    link("nowhere/at all", &workspace.at("dangling"));
    link("/etc", &workspace.at("sub/outside"));
    for (name, mode) in [
        ("binary", 0o755),
        // The superuser alone can read a file without any mode bit.
        (
            "empty",
            if rustix::process::geteuid().is_root() {
                0o000
            } else {
                0o400
            },
        ),
        ("crlf.txt", 0o444),
        ("plain.txt", 0o4750),
        ("sub/deep", 0o555),
        ("hollow", 0o1777),
        ("hollow/inner", 0o700),
    ] {
        set_mode(&workspace.at(name), mode);
    }
}

pub(crate) fn link(target: &str, path: &Path) {
    fs_err::os::unix::fs::symlink(target, path).expect("a link");
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
}

/// Replaces nearly everything that [`write_odd_content`] made, each by another kind of thing.
pub(crate) fn spoil(workspace: &Workspace) {
    let remove = |name: &str| fs_err::remove_file(workspace.at(name)).expect("removed");
    set_mode(&workspace.at("sub/deep"), 0o755);
    remove("crlf.txt");
    remove("plain.txt");
    workspace.write("plain.txt/now/a/directory", b"x");
    fs_err::remove_dir_all(workspace.at("sub")).expect("removed");
    link("sub.x", &workspace.at("sub"));
    remove("link");
    workspace.write("link", b"now a file");
    remove("binary");
    link("large", &workspace.at("binary"));
    remove("dangling");
    fs_err::create_dir_all(workspace.at("dangling")).expect("a directory");
    workspace.write("crlf.txt", b"one\ntwo\n");
    workspace.write("large", b"small now");
    set_mode(&workspace.at("Case"), 0o777);
    remove("case");
    fs_err::remove_file(workspace.at(b"latin\xff\xfe")).expect("removed");
    fs_err::remove_dir(workspace.at("hollow/inner")).expect("removed");
    set_mode(&workspace.at("hollow"), 0o755);
    workspace.write("added/new file", b"added");
    fs_err::create_dir_all(workspace.at("added/empty")).expect("a directory");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        workspace.at("pipe"),
        rustix::fs::Mode::RUSR,
    )
    .expect("a pipe");
}
