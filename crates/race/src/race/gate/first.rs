//! Checks of a gate whose baseline is in the race, before and after it runs.

use deadheat_base::error::{Error, Result};
use deadheat_result::analysis::claims::alpha;
use deadheat_result::analysis::compare::GATE_RUNS;
use deadheat_result::outcome::Outcome;

use crate::race::request::Request;

/// Largest number of races of one gate.
pub const MOST_RACES: u64 = 50;

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
    use deadheat_result::analysis::compare::Change;
    use deadheat_result::analysis::gate::first::{FirstJudgement, RaceFinding};
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
