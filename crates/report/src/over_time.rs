//! Course of trials over time: a line of bars for people, rows for programs.

use std::fmt::Write;

use super::document::{Block, Line, Section, Tone};
use super::names::label;
use super::spark::BARS;
use super::text::field;
use super::words;
use deadheat_contract::measurements::Unit;
use deadheat_contract::measurements::series::{Interval, Series, TcpColumns, goodput_bps};
use deadheat_records::trial::Record;
use deadheat_result::analysis::spread::valid_trials;
use deadheat_result::outcome::{Outcome, Trial};

/// Maximum number of bars of a line.
const MOST_BARS: usize = 30;

/// Placeholder for nothing received, or no answer.
const NONE: char = '·';

/// Returns a line for each contender: its last valid trial, as an example and not an average.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    let unit = outcome.metrics.first()?.unit;
    let lines: Vec<(String, Vec<f64>)> = outcome
        .contenders
        .iter()
        .filter_map(|entrant| {
            let trial = valid_trials(outcome, entrant.id).last()?;
            let values = values(trial, unit);
            values.iter().any(|value| *value > 0.0).then(|| (entrant.label.clone(), values))
        })
        .collect();
    let greatest = lines.iter().flat_map(|(_, values)| values).fold(0.0, |a: f64, b| a.max(*b));
    if lines.is_empty() {
        return None;
    }
    let what = match unit {
        Unit::BitRate => "Goodput",
        Unit::Nanos | Unit::Share | Unit::Count => "Mean RTT of the answered",
    };
    let legend = format!(
        "{what} over the last valid trial of each, from its start to its end; a full bar is {}.",
        words::figure(greatest, unit)
    );
    let bars = |(name, values): (String, Vec<f64>)| {
        (name, values.iter().map(|value| bar(*value, greatest)).collect())
    };
    let facts = lines.into_iter().map(bars).collect();
    let sentences = [Some(legend), missed(outcome)].into_iter().flatten();
    let sentences = sentences.map(|text| Line::new(text, Tone::Aside)).collect();
    Section::new("Over time", vec![Block::Facts(facts), Block::Sentences(sentences)])
}

/// Returns the sentence on points that the series of all trials lack; `None` if they lack none.
fn missed(outcome: &Outcome) -> Option<String> {
    let all = outcome.trials.iter().flat_map(|trial| series(&trial.record));
    missed_points(all.flat_map(|(_, flows)| flows))
}

/// Returns the sentence on points that these series lack; `None` if they lack none.
pub(super) fn missed_points<'a>(all: impl IntoIterator<Item = &'a Series>) -> Option<String> {
    let missed = all.into_iter().fold(0u64, |sum, one| sum.saturating_add(one.missed_points));
    let were = match missed {
        0 => return None,
        1 => "1 point was".to_owned(),
        more => format!("{more} points were"),
    };
    Some(format!("{were} due and not taken: the thread that takes them was late."))
}

