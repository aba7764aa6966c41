//! One end of a QUIC connection, as the contract of protocols in user space has it.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, Incoming,
    ReadError, SendDatagramError, StreamEvent, StreamId, WriteError,
};

use super::AROUND;
use super::setup::Setup;
use crate::contract::{Lane, Side};
use crate::figures::TcpView;
use crate::time::Nanos;
use crate::transport::frame::PREFIX;
use crate::transport::identity::{self, NAME};
use crate::transport::userspace::{Counts, Epoch, Opening, Protocol, State};
use crate::transport::{Effective, told};

/// What a connection carries data in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carries {
    /// A stream for each direction.
    Stream,
    /// A datagram frame for each message.
    Datagrams,
}

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    NotYet,
    /// Behind what still has to be handed to quinn.
    Soon,
    Now,
}

/// The address of the peer, for a state machine that never looks at one: whoever carries its datagrams
/// knows where they go.
const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::LOCALHOST), 5210);

/// How much is handed to quinn at once, at the most.
const PIECE: usize = 64 * 1024;

/// One end.
pub(super) struct End {
    carries: Carries,
    endpoint: Endpoint,
    client: Option<ClientConfig>,
    connection: Option<(ConnectionHandle, Connection)>,
    epoch: Epoch,
    state: State,
    outgoing: Option<StreamId>,
    incoming: Option<StreamId>,
    /// Bytes that were taken and found no room at quinn, from the first that is still here.
    unsent: Vec<u8>,
    unsent_from: usize,
    ends: Ends,
    /// What was read and not yet taken.
    unread: Bytes,
    peer_ended: bool,
    /// What the endpoint answers outside of the connection.
    answers: VecDeque<Vec<u8>>,
    scratch: Vec<u8>,
    due: Option<Nanos>,
    room: usize,
    mtu: u32,
    control: &'static str,
    cipher: &'static str,
    window: u64,
}

impl End {
    pub(super) fn new(carries: Carries, opening: &Opening<'_>, setup: Setup) -> End {
        let (client, server) = match opening.side {
            Side::Near => (Some(setup.client), None),
            Side::Far => (None, Some(Arc::new(setup.server))),
        };
        End {
            carries,
            endpoint: Endpoint::new(Arc::new(setup.endpoint), server, false, None),
            client,
            connection: None,
            epoch: Epoch::default(),
            state: State::Handshaking,
            outgoing: None,
            incoming: None,
            unsent: Vec::new(),
            unsent_from: 0,
            ends: Ends::NotYet,
            unread: Bytes::new(),
            peer_ended: false,
            answers: VecDeque::new(),
            scratch: Vec::new(),
            due: None,
            room: PIECE.max(PREFIX + opening.largest_message),
            mtu: opening.mtu,
            control: setup.control,
            cipher: setup.cipher,
            window: setup.window,
        }
    }

