//! `deadheat race`: from the arguments to a race, its file, and the answer.

use deadheat_result::analysis::derived;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use deadheat_base::error::{Error, Result};
use deadheat_base::foreign::visible;
use deadheat_base::time::Nanos;
use deadheat_base::units::{self, Bare};
use deadheat_race::race::request::DEFAULT_CONFIDENCE;
use deadheat_race::race::{DEFAULT_BLAST, Request, resume, why};
use deadheat_report::{Report, ReportInput, Samples};
use deadheat_result::outcome::{Outcome, RACE_FAILED};
use deadheat_result::save;

use super::allow::Allow;
use super::deciding::{DecisionOptions, share};
use super::form::Form;
use super::gate::Gate;
use super::habits;
use super::live::LiveOptions;
use super::observe::{ObserveOptions, parse_interval};
use super::staging::{Intervals, Staging, with_stage};
use super::{Verdict, deliver, next_step, pages};

/// Settings that an earlier race fixes for a race that continues or repeats it.
const FIXED: [&str; 21] = [
    "series",
    "vary",
    "contenders",
    "workload",
    "path",
    "to",
    "v4",
    "v6",
    "source",
    "device",
    "blocks",
    "every",
    "all_blocks",
    "margin",
    "resolve",
    "claims",
    "as_deployed",
    "confidence",
    "seed",
    "placement",
    "quick",
];

#[derive(Debug, clap::Args)]
#[command(
    after_help = "`deadheat list` shows all names; --help has every option and examples.",
    after_long_help = "\
Contenders are NAME or NAME:key=value,…, and so are workloads; `deadheat list`
shows all names.
  deadheat race tcp tcp:cc=bbr -w bulk:time=2s
  deadheat race udp udp --quick              identical contenders: a dead heat
  deadheat race tcp udp --path delay=25ms,loss=1%
  deadheat race tcp udp --to host.example    with `deadheat serve` on that host

