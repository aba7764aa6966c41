//! `deadheat line`: what a line to another host is worth, in a minute.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use deadheat_base::error::{Error, Result};
use deadheat_base::rng::fresh_seed;
use deadheat_base::time::{Monotonic, Nanos};
use deadheat_base::units;
use deadheat_datapath::transport;
use deadheat_path::grammar;
use deadheat_race::line::run::{LineContext, LineEvent, LineTask, SHORTEST, SURVEY, run as survey};
use deadheat_race::race::Request;
use deadheat_report as report;
use deadheat_result::line::outcome::LineOutcome;
use deadheat_result::line::part::LineWorks;
use deadheat_result::lock::lock;

use super::live::{LiveOptions, LiveStage, LiveSubject};
use super::screen::Screen;
use super::staging::agents;
use super::{Target, Verdict, deliver, interrupt, secret, stdout_style};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
On the other host: deadheat serve
  deadheat line host.example
  deadheat line host.example --every 1h --budget 7d           a week, hour by hour
  deadheat line --path delay=20ms,rate=50mbit,queue=250kB     an emulated line")]
pub(super) struct LineArgs {
    /// The host that runs `deadheat serve`
    #[arg(value_name = "HOST", required_unless_present = "path", conflicts_with = "path")]
    host: Option<String>,
    /// Emulated network instead of a host
    #[arg(long, value_name = "PATH", value_parser = grammar::written_out)]
    path: Option<String>,
    /// Use IPv4 only
    #[arg(short = '4', conflicts_with = "v6", hide_short_help = true)]
    v4: bool,
    /// Use IPv6 only
    #[arg(short = '6', hide_short_help = true)]
    v6: bool,
    /// Send from this address of this host: 192.0.2.7, fe80::1%eth0
    #[arg(long, value_name = "ADDR", conflicts_with = "path", hide_short_help = true)]
    source: Option<String>,
    /// Send through this interface of this host: eth0
    #[arg(long, value_name = "IFACE", conflicts_with = "path", hide_short_help = true)]
    device: Option<String>,
    /// Time of the survey, or of all with --every [default: 55s]
    #[arg(long, value_name = "TIME")]
    budget: Option<String>,
    /// Repeat the survey at this interval, from start to start
    #[arg(long, value_name = "TIME", requires = "budget")]
    every: Option<String>,
    /// Seed of the order of trials
    #[arg(long, value_name = "N", hide_short_help = true)]
    seed: Option<u64>,
    /// The file of the result [default: by date and time]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[arg(long, default_value = report::line::FORMATS[0], value_parser = super::form::one_of(report::line::FORMATS), hide_possible_values = true,
          hide_default_value = true, help = help())]
    format: String,
    /// The same as --format json
    #[arg(short = 'J', long, conflicts_with = "format")]
    json: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    live: LiveOptions,
    /// The server's shared secret, in a file (or in DEADHEAT_SECRET)
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    secret_file: Option<PathBuf>,
    /// Encrypt control, and accept only the server with this key (or the key in DEADHEAT_PIN)
    #[arg(long, value_name = "sha256:HEX", hide_short_help = true)]
    pin: Option<String>,
}

fn help() -> String {
    format!(
        "Format of the answer: {} [default: terminal]",
        report::words::list(report::line::FORMATS)
    )
}

/// Transports that are tried. Small messages go over the first, or over the second if the first does not get through.
const KNOCK: &[&str] = &[
    "udp",
    "tcp",
    "tls",
    "mptcp",
    "ws",
    "quic",
    "webtransport",
    "kcp",
    "enet",
    "utp",
    "sctp-udp",
    "icmp",
];

/// Contenders that show what becomes of a DSCP on the way: that of voice, and that of video (RFC 4594).
const MARKED: &[&str] = &["udp:dscp=EF", "udp:dscp=AF41"];

/// Returns the works of a survey; the survey itself adds the interval between small messages.
fn works() -> LineWorks {
    LineWorks {
        small: "ping:size=64,count=60,warmup=10".into(),
        paced: "cbr:rate=1mbit,size=200,direction=both,time=600ms,warmup=200ms".into(),
        paced_over: "udp".into(),
        load: "tcp".into(),
        knock: "ping:size=64,count=20,interval=5ms,warmup=0".into(),
    }
}

