//! Commands of the documents, run as a reader runs them, and what comes of each: a verdict, a table, a file.
//!
//! No command can be forgotten: each of README.md and docs/ falls under a rule here, or the test fails. A rule runs it as
//! it is typed, or in virtual time and smaller by a change that it declares, or leaves it out with the reason. Races of
//! kernels are run by `cli::documents`, on trials that take no time.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may end where it finds the unexpected"
)]
#![allow(clippy::print_stdout, reason = "a command that is left out says why")]

#[path = "../common/documents.rs"]
mod extracted;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::thread;

use extracted::DocumentedCommand;

/// Way in which a command is dealt with.
enum Rule {
    /// Run as typed, or with these words instead; the outcome then has what the last part names.
    Run(Vec<String>, Promise),
    /// Not run here, for this reason.
    Left(&'static str),
}

/// What a command promises.
enum Promise {
    /// Words on standard output, one of these.
    Says(&'static [&'static str]),
    /// A verdict or, of a single contender, its figures; and a saved race of as many blocks as verdicts take.
    Race,
    /// A map whose points are decided, in the file that is named.
    Map,
    /// A file or directory that is not empty.
    File(String),
}

/// A study of the kind that a reader runs, which takes no time.
const STUDY: &str = r#"
title = "Floors"
question = "Which one has the older state?"
[[race]]
id = "floors"
variant = "done_right"
about = "State under loss."
contenders = ["arq", "sim-datagram"]
workload = "state:count=300"
path = "sim:delay=25ms,loss=10%"
blocks = 8
[[claim]]
id = "arq-older"
says = "State over ARQ is older."
[[claim.test]]
race = "floors"
metric = "age_mean_ns"
of = { contender = "arq" }
against = { contender = "sim-datagram" }
expect = "above 1.05"
"#;

/// An application of the kind that a reader describes.
const APP: &str = r#"
format = 1
title = "Mine"
contenders = ["arq", "sim-datagram"]
[path]
default = "sim:delay=25ms,loss=2%"
[[traffic]]
name = "world"
kind = "state"
size = "200B"
per-second = 30
stale-after = "100ms"
"#;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn rule(command: &DocumentedCommand) -> Rule {
    let typed = command.words.clone();
    let named: Vec<&str> = typed.iter().map(String::as_str).collect();
    match named[..] {
        ["race", ..] if command.option("--path").is_some_and(|path| path.starts_with("sim:")) => {
            Rule::Run(smaller(typed), Promise::Race)
        }
        ["race", ..] => Rule::Left("cli::documents runs it, on trials that take no time"),
        ["matrix", ..] => Rule::Left("takes ten minutes; sim/matrix.rs runs it"),
        ["map", ..] => Rule::Run(coarse(typed), Promise::Map),
        ["merge", ..] => Rule::Run(typed, Promise::File("map.json".into())),
        ["list", ..] | ["study", "list"] => {
            Rule::Run(typed, Promise::Says(&["tcp", "kreylos", "game"]))
        }
        ["study", "show", ..] => Rule::Run(typed, Promise::Says(&["deadheat race"])),
        ["study", "run", _, "--side-by-side", ..] => {
            Rule::Left("real time, on emulated networks; deadheat_race's study::run::tests has it")
        }
        ["study", "run", ..] => Rule::Run(small_study(&named), Promise::Says(&["1 holds"])),
        ["study", "report", ..] => {
            let html = command.option("-o").map(|file| Promise::File(file.into()));
            Rule::Run(typed, html.unwrap_or(Promise::Says(&["1 holds"])))
        }
        ["advise", ..] => Rule::Run(small_app(&named), Promise::Says(&["arq", "sim-datagram"])),
        ["report" | "compare" | "history" | "import", ..] => {
            let file = command.option("-o").map(|file| Promise::File(file.into()));
            Rule::Run(typed, file.unwrap_or(Promise::Says(VERDICT)))
        }
        ["serve", ..] => Rule::Left("a server without end; tests/server.rs runs it"),
        ["line", ..] => Rule::Left("takes a minute; tests/network/ways.rs runs it"),
        ["path", "show", ..] => {
            let file = command.option("--picture").map(|file| Promise::File(file.into()));
            Rule::Run(typed, file.unwrap_or(Promise::Says(&["Links"])))
        }
        ["path", ..] => Rule::Left("another program on a path; tests/network/path.rs runs it"),
        ["completions", ..] => Rule::Run(typed, Promise::Says(&["complete"])),
        ["man", "--all", folder] => {
            let page = format!("{folder}/deadheat-race.1");
            Rule::Run(typed, Promise::File(page))
        }
        ["man", ..] => Rule::Run(typed, Promise::Says(&["EXIT STATUS"])),
        ["doctor", ..] => Rule::Left("measures this machine for half a minute"),
        _ => panic!("{}: no rule for `deadheat {}`", command.place, command.text()),
    }
}

