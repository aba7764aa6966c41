//! `deadheat study` as a user meets it: a small study on loopback from its file to its report, and each
//! mistake with one clear error.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use deadheat::report::studies::render;
use deadheat::report::study::Form;
use deadheat::report::{Style, study};
use deadheat::result::study::outcome::{Setting, StudyRun};
use deadheat::study::{bundled, restated, save};

fn deadheat(args: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_deadheat"))
        .args(args)
        .env("DEADHEAT_TEST_UNSETTLED", "1")
        .current_dir(dir)
        .output()
        .expect("the binary runs")
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Two races of about a second each, one that cannot run, and a claim that any machine agrees with.
const TINY: &str = r#"
title = "Echoes over UDP and TCP"
question = "Does an echo on one machine take less than a second?"

[[race]]
id = "udp-tcp"
variant = "as_published"
about = "Short echoes."
flaws = ["There are only a few."]
contenders = ["tcp", "udp"]
workload = "ping:window=1,count=40"
blocks = 12
margin = "90%"
quick = { blocks = 6 }

[[race]]
id = "nowhere"
variant = "beyond"
about = "On CPUs that no machine has."
contenders = ["tcp"]
workload = "ping:window=1,count=40"
placement = "0,4000"
blocks = 6

[[race]]
id = "pipes"
variant = "done_right"
about = "The same over two pipes."
contenders = ["pipe"]
workload = "ping:window=1,count=40"
blocks = 6
margin = "90%"

[[published]]
race = "udp-tcp"
metric = "rtt_p50_ns"
cell = { contender = "tcp" }
value = "310us"

[[claim]]
id = "within-a-second"
says = "An echo takes less than a second."
[[claim.test]]
race = "pipes"
metric = "rtt_p50_ns"
of = { contender = "pipe" }
expect = "below 1s"
"#;

#[test]
fn a_study_of_ones_own_is_run_saved_shown_and_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tiny.toml"), TINY).unwrap();
    let run = |more: &[&str]| {
        let args = [&["study", "run", "tiny.toml", "--quick", "-o", "out", "-q"], more].concat();
        deadheat(&args, dir.path())
    };
    let first = run(&["--seed", "5", "--label", "rack=7"]);
    let said = words(&first.stdout);
    // Whether a race of six blocks is trusted is the machine's to say.
    assert!(matches!(first.status.code(), Some(0 | 3)), "{said}{}", words(&first.stderr));
    for wanted in [
        "Echoes over UDP and TCP",
        "study tiny, quick setting",
        "An echo takes less than a second.",
        "Published beside measured",
        "nowhere (beyond what was published)",
        "1 of 3 races did not run",
        "4000",
    ] {
        assert!(said.contains(wanted), "no {wanted}: {said}");
    }
    assert_eq!(words(&first.stderr), "saved: out\n", "silence but for the directory");
    let out = dir.path().join("out");
    let result = fs::read(out.join("udp-tcp.json")).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&result).unwrap();
    assert_eq!(value["seed"], 5);
    assert_eq!(value["labels"]["rack"], "7");
    assert!(!out.join("udp-tcp.samples").exists() && !out.join("nowhere.json").exists());

    let again = run(&[]);
    assert_eq!(again.status.code(), first.status.code(), "{}", words(&again.stderr));
    assert_eq!(fs::read(out.join("udp-tcp.json")).unwrap(), result, "a whole race is kept");

    for (format, wanted) in
        [("terminal", "Claims"), ("markdown", "### Claims"), ("json", "\"study_format\": 1")]
    {
        let shown = deadheat(&["study", "report", "out", "--format", format], dir.path());
        assert_eq!(shown.status.code(), Some(0), "{}", words(&shown.stderr));
        assert!(words(&shown.stdout).contains(wanted), "{format}: {}", words(&shown.stdout));
    }
    let one = deadheat(&["report", "out/pipes.json"], dir.path());
    assert!(
        words(&one.stdout).contains("Echoes over UDP and TCP: pipes"),
        "{}",
        words(&one.stderr)
    );
    let other = deadheat(&["study", "run", "tiny.toml", "-o", "out"], dir.path());
    assert_eq!(other.status.code(), Some(2));
    assert!(words(&other.stderr).contains("at the quick setting"), "{}", words(&other.stderr));
}

