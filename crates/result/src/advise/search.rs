//! Search for the point on an axis from which another contender is ahead: bisection, with a verdict at each step. A
//! step without a decision is an obstacle, and is never counted for either side.

use serde::{Deserialize, Serialize};

use super::axis::Axis;

/// Verdict on two contenders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lead {
    /// The first is ahead.
    First,
    /// The second is ahead.
    Second,
    /// Dead heat.
    Tie,
    /// Undecided, or not trusted.
    Open,
}

impl Lead {
    /// Returns the same verdict with the contenders exchanged.
    pub fn turned(self) -> Lead {
        match self {
            Lead::First => Lead::Second,
            Lead::Second => Lead::First,
            Lead::Tie | Lead::Open => self,
        }
    }
}

/// Step of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchStep {
    /// Value on the axis.
    pub value: f64,
    /// Verdict at that value.
    pub lead: Lead,
    /// File of the race with that verdict.
    pub file: String,
}

/// Result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchFinding {
    /// The verdict at the end is the verdict of the base: no change was found.
    Unchanged,
    /// Between the last point with the verdict of the base and the first point with another.
    Between {
        /// Last value with the verdict of the base.
        from: f64,
        /// First value with another verdict.
        to: f64,
        /// The other verdict.
        lead: Lead,
    },
    /// Somewhere between these values, or nowhere: there was no decision between them.
    Unknown {
        /// Last value with the verdict of the base.
        from: f64,
        /// End of the search.
        to: f64,
    },
}

/// Maximum number of steps of one search.
const MOST_STEPS: usize = 6;

/// Search from the base of an axis towards one end.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// Axis.
    pub axis: Axis,
    /// Value of the given path.
    pub base: f64,
    /// Verdict at that value.
    pub lead: Lead,
    /// Value at which the search ends.
    pub end: f64,
    /// Steps so far, in order.
    pub steps: Vec<SearchStep>,
}

impl Search {
    /// Creates a search without steps.
    pub fn new(axis: Axis, base: f64, lead: Lead, end: f64) -> Search {
        Search { axis, base, lead, end, steps: Vec::new() }
    }

    /// Returns the value of the next step; `None` if no step would give more information.
    pub fn next(&self) -> Option<f64> {
        if self.lead == Lead::Open || self.steps.len() >= MOST_STEPS {
            return None;
        }
        if self.steps.is_empty() {
            return Some(self.end);
        }
        let SearchFinding::Between { from, to, .. } = self.found() else { return None };
        let middle = self.axis.between(from, to)?;
        // A value that was undecided once would be so again; a value beside it may not be.
        let beside = [(from, middle), (middle, to)];
        let beside = beside.into_iter().filter_map(|(one, other)| self.axis.between(one, other));
        let is_new = |value: &f64| !self.steps.iter().any(|step| step.value == *value);
        std::iter::once(middle).chain(beside).find(is_new)
    }

    /// Adds a step.
    pub fn put(&mut self, step: SearchStep) {
        self.steps.push(step);
    }

    /// Returns the finding so far.
    pub fn found(&self) -> SearchFinding {
        let mut ordered: Vec<&SearchStep> = self.steps.iter().collect();
        let distance = |step: &SearchStep| (step.value - self.base).abs();
        ordered.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
        let decided = |step: &&&SearchStep| step.lead != Lead::Open;
        let changed = ordered.iter().find(|step| decided(step) && step.lead != self.lead);
        let near =
            |step: &&&SearchStep| changed.is_none_or(|other| distance(step) < distance(other));
        let mut same = ordered.iter().filter(|step| step.lead == self.lead).filter(near);
        let from = same.next_back().map_or(self.base, |step| step.value);
        match changed {
            Some(step) => SearchFinding::Between { from, to: step.value, lead: step.lead },
            None if from == self.end => SearchFinding::Unchanged,
            None => SearchFinding::Unknown { from, to: self.end },
        }
    }

