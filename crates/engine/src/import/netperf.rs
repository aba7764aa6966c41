//! netperf: its classic output with or without headings (`-P 0`), and that of its omni tests as keys and values (`-k`)
//! or CSV (`-o`). Each test in a file is a trial.

use std::collections::BTreeMap;

use super::foreign::ForeignFile;
use super::gather::MetricNaming;
use super::rates::{GOODPUT, SENT, TRANSACTIONS, TrialFigures, bits_of, push, rate, time};
use super::text::MICROS;
use super::{Arm, FileContent, FormatReader, ImportedTrial, ReaderContext};
use crate::measurements::{Distribution, Quantile, Role};
use crate::stats::quantile::printable;

mod table;

use table::{TestKind, TestRows};

/// The format.
pub(super) struct Netperf;

impl FormatReader for Netperf {
    fn id(&self) -> &'static str {
        "netperf"
    }

    fn summary(&self) -> &'static str {
        "netperf: classic output, -P 0, omni -k and -o; each test is a trial"
    }

    fn sniff(&self, head: &str) -> bool {
        let first = head.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let is_bare = table::row(first).is_some_and(|row| table::shape(&row).is_some());
        is_bare
            || head.lines().any(|line| {
                let names: Vec<String> = line.split(',').map(key).collect();
                table::heading(line).is_some()
                    || line.starts_with("THROUGHPUT=")
                    || line.starts_with("Interim result:")
                    || names.iter().filter(|name| KEYS.contains(&name.as_str())).count() > 1
            })
    }

    fn read(
        &self,
        file: &mut ForeignFile,
        _: &mut ReaderContext<'_>,
    ) -> Result<FileContent, String> {
        let mut log = NetperfLog::default();
        while let Some(line) = file.next_line()? {
            log.line(line.trim());
        }
        log.content()
    }
}

/// Names of omni's output that are read.
const KEYS: &[&str] = &[
    "THROUGHPUT",
    "THROUGHPUT_UNITS",
    "ELAPSED_TIME",
    "PROTOCOL",
    "TRANSACTION_RATE",
    "RT_LATENCY",
    "MIN_LATENCY",
    "MEAN_LATENCY",
    "P50_LATENCY",
    "P90_LATENCY",
    "P99_LATENCY",
    "MAX_LATENCY",
    "LOCAL_TRANSPORT_RETRANS",
    "REMOTE_TRANSPORT_RETRANS",
    "LOCAL_SEND_CALLS",
    "REMOTE_RECV_CALLS",
    "LOCAL_SEND_THROUGHPUT",
    "REMOTE_RECV_THROUGHPUT",
    "UUID",
];

/// Titles of omni's CSV that differ from its keys by more than capitals, units and spaces.
const TITLES: &[(&str, &str)] = &[
    ("ROUND_TRIP_LATENCY_USEC_TRAN", "RT_LATENCY"),
    ("MINIMUM_LATENCY_MICROSECONDS", "MIN_LATENCY"),
    ("MEAN_LATENCY_MICROSECONDS", "MEAN_LATENCY"),
    ("50TH_PERCENTILE_LATENCY_MICROSECONDS", "P50_LATENCY"),
    ("90TH_PERCENTILE_LATENCY_MICROSECONDS", "P90_LATENCY"),
    ("99TH_PERCENTILE_LATENCY_MICROSECONDS", "P99_LATENCY"),
    ("MAXIMUM_LATENCY_MICROSECONDS", "MAX_LATENCY"),
    ("ELAPSED_TIME_SEC", "ELAPSED_TIME"),
    ("TRANSACTION_RATE_TRAN_S", "TRANSACTION_RATE"),
    ("TEST_UUID", "UUID"),
    ("LOCAL_TRANSPORT_RETRANSMISSIONS", "LOCAL_TRANSPORT_RETRANS"),
    ("REMOTE_TRANSPORT_RETRANSMISSIONS", "REMOTE_TRANSPORT_RETRANS"),
];

/// Returns the key of a title: `Elapsed Time (sec)` is `ELAPSED_TIME`.
fn key(title: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { ' ' };
    let words: String = title.chars().map(plain).collect();
    let name = words.split_whitespace().collect::<Vec<_>>().join("_");
    TITLES.iter().find(|(title, _)| *title == name).map_or(name, |(_, key)| (*key).to_owned())
}

/// Values of an omni test by key.
type OmniValues = BTreeMap<String, String>;

/// One test.
enum NetperfTest {
    Rows {
        rows: TestRows,
        bits: Option<f64>,
        is_one_at_a_time: bool,
    },
    Omni(OmniValues),
    /// Rates and lengths of its intervals, of a test that did not come to its end.
    Intervals(Vec<(f64, f64)>),
    Failed(String),
}

