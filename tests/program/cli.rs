//! The program as a user meets it: each mistake gets one clear error with its remedy and the right
//! exit code, and a race that is broken off keeps its blocks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn deadheat(args: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_deadheat"))
        .args(args)
        .current_dir(dir)
        .output()
        .expect("the binary runs")
}

/// Time between two looks at a race: its CPUs are its own.
const LOOK: Duration = Duration::from_millis(2);

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A race that takes about two seconds, without a schedule that a busy host is late for. Its blocks decide nothing, so
/// that it does not wait for a quiet host.
const SHORT: &[&str] =
    &["-w", "ping:window=1,count=1000", "--blocks", "5", "--seed", "1", "--margin", "50%"];

fn race<'a>(contenders: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [&["race", "--idle", "host"], contenders, SHORT, more].concat()
}

#[test]
fn a_file_takes_one_survey_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("line.json");
    let held = deadheat_result::lock::lock(&file).unwrap();
    let survey = ["line", "127.0.0.1:1", "--every", "1h", "--budget", "2h", "-o", "line.json"];
    let refused = deadheat(&survey, dir.path());
    let said = words(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("another race or survey that runs now saves to line.json"), "{said}");
    drop(held);
    let said = words(&deadheat(&survey, dir.path()).stderr);
    assert!(said.contains("127.0.0.1:1") && !said.contains("saves to"), "{said}");
}

#[test]
fn mistakes_are_named_with_their_remedy_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("old"), "text").unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["race", "tpc"], "did you mean `tcp`?"),
        (&["race", "tcp,udp"], "each contender is a word of its own; write tcp udp"),
        (&["race", "tcp", "udp", "--vary", "delay=1ms|5ms"], "`deadheat map --over delay=LEVELS`"),
        (&["race", "tcp,cc=bbr"], "write tcp:cc=bbr"),
        (&["race", "tcp", "-w", "ping,size=64"], "write ping:size=64"),
        (&["race", "tcp", "udp", "lte"], "`lte` is no contender, but a path; write --path lte"),
        (&["study", "show", "old"], "the name of a study's file ends in .toml"),
        (&["history", "old"], "old is a file; name the folder with the results"),
        (&["race", "tcp:nodlay=on"], "did you mean `nodelay`?"),
        (&["race", "tcp:cc=bbr,cc=reno"], "given twice"),
        (&["race", "tcp:sndbuf=0"], "outside"),
        (&["race", "tcp:sndbuf=-1kB"], "does not start with a number"),
        (&["race", "tcp", "-w", "pnig"], "did you mean `ping`?"),
        (&["race", "tcp", "-w", "ping:size=0"], "outside"),
        (&["race", "tcp", "-w", "ping:interval=5"], "has no unit"),
        (&["race", "tcp", "-w", "ping:interval=5parsec"], "unknown duration unit"),
        (&["race", "udp", "-w", "bulk:size=100kB"], "outside"),
        (&["race", "icmp", "-w", "bulk"], "only echoes"),
        (&["race", "icmp", "-w", "ping:think=1ms"], "cannot think"),
        (&["race", "tcp", "--placement", "samecore"], "did you mean `same-core`?"),
        (&["race", "tcp", "--placement", "0,4000"], "4000"),
        (&["race", "tcp", "--margin", "5"], "percent sign"),
        (&["race", "tcp", "--blocks", "0"], "block"),
        (&["race", "tcp", "--budget", "10"], "has no unit"),
        (&["race", "tcp", "-i", "0.5"], "has no unit"),
        (&["race", "-i", "tcp", "udp"], "put -i after the contenders"),
        (&["race", "tcp", "-i", "1ms"], "10.0 ms to 3600 s make sense"),
        (&["race", "tcp", "--format", "xml"], "terminal, json, csv, markdown"),
        (&["race", "tcp", "--margin", "0%"], "a margin of 0 %: it must lie above 0 %"),
        (&["race", "tcp", "--margin", "200%"], "a margin of 200 %: it must lie above 0 %"),
        (&["race", "tcp", "--resolve", "0%"], "a resolution of 0 %: it must lie above 0 %"),
        (&["race", "tcp", "--resolve", "100%"], "below 100 %, such as 2%"),
        (&["race", "-u"], "`-u`: name the contender instead: deadheat race udp"),
        (&["race", "tcp", "--loss=1%"], "`--loss 1%`: loss is part of the path: --path loss=1%"),
        (&["race", "tcp", "--no-samples"], "it is so without the option; leave it out"),
        (&["race", "tcp", "--json", "--format", "csv"], "cannot be used with"),
        (&["list", "tpc"], "did you mean `tcp`?"),
        (&["study", "show", "kreylos"], "kreylos-echo-local"),
        (&["race", "tcp", "--path", "loss=120%"], "between 0% and 100%"),
        (&["race", "tcp", "--path", "delay=5ms,jitter=9ms"], "delay is at least 9ms"),
        (&["race", "tcp", "--path", "queue=64kB"], "needs `rate` or `trace`"),
        (&["race", "tcp", "--path", "sim:delay=1ms"], "sim-datagram"),
        (&["race", "tcp", "--label", "x"], "key=value"),
        (&["race", "unix", "--to", "127.0.0.1"], "does not leave its host"),
        (&["race", "--resume", "r.json", "--explain"], "--explain"),
        (&["race", "tcp", "--html", "/"], "--html takes the name of a file"),
        (&["report", "."], "--format html -o DIR"),
        (&["report", ".", "--format", "html"], "add -o DIR"),
        (&["report", "a.json", "b.json"], "only --format html and --format comment show several"),
        (&["path", "run", "delay=1ms"], "COMMAND"),
        (&["path", "run", "dleay=1ms", "--", "true"], "did you mean `delay`?"),
        (&["path", "show", "loopback"], "no network to show"),
        (&["path", "show", "star:hosts=3", "--picture", "/"], "--picture takes the name of a file"),
        (&["line", "far.test", "-t", "30"], "`-t 30`: the time of the whole survey"),
        (&["line", "far.test", "-c"], "`-c`: the other host is the first word"),
        (&["line", "--path", "delay=1ms", "--source", "192.0.2.7"], "cannot be used with"),
        (&["line", "far.test", "--source", "here"], "here"),
        (&["frobnicate"], "unrecognized subcommand"),
    ];
    for (args, wanted) in cases {
        let output = deadheat(args, dir.path());
        let said = words(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(wanted), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was written beside `old`");
}

#[test]
fn a_host_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let output = deadheat(&["race", "tcp", "--to", "127.0.0.1:1"], dir.path());
    assert_eq!(output.status.code(), Some(1));
    let said = words(&output.stderr);
    assert!(said.contains("127.0.0.1:1") && said.contains("deadheat serve"), "{said}");
}

