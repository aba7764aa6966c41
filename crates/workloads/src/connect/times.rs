//! Times until the first byte of an answer, and their figures.

use std::collections::BTreeMap;

use deadheat_base::time::Nanos;
use deadheat_contract::measurements::series::RoundTrips;
use deadheat_contract::workload::RecentTimes;
use deadheat_stats::quantile::printable_rank;

use super::SET_UP;

/// Samples beyond each reported quantile.
const BEYOND: usize = 10;

/// Times of all connections with an answer.
pub(super) struct FirstBytes {
    /// Times of set-up and exchange of each connection, in nanoseconds.
    each: Vec<(u64, u64)>,
    /// Times until the first byte since the last report.
    recent: RoundTrips,
    /// Number of repeated requests.
    pub(super) repeats: u64,
}

impl FirstBytes {
    /// Creates an empty list with memory for `count` connections.
    pub(super) fn of(count: u64) -> FirstBytes {
        let each = Vec::with_capacity(count as usize);
        FirstBytes { each, recent: RoundTrips::default(), repeats: 0 }
    }

    /// Adds a connection.
    pub(super) fn add(&mut self, set_up: Nanos, exchange: Nanos) {
        self.each.push((set_up.0, exchange.0));
        self.recent.add((set_up + exchange).0);
    }

    /// Returns the times since the last call.
    pub(super) fn take_recent(&mut self) -> RecentTimes {
        RecentTimes { delays: std::mem::take(&mut self.recent), ..RecentTimes::default() }
    }

    /// Returns the figures, of the set-up alone if nothing was asked; none of fewer connections than a quantile needs.
    pub(super) fn figures(&self, asked: bool) -> BTreeMap<String, f64> {
        let n = self.each.len();
        if n < BEYOND {
            return BTreeMap::new();
        }
        let of = |each: fn(&(u64, u64)) -> u64| {
            let mut all: Vec<u64> = self.each.iter().map(each).collect();
            all.sort_unstable();
            all
        };
        let (first, set_up, exchange) =
            (of(|(set_up, exchange)| set_up + exchange), of(|(s, _)| *s), of(|(_, e)| *e));
        let rank = |all: &[u64], q: f64| {
            printable_rank(n as u64, q).map(|rank| all[rank as usize - 1] as f64)
        };
        let mean = first.iter().map(|ns| *ns as f64).sum::<f64>() / n as f64;
        if !asked {
            let latest = set_up.last().map(|ns| *ns as f64);
            return named([
                (SET_UP, rank(&set_up, 0.5)),
                ("set_up_mean_ns", Some(mean)),
                ("set_up_max_ns", latest),
            ]);
        }
        let figures = [
            ("first_byte_p50_ns", rank(&first, 0.5)),
            ("first_byte_mean_ns", Some(mean)),
            ("first_byte_p99_ns", rank(&first, 0.99)),
            ("first_byte_max_ns", first.last().map(|ns| *ns as f64)),
            ("set_up_p50_ns", rank(&set_up, 0.5)),
            ("exchange_p50_ns", rank(&exchange, 0.5)),
            ("asked_again_share", Some(self.repeats as f64 / n as f64)),
        ];
        named(figures)
    }
}

/// Returns the figures that are known, by name.
fn named<const N: usize>(figures: [(&str, Option<f64>); N]) -> BTreeMap<String, f64> {
    figures.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
