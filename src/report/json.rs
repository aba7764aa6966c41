//! The result file itself, format 1; `docs/result.schema.json` describes it.

use super::{Report, Style};
use crate::error::{Error, Result};
use crate::race::layout;
use crate::race::outcome::Outcome;

/// See the module.
pub(super) struct Json;

impl Report for Json {
    fn id(&self) -> &'static str {
        "json"
    }

    fn summary(&self) -> &'static str {
        "everything, for programs: the result file itself (docs/result.schema.json)"
    }

    fn render(&self, outcome: &Outcome, _style: &Style) -> Result<String> {
        let mut text = layout::text(outcome)
            .map_err(|e| Error::data("result", format!("cannot be written as JSON: {e}")))?;
        text.push('\n');
        Ok(text)
    }
}
