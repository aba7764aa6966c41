//! External contenders: commands that carry a contender, as processes at the hosts of a path. The tunnel is Debian's
//! kcptun; where it is missing its tests say so and pass. A relay that stores what it carries is this program itself.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use deadheat::path::emulator::Emulator;
use serde_json::Value;

use crate::net::ran;
use crate::runs_all;

/// Returns true if the tunnel is installed.
fn has_kcptun() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|dir| dir.join("kcptun-client").is_file());
    if !is_there {
        println!("skipped: `kcptun` is not installed (make test installs it)");
    }
    is_there
}

fn deadheat(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_deadheat"));
    command.args(args).current_dir(folder).env_remove("DEADHEAT_HISTORY");
    command
}

/// Writes the file of a pair into a folder, and returns the contender.
fn pair(folder: &Path, name: &str, near: &str, far: &str, carries: &str) -> String {
    let text = format!("near = '''{near}'''\nfar = '''{far}'''\ncarries = \"{carries}\"\n");
    std::fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    format!("external:file={name}.toml")
}

const NEAR: &str = "kcptun-client --crypt none -l {listen} -r {far}";
const FAR: &str = "kcptun-server --crypt none -l {listen} -t {target}";

fn kcptun(folder: &Path) -> String {
    pair(folder, "kcptun", NEAR, FAR, "tcp")
}

fn race(folder: &Path, contenders: &[&str], path: &str, work: &str) -> Output {
    let rest = ["--path", path, "-w", work, "--blocks", "1", "-o", "race.json"];
    deadheat(folder, &[&["race", "--idle", "host"], contenders, &rest].concat()).output().unwrap()
}

