//! Everything that a live run holds, and the few things every phase does with it: record, write the state, look for tampering.
//!
//! Must not decide.

use std::{collections::BTreeSet, ffi::OsString, path::PathBuf};

use loopexec_core::{
    digest::Digest,
    event::{CommandPhase, Event, GuardStage, Guards, ReceiptRestored},
    guard,
    state::RunState,
};
use loopexec_os::{
    durable::{
        LOG_FILE_BYTES, PRIVATE_FILE, SyncMode, create_private_directory, read_regular,
        replace_file,
    },
    guardian::Guardian,
    lock::{FileLock, WorkspaceLock},
    signals::Signals,
};

use super::{
    content::Content,
    store::{self, Seen, Since},
};
use crate::{
    failure::{Failure, chain},
    heartbeat::Pulse,
    layout::Layout,
    log::{LogError, Receipt, Tampering, WorkspaceLog},
    redact::Redactor,
    snapshot::{self, StateView},
};

/// What the record calls the second copy: its path is a person's, and says nothing to a verifier.
const OUTSIDE_COPY: &str = "the copy outside the workspace";

/// How long another command may hold the workspace log when it is looked at.
const APPEND_PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// A live run.
pub(super) struct Session {
    pub(super) layout: Layout,
    pub(super) lock: WorkspaceLock,
    pub(super) receipt: Receipt,
    pub(super) guardian: Option<Guardian>,
    pub(super) signals: Signals,
    pub(super) pulse: Pulse,
    pub(super) redactor: Redactor,
    pub(super) work_environment: Vec<(OsString, OsString)>,
    pub(super) check_environment: Vec<(OsString, OsString)>,
    pub(super) content: Option<Content>,
    /// The snapshot as last written.
    pub(super) seen: Option<Seen>,
    /// The workspace log as last seen.
    pub(super) acts: Option<Seen>,
    /// The test-determining set that no guard has used yet, or why there is none.
    pub(super) members: Option<Result<BTreeSet<String>, String>>,
    /// The failing set that is not recorded yet.
    pub(super) failing: Option<BTreeSet<String>>,
    /// Ids that entered the failing set with the last observation.
    pub(super) regressed: Vec<String>,
    /// The end of the last check's output, secrets replaced.
    pub(super) output_tail: String,
    /// Manifest of what is in the workspace, as last read.
    pub(super) digest: Option<Digest>,
    pub(super) archived: Option<PathBuf>,
    pub(super) notes: Vec<String>,
}

/// What a failed write means for the run.
pub(super) fn unrecorded(error: &LogError) -> Failure {
    let cause = match error {
        LogError::Write(_) => "receipt_write_failed",
        LogError::Illegal(_) | LogError::Encode(_) => "defect",
    };
    Failure::internal(format!(
        "the run stopped because it could not be recorded: {}",
        chain(error)
    ))
    .because(cause)
    .hint("make room on the disk or repair its permissions, then `loopexec run --resume`")
}

impl Session {
    /// The fold so far.
    pub(super) fn state(&self) -> Result<&RunState, Failure> {
        self.receipt
            .state()
            .ok_or_else(|| Failure::internal("a run without its first record").because("defect"))
    }

    /// Records an event.
    pub(super) fn record(&mut self, event: Event, sync: bool) -> Result<(), Failure> {
        self.receipt
            .record(event, sync)
            .map_err(|error| unrecorded(&error))
    }

    /// Replaces the snapshot.
    pub(super) fn write_state(&mut self, sync: SyncMode) -> Result<(), Failure> {
        let bytes = StateView::of(self.state()?).bytes();
        let path = self.layout.state(&self.state()?.run_id);
        let failed = |error| {
            Failure::internal(format!(
                "the run stopped because its state could not be written: {}",
                chain(&error)
            ))
            .because("state_write_failed")
        };
        replace_file(&path, &bytes, PRIVATE_FILE, sync).map_err(failed)?;
        self.seen = Some(Seen::now(path, bytes));
        Ok(())
    }

