//! Log of HdrHistograms, one for each trial, made from the raw samples, for HistogramLogProcessor,
//! HistogramLogAnalyzer and their kin (HdrHistogram, `HistogramLogWriter`, format 1.3).
//!
//! Values are round trips in nanoseconds, from the intended send time, right to three digits. The log knows
//! no censoring: a sample without an answer stands at the timeout, and a comment before the histogram gives
//! the number of such samples. A tag names the kind of trial, so that tools that select by tag mix nothing: `udp`,
//! `udp/control` for the hidden copy, `udp/excluded` for trials that did not pass their gate.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriter, IntervalLogWriterBuilder, Tag};

use super::names::{label, title};
use super::{Report, ReportInput, Samples, Style, words};
use deadheat_base::error::{Error, Result};
use deadheat_base::foreign::visible;
use deadheat_contract::measurements::Unit;
use deadheat_records::samples::{self, Chunk, Place};
use deadheat_result::outcome::{Outcome, Trial};

/// Significant decimal digits of a value, as the tools expect them.
const DIGITS: u8 = 3;

/// Divisor for the third column of a log, which is in milliseconds by convention, whatever the unit of
/// its histograms.
const NANOS_PER_MILLI: f64 = 1e6;

/// Format of a log of HdrHistograms.
pub(super) struct HistogramLog;

impl Report for HistogramLog {
    fn id(&self) -> &'static str {
        "hlog"
    }

    fn summary(&self) -> &'static str {
        "the raw samples as an HdrHistogram log, one histogram for each trial"
    }

    fn samples(&self) -> Samples {
        Samples::Needed
    }

    fn render(&self, shown: &ReportInput<'_>, _style: &Style) -> Result<Vec<u8>> {
        let Some(file) = shown.samples else {
            return Err(Error::data(
                "result",
                "a histogram log is made from raw samples, and there are none beside the result; \
                 `race --samples` keeps them, in a file that ends in .samples, and only workloads that \
                 measure round trips have any",
            ));
        };
        let mut log = Vec::new();
        write(shown.outcome, samples::open(file)?, &mut log)?;
        Ok(log)
    }
}

fn write(
    outcome: &Outcome,
    chunks: impl Iterator<Item = Result<Chunk>>,
    log: &mut Vec<u8>,
) -> Result<()> {
    let start = outcome.trials.iter().map(|trial| trial.record.started_ms).min().unwrap_or(0);
    let mut serializer = V2DeflateSerializer::new();
    let mut log = head(outcome, start).begin_log_with(log, &mut serializer).map_err(unwritten)?;
    let trials: BTreeMap<TrialKey, &Trial> =
        outcome.trials.iter().map(|trial| (TrialKey::of(trial), trial)).collect();
    let tags = tags(outcome);
    let mut written = 0u64;
    for chunk in chunks {
        let chunk = chunk?;
        // A block that was interrupted left samples, but no trial.
        let Some(trial) = trials.get(&TrialKey::at(&chunk.place)) else { continue };
        note(trial, &chunk, &mut log)?;
        let since = Duration::from_millis(trial.record.started_ms.saturating_sub(start));
        let took = Duration::from_nanos(trial.record.took_ns);
        let tag = tag(&tags, trial);
        log.write_histogram(&histogram(&chunk)?, since, took, Tag::new(&tag)).map_err(unwritten)?;
        written += 1;
    }
    match written {
        0 => Err(Error::data("samples", "there are no samples of this race's trials in the file")),
        _ => Ok(()),
    }
}

