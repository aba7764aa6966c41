//! The options that choose how a result is shown.

use crate::error::{Error, Result};
use crate::report::{self, Detail, Report, Style, words};

#[derive(Debug, clap::Args)]
pub(super) struct Form {
    #[arg(long, default_value = "terminal", hide_default_value = true, hide_short_help = true, help = help())]
    format: String,
    /// The same as --format json
    #[arg(short = 'J', long, conflicts_with = "format")]
    json: bool,
    /// Show everything, and not only the answer
    #[arg(long)]
    details: bool,
}

fn help() -> String {
    let ids: Vec<&str> = report::ids().collect();
    format!("Format of the answer: {} [default: terminal]", words::list(&ids))
}

impl Form {
    /// Returns the format that was asked for.
    ///
    /// # Errors
    /// If there is no format of that name.
    pub(super) fn find(&self) -> Result<&'static dyn Report> {
        let name = if self.json { "json" } else { &self.format };
        report::find(name).map_err(|error| match name.len() {
            // As iperf3 names a unit.
            1 => Error::usage(format!(
                "{error}; each figure has the unit that fits, and --format csv has bits per second"
            )),
            _ => error,
        })
    }

    /// Returns true if the format is text for a terminal.
    pub(super) fn is_text(&self) -> bool {
        !self.json && self.format == "terminal"
    }

    /// Returns the look of text on standard output.
    pub(super) fn style(&self) -> Style {
        let detail = if self.details { Detail::Full } else { Detail::Brief };
        Style { detail, ..super::stdout_style() }
    }
}
