//! `deadheat study run`.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use deadheat_base::cpu::allowed_cpus;
use deadheat_base::error::{Error, Result};
use deadheat_base::foreign::visible;
use deadheat_race::study::bundled;
use deadheat_race::study::run::{FinishedStudy, StudyEnd, StudyJob, StudyTask, run as run_study};
use deadheat_report::html;
use deadheat_report::study::{Form, render, ruling_word, tally};
use deadheat_result::outcome::Outcome;
use deadheat_result::save::samples_of;
use deadheat_result::study::outcome::{Setting, StudyRun};

use super::super::allow::Allow;
use super::super::deciding::DecisionOptions;
use super::super::live::LiveForm;
use super::super::observe::ObserveOptions;
use super::super::staging::{Intervals, Staging, with_stage};
use super::super::{Verdict, next_step, pages, print, stdout_style};
use super::{NamedStudy, StudyForm};

#[derive(Debug, clap::Args)]
pub(super) struct StudyRunArgs {
    /// Studies of the program, or files of your own
    #[arg(value_name = "NAME|FILE.toml", required_unless_present = "all")]
    studies: Vec<String>,
    /// Run every study of the program
    #[arg(long, conflicts_with = "studies")]
    all: bool,
    /// Fewer and shorter trials, as each study says
    #[arg(long)]
    quick: bool,
    /// Races to run in full although others are quick
    ///
    /// Commas separate them.
    #[arg(
        long,
        value_name = "RACE",
        value_delimiter = ',',
        requires = "quick",
        conflicts_with = "all"
    )]
    full: Vec<String>,
    /// The directory for results [default: by name and date]
    ///
    /// It is deadheat-study-NAME-DATE unless given.
    /// Several studies get a directory each in it. The same command again continues a study that was
    /// interrupted.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Seed of the order of trials and of all other random choices
    #[arg(long, value_name = "N", hide_short_help = true)]
    seed: Option<u64>,
    /// A label for the results; may be given again
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<String>,
    /// Also write a page to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    form: StudyForm,
    /// Races of a study that run at once, each on a network of its own
    ///
    /// Only where that changes nothing: the limit of each race is the rate of its emulated path, the path has
    /// wait=sleep, and its ends are placed by the host. Others run alone.
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        hide_default_value = true,
        hide_short_help = true
    )]
    side_by_side: NonZeroUsize,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    /// Keep raw samples beside the results
    ///
    /// They are in files that end in .samples. Without this they are kept only where --html needs them.
    #[arg(long)]
    samples: bool,
    #[command(flatten)]
    deciding: DecisionOptions,
    #[command(flatten)]
    allow: Allow,
}

pub(super) fn run(args: &StudyRunArgs) -> Result<Verdict> {
    let form = args.form.find()?;
    let studies = named(args)?;
    let labels = labels(&args.label)?;
    check_full(args, studies.len())?;
    check_page(args)?;
    let started = SystemTime::now();
    let mut ended = Vec::new();
    for (at, named) in studies.iter().enumerate() {
        let given = args.output.as_ref().map(|given| directory(given, &named.name, studies.len()));
        let stem = format!("deadheat-study-{}", named.name);
        let (dir, _fresh) = super::super::directory(given.as_ref(), &stem, started)?;
        let within = match studies.len() {
            1 => named.name.clone(),
            of => format!("study {} of {of}, {}", at + 1, named.name),
        };
        let task = StudyTask {
            name: &named.name,
            study: &named.study,
            setting: if args.quick { Setting::Quick } else { Setting::Full },
            full: args.full.clone(),
            seed: args.seed,
            labels: labels.clone(),
            dir: &dir,
            started: SystemTime::now(),
            host: deadheat_host::facts::gather().hostname,
        };
        let room = (args.side_by_side.get(), allowed_cpus().len());
        let ran = run_study(&task, room, &|job| race(args, &within, job))?;
        print(&render(&ran.run, &ran.results, form, &stdout_style())?)?;
        let unsaved = ran.results.values().filter(|race| !next_step::is_saved(race)).count();
        next_step::tell_folder(&dir, unsaved);
        if let Some(file) = args.html.as_ref().filter(|_| studies.len() == 1) {
            pages::write(file, &pages::of_study(&ran.run, &ran.results, &dir))?;
            tell!("page: {}", file.display());
        }
        let end = ran.end;
        ended.push(ran);
        if end == StudyEnd::Interrupted {
            tell!(
                "stopped; to go on, give the same command with -o {}",
                went_to(args, &dir).display()
            );
            break;
        }
    }
    if let Some(file) = args.html.as_ref().filter(|_| studies.len() > 1) {
        let runs: Vec<StudyRun> = ended.iter().map(|ran| ran.run.clone()).collect();
        pages::write(file, &html::of_studies(&runs))?;
        tell!("page: {}", file.display());
    }
    if studies.len() > 1 && form != Form::Json {
        print(&closing(ended.iter().map(|ran| &ran.run)))?;
    }
    verdict(args, &ended)
}

