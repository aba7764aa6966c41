//! Settings that are accepted and refused, and two players in virtual time.

use super::*;
use crate::paced::pacer::tests::part;
use deadheat_base::units::BitRate;
use deadheat_contract::contract::{Action, Lane};
use deadheat_contract::workload::{self, Bounds, EndpointReport, FlowEvent, PathKind};

fn task(typed: &str) -> Box<dyn Task> {
    workload::parse(typed).unwrap()
}

#[test]
fn the_service_is_the_transports_own_unless_one_is_asked_for() {
    let why = |typed: &str, promised: &Guarantees| {
        workload::misfit(&*task(typed), promised, PeerFacts::OURS).unwrap_or_default()
    };
    for promised in [&Guarantees::DATAGRAMS, &Guarantees::BYTE_STREAM] {
        assert_eq!(why("inputs", promised), "");
        assert_eq!(task("inputs").lanes(promised), [promised.service]);
    }
    let reliable = why("inputs:service=reliable", &Guarantees::DATAGRAMS);
    assert!(reliable.contains("reliable, ordered"), "{reliable}");
    let lossy = why("inputs:service=unreliable", &Guarantees::BYTE_STREAM);
    assert!(lossy.contains("best effort"), "{lossy}");
    let echo = workload::misfit(&*task("inputs"), &Guarantees::DATAGRAMS, PeerFacts::ECHO);
    assert!(echo.unwrap().contains("only echoes"));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let say = |typed: &str| workload::parse(typed).err().unwrap().to_string();
    assert!(say("inputs:hz=0").contains("outside"));
    assert!(say("inputs:size=100,mtu=100").contains("128 with its header"));
    assert!(workload::parse("inputs:size=100,mtu=128").is_ok());
    let on = |setting: Setting| workload::parse_on("inputs", &setting).err().unwrap().to_string();
    let elsewhere = Setting { kind: PathKind::Remote, ..Setting::LOOPBACK };
    assert!(workload::parse_on("inputs", &elsewhere).is_ok(), "clocks of two hosts are compared");
    // 60 messages of 29 bytes a second.
    let narrow = Bounds { delay: None, rate: Some(BitRate(13_919)) };
    let narrow = Setting { down: narrow, ..Setting::LOOPBACK };
    assert!(on(narrow).contains("the queue would grow"));
}

#[test]
fn what_it_says_of_itself_is_the_same_work_again() {
    let spec = task("inputs:hz=30,claim=smooth").info().spec.clone();
    assert_eq!(task(&spec.to_string()).info().spec, spec);
    assert_eq!(task("inputs").info().lengths.map(|lengths| lengths.fewest), Some(ENOUGH));
    assert_eq!(task("inputs:claim=smooth").info().metrics[0].name, "delay_smooth_ns");
    assert_eq!(task("inputs:count=50,hz=50").info().planned, Some(Nanos::from_secs(1)));
}

/// Message on its way: its time of arrival, its receiver and its bytes.
type Flight = (Nanos, usize, Vec<u8>);

/// Runs two players over a path of 50 ms, which loses what `loses` says of the sender and the number of its
/// message.
fn play(
    typed: &str,
    guarantees: Guarantees,
    mut loses: impl FnMut(usize, u64) -> bool,
) -> [EndpointReport; 2] {
    let task = task(typed);
    let mut halves = [Side::Near, Side::Far].map(|side| task.half(part(side, guarantees)));
    let (mut flights, mut counts): (Vec<Flight>, _) = (Vec::new(), [0; 2]);
    let (mut done, mut told) = ([false; 2], [false; 2]);
    let (mut now, mut out) = (Nanos::from_secs(1), [0; 1200]);
    while !(done[0] && done[1]) {
        let (here, later): (Vec<_>, Vec<_>) = flights.into_iter().partition(|one| one.0 <= now);
        flights = later;
        here.iter().for_each(|(_, to, bytes)| halves[*to].on_message(now, Lane(0), bytes));
        let mut next = flights.iter().map(|flight| flight.0).min();
        for me in [0, 1] {
            while !done[me] {
                match halves[me].poll(now, &mut out) {
                    Action::Send { len, .. } => {
                        halves[me].on_sent(now);
                        if !loses(me, counts[me]) {
                            let at = now + Nanos::from_millis(50);
                            flights.push((at, 1 - me, out[..len].to_vec()));
                            next = Some(next.map_or(at, |next| next.min(at)));
                        }
                        counts[me] += 1;
                    }
                    Action::Wait(at) => {
                        next = next.into_iter().chain(at).min();
                        break;
                    }
                    Action::Done => done[me] = true,
                    other => panic!("{other:?}"),
                }
            }
            if halves[me].has_sent_all() && !told[me] {
                told[me] = true;
                let sent = halves[me].standing(now).sent;
                halves[1 - me].on_event(now, FlowEvent::PeerFinished { sent });
                next = Some(now + Nanos(1));
            }
        }
        now = next.unwrap_or(now).max(now + Nanos(1));
    }
    halves.map(|mut half| half.report(now))
}

#[test]
fn each_input_is_sent_once_where_all_arrive_in_order() {
    let [near, far] = play("inputs:count=120", Guarantees::BYTE_STREAM, |_, _| false);
    for half in [&near, &far] {
        assert_eq!((half.sent.messages, half.sent.bytes), (120, 120 * 29));
        assert_eq!((half.received.messages, half.received.corrupted), (120, 0));
        assert_eq!(half.figures["delay_smooth_ns"], 50e6);
        assert_eq!(half.figures["stalled_share"], 0.0);
        assert_eq!(half.figures["sent_bps"], 60.0 * 29.0 * 8.0);
    }
}

#[test]
fn a_lost_message_costs_a_tick_where_the_next_one_repeats_it() {
    // The 31st of the near player is lost: its input comes with the 32nd.
    let [near, far] =
        play("inputs:count=120", Guarantees::DATAGRAMS, |side, n| (side, n) == (0, 30));
    assert_eq!(near.figures["delay_smooth_ns"], 50e6);
    assert_eq!(far.figures["delay_smooth_ns"], 66_666_666.0);
    assert_eq!(far.figures["stalled_share"], 0.0, "100 ms of playout bear that");
    assert_eq!(near.sent.messages, far.received.messages + 1);
    // Six are not acknowledged, as 100 ms are six ticks; fewer in the first messages.
    let bytes = far.figures["sent_bps"] / 8.0 / 60.0;
    assert!((33.8..=34.0).contains(&bytes), "{bytes}");
}

#[test]
fn both_have_all_inputs_whatever_is_lost() {
    let mut draws = deadheat_base::rng::SplitMix64::new(3);
    let [near, far] = play("inputs:count=300", Guarantees::DATAGRAMS, |_, _| draws.below(2) == 0);
    for (half, other) in [(&near, &far), (&far, &near)] {
        assert!(half.figures.contains_key("delay_smooth_ns"), "{half:?}");
        assert!(half.received.messages < other.sent.messages);
    }
}

/// A player whose messages all vanish does not wait for ever.
#[test]
fn a_silent_peer_is_given_up() {
    let [near, far] = play("inputs:count=20", Guarantees::DATAGRAMS, |side, _| side == 1);
    assert!(!near.figures.contains_key("delay_p99_ns"));
    assert_eq!(far.figures["delay_smooth_ns"], 50e6);
    assert!(near.sent.messages > 1_000, "it repeats them for 30 s: {}", near.sent.messages);
}
