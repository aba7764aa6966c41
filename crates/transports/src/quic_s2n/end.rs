//! End of a connection, as a protocol in user space.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use s2n_quic::client::{Connect, ConnectionAttempt};
use s2n_quic::connection::Connection;
use s2n_quic::provider::congestion_controller::{Bbr, Cubic};
use s2n_quic::provider::random;
use s2n_quic::stream::{ReceiveStream, SendStream};
use s2n_quic::{Client, Server};

use super::endpoint::{Machine, OutboundDatagrams, PEER, nanos, timestamp};
use super::events::EventSubscriber;
use super::{CONNECTION_ID, CONTROL, S2nControl, S2nSetup};
use crate::quic::end::{LEAST_WINDOW, PIECE, WINDOWS_KEPT};
use deadheat_base::rng::{SplitMix64, first};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Lane, Side};
use deadheat_contract::measurements::TcpView;
use deadheat_datapath::transport::frame::PREFIX;
use deadheat_datapath::transport::identity::{self, Failure, NAME};
use deadheat_datapath::transport::userspace::{
    LimitTimes, Opening, Protocol, ProtocolStats, Received, Rest, SendLimit, State, Transmit,
    nowhere,
};
use deadheat_datapath::transport::{Effective, effective_options};

/// Bytes around the data of a full packet: a short header (1), a connection ID, a packet number (2), the authentication
/// tag (16), and a frame's header (8 at most for a stream).
const AROUND: u64 = 1 + CONNECTION_ID as u64 + 2 + 16 + 8;

/// Default flow-control window of a connection, in bytes.
const OWN_WINDOW: u64 = 3_750_000;

/// State of establishing the connection.
enum Establishment {
    /// The near end connects. The client closes all connections when its last handle is dropped.
    Asks(Client, Option<ConnectionAttempt>),
    /// The far end waits for a connection.
    Waits(Server),
}

/// End of a connection.
pub(super) struct S2nEnd {
    endpoint: Box<dyn Machine>,
    way: Establishment,
    connection: Option<Connection>,
    /// In a cell, because asking a stream for its room changes it.
    lanes: RefCell<Vec<S2nLane>>,
    state: State,
    events: EventSubscriber,
    scratch: Vec<u8>,
    due: Option<Nanos>,
    held: LimitTimes,
    room: usize,
    payload: usize,
    headers: u32,
    is_mtu_fixed: bool,
    control: &'static str,
    cipher: &'static str,
    window: Option<u64>,
    certificate: String,
}

/// Lane of one end: a stream in each direction.
#[derive(Default)]
struct S2nLane {
    outgoing: Option<SendStream>,
    incoming: Option<ReceiveStream>,
    /// True if bytes or the end of the stream were written and are not known to be acknowledged.
    is_owed: bool,
    is_finished: bool,
    /// True if there was no room at the last question.
    is_full: bool,
    /// Bytes that were read and not yet consumed.
    unread: Bytes,
    peer_ended: bool,
}

/// Source of the library's random numbers, seeded by the trial.
struct TrialRandom(SplitMix64);

impl random::Generator for TrialRandom {
    fn public_random_fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.0.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    fn private_random_fill(&mut self, bytes: &mut [u8]) {
        self.public_random_fill(bytes);
    }
}

impl random::Provider for TrialRandom {
    type Generator = TrialRandom;
    type Error = std::convert::Infallible;

    fn start(self) -> Result<TrialRandom, Self::Error> {
        Ok(self)
    }
}

/// Returns the context of polled calls: it wakes nothing, since each is polled again.
fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

