//! Lanes of a connection on QUIC: an ordered lane is a stream, an unordered lane has a stream for each message, and
//! messages that may be lost use DATAGRAM frames (RFC 9221). If several lanes have no stream of their own, each of
//! their messages begins with the number of its lane. A layer between QUIC and lanes may begin streams and datagrams
//! with bytes of its own ([`Heads`]).

use std::io;

use bytes::Bytes;

use super::connection::{QuicConnection, StreamWays};
use deadheat_contract::contract::{Delivery, Lane, Ordering, Service};
use deadheat_datapath::transport::userspace::{Rest, nowhere};

/// Bytes of a lane's number in front of a message.
pub(super) const TAG: usize = 2;

/// Receiver of arrived bytes; returns the number of bytes that it took.
type Take<'a> = &'a mut dyn FnMut(Lane, &[u8]) -> usize;

/// Carrier of a lane's messages or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carrier {
    /// Stream for each direction.
    Stream,
    /// Stream for each message.
    StreamEach,
    /// DATAGRAM frame for each message.
    Datagram,
}

/// State of a stream's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamEnd {
    NotYet,
    /// The stream ends after the bytes that wait for the library.
    Soon,
    Now,
}

/// All lanes of one end.
pub(crate) struct Lanes {
    lanes: Vec<QuicLane>,
    /// Lane numbers of the lanes with a stream of their own, in the order of their streams.
    pub(crate) streams: Vec<u16>,
    /// Streams of one message each that have begun to arrive.
    messages: Vec<Message>,
    /// Flags by carrier: true if its messages begin with their lane's number.
    tags: [bool; 3],
    pub(super) heads: Heads,
}

/// Lane of one end.
struct QuicLane {
    carrier: Carrier,
    outgoing: Option<u64>,
    incoming: Option<u64>,
    /// Accepted bytes that the library had no room for, from the first that is still unsent.
    unsent: Vec<u8>,
    unsent_from: usize,
    /// True if the library did not accept all bytes of the last offer.
    was_refused: bool,
    ends: StreamEnd,
    /// Bytes that were read from the library and not yet consumed.
    unread: Bytes,
    peer_ended: bool,
}

/// Message on a stream of its own.
struct Message {
    stream: u64,
    bytes: Vec<u8>,
}

impl Lanes {
    pub(super) fn new(services: &[Service], heads: Heads) -> Lanes {
        let lanes: Vec<QuicLane> = services.iter().map(|service| QuicLane::new(*service)).collect();
        let of = |carrier| lanes.iter().filter(move |lane| lane.carrier == carrier).count();
        let tags = [false, of(Carrier::StreamEach) > 1, of(Carrier::Datagram) > 1];
        let streams = (0..).zip(&lanes).filter(|(_, lane)| lane.carrier == Carrier::Stream);
        let streams = streams.map(|(n, _)| n).collect();
        Lanes { streams, messages: Vec::new(), tags, heads, lanes }
    }

    /// Opens the streams of this direction, once the connection is established.
    pub(super) fn open(&mut self, connection: &mut impl QuicConnection) {
        for n in &self.streams {
            let lane = &mut self.lanes[usize::from(*n)];
            lane.outgoing = connection.open(StreamWays::One);
            lane.unsent.extend_from_slice(self.heads.stream);
        }
        // An error here recurs with the next packet, and is returned then.
        let _ = self.offer_the_rest(connection);
    }

    /// Accepts the streams that the peer opened.
    pub(super) fn accept(&mut self, connection: &mut impl QuicConnection) {
        while let Some(stream) = connection.accept(StreamWays::One) {
            // The two lowest bits are the stream's type (RFC 9000, 2.1).
            self.take(stream, (stream >> 2) as usize);
        }
    }

    /// Assigns a stream that the peer opened to the lane with this number among the lanes with streams.
    pub(crate) fn take(&mut self, stream: u64, number: usize) {
        match self.streams.get(number) {
            Some(n) => self.lanes[usize::from(*n)].incoming = Some(stream),
            None => self.messages.push(Message { stream, bytes: Vec::new() }),
        }
    }

    /// Returns true if a lane accepts more.
    pub(super) fn has_room(&self, lane: Lane) -> bool {
        let lane = self.lanes.get(usize::from(lane.0));
        lane.is_some_and(|lane| lane.unsent.is_empty() && lane.ends == StreamEnd::NotYet)
    }