Exit: 0 it ran and can be trusted, 1 it failed, 2 the command line is wrong,
3 it is not to be trusted, 4 a claim is undecided (with --decided),
5 a contender got worse (with --gate)."
)]
pub(super) struct RaceArgs {
    /// Transports [default: tcp and udp, with icmp as the floor]
    ///
    /// Each is NAME or NAME:key=value,…
    #[arg(value_name = "CONTENDER")]
    pub(super) contenders: Vec<String>,
    /// Work of each contender [default: ping]
    #[arg(short, long, value_name = "WORKLOAD")]
    pub(super) workload: Option<String>,
    /// Network: lte, delay=25ms, … [default: loopback]
    ///
    /// It is emulated on this machine. `deadheat list paths` has all keys and profiles.
    #[arg(long, value_name = "PATH", value_parser = deadheat_path::grammar::written_out)]
    pub(super) path: Option<String>,
    /// Race against `deadheat serve` on another host
    ///
    /// Its port is 5210 unless given. A name in front stands for another program that runs there: iperf3://HOST,
    /// https://HOST/PATH, echo://HOST; `deadheat list far-ends` has all of them. Given again, it names one more host: the
    /// receivers of a fanout are shared among the hosts.
    #[arg(long, value_name = "HOST", conflicts_with = "path")]
    pub(super) to: Vec<String>,
    /// Use IPv4 only
    #[arg(short = '4', conflicts_with = "v6", hide_short_help = true)]
    v4: bool,
    /// Use IPv6 only
    #[arg(short = '6', hide_short_help = true)]
    v6: bool,
    /// Send from this address of this host, with --to: 192.0.2.7, fe80::1%eth0
    ///
    /// Control and all data sockets of the near end are bound to it.
    #[arg(long, value_name = "ADDR", hide_short_help = true)]
    source: Option<String>,
    /// Send through this interface of this host, with --to: eth0
    ///
    /// Control and all data sockets of the near end are bound to it (SO_BINDTODEVICE).
    #[arg(long, value_name = "IFACE", hide_short_help = true)]
    device: Option<String>,
    /// Maximum number of blocks; without --budget, time is then no limit
    #[arg(long, value_name = "N", hide_short_help = true)]
    blocks: Option<u64>,
    /// Maximum time [default: 50s]
    #[arg(long, value_name = "TIME")]
    budget: Option<String>,
    /// Minimum time from the start of one block to the start of the next, such as 10m; the race then runs
    /// all its blocks, whatever they decide
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    every: Option<String>,
    /// Differences up to this do not matter [default: 5%]
    ///
    /// A share, or a time such as 2ms for figures that are times.
    #[arg(long, value_name = "SHARE|TIME")]
    margin: Option<String>,
    #[command(flatten)]
    deciding: DecisionOptions,
    /// Confidence of all verdicts together [default: 95%]
    #[arg(long, value_name = "SHARE", hide_short_help = true)]
    confidence: Option<String>,
    /// Seed of the order of trials and of all other random choices
    #[arg(long, value_name = "N", hide_short_help = true)]
    seed: Option<u64>,
    /// CPUs of both ends: same-core, cross-core, busy, host, or their numbers as A,B
    #[arg(long, value_name = "PLACEMENT", hide_short_help = true)]
    placement: Option<String>,
    /// Run every contender under each level of a condition: placement, a key of the workload or a
    /// knob; may be given again for another, and then every combination runs
    #[arg(long, value_name = "NAME=A|B|…", hide_short_help = true)]
    vary: Vec<String>,
    /// First look: at most 20 blocks, and about 20 s
    ///
    /// If trials are long, it takes the fewest blocks with a verdict, and prints first how long that is.
    #[arg(long, conflicts_with_all = ["blocks", "all_blocks"])]
    quick: bool,
    /// Show each trial while it runs, every 100ms; with TIME, in intervals of that time, which the result has,
    /// too
    #[arg(short, long, value_name = "TIME", hide_short_help = true)]
    interval: Option<Option<String>>,
    /// A title for the result
    #[arg(long, hide_short_help = true)]
    title: Option<String>,
    /// A label for the result; may be given again
    #[arg(long, value_name = "KEY=VALUE", hide_short_help = true)]
    label: Vec<String>,
    /// Take each implementation's own defaults, and say how they differ, instead of making them equal
    ///
    /// Options that are typed stay. For one contender alone: tcp:terms=deployed.
    #[arg(long, hide_short_help = true)]
    as_deployed: bool,
    /// The result's file [default: by date and time]
    ///
    /// It is deadheat-DATE-TIME.json unless given, and saved after every block.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Longest wait for a far end that no longer answers; the race then goes on, or ends with the blocks done
    /// [default: 5m, or as long as the budget lasts]
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    patience: Option<String>,
    /// Let contenders without congestion control fill the line to another host (--to), up to SIZE a trial and
    /// direction [default: 1GB]
    #[arg(long, value_name = "SIZE", num_args = 0..=1, require_equals = true, hide_short_help = true)]
    blast: Option<Option<String>>,
    /// Replace the file that `sink` names if it is there already
    #[arg(long, hide_short_help = true)]
    force: bool,
    #[command(flatten)]
    pub(super) form: Form,
    /// Also write a page with figures to this file, at the end
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    html: Option<PathBuf>,
    /// Compare with earlier runs, a folder of them or this option again for each file, and exit with 5 if a
    /// contender got worse by more than the margin
    ///
    /// With the word first, the baseline is the first contender of the race, and the second is judged: the build before
    /// a change, and the build with it.
    #[arg(long, value_name = "BASELINE|first", hide_short_help = true)]
    gate: Vec<PathBuf>,
    /// With --gate first: this race is one of N that are judged together, such as one for each path
    #[arg(long, value_name = "N", requires = "gate", conflicts_with_all = ["resume", "replay"], hide_short_help = true)]
    gate_races: Option<u64>,
    /// Show no progress
    #[arg(short, long)]
    pub(super) quiet: bool,
    #[command(flatten)]
    live: LiveOptions,
    #[command(flatten)]
    observe: ObserveOptions,
    /// Keep raw samples beside the result, in a file that ends in .samples
    ///
    /// Without this they are kept only where --html or --format needs them.
    #[arg(long, conflicts_with = "resume", hide_short_help = true)]
    samples: bool,
    /// Continue a race that was interrupted
    #[arg(long, value_name = "FILE", conflicts_with_all = FIXED, conflicts_with_all = ["replay", "output", "title", "label"], hide_short_help = true)]
    pub(super) resume: Option<PathBuf>,
    /// Run the race of a result file again, with its plan and seed
    #[arg(long, value_name = "FILE", conflicts_with_all = FIXED, conflicts_with = "budget", hide_short_help = true)]
    pub(super) replay: Option<PathBuf>,
    #[command(flatten)]
    allow: Allow,
    /// The server's shared secret, in a file (or in DEADHEAT_SECRET)
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    secret_file: Option<PathBuf>,
    /// Encrypt control, and accept only the server with this key (or the key in DEADHEAT_PIN)
    ///
    /// `deadheat serve` prints its pin when it starts. The data that is raced is as its contender sends it. For
    /// another program that shows a certificate, it is the key in that certificate, whatever authority signed it.
    #[arg(long, value_name = "sha256:HEX", hide_short_help = true)]
    pin: Option<String>,
    /// Afterwards, show where the time goes
    ///
    /// A second pass takes the kernel's timestamps.
    #[arg(long, conflicts_with_all = ["resume", "replay"])]
    explain: bool,
    /// Afterwards, test the cause of each difference by changing it
    ///
    /// Where a setting of a contender that is behind would change the cause, that contender races itself with this
    /// setting, and the cause is confirmed or withdrawn.
    #[arg(long, hide_short_help = true, conflicts_with_all = ["resume", "replay", "vary"])]
    why: bool,
}

