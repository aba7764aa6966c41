//! A load beside workloads that are registered.

use deadheat_base::time::Nanos;
use deadheat_contract::contract::Direction;
use deadheat_contract::workload::load::*;
use deadheat_contract::workload::{self, PathKind, Setting, Task};

fn parse(typed: &str) -> Box<dyn Task> {
    workload::parse(typed).unwrap()
}

#[test]
fn any_workload_may_have_a_load_and_is_the_same_work_beside_it() {
    for plain in workload::ALL.iter().map(|workload| workload.info().id) {
        let task = parse(&format!("{plain}:load=kcp:mode=fast+mtu=1400B,load-flows=2"));
        let load = task.info().load.as_ref().unwrap();
        assert_eq!(load.contender, "kcp:mode=fast,mtu=1400B");
        assert!(parse(&load.workload).info().headline.contains("2"), "{}", load.workload);
        assert_eq!(task.info().flows, parse(plain).info().flows);
        let again = parse(&task.info().spec.to_string());
        assert_eq!(again.info().spec, task.info().spec);
        assert_eq!(again.info().load, task.info().load);
    }
}

#[test]
fn the_lead_follows_from_the_path() {
    let rtt = Some(Nanos::from_millis(20));
    let setting = Setting { kind: PathKind::Emulated, rtt, ..Setting::REMOTE };
    let task = workload::parse_on("ping:load=tcp", &setting).unwrap();
    assert_eq!(task.info().load.as_ref().unwrap().lead, Nanos::from_millis(400));
    assert!(task.info().load.as_ref().unwrap().workload.contains("warmup=400ms"));
    assert!(task.info().spec.to_string().contains("load-lead=400ms"));
}

#[test]
fn without_one_only_the_figure_is_there_so_that_both_can_be_compared() {
    let (none, some) = (parse("ping:load=none"), parse("ping:load=tcp"));
    assert_eq!(none.info().load, None);
    assert_eq!(none.info().metrics, some.info().metrics);
    assert_eq!(parse(&none.info().spec.to_string()).info().spec, none.info().spec);
    assert!(parse("ping").info().metrics.iter().all(|metric| metric.name != GOODPUT));
}

#[test]
fn half_a_load_is_refused() {
    let say = |typed: &str| workload::parse(typed).err().unwrap().to_string();
    assert!(say("ping:load-flows=2").contains("add load=CONTENDER"));
    assert!(say("ping:load=tcp,load-flows=0").contains("outside"));
    assert!(say("ping:load=,").contains("load"));
}

/// As much as the link takes is bulk data; at a rate it is messages on a schedule, whatever carries them.
#[test]
fn a_load_at_a_rate_is_a_constant_rate() {
    let task = parse("ping:load=udp,load-rate=5mbit,load-flows=2,load-direction=down");
    assert!(
        task.info().headline.ends_with("beside 2 flows at 5.00 Mbit/s of udp"),
        "{}",
        task.info().headline
    );
    let load = parse(&task.info().load.as_ref().unwrap().workload);
    assert_eq!(load.info().spec.name, "cbr");
    assert_eq!(load.info().offered().map(|rate| rate.0), Some(5_000_000));
    assert_eq!(load.info().flows, [Some(Direction::Down); 2]);
    assert!(!load.info().fills_path);
    assert_eq!(parse(&task.info().spec.to_string()).info().load, task.info().load);
}
