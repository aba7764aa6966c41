//! `deadheat report`: a saved race again, in any format.

use deadheat_result::analysis::derived;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use deadheat_base::error::{Error, Result, unknown};
use deadheat_base::foreign::visible;
use deadheat_race::race::gate::first;
use deadheat_records::samples;
use deadheat_report::figure::Figure;
use deadheat_report::{self as report, Report, ReportInput, comment, html, over_time, plot, words};
use deadheat_result::analysis::gate::first::FirstJudgement;
use deadheat_result::{line, map, save};

use super::form::Form;
use super::gate::{GateJudgement, Runs, is_first};
use super::{Verdict, deliver, pages, print};

/// Options of a report that other outputs of this command do not use.
const SHOWN: [&str; 3] = ["format", "json", "details"];

#[derive(Debug, clap::Args)]
pub(super) struct ReportArgs {
    /// The result file; with --format html or comment several, or a folder of results
    #[arg(value_name = "RESULT.json|DIR", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    form: Form,
    /// Write to a file instead of standard output; for a folder, the folder that its pages go to
    #[arg(short, long, value_name = "FILE|DIR")]
    output: Option<PathBuf>,
    /// Show the raw samples beside the result instead, as CSV
    #[arg(long, conflicts_with_all = SHOWN)]
    samples: bool,
    /// Show each trial over time instead, as CSV: a row for each interval, flow and end
    #[arg(long, conflicts_with_all = SHOWN, conflicts_with = "samples")]
    intervals: bool,
    /// Draw one figure of the page instead, as SVG; `list` names them
    #[arg(long, value_name = "ID", conflicts_with_all = SHOWN, conflicts_with_all = ["samples", "intervals"])]
    figure: Option<String>,
    /// Judge the second contender of all results against the first, and exit with 5 if it is worse by more than the
    /// margin
    #[arg(long, value_name = "first", conflicts_with_all = ["samples", "intervals", "figure"])]
    gate: Option<PathBuf>,
}

pub(super) fn run(args: ReportArgs) -> Result<Verdict> {
    let report = args.form.find()?;
    if let Some(baseline) = &args.gate
        && !is_first(std::slice::from_ref(baseline))?
    {
        return Err(Error::usage(format!(
            "--gate {}: a report takes --gate first, the first contender as the baseline of the second; against earlier \
             runs it is deadheat compare BASELINE NEW --gate",
            baseline.display()
        )));
    }
    if report.id() == comment::ID {
        return comment_on(&args);
    }
    let verdict = shown(&args, report)?;
    let Some(_) = &args.gate else { return Ok(verdict) };
    let runs = Runs::read(&args.files)?;
    first::check_saved(&runs.races())?;
    Ok(judged(FirstJudgement::whole(&runs.races())))
}

/// Writes a comment on all results that are named, in files or folders.
fn comment_on(args: &ReportArgs) -> Result<Verdict> {
    let runs = Runs::read(&args.files)?;
    first::check_saved(&runs.races())?;
    let judgement = FirstJudgement::whole(&runs.races());
    deliver(comment::render(&judgement).as_bytes(), args.output.as_deref())?;
    Ok(if args.gate.is_some() { judged(judgement) } else { Verdict::Fine })
}

/// Prints the judgement of a gate on saved races, and returns the verdict for its exit code.
fn judged(judgement: FirstJudgement<'_>) -> Verdict {
    let judgement = GateJudgement::First(judgement);
    judgement.print();
    match (judgement.is_worse(), judgement.is_doubtful()) {
        (true, _) => Verdict::Worse,
        (false, true) => Verdict::Doubtful,
        (false, false) => Verdict::Fine,
    }
}

