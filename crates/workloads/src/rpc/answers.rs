//! Responses, and their figures.

use deadheat_base::time::Nanos;

use crate::paced::Quantiles;
use deadheat_contract::workload::load::Item;

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
    let asked = answers.len();
    let whole = answers.iter().filter(|answer| answer.here == answer.size);
    let begun = answers.iter().filter(|answer| answer.here > 0);
    let responses = Quantiles::of(whole.map(|one| (one.last - one.due).0).collect())?;
    let first = Quantiles::of(begun.map(|one| (one.first - one.due).0).collect())?;
    let mut figures = vec![
        ("response_mean_ns", responses.mean()),
        ("response_max_ns", responses.greatest() as f64),
        ("first_byte_mean_ns", first.mean()),
        ("unanswered_share", 1.0 - responses.count() / asked as f64),
    ];
    let known = [
        ("response_p50_ns", responses.among(0.5, asked)),
        ("response_p99_ns", responses.among(0.99, asked)),
        ("first_byte_p99_ns", first.among(0.99, asked)),
    ];
    let known = known.map(|(name, time)| Some((name, time? as f64)));
    figures.extend(known.into_iter().flatten());
    Some(figures)
}
