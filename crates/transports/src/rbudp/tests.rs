//! Both ends in virtual time, over a line that delays, has a rate and a queue, and loses, duplicates and reorders.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use deadheat_base::rng::SplitMix64;
use deadheat_base::spec::{Settings, Spec};
use deadheat_contract::contract::{Service, Side};
use deadheat_datapath::transport::Tickets;
use deadheat_datapath::transport::hello::Token;

/// Bytes of the stream in a full datagram, and of its packet.
const SEGMENT: u64 = 1_448;
const PACKET: u64 = 1_500;

const MS: fn(u64) -> Nanos = Nanos::from_millis;

fn try_open(typed: &str, mtu: u32) -> Result<RbudpEnd> {
    let knobs = Settings::check(&Spec::parse(typed)?, INFO.keys)?;
    RbudpEnd::open(&Opening {
        side: Side::Near,
        token: Token::from_bytes([7; 16]),
        knobs: &knobs,
        lanes: &[Service::ORDERED],
        largest_message: 1_000,
        mtu,
        ip_header: 20,
        tickets: &Tickets::default(),
    })
}

/// Direction of a path.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    /// Datagrams lost in a thousand.
    loss: u64,
    /// Most extra delay of a datagram.
    jitter: Nanos,
    /// Bits per second, and the longest wait in the queue; no limit without a rate.
    rate: Option<u64>,
    queue: Nanos,
    /// Datagrams duplicated in a thousand.
    copies: u64,
    free_at: Nanos,
}

/// Path between two ends, 10 ms long each way.
struct Path {
    ends: [RbudpEnd; 2],
    lines: [Line; 2],
    flying: BTreeMap<(Nanos, u64), (usize, Vec<u8>)>,
    now: Nanos,
    rng: SplitMix64,
    /// Bytes that the far end has read.
    received: Vec<u8>,
    /// Datagrams that left, and bytes of their packets, towards the far end.
    datagrams: u64,
    packet_bytes: u64,
    /// Rounds in which data left, and number of asks without data.
    rounds: BTreeSet<u64>,
    asks: u64,
    order: u64,
}

const DELAY: Nanos = Nanos::from_millis(10);
const ROUND_TRIP: Nanos = Nanos::from_millis(20);

impl Path {
    fn new(typed: &str, up: Line) -> Path {
        let ends = [0, 1].map(|_| try_open(typed, 1_500).unwrap());
        let now = Nanos::from_secs(1);
        Path {
            ends,
            lines: [up, Line::default()],
            flying: BTreeMap::new(),
            now,
            rng: SplitMix64::new(5),
            received: Vec::new(),
            datagrams: 0,
            packet_bytes: 0,
            rounds: BTreeSet::new(),
            asks: 0,
            order: 0,
        }
    }

    fn seeded(mut self, seed: u64) -> Path {
        self.rng = SplitMix64::new(seed);
        self
    }

    fn carry(&mut self, from: usize, datagram: &[u8]) {
        let packet = datagram.len() as u64 + 28;
        if from == 0 {
            self.datagrams += 1;
            self.packet_bytes += packet;
            match wire::read(datagram) {
                Some(RbudpDatagram::Data(data)) => drop(self.rounds.insert(data.round)),
                Some(RbudpDatagram::Ask(_)) => self.asks += 1,
                _ => {}
            }
        }
        let line = &mut self.lines[from];
        if self.rng.below(1_000) < line.loss {
            return;
        }
        let mut leaves = self.now;
        if let Some(rate) = line.rate {
            leaves = leaves.max(line.free_at);
            if leaves - self.now > line.queue {
                return;
            }
            leaves += Nanos(packet * 8_000_000_000 / rate);
            line.free_at = leaves;
        }
        for _ in 0..1 + u64::from(self.rng.below(1_000) < line.copies) {
            let late = Nanos(self.rng.below(line.jitter.0 + 1));
            self.order += 1;
            let at = (leaves + DELAY + late, self.order);
            self.flying.insert(at, (1 - from, datagram.to_vec()));
        }
    }

