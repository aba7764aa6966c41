use std::collections::VecDeque;

use super::*;
use deadheat_contract::contract::{Action, Lane};
use deadheat_contract::measurements::{ConnStats, Ledger};
use deadheat_contract::workload;
use deadheat_contract::workload::{Clocks, FlowEvent, PathKind};

const MS: u64 = 1_000_000;

fn task(typed: &str) -> ConnectTask {
    let settings = Settings::check(&Spec::parse(typed).unwrap(), KEYS).unwrap();
    ConnectTask::new(settings, &Setting::LOOPBACK)
}

/// Both halves with a way between them that takes 5 ms each way, and handshakes of `set_up` ms each, of which
/// the message of each number that `lost` names is lost on its way up.
fn race(
    task: &ConnectTask,
    set_up: impl Fn(u64) -> u64,
    lost: &[u64],
) -> [workload::EndpointReport; 2] {
    let (mut near, mut far) = (ConnectSender::new(task, 7, false), Answerer::new(task, 7));
    let mut out = vec![0; task.info().largest_message];
    let mut under_way: VecDeque<(Nanos, Side, Vec<u8>)> = VecDeque::new();
    let (mut now, mut opened, mut sent) = (Nanos(MS), 0, 0);
    loop {
        while under_way.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, to, bytes) = under_way.pop_front().unwrap();
            match to {
                Side::Near => near.on_message(now, Lane(0), &bytes),
                Side::Far => far.on_message(now, Lane(0), &bytes),
            }
        }
        if let Action::Send { len, .. } = far.poll(now, &mut out) {
            under_way.push_back((now + Nanos(5 * MS), Side::Near, out[..len].to_vec()));
            far.on_sent(now);
        }
        match near.poll(now, &mut out) {
            Action::Open => {
                now += Nanos(set_up(opened) * MS);
                far.on_event(now, FlowEvent::Opened { set_up: Nanos::ZERO });
                near.on_event(now, FlowEvent::Opened { set_up: Nanos(set_up(opened) * MS) });
                opened += 1;
            }
            Action::Send { len, .. } => {
                if !lost.contains(&sent) {
                    under_way.push_back((now + Nanos(5 * MS), Side::Far, out[..len].to_vec()));
                }
                sent += 1;
                near.on_sent(now);
            }
            Action::Wait(until) => {
                let next = under_way.front().map(|(at, ..)| *at);
                now = next.into_iter().chain(until).min().unwrap();
            }
            Action::Done => {
                far.on_event(now, FlowEvent::PeerFinished { sent: near.standing(now).sent });
                return [near.report(now), far.report(now)];
            }
            action => panic!("{action:?}"),
        }
    }
}

fn findings(task: &ConnectTask, [near, far]: [workload::EndpointReport; 2]) -> Measurements {
    task.conclude(&Reports {
        near: &[near],
        far: &[far],
        near_conns: &[ConnStats::default()],
        far_conns: &[ConnStats::default()],
        guarantees: &Guarantees::DATAGRAMS,
        clocks: Clocks::Shared,
    })
}

#[test]
fn the_first_byte_comes_after_set_up_and_exchange() {
    let task = task("connect:count=30");
    // Twenty of 3 ms and ten of 9 ms.
    let found = findings(&task, race(&task, |nth| if nth < 20 { 3 } else { 9 }, &[]));
    let ms = |name: &str| found.metrics[name] / MS as f64;
    assert_eq!(
        (ms("first_byte_p50_ns"), ms("set_up_p50_ns"), ms("exchange_p50_ns")),
        (13.0, 3.0, 10.0)
    );
    assert_eq!((ms("first_byte_mean_ns"), ms("first_byte_max_ns")), (15.0, 19.0));
    assert_eq!(found.metrics["asked_again_share"], 0.0);
    assert!(!found.metrics.contains_key("first_byte_p99_ns"), "ten beyond it take a thousand");
    let up = found.ledger.up.unwrap();
    assert_eq!((up.sent, up.delivered, up.lost_on_path), (30, 30, 0));
    assert_eq!(found.why_invalid, None);
}

#[test]
fn a_request_that_is_lost_is_asked_again_and_its_wait_counts() {
    let task = task("connect:count=20,retry=200ms");
    let found = findings(&task, race(&task, |_| 0, &[4, 9, 10]));
    // The eleventh request is the second of its connection, and lost like the first.
    assert_eq!(found.metrics["first_byte_max_ns"] / MS as f64, 410.0);
    assert_eq!(found.metrics["asked_again_share"], 3.0 / 20.0);
    let (up, down) = (found.ledger.up.unwrap(), found.ledger.down.unwrap());
    assert_eq!((up.sent, up.delivered, up.lost_on_path, down.sent), (23, 20, 3, 20));
}

