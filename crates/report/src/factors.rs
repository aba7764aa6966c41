//! Report on a race over conditions: shares of variation by factor, ratios of levels, and the figures of
//! every contender under every combination.

use super::document::{Block, Cell, Column, Line, Point, Section, Table, Tone};
use super::names::{entrant, vary};
use super::results::{Bound, figure};
use super::standing::{Standing, result, tone};
use super::words::{self, Scale};
use deadheat_base::figures::{in_percent, percent};
use deadheat_contract::measurements::{Metric, Role};
use deadheat_result::outcome::{
    Entrant, LevelRatio, Outcome, Ratio, ShareKind, Summary, VarianceShare, Verdict,
};
use deadheat_stats as stats;

/// Minimum share of the interactions at which no factor has a notable effect of its own.
const TOGETHER: f64 = 0.1;

/// Returns the answer: the factor that matters most, then the leader under how many combinations.
pub(super) fn lines(outcome: &Outcome) -> Vec<Line> {
    let claimed = outcome.metrics.iter().filter(|metric| metric.role == Role::Claim);
    let mut lines: Vec<Line> = claimed.filter_map(|metric| accounts(outcome, metric)).collect();
    if lines.is_empty() {
        let text = "Too few trials to say what accounts for the variation.";
        lines.push(Line::new(text, Tone::Open));
    }
    lines.extend(leads(outcome));
    lines
}

/// Returns the sentences on who leads under how many combinations, one for each claim and pair.
pub(super) fn leads(outcome: &Outcome) -> Vec<Line> {
    let rows = outcome.asked.contenders.len();
    let pairs = || (0..rows).flat_map(move |a| (a + 1..rows).map(move |b| (a, b)));
    let claimed = outcome.metrics.iter().filter(|metric| metric.role == Role::Claim);
    claimed
        .flat_map(|metric| pairs().filter_map(move |(a, b)| under(outcome, metric, a, b)))
        .collect()
}

/// Returns a line such as
/// `RTT p50: placement 71 % (66 to 75), transport 2 % (1 to 4) of the variation; noise 27 %.`
fn accounts(outcome: &Outcome, metric: &Metric) -> Option<Line> {
    let (mut varied, rest): (Vec<&VarianceShare>, Vec<&VarianceShare>) =
        of_metric(outcome, metric).partition(|share| is_varied(share));
    varied.sort_by(|a, b| b.share.total_cmp(&a.share));
    let say = |share: &&VarianceShare| {
        let interval = match (share.low, share.high) {
            (Some(low), Some(high)) if is_varied(share) => {
                format!(" ({} to {})", in_percent(low), in_percent(high))
            }
            _ => String::new(),
        };
        format!("{} {}{interval}", share.factor, percent(share.share))
    };
    let list = |shares: &[&VarianceShare]| shares.iter().map(say).collect::<Vec<_>>().join(", ");
    let together =
        |share: &&VarianceShare| share.kind == ShareKind::Interactions && share.share >= TOGETHER;
    let depends = if rest.iter().any(together) {
        " The effect of a factor depends on the others; see each combination."
    } else {
        ""
    };
    let text = format!(
        "{}: {} of the variation; {}.{depends}{}",
        metric.label,
        list(&varied),
        list(&rest),
        unknown(outcome, &varied)
    );
    (!varied.is_empty()).then(|| Line::new(text, Tone::Good))
}

/// Returns the factors with unknown shares.
fn unknown(outcome: &Outcome, known: &[&VarianceShare]) -> String {
    let is_known = |name: &str| {
        known.iter().any(|share| share.kind == ShareKind::Factor && share.factor == name)
    };
    let mut names: Vec<&str> =
        outcome.factors.iter().map(|f| f.name.as_str()).filter(|name| !is_known(name)).collect();
    let contenders = known.iter().any(|share| share.kind == ShareKind::Contenders);
    if outcome.asked.contenders.len() > 1 && !contenders {
        names.push("the contenders");
    }
    match names.as_slice() {
        [] => String::new(),
        names => format!(" Nothing of {}: figures under one level only.", words::list(names)),
    }
}

fn of_metric<'a>(outcome: &'a Outcome, metric: &Metric) -> impl Iterator<Item = &'a VarianceShare> {
    outcome.shares.iter().filter(move |share| share.metric == metric.name)
}

fn is_varied(share: &VarianceShare) -> bool {
    matches!(share.kind, ShareKind::Factor | ShareKind::Contenders)
}

