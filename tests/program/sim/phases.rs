//! Work before, during and after a load behind one bottleneck.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test helper that fails is a failed test")]

use deadheat::records::trial::Record;

use super::trial;

pub(super) fn beside(load: &str, queue: &str) -> Record {
    let times = "load-from=2s,load-for=8s,load-lead=400ms";
    let workload = format!("state:direction=up,load={load},{times}");
    trial(&format!("delay=10ms,rate=10mbit,{queue}"), "sim-datagram", &workload)
}

#[test]
fn a_load_in_the_middle_delays_and_loses_in_its_phase_and_fair_queues_undo_it() {
    let of = |record: &Record, name: &str| record.metrics[name];
    let full = beside("quic,load-flows=8", "queue=40pkt");
    assert_eq!(of(&full, "loss_before_share") + of(&full, "loss_after_share"), 0.0);
    assert!(of(&full, "loss_induced_share") > 0.01, "{:?}", full.metrics);
    assert!(of(&full, "burst_max_during_count") >= 2.0);
    assert!(of(&full, "delay_p50_under_load_ratio") > 3.0);
    assert_eq!(of(&full, "delay_p50_before_ns"), of(&full, "delay_p50_after_ns"));
    assert!(of(&full, "load_goodput_share") > 0.9);
    let fair = beside("quic,load-flows=8", "queue=100ms,aqm=fq-codel");
    assert_eq!(of(&fair, "loss_during_share"), 0.0);
    assert!(of(&fair, "delay_p50_under_load_ratio") < 1.2, "{:?}", fair.metrics);
    let none = beside("none", "queue=40pkt");
    assert_eq!(of(&none, "delay_p50_under_load_ratio"), 1.0);
    assert_eq!(of(&none, "loss_induced_share"), 0.0);
    assert!(!none.metrics.contains_key("load_goodput_bps"));
}

/// Whatever the work, its own figures are worse beside a load, and after it as before it; what arrived of the load is there
/// over time.
#[test]
fn any_work_has_its_own_figures_before_during_and_after_a_load() {
    let times = "load=quic,load-from=3s,load-for=5s,load-lead=400ms";
    let path = "delay=10ms,rate=10mbit,queue=100ms";
    for (work, contender, figure) in [
        ("rpc:rate=40pps", "arq", "response"),
        ("events:direction=up", "arq", "delivery"),
        ("video:rate=1mbit,direction=up,spread=0%,keyframe=1", "sim-datagram", "latency"),
        ("inputs:mtu=100,claim=smooth", "sim-datagram", "delay"),
        ("state:direction=up", "sim-datagram", "delay"),
    ] {
        let direction = if figure == "response" { ",load-direction=down" } else { "" };
        let direction = if work.starts_with("inputs") { ",load-direction=down" } else { direction };
        let join = if work.contains(':') { "," } else { ":" };
        let record = trial(path, contender, &format!("{work}{join}{times}{direction}"));
        let of = |phase: &str| record.metrics[&format!("{figure}_p50_{phase}_ns")];
        let [before, during, after] = ["before", "during", "after"].map(of);
        let case = format!("{work}: {:?}", record.metrics);
        assert!(during > 1.5 * before, "{case}");
        assert!((after / before - 1.0).abs() < 0.1, "{case}");
        assert!(record.metrics["goodput_during_bps"] > 0.0, "{case}");
        let received = record.load_series().filter_map(|s| s.received_bytes.last());
        assert!(*received.max().unwrap() > 1_000_000, "{case}");
        let senders = record.load_series().filter_map(|series| series.tcp.as_ref());
        assert!(senders.flat_map(|tcp| &tcp.cwnd_bytes).flatten().count() > 1, "{case}");
        let ends = || record.intervals.iter().chain(&record.far_intervals);
        let has_times = ends().any(|s| !s.rtt_n.is_empty() || !s.delay_n.is_empty());
        assert!(has_times || work.starts_with("inputs"), "{work}");
    }
    let bulk = trial(path, "quic", &format!("bulk:streams=2,{times}")).metrics;
    let [before, during, after] =
        ["before", "during", "after"].map(|phase| bulk[&format!("goodput_{phase}_bps")] / 1e6);
    assert!((8.0..10.0).contains(&before) && (8.0..10.0).contains(&after), "{bulk:?}");
    assert!(during < 0.8 * before, "{bulk:?}");
    assert!((bulk["goodput_under_load_ratio"] - during / before).abs() < 1e-9, "{bulk:?}");
}

/// Frames that come too late are counted by phase: before a load, and beside it.
#[test]
fn frames_are_missed_while_the_queue_is_full() {
    let work = "video:rate=1mbit,direction=up,spread=0%,keyframe=1,deadline=60ms";
    let load = "load=quic,load-from=3s,load-for=5s,load-lead=400ms";
    let path = "delay=10ms,rate=10mbit,queue=100ms";
    let metrics = trial(path, "sim-datagram", &format!("{work},{load}")).metrics;
    assert!(metrics["missed_before_share"] < 0.01, "{metrics:?}");
    assert!(metrics["missed_during_share"] > 0.3, "{metrics:?}");
    assert!(metrics["missed_after_share"] < 0.01, "{metrics:?}");
}

#[test]
fn connections_of_a_load_wait_for_their_time_and_a_probe_has_round_trips_per_minute() {
    for load in ["quic", "arq", "kcp", "enet"] {
        let times = "load-from=50s,load-for=4s,load-lead=400ms";
        let workload = format!("ping:interval=10ms,load={load},{times}");
        let record = trial("delay=10ms,rate=10mbit", "sim-datagram", &workload);
        let of = |name: &str| record.metrics[name];
        assert!(of("load_goodput_bps") > 1e6, "{load}: {:?}", record.metrics);
        // 60 s in round trips of 20.1 ms, and of more beside the load.
        assert!((of("probe_before_rpm") - 60e9 / of("rtt_p50_before_ns")).abs() < 1.0, "{load}");
        assert!(
            of("probe_during_rpm") < of("probe_before_rpm") / 1.5,
            "{load}: {:?}",
            record.metrics
        );
        assert!((of("probe_after_rpm") / of("probe_before_rpm") - 1.0).abs() < 0.01, "{load}");
        let again = trial("delay=10ms,rate=10mbit", "sim-datagram", &workload);
        assert_eq!(again.metrics, record.metrics);
    }
}
