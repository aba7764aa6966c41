//! Figures of models, held against closed forms and against figures that others have published.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test helper that fails is a failed test")]

use std::collections::BTreeSet;

use deadheat::records::trial::Record;

use super::{seeded, trial};
use grid::{Form, Point};

#[path = "../../../benches/closed_forms/grid.rs"]
mod grid;

/// Objects that are all alike take turns: each is in every tenth update, and its age is that of a state told as often, in
/// which each update is lost with probability p on its own: d + T (1 + p) / (2 (1 - p)).
#[test]
fn the_age_of_objects_within_a_cap_is_as_computed() {
    // 20 bytes and five objects of 28 at 50 Hz.
    let workload = "state:hz=50,objects=50,near=0%,cap=64kbit,count=4000";
    for (loss, p) in [("0%", 0.0), ("5%", 0.05)] {
        let path = format!("delay=25ms,loss={loss}");
        let ages = (0..8).map(|seed| {
            let record = seeded(&path, "sim-datagram", workload, seed);
            record.metrics["age_mean_ns"] / 1e6
        });
        let mean = ages.sum::<f64>() / 8.0;
        let expected = 25.0 + 200.0 * (1.0 + p) / (2.0 * (1.0 - p));
        assert!((mean / expected - 1.0).abs() < 0.01, "{loss}: {mean} and {expected}");
    }
}

#[test]
fn a_round_trip_is_twice_the_delay_and_the_time_on_the_wire() {
    let record = trial("delay=25ms", "sim-datagram", "ping:interval=1ms,count=200");
    let rtt = record.rtt_ns.unwrap();
    assert_eq!((rtt.min, rtt.max), (Some(50_000_000), Some(50_000_000)));
    // 64 bytes behind 28 of headers take 36.8 µs at 20 Mbit/s, each way.
    let record = trial("delay=25ms,rate=20mbit", "sim-datagram", "ping:interval=1ms,count=200");
    let rtt = record.rtt_ns.unwrap();
    assert_eq!((rtt.min, rtt.max), (Some(50_073_600), Some(50_073_600)));
    assert_eq!(record.send_lateness_ns.unwrap().max, Some(0));
}

/// 92 bytes take 73.6 µs at 10 Mbit/s, 368 µs at 2 Mbit/s and 147.2 µs at 5 Mbit/s.
#[test]
fn a_way_over_three_links_takes_the_time_of_each() {
    let network =
        "a--r:delay=1ms,rate=10mbit + r--s:delay=2ms,rate=2mbit + s--b:delay=3ms,rate=5mbit";
    let record = trial(network, "sim-datagram", "ping:interval=1ms,count=200");
    let rtt = record.rtt_ns.unwrap();
    assert_eq!((rtt.min, rtt.max), (Some(13_177_600), Some(13_177_600)));
    let arrived = record.path.unwrap().links.into_iter().map(|link| link.up.fates.arrived);
    assert_eq!(arrived.collect::<BTreeSet<u64>>().len(), 1);
}

/// A ping each 10 ms for three seconds. The way over `b` takes 4 ms and is down for a second; the hosts send over `c`,
/// which takes 20 ms, 200 ms later.
#[test]
fn hosts_send_around_a_link_that_is_down_at_the_same_times_as_emulated() {
    let network = "near--s + s--b:delay=1ms,down=1s-2s + b--t:delay=1ms + t--far + s--c:delay=5ms + \
                   c--t:delay=5ms,near=near,far=far,reroute=200ms";
    let record = trial(network, "sim-datagram", "ping:interval=10ms,count=300,warmup=0");
    let rtt = record.rtt_ns.unwrap();
    assert_eq!((rtt.min, rtt.max), (Some(4_000_000), Some(20_000_000)));
    let links = record.path.unwrap().links;
    let fates = |link: usize| links[link].up.fates;
    assert_eq!((fates(1).down, fates(1).lost), (20, 0));
    assert_eq!((fates(1).arrived, fates(4).arrived, fates(3).delivered), (200, 100, 280));
}

/// KCP's own test (test.cpp of skywind3000/kcp): a message each 20 ms is echoed over a path that loses
/// one in twenty each way and delays by 30 to 62.5 ms. The published figures are one draw each.
#[test]
fn kcp_is_as_fast_as_its_authors_measured() {
    let path = "delay=46.25ms,jitter=16.25ms,loss=5%";
    let workload = "ping:size=12,interval=20ms,count=1000,timeout=10s,warmup=0";
    for (mode, mean_ms, max_ms) in [("normal", 156, 571), ("fast", 138, 392)] {
        let mut means = Vec::new();
        let mut maxima = Vec::new();
        for seed in 0..30 {
            let rtt = seeded(path, &format!("kcp:mode={mode}"), workload, seed).rtt_ns.unwrap();
            means.push((rtt.mean.unwrap() / 1e6) as u64);
            maxima.push(rtt.max.unwrap() / 1_000_000);
        }
        let holds =
            |all: &[u64], one| all.iter().min() <= Some(&one) && Some(&one) <= all.iter().max();
        assert!(holds(&means, mean_ms), "{mode}: {means:?}");
        assert!(holds(&maxima, max_ms), "{mode}: {maxima:?}");
    }
}

