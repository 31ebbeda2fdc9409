//! Why an operation of the engine ended without a recorded halt: one type, with the exit class in it.
//!
//! Must not know how it is printed.

use loopexec_core::halt::HaltReason;

/// A failure that the person is told about.
#[derive(Debug)]
pub struct Failure {
    /// Names the exit class.
    pub reason: HaltReason,
    /// The additive `failure_cause`, in snake case.
    pub cause: Option<&'static str>,
    /// What was attempted, on which path or value, and why it failed; a lower-case fragment.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure with this class and text.
    #[must_use]
    pub fn new(reason: HaltReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            cause: None,
            message: message.into(),
            hint: None,
        }
    }

    /// The workspace or its configuration cannot be used.
    #[must_use]
    pub fn workspace(message: impl Into<String>) -> Self {
        Self::new(HaltReason::WorkspaceInvalid, message)
    }

    /// State contradicts its log, or a value can never be right.
    #[must_use]
    pub fn invariant(message: impl Into<String>) -> Self {
        Self::new(HaltReason::InvariantFailed, message)
    }

    /// The evidence does not bear out what is claimed.
    #[must_use]
    pub fn unverified(cause: &'static str, message: impl Into<String>) -> Self {
        Self::new(HaltReason::ObjectiveUnverified, message).because(cause)
    }

    /// A defect of this program, or a disk that does not take the record.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(HaltReason::InternalError, message)
    }

    /// Adds the additive cause.
    #[must_use]
    pub fn because(mut self, cause: &'static str) -> Self {
        self.cause = Some(cause);
        self
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// An error and its sources in one line, each said once.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let part = source.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_says_each_part_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot write the record")]
        struct Outer(#[source] std::io::Error);
        let error = Outer(std::io::Error::other("disk full"));
        assert_eq!(chain(&error), "cannot write the record: disk full");
    }
}