    /// Lets both ends send, runs the next event, and has the far end read.
    fn step(&mut self) {
        for from in [0, 1] {
            let mut datagram = Vec::new();
            while self.ends[from].transmit(self.now, 1, &mut datagram).is_some() {
                self.carry(from, &datagram);
                datagram.clear();
            }
        }
        let timers = self.ends.iter().filter_map(|end| end.next_deadline());
        let arrivals = self.flying.keys().next().map(|(at, _)| *at);
        let Some(next) = timers.chain(arrivals).min() else { return };
        assert!(next > self.now || arrivals == Some(next), "a deadline at {next} has passed");
        self.now = self.now.max(next);
        while let Some(entry) = self.flying.first_entry().filter(|e| e.key().0 <= self.now) {
            let (to, datagram) = entry.remove();
            self.ends[to].handle(Received::plain(self.now, &datagram));
        }
        for end in &mut self.ends {
            if end.next_deadline().is_some_and(|due| due <= self.now) {
                end.on_deadline(self.now);
            }
        }
        let received = &mut self.received;
        self.ends[1].read(self.now, &mut |_, bytes| {
            received.extend_from_slice(bytes);
            bytes.len()
        });
    }

    /// Sends `bytes` and the end of the stream; returns the time until the near end knows that all has arrived.
    fn send(&mut self, bytes: &[u8]) -> Nanos {
        let (began, mut rest) = (self.now, bytes);
        loop {
            let room = self.ends[0].room(Lane(0)).min(rest.len());
            let (now, later) = rest.split_at(room);
            if room > 0 {
                self.ends[0].write(self.now, Lane(0), now, Rest::Kept).unwrap();
            }
            rest = later;
            if rest.is_empty() {
                self.ends[0].finish(self.now, Lane(0));
                if self.ends[0].is_drained() {
                    assert!(
                        self.received == bytes,
                        "{} of {} bytes",
                        self.received.len(),
                        bytes.len()
                    );
                    assert!(self.ends[1].has_ended(Lane(0)));
                    return self.now - began;
                }
            }
            self.step();
            assert!(self.now - began < Nanos::from_secs(600), "it does not end");
        }
    }

    fn resent(&self) -> u64 {
        self.ends[0].sender.resent
    }
}

fn payload(len: u64) -> Vec<u8> {
    (0..len).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
}

#[test]
fn without_loss_a_payload_takes_one_round_and_the_time_that_the_paper_predicts() {
    // T = S / R + RTT, and so R_achieved / R = 1 / (1 + RTT * R / S).
    for (typed, packets, rounds) in [
        ("rbudp:rate=1gbit", 1_000, 1),
        // A round takes 100 ms: 834 packets; a quarter of the window is 1,334.
        ("rbudp:rate=100mbit", 8_330, 10),
        ("rbudp:rate=1gbit", 13_000, 10),
    ] {
        let mut path = Path::new(typed, Line::default());
        let took = path.send(&payload(packets * SEGMENT));
        let rate = path.ends[0].sender.pace().rate().unwrap();
        let predicted = Nanos(packets * PACKET * 8_000_000_000 / rate) + ROUND_TRIP;
        // The last batch leaves up to a millisecond before its time.
        assert!(took <= predicted && predicted - took <= MS(2), "{typed}: {took}, not {predicted}");
        assert_eq!((path.rounds.len(), path.resent(), path.asks), (rounds, 0, 0), "{typed}");
        assert_eq!(path.ends[0].stats().packets, Some(packets));
        let view = path.ends[0].stats().view.unwrap();
        assert_eq!((view.rounds, view.retransmits), (Some(rounds as u64), 0));
        assert_eq!((view.pacing_rate_bps, view.srtt_ns), (Some(rate), Some(ROUND_TRIP.0)));
    }
}

/// Expected number of rounds until `n` datagrams have arrived, each lost with probability `p` each time: the mean of
/// the largest of `n` geometric variables, the sum over k of 1 - (1 - p^k)^n.
fn expected_rounds(n: f64, p: f64) -> f64 {
    (0..60).map(|k| 1.0 - (1.0 - p.powi(k)).powf(n)).sum()
}

