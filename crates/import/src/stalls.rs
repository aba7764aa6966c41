//! Amounts of a transfer over time, and its stalls: intervals in which its program moved nothing. They are outages, as a race has them.

use deadheat_contract::measurements::series::Series;
use deadheat_contract::measurements::{Outage, SHORTEST_OUTAGE};

/// Bytes of a call of a program that writes a stream: iperf's and netperf's default. So much at a time moves or does not.
const STREAM_CALL: f64 = 131_072.0;

/// Bytes of a datagram, rather many.
const DATAGRAM: f64 = 8_192.0;

/// Number of calls that a stall is worth: a slow transfer has intervals without one.
const FEWEST_CALLS: f64 = 4.0;

/// Adds an interval to a series, with its end and length in seconds, unless it is not behind the last or impossible.
pub(super) fn grow(series: &mut Series, end_s: f64, length_s: f64, bytes: f64, sends: bool) {
    let ns = |seconds: f64| (seconds.max(0.0) * 1e9) as u64;
    if series.at_ns.last().is_some_and(|last| *last >= ns(end_s)) || bytes < 0.0 {
        return;
    }
    if series.at_ns.is_empty() {
        series.interval_ns = ns(length_s);
    }
    let (own, other) = if sends {
        (&mut series.sent_bytes, &mut series.received_bytes)
    } else {
        (&mut series.received_bytes, &mut series.sent_bytes)
    };
    own.push(own.last().copied().unwrap_or(0).saturating_add(bytes as u64));
    other.push(0);
    series.at_ns.push(ns(end_s));
}

/// Returns the stalls of a trial: stretches of at least half a second in which no stream of a direction moved a byte, although
/// several calls were due by the mean rate.
pub(super) fn stalls(all: &[Series], is_udp: bool) -> Vec<Outage> {
    let call = if is_udp { DATAGRAM } else { STREAM_CALL };
    let ways: [fn(&Series) -> &[u64]; 2] = [|own| &own.sent_bytes, |own| &own.received_bytes];
    let found = ways.into_iter().flat_map(|way| {
        let moves = |own: &&Series| way(own).last().is_some_and(|bytes| *bytes > 0);
        of_way(&all.iter().filter(moves).collect::<Vec<_>>(), way, call)
    });
    Outage::joined(found.collect())
}

fn of_way(streams: &[&Series], bytes: fn(&Series) -> &[u64], call: f64) -> Vec<Outage> {
    let intervals = streams.iter().map(|own| own.at_ns.len().min(bytes(own).len())).min();
    let (Some(first), Some(intervals @ 1..)) = (streams.first(), intervals) else {
        return Vec::new();
    };
    let until = |at: usize| -> u64 {
        streams.iter().fold(0, |sum: u64, own| sum.saturating_add(bytes(own)[at]))
    };
    let start = first.at_ns[0].saturating_sub(first.interval_ns);
    let begin = |at: usize| at.checked_sub(1).map_or(start, |before| first.at_ns[before]);
    let length = first.at_ns[intervals - 1].saturating_sub(start).max(1);
    let rate = until(intervals - 1) as f64 / length as f64;
    let mut stalls: Vec<Outage> = Vec::new();
    let mut is_open = false;
    for at in 0..intervals {
        let before = at.checked_sub(1).map_or(0, until);
        let is_still = until(at) == before;
        let length_ns = first.at_ns[at].saturating_sub(begin(at));
        match stalls.last_mut().filter(|_| is_still && is_open) {
            Some(last) => last.length_ns = last.length_ns.saturating_add(length_ns),
            None if is_still => {
                stalls.push(Outage { from_ns: begin(at), length_ns, ..Outage::default() });
            }
            None => {}
        }
        is_open = is_still;
    }
    stalls.retain(|own| {
        let calls = rate * own.length_ns as f64 / call;
        own.length_ns >= SHORTEST_OUTAGE.0 && calls >= FEWEST_CALLS
    });
    stalls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(each: &[u64]) -> Series {
        let mut sum = 0;
        let sent_bytes: Vec<u64> = each
            .iter()
            .map(|bytes| {
                sum += bytes;
                sum
            })
            .collect();
        let at_ns = (1..=each.len() as u64).map(|at| at * 1_000_000_000).collect();
        let received_bytes = vec![0; each.len()];
        Series {
            interval_ns: 1_000_000_000,
            at_ns,
            sent_bytes,
            received_bytes,
            ..Series::default()
        }
    }

    fn found(streams: &[&[u64]]) -> Vec<(u64, u64)> {
        let all: Vec<Series> = streams.iter().map(|each| series(each)).collect();
        let seconds = |ns: u64| ns / 1_000_000_000;
        let stalls = stalls(&all, false).into_iter();
        stalls.map(|own| (seconds(own.from_ns), seconds(own.length_ns))).collect()
    }

    #[test]
    fn a_stall_is_of_all_streams_and_has_its_start_and_length() {
        let mega = 10_000_000;
        assert_eq!(found(&[&[mega, 0, 0, 0, mega, mega, 0]]), [(1, 3), (6, 1)]);
        assert_eq!(found(&[&[mega, 0, 0, mega], &[mega, mega, 0, 0]]), [(2, 1)]);
        assert_eq!(found(&[&[0, 0, 5 * mega]]), [(0, 2)]);
        assert_eq!(found(&[&[mega; 5]]), []);
        assert_eq!(found(&[&[0, 0]]), [], "nothing moved at all, which its figure says");
    }

    #[test]
    fn a_slow_transfer_has_intervals_without_a_call() {
        assert_eq!(found(&[&[131_072, 0, 131_072, 0, 0, 131_072]]), []);
    }
}
