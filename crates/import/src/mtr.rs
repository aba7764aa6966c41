//! mtr: its report (`-r`, `-w`), CSV (`-C`), JSON (`-j`) and events (`--raw`). The figures are of the last hop, the far end: the
//! answers of routers before it say little about the path.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value;

use super::echo::{DUE, ONLY_SUMS, sums_only};
use super::foreign_file::ForeignFile;
use super::samples::MessageCounts;
use super::stamp::{self, LineStamp};
use super::text::MILLIS;
use super::{FileContent, Format, ImportedTrial, NONE, ReaderContext};
use deadheat_base::time::epoch_ms;

mod raw;

/// The format.
pub(super) static FORMAT: Format = Format {
    id: "mtr",
    summary: "mtr's report, -r, -C, -j or --raw: the far end, which is the last hop",
    signs: &[&[CSV]],
    sniff: |head| {
        let is_report = || head.contains("\"report\"") && head.contains("\"hubs\"");
        head.trim_start().starts_with('{') && is_report()
            || raw::is_raw(head)
            || head.lines().any(|line| columns(line).is_some())
    },
    read: Some(read),
    program: "mtr",
    unit: "ms",
    trial: "a report of mtr",
    unknown: &[DUE],
    ..NONE
};

/// Titles of columns by which a report is recognised.
const TITLES: [&str; 7] = ["Loss%", "Drop", "Rcv", "Snt", "Avg", "Best", "Wrst"];

/// First column of the CSV.
const CSV: &str = "Mtr_Version,";

fn read(file: &mut ForeignFile, context: &mut ReaderContext<'_>) -> Result<FileContent, String> {
    if raw::is_raw(file.head()) {
        return raw::read(file, context);
    }
    let mut log = MtrLog::default();
    if file.head().trim_start().starts_with('{') {
        for document in file.json::<Value>()? {
            log.document(&document)?;
        }
    } else {
        file.each_line(|line| log.line(line))?;
    }
    log.content()
}

/// Figures of a hop, by the title of their column.
#[derive(Debug, Clone, Default, PartialEq)]
struct MtrHop {
    number: u64,
    host: String,
    figures: BTreeMap<String, f64>,
}

/// One report.
#[derive(Default)]
struct MtrReport {
    /// Far end as asked for; not in a report for people.
    target: Option<String>,
    started: Option<LineStamp>,
    last: Option<MtrHop>,
}

/// Reports read so far.
#[derive(Default)]
struct MtrLog {
    program: Option<String>,
    reports: Vec<MtrReport>,
    started: Option<LineStamp>,
    titles: Vec<String>,
    is_csv: bool,
}

/// Returns the titles of the columns of a report: `HOST: h   Loss%   Snt   Last   Avg  Best  Wrst StDev`.
fn columns(line: &str) -> Option<Vec<String>> {
    let rest = line.trim_start().strip_prefix("HOST: ")?;
    let titles: Vec<String> = rest.split_whitespace().skip(1).map(str::to_owned).collect();
    let is_known = |title: &String| TITLES.contains(&title.as_str());
    (titles.iter().filter(|title| is_known(title)).count() > 1).then_some(titles)
}

/// Parses `  1.|-- 10.0.0.1    0.0%    10    0.1   0.1   0.1   0.2   0.0`.
fn hop(line: &str, titles: &[String]) -> Option<MtrHop> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (number, _) = words.first()?.split_once('.')?;
    let number = number.parse().ok()?;
    let names = words.len().checked_sub(titles.len())?;
    let host = words.get(1..names)?.last().map_or("", |host| *host);
    let value = |word: &&str| word.trim_end_matches('%').parse::<f64>().ok();
    let values: Vec<f64> = words[names..].iter().map(value).collect::<Option<_>>()?;
    let figures = titles.iter().cloned().zip(values).collect();
    Some(MtrHop { number, host: host.trim_matches(['(', ')']).to_owned(), figures })
}

impl MtrLog {
    fn line(&mut self, line: &str) {
        if let Some(at) = line.trim_start().strip_prefix("Start: ") {
            self.started = stamp::split(at).0;
        } else if let Some(titles) = columns(line) {
            self.titles = titles;
            self.is_csv = false;
            self.reports.push(MtrReport { started: self.started.take(), ..MtrReport::default() });
        } else if line.starts_with(CSV) {
            self.titles = line.split(',').map(|title| title.trim().to_owned()).collect();
            self.is_csv = true;
        } else if self.is_csv {
            self.row(line);
        } else if let Some(hop) = hop(line, &self.titles)
            && let Some(report) = self.reports.last_mut()
        {
            report.last = Some(hop);
        }
    }

