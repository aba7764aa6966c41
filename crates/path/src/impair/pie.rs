//! Proportional integral controller enhanced (RFC 8033): a probability of dropping at arrival, computed every 15 ms
//! from the queueing time of packets. That time is measured on packets, as the RFC allows, and not estimated from
//! the rate of departures. Its timer runs in the channel's time.

use super::draw::{Model, Stream, unit};
use super::packet::{Item, Place};
use crate::network::Ecn;
use deadheat_base::time::Nanos;

/// Time between two updates (RFC 8033, section 4.2).
const PERIOD: u64 = 15_000_000;
/// Longest burst that passes before packets are dropped (RFC 8033, section 4.4).
const BURST: u64 = 150_000_000;
/// Gains for the distance from the target and for the change, per second (RFC 8033, section 4.2).
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
/// Divisors of the steps below each probability (RFC 8033, section 4.2).
const TUNING: [(f64, f64); 6] =
    [(1e-6, 2_048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];
/// Highest probability at which packets are marked; above it they are dropped even if they could be marked (RFC
/// 8033, section 5.1).
const MARK_UP_TO: f64 = 0.1;
/// Largest step from a probability of a tenth on (RFC 8033, section 5.5).
const LARGEST_STEP: f64 = 0.02;
/// Lower and upper limit of the sum of packets' probabilities between two drops (RFC 8033, section 5.4).
const SPACING: (f64, f64) = (0.85, 8.5);

/// State of the controller.
#[derive(Debug)]
pub(super) struct Pie {
    target: u64,
    draws: Stream,
    probability: f64,
    /// Sum of probabilities since the last drop.
    gathered: f64,
    delay: u64,
    old_delay: u64,
    burst: u64,
    next: u64,
}

impl Pie {
    pub(super) fn new(target: Nanos, place: Place) -> Pie {
        Pie {
            target: target.0,
            draws: Stream::new(place, Model::Early),
            probability: 0.0,
            gathered: 0.0,
            delay: 0,
            old_delay: 0,
            burst: BURST,
            next: PERIOD,
        }
    }

    /// Records a packet that leaves the queue after waiting for this time, with this number of bytes left behind.
    pub(super) fn seen(&mut self, waited: u64, left: u64) {
        self.delay = if left == 0 { 0 } else { waited };
    }

    /// Makes the updates that are due until `now`. Once one changes nothing, the later ones do not either.
    pub(super) fn tick(&mut self, now: u64) {
        while self.next <= now && self.next < u64::MAX {
            let before = (self.probability, self.old_delay, self.burst);
            self.update();
            if before == (self.probability, self.old_delay, self.burst) {
                self.next += (now - self.next) / PERIOD * PERIOD;
            }
            self.next = self.next.saturating_add(PERIOD);
        }
    }

    fn update(&mut self) {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let (delay, old, target) =
            (seconds(self.delay), seconds(self.old_delay), seconds(self.target));
        let mut step = ALPHA * (delay - target) + BETA * (delay - old);
        let tuning = TUNING.iter().find(|(below, _)| self.probability < *below);
        step /= tuning.map_or(1.0, |(_, divisor)| *divisor);
        if self.probability >= 0.1 {
            step = step.min(LARGEST_STEP);
        }
        self.probability += step;
        if self.delay == 0 && self.old_delay == 0 {
            self.probability *= 0.98;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.burst = self.burst.saturating_sub(PERIOD);
        let half = self.target / 2;
        if self.probability == 0.0 && self.delay < half && self.old_delay < half {
            self.burst = BURST;
        }
        self.old_delay = self.delay;
    }

    /// Returns true if an arriving packet must be dropped, with this number of bytes before it.
    pub(super) fn drops(&mut self, index: u64, waiting: u64, largest: u64) -> bool {
        let calm = self.old_delay < self.target / 2 && self.probability < 0.2;
        if self.burst > 0 || calm || waiting <= 2 * largest {
            return false;
        }
        if self.probability == 0.0 {
            self.gathered = 0.0;
        }
        self.gathered += self.probability;
        if self.gathered < SPACING.0 {
            return false;
        }
        let dropped = self.gathered >= SPACING.1 || unit(self.draws.draw(index)) < self.probability;
        if dropped {
            self.gathered = 0.0;
        }
        dropped
    }

    /// Returns true if a packet that would be dropped is marked instead.
    pub(super) fn may_mark<H>(&self, item: &Item<H>, ecn: Ecn) -> bool {
        ecn == Ecn::Marks && item.codepoint.is_capable() && self.probability <= MARK_UP_TO
    }
}
