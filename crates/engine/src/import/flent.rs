//! flent: several series of one test, `.flent` or `.flent.gz` (flent's "Data file format", version 4).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::foreign::ForeignFile;
use super::gather::{MetricNaming, SampleBuffer, SortedSamples, blank};
use super::unit::Scale;
use super::{Arm, FileContent, FormatReader, ImportedTrial, ReaderContext};
use crate::measurements::{Better, ClockNeed, Metric, Role, Unit};
use crate::result::date;

/// Newest supported version of the file format.
const VERSION: u64 = 4;

/// The format.
pub(super) struct Flent;

#[derive(Deserialize)]
struct FlentFile {
    version: u64,
    metadata: Metadata,
    #[serde(default)]
    results: BTreeMap<String, Vec<Option<f64>>>,
    #[serde(default)]
    raw_values: BTreeMap<String, Vec<FlentRawValue>>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "FLENT_VERSION")]
    flent: Option<String>,
    #[serde(rename = "NETPERF_WRAPPER_VERSION")]
    wrapper: Option<String>,
    #[serde(rename = "NAME")]
    name: Option<String>,
    #[serde(rename = "TIME")]
    time: Option<String>,
    #[serde(rename = "SERIES_META", default)]
    series: BTreeMap<String, SeriesMeta>,
}

#[derive(Deserialize)]
struct SeriesMeta {
    #[serde(rename = "UNITS")]
    units: Option<String>,
    #[serde(rename = "PACKETS_SENT")]
    sent: Option<u64>,
    #[serde(rename = "PACKETS_RECEIVED")]
    received: Option<u64>,
}

#[derive(Deserialize)]
struct FlentRawValue {
    t: Option<f64>,
    val: Option<f64>,
}

impl FormatReader for Flent {
    fn id(&self) -> &'static str {
        "flent"
    }

    fn summary(&self) -> &'static str {
        "flent's data file (.flent.gz): each of its series is a metric"
    }

    fn sniff(&self, head: &str) -> bool {
        let marks = ["\"FLENT_VERSION\"", "\"NETPERF_WRAPPER_VERSION\"", "\"BATCH_UUID\""];
        head.trim_start().starts_with('{') && marks.iter().any(|mark| head.contains(mark))
    }

    fn read(
        &self,
        file: &mut ForeignFile,
        means: &mut ReaderContext<'_>,
    ) -> Result<FileContent, String> {
        let [read] = <[FlentFile; 1]>::try_from(file.json::<FlentFile>()?)
            .map_err(|all| format!("{} results of flent in one file; give one each", all.len()))?;
        if read.version > VERSION {
            return Err(format!(
                "version {} of flent's data file is newer than {VERSION}, which is read",
                read.version
            ));
        }
        let mut trial = ImportedTrial::complete(blank());
        let mut metrics = Vec::new();
        let mut unknown = Vec::new();
        for (name, points) in &read.results {
            let meta = read.metadata.series.get(name);
            let Some(scale) = scale(name, meta) else {
                unknown.push(format!(
                    "The series `{name}` has no unit that is known, and is left out."
                ));
                continue;
            };
            let raw = read.raw_values.get(name).map_or(&[][..], Vec::as_slice);
            let series = FlentSeries { name, scale, meta };
            let values = series.values(points, raw, &mut unknown)?;
            if scale.unit == Unit::Nanos && trial.samples_file.is_none() {
                trial.samples_file = series.store(raw, means)?;
            }
            series.enter(values, &mut trial, &mut metrics);
        }
        if metrics.is_empty() {
            return Err("there is no series with numbers in it".into());
        }
        let metadata = read.metadata;
        Ok(FileContent {
            program: metadata.flent.or(metadata.wrapper).map(|version| format!("flent {version}")),
            began: metadata.time.and_then(|time| date::parse_rfc3339(&time)),
            unit: "ms, Mbit/s".into(),
            trial: "a run of flent".into(),
            arms: vec![Arm {
                implementation: metadata
                    .name
                    .map_or_else(String::new, |test| format!("flent {test}")),
                metrics,
                trials: vec![trial],
                ..Arm::default()
            }],
            unknown,
            ..FileContent::default()
        })
    }
}

