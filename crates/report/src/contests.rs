//! Contenders that share a bottleneck: their shares, how fair these are, and the harm. Unfair pairs are named first. All
//! estimates are the analysis's; nothing is computed but shares from ratios of two sides.

use super::document::{Block, Cell, Column, Line, Section, Table, Tone};
use super::standing::tone;
use super::words;
use deadheat_base::figures::{in_percent, percent, percent_range};
use deadheat_contract::measurements::Unit;
use deadheat_contract::workload::load;
use deadheat_result::contest::{Contest, Portion};
use deadheat_result::outcome::{Entrant, Outcome, Ratio};
use deadheat_stats::Outcome as Ruled;

/// Place of a contender beside itself, after all other pairs.
const BESIDE_ITSELF: usize = 4;

/// Most pairs that are not fair with a sentence each.
const MOST_NAMED: usize = 3;

/// Two sides at one bottleneck; the one with more than its fair share is first, where that is known.
struct SharedPair<'a> {
    outcome: &'a Outcome,
    names: [String; 2],
    /// Contest of each side as the measured one; the second side may have been the load alone.
    contests: [Option<&'a Contest>; 2],
    /// Share of the first side, and its fair share.
    share: Option<Portion>,
    fair: f64,
    ruling: Option<Ruled>,
}

/// Returns true for a race of every contender beside every other one.
pub(super) fn is_matrix(outcome: &Outcome) -> bool {
    outcome.contenders.iter().any(|one| rivals(one).is_some_and(|rivals| !rivals.is_empty()))
}

fn rivals(entrant: &Entrant) -> Option<&[usize]> {
    entrant.cell.as_ref()?.rivals.as_deref()
}

/// Returns the pairs of a race: unfair ones first, and contenders beside themselves last.
fn pairs(outcome: &Outcome) -> Vec<SharedPair<'_>> {
    let mut all: Vec<SharedPair<'_>> =
        outcome.contests.iter().filter_map(|contest| SharedPair::of(outcome, contest)).collect();
    all.sort_by(|a, b| {
        let distance =
            |pair: &SharedPair<'_>| pair.share.map_or(0.0, |share| share.point - pair.fair);
        a.place().cmp(&b.place()).then(distance(b).total_cmp(&distance(a)))
    });
    all
}

