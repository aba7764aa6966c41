//! The program of a stranger races transports of deadheat and of its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

fn run(args: &[&str]) -> (String, Option<i32>) {
    let ran = Command::new(env!("CARGO_BIN_EXE_deadheat-stranger")).args(args).output().unwrap();
    let said = [ran.stdout, ran.stderr].concat();
    (String::from_utf8(said).unwrap(), ran.status.code())
}

#[test]
fn its_transport_its_workload_and_its_report_are_listed() {
    let (said, code) = run(&["list"]);
    assert_eq!(code, Some(0), "{said}");
    for name in ["twice", "knock"] {
        assert!(said.contains(name), "{name}: {said}");
    }
    let (said, code) = run(&["race", "udp", "--format", "lime"]);
    assert!(code == Some(2) && said.contains("did you mean `line`?"), "{said}");
    let (said, code) = run(&["race", "twicee"]);
    assert!(code == Some(2) && said.contains("did you mean `twice`?"), "{said}");
}

/// Loses a tenth of all datagrams, so nine tenths of single datagrams arrive, and 99 of 100 messages that are sent
/// twice.
#[test]
fn what_is_sent_twice_arrives_more_often_in_virtual_time() {
    let race = ["race", "sim-datagram", "twice", "-w", "knock", "--path", "sim:loss=10%,delay=5ms"];
    let (said, code) =
        run(&[&race[..], &["--blocks", "8", "--seed", "1", "--format", "line"]].concat());
    assert_eq!(code, Some(0), "{said}");
    let line = said.lines().find(|line| line.starts_with("knock:count=500")).unwrap();
    assert!(line.contains("twice is ahead"), "{said}");
}

/// Starts both ends of a trial as processes of this program, which find the same transports in it.
#[test]
fn it_races_over_sockets() {
    let race = ["race", "udp", "twice", "-w", "knock:count=100,interval=1ms", "--blocks", "1"];
    let (said, code) = run(&[&race[..], &["--idle", "host", "--format", "json"]].concat());
    // 3 is a race that is not to be trusted, as on a busy machine.
    assert!(matches!(code, Some(0 | 3)), "{said}");
    let json = &said[said.find('{').unwrap()..];
    assert!(json.contains("\"arrived_share\": 1.0") && json.contains("\"twice\""), "{json}");
}

/// The page for strangers: its race in virtual time, as it stands there, decides.
#[test]
fn the_race_of_the_page_in_virtual_time_has_a_verdict() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/own-transport.md");
    let page = std::fs::read_to_string(page).unwrap();
    let races = page.lines().filter_map(|line| line.strip_prefix("cargo run --release -- race "));
    let races: Vec<&str> = races.collect();
    assert_eq!(races.len(), 2, "{races:?}");
    let simulated = races.iter().find(|race| race.contains("sim:")).unwrap();
    let mut typed = vec!["race"];
    typed.extend(simulated.split(' '));
    let dir = std::env::temp_dir().join(format!("deadheat-page-{}.json", std::process::id()));
    let file = dir.display().to_string();
    typed.extend(["-o", &file]);
    let (said, code) = run(&typed);
    std::fs::remove_file(dir).unwrap();
    assert!(code == Some(0) && said.contains("twice is ahead"), "{said}");
}
