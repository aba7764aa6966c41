//! Verdicts in words of every day: more, shorter, the same.

use super::OpeningFigure;
use crate::document::{Line, Tone};
use crate::names::{entrant, label};
use crate::results::Bound;
use crate::standing::{Standing, outlook};
use crate::words;
use deadheat_base::figures::{self, IN_TIMES, change_range, percent, percent_range, times};
use deadheat_contract::measurements::name::{GOODPUT, Percentile};
use deadheat_contract::measurements::{Better, Metric, MetricName, Unit};
use deadheat_contract::workload::load;
use deadheat_path::PathKind;
use deadheat_result::outcome::{Outcome, Ratio, Verdict};
use deadheat_stats as stats;

/// Returns the answer on a claim.
pub(super) fn claim(standing: &Standing<'_>) -> Line {
    let mut line = of_figures(standing);
    if let Some(lost) = standing.left_out() {
        line.text.push_str(&format!(" {lost}."));
    }
    line
}

fn of_figures(standing: &Standing<'_>) -> Line {
    let groups = standing.groups();
    let all = PlainClaim { outcome: standing.outcome, metric: standing.metric };
    let place = all.place();
    if let ([_, _], [verdict]) = (standing.ids.as_slice(), standing.verdicts.as_slice()) {
        let text = all.pair(verdict, "");
        return Line::new(text, crate::standing::tone(verdict.outcome));
    }
    let Some((first, others)) = groups.split_first() else { return Line::default() };
    if others.is_empty() {
        let names = words::list(&standing.labels(first));
        let same = all.same(&names, &standing.margin());
        return Line::new(format!("A dead heat: {same}{place}."), Tone::Tie);
    }
    if standing.leads(first, others) {
        let text = match first.as_slice() {
            [leader] => all.leader(standing, *leader),
            _ => {
                let rest: Vec<usize> = others.iter().flatten().copied().collect();
                format!(
                    "{} share the lead, in a dead heat within {}, ahead of {}{place}.",
                    words::list(&standing.labels(first)),
                    bare(&standing.margin()),
                    words::list(&standing.labels(&rest))
                )
            }
        };
        return Line::new(text, Tone::Good);
    }
    let wins: Vec<String> = standing
        .wins()
        .into_iter()
        .map(|(winners, losers)| {
            let (is, winners) = (words::is_are(winners.len()), standing.labels(&winners));
            format!(
                "{} {is} ahead of {}",
                words::list(&winners),
                words::list(&standing.labels(&losers))
            )
        })
        .collect();
    let best = all.best();
    if wins.is_empty() {
        let names = words::list(&standing.labels(&standing.ids));
        let more = outlook(standing.outcome, &standing.open());
        return Line::new(
            format!("Cannot tell yet which of {names} {best}{place}{more}."),
            Tone::Open,
        );
    }
    let text = format!(
        "No single winner: {}{place}. Which one {best} of all cannot be told yet.",
        wins.join("; ")
    );
    Line::new(text, Tone::Open)
}

/// Returns the figure behind the answer on a claim: of the only pair, of the leader against the next, or else of the
/// first against the last.
pub(super) fn figure(standing: &Standing<'_>) -> Option<OpeningFigure> {
    let all = PlainClaim { outcome: standing.outcome, metric: standing.metric };
    let (first, others) = standing.ids.split_first()?;
    let groups = standing.groups();
    let is_led = groups.split_first().is_some_and(|(group, rest)| standing.leads(group, rest));
    let other = if is_led && groups[0].len() == 1 { others.first()? } else { others.last()? };
    all.figure(standing.between(*first, *other)?)
}

/// Returns the figure of a verdict.
pub(super) fn of_verdict(
    outcome: &Outcome,
    metric: &Metric,
    verdict: &Verdict,
) -> Option<OpeningFigure> {
    PlainClaim { outcome, metric }.figure(verdict)
}