/// A few points of `cargo bench --bench closed_forms`, which has the whole grid.
#[test]
fn delay_and_age_under_loss_are_as_closed_forms_say() {
    const SEEDS: u64 = 25;
    for form in Form::ALL {
        // So few seeds lose some 500 messages at a point, by which the wait scatters by 5 %, and an age by much less.
        let bound = match form {
            Form::LatestAge => 0.005,
            Form::OrderedAge => 0.02,
            Form::HeadOfLine => form.bound(),
        };
        for (delay_ms, hz, lost_per_mille) in [(10, 30, 20), (50, 60, 10), (100, 10, 10)] {
            let point = Point { form, delay_ms, hz, lost_per_mille };
            assert!(point.is_in_range(), "{point:?}");
            let ratio = point.measured_ms(SEEDS).unwrap() / point.predicted_ms();
            assert!((ratio - 1.0).abs() < bound, "{form}: {point:?}: {ratio}");
        }
    }
}

/// Where the newest update wins and each is lost with probability p, the gaps between arrivals are
/// geometric, and the mean age is the delay and (1 + p) / (2 (1 - p)) periods.
#[test]
fn the_age_of_a_state_that_may_be_lost_is_what_theory_says() {
    const SEEDS: u64 = 100;
    for hz in [20, 60] {
        for loss in [1.0, 5.0, 20.0] {
            let path = format!("delay=25ms,loss={loss}%");
            let workload = format!("state:hz={hz},count=400");
            let ages = (0..SEEDS)
                .map(|seed| seeded(&path, "sim-datagram", &workload, seed).metrics["age_mean_ns"]);
            let mean = ages.sum::<f64>() / SEEDS as f64;
            let (period, p) = (1e9 / f64::from(hz), loss / 100.0);
            let theory = 25e6 + period * (1.0 + p) / (2.0 * (1.0 - p));
            assert!((mean / theory - 1.0).abs() < 0.01, "{hz} Hz {loss} %: {mean} {theory}");
        }
    }
}

/// A state whose messages may be lost ages beside events that must arrive as it does alone.
#[test]
fn a_state_beside_events_ages_as_theory_says() {
    const SEEDS: u64 = 20;
    for loss in [1.0, 5.0] {
        let path = format!("delay=25ms,loss={loss}%");
        let workload = "events:service=latest,count=500";
        let ages = (0..SEEDS)
            .map(|seed| seeded(&path, "quic", workload, seed).metrics["state_age_mean_ns"]);
        let mean = ages.sum::<f64>() / SEEDS as f64;
        let (period, p) = (1e9 / 60.0, loss / 100.0);
        let theory = 25e6 + period * (1.0 + p) / (2.0 * (1.0 - p));
        assert!((mean / theory - 1.0).abs() < 0.01, "{loss} %: {mean} {theory}");
    }
}

/// In a mix the state goes in datagrams of its own and ages as they do, and events wait for events only, as in
/// a connection that has nothing else; the same each time.
#[test]
fn a_mix_gives_each_lane_what_its_own_contender_would() {
    const SEEDS: u64 = 20;
    let (mix, workload) = ("mix:events=arq,state=sim-datagram", "events:count=500");
    for loss in [1.0, 5.0] {
        let path = format!("delay=25ms,loss={loss}%");
        let records: Vec<_> = (0..SEEDS).map(|seed| seeded(&path, mix, workload, seed)).collect();
        let mean = |of: &[Record], name: &str| {
            of.iter().map(|record| record.metrics[name]).sum::<f64>() / of.len() as f64
        };
        let age = mean(&records, "state_age_mean_ns");
        let (period, p) = (1e9 / 60.0, loss / 100.0);
        let theory = 25e6 + period * (1.0 + p) / (2.0 * (1.0 - p));
        assert!((age / theory - 1.0).abs() < 0.01, "{loss} %: {age} {theory}");
        assert!(mean(&records, "held_by_events_mean_ns") > 0.0, "{loss} %");
        // A packet of the state may be in the interface, for less than a microsecond.
        assert!(mean(&records, "held_by_state_mean_ns") < 1e3, "{loss} %");
        assert_eq!(mean(&records, "undelivered_share"), 0.0, "{loss} %");
        let shared: Vec<_> = (0..SEEDS).map(|seed| seeded(&path, "arq", workload, seed)).collect();
        assert!(mean(&shared, "held_by_state_mean_ns") > 1e5, "{loss} %: one order for both");
        assert_eq!(records[3], seeded(&path, mix, workload, 3));
    }
    let record = seeded("delay=25ms", mix, workload, 1);
    assert_eq!(record.implementation, "mix:events=arq/deadheat/reno,state=sim-datagram/deadheat");
    assert_eq!(record.effective["events.cc"], "reno");
    assert!(record.effective.contains_key("state.sndbuf"), "{:?}", record.effective);
}