/// Returns a line such as
/// `RTT p50, tcp against udp: udp ahead under 4 of 6 combinations, dead heat under 2.`
fn under(outcome: &Outcome, metric: &Metric, a: usize, b: usize) -> Option<Line> {
    let row = |id: usize| entrant(outcome, id)?.cell.as_ref().map(|cell| cell.contender);
    let verdicts: Vec<&Verdict> = outcome
        .verdicts
        .iter()
        .filter(|v| v.metric == metric.name && row(v.a) == Some(a) && row(v.b) == Some(b))
        .collect();
    let name = |row: usize| outcome.contender(row);
    let ahead = |of: usize| {
        verdicts.iter().filter(|v| v.ahead.is_some_and(|id| row(id) == Some(of))).count()
    };
    let with = |outcome| verdicts.iter().filter(|v| v.outcome == outcome).count();
    let (tie, open) = (stats::Outcome::DeadHeat, stats::Outcome::Undecided);
    let counts = [
        (format!("{} ahead", name(a)), ahead(a), Tone::Good),
        (format!("{} ahead", name(b)), ahead(b), Tone::Good),
        ("dead heat".to_owned(), with(tie), Tone::Tie),
        ("undecided".to_owned(), with(open), Tone::Open),
    ];
    let tone = counts.iter().find(|(_, n, _)| *n > 0)?.2;
    let mut parts: Vec<String> = counts
        .iter()
        .filter(|(_, n, _)| *n > 0)
        .map(|(what, n, _)| format!("{what} under {n}"))
        .collect();
    parts[0].push_str(&format!(" of {}", words::count(verdicts.len() as u64, "combination")));
    let text = format!("{}, {} against {}: {}.", metric.label, name(a), name(b), parts.join(", "));
    Some(Line::new(text, tone))
}

/// Returns the shares of every metric, and the ratios of levels.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    let metrics: Vec<&Metric> = outcome
        .metrics
        .iter()
        .filter(|metric| of_metric(outcome, metric).next().is_some())
        .collect();
    let blocks =
        vec![Block::Table(shares(outcome, &metrics)), Block::Table(levels(outcome, &metrics))];
    Section::new("What accounts for the variation", blocks)
}

