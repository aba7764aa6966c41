//! Sessions over paths that are easy to compute, and settings that are refused.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use super::*;
use crate::paced::pacer::tests::part;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Action, Exchange, Lane, Offer, Offers};
use deadheat_contract::measurements::ConnStats;
use deadheat_contract::workload::{self, Clocks, FlowEvent};

const MS: u64 = 1_000_000;

const OTHERS: &[Offer] = &[Offer { service: Service::BEST_EFFORT, largest_message: Some(1_400) }];
const LANES: Guarantees =
    Guarantees { lanes: 8, others: Offers::of(OTHERS), ..Guarantees::BYTE_STREAM };

/// Queues of the server, by flow and class, of at most so many bytes, and the flows that have left.
struct Queues {
    queues: Vec<Vec<VecDeque<Vec<u8>>>>,
    most: Vec<usize>,
    left: Vec<bool>,
}

/// Member of an exchange in virtual time.
struct Member {
    all: Arc<Mutex<Queues>>,
    own: usize,
}

impl Exchange for Member {
    fn hand_on(&mut self, class: usize, message: &[u8]) -> u64 {
        let Queues { queues, most, .. } = &mut *self.all.lock().unwrap();
        let others = queues.iter_mut().enumerate().filter(|(flow, _)| *flow != self.own);
        let mut lost = 0;
        for (_, queues) in others {
            queues[class].push_back(message.to_vec());
            let used = |queue: &VecDeque<Vec<u8>>| -> usize {
                queue.iter().map(|message| forwarder::room(message.len()) as usize).sum()
            };
            while used(&queues[class]) > most[class] {
                queues[class].pop_front();
                lost += 1;
            }
        }
        lost
    }

    fn take(&mut self, class: usize, out: &mut [u8]) -> Option<usize> {
        let message = self.all.lock().unwrap().queues[self.own][class].pop_front()?;
        out[..message.len()].copy_from_slice(&message);
        Some(message.len())
    }

    fn leave(&mut self) {
        self.all.lock().unwrap().left[self.own] = true;
    }

    fn is_last(&self) -> bool {
        let all = self.all.lock().unwrap();
        all.left.iter().enumerate().all(|(flow, left)| *left || flow == self.own)
    }
}

/// Path of each flow and side that sends, which delays messages, may lose them, or have no room for them.
struct Way {
    ms: fn(u16, Side) -> u64,
    /// Returns true if a message is lost, by its lane and its place on it.
    is_lost: fn(u16, Side, u16, u64) -> bool,
    /// Returns true if there is room so many milliseconds after the start.
    has_room: fn(u16, Side, u64) -> bool,
}

const WAY: Way = Way { ms: |_, _| 10, is_lost: |_, _, _, _| false, has_room: |_, _, _| true };

/// Message on its way: the flow, the side that it goes to, the lane and the content.
type Message = (u16, Side, Lane, Vec<u8>);

/// One end of one flow.
struct End {
    half: Box<dyn Endpoint>,
    flow: u16,
    side: Side,
    sent: [u64; 4],
    /// Time before which it is not asked again, if it found no room.
    again: Nanos,
    is_told: bool,
    is_done: bool,
}

fn parse(typed: &str) -> Box<dyn Task> {
    workload::parse(typed).unwrap()
}

fn ends(task: &dyn Task) -> Vec<End> {
    let people = task.info().people.clone().unwrap();
    let at_server: Vec<u16> = (0..people.far.len() as u16)
        .filter(|node| people.hands_on(Side::Far, *node))
        .flat_map(|node| people.flows_of(Side::Far, node))
        .collect();
    let queues = vec![vec![VecDeque::new(); people.queues.len()]; at_server.len()];
    let (most, left) = (people.queues.clone(), vec![false; at_server.len()]);
    let all = Arc::new(Mutex::new(Queues { queues, most, left }));
    let flows =
        (0..people.flows.len() as u16).flat_map(|flow| [(flow, Side::Near), (flow, Side::Far)]);
    let end = |(flow, side)| {
        let own = at_server.iter().position(|one| *one == flow).filter(|_| side == Side::Far);
        let member = own.map(|own| Member { all: Arc::clone(&all), own });
        let exchange = member.map(|member| Box::new(member) as Box<dyn Exchange>);
        let half = task.half(Part { flow, exchange, ..part(side, LANES) });
        let (sent, again) = ([0; 4], Nanos::ZERO);
        End { half, flow, side, sent, again, is_told: false, is_done: false }
    };
    flows.map(end).collect()
}

