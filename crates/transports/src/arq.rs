//! A reliable byte stream in user space, for teaching and tests: cumulative acknowledgements, a window, the timer of
//! RFC 6298 and, by default, Reno's congestion control (RFC 5681). Its segments travel in UDP datagrams.
//!
//! It is not the kernel's TCP: no handshake of its own, no selective or delayed acknowledgements, no pacing, no flow
//! control beyond the window. The same code runs on real and on simulated paths.

use std::io;

use deadheat_base::error::Result;
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::time::Nanos;
use deadheat_base::units::Bytes;
use deadheat_contract::contract::{Guarantees, Lane};
use deadheat_datapath::transport::frame::PREFIX;
use deadheat_datapath::transport::userspace::{
    InOrder, MTU, Opening, Protocol, ProtocolStats, Received, Rest, State, Transmit, Userspace,
};
use deadheat_datapath::transport::{Effective, Info, effective_options};
use receiver::ArqReceiver;
use segment::{ArqSegment, HEADER, SegmentFlag, write_header};
use sender::{ArqControl, ArqSender, ArqTerms};

mod receiver;
mod segment;
mod sender;

/// The transport.
#[derive(Clone, Copy)]
pub(super) struct Arq;

static INFO: Info = Info {
    id: "arq",
    label: "ARQ",
    colour: "#3f8f8a",
    summary: "a reliable byte stream over UDP: a model to learn from",
    guarantees: Guarantees::BYTE_STREAM,
    framing_bytes: PREFIX,
    keys: &[CONTROL.key(), WINDOW.key(), MIN_RTO.key(), MTU.key()],
    ..Info::IN_USER_SPACE
};

const CONTROL: Preset<ArqControl> =
    Optional::choice("cc", &["reno", "none"], &[ArqControl::Reno, ArqControl::None])
        .or("reno")
        .doc("congestion control: RFC 5681, or nothing but the window");

const WINDOW: Preset<Bytes> = Optional::size("window", (4_096, 1 << 30))
    .or("256kB")
    .doc("maximum bytes under way, and of data that arrives early");

const MIN_RTO: Preset<Nanos> = Optional::span("min-rto", (1_000_000, 60_000_000_000))
    .or("200ms")
    .doc("the shortest retransmission timeout; 200ms is Linux's, 1s that of RFC 6298");

impl Userspace for Arq {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Protocol>> {
        let header = HEADER as u32;
        let segment = opening.payload(INFO.id, header + 1)? - header;
        let knobs = opening.knobs;
        let window = knobs.get(&WINDOW).0.max(u64::from(segment));
        let terms = ArqTerms {
            control: knobs.get(&CONTROL),
            window,
            segment: u64::from(segment),
            least_timeout: knobs.get(&MIN_RTO),
        };
        // The buffer takes messages whole, so it has room for the largest.
        let buffer = (window as usize).max(PREFIX + opening.largest_message);
        Ok(Box::new(ArqEnd {
            terms,
            sender: ArqSender::new(terms, buffer),
            receiver: ArqReceiver::new(window as usize),
            mtu: opening.mtu,
        }))
    }
}

/// End of a connection.
struct ArqEnd {
    terms: ArqTerms,
    sender: ArqSender,
    receiver: ArqReceiver,
    mtu: u32,
}

impl Protocol for ArqEnd {
    /// Returns [`State::Open`] from the start: the ends have nothing to agree on.
    fn state(&self) -> State {
        State::Open
    }

    fn handle(&mut self, Received { at: now, bytes: datagram, .. }: Received<'_>) {
        if let Some(segment) = ArqSegment::read(datagram) {
            self.sender.acknowledge(now, &segment);
            self.receiver.take(&segment);
        }
    }

    fn transmit(&mut self, now: Nanos, _most: usize, batch: &mut Vec<u8>) -> Option<Transmit> {
        let from = batch.len();
        let acknowledged = self.receiver.acknowledged();
        if self.sender.transmit(now, acknowledged, batch) {
            self.receiver.answered();
        } else if self.receiver.owes_answer() {
            self.receiver.answered_once();
            write_header(self.sender.next(), acknowledged, SegmentFlag::More, batch);
        }
        Some(batch.len() - from).filter(|len| *len > 0).map(Transmit::plain)
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.sender.timer()
    }

    fn on_deadline(&mut self, now: Nanos) {
        self.sender.on_timer(now);
    }

    fn room(&self, _lane: Lane) -> usize {
        self.sender.buffer.room() as usize
    }

    fn write(&mut self, _now: Nanos, _lane: Lane, bytes: &[u8], _: Rest) -> io::Result<usize> {
        self.sender.buffer.put(bytes);
        Ok(bytes.len())
    }

    fn read(&mut self, _now: Nanos, take: &mut dyn FnMut(Lane, &[u8]) -> usize) {
        self.receiver.hand_over(&mut |bytes| take(Lane(0), bytes));
    }

    fn finish(&mut self, _now: Nanos, _lane: Lane) {
        self.sender.buffer.finish();
    }

