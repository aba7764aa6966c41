//! Values of netperf's omni tests by their keys: as keys and values (`-k`), as CSV (`-o`), or as a table with titles of four
//! lines over its columns (`-O`). A column is read by its title, and by nothing else.

use std::collections::BTreeMap;

use super::super::ImportedTrial;
use super::super::rates::{GOODPUT, SENT, TRANSACTIONS, bits_of, rate, time};
use super::super::samples::MetricNaming;
use super::super::text::{MICROS, is_among, placed_words};
use super::table::TestKind;
use super::{account, nanos};
use deadheat_contract::measurements::{Distribution, Quantile, Role};
use deadheat_stats::quantile::printable;

/// Keys of values that are figures of a test.
const FIGURES: &str = "THROUGHPUT TRANSACTION_RATE RT_LATENCY MIN_LATENCY MEAN_LATENCY P50_LATENCY P90_LATENCY P99_LATENCY \
                       MAX_LATENCY";

/// Keys of other values that are read.
const OTHERS: &str = "THROUGHPUT_UNITS ELAPSED_TIME PROTOCOL BURST_SIZE LOCAL_TRANSPORT_RETRANS REMOTE_TRANSPORT_RETRANS \
                      LOCAL_SEND_CALLS REMOTE_RECV_CALLS LOCAL_SEND_THROUGHPUT UUID";

/// Titles of tables that differ from their keys by more than capitals, units and spaces (`print_omni_init` of netperf's
/// nettest_omni.c).
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
    ("INITIAL_BURST_REQUESTS", "BURST_SIZE"),
    ("TEST_UUID", "UUID"),
    ("LOCAL_TRANSPORT_RETRANSMISSIONS", "LOCAL_TRANSPORT_RETRANS"),
    ("REMOTE_TRANSPORT_RETRANSMISSIONS", "REMOTE_TRANSPORT_RETRANS"),
];

/// Number of lines of a title.
pub(super) const TITLE_LINES: usize = 4;

/// Returns the key of a title: `Elapsed Time (sec)` is `ELAPSED_TIME`.
fn key(title: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { ' ' };
    let words: String = title.chars().map(plain).collect();
    let name = words.split_whitespace().collect::<Vec<_>>().join("_");
    TITLES.iter().find(|(title, _)| *title == name).map_or(name, |(_, key)| (*key).to_owned())
}

fn is_read(key: &str) -> bool {
    is_among(key, FIGURES) || is_among(key, OTHERS)
}

/// Returns true for the key of a figure of a test.
pub(super) fn is_figure(key: &str) -> bool {
    is_among(key, FIGURES)
}

/// Titles over the columns of a table, with the place at which each column begins.
#[derive(Debug, Default, PartialEq)]
pub(super) struct OmniTitles {
    /// Places in a line, or none in CSV.
    starts: Vec<usize>,
    /// Titles as printed, and their keys.
    names: Vec<(String, String)>,
}

impl OmniTitles {
    /// Reads the line of titles of CSV.
    pub(super) fn of_csv(line: &str) -> OmniTitles {
        let names = csv_cells(line).into_iter().map(|title| (title.clone(), key(&title)));
        OmniTitles { starts: Vec::new(), names: names.collect() }
    }

    /// Reads the lines of titles of a table: a column begins where a word of the first line does, unless a title of
    /// another line goes on there.
    pub(super) fn stacked(lines: &[String]) -> OmniTitles {
        let lines = &lines[lines.len().saturating_sub(TITLE_LINES)..];
        if !lines.iter().all(|line| line.is_ascii()) {
            return OmniTitles::default();
        }
        let is_free = |line: &String, at: usize| {
            at == 0 || line.as_bytes().get(at - 1).is_none_or(|byte| *byte == b' ')
        };
        let first = lines.iter().find(|line| !line.trim().is_empty());
        let starts: Vec<usize> = first
            .into_iter()
            .flat_map(|line| placed_words(line))
            .map(|(at, _)| at)
            .filter(|at| lines.iter().all(|line| is_free(line, *at)))
            .collect();
        let title = |(column, start): (usize, &usize)| {
            let part = |line: &String| {
                let end = starts.get(column + 1).copied().unwrap_or(usize::MAX).min(line.len());
                line.get(*start..end).unwrap_or_default().trim().to_owned()
            };
            let parts: Vec<String> =
                lines.iter().map(part).filter(|part| !part.is_empty()).collect();
            let title = parts.join(" ");
            (title.clone(), key(&title))
        };
        OmniTitles { names: starts.iter().enumerate().map(title).collect(), starts }
    }

    /// Returns the number of columns whose titles are known.
    pub(super) fn known(&self) -> usize {
        self.names.iter().filter(|(_, key)| is_read(key)).count()
    }