/// Tests read so far.
#[derive(Default)]
struct NetperfLog {
    tests: Vec<NetperfTest>,
    kind: Option<TestKind>,
    /// Bits in a second of the unit in the heading.
    bits: Option<f64>,
    is_one_at_a_time: bool,
    rows: Vec<TestRows>,
    values: OmniValues,
    titles: Vec<String>,
    /// Intervals since the last test: bit/s, and seconds.
    intervals: Vec<(f64, f64)>,
}

impl NetperfLog {
    fn line(&mut self, line: &str) {
        if let Some(kind) = table::heading(line) {
            self.end();
            self.kind = Some(kind);
            self.is_one_at_a_time = line.ends_with("first burst 0");
        } else if let Some(interval) = line.strip_prefix("Interim result:") {
            self.intervals.extend(interim(interval));
        } else if line.starts_with("establish control") || line.starts_with("netperf:") {
            self.tests.push(NetperfTest::Failed(line.to_owned()));
        } else if let Some((name, value)) = line.split_once('=').filter(|(name, _)| is_key(name)) {
            if self.values.contains_key(name) {
                self.end_omni();
            }
            self.values.insert(name.to_owned(), value.trim_matches('"').to_owned());
        } else if self.is_titles(line) {
            self.titles = line.split(',').map(key).collect();
        } else if !self.titles.is_empty() && line.split(',').count() == self.titles.len() {
            let cells = line.split(',').map(|cell| cell.trim().trim_matches('"').to_owned());
            self.values = self.titles.iter().cloned().zip(cells).collect();
            self.end_omni();
        } else if let Some(row) = table::row(line) {
            self.row(&row);
        } else if let Some(unit) = line.split_whitespace().find_map(bits_of) {
            self.bits = Some(unit);
        }
    }

    fn is_titles(&self, line: &str) -> bool {
        line.split(',').map(key).filter(|name| KEYS.contains(&name.as_str())).count() > 1
    }

    fn row(&mut self, row: &[&str]) {
        let shape = table::shape(row);
        if let Some(kind) = shape.or(self.kind) {
            // Another first row is another test, without a heading between them.
            if shape.is_some() {
                self.end_rows();
            }
            table::take(kind, row, &mut self.rows);
            if self.kind.is_none() && kind == TestKind::Datagrams {
                self.kind = shape;
            }
        }
    }

    fn end_omni(&mut self) {
        let values = std::mem::take(&mut self.values);
        if values.contains_key("THROUGHPUT") || values.contains_key("TRANSACTION_RATE") {
            self.intervals.clear();
            self.tests.push(NetperfTest::Omni(values));
        }
    }

    fn end_rows(&mut self) {
        for rows in std::mem::take(&mut self.rows) {
            self.intervals.clear();
            let (bits, is_one_at_a_time) = (self.bits, self.is_one_at_a_time);
            self.tests.push(NetperfTest::Rows { rows, bits, is_one_at_a_time });
        }
    }

    fn end(&mut self) {
        self.end_rows();
        self.end_omni();
        let intervals = std::mem::take(&mut self.intervals);
        if !intervals.is_empty() {
            self.tests.push(NetperfTest::Intervals(intervals));
        }
    }

    fn content(mut self) -> Result<FileContent, String> {
        self.end();
        if self.tests.is_empty() {
            return Err("there is no result in it: neither a row of a test nor THROUGHPUT".into());
        }
        let mut arm = Arm { implementation: "netperf".into(), ..Arm::default() };
        let has_unit = |test: &NetperfTest| {
            !matches!(test, NetperfTest::Rows { bits: None, rows, .. }
            if !matches!(rows, TestRows::Transactions { .. }))
        };
        let mut doubts = Vec::new();
        if !self.tests.iter().all(has_unit) {
            doubts.push("Without headings its rates have no unit, and are taken as 10^6 bit/s, netperf's default.".to_owned());
        }
        for test in &self.tests {
            let (trial, figures) = test.trial();
            push(&mut arm, trial, figures);
        }
        Ok(FileContent {
            program: Some("netperf".into()),
            unit: "10^6 bit/s".into(),
            trial: "a test of netperf".into(),
            arms: vec![arm],
            unknown: vec!["when each test began".into()],
            doubts,
            ..FileContent::default()
        })
    }
}

