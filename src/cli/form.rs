//! The options that choose how a result is shown.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use deadheat_base::error::{Error, Result};
use deadheat_report::{self as report, Detail, Report, Style, words};

#[derive(Debug, clap::Args)]
pub(super) struct Form {
    #[arg(long, default_value = "terminal", hide_default_value = true, help = SHORT, long_help = help())]
    format: String,
    /// The same as --format json
    #[arg(short = 'J', long, conflicts_with = "format", hide_short_help = true)]
    json: bool,
    /// Show everything, and not only the answer
    #[arg(long)]
    details: bool,
}

/// Parser of one of these formats, by its name or another that people have for it.
pub(super) fn one_of(formats: &'static [&'static str]) -> impl TypedValueParser<Value = String> {
    let value = |name: &'static str| PossibleValue::new(name).aliases(report::aliases_of(name));
    let values: Vec<PossibleValue> = formats.iter().map(|name| value(name)).collect();
    PossibleValuesParser::new(values).map(|typed| report::format_name(&typed).to_owned())
}

/// Formats in a line of short help.
const SHORT: &str = "Format: terminal, json (-J), csv, markdown, html, …";

fn help() -> String {
    let ids: Vec<&str> = report::ids().collect();
    format!("Format: {}", words::list(&ids))
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
        !self.json && report::format_name(&self.format) == "terminal"
    }

    /// Returns the look of text on standard output.
    pub(super) fn style(&self) -> Style {
        let detail = if self.details { Detail::Full } else { Detail::Brief };
        Style { detail, ..super::stdout_style() }
    }
}
