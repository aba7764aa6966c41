//! End of a QUIC connection, as a protocol in user space.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, Incoming,
    StreamEvent,
};

use super::ECN;
use super::acknowledged::Acknowledged;
use super::application::Asking;
use super::ecn::{self, Ecn};
use super::lanes::Lanes;
use super::layer::{Layer, Session};
use super::qlog::{PacketDirection, Qlog};
use super::setup::{OWN_STREAM_WINDOW, QuicSetup};
use crate::contract::{Lane, Side};
use crate::time::Nanos;
use crate::transport::Effective;
use crate::transport::frame::PREFIX;
use crate::transport::identity::{NAME, Resume};
use crate::transport::userspace::{
    Epoch, LimitTimes, Opening, Protocol, ProtocolStats, Received, Rest, SendLimit, State,
    Transmit, nowhere,
};

mod facts;

/// Address of the peer. The state machine never reads it; the socket below has the real one.
const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::LOCALHOST), 5210);

/// Most bytes passed to the library at once.
pub(crate) const PIECE: usize = 64 * 1024;

/// Congestion windows of data stored until acknowledged: one under way, and one for a repair, as Linux's TCP sizes its
/// send buffer (`tcp_sndbuf_expand` in net/ipv4/tcp_input.c).
pub(crate) const WINDOWS_KEPT: u64 = 2;

/// Least packets that a congestion window counts for, as there (`TCP_INIT_CWND`).
pub(crate) const LEAST_WINDOW: u64 = 10;

/// End of a connection.
pub(super) struct QuicEnd {
    endpoint: Endpoint,
    client: Option<ClientConfig>,
    connection: Option<(ConnectionHandle, Connection)>,
    epoch: Epoch,
    state: State,
    lanes: Lanes,
    /// Session that must be agreed on before lanes open, if any.
    session: Option<Box<dyn Session>>,
    /// Application protocol of a program of others, in place of lanes.
    asking: Option<Asking>,
    /// Bytes of packets that a program of others has acknowledged.
    acked: Option<Acknowledged>,
    /// Answers of the endpoint outside of the connection.
    answers: VecDeque<Vec<u8>>,
    scratch: Vec<u8>,
    due: Option<Nanos>,
    room: usize,
    mtu: u32,
    control: &'static str,
    cipher: &'static str,
    certificate: String,
    window: Option<u64>,
    /// Bytes of headers in front of a datagram, if packets grow with the path MTU.
    headers: Option<u32>,
    resume: Resume,
    ecn: Ecn,
    held: LimitTimes,
    /// True if the first data left with the handshake.
    is_early: bool,
    /// Log of the connection, if one was requested.
    qlog: Option<Qlog>,
}

impl QuicEnd {
    pub(super) fn new(
        layer: &Layer,
        opening: &Opening<'_>,
        setup: QuicSetup,
        qlog: Option<Qlog>,
    ) -> QuicEnd {
        let (client, server) = match opening.side {
            Side::Near => (Some(setup.client), None),
            Side::Far => (None, Some(Arc::new(setup.server))),
        };
        QuicEnd {
            endpoint: Endpoint::new(Arc::new(setup.endpoint), server, false, None),
            client,
            connection: None,
            epoch: Epoch::default(),
            state: State::Handshaking,
            lanes: Lanes::new(opening.lanes, layer.heads),
            session: (layer.session)(opening.side),
            asking: None,
            acked: setup.acked,
            answers: VecDeque::new(),
            scratch: Vec::new(),
            due: (opening.side == Side::Near).then_some(Nanos::ZERO),
            room: PIECE.max(PREFIX + opening.largest_message),
            mtu: opening.mtu,
            control: setup.control,
            cipher: setup.cipher,
            certificate: setup.certificate,
            window: setup.window,
            headers: (!setup.is_mtu_fixed).then(|| opening.headers()),
            resume: setup.resume,
            ecn: Ecn::new(opening.knobs.find(&ECN)),
            held: LimitTimes::default(),
            is_early: false,
            qlog,
        }
    }

    /// Makes the connection one to a program of others, with an application protocol in place of lanes.
    pub(super) fn asking(self, asking: Asking) -> QuicEnd {
        QuicEnd { lanes: Lanes::new(&[], self.lanes.heads), asking: Some(asking), ..self }
    }

    /// Opens the lanes, or begins the application protocol.
    fn begin(&mut self) {
        let Some((_, connection)) = &mut self.connection else { return };
        self.state = State::Open;
        match &mut self.asking {
            None => self.lanes.open(connection),
            Some(asking) => {
                if let Err(why) = asking.begin(connection) {
                    self.state = State::Closed(why);
                }
            }
        }
    }

