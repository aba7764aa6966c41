//! `deadheat report`: a saved race again, in any format.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::race::save;
use crate::report::over_time;
use crate::trial::samples;

use super::{deliver, print, stdout_style};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The result file
    #[arg(value_name = "RESULT.json")]
    file: PathBuf,
    /// terminal, json, csv or markdown
    #[arg(long, default_value = "terminal")]
    format: String,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The raw samples beside the result instead, as CSV
    #[arg(long, conflicts_with = "format")]
    samples: bool,
    /// How each trial went over time instead, as CSV: a row for each interval, flow and end
    #[arg(long, conflicts_with_all = ["format", "samples"])]
    intervals: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    if args.samples {
        return raw(&args.file.with_extension("samples"), args.output.as_deref());
    }
    let report = crate::report::find(&args.format)?;
    let outcome = save::load(&args.file)?;
    if args.intervals {
        return deliver(&over_time::csv(&outcome), args.output.as_deref());
    }
    deliver(&report.render(&outcome, &stdout_style())?, args.output.as_deref())
}

/// One row per sample, a trial at a time, so that memory holds one trial's samples only.
fn raw(file: &Path, output: Option<&Path>) -> Result<()> {
    let mut out = match output {
        None => None,
        Some(path) => Some(
            std::fs::File::create(path)
                .map_err(|e| Error::setup(format!("write {}", path.display()), e))?,
        ),
    };
    let mut emit = |text: &str| match &mut out {
        None => print(text),
        Some(file) => std::io::Write::write_all(file, text.as_bytes())
            .map_err(|e| Error::setup("write raw samples", e)),
    };
    emit("block,order,contender,control,seq,intended_ns,lateness_ns,rtt_ns\n")?;
    for chunk in samples::open(file)? {
        let chunk = chunk?;
        let place = chunk.place;
        let mut rows = String::new();
        for sample in &chunk.samples {
            let rtt = sample
                .rtt_ns
                .map_or_else(|| format!(">{}", chunk.timeout_ns), |rtt| rtt.to_string());
            let _ = writeln!(
                rows,
                "{},{},{},{},{},{},{},{rtt}",
                place.block,
                place.order,
                place.contender,
                place.control,
                sample.seq,
                sample.intended_ns,
                sample.lateness_ns,
            );
        }
        emit(&rows)?;
    }
    Ok(())
}
