//! The races of a folder over time: what belongs together, where a level changes, and what cannot be read.

use crate::common;
use deadheat::path::PathKind;
use std::path::Path;
use std::process::{Command, Output};

use deadheat::analysis::history::{
    ChangeDirection, FALSE_ALARM_IN, History, HistoryEntry, SkippedFile, history as told_of,
};
use deadheat::report::Style;
use deadheat::report::history::render;
use deadheat::result::outcome::Outcome;
use deadheat::result::save;

const METRIC: &str = "rtt_p50_ns";

/// The history with the usual rate of false changes.
fn history(
    entries: Vec<HistoryEntry>,
    left_out: Vec<SkippedFile>,
    metric: Option<&str>,
) -> History {
    told_of(entries, left_out, metric, FALSE_ALARM_IN)
}

/// The id of udp in [`pair`].
const UDP: usize = 1;

/// tcp against udp, with ids that a file may have.
fn pair() -> Outcome {
    let mut race = common::duel();
    let id = |old: usize| usize::from(old == common::UDP);
    race.contenders.iter_mut().for_each(|contender| contender.id = id(contender.id));
    race.trials.iter_mut().for_each(|trial| trial.contender = id(trial.contender));
    race.summary.iter_mut().for_each(|summary| summary.contender = id(summary.contender));
    race.verdicts.clear();
    race.explain = None;
    race
}

/// One race a day of tcp against udp, in which every estimate of udp is `factor` times what it is.
fn on_day(day: usize, factor: f64) -> Outcome {
    let mut race = pair();
    race.started = format!("2026-{:02}-{:02}T04:00:00Z", 1 + day / 28, 1 + day % 28);
    for summary in race.summary.iter_mut().filter(|summary| summary.contender == UDP) {
        for value in [Some(&mut summary.estimate), summary.low.as_mut(), summary.high.as_mut()] {
            value.into_iter().for_each(|value| *value *= factor);
        }
    }
    race
}

/// A wobble of a percent that repeats itself.
fn wobble(day: usize) -> f64 {
    1.0 + [0.004, -0.007, 0.001, 0.009, -0.003, -0.01, 0.006][day % 7]
}

/// Forty days; from the 25th on udp takes a quarter longer, after a new kernel.
fn stepped() -> Vec<HistoryEntry> {
    let race = |day: usize| {
        let mut race = on_day(day, wobble(day) * if day < 24 { 1.0 } else { 1.25 });
        if day >= 24 {
            race.host.kernel = "Linux 6.19.2".into();
        }
        HistoryEntry::new(format!("ci/day-{day:02}.json"), race)
    };
    (0..40).map(race).collect()
}

fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap(), "{name}");
}

fn shown(history: &History, format: &str) -> String {
    render(history, "results", format, &Style::default()).unwrap()
}

#[test]
fn a_step_is_found_where_it_is_with_what_else_changed() {
    let told = history(stepped(), Vec::new(), None);
    let [group] = told.groups.as_slice() else { panic!("{} groups", told.groups.len()) };
    assert_eq!((group.races.len(), group.series.len()), (40, 2));
    let [change] = group.changes.as_slice() else { panic!("{:?}", group.changes) };
    assert_eq!(group.series[change.series].contender, "udp");
    assert_eq!((change.before, change.after, change.way), (23, 24, ChangeDirection::Worse));
    assert!((26..=30).contains(&change.found), "{}", change.found);
    let delays = &group.series[change.series].delays;
    assert!(
        delays.windows(2).all(|pair| pair[1].races <= pair[0].races || pair[0].races.is_none())
    );
    assert_eq!(delays.len(), 3, "{delays:?}");
    let ratio = change.ratio.unwrap();
    assert!(
        ratio.low < 1.25 && 1.25 < ratio.high && (ratio.point - 1.25).abs() < 0.01,
        "{ratio:?}"
    );
    assert!(change.beyond_margin && change.p < 0.001);
    let codes: Vec<&str> = change.differs.iter().map(|warning| warning.code.as_str()).collect();
    assert_eq!(codes, ["host_differs"]);
}

#[test]
fn a_history_is_as_its_golden_files() {
    let left_out =
        vec![SkippedFile { file: "ci/notes.json".into(), why: "the file is empty".into() }];
    let told = history(stepped(), left_out, None);
    golden("history", &shown(&told, "terminal"));
    golden("history-markdown", &shown(&told, "markdown"));
    let json: serde_json::Value = serde_json::from_str(&shown(&told, "json")).unwrap();
    assert_eq!(json["format"], 2);
    assert_eq!(json["groups"][0]["changes"][0]["way"], "worse");
    assert_eq!(json["groups"][0]["races"][12]["file"], "ci/day-12.json");
}