    /// Exchanges events between endpoint and connection, and handles the connection's events.
    fn attend(&mut self) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        // Until it is established, every event may concern the session.
        let mut concerns_session = self.state == State::Handshaking;
        let mut is_open = false;
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected if self.state == State::Handshaking && self.session.is_none() => {
                    is_open = true;
                }
                // Streams were opened before, and continue on early data.
                Event::Connected if self.is_early && !connection.accepted_0rtt() => {
                    self.state = State::Closed("the far end refused early data".to_owned());
                }
                Event::ConnectionLost { reason } => {
                    let reason = reason.to_string();
                    self.state = match &self.asking {
                        Some(asking) => asking.lost(&reason),
                        None => State::Closed(reason),
                    };
                }
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni })
                    if self.session.is_none() && self.asking.is_none() =>
                {
                    self.lanes.accept(connection);
                }
                Event::Stream(StreamEvent::Opened { .. }) => concerns_session = true,
                Event::Stream(StreamEvent::Readable { id }) => {
                    concerns_session |= self.session.as_ref().is_some_and(|own| own.reads(id));
                }
                _ => {}
            }
        }
        if let Some(session) = &mut self.session
            && concerns_session
            && !matches!(self.state, State::Closed(_))
        {
            match session.attend(connection, &mut self.lanes) {
                State::Open if self.state == State::Handshaking => {
                    self.state = State::Open;
                    self.lanes.open(connection);
                }
                State::Closed(why) => self.state = State::Closed(why),
                State::Open | State::Handshaking => {}
            }
        }
        if is_open && self.state == State::Handshaking {
            self.begin();
        }
        self.attend_application();
    }

    /// Lets the application protocol of a program of others act on arrivals.
    fn attend_application(&mut self) {
        let (Some(asking), Some((_, connection))) = (&mut self.asking, &mut self.connection) else {
            return;
        };
        if self.state == State::Open
            && let Err(why) = asking.attend(connection)
        {
            self.state = State::Closed(why);
        }
    }

    /// Limits the bytes that quinn stores by the current congestion window. Otherwise it would store a whole window of
    /// flow control, which drains for minutes if losses have reduced the rate. Not with several lanes: quinn takes
    /// turns among them, and bytes that wait outside would delay all lanes.
    fn bound_what_is_kept(&mut self) {
        let is_alone = self.asking.as_ref().map_or_else(|| self.lanes.is_single(), Asking::gives);
        if !is_alone {
            return;
        }
        let (Some(window), Some((_, connection))) = (self.window, &mut self.connection) else {
            return;
        };
        let least = LEAST_WINDOW * u64::from(connection.current_mtu());
        let kept = WINDOWS_KEPT * connection.congestion_state().window().max(least);
        connection.set_send_window(kept.min(window));
    }

    /// Logs datagrams, all of `size` bytes but the last, and the connection's statistics after them.
    fn note(&mut self, now: Nanos, way: PacketDirection, datagrams: &[u8], size: usize) {
        let Some(qlog) = &mut self.qlog else { return };
        qlog.datagrams(now, way, datagrams, size);
        if let Some((_, connection)) = &self.connection {
            qlog.stats(now, &connection.stats());
        }
        qlog.write();
    }

    /// Notes the reason why no more is sent at `now`. quinn-proto refuses bytes if its send window is full, or if the
    /// peer's flow control admits no more; a smaller congestion window is the limit before that.
    fn note_wait(&mut self, now: Nanos) {
        let Some((_, connection)) = &self.connection else { return };
        let waits = match (self.lanes.want_room(), self.due) {
            (false, None) => SendLimit::Nothing,
            (false, Some(_)) => SendLimit::Path,
            (true, _) => {
                let path = connection.stats().path;
                let is_wider = path.cwnd >= self.window.unwrap_or(OWN_STREAM_WINDOW);
                let waits = if is_wider { SendLimit::Library } else { SendLimit::Path };
                return self.held.note(now, waits, nanoseconds(path.rtt));
            }
        };
        self.held.note(now, waits, None);
    }

    /// Begins the handshake.
    fn connect(&mut self, now: Nanos, client: ClientConfig) {
        let now = self.epoch.instant(now);
        let name = self.asking.as_ref().map_or(NAME, |asking| &asking.name);
        match self.endpoint.connect(now, client, PEER, name) {
            Ok((handle, connection)) => {
                self.is_early = connection.has_0rtt();
                self.connection = Some((handle, connection));
                if self.is_early {
                    self.begin();
                }
            }
            Err(error) => self.state = State::Closed(error.to_string()),
        }
        self.plan();
    }

    /// Plans the next deadline.
    fn plan(&mut self) {
        let due = self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout());
        self.due = due.and_then(|due| self.epoch.nanos(due));
    }

    fn accept(&mut self, now: Instant, incoming: Incoming) {
        if self.connection.is_some() {
            return self.endpoint.ignore(incoming);
        }
        match self.endpoint.accept(incoming, now, &mut self.scratch, None) {
            Ok((handle, mut connection)) => {
                if self.resume == Resume::Early {
                    // Answers to early data need not wait for the end of the handshake.
                    self.state = State::Open;
                    self.lanes.open(&mut connection);
                }
                self.connection = Some((handle, connection));
            }
            Err(error) => {
                if let Some(answer) = error.response {
                    self.answers.push_back(self.scratch[..answer.size].to_vec());
                }
                self.state = State::Closed(error.cause.to_string());
            }
        }
    }
}

