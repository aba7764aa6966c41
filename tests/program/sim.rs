//! Whole trials and races in virtual time. Here: what single transports do over a path whose bottleneck is known.
//!
//! `UPDATE_GOLDEN=1 cargo test --test program sim::` writes the tables anew; read the difference.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test helper that fails is a failed test")]

use std::collections::BTreeMap;

use deadheat::measurements::path::{LinkFigures, PathFigures};
use deadheat::measurements::{Account, Quantile};
use deadheat::path::{self, Family};
use deadheat::records::placement::Placement;
use deadheat::records::trial::Record;
use deadheat::time::{Clock, Nanos};
use deadheat::trial::explain::Pass;
use deadheat::trial::sim::Simulation;
use deadheat::trial::{Order, Pairing, Runner, TrialOutcome};

mod arrivals;
mod causes;
mod hosts;
mod matrix;
mod nat;
mod observed;
mod phases;
mod races;
mod tables;
mod theory;

/// A trial over `sim:` and this, which must pass its gate.
fn trial(path: &str, contender: &str, workload: &str) -> Record {
    seeded(path, contender, workload, 7)
}

fn seeded(path: &str, contender: &str, workload: &str, seed: u64) -> Record {
    let case = format!("{contender} {workload} over sim:{path}");
    match ended(path, contender, workload, seed) {
        TrialOutcome::Ran(record) => {
            assert!(record.valid, "{case}: {:?}", record.why_invalid);
            *record
        }
        TrialOutcome::Blocked(why)
        | TrialOutcome::Limited(why)
        | TrialOutcome::Lost(why)
        | TrialOutcome::Broke(why)
        | TrialOutcome::Disconnected(why) => panic!("{case}: {why}"),
        TrialOutcome::Failed(error) => panic!("{case}: {error}"),
    }
}

fn ended(path: &str, contender: &str, workload: &str, seed: u64) -> TrialOutcome {
    let typed = format!("sim:{path}");
    let path::PathSpec::Simulated(network) = path::PathSpec::parse(&typed).unwrap() else {
        panic!("{typed} is not simulated")
    };
    let mut simulation = Simulation::new(&typed, network, Family::Any).unwrap();
    let order = Order {
        pairing: Pairing::parse(contender, workload).unwrap(),
        placement: Placement::Virtual,
        seed,
        samples: None,
        interval: Nanos::from_millis(100),
        pass: Pass::Figures,
    };
    let end = simulation.run(&order);
    if let TrialOutcome::Ran(record) = &end {
        let now = simulation.clock().now();
        assert_eq!(now, Nanos(record.took_ns), "{contender} {workload} over {typed}");
    }
    end
}

fn up(record: &Record) -> &Account {
    record.ledger.up.as_ref().unwrap()
}

fn fates(record: &Record) -> &LinkFigures {
    let path: &PathFigures = record.path.as_ref().unwrap();
    &path.links[0]
}

#[test]
fn a_window_that_covers_the_path_fills_the_link() {
    let record =
        trial("delay=25ms,rate=20mbit,queue=100ms", "arq:cc=none,window=200kB", "bulk:time=5s");
    // 48 bytes of headers around 1452 of data.
    let link = 20e6 * 1452.0 / 1500.0;
    let share = record.metrics["goodput_bps"] / link;
    assert!((0.99..=1.001).contains(&share), "{share}");
    assert_eq!(record.retransmits, Some(0));
}

/// A bottleneck whose queue is deep: what fills it delays everybody by half a second.
const DEEP: &str = "delay=25ms,rate=5mbit,queue=500ms";

#[test]
fn utp_takes_a_link_that_nobody_else_wants_and_its_queue_stays_at_the_target() {
    let record = trial(DEEP, "utp", "bulk:time=60s");
    // 48 bytes of headers around 1452 of data. It grows by a segment a round trip: a second until the link is full.
    let share = record.metrics["goodput_bps"] / (5e6 * 1452.0 / 1500.0);
    assert!((0.9..=1.001).contains(&share), "{share}");
    assert_eq!(record.retransmits, Some(0));
    for (load, target) in [("utp", 100.0), ("utp:target=25ms", 25.0)] {
        let workload = format!("ping:interval=20ms,count=1000,load={load},load-lead=40s");
        let record = trial(DEEP, "sim-datagram", &workload);
        let rtt = record.rtt_ns.clone().unwrap();
        let waited = |quantile| match quantile {
            Some(Quantile::Ns(ns)) => ns as f64 / 1e6 - 50.0,
            other => panic!("{other:?}"),
        };
        // Of packets of 1500 bytes, of which each takes 2.4 ms.
        let (p50, p99, packet) = (waited(rtt.p50), waited(rtt.p99), 2.4);
        assert!((0.9 * target..=target + packet).contains(&p50), "{load}: {p50} ms");
        assert!(p99 <= target + 2.0 * packet, "{load}: {p99} ms");
    }
}