#[test]
fn files_that_are_no_results_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.json");
    let path = file.to_str().unwrap();
    let cases: &[(&[u8], &str)] = &[
        (b"", "x.json"),
        (b"{\"format\": 1,", "x.json"),
        (b"{\"hello\": 1}", "x.json"),
        (b"{\"format\": 99, \"deadheat\": {\"version\": \"9\"}}", "newer"),
        (b"\xff\xfe\x00", "x.json"),
    ];
    for (content, wanted) in cases {
        std::fs::write(&file, content).unwrap();
        for args in [&["report", path][..], &["compare", path, path], &["race", "--resume", path]] {
            let output = deadheat(args, dir.path());
            let said = words(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{args:?} on {content:?}: {said}");
            assert!(said.contains(wanted), "{args:?} on {content:?}: {said}");
        }
    }
}

/// A race in virtual time, as it is saved; the second value is the same race, whose control is no tie, as a version wrote it
/// that had no field for trust.
fn trusted_and_not(dir: &Path) -> [serde_json::Value; 2] {
    let race = ["race", "sim-datagram", "arq", "--path", "sim:delay=1ms", "--blocks", "6"];
    let output = deadheat(&[&race[..], &["-q", "--seed", "1", "-o", "r.json"]].concat(), dir);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output.stderr));
    let text = std::fs::read_to_string(dir.join("r.json")).unwrap();
    let race: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut old = race.clone();
    let fields = old.as_object_mut().unwrap();
    assert_eq!(fields.remove("trusted"), Some(serde_json::Value::Bool(true)));
    assert_eq!(fields.remove("why_not_trusted"), None);
    old["control"]["trusted"] = false.into();
    old["control"]["note"] = "its copies differ".into();
    std::fs::write(dir.join("old.json"), old.to_string()).unwrap();
    [race, old]
}

