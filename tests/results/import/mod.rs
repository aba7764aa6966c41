//! Importing files that the real tools wrote (`files/`, and README.md for how), and files that are
//! not what they should be.

use deadheat::analysis::derived;
use std::path::{Path, PathBuf};

use deadheat::analysis::compare::compare;
use deadheat::import::Import;
use deadheat::records::samples;
use deadheat::report::{self, ReportInput, Style};
use deadheat::result::imported::Spread;
use deadheat::result::outcome::{Outcome, Trial};
use deadheat::result::save;
use deadheat::stats::Outcome as Ruled;
use deadheat::stats::runs::Promise;

mod bad;
mod faults;
mod formats;
mod known;
mod losses;
mod misread;
mod plain;
mod published;
mod sources;
mod texts;

/// A file that a real tool wrote.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/results/import/files").join(name)
}

fn import(names: &[&str]) -> Outcome {
    Import::new(names.iter().map(|name| file(name))).run(None).unwrap()
}

/// Files with the given contents, in a folder of their own.
struct Written(tempfile::TempDir);

impl Written {
    fn new(files: &[(&str, &[u8])]) -> Written {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        Written(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// The first trial.
fn trial(outcome: &Outcome) -> &Trial {
    outcome.trials.first().unwrap()
}

/// One figure of the first trial.
fn figure(outcome: &Outcome, metric: &str) -> f64 {
    let metrics = &trial(outcome).record.metrics;
    *metrics.get(metric).unwrap_or_else(|| panic!("no {metric} in {metrics:?}"))
}

/// The five numbers of a contender.
fn spread<'a>(outcome: &'a Outcome, label: &str) -> &'a Spread {
    let id = outcome.contenders.iter().find(|entrant| entrant.label == label).unwrap().id;
    let spreads = &outcome.imported.as_ref().unwrap().spreads;
    spreads.iter().find(|own| own.contender == id).unwrap()
}

/// What can no longer be known, and what is odd, of all files together.
fn unknown(outcome: &Outcome) -> String {
    let files = &outcome.imported.as_ref().unwrap().files;
    let each = files.iter().flat_map(|file| file.unknown.iter().chain(&file.doubts));
    each.cloned().collect::<Vec<_>>().join("\n")
}

/// The reason why the trial with this number is invalid.
fn why(outcome: &Outcome, trial: usize) -> &str {
    let record = &outcome.trials[trial].record;
    assert!(!record.valid, "{record:?}");
    record.why_invalid.as_deref().unwrap()
}

/// Content of a file that a real tool wrote.
fn text_of(name: &str) -> String {
    std::fs::read_to_string(file(name)).unwrap()
}

fn shown(outcome: &Outcome, format: &str) -> String {
    let bytes = report::find(format)
        .unwrap()
        .render(&ReportInput::from(outcome), &Style::default())
        .unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn what_is_imported_is_saved_read_back_shown_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let (saved, kept) = (folder.path().join("r.json"), folder.path().join("r.samples"));
    let names = ["hyperfine.json", "irtt.json.gz", "iperf3-udp.json", "ping.txt"];
    let outcome = Import::new(names.map(file)).run(Some(&kept)).unwrap();
    save::save(&outcome, &saved).unwrap();
    assert_eq!(derived::load(&saved).unwrap(), outcome);
    for report in report::ALL {
        let shown = ReportInput { outcome: &outcome, samples: Some(&kept) };
        let bytes = report.render(&shown, &Style::default()).unwrap();
        assert!(!bytes.is_empty(), "{}", report.id());
    }
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../docs/result.schema.json")).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let json = serde_json::to_value(&outcome).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&json)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let rows = compare(&[&outcome], &[&outcome], Promise::Once).rows;
    assert!(rows.iter().any(|row| row.contender == "sleep 0.01"));
}

#[test]
fn what_was_imported_cannot_be_resumed_or_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("r.json");
    save::save(&import(&["hyperfine.json"]), &saved).unwrap();
    for option in ["--resume", "--replay"] {
        let ran = std::process::Command::new(env!("CARGO_BIN_EXE_deadheat"))
            .args(["race", option])
            .arg(&saved)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.contains("this result was imported"), "{said}");
    }
}

