//! The second contender of races against the first, in sentences: the answer of a gate whose baseline runs in the race.

use crate::document::{Line, Tone};
use crate::{brief, words};
use deadheat_base::figures;
use deadheat_base::foreign::visible;
use deadheat_base::time::Nanos;
use deadheat_result::analysis::against::AgainstClaim;
use deadheat_result::analysis::compare::{Change, GATE_RUNS};
use deadheat_result::analysis::gate::first::{FirstJudgement, JudgedRace, RaceFinding};
use deadheat_result::outcome::Outcome;

/// Largest probability of an alarm within [`GATE_RUNS`] gates that counts as a promise; a greater one is given for a single
/// gate.
const PROMISED: f64 = 0.5;

/// Returns a gate's sentences on the second contender of each race, the worst first.
pub fn judged(judgement: &FirstJudgement<'_>) -> Vec<String> {
    let mut lines: Vec<String> = answers(judgement).into_iter().map(|line| line.text).collect();
    lines.push(promise(judgement));
    lines.iter().map(|line| visible(line)).collect()
}

/// Returns the sentences without the promise on errors.
pub(super) fn answers(judgement: &FirstJudgement<'_>) -> Vec<Line> {
    let says = Differing::of(judgement.races.iter().map(|judged| judged.race));
    let mut lines = Vec::new();
    for (judged, claim) in judgement.claims(Change::ChangedWorse) {
        let margin = words::verdict_margin(claim.verdict);
        let text = format!(
            "worse than {}: {}, beyond the margin of {margin}{}",
            claim.base.label,
            changed(claim),
            says.on(judged.race)
        );
        lines.push(Line::new(text, Tone::Bad));
    }
    let mut is_judged = false;
    for judged in &judgement.races {
        let on = says.on(judged.race);
        match &judged.finding {
            RaceFinding::Judged => is_judged = true,
            RaceFinding::Silent(why) => {
                let text = format!("worse than {}: no figures{on}: {why}", judged.label(0));
                lines.push(Line::new(text, Tone::Bad));
            }
            RaceFinding::NoJudgement(why) => {
                lines.push(Line::new(format!("no judgement{on}: {why}"), Tone::Open));
            }
        }
    }
    lines.extend(missing(judgement));
    lines.extend(judgement.races.iter().filter_map(|judged| {
        let lost = brief::losses(judged.race)?;
        Some(Line::new(format!("{lost}{}", says.on(judged.race)), Tone::Open))
    }));
    if is_judged && !judgement.is_worse() {
        let base = judgement.races.first().map_or_else(String::new, |judged| judged.label(0));
        let text = format!("nothing is worse than {base} beyond the margin");
        lines.push(Line::new(text, Tone::Good));
    }
    let goes_on = judgement.races.iter().any(|judged| judged.race.imported.is_none());
    let open = if goes_on {
        "undecided, which is not worse; more time would tell"
    } else {
        "undecided, which is not worse"
    };
    for (change, word, tone) in [
        (Change::ChangedBetter, "better", Tone::Good),
        (Change::Same, "the same within the margin", Tone::Tie),
        (Change::Undecided, open, Tone::Open),
    ] {
        let claims: Vec<String> = judgement
            .claims(change)
            .map(|(judged, claim)| format!("{}{}", named(claim, change), says.on(judged.race)))
            .collect();
        if !claims.is_empty() {
            lines.push(Line::new(format!("{word}: {}", claims.join("; ")), tone));
        }
    }
    lines
}

/// Returns the sentence on races of a gate that are missing, if any are.
fn missing(judgement: &FirstJudgement<'_>) -> Option<Line> {
    let planned = judgement.planned?;
    let says = Differing::of(judgement.races.iter().map(|judged| judged.race));
    let here = judgement.races.iter().map(|judged| match says.on(judged.race).strip_prefix(", ") {
        Some(words) => words.to_owned(),
        None => brief::place(judged.race),
    });
    let here: Vec<String> = here.collect();
    let left = planned - judgement.races.len() as u64;
    let text = format!(
        "no judgement on {left} of the {planned} races of this gate, whose results are missing; the results here are {}",
        here.join("; ")
    );
    Some(Line::new(text, Tone::Open))
}

