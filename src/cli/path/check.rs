//! `deadheat path check`: the emulator measured against itself.

use std::fmt::Write;

use clap::Args;
use serde::Serialize;

use super::super::{Verdict, print};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_base::units::{BitRate, PacketRate};
use deadheat_contract::contract::Direction;
use deadheat_path::emulator::Emulator;
use deadheat_path::{PathSpec, SenderCpus};
use deadheat_result::layout;
use deadheat_trial::path::check::{Capacity, LimitVerdict, LossCheck, PathCheck, WayCheck};

/// Paths that are checked by default: without impairment, then with one impairment each.
const USUAL: &[&str] = &["delay=0", "delay=1ms", "rate=20mbit", "loss=1%"];

/// Options as typed.
#[derive(Debug, Args)]
#[command(after_help = "\
Each link is checked by itself, and one that cannot be is named with the reason.
It judges the median and the 99th percentile of the delay (at most 10 and 50 µs
beyond the path's; 5 and 20 µs with wait=spin), the rate (0.1 % and two packets
off), and the number of lost packets (in its 99 % interval, and as the path
itself counted). The most that the path carries depends on the machine, and is
not judged. Exit code 3: something is outside its limits.")]
pub(super) struct CheckArgs {
    /// The path, as for `race --path` [default: four simple ones, one after another]
    path: Option<String>,
    /// Format of the answer
    #[arg(long, value_enum, default_value_t)]
    format: CheckFormat,
}

/// Formats of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum CheckFormat {
    /// Lines for people
    #[default]
    Terminal,
    /// For programs
    Json,
}

/// Answer of the command as JSON.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    /// True if every judged figure is within its limits.
    within_limits: bool,
    /// Checks, path by path.
    checks: &'a [PathCheck],
}

/// Builds each path, measures it, and prints the findings.
///
/// # Errors
/// If a path makes no sense or cannot be built here.
pub(super) fn run(args: CheckArgs) -> Result<Verdict> {
    let typed: Vec<&str> = match &args.path {
        Some(path) => vec![path],
        None => USUAL.to_vec(),
    };
    let mut checks = Vec::new();
    for path in typed {
        checks.push(check(path, args.format)?);
    }
    let within_limits = checks.iter().all(PathCheck::is_fine);
    match args.format {
        CheckFormat::Terminal => print(&conclusion(&checks))?,
        CheckFormat::Json => {
            let answer = Answer { within_limits, checks: &checks };
            let json = layout::text(&answer)
                .map_err(|e| Error::setup("write the check as JSON", e.into()))?;
            print(&format!("{json}\n"))?;
        }
    }
    Ok(if within_limits { Verdict::Fine } else { Verdict::Doubtful })
}

/// Checks one path. For people the findings are printed as they are made, since each direction of a link takes seconds.
fn check(typed: &str, format: CheckFormat) -> Result<PathCheck> {
    let network = match PathSpec::parse(typed)? {
        PathSpec::Emulated(network) => network,
        PathSpec::Loopback => {
            return Err(Error::usage(
                "loopback is not emulated; `deadheat doctor` measures it, and \
                 `deadheat path check delay=0` an emulated path that does nothing",
            ));
        }
        PathSpec::Simulated(_) => {
            return Err(Error::usage(
                "a simulated path is as exact as its arithmetic, and there is nothing to measure; \
                 leave `sim:` out",
            ));
        }
    };
    let mut emulator = Emulator::start_for(typed, SenderCpus::Others)?;
    if format == CheckFormat::Json {
        return PathCheck::measure(typed, &network, &mut emulator, &mut |_| Ok(()));
    }
    let links = 0..network.links.len();
    let both = [Direction::Up, Direction::Down];
    let names = links.flat_map(|link| both.map(|way| network.way_name(link, way).len()));
    let width = names.max().unwrap_or_default();
    let built = emulator.built();
    let head = line(width, TITLES);
    print(&format!("{typed}  ({}, {})\n{head}", built.backend.devices(), built.why))?;
    let mut seen = |way: &WayCheck| print(&row(width, way));
    let check = PathCheck::measure(typed, &network, &mut emulator, &mut seen)?;
    print(&rest(&check))?;
    Ok(check)
}

/// Titles of the columns of [`line`].
const TITLES: [&str; 8] = ["", "delay", "p50", "p99", "rate", "off", "lost", ""];