#[test]
fn better_and_smaller_than_the_margin_are_said_as_such() {
    let days = |after: f64| {
        let factor = move |day: usize| wobble(day) * if day < 25 { 1.0 } else { after };
        (0..50)
            .map(move |day| HistoryEntry::new(day.to_string(), on_day(day, factor(day))))
            .collect()
    };
    let faster = history(days(0.5), Vec::new(), None);
    assert_eq!(faster.groups[0].changes[0].way, ChangeDirection::Better);
    let text = shown(&history(days(1.04), Vec::new(), None), "terminal");
    assert!(text.contains("No change of level beyond the margin."), "{text}");
    assert!(text.contains("Smaller than the margin: udp RTT p50: worse"), "{text}");
}

#[test]
fn only_races_of_the_same_kind_are_one_series() {
    let other = |change: &dyn Fn(&mut Outcome)| {
        let mut race = on_day(3, 1.0);
        change(&mut race);
        HistoryEntry::new("other.json", race)
    };
    let changes: [&dyn Fn(&mut Outcome); 7] = [
        &|race| race.asked.workload = "ping:size=1kB".into(),
        &|race| race.path.spec = "delay=1ms".into(),
        &|race| race.path.kind = PathKind::Simulated,
        &|race| race.asked.placement = Some("busy".into()),
        &|race| race.asked.contenders.truncate(2),
        &|race| race.path.address = "[2001:db8::7]:5210".into(),
        &|race| race.contenders[UDP].asked.values_mut().for_each(|value| value.push('x')),
    ];
    for (which, change) in changes.iter().enumerate() {
        let mut entries = stepped();
        entries.push(other(change));
        let told = history(entries, Vec::new(), None);
        assert_eq!(told.groups.len(), 2, "{which}");
    }
    let mut swapped = stepped();
    swapped.push(other(&|race| race.asked.contenders.swap(0, 1)));
    assert_eq!(history(swapped, Vec::new(), None).groups.len(), 1);
    let mut moved = stepped();
    moved.push(other(&|race| {
        race.host.hostname = "gamma".into();
        race.peer_host.as_mut().unwrap().hostname = "delta".into();
    }));
    let told = history(moved, Vec::new(), None);
    assert_eq!((told.groups.len(), told.groups[0].hosts.len()), (1, 2));
    let text = shown(&told, "markdown");
    assert!(text.contains("on different hosts, alpha and gamma"), "{text}");
    assert!(text.contains("to different hosts, "), "{text}");
}

#[test]
fn one_race_and_the_same_race_twice() {
    let twice = vec![
        HistoryEntry::new("a.json", on_day(1, 1.0)),
        HistoryEntry::new("b.json", on_day(1, 1.0)),
    ];
    let told = history(twice, Vec::new(), None);
    assert_eq!(told.groups[0].races.len(), 1);
    assert_eq!(told.left_out[0].why, "the same race as a.json");
    let text = shown(&told, "terminal");
    assert!(text.contains("that takes 16\n  races") && text.contains("b.json"), "{text}");
}

#[test]
fn doubts_about_a_race_stand_beside_its_figures() {
    let mut entries: Vec<Outcome> = (0..3).map(|day| on_day(day, 1.0)).collect();
    entries[1].control.as_mut().unwrap().trusted = false;
    entries[2].status = deadheat::result::outcome::Status::Failed;
    entries[2].summary.retain(|summary| summary.contender == common::TCP);
    let entries =
        entries.into_iter().enumerate().map(|(i, race)| HistoryEntry::new(i.to_string(), race));
    let text = shown(&history(entries.collect(), Vec::new(), None), "terminal");
    for (day, doubt) in [(2, "not trusted"), (3, "not finished")] {
        let line = text.lines().find(|line| line.contains(&format!("2026-01-0{day}T"))).unwrap();
        assert!(line.ends_with(doubt), "{line}");
    }
}

#[test]
fn hostile_names_are_shown_and_never_obeyed() {
    let entries = (0..8).map(|day| {
        let mut race = common::hostile();
        race.started = format!("2026-01-{:02}T\u{1b}[2J", day + 1);
        race.host.kernel = format!("{}{}", common::HOSTILE, day / 4);
        for summary in &mut race.summary {
            summary.estimate *= if day < 4 { 1.0 } else { 3.0 };
        }
        HistoryEntry::new(format!("{}/{day}", common::HOSTILE), race)
    });
    let left_out = vec![SkippedFile { file: common::HOSTILE.into(), why: common::HOSTILE.into() }];
    let told = history(entries.collect(), left_out, None);
    for width in [40, 80, 120] {
        let style = Style { width, ..Style::default() };
        let text = render(&told, common::HOSTILE, "terminal", &style).unwrap();
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= width, "{widest} of {width}");
    }
    let text = shown(&told, "markdown");
    assert!(!text.contains("<b>") && !text.contains("@all") && !text.contains("[z]("));
}

