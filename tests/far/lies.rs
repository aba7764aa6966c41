//! A server that lies about what it measured: a relay between a client and an honest server, which changes
//! the far end's report on its way.

// Clippy's leave for tests ends at functions that are no tests themselves.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use deadheat::trial::control::{read_frame, write_frame};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_deadheat");

/// What is changed in a report.
type Lie = fn(&mut Value);

/// An honest server; killed when dropped.
pub(super) struct Honest {
    process: Child,
    pub(super) address: SocketAddr,
}

impl Honest {
    pub(super) fn start() -> Honest {
        Honest::on_clock("0,0")
    }

    /// On a clock that leads by so many seconds, and gains so many parts per million.
    pub(super) fn on_clock(clock: &str) -> Honest {
        let mut process = Command::new(PROGRAM)
            .env("DEADHEAT_TEST_CLOCK", clock)
            .args(["serve", "--bind", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listens at ") {
            line.clear();
            assert!(log.read_line(&mut line).unwrap() > 0, "no server");
        }
        let address = line.split("listens at ").nth(1).unwrap().split(',').next().unwrap();
        let address = address.parse().unwrap();
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Honest { process, address }
    }
}

impl Drop for Honest {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A relay to `to` that tells `lie` in every report.
fn lying(to: SocketAddr, lie: Lie) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let near = near.unwrap();
            let far = TcpStream::connect(to).unwrap();
            let (up, down) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || {
                // Control begins with a length below 2^24, data with letters.
                let mut first = [1];
                let is_control = near.peek(&mut first).is_ok() && first[0] == 0;
                std::thread::spawn(move || carry(up, far));
                if is_control { distort(down, near, lie) } else { carry(down, near) }
            });
        }
    });
    address
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 65_536];
    while let Ok(got @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..got]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn distort(mut from: TcpStream, mut to: TcpStream, lie: Lie) {
    while let Ok(frame) = read_frame(&mut from) {
        let mut word: Value = serde_json::from_slice(&frame).unwrap();
        if let Some(report) = word.get_mut("done") {
            lie(report);
        }
        if write_frame(&mut to, &serde_json::to_vec(&word).unwrap()).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// The trials of a race over 20 MB, which no call takes at once however late it comes, to a server that tells `lie`.
fn race(server: &Honest, lie: Lie) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let address = lying(server.address, lie).to_string();
    let ran = Command::new(PROGRAM)
        .args([
            "race",
            "--idle",
            "host",
            "tcp",
            "-w",
            "bulk:bytes=20MB",
            "--blocks",
            "1",
            "--to",
            &address,
            "-q",
        ])
        .args(["-o", "race.json"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let saved = std::fs::read(dir.path().join("race.json"));
    let said = String::from_utf8_lossy(&ran.stderr);
    let outcome: Value =
        serde_json::from_slice(&saved.unwrap_or_else(|_| panic!("{said}"))).unwrap();
    outcome["trials"].as_array().unwrap().clone()
}

#[test]
fn a_lie_ends_as_an_invalid_trial_and_never_as_a_figure() {
    let server = Honest::start();
    let honest = race(&server, |_| {});
    let has_figure = |trial: &Value| trial["metrics"]["goodput_bps"].as_f64() > Some(0.0);
    assert!(honest.iter().any(has_figure), "{honest:#?}");
    for trial in honest {
        // A busy host may spoil a trial, and makes no lie of its report.
        let why = trial.get("why_invalid").and_then(Value::as_str).unwrap_or_default();
        assert!(!why.contains("the far end's report"), "{trial:#}");
        assert!(trial["valid"] == false || has_figure(&trial), "{trial:#}");
    }
    let lies: [(Lie, &str); 2] = [
        (
            |report| report["halves"][0]["received"]["bytes"] = json!(90_000_000),
            "it received 90.0 MB",
        ),
        (|report| report["conns"][0]["retransmits"] = json!(u64::MAX), "a connection's count is"),
    ];
    for (lie, named) in lies {
        let trials = race(&server, lie);
        assert!(!trials.is_empty());
        for trial in trials {
            assert_eq!(trial["valid"], false, "{trial:#}");
            let why = trial["why_invalid"].as_str().unwrap();
            assert!(why.starts_with("the far end's report cannot be true: "), "{why}");
            assert!(why.contains(named), "{why}");
            assert!(trial["metrics"].get("goodput_bps").is_none(), "{trial:#}");
        }
    }
}
