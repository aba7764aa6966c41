//! Settings of a ping that follow from the path where none are given.

use crate::time::Nanos;

use crate::workload::Setting;

/// The interval on loopback, and the least that a path's round trip makes of it.
pub(super) const SHORTEST_INTERVAL: Nanos = Nanos::from_millis(1);
/// The longest interval by default: a trial of 120 messages takes 2.4 s.
const LONGEST_INTERVAL: Nanos = Nanos::from_millis(20);
/// Bytes of headers that a message takes on the way at most, about.
const HEADERS: u64 = 60;

/// Returns the time between sends if none is given. A stream that waits for a lost segment holds back all
/// messages behind it for about two round trips. With two fifths of one between sends, 1 % of loss each way
/// holds back one in ten of them, and the median is the path's; with a message each millisecond it would
/// hold back most, and the question would be another. No message is to wait for the one before it at the
/// path's rate, either.
pub(super) fn default_interval(setting: &Setting, size: usize) -> Nanos {
    let fifths = Nanos(setting.rtt_or_long().0 / 5 * 2);
    let by_path = fifths.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
    let packet = setting
        .rate
        .map_or(0, |rate| (size as u64 + HEADERS).saturating_mul(8_000_000_000) / rate.0.max(1));
    let whole = by_path.max(Nanos(packet.saturating_mul(2))).0.div_ceil(1_000_000);
    Nanos::from_millis(whole)
}

/// Returns the time after which an answer counts as lost, if none is given: eight round trips are time for
/// a stream to send a lost segment again three times over. A trial with a loss near its end waits this long
/// for it, so more would cost time and nothing else. Of the way to a server elsewhere little is known.
pub(super) fn default_timeout(setting: &Setting) -> Nanos {
    match setting.rtt {
        Some(rtt) => Nanos(rtt.0.saturating_mul(8)).max(Nanos::from_secs(1)),
        None => Nanos::from_secs(3),
    }
}
