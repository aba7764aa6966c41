//! flent: several series of one test, `.flent` or `.flent.gz`, versions 1 to 4 of its data file (flent's "Data file
//! format", and the conversions of its `resultset.py`: below version 4 raw values have units of their own).

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;

use super::foreign_file::ForeignFile;
use super::rates::metric;
use super::samples::{MetricNaming, SampleBuffer, SortedSamples};
use super::text::{MILLIS, SECONDS};
use super::unit::Scale;
use super::{FileContent, Format, ImportedTrial, NONE, ReaderContext};
use deadheat_contract::measurements::{Role, Unit};
use deadheat_result::date;

/// Newest supported version of the file format.
const VERSION: u64 = 4;

/// Version of files that name none.
const FIRST: u64 = 1;

/// The format.
pub(super) static FORMAT: Format = Format {
    id: "flent",
    summary: "flent's data file (.flent.gz), versions 1 to 4: each of its series is a metric",
    sniff: is_own,
    read: Some(read),
    unit: "ms, Mbit/s",
    trial: "a run of flent",
    ..NONE
};

#[derive(Deserialize)]
struct FlentFile {
    version: Option<u64>,
    metadata: Metadata,
    #[serde(default)]
    results: BTreeMap<String, Vec<Option<f64>>>,
    #[serde(default)]
    raw_values: BTreeMap<String, Vec<FlentRawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
struct Metadata {
    flent_version: Option<String>,
    netperf_wrapper_version: Option<String>,
    name: Option<String>,
    time: Option<String>,
    #[serde(default)]
    series_meta: BTreeMap<String, SeriesMeta>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", default)]
struct SeriesMeta {
    units: Option<String>,
    packets_sent: Option<u64>,
    packets_received: Option<u64>,
    mean_value: Option<f64>,
    /// Raw values, which version 1 has here.
    raw_values: Vec<FlentRawValue>,
}

#[derive(Deserialize, Clone, Copy)]
struct FlentRawValue {
    t: Option<f64>,
    val: Option<f64>,
    /// Length of the interval that the value is a rate over, in seconds.
    dur: Option<f64>,
}

fn is_own(head: &str) -> bool {
    let marks = ["\"FLENT_VERSION\"", "\"NETPERF_WRAPPER_VERSION\"", "\"BATCH_UUID\""];
    let has_series = head.contains("\"SERIES_META\"") && head.contains("\"x_values\"");
    head.trim_start().starts_with('{')
        && (has_series || marks.iter().any(|mark| head.contains(mark)))
}

fn read(file: &mut ForeignFile, context: &mut ReaderContext<'_>) -> Result<FileContent, String> {
    let runs = file.json::<FlentFile>()?;
    let first = runs.first().ok_or("there is no result in it")?;
    let mut content = FileContent { began: first.began(), ..FileContent::default() };
    let version = first.metadata.flent_version.as_ref();
    let version = version.or(first.metadata.netperf_wrapper_version.as_ref());
    content.program = version.map_or_else(String::new, |version| format!("flent {version}"));
    let test = first.metadata.name.as_ref();
    content.arm("").implementation = test.map_or_else(String::new, |test| format!("flent {test}"));
    for run in &runs {
        let trial = run.trial(context, &mut content.doubts)?;
        content.add("", trial);
    }
    content.unknown.sort_unstable();
    Ok(content)
}

impl FlentFile {
    fn version(&self) -> u64 {
        self.version.unwrap_or(FIRST)
    }

    /// Returns the start: that of the first raw value, which counts from 1970, or the one named, if its zone is.
    fn began(&self) -> Option<SystemTime> {
        let raw = self.metadata.series_meta.values().flat_map(|meta| &meta.raw_values);
        let stamps = self.raw_values.values().flatten().chain(raw).filter_map(|raw| raw.t);
        let first = stamps.filter(|at| *at > 1e9).min_by(f64::total_cmp);
        let named = || date::parse_rfc3339(self.metadata.time.as_deref()?);
        let first = first.and_then(|at| Duration::try_from_secs_f64(at.floor()).ok());
        named().or_else(|| first.and_then(|since| UNIX_EPOCH.checked_add(since)))
    }

