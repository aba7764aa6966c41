//! `deadheat map`: the leader at each point of a grid over keys of a path, of the work or of its load.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use deadheat_base::error::{Error, Result};
use deadheat_base::rng::fresh_seed;
use deadheat_base::time::Nanos;
use deadheat_base::units::parse_span;
use deadheat_path::grammar;
use deadheat_race::map::request::{self, DEFAULT_BLOCKS};
use deadheat_race::map::run::{resume, run as run_map};
use deadheat_race::race::request::DEFAULT_CONFIDENCE;
use deadheat_report::{self as report, words};
use deadheat_result::lock::lock;
use deadheat_result::map::file::{self, Map};
use deadheat_result::map::levels;
use deadheat_result::map::point::{MapPoint, PointAnswer};
use deadheat_result::map::request::MapRequest;
use deadheat_result::map::shard::Shard;
use deadheat_result::outcome::DEFAULT_MARGIN;
use deadheat_result::save;

use super::deciding::share;
use super::screen::Screen;
use super::{Verdict, deliver, interrupt, pages, stdout_style};

/// Minimum time between two saves, so that a map of quick points is not slower for being saved.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
#[command(override_usage = "deadheat map [OPTIONS] -w WORKLOAD --over KEY=LEVELS CONTENDER...")]
#[command(after_long_help = "\
  deadheat map quic kcp arq -w state --path sim:rate=20mbit \\
      --over 'delay=1ms..300ms/12' --over 'loss=0..10%/10' --picture map.svg
  deadheat map quic kcp -w state --path sim: --over 'delay=1ms..300ms/40' \\
      --seed 7 --shard 1/8 -o part1.json
  deadheat map tcp:cc=bbr -w ping --path rate=20mbit \\
      --over 'delay=5ms|20ms|80ms' --over 'load=none|tcp|quic'

A..B/N is N points: equal ratios where A is above 0 and B at least ten times as
much, equal steps otherwise. A|B|C is a list. A key is one of the path
(`deadheat list paths`), or of the workload and its load; w.KEY is the
workload's where both have it. `deadheat merge` joins shards. A map of one
contender shows its figure at each point.

Exit: 0 it ran, 1 it failed or was interrupted, 2 the command line is wrong.")]
pub(super) struct MapArgs {
    /// Transports to race at each point
    #[arg(value_name = "CONTENDER", required = true)]
    contenders: Vec<String>,
    /// Work of each contender
    ///
    /// The map shows the metric that this work claims; `claim=` chooses among several.
    #[arg(short, long, value_name = "WORKLOAD")]
    workload: String,
    /// The other keys of the path: sim:rate=20mbit, sim:
    ///
    /// With sim: everything runs in virtual time; without it the path is emulated. Without this option the keys of the
    /// grid are the path.
    #[arg(
        long,
        value_name = "PATH",
        default_value = "",
        hide_default_value = true,
        value_parser = grammar::written_out
    )]
    path: String,
    /// Levels of a key, such as 'delay=1ms..300ms/12'
    ///
    /// Given again for each further key. The first goes across, the second upwards.
    #[arg(long, value_name = "KEY=LEVELS", required = true)]
    over: Vec<String>,
    /// Blocks at each point, at most [default: 20]
    ///
    /// With --budget and without this, time is the limit.
    #[arg(long, value_name = "N")]
    blocks: Option<u64>,
    /// Time at each point, at most
    #[arg(long, value_name = "TIME")]
    budget: Option<String>,
    /// Differences up to this do not matter [default: 5%]
    #[arg(long, value_name = "SHARE")]
    margin: Option<String>,
    /// Confidence of the race at each point, as a whole [default: 95%]
    #[arg(long, value_name = "SHARE", hide_short_help = true)]
    confidence: Option<String>,
    /// Fixes the seed of every point
    ///
    /// Shards of one map need the same.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Run part I of N; `deadheat merge` joins them
    #[arg(long, value_name = "I/N")]
    shard: Option<String>,
    /// Points to run at once, in virtual time
    ///
    /// As many as there are CPUs unless given. The map does not depend on it.
    #[arg(short, long, value_name = "N")]
    jobs: Option<usize>,
    /// The map's file [default: by date and time]
    ///
    /// It is deadheat-map-DATE-TIME.json unless given, and saved as points are done, once a second at most.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Continue the map in the file of -o
    ///
    /// If there is no such file yet, the map begins.
    #[arg(long, requires = "output")]
    resume: bool,
    #[command(flatten)]
    shape: Shape,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

/// Formats in which a map is shown.
#[derive(Debug, clap::Args)]
pub(super) struct Shape {
    /// Also draw it to this file, as SVG
    #[arg(long, value_name = "FILE.svg")]
    picture: Option<PathBuf>,
    /// Also write it as a page, with the drawing
    #[arg(long, value_name = "FILE.html", hide_short_help = true)]
    html: Option<PathBuf>,
    #[arg(long, default_value = report::map::FORMATS[0], value_parser = super::form::one_of(report::map::FORMATS), hide_possible_values = true, hide_default_value = true,
          help = words::list(report::map::FORMATS))]
    format: String,
}

impl Shape {
    /// Refuses a picture that cannot be written, before anything runs.
    pub(super) fn check(&self) -> Result<()> {
        self.html.as_deref().map_or(Ok(()), |file| pages::prepare(file, "--html"))?;
        self.picture.as_deref().map_or(Ok(()), |file| pages::prepare(file, "--picture"))
    }

