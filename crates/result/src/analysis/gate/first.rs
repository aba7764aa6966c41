//! Judgement of a gate with its baseline in the race: is the second contender, a new build for example, worse than the first, the build
//! before it?
//!
//! Both run in the same blocks, so the difference of one run from the next cancels, and no earlier runs are needed. The
//! promise is that of a gate with earlier runs: within [`GATE_RUNS`] gates without a change the error stays at its level, all claims
//! together, and all races of a gate, which has one for each path for example. Each race is planned for its share of the level, so
//! its looks, intervals and verdicts hold at it, and a verdict that the second contender is behind is an alarm.

use super::super::against::{AgainstClaim, against, place};
use super::super::claims::alpha;
use super::super::compare::{Change, GATE_RUNS};
use super::super::no_figures::why_silent;
use super::has_valid_trial;
use crate::outcome::{Entrant, Outcome};

/// Judgement of the second contender against the first, over all races of a gate.
#[derive(Debug, Clone, PartialEq)]
pub struct FirstJudgement<'a> {
    /// Races in the order given.
    pub races: Vec<JudgedRace<'a>>,
    /// Upper bound on the probability that one such gate raises an alarm although nothing changed.
    pub error: f64,
    /// Number of races that the gate was planned for, if any of them are missing.
    pub planned: Option<u64>,
}

/// Race of a gate, with its claims on the second contender against the first.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedRace<'a> {
    /// The race.
    pub race: &'a Outcome,
    /// Claims; empty unless the finding is [`RaceFinding::Judged`].
    pub claims: Vec<AgainstClaim<'a>>,
    /// Finding on the race as a whole.
    pub finding: RaceFinding,
}

/// Finding of a gate on a race as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RaceFinding {
    /// Judged by its claims.
    Judged,
    /// Worse: the first contender has figures and the second has none, for this reason.
    Silent(String),
    /// No judgement, for this reason: the race is not trusted, or the first contender has no figures.
    NoJudgement(String),
}

impl<'a> FirstJudgement<'a> {
    /// Judges the second contender of each race against the first.
    pub fn of(races: &[&'a Outcome]) -> FirstJudgement<'a> {
        let error = races.iter().map(|race| alpha(race.asked.confidence)).sum::<f64>();
        FirstJudgement {
            races: races.iter().map(|race| JudgedRace::of(race)).collect(),
            error: error.min(1.0),
            planned: None,
        }
    }

    /// Judges likewise, and gives no judgement on races of the gate that are missing: each race has the number of all.
    pub fn whole(races: &[&'a Outcome]) -> FirstJudgement<'a> {
        let planned = races.iter().filter_map(|race| race.asked.gate_races).max();
        let planned = planned.filter(|planned| *planned > races.len() as u64);
        FirstJudgement { planned, ..FirstJudgement::of(races) }
    }

    /// Returns the probability that any of [`GATE_RUNS`] such gates raises an alarm although nothing changes, at most.
    pub fn error_within_runs(&self) -> f64 {
        (GATE_RUNS as f64 * self.error).min(1.0)
    }

    /// Returns true if the second contender is worse in a race: by more than the margin, or without figures.
    pub fn is_worse(&self) -> bool {
        let is_silent = |race: &JudgedRace<'_>| matches!(race.finding, RaceFinding::Silent(_));
        self.races.iter().any(is_silent) || self.claims(Change::ChangedWorse).next().is_some()
    }

    /// Returns true if a race says nothing on its contenders, or is missing.
    pub fn is_doubtful(&self) -> bool {
        self.planned.is_some()
            || self.races.iter().any(|race| matches!(race.finding, RaceFinding::NoJudgement(_)))
    }

    /// Returns the claims that show this `change`, each with its race.
    pub fn claims(
        &self,
        change: Change,
    ) -> impl Iterator<Item = (&JudgedRace<'a>, &AgainstClaim<'a>)> {
        let of = |race| move |claim| (race, claim);
        self.races.iter().flat_map(move |race: &JudgedRace<'a>| {
            race.claims.iter().filter(move |claim| claim.change == change).map(of(race))
        })
    }
}

impl<'a> JudgedRace<'a> {
    fn of(race: &'a Outcome) -> JudgedRace<'a> {
        let finding = finding(race);
        let claims = match finding {
            RaceFinding::Judged => against(race, 0, 1),
            RaceFinding::Silent(_) | RaceFinding::NoJudgement(_) => Vec::new(),
        };
        JudgedRace { race, claims, finding }
    }

    /// Returns the name of the contender at this place: 0 is the baseline, 1 is judged.
    pub fn label(&self, place: usize) -> String {
        name(self.race, place)
    }
}

/// Returns the label of a contender without its conditions.
fn name(race: &Outcome, at: usize) -> String {
    let mut entrants = race.contenders.iter();
    match entrants.find(|entrant| entrant.cell.is_none() && entrant.id == at) {
        Some(entrant) => entrant.label.clone(),
        None => race.contender(at),
    }
}

fn finding(race: &Outcome) -> RaceFinding {
    if let Some(why) = race.why_failed().or(race.why_not_trusted()) {
        return RaceFinding::NoJudgement(why.to_owned());
    }
    if !race.contenders.iter().any(|entrant| place(entrant) == 1) {
        let why = "the race has one contender, so there is nothing to hold it against";
        return RaceFinding::NoJudgement(why.to_owned());
    }
    let cells = |at: usize| race.contenders.iter().filter(move |entrant| place(entrant) == at);
    let has_figures = |entrant: &Entrant| has_valid_trial(race, entrant);
    let why = |at: usize| -> String {
        let name = name(race, at);
        match cells(at).find_map(Entrant::out) {
            Some((word, why)) => format!("{name} is {word}: {why}"),
            None => match cells(at).find_map(|entrant| why_silent(race, entrant)) {
                Some(why) => format!("{name} has no figures: {why}"),
                None => format!("{name} has no valid trial"),
            },
        }
    };
    match [0, 1].map(|at| cells(at).any(has_figures)) {
        [false, _] => RaceFinding::NoJudgement(why(0)),
        [true, false] => RaceFinding::Silent(why(1)),
        [true, true] if against(race, 0, 1).is_empty() => RaceFinding::NoJudgement(format!(
            "no claim is made on {} against {}",
            name(race, 1),
            name(race, 0)
        )),
        [true, true] => RaceFinding::Judged,
    }
}