#[test]
fn the_command_saves_shows_and_never_replaces_what_it_reads() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("ping.txt");
    std::fs::copy(file("ping.txt"), &own).unwrap();
    let run = |output: &str| {
        std::process::Command::new(env!("CARGO_BIN_EXE_deadheat"))
            .current_dir(folder.path())
            .args(["import", "ping.txt", "--format", "csv", "--samples", "-o", output])
            .output()
            .unwrap()
    };
    let refused = run("ping.txt");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("would be replaced; choose another with -o"), "{said}");
    assert_eq!(std::fs::read(&own).unwrap(), std::fs::read(file("ping.txt")).unwrap());
    let done = run("r.json");
    assert!(done.status.success());
    assert!(String::from_utf8_lossy(&done.stdout).contains("rtt_p50_ns"));
    let saved = derived::load(&folder.path().join("r.json")).unwrap();
    assert_eq!(saved.contenders[0].label, "ping");
    assert!(folder.path().join("r.samples").is_file());
}

#[test]
fn files_of_one_label_are_trials_of_one_contender() {
    let names = ["iperf3-tcp.json", "iperf3-tcp-parallel.json", "iperf3-udp.json"];
    let import = Import::new(names.map(file));
    let import = import.label("tcp").label("iperf3-tcp-parallel.json=tcp");
    let outcome = import.run(None).unwrap();
    let labels: Vec<&str> = outcome.contenders.iter().map(|one| one.label.as_str()).collect();
    assert_eq!(labels, ["tcp", "iperf3-udp"]);
    let places: Vec<(usize, u64)> =
        outcome.trials.iter().map(|trial| (trial.contender, trial.block)).collect();
    assert_eq!(places, [(0, 0), (0, 1), (1, 0)]);
    assert!(outcome.verdicts.is_empty());
    let basis = &outcome.imported.as_ref().unwrap().basis;
    assert!(basis.starts_with("No verdict: iperf3-udp has one trial."), "{basis}");
    assert!(shown(&outcome, "terminal").contains("No verdict: iperf3-udp has one trial."));
    let import = Import::new([file("ping.txt")]).label("pong.txt=x");
    let said = import.run(None).unwrap_err().to_string();
    assert!(said.contains("no file is called `pong.txt`"), "{said}");
}

#[test]
fn names_that_nobody_gave_stay_apart() {
    let [ping, hyperfine] = ["ping.txt", "hyperfine.json"].map(text_of);
    // A space more, so that it is another measurement.
    let again = hyperfine.replacen(':', ": ", 1);
    let written = Written::new(&[("ping.txt", ping.as_bytes()), ("h.json", again.as_bytes())]);
    let other = ping.replacen("time=", "time=1", 1);
    std::fs::write(written.path("ping.log"), other).unwrap();
    let files = [written.path("ping.txt"), written.path("ping.log"), file("hyperfine.json")];
    let files = files.into_iter().chain([written.path("h.json")]);
    let outcome = Import::new(files).run(None).unwrap();
    let labels: Vec<&str> = outcome.contenders.iter().map(|one| one.label.as_str()).collect();
    assert_eq!(labels, ["ping", "ping #2", "true", "sleep 0.01", "true #2", "sleep 0.01 #2"]);
    let verdict = |a, b| {
        outcome.verdicts.iter().find(|verdict| (verdict.a, verdict.b) == (a, b)).unwrap().outcome
    };
    assert_eq!(verdict(2, 3), Ruled::Ahead);
    assert_eq!(verdict(2, 4), Ruled::Undecided, "12 noisy trials against themselves");
}

#[test]
fn samples_are_kept_trial_by_trial_beside_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("r.samples");
    let import = Import::new(["irtt-loss.json.gz", "ping-lossy.txt"].map(file));
    let outcome = import.run(Some(&kept)).unwrap();
    let chunks: Vec<samples::Chunk> = samples::open(&kept).unwrap().map(Result::unwrap).collect();
    assert_eq!(chunks.len(), 2);
    let lost = |chunk: &samples::Chunk| chunk.samples.iter().filter(|s| s.rtt_ns.is_none()).count();
    assert_eq!((chunks[0].samples.len(), lost(&chunks[0])), (100, 8));
    assert_eq!((chunks[1].samples.len(), lost(&chunks[1])), (60, 4));
    assert_eq!(chunks[1].place.contender, 1);
    assert!(chunks[0].samples[50].intended_ns > 490_000_000, "sent every 10 ms");
    assert_eq!(outcome.trials.len(), 2);
    // Again: what was there is replaced, and nothing is left over.
    import.run(Some(&kept)).unwrap();
    assert_eq!(samples::open(&kept).unwrap().count(), 2);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
