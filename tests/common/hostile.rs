//! Text of others is shown, and never obeyed: no text of a server or of a file moves the cursor, changes
//! colours, forges a line, or has no end, on any output.

// Clippy's exemption of tests ends at functions that are no tests themselves.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Output};

use crate::common;
use deadheat::error::{Fault, FaultKind};
use deadheat::result::outcome::Outcome;
use deadheat::result::save;
use deadheat::trial::control::{self, FromServer, Greeting, Limits, PROTOCOL};
use deadheat::units::BitRate;

/// Returns a window title, a bell, a colour, C1's CSI, a return to the start of the line, a forged line, text that
/// reads backwards, and very much of it.
fn hostile() -> String {
    let start = "\u{1b}]0;owned\u{7}\u{1b}[31m\u{9b}2J\rdeadheat: fine\nFORGED line\u{202e}drow";
    start.to_owned() + &"x".repeat(900_000)
}

/// Fails if `text` holds control characters of a terminal, or a line that begins like the forged one.
fn check(what: &str, text: &[u8], longest: usize) {
    let text = std::str::from_utf8(text).unwrap();
    let is_harmful = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    if let Some(at) = text.find(is_harmful) {
        panic!("{what}: {:?}", &text[at..].chars().take(40).collect::<String>());
    }
    let forged = text.lines().find(|line| line.trim_start().starts_with("FORGED"));
    assert_eq!(forged, None, "{what}");
    assert!(text.len() <= longest, "{what}: {} bytes", text.len());
}

fn run(args: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_deadheat")).args(args).current_dir(dir).output().unwrap()
}

/// Runs a race against a server that answers a greeting with `words`, and returns its output.
fn against(words: Vec<FromServer>) -> Output {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _: Greeting = control::read(&mut stream).unwrap();
        for word in words {
            // The client may have closed the connection.
            let _ = control::write(&mut stream, &word);
        }
        let _ = stream.flush();
    });
    let dir = tempfile::tempdir().unwrap();
    let said = run(&["race", "udp", "--to", &address.to_string(), "--blocks", "5"], dir.path());
    serving.join().unwrap();
    said
}

#[test]
fn a_server_cannot_write_on_the_terminal() {
    let limits = Limits {
        duration_ns: deadheat::time::Nanos::from_secs(60),
        bytes: 1,
        rate_bps: BitRate(1),
        concurrent: 1,
    };
    let welcome = |protocol, version| FromServer::Welcome {
        protocol,
        version,
        nonce: None,
        limits,
        relays: false,
        commands: false,
        echoes: false,
        answers_probes: false,
    };
    for kind in [FaultKind::Peer, FaultKind::Usage, FaultKind::Setup, FaultKind::Blocked] {
        let fault = Fault { kind, message: hostile() };
        for words in [
            vec![FromServer::Refused(fault.clone())],
            vec![welcome(PROTOCOL, "0.1.0".into()), FromServer::Refused(fault.clone())],
        ] {
            let said = against(words);
            assert_ne!(said.status.code(), Some(0));
            assert!(String::from_utf8_lossy(&said.stderr).contains("owned"), "it is shown");
            check("a refusal", &said.stderr, 8_000);
            check("a refusal", &said.stdout, 0);
        }
    }
    let said = against(vec![welcome(99, hostile())]);
    assert!(String::from_utf8_lossy(&said.stderr).contains("it speaks protocol 99"));
    check("a version", &said.stderr, 8_000);
}

/// Renders every report of a race with such text in every field.
#[test]
fn a_file_cannot_write_on_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let race = common::hostile();
    save::save(&race, &dir.path().join("a.json")).unwrap();
    let later = Outcome { started: "2027-01-01T00:00:00Z".into(), ..common::hostile() };
    save::save(&later, &dir.path().join("b.json")).unwrap();
    for format in ["terminal", "csv", "markdown", "comment", "json", "html"] {
        let said = run(&["report", "a.json", "--format", format], dir.path());
        assert!(!said.stdout.is_empty(), "{format}: {said:?}");
        check(format, &said.stdout, 8_000_000);
        check(format, &said.stderr, 8_000);
    }
    for args in [
        &["report", "a.json", "--details"][..],
        &["compare", "a.json", "b.json"],
        &["history", "."],
        &["race", "--resume", "a.json", "--budget", "1s"],
        &["race", "--replay", "a.json"],
    ] {
        let said = run(args, dir.path());
        check(&args.join(" "), &said.stdout, 8_000_000);
        check(&args.join(" "), &said.stderr, 20_000);
    }
}

/// Checks that errors of a file quote it safely.
#[test]
fn a_broken_file_cannot_either() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.json");
    save::save(&common::full(), &file).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let bad = serde_json::to_string(&hostile()).unwrap();
    for (from, to) in [
        ("\"outcome\": \"ahead\"", format!("\"outcome\": {bad}")),
        ("\"seed\": ", format!("{bad}: 1, \"seed\": {bad}, \"x\": ")),
        ("\"status\": ", format!("\"status\": {bad}, \"x\": ")),
    ] {
        assert!(text.contains(from), "{from}");
        std::fs::write(&file, text.replacen(from, &to, 1)).unwrap();
        let said = run(&["report", "a.json"], dir.path());
        assert_eq!(said.status.code(), Some(1), "{said:?}");
        check(from, &said.stderr, 20_000);
    }
}
