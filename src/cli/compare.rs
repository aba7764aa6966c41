//! `deadheat compare`: saved races, or surveys of a line, and whether anything changed between them.

use std::path::PathBuf;

use deadheat_base::error::{Error, Result};
use deadheat_race::race::gate::check_baseline;
use deadheat_report::compare::{FORMATS, judged, render};
use deadheat_report::{self as report, Detail, Style, words};
use deadheat_result::analysis::compare::{check, compare};
use deadheat_result::analysis::gate::Judgement;
use deadheat_result::line;
use deadheat_result::line::outcome::{LineOutcome, is_line};
use deadheat_stats::runs::Promise;

use super::gate::Runs;
use super::{Verdict, deliver, stdout_style};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Two runs of the same race differ, too. Several runs of the old one show by how much:
  deadheat compare base-1.json base-2.json base-3.json new.json
  deadheat compare base/ new/    each result in a folder is a run
  deadheat compare line-1.json line-2.json    surveys of a line

Exit: 0 it ran, 1 it failed, 2 the command line is wrong; with --gate: 3 the new
race is not to be trusted, 5 a contender got worse.")]
pub(super) struct CompareArgs {
    /// The earlier races: files, or folders of them
    #[arg(value_name = "OLD", required = true)]
    old: Vec<PathBuf>,
    /// The later race, or a folder of several runs of it
    #[arg(value_name = "NEW", required = true)]
    new: PathBuf,
    /// Exit with 5 if a contender got worse
    ///
    /// By more than the margin; at most one gate in twenty is wrong within a hundred runs.
    #[arg(long)]
    gate: bool,
    #[arg(long, default_value = FORMATS[0], value_parser = super::form::one_of(FORMATS), hide_possible_values = true, help = words::list(FORMATS))]
    format: String,
    /// The same as --format json
    #[arg(short = 'J', long, conflicts_with = "format")]
    json: bool,
    /// Show everything, and not only the answer
    #[arg(long)]
    details: bool,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Reads the surveys of a line that `places` name; `None` if any of them is something else.
fn lines(places: &[PathBuf]) -> Option<Vec<LineOutcome>> {
    let load = |place: &PathBuf| is_line(place).then(|| line::outcome::load(place).ok())?;
    places.iter().map(load).collect()
}

pub(super) fn run(args: &CompareArgs) -> Result<Verdict> {
    let format = if args.json { "json" } else { &args.format };
    if let Some((old, new)) = lines(&args.old).zip(lines(std::slice::from_ref(&args.new))) {
        if args.gate {
            return Err(Error::usage("--gate judges races; surveys of a line have no contenders"));
        }
        let found = line::compare::compare(&old, &new)?;
        let text = report::line::compare::render(&found, format, &stdout_style())?;
        deliver(text.as_bytes(), args.output.as_deref())?;
        return Ok(Verdict::Fine);
    }
    let old = Runs::read(&args.old)?;
    let new = Runs::read(std::slice::from_ref(&args.new))?;
    let (before, after) = (old.races(), new.races());
    check(&before, &after)?;
    let detail = if args.details { Detail::Full } else { Detail::Brief };
    let style = Style { detail, ..stdout_style() };
    if !args.gate {
        let comparison = compare(&before, &after, Promise::Once);
        deliver(render(&comparison, format, &style)?.as_bytes(), args.output.as_deref())?;
        return Ok(Verdict::Fine);
    }
    check_baseline(&before)?;
    let judgement = Judgement::of(&before, &after);
    let text = render(&judgement.comparison, format, &style)?;
    deliver(text.as_bytes(), args.output.as_deref())?;
    for line in judged(&judgement, &old.name) {
        tell!("gate: {line}");
    }
    let is_trusted = after.iter().all(|race| race.trusted()) && !judgement.is_doubtful();
    Ok(match (is_trusted, judgement.is_worse()) {
        (false, _) => Verdict::Doubtful,
        (true, true) => Verdict::Worse,
        (true, false) => Verdict::Fine,
    })
}