#[test]
fn loss_costs_rounds_by_the_logarithm_and_datagrams_by_p_in_1_less_p() {
    const SEEDS: u64 = 12;
    const PACKETS: u64 = 1_000;
    for loss in [10, 50, 200, 500] {
        let p = loss as f64 / 1_000.0;
        let (mut rounds, mut resent) = (0.0, 0.0);
        for seed in 0..SEEDS {
            let up = Line { loss, ..Line::default() };
            let mut path = Path::new("rbudp:rate=1gbit", up).seeded(seed);
            path.send(&payload(PACKETS * SEGMENT));
            rounds += path.rounds.len() as f64 / SEEDS as f64;
            resent += path.resent() as f64 / (SEEDS * PACKETS) as f64;
        }
        let (expected, share) = (expected_rounds(PACKETS as f64, p), p / (1.0 - p));
        // The largest of many geometric variables has a standard deviation of pi / (sqrt 6 * ln 1/p), and half a
        // round of rounding; the number of losses of one datagram has sqrt(p) / (1 - p).
        let deviation = 1.283 / (1.0 / p).ln() + 0.3;
        let within = 4.0 * deviation / (SEEDS as f64).sqrt();
        assert!((rounds - expected).abs() < within, "{loss}: {rounds} rounds, not {expected}");
        let within = 4.0 * p.sqrt() / (1.0 - p) / ((SEEDS * PACKETS) as f64).sqrt();
        assert!((resent - share).abs() < within, "{loss}: {resent} again, not {share}");
    }
}

#[test]
fn what_leaves_keeps_the_rate_whatever_is_lost() {
    for loss in [0, 100] {
        let up = Line { loss, ..Line::default() };
        let mut path = Path::new("rbudp:rate=50mbit", up);
        let took = path.send(&payload(3_000_000));
        let rate = path.packet_bytes as f64 * 8e9 / took.0 as f64;
        let longest = 50e6 * (1.0 + 1e-3 / took.0 as f64 * 1e9);
        assert!(rate <= longest, "{loss}: {rate}");
        // Round trips after the last round, in which there is nothing to send.
        assert!(rate > if loss == 0 { 47e6 } else { 40e6 }, "{loss}: {rate}");
    }
}

#[test]
fn small_messages_do_not_exceed_the_rate_either() {
    let mut path = Path::new("rbudp:rate=1mbit", Line::default());
    let began = path.now;
    // 100 bytes and their headers each millisecond: 1.216 Mbit/s.
    for n in 0..1_000 {
        while path.now < began + MS(n) {
            path.step();
            path.now = path.now.min(began + MS(n)).max(path.now);
        }
        path.ends[0].write(path.now, Lane(0), &[n as u8; 100], Rest::Kept).unwrap();
    }
    let rate = path.packet_bytes as f64 * 8e9 / (path.now - began).0 as f64;
    assert!(rate < 1.02e6, "{rate}");
}

#[test]
fn a_message_alone_is_a_round_of_one_and_its_loss_is_found_by_the_timer() {
    let mut path = Path::new("rbudp", Line::default());
    path.ends[0].write(path.now, Lane(0), b"ping", Rest::Kept).unwrap();
    let began = path.now;
    while !path.ends[0].is_drained() {
        path.step();
    }
    // The datagram asks; nothing else leaves.
    assert_eq!((path.now - began, path.datagrams, path.asks), (ROUND_TRIP, 1, 0));
    assert_eq!((&path.received[..], path.ends[0].next_deadline()), (&b"ping"[..], None));
    // A second one is lost: after the timeout the ask leaves, and after the answer the message.
    let timeout = Nanos(ROUND_TRIP.0 + 4 * ROUND_TRIP.0 / 2);
    path.ends[0].write(path.now, Lane(0), b"pong", Rest::Kept).unwrap();
    path.lines[0].loss = 1_000;
    let began = path.now;
    path.step();
    assert_eq!(path.now, began + timeout);
    path.lines[0].loss = 0;
    while !path.ends[0].is_drained() {
        path.step();
    }
    assert_eq!(path.now, began + timeout + ROUND_TRIP + ROUND_TRIP);
    assert_eq!((path.asks, path.resent(), &path.received[..]), (1, 1, &b"pingpong"[..]));
}