#[test]
fn several_studies_go_into_a_directory_each_and_end_with_their_claims() {
    let dir = tempfile::tempdir().unwrap();
    let only = |id: &str| {
        let at = |what: &str| TINY.find(what).unwrap();
        let head = &TINY[..at("[[race]]")];
        let pipes = &TINY[at("[[race]]\nid = \"pipes\"")..at("[[published]]")];
        fs::write(dir.path().join(id), format!("{head}{pipes}{}", &TINY[at("[[claim]]")..]))
            .unwrap();
    };
    only("a.toml");
    only("b.toml");
    let args = ["study", "run", "a.toml", "./b.toml", "--quick", "-o", "all", "-q"];
    let ran = deadheat(&args, dir.path());
    let said = words(&ran.stdout);
    assert!(matches!(ran.status.code(), Some(0 | 3)), "{said}{}", words(&ran.stderr));
    let (_, closing) = said.split_once("\nClaims\n  a (1 claim: ").unwrap();
    assert!(closing.contains("\n  b (1 claim: "), "{closing}");
    for file in ["all/a/study.json", "all/b/pipes.json"] {
        assert!(dir.path().join(file).exists(), "{file}");
    }
    assert!(!dir.path().join("all/a/pipes.samples").exists());
    let shown = deadheat(&["study", "report", "all"], dir.path());
    let said = words(&shown.stdout);
    assert_eq!(shown.status.code(), Some(0), "{}", words(&shown.stderr));
    assert!(said.starts_with("The claims of 2 studies\n"), "{said}");
    let page = deadheat(&["study", "report", "all", "--format", "html"], dir.path());
    let said = words(&page.stdout);
    assert_eq!(page.status.code(), Some(0), "{}", words(&page.stderr));
    assert!(said.starts_with("<!doctype html>"), "{said}");
    assert_eq!(said.matches("<ul class=\"claims\">").count(), 2, "{said}");
    let refused = deadheat(&["study", "report", "all", "--format", "json"], dir.path());
    assert_eq!(refused.status.code(), Some(2));
    assert!(words(&refused.stderr).contains("of one study"), "{}", words(&refused.stderr));
}

#[test]
fn a_study_is_shown_with_the_commands_it_stands_for() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tiny.toml"), TINY).unwrap();
    let shown = words(&deadheat(&["study", "show", "tiny.toml"], dir.path()).stdout);
    for wanted in [
        "tiny: Echoes over UDP and TCP",
        "deadheat race tcp udp --workload ping:window=1,count=40 --blocks 12 --margin 90%\n",
        "deadheat race tcp udp --workload ping:window=1,count=40 --blocks 6 --margin 90%    # --quick",
        "- There are only a few.",
        "udp-tcp, rtt_p50_ns, tcp: 310us",
        "- pipes, rtt_p50_ns, pipe is below 1s",
    ] {
        assert!(shown.contains(wanted), "no {wanted}: {shown}");
    }
    let toml = deadheat(&["study", "show", "tiny.toml", "--toml"], dir.path());
    assert_eq!(words(&toml.stdout), TINY);
}

#[test]
fn every_bundled_study_is_listed_and_can_be_shown() {
    let dir = tempfile::tempdir().unwrap();
    let listed = words(&deadheat(&["study", "list"], dir.path()).stdout);
    assert!(listed.starts_with("STUDIES\n"), "{listed}");
    assert_eq!(words(&deadheat(&["list", "studies", "--all"], dir.path()).stdout), listed);
    for name in bundled::names() {
        assert!(listed.contains(&format!("\n  {name}")), "{listed}");
        let shown = deadheat(&["study", "show", name], dir.path());
        assert_eq!(shown.status.code(), Some(0), "{}", words(&shown.stderr));
        assert!(words(&shown.stdout).starts_with(&format!("{name}: ")));
    }
}

