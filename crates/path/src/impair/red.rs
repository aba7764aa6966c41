//! Random early detection (Floyd & Jacobson, IEEE/ACM Transactions on Networking 1(4), 1993): packets that arrive are
//! dropped or marked by a probability that grows with the average queue. Thresholds and probability are the defaults of
//! tc-red(8), as shares of the queue's limit.
//!
//! Section VII of the paper derives hits that are uniform over the next 1/p_b packets: with p_b / (1 - n p_b), where n packets
//! have passed since the last hit, so that the first one is hit with p_b. Linux does the same (`red.h`). The paper's
//! pseudo-code and ns-3, which follows it, count the packet at hand after a hit as well: there the first one is hit with
//! p_b / (1 - p_b), and hits are uniform over 1/p_b - 1 packets.

use super::draw::{Model, Stream, unit};
use super::packet::Place;

/// Weight of a packet in the average (section VI).
const WEIGHT: f64 = 0.002;
/// Averages from which on packets are hit by chance, and all are, as shares of the limit.
const FROM: f64 = 1.0 / 12.0;
const TO: f64 = 1.0 / 4.0;
/// Probability just below the upper threshold.
const MOST: f64 = 0.02;
/// Bytes of the small packets by which an idle time is counted (section IV).
const SMALL: f64 = 1_000.0;

/// Average queue, and the packets since the last hit.
#[derive(Debug)]
pub(super) struct Red {
    draws: Stream,
    /// Average queue as a share of the limit.
    average: f64,
    /// Number of packets since the last hit, or since the average passed the lower threshold.
    count: u64,
    /// Time since which the queue is empty.
    pub(super) idle_from: Option<u64>,
}

impl Red {
    pub(super) fn new(place: Place) -> Red {
        let draws = Stream::new(place, Model::Early);
        Red { draws, average: 0.0, count: 0, idle_from: Some(0) }
    }

    /// Returns true if an arriving packet must be marked or dropped: it finds a queue of this share of its limit, which
    /// could have sent `idle` bytes while it was empty.
    pub(super) fn hits(&mut self, index: u64, filled: f64, idle: u64) -> bool {
        self.average *= (1.0 - WEIGHT).powf(idle as f64 / SMALL);
        self.average += WEIGHT * (filled - self.average);
        self.count += 1;
        if self.average < FROM {
            self.count = 0;
            return false;
        }
        let base = MOST * (self.average - FROM) / (TO - FROM);
        // `count` includes the packet at hand, which has not passed yet.
        let left = 1.0 - (self.count - 1) as f64 * base;
        let hit = self.average >= TO || unit(self.draws.draw(index)) * left < base;
        if hit {
            self.count = 0;
        }
        hit
    }
}
