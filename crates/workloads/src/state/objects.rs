//! Many objects that share a budget: the choice of objects for each update, and their ages.
//!
//! A priority accumulator decides (Fiedler, *State Synchronization*, 2015): with each tick an object's accumulator
//! grows by its priority; the objects with the highest accumulators fill the budget of the update, and their
//! accumulators start again at 0. So important objects are sent often, and no object starves.

use std::cmp::Reverse;

use deadheat_base::time::Nanos;
use deadheat_contract::measurements::Tally;

use super::ages::{Ages, Showing, summed};
use crate::paced::{Measure, saw};

/// Objects, with a budget for each update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Crowd {
    /// Number of objects.
    pub(super) objects: usize,
    /// Number of near objects, which have the priority [`NEAR`].
    pub(super) near: usize,
    /// Objects in each update.
    pub(super) each: usize,
}

/// Priority of near objects, if the others have 1: Fiedler's value for objects that the player moves.
const NEAR: u64 = 100;

impl Crowd {
    /// Returns the objects in each of `count` updates.
    fn updates(self, count: u64) -> impl Iterator<Item = Vec<usize>> {
        let mut waiting = vec![0u64; self.objects];
        (0..count).map(move |_| {
            for (object, waiting) in waiting.iter_mut().enumerate() {
                *waiting += if object < self.near { NEAR } else { 1 };
            }
            let mut order: Vec<usize> = (0..self.objects).collect();
            // Among equals the first is taken; the order is the same at both ends.
            order.sort_by_key(|object| Reverse(waiting[*object]));
            order.truncate(self.each);
            for object in &order {
                waiting[*object] = 0;
            }
            order
        })
    }
}

/// Ages of all objects.
pub(super) struct Objects {
    crowd: Crowd,
    ages: Vec<Ages>,
    /// Objects in each update.
    updates: Vec<Vec<usize>>,
}

impl Objects {
    pub(super) fn new(crowd: Crowd, count: u64, showing: Showing) -> Objects {
        let updates: Vec<Vec<usize>> = crowd.updates(count).collect();
        let mut counts = vec![0u64; crowd.objects];
        for object in updates.iter().flatten() {
            counts[*object] += 1;
        }
        // Each object has a phase of its own.
        let phase = |object: usize| Nanos(1_000_000_000 / crowd.objects as u64 * object as u64);
        let of = |(object, count)| Ages::new(count, Showing { phase: phase(object), ..showing });
        Objects { crowd, ages: counts.into_iter().enumerate().map(of).collect(), updates }
    }
}

impl Measure for Objects {
    fn note(&mut self, now: Nanos, seq: u64, due: Option<Nanos>, received: &Tally) {
        for object in self.updates.get(seq as usize).into_iter().flatten() {
            self.ages[*object].note(now, seq, due, received);
        }
    }

    /// Returns the figures. Each object's age counts over its own time, from its first arrival to its last.
    fn figures(&self) -> Option<Vec<(&'static str, f64)>> {
        let teeth = |of: &[Ages]| of.iter().flat_map(Ages::teeth).collect::<Vec<_>>();
        let all = teeth(&self.ages);
        let (near, rest) = self.ages.split_at(self.crowd.near);
        let mut figures = vec![
            ("age_mean_ns", saw::mean(&all)?),
            ("age_p99_ns", saw::quantile(&all, 0.99)),
            ("age_max_ns", all.iter().map(|tooth| tooth.from + tooth.lasted).max()? as f64),
        ];
        let of = |name, part: &[Ages]| Some((name, saw::mean(&teeth(part))?));
        figures.extend(
            [of("near_age_mean_ns", near), of("rest_age_mean_ns", rest)].into_iter().flatten(),
        );
        figures.extend(summed(self.ages.iter().flat_map(Ages::errors).collect()));
        Some(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::motion::{Display, Motion};

    const MS: u64 = 1_000_000;
    const SHOWING: Showing = Showing {
        motion: Motion::Sine,
        display: Display::Hold,
        period: Nanos(10 * MS),
        phase: Nanos::ZERO,
    };

    fn figure(objects: &Objects, name: &str) -> f64 {
        objects.figures().unwrap().into_iter().find(|(n, _)| *n == name).unwrap().1 / MS as f64
    }

    fn delivered(crowd: Crowd, count: u64) -> Objects {
        let mut objects = Objects::new(crowd, count, SHOWING);
        for tick in 0..count {
            let due = Nanos(10 * MS * tick);
            objects.note(due + Nanos(25 * MS), tick, Some(due), &Tally::default());
        }
        objects
    }

    #[test]
    fn equal_objects_take_turns() {
        let crowd = Crowd { objects: 6, near: 0, each: 2 };
        let updates: Vec<Vec<usize>> = crowd.updates(4).collect();
        assert_eq!(updates, [[0, 1], [2, 3], [4, 5], [0, 1]]);
        // Each third tick: the delay and half of three periods.
        let objects = delivered(crowd, 60);
        assert_eq!(figure(&objects, "age_mean_ns"), 25.0 + 15.0);
        assert_eq!(figure(&objects, "age_max_ns"), 25.0 + 30.0);
        assert!(objects.figures().unwrap().iter().all(|(name, _)| *name != "near_age_mean_ns"));
    }

    #[test]
    fn what_is_near_goes_in_each_update_and_the_rest_in_turns() {
        let crowd = Crowd { objects: 10, near: 2, each: 4 };
        let objects = delivered(crowd, 200);
        assert_eq!(figure(&objects, "near_age_mean_ns"), 25.0 + 5.0);
        // Eight share two places.
        assert_eq!(figure(&objects, "rest_age_mean_ns"), 25.0 + 20.0);
    }

    #[test]
    fn nothing_is_forgotten_where_what_is_near_fills_the_budget() {
        let crowd = Crowd { objects: 3, near: 2, each: 1 };
        let updates: Vec<usize> = crowd.updates(1_000).flatten().collect();
        let rest = updates.iter().filter(|object| **object == 2).count();
        // It waits until it has more than what is near has gathered: 100 and 200, in turns.
        assert!((4..=11).contains(&rest), "{rest}");
        assert_eq!(crowd.updates(1_000).flatten().collect::<Vec<_>>(), updates);
    }
}
