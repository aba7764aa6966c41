use std::sync::{Arc, Mutex};

use super::*;
use deadheat_base::rng::SplitMix64;
use deadheat_contract::contract::{Action, Lane};
use deadheat_contract::measurements::{
    ConnStats, Distribution, Headers, OneWayDelays, Pacing, Quantile, Recorder, RoundTripSummary,
    Sample, SendSummary, Tally,
};
use deadheat_contract::workload::{Clocks, EndpointReport, FlowEvent};

/// Keeps every time, for tests to look at.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Times>>);

#[derive(Default)]
struct Times {
    sends: Vec<(u64, Option<u64>)>,
    delays: Vec<i64>,
}

impl Recorder for Kept {
    fn record(&mut self, _: Sample) {}
    fn record_send(&mut self, lateness_ns: u64, gap_error_ns: Option<u64>) {
        self.0.lock().unwrap().sends.push((lateness_ns, gap_error_ns));
    }
    fn record_delay(&mut self, ns: i64) {
        self.0.lock().unwrap().delays.push(ns);
    }
    fn round_trips(&self, _: u64, _: u64) -> RoundTripSummary {
        RoundTripSummary::default()
    }
    fn sends(&self) -> SendSummary {
        SendSummary::default()
    }
    fn delays(&self) -> OneWayDelays {
        OneWayDelays {
            least_ns: self.0.lock().unwrap().delays.iter().copied().min(),
            ..OneWayDelays::default()
        }
    }
}

fn task(typed: &str) -> Box<dyn Task> {
    deadheat_contract::workload::parse(typed).unwrap()
}

fn half(
    task: &dyn Task,
    side: Side,
    flow: u16,
    guarantees: Guarantees,
) -> (Box<dyn Endpoint>, Kept) {
    let kept = Kept::default();
    let recorder = Box::new(kept.clone());
    (
        task.half(Part {
            side,
            flow,
            tag: 7,
            seed: 1,
            transit: Nanos::ZERO,
            guarantees,
            peer: PeerFacts::OURS,
            recorder,
            carried: deadheat_contract::contract::LaneSet::ALL,
            store: None,
            exchange: None,
        }),
        kept,
    )
}

/// Run of a sender: the times at which messages went, and its report.
struct Run {
    sends: Vec<Nanos>,
    messages: Vec<Vec<u8>>,
    kept: Kept,
    report: EndpointReport,
}

impl Run {
    fn pacing(&self) -> &Pacing {
        self.report.pacing.as_ref().unwrap()
    }
}

const START: Nanos = Nanos::from_secs(1);

