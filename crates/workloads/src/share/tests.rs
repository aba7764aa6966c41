//! Settings that are accepted and refused, and sessions over paths that are easy to compute.

use std::collections::BTreeMap;

use super::*;
use crate::paced::pacer::tests::part;
use deadheat_contract::contract::{Action, Lane, Offer, Offers, PeerFacts, Side};
use deadheat_contract::measurements::ConnStats;
use deadheat_contract::workload::{
    self, Clocks, EndpointReport, FlowEvent, Measurements, PathKind, Reports,
};

const MS: u64 = 1_000_000;

const OTHERS: &[Offer] = &[Offer { service: Service::BEST_EFFORT, largest_message: Some(1_400) }];
const LANES: Guarantees =
    Guarantees { lanes: 8, others: Offers::of(OTHERS), ..Guarantees::BYTE_STREAM };

fn session(typed: &str) -> Box<dyn Task> {
    workload::parse(typed).unwrap()
}

#[test]
fn each_part_has_a_lane_where_there_are_four() {
    let lanes = |typed: &str, promised: &Guarantees| session(typed).lanes(promised);
    assert_eq!(lanes("share", &Guarantees::BYTE_STREAM), [Service::ORDERED]);
    assert_eq!(lanes("share", &LANES), [Service::ORDERED; 4]);
    assert_eq!(lanes("share", &Guarantees { lanes: 2, ..LANES }), [Service::ORDERED; 2]);
    let (ordered, lossy) = (Service::ORDERED, Service::BEST_EFFORT);
    assert_eq!(lanes("share:service=latest", &LANES), [ordered, lossy, lossy, ordered]);
    // Of datagrams with as many lanes, as a mix has it, only voice and pose may be lost.
    let datagrams = Guarantees { lanes: 4, ..Guarantees::DATAGRAMS };
    assert_eq!(lanes("share", &datagrams), [ordered, lossy, lossy, ordered]);
    assert_eq!(session("share").info().lane_names, ["picture", "voice", "pose", "pen"]);
}

#[test]
fn what_does_not_keep_its_promise_is_not_applicable() {
    let why = |typed: &str, promised: &Guarantees| {
        workload::misfit(&*session(typed), promised, PeerFacts::OURS).unwrap_or_default()
    };
    assert_eq!(why("share", &Guarantees::BYTE_STREAM), "");
    assert_eq!(why("share:service=latest", &LANES), "");
    assert!(why("share", &Guarantees::DATAGRAMS).contains("no lane that is reliable, ordered"));
    assert!(why("share:service=latest", &Guarantees::BYTE_STREAM).contains("has no lanes"));
    assert!(why("share:service=latest,mtu=2kB", &LANES).contains("1400 bytes"));
    let echo = workload::misfit(&*session("share"), &LANES, PeerFacts::ECHO);
    assert!(echo.unwrap().contains("only echoes"));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let say = |typed: &str| workload::parse(typed).err().unwrap().to_string();
    assert!(say("share:pen=0").contains("outside"));
    assert!(say("share:pose-size=27").contains("outside"));
    assert!(say("share:pictures=0,claim=picture").contains("nothing to claim"));
    assert!(say("share:picture=1GiB,pictures=100").contains("raise mtu"));
    let elsewhere = Setting { kind: PathKind::Remote, ..Setting::LOOPBACK };
    assert!(workload::parse_on("share", &elsewhere).is_ok(), "clocks of two hosts are compared");
}

#[test]
fn what_it_says_of_itself_is_the_same_work_again() {
    let spec = session("share:pictures=3,claim=pose").info().spec.clone();
    assert_eq!(session(&spec.to_string()).info().spec, spec);
    assert_eq!(session("share").info().lengths.map(|lengths| lengths.fewest), Some(ENOUGH));
    let p99 = session("share:claim=pen-p99");
    assert_eq!(p99.info().lengths.map(|lengths| lengths.fewest), Some(ENOUGH_FOR_P99));
    for claim in ["pen", "pen-p99", "pose", "voice", "picture"] {
        let metrics = session(&format!("share:claim={claim}")).info().metrics.clone();
        assert!(metrics[0].name.starts_with(claim.trim_end_matches("-p99")), "{metrics:?}");
    }
    // A session without pictures can be set beside one with them.
    assert_eq!(session("share").info().metrics, session("share:pictures=0").info().metrics);
}

/// A path of 10 ms for each lane, which may lose messages, or have no room for them.
struct Way {
    lanes: usize,
    /// Returns true if a lane has room at a time, in ms from the start, after so many messages on it.
    has_room: fn(u16, u64, u64) -> bool,
    /// Returns true if a message of a lane is lost, by its place on it.
    is_lost: fn(u16, u64) -> bool,
}