    /// Returns the values without a decision within the finding.
    pub fn open(&self) -> Vec<f64> {
        let (SearchFinding::Between { from, to, .. } | SearchFinding::Unknown { from, to }) =
            self.found()
        else {
            return Vec::new();
        };
        let within = |value: f64| (from.min(to)..=from.max(to)).contains(&value);
        let open = self.steps.iter().filter(|step| step.lead == Lead::Open && within(step.value));
        let mut open: Vec<f64> = open.map(|step| step.value).collect();
        open.sort_by(f64::total_cmp);
        open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search to its end; `truth` gives the verdict at each value.
    fn run(mut search: Search, truth: impl Fn(f64) -> Lead) -> Search {
        while let Some(value) = search.next() {
            search.put(SearchStep { value, lead: truth(value), file: String::new() });
        }
        search
    }

    fn loss(lead: Lead) -> Search {
        Search::new(Axis::Loss, 0.01, lead, 0.1)
    }

    #[test]
    fn a_known_crossover_is_between_what_is_found() {
        for at in [0.011, 0.02, 0.037, 0.08, 0.099] {
            let truth = |value: f64| if value < at { Lead::First } else { Lead::Second };
            let search = run(loss(Lead::First), truth);
            let SearchFinding::Between { from, to, lead } = search.found() else {
                panic!("{search:?}")
            };
            assert!(from < at && at <= to && to / from < 1.25, "{at}: {from} to {to}");
            assert_eq!(lead, Lead::Second);
            assert!(search.steps.len() <= MOST_STEPS);
        }
        // Downwards too.
        let search = run(Search::new(Axis::Delay, 25e6, Lead::Second, 1e6), |value| {
            if value > 7e6 { Lead::Second } else { Lead::Tie }
        });
        let SearchFinding::Between { from, to, lead } = search.found() else {
            panic!("{search:?}")
        };
        assert!(from > 7e6 && to <= 7e6 && from / to < 1.25 && lead == Lead::Tie, "{from} {to}");
    }

    #[test]
    fn one_step_tells_that_nothing_changes() {
        let search = run(loss(Lead::First), |_| Lead::First);
        assert_eq!((search.found(), search.steps.len()), (SearchFinding::Unchanged, 1));
    }

    #[test]
    fn what_was_not_decided_is_said_so() {
        let search = run(loss(Lead::First), |_| Lead::Open);
        assert_eq!(search.found(), SearchFinding::Unknown { from: 0.01, to: 0.1 });
        assert_eq!((search.steps.len(), search.open()), (1, vec![0.1]));
        // Undecided up to the middle: the search ends at a value with a decision.
        let search = run(loss(Lead::First), |value| match value {
            v if v > 0.05 => Lead::Second,
            _ => Lead::Open,
        });
        let SearchFinding::Between { from, to, lead } = search.found() else {
            panic!("{search:?}")
        };
        assert!(from == 0.01 && to > 0.05 && to < 0.06 && lead == Lead::Second, "{search:?}");
        assert!(search.open().contains(&0.032) && search.open().len() < MOST_STEPS, "{search:?}");
        // Undecided at the base: there is no search.
        assert_eq!(run(loss(Lead::Open), |_| Lead::First).steps.len(), 0);
        assert_eq!(loss(Lead::First).found(), SearchFinding::Unknown { from: 0.01, to: 0.1 });
    }

    #[test]
    fn a_tie_in_between_is_a_change() {
        let search = run(loss(Lead::First), |value| match value {
            v if v < 0.03 => Lead::First,
            v if v < 0.06 => Lead::Tie,
            _ => Lead::Second,
        });
        let SearchFinding::Between { from, to, lead } = search.found() else {
            panic!("{search:?}")
        };
        assert!(from < 0.03 && to >= 0.03 && lead == Lead::Tie, "{search:?}");
        assert_eq!(
            [Lead::First, Lead::Second, Lead::Tie].map(Lead::turned)[..2],
            [Lead::Second, Lead::First]
        );
    }
}
