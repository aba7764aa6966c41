//! Standing of a race between two blocks: the figures of its result so far, as a view or a line of text takes them.
//!
//! Nothing is computed here. Between planned looks there are estimates and intervals and no verdict; a claim that has its
//! verdict brings its sentence.

use deadheat_base::figures::percent;
use deadheat_base::foreign::visible;
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::Metric;
use deadheat_report::words::{self, Scale};
use deadheat_result::analysis::headline::headline;
use deadheat_result::analysis::verdicts;
use deadheat_result::outcome::{Entrant, Outcome, Verdict, blocks_done};
use deadheat_stats as stats;

/// Standing of a race.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Standing {
    /// Question of the race: its title or contenders, its workload and its path.
    pub(super) question: String,
    pub(super) blocks: u64,
    pub(super) blocks_max: u64,
    /// Most time left; absent if unknown.
    pub(super) left: Option<Nanos>,
    /// Number of blocks after which the next planned look is; absent after the last.
    pub(super) next_look: Option<u64>,
    /// Metrics, claims first.
    pub(super) metrics: Vec<MetricStanding>,
    /// Sentences of the claims that are decided.
    pub(super) decided: Vec<String>,
    /// True if every claim is decided.
    pub(super) is_decided: bool,
    /// Number of blocks after which every claim was known, and the resolution that the race goes on for.
    pub(super) goes_on: Option<(u64, f64)>,
    /// Terms of the race, by name.
    pub(super) terms: Vec<(&'static str, String)>,
}

/// Figures under one metric.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MetricStanding {
    pub(super) label: String,
    pub(super) scale: Scale,
    pub(super) rows: Vec<FigureRow>,
    /// Pairs with a claim, and the control.
    pub(super) pairs: Vec<PairRow>,
    /// Margin in words: `±5 %`.
    pub(super) margin: String,
}

/// Contender with its estimate.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FigureRow {
    pub(super) label: String,
    /// True if the far kernel answers it, and no claim is about it.
    pub(super) is_floor: bool,
    /// Reason why it runs no more, in a word.
    pub(super) out: Option<&'static str>,
    pub(super) estimate: Option<f64>,
    /// Ends of the interval.
    pub(super) ends: Option<(f64, f64)>,
    pub(super) trials: u64,
}

/// Two contenders beside each other.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PairRow {
    pub(super) name: String,
    /// Ratio or difference.
    pub(super) point: String,
    pub(super) interval: String,
    /// Low end, point and high end in multiples of the margin; 0 is equality.
    pub(super) in_margins: Option<[f64; 3]>,
    /// True for the first contender and its hidden copy.
    pub(super) is_control: bool,
}

impl Standing {
    /// Returns the standing that a result has now.
    pub(super) fn of(outcome: &Outcome, left: Option<Nanos>) -> Standing {
        let blocks = blocks_done(outcome);
        let looks = outcome.plan.looks.iter().map(|look| look.blocks as u64);
        let is_decided = |verdict: &&Verdict| verdict.outcome != stats::Outcome::Undecided;
        let decided = outcome.verdicts.iter().filter(is_decided);
        Standing {
            question: question(outcome),
            blocks,
            blocks_max: outcome.plan.blocks_max,
            left,
            next_look: looks.filter(|look| *look > blocks).min(),
            metrics: outcome.metrics.iter().map(|one| MetricStanding::of(outcome, one)).collect(),
            decided: decided.map(|verdict| visible(&verdict.note)).collect(),
            is_decided: verdicts::all_settled(outcome),
            goes_on: goes_on(outcome),
            terms: terms(outcome),
        }
    }

    /// Returns the sentence that says how far the figures may be read.
    pub(super) fn caution(&self) -> String {
        if let Some((since, resolution)) = self.goes_on {
            let resolution = percent(resolution);
            return format!("Known since block {since}; goes on for ±{resolution}. Key q ends it.");
        }
        match (self.is_decided, self.next_look) {
            (true, _) => "Every claim has its verdict.".to_owned(),
            (false, Some(look)) => {
                format!("Not a verdict: intervals so far. Next look: after block {look}.")
            }
            (false, None) => {
                "Not a verdict: intervals so far. The next look is the last.".to_owned()
            }
        }
    }
}

impl MetricStanding {
    /// Returns the figures of a result under a metric.
    pub(super) fn of(outcome: &Outcome, metric: &Metric) -> MetricStanding {
        let rows: Vec<FigureRow> =
            outcome.contenders.iter().map(|entrant| figure(outcome, metric, entrant)).collect();
        let is_shown = |verdict: &&Verdict| verdict.metric == metric.name;
        let label = |id: usize| {
            visible(outcome.contenders.get(id).map_or("", |entrant| entrant.label.as_str()))
        };
        let claims = outcome.verdicts.iter().filter(is_shown);
        let margin = claims.clone().next().map(words::verdict_margin);
        let claims =
            claims.map(|one| pair(one, format!("{} / {}", label(one.a), label(one.b)), false));
        let control = outcome.control.iter().flat_map(|control| &control.verdicts).filter(is_shown);
        let control = control.map(|one| pair(one, format!("{0} / {0} (copy)", label(one.a)), true));
        MetricStanding {
            label: metric.label.clone(),
            scale: Scale::of(rows.iter().filter_map(|row| row.estimate), metric.unit),
            pairs: claims.chain(control).collect(),
            margin: margin.unwrap_or_else(|| words::margin(outcome.plan.margin)),
            rows,
        }
    }

