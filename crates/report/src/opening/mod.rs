//! First screen of a page: the answer in the words of every report, its figure, and how far to trust it. Nothing is
//! computed here.
//!
//! | file | content |
//! |---|---|
//! | `figure.rs` | the figure behind a headline |
//! | `several.rs` | several races, or a race under several conditions |
//! | `beside.rs` | contenders that share a path with a load: what the load leaves of their figures |

use super::answer;
use super::document::{Line, Tone};
use super::names;
use super::names::label;
use super::standing::Standing;
use super::totals::blocks_done;
use super::{contests, factors, sweeps, why, words};
use deadheat_result::analysis::{claims, no_figures};
use deadheat_result::imported::ImportOrigin;
use deadheat_result::outcome::{Outcome, Status};

mod beside;
mod figure;
mod several;

pub(super) use several::RaceSet;

/// Most sentences of the answer; each further claim is in the table.
const MOST: usize = 3;

/// First screen of a page.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Opening {
    /// Sentences of the answer, one for each claim; the first is the headline.
    pub headlines: Vec<Line>,
    /// Figure behind the headline.
    pub figure: Option<OpeningFigure>,
    /// Sentences on how far to trust it.
    pub trust: Vec<Line>,
}

impl Opening {
    /// Returns true if one of its sentences is this one.
    pub(super) fn says(&self, text: &str) -> bool {
        self.headlines.iter().chain(&self.trust).any(|line| line.text == text)
    }
}

/// Figure behind a headline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpeningFigure {
    /// Figure with its unit: `2.1 times`.
    pub value: String,
    /// Interval with its level: `1.9 to 2.3 at 95 % confidence`; empty if there is none.
    pub interval: String,
    /// Subject of the figure, with the figures of both contenders.
    pub about: String,
}

/// Returns the first screen of a race.
pub(super) fn of_race(outcome: &Outcome) -> Opening {
    let standings = standings(outcome);
    let mut headlines: Vec<Line> = standings.iter().map(claim).collect();
    let mut figure = standings.first().and_then(figure::of_standing);
    // Rising load has sentences of its own.
    let combinations = RaceSet::of_conditions(outcome).filter(|_| outcome.sweeps.is_empty());
    let shares = contests::lines(outcome);
    let harm = beside::harm(outcome);
    if contests::is_matrix(outcome) && !shares.is_empty() {
        headlines = shares;
    } else if let Some(set) = combinations {
        (headlines, figure) = (set.headlines(), set.widest());
        headlines.splice(1..1, harm);
    } else if headlines.is_empty() {
        headlines = if harm.is_empty() { in_sentences(outcome) } else { harm };
    }
    if !contests::is_matrix(outcome) {
        figure = figure.or_else(|| beside::figure(outcome));
        headlines.extend(beside::taken(outcome));
    }
    headlines.truncate(MOST);
    headlines.extend(why::lines(outcome));
    if no_figures::is_blank(outcome) {
        let text =
            "No contender has a valid trial, so there are no figures, and nothing to compare.";
        headlines = vec![Line::new(text, Tone::Bad)];
    } else if !outcome.trusted() {
        // Bad news must not look like good news.
        headlines.iter_mut().for_each(|line| line.tone = Tone::Open);
        let text = "This race cannot be trusted, so it decides nothing. What it measured:";
        headlines.insert(0, Line::new(text, Tone::Bad));
    }
    Opening { headlines, figure, trust: trust(outcome) }
}

/// Returns the answer on a claim: the verdict on a pair, or the places of more contenders.
fn claim(standing: &Standing<'_>) -> Line {
    match standing.verdicts.as_slice() {
        [only] => answer::one(standing.outcome, only),
        _ => standing.line(),
    }
}

/// Returns the headline of a race alone, for a list of races.
pub(super) fn headline(outcome: &Outcome) -> Line {
    let all = of_race(outcome).headlines;
    let is_doubted = !outcome.trusted();
    let first = usize::from(is_doubted && !no_figures::is_blank(outcome));
    let mut line = all.into_iter().nth(first).unwrap_or_default();
    if is_doubted {
        line = Line::new(format!("Not to be trusted: {}", line.text), Tone::Bad);
    }
    line
}

/// Returns the standings under each claim that has verdicts; none for a race over conditions and one for its figures,
/// which have sentences of their own.
fn standings(outcome: &Outcome) -> Vec<Standing<'_>> {
    if names::vary(outcome) || claims::is_for_figures(outcome) {
        return Vec::new();
    }
    outcome.metrics.iter().filter_map(|metric| Standing::of(outcome, metric)).collect()
}

