//! A race held against a baseline: in virtual time, so that every figure and exit code is the same each time.

use crate::common;
use deadheat::analysis::derived;
use std::path::Path;
use std::process::{Command, Output};

use deadheat::result::outcome::{Outcome, Ratio, Status, UNTRUSTED_GATE, Warning};
use deadheat::result::save;
use deadheat::stats::Outcome as VerdictOutcome;

const RACE: &[&str] = &[
    "race",
    "sim-datagram",
    "arq",
    "--path",
    "sim:delay=5ms,jitter=2ms,rate=20mbit",
    "-w",
    "ping:count=200",
    "--blocks",
    "8",
    "--margin",
    "5%",
    "-q",
];

fn deadheat(args: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_deadheat")).args(args).current_dir(dir).output().unwrap()
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder with a race in `base.json`.
fn with_baseline() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let output = deadheat(&[RACE, &["--seed", "1", "-o", "base.json"]].concat(), dir.path());
    assert_eq!(output.status.code(), Some(0), "{}", words(&output.stderr));
    dir
}

/// `base.json` with every figure of a contender multiplied, in `NAME.json`.
fn edited(dir: &Path, name: &str, change: impl Fn(&mut Outcome)) {
    let mut race = derived::load(&dir.join("base.json")).unwrap();
    change(&mut race);
    save::save(&race, &dir.join(name)).unwrap();
}

fn times(race: &mut Outcome, contender: usize, factor: f64) {
    for trial in race.trials.iter_mut().filter(|trial| trial.contender == contender) {
        trial.record.metrics.values_mut().for_each(|figure| *figure *= factor);
    }
}

fn gated(dir: &Path, baseline: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let args = [RACE, &["--seed", "2", "-o", "new.json", "--gate", baseline], more].concat();
    let output = deadheat(&args, dir);
    (output.status.code(), words(&output.stdout), words(&output.stderr))
}

#[test]
fn the_same_passes_and_what_is_worse_does_not() {
    let dir = with_baseline();
    let (code, out, said) = gated(dir.path(), "base.json", &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("gate: nothing is worse than base.json beyond the margin"), "{said}");
    assert!(said.contains("the same within the margin: sim-datagram"), "{said}");
    assert!(out.contains("dead heat") && !out.contains("gate:"), "{out}");

    edited(dir.path(), "faster.json", |race| times(race, 1, 1.0 / 3.0));
    let (code, _, said) = gated(dir.path(), "faster.json", &["--format", "json"]);
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("gate: worse than faster.json: arq "), "{said}");
    assert!(said.contains("3.0") && said.contains("beyond the margin of ±5 %"), "{said}");
    assert!(!said.contains("nothing is worse"), "{said}");
    assert!(said.contains("saved: new.json"), "{said}");
    assert!(dir.path().join("new.json").exists());

    edited(dir.path(), "slower.json", |race| times(race, 1, 3.0));
    let (code, _, said) = gated(dir.path(), "slower.json", &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("better: arq"), "{said}");
}

#[test]
fn what_is_undecided_is_said_and_is_not_worse() {
    let dir = with_baseline();
    // Trials that go up and down by half: no interval is narrow enough.
    edited(dir.path(), "noisy.json", |race| {
        for trial in race.trials.iter_mut().filter(|trial| trial.contender == 1) {
            let factor = if trial.block % 2 == 0 { 0.5 } else { 1.6 };
            trial.record.metrics.values_mut().for_each(|figure| *figure *= factor);
        }
    });
    let (code, _, said) = gated(dir.path(), "noisy.json", &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("undecided, which is not worse; more blocks or more runs of the baseline would tell: arq"), "{said}");
}