#[test]
fn utp_yields_to_what_fills_the_queue() {
    // The load is there first, alone, and has found the link empty.
    let beside = |load: &str| {
        let workload = format!("bulk:time=60s,load={load},load-lead=20s");
        trial(DEEP, "quic", &workload).metrics
    };
    let (utp, quic) = (beside("utp"), beside("quic"));
    let share = |of: &BTreeMap<String, f64>| {
        of["load_goodput_bps"] / (of["load_goodput_bps"] + of["goodput_bps"])
    };
    assert!(share(&utp) < 0.1, "{utp:?}");
    assert!(utp["goodput_bps"] > 0.85 * 5e6, "{utp:?}");
    // One that is controlled by loss keeps what it has.
    assert!(share(&quic) > 0.3, "{quic:?}");
}

#[test]
fn a_path_without_a_rate_is_held_back_by_the_interface_only() {
    let record = trial("delay=1ms", "sim-datagram", "bulk:time=20ms");
    let share = record.metrics["sent_bps"] / (10e9 * 1400.0 / 1428.0);
    assert!((0.95..=1.05).contains(&share), "{share}");
    // No delay at all: time passes nevertheless.
    let record = trial("delay=0ms", "arq", "ping:window=1,count=1000");
    assert_eq!(record.ledger.up.unwrap().delivered, 1000);
}

#[test]
fn messages_larger_than_a_packet_are_cut_and_put_together() {
    let record =
        trial("delay=5ms,rate=100mbit", "sim-datagram", "ping:size=60kB,interval=20ms,count=100");
    assert_eq!(up(&record).delivered, 100);
    let link = fates(&record);
    let packets = record.packets.unwrap().per_message();
    // 20 more warm up.
    assert_eq!((packets, link.up.fates.arrived), (41, 120 * packets));
    let lossy = trial("delay=5ms,loss=1%", "sim-datagram", "cbr:rate=10mbit,size=15kB,time=5s");
    // Each of 11 packets has to arrive.
    let share = up(&lossy).lost_on_path as f64 / up(&lossy).sent as f64;
    assert!((0.06..=0.15).contains(&share), "{share}");
}

/// A sender has not written far ahead of what the path carries, so that the end of a timed transfer comes soon after its
/// time, also where losses leave some hundred kbit/s. All that was handed over arrives.
#[test]
fn a_timed_transfer_ends_soon_where_losses_leave_little_of_the_rate() {
    for contender in ["quic", "quic:cc=reno"] {
        for seed in 0..8 {
            let path = "delay=80ms,loss=5%,rate=50mbit";
            let record = seeded(path, contender, "bulk:warmup=1s,time=2s", seed);
            let account = up(&record);
            assert_eq!((account.sent, &account.open_because), (account.delivered, &None));
            // Three seconds, and the repairs of two congestion windows.
            assert!(record.took_ns < 8_000_000_000, "{contender} {seed}: {} ns", record.took_ns);
        }
    }
}

/// A link brings no more than its rate, whatever waited behind a gap as the warm-up ended.
#[test]
fn goodput_is_no_more_than_the_link_carries() {
    let most = 50e6 * 1452.0 / 1500.0;
    for contender in ["quic", "quic:cc=reno", "sctp-udp"] {
        for (delay, loss, seeds) in [("20ms", "0%", 1), ("20ms", "0.02%", 6), ("80ms", "0%", 1)] {
            for seed in 0..seeds {
                let path = format!("delay={delay},loss={loss},rate=50mbit");
                let goodput = seeded(&path, contender, "bulk", seed).metrics["goodput_bps"];
                assert!(goodput <= most, "{contender} over {path}, {seed}: {goodput}");
            }
        }
    }
}

#[test]
fn several_flows_share_a_link() {
    let record =
        trial("delay=10ms,rate=20mbit,queue=50ms", "arq", "bulk:streams=4,direction=both,time=3s");
    for way in ["goodput_up_bps", "goodput_down_bps"] {
        let share = record.metrics[way] / 20e6;
        // Slow start overshoots the queue, and Reno closes one gap in a round trip.
        assert!((0.6..0.97).contains(&share), "{way}: {share}");
    }
}

