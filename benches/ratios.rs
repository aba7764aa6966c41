//! The figures as ratios: deadheat beside the floor and beside its peers, in one run, interleaved
//! A B A B, as medians of paired ratios with their range. A ratio survives a slow machine; a pair
//! of absolute figures from two runs does not.
//!
//! `cargo bench --bench ratios -- [ping] [lateness] [bulk] [zero-copy] [streams] [datagrams] [best]
//! [spacing] [quic] [libraries] [prices] [links] [aa]` measures what is named, or all. Peers are
//! those on the PATH.
#![allow(clippy::print_stdout, reason = "a program whose output is its purpose")]

#[allow(dead_code, reason = "the floor program shows more of it")]
#[path = "floor/mod.rs"]
mod floor;
#[path = "../tests/common/handed_in.rs"]
mod handed_in;
#[path = "ratios/ladder.rs"]
mod ladder;
#[path = "ratios/libraries.rs"]
mod libraries;
#[path = "ratios/peers.rs"]
mod peers;
#[path = "ratios/race.rs"]
mod race;
#[path = "race_file.rs"]
mod race_file;
#[path = "ratios/spacing.rs"]
mod spacing;
#[path = "ratios/table.rs"]
mod table;

use std::error::Error;

use floor::{Cpus, Give, Ping, Protocol, Stream, Take, Wait};
use race::Race;
use spacing::Observer;
use table::{Better, Paired, Row, Target};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Pairs per figure.
const ROUNDS: usize = 5;
/// Pairs per figure of bulk data beside iperf3, and the least number of pairs that reach it.
const BULK_ROUNDS: usize = 10;
const BULK_HELD: usize = 9;
/// A/A races.
const RACES: usize = 60;

const CLOSED_LOOP: &str = "ping:size=64,window=1,count=20000";
const OPEN_LOOP: &str = "ping:size=64,interval=1ms,count=3000";
const BULK: &str = "bulk:time=1s";

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if !words.iter().any(|word| word == "--bench") {
        println!("ratios: measures only under `cargo bench`");
        return Ok(());
    }
    type Figure = fn() -> Outcome<Vec<Row>>;
    let figures: [(&str, Figure); 13] = [
        ("ping", pings),
        ("lateness", lateness),
        ("bulk", bulk),
        ("zero-copy", zero_copy),
        ("streams", ladder::streams),
        ("datagrams", ladder::datagrams),
        ("best", ladder::best),
        ("spacing", spacings),
        ("quic", libraries::quic),
        ("libraries", libraries::libraries),
        ("prices", libraries::prices),
        ("links", libraries::links),
        ("aa", same_against_same),
    ];
    let named = |name: &str| words.iter().any(|word| word == name);
    let all = !figures.iter().any(|(name, _)| named(name));
    println!("{}", table::HEADER);
    for (_, figure) in figures.iter().filter(|(name, _)| all || named(name)) {
        for row in figure()? {
            println!("{row}");
        }
    }
    Ok(())
}

fn pings() -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for (protocol, id) in [(Protocol::Tcp, "tcp"), (Protocol::Udp, "udp")] {
        for (placement, cpus, wait) in
            [("busy", Cpus::apart()?, Wait::Busy), ("same-core", Cpus::together()?, Wait::Blocking)]
        {
            let mut floor = Paired::default();
            let mut sockperf = Paired::default();
            let mut missing = None;
            let mut excess = Vec::new();
            for _ in 0..ROUNDS {
                let ours = Race::new(id, CLOSED_LOOP).placement(placement).run()?.rtt_p50()?;
                let bare = Ping::new(protocol, cpus, wait).run()?.p50 as f64;
                floor.add(ours, bare);
                excess.push(ours - bare);
                match peers::sockperf(protocol, cpus, wait) {
                    Ok(theirs) => sockperf.add(ours, theirs),
                    Err(why) => missing = Some(why.to_string()),
                }
            }
            let figure = format!("{id} 64 B round trip p50, {placement}, µs");
            let show = |ns: f64| format!("{:.2}", ns / 1e3);
            // Where nobody sleeps the excess counts; where both take turns, the share.
            let most = if wait == Wait::Busy { 1.10 } else { 1.05 };
            let target = Target::Ratio(Better::Lower, most);
            rows.push(Row::paired(&format!("{figure}, beside the floor"), &floor, show, target));
            if wait == Wait::Busy {
                let target = Target::Value(Better::Lower, 300.0);
                rows.push(Row::alone(&format!("{figure}, over the floor"), &excess, show, target));
            }
            rows.push(Row::paired_or(
                &format!("{figure}, beside sockperf"),
                &sockperf,
                show,
                Target::Ratio(Better::Lower, 1.00),
                missing,
            ));
        }
    }
    Ok(rows)
}

