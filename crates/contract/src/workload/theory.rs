//! Closed forms: predictions for a figure on a path that loses packets independently, with their range of validity. A
//! workload chooses its form ([`super::Task::theory`]); `analysis/theory.rs` compares it with the measurement.

use crate::contract::{Direction, Guarantees};
use crate::measurements::name::GOODPUT;
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;

/// Properties of the path and the contender that closed forms use.
#[derive(Debug, Clone, Copy)]
pub struct Conditions<'a> {
    /// Path from near to far.
    pub up: Way,
    /// Path from far to near.
    pub down: Way,
    /// Largest IP packet, in bytes.
    pub mtu: u64,
    /// Bytes of an IP header.
    pub ip_header: u64,
    /// Guarantees of the contender.
    pub guarantees: &'a Guarantees,
    /// Its congestion control, by its usual name, if it reports one.
    pub control: Option<&'a str>,
}

/// A direction of a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Way {
    /// Propagation delay, the same for each packet.
    pub delay: Nanos,
    /// Probability of loss of each packet, independent of others.
    pub loss: f64,
    /// Rate at which packets leave; `None` if there is no limit.
    pub rate: Option<BitRate>,
}

/// Prediction of theory for one figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Name of the metric.
    pub metric: &'static str,
    /// Its value, in the metric's unit.
    pub value: f64,
    /// The form, with its letters explained.
    pub form: &'static str,
    /// Source of the form.
    pub source: &'static str,
    /// Largest relative deviation of the measurement that is not reported.
    pub tolerance: f64,
    /// Reason why it does not hold here; `None` within its range.
    pub outside: Option<String>,
}

/// Bytes of a UDP header.
const UDP_HEADER: u64 = 8;
/// Bytes of a TCP header with timestamps (RFC 7323).
const TCP_HEADER: u64 = 32;
/// Number of later messages by which a loss is detected (RFC 5681, RFC 9002).
const LATER_ONES: f64 = 3.0;
/// Largest expected number of losses during one recovery for which forms of single losses hold.
const MOST_OVERLAP: f64 = 0.1;
/// Smallest window in segments with which three later segments can detect a loss.
const LEAST_WINDOW: f64 = 4.0;
/// Largest share of a link up to which its queue is negligible.
const MOST_OF_LINK: f64 = 0.8;

impl Conditions<'_> {
    /// Returns the conditions of one direction.
    pub fn way(&self, direction: Direction) -> Way {
        match direction {
            Direction::Up => self.up,
            Direction::Down => self.down,
        }
    }

    /// Returns the number of packets of a datagram with `bytes` of data: its fragments, if it does not fit into one
    /// packet.
    pub fn packets(&self, bytes: usize) -> u32 {
        let whole = bytes as u64 + UDP_HEADER;
        let room = self.mtu.saturating_sub(self.ip_header).max(8);
        if whole <= room {
            return 1;
        }
        // Fragments but the last are multiples of 8 bytes (RFC 791, section 3.2).
        whole.div_ceil(room / 8 * 8) as u32
    }

    /// Returns the time on an empty path of a message with `bytes` of data, in nanoseconds.
    pub fn transit(&self, direction: Direction, bytes: usize) -> f64 {
        let way = self.way(direction);
        let whole = bytes as u64 + UDP_HEADER + self.ip_header;
        way.delay.0 as f64 + way.rate.map_or(0.0, |rate| whole as f64 * 8e9 / rate.0.max(1) as f64)
    }

    /// Returns the round trip of small packets, in nanoseconds.
    pub fn rtt(&self) -> f64 {
        (self.up.delay + self.down.delay).0 as f64
    }

    /// Returns the reason why forms without a queue do not hold for `bps` bits of data per second; `None` if they do.
    pub fn crowded(&self, direction: Direction, bps: f64) -> Option<String> {
        let rate = self.way(direction).rate?;
        (bps > MOST_OF_LINK * rate.0 as f64).then(|| {
            format!(
                "the work takes more than {:.0} % of the link, and queues",
                MOST_OF_LINK * 100.0
            )
        })
    }

    /// Returns the probability that a datagram of `bytes` is lost, which is the probability that any of its packets is
    /// lost.
    pub fn lost(&self, direction: Direction, bytes: usize) -> f64 {
        1.0 - (1.0 - self.way(direction).loss).powi(self.packets(bytes) as i32)
    }

    /// Returns the additional delay of a lost message, if a later message follows on the same connection every
    /// `period_ns`: three later messages detect the loss, and the report and the repeated message take a round trip.
    pub fn recovery(&self, period_ns: f64) -> f64 {
        self.rtt() + LATER_ONES * period_ns
    }

    /// Returns the goodput of one bulk flow with a congestion control with a known response to loss, in bits per
    /// second; `None` for others, and without losses.
    ///
    /// Reno: *sqrt(3/2) / sqrt(p)* segments in flight on average (Mathis et al. 1997; RFC 9438, section 5.1 for one
    /// acknowledgement a segment). CUBIC: the greater of that and *1.054 (R / p)^(3/4)* for a round trip of *R* seconds
    /// (the same section, for *C* = 0.4 and a decrease to 0.7).
    pub fn response(&self, direction: Direction, is_stream: bool) -> Option<Prediction> {
        let (p, rtt) = (self.way(direction).loss, self.rtt() / 1e9);
        if p <= 0.0 || rtt <= 0.0 {
            return None;
        }
        let reno = (1.5f64).sqrt() / p.sqrt();
        let (window, form, source) = match self.control? {
            "reno" => (
                reno,
                "S sqrt(3/2) / (R sqrt(p)), less p, for segments of S and a round trip R",
                "Mathis et al., CCR 27(3), 1997",
            ),
            "cubic" => (
                reno.max(CUBIC * (rtt / p).powf(0.75)),
                "S max(1.22 / sqrt(p), 1.05 (R / p)^(3/4)) / R, less p, for segments of S and a round trip R",
                "RFC 9438, section 5.1",
            ),
            _ => return None,
        };
        let header = if is_stream { TCP_HEADER } else { UDP_HEADER };
        let segment = self.mtu.saturating_sub(self.ip_header + header) as f64;
        let value = window * segment * 8.0 / rtt * (1.0 - p);
        let outside = match self.way(direction).rate {
            _ if window < LEAST_WINDOW => Some(format!(
                "a window of {window:.1} segments has too few to tell of a loss: timeouts rule"
            )),
            Some(rate) if value > MOST_OF_LINK * rate.0 as f64 => {
                Some("the link is slower than the losses allow".to_owned())
            }
            _ => None,
        };
        Some(Prediction { metric: GOODPUT, value, form, source, tolerance: 0.3, outside })
    }
}