/// Claim of a race.
#[derive(Clone, Copy)]
pub(super) struct PlainClaim<'a> {
    pub(super) outcome: &'a Outcome,
    pub(super) metric: &'a Metric,
}

impl PlainClaim<'_> {
    pub(super) fn is_goodput(&self) -> bool {
        self.metric.name == GOODPUT
    }

    /// Returns the place of the race, and the load beside its work: ` on this path`, ` on this path beside a load of tcp`.
    fn place(&self) -> String {
        let place = match self.outcome.path.kind {
            PathKind::Loopback => " within one machine",
            PathKind::Emulated | PathKind::Remote => " on this path",
            PathKind::Simulated => " in this simulation",
            PathKind::Imported => "",
        };
        let load = load::contender_of(&self.outcome.asked.workload);
        load.map_or_else(|| place.to_owned(), |load| format!("{place} beside a load of {load}"))
    }

    /// Returns the quantity with its percentile in words: `typical round trip (p50)`.
    pub(super) fn quantity(&self) -> String {
        let label = &self.metric.label;
        let plain = |text: &str| text.replace("RTT", "round trip");
        let Some(percentile) = MetricName::parse(&self.metric.name).percentile else {
            return plain(label);
        };
        let part = format!(" {}", percentile.label());
        let Some((before, behind)) =
            label.split_once(&part).filter(|(_, behind)| !behind.starts_with('.'))
        else {
            return plain(label);
        };
        let bare = plain(&format!("{before}{behind}"));
        match percentile {
            Percentile::P50 => format!("typical {bare} (p50)"),
            Percentile::P90 => format!("{bare} that 9 of 10 stay below (p90)"),
            Percentile::P99 => format!("{bare} that 99 of 100 stay below (p99)"),
            Percentile::P999 => format!("{bare} that 999 of 1000 stay below (p99.9)"),
        }
    }

    /// Returns the words for a better value and for the best one.
    fn degrees(&self) -> [&'static str; 2] {
        match (self.metric.better, self.metric.unit) {
            (Better::Lower, Unit::Nanos) => ["shorter", "shortest"],
            (Better::Lower, _) => ["lower", "lowest"],
            (Better::Higher, _) => ["higher", "highest"],
        }
    }

    /// Returns the word for a better value.
    fn better(&self) -> &'static str {
        self.degrees()[0]
    }

    /// Returns the words for the best of several: `delivers most`, `has the shortest round trip`.
    fn best(&self) -> String {
        if self.is_goodput() {
            "delivers most".to_owned()
        } else {
            format!("has the {} {}", self.degrees()[1], self.quantity())
        }
    }

    /// Returns the name of a contender, with its library if its protocol has several.
    fn name(&self, id: usize) -> String {
        let name = label(self.outcome, id);
        let one = entrant(self.outcome, id).filter(|one| one.protocol.is_some());
        // `quic/quinn-proto 0.11.19/cubic`
        let library = one.and_then(|one| one.implementation.split('/').nth(1)?.split(' ').next());
        match library.filter(|library| !library.is_empty() && !name.contains(*library)) {
            Some(library) => format!("{name} ({library})"),
            None => name,
        }
    }

    /// Returns `quic and tcp deliver the same within 5 %`.
    fn same(&self, names: &str, margin: &str) -> String {
        let within = bare(margin);
        if self.is_goodput() {
            format!("{names} deliver the same within {within}")
        } else {
            format!("the {} of {names} is the same within {within}", self.quantity())
        }
    }

    /// Returns the sentence on a leader and the next.
    fn leader(&self, standing: &Standing<'_>, leader: usize) -> String {
        let next = standing.ids.iter().copied().find(|id| *id != leader);
        let verdict = next.and_then(|next| standing.between(leader, next));
        let of = format!(", the next of {},", standing.ids.len());
        match (next, verdict) {
            (Some(_), Some(verdict)) => self.pair(verdict, &of),
            _ => format!("{} {}{}.", self.name(leader), self.best(), self.place()),
        }
    }

    /// Returns the sentence on a pair; `behind` follows the name of the second.
    fn pair(&self, verdict: &Verdict, behind: &str) -> String {
        let place = self.place();
        let names = [verdict.a, verdict.b].map(|id| self.name(id));
        match verdict.outcome {
            stats::Outcome::DeadHeat => {
                let same = self.same(&words::list(&names), &words::verdict_margin(verdict));
                format!("A dead heat: {same}{place}.")
            }
            stats::Outcome::Ahead if verdict.leaves_margin_open() => self.leaning(verdict),
            stats::Outcome::Ahead => {
                self.lead(verdict, behind).unwrap_or_else(|| self.noted(verdict))
            }
            stats::Outcome::Undecided if verdict.direction.is_some() => self.leaning(verdict),
            stats::Outcome::Undecided => {
                let more = outlook(self.outcome, &[verdict]);
                let [a, b] = names;
                if self.is_goodput() {
                    format!("Cannot tell yet which delivers more{place}, {a} or {b}{more}.")
                } else {
                    format!(
                        "Cannot tell yet whether {a} or {b} has the {} {}{place}{more}.",
                        self.better(),
                        self.quantity()
                    )
                }
            }
        }
    }

    /// Returns the verdict as its race wrote it.
    fn noted(&self, verdict: &Verdict) -> String {
        if verdict.note.is_empty() {
            format!("{}.", words::capital(&crate::standing::result(self.outcome, verdict)))
        } else {
            verdict.note.clone()
        }
    }

    /// Returns `quic delivers 2.1 times as much as tcp on this path.`; `None` for a difference in time, for a ratio that
    /// contradicts the verdict, and if figures are only bounds.
    fn lead(&self, verdict: &Verdict, behind: &str) -> Option<String> {
        let (winner, loser, ratio) = self.oriented(verdict, verdict.ahead?)?;
        if (ratio.point > 1.0) != (self.metric.better == Better::Higher) {
            return None;
        }
        let (winner, loser) = (self.name(winner), self.name(loser));
        let (place, by) = (self.place(), amount(ratio.point));
        let text = match (self.is_goodput(), ratio.point) {
            (true, point) if point >= 2.0 => {
                format!("{winner} delivers {by} as much as {loser}{behind}{place}.")
            }
            (true, _) => format!("{winner} delivers {by} more than {loser}{behind}{place}."),
            (false, point) if point >= 2.0 => {
                format!(
                    "With {winner} the {} is {by} as high as with {loser}{behind}{place}.",
                    self.quantity()
                )
            }
            (false, _) => format!(
                "With {winner} the {} is {by} {} than with {loser}{behind}{place}.",
                self.quantity(),
                self.better()
            ),
        };
        Some(text)
    }

    /// Returns the sentence on a pair of which one leads, perhaps by less than matters.
    fn leaning(&self, verdict: &Verdict) -> String {
        let found = verdict.direction.and_then(|winner| self.oriented(verdict, winner));
        let Some((winner, loser, _)) = found else { return self.noted(verdict) };
        let (winner, loser) = (self.name(winner), self.name(loser));
        let (margin, more) = (percent(verdict.margin), outlook(self.outcome, &[verdict]));
        let lead = if self.is_goodput() {
            format!("{winner} delivers more than {loser}")
        } else {
            format!("With {winner} the {} is {} than with {loser}", self.quantity(), self.better())
        };
        format!(
            "{lead}{}, but whether by the {margin} that matter cannot be told yet{more}.",
            self.place()
        )
    }

    /// Returns the winner, the loser, and the ratio of the first to the second.
    fn oriented(&self, verdict: &Verdict, winner: usize) -> Option<(usize, usize, Ratio)> {
        let ratio =
            verdict.ratio.filter(|_| verdict.difference.is_none() && !self.is_bound(verdict))?;
        Some(if winner == verdict.a {
            (verdict.a, verdict.b, ratio)
        } else {
            (verdict.b, verdict.a, ratio.inverse())
        })
    }

    /// Returns true if a figure of the pair is only a lower bound.
    fn is_bound(&self, verdict: &Verdict) -> bool {
        self.outcome.summary.iter().any(|summary| {
            summary.metric == self.metric.name
                && [verdict.a, verdict.b].contains(&summary.contender)
                && summary.censored
        })
    }

    fn figure(&self, verdict: &Verdict) -> Option<OpeningFigure> {
        let better = verdict.ahead.or(verdict.direction);
        let more = if self.is_goodput() { "more" } else { "higher" };
        let (a, b, ratio) = self.oriented(verdict, better.unwrap_or(verdict.a))?;
        let (value, range) = match better {
            Some(_) if ratio.point >= 2.0 => {
                (amount(ratio.point), format!("{} to {}", times(ratio.low), times(ratio.high)))
            }
            Some(_) if ratio.point < 1.0 => (
                format!("{} {}", amount(ratio.point), self.better()),
                percent_range(1.0 - ratio.high, 1.0 - ratio.low),
            ),
            Some(_) if ratio.high >= IN_TIMES => {
                (format!("{} {more}", amount(ratio.point)), change_range(ratio.low, ratio.high))
            }
            Some(_) => (
                format!("{} {more}", amount(ratio.point)),
                percent_range(ratio.low - 1.0, ratio.high - 1.0),
            ),
            None => (figures::change(ratio.point), change_range(ratio.low, ratio.high)),
        };
        let has_interval = verdict.confidence > 0.0 && ratio.low < ratio.high;
        let interval = if has_interval {
            format!("{range} at {} confidence", words::level(verdict.confidence))
        } else {
            String::new()
        };
        let own = |id: usize| {
            let summary = self.outcome.summary.iter();
            let mut summary = summary.filter(|s| s.contender == id && s.metric == self.metric.name);
            let shown = summary.next().map_or_else(String::new, |summary| {
                let is_bound = Bound::of(self.outcome, summary).holds(summary.estimate);
                let show: fn(f64, Unit) -> String =
                    if is_bound { words::beyond } else { words::figure };
                format!(" {}", show(summary.estimate, self.metric.unit))
            });
            format!("{}{shown}", label(self.outcome, id))
        };
        let about = format!("{}: {}, against {}", self.metric.label, own(a), own(b));
        Some(OpeningFigure { value, interval, about })
    }
}

