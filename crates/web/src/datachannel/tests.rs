//! A client of the library against a session, in virtual time: datagrams are carried by hand.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use str0m::change::SdpAnswer;
use str0m::channel::{ChannelConfig, ChannelId, Reliability};
use str0m::net::{Protocol, Receive};
use str0m::{Candidate, Event, Input, Output, Rtc};

use super::offer;
use super::session::RtcSession;
use crate::places::Places;
use crate::udp::Moment;
use crate::udp::testing::{AnyTickets, arrived, browser, is_answer, is_ready, ping, setup};
use crate::work::Tickets;
use deadheat_base::time::Nanos;

/// Most steps of a test, a millisecond each.
const STEPS: u64 = 30_000;

/// Session and the browser at its other end.
struct Pair {
    near: Rtc,
    far: RtcSession,
    tickets: Arc<dyn Tickets>,
    moment: Moment,
    /// Channel, once it is open, and the messages that came on it.
    channel: Option<ChannelId>,
    received: Vec<Vec<u8>>,
    /// Datagrams on their way to the browser.
    back: VecDeque<Vec<u8>>,
}

fn far_address() -> SocketAddr {
    browser(443)
}

impl Pair {
    fn new(config: ChannelConfig) -> Pair {
        let moment = Moment::now();
        let mut near = Rtc::new(moment.instant);
        near.add_local_candidate(Candidate::host(browser(4_000), Protocol::Udp).unwrap());
        let mut api = near.sdp_api();
        api.add_channel_with_config(config);
        let (offer, pending) = api.apply().unwrap();
        let answered = offer::answer(&offer.to_sdp_string(), &[far_address()], moment.instant);
        let (far, answer) = answered.unwrap();
        let answer = SdpAnswer::from_sdp_string(&answer).unwrap();
        near.sdp_api().accept_answer(pending, answer).unwrap();
        let place = Places::new(1, 1).take(browser(0).ip(), None).unwrap();
        let far = RtcSession::new(far, far_address(), moment.now, place);
        let tickets = Arc::new(AnyTickets::default());
        Pair {
            near,
            far,
            tickets,
            moment,
            channel: None,
            received: Vec::new(),
            back: VecDeque::new(),
        }
    }

    /// Carries all datagrams there and back, and lets a millisecond pass. The library has no room for many datagrams, so each
    /// end acts on one before the next.
    fn step(&mut self) {
        let moment = self.moment;
        self.near.handle_input(Input::Timeout(moment.instant)).unwrap();
        self.take_outputs();
        self.turn();
        while let Some(bytes) = self.back.pop_front() {
            let got = Receive::new(Protocol::Udp, far_address(), browser(4_000), &bytes).unwrap();
            self.near.handle_input(Input::Receive(moment.instant, got)).unwrap();
            self.take_outputs();
        }
        self.moment = moment.after(Nanos::from_millis(1));
    }

    fn take_outputs(&mut self) {
        while let Some(output) = self.near_output() {
            match output {
                Output::Transmit(sent) => {
                    let way = arrived(browser(4_000), sent.contents.len());
                    self.far.handle(&self.moment, &way, &sent.contents);
                    self.turn();
                }
                Output::Event(Event::ChannelOpen(id, _)) => self.channel = Some(id),
                Output::Event(Event::ChannelData(message)) => self.received.push(message.data),
                _ => {}
            }
        }
    }

    fn turn(&mut self) {
        let back = &mut self.back;
        self.far.turn(&self.moment, &self.tickets, &mut |bytes, way| {
            assert_eq!(way.peer, browser(4_000));
            back.push_back(bytes.to_vec());
        });
    }

    fn near_output(&mut self) -> Option<Output> {
        match self.near.poll_output().unwrap() {
            Output::Timeout(_) => None,
            output => Some(output),
        }
    }

    fn until(&mut self, mut done: impl FnMut(&mut Pair) -> bool) {
        for _ in 0..STEPS {
            self.step();
            if done(self) {
                return;
            }
        }
        panic!("it did not come to pass: {} messages came", self.received.len());
    }