    fn trial(
        &self,
        context: &mut ReaderContext<'_>,
        doubts: &mut Vec<String>,
    ) -> Result<ImportedTrial, String> {
        if self.version() > VERSION {
            return Err(format!(
                "version {} of flent's data file is newer than {VERSION}, which is read",
                self.version()
            ));
        }
        let mut trial = ImportedTrial::complete();
        let mut left_out = Vec::new();
        let has_sum = self.results.keys().any(|name| is_sum(name));
        for (name, points) in &self.results {
            let Some(series) = self.series(name, points) else {
                left_out.push(name.as_str());
                continue;
            };
            if series.scale.unit == Unit::Nanos && trial.samples_file.is_none() {
                trial.samples_file = series.store(context)?;
            }
            let role = if has_sum && name.contains("::") { Role::Descriptive } else { Role::Claim };
            series.enter(role, &mut trial)?;
            trial.unknown.extend(series.unknown());
        }
        if trial.metrics.is_empty() {
            return Err("there is no series with numbers in it".into());
        }
        if let [name, more @ ..] = &left_out[..] {
            let others = match more.len() {
                0 => String::new(),
                many => format!(" and {many} more"),
            };
            doubts.push(format!("Left out, for want of a known unit: `{name}`{others}."));
        }
        Ok(trial)
    }