/// Fewest blocks with which anything is decided.
const FEWEST: u64 = 6;

/// Words of which each answer has one.
const VERDICT: &[&str] = &[
    "dead heat",
    "ahead of",
    "undecided",
    "same within the margin",
    "nothing to compare",
    "No verdict:",
    "History of",
];

/// Races in virtual time are as typed, but for sizes whose simulation takes long without optimisation, and as many blocks
/// as any verdict of three contenders takes.
fn smaller(typed: Vec<String>) -> Vec<String> {
    const SIZES: &[(&str, &str)] = &[
        ("bytes=100MB", "bytes=300kB"),
        ("bytes=4MB", "bytes=300kB"),
        ("bytes=1MB", "bytes=300kB"),
        ("time=7d", "time=1m"),
        ("time=2s", "time=300ms"),
        ("rate=200mbit", "rate=20mbit"),
        ("count=3000", "count=300,claim=p90"),
        ("count=1000,timeout=30s,claim=p99", "count=100,timeout=30s,claim=p90"),
        ("interval=1s,count=100", "interval=200ms,count=100"),
        (",claim=p99,count=300,claim=p90", ",claim=p90,count=300"),
    ];
    let shrunk =
        |word: String| SIZES.iter().fold(word, |word, (size, small)| word.replace(size, small));
    let mut typed: Vec<String> = typed.into_iter().map(shrunk).collect();
    if !typed.iter().any(|word| word == "--blocks") {
        typed.extend(words(&["--blocks", "10"]));
    }
    if !typed.iter().any(|word| word == "--seed") {
        typed.extend(words(&["--seed", SEED]));
    }
    if !typed.iter().any(|word| word == "-o") {
        typed.extend(words(&["-o", "of-a-race.json"]));
    }
    typed
}

/// Seed of what has none, so that a race in virtual time says the same each time: 1 of 200 sound races is not trusted.
const SEED: &str = "1";

/// Maps are of two protocols in user space in virtual time, with two levels of each key.
fn coarse(typed: Vec<String>) -> Vec<String> {
    let mut coarse = words(&["map", "arq", "sim-datagram", "-w", "state:count=60"]);
    let mut rest = typed.into_iter().skip_while(|word| !word.starts_with("--"));
    while let Some(option) = rest.next() {
        if option.starts_with("--over") {
            let levels = rest.next().unwrap();
            // A list stays as it is.
            let range = levels.rsplit_once('/').map(|(range, _)| format!("{range}/2"));
            coarse.extend([option, range.unwrap_or(levels)]);
        } else if option == "--path" {
            rest.next();
            coarse.extend(words(&["--path", "sim:"]));
        } else {
            coarse.push(option);
        }
    }
    if !coarse.iter().any(|word| word == "--seed") {
        coarse.extend(words(&["--seed", SEED]));
    }
    if !coarse.iter().any(|word| word == "-o") {
        coarse.extend(words(&["-o", "of-a-map.json"]));
    }
    coarse
}

/// Studies are a small one in virtual time instead of the bundled ones, which take minutes.
fn small_study(typed: &[&str]) -> Vec<String> {
    let mut small = words(&["study", "run", "mine.toml"]);
    // A single study has no folder of its own in the folder of all.
    let options = typed[2..].iter().skip_while(|word| !word.starts_with('-'));
    small.extend(options.filter(|word| **word != "--all").map(|word| (*word).to_owned()));
    small.extend(words(&["--seed", SEED]));
    small
}

