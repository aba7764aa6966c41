//! What takes long: hours of races of all kinds under all attacks in turns, and the same race with and without
//! an attack.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::honest::{Honest, PING, read};
use crate::server::{Holdings, Server};
use crate::siege::{Attack, Field, KEPT_OF_LARGE, Row, under};
use crate::{crowds, datagrams, plans};

/// Every attack that leaves room for honest clients.
const ATTACKS: &[(&str, Attack)] = &[
    ("idle", |field| crowds::idle(field, 1_000)),
    ("storm", |field| crowds::storm(field, Some(4_000))),
    ("slow", |field| crowds::slow(field, 1_000)),
    ("garbage", crowds::garbage),
    ("spoofed flood", datagrams::flood),
    ("vanishing", crowds::vanishing),
    ("hostile plans", plans::hostile),
];

/// Races of all kinds.
const RACES: &[&[&str]] = &[
    PING,
    &["tcp", "-w", "ping:count=30,interval=1ms"],
    &["quic", "-w", "ping:count=30,interval=1ms"],
    &["kcp", "-w", "ping:count=30,interval=1ms"],
    &["tcp", "-w", "bulk:bytes=2MB"],
    &["udp", "-w", "bulk:time=100ms"],
    &["quic", "-w", "bulk:bytes=1MB,direction=down"],
    &["kcp", "-w", "bulk:bytes=200kB"],
];

/// Attacks until `time` is over, in turns, each at least twice. What the first turn of each leaves in the
/// allocator is there once; what grows from turn to turn is a leak.
pub(crate) fn soak(time: Duration) {
    let dir = tempfile::tempdir().unwrap();
    // Datagrams on loopback are faster than the default.
    let server = Server::start(dir.path(), &["--max-rate", "100gbit"], None);
    let idle = server.holds();
    let began = Instant::now();
    let slice = (time / (10 * ATTACKS.len() as u32)).max(Duration::from_secs(1));
    let mut row = Row { name: "soak", ..Row::default() };
    let (mut honest, mut turns, mut warm) = (Honest::default(), 0, idle);
    let mut kinds = RACES.iter().cycle();
    while turns < 2 || began.elapsed() < time {
        for (name, attack) in ATTACKS {
            let until = Instant::now() + slice;
            let (thrown, faults) = under(*attack, || {
                for race in kinds.by_ref() {
                    honest.race(dir.path(), race, &[]);
                    if Instant::now() > until {
                        break;
                    }
                }
            });
            row.faults.extend(faults);
            let (through, races) = (honest.through, honest.races);
            println!("  {name}: {thrown}; {through} of {races} so far, {} kB", server.memory());
        }
        turns += 1;
        if turns == 1 {
            // Its memory may be what it is; only the descriptors and the threads are waited for.
            let any = Holdings { memory: u64::MAX, ..idle };
            warm = Holdings { memory: server.calm_down(any).memory, ..idle };
        }
    }
    let (attacks, minutes) = (ATTACKS.len(), began.elapsed().as_secs() / 60);
    row.thrown = format!("{attacks} attacks in turns, {turns} times, {minutes} min");
    row.judge_races(&honest, Duration::ZERO);
    row.judge_server(&server, warm, KEPT_OF_LARGE);
    row.faults.extend(server.end());
    row.conclude();
}

/// 1,000 standing connections and 4,000 new ones a second.
fn crowd_and_storm(field: &Field<'_>) -> String {
    std::thread::scope(|scope| {
        let idle = scope.spawn(|| crowds::idle(field, 1_000));
        let storm = crowds::storm(field, Some(4_000));
        format!("{}; {storm}", idle.join().unwrap())
    })
}

/// The same race without and with an attack, in turns, so many times.
pub(crate) fn figures(pairs: u32, blocks: &str) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[], None);
    println!("  | race | trials valid | messages lost | RTT p50 | interval | half as wide |");
    println!("  |---|---|---|---|---|---|");
    let mut faults = Vec::new();
    for pair in 1..=pairs {
        let quiet = figure(dir.path(), blocks);
        println!("  | {pair} quiet | {quiet} |");
        let mut attacked = String::new();
        let (thrown, _) = under(crowd_and_storm, || attacked = figure(dir.path(), blocks));
        println!("  | {pair} attacked | {attacked} |");
        println!("  {thrown}");
        faults.extend([quiet, attacked].into_iter().filter(|figure| figure == NONE));
    }
    faults.extend(server.end());
    assert!(faults.is_empty(), "{faults:?}");
}

const NONE: &str = "did not come through";

/// One race, as cells of a table.
fn figure(dir: &std::path::Path, blocks: &str) -> String {
    let race = ["udp", "tcp", "-w", "ping:count=200,interval=1ms"];
    let ran = std::process::Command::new(crate::server::program())
        .args(["race", "--idle", "host"])
        .args(race)
        .args(["--blocks", blocks, "-q", "-o", "figure.json", "--force", "--to", crate::server::V4])
        .current_dir(dir)
        .output()
        .unwrap();
    let file = dir.join("figure.json");
    let Some(race) = read(&file).filter(|_| matches!(ran.status.code(), Some(0 | 3))) else {
        return NONE.to_owned();
    };
    let _ = std::fs::remove_file(file);
    let trials = race["trials"].as_array().unwrap();
    let valid = trials.iter().filter(|trial| trial["valid"] == true).count();
    let lost =
        trials.iter().filter(|trial| trial["metrics"]["loss_share"].as_f64() > Some(0.0)).count();
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN) / 1e3;
    let summary = race["summary"].as_array().unwrap();
    let p50 = summary.iter().find(|s| s["metric"] == "rtt_p50_ns" && s["contender"] == 0).unwrap();
    let [estimate, low, high] = ["estimate", "low", "high"].map(|key| number(&p50[key]));
    let width = 50.0 * (high - low) / estimate;
    format!(
        "{valid} of {} | in {lost} trials | {estimate:.1} µs | {low:.1} to {high:.1} µs | ±{width:.1} %",
        trials.len()
    )
}