    /// Takes a row of CSV. A hop that is not behind the one before begins another report.
    fn row(&mut self, line: &str) {
        let cells: BTreeMap<&str, &str> =
            self.titles.iter().map(String::as_str).zip(line.split(',').map(str::trim)).collect();
        let cell = |title: &str| cells.get(title).copied().unwrap_or_default();
        let Ok(number) = cell("Hop").parse::<u64>() else { return };
        let version = cell("Mtr_Version").trim_start_matches("MTR.");
        self.program.get_or_insert_with(|| format!("mtr {version}"));
        let figures = cells
            .iter()
            .filter_map(|(title, cell)| Some(((*title).to_owned(), cell.parse().ok()?)))
            .collect();
        let host = cell("Ip").to_owned();
        let (target, started) = (cell("Host").to_owned(), stamp::split(cell("Start_Time")).0);
        let goes_on = self.reports.last().is_some_and(|report| {
            report.target.as_deref() == Some(&target)
                && report.last.as_ref().is_some_and(|last| last.number < number)
        });
        if !goes_on {
            self.reports.push(MtrReport { target: Some(target), started, last: None });
        }
        if let Some(report) = self.reports.last_mut() {
            report.last = Some(MtrHop { number, host, figures });
        }
    }

    fn document(&mut self, document: &Value) -> Result<(), String> {
        let report = &document["report"];
        let hubs = report["hubs"].as_array().ok_or("there is no `report.hubs` in it")?;
        // Versions up to 0.94 wrote some numbers as text.
        let number = |value: &Value| {
            value.as_f64().or_else(|| value.as_str()?.trim_end_matches('%').parse().ok())
        };
        let last = hubs.last().map(|hub| {
            let fields = hub.as_object().into_iter().flatten();
            MtrHop {
                number: number(&hub["count"]).unwrap_or(0.0) as u64,
                host: hub["host"].as_str().unwrap_or_default().to_owned(),
                figures: fields.filter_map(|(key, v)| Some((key.clone(), number(v)?))).collect(),
            }
        });
        let target = report["mtr"]["dst"].as_str().map(str::to_owned);
        self.reports.push(MtrReport { target, started: None, last });
        Ok(())
    }

    fn content(self) -> Result<FileContent, String> {
        let mut content =
            FileContent { program: self.program.unwrap_or_default(), ..FileContent::default() };
        for report in self.reports.iter().filter(|report| report.last.is_some()) {
            content.began = content.began.or(report.started.and_then(|at| at.at()));
            content.add(report.name(), report.trial());
        }
        if content.arms.is_empty() {
            return Err("there is no hop in it; `mtr -r`, `-C` and `-j` print them".into());
        }
        content.lacks(ONLY_SUMS);
        Ok(content.unnamed_alone())
    }
}

impl MtrReport {
    /// Returns the far end as asked for, or the last hop.
    fn name(&self) -> &str {
        let last = self.last.as_ref().map_or("", |last| last.host.as_str());
        self.target.as_deref().unwrap_or(last)
    }

    fn trial(&self) -> ImportedTrial {
        let last = self.last.clone().unwrap_or_default();
        let address = |text: &str| text.parse::<IpAddr>().ok();
        if let Some(target) = &self.target
            && address(target).zip(address(&last.host)).is_some_and(|(a, b)| a != b)
        {
            let why = format!("no hop is {target}; the last that answered is {}", last.host);
            return ImportedTrial::complete().unfinished(&why);
        }
        let figure = |title: &str| last.figures.get(title).copied();
        let sent = figure("Snt").unwrap_or(0.0).max(0.0) as u64;
        let share = figure("Loss%").unwrap_or(0.0) / 100.0;
        let received = figure("Rcv").unwrap_or(sent as f64 * (1.0 - share));
        let counts = MessageCounts::of(sent, received.round().max(0.0) as u64);
        let ns = |title: &str| MILLIS.whole(figure(title)?).ok();
        let sums = || Some([ns("Best")?, ns("Avg")?, ns("Wrst")?]);
        let mut trial = sums_only(&counts, sums().filter(|_| counts.received > 0));
        counts.enter(&mut trial);
        let started = self.started.and_then(|at| at.at());
        trial.record.started_ms = started.map_or(0, epoch_ms);
        trial
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_their_titles() {
        let titles =
            columns("HOST: h.example    Loss%   Snt   Last   Avg  Best  Wrst StDev").unwrap();
        assert_eq!(titles.len(), 7);
        let hop =
            hop("  3.|-- far (10.0.0.3)   10.0%    20    0.1   0.2   0.1   0.9   0.0", &titles);
        let hop = hop.unwrap();
        assert_eq!((hop.number, hop.host.as_str(), hop.figures["Loss%"]), (3, "10.0.0.3", 10.0));
        assert_eq!(hop.figures["Avg"], 0.2);
        assert!(columns("HOST: h.example").is_none());
        for line in ["", "        10.0.0.9", "    |  `|-- 10.0.0.9", "3.|-- ???"] {
            assert!(super::hop(line, &titles).is_none(), "{line}");
        }
    }

    #[test]
    fn a_far_end_that_did_not_answer_has_no_figure() {
        let host = |host: &str| MtrHop { host: host.into(), ..MtrHop::default() };
        let report =
            |last| MtrReport { target: Some("10.0.0.9".into()), last: Some(last), started: None };
        let trial = report(host("10.0.0.3")).trial();
        assert!(!trial.record.valid && trial.metrics.is_empty());
        let why = trial.record.why_invalid.unwrap();
        assert!(why.contains("no hop is 10.0.0.9; the last that answered is 10.0.0.3"), "{why}");
        assert!(report(host("10.0.0.9")).trial().record.valid);
    }
}
