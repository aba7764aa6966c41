//! Commands as contenders: a server and a client of anyone's, on loopback and between namespaces, and everything that can be
//! wrong with them. Most are tests/network/pair.py.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use deadheat::path::emulator::Emulator;
use serde_json::Value;

use crate::net::{check_schema, outcome};
use crate::path::{DEADHEAT, can};
use crate::runs_all;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/network/pair.py");

fn deadheat(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_deadheat"));
    command.args(args).current_dir(folder).env("TMPDIR", folder).env_remove("DEADHEAT_HISTORY");
    command.output().unwrap()
}

/// Writes the file of a pair into a folder.
fn write(folder: &Path, name: &str, server: &str, client: &str, more: &str) {
    let fill = |command: &str| command.replace("PAIR", &format!("python3 {SCRIPT}"));
    let text =
        format!("server = '''{}'''\nclient = '''{}'''\n{more}\n", fill(server), fill(client));
    std::fs::write(folder.join(name), text).unwrap();
}

const SERVER: &str = "PAIR serve {host} {port} {dir}/got";
const CLIENT: &str = "PAIR send {host} {port} {bytes}";
/// SHA-256 of 300,000 zeros, by sha256sum(1).
const ZEROS: &str = "886715e4051e827f4fe215df3053af3f85ad0d352db2c829c7487af6d78efe30";
/// Server that ignores SIGTERM.
const STUBBORN: &str = "python3 -c 'import signal, socket, time; signal.signal(15, signal.SIG_IGN); \
                        s = socket.create_server((\"{host}\", {port})); time.sleep(60)'";
const RECEIVED: &str = "received = 'got'";