    /// Accepts bytes of a lane; returns their number: all, except that the rest of a stream's bytes stays with the
    /// caller.
    pub(super) fn write(
        &mut self,
        connection: &mut impl QuicConnection,
        lane: Lane,
        bytes: &[u8],
        rest: Rest,
    ) -> io::Result<usize> {
        let Some(end) = self.lanes.get_mut(usize::from(lane.0)) else {
            return Err(nowhere(lane));
        };
        if end.carrier == Carrier::Stream && end.unsent.is_empty() {
            let taken = end.offer(connection, bytes)?;
            if rest == Rest::Left {
                end.was_refused = taken < bytes.len();
                return Ok(taken);
            }
            end.unsent.extend_from_slice(&bytes[taken..]);
            return Ok(bytes.len());
        }
        match end.carrier {
            Carrier::Stream => {}
            Carrier::StreamEach => end.unsent.extend_from_slice(self.heads.stream),
            Carrier::Datagram => end.unsent.extend_from_slice(self.heads.datagram),
        }
        if self.tags[end.carrier as usize] {
            end.unsent.extend_from_slice(&lane.0.to_be_bytes());
        }
        end.unsent.extend_from_slice(bytes);
        if end.carrier != Carrier::Stream {
            end.offer_the_rest(connection)?;
        }
        Ok(bytes.len())
    }

    /// Passes waiting bytes to the library, and then the end of the stream.
    pub(super) fn offer_the_rest(
        &mut self,
        connection: &mut impl QuicConnection,
    ) -> io::Result<()> {
        self.lanes.iter_mut().try_for_each(|lane| lane.offer_the_rest(connection))
    }

    pub(super) fn finish(&mut self, lane: Lane) {
        if let Some(lane) = self.lanes.get_mut(usize::from(lane.0))
            && lane.carrier == Carrier::Stream
            && lane.ends == StreamEnd::NotYet
        {
            lane.ends = StreamEnd::Soon;
            lane.was_refused = false;
        }
    }

    pub(super) fn has_ended(&self, lane: Lane) -> bool {
        let lane = self.lanes.get(usize::from(lane.0));
        lane.is_some_and(|lane| lane.peer_ended && lane.unread.is_empty())
    }

    /// Returns true if any bytes have not been passed to the library.
    pub(super) fn wait(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.unsent.is_empty() || lane.ends == StreamEnd::Soon)
    }

    /// Returns true if any bytes wait for room at the library, here or in the caller.
    pub(super) fn want_room(&self) -> bool {
        self.wait() || self.lanes.iter().any(|lane| lane.was_refused)
    }

    /// Returns true if there is a single lane.
    pub(super) fn is_single(&self) -> bool {
        self.lanes.len() == 1
    }

    /// Returns true if any lane is reliable.
    pub(super) fn any_reliable(&self) -> bool {
        self.lanes.iter().any(|lane| lane.carrier != Carrier::Datagram)
    }

    /// Delivers bytes that arrived; an error is the peer's.
    pub(super) fn read(
        &mut self,
        connection: &mut impl QuicConnection,
        take: Take<'_>,
    ) -> Result<(), String> {
        for n in &self.streams {
            self.lanes[usize::from(*n)].read(connection, Lane(*n), take)?;
        }
        self.read_messages(connection, take)?;
        if let Some(first) = self.first(Carrier::Datagram) {
            while let Some(datagram) = connection.receive_datagram() {
                if let Some(message) = datagram.strip_prefix(self.heads.datagram) {
                    self.give(Carrier::Datagram, first, message, take);
                }
            }
        }
        Ok(())
    }

    fn read_messages(
        &mut self,
        connection: &mut impl QuicConnection,
        take: Take<'_>,
    ) -> Result<(), String> {
        let Some(first) = self.first(Carrier::StreamEach) else { return Ok(()) };
        let mut at = 0;
        while at < self.messages.len() {
            let Message { stream, bytes } = &mut self.messages[at];
            let is_whole = connection.read(*stream, &mut |chunk| {
                bytes.extend_from_slice(&chunk);
                true
            })?;
            if is_whole {
                let message = self.messages.remove(at);
                self.give(Carrier::StreamEach, first, &message.bytes, take);
            } else {
                at += 1;
            }
        }
        Ok(())
    }

    fn first(&self, carrier: Carrier) -> Option<Lane> {
        let first = self.lanes.iter().position(|lane| lane.carrier == carrier)?;
        Some(Lane(first as u16))
    }

    /// Delivers a message to the lane in its head, or to the `first` of its carrier.
    fn give(&self, carrier: Carrier, first: Lane, message: &[u8], take: Take<'_>) {
        if !self.tags[carrier as usize] {
            take(first, message);
        } else if let Some((tag, rest)) = message.split_first_chunk::<TAG>() {
            let lane = u16::from_be_bytes(*tag);
            let named = self.lanes.get(usize::from(lane));
            if named.is_some_and(|named| named.carrier == carrier) {
                take(Lane(lane), rest);
            }
        }
    }
}