impl S2nEnd {
    pub(super) fn new(opening: &Opening<'_>, setup: S2nSetup) -> Result<S2nEnd, Failure> {
        let events = EventSubscriber::default();
        let (half, _) = opening.token.bytes().split_first_chunk().ok_or("a token of no bytes")?;
        let seed = first(u64::from_le_bytes(*half) ^ opening.side as u64);
        let random = TrialRandom(SplitMix64::new(seed));
        let way = match opening.side {
            Side::Near => {
                let builder = Client::builder()
                    .with_io(setup.io.clone())?
                    .with_tls(setup.client(opening)?)?
                    .with_limits(setup.limits)?
                    .with_random(random)?
                    .with_connection_id(setup.ids)?
                    .with_event(events.clone())?;
                let client = match setup.control {
                    S2nControl::Bbr => {
                        builder.with_congestion_controller(Bbr::default())?.start()?
                    }
                    S2nControl::Cubic => {
                        builder.with_congestion_controller(Cubic::default())?.start()?
                    }
                };
                Establishment::Asks(client, None)
            }
            Side::Far => {
                let builder = Server::builder()
                    .with_io(setup.io.clone())?
                    .with_tls(setup.server(opening)?)?
                    .with_limits(setup.limits)?
                    .with_random(random)?
                    .with_connection_id(setup.ids)?
                    .with_event(events.clone())?;
                Establishment::Waits(match setup.control {
                    S2nControl::Bbr => {
                        builder.with_congestion_controller(Bbr::default())?.start()?
                    }
                    S2nControl::Cubic => {
                        builder.with_congestion_controller(Cubic::default())?.start()?
                    }
                })
            }
        };
        Ok(S2nEnd {
            endpoint: setup.io.endpoint().ok_or("the library did not start its endpoint")?,
            way,
            connection: None,
            lanes: RefCell::new(opening.lanes.iter().map(|_| S2nLane::default()).collect()),
            state: State::Handshaking,
            events,
            scratch: Vec::new(),
            due: (opening.side == Side::Near).then_some(Nanos::ZERO),
            held: LimitTimes::default(),
            room: PIECE.max(PREFIX + opening.largest_message),
            payload: setup.payload as usize,
            headers: opening.headers(),
            is_mtu_fixed: setup.is_mtu_fixed,
            control: CONTROL.word(setup.control),
            cipher: setup.cipher,
            window: setup.window,
            certificate: setup.certificate,
        })
    }

    /// Handles the progress of the connection.
    fn attend(&mut self) {
        if let Some(why) = self.events.lock().closed.take() {
            self.state = State::Closed(why);
        }
        if self.state != State::Handshaking {
            return;
        }
        let connected = match &mut self.way {
            Establishment::Asks(_, None) => Poll::Pending,
            Establishment::Asks(_, Some(attempt)) => Pin::new(attempt)
                .poll(&mut context())
                .map(|connected| connected.map_err(|error| error.to_string())),
            Establishment::Waits(server) => server
                .poll_accept(&mut context())
                .map(|connected| connected.ok_or_else(|| "the endpoint has closed".to_owned())),
        };
        let mut connection = match connected {
            Poll::Ready(Ok(connection)) => connection,
            Poll::Ready(Err(why)) => {
                self.state = State::Closed(why);
                return;
            }
            Poll::Pending => return,
        };
        for lane in self.lanes.get_mut() {
            // The peer accepts as many streams as there may be lanes.
            if let Poll::Ready(Ok(stream)) = connection.poll_open_send_stream(&mut context()) {
                lane.outgoing = Some(stream);
            }
        }
        if let Establishment::Asks(_, attempt) = &mut self.way {
            *attempt = None;
        }
        self.connection = Some(connection);
        self.state = State::Open;
    }

    /// Returns the most bytes stored until they are acknowledged: for a single lane limited by the current congestion
    /// window, as in `quic`.
    fn most_kept(&self, lanes: usize) -> u64 {
        let least = LEAST_WINDOW * self.payload as u64;
        if lanes == 1 { WINDOWS_KEPT * self.events.lock().window.max(least) } else { u64::MAX }
    }

