//! Both ends in virtual time, over a line that delays, has a rate and a queue, and loses, duplicates and reorders. The
//! far end's clock is ahead of the near one's.

use std::collections::BTreeMap;

use super::*;
use deadheat_base::rng::SplitMix64;
use deadheat_base::spec::{Settings, Spec};
use deadheat_contract::contract::Service;
use deadheat_datapath::transport::Tickets;
use deadheat_datapath::transport::hello::Token;

const MS: fn(u64) -> Nanos = Nanos::from_millis;

/// Bytes of the stream in a full packet of 1,500 bytes.
const SEGMENT: usize = 1_452;

/// Delay of a packet, each way.
const DELAY: Nanos = Nanos::from_millis(10);
const ROUND_TRIP: Nanos = Nanos::from_millis(20);

/// Time by which the far end's clock is ahead: its microseconds wrap while the near end's do not.
const AHEAD: Nanos = Nanos(4_294_000_000_000);

/// Token whose halves are the connection's identifier, the last of all, and the far end's first number.
const TOKEN: [u8; 16] = [0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn try_open(typed: &str, side: Side, mtu: u32) -> Result<UtpEnd> {
    let knobs = Settings::check(&Spec::parse(typed)?, INFO.keys)?;
    UtpEnd::open(&Opening {
        side,
        token: Token::from_bytes(TOKEN),
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
    /// Of a thousand datagrams, the number lost, and the number duplicated.
    loss: u64,
    copies: u64,
    lost: u64,
    /// Most extra delay of a datagram.
    jitter: Nanos,
    /// Bits per second, and the longest wait in the queue; no limit without a rate.
    rate: Option<u64>,
    queue: Nanos,
    free_at: Nanos,
    /// The longest and the latest wait so far.
    longest_wait: Nanos,
    wait: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    Reads,
    Leaves,
}

/// Path between two ends.
struct Path {
    ends: [UtpEnd; 2],
    lines: [Line; 2],
    flying: BTreeMap<(Nanos, u64), (usize, Vec<u8>)>,
    now: Nanos,
    rng: SplitMix64,
    reader: Reader,
    /// Bytes that each end has read.
    received: [Vec<u8>; 2],
    order: u64,
}

impl Path {
    /// Creates a path and begins the handshake.
    fn new(typed: &str, up: Line) -> Path {
        Path::with_mtu(typed, up, 1_500)
    }

    fn with_mtu(typed: &str, up: Line, mtu: u32) -> Path {
        let mut ends = [Side::Near, Side::Far].map(|side| try_open(typed, side, mtu).unwrap());
        let now = Nanos::from_secs(1);
        ends[0].on_deadline(now);
        Path {
            ends,
            lines: [up, Line::default()],
            flying: BTreeMap::new(),
            now,
            rng: SplitMix64::new(5),
            reader: Reader::Reads,
            received: [Vec::new(), Vec::new()],
            order: 0,
        }
    }

    fn seeded(mut self, seed: u64) -> Path {
        self.rng = SplitMix64::new(seed);
        self
    }

    /// Returns the time of an end's clock.
    fn clock(&self, end: usize) -> Nanos {
        if end == 0 { self.now } else { self.now + AHEAD }
    }

    fn carry(&mut self, from: usize, datagram: &[u8]) {
        let line = &mut self.lines[from];
        if self.rng.below(1_000) < line.loss {
            line.lost += 1;
            return;
        }
        let mut leaves = self.now;
        if let Some(rate) = line.rate {
            leaves = leaves.max(line.free_at);
            line.wait = leaves - self.now;
            if line.wait > line.queue {
                return;
            }
            line.longest_wait = line.longest_wait.max(line.wait);
            leaves += Nanos((datagram.len() as u64 + 28) * 8_000_000_000 / rate);
            line.free_at = leaves;
        }
        for _ in 0..1 + u64::from(self.rng.below(1_000) < line.copies) {
            let late = Nanos(self.rng.below(line.jitter.0 + 1));
            self.order += 1;
            let at = (leaves + DELAY + late, self.order);
            self.flying.insert(at, (1 - from, datagram.to_vec()));
        }
    }

    /// Lets both ends send, and runs the next event.
    fn step(&mut self) {
        self.step_to(self.now + Nanos::from_secs(600));
    }

    /// Lets both ends send, and runs the next event before `limit`, if there is one.
    fn step_to(&mut self, limit: Nanos) {
        for from in [0, 1] {
            let mut datagram = Vec::new();
            while self.ends[from].transmit(self.clock(from), 1, &mut datagram).is_some() {
                self.carry(from, &datagram);
                datagram.clear();
            }
        }
        let near = self.ends[0].next_deadline();
        let far = self.ends[1].next_deadline().map(|due| due - AHEAD);
        let arrival = self.flying.keys().next().map(|(at, _)| *at);
        let next = [near, far, arrival].into_iter().flatten().fold(limit, Nanos::min);
        assert!(next > self.now || arrival == Some(next), "a deadline at {next} has passed");
        self.now = self.now.max(next);
        while let Some(entry) = self.flying.first_entry().filter(|e| e.key().0 <= self.now) {
            let (to, datagram) = entry.remove();
            self.ends[to].handle(Received::plain(self.clock(to), &datagram));
        }
        for end in [0, 1] {
            self.ends[end].on_deadline(self.clock(end));
            self.read(end);
        }
    }

    fn read(&mut self, end: usize) {
        if self.reader == Reader::Leaves {
            return;
        }
        let (now, received) = (self.clock(end), &mut self.received[end]);
        self.ends[end].read(now, &mut |_, bytes| {
            received.extend_from_slice(bytes);
            bytes.len()
        });
    }

    fn until(&mut self, when: Nanos) {
        while self.now < when {
            self.step_to(when);
        }
    }

    fn write(&mut self, end: usize, bytes: &[u8]) {
        let now = self.clock(end);
        self.ends[end].write(now, Lane(0), bytes, Rest::Kept).unwrap();
    }

    /// Sends `bytes` from one end, and the end of the stream; returns the time until that end knows that all has
    /// arrived.
    fn send(&mut self, from: usize, bytes: &[u8]) -> Nanos {
        let (began, mut rest) = (self.now, bytes);
        loop {
            let is_open = self.ends[from].state() == State::Open;
            let room = if is_open { self.ends[from].room(Lane(0)).min(rest.len()) } else { 0 };
            if room > 0 {
                self.write(from, &rest[..room]);
            }
            rest = &rest[room..];
            if rest.is_empty() {
                self.ends[from].finish(self.now, Lane(0));
                if self.ends[from].is_drained() {
                    let received = &self.received[1 - from];
                    assert!(received == bytes, "{} of {} bytes", received.len(), bytes.len());
                    assert!(self.ends[1 - from].has_ended(Lane(0)));
                    return self.now - began;
                }
            }
            self.step();
            assert!(self.now - began < Nanos::from_secs(600), "it does not end");
        }
    }

    fn window(&self) -> u64 {
        self.ends[0].stats().view.unwrap().cwnd_bytes
    }
}

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
}

#[test]
fn the_near_end_is_open_after_a_round_trip_whatever_the_clocks_show() {
    let mut path = Path::new("utp", Line::default());
    assert!(path.ends.iter().all(|end| end.state() == State::Handshaking));
    path.until(Nanos::from_secs(1) + ROUND_TRIP);
    assert!(path.ends.iter().all(|end| end.state() == State::Open));
    assert_eq!(path.ends[0].stats().view.unwrap().srtt_ns, Some(ROUND_TRIP.0));
    assert_eq!(path.ends.iter().filter_map(|end| end.next_deadline()).count(), 0);
    // The last identifier is followed by the first.
    assert_eq!((path.ends[0].incoming_id, path.ends[0].outgoing_id), (0xffff, 0));
    assert_eq!((path.ends[1].incoming_id, path.ends[1].outgoing_id), (0, 0xffff));
    // A message takes the delay, and its acknowledgement as much again.
    assert_eq!(path.send(0, b"ping"), ROUND_TRIP);
}

#[test]
fn a_deadline_that_was_acted_on_lies_ahead_though_nothing_could_leave() {
    let now = Nanos::from_secs(1);
    let mut near = try_open("utp", Side::Near, 1_500).unwrap();
    near.on_deadline(now);
    // Its interface is busy all the time.
    for after in [1, 3, 7] {
        let due = near.next_deadline().unwrap();
        assert!(due > now, "{due}");
        near.on_deadline(now + Nanos::from_secs(after));
        assert!(near.next_deadline().unwrap() > now + Nanos::from_secs(after));
    }
    let mut path = Path::new("utp:window=20kB", Line::default());
    path.until(now + ROUND_TRIP);
    path.reader = Reader::Leaves;
    path.write(0, &[7; 2_800]);
    for _ in 0..20 {
        let room = path.ends[0].room(Lane(0)).min(2_800);
        path.write(0, &[7; 2_800][..room]);
        path.step();
    }
    path.reader = Reader::Reads;
    path.read(1);
    let (due, clock) = (path.ends[1].next_deadline(), path.clock(1));
    assert_eq!(due, Some(clock));
    path.ends[1].on_deadline(clock);
    assert_eq!(path.ends[1].next_deadline(), None);
}

#[test]
fn a_lost_question_and_a_lost_answer_cost_a_second_and_two_more() {
    let mut path = Path::new("utp", Line { loss: 1_000, ..Line::default() });
    path.step();
    // The SYN was lost. The answer to the next one is, and the far end is open and sends first.
    (path.lines[0].loss, path.lines[1].loss) = (0, 1_000);
    path.until(Nanos::from_secs(2) + DELAY);
    let states = [0, 1].map(|end: usize| path.ends[end].state());
    assert_eq!(states, [State::Handshaking, State::Open]);
    path.write(1, b"welcome");
    path.until(Nanos::from_secs(3));
    path.lines[1].loss = 0;
    path.until(Nanos::from_secs(4) + ROUND_TRIP);
    assert_eq!(path.ends[0].state(), State::Open);
    // Nothing of it was timed, since it is unknown which SYN was answered.
    assert_eq!(path.ends[0].stats().view.unwrap().srtt_ns, None);
    path.until(Nanos::from_secs(8));
    assert_eq!(path.received[0], b"welcome");
    path.send(0, b"thanks");
}

#[test]
fn loss_copies_and_changed_order_are_made_up_for_in_both_directions() {
    for seed in 0..10 {
        let line = Line { loss: 30, copies: 100, jitter: MS(2), ..Line::default() };
        let mut path = Path::new("utp:min-rto=100ms", line).seeded(seed);
        path.lines[1] = line;
        let bytes = payload(300_000);
        for from in [0, 1] {
            let took = path.send(from, &bytes);
            assert!(took < Nanos::from_secs(60), "seed {seed}: {took}");
        }
    }
}

#[test]
fn numbers_wrap() {
    // Ten bytes a packet: 70,000 of them.
    let mut path = Path::with_mtu("utp", Line { loss: 1, ..Line::default() }, 58);
    path.send(0, &payload(700_000));
    assert_eq!(path.ends[0].stats().packets, Some(70_001));
    path.send(1, &payload(2_000));
}

#[test]
fn what_is_lost_at_one_moment_leaves_once_more_and_halves_the_window_once() {
    // Packets leave one by one, as their acknowledgements arrive.
    let up = Line { rate: Some(100_000_000), queue: MS(100), ..Line::default() };
    let mut path = Path::new("utp", up);
    path.until(Nanos::from_secs(1) + ROUND_TRIP);
    let bytes = payload(4_000_000);
    let mut rest = &bytes[..];
    let mut more = |path: &mut Path| {
        let room = path.ends[0].room(Lane(0)).min(rest.len());
        path.write(0, &rest[..room]);
        rest = &rest[room..];
        path.step();
    };
    while path.received[1].len() < 1_000_000 {
        more(&mut path);
    }
    // All packets that leave now are lost, and no others.
    let before = path.window();
    path.lines[0].loss = 1_000;
    while path.lines[0].lost == 0 {
        more(&mut path);
    }
    path.lines[0].loss = 0;
    let lost_at = path.now;
    while path.now < lost_at + ROUND_TRIP + ROUND_TRIP + ROUND_TRIP {
        more(&mut path);
    }
    let (half, segment) = (before / 2, SEGMENT as u64);
    // It grew by a segment until the loss was found, of which half is left, and by one in each round trip since.
    let around = half..=half + segment / 2 + 3 * segment;
    assert!(around.contains(&path.window()), "{} of {before}", path.window());
    assert_eq!(path.ends[0].stats().resent, Some(path.lines[0].lost));
}

#[test]
fn a_peer_that_does_not_read_is_not_sent_more_than_it_has_room_for() {
    let mut path = Path::new("utp:window=20kB", Line::default());
    path.until(Nanos::from_secs(1) + ROUND_TRIP);
    path.reader = Reader::Leaves;
    let bytes = payload(40_000);
    let mut put = 0;
    while path.now < Nanos::from_secs(20) {
        let room = path.ends[0].room(Lane(0)).min(bytes.len() - put);
        path.write(0, &bytes[put..put + room]);
        put += room;
        path.step();
    }
    assert!(path.ends[1].receiver.room() < SEGMENT as u32);
    let window = path.window();
    assert!(window > SEGMENT as u64, "asking for room says nothing of the path");
    // The announcement of room is lost, and then a probe is answered.
    path.reader = Reader::Reads;
    path.lines[1].loss = 1_000;
    path.read(1);
    path.until(path.now + MS(1));
    path.lines[1].loss = 0;
    while path.received[1].len() < bytes.len() {
        let room = path.ends[0].room(Lane(0)).min(bytes.len() - put);
        path.write(0, &bytes[put..put + room]);
        put += room;
        path.step();
        assert!(path.now < Nanos::from_secs(120), "{} bytes", path.received[1].len());
    }
    assert!(path.received[1] == bytes);
}

#[test]
fn alone_it_takes_the_link_and_its_queue_stays_at_the_target() {
    for (typed, target) in [("utp", 100), ("utp:target=25ms", 25), ("utp:target=5ms", 5)] {
        let rate = 10_000_000;
        let up = Line { rate: Some(rate), queue: MS(1_000), ..Line::default() };
        let mut path = Path::new(typed, up);
        path.until(Nanos::from_secs(1) + ROUND_TRIP);
        let (mut measured, mut longest, zeros) = (None, Nanos::ZERO, vec![0; 1 << 20]);
        let end = Nanos::from_secs(61);
        while path.now < end {
            let room = path.ends[0].room(Lane(0));
            path.write(0, &zeros[..room]);
            path.step();
            if path.now >= Nanos::from_secs(31) {
                measured.get_or_insert((path.now, path.received[1].len()));
                longest = longest.max(path.lines[0].wait);
            }
        }
        let (from, bytes) = measured.unwrap();
        let goodput = (path.received[1].len() - bytes) as f64 * 8e9 / (path.now - from).0 as f64;
        let share = goodput / (rate as f64 * SEGMENT as f64 / 1_500.0);
        assert!((0.98..=1.001).contains(&share), "{typed}: {share}");
        // A packet takes 1.2 ms.
        let around = MS(target - target / 10 - 2)..=MS(target + target / 10 + 3);
        assert!(around.contains(&longest), "{typed}: {longest}");
        assert_eq!(path.ends[0].stats().resent, Some(0), "{typed}");
    }
}

#[test]
fn a_reset_ends_the_connection_and_a_stranger_s_does_not() {
    let reset = |connection| {
        let mut room = Vec::new();
        let kind = wire::PacketKind::Reset;
        let (timestamp, difference, window) = (0, 0, 0);
        let header = Header {
            kind,
            connection,
            timestamp,
            difference,
            window,
            sequence: 0,
            acknowledged: 0,
        };
        wire::write(&header, &mut room);
        room
    };
    let mut path = Path::new("utp", Line::default());
    // The far end has no connection yet.
    path.ends[1].handle(Received::plain(path.clock(1), &reset(0)));
    path.until(Nanos::from_secs(1) + ROUND_TRIP);
    for (end, connection, is_open) in
        [(0, 5, true), (0, 0, false), (1, 0xfffe, true), (1, 0, false)]
    {
        path.ends[end].handle(Received::plain(path.clock(end), &reset(connection)));
        assert_eq!(path.ends[end].state() == State::Open, is_open, "{connection} at {end}");
    }
    assert_eq!(path.ends[0].next_deadline(), None);
}

#[test]
fn packets_that_are_too_small_are_refused() {
    assert!(try_open("utp", Side::Near, 49).is_ok());
    let error = try_open("utp", Side::Near, 48).err().unwrap().to_string();
    assert!(error.contains("48 bytes"), "{error}");
    // RFC 6817, 2.5: no more than 100 ms.
    assert!(try_open("utp:target=101ms", Side::Near, 1_500).is_err());
}
