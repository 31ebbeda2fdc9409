//! The two clocks: one that measures, one for people.
//!
//! It must not know deadlines; it only answers what time it is.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The measuring clock. It goes on while the machine sleeps, so that a night of suspend counts against a deadline.
#[cfg(target_os = "linux")]
const MEASURING: ClockId = ClockId::Boottime;
/// The measuring clock. Here the monotonic clock is the one that goes on while the machine sleeps.
#[cfg(not(target_os = "linux"))]
const MEASURING: ClockId = ClockId::Monotonic;

/// Milliseconds since the machine started, sleep included. Never goes back within one boot.
#[must_use]
pub fn boot_millis() -> u64 {
    u64::try_from(millis(clock_gettime(MEASURING))).unwrap_or(0)
}

/// Microseconds since the machine started, sleep included: for short durations.
#[must_use]
pub fn boot_micros() -> u64 {
    let now = clock_gettime(MEASURING);
    let micros = now
        .tv_sec
        .saturating_mul(1_000_000)
        .saturating_add(now.tv_nsec / 1_000);
    u64::try_from(micros).unwrap_or(0)
}

/// Milliseconds of Unix time. People set this clock: it may jump in both directions.
#[must_use]
pub fn wall_millis() -> i64 {
    millis(clock_gettime(ClockId::Realtime))
}

fn millis(time: Timespec) -> i64 {
    time.tv_sec
        .saturating_mul(1_000)
        .saturating_add(time.tv_nsec / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measuring_clock_never_goes_back() {
        let mut last = boot_millis();
        for _ in 0..1_000 {
            let now = boot_millis();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn both_readings_of_the_measuring_clock_agree() {
        let before = boot_millis();
        let micros = boot_micros() / 1_000;
        assert!(micros >= before && micros <= boot_millis());
    }

    #[test]
    fn wall_time_is_after_the_year_2020() {
        assert!(wall_millis() > 1_577_836_800_000);
    }
}