/// Writes a result in any format but that of comments; returns the verdict on the races shown, as their own runs had it.
fn shown(args: &ReportArgs, report: &dyn Report) -> Result<Verdict> {
    let is_page = report.id() == html::ID;
    let one = match args.files.as_slice() {
        [folder] if folder.is_dir() && is_page => {
            return folder_of(folder, args.output.as_deref()).map(|()| Verdict::Fine);
        }
        [one] if !one.is_dir() => one,
        several if is_page && !several.iter().any(|file| file.is_dir()) => {
            let (page, are_trusted) = pages::of_several(several)?;
            return deliver(page.as_bytes(), args.output.as_deref())
                .map(|()| Verdict::of(are_trusted));
        }
        others => return Err(wants_pages(others, is_page)),
    };
    if args.samples {
        return raw(&save::samples_file(one), args.output.as_deref()).map(|()| Verdict::Fine);
    }
    let fine = |()| Verdict::Fine;
    let outcome = match derived::load(one) {
        Err(_) if map::file::is_map(one) => return map_of(one, args, report.id()).map(fine),
        Err(_) if line::outcome::is_line(one) => return line_of(one, args, report.id()).map(fine),
        loaded => loaded?,
    };
    let samples = save::samples_of(one);
    let shown = ReportInput { outcome: &outcome, samples: samples.as_deref() };
    let text = match &args.figure {
        _ if args.intervals => over_time::csv(&outcome).into_bytes(),
        Some(id) => figure(&shown, id)?.into_bytes(),
        None => report.render(&shown, &args.form.style())?,
    };
    deliver(&text, args.output.as_deref())?;
    Ok(Verdict::of(outcome.trusted()))
}

/// Writes a map, which has fewer formats than a race.
fn map_of(file: &Path, args: &ReportArgs, format: &str) -> Result<()> {
    let map = map::file::load(file)?;
    if args.intervals {
        return Err(Error::usage(format!("{} is a map; it has no trials", file.display())));
    }
    let text = match args.figure.as_deref() {
        Some("list") => format!("map  {}\n", visible(&plot::map_figure(&map).title)),
        Some("map") => report::map::picture(&map),
        Some(other) => return Err(unknown("figure", other, &["map"])),
        None => report::map::render(&map, format, &args.form.style())?,
    };
    deliver(text.as_bytes(), args.output.as_deref())
}

/// Writes a surveyed line, which has fewer formats than a race.
fn line_of(file: &Path, args: &ReportArgs, format: &str) -> Result<()> {
    let line = line::outcome::load(file)?;
    if args.intervals || args.figure.is_some() {
        return Err(Error::usage(format!(
            "{} is a surveyed line; it has no intervals and no figures to draw",
            file.display()
        )));
    }
    let text = report::line::render(&line, format, &args.form.style())?;
    deliver(text.as_bytes(), args.output.as_deref())
}

/// Writes the pages of a folder to a folder.
fn folder_of(folder: &Path, out: Option<&Path>) -> Result<()> {
    let Some(out) = out else {
        return Err(Error::usage(format!(
            "{} is a folder; add -o DIR, the folder to write its pages to",
            folder.display()
        )));
    };
    let pages = pages::of_folder(folder, out)?;
    let pages = words::count(pages as u64, "page");
    tell!("{pages} and an index: {}", out.join(pages::INDEX).display());
    Ok(())
}

/// Returns the error for several files or a folder in a format that shows one result.
fn wants_pages(files: &[PathBuf], is_page: bool) -> Error {
    let folder = files.iter().find(|file| file.is_dir());
    Error::usage(match (folder, is_page) {
        (Some(folder), true) => {
            format!("{} is a folder; name either result files or one folder", folder.display())
        }
        (Some(folder), false) => format!(
            "{} is a folder; --format {} -o DIR writes a page for each result in it, and an index",
            folder.display(),
            html::ID
        ),
        (None, _) => {
            let (files, page, comment) = (files.len(), html::ID, comment::ID);
            format!(
                "{files} files; only --format {page} and --format {comment} show several at once"
            )
        }
    })
}

/// Returns one figure of a result as an SVG file, or the names of all.
fn figure(shown: &ReportInput<'_>, id: &str) -> Result<String> {
    one_of(&plot::figures(shown), id, &plot::palette::tints(shown.outcome))
}

/// Returns the figure with this id as an SVG file in the colours of its contenders, or the names of all for `list`.
pub(super) fn one_of(
    figures: &[Figure],
    id: &str,
    tints: &[plot::palette::Tint],
) -> Result<String> {
    if id == "list" {
        let line = |figure: &Figure| format!("{:<28} {}\n", figure.id, visible(&figure.title));
        return Ok(figures.iter().map(line).collect());
    }
    let found = figures.iter().find(|figure| figure.id == id).ok_or_else(|| {
        let ids: Vec<&str> = figures.iter().map(|figure| figure.id.as_str()).collect();
        unknown("figure", id, &ids)
    })?;
    Ok(plot::style::standalone(found, tints))
}

/// Writes a row for each sample, a trial at a time, so that memory holds the samples of one trial only.
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
