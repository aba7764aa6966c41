//! Whole races and maps of models: the same result each time, in one piece or in parts, and what cannot be simulated is
//! refused.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test helper that fails is a failed test")]

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output};

use deadheat::analysis::{compare, derived};
use deadheat::path::network::Network;
use deadheat::path::{Family, PathKind};
use deadheat::race::Race;
use deadheat::result::map::file::Map;
use deadheat::result::map::shard::Shard;
use deadheat::result::outcome::Status;
use deadheat::result::save;
use deadheat::transport::Contender;
use deadheat::trial::sim::Simulation;
use deadheat::workload;

/// The saved race without the time of day at which it ran.
fn saved(race: &Race) -> String {
    let mut outcome = race.run().unwrap();
    outcome.started = String::new();
    serde_json::to_string_pretty(&outcome).unwrap()
}

#[test]
fn a_race_is_the_same_to_the_last_bit() {
    let all = deadheat::transport::ALL.iter();
    let virtually = all.filter(|one| one.userspace().is_some() && one.info().real_time.is_none());
    let contenders: Vec<&str> = virtually.map(|one| one.info().id).collect();
    let race = |seed| {
        Race::new(contenders.clone())
            .path("sim:delay=10ms,jitter=2ms,loss=1%,rate=20mbit,queue=50ms")
            .workload("ping:count=200")
            .blocks(3)
            .seed(seed)
    };
    let first = saved(&race(7));
    assert_eq!(first, saved(&race(7)));
    assert_ne!(first, saved(&race(8)));
    for says in ["\"hostname\": \"simulated\"", "\"kind\": \"simulated\""] {
        assert!(first.contains(says), "{says}");
    }
    // No host took part, so nothing of one is known.
    assert!(!first.contains("steal_share") && !first.contains("\"load\""));
}

fn refusal(race: &Race) -> String {
    let error = race.check().unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
    error.to_string()
}

#[test]
fn what_cannot_be_simulated_is_refused_by_name() {
    let race = |contender: &str| Race::new([contender]).path("sim:delay=5ms");
    for contender in ["tcp", "udp:gso=off", "unix", "icmp", "pipe"] {
        let Err(error) = race(contender).check() else { panic!("{contender}") };
        let said = error.to_string();
        let name = contender.split(':').next().unwrap();
        assert!(said.contains(name), "{said}");
    }
    let said = refusal(&race("tcp"));
    assert!(said.contains("carried by the kernel") && said.contains("arq"), "{said}");
    let mixed = race("mix:events=arq,state=udp").workload("events");
    assert!(refusal(&mixed).contains("`udp` is carried by the kernel"));
    assert!(refusal(&race("arq").explain()).contains("--explain"));
    assert!(refusal(&race("arq").placement("busy")).contains("on no CPU"));
    assert!(refusal(&race("arq").workload("bulk:file=/etc/hostname")).contains("/etc/hostname"));
    let two = Race::new(["arq"]).path("sim:delay=5ms + delay=6ms");
    assert!(refusal(&two).contains("one link"));
    for path in ["loopback", "delay=5ms"] {
        let said = refusal(&Race::new(["sim-datagram"]).path(path));
        assert!(said.contains("virtual time only") && said.contains("--path sim:"), "{said}");
    }
    let said = refusal(&Race::new(["sim-datagram"]).to("host.example"));
    assert!(said.contains("virtual time only"), "{said}");
    let mut small = Network::parse("delay=5ms").unwrap();
    small.links[0].mtu = 300;
    let simulation = Simulation::new("sim:delay=5ms", small, Family::Any).unwrap();
    let contender = Contender::parse("sim-datagram").unwrap();
    let task = workload::parse("ping:size=65507").unwrap();
    let said = simulation.fits(&contender, &*task).unwrap_err().to_string();
    assert!(said.contains("raise mtu or lower size"), "{said}");
}

#[test]
fn simulated_and_measured_races_are_not_compared() {
    let race = Race::new(["arq"]).path("sim:delay=5ms").workload("ping:count=50").blocks(1);
    let simulated = race.seed(1).run().unwrap();
    let mut measured = simulated.clone();
    measured.path.kind = PathKind::Loopback;
    assert!(compare::check(&[&simulated], &[&simulated]).is_ok());
    assert!(compare::check(&[&measured], &[&measured]).is_ok());
    let said = compare::check(&[&measured], &[&simulated]).unwrap_err().to_string();
    assert!(said.contains("measured") && said.contains("simulated"), "{said}");
}

pub(super) fn deadheat(args: &[&str], dir: &Path) -> Output {
    let program = env!("CARGO_BIN_EXE_deadheat");
    Command::new(program).args(args).current_dir(dir).output().unwrap()
}