impl<'a> SharedPair<'a> {
    /// Returns the pair of a contest; `None` if the mirrored contest has it.
    fn of(outcome: &'a Outcome, contest: &'a Contest) -> Option<SharedPair<'a>> {
        let entrant = outcome.contenders.iter().find(|one| one.id == contest.contender)?;
        let row = |one: &Entrant| one.cell.as_ref().map_or(one.id, |cell| cell.contender);
        let (own, typed) = (outcome.contender(row(entrant)), &contest.load);
        let Some(&[rival]) = rivals(entrant) else {
            let (contests, share) = ([Some(contest), None], contest.share);
            let (fair, ruling) = (contest.fair_share.unwrap_or(0.5), contest.outcome);
            let names = [own, typed.clone()];
            return Some(SharedPair { outcome, names, contests, share, fair, ruling });
        };
        if rival < entrant.id {
            return None;
        }
        let mirrored = outcome.contests.iter().find(|other| other.contender == rival);
        let verdict = outcome.verdicts.iter().find(|one| (one.a, one.b) == (entrant.id, rival));
        let other = outcome.contenders.iter().find(|one| one.id == rival)?;
        let share = verdict.and_then(|verdict| verdict.ratio).map(part);
        let pair = SharedPair {
            outcome,
            names: [own, outcome.contender(row(other))],
            contests: [Some(contest), mirrored],
            share: share.or(contest.share),
            fair: 0.5,
            ruling: verdict.map(|verdict| verdict.outcome),
        };
        Some(pair.leader_first())
    }

    fn leader_first(mut self) -> SharedPair<'a> {
        if let Some(share) = self.share.filter(|share| share.point < self.fair) {
            let rest = |end: Option<f64>| end.map(|end| 1.0 - end);
            let (low, high) = (rest(share.high), rest(share.low));
            self.share = Some(Portion { point: 1.0 - share.point, low, high });
            self.fair = 1.0 - self.fair;
            self.names.swap(0, 1);
            self.contests.swap(0, 1);
        }
        self
    }

    /// Returns true for a contender of a matrix beside itself.
    fn is_itself(&self) -> bool {
        self.names[0] == self.names[1] && is_matrix(self.outcome)
    }

    /// Returns its place among all: not fair, undecided, fair, without a ruling; a contender beside itself is last.
    fn place(&self) -> usize {
        let of_ruling = match self.ruling {
            Some(Ruled::Ahead) => 0,
            Some(Ruled::Undecided) => 1,
            Some(Ruled::DeadHeat) => 2,
            None => 3,
        };
        of_ruling + if self.is_itself() { BESIDE_ITSELF } else { 0 }
    }

    /// Returns the ruling in a word or two.
    fn ruled(&self) -> Cell {
        let Some(ruling) = self.ruling else { return Cell::default() };
        let said = match ruling {
            Ruled::Ahead => "not fair",
            Ruled::DeadHeat => "fair",
            Ruled::Undecided => "undecided",
        };
        Cell::text(said).tone(tone(ruling))
    }

    /// Returns the median of a figure over the trials in which the first side is the measured one.
    fn metric(&self, name: &str) -> Option<f64> {
        let id = self.contests[0]?.contender;
        let mut all = self.outcome.summary.iter();
        all.find(|one| one.contender == id && one.metric == name).map(|summary| summary.estimate)
    }

    /// Returns `tcp:cc=bbr 71 % (66 to 75 %)`.
    fn said(&self) -> String {
        let share = self.share.map_or_else(String::new, |share| format!(" {}", with_range(share)));
        format!("{}{share} beside {}", self.names[0], self.names[1])
    }

    /// Returns a sentence on a pair that is not fair.
    fn unfair(&self) -> Line {
        let margin = self.outcome.plan.margin;
        let share = self.share.unwrap_or(Portion { point: self.fair, low: None, high: None });
        let odds = |share: f64| share / (1.0 - share) * ((1.0 - self.fair) / self.fair);
        let [own, other] = &self.names;
        // The ends of the interval, as the goodput of a flow of the one over that of a flow of the other.
        let (low, high) = (share.low.map_or(1.0, odds), share.high.map_or(1.0, odds));
        let is_beyond = low > 1.0 + margin || high < 1.0 / (1.0 + margin);
        let head = if is_beyond { "Not fair" } else { "Not equal, and perhaps not fair" };
        let verb = if share.point >= self.fair { "has" } else { "is left with" };
        let harm = self.contests[usize::from(share.point >= self.fair)]
            .and_then(|contest| contest.harms.first())
            .map(|harm| (usize::from(share.point >= self.fair), with_range(harm.portion)));
        let harm = harm.map_or_else(String::new, |(side, harm)| {
            format!("; harm to {}: {harm}", self.names[side])
        });
        let fair = if (self.fair - 0.5).abs() < 1e-9 {
            String::new()
        } else {
            format!(", where {} are fair", percent(self.fair))
        };
        let text =
            format!("{head}: {own} {verb} {} beside {other}{fair}{harm}.", with_range(share));
        Line::new(text, Tone::Good)
    }
}

/// Returns the share of the first of two sides, from the ratio of what they have.
fn part(ratio: Ratio) -> Portion {
    let of = |ratio: f64| ratio / (1.0 + ratio);
    Portion { point: of(ratio.point), low: Some(of(ratio.low)), high: Some(of(ratio.high)) }
}

fn with_range(portion: Portion) -> String {
    let range = portion.low.zip(portion.high);
    let range = range.map(|(low, high)| format!(" ({})", percent_range(low, high)));
    format!("{}{}", percent(portion.point), range.unwrap_or_default())
}

/// Returns the sentences on the fairness of all pairs, unfair ones first; none without a ruling.
pub(super) fn lines(outcome: &Outcome) -> Vec<Line> {
    let all = pairs(outcome);
    let (same, all): (Vec<_>, Vec<_>) = all.iter().partition(|pair| pair.is_itself());
    let of = |ruling: Ruled| -> Vec<&&SharedPair<'_>> {
        all.iter().filter(|pair| pair.ruling == Some(ruling)).collect()
    };
    let (unfair, open, fair) = (of(Ruled::Ahead), of(Ruled::Undecided), of(Ruled::DeadHeat));
    let mut lines: Vec<Line> = unfair.iter().take(MOST_NAMED).map(|pair| pair.unfair()).collect();
    let list = |pairs: &[&&SharedPair<'_>]| {
        words::list(&pairs.iter().map(|pair| pair.said()).collect::<Vec<_>>())
    };
    let margin = words::margin(outcome.plan.margin);
    let groups = [
        ("Also not fair".to_owned(), unfair.get(MOST_NAMED..).unwrap_or_default(), Tone::Good),
        (format!("Undecided whether fair within {margin}"), &open[..], Tone::Open),
        (format!("Fair within {margin}"), &fair[..], Tone::Tie),
    ];
    for (head, pairs, tone) in groups.into_iter().filter(|(_, pairs, _)| !pairs.is_empty()) {
        lines.push(Line::new(format!("{head}: {}.", list(pairs)), tone));
    }
    let odd: Vec<&&SharedPair<'_>> =
        same.iter().filter(|pair| pair.ruling == Some(Ruled::Ahead)).collect();
    if !odd.is_empty() {
        let text = format!(
            "Beside itself the one that is measured should have a half, and has not: {}; the roles make a difference here.",
            list(&odd)
        );
        lines.push(Line::new(text, Tone::Open));
    }
    lines
}