#[test]
fn the_loss_of_one_message_is_found_by_the_answer_to_the_next() {
    let mut path = Path::new("rbudp", Line::default());
    let began = path.now;
    path.lines[0].loss = 1_000;
    path.ends[0].write(path.now, Lane(0), b"one", Rest::Kept).unwrap();
    let mut datagram = Vec::new();
    path.ends[0].transmit(path.now, 1, &mut datagram);
    path.lines[0].loss = 0;
    path.ends[0].write(path.now, Lane(0), b"two", Rest::Kept).unwrap();
    while !path.ends[0].is_drained() {
        path.step();
    }
    assert_eq!((path.now - began, path.asks, path.resent()), (ROUND_TRIP + ROUND_TRIP, 0, 1));
    assert_eq!(path.received, b"onetwo");
}

#[test]
fn copies_and_changed_order_are_tolerated() {
    for seed in 0..10 {
        let line = Line { loss: 50, copies: 100, jitter: MS(5), ..Line::default() };
        let mut path = Path::new("rbudp:rate=20mbit,window=100kB", line).seeded(seed);
        path.lines[1] = line;
        let took = path.send(&payload(500_000));
        assert!(took < Nanos::from_secs(10), "seed {seed}: {took}");
    }
}

#[test]
fn the_last_bytes_arrive_though_everything_was_lost_when_the_application_ended() {
    let mut path = Path::new("rbudp:rate=10mbit", Line { loss: 1_000, ..Line::default() });
    path.ends[0].write(path.now, Lane(0), &payload(5_000), Rest::Kept).unwrap();
    path.ends[0].finish(path.now, Lane(0));
    let began = path.now;
    while path.now < began + Nanos::from_secs(5) {
        path.step();
    }
    assert!(!path.ends[0].is_drained() && path.received.is_empty());
    path.lines[0].loss = 0;
    while !path.ends[0].is_drained() {
        path.step();
    }
    assert!(path.received == payload(5_000) && path.ends[1].has_ended(Lane(0)));
    // Asks after 1, 3 and 7 seconds, and no data before an answer.
    assert_eq!((path.asks, path.resent()), (3, 4));
    // At the rate, the last datagram of a round leaves three packets' time after the first.
    let round = Nanos::from_micros(3 * 1_200);
    let both = Nanos(2 * (ROUND_TRIP.0 + round.0));
    assert_eq!(path.now - began, Nanos::from_secs(7) + both);
}

#[test]
fn a_full_window_is_asked_for_and_nothing_more_until_there_is_an_answer() {
    let mut path = Path::new("rbudp:rate=100mbit,window=100kB", Line::default());
    path.lines[1].loss = 1_000;
    let bytes = payload(300_000);
    path.ends[0].write(path.now, Lane(0), &bytes[..100_000], Rest::Kept).unwrap();
    assert_eq!(path.ends[0].room(Lane(0)), 0);
    let began = path.now;
    while path.now < began + Nanos::from_secs(20) {
        path.step();
    }
    // All data has arrived, but no answer does: after 1, 3, 7 and 15 seconds the ask leaves, and no data again.
    assert_eq!((path.received.len(), path.asks, path.resent()), (100_000, 4, 0));
    assert_eq!(path.ends[0].room(Lane(0)), 0);
    path.lines[1].loss = 0;
    while path.ends[0].room(Lane(0)) == 0 {
        path.step();
    }
    path.send_rest(&bytes);
}

impl Path {
    /// Sends `bytes` after the first 100,000.
    fn send_rest(&mut self, bytes: &[u8]) {
        let mut rest = &bytes[100_000..];
        while self.received.len() < bytes.len() {
            let room = self.ends[0].room(Lane(0)).min(rest.len());
            self.ends[0].write(self.now, Lane(0), &rest[..room], Rest::Kept).unwrap();
            rest = &rest[room..];
            self.step();
        }
        assert!(self.received == bytes && self.resent() == 0);
    }
}

