//! Responses as they came, and their figures.

use crate::time::Nanos;

use crate::paced::Quantiles;
use crate::workload::load::Item;

/// A request and what has come of its response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    /// Bytes of the response, and of those the ones that are here.
    pub(super) size: u64,
    here: u64,
    pub(super) due: Nanos,
    /// Times at which the first of its messages came, and the last.
    first: Nanos,
    last: Nanos,
}

impl Answer {
    /// Creates an answer of `size` bytes to a request that is due then, of which nothing has come.
    pub(super) fn of(due: Nanos, size: u64) -> Answer {
        Answer { size, here: 0, due, first: Nanos::ZERO, last: Nanos::ZERO }
    }

    /// Returns the time that the whole of it took from when it was due.
    pub(super) fn took(&self) -> Nanos {
        self.last - self.due
    }

    /// Takes `part` bytes that came at `now`; whether it is whole then, or `None` if there is no room for them in it.
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

/// Returns the requests that were asked as items, whose times are after `begin`.
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