/// Average window of CUBIC for a round trip of a second and every packet lost: (C (3 + b) / (4 (1 - b)))^(1/4) for C = 0.4
/// and b = 0.7.
const CUBIC: f64 = 1.054;

/// Returns the reason why losses are too frequent for a form of single losses; `None` if they are not. `per_ns` is the
/// number of messages of one order per nanosecond.
pub fn overlap(p: f64, per_ns: f64, recovery_ns: f64) -> Option<String> {
    let losses = p * per_ns * recovery_ns;
    (losses > MOST_OVERLAP).then(|| {
        format!("{losses:.2} losses in the time of one recovery, and {MOST_OVERLAP} are the most for a form that takes them one by one")
    })
}

/// Returns the mean time that a message in order waits for lost ones, itself included: *p (Tr + l Tr² / 2)* for *l*
/// messages of the order per nanosecond. A lost message arrives *Tr* later, and the *l Tr* messages after it wait for
/// half of that on average.
pub fn held_back(p: f64, per_ns: f64, recovery_ns: f64) -> f64 {
    p * (recovery_ns + per_ns * recovery_ns * recovery_ns / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(loss: f64, rate: Option<BitRate>, control: Option<&str>) -> Conditions<'_> {
        let way = Way { delay: Nanos::from_millis(25), loss, rate };
        let guarantees = &Guarantees::DATAGRAMS;
        Conditions { up: way, down: way, mtu: 1500, ip_header: 20, guarantees, control }
    }

    #[test]
    fn a_datagram_is_lost_with_any_of_its_fragments() {
        let path = on(0.01, None, None);
        let lost = |bytes| path.lost(Direction::Up, bytes);
        assert!((lost(1472) - 0.01).abs() < 1e-12);
        assert!((lost(1473) - (1.0 - 0.99f64.powi(2))).abs() < 1e-12);
        // 65 515 bytes in fragments of 1480.
        assert_eq!(path.packets(65_507), 45);
    }

    #[test]
    fn the_response_to_loss_is_that_of_the_papers() {
        let goodput = |loss, rate, control| {
            let path: Conditions<'_> = on(loss, rate, control);
            path.response(Direction::Up, true)
        };
        // 1448 bytes, 12.2 of them in 50 ms, 1 % of which do not arrive.
        let reno = goodput(0.01, None, Some("reno")).unwrap();
        assert!((reno.value / (12.247 * 1448.0 * 8.0 / 0.05 * 0.99) - 1.0).abs() < 1e-3);
        // In so short a round trip CUBIC is as Reno is; at fewer losses it is faster.
        assert_eq!(goodput(0.01, None, Some("cubic")).unwrap().value, reno.value);
        let rare = [Some("cubic"), Some("reno")].map(|cc| goodput(1e-5, None, cc).unwrap().value);
        assert!(rare[0] > 1.5 * rare[1], "{rare:?}");
        assert_eq!(goodput(0.01, None, Some("bbr")), None);
        assert_eq!(goodput(0.0, None, Some("reno")), None);
        let slow = goodput(0.01, Some(BitRate(2_000_000)), Some("reno")).unwrap();
        assert!(slow.outside.unwrap().contains("slower"));
        assert!(goodput(0.2, None, Some("reno")).unwrap().outside.unwrap().contains("timeouts"));
    }

    #[test]
    fn the_forms_of_single_losses_say_where_they_end() {
        let path = on(0.01, None, None);
        // 60 a second, and a round trip of 50 ms and three of them.
        let (per_ns, recovery) = (60.0 / 1e9, path.recovery(1e9 / 60.0));
        assert!((recovery - 100e6).abs() < 1.0);
        assert_eq!(overlap(0.01, per_ns, recovery), None);
        assert!(overlap(0.05, per_ns, recovery).unwrap().contains("one by one"));
        // 1 % of (100 ms + 6 of them behind it, 50 ms each).
        assert!((held_back(0.01, per_ns, recovery) - 4e6).abs() < 10.0);
    }
}