    /// Returns true if a text has the titles of such a table, of more than one line.
    pub(super) fn are_in(text: &str) -> bool {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        (1..=lines.len()).any(|end| {
            let titles = OmniTitles::stacked(&lines[end.saturating_sub(TITLE_LINES)..end]);
            let is_tall = |(title, key): &(String, String)| title.contains(' ') && is_read(key);
            titles.known() > 1 && titles.names.iter().any(is_tall)
        })
    }

    /// Returns true for titles of CSV.
    pub(super) fn is_csv(&self) -> bool {
        self.starts.is_empty() && !self.names.is_empty()
    }

    /// Returns the titles, for a sentence.
    pub(super) fn shown(&self) -> String {
        let names: Vec<&str> = self.names.iter().map(|(title, _)| title.as_str()).collect();
        names.join(", ")
    }

    /// Returns true if there are no columns.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the values of a row by their keys; `None` for a row of other columns.
    pub(super) fn row(&self, line: &str) -> Option<OmniValues> {
        let keys = self.names.iter().map(|(_, key)| key.clone());
        if self.starts.is_empty() {
            let cells = csv_cells(line);
            return (cells.len() == self.names.len()).then(|| keys.zip(cells).collect());
        }
        let mut cells: Vec<String> = vec![String::new(); self.names.len()];
        for (at, word) in placed_words(line) {
            let column = self.starts.iter().rposition(|start| *start <= at)?;
            let cell = &mut cells[column];
            // Values stand left in their columns.
            if cell.is_empty() && self.starts[column] != at {
                return None;
            }
            if !cell.is_empty() {
                cell.push(' ');
            }
            cell.push_str(word);
        }
        Some(keys.zip(cells).collect())
    }
}

/// Returns the cells of a line of CSV, in which a comma between quotes separates nothing.
fn csv_cells(line: &str) -> Vec<String> {
    let mut is_quoted = false;
    let cells = line.split(|c: char| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    });
    cells.map(|cell| cell.trim().trim_matches('"').to_owned()).collect()
}

/// Values of an omni test by key.
pub(super) type OmniValues = BTreeMap<String, String>;

/// Returns the trial of an omni test under a heading of this kind, if it had one.
pub(super) fn trial(values: &OmniValues, kind: Option<TestKind>) -> ImportedTrial {
    let number = |key: &str| values.get(key).and_then(|value| value.parse::<f64>().ok());
    // -1 stands for a value that netperf does not know.
    let known = |key: &str| number(key).filter(|value| *value >= 0.0);
    let mut trial = ImportedTrial::complete();
    let seconds = known("ELAPSED_TIME");
    trial.record.took_ns = nanos(seconds.unwrap_or(0.0));
    let unit = unit_of(values, kind, &mut trial.doubts);
    let throughput = known("THROUGHPUT");
    let transactions = known("TRANSACTION_RATE").or_else(|| throughput.filter(|_| unit.is_none()));
    let mut add = |name, role, value: Option<f64>| {
        value.into_iter().for_each(|value| trial.add(rate(name, role), value));
    };
    if let Some(bits) = unit {
        add(GOODPUT, Role::Claim, throughput.map(|value| value * bits));
        let sent = known("LOCAL_SEND_THROUGHPUT").filter(|value| *value > 0.0);
        add(SENT, Role::Descriptive, sent.map(|value| value * bits));
    }
    add(TRANSACTIONS, Role::Claim, transactions);
    let n = transactions.zip(seconds).map(|(rate, seconds)| (rate * seconds) as u64);
    latencies(&known, n, &mut trial);
    let is_udp = values.get("PROTOCOL").is_some_and(|name| name.starts_with("UDP"));
    let calls = known("LOCAL_SEND_CALLS").zip(known("REMOTE_RECV_CALLS"));
    if let Some((sent, received)) = calls.filter(|_| is_udp || kind == Some(TestKind::Datagrams)) {
        account(&mut trial, sent, received);
    }
    trial.record.retransmits = known("LOCAL_TRANSPORT_RETRANS").map(|count| count as u64);
    trial.identity = values.get("UUID").filter(|uuid| uuid.len() >= 32).cloned();
    trial
}

/// Returns the bits in a second of the unit of a throughput; `None` where it counts transactions.
fn unit_of(values: &OmniValues, kind: Option<TestKind>, doubts: &mut Vec<String>) -> Option<f64> {
    let has_throughput = values.contains_key("THROUGHPUT");
    match (values.get("THROUGHPUT_UNITS"), kind) {
        (Some(unit), _) => bits_of(unit),
        (None, Some(TestKind::Transactions)) => None,
        (None, kind) => {
            if has_throughput {
                let or = if kind.is_none() { ", as of a test of bytes" } else { "" };
                doubts.push(format!(
                    "No column has the unit of its throughput (THROUGHPUT_UNITS), which is taken as 10^6 bit/s, netperf's \
                     default{or}."
                ));
            }
            Some(1e6)
        }
    }
}

