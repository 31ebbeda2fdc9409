//! From how a command ended to what that means: the three-way verdict, and the work command's failure.
//!
//! Must not know progress, guards or limits; sees one command at a time.

use crate::{
    event::{CommandEnd, Outcome},
    halt::FailureCause,
};

/// Exit codes by which a shell says that it could not run what it was given (POSIX, Shell Command Language 2.8.2).
const NOT_RUNNABLE: [i32; 2] = [126, 127];

/// The verdict of a check by its exit code alone.
///
/// A check that was ended, crashed or never ran is neither red nor green.
#[must_use]
pub fn check(end: &CommandEnd, success_exit_code: i32) -> (Outcome, Option<FailureCause>) {
    let unjudged = |cause| (Outcome::CannotJudge, Some(cause));
    match end.cause {
        Some(FailureCause::CommandTimeout | FailureCause::IdleTimeout) => {
            return unjudged(FailureCause::CheckTimeout);
        }
        Some(cause @ (FailureCause::Cancelled | FailureCause::DeadlineExceeded)) => {
            return unjudged(cause);
        }
        Some(_) => return unjudged(FailureCause::CheckNotRunnable),
        None => {}
    }
    match end.exit_code {
        Some(code) if NOT_RUNNABLE.contains(&code) => unjudged(FailureCause::CheckNotRunnable),
        Some(code) if code == success_exit_code => (Outcome::Pass, None),
        Some(_) => (Outcome::Reject, None),
        None => unjudged(FailureCause::CheckSignalled),
    }
}

/// Why the work command did not do its work; `None` when it did.
#[must_use]
pub fn work(end: &CommandEnd) -> Option<FailureCause> {
    if let Some(cause) = end.cause {
        return Some(cause);
    }
    if end.unkillable > 0 {
        return Some(FailureCause::ProcessNotEnded);
    }
    match end.exit_code {
        Some(0) => None,
        Some(_) => Some(FailureCause::WorkCommandFailed),
        None => Some(FailureCause::WorkCommandSignalled),
    }
}

/// Whether a legacy collector's run may be believed: exit 0 and output that was not refused.
#[must_use]
pub fn collector_failed(end: &CommandEnd) -> bool {
    end.cause.is_some() || end.exit_code != Some(0) || end.refused.is_some()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::event::CommandPhase;

    pub(crate) fn ended(phase: CommandPhase, exit_code: Option<i32>) -> CommandEnd {
        CommandEnd {
            phase,
            exit_code,
            signal: if exit_code.is_none() { Some(9) } else { None },
            cause: None,
            duration_ms: 1,
            cpu_ms: 0,
            max_rss_kib: 0,
            stdout_bytes: 0,
            stderr_bytes: 0,
            output_truncated: false,
            left_processes: None,
            guardian_lost: false,
            unkillable: 0,
            refused: None,
        }
    }

    fn because(cause: FailureCause) -> CommandEnd {
        CommandEnd {
            cause: Some(cause),
            ..ended(CommandPhase::Check, None)
        }
    }

    #[test]
    fn only_the_success_code_is_green() {
        for (code, success, outcome) in [
            (0, 0, Outcome::Pass),
            (1, 0, Outcome::Reject),
            (125, 0, Outcome::Reject),
            (128, 0, Outcome::Reject),
            (0, 3, Outcome::Reject),
            (3, 3, Outcome::Pass),
        ] {
            assert_eq!(
                check(&ended(CommandPhase::Check, Some(code)), success),
                (outcome, None)
            );
        }
    }

    #[test]
    fn a_check_that_did_not_run_to_its_end_cannot_be_judged() {
        let unjudged = |end: &CommandEnd, cause| {
            assert_eq!(check(end, 0), (Outcome::CannotJudge, Some(cause)));
        };
        unjudged(
            &ended(CommandPhase::Check, Some(126)),
            FailureCause::CheckNotRunnable,
        );
        unjudged(
            &ended(CommandPhase::Check, Some(127)),
            FailureCause::CheckNotRunnable,
        );
        unjudged(
            &ended(CommandPhase::Check, None),
            FailureCause::CheckSignalled,
        );
        unjudged(
            &because(FailureCause::CommandTimeout),
            FailureCause::CheckTimeout,
        );
        unjudged(
            &because(FailureCause::IdleTimeout),
            FailureCause::CheckTimeout,
        );
        unjudged(
            &because(FailureCause::DeadlineExceeded),
            FailureCause::DeadlineExceeded,
        );
        unjudged(&because(FailureCause::Cancelled), FailureCause::Cancelled);
        unjudged(
            &because(FailureCause::CheckNotRunnable),
            FailureCause::CheckNotRunnable,
        );
    }

    #[test]
    fn a_check_that_may_not_run_is_unjudged_even_when_that_code_was_called_success() {
        assert_eq!(
            check(&ended(CommandPhase::Check, Some(127)), 127).0,
            Outcome::CannotJudge
        );
    }

    #[test]
    fn work_succeeds_only_with_exit_zero_and_nothing_left() {
        let exec = |code| ended(CommandPhase::Exec, code);
        assert_eq!(work(&exec(Some(0))), None);
        assert_eq!(work(&exec(Some(1))), Some(FailureCause::WorkCommandFailed));
        assert_eq!(work(&exec(None)), Some(FailureCause::WorkCommandSignalled));
        let stuck = CommandEnd {
            unkillable: 1,
            ..exec(Some(0))
        };
        assert_eq!(work(&stuck), Some(FailureCause::ProcessNotEnded));
        let late = CommandEnd {
            cause: Some(FailureCause::CommandTimeout),
            ..exec(None)
        };
        assert_eq!(work(&late), Some(FailureCause::CommandTimeout));
    }

    #[test]
    fn a_collector_is_believed_only_when_clean() {
        let end = |code| ended(CommandPhase::Failures, code);
        assert!(!collector_failed(&end(Some(0))));
        assert!(collector_failed(&end(Some(1))));
        assert!(collector_failed(&end(None)));
        let refused = CommandEnd {
            refused: Some("stderr".into()),
            ..end(Some(0))
        };
        assert!(collector_failed(&refused));
        let late = CommandEnd {
            cause: Some(FailureCause::CommandTimeout),
            ..end(Some(0))
        };
        assert!(collector_failed(&late));
    }
}