/// Returns true for the name of a value: `LOCAL_CPU_UTIL`.
fn is_key(name: &str) -> bool {
    !name.is_empty()
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// Parses ` 23456.78 10^6bits/s over 1.000 seconds ending at 1719400141.123`.
fn interim(text: &str) -> Option<(f64, f64)> {
    let mut words = text.split_whitespace();
    let value: f64 = words.next()?.parse().ok()?;
    let bits = bits_of(words.next()?)?;
    let seconds: f64 = words.nth(1)?.parse().ok()?;
    (value.is_finite() && seconds > 0.0).then_some((value * bits, seconds))
}

impl NetperfTest {
    fn trial(&self) -> (ImportedTrial, Vec<crate::measurements::Metric>) {
        match self {
            NetperfTest::Rows { rows, bits, is_one_at_a_time } => {
                rows.trial(bits.unwrap_or(1e6), *is_one_at_a_time)
            }
            NetperfTest::Omni(values) => omni(values),
            NetperfTest::Intervals(intervals) => {
                let seconds: f64 = intervals.iter().map(|(_, seconds)| seconds).sum();
                let bits: f64 = intervals.iter().map(|(bps, seconds)| bps * seconds).sum();
                let mut figures = TrialFigures::new();
                figures.add(rate(SENT, Role::Descriptive), bits / seconds);
                let why = "there are intervals, and no result at the end";
                (ImportedTrial::unfinished(figures.record, why), figures.metrics)
            }
            NetperfTest::Failed(words) => (ImportedTrial::failed(words), Vec::new()),
        }
    }
}

impl TestRows {
    fn trial(
        &self,
        unit: f64,
        is_one_at_a_time: bool,
    ) -> (ImportedTrial, Vec<crate::measurements::Metric>) {
        let mut figures = TrialFigures::new();
        let mut impossible = None;
        match *self {
            TestRows::Stream { seconds, rate: value } => {
                figures.record.took_ns = nanos(seconds);
                figures.add(rate(GOODPUT, Role::Claim), value * unit);
            }
            TestRows::Transactions { seconds, rate: value } => {
                figures.record.took_ns = nanos(seconds);
                figures.add(rate(TRANSACTIONS, Role::Claim), value);
                if is_one_at_a_time && value > 0.0 {
                    figures.add(time("rtt_mean", "RTT mean", Role::Descriptive), 1e9 / value);
                }
            }
            TestRows::Datagrams { seconds, sent, rate: value, received } => {
                figures.record.took_ns = nanos(seconds);
                if let Some((messages, bits)) = received {
                    figures.add(rate(GOODPUT, Role::Claim), bits * unit);
                    impossible = account(&mut figures, sent, messages);
                }
                figures.add(rate(SENT, Role::Descriptive), value * unit);
            }
        }
        let mut trial = ImportedTrial::complete(figures.record);
        impossible.iter().for_each(|figure| trial.impossible(figure));
        (trial, figures.metrics)
    }
}

/// Adds the account of datagrams one way; answers with the words of an impossible one.
fn account(figures: &mut TrialFigures, sent: f64, received: f64) -> Option<String> {
    let (sent, delivered) = (sent as u64, received as u64);
    if delivered > sent {
        return Some(format!("{delivered} datagrams received of {sent} sent"));
    }
    figures.one_way(sent, delivered);
    None
}

fn nanos(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e9) as u64
}