/// Returns the sentence on false alarms.
pub(super) fn promise(judgement: &FirstJudgement<'_>) -> String {
    let within = judgement.error_within_runs();
    if within <= PROMISED {
        let races = match judgement.races.len() {
            1 => String::new(),
            races => format!(", its {races} races together"),
        };
        return format!(
            "where nothing changes, at most {} of such gates raise an alarm within {GATE_RUNS} runs{races}",
            figures::percent(within)
        );
    }
    format!(
        "where nothing changes, at most {} of such gates raise an alarm; --gate first with the race holds 5 % over \
         {GATE_RUNS} runs",
        figures::percent(judgement.error)
    )
}

/// Names a claim, with the change if there is one, and how much worse it may be if that is open.
fn named(claim: &AgainstClaim<'_>, change: Change) -> String {
    let name = format!("{} {}", claim.contender.label, claim.metric.label);
    match (change, claim.worst()) {
        (Change::ChangedBetter, _) => changed(claim),
        (Change::Undecided, Some(worst)) => format!("{name} (at most {})", words::change(worst)),
        _ => name,
    }
}

/// Describes a change: `new goodput 12.3 % lower, ratio 0.877 [0.861, 0.893]`.
fn changed(claim: &AgainstClaim<'_>) -> String {
    let name = format!("{} {}", claim.contender.label, claim.metric.label);
    let by = claim.ratio.map(|ratio| words::change(ratio.point));
    match (by, comparison(claim)) {
        (Some(by), Some(shown)) if claim.difference.is_none() => {
            format!("{name} {by}, ratio {shown}")
        }
        (_, Some(shown)) => format!("{name} differs by {shown}"),
        (_, None) => name,
    }
}

/// Returns the ratio of a claim with its interval, or the difference in time.
pub(super) fn comparison(claim: &AgainstClaim<'_>) -> Option<String> {
    if let Some(difference) = claim.difference {
        let time = |value: f64| {
            let sign = if value < 0.0 { "−" } else { "+" };
            format!("{sign}{}", Nanos(value.abs().round() as u64))
        };
        let interval = words::interval(&time(difference.low), &time(difference.high));
        return Some(format!("{} {interval}", time(difference.point)));
    }
    let (point, interval) = words::ratio(&claim.ratio?);
    Some(format!("{point} {interval}"))
}

/// Properties in which the races of a gate differ, so that a sentence names the race by them.
pub(super) struct Differing {
    pub(super) paths: bool,
    pub(super) works: bool,
    is_one: bool,
}

impl Differing {
    /// Returns the properties in which `races` differ.
    pub(super) fn of<'a>(races: impl Iterator<Item = &'a Outcome>) -> Differing {
        let names: Vec<(String, String)> =
            races.map(|race| (brief::place(race), work(race))).collect();
        let differ = |of: fn(&(String, String)) -> &String| {
            names.iter().any(|own| names.first().is_some_and(|first| of(own) != of(first)))
        };
        Differing {
            paths: differ(|(path, _)| path),
            works: differ(|(_, work)| work),
            is_one: names.len() < 2,
        }
    }

    /// Returns words that tell a race from the others: `, over delay=10ms`.
    pub(super) fn on(&self, race: &Outcome) -> String {
        let mut parts = Vec::new();
        if self.paths {
            parts.push(brief::place(race));
        }
        if self.works {
            parts.push(work(race));
        }
        if parts.is_empty() && !self.is_one {
            parts.push(format!("in the race of {}", race.started));
        }
        parts.iter().map(|part| format!(", {part}")).collect()
    }
}

/// Returns the work of a race: `64-byte ping, 1000/s`.
pub(super) fn work(race: &Outcome) -> String {
    deadheat_result::analysis::headline::headline(race)
}

/// Returns the blocks of races, the fewest and the most: `52 blocks`, `40 to 52 blocks`.
pub(super) fn blocks(races: &[JudgedRace<'_>]) -> String {
    let done = races.iter().map(|judged| crate::totals::blocks_done(judged.race));
    let (least, most) = (done.clone().min().unwrap_or(0), done.max().unwrap_or(0));
    if least == most {
        words::count(most, "block")
    } else {
        format!("{least} to {}", words::count(most, "block"))
    }
}
