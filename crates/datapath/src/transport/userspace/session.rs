//! Messages and bulk data over any [`Protocol`]: the part that its adapters share.

use std::io;

use super::protocol::{Opening, Protocol, ProtocolStats, Rest, State, UDP_HEADER, Userspace};
use super::timed::timed;
use super::{ECN, EQUAL_ECN, MTU};
use crate::datapath::buffer::{PERIOD, pattern};
use crate::datapath::datagram::Received;
use crate::datapath::pump::read_exact;
use crate::transport::bulk_message::BulkMessage;
use crate::transport::frame::{Decoder, PREFIX, wrong_length};
use crate::transport::{ConnInfo, Info, Progress};
use deadheat_base::ecn::Codepoint;
use deadheat_base::error::Result;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{
    Ending, Framing, Guarantees, Inbox, Lane, Service, Sink, Source,
};
use deadheat_contract::measurements::{ConnStats, Headers, Marks, Wire};

/// End of a connection, with messages framed if the protocol has no boundaries.
pub(super) struct Session {
    pub(super) protocol: Box<dyn Protocol>,
    info: &'static Info,
    /// Lanes by number.
    lanes: Box<[Track]>,
    /// Pattern that the bulk data of a byte stream repeats, and the number of its bytes that were written.
    pattern: Box<[u8]>,
    written: u64,
    /// True if bulk data is bytes even without a decoder.
    bulk_is_bytes: bool,
    /// Piece of a file on its way to the protocol.
    piece: Vec<u8>,
    bulk: BulkMessage,
    /// Bytes of all datagrams that arrived.
    arrived: u64,
    ip_header: u32,
    mtu: u32,
    /// Codepoints of arrived datagrams, where the protocol uses ECN.
    marks: Option<Marks>,
}

