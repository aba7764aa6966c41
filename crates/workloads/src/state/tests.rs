//! Settings that are accepted, and those that are refused.

use super::*;
use deadheat_base::units::BitRate;
use deadheat_contract::contract::PeerFacts;
use deadheat_contract::workload::{self, Bounds, PathKind};

fn task(typed: &str) -> Box<dyn Task> {
    workload::parse(typed).unwrap()
}

#[test]
fn the_service_is_the_transports_own_unless_one_is_asked_for() {
    let why = |typed: &str, promised: &Guarantees| {
        workload::misfit(&*task(typed), promised, PeerFacts::OURS).unwrap_or_default()
    };
    for promised in [&Guarantees::DATAGRAMS, &Guarantees::BYTE_STREAM] {
        assert_eq!(why("state", promised), "");
        assert_eq!(task("state").lanes(promised), [promised.service]);
    }
    assert!(why("state:service=reliable", &Guarantees::DATAGRAMS).contains("reliable, ordered"));
    assert!(why("state:service=latest", &Guarantees::BYTE_STREAM).contains("best effort"));
    assert_eq!(why("state:service=latest", &Guarantees::DATAGRAMS), "");
    let echo = workload::misfit(&*task("state"), &Guarantees::DATAGRAMS, PeerFacts::ECHO);
    assert!(echo.unwrap().contains("only echoes"));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let say = |typed: &str| workload::parse(typed).err().unwrap().to_string();
    assert!(say("state:hz=0").contains("outside"));
    assert!(say("state:motion=swing").contains("sine"));
    assert!(say("state:size=19").contains("outside"));
    let elsewhere = Setting { kind: PathKind::Remote, ..Setting::LOOPBACK };
    assert!(workload::parse_on("state", &elsewhere).is_ok(), "clocks of two hosts are compared");
}

#[test]
fn keys_that_others_make_idle_are_refused_and_their_defaults_are_not() {
    let say = |typed: &str| workload::parse(typed).err().map(|error| error.to_string());
    let refused = |typed: &str, with: &str| {
        let why = say(typed).unwrap_or_default();
        assert!(why.contains(with), "{typed}: {why}");
    };
    refused("state:playout=80ms", "display=interpolate");
    refused("state:near=50%", "objects= of two or more");
    refused("state:object-size=40", "objects= of two or more");
    refused("state:objects=5,size=300", "object-size");
    for typed in ["state", "state:objects=5", "state:display=interpolate,playout=80ms"] {
        assert_eq!(say(&task(typed).info().spec.to_string()), None, "{typed}");
    }
}

#[test]
fn an_interpolation_with_less_delay_than_the_path_is_refused() {
    let bounds = Bounds { delay: Some(Nanos::from_millis(60)), rate: None };
    let far = Setting { down: bounds, ..Setting::LOOPBACK };
    let on = |typed: &str| workload::parse_on(typed, &far).err().map(|error| error.to_string());
    let why = on("state:display=interpolate").unwrap();
    assert!(why.contains("the path takes 60.0 ms down; raise playout"), "{why}");
    assert_eq!(on("state:display=interpolate,playout=80ms"), None);
    assert_eq!(on("state:display=interpolate,direction=up"), None);
    assert_eq!(on("state"), None);
}

/// 60 updates of 200 bytes are 96 kbit/s.
#[test]
fn more_than_the_path_carries_is_refused_in_the_direction_it_goes() {
    let narrow = Bounds { rate: Some(BitRate(95_000)), ..Bounds::UNKNOWN };
    let on = |typed: &str, setting: Setting| workload::parse_on(typed, &setting).err();
    let down = Setting { down: narrow, ..Setting::LOOPBACK };
    let refused = on("state", down).unwrap().to_string();
    assert!(refused.contains("96.0 kbit/s of data down"), "{refused}");
    assert!(on("state:direction=up", down).is_none());
    assert!(on("state:hz=59", down).is_none());
}

#[test]
fn what_it_says_of_itself_is_the_same_work_again() {
    let spec = task("state:hz=30,display=interpolate").info().spec.clone();
    assert_eq!(task(&spec.to_string()).info().spec, spec);
    assert_eq!(task("state").info().lengths.map(|lengths| lengths.fewest), Some(ENOUGH));
    assert_eq!(task("state:count=50").info().lengths, None);
}

#[test]
fn several_objects_share_what_the_cap_leaves() {
    // Fiedler's 901 objects: 256 kbit/s at 60 Hz are 533 bytes, of which 513 carry 18 objects of 28.
    let capped = task("state:objects=901,cap=256kbit");
    assert_eq!(capped.info().largest_message, DUE_LEN + 18 * 28);
    assert!(
        capped.info().headline.contains("901 objects, 18 in each update"),
        "{}",
        capped.info().headline
    );
    assert_eq!(task(&capped.info().spec.to_string()).info().spec, capped.info().spec);
    assert!(capped.info().metrics.iter().any(|metric| metric.name == "near_age_mean_ns"));
    assert_eq!(task("state:objects=10").info().largest_message, DUE_LEN + 280);
    let say = |typed: &str| workload::parse(typed).err().unwrap().to_string();
    assert!(say("state:cap=256kbit").contains("there is one"));
    assert!(say("state:objects=9999").contains("give cap="));
    assert!(say("state:objects=10,cap=20kbit").contains("raise the cap"));
    assert!(say("state:objects=10000,cap=1mbit,count=1001").contains("take fewer"));
    let narrow = Bounds { rate: Some(BitRate(250_000)), ..Bounds::UNKNOWN };
    let down = Setting { down: narrow, ..Setting::LOOPBACK };
    let refused = workload::parse_on("state:objects=901,cap=256kbit", &down).err().unwrap();
    assert!(refused.to_string().contains("252 kbit/s"), "{refused}");
}

/// Each gets every update, over a connection of its own.
#[test]
fn several_receivers_get_all_of_it_each() {
    for typed in ["state:direction=up", "events", "voice"] {
        let key = if typed.contains(':') { "," } else { ":" };
        let (one, three) = (task(typed), task(&format!("{typed}{key}receivers=3")));
        let (one, three) = (one.info(), three.info());
        assert_eq!((one.receivers, three.receivers, three.flows.len()), (1, 3, 3), "{typed}");
        assert_eq!(three.most_bytes, one.most_bytes.map(|bytes| 3 * bytes), "{typed}");
        assert_eq!((three.planned, three.longest), (one.planned, one.longest), "{typed}");
        assert!(three.headline.ends_with(", to each of 3 receivers"), "{}", three.headline);
        assert!(!one.spec.to_string().contains("receivers"), "as results had it before");
    }
    let why = workload::parse("state:receivers=3").err().unwrap().to_string();
    assert!(why.contains("add direction=up"), "{why}");
    let narrow = Bounds { rate: Some(BitRate(200_000)), ..Bounds::UNKNOWN };
    let up = Setting { up: narrow, ..Setting::LOOPBACK };
    let on = |receivers| {
        workload::parse_on(&format!("state:direction=up,receivers={receivers}"), &up).err()
    };
    assert!(on(2).is_none() && on(3).unwrap().to_string().contains("288 kbit/s of data up"));
}