fn omni(values: &OmniValues) -> (ImportedTrial, Vec<crate::measurements::Metric>) {
    let number = |key: &str| values.get(key).and_then(|value| value.parse::<f64>().ok());
    // -1 stands for a value that netperf does not know.
    let known = |key: &str| number(key).filter(|value| *value >= 0.0);
    let mut figures = TrialFigures::new();
    let seconds = known("ELAPSED_TIME").unwrap_or(0.0);
    figures.record.took_ns = nanos(seconds);
    let unit = values.get("THROUGHPUT_UNITS").map_or("10^6bits/s", String::as_str);
    let throughput = known("THROUGHPUT");
    let transactions = known("TRANSACTION_RATE")
        .or_else(|| throughput.filter(|_| unit.to_ascii_lowercase().starts_with("trans")));
    match (throughput, bits_of(unit)) {
        (Some(value), Some(bits)) => figures.add(rate(GOODPUT, Role::Claim), value * bits),
        _ => transactions.into_iter().for_each(|value| {
            figures.add(rate(TRANSACTIONS, Role::Claim), value);
        }),
    }
    let n = (transactions.unwrap_or(0.0) * seconds) as u64;
    let us = |key: &str| MICROS.whole(known(key)?).ok();
    let percentile = |key: &str, q: f64| us(key).filter(|_| printable(n, q)).map(Quantile::Ns);
    let seen = Distribution {
        n,
        min: us("MIN_LATENCY"),
        max: us("MAX_LATENCY"),
        mean: us("MEAN_LATENCY").map(|ns| ns as f64),
        p50: percentile("P50_LATENCY", 0.5),
        p90: percentile("P90_LATENCY", 0.9),
        p99: percentile("P99_LATENCY", 0.99),
        ..Distribution::default()
    };
    let naming = MetricNaming::rtt();
    if seen.p50.is_some() || seen.p90.is_some() || seen.p99.is_some() {
        naming.enter_distribution(&seen, &mut figures.record);
        figures.metrics.extend(naming.metrics(Role::Claim));
    }
    let mean = us("MEAN_LATENCY").or_else(|| us("RT_LATENCY"));
    if let Some(ns) = mean.filter(|ns| *ns > 0) {
        figures.add(time("rtt_mean", "RTT mean", Role::Descriptive), ns as f64);
    }
    if seen.min.is_some() && seen.max.is_some() {
        figures.record.rtt_ns = Some(seen);
    }
    let again = known("LOCAL_TRANSPORT_RETRANS");
    figures.record.retransmits = again.map(|count| count as u64);
    let trial = ImportedTrial {
        identity: values.get("UUID").filter(|uuid| uuid.len() >= 32).cloned(),
        ..ImportedTrial::complete(figures.record)
    };
    (trial, figures.metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> FileContent {
        let mut log = NetperfLog::default();
        text.lines().for_each(|line| log.line(line.trim()));
        log.content().unwrap()
    }

    fn figures(content: &FileContent, name: &str) -> Vec<Option<f64>> {
        let trials = &content.arms[0].trials;
        trials.iter().map(|trial| trial.record.metrics.get(name).copied()).collect()
    }

    #[test]
    fn tests_one_behind_the_other_are_trials() {
        let rows =
            "131072  16384  16384    1.00     94.10\n131072  16384  16384    1.01     93.00\n";
        let bare = read(rows);
        assert_eq!(figures(&bare, GOODPUT), [Some(94.1e6), Some(93e6)]);
        assert!(bare.doubts[0].contains("no unit"), "{:?}", bare.doubts);
        let heading = "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h () port 0 AF_INET\n\
                       bytes  bytes   bytes    secs.    KBytes/sec  \n\n 131072  16384  16384    1.00     10.00   \n";
        let with = read(&heading.repeat(2));
        assert_eq!(figures(&with, GOODPUT), [Some(81_920.0); 2]);
        assert!(with.doubts.is_empty());
    }

    #[test]
    fn transactions_one_at_a_time_are_round_trips() {
        let text = |burst: &str| {
            read(&format!(
                "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 to h () : first burst {burst}\n\
                 bytes  Bytes  bytes    bytes   secs.    per sec   \n\n\
                 16384  131072 1        1       1.00     20000.00\n16384  131072\n"
            ))
        };
        assert_eq!(figures(&text("0"), TRANSACTIONS), [Some(20_000.0)]);
        assert_eq!(figures(&text("0"), "rtt_mean_ns"), [Some(50_000.0)]);
        assert_eq!(figures(&text("8"), "rtt_mean_ns"), [None]);
    }

    #[test]
    fn omni_is_read_as_keys_and_as_csv() {
        let keys = "THROUGHPUT=25000.00\nTHROUGHPUT_UNITS=Trans/s\nELAPSED_TIME=1.00\nMEAN_LATENCY=39.50\n\
                    P50_LATENCY=38\nP90_LATENCY=45\nP99_LATENCY=80\nMIN_LATENCY=20\nMAX_LATENCY=900\n";
        let twice = read(&keys.repeat(2));
        assert_eq!(figures(&twice, "rtt_p50_ns"), [Some(38_000.0); 2]);
        assert_eq!(figures(&twice, TRANSACTIONS), [Some(25_000.0); 2]);
        let csv = "OMNI Send TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h () port 0 AF_INET\n\
                   Throughput,Throughput Units,Elapsed Time (sec),Mean Latency Microseconds\n\
                   94.10,10^6bits/s,10.00,-1.00\n";
        let csv = read(csv);
        assert_eq!(figures(&csv, GOODPUT), [Some(94.1e6)]);
        assert_eq!(figures(&csv, "rtt_mean_ns"), [None], "-1 is not known");
    }

    #[test]
    fn datagrams_that_nobody_sent_are_impossible() {
        let rows = "212992   65507   1.00       100      0    26200.00\n212992           1.00       120           25700.00\n";
        let content = read(rows);
        let trial = &content.arms[0].trials[0];
        assert!(!trial.record.metrics.contains_key("loss_share"));
        assert!(
            trial.doubts[0].contains("120 datagrams received of 100 sent"),
            "{:?}",
            trial.doubts
        );
    }

    #[test]
    fn a_test_without_an_end_has_its_intervals_and_no_verdict() {
        let line = "Interim result: 10.00 10^6bits/s over 1.000 seconds ending at 1719400141.123\n\
                    Interim result: 40.00 10^6bits/s over 0.500 seconds ending at 1719400141.623\n";
        let content = read(line);
        let record = &content.arms[0].trials[0].record;
        assert_eq!((record.valid, record.metrics[SENT]), (false, 20e6));
        let failed = read(
            "establish control: are you sure there is a netserver listening on h at port 12865?\n",
        );
        assert!(
            failed.arms[0].trials[0].record.why_invalid.as_ref().unwrap().contains("netserver")
        );
    }
}
