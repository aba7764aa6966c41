//! Checks of a study. Every error that can be found without running a race is found here, so that no long run fails
//! because of a misspelt metric.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::{agree, plan};
use crate::race::request::CheckedRequest as Race;
use deadheat_base::error::{Error, unknown};
use deadheat_base::spec::outside::Outside;
use deadheat_base::units;
use deadheat_contract::measurements::{Metric, Unit};
use deadheat_datapath::transport::Contender;
use deadheat_result::outcome::{Entrant, Factor, Outcome};
use deadheat_result::study::expect::{ExpectedRange, figure};
use deadheat_result::study::model::{
    Claim, ClaimedAgreement, PublishedFigure, RaceCell, RacePlan, Study, Test, TestSubject,
};
use deadheat_result::study::outcome::Setting;

const MOST_RACES: usize = 64;
const MOST_PUBLISHED: usize = 1_000;
const MOST_CLAIMS: usize = 200;
const MOST_TESTS: usize = 64;
const LONGEST_ID: usize = 60;

/// Reserved id: the study's own result file is beside the files of its races.
const TAKEN: &str = "study";

/// Study that passed its checks.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedStudy {
    /// The study.
    pub study: Study,
    /// Metrics of each race, by id.
    pub metrics: BTreeMap<String, Vec<Metric>>,
    /// Kinds of files and commands that a person allows the study to name.
    pub allowed: Vec<Outside>,
}

impl CheckedStudy {
    /// Returns a metric of a race.
    pub fn metric(&self, race: &str, name: &str) -> Option<&Metric> {
        self.metrics.get(race)?.iter().find(|metric| metric.name == name)
    }
}

/// Checks a study. It may name files and commands if they are `allowed`.
///
/// # Errors
/// A sentence with the place, the problem and a remedy.
pub fn check(study: Study, allowed: &[Outside]) -> Result<CheckedStudy, String> {
    // Contenders that name files are in every build, and the files are not opened here.
    let is_left_out =
        |typed: &str| matches!(Contender::sent(typed), Err(Error::Unsupported { .. }));
    check_with(study, allowed, &is_left_out)
}

/// Checks a study in a build that leaves out some contenders.
fn check_with(
    study: Study,
    allowed: &[Outside],
    is_left_out: &dyn Fn(&str) -> bool,
) -> Result<CheckedStudy, String> {
    check_sizes(&study)?;
    check_texts(&study)?;
    check_ids("race", study.races.iter().map(|race| race.id.as_str()))?;
    check_ids("claim", study.claims.iter().map(|claim| claim.id.as_str()))?;
    let mut races = BTreeMap::new();
    for plan in &study.races {
        let place = format!("race `{}`", plan.id);
        let measured = RaceMetrics::of(plan, allowed, is_left_out).map_err(within(&place))?;
        races.insert(plan.id.as_str(), measured);
    }
    let measures = StudyMetrics(races);
    for (at, published) in study.published.iter().enumerate() {
        let place = format!("published figure {} (race `{}`)", at + 1, published.race);
        measures.published(published).map_err(within(&place))?;
    }
    for claim in &study.claims {
        check_claim(claim, &study, &measures).map_err(within(&format!("claim `{}`", claim.id)))?;
    }
    let metrics = measures.0.into_iter().map(|(id, race)| (id.to_owned(), race.full.metrics));
    let metrics = metrics.collect();
    Ok(CheckedStudy { study, metrics, allowed: allowed.to_vec() })
}

fn within<E: Display>(place: &str) -> impl Fn(E) -> String + '_ {
    move |error| format!("{place}: {error}")
}

fn check_sizes(study: &Study) -> Result<(), String> {
    let sizes = [
        ("races", study.races.len(), MOST_RACES),
        ("published figures", study.published.len(), MOST_PUBLISHED),
        ("claims", study.claims.len(), MOST_CLAIMS),
    ];
    if study.races.is_empty() {
        return Err("a study needs a [[race]]".into());
    }
    match sizes.into_iter().find(|(_, n, most)| n > most) {
        Some((what, n, most)) => Err(format!("{n} {what}; at most {most}")),
        None => Ok(()),
    }
}