#[test]
fn a_race_is_trusted_or_not_alike_in_file_csv_and_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    trusted_and_not(dir.path());
    let report = |file: &str, format: &str| {
        let output = deadheat(&["report", file, "--format", format], dir.path());
        (output.status.code(), words(&output.stdout))
    };
    for format in ["terminal", "json", "csv", "markdown", "html"] {
        let ((sound, _), (doubtful, said)) = (report("r.json", format), report("old.json", format));
        assert_eq!((sound, doubtful), (Some(0), Some(3)), "{format}");
        assert!(said.contains("its copies differ"), "{format}: {said}");
    }
    let json: serde_json::Value = serde_json::from_str(&report("old.json", "json").1).unwrap();
    assert_eq!(json["trusted"], false);
    assert_eq!(json["why_not_trusted"][0], "its copies differ");
    let csv = report("old.json", "csv").1;
    assert!(csv.lines().next().unwrap().ends_with(",trusted,why_not_trusted"), "{csv}");
    assert!(csv.lines().skip(1).all(|row| row.ends_with(",false,its copies differ")), "{csv}");
    let both = ["report", "r.json", "old.json", "--format", "html", "-o", "both.html"];
    assert_eq!(deadheat(&both, dir.path()).status.code(), Some(3));
}

/// Bash splits words at `:` and `=`, and the script has to give back the part behind them.
#[test]
fn bash_completes_contenders_keys_and_values() {
    let dir = tempfile::tempdir().unwrap();
    let script = deadheat(&["completions", "bash"], dir.path()).stdout;
    std::fs::write(dir.path().join("script"), script).unwrap();
    let ask = |line: &str| {
        let typed = format!(
            "compopt() {{ :; }}; . ./script; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; \
             _deadheat \"$PROGRAM\"; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let mut bash = Command::new("bash");
        bash.args(["-c", &typed])
            .env("PROGRAM", env!("CARGO_BIN_EXE_deadheat"))
            .current_dir(dir.path());
        let output = bash.output().unwrap();
        let said = words(&output.stdout);
        said.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for (line, wanted) in [
        ("deadheat rac", "race"),
        ("deadheat race ud", "udp"),
        ("deadheat race tcp:nodel", "nodelay="),
        ("deadheat race tcp:nodelay=o", "off"),
        ("deadheat race tcp --path delay=5ms,los", "5ms,loss="),
        ("deadheat race tcp -w ping:inter", "interval="),
        ("deadheat report r.json --format ht", "html"),
    ] {
        let found = ask(line);
        assert!(found.iter().any(|word| word == wanted), "{line}: {found:?}");
    }
}

#[test]
fn a_race_is_saved_shown_in_every_format_compared_and_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let kept = race(&["udp", "unix", "udp"], &["-o", "a.json", "--samples"]);
    let output = deadheat(&kept, dir.path());
    let said = words(&output.stdout);
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 3)), "{}", words(&output.stderr));
    assert!(said.contains("udp #2"), "{said}");
    for (format, wanted) in [
        ("terminal", "trials valid"),
        ("json", "\"format\": 1"),
        ("csv", "rtt_p50_ns"),
        ("markdown", "| udp"),
        ("hlog", "#[Histogram log format version 1.3]"),
    ] {
        let output = deadheat(&["report", "a.json", "--format", format], dir.path());
        assert_eq!(output.status.code(), code, "{}", words(&output.stderr));
        assert!(words(&output.stdout).contains(wanted), "{format}: {}", words(&output.stdout));
    }
    let samples = words(&deadheat(&["report", "a.json", "--samples"], dir.path()).stdout);
    assert!(
        samples.starts_with("block,order,contender,control,seq,intended_ns,lateness_ns,rtt_ns\n")
    );
    let trials = |json: &str| -> Vec<(u64, u64, u64)> {
        let json: serde_json::Value = serde_json::from_str(json).unwrap();
        let number = |trial: &serde_json::Value, key: &str| trial[key].as_u64().unwrap();
        let all = json["trials"].as_array().unwrap().iter();
        all.map(|t| (number(t, "block"), number(t, "order"), number(t, "contender"))).collect()
    };
    let rows = samples.lines().count() - 1;
    let first = std::fs::read_to_string(dir.path().join("a.json")).unwrap();
    assert_eq!(rows % 100, 0, "each trial has its hundred samples");
    assert!(rows >= trials(&first).len() * 100);

    let output = deadheat(&["race", "--replay", "a.json", "-o", "b.json", "-q"], dir.path());
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", words(&output.stderr));
    assert!(!dir.path().join("b.samples").exists(), "nobody asked for samples");
    let second = std::fs::read_to_string(dir.path().join("b.json")).unwrap();
    let both = trials(&first).into_iter().zip(trials(&second));
    let first_block: Vec<_> = both.take_while(|(a, b)| a.0 == 0 && b.0 == 0).take(4).collect();
    assert!(first_block.iter().all(|(a, b)| a == b), "{first_block:?}");

    // On a machine without time for them all trials of a contender may fail their gate: it is named then, too.
    let output = deadheat(&["compare", "a.json", "b.json"], dir.path());
    assert_eq!(output.status.code(), Some(0), "{}", words(&output.stderr));
    let said = words(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    for label in ["udp", "unix", "udp #2"] {
        assert!(said.contains(&format!("{label} RTT p50")), "{label}: {said}");
    }
}