/// Applications are a small one in virtual time.
fn small_app(typed: &[&str]) -> Vec<String> {
    let output = typed.iter().position(|word| *word == "-o").map(|at| typed[at + 1]);
    let mut small = words(&["advise", "mine-app.toml", "--seed", SEED]);
    small.extend(output.into_iter().flat_map(|folder| words(&["-o", folder])));
    small
}

fn run(typed: &[String], dir: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_deadheat"));
    command.args(typed).current_dir(dir).output().unwrap()
}

/// Returns what is wrong with the outcome of a command; `None` if it is as promised.
fn broken(output: &Output, typed: &[String], promise: &Promise, dir: &Path) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Some(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    let json = |file: &str| -> serde_json::Value {
        serde_json::from_slice(&fs::read(dir.join(file)).unwrap()).unwrap()
    };
    let named = |option: &str| {
        let at = typed.iter().position(|word| word == option).unwrap();
        typed[at + 1].as_str()
    };
    match promise {
        Promise::Says(any) => {
            (!any.iter().any(|word| said.contains(word))).then(|| format!("it says {said}"))
        }
        Promise::File(name) => {
            let there = fs::metadata(dir.join(name)).is_ok_and(|there| there.len() > 0);
            (!there).then(|| format!("no {name}"))
        }
        Promise::Race => {
            let race = json(named("-o"));
            let blocks = race["trials"].as_array().unwrap().last().unwrap()["block"].as_u64();
            let verdicts = race["verdicts"].as_array().unwrap();
            let is_for_figures = verdicts.is_empty() || named("--blocks") == "1";
            let few = !is_for_figures && blocks.is_none_or(|last| last + 1 < FEWEST);
            // What is undecided says what would decide.
            let open = verdicts.iter().find(|verdict| {
                verdict["outcome"] == "undecided"
                    && verdict["note"].as_str().is_none_or(str::is_empty)
            });
            (few || open.is_some()).then(|| format!("last block {blocks:?}: {said}"))
        }
        Promise::Map => {
            let map = json(named("-o"));
            let points = map["points"].as_array().unwrap();
            let is_decided = |point: &serde_json::Value| {
                point["outcome"] == "ahead" || point["outcome"] == "dead_heat"
            };
            let is_explained = |point: &serde_json::Value| {
                point["blocks"].as_u64() >= Some(FEWEST) && point["why"].is_string()
            };
            if !points.iter().any(is_decided) {
                return Some(format!("no point is decided: {said}"));
            }
            let wrong = points.iter().find(|point| !is_decided(point) && !is_explained(point));
            wrong.map(|point| format!("undecided without a word why: {point}"))
        }
    }
}