    /// Returns the number of bytes that a lane has room for.
    fn room_of(&self, lane: &mut S2nLane, most_kept: u64) -> usize {
        let Some(stream) = lane.outgoing.as_mut().filter(|_| !lane.is_finished) else { return 0 };
        let Poll::Ready(Ok(free)) = stream.poll_send_ready(&mut context()) else { return 0 };
        let Some(window) = self.window else { return free };
        let kept = window.saturating_sub(free as u64);
        free.min(usize::try_from(most_kept.saturating_sub(kept)).unwrap_or(usize::MAX))
    }

    /// Notes the reason why no more is sent at `now`: the flow-control window, if it is no wider than the congestion
    /// window.
    fn note_wait(&mut self, now: Nanos) {
        let lanes = self.lanes.get_mut();
        let is_owed = lanes.iter_mut().any(|lane| !lane.is_drained());
        let is_full = lanes.iter().any(|lane| lane.is_full);
        let events = self.events.lock();
        let is_wider = events.window >= self.window.unwrap_or(OWN_WINDOW);
        let waits = match (is_owed, is_full && is_wider) {
            (false, _) => SendLimit::Nothing,
            (true, false) => SendLimit::Path,
            (true, true) => SendLimit::Library,
        };
        self.held.note(now, waits, events.smoothed_ns);
    }
}

impl S2nLane {
    /// Returns true if the peer has all bytes and the end of the stream.
    fn is_drained(&mut self) -> bool {
        if let Some(stream) = self.outgoing.as_mut().filter(|_| self.is_owed) {
            let flushed = if self.is_finished {
                stream.poll_close(&mut context())
            } else {
                stream.poll_flush(&mut context())
            };
            self.is_owed = flushed.is_pending();
        }
        !self.is_owed
    }

    /// Passes available bytes to `take`.
    fn read(&mut self, mut take: impl FnMut(&[u8]) -> usize) -> Result<(), String> {
        loop {
            while !self.unread.is_empty() {
                let taken = take(&self.unread);
                if taken == 0 {
                    return Ok(());
                }
                let _ = self.unread.split_to(taken.min(self.unread.len()));
            }
            let Some(stream) = self.incoming.as_mut().filter(|_| !self.peer_ended) else {
                return Ok(());
            };
            match stream.poll_receive(&mut context()) {
                Poll::Ready(Ok(Some(bytes))) => self.unread = bytes,
                Poll::Ready(Ok(None)) => self.peer_ended = true,
                Poll::Ready(Err(error)) => return Err(error.to_string()),
                Poll::Pending => return Ok(()),
            }
        }
    }
}

impl Protocol for S2nEnd {
    fn state(&self) -> State {
        self.state.clone()
    }

    fn handle(&mut self, Received { at: now, bytes: datagram, .. }: Received<'_>) {
        self.scratch.clear();
        self.scratch.extend_from_slice(datagram);
        self.endpoint.take(timestamp(now), &mut self.scratch);
        self.attend();
    }

    fn transmit(&mut self, now: Nanos, most: usize, batch: &mut Vec<u8>) -> Option<Transmit> {
        let mut leaving = OutboundDatagrams::new(batch, most, self.payload);
        self.endpoint.write(timestamp(now), &mut leaving);
        let size = leaving.size();
        self.due = self.endpoint.due().map(nanos);
        self.attend();
        if size.is_none() {
            self.note_wait(now);
        }
        size.map(Transmit::plain)
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.due
    }

    /// Starts connecting, if it has not. Timers fire in `transmit`.
    fn on_deadline(&mut self, _now: Nanos) {
        self.due = None;
        if let Establishment::Asks(client, attempt @ None) = &mut self.way
            && self.state == State::Handshaking
        {
            *attempt = Some(client.connect(Connect::new(PEER).with_server_name(NAME)));
            self.attend();
        }
    }

