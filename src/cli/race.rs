//! `deadheat race`: from what was typed to a race, its file, and the answer.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::error::{Error, Result};
use crate::race::keep::SamplesFile;
use crate::race::outcome::Outcome;
use crate::race::stage::Stage;
use crate::race::{Request, resume, save};
use crate::trial::agents::Agents;
use crate::units;

use super::progress::{self, Progress};
use super::{Verdict, deliver, interrupt, secret, stdout_style};

/// What an earlier race has fixed for those that go on with it or repeat it.
const FIXED: [&str; 13] = [
    "vary",
    "contenders",
    "workload",
    "path",
    "to",
    "v4",
    "v6",
    "blocks",
    "margin",
    "confidence",
    "seed",
    "placement",
    "quick",
];

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Contenders are NAME or NAME:key=value,…, workloads likewise; `deadheat list` shows them all.
  deadheat race tcp udp icmp
  deadheat race tcp tcp:cc=bbr -w bulk:time=2s
  deadheat race udp udp --quick                 two identical ones: a dead heat, or do not trust it
  deadheat race tcp udp --to host.example       against `deadheat serve` on that host")]
pub(super) struct Args {
    /// What to race: NAME or NAME:key=value,…
    #[arg(required_unless_present_any = ["resume", "replay"], value_name = "CONTENDER")]
    contenders: Vec<String>,
    /// What to ask of each contender
    #[arg(short, long, value_name = "WORKLOAD")]
    workload: Option<String>,
    /// What lies between the two ends, such as delay=25ms,loss=1% (`deadheat list paths`) [default: loopback]
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Race against `deadheat serve` on another host (port 5210 unless given)
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "path")]
    to: Option<String>,
    /// Use IPv4 only
    #[arg(short = '4', conflicts_with = "v6")]
    v4: bool,
    /// Use IPv6 only
    #[arg(short = '6')]
    v6: bool,
    /// Blocks at most; without --budget, time is then no limit
    #[arg(long, value_name = "N")]
    blocks: Option<u64>,
    /// Time at most [default: 50s]
    #[arg(long, value_name = "TIME")]
    budget: Option<String>,
    /// Differences up to this do not matter [default: 5 %, or more where the machine is noisier]
    #[arg(long, value_name = "SHARE")]
    margin: Option<String>,
    /// How sure the race as a whole has to be [default: 95%]
    #[arg(long, value_name = "SHARE")]
    confidence: Option<String>,
    /// Fixes the order of trials and everything else that is drawn
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Where the ends run: same-core, cross-core, busy, host, or CPUs as A,B
    #[arg(long, value_name = "PLACEMENT")]
    placement: Option<String>,
    /// Run every contender under each level of a condition: placement, a key of the workload or a
    /// knob; may be given again for another, and then every combination runs
    #[arg(long, value_name = "NAME=A|B|…")]
    vary: Vec<String>,
    /// A screening in seconds: 8 blocks at most, and short trials unless -w says otherwise
    #[arg(long, conflicts_with = "blocks")]
    quick: bool,
    /// Show each trial while it runs, an interval at a time; with TIME, that long instead of 100ms (also in
    /// the result)
    #[arg(short, long, value_name = "TIME")]
    interval: Option<Option<String>>,
    /// A title for the result
    #[arg(long)]
    title: Option<String>,
    /// A label for the result; may be given again
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<String>,
    /// The result's file [default: deadheat-DATE-TIME.json]; saved after every block
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file that `sink` names if it is there already
    #[arg(long)]
    force: bool,
    /// How to show the result: terminal, json, csv, markdown
    #[arg(long, default_value = "terminal")]
    format: String,
    /// No progress
    #[arg(short, long)]
    quiet: bool,
    /// Do not keep raw samples beside the result
    #[arg(long)]
    no_samples: bool,
    /// Go on with a race that was broken off
    #[arg(long, value_name = "FILE", conflicts_with_all = FIXED, conflicts_with_all = ["replay", "output", "title", "label"])]
    resume: Option<PathBuf>,
    /// Run the race of a result file again, with its plan and seed
    #[arg(long, value_name = "FILE", conflicts_with_all = FIXED, conflicts_with = "budget")]
    replay: Option<PathBuf>,
    /// The server's shared secret, in a file (or in DEADHEAT_SECRET)
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Afterwards, show where the time goes: a second pass with the kernel's timestamps
    #[arg(long, conflicts_with_all = ["resume", "replay"])]
    explain: bool,
}

/// What `--quick` asks of each contender.
const QUICK_WORKLOAD: &str = "ping:count=250";
const QUICK_BLOCKS: u64 = 8;

pub(super) fn run(args: Args) -> Result<Verdict> {
    // A format that does not exist is refused before anything runs.
    let report = crate::report::find(&args.format)?;
    let (outcome, file) = match &args.resume {
        Some(file) => (go_on(&args, file)?, file.clone()),
        None => start(&args)?,
    };
    deliver(&report.render(&outcome, &stdout_style())?, None)?;
    eprintln!("saved: {}", file.display());
    if let Some(failure) = failure(&outcome) {
        return Err(failure);
    }
    Ok(if outcome.trusted() { Verdict::Fine } else { Verdict::Doubtful })
}

fn start(args: &Args) -> Result<(Outcome, PathBuf)> {
    let request = match &args.replay {
        Some(file) => {
            refuse_interval(args)?;
            crate::race::replay(&save::load(file)?)
        }
        None => request(args)?,
    };
    let request = forced(args, request);
    request.check()?;
    let file = args.output.clone().unwrap_or_else(|| save::default_file(SystemTime::now()));
    save::prepare(&file)?;
    let outcome = with_stage(args, &request, &file, |stage| request.run_with(stage))?;
    Ok((outcome, file))
}