    /// Returns the metric with its unit, once a figure is known: `RTT p50, µs`.
    pub(super) fn heading(&self) -> String {
        let is_known = self.rows.iter().any(|row| row.estimate.is_some());
        match self.scale.unit() {
            unit if is_known && !unit.is_empty() => format!("{}, {unit}", self.label),
            _ => self.label.clone(),
        }
    }

    /// Returns a row as name, estimate and interval; without an interval, the reason or the number of trials so far.
    pub(super) fn texts(&self, row: &FigureRow) -> [String; 3] {
        let number = |value: f64| self.scale.number(value);
        let interval = match (row.out, row.ends) {
            (Some(out), _) => out.to_owned(),
            (None, Some((low, high))) => words::interval(&number(low), &number(high)),
            (None, None) => words::count(row.trials, "trial"),
        };
        let estimate = row.estimate.map_or_else(|| words::NOTHING.to_owned(), number);
        [row.label.clone(), estimate, interval]
    }
}

/// Returns since which block every claim is known, and the resolution for which the race goes on nevertheless.
fn goes_on(outcome: &Outcome) -> Option<(u64, f64)> {
    let is_known = verdicts::all_decided(outcome) && !verdicts::all_settled(outcome);
    let since = outcome.verdicts.iter().filter_map(|verdict| verdict.known_since).max()?;
    is_known.then(|| (since, outcome.asked.resolve.unwrap_or(outcome.plan.margin)))
}

fn question(outcome: &Outcome) -> String {
    let racing = outcome.contenders.iter().map(|entrant| entrant.label.as_str());
    let who = outcome.title.clone().unwrap_or_else(|| racing.collect::<Vec<_>>().join(", "));
    let place = deadheat_report::place(outcome);
    visible(&format!("{who} · {} · {place}", headline(outcome)))
}

fn figure(outcome: &Outcome, metric: &Metric, entrant: &Entrant) -> FigureRow {
    let mut summaries = outcome.summary.iter();
    let found = summaries.find(|s| s.contender == entrant.id && s.metric == metric.name);
    FigureRow {
        label: visible(&entrant.label),
        is_floor: entrant.floor,
        out: entrant.out().map(|(word, _)| word).or(entrant.infeasible().map(|_| "not possible")),
        estimate: found.map(|summary| summary.estimate),
        ends: found.and_then(|summary| summary.low.zip(summary.high)),
        trials: found.map_or(0, |summary| summary.trials),
    }
}

fn pair(verdict: &Verdict, name: String, is_control: bool) -> PairRow {
    let in_time = verdict.difference.map(|one| {
        let scale = Scale::of([one.margin], deadheat_contract::measurements::Unit::Nanos);
        let [low, high] = [one.low, one.high].map(|end| scale.number(end));
        let ends = [one.low, one.point, one.high].map(|end| end / one.margin);
        (scale.with_unit(one.point), words::interval(&low, &high), ends)
    });
    let shown = in_time.or_else(|| {
        let ratio = verdict.ratio.as_ref()?;
        let (point, interval) = words::ratio(ratio);
        let margin = verdict.margin.ln_1p();
        Some((point, interval, [ratio.low, ratio.point, ratio.high].map(|end| end.ln() / margin)))
    });
    let (point, interval, ends) = match shown {
        Some((point, interval, ends)) => (point, interval, Some(ends)),
        None => (words::NOTHING.to_owned(), String::new(), None),
    };
    let in_margins = ends.filter(|ends| ends.iter().all(|end| end.is_finite()));
    PairRow { name, point, interval, in_margins, is_control }
}

/// Returns the terms of the race that its plan fixed.
fn terms(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let plan = &outcome.plan;
    let looks: Vec<String> = plan.looks.iter().map(|look| look.blocks.to_string()).collect();
    let mut terms = vec![
        ("margin", format!("{}, {}", words::margin(plan.margin), plan.margin_reason)),
        ("looks", format!("after blocks {}", looks.join(", "))),
        ("placement", format!("{}: {}", plan.placement, plan.placement_reason)),
    ];
    if plan.any_time > 0.0 {
        terms.push(("between", "strong evidence may decide a claim after any block".to_owned()));
    }
    if let (Some(workload), Some(why)) = (&plan.workload, &plan.workload_reason) {
        terms.push(("trials", format!("{workload}: {why}")));
    }
    terms.push(("seed", outcome.seed.to_string()));
    terms.push(("confidence", words::level(outcome.asked.confidence)));
    for (_, text) in &mut terms {
        *text = visible(text);
    }
    terms
}