    fn room(&self, lane: Lane) -> usize {
        let mut lanes = self.lanes.borrow_mut();
        let most_kept = self.most_kept(lanes.len());
        let Some(lane) = lanes.get_mut(usize::from(lane.0)) else { return 0 };
        // The library accepts a whole write if it has room for one byte: behind a length prefix, too.
        lane.is_full = self.room_of(lane, most_kept) <= PREFIX;
        if lane.is_full || self.state != State::Open { 0 } else { self.room }
    }

    fn write(&mut self, _now: Nanos, lane: Lane, bytes: &[u8], _: Rest) -> io::Result<usize> {
        let number = lane;
        let lane = self.lanes.get_mut().get_mut(usize::from(number.0));
        let lane = lane.ok_or_else(|| nowhere(number))?;
        let stream = lane.outgoing.as_mut().ok_or_else(|| nowhere(number))?;
        let written = stream.send_data(Bytes::copy_from_slice(bytes));
        lane.is_owed = true;
        written.map_err(|error| io::Error::new(io::ErrorKind::BrokenPipe, error))?;
        Ok(bytes.len())
    }

    fn read(&mut self, _now: Nanos, take: &mut dyn FnMut(Lane, &[u8]) -> usize) {
        let Some(connection) = &mut self.connection else { return };
        let lanes = self.lanes.get_mut();
        while let Poll::Ready(Ok(Some(stream))) =
            connection.poll_accept_receive_stream(&mut context())
        {
            // The two lowest bits of a stream's number show its initiator and its kind (RFC 9000, 2.1).
            if let Some(lane) = lanes.get_mut((stream.id() >> 2) as usize) {
                lane.incoming = Some(stream);
            }
        }
        for (n, lane) in (0..).zip(lanes) {
            if let Err(why) = lane.read(|bytes| take(Lane(n), bytes)) {
                self.state = State::Closed(why);
            }
        }
    }

    fn finish(&mut self, _now: Nanos, lane: Lane) {
        let Some(lane) = self.lanes.get_mut().get_mut(usize::from(lane.0)) else { return };
        if let Some(stream) = &mut lane.outgoing {
            // If the peer no longer wants the stream, it needs no end.
            let _ = stream.finish();
            lane.is_finished = true;
            lane.is_owed = true;
        }
    }

    fn has_ended(&self, lane: Lane) -> bool {
        let lanes = self.lanes.borrow();
        let lane = lanes.get(usize::from(lane.0));
        lane.is_some_and(|lane| lane.peer_ended && lane.unread.is_empty())
    }

    fn is_drained(&self) -> bool {
        self.lanes.borrow_mut().iter_mut().all(S2nLane::is_drained)
    }

    fn stats(&self) -> ProtocolStats {
        let events = self.events.lock();
        let stats =
            ProtocolStats::of(events.frames.saturating_sub(events.lost), events.lost, AROUND);
        let view = self.connection.as_ref().map(|_| {
            self.held.add_to(TcpView {
                cwnd_bytes: events.window,
                mss_bytes: self.payload as u64,
                srtt_ns: events.smoothed_ns,
                rttvar_ns: events.variation_ns,
                min_rtt_ns: events.least_ns,
                retransmits: events.lost,
                data_segs_out: Some(events.packets),
                congestion_events: Some(events.congestion_events),
                ..TcpView::default()
            })
        });
        ProtocolStats { view, ..stats }
    }

    fn effective(&self) -> Effective {
        let window = match self.window {
            Some(window) => format!("{window} B"),
            None => format!("{OWN_WINDOW} B (the connection)"),
        };
        let payload = self.events.lock().payload.filter(|_| !self.is_mtu_fixed);
        let packet = self.headers + payload.unwrap_or(self.payload as u32);
        effective_options([
            ("cc", self.control.to_owned()),
            ("cipher", self.cipher.to_owned()),
            ("key_exchange", identity::KEY_EXCHANGE.to_owned()),
            (identity::CERTIFICATE.name(), self.certificate.clone()),
            ("window", window),
            ("mtu", format!("{packet} B")),
        ])
    }
}
