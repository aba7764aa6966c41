//! Kinds of traffic of an application with the workloads that stand for them.

use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;
use deadheat_contract::workload::traffic::*;
use deadheat_contract::workload::{Bounds, PathKind, Setting, parse_on};

fn read(text: &str) -> Traffic {
    serde_json::from_str(text).unwrap()
}

/// A path of 25 ms and 20 Mbit/s each way.
fn path() -> Setting {
    let way = Bounds { delay: Some(Nanos::from_millis(25)), rate: Some(BitRate(20_000_000)) };
    let rtt = Some(Nanos::from_millis(50));
    Setting { kind: PathKind::Emulated, rtt, rate: way.rate, up: way, down: way, ..Setting::REMOTE }
}

fn work(text: &str) -> Work {
    let work = read(text).work(&[], &path()).unwrap_or_else(|error| panic!("{text}: {error}"));
    parse_on(&work.spec.to_string(), &path()).unwrap_or_else(|error| panic!("{text}: {error}"));
    work
}

fn refusal(text: &str) -> String {
    let error = read(text).work(&[], &path()).expect_err(text);
    assert_eq!(error.exit_code(), 2, "{error}");
    error.to_string()
}

#[test]
fn every_kind_has_a_workload_with_settings_that_say_the_same() {
    for (traffic, wanted) in [
        (
            r#"{"name":"a","kind":"state","per-second":30,"size":"1200B","stale-after":"100ms"}"#,
            "state:hz=30,size=1200,service=own,direction=down,claim=p99",
        ),
        (
            r#"{"name":"a","kind":"state","every":"20ms","must-arrive":true,"direction":"up"}"#,
            "state:hz=50,size=200,service=own,direction=up,claim=p99",
        ),
        (
            r#"{"name":"a","kind":"events","every":"10s","senders":500,"size":"200B"}"#,
            "streams:streams=256,rate=50pps,size=200,order=stream,direction=up",
        ),
        (
            r#"{"name":"a","kind":"request","per-second":20,"request":"300B","response":"1kB..9kB"}"#,
            "rpc:rate=20pps,request=300,response=1kB..9kB",
        ),
        (
            r#"{"name":"a","kind":"connect","request":"300B"}"#,
            "connect:request=300,answer=64,claim=mean",
        ),
        (
            r#"{"name":"a","kind":"bulk","size":"5MB"}"#,
            "bulk:direction=down,bytes=5000000B,connect=timed",
        ),
        (r#"{"name":"a","kind":"bulk","direction":"up"}"#, "bulk:direction=up"),
        (
            r#"{"name":"a","kind":"voice","size":"92B","deadline":"60ms"}"#,
            "voice:frame=20ms,size=92,direction=up,buffer=60ms",
        ),
        (
            r#"{"name":"a","kind":"video","rate":"3mbit","per-second":24,"deadline":"80ms"}"#,
            "video:rate=3mbit,direction=down,hz=24,deadline=80ms",
        ),
        (r#"{"name":"a","kind":"inputs","per-second":60,"size":"6B"}"#, "inputs:hz=60,size=6"),
    ] {
        assert_eq!(work(traffic).spec.to_string(), wanted);
    }
}

#[test]
fn events_go_beside_a_state_of_the_same_direction() {
    let events = read(r#"{"name":"a","kind":"events","per-second":4,"size":"64B"}"#);
    let state = |direction: &str| {
        read(&format!(
            r#"{{"name":"b","kind":"state","per-second":64,"size":"100B","direction":"{direction}"}}"#
        ))
    };
    let spec = |other| events.work(&[other], &path()).unwrap().spec.to_string();
    assert_eq!(
        spec(state("up")),
        "events:events=4pps,size=64,order=events,hz=64,state-size=100,direction=up"
    );
    assert!(spec(state("down")).starts_with("streams:"));
}

#[test]
fn what_the_application_allows_is_kept_for_the_figure() {
    let state = work(r#"{"name":"a","kind":"state","per-second":30,"stale-after":"100ms"}"#);
    assert_eq!(state.limit, Some(Nanos::from_millis(100)));
    assert_eq!(state.offered_bps, Some(30.0 * 200.0 * 8.0));
    let bulk = work(r#"{"name":"a","kind":"bulk"}"#);
    assert_eq!((bulk.limit, bulk.offered_bps), (None, None));
}

#[test]
fn every_mistake_is_named_with_what_would_be_right() {
    for (traffic, wanted) in [
        (r#"{"name":"a","kind":"state"}"#, "it does not say how often"),
        (r#"{"name":"a","kind":"state","per-second":3,"every":"1s"}"#, "one is enough"),
        (r#"{"name":"a","kind":"state","per-second":3,"deadline":"1s"}"#, "says nothing about"),
        (r#"{"name":"a","kind":"connect","every":"1s"}"#, "(valid: request, response, deadline)"),
        (r#"{"name":"a","kind":"events","every":"10s"}"#, "less than one message a second"),
        (r#"{"name":"a","kind":"events","every":"1s","must-arrive":false}"#, "the kind is `state`"),
        (r#"{"name":"a","kind":"state","every":"10"}"#, "has no unit"),
        (r#"{"name":"a","kind":"state","per-second":3,"size":"10"}"#, "has no unit"),
    ] {
        let said = refusal(traffic);
        assert!(said.starts_with("traffic `a`: ") && said.contains(wanted), "{said}");
    }
}

#[test]
fn a_time_that_the_path_cannot_keep_is_refused() {
    let late = |kind: &str, key: &str, time: &str| {
        refusal(&format!(r#"{{"name":"a","kind":"{kind}","per-second":3,"{key}":"{time}"}}"#))
    };
    let said = late("state", "stale-after", "25ms");
    assert!(
        said.contains("25.0 ms are allowed, and the path takes at least 25.0 ms down"),
        "{said}"
    );
    assert!(late("request", "deadline", "50ms").contains("there and back"));
    assert!(late("inputs", "deadline", "20ms").contains("up"));
    work(r#"{"name":"a","kind":"state","per-second":3,"stale-after":"26ms"}"#);
}
