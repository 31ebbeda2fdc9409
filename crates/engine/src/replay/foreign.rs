//! Replays a receipt from elsewhere: it is verified first, its command runs only when somebody said so, in a copy, and with
//! nothing of the caller's: not the home directory, not the environment.
//!
//! A command from elsewhere is somebody else's program. This is no sandbox; it only gives nothing away by itself.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    time::Duration,
};

use loopexec_core::state::RunState;
use loopexec_os::signals::Signals;
use tempfile::TempDir;

use super::{
    Replay,
    place::{Place, kept_commit},
    redactor,
    repeat::Repetition,
    subject::Subject,
};
use crate::{
    attest::signers::AllowedSigners,
    candidate::{object::ObjectId, store::Store},
    export::{Unpacked, is_archive, unpack},
    failure::{Failure, chain},
    git::{Call, Git},
    redact::for_check,
    verify::{Parts, Status, Trust, Verification, known_cause, verify},
};

/// What to replay, and who said so.
#[derive(Debug)]
pub struct ForeignConfig<'a> {
    /// The receipt, or the export.
    pub file: &'a Path,
    /// Whose signature allows its command, and the time at which it must, Unix seconds.
    pub trusted: Option<(&'a AllowedSigners, i64)>,
    /// Whether a person allows it.
    pub confirmed: bool,
    /// Compare the bytes of the output.
    pub strict: bool,
    /// Deadline where the receipt names none.
    pub timeout: Option<Duration>,
    /// Where programs are looked for; the only thing that the command gets of the caller's environment.
    pub search_path: Option<&'a OsStr>,
    /// Where temporary directories are made.
    pub temporary: PathBuf,
    /// Signal handlers.
    pub signals: &'a Signals,
}

/// A receipt from elsewhere that verified, and may be run.
#[derive(Debug)]
pub struct Foreign {
    /// The fold of its receipt.
    pub state: Box<RunState>,
    /// The command that a replay runs.
    pub command: String,
    /// Who signed it, in words.
    pub signer: String,
    /// Whether that is somebody who was named.
    pub signed: bool,
    /// The receipt itself; it goes with this value when it was in an export.
    pub receipt: PathBuf,
    /// The file that was named.
    file: PathBuf,
    unpacked: Option<Unpacked>,
}

/// Verifies it, and asks whether its command may run.
///
/// # Errors
///
/// It does not verify, withholds its command, or nobody allowed its command.
pub fn admit(config: &ForeignConfig<'_>) -> Result<Foreign, Failure> {
    let unreadable = |error: std::io::Error| {
        Failure::workspace(format!("cannot read {}: {error}", config.file.display()))
            .because("file_unreadable")
    };
    let unpacked = is_archive(config.file)
        .map_err(unreadable)?
        .then(|| unpack(config.file, &config.temporary))
        .transpose()?;
    if unpacked.as_ref().is_some_and(|unpacked| unpacked.redacted) {
        return Err(Failure::unverified(
            "redacted",
            "the export withholds the command and the content, so there is nothing to repeat",
        )
        .hint("ask for an export without --redact"));
    }
    let parts = match &unpacked {
        Some(unpacked) => unpacked.parts(),
        None => Parts::beside(config.file.to_owned()),
    };
    let trust = match config.trusted {
        Some((signers, now)) => Trust::Signers { signers, now },
        None => Trust::Unasked,
    };
    let verification = verify(&parts, None, &trust)?;
    let state = sound(&verification)?;
    let signature = verification
        .items
        .iter()
        .find(|item| item.name == "signature");
    let passed = signature.is_some_and(|item| item.status == Status::Pass);
    let signed = passed && config.trusted.is_some();
    let foreign = Foreign {
        command: state.run.commands.check.clone(),
        signer: signature
            .filter(|_| passed)
            .map_or_else(|| "nobody".to_owned(), |item| item.detail.clone()),
        signed,
        state: Box::new(state.clone()),
        receipt: parts.receipt,
        file: config.file.to_owned(),
        unpacked,
    };
    if signed || config.confirmed {
        return Ok(foreign);
    }
    Err(unconfirmed(config, &foreign))
}

fn unconfirmed(config: &ForeignConfig<'_>, foreign: &Foreign) -> Failure {
    let text = format!(
        "the receipt of the run {:?} asks to run this command, which was not allowed: `{}` (signature: {})",
        foreign.state.run_id, foreign.command, foreign.signer
    );
    match config.trusted {
        Some(_) => Failure::unverified("absent", text)
            .hint("no trusted key signed it; --confirm runs it nevertheless, in a copy"),
        None => Failure::workspace(text)
            .because("confirmation_needed")
            .hint("name keys that you trust with --trusted FILE, or read the command and add --confirm"),
    }
}

