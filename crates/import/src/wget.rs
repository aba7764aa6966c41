//! wget: its closing line, `2026-11-26 02:50:01 (1.23 GB/s) - ‘x’ saved [1048576/1048576]`, in any language. Each
//! transfer is a trial.

use super::foreign_file::ForeignFile;
use super::rates::{GOODPUT, bits_of, rate};
use super::stamp::{self, LineStamp};
use super::text::{decimal, number_at};
use super::{FileContent, Format, ImportedTrial, NONE, ReaderContext};
use deadheat_base::time::epoch_ms;
use deadheat_contract::measurements::Role;

/// The format.
pub(super) static FORMAT: Format = Format {
    id: "wget",
    summary: "what wget prints at the end of a transfer; each is a trial",
    sniff: |head| head.lines().any(|line| WgetLine::of(line).is_some() || refusal(line).is_some()),
    read: Some(read),
    program: "wget",
    implementation: "wget",
    unit: "B/s",
    trial: "a transfer",
    unknown: &["digits of a rate behind its third"],
    says: &[stamp::ZONELESS],
    nothing: "there is no closing line of wget in it: DATE TIME (RATE) - FILE",
    ..NONE
};

fn read(file: &mut ForeignFile, _: &mut ReaderContext<'_>) -> Result<FileContent, String> {
    let mut content = FileContent::default();
    file.each_line(|line| {
        if let Some(read) = WgetLine::of(line) {
            content.began = content.began.or(read.at.at());
            content.add("", read.trial());
        } else if let Some(words) = refusal(line) {
            content.add("", ImportedTrial::failed(words));
        }
    })?;
    Ok(content)
}

/// Returns the words of `2026-11-26 02:50:01 ERROR 404: Not Found.`, in any language.
fn refusal(line: &str) -> Option<&str> {
    let (at, rest) = stamp::split(line);
    let code = at.and(rest.split_whitespace().nth(1))?.strip_suffix(':')?;
    let is_code = code.len() == 3 && code.parse::<u16>().is_ok_and(|code| code >= 400);
    is_code.then_some(rest)
}

/// Closing line of a transfer.
#[derive(Debug, PartialEq)]
struct WgetLine<'a> {
    at: LineStamp,
    bps: f64,
    /// Bytes stored, and of how many.
    bytes: Option<(u64, Option<u64>)>,
    words: &'a str,
}

impl WgetLine<'_> {
    fn of(line: &str) -> Option<WgetLine<'_>> {
        let (at, rest) = stamp::split(line);
        let at = at.filter(|at| at.basis != stamp::StampBasis::Undated)?;
        let (speed, words) = rest.strip_prefix('(')?.split_once(')')?;
        let words = words.trim_start().strip_prefix('-')?.trim();
        let number = number_at(speed)?;
        let bits = bits_of(&speed[number.len()..])?;
        let bytes = words.rsplit_once('[').and_then(|(_, count)| {
            let (stored, all) = match count.trim_end_matches(']').split_once('/') {
                Some((stored, all)) => (stored, Some(all.parse().ok()?)),
                None => (count.trim_end_matches(']'), None),
            };
            Some((stored.parse().ok()?, all))
        });
        Some(WgetLine { at, bps: decimal(number)? * bits, bytes, words })
    }

    fn trial(&self) -> ImportedTrial {
        let is_whole =
            matches!(self.bytes, Some((stored, all)) if all.is_none_or(|all| stored == all));
        let mut trial = ImportedTrial::complete();
        trial.add(rate(GOODPUT, Role::Claim), self.bps);
        trial.record.delivered_bytes = self.bytes.map(|(stored, _)| stored);
        trial.record.started_ms = self.at.at().map_or(0, epoch_ms);
        // `Connection closed at byte 123. Retrying.`
        if is_whole { trial } else { trial.unfinished(self.words) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_read_in_any_language() {
        for line in [
            "2026-11-26 02:50:01 (1.50 MB/s) - ‘x’ saved [1048576/1048576]",
            "2026-11-26 02:50:01 (1,50 MB/s) - »x« gespeichert [1048576/1048576]",
            "2026-11-26 02:50:01 (1.50 MB/s) - written to stdout [1048576]",
        ] {
            let read = WgetLine::of(line).unwrap();
            let trial = read.trial();
            assert_eq!(trial.record.metrics[GOODPUT], 1.5 * 8.0 * 1_048_576.0, "{line}");
            assert_eq!((trial.record.valid, trial.record.delivered_bytes), (true, Some(1_048_576)));
        }
        for line in
            ["", "2026-11-26 02:50:01 ERROR 404: Not Found.", "(1.5 MB/s) - x [1]", "1 (x) - y"]
        {
            assert_eq!(WgetLine::of(line), None, "{line}");
        }
    }

    #[test]
    fn a_refusal_is_a_failed_transfer() {
        let line = "2026-11-26 02:50:01 FEHLER 404: Not Found.";
        assert_eq!(refusal(line), Some("FEHLER 404: Not Found."));
        for line in ["2026-11-26 02:50:01 -- 200: x", "FEHLER 404: x", "2026-11-26 02:50:01 x"] {
            assert_eq!(refusal(line), None, "{line}");
        }
    }

    #[test]
    fn a_transfer_that_broke_off_enters_no_verdict() {
        let line = "2026-11-26 02:50:01 (75.1 KB/s) - Connection closed at byte 4096. Retrying.";
        let trial = WgetLine::of(line).unwrap().trial();
        assert!(!trial.record.valid);
        assert!(trial.record.why_invalid.unwrap().contains("closed at byte 4096"));
    }
}