#[test]
fn figures_that_are_no_numbers_are_left_out() {
    let entries = (0..8).map(|day| {
        let mut race = on_day(day, if day % 2 == 0 { f64::NAN } else { 0.0 });
        race.contenders.pop();
        HistoryEntry::new(day.to_string(), race)
    });
    let told = history(entries.collect(), Vec::new(), None);
    assert!(told.groups[0].changes.is_empty());
    for format in ["terminal", "markdown", "json"] {
        assert!(!shown(&told, format).contains("NaN"));
    }
}

fn deadheat(args: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_deadheat")).args(args).current_dir(dir).output().unwrap()
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_folder_is_searched_and_what_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("results/deep/er");
    std::fs::create_dir_all(&folder).unwrap();
    for day in 0..30 {
        let factor = wobble(day) * if day < 20 { 1.0 } else { 1.4 };
        save::save(&on_day(day, factor), &folder.join(format!("{day}.json"))).unwrap();
    }
    let root = dir.path().join("results");
    std::fs::write(root.join("empty.json"), "").unwrap();
    std::fs::write(root.join("package.json"), "{\"name\": \"x\"}").unwrap();
    std::fs::write(root.join("newer.json"), "{\"format\": 99, \"deadheat\": {}}").unwrap();
    std::fs::write(root.join("notes.txt"), "not looked at").unwrap();
    // A link back up must not be followed for ever.
    std::os::unix::fs::symlink(&root, folder.join("up")).unwrap();
    let output = deadheat(&["history", "results"], dir.path());
    let text = words(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output.stderr));
    assert!(text.starts_with("History of 30 races"), "{text}");
    assert!(text.contains("udp RTT p50: worse from 2026-01-21T04:00:00Z on"), "{text}");
    let left_out = text.split("Left out").nth(1).unwrap();
    for (file, why) in
        [("empty.json", "is empty"), ("package.json", "not a race"), ("newer.json", "newer")]
    {
        let line = left_out.lines().find(|line| line.contains(file)).unwrap();
        assert!(line.contains(why), "{line}");
    }
    assert!(!text.contains("notes.txt"));
    let args = ["history", "results", "--metric", "rtt_p99_ns", "--format", "json", "-o", "h.json"];
    let output = deadheat(&args, dir.path());
    assert_eq!(output.status.code(), Some(0), "{}", words(&output.stderr));
    let json = std::fs::read_to_string(dir.path().join("h.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["groups"][0]["series"][0]["metric"]["name"], "rtt_p99_ns");
    assert_eq!(json["left_out"].as_array().unwrap().len(), 3);
}

#[test]
fn mistakes_are_named_with_their_remedy() {
    let dir = tempfile::tempdir().unwrap();
    save::save(&on_day(1, 1.0), &dir.path().join("a.json")).unwrap();
    for (args, code, wanted) in [
        (&["history", "nowhere"][..], 1, "nowhere"),
        (&["history", "a.json"], 2, "a.json is a file; name the folder with the results"),
        (&["history", ".", "--metric", "rtt_p5_ns"], 2, "did you mean `rtt_p50_ns`"),
        (&["history", ".", "--format", "html"], 2, "terminal"),
        (&["history", ".", "--false-alarm-in", "5"], 2, "10..=1000000"),
        (&["history"], 2, "<DIR>"),
    ] {
        let output = deadheat(args, dir.path());
        let said = words(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(wanted), "{args:?}: {said}");
    }
    let empty = tempfile::tempdir().unwrap();
    let output = deadheat(&["history", "."], empty.path());
    assert_eq!(output.status.code(), Some(0));
    assert!(words(&output.stdout).contains("There is no race to tell of"));
}

#[test]
fn the_metric_is_that_of_the_figures() {
    let told = history(stepped(), Vec::new(), Some(METRIC));
    assert_eq!(told.groups[0].series.len(), 2);
    let told = history(stepped(), Vec::new(), Some("pdv_p99_ns"));
    assert!(told.groups[0].series.iter().all(|series| series.metric.name == "pdv_p99_ns"));
}