/// The command of a small map, and what `extra` adds to it.
fn map<'a>(extra: &[&'a str]) -> Vec<&'a str> {
    let command = "map quic arq -q -w state:count=30 --path sim:rate=20mbit --blocks 8 --seed 7 --over \
                   delay=1ms..100ms/3 --over loss=0%|5%";
    command.split_whitespace().chain(extra.iter().copied()).collect()
}

#[test]
fn a_map_of_models_is_as_the_golden_file_says() {
    let dir = tempfile::tempdir().unwrap();
    let output = deadheat(&map(&["-o", "map.json", "--picture", "map.svg"]), dir.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/map-sim.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap());
    let again = deadheat(&["report", "map.json"], dir.path());
    assert_eq!(String::from_utf8(again.stdout).unwrap(), text);
    let drawn = deadheat(&["report", "map.json", "--figure", "map"], dir.path());
    assert_eq!(drawn.stdout, std::fs::read(dir.path().join("map.svg")).unwrap());
}

/// Lines of the intervals of one trial of each kind of work, with an outage in some of them.
#[test]
fn lines_of_intervals_are_as_the_golden_file_says() {
    let gone = "sim:delay=20ms,loss=30%,burst=2s,seed=4";
    let clean = "sim:delay=20ms,rate=10mbit,seed=7";
    let works = [
        ("sim-datagram", "ping:interval=20ms,time=6s", gone),
        ("sim-datagram", "cbr:rate=1mbit,time=6s", gone),
        ("kcp", "ping:interval=20ms,time=6s", gone),
        ("quic", "bulk:time=3s,direction=both,streams=2", clean),
        ("quic", "rpc:count=400", clean),
        ("quic", "connect:count=40", clean),
        ("quic", "events:count=40", clean),
        ("sim-datagram", "video:count=60", clean),
        ("sim-datagram", "state:count=120", gone),
        ("sim-datagram", "inputs:count=120", clean),
        ("sim-datagram", "voice:count=150", gone),
        ("quic", "streams:count=400", clean),
    ];
    let dir = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for (contender, work, path) in works {
        let race = ["race", contender, "-w", work, "--path", path, "--blocks", "1", "-i", "1s"];
        let args: Vec<&str> =
            race.into_iter().chain(["-q", "--seed", "7", "-o", "r.json"]).collect();
        let output = deadheat(&args, dir.path());
        assert!(output.status.success(), "{output:?}");
        let stdout = String::from_utf8(output.stdout).unwrap();
        let start = format!("block 1  {contender}  ");
        let lines: Vec<&str> = stdout.lines().filter(|line| line.starts_with(&start)).collect();
        writeln!(text, "{work} over {path}\n{}\n", lines.join("\n")).unwrap();
        // They come before the report, in order of time, without a gap.
        let on_time = lines.iter().filter(|line| !line.contains("reported late"));
        let spans = on_time.map(|line| line[start.len()..].split_once(" s").unwrap().0);
        let ends: Vec<&str> = spans.flat_map(|span| span.split('–')).collect();
        assert_eq!(ends.first(), Some(&"0.00"), "{stdout}");
        assert!(ends[1..].chunks_exact(2).all(|pair| pair[0] == pair[1]), "{stdout}");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/intervals.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap());
}

#[test]
fn parts_of_a_map_are_joined_to_the_bytes_of_one_run() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str], code: i32| {
        let output = deadheat(args, dir.path());
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    run(&map(&["-o", "whole.json", "--jobs", "1"]), 0);
    run(&map(&["-o", "a.json", "--shard", "1/2"]), 0);
    run(&map(&["-o", "b.json", "--shard", "2/2"]), 0);
    let why = run(&["merge", "b.json", "-o", "map.json"], 2);
    assert!(why.contains("of 2 shards no file is 1"), "{why}");
    run(&["merge", "b.json", "a.json", "-o", "map.json"], 0);
    assert_eq!(read("map.json"), read("whole.json"));

    // A map that is not whole is replaced on no other terms, and continued by --resume.
    let why = run(&map(&["-o", "map.json", "--resume", "--margin", "9%"]), 2);
    assert!(why.contains("its `asked.margin` is 0.05, not 0.09"), "{why}");
    let mut broken = deadheat::result::map::file::load(&dir.path().join("map.json")).unwrap();
    broken.points.truncate(2);
    save::save(&broken, &dir.path().join("map.json")).unwrap();
    let why = run(&map(&["-o", "map.json"]), 2);
    assert!(why.contains("a map with 4 points to go; add --resume"), "{why}");
    run(&map(&["-o", "map.json", "--resume"]), 0);
    assert_eq!(read("map.json"), read("whole.json"));

    let why = run(
        &[
            "map",
            "quic",
            "arq",
            "-w",
            "state",
            "--path",
            "sim:",
            "--over",
            "delay=1ms|2ms",
            "--shard",
            "1/2",
        ],
        2,
    );
    assert!(why.contains("give all the same seed"), "{why}");
    let why =
        run(&["map", "tcp", "udp", "-w", "ping", "--over", "delay=1ms|2ms", "--jobs", "2"], 2);
    assert!(why.contains("would disturb each other"), "{why}");
    let why = run(&["compare", "map.json", "map.json"], 1);
    assert!(why.contains("this is a map"), "{why}");
}

