//! uTP, the background transport of BitTorrent: a reliable byte stream in packets of BEP 29 (header version 1), with
//! the congestion control LEDBAT (RFC 6817), which aims at a queueing delay and backs off before other flows suffer
//! from it.
//!
//! Where the two differ, RFC 6817 decides how fast it sends, and BEP 29 the format of its packets:
//!
//! | | BEP 29 | here, by RFC 6817 |
//! |---|---|---|
//! | base delay | least of the last two minutes | least of ten entries of a minute |
//! | least window | none: 0 waits for a timeout | two segments; one after a timeout |
//! | growth | limited by the bytes outstanding | limited by the bytes that were outstanding, and a segment more |
//! | packets on a slow path | down to 150 bytes | always as large as the path takes |
//!
//! Both ends open as in BEP 29, with a SYN and its answer. The answer has the number of the first packet of data, as in
//! libutp and libtorrent ("packets that don't include any payload do not increase the seq_nr"), and not one of its own,
//! as the diagram there can be read. Each packet of data is acknowledged, packets that arrive together by one answer,
//! and each direction has its own end (FIN). [`wire`] has the format.

use std::io;

use deadheat_base::error::Result;
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::time::Nanos;
use deadheat_base::units::Bytes;
use deadheat_contract::contract::{Guarantees, Lane, Side};
use deadheat_datapath::transport::frame::PREFIX;
use deadheat_datapath::transport::userspace::{
    MTU, Opening, Protocol, ProtocolStats, Received, Rest, State, Transmit, Userspace,
};
use deadheat_datapath::transport::{Effective, Info, effective_options};
use receiver::UtpReceiver;
use sender::{UtpSender, UtpTerms};
use wire::{HEADER, Header, UtpPacket};

mod ledbat;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;
mod wire;

/// The transport.
#[derive(Clone, Copy)]
pub(super) struct Utp;

/// Most packets stored in either direction: a quarter of all numbers, so that numbers are unambiguous.
const MOST_PACKETS: usize = 1 << 14;

/// Number of the SYN.
const FIRST: u16 = 1;

static INFO: Info = Info {
    id: "utp",
    label: "uTP",
    colour: "#4f7d3a",
    summary: "a byte stream over UDP that yields to others (LEDBAT)",
    guarantees: Guarantees::BYTE_STREAM,
    framing_bytes: PREFIX,
    keys: &[TARGET.key(), WINDOW.key(), MIN_RTO.key(), MTU.key()],
    ..Info::IN_USER_SPACE
};

const TARGET: Preset<Nanos> = Optional::span("target", (1_000_000, 100_000_000))
    .or("100ms")
    .doc("the queueing delay that it aims at; RFC 6817 allows no more than 100ms");

const WINDOW: Preset<Bytes> = Optional::size("window", (4_096, 1 << 30))
    .or("1MB")
    .doc("the most bytes under way, and the room for data that was not read yet");

const MIN_RTO: Preset<Nanos> = Optional::span("min-rto", (1_000_000, 60_000_000_000))
    .or("500ms")
    .doc("the shortest congestion timeout; 500ms is that of BEP 29, 1s that of RFC 6298");

impl Userspace for Utp {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Protocol>> {
        Ok(Box::new(UtpEnd::open(opening)?))
    }
}

/// Progress of the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing has arrived, and no SYN is to be sent.
    Waiting,
    /// The near end sends SYNs until one is answered: their number, the time of the last and of the next, and whether
    /// one is due.
    Asking {
        times: u32,
        last: Nanos,
        again: Nanos,
        is_due: bool,
    },
    Open,
    Reset,
}

/// End of a connection.
struct UtpEnd {
    phase: Phase,
    side: Side,
    /// Identifiers of packets that arrive, and of packets that leave.
    incoming_id: u16,
    outgoing_id: u16,
    /// Number of the first packet of data that leaves.
    first: u16,
    /// True if a SYN of the peer has not been answered.
    owes_answer: bool,
    /// Delay of the last packet that arrived, in microseconds, by two clocks.
    difference: u32,
    sender: UtpSender,
    receiver: UtpReceiver,
    terms: UtpTerms,
    mtu: u32,
}