fn go_on(args: &Args, file: &Path) -> Result<Outcome> {
    refuse_interval(args)?;
    let before = save::load(file)?;
    let budget = args.budget.as_deref().map(units::parse_span).transpose()?;
    let request = forced(args, crate::race::replay(&before));
    let overwrite = request.overwrite();
    with_stage(args, &request, file, |stage| resume(before, budget, overwrite, stage))
}

fn forced(args: &Args, request: Request) -> Request {
    if args.force { request.force() } else { request }
}

/// A race that goes on, or is run again, has its interval.
fn refuse_interval(args: &Args) -> Result<()> {
    match &args.interval {
        Some(Some(time)) => Err(Error::usage(format!(
            "-i {time}: the race has its interval already; -i alone shows each trial while it runs"
        ))),
        _ => Ok(()),
    }
}

/// Sets up everything a race touches, and lets `race` have it.
fn with_stage(
    args: &Args,
    request: &Request,
    file: &Path,
    race: impl FnOnce(Stage<'_>) -> Result<Outcome>,
) -> Result<Outcome> {
    let stop = interrupt::flag()?;
    let tell = std::io::stderr().is_terminal() && !args.quiet;
    let mut progress = Progress::new(tell);
    let mut samples = SamplesFile;
    if let Some(simulation) = request.simulation()? {
        let clock = simulation.clock();
        let mut simulation = simulation.stop_on(Arc::clone(&stop));
        if tell && args.interval.is_some() {
            let line = progress.line();
            simulation = simulation.on_interval(move |row| line.above(&progress::interval(row)));
        }
        let stage = Stage::new(&mut simulation, &mut progress).at(&clock, SystemTime::now());
        let mut stage = stage.stop(stop).save(file);
        if !args.no_samples {
            stage = stage.keep(&mut samples);
        }
        let outcome = race(stage)?;
        progress.line().clear();
        return Ok(outcome);
    }
    let secret = secret::find(args.secret_file.as_deref())?;
    let far = request.far(secret.as_ref())?;
    let queued = progress.line();
    let mut agents = Agents::new(far)
        .overwrite(request.overwrite())
        .on_queued(move |ahead| queued.show(&format!("the server is busy; {ahead} before us")))
        .stop_on(Arc::clone(&stop));
    if tell && args.interval.is_some() {
        let line = progress.line();
        agents = agents.on_interval(move |row| line.above(&progress::interval(row)));
    }
    let mut stage = Stage::new(&mut agents, &mut progress).stop(stop).save(file);
    if !args.no_samples {
        stage = stage.keep(&mut samples);
    }
    let outcome = race(stage)?;
    progress.line().clear();
    Ok(outcome)
}

fn request(args: &Args) -> Result<Request> {
    let mut request = Request::new(args.contenders.iter().cloned());
    if let Some(path) = &args.path {
        request = request.path(path);
    }
    match (&args.workload, args.quick) {
        (Some(workload), _) => request = request.workload(workload),
        (None, true) => request = request.workload(QUICK_WORKLOAD),
        (None, false) => {}
    }
    if let Some(host) = &args.to {
        request = request.to(host);
    }
    for (given, family) in [(args.v4, 4), (args.v6, 6)] {
        if given {
            request = request.family(family);
        }
    }
    if let Some(blocks) = args.blocks.or(args.quick.then_some(QUICK_BLOCKS)) {
        request = request.blocks(blocks);
    }
    if let Some(budget) = &args.budget {
        request = request.budget(units::parse_span(budget)?);
    }
    if let Some(margin) = &args.margin {
        request = request.margin(units::parse_share(margin)?);
    }
    if let Some(confidence) = &args.confidence {
        request = request.confidence(units::parse_share(confidence)?);
    }
    for vary in &args.vary {
        let (name, levels) = vary.split_once('=').ok_or_else(|| {
            Error::usage(format!(
                "vary `{vary}` is not of the form NAME=A|B, such as 'size=64|1kB'"
            ))
        })?;
        request = request.vary(name, levels.split('|'));
    }
    if let Some(seed) = args.seed {
        request = request.seed(seed);
    }
    if let Some(Some(time)) = &args.interval {
        let wrong = |e: Error| {
            Error::usage(format!("-i {time}: {e}; to give no time, put -i after the contenders"))
        };
        request = request.interval(units::parse_span(time).map_err(wrong)?);
    }
    if let Some(placement) = &args.placement {
        request = request.placement(placement);
    }
    if args.explain {
        request = request.explain();
    }
    if let Some(title) = &args.title {
        request = request.title(title);
    }
    for label in &args.label {
        let (key, value) = label
            .split_once('=')
            .ok_or_else(|| Error::usage(format!("label `{label}` is not of the form key=value")))?;
        request = request.label(key, value);
    }
    Ok(request)
}

/// What ended a race that failed, as an error for the exit code; the blocks done are saved and shown.
fn failure(outcome: &Outcome) -> Option<Error> {
    use crate::race::outcome::Status;
    if outcome.status != Status::Failed {
        return None;
    }
    let why = outcome.warnings.iter().find(|warning| warning.code.ends_with("_failed"));
    let what = why.map_or("it could not go on", |warning| &warning.message);
    Some(Error::peer("race", what.to_owned()))
}
