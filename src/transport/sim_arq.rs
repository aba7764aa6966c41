//! A model of a reliable byte stream for simulated paths: cumulative acknowledgements, a window, the
//! timer of RFC 6298 and, unless told otherwise, Reno's congestion control (RFC 5681). Its segments
//! travel in UDP datagrams.
//!
//! It is there to teach and to test with, and it is not the kernel's TCP: no handshake, no selective
//! acknowledgements, no delayed ones, no pacing, no flow control beyond the window. Neither end
//! spends any time on a segment.

use std::io;
use std::os::fd::BorrowedFd;

use super::frame::{Decoder, PREFIX};
use super::options;
use super::simulated::{Endpoint, Opening, Simulated, UDP_HEADER, virtual_only};
use super::*;
use crate::contract::{Congestion, Delivery, Framing, Ordering};
use crate::datapath::buffer::{PERIOD, pattern};
use crate::figures::Headers;
use receiver::Receiver;
use segment::{HEADER, Segment, Then, write_header};
use sender::{Control, Sender, Terms};

mod receiver;
mod ring;
mod segment;
mod sender;

/// The model.
pub(super) struct SimArq;

static INFO: Info = Info {
    id: "sim-arq",
    label: "simulated ARQ",
    colour: "#3f8f8a",
    implementation: "deadheat",
    summary: "a model of a reliable byte stream",
    guarantees: Guarantees {
        delivery: Delivery::Reliable,
        ordering: Ordering::Ordered,
        framing: Framing::ByteStream,
        congestion: Congestion::Controlled,
        encrypted: false,
        largest_message: None,
    },
    peer: PeerKind::Process,
    reach: Reach::Process,
    framing_bytes: PREFIX,
    options: &[options::CC, options::WINDOW, options::MIN_RTO],
    keys: &[
        Key {
            name: "cc",
            kind: Kind::Choice(&["reno", "none"]),
            default: "reno",
            doc: "congestion control: RFC 5681, or nothing but the window",
        },
        Key {
            name: "window",
            kind: Kind::Size(4_096, 1 << 30),
            default: "256kB",
            doc: "the most bytes under way, and the room for what arrives early",
        },
        Key {
            name: "min-rto",
            kind: Kind::Span(1_000_000, 60_000_000_000),
            default: "200ms",
            doc: "the shortest retransmission timeout; 200ms is Linux's, 1s that of RFC 6298",
        },
    ],
};

impl Transport for SimArq {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn simulated(&self) -> Option<&dyn Simulated> {
        Some(self)
    }

    fn dial(&self, _dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        virtual_only(INFO.id)
    }

    fn listen(&self, _listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        virtual_only(INFO.id)
    }
}

impl Simulated for SimArq {
    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Endpoint>> {
        let headers = opening.ip_header + UDP_HEADER + HEADER as u32;
        let Some(segment) = opening.mtu.checked_sub(headers).filter(|room| *room > 0) else {
            return Err(Error::usage(format!(
                "`{}` has {headers} bytes of headers, and the path takes packets of {} bytes; raise \
                 its mtu",
                INFO.id, opening.mtu
            )));
        };
        let knobs = opening.knobs;
        let window = knobs.size("window").map_or(0, |size| size.0).max(u64::from(segment));
        let control = match knobs.text("cc") {
            Some("none") => Control::None,
            _ => Control::Reno,
        };
        let terms = Terms {
            control,
            window,
            segment: u64::from(segment),
            least_timeout: knobs.span("min-rto").unwrap_or_default(),
        };
        // A message is taken whole, so there must be room for one.
        let buffer = (window as usize).max(PREFIX + opening.largest_message);
        Ok(Box::new(Arq {
            terms,
            sender: Sender::new(terms, buffer),
            receiver: Receiver::new(window as usize),
            decoder: Decoder::new(opening.largest_message),
            pattern: pattern(),
            calls: [0; 2],
            ip_header: u64::from(opening.ip_header),
            mtu: u64::from(opening.mtu),
        }))
    }
}

/// One end.
struct Arq {
    terms: Terms,
    sender: Sender,
    receiver: Receiver,
    decoder: Decoder,
    /// What bulk data is made of.
    pattern: Box<[u8]>,
    /// That sent, and that received.
    calls: [u64; 2],
    ip_header: u64,
    mtu: u64,
}

impl Arq {
    /// What a call that read all there was, or nothing, came to.
    fn progress(&self, read: usize) -> Progress {
        match read {
            0 if self.receiver.is_over() => Progress::Closed,
            0 => Progress::Idle,
            _ => Progress::Moved,
        }
    }
}

impl Conn for Arq {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn send(&mut self, lane: Lane, message: &[u8]) -> io::Result<Progress> {
        lane_0_only(lane)?;
        self.calls[0] += 1;
        if (self.sender.room() as usize) < PREFIX + message.len() {
            return Ok(Progress::Idle);
        }
        self.sender.put(&(message.len() as u32).to_be_bytes());
        self.sender.put(message);
        Ok(Progress::Moved)
    }

    fn receive(&mut self, _patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        self.calls[1] += 1;
        let mut read = 0;
        loop {
            let bytes = self.receiver.readable();
            if bytes.is_empty() {
                break;
            }
            let room = self.decoder.room();
            let len = bytes.len().min(room.len());
            room[..len].copy_from_slice(&bytes[..len]);
            self.receiver.consumed(len);
            self.decoder.received(len, inbox)?;
            read += len;
        }
        let progress = self.progress(read);
        if progress == Progress::Closed {
            self.decoder.ended()?;
        }
        Ok(progress)
    }

