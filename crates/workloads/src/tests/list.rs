//! Facts of every workload in the list.

use deadheat_base::time::Nanos;
use deadheat_contract::contract::Guarantees;
use deadheat_contract::measurements::{ClockNeed, MetricName, Role};
use deadheat_contract::workload::*;

#[test]
fn the_name_of_a_metric_has_its_unit() {
    for workload in ALL.iter() {
        for metric in &parse(workload.info().id).unwrap().info().metrics {
            let unit = MetricName::parse(&metric.name).suffix.unit();
            assert_eq!(unit, Some(metric.unit), "{}", metric.name);
        }
    }
}

#[test]
fn every_workload_has_the_facts_that_a_trial_needs() {
    for id in ALL.iter().map(|workload| workload.info().id) {
        let task = parse(id).unwrap();
        let info = task.info();
        assert!(!info.headline.is_empty() && info.spec.name == id, "{id}");
        assert!(info.receivers > 0 && !info.flows.is_empty(), "{id}");
        assert!(info.largest_message > 0 && info.longest > Nanos::ZERO, "{id}");
        let claims = info.metrics.iter().filter(|metric| metric.role == Role::Claim);
        assert_eq!(claims.count(), 1, "{id}");
        let lanes = task.lanes(&Guarantees { lanes: 64, ..Guarantees::BYTE_STREAM });
        assert!(!lanes.is_empty(), "{id}");
        assert!(info.lane_names.is_empty() || info.lane_names.len() == lanes.len(), "{id}");
    }
}

#[test]
fn each_claim_says_which_clock_it_needs() {
    let claimed = |id: &str| parse(id).unwrap().info().claim().unwrap().clock;
    let needs = |need| move |id: &&str| claimed(id) == need;
    let ids: Vec<&str> = ALL.iter().map(|workload| workload.info().id).collect();
    let of = |need| ids.iter().copied().filter(needs(need)).collect::<Vec<_>>();
    assert_eq!(of(ClockNeed::Relative), ["inputs"], "the mean of both ends");
    let mut apart = of(ClockNeed::Offset);
    apart.sort_unstable();
    assert_eq!(apart, ["events", "session", "share", "state", "streams", "video", "voice"]);
    // Beside a load, times one way are of two clocks, and round trips are not.
    let beside = |typed: &str, name: &str| {
        let task = parse(typed).unwrap();
        task.info().metrics.iter().find(|metric| metric.name == name).unwrap().clock
    };
    let phases = "load=tcp,load-from=1s,load-for=1s";
    let state = format!("state:count=240,{phases}");
    assert_eq!(beside(&state, "delay_p50_during_ns"), ClockNeed::Offset);
    assert_eq!(beside(&state, "loss_during_share"), ClockNeed::None);
    let ping = format!("ping:count=4000,{phases}");
    assert_eq!(beside(&ping, "rtt_p50_during_ns"), ClockNeed::None);
}

#[test]
fn a_workload_of_before_there_was_a_warm_up_has_none() {
    let old = "ping:claim=p50,count=1000,interval=1ms,size=64,think=0,timeout=3s";
    assert_eq!(saved(old), format!("{old},warmup=0"));
    for workload in ALL.iter() {
        let now = parse(workload.info().id).unwrap().info().spec.to_string();
        assert_eq!(saved(&now), now, "what has a warm-up keeps it");
    }
    for typed in ["ping:size=64", "pong:a=b", "", "bulk:bytes=1MB"] {
        assert_eq!(saved(typed), typed);
    }
    let bytes = parse("bulk:bytes=1MB").unwrap().info().spec.to_string();
    assert!(parse(&saved(&bytes)).is_ok());
}