    fn send(&mut self, message: &[u8]) -> bool {
        let mut channel = self.near.channel(self.channel.unwrap()).unwrap();
        channel.write(true, message).unwrap()
    }

    fn next(&mut self) -> Vec<u8> {
        self.until(|pair| !pair.received.is_empty());
        self.received.remove(0)
    }

    fn begun(config: ChannelConfig, work: &str) -> Pair {
        let mut pair = Pair::new(config);
        pair.until(|pair| pair.channel.is_some());
        assert!(pair.send(&setup(work)));
        assert!(is_ready(&pair.next()));
        pair
    }
}

fn unreliable() -> ChannelConfig {
    ChannelConfig {
        label: "deadheat".to_owned(),
        ordered: false,
        reliability: Reliability::MaxRetransmits { retransmits: 0 },
        ..ChannelConfig::default()
    }
}

#[test]
fn pings_come_back_on_channels_of_each_kind() {
    for config in [ChannelConfig::default(), unreliable()] {
        let mut pair = Pair::begun(config, "ping");
        for number in 0..10_u32 {
            let sent = ping(number, 12 + 900 * number as usize);
            assert!(pair.send(&sent));
            assert!(is_answer(&pair.next(), &sent), "{number}");
        }
    }
}

#[test]
fn bulk_data_leaves_in_both_directions() {
    let mut pair = Pair::begun(ChannelConfig::default(), "down:1500000");
    let (mut received, mut end) = (0, Vec::new());
    while end.is_empty() {
        match pair.next() {
            message if message[0] == b'{' => end = message,
            message => received += message.len(),
        }
    }
    assert_eq!((received, &end[..]), (1_500_000, &br#"{"sent":1500000}"#[..]));

    let mut pair = Pair::begun(ChannelConfig::default(), "up:1500000");
    for _ in 0..150 {
        pair.until(|pair| pair.send(&[3; 10_000]));
    }
    let end = String::from_utf8(pair.next()).unwrap();
    assert!(end.contains(r#""received":1500000"#), "{end}");
}

#[test]
fn a_session_without_a_trial_is_over_after_seconds_and_one_that_is_silent_too() {
    let mut pair = Pair::new(ChannelConfig::default());
    pair.until(|pair| pair.channel.is_some());
    pair.until(|pair| pair.far.is_over(pair.moment.now));
    let mut pair = Pair::begun(ChannelConfig::default(), "ping");
    for _ in 0..25_000 {
        pair.step();
    }
    assert!(!pair.far.is_over(pair.moment.now));
    pair.moment = pair.moment.after(Nanos::from_secs(31));
    assert!(pair.far.is_over(pair.moment.now));
}

#[test]
fn datagrams_of_strangers_are_not_taken_and_get_no_answer() {
    let mut pair = Pair::new(ChannelConfig::default());
    let moment = pair.moment;
    let mut stun = vec![0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42];
    stun.resize(20, 7);
    for first in 0..=255_u8 {
        for len in [1_usize, 13, 20, 100, 1_200] {
            let bytes: Vec<u8> = (0..len).map(|at| first.wrapping_add((at * 31) as u8)).collect();
            assert!(!pair.far.handle(&moment, &arrived(browser(9), len), &bytes));
        }
    }
    assert!(!pair.far.handle(&moment, &arrived(browser(9), 20), &stun));
    pair.far.turn(&moment, &pair.tickets, &mut |_, _| panic!("an answer to a stranger"));
    pair.until(|pair| pair.channel.is_some());
}

#[test]
fn a_first_message_that_is_no_setup_is_refused_with_the_reason() {
    let mut pair = Pair::new(unreliable());
    pair.until(|pair| pair.channel.is_some());
    assert!(pair.send(b"hello"));
    let said = String::from_utf8(pair.next()).unwrap();
    assert!(said.contains("refused") && said.contains("no setup"), "{said}");
}