/// The trials of a race of one block that kept its series every 50 ms, and those series as CSV.
fn series(contenders: &[&str], workload: &str) -> (Vec<serde_json::Value>, String) {
    let dir = tempfile::tempdir().unwrap();
    let more = ["-w", workload, "--blocks", "1", "--margin", "50%", "-i", "50ms", "-o", "r.json"];
    let race = deadheat(&[&["race", "--idle", "host"], contenders, &more].concat(), dir.path());
    // A race of one block need not be trusted to be kept.
    assert!([0, 3].contains(&race.status.code().unwrap()), "{}", words(&race.stderr));
    // Standard output is no terminal here, and has the intervals all the same.
    let shown = words(&race.stdout);
    assert!(shown.lines().any(|line| line.contains("  0.00–0.")), "{shown}");
    let text = std::fs::read(dir.path().join("r.json")).unwrap();
    let mut result: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let csv = deadheat(&["report", "r.json", "--intervals"], dir.path());
    assert!([0, 3].contains(&csv.status.code().unwrap()), "{}", words(&csv.stderr));
    (result["trials"].as_array_mut().unwrap().drain(..).collect(), words(&csv.stdout))
}

fn last(column: &serde_json::Value) -> u64 {
    column.as_array().unwrap().last().unwrap().as_u64().unwrap()
}

#[test]
fn the_intervals_of_a_bulk_trial_add_up_to_its_ledger() {
    let (trials, csv) = series(&["tcp", "udp"], "bulk:time=300ms");
    assert!(trials.len() >= 3);
    let mut received = 0;
    for trial in &trials {
        let (near, far) = (&trial["intervals"][0], &trial["far_intervals"][0]);
        let up = &trial["ledger"]["up"];
        let unit = up["unit"].as_str().unwrap();
        assert_eq!(last(&near[format!("sent_{unit}")]), up["sent"].as_u64().unwrap());
        assert_eq!(last(&far[format!("received_{unit}")]), up["delivered"].as_u64().unwrap());
        received += last(&far["received_bytes"]);
        for series in [near, far] {
            assert_eq!(series["interval_ns"], 50_000_000);
            let at = series["at_ns"].as_array().unwrap();
            assert!(at.windows(2).all(|w| w[0].as_u64() < w[1].as_u64()), "{at:?}");
            assert!(last(&series["at_ns"]) > 250_000_000);
        }
        let is_stream = unit == "bytes";
        assert_eq!(near["tcp"]["cwnd_bytes"].is_array(), is_stream);
        assert_eq!(far["socket_drops"].is_array(), !is_stream);
        assert!(far["tcp"].is_null(), "only the end that sends has a window");
    }
    let mut lines = csv.lines();
    let heading: Vec<&str> = lines.next().unwrap().split(',').collect();
    let place = heading.iter().position(|name| *name == "received_bytes").unwrap();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert!(rows.iter().all(|row| row.len() == heading.len()));
    assert_eq!(rows.iter().map(|row| row[place].parse::<u64>().unwrap()).sum::<u64>(), received);
}

