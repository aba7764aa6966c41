//! Prague congestion control (draft-briscoe-iccrg-prague-congestion-control) for quinn: a share α of marked bytes, smoothed
//! over round trips, takes α/2 off the window once per round trip; a loss takes a half. The window grows by a packet per
//! round trip, more slowly where that is shorter than 25 ms (section 2.4.4).
//!
//! quinn reports that an acknowledgement has marks, not how many: all its bytes count as marked. Its far end acknowledges
//! a marked packet at once (RFC 9000, section 13.2.1), so that these are few.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};

/// Gain of the smoothed share.
const GAIN: f64 = 1.0 / 16.0;
/// Shortest round trip in which the window grows by a packet.
const VIRTUAL_RTT: Duration = Duration::from_millis(25);
/// Packets of the first window (RFC 9002, section 7.2), and of the smallest.
const FIRST: f64 = 10.0;
const LEAST: f64 = 2.0;

/// Maker of controllers.
pub(super) struct PragueFactory;

impl ControllerFactory for PragueFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Prague::new(now, current_mtu))
    }
}

/// State of one sender.
#[derive(Debug, Clone)]
struct Prague {
    packet: f64,
    window: f64,
    is_starting: bool,
    /// Smoothed share of marked bytes; 1 until the first mark.
    alpha: f64,
    saw_mark: bool,
    /// Start of the round trip over which the share is taken, with the bytes in it that were acknowledged and marked.
    round: Instant,
    acked: f64,
    marked: f64,
    /// Bytes of the acknowledgement that is being read.
    batch: f64,
    /// Bytes of the last one.
    last: f64,
    /// Bytes of it that let the window grow: none where the window was not in use, or after a mark.
    growth: f64,
    /// Time of the last reduction: packets sent before cause no other.
    reduced: Instant,
    rtt: Duration,
}

impl Prague {
    fn new(now: Instant, mtu: u16) -> Prague {
        let packet = f64::from(mtu);
        Prague {
            packet,
            window: FIRST * packet,
            is_starting: true,
            alpha: 1.0,
            saw_mark: false,
            round: now,
            acked: 0.0,
            marked: 0.0,
            batch: 0.0,
            last: 0.0,
            growth: 0.0,
            reduced: now,
            rtt: VIRTUAL_RTT,
        }
    }

    /// Notes a packet that was acknowledged.
    fn acknowledged(&mut self, now: Instant, sent: Instant, bytes: f64) {
        let growth = std::mem::take(&mut self.growth);
        if self.is_starting {
            self.window += growth;
        } else {
            let slow = (self.rtt.as_secs_f64() / VIRTUAL_RTT.as_secs_f64()).min(1.0);
            self.window += slow * slow * self.packet * growth / self.window;
        }
        if sent >= self.round && now >= self.round + VIRTUAL_RTT {
            if self.saw_mark && self.acked > 0.0 {
                self.alpha += GAIN * (self.marked / self.acked - self.alpha);
            }
            (self.round, self.acked, self.marked) = (now, 0.0, 0.0);
        }
        self.acked += bytes;
        self.batch += bytes;
    }

    fn reduce(&mut self, now: Instant, sent: Instant, share: f64) {
        self.is_starting = false;
        if sent > self.reduced {
            self.reduced = now;
            self.window = (self.window * (1.0 - share)).max(LEAST * self.packet);
        }
    }
}

