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
