//! Sums over trials: messages or bytes by their fate, of every trial, and CPU time of valid trials.

use super::words;
use deadheat_base::units::Bytes;
use deadheat_contract::measurements::{self, Unit};
use deadheat_records::trial::Record;
use deadheat_result::analysis::spread::valid_trials;
use deadheat_result::outcome::{Outcome, Trial};

/// Set of trials of a contender that are summed up together. Every trial is in one of these sets, so that no loss is in
/// none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrialSet {
    /// Its own trials that passed their gate; its figures are based on them.
    Own,
    /// Trials of its hidden copy.
    Copy,
    /// Trials that failed their gate, its own and its copy's.
    Excluded,
}

impl TrialSet {
    /// All sets, the contender's own first.
    pub(super) const ALL: [TrialSet; 3] = [TrialSet::Own, TrialSet::Copy, TrialSet::Excluded];

    fn of(trial: &Trial) -> TrialSet {
        match (trial.record.valid, trial.control) {
            (false, _) => TrialSet::Excluded,
            (true, true) => TrialSet::Copy,
            (true, false) => TrialSet::Own,
        }
    }

    /// Returns these trials of a contender.
    pub(super) fn trials(self, outcome: &Outcome, id: usize) -> impl Iterator<Item = &Trial> {
        let own = move |trial: &&Trial| trial.contender == id && TrialSet::of(trial) == self;
        outcome.trials.iter().filter(own)
    }

    /// Returns the set with the contender's label in words: `tcp`, `the copy of tcp`.
    pub(super) fn describe(self, label: &str) -> String {
        match self {
            TrialSet::Own => label.to_owned(),
            TrialSet::Copy => format!("the copy of {label}"),
            TrialSet::Excluded => format!("excluded trials of {label}"),
        }
    }
}

/// Sums of one direction's accounts over some trials of a contender, as far as their counts are known.
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
    /// Reasons why an account does not close, each once.
    pub open_because: Vec<String>,
    /// Number of trials with an account that does not close.
    pub open_trials: u64,
}