/// Returns a margin without its sign: `5 %`.
fn bare(margin: &str) -> &str {
    margin.trim_start_matches('±')
}

/// Returns the size of a difference: `2.1 times`, `20 %`.
fn amount(ratio: f64) -> String {
    if ratio >= 2.0 { format!("{} times", times(ratio)) } else { percent((ratio - 1.0).abs()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::measurements::{ClockNeed, Role};
    use deadheat_race::race::testing;

    /// The headline and the figure of a race of two, or of three, under one claim.
    fn said(name: &str, label: &str, verdicts: &[Verdict]) -> (String, String) {
        let mut outcome = testing::outcome(if verdicts.len() == 1 { 2 } else { 3 });
        let is_rate = name == GOODPUT;
        outcome.path.kind = PathKind::Emulated;
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
        let standing = Standing::of(&outcome, &outcome.metrics[0]).unwrap();
        let figure = figure(&standing).unwrap();
        (claim(&standing).text, format!("{} ({})", figure.value, figure.interval))
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
            difference: None,
            margin: 0.05,
            confidence: 0.95,
            blocks: 40,
            known_since: None,
            more_blocks: Some(12),
            more_ns: None,
            direction: better,
            resolution: None,
            effect: None,
            note: String::new(),
        }
    }

    #[test]
    fn a_lead_is_said_from_the_side_of_the_winner() {
        let ahead = |ratio, better| verdict([0, 1], stats::Outcome::Ahead, ratio, Some(better));
        for (name, label, one, want) in [
            (
                GOODPUT,
                "goodput",
                ahead([2.1, 1.9, 2.3], 0),
                [
                    "red delivers 2.1 times as much as green on this path.",
                    "2.1 times (1.90 to 2.3 at 95 % confidence)",
                ],
            ),
            (
                GOODPUT,
                "goodput",
                ahead([0.8, 0.75, 0.85], 1),
                [
                    "green delivers 25 % more than red on this path.",
                    "25 % more (18 to 33 % at 95 % confidence)",
                ],
            ),
            (
                "rtt_p50_ns",
                "RTT p50",
                ahead([1.25, 1.2, 1.3], 1),
                [
                    "With green the typical round trip (p50) is 20 % shorter than with red on this path.",
                    "20 % shorter (17 to 23 % at 95 % confidence)",
                ],
            ),
        ] {
            let (headline, figure) = said(name, label, &[one]);
            assert_eq!([headline.as_str(), figure.as_str()], want);
        }
    }

    #[test]
    fn the_load_beside_the_work_is_named() {
        let mut outcome = testing::outcome(2);
        outcome.path.kind = PathKind::Emulated;
        let metric = outcome.metrics[0].clone();
        outcome.asked.workload = format!("{},load=tcp:cc=bbr+nodelay=off", outcome.asked.workload);
        let place = PlainClaim { outcome: &outcome, metric: &metric }.place();
        assert_eq!(place, " on this path beside a load of tcp:cc=bbr,nodelay=off");
    }

    #[test]
    fn a_tie_and_what_is_open_are_no_lead() {
        use stats::Outcome::{DeadHeat, Undecided};
        let (tie, figure) =
            said(GOODPUT, "goodput", &[verdict([0, 1], DeadHeat, [0.99, 0.97, 1.02], None)]);
        assert_eq!(tie, "A dead heat: red and green deliver the same within 5 % on this path.");
        assert_eq!(figure, "−1 % (−3 to +2 % at 95 % confidence)");
        let open = verdict([0, 1], Undecided, [0.9, 0.8, 1.1], None);
        assert_eq!(
            said("rtt_p99_ns", "RTT p99", &[open]).0,
            "Cannot tell yet whether red or green has the shorter round trip that 99 of 100 stay below (p99) on this path \
             (about 12 more blocks would tell)."
        );
        let leaning = verdict([0, 1], Undecided, [1.04, 1.01, 1.07], Some(0));
        assert_eq!(
            said(GOODPUT, "goodput", &[leaning]).0,
            "red delivers more than green on this path, but whether by the 5 % that matter cannot be told yet (about \
             12 more blocks would tell)."
        );
    }

    #[test]
    fn of_several_the_leader_is_named_only_where_it_leads_all() {
        use stats::Outcome::{Ahead, DeadHeat, Undecided};
        let of = |first: Verdict, second: Verdict| {
            let third = verdict([1, 2], DeadHeat, [1.0, 0.99, 1.01], None);
            said(GOODPUT, "goodput", &[first, second, third]).0
        };
        let win = |other| verdict([0, other], Ahead, [1.5, 1.4, 1.6], Some(0));
        let tie = |other| verdict([0, other], DeadHeat, [1.0, 0.99, 1.01], None);
        let open = |other| verdict([0, other], Undecided, [1.0, 0.8, 1.2], None);
        assert_eq!(
            of(win(1), win(2)),
            "red delivers 50 % more than green, the next of 3, on this path."
        );
        assert_eq!(
            of(tie(1), tie(2)),
            "A dead heat: red, green and blue deliver the same within 5 % on this path."
        );
        let some = of(win(1), open(2));
        assert!(
            some.starts_with("No single winner: red is ahead of green on this path."),
            "{some}"
        );
    }
}