fn check_texts(study: &Study) -> Result<(), String> {
    if !study.question.trim_end().ends_with('?') {
        return Err(format!("question `{}` does not end in a question mark", study.question));
    }
    let races = study.races.iter().map(|race| ("about", &race.about));
    let claims = study.claims.iter().map(|claim| ("says", &claim.says));
    let texts = std::iter::once(("title", &study.title)).chain(races).chain(claims);
    match texts.into_iter().find(|(_, text)| text.trim().is_empty()) {
        Some((key, _)) => Err(format!("`{key}` is empty")),
        None => Ok(()),
    }
}

fn check_ids<'a>(what: &str, ids: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen: Vec<&str> = Vec::new();
    for id in ids {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_name = !id.is_empty()
            && id.len() <= LONGEST_ID
            && id.chars().all(plain)
            && !id.starts_with('-')
            && !id.ends_with('-');
        if !is_name {
            return Err(format!(
                "{what} id `{id}`: lower-case letters, digits and dashes between them, at most \
                 {LONGEST_ID}"
            ));
        }
        if id == TAKEN {
            return Err(format!("{what} id `{id}`: that is the name of the study's own file"));
        }
        if seen.contains(&id) {
            return Err(format!("{what} id `{id}` is given twice"));
        }
        seen.push(id);
    }
    Ok(())
}

fn check_claim(claim: &Claim, study: &Study, measures: &StudyMetrics<'_>) -> Result<(), String> {
    if let Some(agree) = &claim.agree {
        if !claim.tests.is_empty() || claim.open_because.is_some() {
            return Err("`agree` is for a claim without tests and without `open_because`".into());
        }
        return check_agreement(agree, study);
    }
    match (claim.tests.len(), &claim.open_because) {
        (0, None) => {
            return Err(
                "it needs a [[claim.test]], `agree` with published figures, or `open_because` with the reason why \
                 nothing here can settle it"
                    .into(),
            );
        }
        (1.., Some(_)) => return Err("`open_because` is for a claim without tests".into()),
        (..=MOST_TESTS, _) => {}
        (n, None) => return Err(format!("{n} tests; at most {MOST_TESTS}")),
    }
    for (at, test) in claim.tests.iter().enumerate() {
        measures.test(test).map_err(within(&format!("test {}", at + 1)))?;
    }
    Ok(())
}

fn check_agreement(agree: &ClaimedAgreement, study: &Study) -> Result<(), String> {
    let share = |typed: &str| units::parse_share(typed).map_err(|error| error.to_string());
    share(&agree.within)?;
    let ids: Vec<&str> = study.races.iter().map(|race| race.id.as_str()).collect();
    if let Some(id) = agree.races.iter().find(|id| !ids.contains(&id.as_str())) {
        return Err(unknown("race", id, &ids).to_string());
    }
    let figures = agree::figures(agree, study).count() as u64;
    match (agree.at_least, &agree.in_order) {
        (Some(least), None) if (1..=figures).contains(&least) => Ok(()),
        (Some(_), None) => Err(format!(
            "agree: at_least is from 1 to {figures}, the published figures of its races"
        )),
        (None, Some(_)) if figures < 2 => Err("agree: an order takes two published figures".into()),
        (None, Some(typed)) => share(typed).map(drop),
        (Some(_), Some(_)) | (None, None) => {
            Err("agree: give one of at_least = N and in_order = \"95%\"".into())
        }
    }
}

/// Metrics of a race, at both settings.
struct RaceMetrics {
    full: Race,
    quick: Race,
    /// Names of the contenders in cells, in the order of the race.
    contenders: Vec<String>,
    /// Contenders that this build leaves out: their metrics are not known, and the race will not run.
    left_out: Vec<String>,
}