#[test]
fn mistakes_are_named_with_their_remedy_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tiny.toml"), TINY).unwrap();
    fs::write(dir.path().join("wrong.toml"), TINY.replace("workload", "worklaod")).unwrap();
    fs::create_dir(dir.path().join("empty")).unwrap();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["study"], 2, "Usage"),
        (&["study", "run"], 2, "NAME|FILE.toml"),
        (&["study", "run", "no-such-study"], 2, "unknown study `no-such-study`"),
        (&["study", "run", "tiny.toml", "--all"], 2, "--all"),
        (&["study", "run", "tiny.toml", "./tiny.toml"], 2, "`tiny` is given twice"),
        (&["study", "run", "tiny.toml", "--format", "csv"], 2, "terminal, markdown, json"),
        (&["study", "run", "tiny.toml", "--label", "x"], 2, "key=value"),
        (&["study", "run", "tiny.toml", "--full", "echoes"], 2, "--quick"),
        (&["study", "run", "--all", "--quick", "--full", "echoes"], 2, "cannot be used with"),
        (&["study", "run", "tiny.toml", "--quick", "--full", "echos"], 2, "unknown race `echos`"),
        (
            &["study", "run", "tiny.toml", "week-long", "--quick", "--full", "week"],
            2,
            "run that study alone",
        ),
        (&["study", "run", "tiny.toml", "--side-by-side", "0"], 2, "--side-by-side"),
        (&["study", "run", "missing.toml"], 1, "read missing.toml"),
        (&["study", "run", "wrong.toml"], 1, "did you mean `workload`?"),
        (&["study", "run", "tiny.toml", "-o", "tiny.toml"], 2, "is not a directory"),
        (&["study", "show", "wrong.toml"], 1, "wrong.toml: line "),
        (&["study", "report", "empty"], 1, "no study was run here"),
        (&["study", "report", "tiny.toml"], 1, "this is not JSON"),
    ];
    for (args, code, wanted) in cases {
        let output = deadheat(args, dir.path());
        let said = words(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {said}");
        assert!(said.contains(wanted), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "nothing was written");
}

/// Two races in virtual time, which yields the same on every machine.
const SIMULATED: &str = r#"
title = "A simulated link"
question = "What does a message in order wait for?"
over = "delay, ms"

[[race]]
id = "clean"
variant = "as_published"
about = "A link that loses nothing."
contenders = ["arq", "sim-datagram"]
workload = "ping:interval=20ms,count=200"
path = "sim:delay=10ms"
blocks = 12

[[race]]
id = "lossy"
variant = "done_right"
about = "One message in fifty is lost."
contenders = ["arq", "sim-datagram"]
workload = "ping:interval=20ms,count=200,claim=p90"
path = "sim:delay=10ms,loss=2%"
blocks = 12

[[published]]
race = "clean"
metric = "rtt_p50_ns"
cell = { contender = "sim-datagram" }
value = "20ms"
at = 10
line = "datagrams"

[[claim]]
id = "as-published"
says = "The time is that of the author."
agree = { within = "5%", at_least = 1 }

[[claim]]
id = "same"
says = "Nothing lost, nothing waits."
[[claim.test]]
race = "clean"
metric = "rtt_p50_ns"
of = { contender = "arq" }
against = { contender = "sim-datagram" }
expect = "within the margin"
[[claim.test]]
race = "clean"
metric = "rtt_p50_ns"
of = { contender = "sim-datagram" }
expect = "20ms..21ms"

[[claim]]
id = "never-lost"
says = "Nothing is lost."
depends_on = "who sends again"
[[claim.test]]
race = "lossy"
metric = "loss_share"
of = { contender = "arq" }
expect = "below 0.1%"
[[claim.test]]
race = "lossy"
metric = "loss_share"
of = { contender = "sim-datagram" }
expect = "below 0.1%"
"#;

#[test]
fn a_simulated_study_rules_the_same_each_time_and_goes_on_after_a_race_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("sim.toml"), SIMULATED).unwrap();
    let run = |out: &str| {
        let args = ["study", "run", "sim.toml", "-o", out, "--seed", "3", "--format", "json", "-q"];
        let ran = deadheat(&args, dir.path());
        assert_eq!(ran.status.code(), Some(0), "{}", words(&ran.stderr));
        let mut value: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
        value["started"].take();
        value
    };
    let once = run("once");
    let counted = "1 of 1 published figures agree within 5% or the range of their trials, 0 do not, and 0 are not decided; \
                   asked for: 1.";
    assert_eq!(once["rulings"][0]["note"], counted);
    assert_eq!(once["rulings"][1]["ruling"], "holds", "{}", once["rulings"][1]["note"]);
    assert_eq!(once["rulings"][2]["ruling"], "depends", "{}", once["rulings"][2]["note"]);
    let drawn = deadheat(&["study", "report", "once", "--figure", "curves"], dir.path());
    let drawn = words(&drawn.stdout);
    assert!(drawn.contains("datagrams, 10.0: published 20.0 ms"), "{drawn}");
    assert_eq!(once["beside"][0]["value"], 20_000_000.0);
    assert_eq!(run("twice"), once);
    fs::remove_file(dir.path().join("once/lossy.json")).unwrap();
    assert_eq!(run("once"), once);
}