const WAY: Way = Way { lanes: 4, has_room: |_, _, _| true, is_lost: |_, _| false };

/// Reports of both ends of a session over a way.
fn meet(typed: &str, way: &Way) -> [EndpointReport; 2] {
    let task = session(typed);
    let promised = match way.lanes {
        4 => Guarantees { lanes: 4, ..Guarantees::DATAGRAMS },
        _ => Guarantees::BYTE_STREAM,
    };
    let (mut near, mut far) =
        (task.half(part(Side::Near, promised)), task.half(part(Side::Far, promised)));
    let mut out = vec![0; task.info().largest_message];
    let mut under_way: BTreeMap<(Nanos, u64), (Lane, Vec<u8>)> = BTreeMap::new();
    let (mut now, mut sent) = (Nanos(MS), [0u64; 4]);
    let start = now;
    loop {
        while let Some(first) = under_way.first_entry().filter(|first| first.key().0 <= now) {
            let (lane, bytes) = first.remove();
            far.on_message(now, lane, &bytes);
        }
        match near.poll(now, &mut out) {
            Action::Send { lane, len } => {
                let at = usize::from(lane.0);
                if !(way.has_room)(lane.0, (now - start).0 / MS, sent[at]) {
                    let (other, guard) = (near.on_no_room(now), now + Nanos(MS));
                    now = other.map_or(guard, |other| other.min(guard));
                    now = now.max(start);
                    continue;
                }
                if !(way.is_lost)(lane.0, sent[at]) {
                    let key = (now + Nanos(10 * MS), sent.iter().sum());
                    under_way.insert(key, (lane, out[..len].to_vec()));
                }
                sent[at] += 1;
                near.on_sent(now);
            }
            Action::Wait(until) => {
                let next = under_way.first_key_value().map(|((at, _), _)| *at);
                now = until.into_iter().chain(next).min().unwrap().max(now + Nanos(1));
            }
            Action::Done => break,
            action => panic!("{action:?}"),
        }
    }
    for ((at, _), (lane, bytes)) in under_way {
        far.on_message(at, lane, &bytes);
        now = at;
    }
    far.on_event(now, FlowEvent::PeerFinished { sent: near.standing(now).sent });
    [near.report(now), far.report(now)]
}

fn findings(typed: &str, [near, far]: [EndpointReport; 2]) -> Measurements {
    session(typed).conclude(&Reports {
        near: &[near],
        far: &[far],
        near_conns: &[ConnStats::default()],
        far_conns: &[ConnStats::default()],
        guarantees: &LANES,
        clocks: Clocks::Shared,
    })
}

fn ms(found: &Measurements, name: &str) -> f64 {
    found.metrics[name] / MS as f64
}

#[test]
fn on_an_even_path_each_part_has_its_least() {
    let typed = "share:pen=100,pose=50,count=200,picture=117200,pictures=2";
    let found = findings(typed, meet(typed, &WAY));
    assert_eq!(found.why_invalid, None);
    for name in ["pen_mean_ns", "pen_p50_ns", "pen_p99_ns", "pen_max_ns", "picture_max_ns"] {
        assert_eq!(ms(&found, name), 10.0, "{name}");
    }
    // The delay and half a period; at the most a whole one.
    assert!((ms(&found, "pose_age_mean_ns") - 20.0).abs() < 1e-6);
    assert_eq!(ms(&found, "pose_age_max_ns"), 30.0);
    assert_eq!(found.metrics["voice_gap_share"], 0.0);
    assert_eq!(found.metrics["picture_unfinished_share"], 0.0);
    let up = found.ledger.up.unwrap();
    // 200 points, 100 poses, 100 frames, and two pictures of a hundred messages.
    assert_eq!((up.sent, up.delivered, up.corrupted), (600, 600, Some(0)));
    assert_eq!(found.paced[0].pacing.slots, 400, "pictures have no schedule");
}

#[test]
fn what_a_part_loses_is_its_own() {
    let typed = "share:count=200";
    // Every tenth frame and pose.
    let lossy = Way { is_lost: |lane, place| (1..=2).contains(&lane) && place % 10 == 5, ..WAY };
    let found = findings(typed, meet(typed, &lossy));
    assert_eq!(ms(&found, "pen_max_ns"), 10.0);
    assert!((found.metrics["voice_gap_share"] - 0.1).abs() < 1e-9);
    assert!(found.metrics["voice_late_share"] < 1e-9);
    assert!(ms(&found, "pose_age_max_ns") > 10.0 + 2.0 * 11.0);
    assert_eq!(found.ledger.up.unwrap().lost_on_path, 10 + 18);
}