#[test]
fn an_answer_to_an_earlier_connection_is_none_to_this_one() {
    let task = task("connect:count=20");
    let mut near = ConnectSender::new(&task, 7, false);
    let mut out = vec![0; 64];
    near.on_event(Nanos(0), FlowEvent::Opened { set_up: Nanos(0) });
    for at in [0, 2_000 * MS] {
        assert!(matches!(near.poll(Nanos(at), &mut out), Action::Send { .. }));
        near.on_sent(Nanos(at));
    }
    let answer = |seq| {
        let mut bytes = [0; 64];
        header::Header { tag: 7, seq }.write(&mut bytes);
        bytes
    };
    near.on_message(Nanos(2_001 * MS), Lane(0), &answer(1));
    assert_eq!(near.poll(Nanos(2_001 * MS), &mut out), Action::Open);
    near.on_event(Nanos(2_002 * MS), FlowEvent::Opened { set_up: Nanos(0) });
    assert!(matches!(near.poll(Nanos(2_002 * MS), &mut out), Action::Send { .. }));
    near.on_sent(Nanos(2_002 * MS));
    // The answer to the first request of all, and ones to requests that nobody made.
    near.on_message(Nanos(2_003 * MS), Lane(0), &answer(0));
    near.on_message(Nanos(2_003 * MS), Lane(0), &answer(9));
    assert!(matches!(near.poll(Nanos(2_003 * MS), &mut out), Action::Wait(Some(_))));
    assert_eq!(near.standing(Nanos(0)).received.foreign, 1);
    near.on_message(Nanos(2_004 * MS), Lane(0), &answer(2));
    assert_eq!(near.poll(Nanos(2_004 * MS), &mut out), Action::Open);
}

#[test]
fn it_says_how_many_connections_it_opens_and_what_it_is() {
    let elsewhere = Setting { kind: PathKind::Remote, ..Setting::LOOPBACK };
    let remote = workload::parse_on("connect:count=20", &elsewhere).unwrap();
    assert_eq!(remote.info().connections, 21, "and the one that the trial begins with");
    let task = workload::parse("connect:claim=p99,pause=1ms").unwrap();
    assert!(task.info().spec.to_string().contains("count=1000"), "{}", task.info().spec);
    assert_eq!(
        workload::parse(&task.info().spec.to_string()).unwrap().info().spec,
        task.info().spec
    );
    let kernel = workload::misfit(&*task, &Guarantees::DATAGRAMS, PeerFacts::ECHO);
    assert_eq!(kernel.as_deref(), Some("it has no connections to open"));
    assert_eq!(workload::misfit(&*task, &Guarantees::DATAGRAMS, PeerFacts::OURS), None);
    let connects = PeerFacts { only_connects: true, ..PeerFacts::OTHERS };
    let opener = workload::misfit(&*task, &Guarantees::DATAGRAMS, connects).unwrap();
    assert!(opener.ends_with("claim=set_up fits"), "{opener}");
    let alone = workload::parse("connect:claim=set_up").unwrap();
    assert_eq!(workload::misfit(&*alone, &Guarantees::DATAGRAMS, connects), None);
}

#[test]
fn set_up_alone_asks_nothing_and_needs_nobody_who_answers() {
    let task = task("connect:count=30,claim=set_up");
    assert!(task.info().metrics.iter().all(|metric| metric.name.starts_with("set_up_")));
    let mut near = ConnectSender::new(&task, 7, false);
    let mut out = [0; 64];
    for nth in 0..30 {
        assert_eq!(near.poll(Nanos(MS * nth), &mut out), Action::Open);
        near.on_event(Nanos(MS * nth), FlowEvent::Opened { set_up: Nanos(nth * 100) });
    }
    assert_eq!(near.poll(Nanos(MS * 31), &mut out), Action::Done);
    let report = near.report(Nanos(MS * 31));
    assert_eq!(report.sent.messages, 0);
    let found = findings(&task, [report, workload::EndpointReport::default()]);
    assert_eq!((found.why_invalid, found.ledger), (None, Ledger::default()));
    assert_eq!(found.metrics["set_up_p50_ns"], 1_400.0);
    assert_eq!(found.metrics["set_up_max_ns"], 2_900.0);
    assert_eq!(found.metrics["set_up_mean_ns"], 1_450.0);
}