    /// Lets endpoint and connection talk, and hears what happened.
    fn attend(&mut self) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected => {
                    self.state = State::Open;
                    if self.carries == Carries::Stream {
                        self.outgoing = connection.streams().open(Dir::Uni);
                    }
                }
                Event::ConnectionLost { reason } => self.state = State::Closed(reason.to_string()),
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) if self.incoming.is_none() => {
                    self.incoming = connection.streams().accept(Dir::Uni);
                }
                _ => {}
            }
        }
    }

    /// Plans the next look.
    fn plan(&mut self) {
        let due = self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout());
        self.due = due.and_then(|due| self.epoch.nanos(due));
    }

    fn accept(&mut self, now: Instant, incoming: Incoming) {
        if self.connection.is_some() {
            return self.endpoint.ignore(incoming);
        }
        match self.endpoint.accept(incoming, now, &mut self.scratch, None) {
            Ok(accepted) => self.connection = Some(accepted),
            Err(error) => {
                if let Some(answer) = error.response {
                    self.answers.push_back(self.scratch[..answer.size].to_vec());
                }
                self.state = State::Closed(error.cause.to_string());
            }
        }
    }

    /// Hands bytes to quinn; how many it took: of a message all or none.
    fn offer(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some((_, connection)) = &mut self.connection else { return Ok(0) };
        if self.carries == Carries::Datagrams {
            return match connection.datagrams().send(Bytes::copy_from_slice(bytes), false) {
                Ok(()) => Ok(bytes.len()),
                Err(SendDatagramError::Blocked(_)) => Ok(0),
                Err(error) => Err(io::Error::new(io::ErrorKind::InvalidInput, error)),
            };
        }
        let Some(stream) = self.outgoing else { return Ok(0) };
        match connection.send_stream(stream).write(bytes) {
            Ok(taken) => Ok(taken),
            Err(WriteError::Blocked) => Ok(0),
            Err(error) => Err(io::Error::new(io::ErrorKind::BrokenPipe, error)),
        }
    }

    /// Hands over what waits, and the end behind it.
    fn offer_the_rest(&mut self) -> io::Result<()> {
        if self.unsent_from < self.unsent.len() {
            let unsent = std::mem::take(&mut self.unsent);
            let taken = self.offer(&unsent[self.unsent_from..]);
            self.unsent = unsent;
            self.unsent_from += taken?;
            if self.unsent_from < self.unsent.len() {
                return Ok(());
            }
            self.unsent.clear();
            self.unsent_from = 0;
        }
        if self.ends == Ends::Soon
            && let (Some((_, connection)), Some(stream)) = (&mut self.connection, self.outgoing)
        {
            // A peer that no longer wants the stream needs no end of it.
            let _ = connection.send_stream(stream).finish();
            self.ends = Ends::Now;
        }
        Ok(())
    }

    fn read_stream(&mut self, take: &mut dyn FnMut(Lane, &[u8]) -> usize) {
        let (Some((_, connection)), Some(id)) = (&mut self.connection, self.incoming) else {
            return;
        };
        if !give(&mut self.unread, take) || self.peer_ended {
            return;
        }
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    self.unread = chunk.bytes;
                    if !give(&mut self.unread, take) {
                        break;
                    }
                }
                Ok(None) => {
                    self.peer_ended = true;
                    break;
                }
                Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(code)) => {
                    self.state =
                        State::Closed(format!("the peer reset its stream with code {code}"));
                    break;
                }
            }
        }
        // What this frees is told with the next packet, which follows as something arrived.
        let _ = chunks.finalize();
    }
}

/// Has `take` take all of `bytes`; whether it did.
fn give(bytes: &mut Bytes, take: &mut dyn FnMut(Lane, &[u8]) -> usize) -> bool {
    while !bytes.is_empty() {
        let taken = take(Lane(0), bytes);
        if taken == 0 {
            return false;
        }
        let _ = bytes.split_to(taken.min(bytes.len()));
    }
    true
}

impl Protocol for End {
    fn state(&self) -> State {
        self.state.clone()
    }

    fn start(&mut self, now: Nanos) {
        let now = self.epoch.instant(now);
        let Some(client) = self.client.take() else { return };
        match self.endpoint.connect(now, client, PEER, NAME) {
            Ok(connected) => self.connection = Some(connected),
            Err(error) => self.state = State::Closed(error.to_string()),
        }
        self.plan();
    }

