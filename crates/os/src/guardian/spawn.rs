//! Starting one command: where its program is, and with which streams.
//!
//! It must not know what becomes of the command. Nothing runs between fork and exec, so the standard library takes its fast path.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::Access;

use super::wire::RunRequest;
use crate::process::Pid;

/// Where programs are looked up when the command's environment has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What could not be used, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotStarted {
    pub(super) errno: i32,
    pub(super) directory: bool,
}

/// Starts the command in a process group of its own.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the guardian: the one place where commands are started"
)]
pub(super) fn spawn(request: &RunRequest, streams: [OwnedFd; 3]) -> Result<Pid, NotStarted> {
    let Some((name, arguments)) = request.argv.split_first() else {
        return Err(NotStarted {
            errno: libc::EINVAL,
            directory: false,
        });
    };
    let program =
        find_program(name, request).map_err(|errno| not_started(errno, &request.directory))?;
    let [stdin, stdout, stderr] = streams;
    let mut command = Command::new(program);
    command
        .arg0(name)
        .args(arguments)
        .current_dir(&request.directory)
        .process_group(0);
    command
        .env_clear()
        .envs(request.env.iter().map(|(name, value)| (name, value)));
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    match command.spawn() {
        Ok(child) => Ok(Pid(child.id())),
        Err(error) => {
            let errno =
                error
                    .raw_os_error()
                    .unwrap_or(if error.kind() == io::ErrorKind::InvalidInput {
                        libc::EINVAL
                    } else {
                        libc::EIO
                    });
            Err(not_started(errno, &request.directory))
        }
    }
}

/// The system reports one error number for both; only a look tells a missing directory from a missing program.
fn not_started(errno: i32, directory: &Path) -> NotStarted {
    match rustix::fs::access(directory, Access::EXEC_OK) {
        Ok(()) if fs_err::metadata(directory).is_ok_and(|metadata| metadata.is_dir()) => {
            NotStarted {
                errno,
                directory: false,
            }
        }
        Ok(()) => NotStarted {
            errno: libc::ENOTDIR,
            directory: true,
        },
        Err(error) => NotStarted {
            errno: error.raw_os_error(),
            directory: true,
        },
    }
}

/// Looks a program up in the `PATH` of the command, not of this program, and relative to the command's directory.
fn find_program(name: &OsStr, request: &RunRequest) -> Result<PathBuf, i32> {
    if name.is_empty() {
        return Err(libc::ENOENT);
    }
    if name.as_bytes().contains(&b'/') {
        return Ok(request.directory.join(name));
    }
    let default = OsString::from(DEFAULT_PATH);
    let path = request
        .env
        .iter()
        .rev()
        .find(|(name, _)| name == "PATH")
        .map_or(&default, |(_, value)| value);
    let mut errno = libc::ENOENT;
    for directory in path.as_bytes().split(|byte| *byte == b':') {
        let candidate = request
            .directory
            .join(OsStr::from_bytes(directory))
            .join(name);
        let is_file = fs_err::metadata(&candidate).is_ok_and(|metadata| metadata.is_file());
        match rustix::fs::access(&candidate, Access::EXEC_OK) {
            Ok(()) if is_file => return Ok(candidate),
            // Something of this name is there but may not be executed: the better answer when nothing else is found.
            Err(rustix::io::Errno::ACCESS) if is_file => errno = libc::EACCES,
            Ok(()) | Err(_) => {}
        }
    }
    Err(errno)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn request(name: &str, path: Option<&str>, directory: &Path) -> RunRequest {
        let env = path
            .map(|path| (OsString::from("PATH"), OsString::from(path)))
            .into_iter()
            .collect();
        RunRequest {
            argv: vec![name.into()],
            env,
            directory: directory.into(),
        }
    }

    fn find(name: &str, path: Option<&str>, directory: &Path) -> Result<PathBuf, i32> {
        find_program(OsStr::new(name), &request(name, path, directory))
    }

    #[test]
    fn a_program_is_found_in_the_path_of_the_command() {
        let directory = tempfile::tempdir().unwrap();
        let tool = directory.path().join("tool");
        fs_err::write(&tool, "").unwrap();
        assert_eq!(find("tool", Some("."), directory.path()), Err(libc::EACCES));
        fs_err::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(
            find("tool", Some("/nonexistent:."), directory.path()),
            Ok(directory.path().join(".").join("tool"))
        );
        assert_eq!(
            find("tool", Some("/nonexistent"), directory.path()),
            Err(libc::ENOENT)
        );
        assert!(find("sh", None, directory.path()).is_ok());
    }

    #[test]
    fn a_directory_is_no_program() {
        let directory = tempfile::tempdir().unwrap();
        fs_err::create_dir(directory.path().join("tool")).unwrap();
        assert_eq!(find("tool", Some("."), directory.path()), Err(libc::ENOENT));
    }

    #[test]
    fn a_name_with_a_slash_is_relative_to_the_directory_of_the_command() {
        assert_eq!(
            find("./run", None, Path::new("/there")),
            Ok(PathBuf::from("/there/./run"))
        );
        assert_eq!(
            find("/bin/sh", None, Path::new("/there")),
            Ok(PathBuf::from("/bin/sh"))
        );
    }

    #[test]
    fn a_missing_directory_is_told_from_a_missing_program() {
        let missing = not_started(libc::ENOENT, Path::new("/nonexistent-directory"));
        assert_eq!(
            missing,
            NotStarted {
                errno: libc::ENOENT,
                directory: true
            }
        );
        assert_eq!(
            not_started(libc::ENOENT, Path::new("/")),
            NotStarted {
                errno: libc::ENOENT,
                directory: false
            }
        );
    }
}
