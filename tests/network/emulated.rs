//! Races over an emulated path, with real agents on hosts that are network namespaces: what the path was
//! asked to do is in every figure, and its own account is in the result.
//!
//! Needs the right to make network namespaces, itself or in a user namespace, and `setpriv` for the
//! ordinary user; says so and passes where they are missing. No bound here can be broken by a busy
//! host: round trips are bounded from below, bytes from above, and trials that failed their gate for
//! want of CPU time are looked at like all others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use deadheat::transport::Contender;
use serde_json::Value;

use crate::net::ran;
use crate::runs_all;

pub(crate) const DEADHEAT: &str = env!("CARGO_BIN_EXE_deadheat");
const NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// Whether `program` with these arguments ends well.
pub(crate) fn works(program: &str, args: &[&str]) -> bool {
    let done =
        Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

/// Whether this host lets this user build networks.
pub(crate) fn can() -> bool {
    let can = works("unshare", &["-n", "true"]) || works("unshare", &["-Urn", "true"]);
    if !can {
        println!("skipped: no network namespaces here, nor user namespaces to make them in");
    }
    can
}

/// Paths of a test that loopback serves, too: the emulated one where this host builds it, and both in `make soak`.
fn paths(emulated: &str) -> Vec<&str> {
    match (can(), runs_all()) {
        (false, _) => vec!["loopback"],
        (true, false) => vec![emulated],
        (true, true) => vec!["loopback", emulated],
    }
}

/// The saved result of a race of one block over `path`, as it is or behind `before`.
fn race_as(before: &[&str], contenders: &[&str], path: &str, workload: &str) -> Value {
    race_of((before, "1"), contenders, path, workload)
}

/// Runs a race of this number of blocks, with words in front of its command.
fn race_of(
    (before, blocks): (&[&str], &str),
    contenders: &[&str],
    path: &str,
    workload: &str,
) -> Value {
    let dir = tempfile::tempdir().unwrap();
    // Whoever runs it writes there.
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let words = [before, &[DEADHEAT, "race"], contenders].concat();
    let output = Command::new(words[0])
        .args(&words[1..])
        .args(["--path", path, "-w", workload, "--blocks", blocks, "--margin", "5%"])
        .args(["-o", "r.json", "--idle", "host"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    // 3 is a race that is not to be trusted, as on a busy machine.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}{output:?}");
    // A long headline may end its line there.
    assert!(path == "loopback" || said.split_whitespace().any(|word| word == "over"), "{said}");
    let text = std::fs::read_to_string(dir.path().join("r.json")).unwrap();
    let outcome: Value = serde_json::from_str(&text).unwrap();
    let schema: Value =
        serde_json::from_str(include_str!("../../docs/result.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(&outcome).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    outcome
}

pub(crate) fn race(contenders: &[&str], path: &str, workload: &str) -> Value {
    race_as(&[], contenders, path, workload)
}

pub(crate) fn race_blocks(blocks: &str, contenders: &[&str], path: &str, workload: &str) -> Value {
    race_of((&[], blocks), contenders, path, workload)
}

#[test]
fn a_probe_waits_in_the_queue_that_bulk_flows_beside_it_fill() {
    if !can() {
        return;
    }
    let probe = "ping:count=50,load=tcp:cc=cubic,load-flows=2";
    let outcome = race(&["udp", "tcp"], "delay=5ms,rate=20mbit,queue=100ms", probe);
    let mut waited = false;
    for trial in ran(&outcome) {
        let up = fates(trial, "up");
        hold_rate(up, 20_000_000);
        let (rtt, ledger) = (&trial["rtt_ns"], &trial["ledger"]);
        assert!(rtt["min"].as_u64().is_none_or(|least| least >= 10_000_000), "{rtt}");
        // Of the probe alone: what the load sends is in no ledger.
        let asked = ["up", "round_trip"].iter().find_map(|way| ledger[way]["sent"].as_u64());
        assert_eq!(asked, Some(50), "{ledger}");
        assert!(count(&up["arrived_bytes"]) > 100_000);
        // A host that holds the load up for most of a trial leaves the queue empty, and its own figure zero or absent.
        let load = trial["metrics"]["load_goodput_bps"].as_f64();
        waited |= load > Some(1e6) && rtt["p50"].as_u64() >= Some(15_000_000);
    }
    assert!(waited, "{outcome:#}");
    let none = race(&["udp"], "delay=5ms,rate=20mbit,queue=100ms", "ping:count=50,load=none");
    for trial in ran(&none) {
        assert!(trial["metrics"]["load_goodput_bps"].is_null(), "{trial}");
    }
}

#[test]
fn a_load_runs_on_loopback_too() {
    let outcome =
        race(&["udp"], "loopback", "ping:count=400,interval=2ms,load=tcp,load-direction=both");
    // A load that the host holds up for a whole trial has no rate.
    let ran_beside = |trial: &Value| trial["metrics"]["load_goodput_bps"].as_f64() > Some(1e6);
    assert!(ran(&outcome).into_iter().any(ran_beside), "{outcome:#}");
}

/// One sender and four receivers, each a node of its own; all that each was to get has arrived.
#[test]
fn one_sender_feeds_several_receivers() {
    for path in paths("delay=5ms,rate=50mbit,queue=100ms") {
        let outcome = race(&["tcp", "kcp"], path, "fanout:receivers=4,bytes=500kB");
        for trial in ran(&outcome) {
            let account = &trial["ledger"]["up"];
            assert_eq!(account["sent"], account["delivered"], "{account}");
            let rate = |name: &str| trial["metrics"][name].as_f64().unwrap();
            let slowest = rate("slowest_goodput_bps");
            assert!(slowest <= rate("fastest_goodput_bps"), "{trial}");
            assert_eq!(trial["far_intervals"].as_array().unwrap().len(), 4, "{trial}");
            if path.contains("rate") {
                // By the link's account: what a busy host takes late is for a receiver as if it had come fast.
                let up = fates(trial, "up");
                hold_rate(up, 50_000_000);
                let arrived = count(&up["arrived_bytes"]);
                assert!(arrived >= 4 * 500_000, "{arrived}");
            }
        }
    }
}

/// A session on one connection, on lanes, and shared out among three protocols; every part has its figure.
#[test]
fn a_session_has_a_figure_for_each_part() {
    let contenders = ["tcp", "quic", "mix:pose=udp,voice=udp,pen=quic,picture=tcp"];
    for path in paths("delay=5ms,rate=20mbit,queue=100ms") {
        let outcome = race(&contenders, path, "share:count=60,picture=200kB");
        for trial in ran(&outcome) {
            let figure = |name: &str| trial["metrics"][name].as_f64().unwrap();
            assert_eq!(figure("pen_undelivered_share"), 0.0, "{trial}");
            assert_eq!(figure("picture_unfinished_share"), 0.0, "{trial}");
            // Bursts of frames that a busy host lets come late may leave nothing of it.
            assert!((0.0..=1.0).contains(&figure("voice_rating_share")), "{trial}");
            if path.contains("rate") {
                // The least is the way; 200 kB at 20 Mbit/s take 80 ms. A busy host adds what it likes.
                for name in ["pen_mean_ns", "pose_age_mean_ns"] {
                    assert!(figure(name) >= 5e6, "{trial}");
                }
                assert!(figure("picture_mean_ns") > 80e6, "{trial}");
            }
        }
    }
}

/// A request on a connection that is kept takes a round trip; on one of its own the handshake comes on top. A busy host delays
/// some requests, and not all.
#[test]
fn a_request_with_its_own_connection_pays_for_the_handshake() {
    if !can() {
        return;
    }
    let contenders = ["tcp", "tls:resume=on", "quic"];
    // Each is answered before the next one is due.
    let work = "rpc:arrivals=constant,response=1kB,count=20";
    let forms = [("kept", "10pps", [1, 1, 1]), ("each", "5pps", [2, 3, 2])];
    for (connect, rate, trips) in forms {
        let work = format!("{work},rate={rate},connect={connect}");
        let outcome = race(&contenders, "delay=20ms", &work);
        let mut least = [u64::MAX; 3];
        for trial in ran(&outcome) {
            let contender = count(&trial["contender"]) as usize;
            for figure in ["response_p50_ns", "first_byte_mean_ns"] {
                let took = trial["metrics"][figure].as_f64().unwrap() as u64;
                let trips = trips[contender];
                assert!(took >= trips * ROUND_TRIP_NS, "{contender} {connect}: {took}: {trial}");
            }
            least[contender] = least[contender].min(fastest(trial));
        }
        assert_eq!(least.map(|fastest| fastest / ROUND_TRIP_NS), trips, "{connect}: {least:?}");
    }
}

/// What one connection sends to a group crosses the path once, whatever the number of receivers, and each of them has all of
/// it, though the path loses packets.
#[test]
fn a_group_is_sent_to_once_and_each_member_gets_everything() {
    let contenders = ["multicast", "multicast:window=23136B,repair=go-back-n,cc=none"];
    let paths = ["loopback", "delay=5ms,rate=50mbit,loss=6%"];
    for path in if can() { &paths[..] } else { &paths[..1] } {
        let outcome = race(&contenders, path, "fanout:receivers=4,bytes=500kB");
        for trial in ran(&outcome) {
            let account = &trial["ledger"]["up"];
            assert_eq!(account["sent"], account["delivered"], "{trial}");
            assert_eq!(count(&account["delivered"]), 4 * 500_000, "{trial}");
            assert_eq!(trial["far_intervals"].as_array().unwrap().len(), 4, "{trial}");
            if path.contains("loss") {
                let fates = fates(trial, "up");
                let (lost, resent) = (count(&fates["lost"]), count(&trial["retransmits"]));
                // Of 346 packets or more none is lost once in 10^9 times.
                assert!(lost > 0 && resent > 0, "{trial}");
                // Once, and what was lost or sent again after it; four connections send four times as much.
                let arrived = count(&fates["arrived_bytes"]);
                let packets = 500_000u64.div_ceil(1_446) + resent;
                assert!((500_000..(packets + 60) * 1_500).contains(&arrived), "{trial}");
            }
        }
    }
}

#[test]
fn a_group_is_for_fan_out_and_for_no_server_relay_or_mix() {
    let refused = |words: &[&str]| {
        let output = Command::new(DEADHEAT).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (words, why) in [
        (&["race", "multicast", "-w", "ping"][..], "group of receivers"),
        (&["race", "multicast", "-w", "bulk:bytes=1MB"], "group of receivers"),
        (&["race", "multicast:via=relay", "-w", "fanout"], "relay"),
        (&["race", "mix:0=multicast,1=udp", "-w", "streams:streams=2"], "group of receivers"),
        (&["race", "multicast", "-w", "fanout", "--path", "sim:delay=5ms"], "multicast"),
    ] {
        let said = refused(words);
        assert!(said.contains(why), "{words:?}: {said}");
    }
}

/// A relay stands before the far end, at its host: every packet crosses the path, and what comes out is whole.
#[test]
fn a_relay_stands_between_two_ends() {
    let contenders = ["tcp:via=relay", "udp:via=relay", "quic:via=relay", "tcp"];
    for path in paths("delay=5ms") {
        let outcome = race(&contenders, path, "bulk:bytes=300kB,verify=on");
        for trial in ran(&outcome) {
            let verified = &trial["verified"];
            assert_eq!(count(&verified["bytes"]), 300_000, "{verified}");
            let contender = contenders[count(&trial["contender"]) as usize];
            // Datagrams that are sent as fast as they can be may find no room at the relay.
            let lossy = contender.starts_with("udp") && verified["state"] == "partial";
            assert!(lossy || verified["state"] == "verified", "{contender}: {verified}");
        }
        // An answer that a busy host holds up is late, and not lost.
        let outcome = race(&contenders, path, "ping:count=50,interval=4ms,timeout=20s");
        let differences = outcome["differences"].as_array().unwrap();
        let relay = differences.iter().find(|difference| difference["what"] == "relay");
        assert_eq!(relay.unwrap()["values"]["tcp:via=relay"], "through a relay", "{relay:?}");
        for trial in ran(&outcome) {
            let least = if path.contains("delay") { 10_000_000 } else { 1_000 };
            assert!(count(&trial["rtt_ns"]["min"]) >= least, "{}", trial["rtt_ns"]);
            assert_eq!(count(&trial["rtt_ns"]["n"]), 50, "{}", trial["rtt_ns"]);
        }
    }
}

/// Without losses, the first byte comes after as many round trips as the handshake has, and one.
#[test]
fn the_first_byte_comes_after_the_round_trips_of_the_handshake() {
    if !can() {
        return;
    }
    let contenders = [
        "udp",
        "tcp",
        "quic",
        "quic:resume=0rtt",
        "tls:resume=on",
        "wss",
        "tls:resume=0rtt",
        "tls:resume=0rtt,fastopen=on",
        "wss:resume=0rtt",
    ];
    let outcome = race(&contenders, "delay=20ms", "connect:count=20");
    // A trial that a busy host spoilt was repeated.
    let slots = ran(&outcome).into_iter().map(|trial| (&trial["contender"], &trial["control"]));
    let slots: BTreeSet<String> =
        slots.map(|(contender, control)| format!("{contender} {control}")).collect();
    assert_eq!(slots.len(), contenders.len() + 1, "and the control: {slots:?}");
    hold_round_trips_of_connections(&outcome, &contenders, |contender| match contender {
        "udp" | "quic:resume=0rtt" | "tls:resume=0rtt,fastopen=on" => 1,
        "tcp" | "quic" | "tls:resume=0rtt" => 2,
        "tls:resume=on" | "wss:resume=0rtt" => 3,
        _ => 4,
    });
    let effective = |id: usize| &outcome["contenders"][id]["effective"]["resume"];
    assert_eq!((effective(2), effective(4)), (&Value::from("off"), &Value::from("on")));
    assert_eq!(effective(6), &Value::from("0rtt"));
}

/// Data in the SYN saves the round trip of TCP's handshake, from the second connection of each trial on.
#[test]
fn a_fast_open_connection_takes_a_round_trip_less() {
    if !can() {
        return;
    }
    let contenders = ["tcp", "tcp:fastopen=on", "tls:fastopen=on", "ws:fastopen=on"];
    let outcome = race(&contenders, "delay=20ms", "connect:count=20");
    hold_round_trips_of_connections(&outcome, &contenders, |contender| match contender {
        "tcp:fastopen=on" => 1,
        _ => 2,
    });
    for trial in ran(&outcome) {
        // The first connection of every trial fetches the cookie, with a whole handshake.
        assert!(count(&trial["connect_ns"]) >= 40_000_000, "{trial}");
    }
    let effective = |id: usize| &outcome["contenders"][id]["effective"]["fastopen"];
    assert_eq!((effective(0), effective(1)), (&Value::from("off"), &Value::from("on")));
    let differences = outcome["differences"].as_array().unwrap();
    assert!(differences.iter().any(|d| d["what"] == "fastopen (effective)"), "{differences:#?}");
}

const ROUND_TRIP_NS: u64 = 40_000_000;

/// Holds the first byte of connections to as many round trips of 40 ms as a contender takes for it, and their set-up to one less.
/// No median is shorter. A busy host delays some connections, and not all: the fastest take no further trip.
fn hold_round_trips_of_connections(
    outcome: &Value,
    contenders: &[&str],
    trips: impl Fn(&str) -> u64,
) {
    for (number, contender) in contenders.iter().enumerate() {
        let least = trips(contender) * ROUND_TRIP_NS;
        let own = ran(outcome).into_iter().filter(|trial| trial["contender"] == number);
        let fastest = own.map(|trial| {
            let took = |figure: &str| trial["metrics"][figure].as_f64().unwrap() as u64;
            let (first, set_up) = (took("first_byte_p50_ns"), took("set_up_p50_ns"));
            assert!(first >= least && set_up >= least - ROUND_TRIP_NS, "{contender}: {trial}");
            assert!(first >= set_up + ROUND_TRIP_NS, "{contender}: {trial}");
            fastest(trial)
        });
        let fastest = fastest.min().unwrap();
        assert_eq!(fastest / ROUND_TRIP_NS, trips(contender), "{contender}: {fastest} ns");
    }
}

/// Shortest mean over a tenth of a second of a trial, which is that of one or two delays.
fn fastest(trial: &Value) -> u64 {
    let delays = trial["intervals"][0]["delay_mean_ns"].as_array().unwrap();
    delays.iter().filter_map(Value::as_u64).min().unwrap()
}

/// What became of packets on the first link.
fn fates<'a>(trial: &'a Value, way: &str) -> &'a Value {
    let fates = &trial["path"]["links"][0][way]["fates"];
    assert!(fates.is_object(), "{trial}");
    fates
}

/// Holds what left a link while packets waited to its rate: within a thousandth, and a packet at either end.
fn hold_rate(fates: &Value, bps: u64) {
    let (bytes, ns) = (count(&fates["busy_bytes"]), count(&fates["busy_ns"]));
    let expected = u128::from(bps) * u128::from(ns) / 8_000_000_000;
    let room = expected / 1_000 + 2 * 1_514;
    assert!(ns > 0 && expected.abs_diff(u128::from(bytes)) <= room, "{bytes} B, not {expected}");
}

pub(crate) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

fn hold_round_trips(outcome: &Value, contenders: usize, least_ns: u64) {
    let built = &outcome["path"]["built"];
    assert_eq!(count(&built["rtt_least_ns"]), least_ns);
    assert_eq!(outcome["path"]["kind"], "emulated");
    // Without a valid trial there is nothing to sum up.
    if ran(outcome).iter().any(|trial| trial["valid"] == true) {
        assert_eq!(outcome["path_ways"].as_array().unwrap().len(), 2);
    }
    for trial in ran(outcome) {
        let rtt = &trial["rtt_ns"];
        assert!(count(&rtt["min"]) >= least_ns, "{rtt}");
        // All questions crossed it, and all answers; a byte stream may carry several in a packet.
        for way in ["up", "down"] {
            assert!(count(&fates(trial, way)["arrived_bytes"]) >= 50 * 64, "{trial}");
        }
    }
    let raced = |id: usize| ran(outcome).iter().any(|t| count(&t["contender"]) == id as u64);
    assert!((0..contenders).all(raced));
}

#[test]
fn no_round_trip_is_shorter_than_the_path() {
    if !can() {
        return;
    }
    let outcome = race(&["tcp", "udp", "icmp"], "delay=5ms,rate=20mbit", "ping:count=50");
    hold_round_trips(&outcome, 3, 10_000_000);
    let outcome = race(&["udp", "-6"], "up.delay=20ms,down.delay=30ms", "ping:count=50");
    hold_round_trips(&outcome, 1, 50_000_000);
    assert_eq!(outcome["path"]["address"], outcome["path"]["built"]["links"][0]["far"][1]);
}

#[test]
fn nothing_gets_through_faster_than_the_rate() {
    if !can() {
        return;
    }
    let outcome = race(&["tcp", "udp"], "delay=5ms,rate=20mbit", "bulk:time=1s");
    for trial in ran(&outcome) {
        let up = fates(trial, "up");
        let at_most = 20e6 / 8.0 * count(&trial["took_ns"]) as f64 / 1e9 + 1_500.0;
        assert!((count(&up["delivered_bytes"]) as f64) < at_most, "{trial}");
        hold_rate(up, 20_000_000);
        assert!(trial["metrics"]["goodput_bps"].as_f64() > Some(0.0), "{trial}");
    }
}

/// A mix on the wire: its state is lost as datagrams are and its events all arrive, over protocols of the
/// kernel and in user space alike; what cannot carry its lane is named, and so are the parts that differ.
#[test]
fn each_lane_of_a_mix_crosses_the_path_in_a_connection_of_its_own() {
    if !can() {
        return;
    }
    let (kernel, own) = ("mix:events=tcp,state=udp", "mix:events=quic,others=quic-datagram");
    let misfit = "mix:events=udp,state=tcp";
    let outcome = race(&[kernel, own, misfit], "delay=5ms,loss=10%", "events:count=60");
    let contenders = outcome["contenders"].as_array().unwrap();
    let why = contenders[2]["not_applicable"].as_str().unwrap();
    assert!(why.contains("lane events (udp): it has no lane that is reliable"), "{why}");
    for trial in ran(&outcome) {
        let own = trial["effective"].as_object().unwrap();
        assert!(own.contains_key("events.cc"), "{trial}");
        assert!(own.contains_key("state.rcvbuf") || own.contains_key("others.rcvbuf"), "{trial}");
        assert_eq!(trial["metrics"]["undelivered_share"], 0.0, "{trial}");
        let up = &trial["ledger"]["up"];
        let (sent, lost) = (count(&up["sent"]), count(&up["sent"]) - count(&up["delivered"]));
        // Lost with 0.1 each: none of a hundred once in 10^4 times, half of them never.
        assert!(sent < 200 || lost > 0, "{trial}");
        assert!(2 * lost < sent, "{trial}");
        assert!(trial["metrics"]["state_age_mean_ns"].as_f64().unwrap() > 5e6, "{trial}");
    }
    let differs = outcome["differences"].as_array().unwrap().iter();
    let told = differs.flat_map(|one| one["values"].as_object().unwrap().values());
    let told: Vec<&str> = told.filter_map(Value::as_str).collect();
    assert!(
        told.contains(&"events: lost messages are sent again; state: lost messages are gone"),
        "{told:?}"
    );
}

/// An order of preference falls back on its second behind a firewall, from the start and amid the work, and says when and after
/// how long; without one its first carries. What is blocked is in the path's account apart from losses.
#[test]
fn an_order_of_preference_falls_back_where_its_first_is_blocked() {
    if !can() {
        return;
    }
    for (typed, path, carried, cause) in [
        // A busy host may hold an end up for as long as it is waited for by default.
        ("udp|tcp:after=2s,silence=9s", "delay=5ms", "udp", None),
        ("udp|tcp:after=300ms", "delay=5ms,block=udp", "tcp", Some("start")),
        ("tcp|udp:after=300ms", "delay=5ms,block=tcp", "udp", Some("start")),
        ("quic|tcp:after=300ms", "delay=5ms,block=udp", "tcp", Some("start")),
        ("udp|tcp:silence=300ms", "delay=5ms,block=udp@800ms", "tcp", Some("silence")),
    ] {
        // One falls back amid the work, of which there must be some afterwards; what is blocked is waited for, and so not long.
        // Elsewhere what a busy host holds up is late, and not lost.
        let messages = if cause == Some("silence") { "count=150" } else { "count=30,timeout=20s" };
        let work = format!("ping:interval=10ms,{messages}");
        let outcome = race(&[typed], path, &work);
        for trial in ran(&outcome) {
            let way = &trial["path"]["links"][0]["up"];
            let blocked = way["fates"]["blocked"].as_u64();
            assert_eq!(way["fates"]["lost"], 0, "{typed} {path}: {trial}");
            let up = &trial["ledger"]["up"];
            let lost = count(&up["sent"]) - count(&up["delivered"]);
            let own = trial["fallback"]["cause"].as_str();
            let after = trial["fallback"]["after_ns"].as_u64().unwrap_or(0);
            if cause == Some("silence") {
                // Either end may be the first to notice, and on a busy host before anything is blocked.
                assert!(matches!(own, Some("silence" | "peer")), "{trial}");
                assert!(own == Some("peer") || after >= 300_000_000, "{trial}");
                let is_held = count(&way["lateness_ns"]["max"]) > 100_000_000;
                assert!(is_held || lost <= blocked.unwrap_or(0), "{trial}");
            } else {
                assert_eq!(blocked.is_some(), cause.is_some(), "{typed} {path}: {trial}");
                assert_eq!(own, cause, "{typed} {path}: {trial}");
                assert_eq!(lost, 0, "{typed} {path}: {trial}");
                assert!(cause.is_none() || after >= 300_000_000, "{trial}");
            }
            for end in ["effective", "far_effective"] {
                assert_eq!(trial[end]["carried_by"], carried, "{typed} {path}: {trial}");
            }
        }
        let warned =
            outcome["warnings"].as_array().unwrap().iter().any(|w| w["code"] == "fell_back");
        assert_eq!(warned, cause.is_some(), "{typed} {path}");
    }
}

/// Multipath TCP goes over both links, and no faster than both together; TCP takes one.
#[test]
fn multipath_tcp_takes_every_link() {
    if !can() || Contender::parse("mptcp").unwrap().transport.check().is_err() {
        return;
    }
    let path = "rate=20mbit,delay=10ms+rate=20mbit,delay=10ms";
    let outcome = race(&["tcp", "mptcp"], path, "bulk:bytes=4MB");
    for trial in ran(&outcome) {
        let links = trial["path"]["links"].as_array().unwrap();
        let carried = |link: &Value| count(&link["up"]["fates"]["delivered_bytes"]);
        if trial["contender"] == 1 {
            assert_eq!(trial["effective"]["subflows"], "2", "{trial}");
            // A host that stalls is late to open the second, which takes its part from then on.
            assert!(links.iter().all(|link| carried(link) > 100_000), "{trial}");
            links.iter().for_each(|link| hold_rate(&link["up"]["fates"], 20_000_000));
        } else {
            assert_eq!(carried(&links[1]), 0, "{trial}");
            hold_rate(fates(trial, "up"), 20_000_000);
        }
    }
}

/// A network card holds the sender back instead of losing anything: what the sender sent is what the
/// path saw, and that is no more than the card lets go.
#[test]
fn a_network_card_pushes_back_on_the_sender() {
    if !can() {
        return;
    }
    for backend in ["tun", "packet"] {
        let path = format!("delay=1ms,nic=50mbit,backend={backend}");
        let outcome = race(&["udp"], &path, "bulk:time=300ms");
        let built = &outcome["path"]["built"]["links"][0];
        assert_eq!(
            (count(&built["up"]["nic_bps"]), count(&built["down"]["nic_bps"])),
            (50_000_000, 50_000_000)
        );
        for trial in ran(&outcome) {
            let up = fates(trial, "up");
            let sent = count(&trial["ledger"]["up"]["sent"]);
            assert_eq!(count(&trial["path"]["links"][0]["up"]["device_drops"]), 0, "{trial}");
            // A handful of knocks besides, and the last of it may wait for the card when the account
            // is taken: at most a send buffer of 208 KiB.
            let arrived = count(&up["arrived"]);
            assert!(
                sent > 100 && arrived <= sent + 50 && arrived + 200 >= sent,
                "{backend}: {trial}"
            );
            // 250 us of burst, and a super-packet that is let go whole.
            let most = 50e6 / 8.0 * (count(&trial["took_ns"]) as f64 / 1e9 + 250e-6) + 65_536.0;
            let bytes = count(&up["arrived_bytes"]) as f64;
            assert!(bytes <= most, "{backend}: {bytes} B of at most {most}");
        }
    }
}

/// A blast onto a slow link costs what it costs a host with a card: the path sees no more of it than the
/// card lets go, and loses none of it outside its model.
#[test]
fn a_blast_is_held_to_the_usual_card() {
    if !can() {
        return;
    }
    let outcome = race(&["udp"], "lte", "bulk:time=300ms");
    let built = &outcome["path"]["built"]["links"][0];
    assert_eq!(count(&built["up"]["nic_bps"]), 10_000_000_000);
    for trial in ran(&outcome) {
        let seconds = count(&trial["took_ns"]) as f64 / 1e9;
        let most = 10e9 / 8.0 * (seconds + 250e-6) + 65_536.0;
        let bytes = count(&fates(trial, "up")["arrived_bytes"]) as f64;
        assert!(bytes <= most, "{bytes} B of at most {most}");
    }
    let free = race(&["udp"], "delay=1ms,nic=none", "bulk:time=100ms");
    assert!(free["path"]["built"]["links"][0]["up"]["nic_bps"].is_null());
}

#[test]
fn one_seed_decides_the_same_for_the_same_packets() {
    if !can() {
        return;
    }
    let mut seen: Vec<(u64, BTreeSet<u64>)> = Vec::new();
    for _ in 0..2 {
        let outcome = race(&["udp"], "delay=5ms,loss=5%,seed=7", "ping:count=100,timeout=200ms");
        assert_eq!(count(&outcome["path"]["built"]["seed"]), 7);
        for trial in ran(&outcome) {
            let lost = trial["path"]["links"][0]["up"]["losses"].as_str().unwrap_or_default();
            seen.push((count(&fates(trial, "up")["arrived"]), numbers(lost)));
        }
    }
    assert!(seen.len() >= 2 && seen.iter().any(|(_, lost)| !lost.is_empty()), "{seen:?}");
    // A host that stalls says hello once more: then there are more packets, and the first of them fare alike.
    let common = seen.iter().map(|(arrived, _)| *arrived).min().unwrap();
    let of = |lost: &BTreeSet<u64>| -> Vec<u64> { lost.range(..=common).copied().collect() };
    assert!(seen.iter().all(|(_, lost)| of(lost) == of(&seen[0].1)), "{common}: {seen:?}");
}

/// Returns the numbers of packets in ranges such as `5-6/40`.
fn numbers(ranges: &str) -> BTreeSet<u64> {
    let number = |text: &str| text.parse::<u64>().unwrap();
    let of = |range: &str| match range.split_once('-') {
        Some((first, last)) => number(first)..=number(last),
        None => number(range)..=number(range),
    };
    ranges.split('/').filter(|range| !range.is_empty()).flat_map(of).collect()
}

#[test]
fn what_a_path_loses_is_in_both_accounts() {
    if !can() {
        return;
    }
    let outcome = race(&["udp"], "delay=1ms,up.loss=10%", "ping:count=100,timeout=200ms");
    for trial in ran(&outcome) {
        let ledger = count(&trial["ledger"]["up"]["lost_on_path"]);
        let path = count(&fates(trial, "up")["lost"]);
        // A hello or its confirmation may be lost, too.
        assert!(ledger <= path && path <= ledger + 10, "{trial}");
        assert_eq!(count(&trial["ledger"]["down"]["lost_on_path"]), 0);
    }
    let codes: Vec<&str> = outcome["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|warning| warning["code"].as_str().unwrap())
        .collect();
    assert!(!codes.contains(&"lost_outside_path"), "{codes:?}");
}

/// The kernel's counters are those of the whole transfer, and not of the part that had left as its last byte was handed over.
#[test]
fn counters_of_a_kernel_hold_all_that_it_sent_and_sent_again() {
    if !can() {
        return;
    }
    let kernels = ["tcp", "tls", "ws", "mptcp"];
    let here = |name: &&str| Contender::parse(name).unwrap().transport.check().is_ok();
    let contenders: Vec<&str> = kernels.into_iter().filter(here).collect();
    for direction in ["up", "down"] {
        let path = format!("delay=5ms,rate=50mbit,{direction}.loss=2%");
        let outcome = race(&contenders, &path, &format!("bulk:bytes=500kB,direction={direction}"));
        let mut lost_in_all = 0;
        for trial in ran(&outcome) {
            let delivered = count(&trial["delivered_bytes"]);
            assert!(delivered >= 500_000, "{delivered}");
            assert!(count(&trial["wire"]["bytes"]) > delivered, "{delivered}: {}", trial["wire"]);
            // Acknowledgements of handshakes are packets, too, and are not sent again: there are six at most, and four of
            // them are lost once in 10^5 times.
            let (again, lost) =
                (count(&trial["retransmits"]), count(&fates(trial, direction)["lost"]));
            assert!(again + 4 >= lost, "{lost} lost, {again} sent again: {trial}");
            lost_in_all += lost;
        }
        assert!(lost_in_all > 0, "{direction}: nothing was lost");
    }
}

#[test]
fn marks_of_a_queue_arrive_in_datagrams_and_are_counted_at_both_ends() {
    if !can() {
        return;
    }
    let path = "delay=50ms,rate=10mbit,queue=200ms,aqm=codel,ecn=on";
    for family in ["-4", "-6"] {
        let outcome = race(&["quic:ecn=on", family], path, "bulk:bytes=2MB");
        for trial in ran(&outcome) {
            let marks = &trial["marks"];
            let marked =
                count(&fates(trial, "up")["marked"]) + count(&fates(trial, "down")["marked"]);
            assert!(marked > 0 && count(&marks["ce"]) <= marked, "{marks} {marked}");
            // Those that a busy host had no room for are few.
            assert!(2 * count(&marks["ce"]) >= marked, "{marks} {marked}");
            assert_eq!(marks["capable"], marks["datagrams"]);
            for end in ["effective", "far_effective"] {
                assert_eq!(trial[end]["ecn"], "on, validated");
            }
        }
    }
}

/// The setting of an emulated host is made for each connection: the contenders share the hosts.
#[test]
fn tcp_agrees_on_marks_where_it_asks_for_them_and_counts_them() {
    if !can() {
        return;
    }
    // So slow that the first window waits beyond the target, whatever the host does.
    let path = "delay=10ms,rate=3mbit,queue=200ms,aqm=codel,ecn=on";
    let outcome = race(&["tcp:ecn=on", "tcp:ecn=off", "tcp"], path, "bulk:bytes=200kB");
    for trial in ran(&outcome) {
        let asks = trial["contender"] == 0;
        for end in ["effective", "far_effective"] {
            let ecn = trial[end]["ecn"].as_str().unwrap();
            assert_eq!(ecn.starts_with("on"), asks, "{ecn}: {trial}");
        }
        if !asks {
            assert!(trial["marks"].is_null(), "{}", trial["marks"]);
            continue;
        }
        let (marks, marked) = (&trial["marks"], count(&fates(trial, "up")["marked"]));
        assert!(marked > 0 && count(&marks["ce"]) > 0, "{marks} {marked}");
        assert!(count(&marks["capable"]) >= count(&marks["ce"]), "{marks}");
    }
}

#[test]
fn an_ordinary_user_races_over_an_emulated_path() {
    let unshare = [&NOBODY[1..], &["unshare", "-Urn", "true"]].concat();
    if !works(NOBODY[0], &unshare) {
        println!("skipped: no setpriv, not root, or no user namespaces for ordinary users");
        return;
    }
    let outcome = race_as(&NOBODY, &["tcp", "udp"], "delay=5ms", "ping:count=50");
    hold_round_trips(&outcome, 2, 10_000_000);
}

#[test]
fn what_does_not_leave_its_host_is_refused_by_name() {
    let output = Command::new(DEADHEAT)
        .args(["race", "tcp", "unix", "--path", "delay=5ms"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("`unix` does not leave its host"), "{said}");
}

/// Each link of a network in real and in virtual time loses the same of the packets that both carried.
#[test]
fn a_network_loses_the_same_packets_in_virtual_time() {
    if !can() {
        return;
    }
    let network = "a--r:delay=1ms,loss=5%,seed=7 + r--s:delay=1ms,loss=1%,burst=2 + s--b:loss=5%";
    let workload = "ping:count=200,timeout=200ms";
    let losses = |contender: &str, path: &str| -> Vec<(u64, BTreeSet<u64>)> {
        let outcome = race(&[contender], path, workload);
        let trial = ran(&outcome)[0].clone();
        let links = trial["path"]["links"].as_array().unwrap().clone();
        let ways = links.iter().flat_map(|link| [link["up"].clone(), link["down"].clone()]);
        ways.map(|way| {
            let lost = numbers(way["losses"].as_str().unwrap_or_default());
            (count(&way["fates"]["arrived"]), lost)
        })
        .collect()
    };
    let (emulated, simulated) =
        (losses("udp", network), losses("sim-datagram", &format!("sim:{network}")));
    assert_eq!((emulated.len(), simulated.len()), (6, 6));
    for ((arrived, one), (also_arrived, other)) in emulated.into_iter().zip(simulated) {
        let common = arrived.min(also_arrived);
        assert!(common > 100, "{arrived} {also_arrived}");
        let of = |lost: BTreeSet<u64>| -> Vec<u64> { lost.range(..=common).copied().collect() };
        assert_eq!(of(one), of(other));
    }
}

/// Packet of a capture: interface, time, length of the IP packet, first bytes, comment.
pub(super) type CapturedPacket = (u32, u64, u32, Vec<u8>, String);

/// Returns the packets of a capture, by section.
pub(super) fn sections(capture: &[u8]) -> Vec<Vec<CapturedPacket>> {
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut all, mut rest) = (Vec::new(), capture);
    while !rest.is_empty() {
        let len = word(rest, 4) as usize;
        let body = &rest[8..len - 4];
        match word(rest, 0) {
            0x0A0D_0D0A => all.push(Vec::new()),
            6 => {
                let taken = word(body, 12) as usize;
                let comment = &body[20 + taken.next_multiple_of(4) + 4..];
                let at = u64::from(word(body, 4)) << 32 | u64::from(word(body, 8));
                let text = String::from_utf8_lossy(comment).into_owned();
                let packet =
                    (word(body, 0), at, word(body, 16), body[20..][..taken].to_vec(), text);
                all.last_mut().unwrap().push(packet);
            }
            _ => {}
        }
        rest = &rest[len..];
    }
    all
}

#[test]
fn a_capture_of_tcp_has_the_losses_of_the_account_and_a_dense_series_its_phases() {
    if !can() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = "delay=10ms,rate=20mbit,queue=60kB";
    let ran = Command::new(DEADHEAT)
        .args([
            "race",
            "tcp:cc=cubic",
            "--path",
            path,
            "-w",
            "bulk:time=200ms,warmup=0s",
            "--blocks",
            "1",
        ])
        .args(["-o", "r.json", "--series", "1ms", "--pcap", "r.pcapng", "--wire", "-q"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("pcap: r.pcapng: "), "{said}");
    let result: Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("r.json")).unwrap()).unwrap();
    let sections = sections(&std::fs::read(dir.path().join("r.pcapng")).unwrap());
    let trials = result["trials"].as_array().unwrap();
    let last = trials.iter().max_by_key(|trial| trial["order"].as_u64()).unwrap();
    let packets = sections.last().unwrap();
    assert_eq!(last["captured"]["packets"].as_u64().unwrap(), packets.len() as u64);
    let losses = packets.iter().filter(|packet| packet.4.contains("lost: queue full")).count();
    let fates = &last["path"]["links"][0]["up"]["fates"];
    assert_eq!(fates["full"].as_u64().unwrap(), losses as u64);
    assert!(last["path"]["links"][0]["down"]["wire"]["ack_packets"].as_u64().unwrap() > 50);
    let data = |packet: &&CapturedPacket| packet.0 == 0 && packet.2 > 1_000;
    let data: Vec<_> = packets.iter().filter(data).collect();
    // A segment of TCP over IPv4, at the time at which it entered.
    assert!(data.iter().all(|packet| packet.3[0] == 0x45 && packet.3[9] == 6));
    assert!(data.is_sorted_by_key(|packet| packet.1) && data.len() > 200);
    let series = last["intervals"].as_array().unwrap();
    let sender = series.iter().find(|one| one["tcp"].is_object()).unwrap();
    assert_eq!(sender["phases"][0]["phase"], "slow_start");
    assert!(
        sender["tcp"]["in_flight_bytes"].as_array().unwrap().iter().any(|n| n.as_u64() > Some(0))
    );
}