/// Runs a session over a way, and returns its figures.
fn meet(typed: &str, way: &Way) -> Measurements {
    let task = parse(typed);
    let mut ends = ends(&*task);
    let mut out = vec![0; task.info().largest_message];
    let mut under_way: BTreeMap<(Nanos, u64), Message> = BTreeMap::new();
    let (mut now, mut count) = (Nanos(MS), 0);
    let start = now;
    while !ends.iter().all(|end| end.is_done) {
        while let Some(first) = under_way.first_entry().filter(|first| first.key().0 <= now) {
            let (flow, side, lane, bytes) = first.remove();
            let end = ends.iter_mut().find(|end| end.flow == flow && end.side == side).unwrap();
            end.half.on_message(now, lane, &bytes);
        }
        let mut next = under_way.first_key_value().map_or(now + Nanos(MS), |((at, _), _)| *at);
        for end in &mut ends {
            while end.again <= now {
                let (lane, len) = match end.half.poll(now, &mut out) {
                    Action::Send { lane, len } => (lane, len),
                    Action::Wait(until) => {
                        next = until.map_or(next, |until| next.min(until.max(now + Nanos(1))));
                        break;
                    }
                    action => {
                        assert_eq!(action, Action::Done);
                        end.is_done = true;
                        break;
                    }
                };
                if !(way.has_room)(end.flow, end.side, (now - start).0 / MS) {
                    let others = end.half.on_no_room(now);
                    end.again =
                        others.unwrap_or(now + Nanos(MS)).clamp(now + Nanos(1), now + Nanos(MS));
                    continue;
                }
                let place = &mut end.sent[usize::from(lane.0)];
                if !(way.is_lost)(end.flow, end.side, lane.0, *place) {
                    let at = now + Nanos((way.ms)(end.flow, end.side) * MS);
                    let message = (end.flow, end.side.other(), lane, out[..len].to_vec());
                    under_way.insert((at, count), message);
                }
                (*place, count) = (*place + 1, count + 1);
                end.half.on_sent(now);
            }
        }
        pass_on(&mut ends, now);
        let soonest = under_way.first_key_value().map(|((at, _), _)| *at);
        let again = ends.iter().map(|end| end.again).filter(|at| *at > now).min();
        now = soonest.into_iter().chain(again).fold(next, Nanos::min).max(now + Nanos(1));
        assert!(now < start + Nanos::from_secs(20), "it does not end");
    }
    let [near, far] = [Side::Near, Side::Far].map(|side| {
        let halves = ends.iter_mut().filter(|end| end.side == side);
        halves.map(|end| end.half.report(now)).collect::<Vec<_>>()
    });
    let conns = vec![ConnStats::default(); near.len()];
    task.conclude(&Reports {
        near: &near,
        far: &far,
        near_conns: &conns,
        far_conns: &conns,
        guarantees: &LANES,
        clocks: Clocks::Shared,
    })
}

/// Reports to each end what its peer has sent, as control does: to the far ends once all near ones have sent all.
fn pass_on(ends: &mut [End], now: Nanos) {
    let near_is_over = ends.iter().all(|end| end.side == Side::Far || end.half.has_sent_all());
    for at in 0..ends.len() {
        let (flow, side) = (ends[at].flow, ends[at].side.other());
        let peer = ends.iter_mut().find(|end| end.flow == flow && end.side == side).unwrap();
        let is_over = if side == Side::Near { near_is_over } else { peer.half.has_sent_all() };
        let sent = peer.half.standing(now).sent;
        if is_over && !ends[at].is_told {
            ends[at].is_told = true;
            ends[at].half.on_event(now, FlowEvent::PeerFinished { sent });
        }
    }
}

fn ms(found: &Measurements, name: &str) -> f64 {
    found.metrics[name] / MS as f64
}

const SMALL: &str = "count=100,picture=20kB,service=latest";

#[test]
fn each_way_takes_its_hops_and_has_its_uploads() {
    let upload = |found: &Measurements, who: &str| found.metrics[&format!("upload_{who}_bps")];
    let peers = meet(&format!("session:via=peers,{SMALL}"), &WAY);
    let server = meet(&format!("session:via=server,{SMALL}"), &WAY);
    let mix = meet(&format!("session:via=mix,{SMALL}"), &WAY);
    for found in [&peers, &server, &mix] {
        assert_eq!(found.why_invalid, None);
        assert_eq!(found.metrics["pen_undelivered_share"], 0.0);
        assert_eq!(found.metrics["picture_unfinished_share"], 0.0);
        assert!(found.ledger.accounts().all(|(_, account)| account.closes()));
    }
    for (found, live, whole) in [(&peers, 10.0, 10.0), (&server, 20.0, 20.0), (&mix, 10.0, 20.0)] {
        assert_eq!((ms(found, "pen_mean_ns"), ms(found, "pen_3_to_1_mean_ns")), (whole, whole));
        assert_eq!(ms(found, "picture_max_ns"), whole);
        // The delay and half a period.
        assert!((ms(found, "pose_1_to_2_age_mean_ns") - live - 1e3 / 180.0).abs() < 0.1);
    }
    let one = upload(&server, "1");
    assert!((upload(&peers, "1") / one - 2.0).abs() < 0.01);
    assert!((server.metrics[SERVER_UPLOAD] / one - 6.0).abs() < 0.01);
    assert!(mix.metrics[SERVER_UPLOAD] < server.metrics[SERVER_UPLOAD]);
    assert_eq!(server.metrics[LOST], 0.0);
    assert!(!peers.metrics.contains_key(SERVER_UPLOAD));
}

