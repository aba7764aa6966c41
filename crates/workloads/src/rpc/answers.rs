//! Responses, and their figures.

use deadheat_base::time::Nanos;

use super::{CARRIED, OFFERED};
use crate::paced::Quantiles;
use deadheat_contract::workload::load::Item;
use deadheat_contract::workload::{Measurements, RequestTimes};
use deadheat_stats::quantile::printable;

/// A request, and the received part of its response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    /// Bytes of the response, and bytes that have arrived.
    pub(super) size: u64,
    here: u64,
    pub(super) due: Nanos,
    /// Arrival of its first message, and of its last.
    first: Nanos,
    last: Nanos,
}

impl Answer {
    /// Creates an answer of `size` bytes to a request that is due at `due`, without any arrival.
    pub(super) fn of(due: Nanos, size: u64) -> Answer {
        Answer { size, here: 0, due, first: Nanos::ZERO, last: Nanos::ZERO }
    }

    /// Returns the time from the due time of the request to the last arrival.
    pub(super) fn took(&self) -> Nanos {
        self.last - self.due
    }

    /// Adds its times to `times` of its flow; a request without its whole response was given up at `end`.
    pub(super) fn add_to(&self, times: &mut RequestTimes, end: Nanos) {
        times.asked_bytes = times.asked_bytes.saturating_add(self.size);
        if self.here > 0 {
            times.first_byte_ns.push((self.first - self.due).0);
        }
        if self.here == self.size {
            times.response_ns.push(self.took().0);
        } else {
            times.unfinished_ns.push((end - self.due).0);
        }
    }

    /// Creates an answer of unknown length to a request that is due at `due`, without any arrival.
    pub(super) fn of_unknown_size(due: Nanos) -> Answer {
        Answer::of(due, u64::MAX)
    }

    /// Notes that an answer of unknown length begins to arrive at `now`.
    pub(super) fn begins(&mut self, now: Nanos) {
        (self.first, self.here) = (now, 1);
    }

    /// Notes that an answer of unknown length has `bytes` bytes, all of which have arrived at `now`. One without any
    /// counts as a byte, since 0 bytes are no answer yet.
    pub(super) fn ends(&mut self, now: Nanos, bytes: u64) {
        self.size = bytes.max(1);
        (self.here, self.last) = (self.size, now);
    }

    /// Returns true if nothing has arrived, and true if all has.
    pub(super) fn is_awaited(&self) -> [bool; 2] {
        [self.here == 0, self.here == self.size]
    }

    /// Adds `part` bytes that arrived at `now`. Returns true if the response is complete, and `None` if it is longer
    /// than it should be.
    pub(super) fn take(&mut self, now: Nanos, part: u64) -> Option<bool> {
        if part == 0 || self.here + part > self.size {
            return None;
        }
        if self.here == 0 {
            self.first = now;
        }
        self.here += part;
        self.last = now;
        Some(self.here == self.size)
    }
}

/// Returns the requests that were sent as items, with due times after `begin`.
pub(super) fn items(answers: &[Answer], begin: Nanos) -> Vec<Item> {
    let item = |answer: &Answer| Item {
        due: Some(begin + answer.due),
        took: (answer.here == answer.size).then(|| answer.last - answer.due),
        bytes: answer.here,
    };
    answers.iter().map(item).collect()
}

/// Returns the figures; `None` if nothing was answered.
pub(super) fn figures(answers: &[Answer]) -> Option<Vec<(&'static str, f64)>> {
    let whole = answers.iter().filter(|answer| answer.here == answer.size);
    let begun = answers.iter().filter(|answer| answer.here > 0);
    let responses = whole.map(|one| (one.last - one.due).0).collect();
    of_times(responses, begun.map(|one| (one.first - one.due).0).collect(), answers.len())
}

/// Percentiles of response times, by the names of their figures.
const PERCENTILES: [(&str, f64); 3] =
    [("response_p50_ns", 0.5), ("response_p95_ns", 0.95), ("response_p99_ns", 0.99)];

