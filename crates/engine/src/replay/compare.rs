//! Compares a check's verdict with the recorded one, level by level. A function of two sets of facts.
//!
//! Must not run anything or know where it ran.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Answer, Drift};

/// What of a verdict is compared, the strongest that can survive a repetition first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Exit code and the ids of every test: needs a reporter.
    Verdict,
    /// Exit code and the output without timings, temporary paths and the like.
    StableOutput,
    /// Exit code and the same lines in whatever order; weaker.
    UnorderedOutput,
    /// Exit code and the output byte for byte.
    Output,
}

impl Level {
    /// The public string.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Verdict => "verdict",
            Self::StableOutput => "stable_output",
            Self::UnorderedOutput => "unordered_output",
            Self::Output => "output",
        }
    }
}

/// One level, compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Compared {
    /// Which.
    pub level: Level,
    /// Digest in the receipt.
    pub recorded: String,
    /// Digest now; absent when this replay could not take it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// Whether they are equal.
    pub equal: bool,
}

/// How a check ended: an exit code, or the signal that ended it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
}

/// What a replay comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conclusion {
    pub(super) answer: Answer,
    pub(super) level: Option<Level>,
    pub(super) cause: Option<&'static str>,
}

/// Concludes. `levels` are in order of strength; with `strict` only the bytes count.
pub(super) fn conclude(
    recorded: Exit,
    now: Exit,
    levels: &[Compared],
    strict: bool,
    drift: &[Drift],
) -> Conclusion {
    let counts = |level: Level| match level {
        Level::Output => strict,
        Level::Verdict | Level::StableOutput | Level::UnorderedOutput => !strict,
    };
    let has_verdict = levels
        .iter()
        .any(|compared| compared.level == Level::Verdict && counts(compared.level));
    let mut wanted = levels
        .iter()
        .filter(|compared| counts(compared.level))
        // Where the ids of the tests are known they are what the verdict is: equal words say nothing more.
        .filter(|compared| !has_verdict || compared.level == Level::Verdict);
    let level = wanted
        .find(|compared| compared.equal)
        .map(|compared| compared.level);
    if recorded == now && level.is_some() {
        return Conclusion {
            answer: Answer::Verified,
            level,
            cause: None,
        };
    }
    if drift.iter().any(|drift| drift.decides) {
        return Conclusion {
            answer: Answer::NotComparable,
            level: None,
            cause: Some("not_comparable"),
        };
    }
    let cause = if recorded == now {
        "output_differs"
    } else {
        "verdict_differs"
    };
    Conclusion {
        answer: Answer::Refuted,
        level: None,
        cause: Some(cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREEN: Exit = Exit {
        code: Some(0),
        signal: None,
    };

    fn compared(level: Level, equal: bool) -> Compared {
        Compared {
            level,
            recorded: "a".to_owned(),
            now: Some(if equal { "a" } else { "b" }.to_owned()),
            equal,
        }
    }

    fn all(stable: bool, unordered: bool, bytes: bool) -> Vec<Compared> {
        vec![
            compared(Level::StableOutput, stable),
            compared(Level::UnorderedOutput, unordered),
            compared(Level::Output, bytes),
        ]
    }

    fn tool(decides: bool) -> Drift {
        Drift {
            name: "sh".to_owned(),
            recorded: "a".to_owned(),
            now: "b".to_owned(),
            decides,
        }
    }

    #[test]
    fn the_strongest_level_that_holds_is_named() {
        for (levels, level) in [
            (all(true, true, true), Level::StableOutput),
            (all(true, true, false), Level::StableOutput),
            (all(false, true, false), Level::UnorderedOutput),
        ] {
            let conclusion = conclude(GREEN, GREEN, &levels, false, &[]);
            assert_eq!(conclusion.answer, Answer::Verified);
            assert_eq!(conclusion.level, Some(level));
        }
    }

    #[test]
    fn strict_asks_for_the_bytes_alone() {
        let strict = |levels: &[Compared]| conclude(GREEN, GREEN, levels, true, &[]);
        assert_eq!(strict(&all(false, false, true)).level, Some(Level::Output));
        let refused = strict(&all(true, true, false));
        assert_eq!(refused.answer, Answer::Refuted);
        assert_eq!(refused.cause, Some("output_differs"));
    }

    #[test]
    fn with_test_ids_the_words_around_them_count_neither_way() {
        let mut levels = all(true, true, true);
        levels.insert(0, compared(Level::Verdict, false));
        let conclusion = conclude(GREEN, GREEN, &levels, false, &[]);
        assert_eq!(conclusion.answer, Answer::Refuted);
        let mut levels = all(false, false, false);
        levels.insert(0, compared(Level::Verdict, true));
        let conclusion = conclude(GREEN, GREEN, &levels, false, &[]);
        assert_eq!(conclusion.level, Some(Level::Verdict));
    }

    #[test]
    fn another_exit_is_another_verdict_also_with_equal_words() {
        let red = Exit {
            code: Some(1),
            signal: None,
        };
        let killed = Exit {
            code: None,
            signal: Some(9),
        };
        for other in [red, killed] {
            let conclusion = conclude(GREEN, other, &all(true, true, true), false, &[]);
            assert_eq!(conclusion.answer, Answer::Refuted);
            assert_eq!(conclusion.cause, Some("verdict_differs"));
        }
    }

    #[test]
    fn a_difference_under_another_tool_is_not_comparable_and_equality_is_verified_under_any() {
        let differs = all(false, false, false);
        let tools = [tool(true)];
        let conclusion = conclude(GREEN, GREEN, &differs, false, &tools);
        assert_eq!(conclusion.answer, Answer::NotComparable);
        let conclusion = conclude(GREEN, GREEN, &all(true, true, true), false, &tools);
        assert_eq!(conclusion.answer, Answer::Verified);
        let conclusion = conclude(GREEN, GREEN, &differs, false, &[tool(false)]);
        assert_eq!(conclusion.answer, Answer::Refuted);
    }
}
