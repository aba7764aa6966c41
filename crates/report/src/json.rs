//! The result file itself, format 1; `docs/result.schema.json` describes it.

use super::{Report, ReportInput, Style};
use deadheat_base::error::{Error, Result};
use deadheat_result::layout;

/// Format of the result file.
pub(super) struct Json;

impl Report for Json {
    fn id(&self) -> &'static str {
        "json"
    }

    fn summary(&self) -> &'static str {
        "everything, for programs: the result file itself (docs/result.schema.json)"
    }

    fn render(&self, shown: &ReportInput<'_>, _style: &Style) -> Result<Vec<u8>> {
        let mut text = layout::text(shown.outcome)
            .map_err(|e| Error::data("result", format!("cannot be written as JSON: {e}")))?;
        text.push('\n');
        Ok(text.into_bytes())
    }
}
