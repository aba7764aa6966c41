//! Shares of lost and late messages over trials, and figures that lost messages are not in.
//!
//! A mean of times is over the messages that arrived, so the contender that loses more may have the better mean. A
//! percentile counts lost messages as the longest, and has only a lower bound if it falls among them. Neither decides for
//! a contender that lost more.

use crate::outcome::{Outcome, Trial};
use deadheat_base::figures::{list, percent};
use deadheat_contract::measurements::{Better, Metric, MetricName};
use deadheat_path::PathKind;
use deadheat_stats::Outcome as Ruled;

/// Amounts of one direction.
#[derive(Debug, Clone, Copy, Default)]
struct WayAmounts {
    sent: u64,
    delivered: u64,
    lost: u64,
    late: u64,
}

/// Amounts of some trials by their fate: up, down, and there and back, where a trial has an account of them.
#[derive(Debug, Clone, Copy, Default)]
pub struct LedgerSums([Option<WayAmounts>; 3]);

impl LedgerSums {
    /// Returns the sums over trials; `None` if none of them has an account.
    pub fn of<'a>(trials: impl Iterator<Item = &'a Trial>) -> Option<LedgerSums> {
        let mut sums = LedgerSums::default();
        for trial in trials {
            let ledger = &trial.record.ledger;
            let accounts = [&ledger.up, &ledger.down, &ledger.round_trip];
            for (sum, account) in sums.0.iter_mut().zip(accounts) {
                let Some(account) = account else { continue };
                let sum = sum.get_or_insert_default();
                let lost =
                    account.lost_on_path.saturating_add(account.dropped_at_receiver.unwrap_or(0));
                for (part, amount) in [
                    (&mut sum.sent, account.sent),
                    (&mut sum.delivered, account.delivered),
                    (&mut sum.lost, lost),
                    (&mut sum.late, account.late.unwrap_or(0)),
                ] {
                    *part = part.saturating_add(amount);
                }
            }
        }
        sums.0.iter().any(Option::is_some).then_some(sums)
    }

    /// Returns the lost share of the data. If each arriving message is answered, this is the share without an answer, with
    /// trials whose ways could not be told apart; otherwise it is the share of the direction that lost most.
    pub fn lost(&self) -> f64 {
        match self.0 {
            [Some(up), Some(down), both] if (1..=up.delivered).contains(&down.sent) => {
                let unsplit = both.map_or([0; 2], |both| [both.sent, both.lost]);
                let sent = up.sent.saturating_add(unsplit[0]);
                let lost = up.sent.saturating_sub(down.delivered).saturating_add(unsplit[1]);
                lost as f64 / sent.max(1) as f64
            }
            _ => self.greatest(|way| way.lost),
        }
    }

    /// Returns the share of the data that came too late, in the direction in which it is greatest.
    pub fn late(&self) -> f64 {
        self.greatest(|way| way.late)
    }

    /// Returns the number of messages sent, if nothing of them arrived in the direction that ends the work.
    pub fn nothing_arrived(&self) -> Option<u64> {
        let [up, down, both] = self.0;
        let arrived = |way: Option<WayAmounts>| way.map_or(0, |way| way.delivered);
        let last = both.or(down).or(up)?;
        let sent = up.or(both).or(down)?.sent;
        (sent > 0 && last.delivered == 0 && arrived(both) == 0).then_some(sent)
    }

    fn greatest(&self, of: impl Fn(&WayAmounts) -> u64) -> f64 {
        let share = |way: &WayAmounts| of(way) as f64 / way.sent.max(1) as f64;
        self.0.iter().flatten().map(share).fold(0.0, f64::max)
    }
}

/// Returns the lost share over the valid trials of a contender, without its hidden copy's; `None` if they count none.
pub fn of_contender(outcome: &Outcome, id: usize) -> Option<f64> {
    let own = outcome.trials.iter().filter(|trial| trial.contender == id && !trial.control);
    LedgerSums::of(own.filter(|trial| trial.record.valid)).map(|sums| sums.lost())
}

/// Returns true if lost messages are in no figure of this metric.
pub fn leaves_out_lost(metric: &Metric) -> bool {
    metric.better == Better::Lower && MetricName::parse(&metric.name).is_of_arrived()
}

/// Names contenders with the shares that they lost: `a lost 40 %, b nothing`.
pub fn in_words<'a>(shares: impl IntoIterator<Item = (&'a str, f64)>) -> String {
    let mut verb = " lost";
    let said = shares.into_iter().map(|(label, share)| {
        let amount = if share > 0.0 { percent(share) } else { "nothing".to_owned() };
        format!("{label}{} {amount}", std::mem::take(&mut verb))
    });
    list(&said.collect::<Vec<_>>())
}

