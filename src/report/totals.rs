//! Sums over a contender's valid trials: messages or bytes by what became of them, and CPU time.

use super::content::valid_trials;
use crate::race::outcome::Outcome;
use crate::units::Bytes;

/// Sums of one direction's accounts over a contender's valid trials.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Total {
    /// `messages` or `bytes`.
    pub unit: String,
    pub sent: u64,
    pub delivered: u64,
    pub lost_on_path: u64,
    pub dropped_at_receiver: u64,
    pub duplicates: u64,
    pub late: u64,
    pub reordered: u64,
    pub corrupted: u64,
    /// Why an account does not close, each reason once.
    pub open_because: Vec<String>,
    /// Trials whose account does not close.
    pub open_trials: u64,
}

impl Total {
    /// `None` where no trial has an account of this direction.
    pub(super) fn of(outcome: &Outcome, id: usize, way: &str) -> Option<Total> {
        let mut total: Option<Total> = None;
        for trial in valid_trials(outcome, id) {
            let accounts = trial.record.ledger.accounts();
            for (_, account) in accounts.filter(|(name, _)| *name == way) {
                let total = total.get_or_insert_default();
                total.unit.clone_from(&account.unit);
                for (sum, part) in [
                    (&mut total.sent, account.sent),
                    (&mut total.delivered, account.delivered),
                    (&mut total.lost_on_path, account.lost_on_path),
                    (&mut total.dropped_at_receiver, account.dropped_at_receiver),
                    (&mut total.duplicates, account.duplicates),
                    (&mut total.late, account.late),
                    (&mut total.reordered, account.reordered),
                    (&mut total.corrupted, account.corrupted),
                ] {
                    *sum = sum.saturating_add(part);
                }
                if !account.closes() {
                    total.open_trials += 1;
                    let why = account.open_because.as_deref();
                    let why = why.unwrap_or("the numbers do not add up").to_owned();
                    if !total.open_because.contains(&why) {
                        total.open_because.push(why);
                    }
                }
            }
        }
        total
    }

    /// An amount in this account's unit.
    pub(super) fn show(&self, amount: u64) -> String {
        if self.unit == "bytes" { Bytes(amount).to_string() } else { amount.to_string() }
    }
}

/// CPU time over the work it did.
pub(super) struct Cost {
    /// Nanoseconds.
    pub near_ns: f64,
    /// Absent where the far end is the kernel, whose time nobody can attribute.
    pub far_ns: Option<f64>,
    pub work: Work,
}

/// What CPU time is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Messages; an echo there and back is one.
    Message,
    /// 10⁹ bytes of a byte stream.
    Gigabyte,
}

impl Cost {
    /// `None` where nothing was delivered or no cost is known.
    pub(super) fn of(outcome: &Outcome, id: usize) -> Option<Cost> {
        let totals: Vec<Total> = ["up", "down", "round_trip"]
            .iter()
            .filter_map(|way| Total::of(outcome, id, way))
            .collect();
        let in_bytes = totals.iter().any(|total| total.unit == "bytes");
        // An echo is one exchange, not two messages.
        let messages = totals.iter().map(|total| total.delivered).max().unwrap_or(0);
        let bytes = sum(totals.iter().map(|total| total.delivered));
        let (amount, work) = if in_bytes {
            (bytes as f64 / 1e9, Work::Gigabyte)
        } else {
            (messages as f64, Work::Message)
        };
        let near = sum(valid_trials(outcome, id).map(|trial| trial.record.cost.cpu_ns));
        let far: Option<Vec<u64>> = valid_trials(outcome, id)
            .map(|trial| trial.record.far_cost.as_ref().map(|cost| cost.cpu_ns))
            .collect();
        (amount > 0.0 && near > 0).then(|| Cost {
            near_ns: near as f64 / amount,
            far_ns: far.map(|far| sum(far.into_iter()) as f64 / amount),
            work,
        })
    }
}

/// A sum that a damaged file cannot overflow.
fn sum(parts: impl Iterator<Item = u64>) -> u64 {
    parts.fold(0, u64::saturating_add)
}