/// Returns the answer of a race without verdicts on single pairs, as other reports have it.
fn in_sentences(outcome: &Outcome) -> Vec<Line> {
    let mut lines = sweeps::lines(outcome);
    if names::vary(outcome) {
        lines.extend(factors::leads(outcome));
    }
    if lines.is_empty() {
        lines = answer::sentences(outcome);
        lines.retain(|line| line.tone != Tone::Bad);
    }
    if lines.is_empty() {
        lines.push(Line::new("There is nothing to compare.", Tone::Open));
    }
    lines
}

/// Returns the sentences on how far to trust a race: its checks, its control, and its blocks.
fn trust(outcome: &Outcome) -> Vec<Line> {
    let mut lines = vec![checks(outcome)];
    let copies = outcome.control.as_ref().and_then(|control| {
        let ratio = control.verdicts.first()?.ratio?;
        Some(ratio.of_copies(&label(outcome, control.contender)))
    });
    if let Some(copies) = copies {
        let text = format!("Control: {copies}. This much is noise here.");
        lines.push(Line::new(text, Tone::Plain));
    }
    let blocks = blocks_done(outcome);
    let is_planned = outcome.imported.as_ref().is_none_or(ImportOrigin::is_of_page);
    if is_planned && blocks > 0 {
        let all = words::count(blocks, "block");
        let each = if blocks == 1 { "in it" } else { "in each" };
        let text = format!("{all}: {each}, all contenders ran once, in random order.");
        lines.push(Line::new(text, Tone::Plain));
    }
    lines
}

/// Returns the sentence on the checks of a race.
fn checks(outcome: &Outcome) -> Line {
    let sentence = |text: &str| format!("{}.", text.trim_end_matches('.'));
    if let Some(why) = outcome.why_not_trusted() {
        return Line::new(format!("Not trusted: {}", sentence(why)), Tone::Bad);
    }
    if outcome.imported.as_ref().is_some_and(ImportOrigin::is_of_page) {
        let text = "Measured by a page in a browser: no check failed, and what a page cannot know is named below.";
        return Line::new(text, Tone::Open);
    }
    if outcome.imported.is_some() {
        let text = "Measured by others: deadheat compared their figures, and cannot check how they were measured.";
        return Line::new(text, Tone::Open);
    }
    match outcome.status {
        Status::Decided | Status::Budget if outcome.control.is_none() => {
            Line::new("No check failed, but no control ran beside it.", Tone::Open)
        }
        Status::Decided | Status::Budget => {
            Line::new("Trusted: all checks of this race passed.", Tone::Good)
        }
        Status::Running | Status::Interrupted | Status::Failed => {
            let text = "No check failed so far, but the race did not get to its end.";
            Line::new(text, Tone::Open)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_race::race::testing;
    use deadheat_result::outcome::Warning;

    #[test]
    fn a_race_that_is_not_trusted_says_so_before_what_it_measured() {
        let mut outcome = testing::outcome(2);
        outcome.warnings.push(Warning {
            code: deadheat_result::outcome::UNTRUSTED_GATE.into(),
            message: "9 of 12 trials failed their gate".into(),
            advice: String::new(),
        });
        let opening = of_race(&outcome);
        assert!(opening.headlines[0].text.starts_with("This race cannot be trusted"));
        assert!(opening.headlines[1..].iter().all(|line| line.tone == Tone::Open));
        assert_eq!(opening.trust[0].text, "Not trusted: 9 of 12 trials failed their gate.");
        assert!(headline(&outcome).text.starts_with("Not to be trusted: "));
    }

    #[test]
    fn a_race_without_a_valid_trial_measured_nothing() {
        let mut outcome = testing::outcome(2);
        let mut record = deadheat_result::testing::record(Default::default());
        record.valid = false;
        outcome.trials = vec![deadheat_result::outcome::Trial {
            block: 0,
            order: 0,
            contender: 1,
            control: false,
            record,
        }];
        let text =
            "No contender has a valid trial, so there are no figures, and nothing to compare.";
        for is_doubted in [false, true] {
            if is_doubted {
                outcome.warnings.push(Warning {
                    code: deadheat_result::outcome::UNTRUSTED_GATE.into(),
                    message: "1 of 1 trials failed their gate".into(),
                    advice: String::new(),
                });
            }
            let headlines = of_race(&outcome).headlines;
            assert_eq!((headlines.len(), headlines[0].text.as_str()), (1, text));
            assert!(headline(&outcome).text.ends_with(text), "{:?}", headline(&outcome));
        }
    }

    #[test]
    fn a_race_without_verdicts_has_the_sentence_of_other_reports() {
        let outcome = testing::outcome(1);
        let opening = of_race(&outcome);
        assert_eq!(opening.headlines[0].text, answer::sentences(&outcome)[0].text);
        assert_eq!(opening.figure, None);
    }
}
