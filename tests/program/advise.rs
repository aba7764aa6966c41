//! Advice from its file to its answer, in virtual time: quick, and the same each time.
//!
//! `UPDATE_GOLDEN=1 cargo test --test program advise::` writes the answer anew; read the difference.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test helper that fails is a failed test")]

use deadheat::analysis::derived;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::UNIX_EPOCH;

use deadheat::advise::app;
use deadheat::advise::course::{AdviceJob, AdviceTask};
use deadheat::advise::run::{DEFAULT_BUDGET, run};
use deadheat::race::{RaceContext, SilentObserver};
use deadheat::report::study::Form;
use deadheat::report::{Style, advise::render};
use deadheat::result::advise::outcome::Advice;
use deadheat::result::outcome::Outcome;
use deadheat::time::Manual;

const GAME: &str = r#"
format = 1
title = "A small game"
[[traffic]]
name = "world"
kind = "state"
size = "200B"
per-second = 60
stale-after = "100ms"
[[traffic]]
name = "shots"
kind = "events"
size = "64B"
per-second = 50
"#;

const PATH: &str = "sim:delay=25ms,loss=2%,rate=10mbit";

/// Runs a race in virtual time, as the program does.
fn race(job: &AdviceJob) -> deadheat::Result<Outcome> {
    let mut simulation = job.request.simulation()?.unwrap();
    let clock = simulation.clock();
    let mut nobody = SilentObserver;
    let stage = RaceContext::new(&mut simulation, &mut nobody).at(&clock, UNIX_EPOCH);
    job.request.run_with(stage.save(&job.file))
}

/// Advises on a game of one state, which loses a packet in two hundred, and returns those that are first.
fn leaders(seed: u64) -> Vec<String> {
    let place = tempfile::tempdir().unwrap();
    let state = GAME.split("[[traffic]]").take(2).collect::<Vec<_>>().join("[[traffic]]");
    let app = app::parse(&state, "game.toml").unwrap();
    let dir = place.path().join("out");
    let task = AdviceTask {
        name: "game",
        app: &app,
        path: "sim:delay=25ms,loss=0.5%,rate=10mbit",
        usual: &["kcp", "enet", "udp"],
        budget: DEFAULT_BUDGET,
        virtual_blocks: 12,
        seed: Some(seed),
        dir: &dir,
        started: UNIX_EPOCH,
    };
    let advice = run(&task, &Manual::default(), &mut |job| match job.name.as_str() {
        "world" => race(&job),
        _ => Err(deadheat::Error::usage("no crossover is looked for here")),
    });
    let places = advice.unwrap().places;
    assert_eq!(places.len(), 4, "{places:?}");
    let first = places.into_iter().filter(|placed| placed.place == 1);
    first.map(|placed| placed.contender).collect()
}

#[test]
fn three_seeds_have_the_same_leader_or_a_tie_with_it() {
    let all: Vec<Vec<String>> = [1, 2, 3].map(leaders).into();
    let shared = all[0].iter().filter(|one| all.iter().all(|first| first.contains(one)));
    assert!(shared.count() > 0, "{all:?}");
    // What waits for losses is first in none of them.
    for waits in ["kcp", "enet"] {
        assert!(all.iter().flatten().all(|first| first != waits), "{all:?}");
    }
}

fn advise(dir: &Path) -> Advice {
    let app = app::parse(GAME, "game.toml").unwrap();
    let task = AdviceTask {
        name: "game",
        app: &app,
        path: PATH,
        usual: &["kcp", "arq", "udp", "tcp"],
        budget: DEFAULT_BUDGET,
        virtual_blocks: 16,
        seed: Some(7),
        dir,
        started: UNIX_EPOCH,
    };
    run(&task, &Manual::default(), &mut |job| race(&job)).unwrap()
}

#[test]
fn the_answer_is_as_the_golden_file_says_and_stands_on_its_files() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("out");
    let advice = advise(&dir);
    let terminal = render(&advice, Form::Terminal, &Style::default()).unwrap();
    assert!(terminal.lines().count() <= 20, "{terminal}");
    let markdown = render(&advice, Form::Markdown, &Style::default()).unwrap();
    let text = format!("{terminal}\n{markdown}");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/advise.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&golden, &text).unwrap();
    }
    assert_eq!(text, fs::read_to_string(&golden).unwrap());
    for race in &advice.races {
        let result = derived::load(&dir.join(race.file.as_ref().unwrap())).unwrap();
        assert_eq!(result.asked.contenders, race.contenders);
        assert_eq!(result.asked.path, race.path);
    }
    let saved: Advice =
        serde_json::from_slice(&fs::read(dir.join("advise.json")).unwrap()).unwrap();
    assert_eq!(saved, advice);
}

fn deadheat(args: &[&str], dir: &Path) -> Output {
    let binary = env!("CARGO_BIN_EXE_deadheat");
    Command::new(binary).args(args).current_dir(dir).output().unwrap()
}

#[test]
fn mistakes_are_refused_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("game.toml"), GAME).unwrap();
    for (args, code, wanted) in [
        (&["advise", "game.toml"][..], 2, "which path? write --path"),
        (&["advise", "action-gme"], 2, "did you mean `action-game`?"),
        (&["advise", "missing.toml", "--path", PATH], 1, "missing.toml"),
        (&["advise", "game.toml", "--path", PATH, "--budget", "9s"], 2, "leave it out"),
        (&["advise", "game.toml", "--path", "delay=120ms"], 2, "nothing is ever there in time"),
        (&["advise", "game.toml", "--path", "delay=1ms,rate=50kbit"], 2, "offers 96.0 kbit/s"),
        (&["advise", "game.toml", "--path", PATH, "--format", "pdf"], 2, "unknown format `pdf`"),
    ] {
        let output = deadheat(args, dir.path());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(wanted), "{args:?}: {said}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is written");
}