/// The picture's connection is full for half a second, and takes a message each millisecond then.
#[test]
fn a_full_lane_holds_up_nobody_elses() {
    let typed = "share:count=100,picture=117200";
    let slow = Way { has_room: |lane, ms, sent| lane != 0 || ms >= 500 + sent, ..WAY };
    let found = findings(typed, meet(typed, &slow));
    assert!((605.0..615.0).contains(&ms(&found, "picture_mean_ns")), "{:?}", found.metrics);
    assert_eq!(ms(&found, "pen_max_ns"), 10.0);
    assert_eq!(found.metrics["voice_gap_share"], 0.0);
    assert_eq!(found.paced[0].pacing.missed_no_room, 0);
}

/// The pen has no room for 300 ms while the picture has: both go on, and neither waits for the other for long.
#[test]
fn a_full_pen_is_tried_again_beside_a_picture_that_goes_on() {
    let typed = "share:count=100,picture=1MB";
    let full = Way {
        has_room: |lane, ms, sent| match lane {
            3 => !(100..400).contains(&ms),
            0 => ms >= sent / 2,
            _ => true,
        },
        ..WAY
    };
    let found = findings(typed, meet(typed, &full));
    let slowest = ms(&found, "pen_max_ns");
    assert!((300.0..315.0).contains(&slowest), "{slowest}");
    assert_eq!(found.metrics["pen_undelivered_share"], 0.0);
    // 853 messages, two each millisecond.
    assert!((430.0..445.0).contains(&ms(&found, "picture_mean_ns")), "{:?}", found.metrics);
}

/// One lane for all takes three messages each millisecond: the picture fills it, and what is live goes first.
#[test]
fn what_is_live_goes_before_the_rest_of_a_picture() {
    let typed = "share:count=100,picture=1MB";
    let shared = Way { lanes: 1, has_room: |_, ms, sent| sent / 3 <= ms, ..WAY };
    let found = findings(typed, meet(typed, &shared));
    let slowest = ms(&found, "pen_max_ns");
    assert!((10.0..12.5).contains(&slowest), "{slowest}");
    assert!(ms(&found, "picture_mean_ns") > 300.0);
}

#[test]
fn a_peer_that_ends_leaves_nothing_to_send() {
    let task = session("share:count=20");
    let mut near = task.half(part(Side::Near, LANES));
    let mut out = vec![0; task.info().largest_message];
    assert!(matches!(near.poll(Nanos(MS), &mut out), Action::Send { .. }));
    near.on_event(Nanos(MS), FlowEvent::Closed);
    assert_eq!(near.poll(Nanos(MS), &mut out), Action::Done);
    assert!(near.has_sent_all());
}

#[test]
fn what_is_of_no_part_counts_as_damaged() {
    let task = session("share:count=20,pictures=0");
    let mut far = task.half(part(Side::Far, LANES));
    let mut bytes = [0; 48];
    let kinds = [
        PartKind::Pen.number(20),
        PartKind::Picture.number(0),
        u64::MAX,
        PartKind::Voice.number(1 << 40),
    ];
    for (seq, number) in (0..).zip(kinds) {
        deadheat_contract::workload::header::Header { tag: 7, seq }.write(&mut bytes);
        parts::write(&mut bytes, number);
        far.on_message(Nanos(MS), Lane(0), &bytes);
    }
    assert_eq!(far.standing(Nanos(MS)).received.corrupted, 4);
    far.on_event(Nanos(MS), FlowEvent::Closed);
    assert!(far.report(Nanos(MS)).figures.is_empty());
}

/// One lane for all is full for half a second: what waits for room is not its sender's fault.
#[test]
fn parts_that_wait_for_the_same_room_are_not_late() {
    let typed = "share:count=100,pictures=0";
    let full = Way { lanes: 1, has_room: |_, ms, _| !(200..700).contains(&ms), ..WAY };
    let found = findings(typed, meet(typed, &full));
    let pacing = &found.paced[0].pacing;
    assert_eq!((pacing.late, pacing.missed_no_time), (0, 0), "{pacing:?}");
    // Each kind keeps the one that waited; 24 frames and 44 poses are skipped behind it, one or two more or less.
    assert!((64..=70).contains(&pacing.missed_no_room), "{pacing:?}");
    assert_eq!(found.metrics["pen_undelivered_share"], 0.0);
    assert!((500.0..511.0).contains(&ms(&found, "pen_max_ns")));
}