fn lateness() -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for (waiting, placement, most_us) in [("hybrid", "same-core", 60.0), ("spinning", "busy", 1.0)]
    {
        let (mut p99, mut irtt, mut missing) = (Vec::new(), Paired::default(), None);
        for _ in 0..ROUNDS {
            let outcome = Race::new("udp", OPEN_LOOP).placement(placement).run()?;
            p99.push(outcome.lateness_p99()?);
            match (outcome.lateness_mean(), peers::irtt()) {
                (Some(ours), Ok(theirs)) => irtt.add(ours, theirs),
                (_, Err(why)) => missing = Some(why.to_string()),
                (None, _) => missing = Some("no mean: some samples are censored".to_owned()),
            }
        }
        let show = |ns: f64| format!("{:.2}", ns / 1e3);
        rows.push(Row::alone(
            &format!("send lateness p99 at 1 kHz, {waiting}, µs"),
            &p99,
            show,
            Target::Value(Better::Lower, most_us * 1e3),
        ));
        rows.push(Row::paired_or(
            &format!("mean send lateness at 1 kHz, {waiting}, µs, beside irtt's timer error"),
            &irtt,
            show,
            Target::Ratio(Better::Lower, 1.00),
            missing,
        ));
    }
    Ok(rows)
}

/// A constant rate: how exact it is, and how even beside iperf3 and irtt, all seen by one observer.
fn spacings() -> Outcome<Vec<Row>> {
    let show = |ns: f64| format!("{:.2}", ns / 1e3);
    let mut rows = Vec::new();
    for packets_a_second in [1_000_u64, 10_000, 50_000] {
        let period = 1e9 / packets_a_second as f64;
        let work = format!("cbr:rate={packets_a_second}pps,size=64,time=1s");
        for (waiting, placement, most_us) in
            [("spinning", "busy", 5.0), ("hybrid", "cross-core", 60.0)]
        {
            let (mut errors, mut kept) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                let observer = Observer::begin(64)?;
                let ran = Race::new("udp", &work).placement(placement).run()?;
                errors.push(observer.gap_error_p99(period)?);
                kept.push((ran.rate_kept()? - 1.0).abs() * 100.0);
            }
            let at = format!("cbr {packets_a_second} pps, {waiting}");
            rows.push(Row::alone(
                &format!("{at}: inter-departure error p99, µs"),
                &errors,
                show,
                Target::Value(Better::Lower, most_us * 1e3),
            ));
            rows.push(Row::alone(
                &format!("{at}: mean rate off by, %"),
                &kept,
                |share| format!("{share:.4}"),
                Target::Value(Better::Lower, 0.1),
            ));
        }
        let placement = Cpus::apart()?;
        type Peer<'a> = (&'a str, Box<dyn Fn() -> Outcome<()>>);
        let peers: [Peer<'_>; 2] = [
            ("iperf3", Box::new(move || peers::iperf3_paced(placement, packets_a_second))),
            ("irtt", Box::new(move || peers::irtt_paced(packets_a_second))),
        ];
        for (name, run) in peers {
            let (mut pairs, mut missing) = (Paired::default(), None);
            for _ in 0..ROUNDS {
                let observer = Observer::begin(64)?;
                Race::new("udp", &work).placement("cross-core").run()?;
                let ours = observer.gap_error_p99(period)?;
                let observer = Observer::begin(64)?;
                match run().and_then(|()| observer.gap_error_p99(period)) {
                    Ok(theirs) => pairs.add(ours, theirs),
                    Err(why) => missing = Some(why.to_string()),
                }
            }
            rows.push(Row::paired_or(
                &format!("cbr {packets_a_second} pps, hybrid: inter-departure error p99, µs, beside {name}"),
                &pairs,
                show,
                Target::Ratio(Better::Lower, 1.0),
                missing,
            ));
        }
    }
    Ok(rows)
}