impl Controller for Prague {
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, _: bool, rtt: &RttEstimator) {
        self.rtt = rtt.get();
        self.acknowledged(now, sent, bytes as f64);
    }

    fn on_end_acks(&mut self, _: Instant, _: u64, app_limited: bool, _: Option<u64>) {
        self.last = std::mem::take(&mut self.batch);
        self.growth = if app_limited { 0.0 } else { self.last };
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        if lost_bytes == 0 {
            self.saw_mark = true;
            self.marked += self.last;
            self.growth = 0.0;
            self.reduce(now, sent, self.alpha / 2.0);
        } else {
            self.reduce(now, sent, 0.5);
        }
        if is_persistent_congestion {
            self.window = LEAST * self.packet;
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.packet = f64::from(new_mtu);
        self.window = self.window.max(LEAST * self.packet);
    }

    fn window(&self) -> u64 {
        self.window as u64
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        (FIRST * self.packet) as u64
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    /// Acknowledges a packet by itself, sent a round trip before; marked or not.
    fn acknowledge(prague: &mut Prague, now: Instant, is_marked: bool) {
        prague.rtt = RTT;
        prague.acknowledged(now, now - RTT, 1_000.0);
        prague.on_end_acks(now, 0, false, None);
        if is_marked {
            prague.on_congestion_event(now, now - RTT, false, 0);
        }
    }

    /// Runs packets of a window in each round trip, of which `is_marked` picks some, and returns the mean window in packets
    /// over the second half.
    fn mean_window(prague: &mut Prague, rounds: u32, is_marked: impl Fn(u64) -> bool) -> f64 {
        let (mut now, mut n, mut sum) = (prague.round.max(prague.reduced) + 2 * RTT, 0, 0.0);
        for round in 0..rounds {
            let packets = (prague.window / 1_000.0) as u32;
            for _ in 0..packets {
                now += RTT / packets;
                n += 1;
                acknowledge(prague, now, is_marked(n));
            }
            sum += if round >= rounds / 2 { prague.window / 1_000.0 } else { 0.0 };
        }
        sum / f64::from(rounds - rounds / 2)
    }

    #[test]
    fn a_mark_halves_at_first_and_then_takes_half_of_the_smoothed_share_once_a_round_trip() {
        let start = Instant::now();
        let mut prague = Prague::new(start, 1_000);
        let now = start + 2 * RTT;
        acknowledge(&mut prague, now, true);
        acknowledge(&mut prague, now, true);
        assert_eq!(prague.window(), 5_000);
        let mean = mean_window(&mut prague, 400, |n| n % 40 == 0);
        assert!((prague.alpha - 1.0 / 40.0).abs() < 0.01, "{}", prague.alpha);
        // A packet more in each round trip, α/2 of W less in those with a mark: between 2/p and what marks apart allow.
        assert!((55.0..110.0).contains(&mean), "{mean}");
        // All marked: two packets remain, and no mark for long forgets nothing at once.
        let mean = mean_window(&mut prague, 200, |_| true);
        assert!(mean < 3.0 && prague.alpha > 0.99, "{mean} {}", prague.alpha);
    }

    #[test]
    fn a_loss_takes_a_half_and_a_mark_beside_it_no_more() {
        let start = Instant::now();
        let mut prague = Prague::new(start, 1_000);
        let now = start + RTT;
        prague.on_congestion_event(now, now - RTT / 2, false, 1_000);
        prague.on_congestion_event(now, now - RTT / 2, false, 0);
        assert_eq!(prague.window(), 5_000);
        prague.on_congestion_event(now + RTT, now + RTT / 2, true, 1_000);
        assert_eq!(prague.window(), 2_000);
    }

    #[test]
    fn short_round_trips_grow_by_less_and_an_idle_sender_not_at_all() {
        let grown = |rtt: Duration, grows: bool| {
            let start = Instant::now();
            let mut prague = Prague::new(start, 1_000);
            (prague.is_starting, prague.rtt) = (false, rtt);
            for n in 1..=11 {
                prague.acknowledged(start + rtt * n, start, 1_000.0);
                prague.on_end_acks(start, 0, !grows, None);
            }
            prague.window - 10_000.0
        };
        assert!((grown(RTT, true) - 957.0).abs() < 10.0, "{}", grown(RTT, true));
        assert!((grown(Duration::from_millis(5), true) / grown(RTT, true) - 0.04).abs() < 0.003);
        assert_eq!(grown(RTT, false), 0.0);
    }
}