/// Returns the unit of a series: from its metadata, or from its name in files that have none.
fn scale(name: &str, meta: Option<&SeriesMeta>) -> Option<Scale> {
    if let Some(units) = meta.and_then(|meta| meta.units.as_deref()) {
        return Scale::named(units);
    }
    let lower = name.to_lowercase();
    let guess = match lower.as_str() {
        name if name.contains("(ms)") || name.starts_with("ping") => "ms",
        name if name.contains("tcp") || name.contains("mbit") => "Mbit/s",
        _ => return None,
    };
    Scale::named(guess)
}

struct FlentSeries<'a> {
    name: &'a str,
    scale: Scale,
    meta: Option<&'a SeriesMeta>,
}

impl FlentSeries<'_> {
    /// Returns the measured values, or flent's interpolated ones if there are none.
    fn values(
        &self,
        points: &[Option<f64>],
        raw: &[FlentRawValue],
        unknown: &mut Vec<String>,
    ) -> Result<SortedSamples, String> {
        let measured: Vec<f64> = raw.iter().filter_map(|raw| raw.val).collect();
        let numbers = if measured.is_empty() {
            unknown.push(format!(
                "`{}` has only flent's interpolated points: samples lie between them.",
                self.name
            ));
            points.iter().flatten().copied().collect()
        } else {
            measured
        };
        let mut values = SampleBuffer::default();
        for value in numbers {
            values.push(self.whole(value)?)?;
        }
        if let Some((sent, received)) = self.meta.and_then(|meta| meta.sent.zip(meta.received)) {
            for _ in 0..sent.saturating_sub(received) {
                values.lost()?;
            }
        } else if self.scale.unit == Unit::Nanos {
            unknown.push(format!("How many were lost of `{}` is not in the file.", self.name));
        }
        Ok(values.sum())
    }

    fn whole(&self, value: f64) -> Result<u64, String> {
        self.scale.whole(value).map_err(|why| format!("`{}` has {value}: {why}", self.name))
    }

    /// Stores the samples of a series of round trips, with their times.
    fn store(
        &self,
        raw: &[FlentRawValue],
        means: &mut ReaderContext<'_>,
    ) -> Result<Option<std::path::PathBuf>, String> {
        let first = raw.iter().find_map(|raw| raw.t).unwrap_or(0.0);
        let mut values = SampleBuffer::default();
        for raw in raw {
            let Some(value) = raw.val else { continue };
            let at = (raw.t.unwrap_or(first) - first).max(0.0) * 1e9;
            values.push_at(self.whole(value)?, at as u64)?;
        }
        let naming = MetricNaming::rtt();
        Ok(values.trial(&naming, means)?.samples_file)
    }

    /// Adds the figure of a series: a median for times, a mean for rates, because it is the rate carried.
    fn enter(&self, summed: SortedSamples, trial: &mut ImportedTrial, metrics: &mut Vec<Metric>) {
        if summed.count() == 0 {
            return;
        }
        let label = self.name.replace(" (ms)", "");
        let naming = MetricNaming {
            unit: self.scale.unit,
            better: self.scale.better(),
            ..MetricNaming::time(&slug(&label), &label)
        };
        trial.spreads.push(summed.five(&label, self.scale.unit));
        match self.scale.unit {
            Unit::Nanos | Unit::Share | Unit::Count => {
                naming.enter(&summed, &mut trial.record);
                metrics.extend(naming.metrics(Role::Claim));
            }
            Unit::BitRate => {
                let metric = Metric {
                    name: format!("{}_mean_bps", naming.stem),
                    label: format!("{label} mean"),
                    unit: Unit::BitRate,
                    better: Better::Higher,
                    role: Role::Claim,
                    clock: ClockNeed::None,
                };
                if let Some(mean) = summed.mean() {
                    trial.record.metrics.insert(metric.name.clone(), mean);
                }
                metrics.push(metric);
            }
        }
    }
}

/// Returns a valid name for a metric: lower case, digits and underscores.
fn slug(name: &str) -> String {
    let lower = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' };
    let words: String = name.chars().map(lower).collect();
    words.split_whitespace().collect::<Vec<_>>().join("_")
}