impl QuicLane {
    fn new(service: Service) -> QuicLane {
        let carrier = match (service.delivery, service.ordering) {
            (Delivery::Reliable, Ordering::Ordered) => Carrier::Stream,
            (Delivery::Reliable, Ordering::Unordered) => Carrier::StreamEach,
            (Delivery::BestEffort | Delivery::Within(_), _) => Carrier::Datagram,
        };
        QuicLane {
            carrier,
            outgoing: None,
            incoming: None,
            unsent: Vec::new(),
            unsent_from: 0,
            was_refused: false,
            ends: StreamEnd::NotYet,
            unread: Bytes::new(),
            peer_ended: false,
        }
    }

    /// Offers bytes to the library; returns how many it accepted: of a datagram all or none.
    fn offer(&mut self, connection: &mut impl QuicConnection, bytes: &[u8]) -> io::Result<usize> {
        if self.carrier == Carrier::Datagram {
            let sent = connection.send_datagram(bytes)?;
            return Ok(if sent { bytes.len() } else { 0 });
        }
        if self.outgoing.is_none() && self.carrier == Carrier::StreamEach {
            self.outgoing = connection.open(StreamWays::One);
        }
        let Some(stream) = self.outgoing else { return Ok(0) };
        connection.write(stream, bytes).map_err(|why| {
            let why = format!("the peer takes no more bytes: {why}");
            io::Error::new(io::ErrorKind::BrokenPipe, why)
        })
    }

    fn offer_the_rest(&mut self, connection: &mut impl QuicConnection) -> io::Result<()> {
        if self.unsent_from < self.unsent.len() {
            let unsent = std::mem::take(&mut self.unsent);
            let taken = self.offer(connection, &unsent[self.unsent_from..]);
            self.unsent = unsent;
            self.unsent_from += taken?;
            if self.unsent_from < self.unsent.len() {
                return Ok(());
            }
            self.unsent.clear();
            self.unsent_from = 0;
            if self.carrier == Carrier::StreamEach
                && let Some(stream) = self.outgoing.take()
            {
                connection.finish(stream);
            }
        }
        if self.ends == StreamEnd::Soon
            && let Some(stream) = self.outgoing
        {
            connection.finish(stream);
            self.ends = StreamEnd::Now;
        }
        Ok(())
    }

    fn read(
        &mut self,
        connection: &mut impl QuicConnection,
        lane: Lane,
        take: Take<'_>,
    ) -> Result<(), String> {
        let Some(stream) = self.incoming else { return Ok(()) };
        if !give(&mut self.unread, lane, take) || self.peer_ended {
            return Ok(());
        }
        let unread = &mut self.unread;
        self.peer_ended = connection.read(stream, &mut |chunk| {
            *unread = chunk;
            give(unread, lane, take)
        })?;
        Ok(())
    }
}

/// Passes `bytes` to `take`; returns true if it took all.
fn give(bytes: &mut Bytes, lane: Lane, take: Take<'_>) -> bool {
    while !bytes.is_empty() {
        let taken = take(lane, bytes);
        if taken == 0 {
            return false;
        }
        let _ = bytes.split_to(taken.min(bytes.len()));
    }
    true
}

/// Bytes in front of the lanes' content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heads {
    /// First bytes of each stream, read by the session and not by lanes.
    pub(crate) stream: &'static [u8],
    /// First bytes of each datagram.
    pub(crate) datagram: &'static [u8],
}
