//! netperf: its classic output with or without headings (`-P 0`), and that of its omni tests as keys and values (`-k`),
//! as CSV (`-o`) or as a table (`-O`). Each test in a file is a trial.

use super::foreign_file::ForeignFile;
use super::rates::{GOODPUT, SENT, TRANSACTIONS, bits_of, rate, time};
use super::samples::MessageCounts;
use super::{FileContent, Format, ImportedTrial, NONE, ReaderContext};
use deadheat_contract::measurements::Role;

mod omni;
mod table;

use omni::{OmniTitles, OmniValues};
use table::{TestKind, TestRows};

/// The format.
pub(super) static FORMAT: Format = Format {
    id: "netperf",
    summary: "netperf: classic output, -P 0, omni -k, -o and -O; each test is a trial",
    sniff: is_own,
    read: Some(read),
    program: "netperf",
    implementation: "netperf",
    unit: "10^6 bit/s",
    trial: "a test of netperf",
    unknown: &["when each test began"],
    ..NONE
};

fn is_own(head: &str) -> bool {
    let first = head.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let is_bare = table::row(first).is_some_and(|row| table::shape(&row).is_some());
    let is_line = |line: &str| {
        let key = line.split_once('=').map_or("", |(key, _)| key);
        table::heading(line).is_some()
            || omni::is_figure(key)
            || line.starts_with("Interim result:")
            || OmniTitles::of_csv(line).known() > 1
    };
    is_bare || head.lines().any(is_line) || OmniTitles::are_in(head)
}

fn read(file: &mut ForeignFile, _: &mut ReaderContext<'_>) -> Result<FileContent, String> {
    let mut log = NetperfLog::default();
    file.each_line(|line| log.line(line))?;
    log.content()
}

/// Tests read so far.
#[derive(Default)]
struct NetperfLog {
    tests: Vec<ImportedTrial>,
    /// True if a rate has no unit.
    is_unitless: bool,
    kind: Option<TestKind>,
    /// Bits in a second of the unit in the heading.
    bits: Option<f64>,
    is_one_at_a_time: bool,
    has_heading: bool,
    /// True below the titles of a classic test, whose columns are always the same.
    is_classic: bool,
    rows: Vec<TestRows>,
    values: OmniValues,
    titles: OmniTitles,
    /// Lines without a number since the last row, which may be titles.
    above: Vec<String>,
    /// Titles of columns of which none is read.
    unread: String,
    /// Intervals since the last test: bit/s, and seconds.
    intervals: Vec<(f64, f64)>,
}

impl NetperfLog {
    fn line(&mut self, raw: &str) {
        let line = raw.trim();
        if let Some(kind) = table::heading(line) {
            self.end();
            self.kind = Some(kind);
            self.is_one_at_a_time = line.ends_with("first burst 0");
            (self.has_heading, self.is_classic) = (true, false);
            self.titles = OmniTitles::default();
            self.above.clear();
        } else if let Some(interval) = line.strip_prefix("Interim result:") {
            self.intervals.extend(interim(interval));
        } else if line.starts_with("establish control") || line.starts_with("netperf:") {
            self.tests.push(ImportedTrial::failed(line));
        } else if let Some((name, value)) = line.split_once('=').filter(|(name, _)| is_key(name)) {
            let value = value.trim_matches('"').to_owned();
            self.take(OmniValues::from([(name.to_owned(), value)]));
        } else if let Some(titles) = self.csv_titles(line) {
            self.titles = titles;
        } else if self.titles.is_csv() {
            let values = self.titles.row(line);
            values.into_iter().for_each(|values| self.take(values));
        } else if line.split_whitespace().any(is_number) {
            self.numbers(raw);
        } else {
            self.is_classic |= line.split_whitespace().any(|word| matches!(word, "secs" | "secs."));
            if self.is_classic {
                self.bits = line.split_whitespace().find_map(bits_of).or(self.bits);
            }
            self.above.push(raw.to_owned());
            let old = self.above.len().saturating_sub(omni::TITLE_LINES);
            self.above.drain(..old);
        }
    }

    fn csv_titles(&self, line: &str) -> Option<OmniTitles> {
        let titles = OmniTitles::of_csv(line);
        let is_line = line.contains(',') && titles.known() > usize::from(!self.has_heading);
        is_line.then_some(titles)
    }

