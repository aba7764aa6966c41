//! A report: one line of tab-separated words, for a chat or a spreadsheet.

use deadheat::Result;
use deadheat::report::{Report, ReportInput, Style};

/// The format.
pub(crate) struct Line;

impl Report for Line {
    fn id(&self) -> &'static str {
        "line"
    }

    fn summary(&self) -> &'static str {
        "one line: the workload, then each verdict"
    }

    fn render(&self, shown: &ReportInput<'_>, _style: &Style) -> Result<Vec<u8>> {
        let outcome = shown.outcome;
        let verdicts = outcome.verdicts.iter().map(|verdict| verdict.note.as_str());
        let words: Vec<&str> =
            [outcome.asked.workload.as_str()].into_iter().chain(verdicts).collect();
        Ok(format!("{}\n", words.join("\t")).into_bytes())
    }
}
