//! Every protocol in user space, in virtual time, against a path that loses, duplicates, reorders and truncates
//! datagrams, and against strangers that send noise.

use deadheat_base::rng::SplitMix64;
use deadheat_base::spec::{Settings, Spec};
use deadheat_base::time::{Clock, Manual, Nanos};
use deadheat_contract::contract::{Delivery, Inbox, Lane, Offers, Patience, Service, Side};
use deadheat_datapath::transport::hello::Token;
use deadheat_datapath::transport::userspace::*;
use deadheat_datapath::transport::{ALL, Conn, Progress};

/// Protocols that follow the clock of a test: quiche reads the host's.
fn every() -> impl Iterator<Item = &'static dyn Userspace> {
    let all = ALL.iter().filter_map(|transport| transport.userspace());
    all.filter(|transport| transport.info().id != "quic-quiche")
}

fn open(transport: &dyn Userspace, side: Side, clock: &Manual) -> OverPath {
    open_with(transport, side, clock, transport.info().guarantees.one_lane())
}

fn open_with(transport: &dyn Userspace, side: Side, clock: &Manual, lanes: &[Service]) -> OverPath {
    let info = transport.info();
    let knobs = Settings::check(&Spec::parse(info.id).unwrap(), info.keys).unwrap();
    let opening = Opening {
        side,
        token: Token::from_bytes([9; 16]),
        knobs: &knobs,
        lanes,
        largest_message: 1_000,
        mtu: 1_500,
        ip_header: 20,
        tickets: &deadheat_datapath::transport::Tickets::default(),
    };
    OverPath::open(transport, &opening, clock).unwrap()
}

#[test]
fn bytes_that_nothing_carries_are_an_error() {
    for transport in every() {
        let info = transport.info();
        let knobs = Settings::check(&Spec::parse(info.id).unwrap(), info.keys).unwrap();
        let opening = Opening {
            side: Side::Far,
            token: Token::from_bytes([9; 16]),
            knobs: &knobs,
            lanes: info.guarantees.one_lane(),
            largest_message: 1_000,
            mtu: 1_500,
            ip_header: 20,
            tickets: &deadheat_datapath::transport::Tickets::default(),
        };
        let mut far = transport.open(&opening).unwrap();
        // With a single lane there is no other to confuse it with.
        if info.guarantees.lanes > 1 {
            for rest in [Rest::Kept, Rest::Left] {
                let written = far.write(Nanos::ZERO, Lane(60_000), b"bytes", rest);
                assert!(written.is_err(), "{}: no such lane", info.id);
            }
        }
        let has_state = far.state() == State::Handshaking && far.room(Lane(0)) == 0;
        for rest in [Rest::Left, Rest::Kept] {
            if has_state && far.write(Nanos::ZERO, Lane(0), b"bytes", rest).is_ok() {
                assert!(!far.is_drained(), "{}: it took bytes, and owes none", info.id);
            }
        }
    }
}

/// Effect of a path on one datagram.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Lost,
    Twice,
    Cut,
    Noise,
}

struct Path {
    ends: [OverPath; 2],
    flying: Vec<(Nanos, usize, Vec<u8>)>,
    clock: Manual,
    rng: SplitMix64,
}

impl Path {
    fn new(transport: &dyn Userspace, seed: u64) -> Path {
        Path::with_lanes(transport, seed, transport.info().guarantees.one_lane())
    }

    fn with_lanes(transport: &dyn Userspace, seed: u64, lanes: &[Service]) -> Path {
        let clock = Manual::default();
        clock.advance_to(Nanos::from_secs(1));
        let sides = [Side::Near, Side::Far];
        let ends = sides.map(|side| open_with(transport, side, &clock, lanes));
        Path { ends, flying: Vec::new(), clock, rng: SplitMix64::new(seed) }
    }

