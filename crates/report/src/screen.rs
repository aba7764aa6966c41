//! Text for a terminal: the first screen, or all of it.

use super::{Detail, Report, ReportInput, Style, brief, content, terminal};
use deadheat_base::error::Result;

/// Format of text for a terminal.
pub(super) struct Terminal;

impl Report for Terminal {
    fn id(&self) -> &'static str {
        "terminal"
    }

    fn summary(&self) -> &'static str {
        "for people: the answer, the table, and their basis"
    }

    fn render(&self, shown: &ReportInput<'_>, style: &Style) -> Result<Vec<u8>> {
        let text = match style.detail {
            Detail::Brief => brief::render(shown.outcome, style),
            Detail::Full => terminal::render(&content::document(shown.outcome), style),
        };
        Ok(text.into_bytes())
    }
}