#[test]
fn the_intervals_of_a_ping_trial_hold_each_round_trip_once() {
    let (trials, _) = series(&["udp"], "ping:count=200");
    for trial in &trials {
        let near = &trial["intervals"][0];
        let counts = near["rtt_n"].as_array().unwrap().iter();
        let answered =
            trial["rtt_ns"]["n"].as_u64().unwrap() - trial["rtt_ns"]["censored"].as_u64().unwrap();
        assert_eq!(counts.map(|n| n.as_u64().unwrap()).sum::<u64>(), answered);
        assert_eq!(last(&near["sent_messages"]), 200);
        let delivered = trial["ledger"]["up"]["delivered"].as_u64().unwrap();
        assert_eq!(last(&trial["far_intervals"][0]["received_messages"]), delivered);
    }
}

#[test]
fn a_killed_race_loses_at_most_its_running_block_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let args = race(&["udp", "unix"], &["-o", "k.json", "-q"]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_deadheat"))
        .args(args)
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let file = dir.path().join("k.json");
    let blocks = || -> u64 {
        if !file.exists() {
            return 0;
        }
        let race = deadheat::analysis::derived::load(&file).expect("whole at every moment");
        race.trials.iter().map(|trial| trial.block + 1).max().unwrap_or(0)
    };
    while blocks() < 2 {
        assert!(child.try_wait().unwrap().is_none(), "the race ended before it could be killed");
        std::thread::sleep(LOOK);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = blocks();
    assert!((2..=5).contains(&before), "{before}");
    let output = deadheat(&["report", "k.json"], dir.path());
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", words(&output.stderr));

    let output = deadheat(&["race", "--resume", "k.json", "-q"], dir.path());
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", words(&output.stderr));
    assert!(blocks() >= before);
    let status = std::fs::read_to_string(&file).unwrap();
    assert!(
        status.contains("\"status\": \"decided\"") || status.contains("\"status\": \"budget\"")
    );
}

#[test]
fn ctrl_c_ends_a_race_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_deadheat"))
        .args([
            "race",
            "--idle",
            "host",
            "udp",
            "unix",
            "-w",
            "ping:count=500",
            "--blocks",
            "5",
            "-o",
            "c.json",
        ])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !dir.path().join("c.json").exists() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(LOOK);
    }
    // SAFETY: the child has not been reaped, so the id is its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    let status = child.wait().unwrap();
    assert!(matches!(status.code(), Some(0 | 3)), "{status}: {said}");
    let saved = std::fs::read_to_string(dir.path().join("c.json")).unwrap();
    assert!(saved.contains("\"status\": \"interrupted\""), "{said}");
}

#[test]
fn a_live_race_without_a_terminal_writes_plain_lines_and_keeps_them_out_of_the_result() {
    let dir = tempfile::tempdir().unwrap();
    let typed = ["race", "arq", "sim-datagram", "--path", "sim:delay=20ms,loss=1%", "--seed", "1"];
    let more = ["-w", "ping:count=100", "--blocks", "8", "-o", "r.json", "--live", "--json"];
    let output = deadheat(&[&typed[..], &more[..]].concat(), dir.path());
    let said = words(&output.stderr);
    assert!(said.contains("no live view here, since standard error is no terminal"), "{said}");
    assert!(said.contains("Block 1 of ") && said.contains("Not a verdict: intervals"), "{said}");
    assert!(said.chars().all(|c| c == '\n' || !c.is_control()), "{said}");
    serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("nothing else is there");
    for wrong in [&["--live", "-q"][..], &["--plain"]] {
        let refused = deadheat(&[&["race", "tcp"], wrong].concat(), dir.path());
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
    }
}