#[test]
fn a_probe_fills_a_path_of_any_rate() {
    // The window holds the datagrams that leave until a loss is repaired.
    for (rate, typed, bytes) in [
        (1_000_000, "rbudp", 1_000_000),
        (20_000_000, "rbudp", 5_000_000),
        (200_000_000, "rbudp:window=32MB", 20_000_000),
    ] {
        for loss in [0, 50] {
            let up = Line { rate: Some(rate), queue: MS(100), loss, ..Line::default() };
            let mut path = Path::new(typed, up);
            let took = path.send(&payload(bytes));
            let goodput = bytes as f64 * 8e9 / took.0 as f64 / rate as f64;
            // Headers take 3.5 % of it, and lost datagrams use the rate, too.
            assert!(goodput > 0.75, "{rate}, loss {loss}: {goodput}");
            let now = path.ends[0].sender.pace().rate().unwrap() as f64 / rate as f64;
            assert!((0.8..2.1).contains(&now), "{rate}, loss {loss}: probes at {now}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_datagrams_at_the_same_times() {
    let run = |seed| {
        let line = Line { loss: 50, copies: 50, jitter: MS(3), ..Line::default() };
        let mut path = Path::new("rbudp", line).seeded(seed);
        let took = path.send(&payload(300_000));
        (took, path.datagrams, path.packet_bytes, path.resent())
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn a_hostile_peer_finds_no_panic_and_no_more_memory_than_a_window() {
    let mut rng = SplitMix64::new(11);
    for _ in 0..30 {
        let mut end = try_open("rbudp:window=20kB,rate=10mbit", 576).unwrap();
        let mut now = Nanos::from_secs(1);
        for _ in 0..1_000 {
            now += Nanos(rng.below(3_000_000));
            let small = |rng: &mut SplitMix64| match rng.below(8) {
                0 => rng.next_u64() >> rng.below(64),
                _ => rng.below(60),
            };
            let mut datagram = Vec::new();
            let bytes = vec![3; rng.below(400) as usize];
            let round = small(&mut rng);
            match rng.below(4) {
                0 => {
                    let (number, offset) = (small(&mut rng), small(&mut rng).wrapping_mul(397));
                    let (ends, asks) = (rng.below(9) == 0, rng.below(3) == 0);
                    let data = wire::DataDatagram { round, number, offset, ends, asks, bytes: &[] };
                    wire::write_data(&data, bytes.len(), &mut datagram);
                    datagram.extend_from_slice(&bytes);
                }
                1 => wire::write_ask(round, &mut datagram),
                _ => {
                    let census = wire::Census {
                        round: small(&mut rng),
                        later: small(&mut rng) as u32,
                        bytes: small(&mut rng),
                        span: Nanos(small(&mut rng)),
                    };
                    let (missing, from) = (small(&mut rng), small(&mut rng));
                    let is_last = rng.below(2) == 0;
                    let tally = wire::Tally { round, missing, from, census, is_last, bitmap: &[] };
                    let bits: Vec<bool> = (0..rng.below(80)).map(|_| rng.below(2) == 0).collect();
                    wire::write_tally(&tally, bits.into_iter(), &mut datagram);
                }
            }
            end.handle(Received::plain(now, &datagram));
            let room = end.room(Lane(0)).min(rng.below(2_000) as usize);
            end.write(now, Lane(0), &vec![1; room], Rest::Kept).unwrap();
            let mut out = Vec::new();
            while end.transmit(now, 64, &mut out).is_some() && out.len() < 100_000 {}
            assert!(out.len() < 100_000, "it sends without end");
            if end.next_deadline().is_some_and(|due| due <= now) {
                end.on_deadline(now);
            }
            end.read(now, &mut |_, bytes| bytes.len());
            let (sender, receiver) = (end.sender.stored(), end.receiver.stored());
            assert!(sender <= 2 * LEAST_FLIGHTS && receiver <= LEAST_FLIGHTS);
        }
    }
}

#[test]
fn options_are_read_back_and_what_cannot_be_is_refused_with_what_would_do() {
    let end = try_open("rbudp:rate=20mbit,window=1MB", 1_400).unwrap();
    let effective = end.effective();
    for (name, value) in
        [("cc", "none"), ("rate", "20mbit"), ("window", "1000000 B"), ("mtu", "1400 B")]
    {
        assert_eq!(effective[name], value);
    }
    assert_eq!(try_open("rbudp", 1_500).unwrap().effective()["rate"], "probe");
    let refused = |typed: &str, mtu| match try_open(typed, mtu) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{typed} was taken"),
    };
    assert!(refused("rbudp", 80).contains("85 bytes and more"));
    assert!(refused("rbudp:rate=1kbit", 1_500).contains("64kbit..1tbit"));
    assert!(refused("rbudp:rate=20", 1_500).contains("20mbit"));
    assert!(refused("rbudp:rate=max", 1_500).contains("rate"));
}
