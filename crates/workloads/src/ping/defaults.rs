//! Default settings of a ping, which follow from the path.

use deadheat_base::time::Nanos;

use deadheat_contract::workload::{PathKind, Setting};

/// Shortest default interval, which is also the one on loopback.
pub(super) const SHORTEST_INTERVAL: Nanos = Nanos::from_millis(1);
/// Longest default interval: a trial of 120 messages takes 2.4 s.
const LONGEST_INTERVAL: Nanos = Nanos::from_millis(20);
/// Longest default interval towards another host, so that a verdict fits into the 50 s of a race.
const LONGEST_INTERVAL_REMOTE: Nanos = Nanos::from_millis(10);
/// Shortest default timeout towards another host: its line may have long queues.
const SHORTEST_TIMEOUT_REMOTE: Nanos = Nanos::from_secs(3);
/// Approximate maximum of the bytes of headers per message on the path.
const HEADERS: u64 = 60;

/// Returns the default interval between sends. A stream that waits for a lost segment holds back all later messages for
/// about two round trips. With two fifths of a round trip between sends, 1 % of loss each way holds back one message in
/// ten, and the median is the path's; with a message each millisecond it would hold back most, and the ping would
/// measure something else. Nor may a message queue behind the message before it at the path's rate.
pub(super) fn default_interval(setting: &Setting, size: usize) -> Nanos {
    let fifths = Nanos(setting.rtt_or_long().0 / 5 * 2);
    let longest = match setting.kind {
        PathKind::Remote => LONGEST_INTERVAL_REMOTE,
        _ => LONGEST_INTERVAL,
    };
    let by_path = fifths.clamp(SHORTEST_INTERVAL, longest);
    let packet = setting
        .rate
        .map_or(0, |rate| (size as u64 + HEADERS).saturating_mul(8_000_000_000) / rate.0.max(1));
    let whole = by_path.max(Nanos(packet.saturating_mul(2))).0.div_ceil(1_000_000);
    Nanos::from_millis(whole)
}

/// Returns the default time after which an answer counts as lost: within eight round trips a stream can send a lost
/// segment again three times. A trial with a loss near its end waits this long, so a longer timeout would only cost
/// time.
pub(super) fn default_timeout(setting: &Setting) -> Nanos {
    let least = match setting.kind {
        PathKind::Remote => SHORTEST_TIMEOUT_REMOTE,
        _ => Nanos::from_secs(1),
    };
    setting.rtt.map_or(SHORTEST_TIMEOUT_REMOTE, |rtt| Nanos(rtt.0.saturating_mul(8)).max(least))
}