#[test]
fn the_larger_margin_counts() {
    let dir = with_baseline();
    edited(dir.path(), "faster.json", |race| {
        times(race, 1, 1.0 / 1.2);
        race.plan.margin = 0.5;
    });
    let (code, _, said) = gated(dir.path(), "faster.json", &[]);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_replay_and_a_resumed_race_are_gated_too() {
    let dir = with_baseline();
    edited(dir.path(), "faster.json", |race| times(race, 0, 1.0 / 3.0));
    let replay = ["race", "--replay", "base.json", "-q", "-o", "again.json", "--gate"];
    let output = deadheat(&[&replay[..], &["faster.json"]].concat(), dir.path());
    assert_eq!(output.status.code(), Some(5), "{}", words(&output.stderr));
    let output = deadheat(&[&replay[..], &["base.json"]].concat(), dir.path());
    assert_eq!(output.status.code(), Some(0), "{}", words(&output.stderr));
    edited(dir.path(), "half.json", |race| {
        race.trials.retain(|trial| trial.block < 4);
        race.status = Status::Interrupted;
    });
    let resume = ["race", "--resume", "half.json", "-q", "--gate", "faster.json"];
    let output = deadheat(&resume, dir.path());
    assert_eq!(output.status.code(), Some(5), "{}", words(&output.stderr));
}

#[test]
fn a_baseline_that_cannot_judge_is_refused_before_anything_runs() {
    let dir = with_baseline();
    let base = dir.path();
    edited(base, "others.json", |race| {
        for (contender, label) in race.contenders.iter_mut().zip(["quick", "quack"]) {
            contender.label = label.into();
        }
    });
    edited(base, "goodput.json", |race| race.metrics[0].name = "goodput_bps".into());
    edited(base, "silent.json", |race| race.trials.clear());
    edited(base, "longer.json", |race| {
        race.asked.workload = race.asked.workload.replace("200", "300")
    });
    std::fs::create_dir(base.join("two")).unwrap();
    std::fs::create_dir(base.join("mixed")).unwrap();
    std::fs::create_dir(base.join("nothing")).unwrap();
    for (at, seed) in [1, 2, 3].into_iter().enumerate() {
        let mut race = common::full();
        race.seed = seed;
        save::save(&race, &base.join(format!("measured-{at}.json"))).unwrap();
        race.asked.workload.push_str(if seed == 2 { ",timeout=1s" } else { "" });
        save::save(&race, &base.join(format!("mixed/{at}.json"))).unwrap();
        if at < 2 {
            save::save(&common::full(), &base.join(format!("two/{at}.json"))).unwrap();
        }
    }
    std::fs::write(base.join("cut.json"), "{\"format\": 1,").unwrap();
    for (baseline, code, wanted) in [
        ("nowhere.json", 1, "nowhere.json"),
        ("cut.json", 1, "ends in the middle"),
        ("measured-0.json", 2, "one run does not tell how much runs of the same thing differ"),
        ("two", 2, "two runs do not tell"),
        ("mixed", 2, "no runs of the same thing; workload"),
        ("nothing", 2, "has no result in it"),
        ("longer.json", 2, "a gate takes runs of the same race"),
        ("others.json", 2, "the baseline has quick, quack"),
        ("goodput.json", 2, "no claimed metric in common"),
        ("silent.json", 2, "no figures at all"),
    ] {
        let (found, out, said) = gated(base, baseline, &[]);
        assert_eq!(found, Some(code), "{baseline}: {said}");
        assert!(said.contains(wanted), "{baseline}: {said}");
        assert!(out.is_empty() && !base.join("new.json").exists(), "{baseline} ran");
    }
    let three =
        ["--gate", "measured-0.json", "--gate", "measured-1.json", "--gate", "measured-2.json"];
    let output = deadheat(&[RACE, &["-o", "new.json"], &three[..]].concat(), base);
    assert_eq!(output.status.code(), Some(2));
    let said = words(&output.stderr);
    assert!(said.contains("the baseline is measured and this race is simulated"), "{said}");
    let output = deadheat(&[RACE, &["-o", "two/2.json", "--gate", "two"]].concat(), base);
    assert_eq!(output.status.code(), Some(2));
    assert!(words(&output.stderr).contains("written into its own baseline"));
    let output = deadheat(&[RACE, &["-o", "base.json", "--gate", "./base.json"]].concat(), base);
    assert_eq!(output.status.code(), Some(2));
    assert!(words(&output.stderr).contains("overwrite its own baseline"));
}

/// Runs of the baseline in a folder: the gate knows how much they differ, says what it can tell, in Markdown too, and
/// `compare --gate` says the same of a saved race.
#[test]
fn a_folder_of_runs_is_a_baseline() {
    let dir = with_baseline();
    let base = dir.path();
    std::fs::create_dir(base.join("runs")).unwrap();
    for (at, factor) in [1.0, 1.04, 0.97, 1.01, 0.99].into_iter().enumerate() {
        edited(base, &format!("runs/{at}.json"), |race| {
            times(race, 0, factor);
            times(race, 1, factor);
            race.started = format!("2026-03-0{}T04:00:00Z", at + 1);
        });
    }
    let (code, out, said) = gated(base, "runs", &["--format", "markdown"]);
    assert_eq!(code, Some(0), "{said}");
    for wanted in [
        "gate: nothing is worse than runs (5 runs) beyond the margin",
        "gate: 5 old runs: this comparison can tell changes beyond: sim-datagram RTT p50 ",
        "(runs differ by ",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    assert!(
        out.contains("## Gate") && out.contains("**Nothing is worse than runs (5 runs)"),
        "{out}"
    );
    for (at, factor) in [(5, 1.0), (6, 3.0)] {
        edited(base, &format!("after-{at}.json"), |race| times(race, 1, factor));
    }
    for (new, code) in [("after-5.json", 0), ("after-6.json", 5)] {
        let output = deadheat(&["compare", "runs", new, "--gate", "--format", "json"], base);
        let said = words(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["old"].as_array().unwrap().len(), 5);
        assert_eq!(json["rows"][0]["basis"], "runs");
        assert_eq!(said.contains("gate: worse than runs (5 runs): arq"), code == 5, "{said}");
    }
    // A race that is not trusted condemns nothing.
    edited(base, "doubtful.json", |race| {
        times(race, 1, 3.0);
        race.warnings.push(Warning {
            code: UNTRUSTED_GATE.into(),
            message: "too many".into(),
            advice: "again".into(),
        });
    });
    let output = deadheat(&["compare", "runs", "doubtful.json", "--gate"], base);
    assert_eq!(output.status.code(), Some(3), "{}", words(&output.stderr));
}

/// Two builds in one race: the first is the baseline, and one verdict covers the races over all paths.
#[test]
fn the_second_contender_is_held_against_the_first_over_all_paths_together() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path();
    let more = ["--seed", "1", "-o", "base.json", "--gate", "first", "--gate-races", "2"];
    let blocks: Vec<&str> =
        RACE.iter().map(|word| if *word == "8" { "14" } else { *word }).collect();
    let output = deadheat(&[&blocks[..], &more].concat(), base);
    let said = words(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let nothing = "gate: nothing is worse than sim-datagram beyond the margin";
    assert!(said.contains(nothing), "{said}");
    // One race of two has its half of the error.
    assert!(said.contains("at most 2.5 % of such gates raise an alarm within 100 runs"), "{said}");
    // Verdicts are read as they were saved.
    let on_another_path = |name: &str, factor: f64| {
        edited(base, name, |race| {
            race.asked.path = "sim:delay=9ms".into();
            race.path.spec = "delay=9ms".into();
            let verdict = &mut race.verdicts[0];
            assert_eq!((verdict.a, verdict.b), (0, 1));
            verdict.outcome = VerdictOutcome::Ahead;
            verdict.ahead = Some(usize::from(factor < 1.0));
            let around = |by: f64| by / factor;
            let (point, low, high) = (around(1.0), around(0.9), around(1.1));
            verdict.ratio = Some(Ratio { point, low, high });
        });
    };
    on_another_path("slower.json", 3.0);
    on_another_path("faster.json", 1.0 / 3.0);
    let comment = |files: &[&str]| {
        let args = [&["report"], files, &["--format", "comment", "--gate", "first"]].concat();
        let output = deadheat(&args, base);
        (output.status.code(), words(&output.stdout), words(&output.stderr))
    };
    let (code, text, said) = comment(&["base.json", "slower.json"]);
    assert_eq!(code, Some(5), "{said}");
    let mut lines = text.lines().filter(|line| !line.is_empty());
    let mark = lines.next().unwrap();
    assert!(mark.starts_with("<!-- deadheat verdict=worse ratio=3.0"), "{mark}");
    assert!(mark.contains(" bound=2."), "three times as high is worse by two: {mark}");
    assert_eq!(lines.next(), Some("### arq is worse than sim-datagram in 1 of 2 races"));
    let worst = lines.next().unwrap();
    assert!(worst.starts_with("- **Worse than sim-datagram: arq RTT p50 3.0"), "{worst}");
    assert!(worst.ends_with("beyond the margin of ±5 %, simulated over delay=9ms.**"), "{worst}");
    assert!(said.contains("gate: worse than sim-datagram: arq RTT p50"), "{said}");
    let five = "at most 5 % of such gates raise an alarm within 100 runs, its 2 races together";
    assert!(text.contains(five) && said.contains(five), "{text} {said}");
    assert!(text.contains("- contender: sim-datagram"), "{text}");
    let screen: Vec<&str> =
        text.lines().take_while(|line| !line.starts_with("<details>")).collect();
    assert!(screen.len() <= 25, "{text}");
    let (code, text, said) = comment(&["base.json", "faster.json"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(text.contains("Better: arq RTT p50 ") && said.contains(nothing), "{text} {said}");
    // Half of a gate is none.
    let (code, text, said) = comment(&["base.json"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(text.starts_with("<!-- deadheat verdict=doubtful -->"), "{text}");
    assert!(said.contains("gate: no judgement on 1 of the 2 races of this gate"), "{said}");
    // A folder of results is a gate, too.
    std::fs::create_dir(base.join("paths")).unwrap();
    for file in ["base.json", "slower.json"] {
        std::fs::copy(base.join(file), base.join("paths").join(file)).unwrap();
    }
    assert_eq!(comment(&["paths"]).0, Some(5));
}

#[test]
fn a_gate_against_the_first_contender_is_refused_where_it_makes_no_sense() {
    let dir = with_baseline();
    let refused = |more: &[&str], why: &str| {
        let output = deadheat(&[RACE, &["-o", "new.json"], more].concat(), dir.path());
        let said = words(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {said}");
        assert!(said.contains(why), "{more:?}: {said}");
        assert!(!dir.path().join("new.json").exists(), "{more:?}");
    };
    refused(&["--gate", "first"], "8 blocks cannot decide 1 claim; 12 are the fewest");
    refused(&["--gate", "first", "--gate", "base.json"], "so there are no files to compare with");
    refused(&["--gate", "base.json", "--gate-races", "2"], "it goes with --gate first");
    refused(&["--gate", "first", "--gate-races", "0"], "1 to 50 make sense");
    let output = deadheat(&["report", "base.json", "--gate", "base.json"], dir.path());
    let said = words(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("--gate first"), "{said}");
}

/// Every command of the page about continuous integration is understood down to the last option: all that
/// is wrong with it is the format that is added here, which is looked at before anything runs.
#[test]
fn the_commands_of_the_workflow_are_understood() {
    let dir = tempfile::tempdir().unwrap();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ci.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut fenced = false;
    let mut commands = 0;
    for line in page.lines() {
        fenced ^= line.starts_with("```");
        let Some((_, options)) = line.split_once("deadheat race ").filter(|_| fenced) else {
            continue;
        };
        let typed: Vec<&str> = ["race"].into_iter().chain(options.split_whitespace()).collect();
        let output = deadheat(&[&typed[..], &["--format", "none-such"]].concat(), dir.path());
        let said = words(&output.stderr);
        assert!(said.contains("unknown format `none-such`"), "{line}: {said}");
        commands += 1;
    }
    assert_eq!(commands, 7);
}
