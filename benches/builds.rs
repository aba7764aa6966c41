//! Two builds of one program, as a maintainer would race them: a program against a copy of itself, against one with 10 %
//! more work, and against one with 3 % more. Beside each verdict stands what the rules of other projects say of the
//! same runs.
//!
//! `cargo bench --bench builds -- TWINS SLOWED` runs so many races; 100 and 10 where nothing is said. It needs cc. `-- start`
//! measures what a race adds to the start of a command instead.
#![allow(clippy::print_stdout, reason = "a program whose output is its purpose")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use deadheat::stats::quantile;
use serde_json::Value;

#[path = "race_file.rs"]
mod race_file;
#[path = "builds/rules.rs"]
mod rules;

use race_file::race;
use rules::{RULES, Ruling, Times};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Work for a chunk of the program that all are compared with, in steps (`builds/pair.c`).
const STEPS: u32 = 20_000;

/// A series of races of the program against another build.
struct Series {
    title: &'static str,
    /// Work of the other build.
    steps: u32,
    /// Options of each race.
    options: &'static [&'static str],
    /// Right verdicts, as the design asks for them.
    goal: &'static str,
}

/// A twin is raced with the margin of the hardest series, where a false `ahead` is easiest.
const TWINS: Series = Series {
    title: "a copy",
    steps: STEPS,
    options: &["--margin", "1%", "--budget", "20s"],
    goal: "ahead in at most 5 of 100",
};

const SLOWED: [Series; 2] = [
    Series {
        title: "10 % more work",
        steps: STEPS * 110 / 100,
        options: &["--budget", "60s"],
        goal: "ahead in at least 9 of 10 within 60 s",
    },
    Series {
        title: "3 % more work",
        steps: STEPS * 103 / 100,
        options: &["--margin", "1%", "--budget", "10m"],
        goal: "ahead in at least 9 of 10 within 10 min",
    },
];

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if !words.iter().any(|word| word == "--bench") {
        println!("builds: races only under `cargo bench`");
        return Ok(());
    }
    if words.iter().any(|word| word == "start") {
        return starts();
    }
    let mut numbers = words.iter().filter_map(|word| word.parse::<usize>().ok());
    let (twins, slowed) = (numbers.next().unwrap_or(100), numbers.next().unwrap_or(10));
    let directory = tempfile::tempdir()?;
    let old = compile(directory.path(), "old", STEPS)?;
    let mut cached = None;
    let series = [(&TWINS, twins)].into_iter().chain(SLOWED.iter().map(|one| (one, slowed)));
    for (series, races) in series.filter(|(_, races)| *races > 0) {
        let new = compile(directory.path(), "new", series.steps)?;
        println!("\nThe program beside {}; goal: {}\n", series.title, series.goal);
        race_series(series, races, [&old, &new], &mut cached)?;
    }
    Ok(())
}

/// Times of a command that ends at once, in ms: as the race of two equal pairs has them, and started here, in turns.
fn starts() -> Outcome<()> {
    let mut added = [Vec::new(), Vec::new()];
    println!("| round | first pair, ms | second pair, ms | started here, ms |\n|---|---|---|---|");
    for round in 1..=10 {
        let race = race_pair(
            "start.toml",
            ["first", "second"].map(|label| format!("label={label}")),
            &["-w", "command", "--blocks", "20"],
        )?
        .0;
        let here = median(&(0..40).map(|_| start_here()).collect::<Outcome<Vec<_>>>()?);
        let pairs = ["first", "second"].map(|label| 1e3 * median(&times(&race, label)));
        println!("| {round} | {:.2} | {:.2} | {here:.2} |", pairs[0], pairs[1]);
        added.iter_mut().zip(pairs).for_each(|(all, pair)| all.push(pair - here));
    }
    let [first, second] = &added;
    let apart: Vec<f64> = first.iter().zip(second).map(|(first, second)| first - second).collect();
    let [first, second] = [first, second].map(|added| median(added));
    println!("\nadded, median of 10 rounds: {first:.2} ms and {second:.2} ms; goal: at most 2 ms");
    println!("first less second, median: {:+.3} ms", median(&apart));
    Ok(())
}

fn start_here() -> Outcome<f64> {
    let began = Instant::now();
    Command::new("sh").args(["-c", "exit 0"]).status()?;
    Ok(1e3 * began.elapsed().as_secs_f64())
}

fn median(values: &[f64]) -> f64 {
    quantile::median(values).unwrap_or(f64::NAN)
}