/// The names of the files in a folder.
fn files(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_race_that_is_broken_off_before_its_first_block_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // A trial of an hour: whenever the signal comes, no block is done.
    let args =
        ["race", "--idle", "host", "udp", "-w", "ping:time=1h", "--blocks", "1", "--margin", "5%"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_deadheat"))
        .args(args)
        .args(["--samples", "-q", "-o", "n.json"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let process = format!("/proc/{}/task/{}/children", child.id(), child.id());
    // An agent has been started, so the race is under way and can be stopped.
    while std::fs::read_to_string(&process).is_ok_and(|children| children.trim().is_empty()) {
        assert!(child.try_wait().unwrap().is_none(), "the race ended by itself");
        std::thread::sleep(LOOK);
    }
    // SAFETY: the child has not been reaped, so the id is its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    let said = words(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("stopped before the first block was done; nothing is saved"), "{said}");
    assert!(output.stdout.is_empty());
    assert_eq!(files(dir.path()), Vec::<String>::new());
}

#[test]
fn one_file_is_left_by_a_race_and_no_samples_of_another() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("r.samples"), "of an earlier race").unwrap();
    let args = ["race", "udp", "-w", "ping:count=20", "--blocks", "1", "--margin", "5%", "-J"];
    let output = deadheat(&[&args[..], &["-o", "r.json"]].concat(), dir.path());
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", words(&output.stderr));
    assert!(words(&output.stdout).contains("\"format\": 1"));
    assert_eq!(files(dir.path()), ["r.json"]);
}

#[test]
fn a_race_without_contenders_is_of_tcp_and_udp_over_the_floor() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["race", "-w", "ping:count=20", "--blocks", "1", "--margin", "5%", "-J"];
    let output = deadheat(&[&args[..], &["-o", "r.json"]].concat(), dir.path());
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", words(&output.stderr));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["asked"]["contenders"], serde_json::json!(["tcp", "udp", "icmp"]));
    let args = ["race", "--replay", "r.json", "-q", "-o", "s.json", "--decided"];
    let output = deadheat(&args, dir.path());
    let said = words(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--decided: 1 block cannot decide 1 claim; 6 are the fewest"), "{said}");
}

#[test]
fn a_command_line_without_a_word_gets_the_first_ones() {
    let dir = tempfile::tempdir().unwrap();
    let output = deadheat(&[], dir.path());
    assert_eq!(output.status.code(), Some(2), "it is not complete");
    assert!(output.stdout.is_empty());
    let said = words(&output.stderr);
    assert!(said.contains("deadheat race --path lte") && said.contains("deadheat help"), "{said}");
}

#[test]
fn a_list_and_a_study_are_found_by_a_part_of_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let say = |args: &[&str]| {
        let output = deadheat(args, dir.path());
        assert!(output.status.success(), "{args:?}: {}", words(&output.stderr));
        words(&output.stdout)
    };
    let udp = say(&["list", "udp"]);
    assert!(udp.starts_with("TRANSPORTS\n") && udp.contains("\n  udp "), "{udp}");
    assert!(!udp.contains("WORKLOADS") && !udp.contains("udplite "), "{udp}");
    let lte = say(&["list", "lte"]);
    assert!(lte.starts_with("PATHS\n") && lte.contains("\n    lte "), "{lte}");
    assert!(say(&["list", "workloads"]).starts_with("WORKLOADS: "));
    assert!(say(&["list", "workloads", "--all"]).starts_with("WORKLOADS\n"));
    assert!(say(&["list"]).lines().count() <= 40 && say(&["list", "--all"]).lines().count() > 1000);
    assert!(say(&["study", "show", "perlten"]).starts_with("perlten-1gb: "));
}