fn raced(folder: &Path, contenders: &[&str], rest: &[&str]) -> Value {
    let fixed = ["--idle", "host", "--blocks", "1", "-o", "race.json"];
    let output = deadheat(folder, &[&["race"], contenders, rest, &fixed].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = std::fs::read(folder.join("race.json")).unwrap_or_else(|_| panic!("{said}"));
    std::fs::remove_file(folder.join("race.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Returns what a race that cannot be says, in one line.
fn refused(folder: &Path, args: &[&str]) -> String {
    let output = deadheat(folder, &[&["race", "--idle", "host", "--blocks", "1"], args].concat());
    assert!(matches!(output.status.code(), Some(1 | 2)), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn trials(result: &Value, contender: u64) -> Vec<Value> {
    let all = result["trials"].as_array().unwrap();
    all.iter().filter(|trial| trial["contender"] == contender).cloned().collect()
}

/// Returns the processes and folders that a race has left behind.
fn left(folder: &Path) -> Vec<PathBuf> {
    let mark = folder.to_str().unwrap();
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_ours = |path: &PathBuf| {
        let read = |name| std::fs::read(path.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&read("environ")).contains(mark)
    };
    let folders = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let is_temporary = |path: &PathBuf| path.to_string_lossy().contains("/deadheat-");
    let folders = folders.filter(is_temporary);
    all.filter(is_ours).chain(folders).collect()
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

#[test]
fn commands_move_bytes_beside_tcp_on_loopback_and_between_namespaces() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "pair.toml", SERVER, CLIENT, RECEIVED);
    let can = Emulator::possible().is_ok();
    if !can {
        println!("skipped between namespaces: {}", Emulator::possible().unwrap_err());
    }
    for (path, least_ms) in
        [("loopback", 0), ("delay=10ms", 60)].into_iter().take(if can { 2 } else { 1 })
    {
        let result = raced(
            folder,
            &["cmd:file=pair.toml", "tcp"],
            &["-w", "bulk:bytes=300kB", "--path", path],
        );
        let entrant = &result["contenders"][0];
        assert_eq!(
            (entrant["label"].as_str(), entrant["transport"].as_str()),
            (Some("pair"), Some("cmd"))
        );
        let files = entrant["commands"]["files"].as_array().unwrap();
        assert!(files.iter().any(|file| file["path"] == SCRIPT), "{files:?}");
        assert!(files.iter().all(|file| file["sha256"].as_str().unwrap().len() == 64));
        let start = count(&entrant["commands"]["start_ns"]);
        assert!(start > 1_000_000 * least_ms, "three round trips: {start}");
        let work = result["asked"]["workload"].as_str().unwrap();
        assert!(work.contains("connect=timed"), "tcp is timed from its connection on: {work}");
        for trial in trials(&result, 0) {
            let took = count(&trial["command"]["took_ns"]);
            assert!(took > 1_000_000 * least_ms, "{trial}");
            // Confirmed by the end of the client.
            let goodput = trial["metrics"]["goodput_bps"].as_f64().unwrap();
            assert!((goodput * took as f64 / 8e9 - 300_000.0).abs() < 1.0, "{goodput} in {took}");
            let received = &trial["far_command"]["received"];
            assert_eq!(count(&received["bytes"]), 300_000);
            assert_eq!(received["sha256"], ZEROS);
            assert_eq!(trial["ledger"]["up"]["delivered"], 300_000);
            assert!(count(&trial["cost"]["cpu_ns"]) > 0 && count(&trial["far_cost"]["cpu_ns"]) > 0);
        }
    }
    assert_eq!(left(folder), Vec::<PathBuf>::new());
}

#[test]
fn two_builds_race_with_any_figure_and_one_file_twice_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let figures = "[set]\nscript = '/no/such'\nshell = 'sh'\n\
        [[figure]]\nname = 'seconds'\nunit = 's'\npointer = '/sum/seconds'\n\
        [[figure]]\nname = 'wait'\nunit = 'ms'\nregex = '^took (?<wait>[0-9.]+) ms$'\nin = 'stderr'\n\
        [[figure]]\nname = 'rate'\nof = 'goodput'";
    // The client notes which file it is, and its CPUs.
    let server = "{shell} -c 'exec python3 {script} serve {host} {port}'";
    let notes =
        "readlink /proc/$$/exe >>{pair}/ran; grep Cpus_allowed_list /proc/$$/status >>{pair}/cpus";
    let client =
        format!("{{shell}} -c '{notes}; exec python3 {{script}} send {{host}} {{port}} {{bytes}}'");
    write(folder, "pair.toml", server, &client, figures);
    let builds = ["old", "new"].map(|name| {
        let (script, shell) =
            (folder.join(name).with_extension("py"), folder.join(name).join("sh"));
        std::fs::copy(SCRIPT, &script).unwrap();
        std::fs::create_dir(folder.join(name)).unwrap();
        std::fs::copy("/bin/sh", &shell).unwrap();
        let set = format!("set=script={},set=shell={}", script.display(), shell.display());
        format!("cmd:file=pair.toml,{set}")
    });
    let both: Vec<&str> = builds.iter().map(String::as_str).collect();
    let result = raced(folder, &both, &["-w", "command:bytes=10kB"]);
    let ran = std::fs::read_to_string(folder.join("ran")).unwrap();
    let ran: BTreeSet<&str> = ran.lines().collect();
    assert_eq!(ran.len(), 3, "a copy of each build, and another one for the control: {ran:?}");
    let programs = folder.join("deadheat-programs-").display().to_string();
    assert!(ran.iter().all(|program| program.starts_with(&programs)), "{ran:?}");
    assert_eq!(left(folder), Vec::<PathBuf>::new(), "copies end with the race");
    let cpus = std::fs::read_to_string(folder.join("cpus")).unwrap();
    let is_one =
        |line: &str| line.split_whitespace().nth(1).is_some_and(|cpu| cpu.parse::<u32>().is_ok());
    assert!(cpus.lines().all(is_one), "a CPU for each command, as for an end: {cpus}");
    let of = |name: &str| {
        let files = result["contenders"][1]["commands"]["files"].as_array().unwrap();
        let is_it = |file: &&Value| file["path"].as_str().unwrap().ends_with(name);
        files.iter().find(is_it).map(|file| file["copy"].clone()).unwrap()
    };
    assert_eq!((of("new/sh"), of("new.py")), ("made".into(), Value::Null));
    let metrics: Vec<&str> = result["metrics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|metric| metric["name"].as_str().unwrap())
        .collect();
    assert_eq!(metrics, ["seconds_ns", "wait_ns", "rate_bps", "time_ns", "cpu_ns"]);
    for trial in trials(&result, 1) {
        let of = |name: &str| trial["metrics"][name].as_f64().unwrap();
        assert!((of("seconds_ns") - of("wait_ns")).abs() < 1e6, "one time in two units: {trial}");
        assert!(of("time_ns") > of("seconds_ns") && of("rate_bps") > 0.0, "{trial}");
    }
    let labels = [0, 1].map(|at| result["contenders"][at]["label"].as_str().unwrap().to_owned());
    assert!(labels[0].starts_with("pair script=") && labels[0] != labels[1], "{labels:?}");
    std::fs::write(folder.join("race.json"), result.to_string()).unwrap();
    let report = deadheat(folder, &["report", "race.json"]);
    let shown = String::from_utf8_lossy(&report.stdout).into_owned();
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("are the same build"), "{shown}");
    // A claim about another figure of the file.
    let result = raced(folder, &both[..1], &["-w", "command:bytes=10kB,figure=rate"]);
    assert_eq!(result["metrics"][0]["name"], "rate_bps");
}

/// Races to a server that allows three of the pairs; then one whose process is killed amid its first trial.
const SERVED: &str = r#"
race() { "$DEADHEAT" race --idle host --blocks 1 --to 198.18.0.2 "$@" 2>> said; echo "$1 $?"; }
race cmd:file=up.toml tcp cmd:file=other.toml -w bulk:bytes=300kB -q -o up.json
race cmd:file=down.toml tcp -w bulk:bytes=300kB,direction=down -q -o down.json
race cmd:file=unlike.toml tcp -w bulk:bytes=300kB
"$DEADHEAT" race --idle host cmd:file=slow.toml -w bulk:bytes=1kB --to 198.18.0.2 2>> said & slow=$!
until test -s slow.pid; do sleep 0.02; done
kill -KILL $slow
for i in $(seq 500); do
    if kill -0 $(cat slow.pid) || ls -d deadheat-command-*; then sleep 0.02; else echo "nothing is left"; exit; fi
done > ended 2>&1
"#;

#[test]
fn a_server_runs_the_commands_of_its_operators_files_and_leaves_nothing_behind() {
    if !can("tun", &[]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "up.toml", SERVER, CLIENT, RECEIVED);
    write(folder, "other.toml", SERVER, CLIENT, RECEIVED);
    write(folder, "unlike.toml", SERVER, CLIENT, "received = 'got'\nname = 'up'\nstop = 'SIGINT'");
    let down = ["PAIR give {host} {port} {bytes}", "PAIR take {host} {port} {dir}/got"];
    write(folder, "down.toml", down[0], down[1], "received = 'got'\ndirection = 'down'");
    // A process of its own beside the server, whose number a test can look at.
    let beside = format!("sleep 60 & echo $! > {}/slow.pid; exec \"$@\"", folder.display());
    let server = format!("sh -c '{beside}' sh PAIR serve {{host}} {{port}}");
    write(folder, "slow.toml", &server, "sleep 6{port}{bytes}", "");
    let serve = format!(
        "exec {DEADHEAT} serve --command up.toml --command down.toml --command slow.toml --command-ports 5300-5303 2> log"
    );
    std::fs::write(folder.join("races.sh"), SERVED).unwrap();
    let output = Command::new(DEADHEAT)
        .args(["path", "run", "-q", "delay=1ms", "--far", &serve, "--far-ready", "5210", "--"])
        .args(["bash", "races.sh"])
        .current_dir(folder)
        .env("TMPDIR", folder)
        .env("DEADHEAT", DEADHEAT)
        .env_remove("DEADHEAT_HISTORY")
        .output()
        .unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let (ended, said, log) = (read("ended"), read("said"), read("log"));
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(ended.ends_with("nothing is left\n"), "{ended}\n{output:?}\n{said}\n{log}");
    assert!(said.contains("its up has stop = `SIGTERM`, and here it is `SIGINT`"), "{said}\n{log}");
    for way in ["up", "down"] {
        let result = outcome(&folder.join(format!("{way}.json")));
        check_schema(&result);
        let files = result["contenders"][0]["commands"]["files"].as_array().unwrap();
        for side in ["near", "far"] {
            let is_script = |file: &&Value| file["side"] == side && file["path"] == SCRIPT;
            assert!(files.iter().any(|file| is_script(&file)), "{way} {side}: {files:?}");
        }
        assert!(count(&result["contenders"][0]["commands"]["start_ns"]) > 4_000_000, "round trips");
        for trial in trials(&result, 0) {
            let (receives, other) = match way {
                "up" => ("far_command", "command"),
                _ => ("command", "far_command"),
            };
            assert_eq!(trial[receives]["received"]["sha256"], ZEROS, "{trial}\n{log}");
            assert_eq!(trial[other]["received"], Value::Null);
            assert_eq!(trial["ledger"][way]["delivered"], 300_000);
            assert!(count(&trial["cost"]["cpu_ns"]) > 0 && count(&trial["far_cost"]["cpu_ns"]) > 0);
        }
        assert!(
            trials(&result, 1).iter().all(|trial| trial["ledger"][way]["delivered"] == 300_000)
        );
    }
    // The others race on.
    let why = outcome(&folder.join("up.json"))["contenders"][2]["limited"].clone();
    assert!(
        why.as_str().unwrap().contains("runs no command of this name, and has down, slow, up"),
        "{why}"
    );
    let details = deadheat(folder, &["report", "up.json", "--details"]);
    let details = String::from_utf8_lossy(&details.stdout).into_owned();
    let details = details.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(details.contains("up at the far host: /"), "{details}");
    assert!(log.contains(" command up 300 kB done in"), "{log}");
    assert!(log.contains(" command slow 1.00 kB abandoned after"), "{log}");
    let counted = log.lines().find(|line| line.contains(" command ") && line.contains(" sent"));
    assert_eq!(counted, None, "nobody counts the bytes of a command");
}

const SERVES: &str = "PAIR serve {host} {port}";
const POINTER: &str = "[[figure]]\nname = 'a'\nunit = 's'\npointer = '/sum/unit'";
const PATTERN: &str = "[[figure]]\nname = 'a'\nunit = 's'\nregex = '(?<a>[0-9]+) parsecs'";

/// Server, client, further lines of the file, and parts of what is said.
const WRONG: &[(&str, &str, &str, &[&str])] = &[
    (
        "sleep {port}",
        CLIENT,
        "timeout = '200ms'",
        &["pair.toml:1: server", "did not listen at 127.0.0.1:"],
    ),
    ("sh -c 'sleep 60 & exit 0' {port}", CLIENT, "", &["pair.toml:1:", "went into the background"]),
    (
        SERVES,
        "sh -c 'kill -9 $$' {port} {bytes}",
        "",
        &["pair.toml:2: client", "signal 9 (SIGKILL)"],
    ),
    (SERVES, CLIENT, POINTER, &["pair.toml:4: figure in stdout", "of the text \"s\""]),
    (
        "sh -c 'echo no such option >&2; exit 3' {port}",
        CLIENT,
        "",
        &["exit status 3", "no such option"],
    ),
    (
        "sleep {port}",
        CLIENT,
        "ready-line = '^up$'\ntimeout = '200ms'",
        &["no line that matches ready-line"],
    ),
    (SERVES, "sh -c 'exit 7' {port} {bytes}", "", &["exit status 7", "printed nothing"]),
    (
        SERVES,
        "sh -c 'sleep 60 & exit 0' {port} {bytes}",
        "",
        &["left 1 of its processes in the background"],
    ),
    (SERVES, "sleep 6{port}{bytes}", "timeout = '2s'", &["still ran after 2.00 s", "timeout ="]),
    (SERVES, CLIENT, PATTERN, &["pair.toml:4: figure in stdout", "matches nothing there"]),
    (
        SERVES,
        "sh -c 'head -c 100000000 /dev/zero' {port} {bytes}",
        POINTER,
        &["the first 1.05 MB are read"],
    ),
    (SERVES, CLIENT, RECEIVED, &["received = `got`", "{dir}/got"]),
    (
        STUBBORN,
        "sh -c true {port} {bytes}",
        "",
        &["did not end within 1.00 s of SIGTERM", "stop ="],
    ),
];

#[test]
fn what_commands_do_wrong_is_named_with_file_and_line_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // The rest with `make soak`.
    let most = if runs_all() { WRONG.len() } else { 4 };
    for (server, client, more, expected) in &WRONG[..most] {
        write(folder, "pair.toml", server, client, more);
        let work = if more.contains("figure") { "command:bytes=10kB" } else { "bulk:bytes=10kB" };
        let said = refused(folder, &["cmd:file=pair.toml", "-w", work]);
        for part in *expected {
            assert!(said.contains(part), "{server} / {client}: `{part}` is missing in: {said}");
        }
        assert_eq!(left(folder), Vec::<PathBuf>::new(), "{server} / {client}");
    }
}

#[test]
fn what_cannot_be_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // A command that runs leaves a file.
    write(
        folder,
        "pair.toml",
        "touch ran {port}",
        "touch ran {port} {bytes}",
        "direction = 'down'",
    );
    let pair = "cmd:file=pair.toml";
    for (args, expected) in [
        (&[pair, "-w", "ping"][..], "do work of their own"),
        (&[pair, "-w", "bulk:time=1s"], "give bytes"),
        (&[pair, "-w", "bulk:bytes=1MB"], "write direction=down"),
        (&[pair, "-w", "bulk:bytes=1MB,direction=down,streams=2"], "leave out streams"),
        (&[pair, "-w", "command"], "write bytes=10MB"),
        (&[pair, "-w", "command:bytes=1MB,figure=goodput"], "unknown figure `goodput`"),
        (&["tcp", "-w", "command"], "write cmd:file=PATH"),
        (
            &[pair, "-w", "command:bytes=1MB", "--to", "iperf3://127.0.0.1"],
            "no far end of others runs its server command",
        ),
        (
            &[pair, "-w", "command:bytes=1MB", "--to", "127.0.0.1", "--source", "127.0.0.1"],
            "which --source does not bind",
        ),
        (&[pair, "-w", "command:bytes=1MB", "--explain"], "leave it out"),
        (&[pair, "-w", "command:bytes=1MB", "--path", "sim:delay=5ms"], "virtual time"),
        (&["cmd:file=pair.toml,set=bin=x", "-w", "command:bytes=1MB"], "unknown variable to set"),
        (&["mix:a=cmd:file=pair.toml,b=tcp", "-w", "streams"], "`"),
    ] {
        let said = refused(folder, args);
        assert!(said.contains(expected), "{args:?}: {said}");
    }
    assert!(!folder.join("ran").exists());
    assert_eq!(left(folder), Vec::<PathBuf>::new());
}
