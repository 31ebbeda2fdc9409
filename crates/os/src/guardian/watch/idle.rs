//! When a command counts as idle: neither output nor processor time for a whole window.
//!
//! It must not know clocks or processes: it is told times and samples. It may notice late, by one interval, but never early.

/// Samples of processor time in one window: finding out costs a walk over the tree.
const SAMPLES: u64 = 8;

#[derive(Debug)]
pub(super) struct IdleWatch {
    /// All in milliseconds.
    window: u64,
    quiet_since: u64,
    next_sample: u64,
    /// Processor time at the last sample. It also falls, when a process ends that nobody waits for; that too is activity.
    last_cpu: u64,
}

impl IdleWatch {
    pub(super) fn new(window: u64, now: u64) -> Self {
        let mut idle = Self {
            window: window.max(1),
            quiet_since: now,
            next_sample: now,
            last_cpu: 0,
        };
        idle.plan(now);
        idle
    }

    pub(super) fn next_sample(&self) -> u64 {
        self.next_sample
    }

    /// There was output.
    pub(super) fn active(&mut self, now: u64) {
        self.quiet_since = now;
    }

    /// Whether to ask for the processor time now; asking is then done for an interval.
    pub(super) fn wants_sample(&mut self, now: u64) -> bool {
        if now < self.next_sample {
            return false;
        }
        self.plan(now);
        true
    }

    /// Takes an answer. True: the command is idle.
    pub(super) fn sampled(&mut self, cpu: u64, now: u64) -> bool {
        if cpu != self.last_cpu {
            // It was used at some time since the sample before; the latest possible one counts.
            self.quiet_since = now;
        }
        self.last_cpu = cpu;
        now.saturating_sub(self.quiet_since) >= self.window
    }

    fn plan(&mut self, now: u64) {
        let interval = (self.window / SAMPLES).max(1);
        let full = self.quiet_since.saturating_add(self.window);
        let next = now.saturating_add(interval);
        // Not just before the window is full, which would cost an interval more.
        self.next_sample = if full > now { next.min(full) } else { next };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_without_anything_is_idle_and_one_millisecond_less_is_not() {
        let mut idle = IdleWatch::new(800, 1_000);
        assert!(!idle.sampled(0, 1_799));
        assert!(idle.sampled(0, 1_800));
    }

    #[test]
    fn output_starts_the_window_anew() {
        let mut idle = IdleWatch::new(800, 1_000);
        idle.active(1_700);
        assert!(!idle.sampled(0, 2_499));
        assert!(idle.sampled(0, 2_500));
    }

    #[test]
    fn processor_time_starts_the_window_anew_at_the_sample_that_shows_it() {
        let mut idle = IdleWatch::new(800, 0);
        assert!(!idle.sampled(0, 100));
        assert!(!idle.sampled(10, 200));
        assert!(!idle.sampled(10, 999));
        assert!(idle.sampled(10, 1_000));
    }

    #[test]
    fn time_that_falls_because_a_process_ended_is_activity() {
        let mut idle = IdleWatch::new(100, 0);
        assert!(!idle.sampled(50, 50));
        assert!(!idle.sampled(20, 149));
        assert!(!idle.sampled(20, 248));
        assert!(idle.sampled(20, 249));
    }

    #[test]
    fn a_sample_is_asked_for_once_an_interval_and_when_the_window_is_full() {
        let mut idle = IdleWatch::new(800, 0);
        assert!(!idle.wants_sample(99));
        assert!(idle.wants_sample(100));
        assert!(!idle.wants_sample(150));
        idle.active(130);
        assert!(idle.wants_sample(860));
        assert_eq!(idle.next_sample(), 930);
    }
}