/// Makes the files that the documents take for granted: races, results over months, and what other tools wrote.
fn prepare(dir: &Path) {
    fs::write(dir.join("mine.toml"), STUDY).unwrap();
    fs::write(dir.join("mine-app.toml"), APP).unwrap();
    let race = |file: &str, seed: &str| {
        let typed = ["race", "arq", "sim-datagram", "--path", "sim:delay=20ms,loss=1%", "-w"];
        let rest = ["ping:count=1000", "--blocks", "8", "--seed", seed, "-o", file, "-q"];
        let output = run(&words(&[&typed[..], &rest[..]].concat()), dir);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    fs::create_dir(dir.join("results")).unwrap();
    race("before.json", "1");
    let copies = ["after", "race", "baseline", "simulated", "results/1", "results/2"];
    for copy in copies.map(|copy| format!("{copy}.json")) {
        fs::copy(dir.join("before.json"), dir.join(copy)).unwrap();
    }
    let output =
        run(&words(&["study", "run", "mine.toml", "-q", "-o", "DIR", "--seed", SEED]), dir);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/results/import/files");
    let copies = [
        ("iperf3-tcp.json", "tcp.json"),
        ("iperf3-tcp.json", "a1.json"),
        ("iperf3-tcp.json", "a2.json"),
        ("iperf3-tcp-parallel.json", "b1.json"),
        ("iperf3-tcp-parallel.json", "b2.json"),
        ("irtt.json.gz", "irtt.json.gz"),
        ("ping.txt", "ping.txt"),
        ("iperf3-udp.json", "udp.json"),
        ("iperf3-tcp.json", "tcp-1.json"),
        ("iperf3-udp.json", "udp-1.json"),
        ("iperf3-tcp.json", "monday/1.json"),
        ("iperf3-tcp-parallel.json", "monday/2.json"),
        ("iperf3-udp.json", "tuesday/1.json"),
        ("iperf3-udp-loss.json", "tuesday/2.json"),
    ];
    for folder in ["monday", "tuesday"] {
        fs::create_dir(dir.join(folder)).unwrap();
    }
    for (file, copy) in copies {
        fs::copy(files.join(file), dir.join(copy)).unwrap();
    }
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/import-odd");
    for (file, copy) in [
        ("capture.pcap", "tcp-quic.pcap"),
        ("capture.pcapng", "before.pcapng"),
        ("capture.pcapng", "after.pcapng"),
    ] {
        fs::copy(captures.join(file), dir.join(copy)).unwrap();
    }
    let packed =
        Command::new("tar").current_dir(dir).args(["-czf", "runs.tar.gz", "monday"]).status();
    assert!(packed.unwrap().success());
    let turns = |n: u32| format!("{n},old,{}.5\n{n},new,{}.5\n", 100 + n, 110 + n);
    let turns: String = (1..=12).map(turns).collect();
    fs::write(dir.join("runs.csv"), format!("run,build,time (ms)\n{turns}")).unwrap();
    let numbers = |from: u32| (from..from + 12).map(|n| format!("{n}.5\n")).collect::<String>();
    for (file, from) in [("tcp.txt", 100), ("udp.txt", 90), ("rtt.txt", 50)] {
        fs::write(dir.join(file), numbers(from)).unwrap();
    }
}

/// Copies a folder and all in it.
fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copied(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Outputs of `advise`, which takes longest and says the same on each page: each command of it runs once.
#[derive(Default)]
struct Advice {
    outputs: Mutex<BTreeMap<Vec<String>, Output>>,
}

impl Advice {
    /// Runs any command, or returns the output that the same advice had before.
    fn run(&self, typed: &[String], dir: &Path) -> Output {
        if typed[0] != "advise" {
            return run(typed, dir);
        }
        let mut outputs = self.outputs.lock().unwrap();
        outputs.entry(typed.to_vec()).or_insert_with(|| run(typed, dir)).clone()
    }
}

/// Runs the commands of a page one after the other, as its reader does, and returns what is wrong.
fn page(commands: &[&DocumentedCommand], files: &Path, advice: &Advice) -> Vec<String> {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("here");
    copied(files, &dir);
    let mut wrong = Vec::new();
    for command in commands {
        let (typed, promise) = match rule(command) {
            Rule::Run(typed, promise) => (typed, promise),
            Rule::Left(why) => {
                println!("{}: not run here: {why}", command.place);
                continue;
            }
        };
        let output = advice.run(&typed, &dir);
        let why = broken(&output, &typed, &promise, &dir);
        wrong.extend(why.map(|why| format!("{}: {}: {why}", command.place, typed.join(" "))));
    }
    wrong
}

#[test]
fn every_command_of_the_documents_does_what_it_promises() {
    let all = extracted::all(Path::new(env!("CARGO_MANIFEST_DIR")));
    let mut pages: BTreeMap<&str, Vec<&DocumentedCommand>> = BTreeMap::new();
    for command in &all {
        let page = command.place.split(':').next().unwrap();
        pages.entry(page).or_default().push(command);
    }
    assert!(all.len() > 150, "{} commands in {} documents", all.len(), pages.len());
    let files = tempfile::tempdir().unwrap();
    prepare(files.path());
    let (pages, wrong) = (Mutex::new(pages.into_values()), Mutex::new(Vec::new()));
    let advice = Advice::default();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(commands) = pages.lock().unwrap().next() else { break };
                    let found = page(&commands, files.path(), &advice);
                    wrong.lock().unwrap().extend(found);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} commands:\n{}", wrong.len(), wrong.join("\n"));
}
