//! Gate with its baseline in the race: is the second contender, a new build for example, worse than the first, the build
//! before it?
//!
//! Both run in the same blocks, so the difference of one run from the next cancels, and no earlier runs are needed. The
//! promise is that of a gate with earlier runs: within [`GATE_RUNS`] gates without a change the error stays at its level, all claims
//! together, and all races of a gate, which has one for each path for example. Each race is planned for its share of the level, so
//! its looks, intervals and verdicts hold at it, and a verdict that the second contender is behind is an alarm.

use super::has_valid_trial;
use crate::race::request::Request;
use deadheat_base::error::{Error, Result};
use deadheat_result::analysis::against::{AgainstClaim, against, place};
use deadheat_result::analysis::claims::alpha;
use deadheat_result::analysis::compare::{Change, GATE_RUNS};
use deadheat_result::analysis::no_figures::why_silent;
use deadheat_result::outcome::{Entrant, Outcome};

/// Largest number of races of one gate.
pub const MOST_RACES: u64 = 50;

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

/// Returns the confidence of each of `races` races of a gate that keeps the confidence `whole` over [`GATE_RUNS`] gates.
///
/// # Errors
/// [`Error::Usage`] for a number of races that no gate has.
pub fn confidence(whole: f64, races: u64) -> Result<f64> {
    if !(1..=MOST_RACES).contains(&races) {
        return Err(Error::usage(format!(
            "--gate-races {races}: 1 to {MOST_RACES} make sense; it is the number of races that are judged together, \
             such as one for each path"
        )));
    }
    Ok(1.0 - alpha(whole) / (GATE_RUNS * races) as f64)
}

/// Checks that `request` has a baseline and a contender to judge, and blocks that can decide. Runs no trial.
///
/// # Errors
/// [`Error::Usage`] with the missing part.
pub fn check(request: &Request) -> Result<()> {
    let checked = request.check()?;
    if request.asked().contenders.len() < 2 {
        return Err(Error::usage(
            "--gate first: the first contender is the baseline of the second, and this race has one contender; name \
             the build to compare with, then the build to judge",
        ));
    }
    match request.too_few_blocks(&checked) {
        Some(why) => Err(Error::usage(format!(
            "--gate first: {why}, since within {GATE_RUNS} gates hardly any may raise a false alarm"
        ))),
        None => Ok(()),
    }
}

/// Checks that saved `races` can be judged: each has two contenders or more.
///
/// # Errors
/// [`Error::Usage`] with the race that has one.
pub fn check_saved(races: &[&Outcome]) -> Result<()> {
    match races.iter().find(|race| race.asked.contenders.len() < 2) {
        Some(race) => Err(Error::usage(format!(
            "--gate first: the race of {} has one contender, so nothing can be judged against it",
            race.started
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::testing::{noisy, run};
    use deadheat_result::outcome::Warning;

    /// Returns a gate's race of two builds, of which the second is slower by this factor.
    fn race(seed: u64, factor: f64) -> Outcome {
        let request = Request::new(["tcp", "udp"]).blocks(40).margin(0.05).seed(seed);
        let request = request.confidence(confidence(0.95, 4).unwrap());
        check(&request).unwrap();
        let level = move |name: &str| if name.starts_with("udp") { 100.0 * factor } else { 100.0 };
        run(&request, noisy(seed, 0.02, level)).unwrap()
    }

    #[test]
    fn a_slower_build_is_found_on_its_path_and_the_level_is_shared_by_all_paths() {
        let races = [1, 2, 3, 4].map(|seed| race(seed, if seed == 3 { 1.12 } else { 1.0 }));
        let judgement = FirstJudgement::of(&races.each_ref());
        assert!(judgement.is_worse() && !judgement.is_doubtful());
        let worse: Vec<_> = judgement.claims(Change::ChangedWorse).collect();
        assert!(worse.iter().all(|(at, _)| at.race.seed == 3) && !worse.is_empty());
        assert!(worse[0].1.verdict.confidence >= 1.0 - 0.05 / 400.0, "{:?}", worse[0].1.verdict);
        assert!((judgement.error_within_runs() - 0.05).abs() < 1e-6, "{}", judgement.error);
        let same: Vec<&Outcome> = races.iter().filter(|race| race.seed != 3).collect();
        assert!(!FirstJudgement::of(&same).is_worse());
        // Fifty races of the usual confidence promise nothing over a hundred gates.
        let mut usual = race(5, 1.0);
        usual.asked.confidence = 0.95;
        assert_eq!(FirstJudgement::of(&[&usual]).error_within_runs(), 1.0);
    }

    #[test]
    fn a_build_without_figures_is_worse_and_a_baseline_without_figures_judges_nothing() {
        let silent = |id: usize| {
            let mut race = race(1, 1.0);
            race.trials.retain(|trial| trial.contender != id);
            race.contenders[id].failed = Some("it ended with a signal".into());
            race
        };
        let (new, old) = (silent(1), silent(0));
        let judged = FirstJudgement::of(&[&new]);
        assert!(judged.is_worse() && !judged.is_doubtful());
        let RaceFinding::Silent(why) = &judged.races[0].finding else { panic!("{judged:?}") };
        assert_eq!(why, "udp is failed: it ended with a signal");
        let judged = FirstJudgement::of(&[&old]);
        assert!(!judged.is_worse() && judged.is_doubtful());
    }

    #[test]
    fn races_that_are_missing_are_not_judged() {
        let planned = |seed| {
            let mut race = race(seed, 1.0);
            race.asked.gate_races = Some(2);
            race
        };
        let (one, other) = (planned(1), planned(2));
        let judged = FirstJudgement::whole(&[&one]);
        assert!(judged.is_doubtful() && !judged.is_worse());
        assert_eq!(judged.planned, Some(2));
        assert!(!FirstJudgement::whole(&[&one, &other]).is_doubtful());
        assert!(!FirstJudgement::of(&[&one]).is_doubtful(), "a race judges itself alone");
    }

    #[test]
    fn a_race_that_is_not_trusted_condemns_nothing_and_hides_no_other() {
        let mut doubtful = race(1, 1.3);
        doubtful.warnings.push(Warning {
            code: deadheat_result::outcome::UNTRUSTED_GATE.into(),
            message: "too many trials failed".into(),
            advice: String::new(),
        });
        let judged = FirstJudgement::of(&[&doubtful]);
        assert!(!judged.is_worse() && judged.is_doubtful());
        let slower = race(2, 1.3);
        assert!(FirstJudgement::of(&[&doubtful, &slower]).is_worse());
    }

    #[test]
    fn requests_that_cannot_be_judged_are_refused_with_what_is_missing() {
        let said = check(&Request::new(["tcp"])).unwrap_err().to_string();
        assert!(said.contains("this race has one contender"), "{said}");
        let few = Request::new(["tcp", "udp"]).blocks(10);
        let said = check(&few.confidence(confidence(0.95, 4).unwrap())).unwrap_err().to_string();
        assert!(said.contains("10 blocks cannot decide") && said.contains("14 are the"), "{said}");
        let said = confidence(0.95, 51).unwrap_err().to_string();
        assert!(said.contains("1 to 50 make sense"), "{said}");
        assert!(confidence(0.95, 0).is_err());
    }
}