/// Adds the latencies of a test of `n` transactions, as far as known. netperf takes its percentiles from all of them.
fn latencies(known: &dyn Fn(&str) -> Option<f64>, n: Option<u64>, trial: &mut ImportedTrial) {
    let us = |key: &str| MICROS.whole(known(key)?).ok();
    let mut percentile = |key: &str, name: &str, q: f64| {
        let ns = us(key)?;
        let is_sound = n.is_none_or(|n| printable(n, q));
        if !is_sound {
            trial.doubts.push(format!(
                "Its {name} has fewer than ten of its round trips beyond it, and is in no figure."
            ));
        }
        is_sound.then_some(Quantile::Ns(ns))
    };
    let seen = Distribution {
        n: n.unwrap_or(0),
        p50: percentile("P50_LATENCY", "p50", 0.5),
        p90: percentile("P90_LATENCY", "p90", 0.9),
        p99: percentile("P99_LATENCY", "p99", 0.99),
        min: us("MIN_LATENCY"),
        max: us("MAX_LATENCY"),
        mean: us("MEAN_LATENCY").map(|ns| ns as f64),
        ..Distribution::default()
    };
    let is_claim = trial.metrics.is_empty();
    let has_percentiles = seen.p50.is_some() || seen.p90.is_some() || seen.p99.is_some();
    if has_percentiles {
        let doubt = "How many round trips its percentiles are of is not in the file (TRANSACTION_RATE and ELAPSED_TIME say it).";
        trial.doubts.extend(n.is_none().then(|| doubt.to_owned()));
        MetricNaming::rtt().enter_distribution(&seen, Role::Claim, trial);
    }
    let role = if is_claim && !has_percentiles { Role::Claim } else { Role::Descriptive };
    let mean = seen.mean.filter(|ns| *ns > 0.0);
    mean.into_iter().for_each(|ns| trial.add(time("rtt_mean", "RTT mean", role), ns));
    if let Some(ns) = us("RT_LATENCY").filter(|ns| *ns > 0) {
        let metric = match mean {
            Some(_) => time("rtt_by_rate", "RTT by the rate", Role::Descriptive),
            None => time("rtt_mean", "RTT mean", role),
        };
        trial.add(metric, ns as f64);
    }
    if seen.n > 0 && seen.min.is_some() && seen.max.is_some() {
        trial.record.rtt_ns = Some(seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacked(lines: &[&str]) -> OmniTitles {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        OmniTitles::stacked(&lines)
    }

    #[test]
    fn titles_stand_over_columns_in_up_to_four_lines() {
        let titles = stacked(&[
            "Local       Remote      Local Throughput Throughput Elapsed ",
            "Send Socket Recv Socket Send  Units                 Time    ",
            "Size        Size        Size                        (sec)   ",
            "Final       Final                                           ",
        ]);
        assert_eq!(
            titles.shown(),
            "Local Send Socket Size Final, Remote Recv Socket Size Final, Local Send Size, Throughput Units, \
             Throughput, Elapsed Time (sec)"
        );
        assert_eq!(titles.known(), 3);
        let row = "87040       131072      16384 10^6bits/s 9412.35    10.00   ";
        let values = titles.row(row).unwrap();
        assert_eq!(values["THROUGHPUT"], "9412.35");
        assert_eq!(values["ELAPSED_TIME"], "10.00");
        assert_eq!(titles.row("87040     131072      16384 10^6bits/s 9412.35    10.00"), None);
        // A column may be empty, and a value may have spaces.
        let row = "a b c                         10^6bits/s 9412.35";
        assert_eq!(titles.row(row).unwrap()["THROUGHPUT"], "9412.35");
        assert!(stacked(&[]).is_empty() && stacked(&["ü"]).is_empty());
        for line in ["", " ", "1 2 3", "é é"] {
            let _ = (stacked(&[line, "x"]).row(line), titles.row(line));
        }
    }

    #[test]
    fn a_comma_between_quotes_is_no_separator() {
        let titles = OmniTitles::of_csv("Throughput,Command Line,Elapsed Time (sec)");
        let values = titles.row("94.10,\"netperf -- -o a,b\",10.00").unwrap();
        assert_eq!(values["ELAPSED_TIME"], "10.00");
        assert_eq!(titles.row("94.10,10.00"), None);
    }
}