    /// Lets both ends send, over a path that has one of `faults` for one datagram in ten, and runs the next event.
    fn step(&mut self, faults: &[Fault]) {
        let now = self.clock.now();
        for from in [0, 1] {
            let mut datagram = Vec::new();
            while self.ends[from].transmit(&mut datagram).is_some() {
                let sent = std::mem::take(&mut datagram);
                self.carry(now, 1 - from, sent, faults);
            }
        }
        let timers = self.ends.iter().filter_map(|end| end.next_deadline());
        let arrivals = self.flying.iter().map(|(at, ..)| *at);
        let next = arrivals.chain(timers).min().unwrap_or(now + Nanos::from_millis(1));
        let now = now.max(next);
        self.clock.advance_to(now);
        for end in &mut self.ends {
            end.on_deadline(now).unwrap();
        }
        self.flying.sort_by_key(|(at, ..)| *at);
        while self.flying.first().is_some_and(|(at, ..)| *at <= now) {
            let (_, to, datagram) = self.flying.remove(0);
            self.ends[to].handle(Received::plain(now, &datagram));
        }
    }

    fn carry(&mut self, now: Nanos, to: usize, mut datagram: Vec<u8>, faults: &[Fault]) {
        let mut copies = 1;
        if !faults.is_empty() && self.rng.below(10) == 0 {
            match faults[self.rng.below(faults.len() as u64) as usize] {
                Fault::Lost => copies = 0,
                Fault::Twice => copies = 2,
                Fault::Cut => {
                    let len = self.rng.below(datagram.len() as u64) as usize;
                    self.flying.push((now, to, datagram[..len].to_vec()));
                }
                Fault::Noise => {
                    let len = self.rng.below(100) as usize;
                    let noise = (0..len).map(|_| self.rng.below(256) as u8).collect();
                    self.flying.push((now, to, noise));
                }
            }
        }
        for copy in 0..copies {
            let at = now + Nanos::from_millis(10 + self.rng.below(5));
            let bytes =
                if copy + 1 < copies { datagram.clone() } else { std::mem::take(&mut datagram) };
            self.flying.push((at, to, bytes));
        }
    }

    fn shake_hands(&mut self, faults: &[Fault]) {
        for _ in 0..10_000 {
            let opened = self.ends.iter_mut().map(|end| end.has_opened().unwrap());
            if opened.fold(true, |all, one| all & one) {
                return;
            }
            self.step(faults);
        }
        panic!("the handshake does not end");
    }
}

#[derive(Default)]
struct Kept(Vec<Vec<u8>>);

impl Inbox for Kept {
    fn message(&mut self, lane: Lane, bytes: &[u8]) {
        assert_eq!(lane, Lane(0));
        self.0.push(bytes.to_vec());
    }
}

fn message(n: usize) -> Vec<u8> {
    (0..1 + (n * 37) % 1_000).map(|i| (n + i) as u8).collect()
}

#[test]
fn messages_arrive_as_promised_whatever_the_path_does() {
    const COUNT: usize = 100;
    for transport in every() {
        let info = transport.info();
        let faults: &[Fault] = match info.id {
            // The packets of BEP 29 have neither length nor checksum: UDP's (RFC 768) reject truncated ones.
            "utp" => &[Fault::Lost, Fault::Twice, Fault::Noise],
            _ => &[Fault::Lost, Fault::Twice, Fault::Cut, Fault::Noise],
        };
        for seed in 0..5 {
            let mut path = Path::new(transport, seed);
            path.shake_hands(faults);
            let (mut kept, mut sent) = (Kept::default(), 0);
            for _ in 0..20_000 {
                while sent < COUNT
                    && path.ends[0].send(Lane(0), &message(sent)).unwrap() == Progress::Moved
                {
                    sent += 1;
                }
                path.step(faults);
                let far = &mut path.ends[1];
                while far.receive(Patience::None, &mut kept).unwrap() == Progress::Moved {}
                let is_over = match info.guarantees.service.delivery {
                    Delivery::Reliable => kept.0.len() >= COUNT,
                    Delivery::BestEffort | Delivery::Within(_) => {
                        sent == COUNT && path.flying.is_empty()
                    }
                };
                if is_over {
                    break;
                }
            }
            assert_eq!(sent, COUNT, "{} seed {seed}", info.id);
            match info.guarantees.service.delivery {
                Delivery::Reliable => {
                    let all: Vec<Vec<u8>> = (0..COUNT).map(message).collect();
                    assert_eq!(kept.0, all, "{} seed {seed}", info.id);
                }
                // A plain datagram does not distinguish noise from a message; the workload does.
                Delivery::BestEffort | Delivery::Within(_) => {
                    assert!(kept.0.len() > COUNT / 2, "{} {seed}", info.id)
                }
            }
        }
    }
}

