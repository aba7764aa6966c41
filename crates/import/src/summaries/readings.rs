//! Figures of summaries by their names, and the trials that they make.

use std::time::SystemTime;

use super::super::loose_json::LooseValue;
use super::super::rates::{GOODPUT, SENT, TRANSACTIONS, metric, time};
use super::super::samples::{MessageCounts, MetricNaming, loss_metric};
use super::super::text::is_among;
use super::super::{FileContent, ImportedTrial, stamp};
use super::FigureNames;
use super::line::{self, FoundNumber, NumberKind};
use deadheat_base::time::epoch_ms;
use deadheat_contract::measurements::{Distribution, Ledger, Quantile, Role, Unit};
use deadheat_stats::quantile::printable;

/// Meaning of a figure that is there again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Repeats {
    /// It is of the next trial.
    Next,
    /// A line that begins so begins a trial, in which rates and times are of intervals: their mean counts.
    Intervals(&'static str),
    /// A line that begins so begins a trial, in which rates are of flows side by side: their sum counts.
    Flows(&'static str),
}

/// Figures that are times: name, and label.
const TIMES: &[(&str, &str)] = &[
    ("rtt", "RTT"),
    ("rtt_min", "RTT min"),
    ("rtt_download", "RTT under download"),
    ("rtt_upload", "RTT under upload"),
    ("latency", "latency"),
    ("request", "request"),
    ("connect", "connect"),
    ("first_byte", "first byte"),
    ("lookup", "name lookup"),
    ("probe", "probe"),
    ("login", "login"),
];

/// Figures that are rates and other numbers of which more is better: name, name of the metric, label, unit.
const RATES: &[(&str, &str, &str, Unit)] = &[
    ("goodput", GOODPUT, "goodput", Unit::BitRate),
    ("download", "goodput_down_bps", "goodput down", Unit::BitRate),
    ("upload", "goodput_up_bps", "goodput up", Unit::BitRate),
    ("sent", SENT, "sent", Unit::BitRate),
    // Of one connection among several, of which a sum may be there, too.
    ("sent_one", SENT, "sent", Unit::BitRate),
    ("throughput", "throughput_bps", "throughput", Unit::BitRate),
    ("transactions", TRANSACTIONS, "transactions/s", Unit::Count),
    ("rpm", "round_trips_per_min", "round trips/min", Unit::Count),
    ("rpm_download", "round_trips_per_min_download", "round trips/min under download", Unit::Count),
    ("rpm_upload", "round_trips_per_min_upload", "round trips/min under upload", Unit::Count),
];

/// Figures that are described, and not compared.
const DESCRIBED: &str = "connect first_byte lookup login rpm rpm_download rpm_upload";

/// Names of counts: requests made, answered, not answered, answered wrongly, shares that were lost and that were not,
/// samples of which percentiles are, retransmissions, and 0 for a failure of all.
const COUNTS: &str = "asked answered failed wrong lost success samples retransmits ok";

/// Names of texts: contender, way of the next figures, time of the start, words of a failure.
#[cfg(test)]
const TEXTS: &str = "arm way started why";

/// Percentiles: end of the name, share, label.
const PERCENTILES: [(&str, f64, &str); 4] =
    [("_p50", 0.5, "p50"), ("_p90", 0.9, "p90"), ("_p99", 0.99, "p99"), ("_p999", 0.999, "p99.9")];

/// Information that is missing where the number of samples of a percentile is not known.
const SIZES: &str = "of how many samples its percentiles are";

/// End of the names of means.
const MEAN: &str = "_mean";

/// Returns the label of the figure with this name; `None` for a figure that is no metric.
pub(super) fn label(name: &str) -> Option<String> {
    let rate = RATES.iter().find(|own| own.0 == name).map(|own| own.2);
    let counted = || match name {
        "failed" | "lost" | "success" => Some("lost"),
        "retransmits" => Some("retransmissions"),
        _ => None,
    };
    time_label(name).or_else(|| rate.or_else(counted).map(str::to_owned))
}

fn time_label(name: &str) -> Option<String> {
    let of = |stem: &str| TIMES.iter().find(|(own, _)| *own == stem).map(|(_, label)| *label);
    let percentile = PERCENTILES
        .iter()
        .find_map(|(end, _, label)| Some(format!("{} {label}", of(name.strip_suffix(end)?)?)));
    let mean = || Some(format!("{} mean", of(name.strip_suffix(MEAN)?)?));
    percentile.or_else(mean).or_else(|| of(name).map(str::to_owned))
}

/// Returns the kind of the figure with this name.
fn kind(name: &str) -> Option<NumberKind> {
    let rate = RATES.iter().find(|own| own.0 == name);
    match rate.map(|own| own.3) {
        Some(Unit::BitRate) => Some(NumberKind::BitRate),
        Some(_) => Some(NumberKind::Count),
        None if name == "took" || time_label(name).is_some() => Some(NumberKind::Time),
        None => is_among(name, COUNTS).then_some(NumberKind::Count),
    }
}

#[cfg(test)]
pub(super) fn is_known(name: &str) -> bool {
    kind(name).is_some() || is_among(name, TEXTS)
}

/// Figures of one trial.
#[derive(Default)]
struct TrialReadings {
    arm: String,
    values: Vec<(&'static str, f64)>,
    started: Option<SystemTime>,
    why: Option<String>,
    /// True if a line of its own began it.
    is_begun: bool,
}

/// Figures of all trials of a file.
pub(super) struct Readings {
    repeats: Repeats,
    trials: Vec<TrialReadings>,
    arm: String,
    /// True for bytes on their way up, which this end sent.
    is_up: bool,
}

impl Readings {
    pub(super) fn new(repeats: Repeats) -> Readings {
        Readings { repeats, trials: Vec::new(), arm: String::new(), is_up: false }
    }

    /// Takes the figures of a document, which is a trial if it has any.
    pub(super) fn document(&mut self, value: &LooseValue<'_>, paths: FigureNames, is_cut: bool) {
        let mut trial = TrialReadings::default();
        for (path, name) in paths {
            let bare = line::bare(name);
            match bare {
                "started" => {
                    let at = value.text_at(path).and_then(|text| stamp::split(text).0);
                    trial.started = trial.started.or(at.and_then(|at| at.at()));
                }
                "why" => trial.why = trial.why.or(value.text_at(path).map(str::to_owned)),
                _ if trial.all(bare).next().is_none() => {
                    let text =
                        value.number_at(path).map_or_else(String::new, |value| value.to_string());
                    let found = FoundNumber { name, text: &text, unit: "" };
                    let value = kind(bare).and_then(|kind| line::number(found, kind));
                    trial.values.extend(value.map(|value| (bare, value)));
                }
                _ => {}
            }
        }
        // A sum over no members is no figure.
        let is_figure = |(name, value): &(&str, f64)| !is_among(name, COUNTS) || *value > 0.0;
        if trial.why.is_some() || trial.values.iter().any(is_figure) {
            if is_cut {
                trial
                    .why
                    .get_or_insert_with(|| "the text of the run ends in the middle".to_owned());
            }
            self.trials.push(trial);
        }
    }

    /// Takes the figures of a line that fits a pattern.
    pub(super) fn line(&mut self, line: &str, pattern: &'static str) {
        if let Repeats::Intervals(begin) | Repeats::Flows(begin) = self.repeats
            && line.trim_start().starts_with(begin)
            && self.trials.last().is_none_or(|trial| !trial.values.is_empty())
        {
            let arm = self.arm.clone();
            self.trials.push(TrialReadings { arm, is_begun: true, ..TrialReadings::default() });
        }
        for found in line::fitted(line, pattern).unwrap_or_default() {
            self.take(found);
        }
    }

    /// Takes a row of a table.
    pub(super) fn row(&mut self, line: &str, columns: &[&'static str]) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() != columns.len() || words.iter().any(|word| word.parse::<f64>().is_err()) {
            return;
        }
        for (name, text) in columns.iter().zip(words) {
            self.take(FoundNumber { name, text, unit: "" });
        }
    }

    /// Takes a line of a label and values with units. Returns false if it is no such line.
    pub(super) fn labelled(&mut self, line: &str, labels: FigureNames, heading: &str) -> bool {
        let Some((label, rest)) = line.trim().split_once(':') else { return false };
        let Some((_, name)) = labels.iter().find(|(own, _)| *own == label) else {
            return rest.chars().any(|c| c.is_ascii_digit());
        };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let values: Vec<&[&str]> = words.chunks_exact(2).collect();
        let arms: Vec<&str> = heading.split_whitespace().collect();
        for (at, value) in values.iter().enumerate() {
            let is_named = arms.len() == values.len() && values.len() > 1;
            self.arm = if is_named { arms[at].to_owned() } else { String::new() };
            if !is_named && values.len() > 1 {
                self.arm = format!("column {}", at + 1);
            }
            self.take(FoundNumber { name, text: value[0], unit: value[1] });
        }
        true
    }

    /// Takes a number, or the name of a contender.
    fn take(&mut self, found: FoundNumber<'_>) {
        let name = line::bare(found.name);
        match name {
            "arm" => self.arm = arm(found.text),
            "way" => self.is_up = found.text == "upload",
            _ => {
                let Some(value) = kind(name).and_then(|kind| line::number(found, kind)) else {
                    return;
                };
                let name = if name == "goodput" && self.is_up { "sent" } else { name };
                self.current(name).values.push((name, value));
            }
        }
    }

    /// Returns the trial that a figure belongs to.
    fn current(&mut self, name: &'static str) -> &mut TrialReadings {
        let own = self.trials.iter().rposition(|trial| trial.arm == self.arm);
        let repeats = self.repeats;
        let is_open = |trial: &TrialReadings| match repeats {
            Repeats::Intervals(_) => true,
            Repeats::Flows(_) if trial.is_begun => true,
            _ => !trial.values.iter().any(|(own, _)| *own == name),
        };
        let at = own.filter(|at| is_open(&self.trials[*at])).unwrap_or_else(|| {
            self.trials.push(TrialReadings { arm: self.arm.clone(), ..TrialReadings::default() });
            self.trials.len() - 1
        });
        &mut self.trials[at]
    }

    /// Returns the contenders, and the time of the first trial.
    pub(super) fn content(self) -> FileContent {
        let mut content = FileContent::default();
        for own in self.trials.iter().filter(|own| !own.values.is_empty() || own.why.is_some()) {
            content.began = content.began.or(own.started);
            content.add(&own.arm, own.trial(self.repeats));
        }
        content.unnamed_alone()
    }
}

/// Returns the use of a figure.
fn role(name: &str) -> Role {
    if is_among(name, DESCRIBED) { Role::Descriptive } else { Role::Claim }
}

/// Returns the name of a contender: `tcp` of `tcp_bw:`, `65536 bytes` of a size.
fn arm(text: &str) -> String {
    if text.parse::<u64>().is_ok() {
        return format!("{text} bytes");
    }
    let text = text.trim_end_matches(':');
    let test = ["_bw", "_lat"].iter().find_map(|end| text.strip_suffix(end));
    deadheat_base::foreign::short(test.unwrap_or(text))
}

impl TrialReadings {
    fn all(&self, name: &str) -> impl Iterator<Item = f64> + '_ {
        let name = name.to_owned();
        self.values.iter().filter(move |(own, _)| *own == name).map(|(_, value)| *value)
    }

    fn sum(&self, name: &str) -> Option<f64> {
        self.all(name).next().map(|_| self.all(name).sum())
    }

    /// Returns the mean of intervals, or the sum of flows.
    fn one(&self, name: &str, repeats: Repeats) -> Option<f64> {
        match (repeats, kind(name)) {
            (Repeats::Flows(_), Some(NumberKind::BitRate)) => self.sum(name),
            _ => Some(self.sum(name)? / self.all(name).count() as f64),
        }
    }

    /// Returns the number of answers, as far as known.
    fn count(&self) -> Option<f64> {
        let asked = self.sum("asked");
        let failed = self.sum("failed").unwrap_or(0.0) + self.sum("wrong").unwrap_or(0.0);
        let of_time = || {
            let rate = self.one("transactions", Repeats::Next)?;
            Some(rate * self.one("took", Repeats::Next)? / 1e9)
        };
        let answered = self.sum("answered").map(|own| own - self.sum("wrong").unwrap_or(0.0));
        let asked = asked.map(|asked| asked - failed);
        answered.or(asked).or_else(|| self.sum("samples")).or_else(of_time)
    }

    fn trial(&self, repeats: Repeats) -> ImportedTrial {
        let mut trial = ImportedTrial::complete();
        trial.record.took_ns = self.one("took", repeats).unwrap_or(0.0).max(0.0) as u64;
        trial.record.started_ms = self.started.map_or(0, epoch_ms);
        self.rates(&mut trial, repeats);
        self.times(&mut trial, repeats);
        self.percentiles(&mut trial);
        self.negative(&mut trial);
        self.losses(&mut trial);
        trial.record.retransmits = self.sum("retransmits").map(|count| count.max(0.0) as u64);
        let failed = || self.all("ok").any(|ok| ok == 0.0);
        let why = self.why.clone();
        let why = why.or_else(|| failed().then(|| "the program says that it failed".to_owned()));
        match (why, trial.record.metrics.is_empty()) {
            (None, false) => trial,
            (Some(why), false) => trial.unfinished(&why),
            (why, true) => {
                let words = why.as_deref().unwrap_or("there is no possible figure in it");
                ImportedTrial { record: ImportedTrial::failed(words).record, ..trial }
            }
        }
    }

    /// Notes the figures below 0, which none of them can be.
    fn negative(&self, trial: &mut ImportedTrial) {
        for (name, value) in self.values.iter().filter(|(_, value)| *value < 0.0) {
            trial.impossible(&match kind(name) {
                Some(NumberKind::BitRate) => format!("{name} of {value:.0} bit/s"),
                Some(NumberKind::Time) => format!("{name} of {value:.0} ns"),
                _ => format!("{name} of {value}"),
            });
        }
    }

    fn rates(&self, trial: &mut ImportedTrial, repeats: Repeats) {
        let is_received = self.all("goodput").next().is_some();
        let has_sum = self.all("sent").next().is_some();
        for (name, own, label, unit) in RATES {
            let is_part = *name == "sent_one" && has_sum;
            let Some(value) = self.one(name, repeats).filter(|_| !is_part) else { continue };
            let is_beside = *own == SENT && is_received;
            let role = if is_beside { Role::Descriptive } else { role(name) };
            trial.add(metric(own, label, *unit, role), value);
        }
    }

    /// Adds single times and means. A mean is compared where there is no median.
    fn times(&self, trial: &mut ImportedTrial, repeats: Repeats) {
        for (stem, label) in TIMES {
            if let Some(ns) = self.one(stem, repeats) {
                trial.add(time(stem, label, role(stem)), ns);
            }
            let Some(ns) = self.one(&format!("{stem}{MEAN}"), repeats) else { continue };
            let has_median = self.all(&format!("{stem}_p50")).count() == 1;
            let role = if has_median { Role::Descriptive } else { role(stem) };
            trial.add(time(&format!("{stem}{MEAN}"), &format!("{label} mean"), role), ns);
        }
    }

    /// Adds percentiles as the program took them, and doubts about percentiles that are no figure.
    fn percentiles(&self, trial: &mut ImportedTrial) {
        let n = self.count().map(|n| n.max(0.0) as u64);
        for (stem, label) in TIMES {
            let mut one = |(end, q, name): (&str, f64, &str)| {
                let all: Vec<f64> = self.all(&format!("{stem}{end}")).collect();
                trial.unknown.extend((n.is_none() && !all.is_empty()).then_some(SIZES));
                let ns = *all.first().filter(|ns| **ns >= 0.0)?;
                let why = match n {
                    _ if all.len() > 1 => "is of each of several intervals",
                    Some(n) if !printable(n, q) => "has fewer than ten samples beyond it",
                    _ => return Some(Quantile::Ns(ns.round() as u64)),
                };
                trial.doubts.push(format!("Its {label} {name} {why}, and is in no figure."));
                None
            };
            let [p50, p90, p99, p999] = PERCENTILES.map(&mut one);
            let seen = Distribution { p50, p90, p99, p999, ..Distribution::default() };
            if [p50, p90, p99, p999].iter().any(Option::is_some) {
                MetricNaming::time(stem, label).enter_distribution(&seen, role(stem), trial);
            }
        }
    }

    /// Adds the account of requests or datagrams, in which a failure is a loss, unless it is impossible.
    fn losses(&self, trial: &mut ImportedTrial) {
        let kept = self.one("success", Repeats::Next).map(|share| 1.0 - share);
        if let Some(share) = self.one("lost", Repeats::Next).or(kept) {
            trial.add(loss_metric(), share);
            return;
        }
        let [asked, all, failed] = ["asked", "answered", "failed"].map(|name| self.sum(name));
        let asked = match (asked, all) {
            (Some(asked), _) if all.or(failed).is_some() => asked,
            (None, Some(all)) => all + failed.unwrap_or(0.0),
            _ => return,
        };
        let Some(answered) = self.count() else { return };
        if !(0.0..=asked).contains(&answered) {
            return trial.impossible(&format!("{answered} answers to {asked} requests"));
        }
        let counts = MessageCounts::of(asked as u64, answered as u64);
        trial.record.ledger = Ledger { round_trip: Some(counts.account()), ..Ledger::default() };
        if asked > 0.0 {
            trial.add(loss_metric(), (asked - answered) / asked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trials(repeats: Repeats, lines: &[&str], patterns: &[&'static str]) -> Vec<ImportedTrial> {
        let mut readings = Readings::new(repeats);
        for line in lines {
            patterns.iter().for_each(|pattern| readings.line(line, pattern));
        }
        readings.content().arms.into_iter().flat_map(|arm| arm.trials).collect()
    }

    #[test]
    fn a_figure_that_is_there_again_is_of_the_next_trial_an_interval_or_a_flow() {
        let lines = ["run", "bw 1", "bw 3", "run", "bw 5"];
        let goodput = |repeats| -> Vec<f64> {
            let trials = trials(repeats, &lines, &["bw <goodput:Mbit/s>"]);
            trials.iter().map(|trial| trial.record.metrics[GOODPUT] / 1e6).collect()
        };
        assert_eq!(goodput(Repeats::Next), [1.0, 3.0, 5.0]);
        assert_eq!(goodput(Repeats::Intervals("run")), [2.0, 5.0]);
        assert_eq!(goodput(Repeats::Flows("run")), [4.0, 5.0]);
    }

    #[test]
    fn percentiles_need_ten_samples_beyond_them_and_failures_are_losses() {
        let lines = ["all 1000", "failed 20", "50% 1ms", "99% 2ms", "99.9% 3ms"];
        let patterns = [
            "all <asked>",
            "failed <failed>",
            "50% <request_p50>",
            "99% <request_p99>",
            "99.9% <request_p999>",
        ];
        let trial = &trials(Repeats::Next, &lines, &patterns)[0];
        assert_eq!(trial.record.metrics["loss_share"], 0.02);
        assert_eq!(trial.record.metrics["request_p50_ns"], 1e6);
        assert!(!trial.record.metrics.contains_key("request_p99_ns"), "980 samples");
        assert_eq!(trial.doubts.len(), 2);
    }

    #[test]
    fn impossible_figures_are_in_no_trial() {
        let trial = &trials(Repeats::Next, &["bw -4"], &["bw <goodput:Gbit/s>"])[0];
        assert!(!trial.record.valid && trial.record.metrics.is_empty());
        assert_eq!(trial.doubts, ["Impossible, and in no figure: goodput of -4000000000 bit/s."]);
    }
}
