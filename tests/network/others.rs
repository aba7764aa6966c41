//! Races to far ends of others, across an emulated path: Debian's iperf3 and irtt, xinetd's echo and discard.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::net::ran;
use crate::path::{DEADHEAT, can};
use crate::remote::race_across;

/// Path with a delay and a loss each way.
const PATH: &str = "delay=5ms,loss=1%,rate=50mbit";

/// Runs `far` on the far host of a path until it listens, and a race of one block with these arguments on the near one.
pub(crate) fn race(far: &str, args: &[&str], dir: &Path) -> Value {
    race_across(&[PATH, "--far", far], &[args, &["--seed", "1"]].concat(), dir)
}

/// The trials of an outcome, with the name of their contender.
pub(crate) fn trials(outcome: &Value) -> impl Iterator<Item = (&str, &Value)> {
    ran(outcome).into_iter().map(|trial| {
        let contender = trial["contender"].as_u64().unwrap() as usize;
        (outcome["contenders"][contender]["spec"].as_str().unwrap(), trial)
    })
}

/// Whether a warning of a race says that its far end is one of others.
pub(crate) fn says_so(outcome: &Value, what: &str) -> bool {
    let warnings = outcome["warnings"].as_array().unwrap();
    let mut own = warnings.iter().filter(|warning| warning["code"] == "far_end_of_others");
    own.any(|warning| warning["message"].as_str().unwrap().contains(what))
}

/// Returns true if any trial has a figure of this name that the path's rate allows. To a receiver that a busy host held up, data
/// seem to come faster than they did, and a short transfer that arrives in one call has no rate.
pub(crate) fn any_has_rate(outcome: &Value, name: &str) -> bool {
    let rate = |(_, trial): (&str, &Value)| trial["metrics"][name].as_f64();
    trials(outcome).filter_map(rate).any(|bps| bps > 0.0 && bps < 1e8)
}