/// Returns the comments at the top: the version of the format first, as its readers require.
fn head(outcome: &Outcome, start_ms: u64) -> IntervalLogWriterBuilder {
    let mut head = IntervalLogWriterBuilder::new();
    head.add_comment("[Histogram log format version 1.3]");
    head.add_comment(&format!(" race: {}", visible(&title(outcome))));
    head.add_comment(&format!(
        " {} over {}, started {}, deadheat {}",
        visible(&outcome.asked.workload),
        visible(&outcome.path.spec),
        visible(&outcome.started),
        visible(&outcome.deadheat.version),
    ));
    head.add_comment(
        " values: round trips in ns from the intended send time; Interval_Max in ms; a sample \
         without an answer stands at the timeout",
    );
    for (id, tag) in tags(outcome) {
        head.add_comment(&format!(" Tag={tag}: {}", visible(&label(outcome, id))));
    }
    // Both lines, so that no reader must guess whether times are since the epoch or since the start.
    let start = UNIX_EPOCH + Duration::from_millis(start_ms);
    head.with_start_time(start).with_base_time(start).with_max_value_divisor(NANOS_PER_MILLI);
    head
}

/// Writes comments on a trial: the number of samples that are only known to be greater than the timeout,
/// and the reason why it is excluded.
fn note(
    trial: &Trial,
    chunk: &Chunk,
    log: &mut IntervalLogWriter<'_, '_, Vec<u8>, V2DeflateSerializer>,
) -> Result<()> {
    let mut say = |what: String| {
        let text = format!(" block {}, order {}: {}", trial.block, trial.order, visible(&what));
        log.write_comment(&text).map_err(unwritten)
    };
    if let Some(why) = &trial.record.why_invalid {
        say(format!("excluded: {why}"))?;
    }
    let lost = chunk.samples.iter().filter(|sample| sample.rtt_ns.is_none()).count();
    if lost == 0 {
        return Ok(());
    }
    say(format!(
        "{lost} of {} without an answer within {}; they stand at that",
        words::count(chunk.samples.len() as u64, "sample"),
        words::figure(chunk.timeout_ns as f64, Unit::Nanos),
    ))
}

fn histogram(chunk: &Chunk) -> Result<Histogram<u64>> {
    let unfit = |what: &dyn std::fmt::Display| {
        let place = chunk.place;
        let at = format!("block {}, order {}", place.block, place.order);
        Error::data("samples", format!("{at}: no histogram can hold them: {what}"))
    };
    let mut histogram = Histogram::new(DIGITS).map_err(|e| unfit(&e))?;
    for sample in &chunk.samples {
        let value = sample.rtt_ns.unwrap_or(chunk.timeout_ns);
        histogram.record(value).map_err(|e| unfit(&e))?;
    }
    Ok(histogram)
}

/// Identity of a trial in a race: block, order, contender, and whether it is the hidden copy.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct TrialKey(u64, u64, usize, bool);

impl TrialKey {
    fn of(trial: &Trial) -> TrialKey {
        TrialKey(trial.block, trial.order, trial.contender, trial.control)
    }

    fn at(place: &Place) -> TrialKey {
        TrialKey(place.block, u64::from(place.order), place.contender as usize, place.control)
    }
}

/// Returns a unique tag for each contender: its label without characters that a tag cannot have.
fn tags(outcome: &Outcome) -> BTreeMap<usize, String> {
    let mut tags: BTreeMap<usize, String> = BTreeMap::new();
    for contender in &outcome.contenders {
        let mut tag: String = visible(&contender.label)
            .chars()
            .map(|c| match c {
                ',' => ';',
                c if c.is_whitespace() => '_',
                c => c,
            })
            .collect();
        if tags.values().any(|other| *other == tag) {
            tag = format!("{tag}/{}", contender.id);
        }
        tags.insert(contender.id, tag);
    }
    tags
}

fn tag(tags: &BTreeMap<usize, String>, trial: &Trial) -> String {
    let name = tags.get(&trial.contender).map_or("unknown", String::as_str);
    let role = match (trial.record.valid, trial.control) {
        (false, _) => "/excluded",
        (true, true) => "/control",
        (true, false) => "",
    };
    format!("{name}{role}")
}

fn unwritten(error: impl std::fmt::Debug) -> Error {
    Error::data("result", format!("cannot be written as a histogram log: {error:?}"))
}