/// A round trip waits for a timeout where the message, its answer, or both are lost: 9.75 % of them at 5 % each way. With
/// everything twice both copies of one have to be lost: 0.5 %. Messages are so far apart that none waits for another.
#[test]
fn parity_makes_up_for_losses_without_a_round_trip() {
    let work = "ping:count=3000,interval=500ms";
    let [plain, twice] = ["kcp", "kcp:fec=1+1"].map(|contender| {
        let record = trial("delay=25ms,loss=5%", contender, work);
        let sent: u64 = record.path.as_ref().unwrap().links[0].up.fates.arrived_bytes;
        (record, sent)
    });
    let p99 = |record: &Record| match record.rtt_ns.as_ref().unwrap().p99 {
        Some(Quantile::Ns(ns)) => ns as f64 / 1e6,
        other => panic!("{other:?}"),
    };
    assert!(p99(&plain.0) > 80.0, "{}", p99(&plain.0));
    assert!(p99(&twice.0) < 51.0, "{}", p99(&twice.0));
    // Of some 12,000 datagrams with data or acknowledgements 5 % are lost; half of them parity, which nobody misses.
    let recovered = twice.0.recovered.unwrap();
    assert!((250..700).contains(&recovered), "{recovered}");
    assert!(twice.0.retransmits.unwrap() * 8 < plain.0.retransmits.unwrap());
    let cost = twice.1 as f64 / plain.1 as f64;
    assert!((1.8..2.4).contains(&cost), "{cost}");
    assert_eq!((plain.0.recovered, plain.0.effective["fec"].as_str()), (None, "off"));
    assert_eq!(twice.0.effective["fec"], "1+1");
}

/// CoDel keeps the queue of a line of 20 Mbit/s short, by dropping, or by marking what allows it (RFC 3168).
#[test]
fn a_queue_that_marks_slows_a_sender_down_without_a_loss() {
    let path = "delay=20ms,rate=20mbit,queue=200ms,aqm=codel,ecn=on";
    let [off, on] =
        ["quic", "quic:ecn=on"].map(|contender| trial(path, contender, "bulk:bytes=20MB"));
    let (dropped, marked) = (&fates(&off).up.fates, &fates(&on).up.fates);
    assert!(dropped.early > 0 && dropped.marked == 0, "{dropped:?}");
    assert!(off.retransmits > Some(0), "{:?}", off.retransmits);
    assert_eq!((off.marks, off.effective["ecn"].as_str()), (None, "off"));
    assert!(marked.marked > 0 && marked.early + marked.full == 0, "{marked:?}");
    assert_eq!(on.retransmits, Some(0));
    let marks = on.marks.unwrap();
    assert_eq!(marks.ce, marked.marked + fates(&on).down.fates.marked);
    // All datagrams that arrived were capable, of the handshake as well.
    let arrived = marked.delivered + fates(&on).down.fates.delivered;
    assert!(marks.datagrams == marks.capable && marks.datagrams <= arrived, "{marks:?} {arrived}");
    assert_eq!(on.effective["ecn"], "on, validated");
    assert_eq!(on.far_effective["ecn"], "on, validated");
    // The sender takes marks for congestion: its window gets smaller, and the line stays full.
    let view = on.intervals[0].tcp.as_ref().unwrap();
    assert!(view.congestion_events.last().copied().flatten() > Some(2), "{view:?}");
    assert!(view.cwnd_bytes.windows(2).any(|pair| pair[1] < pair[0]), "{:?}", view.cwnd_bytes);
    assert!(on.metrics["goodput_bps"] > 15e6, "{}", on.metrics["goodput_bps"]);
    // A queue that was not told to mark drops them all the same.
    let plain = trial(&path.replace(",ecn=on", ""), "quic:ecn=on", "bulk:bytes=20MB");
    assert!(fates(&plain).up.fates.early > 0 && plain.marks.unwrap().ce == 0);
    assert_eq!(plain.effective["ecn"], "on, validated");
}

