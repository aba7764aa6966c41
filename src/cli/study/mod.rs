//! `deadheat study`: experiments as files, run, judged and shown.

use std::path::{Path, PathBuf};

use clap::Subcommand;

use deadheat_base::error::{Error, Result, unknown};
use deadheat_base::foreign::visible;
use deadheat_base::spec::outside::Outside;
use deadheat_race::race::written;
use deadheat_race::study::check::CheckedStudy;
use deadheat_race::study::{bundled, read, save};
use deadheat_report::study::{Form, render};
use deadheat_report::{html, plot, studies, words};
use deadheat_result::study::model::Study;

use super::allow::Allow;
use super::report::one_of;
use super::{Verdict, deliver, list, pages, print, stdout_style};

mod run;
mod show;

#[derive(Debug, clap::Args)]
pub(super) struct StudyArgs {
    #[command(subcommand)]
    command: StudyCommand,
}

#[derive(Debug, Subcommand)]
enum StudyCommand {
    /// List the studies that are in the program
    List,
    /// Show the question of a study, its races as commands, and its claims
    Show(StudyShowArgs),
    /// Run studies; each has a directory of its own
    Run(run::StudyRunArgs),
    /// Show the outcome of a study that ran, in any format, or of all in a directory
    Report(StudyReportArgs),
}

#[derive(Debug, clap::Args)]
struct StudyShowArgs {
    /// A study of the program by its name or a part of it, or a file of your own
    #[arg(value_name = "NAME|FILE.toml")]
    study: String,
    /// Show the file itself
    #[arg(long)]
    toml: bool,
    #[command(flatten)]
    allow: Allow,
}

#[derive(Debug, clap::Args)]
struct StudyReportArgs {
    /// Directory of the run, or its study.json; or a directory with several of them
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    form: StudyForm,
    /// Draw one figure instead, as SVG; `list` names them
    #[arg(long, value_name = "ID", conflicts_with_all = ["format", "json"])]
    figure: Option<String>,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Options for the form in which outcomes of studies are shown.
#[derive(Debug, clap::Args)]
struct StudyForm {
    /// Format: terminal, markdown or json; `study report` makes html, too
    #[arg(long, default_value = "terminal", hide_default_value = true)]
    format: String,
    /// The same as --format json
    #[arg(short = 'J', long, conflicts_with = "format")]
    json: bool,
}

impl StudyForm {
    fn name(&self) -> &str {
        if self.json { "json" } else { &self.format }
    }

    fn find(&self) -> Result<Form> {
        Form::find(self.name())
    }
}

pub(super) fn run(args: StudyArgs) -> Result<Verdict> {
    match args.command {
        StudyCommand::List => {
            print(&list::all_studies(stdout_style().width)).map(|()| Verdict::Fine)
        }
        StudyCommand::Show(args) => show(&args).map(|()| Verdict::Fine),
        StudyCommand::Run(args) => run::run(&args),
        StudyCommand::Report(args) => report(&args).map(|()| Verdict::Fine),
    }
}

fn show(args: &StudyShowArgs) -> Result<()> {
    if args.toml {
        return print(&NamedStudy::text(&args.study)?);
    }
    let named = NamedStudy::find(&args.study, &args.allow.all()?)?;
    print(&show::text(&named.name, &named.study, stdout_style().width))
}

fn report(args: &StudyReportArgs) -> Result<()> {
    // A page is no form of text; any other name is looked up before anything is read.
    let form = (args.form.name() != html::ID).then(|| args.form.find()).transpose()?;
    let within = save::within(&args.dir);
    if let Some(id) = &args.figure {
        return deliver(figure(&args.dir, id)?.as_bytes(), args.output.as_deref());
    }
    let text = if within.is_empty() {
        let (run, results) = save::judged(&args.dir)?;
        match form {
            Some(form) => render(&run, &results, form, &stdout_style())?,
            None => pages::of_study(&run, &results, &args.dir),
        }
    } else {
        let judged = |dir: &PathBuf| save::judged(dir).map(|(run, _)| run);
        let runs = within.iter().map(judged).collect::<Result<Vec<_>>>()?;
        match form {
            Some(form) => studies::render(&runs, form, &stdout_style())?,
            None => html::of_studies(&runs),
        }
    };
    deliver(text.as_bytes(), args.output.as_deref())
}

/// Returns one figure of a study that ran as an SVG file, or the names of all.
fn figure(dir: &Path, id: &str) -> Result<String> {
    let (run, _) = save::judged(dir)?;
    let mut figures = plot::study_figures(&run);
    figures.extend(plot::claim_figures(&run));
    let tints = if run.study.over.is_some() { plot::palette::lines() } else { Vec::new() };
    one_of(&figures, id, &tints)
}

/// Returns the study of the program with this name, or the only one with this in its name.
///
/// # Errors
/// [`Error::Usage`] with all candidates.
fn meant(typed: &str) -> Result<&'static str> {
    if let Some(name) = bundled::names().find(|name| *name == typed) {
        return Ok(name);
    }
    let alike = bundled::names().filter(|name| !typed.is_empty() && name.contains(typed));
    match alike.collect::<Vec<_>>().as_slice() {
        [one] => Ok(one),
        [] if Path::new(typed).is_file() => Err(Error::usage(format!(
            "{typed}: the name of a study's file ends in .toml; rename it, or write ./{typed}"
        ))),
        [] => Err(unknown("study", typed, &bundled::names().collect::<Vec<_>>())),
        several => Err(Error::usage(format!(
            "several studies have `{typed}` in their names: {}; name one of them",
            words::list(several)
        ))),
    }
}

/// A study that the command line names.
struct NamedStudy {
    name: String,
    study: CheckedStudy,
}

impl NamedStudy {
    /// Reads the study from a file if `typed` looks like a path, else from the program. A file may name the things in
    /// `allowed`.
    fn find(typed: &str, allowed: &[Outside]) -> Result<NamedStudy> {
        let Some(path) = file(typed) else {
            let name = meant(typed)?;
            return Ok(NamedStudy { name: name.to_owned(), study: bundled::study(name)? });
        };
        let study = read::load(path, allowed)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if stem.is_empty() || stem != visible(&stem) {
            return Err(Error::usage(format!(
                "{typed}: a study has the name of its file, such as NAME.toml"
            )));
        }
        Ok(NamedStudy { name: stem.into_owned(), study })
    }

    /// Returns the text of a study. Text that parses as TOML has no control characters (TOML 1.0.0, Comment and
    /// String).
    /// Files that the study names are not opened.
    fn text(typed: &str) -> Result<String> {
        let Some(path) = file(typed) else {
            return bundled::text(meant(typed)?);
        };
        let text = written::text(path, "study")?;
        written::parse::<Study>(&text, typed)?;
        Ok(text)
    }
}

/// Returns the file that `typed` names; `None` for a study of the program.
fn file(typed: &str) -> Option<&Path> {
    let path = Path::new(typed);
    let is_file = typed.contains('/') || path.extension().is_some_and(|ending| ending == "toml");
    is_file.then_some(path)
}
