//! Result files: what others changed in them, and what a race leaves that was killed.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use deadheat::rng::SplitMix64;
use serde_json::{Value, json};

use crate::honest::{PING, read};
use crate::liars::limit;
use crate::server::program;
use crate::table::Row;
use crate::wire::{NUMBERS, mutated};

/// Seconds of CPU time that a report may take.
const SECONDS: u64 = 2;

/// Address space of a report, in bytes.
const SPACE: u64 = 2 << 30;

/// Blocks of a race that decides nothing, and so does not wait until this host is quiet: it is killed amid its blocks.
const FEW_BLOCKS: &str = "5";

/// A race on this host, as a command.
fn race(dir: &Path, output: &str, blocks: &str) -> Command {
    let mut command = Command::new(program());
    command
        .args(["race", "--idle", "host"])
        .args(PING)
        .args(["--blocks", blocks, "-q", "-o", output])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// How `deadheat ARGS…` ended that reads files, with little memory and time; and what it said.
fn reads(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(program());
    command.args(args).current_dir(dir).stdin(Stdio::null());
    // SAFETY: between fork and exec only setrlimit(2) is called.
    unsafe {
        command.pre_exec(|| {
            limit(libc::RLIMIT_AS, SPACE)?;
            limit(libc::RLIMIT_CPU, SECONDS)
        });
    }
    let ran = command.output().unwrap();
    let said = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (ran.status.code(), said.concat())
}

/// Files that anybody may have changed: read as well as can be, or refused.
pub(crate) fn changed() {
    let dir = tempfile::tempdir().unwrap();
    race(dir.path(), "race.json", "2").status().unwrap();
    let race = fs::read(dir.path().join("race.json")).unwrap();
    let mut rng = SplitMix64::new(4);
    let (began, mut all, mut read, mut faults) = (Instant::now(), 0, 0, Vec::new());
    while began.elapsed() < crate::seconds() || all < 8 {
        let file = match rng.below(3) {
            0 => mutated(&race, &mut rng),
            _ => with_another_value(&race, &mut rng),
        };
        fs::write(dir.path().join("changed.json"), &file).unwrap();
        let args: &[&str] = match rng.below(4) {
            0 => &["compare", "race.json", "changed.json"],
            1 => &["report", "changed.json", "--format", "html"],
            2 => &["report", "changed.json", "--format", "markdown"],
            _ => &["report", "changed.json", "--details"],
        };
        let (code, said) = reads(dir.path(), args);
        all += 1;
        read += u32::from(matches!(code, Some(0 | 3)));
        if !matches!(code, Some(0..=3)) || said.contains("panicked") {
            let begin: String = said.chars().take(300).collect();
            faults.push(format!("{args:?} of file {all}: {code:?}: {begin}"));
            let _ = fs::copy(
                dir.path().join("changed.json"),
                std::env::temp_dir().join("deadheat-changed.json"),
            );
        }
    }
    let thrown = format!("{all} changed result files, {read} of them read and the others refused");
    Row { name: "changed files", thrown, faults, ..files_row() }.conclude();
}

fn files_row() -> Row {
    let none = || "–".to_owned();
    Row { honest: none(), longest: none(), memory: none(), ..Row::default() }
}

/// The same JSON with one of its values replaced by what does not belong there.
fn with_another_value(race: &[u8], rng: &mut SplitMix64) -> Vec<u8> {
    const HERE: &str = "the value that is replaced";
    let mut race: Value = serde_json::from_slice(race).unwrap();
    replace_one(&mut race, json!(HERE), rng);
    let long = format!("\"{}\"", "\\u001b[2J\\u202e".repeat(10_000));
    let nest = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let many = format!("[{}1e308]", "1e308,".repeat(100_000));
    let other = match rng.below(8) {
        0 => &long,
        1 => &nest,
        2 => &many,
        _ => NUMBERS[rng.below(NUMBERS.len() as u64) as usize],
    };
    race.to_string().replace(&format!("\"{HERE}\""), other).into_bytes()
}

/// Puts `other` in the place of one value, the deeper the less likely.
fn replace_one(value: &mut Value, other: Value, rng: &mut SplitMix64) {
    let is_deep_enough = rng.below(6) == 0;
    let mut inside: Vec<&mut Value> = match value {
        Value::Object(fields) if !is_deep_enough => fields.values_mut().collect(),
        Value::Array(items) if !is_deep_enough => items.iter_mut().collect(),
        _ => Vec::new(),
    };
    match inside.len() as u64 {
        0 => *value = other,
        len => replace_one(inside.swap_remove(rng.below(len) as usize), other, rng),
    }
}

/// A race that is killed leaves a whole file, or none; and the next one is not kept from its place.
pub(crate) fn killed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("race.json");
    let mut rng = SplitMix64::new(5);
    let (began, mut all, mut whole, mut faults) = (Instant::now(), 0, 0, Vec::new());
    while began.elapsed() < crate::seconds() || all < 4 {
        let _ = fs::remove_file(&file);
        let mut child = race(dir.path(), "race.json", FEW_BLOCKS).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(200 + rng.below(1_500)));
        child.kill().unwrap();
        child.wait().unwrap();
        all += 1;
        match read(&file) {
            Some(_) => {
                whole += 1;
                let (code, said) = reads(dir.path(), &["report", "race.json"]);
                if !matches!(code, Some(0 | 3)) {
                    faults.push(format!("race {all}: report: {code:?}: {said}"));
                }
            }
            None if file.exists() => faults.push(format!("race {all} left a file that is no JSON")),
            None => {}
        }
    }
    let _ = fs::remove_file(&file);
    let next = race(dir.path(), "race.json", "2").status().unwrap();
    if read(&file).is_none() {
        faults.push(format!("the next race, into the same file: {next}"));
    }
    let thrown =
        format!("{all} races killed at any moment: {whole} whole files, the others left none");
    Row { name: "killed races", thrown, faults, ..files_row() }.conclude();
}