#[test]
fn ctrl_c_ends_a_study_cleanly_and_says_how_to_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let long = TINY.replace("blocks = 12", "blocks = 2000").replace("\"90%\"", "\"1%\"");
    fs::write(dir.path().join("long.toml"), long).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_deadheat"))
        .args(["study", "run", "long.toml", "-o", "out"])
        .env("DEADHEAT_TEST_UNSETTLED", "1")
        .current_dir(dir.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    while !dir.path().join("out/udp-tcp.json").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be stopped");
        std::thread::sleep(Duration::from_millis(2));
    }
    // SAFETY: the child has not been reaped, so the id is its own.
    unsafe { libc::kill(i32::try_from(child.id()).unwrap(), libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    let said = words(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    assert!(said.contains("long, race 1 of 3, udp-tcp"), "{said}");
    assert!(said.contains("stopped; to go on, give the same command with -o out"), "{said}");
    assert!(words(&output.stdout).contains("stopped before its end"));
    let study = fs::read(dir.path().join("out/study.json")).unwrap();
    let study: serde_json::Value = serde_json::from_slice(&study).unwrap();
    assert_eq!(study["races"][2]["why_not"], "not run yet");
}

/// Runs that are kept in the repository can be read by this version, and what is written about them follows
/// from their trials by its rules. `UPDATE_GOLDEN` writes it again, with the claims as the studies have
/// them now; races stay as they ran.
#[test]
fn kept_runs_say_what_their_figures_say() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("studies/runs");
    let folders = |path: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(path).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
    };
    let mut studies = 0;
    for folder in folders(&kept) {
        let places = save::within(&folder);
        assert_eq!(places.len(), folders(&folder).len(), "{}", folder.display());
        let mut runs = Vec::new();
        for place in places {
            let run = save::load(&place).unwrap();
            let results = save::ruled(&run, &place).unwrap();
            let mut again = run.clone();
            restated::restate(&mut again, &bundled::study(&run.name).unwrap().study, &results);
            let said = study::render(&again, &results, Form::Markdown, &Style::default()).unwrap();
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                write_packed(&place.join("study.json.gz"), &again);
                fs::write(place.join("README.md"), &said).unwrap();
            } else {
                assert_eq!(again, run, "{}", place.display());
                assert_eq!(read(&place.join("README.md")), said, "{}", place.display());
            }
            runs.push(again);
        }
        let said = render(&runs, Form::Markdown, &Style::default()).unwrap();
        let results = folder.join("RESULTS.md");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&results, &said).unwrap();
        }
        assert_eq!(read(&results), said, "{}", results.display());
        studies += runs.len();
    }
    assert!(studies >= 11, "{studies} studies in {}", kept.display());
}

#[test]
fn a_figure_of_a_study_is_drawn_by_its_name() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("studies/runs/2026-11-22-epyc");
    let report = |args: &[&str]| deadheat(&[&["study", "report"], args].concat(), &kept);
    let listed = words(&report(&["snkzt-pingpong", "--figure", "list"]).stdout);
    for id in ["published ", "claims ", "claim-nearly-identical "] {
        assert!(listed.contains(id), "{listed}");
    }
    let drawn = report(&["snkzt-pingpong", "--figure", "claim-nearly-identical"]);
    assert!(words(&drawn.stdout).starts_with("<svg "), "{}", words(&drawn.stderr));
    let refused = report(&["snkzt-pingpong", "--figure", "claim-nearly"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        words(&refused.stderr).contains("claim-nearly-identical"),
        "{}",
        words(&refused.stderr)
    );
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap()
}

fn write_packed(file: &Path, run: &StudyRun) {
    let text = study::render(run, &BTreeMap::new(), Form::Json, &Style::default()).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(text.as_bytes()).unwrap();
    fs::write(file, packed.finish().unwrap()).unwrap();
}

/// The table of `studies/README.md` has the times that `study list` has, and their sum.
#[test]
fn the_readme_of_the_studies_has_the_times_of_study_list() {
    let readme = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("studies/README.md"));
    let dir = tempfile::tempdir().unwrap();
    let listed = words(&deadheat(&["study", "list"], dir.path()).stdout);
    let listed: String = listed.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut quick = 0.0;
    for name in bundled::names() {
        let row = readme.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap();
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let says = listed.split(&format!(" {name} ")).nth(1).unwrap();
        let says = says.split_once("(at most ").unwrap().1.split_once(')').unwrap().0;
        let says = says.strip_suffix(", besides virtual time").unwrap_or(says);
        assert_eq!(format!("{} quick, {} in full", cells[4], cells[5]), says, "{name}");
        let study = bundled::study(name).unwrap().study;
        quick += deadheat::study::plan::at_most(&study, Setting::Quick).unwrap().0 as f64 / 60e9;
    }
    let says = format!("takes at most {quick:.0} minutes");
    assert!(readme.contains(&says), "studies/README.md does not say `{says}`");
}