/// Messages of each lane in the order of arrival, by number.
#[derive(Default)]
struct ByLane(Vec<(u16, usize)>);

impl Inbox for ByLane {
    fn message(&mut self, lane: Lane, bytes: &[u8]) {
        let number = u16::from_be_bytes([bytes[0], bytes[1]]);
        assert!(bytes[2..].iter().all(|byte| *byte == lane.0 as u8), "lane {}", lane.0);
        self.0.push((lane.0, usize::from(number)));
    }
}

/// Sends `count` messages of 400 bytes, a millisecond apart, over `lanes` in turns.
fn over_lanes(
    transport: &dyn Userspace,
    lanes: &[Service],
    count: usize,
    seed: u64,
) -> Vec<(u16, usize)> {
    let mut path = Path::with_lanes(transport, seed, lanes);
    path.shake_hands(&[]);
    let (mut received, mut sent) = (ByLane::default(), 0);
    let began = path.clock.now();
    for _ in 0..20_000 {
        let due = began + Nanos::from_millis(sent as u64);
        if sent < count && path.clock.now() >= due {
            let lane = sent % lanes.len();
            let mut message = vec![lane as u8; 400];
            message[..2].copy_from_slice(&(sent as u16).to_be_bytes());
            if path.ends[0].send(Lane(lane as u16), &message).unwrap() == Progress::Moved {
                sent += 1;
            }
        }
        path.step(&[Fault::Lost]);
        let far = &mut path.ends[1];
        while far.receive(Patience::None, &mut received).unwrap() == Progress::Moved {}
        if sent == count && (received.0.len() == count || path.ends[0].is_drained()) {
            break;
        }
    }
    assert_eq!(sent, count, "{}", transport.info().id);
    received.0
}

#[test]
fn each_lane_keeps_its_own_order_and_waits_for_no_other() {
    const COUNT: usize = 400;
    let several = every().filter(|t| t.info().guarantees.lanes > 1);
    let ordered = several.filter(|t| t.info().guarantees.service == Service::ORDERED);
    let mut found = 0;
    for transport in ordered {
        found += 1;
        let id = transport.info().id;
        let received = over_lanes(transport, &[Service::ORDERED; 4], COUNT, 3);
        assert_eq!(received.len(), COUNT, "{id}");
        for lane in 0..4 {
            let numbers: Vec<usize> =
                received.iter().filter(|(of, _)| *of == lane).map(|(_, n)| *n).collect();
            assert!(numbers.len() == COUNT / 4 && numbers.is_sorted(), "{id} lane {lane}");
        }
        // One in ten is lost, so that others overtake it, and its successors, on other lanes.
        let mut latest = 0;
        let overtaken = received.iter().filter(|(_, n)| {
            latest = latest.max(*n);
            *n < latest
        });
        let overtaken = overtaken.count();
        assert!(overtaken > 100, "{id}: {overtaken}");
        // On one lane nothing is overtaken.
        let one = over_lanes(transport, &[Service::ORDERED], COUNT, 3);
        assert!(one.iter().map(|(_, n)| n).is_sorted() && one.len() == COUNT, "{id}");
    }
    assert!(found >= 3, "quic, sctp-udp and enet have lanes");
}

#[test]
fn every_service_on_offer_is_given() {
    const COUNT: usize = 200;
    let with_more = every().filter(|t| t.info().guarantees.others != Offers::NONE);
    for transport in with_more {
        let promised = transport.info().guarantees;
        for offer in promised.others.iter() {
            // A lifetime with time for one retransmission, but not for two.
            let service = match offer.service.delivery {
                Delivery::Within(_) => {
                    let life = Nanos::from_millis(1_200);
                    Service { delivery: Delivery::Within(life), ..offer.service }
                }
                _ => offer.service,
            };
            for lanes in [1, 3] {
                let received = over_lanes(transport, &vec![service; lanes], COUNT, 5);
                let case = format!("{} {service} on {lanes} lanes", transport.info().id);
                let mut once = received.clone();
                once.sort_unstable_by_key(|(_, n)| *n);
                once.dedup();
                assert_eq!(once.len(), received.len(), "{case}: copies");
                let lost = COUNT - once.len();
                match service.delivery {
                    Delivery::Reliable => assert_eq!(lost, 0, "{case}"),
                    // One in ten packets is lost.
                    Delivery::BestEffort => assert!((5..60).contains(&lost), "{case}: {lost}"),
                    Delivery::Within(_) => assert!(lost < 20, "{case}: {lost}"),
                }
                let overtaken = received.windows(2).filter(|pair| pair[1].1 < pair[0].1).count();
                assert!(overtaken > 0, "{case}: nothing overtook anything");
            }
        }
    }
}