/// Returns a line of the table, whose names of directions have this width.
fn line(width: usize, [way, delay, p50, p99, rate, off, lost, judged]: [&str; 8]) -> String {
    let times = format!("{delay:<10}{p50:<10}{p99:<10}");
    let line = format!("  {way:<width$}  {times}{rate:<13}{off:<10}{lost:<18}{judged}");
    line.trim_end().to_owned() + "\n"
}

/// Returns the findings about one direction of a link.
fn row(width: usize, check: &WayCheck) -> String {
    let WayCheck { way, delay, rate, loss, .. } = check;
    let error = |ns: Option<i64>| ns.map_or_else(|| "-".to_owned(), signed);
    let (p50, p99) = (error(delay.errors.p50_ns), error(delay.errors.p99_ns));
    let achieved = rate.and_then(|rate| Some((rate.achieved_bps?, rate.error?)));
    let (rate, off) = match achieved {
        Some((bps, error)) => {
            (BitRate(bps.round() as u64).to_string(), format!("{:+.3} %", 100.0 * error))
        }
        None => (rate.map_or("-", |_| "nothing").to_owned(), String::new()),
    };
    let (delay, lost) = (delay.expected_ns.to_string(), format!("{} of {}", loss.lost, loss.sent));
    line(width, [way, &delay, &p50, &p99, &rate, &off, &lost, &judged(check)]) + &remarks(loss)
}

fn judged(way: &WayCheck) -> String {
    let rate = way.rate.map_or(LimitVerdict::Within, |rate| rate.judged);
    let all = [("delay", way.delay.judged), ("rate", rate), ("loss", way.loss.judged)];
    let words = all.into_iter().filter_map(|(what, judged)| match judged {
        LimitVerdict::Within => None,
        LimitVerdict::Outside => Some(format!("{what} OUTSIDE")),
        LimitVerdict::Open => Some(format!("{what} not judged")),
    });
    let words: Vec<String> = words.collect();
    if words.is_empty() { "ok".to_owned() } else { words.join(", ") }
}

/// Returns the findings that belong to no direction.
fn rest(check: &PathCheck) -> String {
    let mut out = String::new();
    let errors = &check.delay_errors;
    if let (Some(p50), Some(p99), Some(way)) = (errors.p50_ns, errors.p99_ns, check.ways.first()) {
        let limits = [way.delay.limit_p50_ns, way.delay.limit_p99_ns].map(Nanos);
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "  delays      {} at p50 and {} at p99 beyond what is specified, of {} packets; at most {} and {}",
            signed(p50),
            signed(p99),
            errors.n,
            limits[0],
            limits[1]
        );
    }
    for way in &check.unchecked {
        let _ = writeln!(out, "  not checked {}: {}", way.way, way.why);
    }
    if let Some(capacity) = &check.capacity {
        let _ = writeln!(out, "  carries     {}", carries(capacity).join("\n              "));
    }
    out.push('\n');
    out
}

fn signed(ns: i64) -> String {
    let sign = if ns < 0 { '−' } else { '+' };
    format!("{sign}{}", Nanos(ns.unsigned_abs()))
}