#[test]
fn the_worst_pair_is_the_figure() {
    // The third person is far from the server.
    let far = Way { ms: |flow, _| if flow == 2 { 60 } else { 10 }, ..WAY };
    let found = meet(&format!("session:{SMALL}"), &far);
    assert_eq!(ms(&found, "pen_mean_ns"), 70.0);
    assert_eq!((ms(&found, "pen_1_to_2_mean_ns"), ms(&found, "pen_2_to_3_mean_ns")), (20.0, 70.0));
    assert!(
        found.metrics["voice_rating_share"] <= 1.0 - found.metrics["voice_impairment_share"] + 1e-9
    );
}

#[test]
fn what_one_person_loses_the_others_miss_of_that_person_alone() {
    // Every tenth frame and pose on the second person's way to the server.
    let is_lost = |flow, side, lane, place: u64| {
        flow == 1 && side == Side::Near && (1..=2).contains(&lane) && place % 10 == 5
    };
    let found = meet(&format!("session:{SMALL}"), &Way { is_lost, ..WAY });
    assert!((found.metrics["voice_gap_share"] - 0.1).abs() < 1e-9);
    let of = |pair: &str| found.metrics[&format!("voice_{pair}_impairment_share")];
    assert_eq!(
        (of("1_to_2"), of("1_to_3"), of("3_to_1")),
        (of("3_to_2"), of("3_to_1"), of("3_to_2"))
    );
    assert!(of("2_to_1") > 2.0 * of("1_to_2") && of("2_to_1") == of("2_to_3"));
    let [up, down] = [found.ledger.up.unwrap(), found.ledger.down.unwrap()];
    assert_eq!((up.lost_on_path, down.lost_on_path), (5 + 9, 0));
}

#[test]
fn a_person_of_whom_nothing_arrives_makes_the_trial_invalid_by_name() {
    let is_lost = |flow, side, _, _| flow == 2 && side == Side::Near;
    let typed = format!("session:{SMALL}");
    let why = meet(&typed, &Way { is_lost, ..WAY }).why_invalid.unwrap();
    assert!(why.contains("person 3 arrived at person 1"), "{why}");
}

/// The server has no room towards the third person for half a second: it drops old poses and frames for that person, all
/// of the pen arrives, and the figures of the others stay.
#[test]
fn a_slow_person_holds_up_nobody_else() {
    let has_room = |flow, side, ms| flow != 2 || side == Side::Near || !(200..700).contains(&ms);
    let found = meet(&format!("session:{SMALL},pictures=0"), &Way { has_room, ..WAY });
    assert_eq!(found.why_invalid, None);
    assert!(found.metrics[LOST] > 0.02, "{:?}", found.metrics);
    assert_eq!(found.metrics["pen_undelivered_share"], 0.0);
    assert!((500.0..=521.0).contains(&ms(&found, "pen_max_ns")), "{:?}", found.metrics);
    assert_eq!(ms(&found, "pen_1_to_2_mean_ns"), 20.0);
    assert!(found.metrics["voice_gap_share"] > 0.1);
}

#[test]
fn nodes_and_flows_follow_from_the_way() {
    let people = |typed: &str| parse(typed).info().people.clone().unwrap();
    let server = people("session:people=4");
    assert_eq!((server.near.len(), server.far, server.flows.len()), (4, vec![NodeHost::Server], 4));
    let peers = people("session:people=3,via=peers");
    assert_eq!(
        (peers.near.len(), peers.far.len(), peers.flows),
        (2, 2, vec![[0, 0], [0, 1], [1, 1]])
    );
    let mix = people("session:people=3,via=mix");
    assert_eq!((mix.near.len(), mix.far.len(), mix.flows.len()), (3, 3, 6));
    assert_eq!(mix.flows_of(Side::Far, 2), [3, 4, 5]);
    assert!(
        mix.hands_on(Side::Far, 2) && !mix.hands_on(Side::Far, 1) && !mix.hands_on(Side::Near, 2)
    );
    assert_eq!(parse("session").info().metrics[0].name, "pen_mean_ns");
}

#[test]
fn what_it_says_of_itself_is_the_same_work_again() {
    for typed in ["session", "session:people=2,via=peers,claim=voice", "session:via=mix"] {
        let spec = parse(typed).info().spec.clone();
        assert_eq!(parse(&spec.to_string()).info().spec, spec);
    }
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let say = |typed: &str, kind| {
        let setting = Setting { kind, ..Setting::LOOPBACK };
        workload::parse_on(typed, &setting).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let here = PathKind::Loopback;
    assert!(say("session:people=9", here).contains("outside"));
    assert!(say("session:via=relay", here).contains("peers"));
    assert!(say("session:pictures=0,claim=picture", here).contains("session: claim=picture"));
    assert!(say("session:picture=40MB", here).contains("wait at the server"));
    assert_eq!(say("session", PathKind::Simulated), "");
    assert_eq!(say("session", PathKind::Remote), "");
    let peers = say("session:via=peers", PathKind::Remote);
    assert!(peers.contains("via=server") && peers.contains("people=a/b/c"), "{peers}");
    assert!(!say("session:via=mix", PathKind::Remote).is_empty());
    assert_eq!(say("session:people=2,via=peers", PathKind::Remote), "");
}