    /// Takes a line with a number: below titles it is read by them, and otherwise as a row of a classic test.
    fn numbers(&mut self, raw: &str) {
        let above = std::mem::take(&mut self.above);
        let has_titles = !self.is_classic && above.iter().any(|line| !line.trim().is_empty());
        if has_titles {
            let titles = OmniTitles::stacked(&above);
            if titles.known() > 0 {
                self.titles = titles;
            } else if self.has_heading {
                self.unread = titles.shown();
                return;
            }
        }
        if !self.titles.is_empty() {
            match self.titles.row(raw) {
                Some(values) => self.take(values),
                None if has_titles => self.tests.push(ImportedTrial::failed(&format!(
                    "its values do not stand below their titles ({})",
                    self.titles.shown()
                ))),
                None => {}
            }
        } else if let Some(row) = table::row(raw.trim()) {
            self.row(&row);
        }
    }

    fn row(&mut self, row: &[&str]) {
        let shape = table::shape(row);
        let of_heading = self.kind.filter(|_| self.is_classic || !self.has_heading);
        if let Some(kind) = shape.or(of_heading) {
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

    /// Takes values of an omni test. A value that is there already is of the next test.
    fn take(&mut self, values: OmniValues) {
        if values.keys().any(|key| self.values.contains_key(key)) {
            self.end_omni();
        }
        self.values.extend(values);
    }

    fn end_omni(&mut self) {
        let values = std::mem::take(&mut self.values);
        let has_figure =
            |(key, value): (&String, &String)| omni::is_figure(key) && is_number(value);
        if values.iter().any(has_figure) {
            self.intervals.clear();
            self.tests.push(omni::trial(&values, self.kind));
        }
    }

    fn end_rows(&mut self) {
        for rows in std::mem::take(&mut self.rows) {
            self.intervals.clear();
            let is_rate = !matches!(rows, TestRows::Transactions { .. });
            self.is_unitless |= is_rate && self.bits.is_none();
            self.tests.push(rows.trial(self.bits.unwrap_or(1e6), self.is_one_at_a_time));
        }
    }

    fn end(&mut self) {
        self.end_rows();
        self.end_omni();
        let intervals = std::mem::take(&mut self.intervals);
        if !intervals.is_empty() {
            let seconds: f64 = intervals.iter().map(|(_, seconds)| seconds).sum();
            let bits: f64 = intervals.iter().map(|(bps, seconds)| bps * seconds).sum();
            let mut trial = ImportedTrial::complete();
            trial.add(rate(SENT, Role::Descriptive), bits / seconds);
            self.tests.push(trial.unfinished("there are intervals, and no result at the end"));
        }
    }

    fn content(mut self) -> Result<FileContent, String> {
        self.end();
        if self.tests.is_empty() {
            return Err(match &self.unread[..] {
                "" => "there is no result in it: neither a row of a test nor THROUGHPUT".to_owned(),
                titles => format!(
                    "of its columns ({titles}) none is a rate or a latency; ask netperf for some, such as `-O \
                     THROUGHPUT,THROUGHPUT_UNITS,ELAPSED_TIME,P50_LATENCY`"
                ),
            });
        }
        let mut content = FileContent::default();
        self.tests.into_iter().for_each(|test| content.add("", test));
        let doubt = "Without headings its columns are taken as those of netperf's classic tests, and its rates, which have no \
                     unit, are taken as 10^6 bit/s, its default.";
        content.doubts.extend(self.is_unitless.then(|| doubt.to_owned()));
        Ok(content)
    }
}

/// Returns true for the name of a value: `LOCAL_CPU_UTIL`.
fn is_key(name: &str) -> bool {
    !name.is_empty()
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

fn is_number(word: &str) -> bool {
    word.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Parses ` 23456.78 10^6bits/s over 1.000 seconds ending at 1719400141.123`.
fn interim(text: &str) -> Option<(f64, f64)> {
    let mut words = text.split_whitespace();
    let value: f64 = words.next()?.parse().ok()?;
    let bits = bits_of(words.next()?)?;
    let seconds: f64 = words.nth(1)?.parse().ok()?;
    (value.is_finite() && seconds > 0.0).then_some((value * bits, seconds))
}

impl TestRows {
    fn trial(&self, unit: f64, is_one_at_a_time: bool) -> ImportedTrial {
        let mut trial = ImportedTrial::complete();
        let (TestRows::Stream { seconds, .. }
        | TestRows::Transactions { seconds, .. }
        | TestRows::Datagrams { seconds, .. }) = *self;
        trial.record.took_ns = nanos(seconds);
        match *self {
            TestRows::Stream { rate: value, .. } => {
                trial.add(rate(GOODPUT, Role::Claim), value * unit);
            }
            TestRows::Transactions { rate: value, .. } => {
                trial.add(rate(TRANSACTIONS, Role::Claim), value);
                if is_one_at_a_time && value > 0.0 {
                    trial.add(time("rtt_mean", "RTT mean", Role::Descriptive), 1e9 / value);
                }
            }
            TestRows::Datagrams { sent, rate: value, received, .. } => {
                if let Some((messages, bits)) = received {
                    trial.add(rate(GOODPUT, Role::Claim), bits * unit);
                    account(&mut trial, sent, messages);
                }
                trial.add(rate(SENT, Role::Descriptive), value * unit);
            }
        }
        trial
    }
}

/// Adds the account of datagrams one way, unless it is impossible.
fn account(trial: &mut ImportedTrial, sent: f64, received: f64) {
    let (sent, delivered) = (sent as u64, received as u64);
    if delivered > sent {
        trial.impossible(&format!("{delivered} datagrams received of {sent} sent"));
    } else {
        MessageCounts::of(sent, delivered).enter_one_way(trial);
    }
}

fn nanos(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e9) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> FileContent {
        FORMAT.content(text).unwrap()
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
    fn columns_are_read_by_their_titles_or_not_at_all() {
        let heading = "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h () port 0 AF_INET : demo\n";
        let table = "Local       Remote      Local       Throughput Elapsed    \n\
                     Send Socket Recv Socket Send                   Time       \n\
                     Size        Size        Size                   (sec)      \n\
                     Final       Final                                         \n";
        let row = "87040       131072      16384       9412.35    10.00      \n";
        let content = read(&[heading, table, row, heading, table, row].concat());
        assert_eq!(figures(&content, GOODPUT), [Some(9.41235e9); 2]);
        assert_eq!(content.arms[0].trials[0].record.took_ns, 10_000_000_000);
        assert!(content.arms[0].trials[0].doubts[0].contains("THROUGHPUT_UNITS"));
        let refused = |text: &str| FORMAT.content(text).err().unwrap();
        // The same numbers have the shape of a classic test, and are none.
        assert!(refused(row).contains("no result"));
        assert!(!FORMAT.is_of(row));
        let others = table.replace("Throughput", "Local     ").replace("Elapsed", "Remote ");
        let said = refused(&[heading, &others, row].concat());
        assert!(said.contains("Local Send Socket Size Final"), "{said}");
        let shifted = [heading, table, &row.replacen("87040 ", " 87040", 1)].concat();
        let content = read(&shifted);
        assert!(!content.arms[0].trials[0].record.valid);
        // Blocks of one test, and without its heading.
        let blocks = "Throughput \n\n\n\n9412.35    \n\nElapsed    \nTime       \n(sec)      \n\n10.00      \n";
        let content = read(&format!("{heading}{blocks}"));
        assert_eq!(figures(&content, GOODPUT), [Some(9.41235e9)]);
        assert_eq!(content.arms[0].trials[0].record.took_ns, 10_000_000_000);
        assert!(FORMAT.is_of(&format!("{table}{row}")));
        assert!(!FORMAT.is_of("Throughput UUID\n93.1 1\n"), "a table of anybody");
    }

    #[test]
    fn percentiles_of_omni_are_those_of_the_trial() {
        let heading = "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 to h () : first burst 0\n";
        let csv = |rest: &str| {
            read(&format!("{heading}99th Percentile Latency Microseconds,Throughput{rest}\n"))
        };
        let long = csv(",Elapsed Time (sec)\n44,1000.00,2.00");
        assert_eq!(figures(&long, "rtt_p99_ns"), [Some(44_000.0)]);
        assert_eq!(figures(&long, TRANSACTIONS), [Some(1_000.0)], "transactions, by the heading");
        let short = csv(",Elapsed Time (sec)\n44,100.00,2.00");
        assert_eq!(figures(&short, "rtt_p99_ns"), [None]);
        assert!(short.arms[0].trials[0].doubts[0].starts_with("Its p99 has fewer than ten"));
        let untimed = csv("\n44,1000.00");
        assert_eq!(figures(&untimed, "rtt_p99_ns"), [Some(44_000.0)]);
        assert!(untimed.arms[0].trials[0].doubts[0].starts_with("How many round trips"));
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