    fn pump(&mut self, source: &mut dyn Source) -> io::Result<Progress> {
        self.calls[0] += 1;
        let mut progress = Progress::Idle;
        loop {
            let from = (self.sender.end() % PERIOD as u64) as usize;
            let len = source.budget().min(self.sender.room()).min((PERIOD - from) as u64) as usize;
            if len == 0 {
                return Ok(progress);
            }
            self.sender.put(&self.pattern[from..from + len]);
            source.accepted(len as u64);
            progress = Progress::Moved;
        }
    }

    fn drain(&mut self, _patience: Patience, sink: &mut dyn Sink) -> io::Result<Progress> {
        self.calls[1] += 1;
        let mut read = 0;
        loop {
            let bytes = self.receiver.readable();
            if bytes.is_empty() {
                return Ok(self.progress(read));
            }
            let len = match sink.room() {
                Some(room) => {
                    let len = bytes.len().min(room.len());
                    room[..len].copy_from_slice(&bytes[..len]);
                    sink.pass(len as u64);
                    len
                }
                None => {
                    sink.take(bytes);
                    bytes.len()
                }
            };
            self.receiver.consumed(len);
            read += len;
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.sender.finish();
        Ok(())
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.sender.timer()
    }

    fn on_deadline(&mut self, now: Nanos) -> io::Result<()> {
        self.sender.on_timer(now);
        Ok(())
    }

    fn effective(&self) -> Effective {
        let control = match self.terms.control {
            Control::Reno => "reno",
            Control::None => "none",
        };
        let segment = self.terms.segment.to_string();
        [("cc", control.to_owned()), ("segment", segment)]
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }

    fn stats(&self) -> ConnStats {
        ConnStats {
            send_calls: self.calls[0],
            receive_calls: self.calls[1],
            retransmits: Some(self.sender.resent),
            headers: Some(Headers {
                ip_bytes: self.ip_header,
                transport_bytes: u64::from(UDP_HEADER) + HEADER as u64,
                framing_bytes: PREFIX as u64,
                mtu: Some(self.mtu),
                packets: Some(self.sender.sent),
            }),
            ..ConnStats::default()
        }
    }
}

impl Endpoint for Arq {
    fn handle_datagram(&mut self, now: Nanos, datagram: &[u8]) {
        if let Some(segment) = Segment::read(datagram) {
            self.sender.acknowledge(now, &segment);
            self.receiver.take(&segment);
        }
    }

    fn poll_transmit(&mut self, now: Nanos, room: &mut Vec<u8>) -> Progress {
        let acknowledged = self.receiver.acknowledged();
        if self.sender.transmit(now, acknowledged, room) == Progress::Moved {
            self.receiver.answered();
            return Progress::Moved;
        }
        if !self.receiver.owes_answer() {
            return Progress::Idle;
        }
        self.receiver.answered_once();
        write_header(self.sender.next(), acknowledged, Then::More, room);
        Progress::Moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Side;
    use crate::rng::SplitMix64;

    fn end(side: Side) -> Box<dyn Endpoint> {
        let knobs = Settings::check(&Spec::parse("sim-arq:min-rto=50ms").unwrap(), INFO.keys);
        let knobs = knobs.unwrap();
        let opening =
            Opening { side, knobs: &knobs, largest_message: 3_000, mtu: 1_500, ip_header: 20 };
        SimArq.open(&opening).unwrap()
    }

    #[derive(Default)]
    struct Kept(Vec<Vec<u8>>);

    impl Inbox for Kept {
        fn message(&mut self, _: Lane, bytes: &[u8]) {
            self.0.push(bytes.to_vec());
        }
    }

    /// Sends messages over a path that delays by 10 ms, and loses, doubles and reorders at random;
    /// what arrived, and how long it took.
    fn carry(messages: &[Vec<u8>], seed: u64) -> (Vec<Vec<u8>>, Nanos) {
        let mut ends = [end(Side::Near), end(Side::Far)];
        let (mut rng, mut now, mut kept) = (SplitMix64::new(seed), Nanos::ZERO, Kept::default());
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
            for (from, end) in ends.iter_mut().enumerate() {
                let mut room = Vec::new();
                while end.poll_transmit(now, &mut room) == Progress::Moved {
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
            now = now.max(flying.iter().map(|(at, ..)| *at).chain(timers).min().unwrap());
            for end in &mut ends {
                end.on_deadline(now).unwrap();
            }
            flying.sort_by_key(|(at, ..)| *at);
            while flying.first().is_some_and(|(at, ..)| *at <= now) {
                let (_, to, datagram) = flying.remove(0);
                ends[to].handle_datagram(now, &datagram);
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
        let mut end = end(Side::Near);
        let mut rng = SplitMix64::new(5);
        for len in 0..200 {
            let mut noise: Vec<u8> = (0..len).map(|_| rng.below(256) as u8).collect();
            if len > 20 && len % 2 == 0 {
                noise[..16].fill(0);
                noise[15] = rng.below(4) as u8;
                noise[16] &= 1;
            }
            end.handle_datagram(Nanos(len), &noise);
            let mut room = Vec::new();
            while end.poll_transmit(Nanos(len), &mut room) == Progress::Moved {}
        }
    }
}