fn shares(outcome: &Outcome, metrics: &[&Metric]) -> Table {
    let mut rows: Vec<(ShareKind, &str)> = Vec::new();
    for share in &outcome.shares {
        let row = (share.kind, share.factor.as_str());
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    // The order of a single metric, also where the first has no interactions.
    rows.sort_by_key(|(kind, _)| match kind {
        ShareKind::Factor => 0,
        ShareKind::Contenders => 1,
        ShareKind::Interactions => 2,
        ShareKind::Blocks => 3,
        ShareKind::Noise => 4,
    });
    let find = |metric: &Metric, row: &(ShareKind, &str)| {
        of_metric(outcome, metric).find(|share| (share.kind, share.factor.as_str()) == *row)
    };
    let cell = |share: Option<&VarianceShare>| {
        share.map_or_else(Cell::default, |share| {
            let interval = match (share.low, share.high) {
                (Some(low), Some(high)) => words::interval(&in_percent(low), &in_percent(high)),
                _ => String::new(),
            };
            Cell::number(in_percent(share.share), interval)
        })
    };
    let mut columns =
        vec![Column::new("factor", rows.iter().map(|(_, name)| Cell::text(*name)).collect())];
    columns.extend(metrics.iter().map(|metric| {
        let cells = rows.iter().map(|row| cell(find(metric, row))).collect();
        Column::new(format!("{}, %", metric.label), cells)
    }));
    Table { columns, legend: shares_legend(outcome) }
}

fn shares_legend(outcome: &Outcome) -> String {
    let mut legend = "Share of the variance of the figures' logarithms, without the noise that is \
                      expected in it"
        .to_owned();
    if outcome.shares.iter().any(|share| share.low.is_some()) {
        let level = words::level(outcome.asked.confidence);
        legend.push_str(&format!(", with its {level} interval over blocks."));
    } else {
        let fewest = stats::variance::FEWEST_BLOCKS;
        legend.push_str(&format!("; an interval takes {fewest} blocks."));
    }
    legend.push_str(
        " Interactions: what the factors do together beyond what each does on its own. Noise: \
         trials under the same conditions in the same block.",
    );
    let left_out = outcome.shares.iter().map(|share| share.left_out).max().unwrap_or(0);
    if left_out > 0 {
        let trials = words::count(left_out, "trial");
        legend.push_str(&format!(" Left out: {trials} without a figure above 0."));
    }
    legend
}

fn levels(outcome: &Outcome, metrics: &[&Metric]) -> Table {
    let mut rows: Vec<(&str, &str, &str)> = Vec::new();
    for share in &outcome.shares {
        for level in &share.levels {
            let row = (share.factor.as_str(), level.level.as_str(), level.against.as_str());
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
    }
    let find = |metric: &Metric, row: &(&str, &str, &str)| -> Option<&LevelRatio> {
        let mut shares = of_metric(outcome, metric);
        let share = shares.find(|share| is_varied(share) && share.factor == row.0)?;
        share.levels.iter().find(|l| (l.level.as_str(), l.against.as_str()) == (row.1, row.2))
    };
    let cell = |level: Option<&LevelRatio>| {
        level.map_or_else(Cell::default, |level| {
            let (low, high) = (level.low.unwrap_or(1.0), level.high.unwrap_or(1.0));
            let (point, interval) = words::ratio(&Ratio { point: level.ratio, low, high });
            Cell::number(point, if level.low.is_some() { interval } else { String::new() })
        })
    };
    let mut columns = vec![
        Column::new("factor", rows.iter().map(|row| Cell::text(row.0)).collect()),
        Column::new(
            "level / level",
            rows.iter().map(|row| Cell::text(format!("{} / {}", row.1, row.2))).collect(),
        ),
    ];
    columns.extend(metrics.iter().map(|metric| {
        let cells = rows.iter().map(|row| cell(find(metric, row))).collect();
        Column::new(format!("{}, ratio", metric.label), cells)
    }));
    let legend = format!(
        "Ratio: first level over second, all else equal, averaged over the other conditions, with \
         its {} interval where the blocks allow one.",
        words::level(outcome.asked.confidence)
    );
    Table { columns, legend }
}

/// Returns, for each claim, a row for each combination and a column for each contender.
pub(super) fn combinations(outcome: &Outcome) -> Option<Section> {
    let tables = combined_tables(outcome).into_iter().map(Block::Table);
    Section::new("Under each combination", tables.collect())
}

/// Returns these tables, one for each claim.
pub(super) fn combined_tables(outcome: &Outcome) -> Vec<Table> {
    if !vary(outcome) {
        return Vec::new();
    }
    let rows = combined_levels(outcome);
    let claimed = outcome.metrics.iter().filter(|metric| metric.role == Role::Claim);
    claimed.map(|metric| combined(outcome, metric, &rows)).collect()
}

/// Returns the levels of each combination, a number for each factor.
fn combined_levels(outcome: &Outcome) -> Vec<&[usize]> {
    let mut rows: Vec<&[usize]> = Vec::new();
    for cell in outcome.contenders.iter().filter_map(|entrant| entrant.cell.as_ref()) {
        if !rows.contains(&cell.levels.as_slice()) {
            rows.push(&cell.levels);
        }
    }
    rows
}

/// Returns each combination in words, `placement=busy, size=1kB`, with the ids and the names of its contenders.
pub(super) fn combined_names(outcome: &Outcome) -> Vec<(String, Vec<(usize, String)>)> {
    let named = |levels: &[usize]| {
        let names = outcome.factors.iter().enumerate();
        let names = names.map(|(at, one)| format!("{}={}", one.name, level(outcome, at, levels)));
        let its = outcome.contenders.iter().filter_map(|entrant| {
            let cell = entrant.cell.as_ref().filter(|cell| cell.levels == levels)?;
            Some((entrant.id, outcome.contender(cell.contender)))
        });
        (names.collect::<Vec<_>>().join(", "), its.collect())
    };
    combined_levels(outcome).into_iter().map(named).collect()
}

fn combined(outcome: &Outcome, metric: &Metric, rows: &[&[usize]]) -> Table {
    let of_metric = || outcome.summary.iter().filter(|summary| summary.metric == metric.name);
    let exact = of_metric().filter(|summary| !Bound::of(outcome, summary).holds(summary.estimate));
    let scale = Scale::of(exact.map(|summary| summary.estimate), metric.unit);
    let mut columns: Vec<Column> = (0..outcome.factors.len())
        .map(|factor| {
            let level = |levels: &&[usize]| Cell::text(level(outcome, factor, levels));
            Column::new(outcome.factors[factor].name.as_str(), rows.iter().map(level).collect())
        })
        .collect();
    let at = |levels: &[usize], row: usize| {
        outcome.contenders.iter().find(|entrant| {
            entrant.cell.as_ref().is_some_and(|c| c.contender == row && c.levels == levels)
        })
    };
    let cell = |entrant: Option<&Entrant>| {
        let summary: Option<&Summary> =
            entrant.and_then(|entrant| of_metric().find(|s| s.contender == entrant.id));
        match (summary, entrant) {
            (Some(summary), _) => figure(outcome, metric, summary, &scale),
            (None, Some(entrant)) if entrant.infeasible().is_some() => {
                Cell::text("not possible").tone(Tone::Aside)
            }
            _ => Cell::text(words::NOTHING).tone(Tone::Aside),
        }
    };
    for row in 0..outcome.asked.contenders.len() {
        let cells = rows.iter().map(|levels| cell(at(levels, row))).collect();
        columns.push(Column::new(outcome.contender(row), cells));
    }
    if outcome.asked.contenders.len() == 2 {
        let verdict = |levels: &&[usize]| {
            let ids = (at(levels, 0).map(|e| e.id), at(levels, 1).map(|e| e.id));
            let mut verdicts = outcome.verdicts.iter().filter(|v| v.metric == metric.name);
            let found = verdicts.find(|v| (Some(v.a), Some(v.b)) == ids);
            found
                .map_or_else(Cell::default, |v| Cell::text(short(outcome, v)).tone(tone(v.outcome)))
        };
        columns.push(Column::new("verdict", rows.iter().map(verdict).collect()));
    } else {
        let verdict = |levels: &&[usize]| {
            let entrants = (0..outcome.asked.contenders.len()).filter_map(|row| at(levels, row));
            best(outcome, metric, &entrants.collect::<Vec<_>>())
        };
        columns.push(Column::new("verdict", rows.iter().map(verdict).collect()));
        columns.retain(Column::has_content);
    }
    let legend = format!(
        "{} in {}: median of the trials, with its {} interval.",
        metric.label,
        scale.unit(),
        words::level(outcome.asked.confidence)
    );
    Table { columns, legend }
}

/// Returns the best of several contenders under a combination, in a word or two; an empty cell without verdicts.
fn best(outcome: &Outcome, metric: &Metric, entrants: &[&Entrant]) -> Cell {
    let ids: Vec<usize> = entrants.iter().map(|entrant| entrant.id).collect();
    let Some(standing) = Standing::among(outcome, metric, &ids) else { return Cell::default() };
    match standing.best().as_deref() {
        Some([leader]) => {
            let leader = entrants.iter().find(|entrant| entrant.id == *leader);
            let cell = leader.and_then(|entrant| entrant.cell.as_ref());
            let name = cell.map_or_else(String::new, |cell| outcome.contender(cell.contender));
            Cell::text(format!("{name} ahead")).tone(Tone::Good)
        }
        Some(_) => Cell::text("dead heat of the best").tone(Tone::Tie),
        None => Cell::text("undecided").tone(Tone::Open),
    }
}

/// Returns the verdict in a word or two, without the conditions, which are beside it.
pub(super) fn short(outcome: &Outcome, verdict: &Verdict) -> String {
    let ahead = verdict.ahead.and_then(|id| entrant(outcome, id)?.cell.as_ref());
    match ahead {
        Some(cell) => format!("{} ahead", outcome.contender(cell.contender)),
        None => result(outcome, verdict),
    }
}

fn level(outcome: &Outcome, factor: usize, levels: &[usize]) -> String {
    let named = || outcome.factors.get(factor)?.levels.get(*levels.get(factor)?);
    named().cloned().unwrap_or_else(|| words::NOTHING.to_owned())
}

/// Returns `same-core, 1kB: tcp / udp`; `None` if the two are no cells of one combination.
pub(super) fn pair(outcome: &Outcome, a: usize, b: usize) -> Option<String> {
    let [a, b] = [a, b].map(|id| entrant(outcome, id).and_then(|entrant| entrant.cell.as_ref()));
    let (a, b) = a.zip(b).filter(|(a, b)| a.levels == b.levels)?;
    let levels = (0..outcome.factors.len()).map(|factor| level(outcome, factor, &a.levels));
    Some(format!(
        "{}: {} / {}",
        levels.collect::<Vec<_>>().join(", "),
        outcome.contender(a.contender),
        outcome.contender(b.contender)
    ))
}

/// Returns combinations that cannot run, grouped by reason.
pub(super) fn infeasible(outcome: &Outcome) -> Option<Section> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for entrant in &outcome.contenders {
        let Some(why) = entrant.infeasible() else { continue };
        match reasons.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, labels)) => labels.push(&entrant.label),
            None => reasons.push((why, vec![&entrant.label])),
        }
    }
    let point = |(why, labels): (&str, Vec<&str>)| Point {
        lead: labels.join("; "),
        values: Vec::new(),
        detail: why.to_owned(),
    };
    let points = reasons.into_iter().map(point).collect();
    Section::new("Not possible here", vec![Block::Points(points)])
}

/// Returns the varied conditions: `placement: same-core, busy; size: 64, 1kB`.
pub(super) fn varied(outcome: &Outcome) -> String {
    let one = |factor: &deadheat_result::outcome::Factor| {
        format!("{}: {}", factor.name, factor.levels.join(", "))
    };
    outcome.factors.iter().map(one).collect::<Vec<_>>().join("; ")
}