    /// Returns a series with a known unit: its raw values in that unit, or the points that flent interpolated.
    fn series<'a>(&'a self, name: &'a str, points: &[Option<f64>]) -> Option<FlentSeries<'a>> {
        let meta = self.metadata.series_meta.get(name);
        let scale = scale(name, meta)?;
        let raw = self.raw_values.get(name).or_else(|| meta.map(|meta| &meta.raw_values));
        let raw: Vec<FlentRawValue> =
            raw.into_iter().flatten().filter(|raw| raw.val.is_some()).copied().collect();
        let is_measured = !raw.is_empty();
        let is_old = self.version() < VERSION;
        let values = if is_measured {
            raw.into_iter().filter_map(|raw| FlentValue::of(raw, name, scale, is_old)).collect()
        } else {
            let bare = |val: f64| FlentValue { value: val, scale, at: None, seconds: None };
            points.iter().flatten().copied().map(bare).collect()
        };
        Some(FlentSeries { name, scale, meta, values, is_measured })
    }
}

/// Returns true for the sum of the series of several flows, which flent adds.
fn is_sum(name: &str) -> bool {
    let last = name.rsplit([' ', ':']).next().unwrap_or_default();
    matches!(last.to_ascii_lowercase().as_str(), "sum" | "totals" | "total")
}

/// Returns the unit of a series: from its metadata, or from its name in files that have none.
fn scale(name: &str, meta: Option<&SeriesMeta>) -> Option<Scale> {
    if let Some(units) = meta.and_then(|meta| meta.units.as_deref()) {
        return Scale::named(units);
    }
    let lower = name.to_lowercase();
    let guess = match lower.as_str() {
        // Counters of a socket, such as `TCP upload::1::tcp_cwnd`.
        name if name.contains("::tcp_") => return None,
        name if name.contains("(ms)") || name.starts_with("ping") => "ms",
        name if name.contains("tcp") || name.contains("mbit") => "Mbit/s",
        _ => return None,
    };
    Scale::named(guess)
}

/// Value of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
struct FlentValue {
    value: f64,
    scale: Scale,
    /// Time, in seconds since 1970.
    at: Option<f64>,
    /// Length of its interval.
    seconds: Option<f64>,
}

impl FlentValue {
    /// Converts a raw value. Below version 4 the round trips of netperf's UDP_RR are transactions in a second, and those
    /// of HTTP are in seconds.
    fn of(raw: FlentRawValue, name: &str, scale: Scale, is_old: bool) -> Option<FlentValue> {
        let value = raw.val?;
        let is_time = scale.unit == Unit::Nanos;
        let (value, scale) = match name {
            _ if !is_old || !is_time => (value, scale),
            name if name.contains("UDP") && raw.dur.is_some() && value > 0.0 => {
                (1_000.0 / value, MILLIS)
            }
            // No transaction in the interval: there is no round trip.
            name if name.contains("UDP") && raw.dur.is_some() => return None,
            "HTTP latency" => (value, SECONDS),
            _ => (value, scale),
        };
        Some(FlentValue { value, scale, at: raw.t, seconds: raw.dur })
    }
}

struct FlentSeries<'a> {
    name: &'a str,
    scale: Scale,
    meta: Option<&'a SeriesMeta>,
    values: Vec<FlentValue>,
    /// True for values that were measured, false for interpolated ones.
    is_measured: bool,
}

impl FlentSeries<'_> {
    /// Returns the information that the series lacks.
    fn unknown(&self) -> impl Iterator<Item = &'static str> {
        let is_time = self.scale.unit == Unit::Nanos;
        let is_mean = is_time && self.values.iter().any(|value| value.seconds.is_some());
        let has_counts =
            self.meta.is_some_and(|meta| meta.packets_sent.zip(meta.packets_received).is_some());
        let all = [
            (!self.is_measured, "samples between the points that flent interpolated"),
            (is_mean, "single round trips of UDP, of which there are means over intervals"),
            (is_time && !has_counts, "lost round trips"),
        ];
        all.into_iter().filter_map(|(is_so, phrase)| is_so.then_some(phrase))
    }

    fn whole(&self, value: &FlentValue) -> Result<u64, String> {
        let named = |why| format!("`{}` has {}: {why}", self.name, value.value);
        value.scale.whole(value.value).map_err(named)
    }

    /// Returns the values, with a lost one for each packet that did not return.
    fn sum(&self) -> Result<SortedSamples, String> {
        let mut values = SampleBuffer::default();
        for value in &self.values {
            values.push(self.whole(value)?)?;
        }
        if let Some((sent, received)) =
            self.meta.and_then(|meta| meta.packets_sent.zip(meta.packets_received))
        {
            for _ in 0..sent.saturating_sub(received) {
                values.put(None, None)?;
            }
        }
        Ok(values.sum())
    }

    /// Stores the samples of a series of round trips, with their times.
    fn store(&self, context: &mut ReaderContext<'_>) -> Result<Option<std::path::PathBuf>, String> {
        if !self.is_measured {
            return Ok(None);
        }
        let first = self.values.iter().find_map(|value| value.at).unwrap_or(0.0);
        let mut values = SampleBuffer::default();
        for value in &self.values {
            let at = (value.at.unwrap_or(first) - first).max(0.0) * 1e9;
            values.put(Some(self.whole(value)?), Some(at as u64))?;
        }
        Ok(values.trial(&MetricNaming::rtt(), context)?.samples_file)
    }

    /// Returns the rate over the whole run: as netperf gave it at its end, or the mean weighted by the lengths of the
    /// intervals. An interval counts as long as it was, since a slow flow has long ones.
    fn rate(&self, summed: &SortedSamples) -> Option<f64> {
        if let Some(mean) = self.meta.and_then(|meta| meta.mean_value).filter(|mean| *mean >= 0.0) {
            return Some(mean * self.scale.factor);
        }
        let lengths = self.values.iter().map(|own| own.seconds.filter(|seconds| *seconds > 0.0));
        let Some(lengths) = lengths.collect::<Option<Vec<f64>>>() else { return summed.mean() };
        let all: f64 = lengths.iter().sum();
        let bits = self.values.iter().zip(&lengths).map(|(own, length)| own.value * length);
        (all > 0.0).then(|| bits.sum::<f64>() * self.scale.factor / all)
    }

    /// Adds the figure of a series: a median for times, a mean for rates, because it is the rate carried.
    fn enter(&self, role: Role, trial: &mut ImportedTrial) -> Result<(), String> {
        let summed = self.sum()?;
        if summed.count() == 0 {
            return Ok(());
        }
        let label = self.name.replace(" (ms)", "");
        let naming = MetricNaming::time(&slug(&label), &label);
        if self.scale.unit != Unit::BitRate {
            naming.enter(&summed, Role::Claim, trial);
            return Ok(());
        }
        trial.spreads.push(summed.five(&label, Unit::BitRate));
        let name = format!("{}_mean_bps", naming.stem);
        let metric = metric(&name, &format!("{label} mean"), Unit::BitRate, role);
        if let Some(mean) = self.rate(&summed) {
            trial.record.metrics.insert(name, mean.round());
        }
        trial.metrics.push(metric);
        Ok(())
    }
}