/// Returns the table of pairs, with the bottleneck's account, and its heading.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    Section::new("At one bottleneck", vec![Block::Table(table(outcome)?)])
}

/// Returns the table of pairs without intervals of harm and without the account of the bottleneck; `None` but for a
/// matrix.
pub(super) fn brief(outcome: &Outcome) -> Option<Table> {
    let all = Some(pairs(outcome)).filter(|_| is_matrix(outcome))?;
    let mut columns = sides(&all);
    for cell in columns.iter_mut().skip(3).flat_map(|column| &mut column.cells) {
        cell.rest.clear();
    }
    Some(Table { columns, legend: legend(outcome) })
}

/// Returns the table of pairs; `None` without a load.
pub(super) fn table(outcome: &Outcome) -> Option<Table> {
    let all = pairs(outcome);
    all.first()?;
    let columns = sides(&all).into_iter().chain(account(&all));
    let is_told = |column: &Column| column.cells.iter().any(|cell| !cell.is_empty());
    Some(Table { columns: columns.filter(is_told).collect(), legend: legend(outcome) })
}

fn column(all: &[SharedPair<'_>], heading: &str, cell: &dyn Fn(&SharedPair<'_>) -> Cell) -> Column {
    Column::new(heading, all.iter().map(cell).collect())
}

/// Returns the columns of what each side of a pair has.
fn sides(all: &[SharedPair<'_>]) -> Vec<Column> {
    let portion = |portion: Option<Portion>| {
        portion.map_or_else(Cell::default, |Portion { point, low, high }| {
            let ends = low.zip(high).map(|(low, high)| (in_percent(low), in_percent(high)));
            let range = ends.map_or_else(String::new, |(low, high)| words::interval(&low, &high));
            Cell::number(in_percent(point), range)
        })
    };
    let harm = |pair: &SharedPair<'_>, side: usize| {
        let harm = pair.contests[side].and_then(|contest| contest.harms.first());
        portion(harm.map(|harm| harm.portion))
    };
    vec![
        column(all, "pair", &|pair| {
            Cell::text(format!("{} beside {}", pair.names[0], pair.names[1]))
        }),
        column(all, "share of the first, %", &|pair| portion(pair.share)),
        column(all, "", &|pair| pair.ruled()),
        column(all, "harm to it, %", &|pair| harm(pair, 0)),
        column(all, "to the other, %", &|pair| harm(pair, 1)),
    ]
}

/// Returns the columns of figures of both sides together, and of their queue, from the trials in which the first side is
/// the measured one.
fn account(all: &[SharedPair<'_>]) -> [Column; 6] {
    let figure = |figure: Option<f64>, show: fn(f64) -> String| {
        figure.map_or_else(Cell::default, |value| Cell::number(show(value), ""))
    };
    let own =
        |pair: &SharedPair<'_>, of: fn(&Contest) -> Option<f64>| pair.contests[0].and_then(of);
    let time: fn(f64) -> String = |ns| words::figure(ns, Unit::Nanos);
    [
        column(all, "Jain's index", &|pair| {
            figure(pair.metric(load::JAIN), |index| format!("{index:.2}"))
        }),
        column(all, "shares of the flows, %", &|pair| {
            let shares = pair.contests[0].map_or(&[][..], |one| &one.flow_shares[..]);
            // With a flow of each side the list says the same as the share.
            let shown = shares.iter().filter(|_| shares.len() > 2).map(|share| in_percent(*share));
            Cell::text(shown.collect::<Vec<_>>().join(" "))
        }),
        column(all, "shares stay after", &|pair| figure(pair.metric(load::STAY), time)),
        column(all, "in the queue, p50", &|pair| figure(own(pair, |one| one.queued_ns), time)),
        column(all, "dropped, %", &|pair| figure(own(pair, |one| one.dropped_share), in_percent)),
        column(all, "marked, %", &|pair| figure(own(pair, |one| one.marked_share), in_percent)),
    ]
}

fn legend(outcome: &Outcome) -> String {
    let level = words::level(outcome.asked.confidence);
    let share = if outcome.contests.iter().all(|contest| contest.share.is_none()) {
        String::new()
    } else {
        let together = if is_matrix(outcome) { ", all of them together" } else { "" };
        let margin = percent(outcome.plan.margin);
        format!(
            "Share: of the goodput of both, with its interval at {level}{together}. Fair: a flow of the one has at most {margin} \
             more than one of the other. "
        )
    };
    format!(
        "{share}Harm: the part that the other takes of what it gets alone, with its {level} interval."
    )
}