/// Returns the series of a trial, by end.
fn series(record: &Record) -> [(&'static str, &[Series]); 4] {
    [
        ("near", &record.intervals),
        ("far", &record.far_intervals),
        ("load-near", &record.load_intervals),
        ("load-far", &record.load_far_intervals),
    ]
}

/// Returns the values of a trial's bars: rates if the race compares rates, else round trips.
fn values(trial: &Trial, unit: Unit) -> Vec<f64> {
    let record = &trial.record;
    match unit {
        Unit::BitRate => {
            let flows: Vec<&Series> =
                record.intervals.iter().chain(&record.far_intervals).collect();
            let points = flows.iter().map(|flow| flow.at_ns.len()).max().unwrap_or(0);
            goodput_bps(&flows, points.min(MOST_BARS) as u64)
        }
        Unit::Nanos | Unit::Share | Unit::Count => {
            let measured = record.intervals.iter().find(|series| !series.rtt_n.is_empty());
            let groups = measured.map(|series| series.round_trips(MOST_BARS)).unwrap_or_default();
            groups.iter().map(|rtt| rtt.mean_ns().unwrap_or(0) as f64).collect()
        }
    }
}

fn bar(value: f64, greatest: f64) -> char {
    if value <= 0.0 || greatest <= 0.0 {
        return NONE;
    }
    let height = (value / greatest * BARS.len() as f64).ceil() as usize;
    BARS[height.clamp(1, BARS.len()) - 1]
}

const COLUMNS: &str = "block,order,contender,control,valid,end,flow,from_ns,to_ns,sent_bytes,\
                       received_bytes,sent_bps,received_bps,sent_messages,received_messages,\
                       lost_messages,socket_drops,rtt_n,rtt_min_ns,rtt_mean_ns,rtt_max_ns,\
                       delay_n,delay_mean_ns,delay_max_ns";

/// Renders every interval of every trial as CSV: one row for each interval, flow and end. Unknown values
/// are empty.
pub fn csv(outcome: &Outcome) -> String {
    let names: Vec<&str> = TcpColumns::default().columns().map(|(name, _)| name).collect();
    let mut text = format!("{COLUMNS},{},phase,began_ns,missed_points\n", names.join(","));
    for trial in &outcome.trials {
        let name = field(&label(outcome, trial.contender));
        let head = format!(
            "{},{},{name},{},{}",
            trial.block, trial.order, trial.control, trial.record.valid
        );
        for (end, flows) in series(&trial.record) {
            for (flow, series) in flows.iter().enumerate() {
                for (at, interval) in series.intervals().enumerate() {
                    // Writing to a String cannot fail.
                    let _ = write!(text, "{head},{end},{flow}");
                    row(&mut text, series, at, &interval);
                }
            }
        }
    }
    text
}

fn row(text: &mut String, series: &Series, at: usize, interval: &Interval) {
    let rate = |bps: Option<f64>| bps.map(|bps| bps.round() as u64);
    let counts = [
        Some(interval.from_ns),
        Some(interval.to_ns),
        Some(interval.sent_bytes),
        Some(interval.received_bytes),
        rate(interval.sent_bps()),
        rate(interval.received_bps()),
        interval.sent_messages,
        interval.received_messages,
        interval.lost_messages,
        interval.socket_drops,
        series.rtt_n.get(at).copied(),
    ];
    let rtt = [&series.rtt_min_ns, &series.rtt_mean_ns, &series.rtt_max_ns];
    let none = TcpColumns::default();
    let tcp = series.tcp.as_ref().unwrap_or(&none).columns().map(|(_, column)| column);
    let delay = [&series.delay_mean_ns, &series.delay_max_ns];
    let delay_n = series.delay_n.get(at).copied();
    let known = |column: &[Option<u64>]| column.get(at).copied().flatten();
    let rtt = rtt.into_iter().map(|column| known(column));
    let delay = [delay_n].into_iter().chain(delay.into_iter().map(|column| known(column)));
    for value in counts.into_iter().chain(rtt).chain(delay).chain(tcp.map(known)) {
        text.push(',');
        if let Some(value) = value {
            let _ = write!(text, "{value}");
        }
    }
    let began = series.phases.partition_point(|change| change.at_ns <= interval.to_ns);
    text.push(',');
    text.push_str(series.phases[..began].last().map_or("", |change| change.phase.name()));
    text.push(',');
    if let Some(began) = series.began_ns {
        let _ = write!(text, "{began}");
    }
    let _ = writeln!(text, ",{}", series.missed_points);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_start_at_nothing_and_end_full() {
        let bars: String = [0.0, 0.1, 12.5, 12.6, 100.0].map(|v| bar(v, 100.0)).iter().collect();
        assert_eq!(bars, "·▁▁▂█");
        assert_eq!([bar(1.0, 0.0), bar(f64::NAN, 1.0)], [NONE, BARS[0]]);
    }
}
