//! Settings that are accepted, and those that are refused.

use super::*;
use crate::paced::pacer::tests::part;
use deadheat_base::units::BitRate;
use deadheat_contract::contract::{Action, Offer, Offers, PeerFacts, Side};
use deadheat_contract::workload::header::Header;
use deadheat_contract::workload::{self, Bounds, LanesApart, Part, PathKind, SharedTask};

/// Returns a path of which these rates are known, up and down.
fn rates(up: Option<u64>, down: Option<u64>) -> Setting {
    let bounds = |rate: Option<u64>| Bounds { delay: None, rate: rate.map(BitRate) };
    Setting { up: bounds(up), down: bounds(down), ..Setting::LOOPBACK }
}

fn task(typed: &str) -> Box<dyn Task> {
    workload::parse(typed).unwrap()
}

const OTHERS: &[Offer] = &[
    Offer { service: Service::UNORDERED, largest_message: None },
    Offer { service: Service::BEST_EFFORT, largest_message: Some(1_400) },
];
const LANES: Guarantees =
    Guarantees { lanes: 8, others: Offers::of(OTHERS), ..Guarantees::BYTE_STREAM };

#[test]
fn each_kind_has_a_lane_where_there_are_two() {
    let lanes = |typed: &str, promised: &Guarantees| task(typed).lanes(promised);
    assert_eq!(lanes("events", &Guarantees::BYTE_STREAM), [Service::ORDERED]);
    assert_eq!(lanes("events", &LANES), [Service::ORDERED, Service::ORDERED]);
    assert_eq!(lanes("events:order=none", &LANES), [Service::ORDERED, Service::UNORDERED]);
    let latest = "events:service=latest";
    assert_eq!(lanes(latest, &LANES), [Service::BEST_EFFORT, Service::ORDERED]);
}

#[test]
fn what_does_not_keep_its_promise_is_not_applicable() {
    let why = |typed: &str, promised: &Guarantees| {
        workload::misfit(&*task(typed), promised, PeerFacts::OURS).unwrap_or_default()
    };
    assert_eq!(why("events", &Guarantees::BYTE_STREAM), "");
    assert_eq!(why("events:service=latest,order=none", &LANES), "");
    assert!(why("events", &Guarantees::DATAGRAMS).contains("no lane that is reliable, ordered"));
    assert!(why("events:order=none", &Guarantees::BYTE_STREAM).contains("reliable, unordered"));
    assert!(why("events:service=latest", &Guarantees::BYTE_STREAM).contains("has no lanes"));
    assert!(why("events:service=latest,state-size=2kB", &LANES).contains("1400 bytes"));
    let echo = workload::misfit(&*task("events"), &LANES, PeerFacts::ECHO);
    assert!(echo.unwrap().contains("only echoes"));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let say = |typed: &str| workload::parse(typed).err().unwrap().to_string();
    assert!(say("events:events=max").contains("give a rate"));
    assert!(say("events:size=19").contains("outside"));
    assert!(say("events:hz=1001").contains("outside"));
    let on = |setting: Setting| workload::parse_on("events", &setting).err().unwrap().to_string();
    let elsewhere = Setting { kind: PathKind::Remote, ..Setting::LOOPBACK };
    assert!(workload::parse_on("events", &elsewhere).is_ok(), "clocks of two hosts are compared");
    // 60 times 200 bytes and 50 times 64 are 121,600 bit/s.
    let narrow = rates(Some(100_000), None);
    assert!(on(narrow).contains("the queue would grow"), "{}", on(narrow));
    let wide = rates(Some(121_600), Some(1));
    assert!(workload::parse_on("events", &wide).is_ok());
}