    /// Looks whether the command that just ended touched the record; repairs what was deleted.
    ///
    /// Returns what was changed, to be recorded as a broken guard.
    pub(super) fn inspect(&mut self, phase: CommandPhase) -> Result<Inspection, Failure> {
        let receipt = self
            .receipt
            .tampering()
            .map_err(|error| unrecorded(&error))?;
        let state = self.seen.as_mut().map_or(Since::Same, Seen::since);
        let acts = self.acts.as_mut().map_or(Since::Same, Seen::since);
        let mut inspection = Inspection {
            phase,
            restored: 0,
            changed: Vec::new(),
        };
        self.inspect_copy(&mut inspection)?;
        if receipt == Tampering::None && state == Since::Same && acts == Since::Same {
            return Ok(inspection);
        }
        self.remake_store()?;
        match receipt {
            Tampering::None => {}
            Tampering::Deleted => {
                inspection.restored = self
                    .receipt
                    .write_again(None)
                    .map_err(|error| unrecorded(&error))?;
            }
            Tampering::Changed => {
                let aside = self.aside("receipt")?;
                self.receipt
                    .write_again(Some(&aside))
                    .map_err(|error| unrecorded(&error))?;
                inspection.changed.push(name_of(self.receipt.path()));
            }
        }
        if let (Since::Changed, Some(seen)) = (state, &self.seen) {
            inspection.changed.push(name_of(seen.path()));
        }
        if acts != Since::Same && self.acts_were_forged()? {
            inspection.changed.push("workspace.jsonl".to_owned());
        }
        if let Some(seen) = self.seen.take() {
            let (path, bytes) = (seen.path().to_owned(), seen.bytes().to_vec());
            replace_file(&path, &bytes, PRIVATE_FILE, SyncMode::None)
                .map_err(|error| Failure::internal(chain(&error)).because("state_write_failed"))?;
            snapshot::point_latest(&self.layout, &self.state()?.run_id, &bytes)
                .map_err(|error| Failure::internal(chain(&error)).because("state_write_failed"))?;
            self.seen = Some(Seen::now(path, bytes));
        }
        Ok(inspection)
    }

    /// Whether the workspace log holds what no command of this program wrote; it is then put right from the copy outside.
    ///
    /// An act that another command recorded meanwhile stands in the copy too, and is none.
    fn acts_were_forged(&mut self) -> Result<bool, Failure> {
        let path = self.layout.workspace_log();
        // While another command of this program appends, the copy is a moment ahead.
        let held = path
            .is_file()
            .then(|| FileLock::acquire(&path, APPEND_PATIENCE));
        let found = read_regular(&path, LOG_FILE_BYTES);
        let before = self
            .acts
            .as_ref()
            .map(|seen| seen.bytes().to_vec())
            .unwrap_or_default();
        let copy = self
            .layout
            .outside()
            .map(|place| place.join("workspace.jsonl"));
        let outside = copy
            .as_ref()
            .and_then(|copy| read_regular(copy, LOG_FILE_BYTES).ok());
        // The copy may hold more than at the last look, since people add to it, and never less or something else.
        let (truth, copied) = match outside {
            Some(outside) if outside.starts_with(&before) => (outside, true),
            Some(_) => (before, false),
            None => (before, true),
        };
        // A log that is gone is what an innocent `git clean -fdx` leaves; one that was cut is not.
        let (same, cut) = match found {
            Ok(bytes) => (bytes == truth, bytes != truth),
            Err(error) => (false, error.kind() != std::io::ErrorKind::NotFound),
        };
        let forged = cut || !copied;
        if let (false, Some(copy)) = (copied, &copy) {
            replace_file(copy, &truth, PRIVATE_FILE, SyncMode::Full).map_err(|error| {
                Failure::internal(chain(&error)).because("workspace_log_unusable")
            })?;
        }
        if cut {
            let aside = self.aside("workspace")?;
            fs_err::rename(&path, aside).map_err(|error| {
                Failure::internal(error.to_string()).because("workspace_log_unusable")
            })?;
        }
        if !same {
            replace_file(&path, &truth, PRIVATE_FILE, SyncMode::Full).map_err(|error| {
                Failure::internal(chain(&error)).because("workspace_log_unusable")
            })?;
        }
        drop(held);
        self.acts = Some(Seen::now(path, truth));
        Ok(forged)
    }