/// Bulk data as it is sent by default, beside the floor and beside iperf3.
fn bulk() -> Outcome<Vec<Row>> {
    let cpus = Cpus::apart()?;
    let mut floor = Paired::default();
    let beside = beside_iperf3("tcp:cc=cubic", &[], cpus, |ours| {
        let (give, take) = (Give::Write, Take::Read);
        let bare = Stream { give, take, call: 128 << 10, cpus, congestion: "cubic" };
        floor.add(ours, bare.run()?);
        Ok(())
    })?;
    let target = Target::Ratio(Better::Higher, 0.95);
    let beside_floor =
        Row::paired("tcp goodput, cubic, Gbit/s, beside the floor", &floor, gigabits, target);
    Ok([vec![beside_floor], beside].concat())
}

/// Bulk data that is sent from pages without a copy, beside that of iperf3.
fn zero_copy() -> Outcome<Vec<Row>> {
    beside_iperf3("tcp:cc=cubic,io=sendfile", &["-Z"], Cpus::apart()?, |_| Ok(()))
}

/// A contender beside iperf3 with these options, in pairs; each figure of ours goes to `each`, too.
fn beside_iperf3(
    contender: &str,
    options: &[&str],
    cpus: Cpus,
    mut each: impl FnMut(f64) -> Outcome<()>,
) -> Outcome<Vec<Row>> {
    let placement = format!("{},{}", cpus.near, cpus.far);
    let (mut pairs, mut missing) = (Paired::default(), None);
    for _ in 0..BULK_ROUNDS {
        let ours = Race::new(contender, BULK).placement(&placement).run()?;
        let ours = ours.metric("goodput_bps")?;
        each(ours)?;
        match peers::iperf3("iperf3", Protocol::Tcp, cpus, options) {
            Ok(theirs) => pairs.add(ours, theirs),
            Err(why) => missing = Some(why.to_string()),
        }
    }
    let options: String = options.iter().map(|option| format!(" {option}")).collect();
    let figure = format!("{contender} goodput, Gbit/s, beside iperf3{options}");
    let target = Target::Ratio(Better::Higher, 1.00);
    let held = Row::held(&format!("{figure}: pairs of at least 1.00"), &pairs, 1.00, BULK_HELD);
    Ok(vec![Row::paired_or(&figure, &pairs, gigabits, target, missing), held])
}

fn gigabits(bps: f64) -> String {
    format!("{:.1}", bps / 1e9)
}

/// Quick races of a contender against itself, default placement: how often one of the two is said
/// to be ahead.
fn same_against_same() -> Outcome<Vec<Row>> {
    let (mut ahead, mut decided) = (0, 0);
    for seed in 1..=RACES {
        let outcome = Race::quick("udp udp").seed(seed).run()?;
        ahead += usize::from(outcome.says_ahead());
        decided += usize::from(outcome.is_decided());
    }
    let most = 3;
    Ok(vec![Row {
        figure: format!("udp against udp, {RACES} quick races: said to be ahead"),
        ours: format!("{ahead} of {RACES} ({decided} decided)"),
        theirs: "none should be".to_owned(),
        ratio: String::new(),
        target: format!("at most {most} (5 %)"),
        met: Some(ahead <= most),
    }])
}
