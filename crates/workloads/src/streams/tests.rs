//! Settings that are accepted, and those that are refused.

use super::*;
use deadheat_contract::contract::PeerFacts;
use deadheat_contract::workload::{self, PathKind};

fn task(typed: &str) -> Box<dyn Task> {
    workload::parse(typed).unwrap()
}

#[test]
fn streams_take_as_many_lanes_as_there_are() {
    let lanes = |typed: &str, most| {
        let promised = Guarantees { lanes: most, ..Guarantees::BYTE_STREAM };
        (task(typed).lanes(&promised).len(), task(typed).info().flows.len())
    };
    assert_eq!(lanes("streams:streams=8", 1), (1, 1));
    assert_eq!(lanes("streams:streams=8", 4), (4, 1));
    assert_eq!(lanes("streams:streams=8", 256), (8, 1));
    assert_eq!(lanes("streams:streams=8,over=connections", 256), (1, 8));
}

#[test]
fn what_does_not_keep_its_promise_is_not_applicable() {
    let why = |typed: &str, promised: &Guarantees| {
        workload::misfit(&*task(typed), promised, PeerFacts::OURS).unwrap_or_default()
    };
    assert_eq!(why("streams", &Guarantees::BYTE_STREAM), "");
    assert!(why("streams", &Guarantees::DATAGRAMS).contains("no lane that is reliable, ordered"));
    assert!(why("streams:order=none", &Guarantees::BYTE_STREAM).contains("reliable, unordered"));
    let echo = workload::misfit(&*task("streams"), &Guarantees::DATAGRAMS, PeerFacts::ECHO);
    assert!(echo.unwrap().contains("only echoes"));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let say = |typed: &str| match workload::parse(typed) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{typed} was taken"),
    };
    assert!(say("streams:streams=0").contains("outside"));
    assert!(say("streams:rate=max").contains("give a rate"));
    assert!(say("streams:size=12").contains("outside"));
    assert!(say("streams:count=3").contains("outside"));
    let elsewhere = Setting { kind: PathKind::Remote, ..Setting::LOOPBACK };
    assert!(workload::parse_on("streams", &elsewhere).is_ok(), "clocks of two hosts are compared");
}

#[test]
fn what_it_says_of_itself_is_the_same_work_again() {
    let spec = task("streams:streams=3,over=connections").info().spec.clone();
    assert_eq!(task(&spec.to_string()).info().spec, spec);
    assert_eq!(task("streams").info().lengths.map(|lengths| lengths.fewest), Some(ENOUGH));
    assert_eq!(task("streams:count=50").info().lengths, None);
}

#[test]
fn more_than_the_path_carries_is_refused() {
    let narrow = workload::Bounds {
        rate: Some(deadheat_base::units::BitRate(319_000)),
        ..workload::Bounds::UNKNOWN
    };
    let up = Setting { up: narrow, ..Setting::LOOPBACK };
    // 200 messages of 200 bytes are 320 kbit/s.
    let on = |typed: &str| workload::parse_on(typed, &up).err().map(|error| error.to_string());
    assert!(on("streams").unwrap().contains("the queue would grow"));
    assert_eq!((on("streams:rate=199pps"), on("streams:direction=down")), (None, None));
}