/// Maker of a protocol.
pub(super) type Make<'a> = &'a dyn Fn(&Opening<'_>) -> Result<Box<dyn Protocol>>;

impl Session {
    /// Opens one end over a path with the largest packet in `opening`; the knob `mtu` may set less. Codepoints of
    /// ECN are read if the knob `ecn` requests it.
    pub(super) fn open(transport: &dyn Userspace, opening: &Opening<'_>) -> Result<Session> {
        Session::over(transport.info(), opening, &|opening| transport.open(opening))
    }

    /// Opens one end in the same way, with the protocol that `make` returns.
    pub(super) fn over(
        info: &'static Info,
        opening: &Opening<'_>,
        make: Make<'_>,
    ) -> Result<Session> {
        let asked = opening.knobs.find(&MTU).map_or(u64::MAX, |mtu| mtu.0);
        let mtu = u64::from(opening.mtu).min(asked) as u32;
        let protocol = timed(make(&Opening { mtu, ..*opening })?);
        let is_stream = info.guarantees.framing == Framing::ByteStream;
        let lanes = opening.lanes.iter().map(|service| Track::new(info, opening, *service));
        Ok(Session {
            lanes: lanes.collect(),
            marks: opening
                .knobs
                .text(ECN.name())
                .filter(|ecn| *ecn != EQUAL_ECN)
                .map(|_| Marks::default()),
            protocol,
            info,
            pattern: if is_stream { pattern() } else { Box::default() },
            written: 0,
            bulk_is_bytes: false,
            piece: Vec::new(),
            bulk: BulkMessage::default(),
            arrived: 0,
            ip_header: opening.ip_header,
            mtu,
        })
    }

    /// Makes bulk data bytes, though messages keep their boundaries: so programs of others take both.
    pub(super) fn carry_bulk_as_bytes(&mut self) {
        (self.bulk_is_bytes, self.pattern) = (true, pattern());
    }

    /// Returns the name of the transport for people.
    pub(super) fn label(&self) -> &'static str {
        self.info.label
    }

    /// Returns true if any datagram has arrived.
    pub(super) fn has_received(&self) -> bool {
        self.arrived > 0
    }

    /// Returns true if the protocol uses ECN.
    #[inline]
    pub(super) fn uses_ecn(&self) -> bool {
        self.marks.is_some()
    }

    /// Hands a datagram to the protocol.
    #[inline]
    pub(super) fn handle(&mut self, datagram: Received<'_>) {
        self.arrived += datagram.bytes.len() as u64;
        if let Some(marks) = &mut self.marks {
            marks.datagrams += 1;
            marks.capable += u64::from(datagram.ecn.is_capable());
            marks.ce += u64::from(datagram.ecn == Codepoint::Ce);
        }
        self.protocol.handle(datagram);
    }

    /// Accepts one message whole, or not at all.
    pub(super) fn send(&mut self, now: Nanos, lane: Lane, message: &[u8]) -> io::Result<Progress> {
        let prefix = self.track(lane, message)?.prefix();
        if self.protocol.room(lane) < prefix + message.len() {
            return Ok(Progress::Idle);
        }
        if prefix > 0 {
            let prefix = (message.len() as u32).to_be_bytes();
            self.protocol.write(now, lane, &prefix, Rest::Kept)?;
        }
        Ok(match self.protocol.write(now, lane, message, Rest::Kept)? {
            0 => Progress::Idle,
            _ => Progress::Moved,
        })
    }

    /// Returns the lane for `message`.
    #[inline]
    fn track(&self, lane: Lane, message: &[u8]) -> io::Result<&Track> {
        let Some(track) = self.lanes.get(usize::from(lane.0)) else {
            let why = format!("{} lanes, and lane {} was asked for", self.lanes.len(), lane.0);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        };
        if message.is_empty() || message.len() > track.largest_message {
            let (len, most) = (message.len(), track.largest_message);
            return Err(wrong_length(io::ErrorKind::InvalidInput, len, most));
        }
        Ok(track)
    }

    fn lane_numbers(&self) -> impl Iterator<Item = Lane> + use<> {
        (0..self.lanes.len() as u16).map(Lane)
    }

    /// Ends this direction of every lane.
    pub(super) fn finish(&mut self, now: Nanos) {
        for lane in self.lane_numbers() {
            self.protocol.finish(now, lane);
        }
    }

    /// Returns true if the peer has ended its direction, of every lane that has an end.
    fn has_ended(&self) -> bool {
        let Guarantees { framing, ending, .. } = self.info.guarantees;
        let all_end = framing == Framing::Messages && ending == Ending::Told;
        let has_end = |lane: &Lane| all_end || self.lanes[usize::from(lane.0)].decoder.is_some();
        let mut streams = self.lane_numbers().filter(has_end).peekable();
        streams.peek().is_some() && streams.all(|lane| self.protocol.has_ended(lane))
    }

    /// Hands over every whole message that arrived.
    pub(super) fn receive(&mut self, now: Nanos, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        let Session { protocol, lanes, .. } = self;
        let (mut progress, mut failed) = (Progress::Idle, None);
        protocol.read(now, &mut |lane, bytes| {
            progress = Progress::Moved;
            let track = lanes.get_mut(usize::from(lane.0));
            let Some(decoder) = track.and_then(|track| track.decoder.as_mut()) else {
                inbox.message(lane, bytes);
                return bytes.len();
            };
            let room = decoder.room();
            let len = bytes.len().min(room.len());
            room[..len].copy_from_slice(&bytes[..len]);
            if let Err(error) = decoder.received(len, &mut LaneInbox { inbox: &mut *inbox, lane }) {
                failed.get_or_insert(error);
            }
            len
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if progress == Progress::Idle && self.has_ended() {
            let decoders = self.lanes.iter().filter_map(|track| track.decoder.as_ref());
            decoders.into_iter().try_for_each(Decoder::ended)?;
            return Ok(Progress::Closed);
        }
        Ok(progress)
    }

    /// Writes as much of `source` as there is room for.
    pub(super) fn pump(&mut self, now: Nanos, source: &mut dyn Source) -> io::Result<Progress> {
        if self.bulk_is_bytes || self.lanes.first().is_some_and(|track| track.decoder.is_some()) {
            self.pump_bytes(now, source)
        } else {
            self.pump_messages(now, source)
        }
    }

    fn pump_bytes(&mut self, now: Nanos, source: &mut dyn Source) -> io::Result<Progress> {
        let mut progress = Progress::Idle;
        loop {
            let from = (self.written % PERIOD as u64) as usize;
            let room = self.protocol.room(Lane(0)).min(PERIOD - from);
            let len = source.budget().min(room as u64) as usize;
            if len == 0 {
                return Ok(progress);
            }
            let bytes = match source.file() {
                Some(at) => {
                    self.piece.resize(len, 0);
                    read_exact(at, &mut self.piece, &mut 0)?;
                    &self.piece[..]
                }
                None => &self.pattern[from..from + len],
            };
            let taken = self.protocol.write(now, Lane(0), bytes, Rest::Left)?;
            if taken == 0 {
                return Ok(progress);
            }
            self.written += taken as u64;
            source.accepted(taken as u64);
            progress = Progress::Moved;
        }
    }

    fn pump_messages(&mut self, now: Nanos, source: &mut dyn Source) -> io::Result<Progress> {
        let protocol = &mut self.protocol;
        self.bulk.pump(source, |message| {
            if protocol.room(Lane(0)) < message.len() {
                return Ok(Progress::Idle);
            }
            protocol.write(now, Lane(0), message, Rest::Kept)?;
            Ok(Progress::Moved)
        })
    }

    /// Hands over the bytes that arrived.
    pub(super) fn drain(&mut self, now: Nanos, sink: &mut dyn Sink) -> Progress {
        let mut progress = Progress::Idle;
        self.protocol.read(now, &mut |_, bytes| {
            progress = Progress::Moved;
            match sink.room() {
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
            }
        });
        match progress {
            Progress::Idle if self.has_ended() => Progress::Closed,
            Progress::Moved => {
                sink.arrived(Some(self.arrived));
                progress
            }
            progress => progress,
        }
    }

    /// Runs the protocol's timers if they are due.
    pub(super) fn on_deadline(&mut self, now: Nanos) {
        if self.protocol.next_deadline().is_some_and(|due| due <= now) {
            self.protocol.on_deadline(now);
        }
    }

    /// Returns the error of a connection that the protocol has closed.
    pub(super) fn check_open(&self) -> io::Result<()> {
        match self.protocol.state() {
            State::Closed(why) => Err(io::Error::new(io::ErrorKind::ConnectionAborted, why)),
            State::Handshaking | State::Open => Ok(()),
        }
    }

    /// Returns the protocol's part of a connection's counters, for this number of sent datagrams and their bytes.
    pub(super) fn info(&self, [datagrams, bytes]: [u64; 2]) -> ConnInfo {
        let own = self.protocol.stats();
        let ProtocolStats { packets, resent, recovered, header_bytes, view } = own;
        let stats = ConnStats {
            retransmits: resent,
            recovered,
            marks: self.marks,
            wire: Some(Wire::behind(u64::from(self.ip_header + UDP_HEADER), datagrams, bytes)),
            headers: Some(Headers {
                ip_bytes: u64::from(self.ip_header),
                transport_bytes: u64::from(UDP_HEADER) + header_bytes,
                framing_bytes: self.info.framing_bytes as u64,
                mtu: Some(u64::from(self.mtu)),
                packets,
            }),
            ..ConnStats::default()
        };
        ConnInfo { stats, view }
    }
}

/// Lane at the level of messages.
struct Track {
    /// Decoder that restores messages, where the lane is a byte stream.
    decoder: Option<Decoder>,
    largest_message: usize,
}

impl Track {
    /// Creates a lane of `service`. On a byte stream all bytes arrive, in order; if data may be lost or overtaken,
    /// it is whole messages.
    fn new(info: &Info, opening: &Opening<'_>, service: Service) -> Track {
        let is_stream =
            info.guarantees.framing == Framing::ByteStream && service.is_like(Service::ORDERED);
        let offer = info.guarantees.offers().find(|offer| offer.service.is_like(service));
        let most = offer.and_then(|offer| offer.largest_message);
        Track {
            decoder: is_stream.then(|| Decoder::new(opening.largest_message)),
            largest_message: most.map_or(opening.largest_message, |most| most as usize),
        }
    }

    /// Returns the number of bytes in front of each message.
    #[inline]
    fn prefix(&self) -> usize {
        if self.decoder.is_some() { PREFIX } else { 0 }
    }
}

const _: () = assert!(PREFIX == size_of::<u32>());

/// Inbox or sink of one lane, which adds the lane's number to each message.
struct LaneInbox<'a> {
    inbox: &'a mut dyn Inbox,
    lane: Lane,
}

impl Inbox for LaneInbox<'_> {
    fn message(&mut self, _: Lane, bytes: &[u8]) {
        self.inbox.message(self.lane, bytes);
    }
}