    fn handle(&mut self, now: Nanos, datagram: &[u8]) {
        let now = self.epoch.instant(now);
        self.scratch.clear();
        let data = BytesMut::from(datagram);
        match self.endpoint.handle(now, PEER, None, None, data, &mut self.scratch) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(now, incoming),
            Some(DatagramEvent::Response(answer)) => {
                self.answers.push_back(self.scratch[..answer.size].to_vec());
            }
            None => {}
        }
        self.attend();
        self.plan();
    }

    fn transmit(&mut self, now: Nanos, most: usize, batch: &mut Vec<u8>) -> Option<usize> {
        if let Some(answer) = self.answers.pop_front() {
            batch.extend_from_slice(&answer);
            return Some(answer.len());
        }
        if let Err(error) = self.offer_the_rest() {
            self.state = State::Closed(error.to_string());
        }
        let now = self.epoch.instant(now);
        let (_, connection) = self.connection.as_mut()?;
        // quinn writes from a buffer's start only.
        let sent = if batch.is_empty() {
            connection.poll_transmit(now, most, batch)
        } else {
            self.scratch.clear();
            let sent = connection.poll_transmit(now, most, &mut self.scratch);
            batch.extend_from_slice(&self.scratch[..sent.as_ref().map_or(0, |sent| sent.size)]);
            sent
        };
        self.attend();
        self.plan();
        sent.map(|sent| sent.segment_size.unwrap_or(sent.size))
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.due
    }

    fn on_deadline(&mut self, now: Nanos) {
        let now = self.epoch.instant(now);
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(now);
        }
        self.attend();
        self.plan();
    }

    fn room(&self, _lane: Lane) -> usize {
        let is_open = self.state == State::Open && self.ends == Ends::NotYet;
        if is_open && self.unsent.is_empty() { self.room } else { 0 }
    }

    fn write(&mut self, _now: Nanos, _lane: Lane, bytes: &[u8]) -> io::Result<()> {
        let taken = if self.unsent.is_empty() { self.offer(bytes)? } else { 0 };
        self.unsent.extend_from_slice(&bytes[taken..]);
        Ok(())
    }

    fn read(&mut self, _now: Nanos, take: &mut dyn FnMut(Lane, &[u8]) -> usize) {
        match self.carries {
            Carries::Stream => self.read_stream(take),
            Carries::Datagrams => {
                let Some((_, connection)) = &mut self.connection else { return };
                while let Some(datagram) = connection.datagrams().recv() {
                    take(Lane(0), &datagram);
                }
            }
        }
    }

    fn finish(&mut self, _now: Nanos, _lane: Lane) {
        if self.carries == Carries::Stream && self.ends == Ends::NotYet {
            self.ends = Ends::Soon;
        }
    }

    fn has_ended(&self, _lane: Lane) -> bool {
        self.peer_ended && self.unread.is_empty()
    }

    /// While anything is unacknowledged its timer runs, and no other one does for long: there is neither
    /// an idle timeout nor anything that keeps the connection alive.
    fn is_drained(&self) -> bool {
        let nothing_waits = self.unsent.is_empty() && self.ends != Ends::Soon;
        self.carries == Carries::Datagrams || (nothing_waits && self.due.is_none())
    }

    fn counts(&self) -> Counts {
        let stats = self.connection.as_ref().map(|(_, connection)| connection.stats());
        let (packets, resent) = stats.map_or((0, 0), |stats| {
            (stats.frame_tx.stream + stats.frame_tx.datagram, stats.path.lost_packets)
        });
        let resent = (self.carries == Carries::Stream).then_some(resent);
        Counts {
            packets: Some(packets.saturating_sub(resent.unwrap_or(0))),
            resent,
            header_bytes: AROUND,
        }
    }

    fn view(&self) -> Option<TcpView> {
        let stats = self.connection.as_ref()?.1.stats();
        let ns = |duration: std::time::Duration| u64::try_from(duration.as_nanos()).ok();
        Some(TcpView {
            cwnd_bytes: stats.path.cwnd,
            mss_bytes: u64::from(stats.path.current_mtu),
            srtt_ns: ns(stats.path.rtt),
            min_rtt_ns: ns(stats.path.min_rtt),
            retransmits: stats.path.lost_packets,
            data_segs_out: Some(stats.path.sent_packets),
            ..TcpView::default()
        })
    }

    fn effective(&self) -> Effective {
        told([
            ("cc", self.control.to_owned()),
            ("cipher", self.cipher.to_owned()),
            ("key_exchange", identity::KEY_EXCHANGE.to_owned()),
            ("window", format!("{} B", self.window)),
            ("mtu", format!("{} B", self.mtu)),
        ])
    }
}