/// Where each message is lost with probability p on its own, a frame of k messages is whole with probability
/// (1 - p)^k, and can be shown where all back to its keyframe are.
#[test]
fn the_frames_that_can_be_shown_are_as_many_as_theory_says() {
    const SEEDS: u64 = 40;
    for (loss, gop) in [(1.0, 1), (1.0, 10), (5.0, 10)] {
        let path = format!("delay=25ms,loss={loss}%");
        // Frames of 2000 bytes are two messages, and keyframes as large.
        let workload = format!("video:rate=480kbit,spread=0%,keyframe=1,gop={gop},count=500");
        let records = (0..SEEDS).map(|seed| seeded(&path, "sim-datagram", &workload, seed).metrics);
        let sum = records.fold((0.0, 0.0), |sum, metrics| {
            (sum.0 + metrics["lost_share"], sum.1 + metrics["frozen_share"])
        });
        let (lost, frozen) = (sum.0 / SEEDS as f64, sum.1 / SEEDS as f64);
        let whole = (1.0 - loss / 100.0f64).powi(2);
        let shown = (1..=gop).map(|frames| whole.powi(frames)).sum::<f64>() / f64::from(gop);
        assert!((lost / (1.0 - whole) - 1.0).abs() < 0.05, "{loss} % {gop}: {lost}");
        assert!((frozen / (1.0 - shown) - 1.0).abs() < 0.08, "{loss} % {gop}: {frozen} {shown}");
    }
}

/// Where each message repeats what is not acknowledged, an input is late by as many ticks as messages in a row are
/// lost. With a playout of m ticks the game then stands still for the share p^(m + 1) of the time: a run of
/// losses begins in a tick with probability (1 - p) p, and one that is longer than m by j stops the game for
/// j ticks.
#[test]
fn a_game_that_repeats_its_inputs_stands_still_as_theory_says() {
    const SEEDS: u64 = 40;
    for (playout, ticks) in [("0", 0), ("20ms", 1), ("40ms", 2)] {
        let workload = format!("inputs:hz=50,count=1000,playout={playout}");
        let path = "delay=50ms,loss=25%";
        let shares = (0..SEEDS)
            .map(|seed| seeded(path, "sim-datagram", &workload, seed).metrics["stalled_share"]);
        let mean = shares.sum::<f64>() / SEEDS as f64;
        let theory = 0.25f64.powi(ticks + 1);
        assert!((mean / theory - 1.0).abs() < 0.08, "{playout}: {mean} {theory}");
    }
}

/// What Fiedler shows on video (Deterministic Lockstep, Gaffer on Games, 2014), at 60 Hz with a playout delay of
/// 100 ms: in order, as over TCP, with a round trip of 100 ms and a loss of 1 %, the game hitches every few
/// seconds; with inputs that are repeated it does not with one of 2 s and a loss of 25 %.
#[test]
fn lockstep_is_as_its_author_shows() {
    let bad = trial("delay=1s,loss=25%", "sim-datagram", "inputs:count=6000").metrics;
    assert!(bad["stalled_share"] < 0.0005, "{bad:?}");
    for contender in ["quic", "arq", "sctp-udp"] {
        let good = trial("delay=50ms,loss=1%", contender, "inputs:count=6000").metrics;
        let between = good["between_stalls_ns"] / 1e9;
        assert!((1.0..10.0).contains(&between), "{contender}: every {between} s");
        assert!(good["stalled_share"] > 10.0 * bad["stalled_share"], "{contender}: {good:?}");
    }
}

/// Responses of one packet each that are asked for at random times wait for those before them at the link as
/// customers of an M/D/1 queue: on average for rho / (2 (1 - rho)) of their own time there (Pollaczek and
/// Khinchine).
#[test]
fn responses_wait_at_the_link_as_theory_says() {
    const SEEDS: u64 = 20;
    let path = "delay=25ms,rate=1mbit,queue=2s";
    let mean = |workload: &str, seed: u64| {
        seeded(path, "arq:cc=none,window=200kB", workload, seed).metrics["response_mean_ns"]
    };
    let call = "rpc:request=20,response=1kB";
    let alone = mean(&format!("{call},arrivals=constant,rate=10pps,count=100"), 7);
    for rate in [40, 80] {
        let workload = format!("{call},rate={rate}pps,count=4000");
        let waits = (0..SEEDS).map(|seed| mean(&workload, seed) - alone);
        let wait = waits.sum::<f64>() / SEEDS as f64;
        // 1000 bytes behind 20 of the workload's, 4 that say how many, and 48 of headers.
        let own = 1072.0 * 8.0 / 1e6 * 1e9;
        let rho = f64::from(rate) * own / 1e9;
        let theory = own * rho / (2.0 * (1.0 - rho));
        assert!((wait / theory - 1.0).abs() < 0.1, "{rate} a second: {wait} {theory}");
    }
}