/// Returns a time in the format of packets: in microseconds, modulo 2^32.
fn micros(now: Nanos) -> u32 {
    (now.0 / 1_000) as u32
}

impl UtpEnd {
    fn open(opening: &Opening<'_>) -> Result<UtpEnd> {
        let header = HEADER as u32;
        let segment = opening.payload(INFO.id, header + 1)? - header;
        let knobs = opening.knobs;
        let window = knobs.get(&WINDOW).0.max(u64::from(segment));
        // The buffer takes messages whole, so it has room for the largest.
        let message = PREFIX + opening.largest_message;
        let terms = UtpTerms {
            buffer: message.max(window as usize),
            message,
            window,
            segment: u64::from(segment),
            target: knobs.get(&TARGET),
            least_timeout: knobs.get(&MIN_RTO),
        };
        let token = opening.token.tag();
        // The near end's identifier and the far end's first number are random (BEP 29): parts of the trial's token.
        let (asked, number) = ((token >> 16) as u16, token as u16);
        let ((incoming_id, outgoing_id), first) = match opening.side {
            Side::Near => ((asked, asked.wrapping_add(1)), FIRST + 1),
            Side::Far => ((0, 0), number),
        };
        Ok(UtpEnd {
            phase: Phase::Waiting,
            side: opening.side,
            incoming_id,
            outgoing_id,
            first,
            owes_answer: false,
            difference: 0,
            sender: UtpSender::new(terms, first),
            receiver: UtpReceiver::new(window),
            terms,
            mtu: opening.mtu,
        })
    }

    /// Handles a SYN. A copy of an answered SYN is answered again.
    fn on_syn(&mut self, now: Nanos, header: &Header) {
        match (self.side, self.phase) {
            (Side::Far, Phase::Waiting) => {
                self.outgoing_id = header.connection;
                self.incoming_id = header.connection.wrapping_add(1);
                self.receiver.begin(header.sequence.wrapping_add(1));
                self.sender.begin(header.window, None);
                self.difference = micros(now).wrapping_sub(header.timestamp);
                self.phase = Phase::Open;
                self.owes_answer = true;
            }
            (Side::Far, Phase::Open) => self.owes_answer |= header.connection == self.outgoing_id,
            _ => {}
        }
    }

    /// Handles a packet of the connection.
    fn take(&mut self, now: Nanos, packet: &UtpPacket<'_>) {
        let header = &packet.header;
        match self.phase {
            Phase::Asking { times, last, .. } => {
                if header.kind != wire::PacketKind::State || header.acknowledged != FIRST {
                    return;
                }
                self.receiver.begin(header.sequence);
                // After several SYNs it is unknown which was answered (Karn).
                self.sender.begin(header.window, (times == 1).then(|| now - last));
                self.phase = Phase::Open;
            }
            Phase::Open => {
                self.sender.acknowledge(now, packet);
                if header.kind != wire::PacketKind::State {
                    self.receiver.take(header.sequence, packet.bytes);
                }
            }
            Phase::Waiting | Phase::Reset => return,
        }
        self.difference = micros(now).wrapping_sub(header.timestamp);
    }

    /// Returns the header of an acknowledgement that leaves now.
    fn header(&self, now: Nanos) -> Header {
        Header {
            kind: wire::PacketKind::State,
            connection: self.outgoing_id,
            timestamp: micros(now),
            difference: self.difference,
            window: self.receiver.room(),
            sequence: self.sender.next_number(),
            acknowledged: self.receiver.acknowledged(),
        }
    }

