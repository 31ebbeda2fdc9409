//! Whether a person's act would be done by the very loop that it is to judge.
//!
//! A work command runs as the same user and could acknowledge or sign its own work. Must not know which act is refused.

use loopexec_os::process;

use crate::{failure::Failure, layout::Layout, run::holder_name};

/// Refuses an act from within a run: `LOOPEXEC_RUN_ID` is set, or a live governor of this workspace is an ancestor.
///
/// # Errors
///
/// When it is so.
pub fn refuse(layout: &Layout, act: &str, told: Option<&str>) -> Result<(), Failure> {
    let holder = holder_name(layout)
        .filter(|(pid, _)| process::ancestors().contains(&process::Pid(*pid)))
        .map(|(_, run_id)| run_id);
    match told.map(str::to_owned).or(holder) {
        None => Ok(()),
        Some(run_id) => Err(Failure::workspace(format!(
            "{act} is an act of a person and is refused from within the run {run_id:?}"
        ))
        .because("refused_inside_run")
        .hint("do it from a shell that the run did not start, when the run has ended")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_was_told_its_run_is_inside_it() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path(), None);
        assert!(refuse(&layout, "ack", None).is_ok());
        let failure = refuse(&layout, "ack", Some("local")).unwrap_err();
        assert_eq!(failure.cause, Some("refused_inside_run"));
    }

    #[test]
    fn a_holder_is_inside_only_when_it_is_an_ancestor() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path(), None);
        fs_err::create_dir(layout.store()).unwrap();
        let hold = |pid: u32| {
            let name = format!("{{\"pid\":{pid},\"run_id\":\"local\"}}\n");
            fs_err::write(layout.file("lock"), name).unwrap();
        };
        hold(process::ancestors().first().unwrap().0);
        assert!(refuse(&layout, "ack", None).is_err());
        hold(u32::MAX);
        assert!(refuse(&layout, "ack", None).is_ok());
    }
}