fn named(args: &StudyRunArgs) -> Result<Vec<NamedStudy>> {
    let all: Vec<String> = bundled::names().map(str::to_owned).collect();
    let typed = if args.all { &all } else { &args.studies };
    let allowed = args.allow.all()?;
    let find = |typed: &String| NamedStudy::find(typed, &allowed);
    let studies: Vec<NamedStudy> = typed.iter().map(find).collect::<Result<_>>()?;
    for (at, named) in studies.iter().enumerate() {
        if studies[..at].iter().any(|other| other.name == named.name) {
            return Err(Error::usage(format!("the study `{}` is given twice", named.name)));
        }
    }
    Ok(studies)
}

fn labels(typed: &[String]) -> Result<BTreeMap<String, String>> {
    let read = |typed: &String| {
        super::super::label(typed).map(|(key, value)| (key.to_owned(), value.to_owned()))
    };
    typed.iter().map(read).collect()
}

/// Checks that `--full`, which names races of one study, goes with one study.
fn check_full(args: &StudyRunArgs, studies: usize) -> Result<()> {
    if studies > 1 && !args.full.is_empty() {
        return Err(Error::usage("--full names races of one study; run that study alone"));
    }
    Ok(())
}

/// Checks, before anything runs, that the page can be written.
fn check_page(args: &StudyRunArgs) -> Result<()> {
    args.html.as_ref().map_or(Ok(()), |file| pages::prepare(file, "--html"))
}

/// Returns the directory of a study: the given one, or its own in it where there are several studies.
fn directory(given: &Path, name: &str, of: usize) -> PathBuf {
    if of == 1 { given.to_path_buf() } else { given.join(name) }
}

/// Returns the directory that `-o` needs to continue.
fn went_to<'a>(args: &'a StudyRunArgs, dir: &'a Path) -> &'a Path {
    args.output.as_deref().unwrap_or(dir)
}

fn race(args: &StudyRunArgs, within: &str, mut job: StudyJob<'_>) -> Result<Outcome> {
    let within = format!("{within}, race {} of {}, {}", job.place, job.of, job.plan.id);
    let is_alone = args.side_by_side.get() == 1;
    let has_bar = is_alone && std::io::stderr().is_terminal();
    if !args.quiet && !has_bar {
        // Progress is not rewritten here; a line for each race shows how far the study is.
        tell!("{}", visible(&within));
    }
    job.request = args.deciding.ask(job.request)?;
    let keeps = args.samples || args.html.is_some() || samples_of(&job.file).is_some();
    let staging = Staging {
        within,
        progress: !args.quiet && is_alone,
        live: LiveForm::Progress,
        intervals: Intervals::Nowhere,
        samples: keeps,
        secret_file: None,
        pin: None,
        patience: None,
        observe: &ObserveOptions::default(),
    };
    let (request, file) = (job.request.clone(), job.file.clone());
    with_stage(&staging, &request, &file, |stage| job.on(stage))
}

/// Returns every claim of several studies, with its ruling.
fn closing<'a>(runs: impl Iterator<Item = &'a StudyRun>) -> String {
    let mut out = String::from("\nClaims\n");
    for run in runs {
        out.push_str(&format!("  {} ({})\n", visible(&run.name), tally(std::slice::from_ref(run))));
        for (claim, ruling) in run.study.claims.iter().zip(&run.rulings) {
            let word = ruling_word(ruling.ruling);
            out.push_str(&format!("    {word:<14} {}\n", visible(&claim.says)));
        }
    }
    out
}

/// Returns the verdict on the races that ran.
///
/// # Errors
/// If a race failed, or no race of a study ran; the rest is saved and shown.
fn verdict(args: &StudyRunArgs, ended: &[FinishedStudy]) -> Result<Verdict> {
    for FinishedStudy { run, end, .. } in ended {
        let none = run.races.iter().all(|race| race.file.is_none());
        if *end == StudyEnd::Interrupted && none {
            return Err(Error::Interrupted);
        }
        let wrong = run.races.iter().find_map(|race| Some((&race.id, race.why_not.as_ref()?)));
        if let (true, Some((id, why))) = (*end == StudyEnd::Failed || none, wrong) {
            return Err(Error::peer(format!("study {}, race {id}", run.name), why.clone()));
        }
    }
    let mut races = ended.iter().flat_map(|ran| &ran.run.races);
    let doubtful = races.any(|race| race.file.is_some() && !race.trusted);
    if doubtful {
        return Ok(Verdict::Doubtful);
    }
    Ok(args.deciding.verdict(ended.iter().flat_map(|ran| ran.results.values())))
}