    /// Appends the packet of the handshake that is due, if there is one.
    fn shake_hands(&mut self, now: Nanos, batch: &mut Vec<u8>) {
        let header = self.header(now);
        match self.phase {
            Phase::Asking { times, again, is_due: true, .. } => {
                let kind = wire::PacketKind::Syn;
                let (connection, sequence) = (self.incoming_id, FIRST);
                wire::write(
                    &Header { kind, connection, sequence, acknowledged: 0, ..header },
                    batch,
                );
                self.phase = Phase::Asking { times: times + 1, last: now, again, is_due: false };
            }
            // The peer has to expect the first packet, whatever left meanwhile.
            Phase::Open if std::mem::take(&mut self.owes_answer) => {
                wire::write(&Header { sequence: self.first, ..header }, batch);
            }
            _ => {}
        }
    }
}

impl Protocol for UtpEnd {
    fn state(&self) -> State {
        match self.phase {
            Phase::Waiting | Phase::Asking { .. } => State::Handshaking,
            Phase::Open => State::Open,
            Phase::Reset => State::Closed("the peer has reset the connection".to_owned()),
        }
    }

    fn handle(&mut self, Received { at: now, bytes: datagram, .. }: Received<'_>) {
        let Some(packet) = wire::read(datagram) else { return };
        let header = &packet.header;
        match header.kind {
            wire::PacketKind::Syn => self.on_syn(now, header),
            // An end that does not know the connection answers with the identifier of the packet that arrived.
            wire::PacketKind::Reset => {
                let is_ours = [self.incoming_id, self.outgoing_id].contains(&header.connection);
                if is_ours && self.phase != Phase::Waiting {
                    self.phase = Phase::Reset;
                }
            }
            wire::PacketKind::Data | wire::PacketKind::Fin | wire::PacketKind::State => {
                if header.connection == self.incoming_id {
                    self.take(now, &packet);
                }
            }
        }
    }

    fn transmit(&mut self, now: Nanos, most: usize, batch: &mut Vec<u8>) -> Option<Transmit> {
        let from = batch.len();
        self.shake_hands(now, batch);
        if batch.len() > from || self.phase != Phase::Open {
            return Some(batch.len() - from).filter(|len| *len > 0).map(Transmit::plain);
        }
        let header = self.header(now);
        if let Some(len) = self.sender.transmit(now, most, &header, batch) {
            self.receiver.piggybacked(header.window);
            return Some(Transmit::plain(len));
        }
        let has_more = self.receiver.transmit(&header, batch);
        has_more.then(|| Transmit::plain(batch.len() - from))
    }

    fn next_deadline(&self) -> Option<Nanos> {
        match self.phase {
            Phase::Asking { again, .. } => Some(again),
            Phase::Open => {
                [self.sender.timer(), self.receiver.made_room()].into_iter().flatten().min()
            }
            Phase::Waiting => (self.side == Side::Near).then_some(Nanos::ZERO),
            Phase::Reset => None,
        }
    }

    /// Handles the deadline. The next deadline is later, even if due packets have not left.
    fn on_deadline(&mut self, now: Nanos) {
        match self.phase {
            Phase::Waiting if self.side == Side::Near => {
                let again = now + self.sender.first_timeout(0);
                self.phase = Phase::Asking { times: 0, last: now, again, is_due: true };
            }
            Phase::Asking { times, last, again, .. } if now >= again => {
                let again = now + self.sender.first_timeout(times);
                self.phase = Phase::Asking { times, last, again, is_due: true };
            }
            Phase::Open => {
                self.sender.on_timer(now);
                self.receiver.on_deadline(now);
            }
            _ => {}
        }
    }

    fn room(&self, _lane: Lane) -> usize {
        self.sender.room() as usize
    }

    fn write(&mut self, now: Nanos, _lane: Lane, bytes: &[u8], _: Rest) -> io::Result<usize> {
        self.sender.put(now, bytes);
        Ok(bytes.len())
    }

    fn read(&mut self, now: Nanos, take: &mut dyn FnMut(Lane, &[u8]) -> usize) {
        self.receiver.read(now, &mut |bytes| take(Lane(0), bytes));
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
        effective_options([
            ("cc", "ledbat".to_owned()),
            ("target", self.terms.target.to_string()),
            ("window", format!("{} B", self.terms.window)),
            ("min-rto", self.terms.least_timeout.to_string()),
            ("mtu", format!("{} B", self.mtu)),
        ])
    }
}
