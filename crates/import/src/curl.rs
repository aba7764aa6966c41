//! curl: the times of `-w`, as `name: value` or `name=value`, a line each or all in one, or as JSON (`%{json}`). Each
//! transfer is a trial.

use super::foreign::ForeignFile;
use super::rates::{TrialFigures, push, time};
use super::text::{SECONDS, decimal, number_at, time_unit};
use super::{Arm, FileContent, FormatReader, ImportedTrial, ReaderContext};
use crate::measurements::{Better, ClockNeed, Metric, Role, Unit};

/// The format.
pub(super) struct Curl;

/// Times that become metrics: curl's name, name for people, whether it is the time of the whole transfer or of the first
/// byte.
const TIMES: &[(&str, &str, Role)] = &[
    ("time_total", "total", Role::Claim),
    ("time_starttransfer", "first byte", Role::Claim),
    ("time_namelookup", "name lookup", Role::Descriptive),
    ("time_connect", "connected", Role::Descriptive),
    ("time_appconnect", "TLS ready", Role::Descriptive),
    ("time_pretransfer", "before transfer", Role::Descriptive),
    ("time_redirect", "redirects", Role::Descriptive),
];

impl FormatReader for Curl {
    fn id(&self) -> &'static str {
        "curl"
    }

    fn summary(&self) -> &'static str {
        "curl -w with time_total and others, or %{json}; each transfer is a trial"
    }

    fn sniff(&self, head: &str) -> bool {
        let names = |line: &str| fields(line).iter().any(|(name, _)| is_time(name));
        head.lines().take(200).any(names)
    }

    fn read(
        &self,
        file: &mut ForeignFile,
        _: &mut ReaderContext<'_>,
    ) -> Result<FileContent, String> {
        let mut log = CurlLog::default();
        while let Some(line) = file.next_line()? {
            log.line(line);
        }
        log.content()
    }
}

fn is_time(name: &str) -> bool {
    TIMES.iter().any(|(known, ..)| *known == name)
}

/// Names of fields besides times.
const OTHERS: &[&str] =
    &["http_code", "response_code", "exitcode", "errormsg", "speed_download", "size_download"];

/// Returns the fields of a line, with the text behind each: `time_total: 0.12s`, `"time_total":0.12`.
fn fields(line: &str) -> Vec<(&str, &str)> {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = line[at..].find(is_name).map(|start| at + start) {
        let length = line[start..].find(|c| !is_name(c)).unwrap_or(line.len() - start);
        at = start + length;
        let name = &line[start..at];
        if !is_time(name) && !OTHERS.contains(&name) {
            continue;
        }
        let rest = line[at..].trim_start_matches(['"', '}']).trim_start();
        if let Some(value) = rest.strip_prefix([':', '=']) {
            found.push((name, value.trim_start()));
        }
    }
    found
}

/// One transfer.
#[derive(Default)]
struct CurlTransfer {
    /// Times by curl's name, in nanoseconds.
    times: Vec<(&'static str, u64)>,
    code: Option<u64>,
    exit: Option<u64>,
    error: Option<String>,
    bytes_per_s: Option<f64>,
    bytes: Option<u64>,
}

/// Transfers read so far.
#[derive(Default)]
struct CurlLog {
    transfers: Vec<CurlTransfer>,
    now: CurlTransfer,
}

impl CurlLog {
    fn line(&mut self, line: &str) {
        // Each object of JSON is a transfer.
        if line.trim_start().starts_with('{') {
            self.end();
        }
        for (name, text) in fields(line) {
            self.field(name, text.trim_start_matches('"'));
        }
        // Messages of the program itself: `curl: (28) Connection timed out`.
        if line.starts_with("curl: (") {
            self.now.error.get_or_insert_with(|| line.to_owned());
        }
    }

    fn field(&mut self, name: &str, text: &str) {
        let number = number_at(text).and_then(decimal);
        let whole = number.filter(|value| *value < 9e15).map(|value| value as u64);
        match name {
            "http_code" | "response_code" => self.now.code = whole,
            "exitcode" => self.now.exit = whole,
            "errormsg" if !text.starts_with("null") => {
                self.now.error = text.split('"').next().map(str::to_owned);
            }
            "speed_download" => self.now.bytes_per_s = number,
            "size_download" => self.now.bytes = whole,
            _ => {
                let Some((name, ..)) = TIMES.iter().find(|(known, ..)| *known == name) else {
                    return;
                };
                if self.now.times.iter().any(|(known, _)| known == name) {
                    self.end();
                }
                self.now.times.extend(time_of(text).map(|ns| (*name, ns)));
            }
        }
    }

    fn end(&mut self) {
        let transfer = std::mem::take(&mut self.now);
        if !transfer.times.is_empty() || transfer.error.is_some() {
            self.transfers.push(transfer);
        }
    }