/// Returns the shares that contenders lost, where the metric leaves them out; empty where it counts them, or if nothing was
/// lost.
pub fn left_out(outcome: &Outcome, metric: &Metric, ids: &[usize]) -> Vec<f64> {
    if !leaves_out_lost(metric) {
        return Vec::new();
    }
    let shares: Vec<f64> = ids.iter().map(|id| of_contender(outcome, *id).unwrap_or(0.0)).collect();
    if shares.iter().any(|share| *share > 0.0) { shares } else { Vec::new() }
}

/// Lost messages behind the figures of a pair.
#[derive(Debug, Clone, Default)]
pub(crate) struct PairLost {
    /// Shares that both lost, if the figure leaves them out and any was lost.
    shares: Option<[f64; 2]>,
    /// Shares of both contenders' runs that failed without figures, in an import, where they differ.
    failed: Option<[f64; 2]>,
    /// For each of the pair, true if its figure is a bound below a figure of the other.
    low_bounds: [bool; 2],
}

impl PairLost {
    pub(crate) fn of(
        outcome: &Outcome,
        metric: &Metric,
        pair: [usize; 2],
        low_bounds: [bool; 2],
    ) -> PairLost {
        let shares = <[f64; 2]>::try_from(left_out(outcome, metric, &pair)).ok();
        let failed = pair.map(|id| failed(outcome, id));
        let is_imported = outcome.path.kind == PathKind::Imported;
        PairLost {
            shares,
            // The gates of a race see to its own.
            failed: Some(failed).filter(|[a, b]| is_imported && a != b),
            low_bounds: low_bounds.map(|low| low && metric.better == Better::Lower),
        }
    }

    /// Returns true if these losses leave a lead, or a tie, open. `leader` is the place of the contender with the better
    /// figure, if one leads.
    pub(crate) fn withholds(&self, ruled: Ruled, leader: Option<usize>, margin: f64) -> bool {
        let [a, b] = self.shares.unwrap_or_default();
        match (ruled, leader) {
            (Ruled::DeadHeat, _) => (a - b).abs() > margin,
            (_, Some(leader)) => {
                let more = if leader == 0 { a - b } else { b - a };
                more > margin || self.low_bounds[leader]
            }
            (_, None) => false,
        }
    }

    /// Returns the sentence on these losses, with a leading space; empty if none are left out of the figures.
    pub(crate) fn sentence(&self, names: [&str; 2], label: &str, is_withheld: bool) -> String {
        let failed = self.failed.map_or_else(String::new, |shares| {
            let [a, b] =
                shares.map(|share| if share > 0.0 { percent(share) } else { "none".to_owned() });
            format!(" Of the runs of {} {a} failed, of those of {} {b}.", names[0], names[1])
        });
        let lost = match self.shares {
            Some(shares) => {
                let lost = in_words(names.into_iter().zip(shares));
                let end =
                    if is_withheld { ": who loses more is not ahead by the rest" } else { "" };
                format!(" The {label} is of what arrived; {lost}{end}.")
            }
            None if is_withheld => {
                format!(" A {label} among lost messages may be longer than all others.")
            }
            None => String::new(),
        };
        lost + &failed
    }
}

/// Returns the share of a contender's runs that failed without figures.
fn failed(outcome: &Outcome, id: usize) -> f64 {
    let own = || outcome.trials.iter().filter(|trial| trial.contender == id);
    let failed = own().filter(|trial| !trial.record.ran()).count();
    failed as f64 / own().count().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_loses_more_than_the_margin_is_not_ahead_by_what_arrived() {
        let shares = Some([0.4, 0.02]);
        let lost = PairLost { shares, ..PairLost::default() };
        let withheld = |ruled, leader, margin| lost.withholds(ruled, leader, margin);
        assert!(withheld(Ruled::Ahead, Some(0), 0.05) && !withheld(Ruled::Ahead, Some(1), 0.05));
        assert!(withheld(Ruled::Undecided, Some(0), 0.05), "a lead that is open is one, too");
        assert!(withheld(Ruled::DeadHeat, None, 0.05) && !withheld(Ruled::DeadHeat, None, 0.4));
        assert!(!withheld(Ruled::Undecided, None, 0.05));
        assert_eq!(
            lost.sentence(["a", "b"], "RTT mean", false),
            " The RTT mean is of what arrived; a lost 40 % and b 2 %."
        );
        let bound = PairLost { low_bounds: [true, false], ..PairLost::default() };
        assert!(bound.withholds(Ruled::Ahead, Some(0), 0.05));
        assert!(!bound.withholds(Ruled::Ahead, Some(1), 0.05));
    }
}