fn raced(folder: &Path, contenders: &[&str], path: &str, work: &str) -> Value {
    let output = race(folder, contenders, path, work);
    let said = String::from_utf8_lossy(&output.stderr);
    let text = std::fs::read(folder.join("race.json")).unwrap_or_else(|_| panic!("{said}"));
    std::fs::remove_file(folder.join("race.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Returns what a race that cannot be says.
fn refused(folder: &Path, contender: &str, more: &[&str]) -> String {
    let args = ["race", "--idle", "host", contender, "tcp", "-w", "ping:count=20", "--blocks", "1"];
    let output = deadheat(folder, &[&args, more].concat()).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns what a race says in which `contender` fails, and TCP races on.
fn dropped(folder: &Path, contender: &str) -> String {
    let args = ["race", "--idle", "host", contender, "tcp", "-w", "ping:count=20", "--blocks", "1"];
    let output = deadheat(folder, &[&args[..], &["--details"]].concat()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    // 3 is a race that is not to be trusted, as on a busy machine.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}{output:?}");
    assert!(said.contains("failed twice in a row, and dropped out"), "{said}");
    // The evidence is broken into lines.
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

/// Returns the processes that have this in their command line.
fn processes(with: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_one = |path: &PathBuf| {
        let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(with)
    };
    all.filter(is_one).collect()
}

/// Waits until something is so.
#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_tunnel_carries_tcp_on_loopback_and_over_an_emulated_path() {
    if !has_kcptun() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tunnel = kcptun(folder.path());
    let can = Emulator::possible().is_ok();
    for path in if can { &["loopback", "delay=10ms,loss=1%"][..] } else { &["loopback"] } {
        let outcome = raced(folder.path(), &[&tunnel, "tcp"], path, "bulk:bytes=300kB,verify=on");
        let trials = ran(&outcome);
        assert!(trials.len() >= 2, "{path}: {}", trials.len());
        for trial in trials {
            assert_eq!(trial["verified"]["state"], "verified", "{path}: {trial}");
        }
        let entrant = &outcome["contenders"][0];
        assert_eq!(entrant["asked"]["near"], NEAR);
        assert_eq!(entrant["asked"]["far"], FAR);
        assert_eq!(entrant["asked"]["carries"], "tcp");
        assert_eq!(entrant["transport"], "external");
        let differences = outcome["differences"].as_array().unwrap();
        let of = |what: &str| differences.iter().find(|one| one["what"] == what).unwrap();
        assert_eq!(of("encryption")["values"][&tunnel], "unknown between its commands");
        assert!(of("carried by")["values"][&tunnel].as_str().unwrap().contains(FAR));

        let outcome = raced(folder.path(), &[&tunnel, "tcp"], path, "ping:count=40,interval=10ms");
        let cpu = |id: u64, cost: &str| {
            let mine: Vec<u64> = ran(&outcome)
                .into_iter()
                .filter(|trial| count(&trial["contender"]) == id)
                .map(|trial| count(&trial[cost]["cpu_ns"]))
                .collect();
            assert!(!mine.is_empty(), "{outcome}");
            mine.iter().min().copied().unwrap()
        };
        // Each message there and back is several calls of each of the two programs.
        for cost in ["cost", "far_cost"] {
            assert!(cpu(0, cost) > 40 * 10_000, "{path} {cost}: {}", cpu(0, cost));
        }
        for trial in ran(&outcome) {
            assert!(count(&trial["rtt_ns"]["n"]) >= 40, "{path}: {trial}");
            let least = if *path == "loopback" { 1_000 } else { 20_000_000 };
            assert!(count(&trial["rtt_ns"]["min"]) >= least, "{path}: {}", trial["rtt_ns"]);
        }
        // The result alone says what ran.
        std::fs::write(folder.path().join("saved.json"), outcome.to_string()).unwrap();
    }
    std::fs::remove_file(folder.path().join("kcptun.toml")).unwrap();
    let report = deadheat(folder.path(), &["report", "saved.json"]).output().unwrap();
    // 3 where this host was too busy to trust the race.
    let said = String::from_utf8_lossy(&report.stderr);
    assert!(matches!(report.status.code(), Some(0 | 3)), "{:?}: {said}", report.status);
}

/// Variable that makes a relay of a process of this program: the milliseconds for which it holds what it has stored.
const HOLDS: &str = "DEADHEAT_TEST_RELAY_HOLDS";

/// Listens at the first of two addresses. Passes the hello of a connection on to the second and its answer back, stores all
/// that follows until it ends, holds that for a time, and only then passes it on.
fn relay(listen: &str, to: &str, holds: Duration) {
    let listener = TcpListener::bind(listen).unwrap();
    for near in listener.incoming() {
        let (mut near, mut far) = (near.unwrap(), TcpStream::connect(to).unwrap());
        std::thread::spawn(move || {
            let (mut back, mut out) = (far.try_clone().unwrap(), near.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut back, &mut out));
            let (mut hello, mut all) = ([0; 24], Vec::new());
            // One that only looks whether somebody listens says nothing.
            if near.read_exact(&mut hello).is_ok() && far.write_all(&hello).is_ok() {
                near.read_to_end(&mut all).unwrap();
                std::thread::sleep(holds);
                let _ = far.write_all(&all);
            }
            let _ = far.shutdown(Shutdown::Write);
        });
    }
}

#[test]
fn a_relay_that_stores_a_transfer_before_it_passes_it_on_has_taken_that_time() {
    if let Ok(holds) = std::env::var(HOLDS) {
        let words: Vec<String> = std::env::args().collect();
        let [.., listen, to] = &words[..] else { panic!("{words:?}") };
        return relay(listen, to, Duration::from_millis(holds.parse().unwrap()));
    }
    let folder = tempfile::tempdir().unwrap();
    let own = std::env::current_exe().unwrap();
    let command = |holds: u64, to: &str| {
        let name = "a_relay_that_stores_a_transfer_before_it_passes_it_on_has_taken_that_time";
        let (own, options) = (own.display(), "--exact --nocapture");
        format!("env {HOLDS}={holds} '{own}' {options} external::{name} {{listen}} {{{to}}}")
    };
    let stores = pair(folder.path(), "stores", &command(400, "far"), &command(0, "target"), "tcp");
    for work in ["bulk:bytes=1MB", "bulk:bytes=1MB,connect=timed"] {
        let outcome = raced(folder.path(), &[&stores, "tcp"], "loopback", work);
        let trials = outcome["trials"].as_array().unwrap();
        let held: Vec<&Value> = trials.iter().filter(|one| one["contender"] == 0).collect();
        assert!(!held.is_empty(), "{outcome}");
        for trial in held {
            let figure = |name: &str| trial["metrics"][name].as_f64().unwrap();
            assert!(figure("transfer_ns") >= 400e6, "{work}: {}", trial["metrics"]);
            assert!(figure("goodput_bps") <= 8e6 / 0.4, "{work}: {}", trial["metrics"]);
        }
    }
}

#[test]
fn what_goes_wrong_with_a_command_is_told_with_its_last_words() {
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str, near: &str, far: &str| pair(folder.path(), name, near, far, "tcp");
    // It is waited for twice, for ten seconds each.
    let deaf = runs_all().then(|| {
        (
            made("deaf", "true {listen} {far}", "sh -c 'sleep 3002' {listen} {target}"),
            &["far command", "did not listen at 127.0.0.1:", "within 10.0 s"][..],
        )
    });
    for (contender, whys) in [
        (
            made(
                "exits",
                "true {listen} {far}",
                "sh -c 'echo no such device >&2; exit 3' {listen} {target}",
            ),
            &["far command `sh -c", "exit status 3", "no such device"][..],
        ),
        (
            made("mute", "true {listen} {far}", "sleep 3001 {listen}{target}"),
            &["far command `sleep 3001", "ended before it was ready", "invalid time"][..],
        ),
    ]
    .into_iter()
    .chain(deaf)
    {
        let said = dropped(folder.path(), &contender);
        whys.iter().for_each(|why| assert!(said.contains(why), "{contender}: {said}"));
    }
    let far = "sleep 3000{listen_port} {target}";
    for (contender, whys) in [
        (
            made("missing", "no-such-tunnel {listen} {far}", far),
            &["no program `no-such-tunnel` on this host"][..],
        ),
        (made("wrong", "true {far}", far), &["has no {listen} in it"]),
        ("external:file=none.toml".to_owned(), &["none.toml", "No such file"]),
    ] {
        let said = refused(folder.path(), &contender, &[]);
        whys.iter().for_each(|why| assert!(said.contains(why), "{contender}: {said}"));
    }
    assert_eq!(processes("3002"), Vec::<PathBuf>::new());
    let tunnel = made("fine", "true {listen} {far}", far);
    let said = refused(folder.path(), &tunnel, &["--to", "192.0.2.1"]);
    assert!(said.contains("a server runs no command that a client sends"), "{said}");
    let said = refused(folder.path(), &tunnel, &["--path", "sim:delay=1ms"]);
    assert!(said.contains("no command runs in virtual time"), "{said}");
}

/// However a race ends, nothing that its commands have started is left.
#[test]
fn nothing_of_a_command_is_left_when_the_race_is_killed() {
    if !has_kcptun() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Its own session and process group, started by a shell that goes on.
    let far = format!(
        "sh -c 'setsid sleep 4711.25 & exec {} ' {{listen}} {{target}}",
        "kcptun-server -l $0 -t $1"
    );
    let tunnel = pair(folder.path(), "leaves", "kcptun-client -l {listen} -r {far}", &far, "tcp");
    let mut race = deadheat(
        folder.path(),
        &["race", "--idle", "host", &tunnel, "tcp", "-w", "ping:time=20s", "--blocks", "1"],
    )
    .stdout(Stdio::null())
    .stderr(Stdio::null())
    .spawn()
    .unwrap();
    until("it starts", || !processes("4711.25").is_empty());
    race.kill().unwrap();
    race.wait().unwrap();
    until("it ends", || processes("4711.25").is_empty());
}