#[test]
fn uploads_to_an_iperf3_server_have_its_counts() {
    if !can("tun", &["iperf3"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let work = ["-w", "cbr:rate=4mbit,time=400ms", "--to", "iperf3://198.18.0.2"];
    let outcome = race("iperf3 -s", &[&["tcp", "udp"], &work[..]].concat(), dir.path());
    assert_eq!(outcome["path"]["far_end"]["id"], "iperf3");
    assert!(says_so(&outcome, "an iperf3 server"), "{}", outcome["warnings"]);
    for (contender, trial) in trials(&outcome) {
        let up = &trial["ledger"]["up"];
        let (sent, got) = (up["sent"].as_u64().unwrap(), up["delivered"].as_u64().unwrap());
        let at_least = if contender == "tcp" { sent } else { sent / 2 };
        assert!(sent > 20 && got >= at_least && got <= sent, "{contender}: {up}");
        assert!(trial.get("far_cost").is_none(), "{trial}");
    }
    assert!(any_has_rate(&outcome, "goodput_bps"), "{outcome:#}");
}

#[test]
fn downloads_from_an_iperf3_server_close_their_ledgers() {
    if !can("tun", &["iperf3"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let to = ["--to", "iperf3://198.18.0.2"];
    let work = ["tcp", "udp", "-w", "cbr:rate=4mbit,time=400ms,direction=down"];
    let outcome_of = |args: &[&str]| race("iperf3 -s", &[args, &to].concat(), dir.path());
    let paced = outcome_of(&work);
    for (contender, trial) in trials(&paced) {
        let down = &trial["ledger"]["down"];
        let (sent, got) = (down["sent"].as_u64().unwrap(), down["delivered"].as_u64().unwrap());
        let at_least = if contender == "tcp" { sent } else { sent / 2 };
        assert!(got > 20 && got >= at_least && got <= sent, "{contender}: {down}");
        // Datagrams have the time of their sending, and a byte stream has none.
        let spread = &trial["metrics"]["pdv_p50_ns"];
        assert_eq!(spread.as_f64().is_some_and(|pdv| pdv > 0.0), contender == "udp", "{trial}");
    }
    let bulk = outcome_of(&["tcp", "-w", "bulk:direction=down,time=300ms,streams=2"]);
    for (_, trial) in trials(&bulk) {
        let down = &trial["ledger"]["down"];
        assert_eq!(down["sent"], down["delivered"], "{trial}");
        assert!(down.get("open_because").is_none(), "{trial}");
    }
    assert!(any_has_rate(&bulk, "goodput_bps"), "{bulk:#}");
}

/// Both directions run at once in one test, and each is counted where it arrives.
#[test]
fn both_ways_at_once_with_an_iperf3_server_close_two_ledgers() {
    if !can("tun", &["iperf3"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for work in [
        ["tcp", "-w", "bulk:direction=both,time=300ms,warmup=100ms,streams=2"],
        ["udp", "-w", "cbr:direction=both,rate=4mbit,time=300ms"],
    ] {
        let args = [&work[..], &["--to", "iperf3://198.18.0.2"]].concat();
        let outcome = race("iperf3 -s", &args, dir.path());
        let all: Vec<_> = trials(&outcome).collect();
        for way in ["up", "down"] {
            let counts = all.iter().map(|(_, trial)| {
                let account = &trial["ledger"][way];
                let (sent, got) = (&account["sent"], &account["delivered"]);
                (sent.as_u64().unwrap(), got.as_u64().unwrap())
            });
            let counts: Vec<(u64, u64)> = counts.collect();
            assert!(counts.iter().all(|(sent, got)| got <= sent), "{way}: {counts:?}");
            // A server that a busy host lets wait loses datagrams, and no bytes of a stream.
            match work[0] {
                "tcp" => assert!(counts.iter().all(|(sent, got)| got == sent && *got > 20)),
                _ => assert!(
                    counts.iter().any(|(sent, got)| 2 * got >= *sent && *got > 20),
                    "{way}: {counts:?}"
                ),
            }
            assert!(any_has_rate(&outcome, &format!("goodput_{way}_bps")), "{way}: {outcome:#}");
        }
    }
}

/// The pair of keys is made for the test.
#[cfg(feature = "iperf3-login")]
#[test]
fn an_iperf3_server_lets_in_who_has_a_password_and_says_what_is_missing() {
    if !can("tun", &["iperf3", "openssl"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let prepare = "openssl genrsa -out private.pem 2048 2>/dev/null && \
        openssl rsa -in private.pem -pubout -out public.pem 2>/dev/null && \
        printf 'ann,%s\\n' \"$(printf '{ann}open-sesame' | sha256sum | cut -d' ' -f1)\" >users.csv";
    let made = Command::new("sh").args(["-c", prepare]).current_dir(dir.path()).status().unwrap();
    assert!(made.success());
    let far = "iperf3 -s --rsa-private-key-path private.pem --authorized-users-path users.csv";
    let race = |password: &str| {
        let run = Command::new(DEADHEAT)
            .args([
                "path",
                "run",
                "-q",
                "delay=1ms",
                "--far",
                far,
                "--far-ready",
                "5201",
                "--",
                DEADHEAT,
            ])
            .args(["race", "tcp", "-w", "bulk:bytes=150kB", "--to", "iperf3://198.18.0.2"])
            .args(["--blocks", "1", "--idle", "host", "-q", "-o", "race.json"])
            .env("DEADHEAT_IPERF3_USER", "ann")
            .env("DEADHEAT_IPERF3_PASSWORD", password)
            .env("DEADHEAT_IPERF3_PUBLIC_KEY", dir.path().join("public.pem"))
            // As of Debian's 3.12; servers since 3.17 expect the other.
            .env("DEADHEAT_IPERF3_PADDING", "pkcs1")
            .current_dir(dir.path())
            .output()
            .unwrap();
        (run.status.code(), String::from_utf8_lossy(&run.stderr).into_owned())
    };
    let (code, said) = race("open-sesame");
    assert!(matches!(code, Some(0 | 3)), "{said}");
    let (code, said) = race("wrong");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("does not let ann in"), "{said}");
}

/// Without a time the bytes decide, and with one the warm-up is left out, by acknowledgements.
#[test]
fn bulk_to_an_iperf3_server_arrives_whole() {
    if !can("tun", &["iperf3"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for work in ["bulk:bytes=1MB", "bulk:time=300ms,warmup=200ms,streams=3"] {
        let args = ["tcp", "-w", work, "--to", "iperf3://198.18.0.2"];
        let outcome = race("iperf3 -s", &args, dir.path());
        for (_, trial) in trials(&outcome) {
            let up = &trial["ledger"]["up"];
            assert_eq!(up["sent"], up["delivered"], "{work}: {trial}");
        }
        assert!(any_has_rate(&outcome, "goodput_bps"), "{work}: {outcome:#}");
    }
}

#[test]
fn round_trips_to_an_irtt_server_are_compared_with_those_to_its_kernel() {
    if !can("tun", &["irtt"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let work = ["-w", "ping:interval=10ms,count=40,warmup=2", "--to", "irtt://198.18.0.2"];
    let outcome = race("irtt server", &[&["udp", "icmp"], &work[..]].concat(), dir.path());
    assert!(outcome["contenders"][1]["floor"].is_null(), "{}", outcome["contenders"][1]);
    assert_eq!(outcome["verdicts"].as_array().unwrap().len(), 1);
    for (contender, trial) in trials(&outcome) {
        // The server counts: unless answers came out of order, losses are of a way.
        let ways = ["up", "down", "round_trip"].map(|way| &trial["ledger"][way]);
        let [up, down, both] = ways;
        let (sent, got) = if up.is_object() { (up, down) } else { (both, both) };
        assert_eq!(sent["sent"], 40, "{contender}: {trial}");
        assert!(got["delivered"].as_u64().unwrap() >= 20, "{contender}: {trial}");
        assert_eq!(up.is_object(), contender == "udp" && both.is_null(), "{contender}: {trial}");
        // Content that came back as a fill was not compared.
        assert_eq!(got["corrupted"].is_null(), contender == "udp", "{contender}: {trial}");
        let rtt = trial["metrics"]["rtt_p50_ns"].as_f64().unwrap();
        assert!(rtt > 10e6, "{contender}: {rtt}");
        // The server's times, which the kernel does not send: 5 ms each way.
        assert_eq!(trial["clock"].is_object(), contender == "udp", "{contender}: {trial}");
        for name in ["one_way_up_p50_ns", "one_way_down_p50_ns"] {
            let way = trial["metrics"][name].as_f64();
            assert_eq!(way.is_some(), contender == "udp", "{contender}: {trial}");
            let bound = trial["clock"]["error_bound_ns"].as_f64().unwrap_or_default();
            assert!(way.is_none_or(|way| way + bound >= 5e6), "{contender}: {trial}");
        }
    }
}

/// The server drops what comes faster than its operator allows, so the work is refused before it begins.
#[test]
fn an_irtt_server_that_allows_less_is_obeyed() {
    if !can("tun", &["irtt"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let work = ["-w", "ping:interval=10ms,count=20,warmup=0", "--to", "irtt://198.18.0.2"];
    let args = [&["udp", "icmp"], &work[..]].concat();
    let outcome = race("irtt server -i 50ms", &args, dir.path());
    let why = outcome["contenders"][0]["limited"].as_str().unwrap();
    assert!(
        why.contains("allows a message every 50.0 ms") && why.contains("interval=50ms"),
        "{why}"
    );
}

/// Configuration of xinetd with its own services, in the foreground.
fn xinetd(dir: &Path) -> String {
    let service = |name: &str, kind: &str, protocol: &str, wait: &str| {
        format!(
            "service {name}\n{{\n id = {name}-{protocol}\n type = INTERNAL\n socket_type = {kind}\n protocol = {protocol}\n \
             user = root\n wait = {wait}\n instances = UNLIMITED\n cps = 1000 1\n}}\n"
        )
    };
    let text = [
        service("echo", "stream", "tcp", "no"),
        service("echo", "dgram", "udp", "yes"),
        service("discard", "stream", "tcp", "no"),
    ];
    fs::write(dir.join("xinetd.conf"), text.concat()).unwrap();
    format!("xinetd -dontfork -f {}", dir.join("xinetd.conf").display())
}

#[test]
fn an_echo_port_answers_and_a_discard_port_takes() {
    if !can("tun", &["xinetd"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let far = xinetd(dir.path());
    let ping = ["tcp", "udp", "-w", "ping:count=40,warmup=2,interval=5ms"];
    let echo = race(&far, &[&ping[..], &["--to", "echo://198.18.0.2"]].concat(), dir.path());
    for (contender, trial) in trials(&echo) {
        let both = &trial["ledger"]["round_trip"];
        assert_eq!(both["sent"], 40, "{contender}: {trial}");
        assert!(both["delivered"].as_u64().unwrap() >= 20, "{contender}: {trial}");
        assert_eq!(both["corrupted"], 0, "{contender}: {trial}");
    }
    let bulk = ["tcp", "udp", "-w", "bulk:time=300ms,warmup=100ms"];
    let discard = race(&far, &[&bulk[..], &["--to", "discard://198.18.0.2"]].concat(), dir.path());
    assert!(says_so(&discard, "counts nothing"), "{}", discard["warnings"]);
    let why = discard["contenders"][1]["not_applicable"].as_str().unwrap();
    assert!(why.contains("a discard port carries TCP"), "{why}");
    for (_, trial) in trials(&discard) {
        let up = &trial["ledger"]["up"];
        assert_eq!(up["sent"], up["delivered"], "{trial}");
    }
    assert!(any_has_rate(&discard, "goodput_bps"), "{discard:#}");
}

#[test]
fn a_host_without_any_far_end_answers_by_its_kernel() {
    if !can("tun", &[]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let work = ["icmp", "-w", "ping:count=20,warmup=0,interval=5ms", "--to", "host://198.18.0.2"];
    let outcome = race("true", &work, dir.path());
    assert_eq!(outcome["path"]["far_end"]["id"], "host");
    for (_, trial) in trials(&outcome) {
        assert_eq!(trial["ledger"]["round_trip"]["sent"], 20, "{trial}");
    }
}