#[test]
fn whatever_a_stranger_sends_panics_nobody() {
    for transport in every() {
        for side in [Side::Near, Side::Far] {
            let clock = Manual::default();
            let mut end = open(transport, side, &clock);
            let mut rng = SplitMix64::new(11);
            for n in 0..2_000_u64 {
                clock.advance_to(Nanos::from_micros(500 * n));
                let len = rng.below(200) as usize;
                let mut noise: Vec<u8> = (0..len).map(|_| rng.below(256) as u8).collect();
                // Small numbers are more often valid.
                for byte in noise.iter_mut().filter(|byte| **byte < 128) {
                    *byte %= 4;
                }
                end.handle(Received::plain(clock.now(), &noise));
                end.on_deadline(clock.now()).unwrap();
                let mut out = Vec::new();
                for _ in 0..10 {
                    let _ = end.transmit(&mut out);
                }
            }
        }
    }
}

#[test]
fn a_peer_that_never_answers_is_asked_again_and_no_busier_than_that() {
    for transport in every() {
        let info = transport.info();
        let clock = Manual::default();
        let mut near = open(transport, Side::Near, &clock);
        if near.has_opened().unwrap() {
            assert_eq!(near.send(Lane(0), b"anybody there?").unwrap(), Progress::Moved);
        }
        let (mut datagrams, mut visits) = (0, 0);
        while clock.now() < Nanos::from_secs(10) && visits < 5_000 {
            let mut out = Vec::new();
            while near.transmit(&mut out).is_some() {
                datagrams += 1;
            }
            let Some(due) = near.next_deadline() else { break };
            visits += 1;
            clock.advance_to(clock.now().max(due));
            near.on_deadline(clock.now()).unwrap();
        }
        let again = info.guarantees.service.delivery == Delivery::Reliable;
        assert!(datagrams >= if again { 2 } else { 1 }, "{}: {datagrams}", info.id);
        // KCP acts every 10 ms, and no protocol more often than every 2 ms on average.
        assert!(visits < 5_000 && datagrams < 200, "{}: {visits} {datagrams}", info.id);
    }
}

/// Content is readable on the path unless a transport promises encryption, and unreadable if it does.
#[test]
fn what_is_sent_is_seen_on_the_path_unless_encryption_is_promised() {
    const WORDS: &[u8] = b"a sentence that anyone on the path may read, or nobody";
    for transport in every() {
        let info = transport.info();
        let mut path = Path::new(transport, 1);
        path.shake_hands(&[]);
        assert_eq!(path.ends[0].send(Lane(0), WORDS).unwrap(), Progress::Moved, "{}", info.id);
        let (mut kept, mut seen) = (Kept::default(), false);
        for _ in 0..1_000 {
            for from in [0, 1] {
                let mut datagram = Vec::new();
                while path.ends[from].transmit(&mut datagram).is_some() {
                    seen |= datagram.windows(WORDS.len()).any(|part| part == WORDS);
                    let now = path.clock.now();
                    path.ends[1 - from].handle(Received::plain(now, &datagram));
                    datagram.clear();
                }
            }
            let now = path.clock.now() + Nanos::from_millis(1);
            path.clock.advance_to(now);
            path.ends.iter_mut().for_each(|end| end.on_deadline(now).unwrap());
            while path.ends[1].receive(Patience::None, &mut kept).unwrap() == Progress::Moved {}
            if !kept.0.is_empty() {
                break;
            }
        }
        assert_eq!(kept.0, [WORDS.to_vec()], "{}", info.id);
        assert_ne!(seen, info.guarantees.encrypted, "{}", info.id);
    }
}