fn nanoseconds(duration: std::time::Duration) -> Option<u64> {
    u64::try_from(duration.as_nanos()).ok()
}

impl Protocol for QuicEnd {
    fn state(&self) -> State {
        self.state.clone()
    }

    fn handle(&mut self, Received { at, bytes: datagram, ecn }: Received<'_>) {
        let codepoint = if self.ecn == Ecn::Off { None } else { ecn::arrived(ecn) };
        let now = self.epoch.instant(at);
        self.scratch.clear();
        let data = BytesMut::from(datagram);
        match self.endpoint.handle(now, PEER, None, codepoint, data, &mut self.scratch) {
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
        self.bound_what_is_kept();
        self.plan();
        self.note(at, PacketDirection::Received, datagram, datagram.len());
    }

    fn transmit(&mut self, at: Nanos, most: usize, batch: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(answer) = self.answers.pop_front() {
            batch.extend_from_slice(&answer);
            self.note(at, PacketDirection::Sent, &answer, answer.len());
            return Some(Transmit::plain(answer.len()));
        }
        let now = self.epoch.instant(at);
        let start = batch.len();
        let (_, connection) = self.connection.as_mut()?;
        if let Err(error) = self.lanes.offer_the_rest(connection) {
            self.state = State::Closed(error.to_string());
        }
        if self.asking.as_mut().is_some_and(Asking::closes_now) {
            Asking::close(connection, now);
        }
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
        let sent = sent.map(|sent| Transmit {
            segment: sent.segment_size.unwrap_or(sent.size),
            ecn: self.ecn.leaves(sent.ecn),
        });
        match sent {
            Some(sent) => self.note(at, PacketDirection::Sent, &batch[start..], sent.segment),
            None => {
                self.asking.iter_mut().for_each(Asking::all_left);
                self.note_wait(at);
            }
        }
        sent
    }

    fn next_deadline(&self) -> Option<Nanos> {
        let asking = self.asking.as_ref().and_then(Asking::next_deadline);
        self.due.into_iter().chain(asking).min()
    }

    fn on_deadline(&mut self, at: Nanos) {
        if let Some(client) = self.client.take() {
            return self.connect(at, client);
        }
        let now = self.epoch.instant(at);
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(now);
            if let Some(asking) = &mut self.asking
                && let Err(why) = asking.on_deadline(connection, at)
            {
                self.state = State::Closed(why);
            }
        }
        self.attend();
        self.bound_what_is_kept();
        self.plan();
        self.note(at, PacketDirection::Sent, &[], 1);
    }

    fn room(&self, lane: Lane) -> usize {
        let has_room = self.asking.is_some() || self.lanes.has_room(lane);
        if self.state == State::Open && has_room { self.room } else { 0 }
    }

    fn write(&mut self, _now: Nanos, lane: Lane, bytes: &[u8], rest: Rest) -> io::Result<usize> {
        let Some((_, connection)) = &mut self.connection else { return Err(nowhere(lane)) };
        if let Some(asking) = &mut self.asking {
            return match rest {
                Rest::Kept => asking.ask(connection, bytes),
                Rest::Left => asking.give(connection, bytes),
            };
        }
        self.lanes.write(connection, lane, bytes, rest)
    }

    fn read(&mut self, _now: Nanos, take: &mut dyn FnMut(Lane, &[u8]) -> usize) {
        let Some((_, connection)) = &mut self.connection else { return };
        let read = match &mut self.asking {
            Some(asking) => asking.read(connection, take),
            None => self.lanes.read(connection, take),
        };
        if let Err(why) = read {
            self.state = State::Closed(why);
        }
    }

    fn finish(&mut self, _now: Nanos, lane: Lane) {
        match (&mut self.asking, &mut self.connection) {
            (Some(asking), Some((_, connection))) => asking.finish(connection),
            _ => self.lanes.finish(lane),
        }
    }

    fn has_ended(&self, lane: Lane) -> bool {
        let asking = self.asking.as_ref();
        asking.map_or_else(|| self.lanes.has_ended(lane), |asking| asking.has_ended())
    }

    /// While data is unacknowledged its timer runs, and no other timer does for long: there are no idle timeouts and no
    /// keep-alives.
    fn is_drained(&self) -> bool {
        if let Some(asking) = &self.asking {
            return asking.is_drained();
        }
        !self.lanes.any_reliable() || (!self.lanes.wait() && self.due.is_none())
    }

    fn stats(&self) -> ProtocolStats {
        self.counters()
    }

    fn effective(&self) -> Effective {
        self.options()
    }
}