    fn content(mut self) -> Result<FileContent, String> {
        self.end();
        if self.transfers.is_empty() {
            return Err("there is no time in it; curl -w '%{json}\\n' writes all of them".into());
        }
        let mut arm = Arm { implementation: "curl".into(), ..Arm::default() };
        for transfer in &self.transfers {
            let (trial, metrics) = transfer.trial();
            push(&mut arm, trial, metrics);
        }
        arm.metrics.sort_by_key(|metric| metric.role != Role::Claim);
        Ok(FileContent {
            program: Some("curl".into()),
            unit: "s".into(),
            trial: "a transfer".into(),
            arms: vec![arm],
            unknown: vec!["when each transfer began".into()],
            ..FileContent::default()
        })
    }
}

/// Parses a time in seconds, unless it has another unit.
fn time_of(text: &str) -> Option<u64> {
    let number = number_at(text)?;
    let unit = text[number.len()..].trim_start_matches(' ');
    let unit = &unit[..unit.find(|c: char| !c.is_alphabetic()).unwrap_or(unit.len())];
    time_unit(unit).unwrap_or(SECONDS).whole(decimal(number)?).ok()
}

impl CurlTransfer {
    /// Returns the reason why it failed, if it did.
    fn failure(&self) -> Option<String> {
        let words = |or: String| self.error.clone().unwrap_or(or);
        match (self.exit, self.code) {
            (Some(exit), _) if exit != 0 => {
                Some(words(format!("curl ended with exit code {exit}")))
            }
            (_, Some(0)) => Some(words("there was no answer of HTTP".into())),
            (_, Some(code)) if code >= 400 => Some(format!("the server answered with {code}")),
            _ if self.times.is_empty() => self.error.clone(),
            _ => None,
        }
    }

    fn trial(&self) -> (ImportedTrial, Vec<Metric>) {
        if let Some(why) = self.failure() {
            return (ImportedTrial::failed(&why), Vec::new());
        }
        let mut figures = TrialFigures::new();
        for (name, ns) in &self.times {
            let Some((_, label, role)) = TIMES.iter().find(|(known, ..)| known == name) else {
                continue;
            };
            // 0 stands for a step that did not take place, such as TLS over plain HTTP.
            if *ns > 0 {
                figures.add(time(name, label, *role), *ns as f64);
            }
            if *name == "time_total" {
                figures.record.took_ns = *ns;
            }
        }
        if let Some(bytes_per_s) = self.bytes_per_s.filter(|_| self.bytes != Some(0)) {
            let metric = Metric {
                name: "download_bps".into(),
                label: "download".into(),
                unit: Unit::BitRate,
                better: Better::Higher,
                role: Role::Descriptive,
                clock: ClockNeed::None,
            };
            figures.add(metric, bytes_per_s * 8.0);
        }
        figures.record.delivered_bytes = self.bytes;
        (ImportedTrial::complete(figures.record), figures.metrics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(Option<f64>, Option<f64>, Option<String>)> {
        let mut log = CurlLog::default();
        text.lines().for_each(|line| log.line(line));
        let content = log.content().unwrap();
        let of = |trial: &ImportedTrial, name: &str| trial.record.metrics.get(name).copied();
        let trials = content.arms[0].trials.iter();
        let all = trials.map(|one| {
            (
                of(one, "time_total_ns"),
                of(one, "time_appconnect_ns"),
                one.record.why_invalid.clone(),
            )
        });
        all.collect()
    }

    #[test]
    fn times_are_read_in_each_form_that_people_give_them() {
        let want = vec![(Some(120_500_000.0), None, None); 2];
        for text in [
            "    time_namelookup:  0.004000s\n    time_appconnect:  0.000000s\n         time_total:  0.120500s\n",
            "time_appconnect=0 time_total=0.120500\n",
            "{\"http_code\":200,\"exitcode\":0,\"errormsg\":null,\"time_appconnect\":0.0,\"time_total\":0.120500}\n",
            "{\"time_appconnect\": \"0\", \"time_total\": \"0,120500\"}\n",
            "time_total: 120.5 ms\n",
        ] {
            assert_eq!(read(&text.repeat(2)), want, "{text}");
        }
    }

    #[test]
    fn transfers_that_failed_have_no_figures() {
        let json = "{\"errormsg\":\"Failed to connect\",\"exitcode\":7,\"http_code\":0,\"time_total\":0.000159}";
        let failed = |text| {
            let [(total, _, why)] = &read(text)[..] else { panic!("{text}") };
            assert_eq!(*total, None, "{text}");
            why.clone().unwrap()
        };
        assert!(failed(json).contains("Failed to connect"));
        assert!(failed("http_code: 000\ntime_total: 5.0\n").contains("no answer of HTTP"));
        assert!(failed("http_code=503 time_total=0.1\n").contains("answered with 503"));
    }
}