/// Contenders of a race that names none.
const USUAL: [&str; 3] = ["tcp", "udp", "icmp"];

pub(super) fn run(args: RaceArgs) -> Result<Verdict> {
    // A format that does not exist is refused before anything runs.
    let report = args.form.find()?;
    // So is a page that cannot be written.
    args.html.as_deref().map_or(Ok(()), |file| pages::prepare(file, "--html"))?;
    let replaced = args.resume.as_deref().or(args.output.as_deref());
    let gate = match &args.gate[..] {
        [] => None,
        places => Some(Gate::open(places, args.gate_races, replaced)?),
    };
    let mut done = 0;
    let (mut outcome, file) = match &args.resume {
        Some(file) => (go_on(&args, file, gate.as_ref(), &mut done)?, file.clone()),
        None => match start(&args, report, gate.as_ref()) {
            Err(Error::Interrupted) => {
                tell!("deadheat: stopped before the first block was done; nothing is saved");
                return Ok(Verdict::Ended(1));
            }
            started => started?,
        },
    };
    if args.why && !resume::is_unfinished(&outcome) {
        test_causes(&args, &mut outcome, &file)?;
    }
    let samples = save::samples_of(&file);
    let shown = ReportInput { outcome: &outcome, samples: samples.as_deref() };
    let rendered = report.render(&shown, &args.form.style());
    let judged = gate.as_ref().map(|gate| gate.judge(&outcome));
    if let Ok(rendered) = &rendered {
        deliver(rendered, None)?;
    }
    if let Some(section) = judged.as_ref().and_then(|judged| judged.beside(report.id())) {
        deliver(section.as_bytes(), None)?;
    }
    next_step::tell_saved(&outcome, &file);
    args.observe.tell(outcome.trials.get(done..).unwrap_or_default());
    if let Some(page) = &args.html {
        pages::write(page, &pages::of_race(&outcome, &file))?;
        tell!("page: {}", page.display());
    }
    if let Some(judged) = &judged {
        judged.print();
    }
    rendered?;
    if asks_for_nothing(&args) && args.form.is_text() && !args.quiet {
        next_step::offer(&outcome, &file);
    }
    failure(&outcome).map_or(Ok(()), Err)?;
    let (is_worse, is_doubtful) =
        judged.map_or((false, false), |judged| (judged.is_worse(), judged.is_doubtful()));
    Ok(match args.deciding.verdict([&outcome]) {
        // A race that is not trusted condemns nothing.
        Verdict::Doubtful => Verdict::Doubtful,
        _ if is_worse => Verdict::Worse,
        _ if is_doubtful => Verdict::Doubtful,
        verdict => verdict,
    })
}