impl RaceMetrics {
    fn of(
        plan: &RacePlan,
        allowed: &[Outside],
        is_left_out: &dyn Fn(&str) -> bool,
    ) -> Result<RaceMetrics, String> {
        let mut known = plan.clone();
        known.contenders.retain(|typed| !is_left_out(typed));
        if known.contenders.is_empty() {
            // A later check reports the missing ones.
            known.contenders.clone_from(&plan.contenders);
        }
        let race = |setting| -> deadheat_base::error::Result<Race> {
            plan::request(&known.at(setting))?.written_in("it", allowed).check()
        };
        let full = race(Setting::Full).map_err(|error| error.to_string())?;
        let quick = race(Setting::Quick).map_err(within("quick"))?;
        let contenders = named(&known.contenders);
        let all = named(&plan.contenders).into_iter();
        let left_out = all.filter(|name| !contenders.contains(name)).collect();
        Ok(RaceMetrics { full, quick, contenders, left_out })
    }

    fn metric(&self, name: &str) -> Result<&Metric, String> {
        for (race, setting) in [(&self.quick, "in the quick setting: "), (&self.full, "")] {
            if !race.metrics.iter().any(|metric| metric.name == name) {
                let names: Vec<&str> = race.metrics.iter().map(|m| m.name.as_str()).collect();
                return Err(format!("{setting}{}", unknown("metric", name, &names)));
            }
        }
        let found = self.full.metrics.iter().find(|metric| metric.name == name);
        found.ok_or_else(|| format!("metric `{name}` is not measured"))
    }

    /// Checks that a cell belongs to the race at the full setting; the quick setting may leave it out.
    fn cell(&self, cell: &RaceCell) -> Result<(), String> {
        if self.left_out.contains(&cell.contender) {
            return Ok(());
        }
        let names: Vec<&str> = self.contenders.iter().map(String::as_str).collect();
        let Some(row) = names.iter().position(|name| *name == cell.contender) else {
            return Err(unknown("contender", &cell.contender, &names).to_string());
        };
        let factors = &self.full.factors;
        let known: Vec<&str> = factors.iter().map(|factor| factor.name.as_str()).collect();
        if let Some(name) = cell.levels.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(format!("where: {}", unknown("varied condition", name, &known)));
        }
        for Factor { name, levels } in factors {
            let levels: Vec<&str> = levels.iter().map(String::as_str).collect();
            match cell.levels.get(name) {
                None => {
                    return Err(format!(
                        "which {name} of {}? write where = {{ {name} = \"{}\" }}",
                        cell.contender,
                        levels.first().unwrap_or(&"")
                    ));
                }
                Some(level) if !levels.contains(&level.as_str()) => {
                    let what = format!("level of {name}");
                    return Err(format!("where: {}", unknown(&what, level, &levels)));
                }
                Some(_) => {}
            }
        }
        let entrant = self.full.entrants.iter().find(|e| stands_for(e, row, cell, factors));
        match entrant.and_then(Entrant::infeasible) {
            Some(why) => Err(format!("{} never runs: {why}", cell.text())),
            None => Ok(()),
        }
    }
}

/// Metrics of all races, by id.
struct StudyMetrics<'a>(BTreeMap<&'a str, RaceMetrics>);

