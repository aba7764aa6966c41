//! curl: the times of `-w`, as `name: value` or `name=value`, a line each or all in one, or as JSON (`%{json}`). Each
//! transfer is a trial.

use super::foreign_file::ForeignFile;
use super::rates::{metric, time};
use super::text::{SECONDS, decimal, number_at, time_unit};
use super::{FileContent, Format, ImportedTrial, NONE, ReaderContext};
use deadheat_contract::measurements::{Role, Unit};

/// The format.
pub(super) static FORMAT: Format = Format {
    id: "curl",
    summary: "curl -w with time_total and others, or %{json}; each transfer is a trial",
    sniff: |head| head.lines().take(200).any(|line| fields(line).iter().any(|one| is_time(one.0))),
    read: Some(read),
    program: "curl",
    implementation: "curl",
    unit: "s",
    trial: "a transfer",
    unknown: &["when each transfer began"],
    nothing: "there is no time in it; curl -w '%{json}\\n' writes all of them",
    ..NONE
};

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

/// Names of fields besides times.
const OTHERS: &[&str] =
    &["http_code", "response_code", "exitcode", "errormsg", "speed_download", "size_download"];

fn read(file: &mut ForeignFile, _: &mut ReaderContext<'_>) -> Result<FileContent, String> {
    let (mut content, mut now) = (FileContent::default(), CurlTransfer::default());
    file.each_line(|line| now.line(line, &mut content))?;
    now.end(&mut content);
    Ok(content)
}

fn is_time(name: &str) -> bool {
    TIMES.iter().any(|(known, ..)| *known == name)
}

/// Returns the fields of a line, with the text behind each: `time_total: 0.12s`, `"time_total":0.12`.
fn fields(line: &str) -> Vec<(&str, &str)> {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = line[at..].find(is_name).map(|start| at + start) {
        let length = line[start..].find(|c| !is_name(c)).unwrap_or(line.len() - start);
        at = start + length;
        let name = &line[start..at];
        let rest = line[at..].trim_start_matches(['"', '}']).trim_start();
        if let Some(value) = rest.strip_prefix([':', '='])
            && (is_time(name) || OTHERS.contains(&name))
        {
            found.push((name, value.trim_start()));
        }
    }
    found
}

/// One transfer.
#[derive(Default)]
struct CurlTransfer {
    /// Times by their place in the list, in nanoseconds.
    times: Vec<(usize, u64)>,
    code: Option<u64>,
    exit: Option<u64>,
    error: Option<String>,
    bytes_per_s: Option<f64>,
    bytes: Option<u64>,
}

impl CurlTransfer {
    fn line(&mut self, line: &str, content: &mut FileContent) {
        // Each object of JSON is a transfer.
        if line.trim_start().starts_with('{') {
            self.end(content);
        }
        for (name, text) in fields(line) {
            self.field(name, text.trim_start_matches('"'), content);
        }
        // Messages of the program itself: `curl: (28) Connection timed out`.
        if line.starts_with("curl: (") {
            self.error.get_or_insert_with(|| line.to_owned());
        }
    }

    fn field(&mut self, name: &str, text: &str, content: &mut FileContent) {
        let number = number_at(text).and_then(decimal);
        let whole = number.filter(|value| *value < 9e15).map(|value| value as u64);
        match name {
            "http_code" | "response_code" => self.code = whole,
            "exitcode" => self.exit = whole,
            "errormsg" if !text.starts_with("null") => {
                self.error = text.split('"').next().map(str::to_owned);
            }
            "speed_download" => self.bytes_per_s = number,
            "size_download" => self.bytes = whole,
            _ => {
                let Some(at) = TIMES.iter().position(|own| own.0 == name) else { return };
                if self.times.iter().any(|(known, _)| *known == at) {
                    self.end(content);
                }
                self.times.extend(time_of(text).map(|ns| (at, ns)));
            }
        }
    }

    /// Adds the transfer, if there is one, and begins the next.
    fn end(&mut self, content: &mut FileContent) {
        let transfer = std::mem::take(self);
        if !transfer.times.is_empty() || transfer.error.is_some() {
            content.add("", transfer.trial());
        }
    }

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

    fn trial(&self) -> ImportedTrial {
        if let Some(why) = self.failure() {
            return ImportedTrial::failed(&why);
        }
        let mut trial = ImportedTrial::complete();
        for (at, ns) in &self.times {
            let (name, label, role) = TIMES[*at];
            // 0 stands for a step that did not take place, such as TLS over plain HTTP.
            if *ns > 0 {
                trial.add(time(name, label, role), *ns as f64);
            }
            if *at == 0 {
                trial.record.took_ns = *ns;
            }
        }
        if let Some(bytes_per_s) = self.bytes_per_s.filter(|_| self.bytes != Some(0)) {
            let rate = metric("download_bps", "download", Unit::BitRate, Role::Descriptive);
            trial.add(rate, bytes_per_s * 8.0);
        }
        trial.record.delivered_bytes = self.bytes;
        trial
    }
}

/// Parses a time in seconds, unless it has another unit.
fn time_of(text: &str) -> Option<u64> {
    let number = number_at(text)?;
    let unit = text[number.len()..].trim_start_matches(' ');
    let unit = &unit[..unit.find(|c: char| !c.is_alphabetic()).unwrap_or(unit.len())];
    time_unit(unit).unwrap_or(SECONDS).whole(decimal(number)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(Option<f64>, Option<f64>, Option<String>)> {
        let content = FORMAT.content(text).unwrap();
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
