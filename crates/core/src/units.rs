//! Integer quantities with their unit in the type, so that a derivation elsewhere agrees to the bit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Milliseconds of a run's own time: they count from its first record and include sleep.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct RunMillis(pub u64);

impl RunMillis {
    /// Adds, stopping at the largest value.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// What is left until `limit`; zero once it has passed.
    #[must_use]
    pub fn until(self, limit: Self) -> Self {
        Self(limit.0.saturating_sub(self.0))
    }
}

/// Millionths of a US dollar.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct MicroUsd(pub u64);

/// Decimal places that money may have: one micro-dollar.
const MONEY_DECIMALS: usize = 6;

/// Why a text is not an amount of money.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    /// Something else than digits and one point.
    #[error("{0:?} is not a decimal number of dollars, such as 1.25")]
    NotDecimal(String),
    /// Below zero.
    #[error("{0:?} is negative; an amount of money cannot be")]
    Negative(String),
    /// Finer than a micro-dollar.
    #[error("{0:?} has more than six decimals; a micro-dollar is the smallest unit")]
    TooFine(String),
    /// More than 64 bits of micro-dollars.
    #[error("{0:?} is more than this program can count")]
    TooLarge(String),
}

impl MicroUsd {
    /// Reads a decimal number of dollars with at most six decimals; no exponent, no sign but a refused minus.
    ///
    /// # Errors
    ///
    /// When the text is negative, not a plain decimal, too fine or too large.
    pub fn parse(text: &str) -> Result<Self, MoneyError> {
        let refuse = || MoneyError::NotDecimal(text.to_owned());
        if text.starts_with('-') {
            return Err(MoneyError::Negative(text.to_owned()));
        }
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
            return Err(refuse());
        }
        let fraction = fraction.trim_end_matches('0');
        if fraction.len() > MONEY_DECIMALS {
            return Err(MoneyError::TooFine(text.to_owned()));
        }
        let large = || MoneyError::TooLarge(text.to_owned());
        let whole: u64 = if whole.is_empty() {
            0
        } else {
            whole.parse().map_err(|_| large())?
        };
        let fraction: u64 = format!("{fraction:0<MONEY_DECIMALS$}")
            .parse()
            .map_err(|_| refuse())?;
        whole
            .checked_mul(1_000_000)
            .and_then(|micro| micro.checked_add(fraction))
            .map(Self)
            .ok_or_else(large)
    }
}

impl std::fmt::Display for MicroUsd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, fraction) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let digits = format!("{fraction:06}");
        let kept = digits.trim_end_matches('0');
        if kept.is_empty() {
            write!(f, "{whole}")
        } else {
            write!(f, "{whole}.{kept}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_read_to_the_micro_dollar_and_no_finer() {
        assert_eq!(MicroUsd::parse("0.000001"), Ok(MicroUsd(1)));
        assert_eq!(MicroUsd::parse("1.250000000"), Ok(MicroUsd(1_250_000)));
        assert_eq!(MicroUsd::parse(".5"), Ok(MicroUsd(500_000)));
        assert_eq!(MicroUsd::parse("3."), Ok(MicroUsd(3_000_000)));
        assert!(matches!(
            MicroUsd::parse("0.0000001"),
            Err(MoneyError::TooFine(_))
        ));
    }

    #[test]
    fn what_is_not_money_is_refused_with_its_reason() {
        for text in ["", ".", "abc", "1e3", "1,5", "+1", "NaN", "inf", " 1"] {
            assert!(
                matches!(MicroUsd::parse(text), Err(MoneyError::NotDecimal(_))),
                "{text:?}"
            );
        }
        assert!(matches!(
            MicroUsd::parse("-0.01"),
            Err(MoneyError::Negative(_))
        ));
        assert_eq!(
            MicroUsd::parse("18446744073709.551615"),
            Ok(MicroUsd(u64::MAX))
        );
        assert!(matches!(
            MicroUsd::parse("18446744073709.551616"),
            Err(MoneyError::TooLarge(_))
        ));
    }

    #[test]
    fn money_is_written_without_trailing_zeros() {
        for (amount, text) in [
            (0, "0"),
            (1, "0.000001"),
            (1_500_000, "1.5"),
            (2_000_000, "2"),
        ] {
            assert_eq!(MicroUsd(amount).to_string(), text);
        }
    }

    #[test]
    fn what_is_left_never_goes_below_zero() {
        assert_eq!(RunMillis(5).until(RunMillis(7)), RunMillis(2));
        assert_eq!(RunMillis(8).until(RunMillis(7)), RunMillis(0));
    }
}
