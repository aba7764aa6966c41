//! Age of information over time: it grows with time and falls with each newer arrival, so its graph is a saw.

use deadheat_base::time::Nanos;

/// A stretch of time without a newer arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tooth {
    /// Age at its start, in nanoseconds.
    pub(crate) from: u64,
    /// Duration of the stretch, in nanoseconds.
    pub(crate) lasted: u64,
}

/// Returns the age over time as stretches, from the first arrival to the last. `arrivals` are due times and arrival
/// times, in the order of arrival.
pub(crate) fn teeth(arrivals: impl Iterator<Item = (Nanos, Nanos)> + Clone) -> Vec<Tooth> {
    let mut newest = Nanos::ZERO;
    let pairs = arrivals.clone().zip(arrivals.skip(1)).map(|(this, next)| {
        newest = newest.max(this.0);
        Tooth { from: (this.1 - newest).0, lasted: (next.1 - this.1).0 }
    });
    pairs.collect()
}

/// Returns the mean age over time; `None` if no time passed.
pub(crate) fn mean(teeth: &[Tooth]) -> Option<f64> {
    let total: f64 = teeth.iter().map(|tooth| tooth.lasted as f64).sum();
    let area = teeth
        .iter()
        .map(|tooth| tooth.lasted as f64 * (tooth.from as f64 + tooth.lasted as f64 / 2.0));
    (total > 0.0).then(|| area.sum::<f64>() / total)
}

/// Returns the quantile of the age: it is at most this in the share `q` of the time.
pub(crate) fn quantile(teeth: &[Tooth], q: f64) -> f64 {
    let total: u128 = teeth.iter().map(|tooth| u128::from(tooth.lasted)).sum();
    let below = |age: u64| -> u128 {
        teeth.iter().map(|t| u128::from(age.saturating_sub(t.from).min(t.lasted))).sum()
    };
    let (mut low, mut high) =
        (0, teeth.iter().map(|tooth| tooth.from + tooth.lasted).max().unwrap_or(0));
    while low < high {
        let middle = low + (high - low) / 2;
        if below(middle) as f64 >= q * total as f64 {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low as f64
}