impl StudyMetrics<'_> {
    fn race(&self, id: &str) -> Result<&RaceMetrics, String> {
        let ids: Vec<&str> = self.0.keys().copied().collect();
        self.0.get(id).ok_or_else(|| unknown("race", id, &ids).to_string())
    }

    fn metric(&self, race: &str, name: &str) -> Result<&Metric, String> {
        self.race(race)?.metric(name)
    }

    fn published(&self, published: &PublishedFigure) -> Result<(), String> {
        let unit = self.metric(&published.race, &published.metric)?.unit;
        self.race(&published.race)?.cell(&published.cell)?;
        for value in std::iter::once(&published.value).chain(&published.stddev) {
            figure(value, unit).map_err(|error| error.to_string())?;
        }
        if let Some(range) = &published.range {
            agree::range(range, unit)?;
        }
        Ok(())
    }

    fn test(&self, test: &Test) -> Result<(), String> {
        let race = self.race(&test.race)?;
        let unit: Unit = race.metric(&test.metric)?.unit;
        race.cell(&test.of).map_err(within("of"))?;
        if let Some(against) = &test.against {
            race.cell(against).map_err(within("against"))?;
            if *against == test.of {
                return Err(format!("{} is set against itself", against.text()));
            }
        }
        if test.look == TestSubject::Spread && test.against.is_none() {
            return Err("a spread is set against another; name it with `against`".into());
        }
        let unit = test.against.is_none().then_some(unit);
        ExpectedRange::parse(&test.expect, unit).map(drop).map_err(|error| error.to_string())
    }
}

/// Returns the names of contenders in cells: as typed, with a number for the second and later copies.
fn named(contenders: &[String]) -> Vec<String> {
    let name = |(at, typed): (usize, &String)| match contenders[..at]
        .iter()
        .filter(|other| *other == typed)
        .count()
    {
        0 => typed.clone(),
        before => format!("{typed} #{}", before + 1),
    };
    contenders.iter().enumerate().map(name).collect()
}

/// Returns true if a cell of a study refers to the contender of a race at `row`, which is given as typed.
pub(super) fn stands_for(
    entrant: &Entrant,
    row: usize,
    cell: &RaceCell,
    factors: &[Factor],
) -> bool {
    let Some(found) = &entrant.cell else {
        return entrant.id == row && cell.levels.is_empty();
    };
    let level = |(factor, level): (&Factor, &usize)| {
        factor.levels.get(*level).is_some_and(|level| cell.levels.get(&factor.name) == Some(level))
    };
    found.contender == row
        && cell.levels.len() == factors.len()
        && factors.iter().zip(&found.levels).all(level)
}

/// Returns the contender of a race to which a cell of its study refers.
pub fn cell_id(outcome: &Outcome, cell: &RaceCell) -> Option<usize> {
    let rows = 0..outcome.asked.contenders.len();
    let row = rows.into_iter().find(|row| outcome.contender(*row) == cell.contender)?;
    let mut entrants = outcome.contenders.iter();
    entrants.find(|entrant| stands_for(entrant, row, cell, &outcome.factors)).map(|e| e.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: &str = r#"
title = "Echoes"
question = "Which one is quicker?"
[[race]]
id = "both"
variant = "done_right"
about = "Echoes."
contenders = ["tcp", "elsewhere:knob=3"]
workload = "ping:count=200"
[[claim]]
id = "quicker"
says = "One is quicker."
[[claim.test]]
race = "both"
metric = "rtt_p50_ns"
of = { contender = "elsewhere:knob=3" }
against = { contender = "tcp" }
expect = "below 0.9"
"#;

    fn checked(text: &str) -> Result<CheckedStudy, String> {
        let is_left_out = |typed: &str| typed.starts_with("elsewhere");
        check_with(toml::from_str(text).unwrap(), &[], &is_left_out)
    }

    #[test]
    fn what_a_build_leaves_out_is_not_checked_and_all_else_is() {
        assert!(checked(STUDY).is_ok(), "{:?}", checked(STUDY));
        for (text, with, wanted) in [
            ("rtt_p50_ns", "rtt_p51_ns", "did you mean `rtt_p50_ns`"),
            ("{ contender = \"tcp\" }", "{ contender = \"tpc\" }", "did you mean `tcp`"),
            ("[\"tcp\", ", "[", "unknown contender `elsewhere`"),
        ] {
            let said = checked(&STUDY.replace(text, with)).unwrap_err();
            assert!(said.contains(wanted), "{said}");
        }
    }
}
