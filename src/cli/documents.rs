//! Every race that the documents show, in virtual time: trials take as long as their work plans, and figures scatter by
//! 0.3 %. A command that a reader types must end as the document says: with a verdict on every claim, or with the
//! figures
//! that were asked for, in the time that its heading gives.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Parser;

use super::race::{RaceArgs, request};
use deadheat_base::error::Error;
use deadheat_base::rng::SplitMix64;
use deadheat_base::time::{Clock, Manual, Nanos};
use deadheat_base::units;
use deadheat_contract::workload::Setting;
use deadheat_path::PathSpec;
use deadheat_race::race::{RaceContext, Request, SilentObserver, testing};
use deadheat_race::study::run::StudyTask;
use deadheat_race::study::{self, bundled};
use deadheat_report::{self as report, ReportInput, Style};
use deadheat_result::analysis::claims;
use deadheat_result::outcome::{Outcome, blocks_done};
use deadheat_result::study::outcome::Setting as StudySetting;
use deadheat_stats::Outcome as VerdictOutcome;
use deadheat_trial::path::model_time;
use deadheat_trial::sim::fake::Fake;
use deadheat_trial::{Order, TrialOutcome};

#[path = "../../tests/common/documents.rs"]
mod extracted;

use extracted::DocumentedCommand;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: RaceArgs,
}

/// Time of a trial beyond its work: processes that start and part.
const OVERHEAD: Nanos = Nanos::from_millis(150);

/// Duration of work that sets none, such as the transfer of so many bytes.
const UNKNOWN: Nanos = Nanos::from_secs(2);

/// Placeholders of documents, and their values in this test.
const STAND_INS: &[(&str, &str)] = &[("CONTENDER...", "udp"), ("HOST", "host.example")];

/// Races that are not run here, each identified by a word of its command, with the reason.
const EXCLUDED: &[(&str, &str)] = &[
    ("via=coturn", "needs coturn"),
    ("via=turn:", "needs a TURN server"),
    ("misbehaving", "shows what a race does when a contender breaks down"),
];

/// Returns the words of a command with files and placeholders of this test: files of the reader become existing files,
/// and
/// output goes to `dir`.
fn substituted(command: &DocumentedCommand, dir: &Path) -> Vec<String> {
    let there = dir.join("there.bin").display().to_string();
    let mut words = Vec::new();
    for word in &command.words {
        let stand_in = STAND_INS.iter().find(|(name, _)| name == word);
        let mut word = stand_in.map_or(word.clone(), |(_, stand_in)| (*stand_in).to_owned());
        for (key, value) in [("file=", there.as_str()), ("sink=", "")] {
            // A path may name a file, too, and `sink` is a count elsewhere.
            if let Some((before, rest)) = word.split_once(key).filter(|_| word.starts_with("bulk:"))
            {
                let (name, after) = rest.split_once(',').map_or((rest, ""), |(n, a)| (n, a));
                let new = dir.join(name.replace('/', "_")).display().to_string();
                let value = if value.is_empty() { &new } else { value };
                let comma = if after.is_empty() { "" } else { "," };
                word = format!("{before}{key}{value}{comma}{after}");
            }
        }
        words.push(word);
    }
    words
}

/// Runs a race on trials that take as long as their work, and returns it with its duration.
fn run(request: &Request, setting: Setting) -> (crate::Result<Outcome>, Nanos) {
    let (clock, mut rng) = (Manual::default(), SplitMix64::new(5));
    let ticking = clock.clone();
    let mut runner = Fake(|order: &Order| {
        let task = &order.pairing.task;
        let trips = Nanos(2 * setting.rtt.unwrap_or_default().0);
        let took = task.info().planned.unwrap_or(UNKNOWN) + OVERHEAD + trips;
        ticking.pass(took);
        // Some levels are alike, and the others clearly apart.
        let level = 100.0 * 1.2f64.powi(order.contender().len() as i32 % 4);
        let figure = level * (0.003 * rng.normal()).exp();
        let metrics =
            task.info().metrics.iter().map(|metric| (metric.name.clone(), figure)).collect();
        let mut record = deadheat_result::testing::record(metrics);
        record.took_ns = took.0;
        TrialOutcome::Ran(Box::new(record))
    });
    let mut nobody = SilentObserver;
    let stage = RaceContext::new(&mut runner, &mut nobody).at(&clock, testing::day());
    let outcome = request.run_with(stage);
    (outcome, clock.now())
}

/// Returns the fault of the end of a race; `None` if it is as its document promises.
fn broken(request: &Request, outcome: &Outcome) -> Option<String> {
    let checked = request.check().unwrap();
    let claims = claims::claims(&checked.entrants, &checked.metrics);
    let (done, verdicts) = (blocks_done(outcome), outcome.verdicts.len());
    if claims::is_for_figures(outcome) {
        return (outcome.asked.blocks != Some(1))
            .then(|| "too few blocks for a verdict".to_owned());
    }
    if verdicts != claims {
        return Some(format!("{verdicts} verdicts on {claims} claims"));
    }
    let fewest = claims::fewest_for(claims, outcome.asked.confidence);
    if done < fewest {
        return Some(format!("{done} blocks where {fewest} are the fewest"));
    }
    let open =
        outcome.verdicts.iter().find(|verdict| verdict.outcome == VerdictOutcome::Undecided)?;
    Some(format!("after {done} of {} blocks: {}", outcome.plan.blocks_max, open.note))
}

