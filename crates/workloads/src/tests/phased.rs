//! Phases of a load, with workloads that are registered.

use deadheat_base::time::Nanos;
use deadheat_contract::measurements::Role;
use deadheat_contract::workload::{self, Task};

fn parse(typed: &str) -> Box<dyn Task> {
    workload::parse(typed).unwrap()
}

#[test]
fn a_work_of_open_length_is_as_long_as_its_phases() {
    let task = parse("ping:load=kcp,load-from=2s,load-for=4s");
    assert_eq!(task.info().lengths, None);
    let whole = task.info().planned.unwrap();
    assert!((Nanos::from_secs(8)..Nanos::from_millis(8_500)).contains(&whole), "{whole}");
    let stint = task.info().load.as_ref().unwrap().stint.unwrap();
    assert_eq!((stint.from, stint.end()), (Nanos::from_secs(2), Nanos::from_secs(6)));
    let again = parse(&task.info().spec.to_string());
    assert_eq!(again.info().spec, task.info().spec);
    assert_eq!(again.info().planned, task.info().planned);
    assert!(parse("ping:load=kcp").info().load.as_ref().unwrap().stint.is_none());
}

#[test]
fn verdicts_are_given_for_the_phase_that_is_asked_for() {
    let claims = |typed: &str| -> Vec<String> {
        let task = parse(typed);
        let claims = task.info().metrics.iter().filter(|m| m.role == Role::Claim);
        claims.map(|m| m.name.clone()).collect()
    };
    assert_eq!(claims("ping:load=kcp,load-from=2s"), ["rtt_p50_during_ns"]);
    assert_eq!(claims("ping:load=kcp,load-from=2s,load-phase=after"), ["rtt_p50_after_ns"]);
    assert_eq!(claims("ping:load=kcp,load-from=2s,claim=p99"), ["rtt_p99_during_ns"]);
    assert_eq!(claims("ping:load=kcp,load-from=2s,load-phase=all"), ["rtt_p50_ns"]);
    assert_eq!(claims("state:load=kcp,load-from=2s"), ["delay_p50_during_ns"]);
    assert_eq!(claims("rpc:load=kcp,load-from=2s"), ["response_p50_during_ns"]);
    assert_eq!(claims("rpc:connect=each,load=kcp,load-from=2s"), ["response_p50_during_ns"]);
    assert_eq!(claims("events:load=kcp,load-from=2s"), ["delivery_p50_during_ns"]);
    assert_eq!(claims("video:load=kcp,load-from=2s"), ["missed_during_share"]);
    assert_eq!(claims("video:claim=latency,load=kcp,load-from=2s"), ["latency_p50_during_ns"]);
    assert_eq!(claims("bulk:load=kcp,load-from=2s"), ["goodput_during_bps"]);
    assert_eq!(claims("bulk:load=kcp,load-from=2s,load-phase=all"), ["goodput_bps"]);
    let (none, some) =
        (parse("state:load=none,load-from=2s"), parse("state:load=kcp,load-from=2s"));
    assert_eq!(none.info().metrics, some.info().metrics);
    assert_eq!(none.info().planned, some.info().planned);
    assert_eq!(none.info().load, None);
}

#[test]
fn phases_that_cannot_be_had_are_refused_with_what_would_do() {
    let say = |typed: &str| workload::parse(typed).err().unwrap().to_string();
    assert!(say("ping:load-from=2s").contains("add load=CONTENDER"));
    assert!(say("ping:load=kcp,load-for=2s").contains("say when, as load-from=5s"));
    assert!(say("ping:load=kcp,load-phase=after").contains("say when"));
    assert!(say("ping:count=1000,load=kcp,load-from=5s").contains("too little after"));
    assert!(say("ping:time=11s,load=kcp,load-from=5s,load-for=6s").contains("too little after"));
    assert!(say("ping:load=kcp,load-from=2s,load-for=60ms").contains("raise load-for"));
    assert!(say("state:load=kcp,load-from=200ms,load-for=2s").contains("raise load-from"));
    assert!(say("ping:load=kcp,load-from=500ms,claim=p99").contains("raise load-for"));
    assert!(say("connect:load=kcp,load-from=2s").contains("has no phases"));
    assert!(say("streams:over=connections,load=kcp,load-from=2s").contains("has no phases"));
    assert!(say("bulk:direction=both,load=kcp,load-from=2s").contains("has no phases"));
    assert!(say("bulk:bytes=1MB,load=kcp,load-from=2s").contains("a time instead"));
    assert!(say("ping:window=1,load=kcp,load-from=2s").contains("a time instead"));
    assert!(say("ping:interval=10us,load=kcp,load-from=20s").contains("can be"));
    assert!(say("ping:claim=p999,load=kcp,load-from=20s").contains("up to p99"));
}
