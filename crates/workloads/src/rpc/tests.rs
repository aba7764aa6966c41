//! Settings that are accepted and refused, and calls in virtual time.

use super::*;
use crate::paced::pacer::tests::part;
use deadheat_base::units::BitRate;
use deadheat_contract::contract::{Action, Lane};
use deadheat_contract::measurements::Metrics;
use deadheat_contract::workload::header::{DUE_LEN, DocumentPart, Header};
use deadheat_contract::workload::{self, Bounds, EndpointReport, FlowEvent, PathKind};

fn task(typed: &str) -> Box<dyn Task> {
    workload::parse(typed).unwrap()
}

fn calls(typed: &str) -> Calls {
    let settings = Settings::check(&Spec::parse(typed).unwrap(), KEYS).unwrap();
    Calls::new(settings, AnswerSource::Ours)
}

#[test]
fn requests_take_as_many_lanes_as_there_are() {
    let lanes = |typed: &str, most| {
        task(typed).lanes(&Guarantees { lanes: most, ..Guarantees::BYTE_STREAM }).len()
    };
    assert_eq!((lanes("rpc", 1), lanes("rpc", 4), lanes("rpc:lanes=2", 4)), (1, 4, 2));
    let why = |promised: &Guarantees, peer| workload::misfit(&*task("rpc"), promised, peer);
    assert_eq!(why(&Guarantees::BYTE_STREAM, PeerFacts::OURS), None);
    let lossy = why(&Guarantees::DATAGRAMS, PeerFacts::OURS).unwrap();
    assert!(lossy.contains("no lane that is reliable, ordered"), "{lossy}");
    assert!(why(&Guarantees::DATAGRAMS, PeerFacts::ECHO).unwrap().contains("only echoes"));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let say = |typed: &str| workload::parse(typed).err().unwrap().to_string();
    for typed in ["rpc:rate=max", "rpc:rate=1mbit", "rpc:rate=2Mpps"] {
        assert!(say(typed).contains("requests per second"), "{}", say(typed));
    }
    assert!(say("rpc:response=9kB..1kB").contains("the smaller first"));
    assert!(say("rpc:response=0").contains("from 1 byte"));
    assert!(say("rpc:response=9kB~1kB").contains("as 1kB~100kB"));
    assert!(say("rpc:response=1kB~1kB").contains("the smaller first"));
    assert!(say("rpc:response=1kB..").contains("size"));
    assert!(say("rpc:connect=some").contains("connect"));
    assert!(say("rpc:connect=each,count=30001").contains("30000"));
    assert!(say("rpc:connect=each,lanes=4").contains("no lanes to share out"));
    assert!(say("rpc:at-once=4").contains("at a time with connect=each"));
    assert!(say("rpc:connect=each,at-once=129").contains("outside"));
    assert!(workload::parse(&task("rpc:connect=each").info().spec.to_string()).is_ok());
    // A hundred responses a second of 10 kB are 8 Mbit/s, and fifty requests of 60 kB more than that.
    let bounds = Bounds { delay: None, rate: Some(BitRate(7_999_999)) };
    let narrow = Setting { up: bounds, down: bounds, ..Setting::LOOPBACK };
    let refused =
        workload::parse_on("rpc:rate=100pps,response=10kB", &narrow).err().unwrap().to_string();
    assert!(refused.contains("the queue would grow"), "{refused}");
    let asks = workload::parse_on("rpc:request=60kB,response=10", &narrow).err().unwrap();
    assert!(asks.to_string().contains("the queue would grow"));
    let elsewhere = Setting { kind: PathKind::Remote, ..Setting::LOOPBACK };
    assert!(workload::parse_on("rpc", &elsewhere).is_ok(), "one end has all the times");
    let each = workload::parse_on("rpc:connect=each,count=20", &elsewhere).unwrap();
    assert_eq!(each.info().connections, 21, "and the one that the trial begins with");
}