/// Returns true if the command line names nothing to race, no work and no place.
fn asks_for_nothing(args: &RaceArgs) -> bool {
    let is_named = args.workload.is_some() || args.path.is_some();
    let goes_on = args.resume.is_some() || args.replay.is_some();
    args.contenders.is_empty() && args.to.is_empty() && !is_named && !goes_on
}

fn start(args: &RaceArgs, report: &dyn Report, gate: Option<&Gate>) -> Result<(Outcome, PathBuf)> {
    let request = match &args.replay {
        Some(file) => {
            refuse_interval(args)?;
            let earlier = derived::load(file)?;
            resume::check_measured(&earlier)?;
            again(args, &earlier, file)?
        }
        None => {
            args.allow.refuse()?;
            let request = forced(args, request(args)?);
            match gate {
                Some(gate) => gate.apply(request, confidence(args)?)?,
                None => request,
            }
        }
    };
    let checked = request.check()?;
    gate.map_or(Ok(()), |gate| gate.check(&request))?;
    args.deciding.check(&request, &checked)?;
    let notes = request.beforehand(&checked).into_iter().chain(request.for_figures(&checked));
    for note in notes.filter(|_| !args.quiet) {
        tell!("note: {note}");
    }
    let target = super::Target::of(args.output.as_ref(), "deadheat")?;
    let file = target.file();
    save::prepare(file)?;
    let kept = args.samples || args.html.is_some() || report.samples() != Samples::Unused;
    let outcome =
        with_stage(&staging(args, kept)?, &request, file, |stage| request.run_with(stage))?;
    Ok((outcome, file.to_path_buf()))
}

/// Tests the causes of the differences in a race, each in a race of its own beside it, and saves what they show.
fn test_causes(args: &RaceArgs, outcome: &mut Outcome, file: &Path) -> Result<()> {
    for (index, test) in why::experiments(outcome)?.iter().enumerate() {
        if !args.quiet {
            let label = outcome.contenders.get(test.contender).map_or("?", |own| &own.label);
            tell!("testing the cause: {label} against itself with {}", test.change);
        }
        let beside = file.with_extension(format!("why-{}.json", index + 1));
        let run = || {
            save::prepare(&beside)?;
            let staging = staging(args, false)?;
            with_stage(&staging, &test.request, &beside, |stage| test.request.run_with(stage))
        };
        match run() {
            Ok(tested) => why::conclude(outcome, test, &tested),
            // The race is complete; only this test is missing.
            Err(Error::Interrupted) => break,
            Err(error) => tell!("the cause is not tested: {error}"),
        }
    }
    save::save(outcome, file)
}

/// Goes on with the race in `file`, and sets `done` to the number of trials that it had before.
fn go_on(args: &RaceArgs, file: &Path, gate: Option<&Gate>, done: &mut usize) -> Result<Outcome> {
    refuse_interval(args)?;
    let before = derived::load(file)?;
    *done = before.trials.len();
    resume::check_measured(&before)?;
    let budget = args.budget.as_deref().map(units::parse_span).transpose()?;
    let request = again(args, &before, file)?;
    request.check()?;
    gate.map_or(Ok(()), |gate| gate.check(&request))?;
    // A file with samples of some blocks only would be mistaken for a complete one.
    let kept = save::samples_of(file).is_some();
    with_stage(&staging(args, kept)?, &request, file, |stage| {
        resume(before, budget, &request, stage)
    })
}

fn forced(args: &RaceArgs, request: Request) -> Request {
    if args.force { request.force() } else { request }
}

/// Returns the request of the race in a file, with the permissions given. Prints the host that the race will connect
/// to.
fn again(args: &RaceArgs, earlier: &Outcome, file: &Path) -> Result<Request> {
    let name = file.display().to_string();
    if let Some(hosts) = &earlier.asked.to {
        tell!("note: this race goes to {}, as {name} says", visible(&hosts.to_string()));
    }
    let request = deadheat_race::race::replay(earlier)?.written_in(name, &args.allow.all()?);
    Ok(forced(args, blasting(args, request)?))
}

/// Refuses an interval for a race that continues or repeats another: the interval is fixed.
fn refuse_interval(args: &RaceArgs) -> Result<()> {
    match &args.interval {
        Some(Some(time)) => Err(Error::usage(format!(
            "-i {time}: the interval of this race is fixed already; -i alone shows each trial while it runs"
        ))),
        _ => Ok(()),
    }
}