pub(super) fn run(args: &LineArgs) -> Result<Verdict> {
    let (time, every) = times(args)?;
    let request = request(args);
    if request.simulation()?.is_some() {
        return Err(Error::usage(
            "a line in virtual time has no TCP to fill it; leave out `sim:`, and the path is emulated",
        ));
    }
    let target = Target::of(args.output.as_ref(), "deadheat-line")?;
    let _lock = lock(target.file())?;
    let seed = args.seed.map_or_else(fresh_seed, Ok)?;
    let is_here = |id: &&str| {
        let found = transport::ALL.iter().find(|one| one.info().id == *id);
        found.is_some_and(|one| one.check().is_ok())
    };
    let knock: Vec<&str> = KNOCK.iter().copied().filter(is_here).collect();
    let works = works();
    let task = LineTask {
        knock: &knock,
        marked: MARKED,
        works: &works,
        survey: time,
        every,
        seed,
        file: target.file(),
    };
    let stop = interrupt::flag()?;
    // A line for each trial would be noise in a log.
    let is_shown = !args.quiet && std::io::stderr().is_terminal();
    let live = LiveStage::start(args.live.into(), LiveSubject::Line);
    let screen = if is_shown { Screen::stderr() } else { Screen::none() };
    let screen = live.screen().unwrap_or(screen);
    let credentials = secret::credentials(args.secret_file.as_deref(), args.pin.as_deref())?;
    let mut agents = agents(&request, &credentials, &screen, &stop)?;
    let (steering, ended) = (live.steering(), Arc::clone(&stop));
    let mut on_event = |event: &LineEvent<'_>| {
        if steering.is_last() {
            ended.store(true, Ordering::Release);
        }
        match event {
            LineEvent::Round { outcome, round, left } => {
                let sentence = round_done(*round, *left);
                live.text(&format!("line · {}", outcome.path.spec), &so_far(outcome), &sentence);
            }
            event => screen.show(vec![progress(event)]),
        }
    };
    let mut context =
        LineContext { runner: &mut agents, clock: &Monotonic, on_event: &mut on_event, stop };
    let outcome = survey(&task, &mut context);
    screen.clear();
    drop(live);
    let outcome = outcome?;
    show(args, &outcome)?;
    tell!("saved: {}", target.file().display());
    let is_whole = outcome.last().is_some_and(|survey| survey.valid() * 2 > survey.trials.len());
    Ok(if is_whole { Verdict::Fine } else { Verdict::Doubtful })
}

/// Returns the report of the rounds so far, for a view.
fn so_far(outcome: &LineOutcome) -> Vec<String> {
    let columns = super::terminal_size(libc::STDERR_FILENO).map_or(80, |(columns, _)| columns);
    let style = report::Style { width: columns.clamp(40, 100), ..report::Style::default() };
    let text = report::line::render(outcome, report::line::FORMATS[0], &style);
    text.map_or_else(|e| vec![e.to_string()], |text| text.lines().map(str::to_owned).collect())
}

fn round_done(round: u64, left: Nanos) -> String {
    format!("Round {round} is complete; {} left at most.", report::words::span(left))
}

fn show(args: &LineArgs, outcome: &LineOutcome) -> Result<()> {
    let format = if args.json { "json" } else { &args.format };
    deliver(report::line::render(outcome, format, &stdout_style())?.as_bytes(), None)
}

/// Returns the time of a survey, and the times between and of all.
fn times(args: &LineArgs) -> Result<(Nanos, Option<(Nanos, Nanos)>)> {
    let budget = args.budget.as_deref().map(units::parse_span).transpose()?;
    let too_short = |what: &str, typed: Nanos, least: Nanos| {
        Error::usage(format!(
            "{what} {}: a survey takes {} at least",
            units::span_text(typed),
            units::span_text(least)
        ))
    };
    match args.every.as_deref().map(units::parse_span).transpose()? {
        None => match budget.unwrap_or(SURVEY) {
            budget if budget < SHORTEST => Err(too_short("--budget", budget, SHORTEST)),
            budget => Ok((budget, None)),
        },
        Some(every) if every < SURVEY => Err(too_short("--every", every, SURVEY)),
        Some(every) => Ok((SURVEY, Some((every, budget.unwrap_or(every))))),
    }
}

fn request(args: &LineArgs) -> Request {
    let request = Request::new(["udp"]);
    let request = match (&args.host, &args.path) {
        (Some(host), _) => request.to(host),
        (None, Some(path)) => request.path(path),
        (None, None) => request,
    };
    let request = match (args.v4, args.v6) {
        (true, _) => request.family(4),
        (_, true) => request.family(6),
        _ => request,
    };
    let request = match &args.source {
        Some(source) => request.source(source),
        None => request,
    };
    match &args.device {
        Some(device) => request.device(device),
        None => request,
    }
}

fn progress(event: &LineEvent<'_>) -> String {
    match event {
        LineEvent::Trying(contender) => format!("does {contender} get through?"),
        LineEvent::Trial { round, part, left } => {
            format!(
                "round {round}: {} · {} left",
                part.name().replace('_', " "),
                report::words::span(*left)
            )
        }
        LineEvent::Round { round, left, .. } => round_done(*round, *left),
        LineEvent::Waiting { left } => {
            format!("the next survey in {}", report::words::span(*left))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_datapath::transport::optional;

    #[test]
    fn every_mark_is_one_that_a_contender_can_carry() {
        for typed in MARKED {
            assert!(transport::Contender::parse(typed).is_ok(), "{typed}");
        }
    }

    #[test]
    fn every_transport_that_is_tried_exists() {
        for id in KNOCK {
            let is_built = transport::ALL.iter().any(|one| one.info().id == *id);
            assert!(is_built || optional::left_out().any(|one| one.id == *id), "{id}");
        }
    }
}
