//! Whether default races decide, and how finely, on the machine at hand: races of `tcp udp`, and races of
//! `udp` against itself, one after the other, as a new user would run them.
//!
//! `cargo bench --bench verdicts -- RACES TWINS` runs so many of each; 10 and 100 where nothing is said. `-- growth` holds the time
//! of 10,000 blocks in virtual time beside that of 100 instead.
#![allow(clippy::print_stdout, reason = "a program whose output is its purpose")]

use std::error::Error;
use std::time::Instant;

use serde_json::Value;

#[path = "race_file.rs"]
mod race_file;

use race_file::race;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A resolution that a default race is to reach.
const RESOLUTION: f64 = 0.05;

/// What came of one race.
struct Race {
    outcome: String,
    has_direction: bool,
    ratio: Option<[f64; 3]>,
    resolution: Option<f64>,
    blocks: u64,
    trusted: bool,
    seconds: f64,
}

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if !words.iter().any(|word| word == "--bench") {
        println!("verdicts: races only under `cargo bench`");
        return Ok(());
    }
    if words.iter().any(|word| word == "growth") {
        return growth();
    }
    let mut numbers = words.iter().filter_map(|word| word.parse::<usize>().ok());
    let (races, twins) = (numbers.next().unwrap_or(10), numbers.next().unwrap_or(100));
    let different = series("tcp udp", &["tcp", "udp"], races)?;
    let fine = |race: &&Race| race.resolution.is_some_and(|found| found <= RESOLUTION);
    let told = |race: &&Race| race.outcome != "undecided" || race.has_direction;
    let count = |all: &[Race], is: &dyn Fn(&&Race) -> bool| all.iter().filter(|r| is(r)).count();
    println!("| figure | seen | target |\n|---|---|---|");
    println!(
        "| default races that resolve ±5 % | {} of {races} | 9 of 10 |",
        count(&different, &fine)
    );
    println!(
        "| of them, decided or with a direction | {} of {races} | |",
        count(&different, &told)
    );
    let same = series("udp udp", &["udp", "udp"], twins)?;
    let ahead = count(&same, &|race| race.outcome == "ahead");
    let doubted = count(&same, &|race| !race.trusted);
    println!("| races of twins with one ahead | {ahead} of {twins} | at most 5 of 100 |");
    println!("| races of twins that are not trusted | {doubted} of {twins} | at most 1 of 100 |");
    Ok(())
}

/// Number of blocks of a long race in virtual time, and of a short one.
const BLOCKS: [u32; 2] = [10_000, 100];

/// Holds the time of a long race beside that of a short one: a hundred times the blocks should take a hundred times as
/// long.
fn growth() -> Outcome<()> {
    let [long, short] = BLOCKS.map(|blocks| blocks.to_string());
    let ratio = f64::from(BLOCKS[0]) / f64::from(BLOCKS[1]);
    println!("| blocks in virtual time | s |\n|---|---|");
    let (many, few) = (virtual_race(&long)?, virtual_race(&short)?);
    println!("| {long} | {many:.2} |\n| {short} | {few:.3} |\n");
    println!(
        "{long} blocks take {:.0} times as long as {short}; target: at most {:.0}",
        many / few,
        1.5 * ratio
    );
    Ok(())
}

/// Runs so many blocks of one contender, and returns the seconds. It has no claim that could end the race early, and its
/// control is ruled on as a claim is.
///
/// # Errors
/// If the race fails, or has another number of blocks.
fn virtual_race(blocks: &str) -> Outcome<f64> {
    let began = Instant::now();
    let path = ["--path", "sim:delay=5ms,loss=5%", "--blocks", blocks];
    let ran = race(&[&["arq", "-w", "state:count=30", "--seed", "1"], &path[..]].concat())?;
    let took = began.elapsed().as_secs_f64();
    if ran.code != Some(0) {
        return Err(format!("the race of {blocks} blocks ended with {:?}", ran.code).into());
    }
    let race: Value = serde_json::from_slice(&ran.text)?;
    let last = race["trials"].as_array().and_then(|trials| trials.last()?["block"].as_u64());
    if last.map(|last| (last + 1).to_string()).as_deref() != Some(blocks) {
        return Err(format!("the race of {blocks} blocks ended after block {last:?}").into());
    }
    Ok(took)
}

fn series(title: &str, contenders: &[&str], races: usize) -> Outcome<Vec<Race>> {
    println!(
        "\n{title}\n| race | verdict | ratio | resolution | blocks | trusted | s |\n|---|---|---|---|---|---|---|"
    );
    let mut all = Vec::new();
    for number in 1..=races {
        let race = run(contenders)?;
        let ratio = race.ratio.map_or_else(String::new, |[point, low, high]| {
            format!("{point:.3} [{low:.3}, {high:.3}]")
        });
        let resolution =
            race.resolution.map_or_else(String::new, |found| format!("±{:.1} %", 100.0 * found));
        println!(
            "| {number} | {}{} | {ratio} | {resolution} | {} | {} | {:.0} |",
            race.outcome,
            if race.has_direction { ", direction known" } else { "" },
            race.blocks,
            if race.trusted { "yes" } else { "no" },
            race.seconds
        );
        all.push(race);
    }
    println!();
    Ok(all)
}

fn run(contenders: &[&str]) -> Outcome<Race> {
    let began = Instant::now();
    let ran = race(contenders)?;
    let seconds = began.elapsed().as_secs_f64();
    let race: Value = serde_json::from_slice(&ran.text)?;
    let verdict = &race["verdicts"][0];
    let ratio = &verdict["ratio"];
    let end = |name: &str| ratio[name].as_f64();
    Ok(Race {
        outcome: verdict["outcome"].as_str().unwrap_or("none").to_owned(),
        has_direction: verdict["outcome"] == "undecided" && verdict["direction"].is_u64(),
        ratio: end("point").zip(end("low")).zip(end("high")).map(|((p, l), h)| [p, l, h]),
        resolution: verdict["resolution"].as_f64(),
        blocks: verdict["blocks"].as_u64().unwrap_or(0),
        trusted: ran.code == Some(0),
        seconds,
    })
}
