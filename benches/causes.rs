//! Planted causes, each at conditions drawn by seed, and the table of what the judge named. It fails where less than 95 %
//! are right.
//!
//! `cargo bench --bench causes -- TIMES` plants each so many times in virtual time, where the figures are the same on every
//! machine; with `real` behind it, those in real time instead, which need root or user namespaces and a quiet machine.
//! Names of causes behind it (`path-rate`) plant those alone.
//! With `alike` behind it each races a copy of its own, and it fails where any cause is said to make a difference.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program whose output is its purpose"
)]

use std::collections::BTreeMap;
use std::process::ExitCode;

use deadheat::result::causes::Cause;

#[path = "causes/plants.rs"]
mod plants;
#[path = "causes/real.rs"]
mod real;

/// Least share of plants of each kind that the judge has to find.
const LEAST: f64 = 0.95;

fn main() -> Result<ExitCode, String> {
    // Both ends of a trial in real time are fresh processes of this program.
    deadheat::Program::new().enter().map_err(|error| error.to_string())?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    if !words.iter().any(|word| word == "--bench") {
        println!("causes: plants only under `cargo bench`");
        return Ok(ExitCode::SUCCESS);
    }
    let times: u64 = words.iter().find_map(|word| word.parse().ok()).unwrap_or(20);
    let is_real = words.iter().any(|word| word == "real");
    let (kind, all) = if is_real { ("", real::REAL_PLANTS) } else { ("sim:", plants::PLANTS) };
    let is_named =
        |plant: &&plants::Plant| words.contains(&name(Some(plant.cause)).replace(' ', "-"));
    let any = all.iter().any(|plant| is_named(&plant));
    let all: Vec<&plants::Plant> = all.iter().filter(|plant| !any || is_named(plant)).collect();
    if words.iter().any(|word| word == "alike") {
        return alike(kind, &all, times);
    }
    let mut is_met = true;
    println!("| planted | in | right | named instead |");
    println!("|---|---|---|---|");
    for plant in &all {
        let mut named: BTreeMap<Option<Cause>, u64> = BTreeMap::new();
        for seed in 1..=times {
            let (cause, said) = plant.run(kind, seed)?;
            if cause != Some(plant.cause) {
                eprintln!(
                    "{} planted, {} named: {said} --seed {seed}",
                    name(Some(plant.cause)),
                    name(cause)
                );
            }
            *named.entry(cause).or_default() += 1;
        }
        let right = named.remove(&Some(plant.cause)).unwrap_or(0);
        let others: Vec<String> =
            named.iter().map(|(cause, n)| format!("{} {n}", name(*cause))).collect();
        let place = match plant.rival {
            "" => plant.contender.to_owned(),
            rival => format!("{}, beside {rival}", plant.contender),
        };
        println!(
            "| {} | {place} | {right} of {times} | {} |",
            name(Some(plant.cause)),
            others.join(", ")
        );
        is_met &= right as f64 >= LEAST * times as f64;
    }
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Races each plant beside a copy of its own so many times.
fn alike(kind: &str, all: &[&plants::Plant], times: u64) -> Result<ExitCode, String> {
    let mut wrong = 0;
    for plant in all {
        for seed in 1..=times {
            let (cause, said) = plant.run_alike(kind, seed)?;
            if cause.is_some() {
                wrong += 1;
                eprintln!("{} named: {said} --seed {seed}", name(cause));
            }
        }
    }
    println!("{wrong} of {} races of alike contenders have a cause", all.len() as u64 * times);
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the name of a cause in results.
fn name(cause: Option<Cause>) -> String {
    let json = serde_json::to_value(cause).unwrap_or_default();
    json.as_str().unwrap_or("not known").replace('_', " ")
}