/// Returns a valid name for a metric: lower case, digits and underscores.
fn slug(name: &str) -> String {
    let lower = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' };
    let words: String = name.chars().map(lower).collect();
    words.split_whitespace().collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Scale = Scale { name: "Mbit/s", unit: Unit::BitRate, factor: 1e6 };

    #[test]
    fn raw_values_of_old_versions_have_units_of_their_own() {
        let raw = |val: f64, dur: Option<f64>| FlentRawValue { t: None, val: Some(val), dur };
        let ns = |raw, name: &str, is_old| {
            let value = FlentValue::of(raw, name, MILLIS, is_old)?;
            value.scale.whole(value.value).ok()
        };
        assert_eq!(ns(raw(100.0, Some(0.2)), "Ping (ms) UDP BE1", true), Some(10_000_000));
        assert_eq!(ns(raw(0.0, Some(0.2)), "Ping (ms) UDP BE1", true), None);
        assert_eq!(
            ns(raw(10.0, None), "Ping (ms) UDP BE1", true),
            Some(10_000_000),
            "not netperf's"
        );
        assert_eq!(ns(raw(10.0, Some(0.2)), "Ping (ms) UDP BE1", false), Some(10_000_000));
        assert_eq!(ns(raw(0.001, None), "HTTP latency", true), Some(1_000_000));
        assert_eq!(ns(raw(1.0, None), "HTTP latency", false), Some(1_000_000));
    }

    #[test]
    fn a_rate_is_netperfs_own_or_weighted_by_the_lengths_of_intervals() {
        let value = |value, seconds| FlentValue { value, scale: RATE, at: None, seconds };
        let meta = |mean_value| SeriesMeta { mean_value, ..SeriesMeta::default() };
        let rate = |values: Vec<FlentValue>, mean| {
            let meta = meta(mean);
            let series = FlentSeries {
                name: "x",
                scale: RATE,
                meta: Some(&meta),
                values,
                is_measured: true,
            };
            series.rate(&series.sum().unwrap())
        };
        let intervals = vec![value(10.0, Some(0.1)), value(1.0, Some(0.9))];
        assert_eq!(rate(intervals.clone(), None).map(f64::round), Some(1_900_000.0));
        assert_eq!(rate(intervals, Some(0.7)), Some(700_000.0));
        assert_eq!(rate(vec![value(10.0, None), value(1.0, None)], None), Some(5_500_000.0));
    }

    #[test]
    fn counters_of_sockets_have_no_unit_and_sums_are_sums() {
        assert!(scale("TCP upload::1::tcp_cwnd", None).is_none());
        assert_eq!(scale("Ping (ms) ICMP", None), Some(MILLIS));
        assert!(is_sum("TCP upload sum") && is_sum("TCP totals") && !is_sum("TCP upload::1"));
    }
}