#[test]
fn what_it_says_of_itself_is_the_same_work_again() {
    let spec = task("events:events=5pps,arrivals=constant").info().spec.clone();
    assert_eq!(task(&spec.to_string()).info().spec, spec);
    assert_eq!(task("events").info().lengths.map(|lengths| lengths.fewest), Some(ENOUGH));
    assert_eq!(task("events:claim=p99").info().lengths.map(|l| l.fewest), Some(ENOUGH_FOR_P99));
    assert_eq!(task("events:count=50").info().planned, Some(Nanos::from_secs(1)));
}

#[test]
fn both_kinds_go_in_the_order_of_their_times() {
    let settings = Settings::check(&Spec::parse("events:count=20").unwrap(), KEYS).unwrap();
    let paced = super::task(settings).unwrap();
    let due: Vec<Due> = paced.work.messages(9).collect();
    assert_eq!(due.iter().filter(|due| due.is_event).count(), 20);
    assert_eq!(due.len() as u64, 20 + 24);
    assert!(due.windows(2).all(|two| two[0].at <= two[1].at && two[0].seq + 1 == two[1].seq));
    let lanes = [Service::BEST_EFFORT, Service::ORDERED];
    let plan = paced.work.plan(&paced.pace, &lanes, 9).unwrap();
    assert_eq!(plan.count, 44);
    for (slot, due) in plan.slots.zip(&due) {
        let lane = Lane(u16::from(due.is_event));
        assert_eq!((slot.due, slot.place), (due.at, Some((due.seq, lane))));
        assert_eq!(slot.len, if due.is_event { 64 } else { 200 });
    }
}

/// Returns the messages of a sending half, by number, lane and time.
fn messages(task: &dyn Task, flow: u16) -> Vec<(u64, u16, Nanos)> {
    let part = Part { flow, ..part(Side::Near, Guarantees { lanes: 2, ..LANES }) };
    let (mut half, mut now, mut all) = (task.half(part), Nanos::ZERO, Vec::new());
    let mut out = vec![0; 256];
    loop {
        match half.poll(now, &mut out) {
            Action::Send { lane, .. } => {
                all.push((Header::read(&out).unwrap().seq, lane.0, now));
                half.on_sent(now);
            }
            Action::Wait(Some(at)) => now = at,
            Action::Done => break,
            _ => panic!("neither a message nor a time"),
        }
    }
    assert_eq!(half.report(now).pacing.unwrap().slots, all.len() as u64);
    all
}

#[test]
fn events_may_be_alone() {
    let alone = task("events:hz=0,count=20");
    assert!(!alone.info().headline.contains("state"), "{}", alone.info().headline);
    let all = messages(&*alone, 0);
    assert_eq!(all.len(), 20);
    assert!(all.iter().zip(0..).all(|((seq, lane, _), at)| (*seq, *lane) == (at, 1)));
}

#[test]
fn each_far_end_gets_the_messages_of_its_lanes_at_the_times_of_the_whole() {
    let whole = SharedTask::parse("events:count=20").unwrap();
    assert_eq!(LanesApart::misfit(whole.info()), None);
    let sets = [1, 0].map(|lane| LaneSet::of([Lane(lane)]));
    let apart = LanesApart::new(whole.clone(), sets.to_vec());
    let info = apart.info();
    assert_eq!((info.receivers, info.flows.len()), (2, 2));
    assert_eq!(info.most_bytes, whole.info().most_bytes.map(|bytes| 2 * bytes));
    let [events, state] = [0, 1].map(|flow| messages(&apart, flow));
    assert!(events.len() == 20 && events.iter().all(|(_, lane, _)| *lane == 1));
    let mut both = [events, state].concat();
    both.sort_unstable();
    assert_eq!(both, messages(&*whole, 0));
    for (work, why) in [
        ("state", "of all lanes together"),
        ("streams", "of all lanes together"),
        ("events:receivers=2", "leave out receivers"),
        ("events:load=none,load-from=1s", "leave out load-from"),
    ] {
        let said = LanesApart::misfit(workload::parse(work).unwrap().info()).unwrap_or_default();
        assert!(said.contains(why), "{work}: {said}");
    }
}