/// Parts that overlap, are missing, or are of another map are refused by name, and nothing is written.
#[test]
fn parts_that_make_no_map_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let output = deadheat(&map(&["-o", "whole.json"]), dir.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let whole = deadheat::result::map::file::load(&dir.path().join("whole.json")).unwrap();
    let write = |name: &str, typed: &str, change: fn(&mut Map)| {
        let shard = Shard::parse(typed).unwrap();
        let mut part = Map { shard: Some(shard), ..whole.clone() };
        part.points = (0..6).filter(|i| shard.has(*i)).map(|i| whole.points[i].clone()).collect();
        change(&mut part);
        save::save(&part, &dir.path().join(name)).unwrap();
    };
    for (name, shard) in [("a.json", "1/2"), ("b.json", "2/2"), ("third.json", "3/3")] {
        write(name, shard, |_| ());
    }
    write("short.json", "2/2", |part| drop(part.points.pop()));
    write("seed.json", "2/2", |part| part.seed = 8);
    write("grid.json", "2/2", |part| part.asked.over[1].levels.swap(0, 1));
    write("older.json", "2/2", |part| part.deadheat.version = "0.0.9".into());
    write("mixed.json", "2/2", |part| part.points[1].seed ^= 1);
    write("none.json", "2/2", |part| part.shard = Some(Shard { part: 0, of: 0 }));
    std::fs::write(dir.path().join("empty.json"), "").unwrap();
    std::fs::write(dir.path().join("torn.json"), "{\"kind\": \"map\", \"format\": 1, ").unwrap();
    for (parts, code, says) in [
        ("a.json third.json", 2, "a.json (shard 1 of 2) and third.json (shard 3 of 3) both have"),
        ("a.json b.json a.json", 2, "a.json is given twice"),
        ("a.json", 2, "of 2 shards no file is 2"),
        ("a.json short.json", 2, "short.json, shard 2 of 2, lacks"),
        ("a.json seed.json", 2, "seed.json is of another map than a.json: its `seed` is 8, not 7"),
        ("a.json grid.json", 2, "grid.json is of another map than a.json: its `asked.over` is"),
        ("a.json older.json", 2, "its `deadheat` is {\"version\":\"0.0.9\"}"),
        ("a.json mixed.json", 2, "mixed.json has delay="),
        ("a.json none.json", 1, "none.json: there is no shard 0 of 0"),
        ("a.json empty.json", 1, "empty.json"),
        ("a.json torn.json", 1, "torn.json"),
        ("a.json missing.json", 1, "missing.json"),
    ] {
        let mut args = vec!["merge", "-o", "map.json"];
        args.extend(parts.split(' '));
        let output = deadheat(&args, dir.path());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{parts}: {said}");
        assert!(said.contains(says), "{parts}: {said}");
        assert!(!dir.path().join("map.json").exists(), "{parts}");
    }
    let merged = deadheat(&["merge", "b.json", "a.json", "-o", "map.json"], dir.path());
    assert_eq!(merged.status.code(), Some(0), "{merged:?}");
}

#[test]
fn a_race_that_is_gone_on_with_ends_as_one_in_one_piece() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let output = deadheat(args, dir.path());
        let code = output.status.code();
        assert!(code == Some(0) || code == Some(3), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let path = "sim:delay=25ms,loss=1%,rate=20mbit,queue=50ms";
    let race = ["race", "sim-datagram", "arq", "-w", "cbr:rate=1mbit,time=1s", "--path", path];
    let plan = ["--seed", "3", "--margin", "1%", "--blocks", "10", "-o", "whole.json"];
    let text = run(&[&race[..], &plan].concat());
    assert!(text.contains("simulated") && text.contains("virtual"), "{text}");
    let whole = derived::load(&dir.path().join("whole.json")).unwrap();
    let mut part = whole.clone();
    part.trials.retain(|trial| trial.block < 3);
    part.status = Status::Interrupted;
    assert!(part.trials.len() < whole.trials.len());
    save::save(&part, &dir.path().join("part.json")).unwrap();
    run(&["race", "--resume", "part.json"]);
    assert_eq!(derived::load(&dir.path().join("part.json")).unwrap(), whole);
    assert_eq!(run(&["report", "whole.json"]), text);
    assert!(run(&["report", "whole.json", "--format", "markdown"]).contains("simulated"));
}