/// Compiles the program with so much work for a chunk.
fn compile(directory: &Path, name: &str, steps: u32) -> Outcome<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/builds/pair.c");
    let program = directory.join(name);
    let steps = format!("-DSTEPS={steps}");
    let ended =
        Command::new("cc").args(["-O2", &steps, "-o"]).arg(&program).arg(source).status()?;
    if ended.success() { Ok(program) } else { Err("cc failed".into()) }
}

/// Figures of one race.
struct Race {
    outcome: String,
    /// Time of the old build over that of the new one: point, low, high.
    ratio: [Option<f64>; 3],
    trusted: bool,
    seconds: f64,
    times: Times,
}

fn race_series(
    series: &Series,
    races: usize,
    builds: [&Path; 2],
    cached: &mut Option<Times>,
) -> Outcome<()> {
    println!("| race | verdict | ratio | blocks | s | trusted |\n|---|---|---|---|---|---|");
    let (mut ahead, mut doubted, mut said) = ([0; 2], 0, vec![[0; 3]; RULES.len()]);
    for number in 1..=races {
        let race = run(series, builds)?;
        let [point, low, high] =
            race.ratio.map(|part| part.map_or("?".into(), |part| format!("{part:.4}")));
        println!(
            "| {number} | {} | {point} [{low}, {high}] | {} | {:.0} | {} |",
            race.outcome,
            race.times.old.len(),
            race.seconds,
            if race.trusted { "yes" } else { "no" },
        );
        for (count, outcome) in ahead.iter_mut().zip(["old ahead", "new ahead"]) {
            *count += usize::from(race.outcome == outcome);
        }
        doubted += usize::from(!race.trusted);
        for (rule, counts) in RULES.iter().zip(&mut said) {
            counts[(rule.judge)(&race.times, cached.as_ref()) as usize] += 1;
        }
        *cached = Some(race.times);
    }
    println!("\n| rule | says slower | says faster | of races |\n|---|---|---|---|");
    let [slower, faster] = ahead;
    println!("| deadheat, `ahead` ({doubted} not trusted) | {slower} | {faster} | {races} |");
    for (rule, counts) in RULES.iter().zip(said) {
        let [slower, faster, same] =
            [Ruling::Slower, Ruling::Faster, Ruling::Same].map(|one| counts[one as usize]);
        println!("| {} | {slower} | {faster} | {} |", rule.name, slower + faster + same);
    }
    Ok(())
}

/// Races a file of `builds` twice, with these settings.
fn race_pair(file: &str, settings: [String; 2], options: &[&str]) -> Outcome<(Value, Option<i32>)> {
    let pair = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/builds").join(file);
    let contenders = settings.map(|settings| format!("cmd:file={},{settings}", pair.display()));
    let contenders = contenders.each_ref().map(String::as_str);
    let ran = race(&[&contenders[..], options].concat())?;
    Ok((serde_json::from_slice(&ran.text)?, ran.code))
}

fn run(series: &Series, builds: [&Path; 2]) -> Outcome<Race> {
    let mut labels = ["old", "new"].into_iter();
    let settings = builds.map(|build| {
        format!("set=bin={},label={}", build.display(), labels.next().unwrap_or_default())
    });
    let options = [&["-w", "command:bytes=16MB"], series.options].concat();
    let began = Instant::now();
    let (race, code) = race_pair("pair.toml", settings, &options)?;
    let seconds = began.elapsed().as_secs_f64();
    let verdict = &race["verdicts"][0];
    let outcome = match verdict["ahead"].as_u64() {
        Some(0) => "old ahead",
        Some(_) => "new ahead",
        None => verdict["outcome"].as_str().unwrap_or("none"),
    };
    Ok(Race {
        outcome: outcome.to_owned(),
        ratio: ["point", "low", "high"].map(|part| verdict["ratio"][part].as_f64()),
        trusted: code == Some(0),
        seconds,
        times: Times { old: times(&race, "old"), new: times(&race, "new") },
    })
}

/// Times of the valid trials of a build in seconds, in their order: one of each block, as the control has another.
fn times(race: &Value, label: &str) -> Vec<f64> {
    let contenders = race["contenders"].as_array().into_iter().flatten();
    let Some(number) = contenders.clone().position(|one| one["label"] == label) else {
        return Vec::new();
    };
    let trials = race["trials"].as_array().into_iter().flatten();
    let mut of_build: Vec<(u64, f64)> = trials
        .filter(|trial| trial["contender"] == number && trial["valid"] == true)
        .filter_map(|trial| Some((trial["block"].as_u64()?, trial["metrics"]["time_ns"].as_f64()?)))
        .collect();
    of_build.dedup_by_key(|(block, _)| *block);
    of_build.into_iter().map(|(_, ns)| ns / 1e9).collect()
}