/// Returns the figures of these times of whole responses and of first parts, out of `asked` requests.
fn of_times(
    responses: Vec<u64>,
    first: Vec<u64>,
    asked: usize,
) -> Option<Vec<(&'static str, f64)>> {
    let (responses, first) = (Quantiles::of(responses)?, Quantiles::of(first)?);
    let mut figures = vec![
        ("response_mean_ns", responses.mean()),
        ("response_max_ns", responses.greatest() as f64),
        ("first_byte_mean_ns", first.mean()),
        ("unanswered_share", 1.0 - responses.count() / asked as f64),
    ];
    if responses.count() as usize == asked {
        figures.push((GEOMEAN, responses.geometric_mean()));
    }
    let percentile = |(name, share)| Some((name, responses.among(share, asked)? as f64));
    let known = PERCENTILES.into_iter().filter(|(name, _)| is_known(name, asked));
    figures.extend(known.filter_map(percentile));
    figures.extend(first.among(0.99, asked).map(|time| ("first_byte_p99_ns", time as f64)));
    Some(figures)
}

/// Figure of the response times that no single long one decides.
pub(super) const GEOMEAN: &str = "response_geomean_ns";

/// Returns true if a percentile has ten of `asked` requests beyond it, or was always shown.
fn is_known(name: &str, asked: usize) -> bool {
    name != "response_p95_ns" || printable(asked as u64, 0.95)
}

/// Adds the figures of requests with a connection each, all flows together. `span` is the time of their schedule. A
/// request without a whole response counts with the time after which it was given up: figures among these are lower
/// bounds, and censored.
pub(super) fn conclude<'a>(
    flows: impl Iterator<Item = &'a RequestTimes>,
    span: Nanos,
    findings: &mut Measurements,
) {
    let all = flows.fold(RequestTimes::default(), |mut all, flow| {
        all.response_ns.extend(&flow.response_ns);
        all.first_byte_ns.extend(&flow.first_byte_ns);
        all.unfinished_ns.extend(&flow.unfinished_ns);
        all.waited += flow.waited;
        all.asked_bytes = all.asked_bytes.saturating_add(flow.asked_bytes);
        all.carried_bytes = all.carried_bytes.saturating_add(flow.carried_bytes);
        all
    });
    let asked = all.response_ns.len() + all.unfinished_ns.len();
    let bps = |bytes: u64| bytes as f64 * 8e9 / span.0.max(1) as f64;
    let mut figures = vec![
        (OFFERED, bps(all.asked_bytes)),
        (CARRIED, bps(all.carried_bytes)),
        ("waited_share", all.waited as f64 / asked.max(1) as f64),
        ("unanswered_share", all.unfinished_ns.len() as f64 / asked.max(1) as f64),
    ];
    let bounds = [&all.response_ns[..], &all.unfinished_ns].concat();
    figures.extend(of_times(all.response_ns, all.first_byte_ns, asked).into_iter().flatten());
    if let Some(bounds) = Quantiles::of(bounds).filter(|_| !all.unfinished_ns.is_empty()) {
        let means = [
            ("response_mean_ns", bounds.mean()),
            (GEOMEAN, bounds.geometric_mean()),
            ("response_max_ns", bounds.greatest() as f64),
        ];
        let known = |(name, share): &(&str, f64)| {
            printable(asked as u64, *share) && !figures.iter().any(|(figure, _)| figure == name)
        };
        let missing = PERCENTILES.into_iter().filter(known);
        let bounded: Vec<_> = means
            .into_iter()
            .chain(missing.map(|(name, share)| (name, bounds.at(share))))
            .collect();
        findings.censored.extend(bounded.iter().map(|(name, _)| (*name).to_owned()));
        figures.extend(bounded);
    }
    // The last figure of a name counts.
    findings.metrics.extend(figures.into_iter().map(|(name, figure)| (name.to_owned(), figure)));
}
