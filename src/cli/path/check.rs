//! `deadheat path check`: the emulator measured against itself.

use std::fmt::Write;

use clap::Args;
use serde::Serialize;

use super::super::{Verdict, print};
use deadheat_base::error::{Error, Result};
use deadheat_base::figures::percent;
use deadheat_base::time::Nanos;
use deadheat_base::units::{BitRate, PacketRate};
use deadheat_path::emulator::Emulator;
use deadheat_path::{PathSpec, SenderCpus};
use deadheat_result::layout;
use deadheat_trial::path::check::{
    Capacity, DelayCheck, LimitVerdict, LossCheck, PathCheck, RateCheck, WayCheck,
};

/// Paths that are checked by default: without impairment, then with one impairment each.
const USUAL: &[&str] = &["delay=0", "delay=1ms", "rate=20mbit", "loss=1%"];

/// Options as typed.
#[derive(Debug, Args)]
#[command(after_help = "\
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
        let check = check(path)?;
        if args.format == CheckFormat::Terminal {
            print(&lines(&check))?;
        }
        checks.push(check);
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

fn check(typed: &str) -> Result<PathCheck> {
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
    PathCheck::measure(typed, &network, &mut emulator)
}

/// Returns the findings about one path.
fn lines(check: &PathCheck) -> String {
    let mut out = format!("{}  ({}, {})\n", check.path, check.backend.devices(), check.why);
    for way in &check.ways {
        row(&mut out, "delay", way, &delay(&way.delay), way.delay.judged);
        if let Some(checked) = &way.rate {
            row(&mut out, "rate", way, &rate(checked), checked.judged);
        }
        row(&mut out, "loss", way, &loss(&way.loss), way.loss.judged);
    }
    if let Some(capacity) = &check.capacity {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  carries     {}", carries(capacity).join("\n              "));
    }
    out.push('\n');
    out
}

fn row(out: &mut String, what: &str, way: &WayCheck, found: &str, judged: LimitVerdict) {
    let mark = match judged {
        LimitVerdict::Within => "ok",
        LimitVerdict::Outside => "OUTSIDE",
        LimitVerdict::Open => "not judged",
    };
    let name = format!("{what} {}", way.direction);
    let _ = writeln!(out, "  {name:<11} {mark:<10} {found}");
}

fn delay(check: &DelayCheck) -> String {
    let error = |name: &str, ns: Option<i64>| ns.map(|ns| format!("{name} {}", signed(ns)));
    let figures =
        [error("p50", check.p50_ns), error("p90", check.p90_ns), error("p99", check.p99_ns)];
    let figures: Vec<String> = figures.into_iter().flatten().collect();
    format!(
        "{} and {} (at most {} and {} at p50 and p99; {} packets)",
        check.expected_ns,
        if figures.is_empty() { "nothing came".to_owned() } else { figures.join(", ") },
        Nanos(check.limit_p50_ns),
        Nanos(check.limit_p99_ns),
        check.n
    )
}

fn signed(ns: i64) -> String {
    let sign = if ns < 0 { '−' } else { '+' };
    format!("{sign}{}", Nanos(ns.unsigned_abs()))
}

fn rate(check: &RateCheck) -> String {
    let bits = |bps: f64| BitRate(bps.round() as u64);
    let achieved = match (check.achieved_bps, check.error) {
        (Some(achieved), Some(error)) => {
            format!("{}, {:+.3} % off", bits(achieved), 100.0 * error)
        }
        _ => "nothing came".to_owned(),
    };
    format!(
        "{achieved} of {} (at most ±{}; {} offered)",
        BitRate(check.expected_bps),
        percent(check.limit),
        bits(check.offered_bps)
    )
}

fn loss(check: &LossCheck) -> String {
    let mut found = format!("{} of {} packets", check.lost, check.sent);
    if let Some([least, most]) = check.expected {
        let _ = write!(found, ", {least} to {most} expected");
    }
    if check.by_own_account != check.lost {
        let _ = write!(found, "; the path counted {}", check.by_own_account);
    }
    if check.device_drops > 0 {
        let _ = write!(found, "; {} lost in devices", check.device_drops);
    }
    if check.dropped_by_queue > 0 {
        let _ = write!(found, "; {} more found the queue full", check.dropped_by_queue);
    }
    if check.dropped_at_receiver > 0 {
        let _ = write!(found, "; {} more found the socket full", check.dropped_at_receiver);
    }
    if let (Some(burst), Some(expected)) = (check.mean_burst, check.expected_burst) {
        let _ = write!(found, "; mean burst {burst:.2}, {expected:.2} expected");
    }
    found
}

fn carries(capacity: &Capacity) -> Vec<String> {
    let bits = |bps: Option<f64>| {
        bps.map_or_else(|| "nothing".to_owned(), |bps| BitRate(bps.round() as u64).to_string())
    };
    let packets = |rate: Option<f64>| {
        rate.map_or_else(|| "none".to_owned(), |rate| PacketRate(rate.round() as u64).to_string())
    };
    let mut lines = vec![format!(
        "{} of a byte stream, {} without offloads",
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
    use deadheat_contract::contract::Direction;
    use deadheat_path::network::Backend;

    fn found() -> PathCheck {
        PathCheck {
            path: "delay=1ms,rate=20mbit".into(),
            backend: Backend::Tun,
            why: "/dev/net/tun can be used".into(),
            ways: vec![WayCheck {
                direction: Direction::Up,
                delay: DelayCheck {
                    expected_ns: Nanos::from_millis(1),
                    n: 1_000,
                    min_ns: Some(-200),
                    p50_ns: Some(-150),
                    p90_ns: Some(7_000),
                    p99_ns: Some(61_000),
                    max_ns: Some(70_000),
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
            capacity: Some(Capacity {
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
    fn what_was_found_is_said_line_by_line() {
        let want = "\
delay=1ms,rate=20mbit  (TUN devices, /dev/net/tun can be used)
  delay up    OUTSIDE    1.00 ms and p50 −150 ns, p90 +7.00 µs, p99 +61.0 µs (at most 10.0 µs and \
50.0 µs at p50 and p99; 1000 packets)
  rate up     ok         20.0 Mbit/s, -0.010 % off of 20.0 Mbit/s (at most ±0.1 %; 25.0 Mbit/s \
offered)
  loss up     not judged 3 of 1000 packets, 0 to 0 expected; the path counted 2; 1 lost in devices; \
4 more found the queue full; 1 more found the socket full; mean burst 1.50, 1.00 expected
  carries     12.3 Gbit/s of a byte stream, 2.50 Gbit/s without offloads
              1.10 Mpps decided on meanwhile
              270 kpps of 64 B datagrams, one a call; loopback none

";
        assert_eq!(lines(&found()), want);
        assert!(conclusion(&[found()]).starts_with("Outside its limits: delay=1ms,rate=20mbit."));
        assert!(conclusion(&[]).starts_with("Everything"));
    }

    #[test]
    fn what_is_not_emulated_is_refused() {
        for path in ["loopback", "sim:delay=1ms"] {
            let error = check(path).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{error}");
        }
    }
}