fn sound(verification: &Verification) -> Result<&RunState, Failure> {
    let broken = verification
        .items
        .iter()
        .find(|item| item.status == Status::Fail);
    match (broken, &verification.state) {
        (None, Some(state)) => Ok(state),
        (Some(item), _) => Err(Failure::unverified(
            known_cause(item.cause.as_deref()),
            format!(
                "what does not verify is not run: {}: {}",
                item.name, item.detail
            ),
        )),
        (None, None) => Err(Failure::unverified(
            "chain_absent",
            "there is no chained receipt",
        )),
    }
}

impl Foreign {
    /// Runs its check in a copy of its content.
    ///
    /// # Errors
    ///
    /// The content is not there, or as [`super::replay`].
    pub fn replay(&self, config: &ForeignConfig<'_>) -> Result<Replay, Failure> {
        let subject = Subject::of_state(&self.state)?;
        let commit = kept_commit(&subject)?;
        let git = config.search_path.and_then(|path| Git::find(path).ok());
        let store = self.store(git.as_ref(), &commit)?;
        let place =
            Place::materialised(&store, git.as_ref(), &commit, &subject, &config.temporary)?;
        let room = room(&config.temporary)?;
        let start = environment(room.path(), config.search_path);
        let redactor = redactor(&start)?;
        let prepared = for_check(&redactor, &start);
        let mut replay = Replay::begun(&subject, self.file.clone(), &place);
        replay.signer = Some(self.signer.clone());
        Repetition {
            subject: &subject,
            place: &place,
            redactor: &redactor,
            environment: &prepared.variables,
            environment_sha256: &prepared.sha256,
            strict: config.strict,
            timeout: config.timeout,
            signals: config.signals,
            recorded_tail: None,
        }
        .run(&mut replay)?;
        Ok(replay)
    }

    /// Where its content is: in the export, or beside the receipt where its run left it.
    fn store(&self, git: Option<&Git>, commit: &ObjectId) -> Result<Store, Failure> {
        let Some(unpacked) = &self.unpacked else {
            let beside = self
                .receipt
                .parent()
                .map(|store| store.join("runs").join(&self.state.run_id));
            let store = beside.and_then(|directory| Store::open_existing(&directory).ok()?);
            return store.ok_or_else(|| without_content("there is no content beside the receipt"));
        };
        let bundle = unpacked
            .bundle()
            .ok_or_else(|| without_content("the export holds no content"))?;
        let git =
            git.ok_or_else(|| without_content("git is needed to read the export's content"))?;
        let directory = unpacked.directory().join("store");
        let failed = |why: String| without_content(&why);
        let open = || Store::open(&directory, commit.format(), None);
        let empty = open().map_err(|error| failed(chain(&error)))?;
        let arguments = [
            OsString::from("bundle"),
            OsString::from("unbundle"),
            bundle.into_os_string(),
        ];
        git.run(&Call {
            git_dir: Some(empty.git_dir()),
            work_tree: None,
            index_file: None,
            arguments: arguments.to_vec(),
        })
        .map_err(|error| failed(chain(&error)))?;
        open().map_err(|error| failed(chain(&error)))
    }
}

fn without_content(why: &str) -> Failure {
    Failure::workspace(format!("there is no content to run the check on: {why}"))
        .because("content_not_kept")
        .hint("`loopexec runs export` makes a file that holds it")
}

/// A home and a place for temporary files, both empty.
fn room(temporary: &Path) -> Result<TempDir, Failure> {
    let failed = |error: std::io::Error| {
        Failure::workspace(format!("no empty home can be made: {error}")).because("copy_failed")
    };
    let room = tempfile::Builder::new()
        .prefix("loopexec-home-")
        .tempdir_in(temporary)
        .map_err(failed)?;
    for name in ["home", "tmp"] {
        fs_err::create_dir(room.path().join(name)).map_err(failed)?;
    }
    Ok(room)
}

/// What the command gets to see.
fn environment(room: &Path, search_path: Option<&OsStr>) -> Vec<(OsString, OsString)> {
    let path = search_path.unwrap_or_else(|| OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    vec![
        ("PATH".into(), path.into()),
        ("LANG".into(), "C.UTF-8".into()),
        ("TZ".into(), "UTC".into()),
        ("HOME".into(), room.join("home").into()),
        ("TMPDIR".into(), room.join("tmp").into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_from_elsewhere_sees_an_empty_home_and_nothing_of_the_caller() {
        let directory = tempfile::tempdir().unwrap();
        let room = room(directory.path()).unwrap();
        let variables = environment(room.path(), Some(OsStr::new("/bin")));
        let names: Vec<_> = variables.iter().map(|(name, _)| name.to_str()).collect();
        let wanted = ["PATH", "LANG", "TZ", "HOME", "TMPDIR"];
        assert_eq!(names, wanted.map(Some));
        let home = &variables[3].1;
        assert_eq!(fs_err::read_dir(home).unwrap().count(), 0);
    }
}
