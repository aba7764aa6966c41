//! Connections that come at random in virtual time, and loads beside them.

use super::races::deadheat;
use super::{seeded, trial};

/// A lone flow takes its handshake and a round trip, and the time of its bytes at the link, whatever came before.
#[test]
fn a_lone_flow_takes_round_trips_and_its_bytes() {
    let work = "rpc:connect=each,at-once=8,rate=2pps,count=40,request=100,response=10kB";
    let record = trial("delay=20ms,rate=10mbit", "kcp", work);
    let metrics = &record.metrics;
    // Nine messages of up to 1180 bytes, each with 20 bytes of the work, 24 of KCP and 28 of UDP and IP.
    let link = |bytes: f64| bytes * 8.0 / 10e6 * 1e9;
    let closed = 40e6 + link(10_000.0 + 9.0 * 72.0) + link(100.0 + 52.0);
    assert!((metrics["response_p50_ns"] / closed - 1.0).abs() < 0.02, "{closed} {metrics:?}");
    assert_eq!((metrics["waited_share"], metrics["unanswered_share"]), (0.0, 0.0));
    let gap = metrics["offered_bps"] - metrics["carried_bps"];
    assert!((0.0..=10_000.0 * 8.0 / 20.0).contains(&gap), "{metrics:?}");
    assert!(record.censored.is_empty());
}

/// Ten times what the link carries: flows without their response 30 s after the last arrival are counted, and figures
/// that they reach are bounds.
#[test]
fn flows_that_are_not_finished_are_counted_and_censored() {
    let work = "rpc:connect=each,at-once=16,rate=20pps,count=40,response=66kB~2MB";
    let record = trial("delay=10ms,rate=1mbit", "quic", work);
    let metrics = &record.metrics;
    let unfinished = metrics["unanswered_share"] * 40.0;
    assert!((10.0..40.0).contains(&unfinished) && (unfinished - unfinished.round()).abs() < 1e-9);
    for name in ["response_mean_ns", "response_geomean_ns", "response_max_ns"] {
        assert!(record.censored.iter().any(|censored| censored == name), "{name}");
    }
    assert!(metrics["waited_share"] > 0.0 && metrics["carried_bps"] < 1e6);
    assert!(metrics["response_max_ns"] >= 30e9 && metrics["response_max_ns"] < 33e9);
}

/// Alone and beside a load have the same arrivals and sizes, and the load takes its part.
#[test]
fn a_load_at_a_rate_takes_its_rate_and_harms_by_little() {
    let work =
        "rpc:connect=each,at-once=32,rate=5pps,count=60,response=66kB~2MB,load-direction=down";
    let path = "delay=10ms,rate=50mbit,aqm=codel";
    let [alone, beside] = ["none", "quic,load-rate=5mbit"]
        .map(|load| trial(path, "quic", &format!("{work},load={load}")).metrics);
    assert_eq!(alone["offered_bps"], beside["offered_bps"]);
    // Its own congestion control holds it below its rate after drops.
    assert!((4e6..5.01e6).contains(&beside["load_goodput_bps"]), "{beside:?}");
    let times = beside["response_geomean_ns"] / alone["response_geomean_ns"];
    assert!((1.0..1.3).contains(&times), "{times}");
}

/// One of two that connect and begin together has to be first, and gains or loses by it. Seeds decide which, so that a contender
/// has a half beside itself: the interval at 99 % over 60 seeds holds a half. `kcp`, whose trials are alike but for that,
/// has the one part or the other.
#[test]
fn a_contender_beside_itself_has_a_half() {
    const SEEDS: u64 = 60;
    let path = "delay=10ms,rate=10mbit,queue=2bdp";
    for (contender, load) in [("quic", "quic"), ("quic:cc=bbr", "quic:cc=bbr"), ("kcp", "kcp")] {
        let work = format!("bulk:time=1500ms,warmup=500ms,load={load},load-lead=0s");
        let share = |seed| 1.0 - seeded(path, contender, &work, seed).metrics["load_goodput_share"];
        let shares: Vec<f64> = (1..=SEEDS).map(share).collect();
        let mean = shares.iter().sum::<f64>() / SEEDS as f64;
        let squares: f64 = shares.iter().map(|share| (share - mean).powi(2)).sum();
        let error = (squares / (SEEDS - 1) as f64 / SEEDS as f64).sqrt();
        // 2.66: the quantile of Student's t with 59 degrees of freedom.
        assert!((mean - 0.5).abs() < 2.66 * error, "{contender}: {mean} ± {error}");
        assert!(contender == "kcp" || error < 0.012, "{contender}: {mean} ± {error}");
    }
}

/// The list of shares has the contender's flows before the load's.
#[test]
fn each_flow_has_its_share_in_a_list() {
    let work = "bulk:streams=2,time=5s,warmup=1s,load=quic,load-flows=3,load-lead=0s";
    let record = trial("delay=10ms,rate=20mbit,queue=2bdp", "quic", work);
    assert_eq!(record.flow_shares.len(), 5);
    assert!((record.flow_shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    let load: f64 = record.flow_shares[2..].iter().sum();
    assert!((load - record.metrics["load_goodput_share"]).abs() < 1e-9);
    let least = record.flow_shares.iter().copied().fold(1.0, f64::min);
    assert_eq!(least, record.metrics["flow_least_share"]);
    assert!(record.metrics["flows_jain_share"] > 0.8, "{:?}", record.flow_shares);
}

#[test]
fn a_far_end_that_opens_one_after_the_other_is_refused_on_a_real_path() {
    let dir = tempfile::tempdir().unwrap();
    let work = "rpc:connect=each,at-once=2,count=20";
    let refused = deadheat(&["race", "quic", "-w", work, "-q"], dir.path());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    for words in ["opens one connection after the other", "tcp, mptcp and unix", "sim:"] {
        assert!(said.replace('\n', " ").contains(words), "{words}: {said}");
    }
}
