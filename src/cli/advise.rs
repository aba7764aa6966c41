//! `deadheat advise`: an application and a path, and which transport suits them.

use std::path::{Path as File, PathBuf};
use std::time::SystemTime;

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::outside::Outside;
use deadheat_base::time::Monotonic;
use deadheat_base::units;
use deadheat_path::{PathSpec, grammar};
use deadheat_race::advise::course::{AdviceJob, AdviceTask};
use deadheat_race::advise::run::{DEFAULT_BUDGET, VIRTUAL_BLOCKS, beforehand, run as run_races};
use deadheat_race::advise::{app, bundled};
use deadheat_report::advise::render;
use deadheat_report::study::Form;
use deadheat_result::advise::app::{App, Need};
use deadheat_result::advise::outcome::Advice;
use deadheat_result::outcome::Outcome;

use super::allow::Allow;
use super::live::LiveForm;
use super::observe::ObserveOptions;
use super::staging::{Intervals, Staging, with_stage};
use super::{Verdict, next_step, print, stdout_style};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
`deadheat list applications` shows the applications in the program; docs/advise.md
says how to write your own.
  deadheat advise vr-meeting --path delay=25ms,loss=1%,rate=20mbit
  deadheat advise mine.toml --path lte --budget 5m")]
pub(super) struct AdviseArgs {
    /// An application of the program by its name, or a file of your own
    #[arg(value_name = "NAME|APP.toml")]
    app: String,
    /// Network, such as lte or delay=25ms [default: the application's]
    ///
    /// With sim: in front of it, everything runs in virtual time.
    #[arg(long, value_name = "PATH", value_parser = grammar::written_out)]
    path: Option<String>,
    /// Time for all races together [default: 2m]
    ///
    /// A percentile on the path itself takes more: the answer says how much.
    #[arg(long, value_name = "TIME")]
    budget: Option<String>,
    /// The directory for results [default: by name and date]
    ///
    /// It is advise-NAME-DATE unless given.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Seed of the order of trials and of all other random choices
    #[arg(long, value_name = "N", hide_short_help = true)]
    seed: Option<u64>,
    /// Format of the answer: terminal, markdown or json
    #[arg(long, default_value = "terminal", hide_default_value = true)]
    format: String,
    /// The same as --format json
    #[arg(short = 'J', long, conflicts_with = "format")]
    json: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    allow: Allow,
}

/// Contenders: what applications use, one for each way.
const USUAL: &[&str] = &["tcp", "quic", "quic-datagram", "kcp", "enet", "sctp-udp", "udp"];

/// Contenders where encryption is needed; those without are named with the reason.
const ENCRYPTED: &[&str] =
    &["tls", "quic", "quic-datagram", "tcp", "kcp", "enet", "sctp-udp", "udp"];

pub(super) fn run(args: &AdviseArgs) -> Result<Verdict> {
    let form = Form::find(if args.json { "json" } else { &args.format })?;
    let (name, app) = named(&args.app, &args.allow.all()?)?;
    let path = path(args, &app)?;
    let is_virtual = matches!(PathSpec::parse(&path)?, PathSpec::Simulated(_));
    let started = SystemTime::now();
    let stem = format!("advise-{name}");
    let (dir, _fresh) = super::directory(args.output.as_ref(), &stem, started)?;
    let task = AdviceTask {
        name: &name,
        app: &app,
        path: &path,
        usual: if app.needs.contains(&Need::Encrypted) { ENCRYPTED } else { USUAL },
        budget: match &args.budget {
            None => DEFAULT_BUDGET,
            Some(_) if is_virtual => {
                return Err(Error::usage(format!(
                    "--budget with the path `{path}`: in virtual time races end by themselves; leave it out"
                )));
            }
            Some(typed) => units::parse_span(typed)?,
        },
        virtual_blocks: VIRTUAL_BLOCKS,
        seed: args.seed,
        dir: &dir,
        started,
    };
    if !args.quiet {
        tell!("takes {}", beforehand(&task)?);
    }
    let mut unsaved = 0;
    let advice = run_races(&task, &Monotonic, &mut |job| {
        let outcome = race(args, &name, job)?;
        unsaved += usize::from(!next_step::is_saved(&outcome));
        Ok(outcome)
    })?;
    print(&render(&advice, form, &stdout_style())?)?;
    next_step::tell_folder(&dir, unsaved);
    Ok(verdict(&advice))
}

/// Returns the application and its name: read from a file if `typed` looks like a path, else one of the program. A file
/// may
/// name the things in `allowed`.
fn named(typed: &str, allowed: &[Outside]) -> Result<(String, App)> {
    let file = File::new(typed);
    if !(typed.contains('/') || file.extension().is_some_and(|ending| ending == "toml")) {
        return Ok((typed.to_owned(), bundled::app(typed)?));
    }
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok((deadheat_base::foreign::visible(&stem), app::load(file, allowed)?))
}

fn path(args: &AdviseArgs, app: &App) -> Result<String> {
    let default = || app.path.as_ref().map(|path| path.default.clone());
    args.path.clone().or_else(default).ok_or_else(|| {
        Error::usage(
            "which path? write --path delay=25ms,loss=1%,rate=20mbit, say, or --path loopback",
        )
    })
}

fn race(args: &AdviseArgs, within: &str, job: AdviceJob) -> Result<Outcome> {
    let staging = Staging {
        within: format!("{within}, {}", job.name),
        progress: !args.quiet,
        live: LiveForm::Progress,
        intervals: Intervals::Nowhere,
        samples: false,
        secret_file: None,
        pin: None,
        patience: None,
        observe: &ObserveOptions::default(),
    };
    with_stage(&staging, &job.request, &job.file, |stage| job.request.run_with(stage))
}

/// Returns the trust in all races of the advice: fine, or doubtful.
fn verdict(advice: &Advice) -> Verdict {
    let is_doubtful = advice.races.iter().any(|race| race.file.is_some() && !race.trusted);
    if is_doubtful { Verdict::Doubtful } else { Verdict::Fine }
}