    /// Writes the state for the first time in this process, and makes it the workspace's latest.
    pub(super) fn publish_state(&mut self) -> Result<(), Failure> {
        self.write_state(SyncMode::None)?;
        let bytes = self
            .seen
            .as_ref()
            .map(|seen| seen.bytes().to_vec())
            .unwrap_or_default();
        snapshot::point_latest(&self.layout, &self.state()?.run_id, &bytes)
            .map_err(|error| unrecorded(&LogError::Write(error)))
    }

    /// Makes the workspace log and its copy agree, and remembers how it looks.
    pub(super) fn look_at_acts(&mut self) -> Result<(), Failure> {
        let log = WorkspaceLog::align(&self.layout)
            .map_err(|error| Failure::invariant(chain(&error)).because("workspace_log_damaged"))?;
        self.acts = Some(Seen::now(self.layout.workspace_log(), log.bytes().to_vec()));
        Ok(())
    }

    /// Looks at the second copy, and makes it again where it was touched: it is what speaks for the receipt later.
    fn inspect_copy(&mut self, inspection: &mut Inspection) -> Result<(), Failure> {
        let failed = |error| unrecorded(&error);
        match self.receipt.copy_tampering().map_err(failed)? {
            Tampering::None => return Ok(()),
            Tampering::Deleted => self.notes.push(format!(
                "the {} command deleted the copy of the record outside the workspace; it was made again",
                inspection.phase.name()
            )),
            Tampering::Changed => inspection.changed.push(OUTSIDE_COPY.to_owned()),
        }
        self.receipt.write_copy_again().map_err(failed)
    }

    /// Makes the directories of the store again, where they are gone.
    fn remake_store(&self) -> Result<(), Failure> {
        if !self.layout.workdir().is_dir() {
            let copy = self.layout.outside().map_or_else(String::new, |place| {
                format!("; the record up to here is kept in {}", place.display())
            });
            return Err(Failure::workspace(format!(
                "the workspace {} is gone: the last command removed it{copy}",
                self.layout.workdir().display()
            ))
            .because("workspace_removed"));
        }
        if !self.lock.still_named().unwrap_or(false) {
            return Err(Failure::workspace(format!(
                "the workspace {} is another directory now: the last command moved the locked one away",
                self.layout.workdir().display()
            ))
            .because("workspace_replaced"));
        }
        let run_id = self.state()?.run_id.clone();
        store::prepare(&self.layout, Some(&run_id))?;
        store::bring_receipts_back(&self.layout, &run_id);
        Ok(())
    }

    /// A fresh path for what has to be kept as evidence.
    fn aside(&self, what: &str) -> Result<PathBuf, Failure> {
        let run = self.layout.run_directory(&self.state()?.run_id);
        let place = run.join("tampered");
        create_private_directory(&place).map_err(|error| Failure::internal(chain(&error)))?;
        let seq = self.state()?.records;
        Ok(place.join(format!("{what}-{seq}")))
    }

    /// Records what an inspection found.
    pub(super) fn report(&mut self, inspection: Inspection) -> Result<(), Failure> {
        if inspection.restored > 0 {
            let (phase, records) = (inspection.phase, inspection.restored);
            self.record(
                Event::ReceiptRestored(ReceiptRestored { phase, records }),
                true,
            )?;
            self.notes.push(format!(
                "the {} command deleted the record in .loopexec; it was written again from the copy",
                phase.name()
            ));
        }
        if !inspection.changed.is_empty() {
            let stage = match inspection.phase {
                CommandPhase::Check | CommandPhase::Failures => GuardStage::Result,
                CommandPhase::Exec | CommandPhase::Integrity => GuardStage::Static,
            };
            let now = format!(
                "changed during the {} command; kept in runs/<id>/tampered, or beside the copy",
                inspection.phase.name()
            );
            let results = vec![guard::receipt_tampered(inspection.changed, &now)];
            self.record(Event::Guards(Guards { stage, results }), false)?;
        }
        Ok(())
    }

    /// Ends the guardian and everything below it.
    pub(super) fn close(&mut self) {
        drop(self.guardian.take());
    }
}

/// What a command did to the record.
pub(super) struct Inspection {
    phase: CommandPhase,
    restored: u64,
    changed: Vec<String>,
}

fn name_of(path: &std::path::Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