/// Returns the options by which this race is run.
fn staging(args: &RaceArgs, samples: bool) -> Result<Staging<'_>> {
    Ok(Staging {
        within: String::new(),
        progress: !args.quiet,
        live: args.live.into(),
        intervals: intervals(args),
        samples,
        secret_file: args.secret_file.as_deref(),
        pin: args.pin.as_deref(),
        patience: args.patience.as_deref().map(units::parse_span).transpose()?,
        observe: &args.observe,
    })
}

/// Returns the place of intervals: with the answer if that is text in a file or a pipe, where both are read together.
fn intervals(args: &RaceArgs) -> Intervals {
    match args.interval {
        None => Intervals::Nowhere,
        Some(_) if args.form.is_text() && !std::io::stdout().is_terminal() => Intervals::Stdout,
        Some(_) => Intervals::Stderr,
    }
}

/// Sets the margin as typed: a time for figures that are times, or a share.
fn with_margin(request: Request, typed: &str) -> Result<Request> {
    Ok(match units::parse_span(typed) {
        Ok(Nanos::ZERO) => {
            let what = "a margin of 0: it must be longer, such as 2ms, or a share, such as 5%";
            return Err(Error::usage(what));
        }
        Ok(time) => request.margin_time(time),
        Err(_) => request.margin(share("margin", typed, "5%")?),
    })
}

pub(super) fn request(args: &RaceArgs) -> Result<Request> {
    let mut request = match args.contenders.as_slice() {
        [] => Request::new(USUAL),
        named => Request::new(named.iter().cloned()),
    };
    let wrong = args.contenders.iter().find_map(|typed| habits::no_contender(typed));
    wrong.map_or(Ok(()), |answer| Err(Error::usage(answer)))?;
    request = way(args, request);
    if args.contenders.is_empty() {
        request = request.usual_contenders()?;
    }
    request = match &args.workload {
        Some(workload) => {
            habits::no_workload(workload).map_or(Ok(()), |answer| Err(Error::usage(answer)))?;
            request.workload(workload)
        }
        None => request.usual_work()?,
    };
    request = request
        .with(args.blocks, Request::blocks)
        .when(args.quick, Request::screening)
        .with(args.budget.as_deref().map(units::parse_span).transpose()?, Request::budget)
        .with(args.every.as_deref().map(units::parse_span).transpose()?, Request::every)
        .confidence(confidence(args)?);
    if let Some(margin) = &args.margin {
        request = with_margin(request, margin)?;
    }
    request = args.deciding.ask(request)?;
    for vary in &args.vary {
        let (name, levels) = vary.split_once('=').ok_or_else(|| {
            Error::usage(format!("--vary {vary}: it takes NAME=A|B, such as 'size=64|1kB'"))
        })?;
        request = request.vary(name, levels.split('|'));
    }
    let interval = args.interval.as_ref().and_then(Option::as_deref);
    request = request
        .with(args.seed, Request::seed)
        .with(interval.map(parse_interval).transpose()?, Request::interval)
        .with(args.placement.as_ref(), Request::placement)
        .with(args.title.as_ref(), Request::title)
        .when(args.as_deployed, Request::as_deployed)
        .when(args.explain, Request::explain);
    request = blasting(args, args.observe.ask(request)?)?;
    for label in &args.label {
        let (key, value) = super::label(label)?;
        request = request.label(key, value);
    }
    Ok(request)
}

/// Returns the confidence as typed, or the default.
fn confidence(args: &RaceArgs) -> Result<f64> {
    let typed = args.confidence.as_deref();
    typed.map_or(Ok(DEFAULT_CONFIDENCE), |typed| share("confidence", typed, "95%"))
}

/// Allows a blast towards another host, if that was asked for.
fn blasting(args: &RaceArgs, request: Request) -> Result<Request> {
    let Some(size) = &args.blast else { return Ok(request) };
    if args.to.is_empty() && args.replay.is_none() && args.resume.is_none() {
        return Err(Error::usage(
            "--blast allows a flood towards another host, and this race has none (--to HOST)",
        ));
    }
    let bytes = match size {
        None => DEFAULT_BLAST,
        Some(typed) => units::parse_bytes(typed, Bare::Refused)?.0,
    };
    match bytes {
        0 => Err(Error::usage(
            "--blast=0 allows nothing; leave it out, or give a size such as --blast=100MB",
        )),
        bytes => Ok(request.blast(bytes)),
    }
}

