//! Comparison of the contenders in each traffic: in virtual time, and of the most promising on the path.

use super::course::{AdviceCourse, PlannedRace};
use super::plan::{PlanEntry, RaceWork};
use super::standings::places;
use deadheat_base::figures::wait;
use deadheat_base::time::Nanos;
use deadheat_result::advise::outcome::{Purpose, RankedContender};

/// Maximum share of the time for the most important traffic.
const FIRST_SHARE: f64 = 0.7;

/// Maximum number of blocks of a race in real time; usually the time limit ends it first.
const MOST_BLOCKS: u64 = 200;

impl AdviceCourse<'_> {
    /// Compares the contenders in each traffic: in virtual time first if they run there, then on the path.
    pub(super) fn compare(&mut self) {
        let plan = self.plan;
        for entry in &plan.entries {
            let considered = &entry.considered;
            match &considered.contenders[..] {
                _ if self.is_stopped => return,
                [] => self.notes.push(format!("`{}`: no contender carries it", considered.name)),
                [only] => {
                    self.notes.push(format!("`{}`: {only} alone carries it", considered.name));
                }
                _ => self.screen(entry),
            }
        }
        if plan.is_virtual() {
            return;
        }
        for (at, entry) in plan.entries.iter().enumerate() {
            if !self.is_stopped && entry.considered.contenders.len() > 1 {
                self.race_on_path(entry, &self.finalists(at, entry), at == 0);
            }
        }
    }

    /// Compares the contenders that run in virtual time.
    fn screen(&mut self, entry: &PlanEntry) {
        let Some(path) = self.plan.in_virtual_time() else { return };
        let contenders = entry.screened();
        if contenders.len() < 2 {
            return;
        }
        let (name, purpose) = if self.plan.is_virtual() {
            (entry.considered.name.clone(), Purpose::Comparison)
        } else {
            (format!("{}-virtual", entry.considered.name), Purpose::Screening)
        };
        self.run(PlannedRace {
            name,
            entry,
            raced: &entry.whole(path),
            purpose,
            path,
            contenders: &contenders,
            budget: None,
            blocks: self.task.virtual_blocks,
        });
    }

    /// Returns the contenders for a race on the path, the most promising first: the leader in virtual time,
    /// contenders without virtual time, then contenders that are not behind in virtual time, and the second there
    /// if there is no other.
    fn finalists(&self, at: usize, entry: &PlanEntry) -> Vec<String> {
        let places = places(self.plan, self);
        let carrier = |placed: &RankedContender| {
            let candidates = &self.plan.candidates;
            candidates.iter().find(|one| one.name == placed.contender)?.carries[at].clone()
        };
        let screened = |is_wanted: fn(usize) -> bool| {
            let wanted = places.iter().filter(move |placed| is_wanted(placed.place));
            wanted.filter_map(carrier).filter(|typed| entry.simulated.contains_key(typed))
        };
        let mut leaders = screened(|place| place == 1);
        let mut finalists: Vec<String> = leaders.next().into_iter().collect();
        let all = entry.considered.contenders.iter();
        let is_first_screen = finalists.is_empty();
        let real = all.filter(|typed| is_first_screen || !entry.simulated.contains_key(*typed));
        finalists.extend(real.cloned());
        for typed in leaders {
            if !finalists.contains(&typed) {
                finalists.push(typed);
            }
        }
        if finalists.len() < 2 {
            let mut others = screened(|place| place > 1);
            finalists.extend(others.find(|typed| !finalists.contains(typed)));
        }
        finalists
    }

    /// Races as many of `finalists` on the path as the time allows: with whole trials if that leaves two, otherwise
    /// with short ones.
    fn race_on_path(&mut self, entry: &PlanEntry, finalists: &[String], is_first: bool) {
        if finalists.len() < 2 {
            return;
        }
        let name = &entry.considered.name;
        // Crossovers in virtual time run last, and need time too.
        let reserved =
            self.plan.search_time(self.task.virtual_blocks).0.min(self.task.budget.0 / 4);
        let left = self.left() - Nanos(reserved);
        let share = if is_first { (left.0 as f64 * FIRST_SHARE) as u64 } else { left.0 };
        let whole = entry.whole(&self.plan.path);
        let most = |raced: &RaceWork| {
            // At least two, if need be in the whole remaining time.
            let two = raced.costs(2) <= left;
            (2..=finalists.len()).rev().find(|n| raced.costs(*n).0 <= share).or(two.then_some(2))
        };
        let takes = whole.costs(2);
        let short = entry.short();
        let least = short.as_ref().map_or(takes, |short| short.costs(2).min(takes));
        let found = most(&whole).map(|n| (n, whole));
        let found = found.or_else(|| short.and_then(|short| Some((most(&short)?, short))));
        let Some((n, raced)) = found else {
            self.notes.push(format!(
                "`{name}` was not raced on the path: that takes {}; --budget gives more time",
                wait(least)
            ));
            return;
        };
        let purpose = if raced.metric.name == entry.considered.metric.name {
            Purpose::Comparison
        } else {
            Purpose::Confirmation
        };
        let (met, others) = finalists.split_at(n);
        let unscreened = |typed: &&String| !entry.simulated.contains_key(*typed);
        let others: Vec<&str> = others.iter().filter(unscreened).map(String::as_str).collect();
        if !others.is_empty() {
            self.notes.push(format!(
                "`{name}`: {} not raced, for want of time; --budget gives more",
                others.join(", ")
            ));
        }
        let costs = raced.costs(n).0;
        let budget = Nanos(share.max(costs).min(costs.saturating_mul(2)).min(left.0.max(costs)));
        self.run(PlannedRace {
            name: name.clone(),
            entry,
            raced: &raced,
            purpose,
            path: &self.plan.path,
            contenders: met,
            budget: Some(budget),
            blocks: MOST_BLOCKS,
        });
        let real: Vec<&str> = met.iter().filter(unscreened).map(String::as_str).collect();
        if purpose == Purpose::Confirmation && !real.is_empty() && !self.is_stopped {
            self.notes.push(format!(
                "{} of {} in `{name}` is not known: {} no virtual time, and the path takes {} to tell; --budget gives more",
                entry.considered.metric.label,
                real.join(", "),
                if real.len() == 1 { "it has" } else { "they have" },
                wait(Nanos((takes.0 as f64 / FIRST_SHARE) as u64))
            ));
        }
    }
}
