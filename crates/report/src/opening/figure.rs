//! Figure behind a headline: the ratio of two contenders, from the side of the better one.

use super::OpeningFigure;
use crate::names::label;
use crate::results::Bound;
use crate::standing::Standing;
use crate::words;
use deadheat_base::figures;
use deadheat_contract::measurements::Metric;
use deadheat_result::outcome::{Outcome, Verdict};

/// Returns the figure of the only pair, of the leader against the next, or else of the first against the last.
pub(super) fn of_standing(standing: &Standing<'_>) -> Option<OpeningFigure> {
    let (first, others) = standing.ids.split_first()?;
    let is_led = standing.best().is_some_and(|best| best.len() == 1);
    let other = if is_led { others.first()? } else { others.last()? };
    of_verdict(standing.outcome, standing.metric, standing.between(*first, *other)?)
}

/// Returns the figure of a verdict; `None` for a difference in time, and if a figure of the pair is only a bound.
pub(super) fn of_verdict(
    outcome: &Outcome,
    metric: &Metric,
    verdict: &Verdict,
) -> Option<OpeningFigure> {
    let summary = |id: usize| {
        let mut all = outcome.summary.iter();
        all.find(|one| one.contender == id && one.metric == metric.name)
    };
    let pair = [verdict.a, verdict.b];
    let is_bound = pair.iter().any(|id| summary(*id).is_some_and(|one| one.censored));
    let ratio = verdict.ratio.filter(|_| verdict.difference.is_none() && !is_bound)?;
    let better = verdict.ahead.or(verdict.direction);
    let ([a, b], ratio) = match better {
        Some(id) if id == verdict.b => ([verdict.b, verdict.a], ratio.inverse()),
        _ => (pair, ratio),
    };
    let (value, range) = match better {
        Some(_) => ratio.size(),
        None => (figures::change(ratio.point), figures::change_range(ratio.low, ratio.high)),
    };
    let interval = if verdict.confidence > 0.0 && ratio.low < ratio.high {
        format!("{range} at {} confidence", words::level(verdict.confidence))
    } else {
        String::new()
    };
    let own = |id: usize| {
        let shown = summary(id).map_or_else(String::new, |summary| {
            let is_bound = Bound::of(outcome, summary).holds(summary.estimate);
            let show = if is_bound { words::beyond } else { words::figure };
            format!(" {}", show(summary.estimate, metric.unit))
        });
        format!("{}{shown}", label(outcome, id))
    };
    let about = format!("{}: {}, against {}", metric.label, own(a), own(b));
    Some(OpeningFigure { value, interval, about })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer;
    use crate::document::Tone;
    use crate::opening::claim;
    use deadheat_contract::measurements::name::GOODPUT;
    use deadheat_contract::measurements::{Better, ClockNeed, Role, Unit};
    use deadheat_race::race::testing;
    use deadheat_result::outcome::Ratio;
    use deadheat_stats as stats;

    /// A race of two, or of three, under one claim.
    fn race(name: &str, label: &str, verdicts: &[Verdict]) -> Outcome {
        let mut outcome = testing::outcome(if verdicts.len() == 1 { 2 } else { 3 });
        let is_rate = name == GOODPUT;
        outcome.metrics = vec![Metric {
            name: name.to_owned(),
            label: label.to_owned(),
            unit: if is_rate { Unit::BitRate } else { Unit::Nanos },
            better: if is_rate { Better::Higher } else { Better::Lower },
            role: Role::Claim,
            clock: ClockNeed::None,
        }];
        for (one, label) in outcome.contenders.iter_mut().zip(["red", "green", "blue"]) {
            one.label = label.to_owned();
        }
        outcome.summary.clear();
        let metric = name.to_owned();
        outcome.verdicts =
            verdicts.iter().map(|one| Verdict { metric: metric.clone(), ..one.clone() }).collect();
        outcome
    }

    /// A verdict on contenders `a` and `b`.
    fn verdict(
        [a, b]: [usize; 2],
        outcome: stats::Outcome,
        ratio: [f64; 3],
        better: Option<usize>,
    ) -> Verdict {
        let [point, low, high] = ratio;
        let is_ahead = outcome == stats::Outcome::Ahead;
        Verdict {
            metric: String::new(),
            a,
            b,
            outcome,
            ahead: better.filter(|_| is_ahead),
            ratio: Some(Ratio { point, low, high }),
            margin: 0.05,
            confidence: 0.95,
            blocks: 40,
            more_blocks: Some(12),
            direction: better,
            note: "as the race has it.".to_owned(),
            ..Verdict::default()
        }
    }

    #[test]
    fn a_lead_is_a_figure_from_the_side_of_the_winner_and_a_tie_is_none() {
        use stats::Outcome::{Ahead, DeadHeat};
        for (name, label, outcome, ratio, better, want) in [
            (GOODPUT, "goodput", Ahead, [2.1, 1.9, 2.3], Some(0), "2.1 times as high (1.90 to 2.3"),
            (GOODPUT, "goodput", Ahead, [0.8, 0.75, 0.85], Some(1), "25 % higher (18 to 33 %"),
            ("rtt_p50_ns", "RTT p50", Ahead, [1.25, 1.2, 1.3], Some(1), "20 % lower (17 to 23 %"),
            (GOODPUT, "goodput", DeadHeat, [0.99, 0.97, 1.02], None, "−1 % (−3 to +2 %"),
        ] {
            let race = race(name, label, &[verdict([0, 1], outcome, ratio, better)]);
            let standing = Standing::of(&race, &race.metrics[0]).unwrap();
            let figure = of_standing(&standing).unwrap();
            let shown = format!("{} ({}", figure.value, figure.interval);
            assert_eq!(shown, format!("{want} at 95 % confidence"));
            assert_eq!(claim(&standing), answer::one(&race, &race.verdicts[0]));
        }
    }

    #[test]
    fn of_several_the_places_are_said_and_the_figure_is_that_of_the_leader_against_the_next() {
        use stats::Outcome::{Ahead, DeadHeat, Undecided};
        let of = |first: Verdict, second: Verdict| {
            let third = verdict([1, 2], DeadHeat, [1.0, 0.99, 1.01], None);
            let race = race(GOODPUT, "goodput", &[first, second, third]);
            let standing = Standing::of(&race, &race.metrics[0]).unwrap();
            (claim(&standing), of_standing(&standing).unwrap().about)
        };
        let win = |other| verdict([0, other], Ahead, [1.5, 1.4, 1.6], Some(0));
        let open = |other| verdict([0, other], Undecided, [1.0, 0.8, 1.2], None);
        let (led, figure) = of(win(1), win(2));
        assert!(led.text.starts_with("goodput: red first, 50.0 % higher than green"), "{led:?}");
        assert_eq!(figure, "goodput: red, against green");
        let (some, figure) = of(win(1), open(2));
        assert!(some.text.starts_with("goodput: red is ahead of green."), "{some:?}");
        assert_eq!((some.tone, figure.as_str()), (Tone::Good, "goodput: red, against blue"));
    }
}