/// Adds the path, or the way to another host.
fn way(args: &RaceArgs, request: Request) -> Request {
    let request = request.with(args.path.as_ref(), Request::path);
    args.to
        .iter()
        .fold(request, Request::to)
        .when(args.v4, |request| request.family(4))
        .when(args.v6, |request| request.family(6))
        .with(args.source.as_ref(), Request::source)
        .with(args.device.as_ref(), Request::device)
}

/// Returns the reason that ended a race as an error for the exit code; the blocks done are saved and shown. A race that
/// ended since its trials fail their gates has none: its result is not trusted, which has an exit code of its own.
fn failure(outcome: &Outcome) -> Option<Error> {
    let is_refused = outcome.warnings.iter().any(|warning| warning.code == RACE_FAILED);
    outcome.why_failed().filter(|_| !is_refused).map(|what| Error::peer("race", what.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use deadheat_race::race::Request;
    use deadheat_result::command;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: RaceArgs,
    }

    /// Splits a command line as a shell does.
    fn split(line: &str) -> Vec<String> {
        let script = format!("set -- {line}; printf '%s\\0' \"$@\"");
        let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
        let words = String::from_utf8(output.stdout).unwrap();
        words.split_terminator('\0').map(str::to_owned).collect()
    }

    #[test]
    fn numbers_that_other_tools_take_are_answered_with_the_words_that_do_it_here() {
        let refused = |typed: &str| {
            let line = Line::try_parse_from(typed.split(' ')).unwrap();
            request(&line.args).map(|request| request.asked()).unwrap_err().to_string()
        };
        assert!(refused("race tcp -i 0.5").contains("-i 0.5s for seconds"));
        assert!(refused("race -i tcp").contains("put -i after the contenders"));
        assert!(refused("race tcp -w 256K").contains("tcp:sndbuf=256KiB,rcvbuf=256KiB"));
    }

    fn read(line: &str) -> Request {
        let words = split(line);
        assert_eq!(words[..2], ["deadheat", "race"], "{line}");
        request(&Line::try_parse_from(&words[1..]).unwrap_or_else(|e| panic!("{line}: {e}")).args)
            .unwrap()
    }

    #[test]
    fn the_command_of_a_result_asks_for_the_same_race() {
        let asked = [
            Request::new(["tcp", "udp", "icmp"]),
            Request::new(["tcp", "tcp:cc=bbr,nodelay=off"])
                .workload("bulk:time=1500ms")
                .path("delay=25ms,loss=1%,rate=20mbit + delay=1ms")
                .blocks(12)
                .all_blocks()
                .budget(deadheat_base::time::Nanos(90_000_000_001))
                .margin(0.07)
                .resolve(0.02)
                .claims_all()
                .confidence(0.999)
                .placement("0,1")
                .interval(deadheat_base::time::Nanos::from_millis(250))
                .as_deployed()
                .explain(),
            Request::new(["udp"]).to("far.example:5210").family(4).vary("size", ["64", "1kB"]),
            Request::new(["udp"]).to("fe80::7%eth0").source("fe80::1%eth0").device("eth0"),
            Request::new(["udp"]).workload("cbr:rate=1mbit").vary("placement", ["busy", "host"]),
        ];
        for request in asked {
            let wanted = request.asked();
            assert_eq!(read(&command::line(&wanted)).asked(), wanted);
        }
    }

    #[test]
    fn what_a_hostile_file_says_stays_an_argument() {
        let hostile = "-o x'; $(reboot) `id` \n\u{1b}[2J \u{202e} \"$HOME\" \\ #1";
        let request = Request::new(["tcp"]).placement(hostile).to(hostile).vary("size", [hostile]);
        let asked = Request::new([hostile]).placement(hostile).asked();
        assert_eq!(read(&command::line(&asked)).asked(), asked);
        assert_eq!(read(&command::line(&request.asked())).asked(), request.asked());
    }
}