/// Returns the time that a heading promises: `3. A first race (15 seconds)`, `1. Install (3 to 5 minutes)`.
fn promised(heading: &str) -> Option<Nanos> {
    let inside = heading.rsplit_once('(')?.1.strip_suffix(')')?;
    let mut words = inside.rsplit(' ');
    let unit = match words.next()?.trim_end_matches('s') {
        "second" => "s",
        "minute" => "m",
        _ => return None,
    };
    units::parse_span(&format!("{}{unit}", words.next()?)).ok()
}

fn setting_of(command: &DocumentedCommand) -> Setting {
    match (command.option("--to"), command.option("--path")) {
        (Some(_), _) => Setting::REMOTE,
        (None, path) => model_time::setting(&PathSpec::parse(path.unwrap_or("loopback")).unwrap()),
    }
}

#[test]
fn every_race_in_the_documents_ends_as_it_promises() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("there.bin"), [7; 100_000]).unwrap();
    let all = extracted::all(Path::new(env!("CARGO_MANIFEST_DIR")));
    let races = all.iter().filter(|command| command.words.first().is_some_and(|w| w == "race"));
    let (mut wrong, mut ran, mut excluded) = (Vec::new(), 0, 0);
    for command in races {
        let said = |why: String| format!("{}: {}: {why}", command.place, command.text());
        let mut wrong_here = |why: String| wrong.push(said(why));
        if EXCLUDED.iter().any(|(word, _)| command.text().contains(word)) {
            excluded += 1;
            continue;
        }
        let words = substituted(command, directory.path());
        let request = match Line::try_parse_from(&words) {
            Ok(line) => request(&line.args).and_then(|asked| asked.check().map(|_| asked)),
            Err(error) => Err(Error::usage(error.to_string())),
        };
        let request = match request {
            Ok(request) => request.seed(1),
            // This build or this host lacks a contender, and reports it.
            Err(Error::Unsupported { .. }) => continue,
            Err(error) => {
                wrong_here(error.to_string());
                continue;
            }
        };
        let (outcome, took) = run(&request, setting_of(command));
        match outcome {
            Ok(outcome) => broken(&request, &outcome).into_iter().for_each(&mut wrong_here),
            Err(Error::Unsupported { .. }) => continue,
            Err(error) => wrong_here(error.to_string()),
        }
        let promised = promised(&command.heading).filter(|_| command.place.contains("tutorial"));
        if let Some(promised) = promised.filter(|promised| took.0 > 2 * promised.0) {
            wrong_here(format!("it takes {took}, and its heading says {promised}"));
        }
        ran += 1;
    }
    assert!(wrong.is_empty(), "{} of {ran} races:\n{}", wrong.len(), wrong.join("\n"));
    assert!(ran > 100 && excluded < 6, "{ran} ran, {excluded} are excluded");
}

/// Runs both settings, `--quick` too: no race of a study is refused for want of blocks or time.
#[test]
fn every_race_of_a_bundled_study_has_room_for_its_claims() {
    let directory = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for name in bundled::names() {
        let study = bundled::study(name).unwrap();
        for setting in [StudySetting::Full, StudySetting::Quick] {
            let task = StudyTask {
                name,
                study: &study,
                setting,
                full: Vec::new(),
                seed: Some(1),
                labels: BTreeMap::new(),
                dir: &directory.path().join(format!("{name}-{}", setting.word())),
                started: testing::day(),
                host: "host".to_owned(),
            };
            let ran = study::run::run(&task, (1, 1), &|job| {
                let way = PathSpec::parse(job.plan.path.as_deref().unwrap_or("loopback"))?;
                run(&job.request, model_time::setting(&way)).0
            });
            for race in ran.map(|ran| ran.run.races).unwrap_or_else(|error| panic!("{error}")) {
                let why = race.why_not.filter(|why| why.contains("blocks"));
                let place = format!("{name}, {}, {}", setting.word(), race.id);
                wrong.extend(why.map(|why| format!("{place}: {why}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn one_block_is_shown_as_figures_without_an_alarm() {
    let show = |blocks| {
        let request = Request::new(["tcp", "udp"]).blocks(blocks).seed(1);
        let outcome = run(&request, Setting::LOOPBACK).0.unwrap();
        assert!(outcome.trusted());
        let shown = ReportInput { outcome: &outcome, samples: None };
        let rendered = report::find("terminal").unwrap().render(&shown, &Style::default());
        String::from_utf8(rendered.unwrap()).unwrap()
    };
    let one = show(1);
    assert!(one.contains("Figures of one block; no verdict was asked for."), "{one}");
    let five = show(5);
    assert!(five.contains("Figures of 5 blocks; verdicts take 6 at least."), "{five}");
    assert!(!one.contains("undecided"), "{one}");
    assert!(!show(6).contains("Figures of"));
}

#[test]
fn headings_promise_times() {
    assert_eq!(promised("3. A first race (15 seconds)"), Some(Nanos::from_secs(15)));
    assert_eq!(promised("1. Install (3 to 5 minutes)"), Some(Nanos::from_secs(300)));
    assert_eq!(promised("6. Decide (5 minutes of thinking)"), None);
}