/// Returns a line of what else there is to say of losses, if there is any.
fn remarks(check: &LossCheck) -> String {
    let count = |n: u64, what: &str| (n > 0).then(|| format!("{n} {what}"));
    let expected = check.expected.filter(|range| *range != [0, 0] || check.lost > 0);
    let all = [
        expected.map(|[least, most]| format!("{least} to {most} losses expected")),
        (check.by_own_account != check.lost)
            .then(|| format!("the path counted {}", check.by_own_account)),
        count(check.device_drops, "lost in devices"),
        count(check.dropped_by_queue, "more found the queue full"),
        count(check.dropped_at_receiver, "more found the socket full"),
        check
            .mean_burst
            .zip(check.expected_burst)
            .map(|(burst, expected)| format!("mean burst {burst:.2}, {expected:.2} expected")),
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    if all.is_empty() { String::new() } else { format!("    {}\n", all.join("; ")) }
}

fn carries(capacity: &Capacity) -> Vec<String> {
    let bits = |bps: Option<f64>| {
        bps.map_or_else(|| "nothing".to_owned(), |bps| BitRate(bps.round() as u64).to_string())
    };
    let packets = |rate: Option<f64>| {
        rate.map_or_else(|| "none".to_owned(), |rate| PacketRate(rate.round() as u64).to_string())
    };
    let mut lines = vec![format!(
        "{}: {} of a byte stream, {} without offloads",
        capacity.way,
        bits(capacity.stream_bps),
        bits(capacity.plain_stream_bps)
    )];
    if capacity.decisions_per_s.is_some() {
        lines.push(format!("{} decided on meanwhile", packets(capacity.decisions_per_s)));
    }
    lines.push(format!(
        "{} of 64 B datagrams, one a call; loopback {}",
        packets(capacity.datagrams_per_s),
        packets(capacity.loopback_datagrams_per_s)
    ));
    lines
}

fn conclusion(checks: &[PathCheck]) -> String {
    let outside: Vec<&str> =
        checks.iter().filter(|check| !check.is_fine()).map(|check| check.path.as_str()).collect();
    if outside.is_empty() {
        "Everything that is judged is within its limits.\n".to_owned()
    } else {
        format!(
            "Outside its limits: {}. Other work on this machine shows here; `deadheat doctor` shows how well it keeps time.\n",
            outside.join("; ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_path::network::Backend;
    use deadheat_trial::path::check::{DelayCheck, DelayErrors, RateCheck, UncheckedWay};

    fn found() -> PathCheck {
        let errors = DelayErrors {
            n: 1_000,
            min_ns: Some(-200),
            p50_ns: Some(-150),
            p90_ns: Some(7_000),
            p99_ns: Some(61_000),
            max_ns: Some(70_000),
        };
        PathCheck {
            path: "delay=1ms,rate=20mbit".into(),
            backend: Backend::Tun,
            why: "/dev/net/tun can be used".into(),
            ways: vec![WayCheck {
                way: "up".into(),
                direction: Direction::Up,
                delay: DelayCheck {
                    expected_ns: Nanos::from_millis(1),
                    errors,
                    limit_p50_ns: 10_000,
                    limit_p99_ns: 50_000,
                    judged: LimitVerdict::Outside,
                },
                rate: Some(RateCheck {
                    expected_bps: 20_000_000,
                    offered_bps: 25e6,
                    achieved_bps: Some(19_998_000.0),
                    error: Some(-0.0001),
                    limit: 0.001,
                    judged: LimitVerdict::Within,
                }),
                loss: LossCheck {
                    sent: 1_000,
                    lost: 3,
                    dropped_at_receiver: 1,
                    dropped_by_queue: 4,
                    by_own_account: 2,
                    device_drops: 1,
                    mean_burst: Some(1.5),
                    expected_burst: Some(1.0),
                    expected_share: Some(0.0),
                    expected: Some([0, 0]),
                    judged: LimitVerdict::Open,
                },
            }],
            unchecked: vec![UncheckedWay { way: "down".into(), why: "it is away".into() }],
            delay_errors: errors,
            capacity: Some(Capacity {
                way: "up".into(),
                stream_bps: Some(12.3e9),
                decisions_per_s: Some(1.1e6),
                plain_stream_bps: Some(2.5e9),
                datagrams_per_s: Some(270e3),
                loopback_datagrams_per_s: None,
            }),
            took_ns: Nanos::from_secs(7),
        }
    }

    #[test]
    fn what_was_found_is_said_row_by_row() {
        let check = found();
        let want = "        delay     p50       p99       rate         off       lost
  up    1.00 ms   −150 ns   +61.0 µs  20.0 Mbit/s  -0.010 %  3 of 1000         delay OUTSIDE, loss not judged
    0 to 0 losses expected; the path counted 2; 1 lost in devices; 4 more found the queue full; \
1 more found the socket full; mean burst 1.50, 1.00 expected
  delays      −150 ns at p50 and +61.0 µs at p99 beyond what is specified, of 1000 packets; at most \
10.0 µs and 50.0 µs
  not checked down: it is away
  carries     up: 12.3 Gbit/s of a byte stream, 2.50 Gbit/s without offloads
              1.10 Mpps decided on meanwhile
              270 kpps of 64 B datagrams, one a call; loopback none

";
        assert_eq!(line(4, TITLES) + &row(4, &check.ways[0]) + &rest(&check), want);
        assert!(conclusion(&[found()]).starts_with("Outside its limits: delay=1ms,rate=20mbit."));
        assert!(conclusion(&[]).starts_with("Everything"));
    }

    #[test]
    fn what_is_not_emulated_is_refused() {
        for path in ["loopback", "sim:delay=1ms"] {
            let error = check(path, CheckFormat::Terminal).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{error}");
        }
    }
}