impl Total {
    /// Returns the total; `None` if none of these trials has an account of this direction.
    pub(super) fn of(outcome: &Outcome, id: usize, whose: TrialSet, way: &str) -> Option<Total> {
        let mut total: Option<Total> = None;
        for trial in whose.trials(outcome, id) {
            let accounts = trial.record.ledger.accounts();
            for (_, account) in accounts.filter(|(name, _)| *name == way) {
                let total = total.get_or_insert_default();
                total.unit.clone_from(&account.unit);
                for (sum, part) in [
                    (&mut total.sent, account.sent),
                    (&mut total.delivered, account.delivered),
                    (&mut total.lost_on_path, account.lost_on_path),
                    (&mut total.dropped_at_receiver, account.dropped_at_receiver.unwrap_or(0)),
                    (&mut total.duplicates, account.duplicates.unwrap_or(0)),
                    (&mut total.late, account.late.unwrap_or(0)),
                    (&mut total.reordered, account.reordered.unwrap_or(0)),
                    (&mut total.corrupted, account.corrupted.unwrap_or(0)),
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

    /// Returns the share that was lost or dropped, in words; `None` if nothing was.
    pub(super) fn lost_share(&self) -> Option<String> {
        let lost = self.lost();
        (lost > 0 && self.sent > 0)
            .then(|| words::figure(lost as f64 / self.sent as f64, Unit::Share))
    }

    /// Returns the amount that was lost on the path or dropped at the receiver.
    pub(super) fn lost(&self) -> u64 {
        self.lost_on_path.saturating_add(self.dropped_at_receiver)
    }

    /// Formats an amount in this account's unit.
    pub(super) fn show(&self, amount: u64) -> String {
        if self.unit == "bytes" { Bytes(amount).to_string() } else { amount.to_string() }
    }
}

/// CPU time for each unit of work, without the instrument's own waiting if that was counted.
pub(super) struct Cost {
    /// Time of the near end, in nanoseconds.
    pub near_ns: f64,
    /// Time of the far end, in nanoseconds; absent if the far end is the kernel: its time cannot be
    /// attributed.
    pub far_ns: Option<f64>,
    /// CPU time that the near and the far end spent waiting; absent if it was not counted.
    pub waiting_ns: Option<(f64, Option<f64>)>,
    pub work: Work,
    /// Number of system calls of the near end and of the far end for the same work.
    pub calls: Option<(f64, Option<f64>)>,
    /// Number of allocations of the near end and of the far end for the same work; absent if they were not counted.
    pub allocations: Option<(f64, Option<f64>)>,
    /// Bytes on the wire beside the application's, for the same work; absent if an end does not know.
    pub overhead_bytes: Option<f64>,
}

/// Unit of work that CPU time is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Messages; an echo there and back is one.
    Message,
    /// 10⁹ bytes that arrived, in a race for goodput or of byte streams.
    Gigabyte,
}

impl Cost {
    /// Returns the cost; `None` if nothing was delivered or no cost is known.
    pub(super) fn of(outcome: &Outcome, id: usize) -> Option<Cost> {
        let totals: Vec<Total> = ["up", "down", "round_trip"]
            .iter()
            .filter_map(|way| Total::of(outcome, id, TrialSet::Own, way))
            .collect();
        // An echo is one exchange, not two messages.
        let delivered = totals.iter().map(|total| total.delivered).max().unwrap_or(0);
        // Messages of the warm-up cost as much as the others, and are in no account.
        let warmed = valid_trials(outcome, id)
            .filter_map(|trial| Some(trial.record.warmup.as_ref()?.answered));
        let messages = delivered.saturating_add(sum(warmed));
        let (amount, work) = match bytes(outcome, id, &totals) {
            Some(bytes) => (bytes as f64 / 1e9, Work::Gigabyte),
            None => (messages as f64, Work::Message),
        };
        let total = |ends: &dyn Fn(&Record) -> Option<u64>| {
            let all: Option<Vec<u64>> =
                valid_trials(outcome, id).map(|trial| ends(&trial.record)).collect();
            all.map(|all| sum(all.into_iter()) as f64 / amount)
        };
        let near = |of: fn(&measurements::Cost) -> Option<u64>| total(&|record| of(&record.cost));
        let far = |of: fn(&measurements::Cost) -> Option<u64>| {
            total(&|record| record.far_cost.as_ref().and_then(of))
        };
        let used = near(|cost| Some(cost.cpu_ns)).filter(|used| *used > 0.0);
        (amount > 0.0 && used.is_some()).then_some(())?;
        Some(Cost {
            near_ns: near(|cost| Some(cost.working_ns()))?,
            far_ns: far(|cost| Some(cost.working_ns())),
            waiting_ns: near(|cost| cost.waiting_ns).map(|own| (own, far(|cost| cost.waiting_ns))),
            allocations: near(|cost| Some(cost.allocations?.calls))
                .map(|own| (own, far(|cost| Some(cost.allocations?.calls)))),
            overhead_bytes: total(&|record| {
                let wire = record.wire?.bytes;
                Some(wire.saturating_sub(record.delivered_bytes?))
            }),
            work,
            calls: near(|cost| cost.syscalls).map(|own| (own, far(|cost| cost.syscalls))),
        })
    }
}

impl Cost {
    /// Returns true if waiting was at least a hundredth of all CPU time.
    pub(super) fn waited_notably(&self) -> bool {
        self.waiting_ns.is_some_and(|(near, far)| {
            let waiting = near + far.unwrap_or(0.0);
            99.0 * waiting > self.near_ns + self.far_ns.unwrap_or(0.0)
        })
    }
}

/// Returns the number of bytes that arrived, if that is the measure of the work: in a race for goodput,
/// or if only bytes are counted.
fn bytes(outcome: &Outcome, id: usize, totals: &[Total]) -> Option<u64> {
    let for_goodput = outcome.metrics.first().is_some_and(|metric| metric.unit == Unit::BitRate);
    let kept: Option<Vec<u64>> =
        valid_trials(outcome, id).map(|trial| trial.record.delivered_bytes).collect();
    if let (true, Some(kept)) = (for_goodput, kept) {
        return Some(sum(kept.into_iter()));
    }
    let in_bytes = totals.iter().any(|total| total.unit == "bytes");
    in_bytes.then(|| sum(totals.iter().map(|total| total.delivered)))
}

/// Returns a sum that a damaged file cannot overflow.
fn sum(parts: impl Iterator<Item = u64>) -> u64 {
    parts.fold(0, u64::saturating_add)
}

/// Returns the number of blocks that have trials.
pub(super) fn blocks_done(outcome: &Outcome) -> u64 {
    let mut blocks: Vec<u64> = outcome.trials.iter().map(|trial| trial.block).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks.len() as u64
}
