//! The histogram log, made from samples as a race keeps them and read back as its tools do.

use crate::common;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use deadheat::measurements::{Recorder, Sample};
use deadheat::records::samples::{Place, Samples, append};
use deadheat::report::{self, ReportInput, Style};
use deadheat::result::outcome::Outcome;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

const TIMEOUT_NS: u64 = 3_000_000_000;

/// Samples of every trial of `outcome` in a file: 1000 round trips, the trial's own figure in the middle,
/// every tenth of a contender `losing` lost.
fn samples_of(outcome: &Outcome, dir: &Path, losing: usize) -> PathBuf {
    let (main, part) = (dir.join("race.samples"), dir.join("part"));
    for trial in &outcome.trials {
        let p50 = trial.record.metrics.get("rtt_p50_ns").copied().unwrap_or(1e5) as u64;
        let mut samples = Samples::new(Some(&part), TIMEOUT_NS).unwrap();
        for seq in 0..1_000 {
            let rtt_ns = p50 - 500 + seq;
            let lost = trial.contender == losing && seq % 10 == 9;
            samples.record(Sample {
                seq,
                intended_ns: 1_000_000 * seq,
                lateness_ns: 0,
                rtt_ns: (!lost).then_some(rtt_ns),
            });
        }
        drop(samples);
        let place = Place {
            block: trial.block,
            order: trial.order as u32,
            contender: trial.contender as u32,
            control: trial.control,
        };
        append(&main, &part, place).unwrap();
    }
    main
}

fn log_of(outcome: &Outcome, samples: &Path) -> String {
    let shown = ReportInput { outcome, samples: Some(samples) };
    let log = report::find("hlog").unwrap().render(&shown, &Style::default()).unwrap();
    String::from_utf8(log).unwrap()
}

struct Read {
    tag: String,
    start_s: f64,
    length_s: f64,
    max_ms: f64,
    histogram: Histogram<u64>,
}

fn read(log: &str) -> Vec<Read> {
    IntervalLogIterator::new(log.as_bytes())
        .filter_map(|entry| match entry.unwrap() {
            LogEntry::Interval(interval) => Some(Read {
                tag: interval.tag().unwrap().as_str().to_owned(),
                start_s: interval.start_timestamp().as_secs_f64(),
                length_s: interval.duration().as_secs_f64(),
                max_ms: interval.max(),
                histogram: decode(interval.encoded_histogram()),
            }),
            _ => None,
        })
        .collect()
}

fn decode(payload: &str) -> Histogram<u64> {
    let bytes = STANDARD.decode(payload).unwrap();
    Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap()
}

#[test]
fn every_trial_comes_back_as_its_own_histogram() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = common::full();
    let histograms = read(&log_of(&outcome, &samples_of(&outcome, dir.path(), common::UDP)));
    assert_eq!(histograms.len(), outcome.trials.len());
    let start = outcome.trials.iter().map(|trial| trial.record.started_ms).min().unwrap();
    for (read, trial) in histograms.iter().zip(&outcome.trials) {
        let label = &outcome.contenders[trial.contender].label;
        assert!(read.tag.starts_with(label.as_str()), "{} {label}", read.tag);
        assert_eq!(read.tag.ends_with("/control"), trial.control && trial.record.valid);
        assert_eq!(read.tag.ends_with("/excluded"), !trial.record.valid);
        assert_eq!(read.histogram.len(), 1_000);
        let since = (trial.record.started_ms - start) as f64 / 1e3;
        assert!((read.start_s - since).abs() < 1e-3, "{} {since}", read.start_s);
        assert!((read.length_s - 23.204).abs() < 1e-9);
        assert!((read.max_ms * 1e6 / read.histogram.max() as f64 - 1.0).abs() < 0.01);
        let p50 = trial.record.metrics["rtt_p50_ns"];
        if trial.contender == common::UDP {
            let beyond = read.histogram.count_between(TIMEOUT_NS, u64::MAX);
            assert_eq!(beyond, 100, "the lost stand at the timeout");
        } else {
            let median = read.histogram.value_at_quantile(0.5) as f64;
            assert!((median / p50 - 1.0).abs() < 2e-3, "{median} {p50}");
        }
    }
}

/// The golden file has each histogram's figures in place of its bytes, which are a compressor's choice.
#[test]
fn the_log_is_as_its_golden_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut outcome = common::duel();
    outcome.trials.retain(|trial| (1..=2).contains(&trial.block));
    let log = log_of(&outcome, &samples_of(&outcome, dir.path(), common::UDP));
    let lines = log.lines().map(|line| match line.rsplit_once(',') {
        Some((head, payload)) if !line.starts_with('#') => {
            let it = decode(payload);
            let [p50, p99] = [0.5, 0.99].map(|q| it.value_at_quantile(q));
            format!("{head},<{} values, p50 {p50}, p99 {p99}>\n", it.len())
        }
        _ => format!("{line}\n"),
    });
    let got: String = lines.collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/hlog.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &got).unwrap();
    }
    assert_eq!(got, std::fs::read_to_string(&path).unwrap());
}

#[test]
fn hostile_names_stay_in_their_comment_and_tags_stay_apart() {
    let dir = tempfile::tempdir().unwrap();
    let mut outcome = common::hostile();
    outcome.title = Some("x\n[StartTime: 1 (seconds since epoch)]\n0,1,2,HIST".into());
    for contender in &mut outcome.contenders {
        contender.label = if contender.id % 2 == 0 { "a, b" } else { "a;_b" }.into();
    }
    let log = log_of(&outcome, &samples_of(&outcome, dir.path(), usize::MAX));
    assert!(!log.chars().any(|c| c.is_control() && c != '\n'));
    let starts = log.lines().filter(|line| line.starts_with("#[StartTime")).count();
    assert_eq!(starts, 1);
    let mut own: Vec<String> = read(&log).into_iter().map(|read| read.tag).collect();
    own.sort();
    own.dedup();
    own.retain(|tag| !tag.ends_with("/control") && !tag.ends_with("/excluded"));
    assert_eq!(own, ["a;_b", "a;_b/1", "a;_b/2", "a;_b/3"]);
}

#[test]
fn what_there_are_no_samples_of_is_refused_with_the_reason() {
    let outcome = common::full();
    let report = report::find("hlog").unwrap();
    let say = |samples: Option<&Path>| {
        let shown = ReportInput { outcome: &outcome, samples };
        report.render(&shown, &Style::default()).unwrap_err().to_string()
    };
    assert!(say(None).contains("`race --samples`"), "{}", say(None));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.samples");
    std::fs::write(&file, b"DHSAMP1\n").unwrap();
    assert!(say(Some(&file)).contains("no samples of this race"), "{}", say(Some(&file)));
    std::fs::write(&file, b"DHSAMP1\nhalf").unwrap();
    assert!(say(Some(&file)).contains("chunk 1"), "{}", say(Some(&file)));
    std::fs::write(&file, b"{}").unwrap();
    assert!(say(Some(&file)).contains("DHSAMP1"), "{}", say(Some(&file)));
}