/// DualPI2 (RFC 9332): a sender that marks ECT(1) and has a scalable control finds a queue of a millisecond and no loss,
/// another one a queue of 15 ms, on the same line.
#[test]
fn a_dual_queue_keeps_the_queue_of_l4s_short() {
    let path = "delay=10ms,rate=20mbit,queue=200ms,aqm=dualpi2";
    let [l4s, classic] =
        ["quic:ecn=l4s", "quic"].map(|contender| trial(path, contender, "bulk:bytes=20MB"));
    let srtt = |record: &Record| {
        let view = record.intervals[0].tcp.as_ref().unwrap();
        let mut all: Vec<u64> = view.srtt_ns.iter().copied().flatten().collect();
        all.sort_unstable();
        all[all.len() / 2] as f64 / 1e6
    };
    let (up, other) = (&fates(&l4s).up.fates, &fates(&classic).up.fates);
    assert!(up.l4s.marked > 100 && up.l4s.marked == up.marked && up.early + up.full == 0, "{up:?}");
    assert_eq!((up.l4s.arrived, l4s.retransmits), (up.arrived, Some(0)));
    assert_eq!(
        (l4s.effective["ecn"].as_str(), l4s.effective["cc"].as_str()),
        ("l4s, validated", "prague")
    );
    assert!(other.early > 0 && other.marked == 0 && other.l4s.arrived == 0, "{other:?}");
    assert!(srtt(&l4s) < 24.0 && srtt(&classic) > 28.0, "{} {}", srtt(&l4s), srtt(&classic));
    for record in [&l4s, &classic] {
        assert!(record.metrics["goodput_bps"] > 16e6, "{}", record.metrics["goodput_bps"]);
    }
}

/// ENet has 64 KiB under way at most, and QUIC its window: on a line that carries more they are the limit, and on one that
/// carries less the line is.
#[test]
fn what_a_library_admits_is_told_apart_from_what_the_path_takes() {
    let share = |path: &str, contender: &str| {
        let record = trial(path, contender, "bulk:bytes=2MB");
        let view = record.intervals[0].tcp.clone().unwrap();
        let last = |column: &[Option<u64>]| column.last().copied().flatten().unwrap() as f64;
        last(&view.library_limited_ns) / last(&view.busy_ns)
    };
    for contender in ["enet", "quic:window=64KiB"] {
        let wide = share("delay=50ms,rate=100mbit,queue=1MB", contender);
        // Until its congestion window has grown that far, it was not.
        assert!((0.5..=1.0).contains(&wide), "{contender}: {wide}");
    }
    for contender in ["enet:throttle=off", "quic"] {
        let narrow = share("delay=5ms,rate=2mbit,queue=200ms", contender);
        assert!((0.0..0.2).contains(&narrow), "{contender}: {narrow}");
    }
}

/// A link that is down for two seconds, for good, and for so long that the protocol gives up.
#[test]
fn an_outage_ends_with_an_arrival_or_lasts_to_the_end_or_ends_the_connection() {
    for contender in ["quic", "kcp", "sim-datagram"] {
        let work = "ping:interval=50ms,count=120,timeout=9s";
        let over = |down: &str| trial(&format!("delay=20ms,down={down}"), contender, work);
        let record = over("2s-4s");
        let [outage] = record.outages[..] else { panic!("{contender}: {:?}", record.outages) };
        assert_eq!(outage.ended, Some(true), "{contender}: {outage:?}");
        assert!(
            (1_900_000_000..4_500_000_000).contains(&outage.length_ns),
            "{contender}: {outage:?}"
        );
        let record = over("2s-900s");
        let [outage] = record.outages[..] else { panic!("{contender}: {:?}", record.outages) };
        assert_eq!(outage.ended, Some(false), "{contender}: {outage:?}");
        assert!(outage.length_ns > 4_000_000_000, "{contender}: {outage:?}");
    }
    let work = "ping:interval=1s,count=400,timeout=20s";
    let end = ended("delay=20ms,down=2s-999s", "kcp", work, 7);
    let TrialOutcome::Disconnected(why) = end else { panic!("it kept its connection") };
    assert!(why.contains("kcp") && why.contains("dead link"), "{why}");
}

/// A queue of 100 ms fills within the first second, and keeps full.
#[test]
fn a_queue_that_fills_is_seen_over_time() {
    let record = trial("delay=10ms,rate=10mbit,queue=100ms", "quic", "bulk:time=3s");
    let link = fates(&record);
    let course = link.up.queue_course.as_ref().unwrap();
    assert!(course.longest_ns[0] < 20_000_000, "{course:?}");
    let longest = course.longest_ns.iter().max().unwrap();
    assert!((90_000_000..=101_000_000).contains(longest), "{course:?}");
    assert!(course.every_ns * course.longest_ns.len() as u64 >= 3_000_000_000, "{course:?}");
    // Acknowledgements do not wait.
    assert_eq!(link.down.queue_course, None);
}