/// Runs a sender in virtual time. `awake` says when it runs, given when it wanted to; `room` whether
/// the transport takes a message, by time.
fn run(
    typed: &str,
    flow: u16,
    mut awake: impl FnMut(Nanos) -> Nanos,
    mut room: impl FnMut(Nanos) -> bool,
) -> Run {
    let (mut sender, kept) = half(&*task(typed), Side::Near, flow, Guarantees::DATAGRAMS);
    let mut out = vec![0; 2048];
    let (mut sends, mut messages) = (Vec::new(), Vec::new());
    let mut now = START;
    loop {
        match sender.poll(now, &mut out) {
            Action::Send { len, .. } if room(now) => {
                sender.on_sent(now);
                sends.push(now);
                messages.push(out[..len].to_vec());
            }
            Action::Send { .. } => {
                sender.on_no_room(now);
                now = awake(now + Nanos::from_micros(100));
            }
            Action::Wait(Some(until)) => now = awake(until),
            Action::Done => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(sender.has_sent_all());
    let report = sender.report(now);
    Run { sends, messages, kept, report }
}

fn on_time(typed: &str) -> Run {
    run(typed, 0, |due| due, |_| true)
}

#[test]
fn defaults_are_spelled_out() {
    assert_eq!(
        task("cbr").info().spec.to_string(),
        "cbr:direction=up,flows=1,rate=1mbit,size=1400,time=1120ms,warmup=50ms"
    );
    let fast = task("cbr:rate=100mbit");
    assert!(fast.info().spec.to_string().ends_with("time=300ms,warmup=50ms"));
    assert_eq!(fast.info().lengths.unwrap().fewest, 300);
    assert_eq!(fast.info().headline, "1400-byte messages, 100 Mbit/s up");
    assert_eq!(task("cbr:time=1s").info().lengths, None);
    assert_eq!(
        task("cbr:rate=2kpps,count=50").info().spec.to_string(),
        "cbr:count=50,direction=up,flows=1,rate=2kpps,size=1400"
    );
    for typed in ["cbr", "cbr:rate=max", "cbr:count=10,rate=3pps,size=12"] {
        let spec = task(typed).info().spec.clone();
        assert_eq!(task(&spec.to_string()).info().spec, spec);
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let say = |typed: &str| match deadheat_contract::workload::parse(typed) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{typed} was taken"),
    };
    assert!(say("cbr:count=5,time=1s").contains("not both"));
    assert!(say("cbr:rate=1pps,time=1s").contains("raise time or rate"));
    assert!(say("cbr:rate=1kpps,count=3,flows=2").contains("raise count"));
    assert!(say("cbr:rate=1kpps,time=9ms").contains("only 9 messages are due"));
    assert!(say("cbr:count=50,warmup=1s").contains("warmup goes with time"));
    assert!(say("cbr:rate=20").contains("write 20mbit"));
    assert!(say("cbr:rate=0bit").contains("outside"));
    assert!(say("cbr:rate=1Gpps").contains("did you mean"));
    assert!(say("cbr:size=11").contains("outside"));
    let misfit = task("cbr:size=9000").misfit(&Guarantees::DATAGRAMS, PeerFacts::ECHO);
    assert!(misfit.unwrap().contains("only echoes"));
    assert_eq!(task("cbr").misfit(&Guarantees::BYTE_STREAM, PeerFacts::OURS), None);
}

#[test]
fn the_rate_is_what_was_asked_to_the_nanosecond() {
    for (typed, slots) in [
        ("cbr:rate=3kpps,size=64,time=900ms,warmup=100ms", 3_000),
        ("cbr:rate=50kpps,size=64,time=2s,warmup=0", 100_000),
        ("cbr:rate=7770001bit,time=10s,warmup=0", 6_938),
    ] {
        let run = on_time(typed);
        assert_eq!(run.sends.len(), slots, "{typed}");
        assert_eq!(run.pacing().slots, slots as u64);
        let period = run.report.send_span_ns.unwrap() as f64 / slots as f64;
        for (index, at) in run.sends.iter().enumerate() {
            let want = run.sends[0].0 as f64 + index as f64 * period;
            assert!((at.0 as f64 - want).abs() <= 2.0, "{typed}: message {index} at {at:?}");
        }
        let kept = run.kept.0.lock().unwrap();
        assert!(kept.sends.iter().all(|(late, gap)| *late == 0 && gap.is_none_or(|gap| gap <= 1)));
    }
}

#[test]
fn a_stall_is_missed_and_never_made_up_for() {
    // At 1 kpps: the sender does not run for 25 ms, once.
    let mut stalls = 0;
    let stall = |due: Nanos| {
        if due > START + Nanos::from_millis(500) && stalls == 0 {
            stalls = 1;
            due + Nanos::from_micros(25_300)
        } else {
            due
        }
    };
    let run = run("cbr:rate=1kpps,size=64,time=1s,warmup=0", 0, stall, |_| true);
    let pacing = run.pacing();
    assert_eq!((pacing.slots, pacing.sent, pacing.missed_no_time), (1_000, 975, 25));
    assert_eq!((pacing.missed_no_room, pacing.late), (0, 1));
    for three in run.sends.windows(3) {
        assert!(three[2] - three[0] >= Nanos::from_millis(1), "a burst at {three:?}");
    }
    // The grid is the old one after the stall.
    let beside = |at: &Nanos| (*at - run.sends[0]).0 % 1_000_000;
    assert_eq!(run.sends.iter().filter(|at| beside(at) != 0).count(), 1);
    let sent_bps = run.report.sent.bytes as f64 * 8e9 / run.report.send_span_ns.unwrap() as f64;
    assert_eq!(sent_bps, 975.0 * 64.0 * 8.0);
}

#[test]
fn without_room_a_message_waits_and_those_after_it_are_missed() {
    let full = |at: Nanos| {
        let since = (at - START).0;
        !(300_000_000..320_000_000).contains(&since)
    };
    let run = run("cbr:rate=1kpps,size=64,time=1s,warmup=0", 0, |due| due, full);
    let pacing = run.pacing();
    assert_eq!(pacing.slots, pacing.sent + pacing.missed_no_room);
    assert!((18..=20).contains(&pacing.missed_no_room), "{pacing:?}");
    assert_eq!((pacing.missed_no_time, pacing.late), (0, 0), "the transport's doing");
    // The one that waited says when it was due, so that its delay shows.
    let waited = run.sends.iter().zip(&run.messages);
    let longest =
        waited.map(|(at, bytes)| *at - crate::paced::read_due(bytes).unwrap()).max().unwrap();
    assert!((19_000_000..=20_100_000).contains(&longest.0), "{longest:?}");
    for three in run.sends.windows(3) {
        assert!(three[2] - three[0] >= Nanos::from_millis(1), "a burst at {three:?}");
    }
}

#[test]
fn every_slot_is_sent_or_missed_whatever_happens() {
    let mut rng = SplitMix64::new(9);
    for round in 0..60 {
        let typed = format!(
            "cbr:rate={}pps,size={},count={},flows=3",
            1 + rng.below(40_000),
            12 + rng.below(60),
            30 + rng.below(3_000)
        );
        let mut wakes = SplitMix64::new(round);
        let mut rooms = SplitMix64::new(!round);
        let slots: u64 = (0..3)
            .map(|flow| {
                let awake = |due| due + Nanos(wakes.below(1 << wakes.clone().below(20)));
                let run = run(&typed, flow, awake, |_| rooms.below(10) > 0);
                let p = run.pacing();
                assert_eq!(p.slots, p.sent + p.missed_no_room + p.missed_no_time, "{typed}");
                assert_eq!(p.sent, run.sends.len() as u64);
                let step = run.report.send_span_ns.unwrap() / (p.slots * 3).max(1);
                for three in run.sends.windows(3) {
                    assert!(three[2] - three[0] >= Nanos(step), "{typed}: a burst at {three:?}");
                }
                p.slots
            })
            .sum();
        assert_eq!(
            Some(slots),
            task(&typed).info().most_bytes.map(|b| b / task(&typed).info().largest_message as u64)
        );
    }
}

#[test]
fn a_peer_that_ends_leaves_the_rest_missed() {
    let (mut sender, _) = half(
        &*task("cbr:rate=1kpps,size=64,time=1s,warmup=0"),
        Side::Near,
        0,
        Guarantees::DATAGRAMS,
    );
    let mut out = vec![0; 64];
    let Action::Wait(Some(due)) = sender.poll(START, &mut out) else { panic!("due at once") };
    assert!(matches!(sender.poll(due, &mut out), Action::Send { .. }));
    sender.on_sent(due);
    sender.on_event(due, FlowEvent::Closed);
    assert_eq!(sender.poll(due, &mut out), Action::Done);
    let pacing = sender.report(due).pacing.unwrap();
    assert_eq!((pacing.sent, pacing.missed_no_room), (1, 999));
}

#[test]
fn flows_take_turns_and_share_the_rate() {
    let typed = "cbr:rate=9kpps,size=64,flows=3,time=1s,warmup=0";
    let mut all: Vec<Nanos> =
        (0..3).flat_map(|flow| run(typed, flow, |d| d, |_| true).sends).collect();
    all.sort_unstable();
    assert_eq!(all.len(), 9_000);
    assert!(all.windows(2).all(|two| (two[1] - two[0]).0.abs_diff(111_111) <= 1));
}

#[test]
fn halves_are_where_the_direction_says() {
    let task = task("cbr:rate=1kpps,size=64,direction=both,flows=2");
    assert_eq!(
        task.info().flows,
        [Direction::Up, Direction::Up, Direction::Down, Direction::Down].map(Some)
    );
    for (flow, near_sends) in [(0, true), (1, true), (2, false), (3, false)] {
        for side in [Side::Near, Side::Far] {
            let (mut half, _) = half(&*task, side, flow, Guarantees::DATAGRAMS);
            let sends = matches!(
                half.poll(START, &mut [0; 64]),
                Action::Wait(Some(_)) | Action::Send { .. }
            );
            assert_eq!(sends, near_sends == (side == Side::Near), "flow {flow}, {side:?}");
        }
    }
}

#[test]
fn the_receiver_counts_once_and_measures_delay_against_the_intended_time() {
    let sent = on_time("cbr:rate=1kpps,size=64,count=40");
    let (mut receiver, kept) =
        half(&*task("cbr:rate=1kpps,size=64,count=40"), Side::Far, 0, Guarantees::DATAGRAMS);
    // The far clock began long before; message 3 is lost, 5 comes twice and 8 after 9.
    let apart = Nanos::from_secs(5_000);
    let mut order: Vec<usize> = (0..40).filter(|n| *n != 3).collect();
    order.swap(7, 8);
    order.insert(5, 5);
    let mut now = START;
    for n in order {
        now = (sent.sends[n] + apart + Nanos(70_000 + n as u64)).max(now);
        receiver.on_message(now, Lane(0), &sent.messages[n]);
    }
    receiver.on_message(now, Lane(0), b"a stranger's words");
    receiver.on_event(now, FlowEvent::PeerFinished { sent: sent.report.sent });
    assert!(matches!(receiver.poll(now, &mut []), Action::Wait(Some(_))));
    assert_eq!(receiver.poll(now + Nanos::from_millis(200), &mut []), Action::Done);
    let got = receiver.report(now).received;
    assert_eq!((got.messages, got.duplicates, got.reordered, got.foreign), (39, 1, 1, 1));
    let delays = &kept.0.lock().unwrap().delays;
    assert_eq!(delays.len(), 39);
    assert_eq!(*delays.iter().min().unwrap(), 5_000_000_070_000);
}

#[test]
fn what_warms_up_is_in_neither_goodput_nor_delays() {
    let typed = "cbr:rate=1kpps,size=64,time=80ms,warmup=20ms";
    let sent = on_time(typed);
    assert_eq!(sent.messages.len(), 100);
    let (mut receiver, kept) = half(&*task(typed), Side::Far, 0, Guarantees::DATAGRAMS);
    for (at, message) in sent.sends.iter().zip(&sent.messages) {
        receiver.on_message(*at, Lane(0), message);
    }
    let report = receiver.report(START);
    let span = report.receive_span.unwrap();
    assert_eq!((span.last_ns - span.first_ns, span.warmup_bytes), (79_000_000, 21 * 64));
    assert_eq!(kept.0.lock().unwrap().delays.len(), 80);
    assert_eq!((report.received.messages, report.segments.len()), (100, 4));
}

#[test]
fn a_reliable_receiver_waits_for_all_and_only_for_all() {
    let task = task("cbr:rate=1kpps,size=64,count=10");
    let sent = on_time("cbr:rate=1kpps,size=64,count=10");
    let (mut receiver, _) = half(&*task, Side::Far, 0, Guarantees::BYTE_STREAM);
    sent.messages[..9].iter().for_each(|sent| receiver.on_message(START, Lane(0), sent));
    receiver.on_event(START, FlowEvent::PeerFinished { sent: sent.report.sent });
    assert_eq!(receiver.poll(START + Nanos::from_secs(9), &mut []), Action::Wait(None));
    receiver.on_message(START + Nanos::from_secs(10), Lane(0), &sent.messages[9]);
    assert_eq!(receiver.poll(START + Nanos::from_secs(10), &mut []), Action::Done);
}

#[test]
fn a_blast_is_pumped_and_has_no_pace() {
    let task = task("cbr:rate=max");
    assert!(!task.info().is_paced);
    let (mut sender, _) = half(&*task, Side::Near, 0, Guarantees::DATAGRAMS);
    assert_eq!(sender.poll(START, &mut []), Action::Pump);
    let (mut receiver, _) = half(&*task, Side::Far, 0, Guarantees::DATAGRAMS);
    assert_eq!(receiver.poll(START, &mut []), Action::Drain);
    let names: Vec<&str> = task.info().metrics.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["goodput_bps", "wire_goodput_bps", "sent_bps", "loss_share"]);
}

fn conclude(
    typed: &str,
    guarantees: &Guarantees,
    near: &[EndpointReport],
    far: &[EndpointReport],
    headers: Option<Headers>,
) -> Measurements {
    let conns =
        vec![ConnStats { socket_drops: Some(0), headers, ..ConnStats::default() }; near.len()];
    task(typed).conclude(&Reports {
        near,
        far,
        near_conns: &conns,
        far_conns: &conns,
        guarantees,
        clocks: Clocks::Shared,
    })
}

const UDP: Headers =
    Headers { ip_bytes: 20, transport_bytes: 8, framing_bytes: 0, mtu: Some(1500), packets: None };

fn sender(messages: u64, span_ns: u64, pacing: Pacing) -> EndpointReport {
    let sent = Tally { messages, bytes: messages * 1400, ..Tally::default() };
    EndpointReport {
        sent,
        send_span_ns: Some(span_ns),
        pacing: Some(pacing),
        ..EndpointReport::default()
    }
}

fn receiver(messages: u64, last_ns: u64, pdv: u64) -> EndpointReport {
    let received = Tally { messages, bytes: messages * 1400, ..Tally::default() };
    let span = deadheat_contract::workload::ReceiveSpan {
        first_ns: 0,
        last_ns,
        first_bytes: 1400,
        warmup_bytes: 0,
    };
    let delays = Distribution { p50: Some(Quantile::Ns(pdv)), ..Distribution::default() };
    EndpointReport {
        received,
        receive_span: Some(span),
        delay_variation_ns: Some(delays),
        least_delay_ns: Some(-2_000),
        ..EndpointReport::default()
    }
}

fn pacing(slots: u64, no_room: u64, no_time: u64, late: u64) -> Pacing {
    Pacing {
        slots,
        sent: slots.saturating_sub(no_room.saturating_add(no_time)),
        missed_no_room: no_room,
        missed_no_time: no_time,
        late,
        ..Pacing::default()
    }
}

#[test]
fn figures_of_one_direction() {
    let near = [sender(1_000, 1_000_000_000, pacing(1_000, 0, 0, 0))];
    let far = [receiver(801, 800_000_000, 5_000)];
    let found = conclude("cbr:rate=11200000bit", &Guarantees::DATAGRAMS, &near, &far, Some(UDP));
    let metric = |name: &str| found.metrics[name];
    assert_eq!(metric("offered_bps"), 11_200_000.0);
    assert_eq!(metric("sent_bps"), 11_200_000.0);
    assert_eq!(metric("goodput_bps"), 800.0 * 1400.0 * 8.0 / 0.8);
    assert!((metric("wire_goodput_bps") / metric("goodput_bps") - 1428.0 / 1400.0).abs() < 1e-12);
    assert_eq!((metric("loss_share"), metric("missed_share")), (0.199, 0.0));
    assert_eq!(metric("pdv_p50_ns"), 5_000.0);
    assert_eq!(metric("one_way_p50_ns"), 3_000.0);
    assert!(!found.metrics.contains_key("one_way_up_p50_ns"), "there is one direction");
    let up = found.ledger.up.as_ref().unwrap();
    assert!(up.closes());
    assert_eq!((up.sent, up.delivered, up.lost_on_path), (1_000, 801, 199));
    assert_eq!(found.why_invalid, None);
    assert_eq!(found.late_effect, Some(0.0));
    assert_eq!(found.paced[0].direction, Direction::Up);
}

#[test]
fn directions_and_flows_add_up_and_the_worst_delay_stands() {
    let near = [
        sender(500, 1_000_000_000, pacing(500, 0, 0, 0)),
        sender(500, 1_000_000_000, pacing(500, 0, 0, 0)),
        receiver(501, 1_000_000_000, 9_000),
        receiver(500, 1_000_000_000, 2_000),
    ];
    let far = [
        receiver(501, 1_000_000_000, 1_000),
        receiver(500, 1_000_000_000, 3_000),
        sender(501, 1_000_000_000, pacing(501, 0, 0, 0)),
        sender(500, 1_000_000_000, pacing(500, 0, 0, 0)),
    ];
    let found = conclude(
        "cbr:rate=1kpps,direction=both,flows=2",
        &Guarantees::DATAGRAMS,
        &near,
        &far,
        Some(UDP),
    );
    assert_eq!(found.metrics["offered_bps"], 22_400_000.0);
    assert_eq!(found.metrics["goodput_bps"], 22_400_000.0);
    assert_eq!(found.metrics["goodput_up_bps"], 11_200_000.0);
    assert_eq!(found.metrics["pdv_p50_ns"], 9_000.0);
    let ways = ["one_way_p50_ns", "one_way_up_p50_ns", "one_way_down_p50_ns"];
    assert_eq!(ways.map(|name| found.metrics[name]), [7_000.0, 1_000.0, 7_000.0]);
    let quick = [receiver(501, 1_000_000_000, 500)];
    let near = [sender(501, 1_000_000_000, pacing(501, 0, 0, 0))];
    let short = conclude("cbr:rate=1kpps", &Guarantees::DATAGRAMS, &near, &quick, None);
    assert_eq!(short.metrics["one_way_p50_ns"], 0.0, "no time is negative");
    assert_eq!(found.paced.len(), 4);
    let up = found.ledger.up.unwrap();
    assert!(!up.closes(), "a message more than were sent: {up:?}");
    assert!(found.ledger.down.unwrap().closes());
}

#[test]
fn a_byte_stream_is_accounted_in_messages_and_its_segments_counted() {
    let near = [sender(1_000, 1_000_000_000, pacing(1_000, 0, 0, 0))];
    let far = [receiver(1_000, 1_000_000_000, 0)];
    let tcp = Headers { transport_bytes: 32, framing_bytes: 4, packets: Some(900), ..UDP };
    let found = conclude("cbr:rate=1kpps", &Guarantees::BYTE_STREAM, &near, &far, Some(tcp));
    let up = found.ledger.up.as_ref().unwrap();
    assert_eq!((up.unit.as_str(), up.sent, up.closes()), ("messages", 1_000, true));
    let ratio = found.metrics["wire_goodput_bps"] / found.metrics["goodput_bps"];
    assert!((ratio - (1.0 + (900.0 * 52.0 + 4_000.0) / 1_400_000.0)).abs() < 1e-12);
    let inside = conclude("cbr:rate=1kpps", &Guarantees::BYTE_STREAM, &near, &far, None);
    assert!(!inside.metrics.contains_key("wire_goodput_bps"));
}

#[test]
fn the_gate_looks_at_the_generator_and_not_at_the_transport() {
    let why = |pacing: Pacing| {
        let near = [sender(pacing.sent, 1_000_000_000, pacing)];
        let far = [receiver(near[0].sent.messages, 1_000_000_000, 0)];
        conclude("cbr:rate=1kpps", &Guarantees::DATAGRAMS, &near, &far, None).why_invalid
    };
    assert_eq!(why(pacing(1_000, 900, 0, 0)), None);
    assert_eq!(why(pacing(1_000, 0, 90, 250)), None);
    let said = why(pacing(1_000, 0, 91, 5)).unwrap();
    assert!(said.contains("of 1000 messages 91 were due while it did not run"), "{said}");
    assert!(why(pacing(1_000, 0, 0, 251)).unwrap().contains("251 left late (25 % allowed)"));
    let near = [sender(2, 1_000_000_000, pacing(2, 0, 0, 0))];
    let found =
        conclude("cbr:rate=1kpps", &Guarantees::DATAGRAMS, &near, &[receiver(1, 0, 0)], None);
    assert!(found.why_invalid.unwrap().contains("raise time"));
}

#[test]
fn counts_of_schedules_that_a_peer_made_up_are_bounded() {
    let made_up = || sender(1, 1_000_000_000, pacing(u64::MAX, 0, u64::MAX, 0));
    let near = [made_up(), made_up()];
    let far = [receiver(1, 0, 0), receiver(1, 0, 0)];
    let found = conclude("cbr:rate=1kpps,flows=2", &Guarantees::DATAGRAMS, &near, &far, None);
    assert_eq!(found.metrics["missed_share"], 1.0);
    let both =
        Pacing { missed_no_room: u64::MAX, missed_no_time: u64::MAX, ..pacing(1_000, 0, 0, 0) };
    let near = [sender(1, 1_000_000_000, both)];
    let found = conclude("cbr:rate=1kpps", &Guarantees::DATAGRAMS, &near, &[], None);
    assert_eq!(found.metrics["missed_share"], u64::MAX as f64 / 1_000.0);
}

#[test]
fn a_receiver_knows_what_it_misses_when_that_was_due_and_how_arrivals_vary() {
    let typed = "cbr:rate=100pps,size=64,time=6s,warmup=0";
    let run = on_time(typed);
    let (mut receiver, _) = half(&*task(typed), Side::Far, 0, Guarantees::DATAGRAMS);
    let mut out = vec![0; 2048];
    receiver.poll(START, &mut out);
    let mut last = START;
    for (number, (at, message)) in run.sends.iter().zip(&run.messages).enumerate() {
        // Down from the message of 2 s to that of 5 s; every second message is 1 ms later than the others.
        if !(200..500).contains(&number) {
            let now = *at + Nanos::from_millis(5 + number as u64 % 2);
            receiver.on_message(now, Lane(0), message);
            receiver.poll(now, &mut out);
            last = now;
        }
        if number == 499 {
            assert_eq!(receiver.standing(*at).lost, Some(0), "nothing came to overtake them yet");
            assert_eq!(receiver.take_recent().missing, None);
        }
    }
    let standing = receiver.standing(last);
    assert_eq!(standing.lost, Some(300));
    // The mean deviation of two neighbours is 1 ms.
    assert!(standing.jitter_ns.unwrap().abs_diff(1_000_000) < 20_000, "{standing:?}");
    let missing = receiver.take_recent().missing.unwrap();
    assert_eq!((missing.from_ns, missing.to_ns), (2_000_000_000, 4_990_000_000));
    receiver.on_event(
        last,
        FlowEvent::PeerFinished { sent: Tally { messages: 600, ..Tally::default() } },
    );
    let outages = receiver.report(last).outages;
    let [outage] = outages.as_slice() else { panic!("{outages:?}") };
    let last_before = run.sends[199] - START + Nanos::from_millis(6);
    assert_eq!((outage.from_ns, outage.length_ns), (last_before.0, 3_009_000_000));
    assert_eq!(outage.messages, 300);
    // Of a transport that sends again nothing is lost, and it stands still all the same.
    let (mut reliable, _) = half(&*task(typed), Side::Far, 0, Guarantees::BYTE_STREAM);
    reliable.poll(START, &mut out);
    for (number, (at, message)) in run.sends.iter().zip(&run.messages).enumerate() {
        let now = if (200..500).contains(&number) { START + Nanos::from_secs(5) } else { *at };
        reliable.on_message(now, Lane(0), message);
    }
    assert_eq!(reliable.standing(last).lost, None);
    assert_eq!(reliable.report(last).outages.len(), 1);
}