    fn has_ended(&self, _lane: Lane) -> bool {
        self.receiver.is_over()
    }

    fn is_drained(&self) -> bool {
        self.sender.is_drained()
    }

    fn stats(&self) -> ProtocolStats {
        let stats = ProtocolStats::of(self.sender.sent, self.sender.resent, HEADER as u64);
        stats.seen(self.sender.view())
    }

    fn effective(&self) -> Effective {
        let control = CONTROL.word(self.terms.control);
        effective_options([
            ("cc", control.to_owned()),
            ("window", format!("{} B", self.terms.window)),
            ("min-rto", self.terms.least_timeout.to_string()),
            ("mtu", format!("{} B", self.mtu)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Kept;
    use deadheat_base::rng::SplitMix64;
    use deadheat_base::spec::{Settings, Spec};
    use deadheat_base::time::{Clock, Manual};
    use deadheat_contract::contract::{Patience, Service, Side};
    use deadheat_datapath::transport::hello::Token;
    use deadheat_datapath::transport::userspace::OverPath;
    use deadheat_datapath::transport::{Conn, Progress};

    fn end(side: Side, clock: &Manual) -> OverPath {
        let knobs = Settings::check(&Spec::parse("arq:min-rto=50ms").unwrap(), INFO.keys);
        let knobs = knobs.unwrap();
        let opening = Opening {
            side,
            token: Token::from_bytes([7; 16]),
            knobs: &knobs,
            lanes: &[Service::ORDERED],
            largest_message: 3_000,
            mtu: 1_500,
            ip_header: 20,
            tickets: &deadheat_datapath::transport::Tickets::default(),
        };
        OverPath::open(&Arq, &opening, clock).unwrap()
    }

    /// Sends messages over a path that delays by 10 ms, and loses, duplicates and reorders at random; returns the
    /// messages that arrived and the time that took.
    fn carry(messages: &[Vec<u8>], seed: u64) -> (Vec<Vec<u8>>, Nanos) {
        let clock = Manual::default();
        let mut ends = [Side::Near, Side::Far].map(|side| end(side, &clock));
        let (mut rng, mut kept) = (SplitMix64::new(seed), Kept::default());
        let mut flying: Vec<(Nanos, usize, Vec<u8>)> = Vec::new();
        let mut left = messages.iter().peekable();
        let mut is_finished = false;
        loop {
            while let Some(message) = left.peek() {
                match ends[0].send(Lane(0), message).unwrap() {
                    Progress::Moved => drop(left.next()),
                    _ => break,
                }
            }
            if left.peek().is_none() && !is_finished {
                ends[0].finish().unwrap();
                is_finished = true;
            }
            let now = clock.now();
            for (from, end) in ends.iter_mut().enumerate() {
                let mut room = Vec::new();
                while end.transmit(&mut room).is_some() {
                    for _ in 0..[0, 1, 1, 1, 1, 1, 1, 2][rng.below(8) as usize] {
                        let at = now + Nanos::from_millis(10 + rng.below(5));
                        flying.push((at, 1 - from, room.clone()));
                    }
                    room.clear();
                }
            }
            if ends[1].receive(Patience::None, &mut kept).unwrap() == Progress::Closed {
                return (kept.0, now);
            }
            let timers = ends.iter().filter_map(|end| end.next_deadline());
            let now = now.max(flying.iter().map(|(at, ..)| *at).chain(timers).min().unwrap());
            clock.advance_to(now);
            for end in &mut ends {
                end.on_deadline(now).unwrap();
            }
            flying.sort_by_key(|(at, ..)| *at);
            while flying.first().is_some_and(|(at, ..)| *at <= now) {
                let (_, to, datagram) = flying.remove(0);
                ends[to].handle(Received::plain(now, &datagram));
            }
        }
    }

    #[test]
    fn messages_arrive_once_and_in_order_whatever_the_path_does() {
        let mut rng = SplitMix64::new(1);
        let message = |n: usize| vec![n as u8; 1 + (n * 37) % 3_000];
        let messages: Vec<Vec<u8>> = (0..300).map(message).collect();
        for _ in 0..20 {
            let seed = rng.next_u64();
            let (arrived, took) = carry(&messages, seed);
            assert_eq!(arrived, messages, "seed {seed}");
            assert!(took < Nanos::from_secs(60), "seed {seed}: {took}");
        }
    }

    #[test]
    fn noise_is_ignored() {
        let clock = Manual::default();
        let mut end = end(Side::Near, &clock);
        let mut rng = SplitMix64::new(5);
        for len in 0..200 {
            let mut noise: Vec<u8> = (0..len).map(|_| rng.below(256) as u8).collect();
            if len > 20 && len % 2 == 0 {
                noise[..16].fill(0);
                noise[15] = rng.below(4) as u8;
                noise[16] &= 1;
            }
            clock.advance_to(Nanos(len));
            end.handle(Received::plain(Nanos(len), &noise));
            let mut room = Vec::new();
            while end.transmit(&mut room).is_some() {}
        }
    }
}