    pub(super) fn show(&self, map: &Map) -> Result<()> {
        deliver(report::map::render(map, &self.format, &stdout_style())?.as_bytes(), None)?;
        if let Some(file) = &self.picture {
            deliver(report::map::picture(map).as_bytes(), Some(file))?;
            tell!("picture: {}", file.display());
        }
        if let Some(file) = &self.html {
            let page = report::map::render(map, report::html::ID, &stdout_style())?;
            deliver(page.as_bytes(), Some(file))?;
            tell!("page: {}", file.display());
        }
        Ok(())
    }
}

pub(super) fn run(args: &MapArgs) -> Result<Verdict> {
    args.shape.check()?;
    let asked = asked(args)?;
    let jobs = jobs(args, &asked)?;
    let shard = args.shard.as_deref().map(Shard::parse).transpose()?;
    if let (Some(shard), None) = (shard, args.seed) {
        return Err(Error::usage(format!(
            "--shard without --seed: {shard} has to be of the same map as the others, so give all the same seed"
        )));
    }
    let seed = args.seed.map_or_else(fresh_seed, Ok)?;
    let map = request::map(asked, seed, shard)?;
    let target = super::Target::of(args.output.as_ref(), "deadheat-map")?;
    let file = target.file();
    save::prepare(file)?;
    let _lock = lock(file)?;
    let mut map = begun(args, map, file)?;
    let ended = go(args, &mut map, jobs, file);
    if map.points.is_empty() && ended.is_err() {
        return ended.map(|()| Verdict::Fine);
    }
    save::save(&map, file)?;
    args.shape.show(&map)?;
    tell!("saved: {}", file.display());
    match ended {
        Err(Error::Interrupted) => {
            tell!(
                "stopped with {} to go; the same command with -o {} --resume goes on",
                words::count(map.missing().len() as u64, "point"),
                file.display()
            );
            Ok(Verdict::Ended(1))
        }
        Err(error) => Err(error),
        Ok(()) => verdict(&map),
    }
}

fn asked(args: &MapArgs) -> Result<MapRequest> {
    let budget = args.budget.as_deref().map(parse_span).transpose()?;
    let blocks = match (args.blocks, budget) {
        (None, None) => Some(DEFAULT_BLOCKS),
        (blocks, _) => blocks,
    };
    let shared = |what, typed: &Option<String>, default, example| {
        typed.as_deref().map_or(Ok(default), |typed| share(what, typed, example))
    };
    Ok(MapRequest {
        contenders: args.contenders.clone(),
        workload: args.workload.clone(),
        path: args.path.clone(),
        over: args.over.iter().map(|typed| levels::parse(typed)).collect::<Result<_>>()?,
        blocks,
        budget_ns: budget.map(|budget| budget.0),
        margin: shared("margin", &args.margin, DEFAULT_MARGIN, "5%")?,
        confidence: shared("confidence", &args.confidence, DEFAULT_CONFIDENCE, "95%")?,
    })
}

/// Returns the number of points that run at once.
fn jobs(args: &MapArgs, asked: &MapRequest) -> Result<usize> {
    match args.jobs {
        Some(0) => Err(Error::usage("--jobs 0: one point at a time is the least")),
        Some(2..) if !asked.is_simulated() => Err(Error::usage(
            "--jobs: races on this machine would disturb each other; only those in virtual time (--path sim:…) \
             run at once",
        )),
        Some(jobs) => Ok(jobs),
        None if asked.is_simulated() => {
            Ok(std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
        }
        None => Ok(1),
    }
}

/// Returns the map to run, with the points in `file` after `--resume`. An incomplete map is not replaced by accident.
fn begun(args: &MapArgs, map: Map, file: &Path) -> Result<Map> {
    if args.output.is_none() || !file.exists() {
        return Ok(map);
    }
    if args.resume {
        return resume(map, args.seed, file);
    }
    match file::load(file) {
        Ok(there) if !there.missing().is_empty() => Err(Error::usage(format!(
            "{} has a map with {} to go; add --resume to go on with it, or remove it",
            file.display(),
            words::count(there.missing().len() as u64, "point")
        ))),
        _ => Ok(map),
    }
}

fn go(args: &MapArgs, map: &mut Map, jobs: usize, file: &Path) -> Result<()> {
    let stop = interrupt::flag()?;
    let watched = std::io::stderr().is_terminal() && !args.quiet;
    let screen = if watched { Screen::stderr() } else { Screen::none() };
    let (began, there, all) = (Instant::now(), map.points.len(), map.missing().len());
    let mut saved = began;
    screen.show(vec![format!("{} to run", words::count(all as u64, "point"))]);
    let ended = run_map(map, jobs, &stop, &mut |map| {
        let done = (map.points.len() - there).max(1);
        let left = began.elapsed().mul_f64((all - done) as f64 / done as f64);
        screen.show(vec![format!(
            "{done} of {all} points · about {} left",
            words::span(Nanos(left.as_nanos() as u64))
        )]);
        if saved.elapsed() < PAUSE {
            return Ok(());
        }
        saved = Instant::now();
        save::save(map, file)
    });
    screen.clear();
    ended
}

/// Returns the verdict on a map. The map holds the verdict at each point, also if its race cannot be trusted; only a
/// map
/// without any figures has failed.
///
/// # Errors
/// If no contender got through anywhere: with the reason at the first point.
fn verdict(map: &Map) -> Result<Verdict> {
    let failed = |point: &MapPoint| point.outcome == PointAnswer::Failed;
    let Some(first) = map.points.first().filter(|_| map.points.iter().all(failed)) else {
        return Ok(Verdict::Fine);
    };
    let why = first.out.iter().map(|out| out.why.as_str()).next().unwrap_or_default();
    let at = map.asked.name(&first.at);
    Err(Error::peer("map", format!("no contender got through anywhere; at {at}, {why}")))
}
