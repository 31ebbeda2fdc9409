//! The trajectory of the failing set: whether the loop comes closer, circles or stands still.
//!
//! This is the tracker of the public contract for `--failures-cmd`: the first observation starts it; an exact repeat
//! of any earlier set is an oscillation; then a resolved id that returns is a regression; then K iterations without a
//! new minimum are no progress. Must not know the check or the guards.

use std::collections::BTreeSet;

use crate::digest::Digest;

/// What the latest observation means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Movement {
    /// Nothing that ends a run.
    #[default]
    Open,
    /// The set equals an earlier one.
    Oscillated,
    /// An id that had left the set is in it again.
    Regressed,
    /// No new minimum for K iterations.
    Stalled,
}

/// One observation: in which iteration, how many failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The iteration.
    pub iteration: u32,
    /// |F|.
    pub failing: u32,
}

/// The fold over the failing sets of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracker {
    seen: BTreeSet<Digest>,
    resolved: BTreeSet<String>,
    previous: BTreeSet<String>,
    observations: Vec<Observation>,
    best: Option<Observation>,
    movement: Movement,
}

impl Tracker {
    /// Takes the failing set that a red check left.
    pub fn observe(&mut self, iteration: u32, failing: &BTreeSet<String>, digest: Digest, k: u32) {
        let observation = Observation {
            iteration,
            failing: u32::try_from(failing.len()).unwrap_or(u32::MAX),
        };
        let first = self.observations.is_empty();
        let repeated = !self.seen.insert(digest);
        let returned = failing.iter().any(|id| self.resolved.contains(id));
        self.observations.push(observation);
        if self
            .best
            .is_none_or(|best| observation.failing < best.failing)
        {
            self.best = Some(observation);
        }
        self.resolved
            .extend(self.previous.difference(failing).cloned());
        self.previous.clone_from(failing);
        let since = iteration.saturating_sub(self.best.map_or(iteration, |best| best.iteration));
        self.movement = match (first, repeated, returned) {
            (true, _, _) => Movement::Open,
            (false, true, _) => Movement::Oscillated,
            (false, false, true) => Movement::Regressed,
            (false, false, false) if since >= k => Movement::Stalled,
            (false, false, false) => Movement::Open,
        };
    }

    /// What the latest observation means.
    #[must_use]
    pub fn movement(&self) -> Movement {
        self.movement
    }

    /// Every observation, in order.
    #[must_use]
    pub fn observations(&self) -> &[Observation] {
        &self.observations
    }

    /// The first observation.
    #[must_use]
    pub fn initial(&self) -> Option<Observation> {
        self.observations.first().copied()
    }

    /// The earliest observation with the smallest set.
    #[must_use]
    pub fn best(&self) -> Option<Observation> {
        self.best
    }

    /// Whether any observation was smaller than the first.
    #[must_use]
    pub fn ever_improved(&self) -> bool {
        match (self.initial(), self.best) {
            (Some(initial), Some(best)) => best.failing < initial.failing,
            (None, _) | (_, None) => false,
        }
    }

    /// Whether each of the last `k` observations (all, when there are fewer) was smaller than the one before it.
    ///
    /// One observation shows no direction.
    #[must_use]
    pub fn falling(&self, k: u32) -> bool {
        let k = usize::try_from(k).unwrap_or(usize::MAX).max(2);
        let skip = self.observations.len().saturating_sub(k);
        let recent = self.observations.get(skip..).unwrap_or_default();
        recent.len() > 1 && recent.is_sorted_by(|before, after| after.failing < before.failing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::set_digest;

    fn walk(sets: &[&[&str]], k: u32) -> Vec<Movement> {
        let mut tracker = Tracker::default();
        sets.iter()
            .zip(1..)
            .map(|(ids, iteration)| {
                let set: BTreeSet<String> = ids.iter().map(|id| (*id).to_owned()).collect();
                tracker.observe(iteration, &set, set_digest(&set), k);
                tracker.movement()
            })
            .collect()
    }

    use Movement::{Open, Oscillated, Regressed, Stalled};

    #[test]
    fn the_first_observation_never_ends_a_run() {
        assert_eq!(walk(&[&["a"]], 1), [Open]);
        assert_eq!(walk(&[&[]], 1), [Open]);
    }

    #[test]
    fn an_exact_repeat_is_an_oscillation_also_of_the_last_set() {
        assert_eq!(walk(&[&["a"], &["a"]], 9), [Open, Oscillated]);
        assert_eq!(walk(&[&["a"], &["b"], &["a"]], 9), [Open, Open, Oscillated]);
    }

    #[test]
    fn a_resolved_id_that_returns_in_a_new_set_is_a_regression() {
        assert_eq!(
            walk(&[&["a", "b"], &["b"], &["a", "c"]], 9),
            [Open, Open, Regressed]
        );
    }

    #[test]
    fn a_repeat_is_called_oscillation_even_when_it_regresses() {
        assert_eq!(
            walk(&[&["a", "b"], &["b"], &["a", "b"]], 9),
            [Open, Open, Oscillated]
        );
    }

    #[test]
    fn no_progress_comes_with_the_kth_attempt_and_not_one_before() {
        let sets: [&[&str]; 4] = [&["a"], &["b"], &["c"], &["d"]];
        assert_eq!(walk(&sets, 3), [Open, Open, Open, Stalled]);
        assert_eq!(walk(&sets, 2), [Open, Open, Stalled, Stalled]);
        assert_eq!(walk(&sets, 1), [Open, Stalled, Stalled, Stalled]);
    }

    #[test]
    fn a_new_minimum_starts_patience_again() {
        let sets: [&[&str]; 5] = [
            &["a", "b", "c"],
            &["b", "d", "c"],
            &["d", "e"],
            &["e", "f"],
            &["f", "g"],
        ];
        assert_eq!(walk(&sets, 2), [Open, Open, Open, Open, Stalled]);
    }

    #[test]
    fn falling_needs_the_last_observations_and_not_some_early_one() {
        let mut tracker = Tracker::default();
        let mut falling = Vec::new();
        for (size, iteration) in [9_u32, 5, 5, 4, 3].into_iter().zip(1..) {
            let set: BTreeSet<String> = (0..size).map(|n| format!("{iteration}-{n}")).collect();
            tracker.observe(iteration, &set, set_digest(&set), 100);
            falling.push(tracker.falling(3));
        }
        assert_eq!(falling, [false, true, false, false, true]);
        assert!(tracker.ever_improved());
        assert_eq!(
            tracker.best(),
            Some(Observation {
                iteration: 5,
                failing: 3
            })
        );
        assert_eq!(
            tracker.initial(),
            Some(Observation {
                iteration: 1,
                failing: 9
            })
        );
    }

    #[test]
    fn equal_sizes_never_improve() {
        let mut tracker = Tracker::default();
        for (id, iteration) in ["a", "b"].into_iter().zip(1..) {
            let set = BTreeSet::from([id.to_owned()]);
            tracker.observe(iteration, &set, set_digest(&set), 100);
        }
        assert!(!tracker.ever_improved());
        assert_eq!(tracker.best().map(|best| best.iteration), Some(1));
    }
}
