//! The receipt of a live run: folds each record, appends it as one line here and outside, notices who else wrote.

use std::path::{Path, PathBuf};

use loopexec_core::{
    digest::Digest,
    event::{Event, Header, Record, encode},
    state::{IllegalRecord, RunState},
    units::RunMillis,
};
use loopexec_os::{
    clock,
    durable::{
        Appender, DurableError, LOG_FILE_BYTES, PRIVATE_FILE, Witness, create_private_directory,
        sync_directory,
    },
};
use sha2::{Digest as _, Sha256};

use super::read_lines;

/// Why a record is not in the log. Each of these ends the run without a further record.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk did not take it.
    #[error("the record could not be written")]
    Write(#[from] DurableError),
    /// The engine offered a record that its own rules refuse: a defect.
    #[error("this program offered a record that its own rules refuse")]
    Illegal(#[from] IllegalRecord),
    /// A type of this program could not be written as JSON: a defect.
    #[error("this program could not write a record as JSON")]
    Encode(#[from] serde_json::Error),
}

/// What somebody else did to the receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tampering {
    /// Nothing that matters: it holds what was written.
    None,
    /// It was deleted; it can be written again from what is still open.
    Deleted,
    /// It holds, or its path leads to, other bytes.
    Changed,
}

/// The open receipt of a run.
#[derive(Debug)]
pub struct Receipt {
    file: Appender,
    copy: Option<Appender>,
    /// Lines that the copy does not have yet: they are written before anything outside can act.
    owed: Vec<u8>,
    content: Sha256,
    state: Option<RunState>,
    run_id: String,
    started: u64,
}

impl Receipt {
    /// Creates the receipt of a new run, and its copy where a place for one is given.
    ///
    /// # Errors
    ///
    /// When a file exists already or cannot be created.
    pub fn create(run_id: &str, path: &Path, copy: Option<&Path>) -> Result<Self, LogError> {
        let file = Appender::create_new(path, PRIVATE_FILE)?;
        let copy = copy
            .map(|copy| Appender::create_new(copy, PRIVATE_FILE))
            .transpose()?;
        Ok(Self {
            file,
            copy,
            owed: Vec::new(),
            content: Sha256::new(),
            state: None,
            run_id: run_id.to_owned(),
            started: clock::boot_millis(),
        })
    }

    /// Goes on with the receipt at `path`, whose lines fold to `state` and whose bytes are `content`.
    ///
    /// # Errors
    ///
    /// When a file cannot be opened or the copy cannot be brought up to date.
    pub fn continue_from(
        state: RunState,
        content: &[u8],
        path: &Path,
        copy: Option<&Path>,
    ) -> Result<Self, LogError> {
        let file = Appender::open(path)?;
        let copy = copy.map(|copy| caught_up(copy, content)).transpose()?;
        Ok(Self {
            file,
            copy,
            owed: Vec::new(),
            content: Sha256::new_with_prefix(content),
            run_id: state.run_id.clone(),
            state: Some(state),
            started: clock::boot_millis(),
        })
    }

    /// The fold of the lines so far; `None` before the first.
    #[must_use]
    pub fn state(&self) -> Option<&RunState> {
        self.state.as_ref()
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Run time now: of the records so far, and of this process since.
    #[must_use]
    pub fn process_millis(&self) -> RunMillis {
        RunMillis(clock::boot_millis().saturating_sub(self.started))
    }

    /// Records an event: folds it, then writes it as one line; with `sync` it is on the disk when this returns.
    ///
    /// # Errors
    ///
    /// When the record cannot follow, or the disk does not take it. Nothing may be recorded after that.
    pub fn record(&mut self, event: Event, sync: bool) -> Result<(), LogError> {
        let record = self.next(event, sync);
        let mut line = encode(&record)?;
        let digest = Digest::of(&line);
        match &mut self.state {
            None => self.state = Some(RunState::open(&record, digest)?),
            Some(state) => state.apply(&record, digest)?,
        }
        line.push(b'\n');
        self.file.append(&line)?;
        self.content.update(&line);
        if sync {
            self.file.sync()?;
        }
        self.owed.extend_from_slice(&line);
        if sync {
            self.bring_copy_up(true)?;
        }
        Ok(())
    }

    /// Writes to the copy what it lacks. Called before a command starts, so that nothing a command does can be behind it.
    ///
    /// # Errors
    ///
    /// When the disk does not take it.
    pub fn bring_copy_up(&mut self, sync: bool) -> Result<(), LogError> {
        if let Some(copy) = &mut self.copy {
            if !self.owed.is_empty() {
                copy.append(&self.owed)?;
            }
            if sync {
                copy.sync()?;
            }
        }
        self.owed.clear();
        Ok(())
    }

    fn next(&self, event: Event, sync: bool) -> Record {
        let ts_ms = clock::wall_millis();
        let (seq, prev, iteration) = match &self.state {
            None => (0, Digest::genesis(&self.run_id), 0),
            Some(state) => {
                let opens = matches!(event, Event::IterStart(_));
                (
                    state.records,
                    state.head,
                    state.iteration.saturating_add(u32::from(opens)),
                )
            }
        };
        let header = Header {
            ts: ts_ms.div_euclid(1000),
            ts_ms,
            t_ms: self.process_millis(),
            run_id: self.run_id.clone(),
            iteration,
            event: event.name(),
            seq,
            prev,
            sync,
        };
        Record { header, event }
    }

    /// Whether somebody else touched the receipt since the last record. Costs two `stat` calls when nobody did.
    ///
    /// # Errors
    ///
    /// When the file cannot be inspected.
    pub fn tampering(&mut self) -> Result<Tampering, LogError> {
        match self.file.unchanged()? {
            Witness::Same => Ok(Tampering::None),
            Witness::Missing => Ok(Tampering::Deleted),
            Witness::Replaced => Ok(Tampering::Changed),
            Witness::Changed => {
                let expected = self.content.clone().finalize();
                let same = match own(&self.file) {
                    Ok(content) => Sha256::digest(&content) == expected,
                    Err(error) if error.system_kind() == Some(std::io::ErrorKind::FileTooLarge) => {
                        false
                    }
                    Err(error) => return Err(error.into()),
                };
                if same {
                    // A touch or a chmod: the bytes are what was written, so their times are the new reference.
                    self.file.acknowledge_times()?;
                }
                Ok(if same {
                    Tampering::None
                } else {
                    Tampering::Changed
                })
            }
        }
    }

    /// Whether somebody else touched the second copy since the last write to it. Costs two `stat` calls when nobody did.
    ///
    /// # Errors
    ///
    /// When the copy cannot be inspected.
    pub fn copy_tampering(&mut self) -> Result<Tampering, LogError> {
        let Some(copy) = &mut self.copy else {
            return Ok(Tampering::None);
        };
        match copy.unchanged()? {
            Witness::Same => Ok(Tampering::None),
            Witness::Missing => Ok(Tampering::Deleted),
            Witness::Replaced => Ok(Tampering::Changed),
            Witness::Changed => {
                let same = own(copy).is_ok_and(|mut content| {
                    content.extend_from_slice(&self.owed);
                    Sha256::digest(&content) == self.content.clone().finalize()
                });
                if same {
                    copy.acknowledge_times()?;
                    return Ok(Tampering::None);
                }
                Ok(Tampering::Changed)
            }
        }
    }

    /// Makes the second copy again at its path; what stands there is moved aside, in its directory.
    ///
    /// # Errors
    ///
    /// When nothing holds any more what was written, or the disk does not take it.
    pub fn write_copy_again(&mut self) -> Result<(), LogError> {
        let Some(path) = self.copy.as_ref().map(|copy| copy.path().to_owned()) else {
            return Ok(());
        };
        let content = self.original()?;
        let parent = path.parent().map_or_else(PathBuf::new, Path::to_owned);
        if let Some(above) = parent.parent() {
            fs_err::create_dir_all(above).map_err(|source| DurableError::System {
                action: "create",
                path: above.to_owned(),
                source,
            })?;
        }
        create_private_directory(&parent)?;
        let aside = parent.join(format!("tampered-{}-{}", self.run_id, clock::wall_millis()));
        match rustix::fs::rename(&path, &aside) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(errno) => return Err(system("move aside", &path, errno)),
        }
        let mut copy = Appender::create_new(&path, PRIVATE_FILE)?;
        copy.append(&content)?;
        copy.sync()?;
        sync_directory(&parent)?;
        self.copy = Some(copy);
        self.owed.clear();
        Ok(())
    }

    /// Writes the receipt again at its path: from the outside copy where there is one, else from the file still open.
    ///
    /// What stands at the path is moved to `aside` first. Returns how many lines were written.
    ///
    /// # Errors
    ///
    /// When neither source holds what was written, or the disk does not take it.
    pub fn write_again(&mut self, aside: Option<&Path>) -> Result<u64, LogError> {
        let path = self.file.path().to_owned();
        let content = self.original()?;
        if let Some(aside) = aside {
            rustix::fs::rename(&path, aside).map_err(|errno| system("move aside", &path, errno))?;
        }
        let mut file = Appender::create_new(&path, PRIVATE_FILE)?;
        file.append(&content)?;
        file.sync()?;
        if let Some(parent) = path.parent() {
            sync_directory(parent)?;
        }
        self.file = file;
        let lines = content.iter().filter(|byte| **byte == b'\n').count();
        Ok(u64::try_from(lines).unwrap_or(u64::MAX))
    }

    /// The bytes that this run wrote, from whichever source still has them.
    fn original(&self) -> Result<Vec<u8>, LogError> {
        let expected = self.content.clone().finalize();
        let copy = self.copy.as_ref().map(own);
        for content in [Some(own(&self.file)), copy]
            .into_iter()
            .flatten()
            .flatten()
        {
            if Sha256::digest(&content) == expected {
                return Ok(content);
            }
        }
        Err(LogError::Write(DurableError::Unsafe {
            path: self.file.path().to_owned(),
            why: "it was changed, and no copy of what was written is left",
        }))
    }
}

/// What a log holds, where it is no longer than this program left it: somebody else may have stretched it beyond any memory.
fn own(file: &Appender) -> Result<Vec<u8>, DurableError> {
    file.contents(usize::try_from(file.len()).unwrap_or(usize::MAX))
}

/// Opens the outside copy, creating or completing it so that it holds `content`.
fn caught_up(path: &Path, content: &[u8]) -> Result<Appender, LogError> {
    let parent = path.parent().map_or_else(PathBuf::new, Path::to_owned);
    create_private_directory(&parent)?;
    let mut copy = match Appender::open(path) {
        Ok(copy) => copy,
        Err(error) if error.system_kind() == Some(std::io::ErrorKind::NotFound) => {
            Appender::create_new(path, PRIVATE_FILE)?
        }
        Err(error) => return Err(error.into()),
    };
    let have = copy.contents(usize::try_from(LOG_FILE_BYTES).unwrap_or(usize::MAX))?;
    let good = read_lines(have.as_slice(), &mut |_| {}).map_or(0, |log| log.good_bytes);
    let kept = have
        .get(..usize::try_from(good).unwrap_or(usize::MAX))
        .unwrap_or_default();
    let Some(missing) = content.strip_prefix(kept) else {
        return Err(LogError::Write(DurableError::Unsafe {
            path: path.to_owned(),
            why: "it is not a beginning of the receipt; `loopexec verify` says where they differ",
        }));
    };
    if kept.len() < have.len() {
        copy.truncate(good)?;
    }
    if !missing.is_empty() {
        copy.append(missing)?;
        copy.sync()?;
    }
    Ok(copy)
}

fn system(action: &'static str, path: &Path, errno: rustix::io::Errno) -> LogError {
    LogError::Write(DurableError::System {
        action,
        path: path.to_owned(),
        source: errno.into(),
    })
}