#[test]
fn what_it_says_of_itself_is_the_same_work_again() {
    let spec = task("rpc:rate=50pps,response=2kB").info().spec.clone();
    assert_eq!(task(&spec.to_string()).info().spec, spec);
    assert_eq!(task("rpc").info().lengths.map(|lengths| lengths.fewest), Some(ENOUGH));
    assert_eq!(task("rpc:claim=p95").info().lengths.map(|l| l.fewest), Some(ENOUGH_FOR_P95));
    assert_eq!(task("rpc:claim=p99").info().lengths.map(|l| l.fewest), Some(ENOUGH_FOR_P99));
    assert_eq!(task("rpc:count=50").info().planned, Some(Nanos::from_secs(1)));
    // 99,000 over the logarithm of 100.
    let decades = calls("rpc:response=1kB..100kB,count=10000");
    assert!((decades.response.mean() - 21_497.6).abs() < 0.1);
    let sizes = || decades.requests(3).map(|(_, size)| size);
    assert!((sizes().sum::<u64>() as f64 / 1e4 / 21_497.6 - 1.0).abs() < 0.03);
    assert!(sizes().eq(sizes()));
}

/// Message on its way: its time of arrival, its lane and its bytes.
type Flight = (Nanos, Lane, Vec<u8>);

/// Both halves with 10 ms between them, each way; the far one sends a message each millisecond.
fn run(typed: &str, lanes: u16) -> [EndpointReport; 2] {
    let task = task(typed);
    let promised = Guarantees { lanes, ..Guarantees::BYTE_STREAM };
    let [mut near, mut far] = [Side::Near, Side::Far].map(|side| task.half(part(side, promised)));
    let ms = Nanos::from_millis;
    let (mut up, mut down): (Vec<Flight>, Vec<Flight>) = (Vec::new(), Vec::new());
    let (mut now, mut out, mut busy_until) = (Nanos::from_secs(1), [0; 2000], Nanos::ZERO);
    loop {
        for (at, lane, bytes) in &up {
            if *at == now {
                far.on_message(now, *lane, bytes);
            }
        }
        for (at, lane, bytes) in &down {
            if *at == now {
                near.on_message(now, *lane, bytes);
            }
        }
        up.retain(|one| one.0 > now);
        down.retain(|one| one.0 > now);
        let mut next = now + ms(1_000_000);
        while let action = near.poll(now, &mut out)
            && action != Action::Done
        {
            match action {
                Action::Send { lane, len } => {
                    near.on_sent(now);
                    up.push((now + ms(10), lane, out[..len].to_vec()));
                }
                Action::Wait(at) => {
                    next = next.min(at.unwrap_or(next));
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        if busy_until <= now
            && let Action::Send { lane, len } = far.poll(now, &mut out)
        {
            far.on_sent(now);
            busy_until = now + ms(1);
            down.push((busy_until + ms(10), lane, out[..len].to_vec()));
        }
        if near.has_sent_all() {
            far.on_event(now, FlowEvent::PeerFinished { sent: near.standing(now).sent });
            assert_eq!(far.poll(now, &mut out), Action::Done);
            assert!(far.has_sent_all());
            return [near.report(now), far.report(now)];
        }
        let busy = Some(busy_until).filter(|at| *at > now);
        let flying = up.iter().chain(&down).map(|one| one.0);
        now = flying.chain(busy).chain([next]).min().unwrap().max(now + Nanos(1));
    }
}

#[test]
fn a_response_takes_the_path_twice_and_its_messages() {
    // 3000 bytes are three messages of up to 1180.
    let typed = "rpc:arrivals=constant,rate=10pps,response=3kB,count=20";
    let [near, far] = run(typed, 1);
    assert_eq!(near.figures["first_byte_mean_ns"], 21e6);
    assert_eq!(near.figures["response_mean_ns"], 23e6);
    assert_eq!(near.figures["response_p50_ns"], 23e6);
    assert_eq!(near.figures["unanswered_share"], 0.0);
    assert_eq!((near.sent.messages, near.sent.bytes), (20, 4_000));
    assert_eq!((far.sent.messages, far.sent.bytes), (60, 20 * 3_060));
    assert_eq!((near.received.messages, near.received.bytes), (60, 20 * 3_060));
}

#[test]
fn responses_take_turns_on_lanes_and_follow_each_other_on_one() {
    // A request each millisecond for three messages: the second response begins when the first is through.
    let typed = "rpc:arrivals=constant,rate=1kpps,response=3kB,count=20";
    let one = run(typed, 1)[0].clone();
    let some = run(typed, 8)[0].clone();
    // The last of all messages is there at the same time, 20 times 3 ms and 20 after the first request.
    assert_eq!(one.figures["response_max_ns"], (60 + 20 - 19) as f64 * 1e6);
    assert!(some.figures["response_max_ns"] <= (60 + 20) as f64 * 1e6);
    assert!(some.figures["first_byte_mean_ns"] < one.figures["first_byte_mean_ns"]);
    assert!(some.figures["response_mean_ns"] > one.figures["response_mean_ns"], "all end late");
}

#[test]
fn what_was_not_asked_for_is_damage() {
    let task = task("rpc:response=3kB,count=20");
    let mut near = task.half(part(Side::Near, Guarantees::BYTE_STREAM));
    near.poll(Nanos(0), &mut [0; 2000]);
    let mut message = [0; 100];
    deadheat_contract::workload::header::Header { tag: 7, seq: 0 }.write(&mut message);
    near.on_message(Nanos(1), Lane(0), &message);
    near.on_message(Nanos(1), Lane(0), b"hello");
    let got = near.report(Nanos(1)).received;
    assert_eq!((got.corrupted, got.foreign), (1, 1));
    let mut far = task.half(part(Side::Far, Guarantees::BYTE_STREAM));
    // A request of another length, and one for more than the workload has.
    far.on_message(Nanos(1), Lane(0), &message);
    let mut greedy = [0xff; 200];
    deadheat_contract::workload::header::Header { tag: 7, seq: 1 }.write(&mut greedy);
    far.on_message(Nanos(1), Lane(0), &greedy);
    assert_eq!(far.report(Nanos(1)).received.corrupted, 2);
    assert_eq!(far.poll(Nanos(1), &mut [0; 2000]), Action::Wait(None));
}

/// Returns the figures of flows with these near reports, and which of them are censored.
fn concluded(typed: &str, near: &[EndpointReport]) -> (Metrics, Vec<String>) {
    let guarantees = Guarantees::BYTE_STREAM;
    let reports = Reports {
        near,
        far: &[],
        near_conns: &[],
        far_conns: &[],
        guarantees: &guarantees,
        clocks: Default::default(),
    };
    let findings = task(typed).conclude(&reports);
    (findings.metrics, findings.censored)
}

/// Both halves with 10 ms between them each way, where a handshake takes 20 ms and a token 7 more, which no time counts.
/// The far end sends all of a response at once.
fn redial(typed: &str, answers: impl Fn(u64) -> bool) -> [EndpointReport; 2] {
    let task = task(typed);
    assert!(task.info().reconnects());
    let promised = Guarantees { lanes: 8, ..Guarantees::BYTE_STREAM };
    assert_eq!((task.lanes(&promised).len(), task.info().lane_names.len()), (1, 0));
    let [mut near, mut far] = [Side::Near, Side::Far].map(|side| task.half(part(side, promised)));
    let ms = Nanos::from_millis;
    let (mut now, mut out, mut opened) = (Nanos::from_secs(1), [0; 2000], 0);
    loop {
        match near.poll(now, &mut out) {
            Action::Open => {
                far.on_event(now, FlowEvent::Closed);
                now += ms(27);
                far.on_event(now, FlowEvent::Opened { set_up: Nanos::ZERO });
                near.on_event(now, FlowEvent::Opened { set_up: ms(20) });
                opened += 1;
            }
            Action::Send { lane, len } => {
                near.on_sent(now);
                now += ms(10);
                far.on_message(now, lane, &out[..len]);
                now += ms(10);
                while let Action::Send { lane, len } = far.poll(now, &mut out) {
                    far.on_sent(now);
                    near.on_message(now, lane, &out[..len]);
                    if !answers(opened) {
                        near.on_event(now, FlowEvent::Closed);
                        break;
                    }
                }
            }
            Action::Wait(at) => now = at.unwrap(),
            Action::Done => break,
            other => panic!("{other:?}"),
        }
    }
    far.on_event(now, FlowEvent::PeerFinished { sent: near.standing(now).sent });
    assert_eq!(far.poll(now, &mut out), Action::Done);
    [near.report(now), far.report(now)]
}

#[test]
fn a_request_with_its_own_connection_takes_its_handshake_too() {
    let typed = "rpc:connect=each,arrivals=constant,rate=10pps,response=3kB,count=20";
    let [near, far] = redial(typed, |_| true);
    let (figures, censored) = concluded(typed, std::slice::from_ref(&near));
    for figure in ["response_mean_ns", "response_p50_ns", "response_max_ns", "first_byte_mean_ns"] {
        assert_eq!(figures[figure], 40e6, "{figure}");
    }
    assert!((figures["response_geomean_ns"] / 40e6 - 1.0).abs() < 1e-12);
    // A response of 3 kB ten times a second; each is there before the next is due.
    assert_eq!((figures["offered_bps"], figures["carried_bps"]), (240_000.0, 240_000.0));
    assert_eq!((figures["waited_share"], figures["unanswered_share"]), (0.0, 0.0));
    assert!(censored.is_empty() && !figures.contains_key("response_p95_ns"), "{figures:?}");
    assert_eq!((near.sent.messages, far.sent.messages), (20, 60));
    assert_eq!(near.received.messages, 60);
}

/// A request each 20 ms, of which each takes 40: the nth waits for (n - 1) times 20 ms, whatever tokens take.
#[test]
fn a_request_waits_for_the_connection_before() {
    let typed = "rpc:connect=each,arrivals=constant,rate=50pps,response=1kB,count=20";
    let [near, _] = redial(typed, |_| true);
    let (figures, _) = concluded(typed, &[near]);
    assert_eq!(figures["response_max_ns"], (40 + 19 * 20) as f64 * 1e6);
    assert_eq!(figures["response_mean_ns"], (40.0 + 9.5 * 20.0) * 1e6);
    assert_eq!(figures["waited_share"], 0.95);
}

/// Flows take the requests in turns: the fourth of five slots begins with the fourth request. Times of different sizes.
#[test]
fn several_connections_share_one_schedule_and_its_sizes() {
    let typed = "rpc:connect=each,at-once=5,response=66kB~2MB,rate=5pps,count=200";
    let all: Vec<_> = calls(typed).requests(7).collect();
    let info = task(typed).info().clone();
    assert_eq!((info.flows.len(), info.connections), (5, 41));
    let flow = |flow| {
        let part = Part { flow, seed: 7, ..part(Side::Near, Guarantees::BYTE_STREAM) };
        let mut half = task(typed).half(part);
        half.poll(Nanos::from_secs(1), &mut [0; 2000]);
        // Nothing was answered: everything is given up 30 s after the end of the schedule.
        assert_eq!(half.poll(Nanos::from_secs(71), &mut [0; 2000]), Action::Done);
        half.report(Nanos::from_secs(71))
    };
    let reports: Vec<EndpointReport> = (0..5).map(flow).collect();
    for (flow, report) in reports.iter().enumerate() {
        let times = report.requests.as_ref().unwrap();
        let own: Vec<_> = all.iter().skip(flow).step_by(5).collect();
        assert_eq!(times.asked_bytes, own.iter().map(|(_, size)| size).sum::<u64>());
        let left = own.iter().map(|(due, _)| (Nanos::from_secs(70) - *due).0);
        assert!(times.unfinished_ns.iter().copied().eq(left));
    }
    let (figures, censored) = concluded(typed, &reports);
    assert_eq!(figures["unanswered_share"], 1.0);
    assert_eq!(
        figures["offered_bps"],
        all.iter().map(|one| one.1).sum::<u64>() as f64 * 8.0 / 40.0
    );
    assert_eq!(figures["carried_bps"], 0.0);
    let p95 = figures["response_p95_ns"];
    assert!((67e9..69e9).contains(&p95) && censored.contains(&"response_p95_ns".to_owned()));
}

/// Of ten thousand arrivals, a share of e^-1 is more than the mean gap apart, and a 20th of the responses is smaller than
/// the law's 5th percentile, and a 20th larger than its 95th.
#[test]
fn connections_come_by_a_poisson_process_with_sizes_of_the_law() {
    let calls = calls("rpc:connect=each,at-once=64,response=65536B~2097152B,rate=5pps,count=10000");
    let all: Vec<(Nanos, u64)> = calls.requests(3).collect();
    assert_eq!(
        all,
        calls.requests(3).collect::<Vec<_>>(),
        "all contenders of a block have the same"
    );
    assert_ne!(all, calls.requests(4).collect::<Vec<_>>());
    let gaps: Vec<f64> = all.windows(2).map(|two| (two[1].0 - two[0].0).0 as f64 / 200e6).collect();
    let longer = gaps.iter().filter(|gap| **gap > 1.0).count() as f64 / gaps.len() as f64;
    assert!((longer - (-1.0f64).exp()).abs() < 0.015, "{longer}");
    let mean = all.iter().map(|one| one.1 as f64).sum::<f64>() / 1e4;
    assert!((mean / 645_683.0 - 1.0).abs() < 0.04, "{mean}");
    let beyond = |most: fn(u64) -> bool| all.iter().filter(|one| most(one.1)).count();
    let tails = [beyond(|size| size < 65_536), beyond(|size| size > 2_097_152)];
    assert!(tails.iter().all(|tail| (430..570).contains(tail)), "{tails:?}");
}

#[test]
fn a_connection_that_ends_too_early_leaves_its_request_unanswered() {
    let typed = "rpc:connect=each,arrivals=constant,rate=10pps,response=3kB,count=20";
    let [near, far] = redial(typed, |opened| opened != 7);
    let (figures, censored) = concluded(typed, std::slice::from_ref(&near));
    assert_eq!(figures["unanswered_share"], 1.0 - 19.0 / 20.0);
    // It is in the means with the time that it had until the end, 1.347 s, and the median is exact.
    let given_up = near.requests.as_ref().unwrap().unfinished_ns[0];
    assert_eq!(given_up, 1_347_000_000);
    assert_eq!(figures["response_mean_ns"], (19.0 * 40e6 + 1_347e6) / 20.0);
    let means = ["response_mean_ns", "response_geomean_ns", "response_max_ns"];
    assert!(censored == means && figures["response_p50_ns"] == 40e6, "{censored:?}");
    assert_eq!((near.sent.messages, far.sent.messages, near.received.messages), (20, 58, 58));
}

/// At an origin two messages tell when a document begins and when all of it is here, whatever its length.
#[test]
fn documents_of_an_origin_are_timed_from_when_they_were_due() {
    let setting = Setting { answers: AnswerSource::Origin, ..Setting::REMOTE };
    let task = workload::parse_on("rpc:rate=10pps,count=20,arrivals=constant", &setting).unwrap();
    let part = Part {
        peer: PeerFacts { has_documents: true, ..PeerFacts::OTHERS },
        ..part(Side::Near, Guarantees::BYTE_STREAM)
    };
    let (mut reader, mut out) = (task.half(part), [0; 64]);
    let (mut now, mut asked) = (Nanos::ZERO, 0);
    loop {
        match reader.poll(now, &mut out) {
            Action::Wait(Some(until)) => now = until,
            Action::Send { len, .. } => {
                reader.on_sent(now);
                let request = Header::read(&out[..len]).unwrap();
                assert_eq!(request.seq, asked);
                asked += 1;
                let mut message = [0; DUE_LEN];
                let later = [(10, DocumentPart::Begins), (30, DocumentPart::Ends { bytes: 0 })];
                for (ms, part) in later {
                    let len = part.write(request, &mut message);
                    reader.on_message(now + Nanos::from_millis(ms), Lane(0), &message[..len]);
                    // A copy counts for nothing.
                    reader.on_message(now + Nanos::from_millis(ms), Lane(0), &message[..len]);
                }
            }
            other => break assert_eq!(other, Action::Done),
        }
    }
    let report = reader.report(now);
    assert_eq!((report.received.messages, report.received.foreign), (20, 40));
    assert_eq!(report.figures["response_p50_ns"], 30e6);
    assert_eq!(report.figures["first_byte_mean_ns"], 10e6);
    assert_eq!(report.figures["unanswered_share"], 0.0);
    for (typed, why) in [
        ("rpc:response=1kB", "answers with documents as they are"),
        ("rpc:rate=101pps", "more than a server of others is asked for"),
        ("rpc:connect=each", "the workload connect does that"),
    ] {
        let said = workload::parse_on(typed, &setting).err().unwrap().to_string();
        assert!(said.contains(why), "{typed}: {said}");
    }
}