#[test]
fn a_result_cannot_go_where_no_file_can() {
    let dir = tempfile::tempdir().unwrap();
    for (target, code, wanted) in [
        ("/dev/full", 2, "not a file"),
        (".", 2, "not a file"),
        ("no/such/dir.json", 1, "no/such/dir.json"),
    ] {
        let output = deadheat(&race(&["udp"], &["-o", target, "-q"]), dir.path());
        let said = words(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{target}: {said}");
        assert!(said.contains(wanted), "{target}: {said}");
    }
}

/// A file system of a few kilobytes, unmounted on drop.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(bytes: usize) -> Option<SmallDisk> {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size={bytes}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(dir.path()).stderr(Stdio::null());
        let mounted = mount.status().is_ok_and(|status| status.success());
        mounted.then_some(SmallDisk(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_disk_that_fills_up_ends_the_race_and_keeps_the_blocks_done() {
    let Some(disk) = SmallDisk::mount(2 << 20) else {
        println!("skipped: mounting a small file system needs root");
        return;
    };
    // Samples for two or three blocks.
    let workload = "ping:window=1,count=20000";
    let args = [
        "race",
        "--idle",
        "host",
        "udp",
        "unix",
        "-w",
        workload,
        "--blocks",
        "5",
        "--margin",
        "0.1%",
        "--samples",
    ];
    let output = deadheat(&[&args[..], &["-o", "r.json", "-q"]].concat(), disk.0.path());
    let said = words(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("free space"), "{said}");
    let output = deadheat(&["report", "r.json"], disk.0.path());
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", words(&output.stderr));
    let saved = std::fs::read_to_string(disk.0.path().join("r.json")).unwrap();
    assert!(saved.contains("\"block\": 0"), "no whole block was kept: {said}");
}

#[test]
fn the_server_says_where_it_is_and_a_race_against_it_works() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_deadheat"))
        .args(["serve", "--bind", "127.0.0.1:0"])
        .env("DEADHEAT_SECRET", "open sesame")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(server.stderr.take().unwrap());
    let mut line = String::new();
    log.read_line(&mut line).unwrap();
    let at = line.split_whitespace().find_map(|word| {
        let word = word.trim_end_matches(',');
        word.starts_with("127.0.0.1:").then(|| word.to_owned())
    });
    let to = at.unwrap_or_else(|| panic!("no address in: {line}"));

    let output = deadheat(&race(&["tcp", "udp"], &["--to", &to, "-o", "s.json"]), dir.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(words(&output.stderr).contains("wants a shared secret"));

    std::fs::write(dir.path().join("wrong"), "close sesame\n").unwrap();
    let wrong = race(&["tcp"], &["--to", &to, "--secret-file", "wrong"]);
    let output = deadheat(&wrong, dir.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(words(&output.stderr).contains("secret"), "{}", words(&output.stderr));

    std::fs::write(dir.path().join("right"), "open sesame\n").unwrap();
    let right = [
        "race",
        "--idle",
        "host",
        "tcp",
        "udp",
        "icmp",
        "--to",
        &to,
        "--secret-file",
        "right",
        "-o",
        "s.json",
    ];
    // A message every 20 ms, as to a host far away, would take a minute.
    let short = ["-w", "ping:window=1,count=100", "--blocks", "3", "--margin", "50%"];
    let output = deadheat(&[&right[..], &short[..]].concat(), dir.path());
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", words(&output.stderr));
    let saved = std::fs::read_to_string(dir.path().join("s.json")).unwrap();
    assert!(saved.contains("\"kind\": \"remote\"") && saved.contains("\"peer_host\""));
    server.kill().unwrap();
    server.wait().unwrap();
}

/// Agents are started from `/proc/self/exe`. Said was once "No such file or directory", and of what was not.
#[test]
fn without_proc_it_is_said_what_is_missing_and_what_would_help() {
    let dir = tempfile::tempdir().unwrap();
    for command in [
        "race udp -w ping:count=30 --blocks 1 -q",
        "race udp -w ping:count=30 --blocks 1 -q --path delay=1ms",
        "serve --bind 127.0.0.1:0",
    ] {
        let script = format!("mount -t tmpfs none /proc && exec \"$DEADHEAT\" {command}");
        let output = Command::new("unshare")
            .args(["--map-root-user", "--mount", "--fork", "sh", "-c", &script])
            .env("DEADHEAT", env!("CARGO_BIN_EXE_deadheat"))
            .current_dir(dir.path())
            .output()
            .unwrap();
        let said = words(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command}: {said}");
        for part in ["/proc/self/exe", "No such file", "/proc is not mounted here", "mount -t proc"]
        {
            assert!(said.contains(part), "{command}: {part} is missing in: {said}");
        }
    }
}

/// A file system that is full, as far as any test has one: files may be no larger than a few kB.
#[test]
fn a_race_that_cannot_be_saved_never_says_that_it_is() {
    let race = "exec \"$0\" race sim-datagram kcp -w ping:count=20 --path sim:delay=1ms --blocks 6 --seed 1 -q -o r.json";
    let mut ends = Vec::new();
    // In units of 512 bytes.
    for most in [8, 16, 32, 40, 48, 64] {
        let dir = tempfile::tempdir().unwrap();
        let output = Command::new("sh")
            .args(["-c", &format!("ulimit -f {most}; {race}"), env!("CARGO_BIN_EXE_deadheat")])
            .current_dir(dir.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_readable = deadheat(&["report", "r.json"], dir.path()).status.success();
        let end = ["saved: r.json", "saved in part: r.json", "not saved: r.json"]
            .iter()
            .position(|end| said.lines().any(|line| line.starts_with(end)));
        let end = end.unwrap_or_else(|| panic!("{most}: {said}"));
        assert_eq!(is_readable, end < 2, "{most}: {said}");
        assert_eq!(output.status.code() == Some(1), end > 0, "{most}: {said}");
        ends.push(end);
    }
    assert!(ends.contains(&2), "some race could not be saved: {ends:?}");
}
