//! End of a QUIC connection, as a protocol in user space.

use std::io;

use super::application::Asking;
use super::connection::{QuicConnection, StreamWays};
use super::ecn::Ecn;
use super::lanes::Lanes;
use super::layer::{Layer, Session};
use super::machine::{Arrival, MachineEvent, QuicLibrary, QuicMachine};
use super::pacing::Pacer;
use super::qlog::Qlog;
use super::terms::EndTerms;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Lane, Side};
use deadheat_datapath::datapath::policer::Way;
use deadheat_datapath::transport::Effective;
use deadheat_datapath::transport::frame::PREFIX;
use deadheat_datapath::transport::identity::{NAME, Resume};
use deadheat_datapath::transport::userspace::{
    Epoch, LimitTimes, Opening, Protocol, ProtocolStats, Received, Rest, SendLimit, State,
    Transmit, nowhere,
};

mod facts;

/// Most bytes passed to the library at once.
pub(crate) const PIECE: usize = 64 * 1024;

/// Congestion windows of data stored until acknowledged: one under way, and one for a repair, as Linux's TCP sizes its
/// send buffer (`tcp_sndbuf_expand` in net/ipv4/tcp_input.c).
pub(crate) const WINDOWS_KEPT: u64 = 2;

/// Least packets that a congestion window counts for, as there (`TCP_INIT_CWND`).
pub(crate) const LEAST_WINDOW: u64 = 10;

/// End of a connection of a library.
pub(crate) struct QuicEnd<M: QuicMachine> {
    machine: M,
    /// True until a near end begins.
    is_to_connect: bool,
    epoch: Epoch,
    state: State,
    lanes: Lanes,
    /// Session that must be agreed on before lanes open, if any.
    session: Option<Box<dyn Session<M::Connection>>>,
    /// Application protocol of a program of others, in place of lanes.
    asking: Option<Asking>,
    due: Option<Nanos>,
    room: usize,
    mtu: u32,
    terms: EndTerms,
    /// Bytes of headers in front of a datagram, if packets grow with the path MTU.
    headers: Option<u32>,
    ecn: Ecn,
    pacer: Pacer,
    held: LimitTimes,
    /// True if the first data left with the handshake.
    is_early: bool,
    /// Log of the connection, if one was requested.
    qlog: Option<Qlog>,
}

impl<M: QuicLibrary> QuicEnd<M> {
    pub(crate) fn new(
        layer: &Layer<M::Connection>,
        opening: &Opening<'_>,
        machine: M,
        terms: EndTerms,
    ) -> QuicEnd<M> {
        QuicEnd {
            machine,
            is_to_connect: opening.side == Side::Near,
            epoch: Epoch::default(),
            state: State::Handshaking,
            lanes: Lanes::new(opening.lanes, layer.heads),
            session: (layer.session)(opening.side),
            asking: None,
            due: (opening.side == Side::Near).then_some(Nanos::ZERO),
            room: PIECE.max(PREFIX + opening.largest_message),
            mtu: opening.mtu,
            headers: (!terms.is_mtu_fixed).then(|| opening.headers()),
            terms,
            ecn: Ecn::of(opening.knobs),
            pacer: Pacer::default(),
            held: LimitTimes::default(),
            is_early: false,
            qlog: None,
        }
    }

    /// Returns the same end with a log.
    pub(super) fn logged(self, qlog: Option<Qlog>) -> QuicEnd<M> {
        QuicEnd { qlog, ..self }
    }

    /// Makes the connection one to a program of others, with an application protocol in place of lanes.
    pub(super) fn asking(self, asking: Asking) -> QuicEnd<M> {
        QuicEnd { lanes: Lanes::new(&[], self.lanes.heads), asking: Some(asking), ..self }
    }

    /// Opens the lanes, or begins the application protocol.
    fn begin(&mut self) {
        let Some(connection) = self.machine.connection() else { return };
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

    /// Handles the connection's events.
    fn attend(&mut self) {
        // Until it is established, every event may concern the session.
        let mut concerns_session = self.state == State::Handshaking;
        let mut is_open = false;
        while let Some(event) = self.machine.poll() {
            match event {
                MachineEvent::Connected
                    if self.state == State::Handshaking && self.session.is_none() =>
                {
                    is_open = true;
                }
                // Streams were opened before, and continue on early data.
                MachineEvent::Connected if self.is_early && !self.took_early() => {
                    self.state = State::Closed("the far end refused early data".to_owned());
                }
                MachineEvent::Lost(reason) => {
                    self.state = match &self.asking {
                        Some(asking) => asking.lost(&reason),
                        None => State::Closed(reason),
                    };
                }
                MachineEvent::Opened(StreamWays::One)
                    if self.session.is_none() && self.asking.is_none() =>
                {
                    if let Some(connection) = self.machine.connection() {
                        self.lanes.accept(connection);
                    }
                }
                MachineEvent::Opened(_) => concerns_session = true,
                MachineEvent::Readable(stream) => {
                    concerns_session |= self.session.as_ref().is_some_and(|own| own.reads(stream));
                }
                MachineEvent::Connected => {}
            }
        }
        if concerns_session {
            self.attend_session();
        }
        if is_open && self.state == State::Handshaking {
            self.begin();
        }
        self.attend_application();
    }

    /// Lets the application protocol of a program of others act on arrivals.
    fn attend_application(&mut self) {
        let (Some(asking), Some(connection)) = (&mut self.asking, self.machine.connection()) else {
            return;
        };
        if self.state == State::Open
            && let Err(why) = asking.attend(connection)
        {
            self.state = State::Closed(why);
        }
    }

    /// Lets the session handle arrived bytes, and opens the lanes once it is agreed on.
    fn attend_session(&mut self) {
        let Some(session) = &mut self.session else { return };
        let Some(connection) = self.machine.connection() else { return };
        if matches!(self.state, State::Closed(_)) {
            return;
        }
        match session.attend(connection, &mut self.lanes) {
            State::Open if self.state == State::Handshaking => {
                self.state = State::Open;
                self.lanes.open(connection);
            }
            State::Closed(why) => self.state = State::Closed(why),
            State::Open | State::Handshaking => {}
        }
    }

    fn took_early(&mut self) -> bool {
        self.machine.connection().is_some_and(|connection| connection.took_early())
    }

    /// Limits the bytes that the library stores by the current congestion window. Otherwise it would store a whole window
    /// of flow control, which drains for minutes if losses have reduced the rate. Not with several lanes: the library takes
    /// turns among them, and bytes that wait outside would delay all lanes.
    fn bound_what_is_kept(&mut self) {
        let is_alone = self.asking.as_ref().map_or_else(|| self.lanes.is_single(), Asking::gives);
        if !is_alone {
            return;
        }
        if let (Some(window), Some(connection)) = (self.terms.window, self.machine.connection()) {
            connection.keep_at_most(WINDOWS_KEPT, LEAST_WINDOW, window);
        }
    }

    /// Logs datagrams, all of `size` bytes but the last, and the connection's state after them.
    fn note(&mut self, now: Nanos, way: Way, datagrams: &[u8], size: usize) {
        let Some(qlog) = &mut self.qlog else { return };
        qlog.datagrams(now, way, datagrams, size);
        if let Some(look) = self.machine.look() {
            qlog.look(now, &look);
        }
        qlog.write();
    }

    /// Notes the reason why no more is sent at `now`. A library refuses bytes if its send window is full, or if the
    /// peer's flow control admits no more; a smaller congestion window is the limit before that.
    fn note_wait(&mut self, now: Nanos) {
        let waits = match (self.lanes.want_room(), self.due) {
            (false, None) => SendLimit::Nothing,
            (false, Some(_)) => SendLimit::Path,
            (true, _) => {
                let Some(look) = self.machine.look() else { return };
                let is_wider = look.cwnd >= self.terms.window.unwrap_or(self.terms.own_window);
                let waits = if is_wider { SendLimit::Library } else { SendLimit::Path };
                return self.held.note(now, waits, nanoseconds(look.rtt));
            }
        };
        self.held.note(now, waits, None);
    }

    /// Begins the handshake.
    fn connect(&mut self, at: Nanos) {
        let now = self.epoch.instant(at);
        let name = self.asking.as_ref().map_or(NAME, |asking| &asking.name);
        match self.machine.connect(now, name) {
            Ok(()) => {
                self.is_early = self.machine.connection().is_some_and(|own| own.is_early());
                if self.is_early {
                    self.begin();
                }
            }
            Err(why) => self.state = State::Closed(why),
        }
        self.plan();
    }

    /// Plans the next deadline.
    fn plan(&mut self) {
        self.due = self.machine.deadline().and_then(|due| self.epoch.nanos(due));
    }
}

fn nanoseconds(duration: std::time::Duration) -> Option<u64> {
    u64::try_from(duration.as_nanos()).ok()
}

impl<M: QuicLibrary> Protocol for QuicEnd<M> {
    fn state(&self) -> State {
        self.state.clone()
    }

    fn handle(&mut self, Received { at, bytes: datagram, ecn }: Received<'_>) {
        let now = self.epoch.instant(at);
        match self.machine.handle(now, datagram, self.ecn.arrives(ecn)) {
            Arrival::Taken => {}
            // Answers to early data need not wait for the end of the handshake.
            Arrival::Connected if self.terms.resume == Resume::Early => {
                self.state = State::Open;
                if let Some(connection) = self.machine.connection() {
                    self.lanes.open(connection);
                }
            }
            Arrival::Connected => {}
            Arrival::Refused(why) => self.state = State::Closed(why),
        }
        self.attend();
        self.bound_what_is_kept();
        self.plan();
        self.note(at, Way::Received, datagram, datagram.len());
    }

    fn transmit(&mut self, at: Nanos, most: usize, batch: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(answer) = self.machine.answer() {
            batch.extend_from_slice(&answer);
            self.note(at, Way::Sent, &answer, answer.len());
            return Some(Transmit::plain(answer.len()));
        }
        if self.ecn.is_l4s() && self.pacer.holds(at) {
            self.note_wait(at);
            return None;
        }
        let most = if self.ecn.is_l4s() { 1 } else { most };
        let now = self.epoch.instant(at);
        let start = batch.len();
        let connection = self.machine.connection()?;
        if let Err(error) = self.lanes.offer_the_rest(connection) {
            self.state = State::Closed(error.to_string());
        }
        if self.asking.as_mut().is_some_and(Asking::closes_now) {
            Asking::close(connection, now);
        }
        let sent = self.machine.transmit(now, most, batch);
        self.attend();
        self.plan();
        let sent =
            sent.map(|sent| Transmit { segment: sent.segment, ecn: self.ecn.leaves(sent.ecn) });
        match sent {
            Some(sent) => {
                if self.ecn.is_l4s()
                    && self.state == State::Open
                    && let Some(look) = self.machine.look()
                {
                    self.pacer.sent(at, sent.segment, look.cwnd, look.rtt);
                }
                self.note(at, Way::Sent, &batch[start..], sent.segment);
            }
            None => {
                self.asking.iter_mut().for_each(Asking::all_left);
                self.note_wait(at);
            }
        }
        sent
    }

    fn next_deadline(&self) -> Option<Nanos> {
        let asking = self.asking.as_ref().and_then(Asking::next_deadline);
        self.due.into_iter().chain(asking).chain(self.pacer.until()).min()
    }

    fn on_deadline(&mut self, at: Nanos) {
        if std::mem::take(&mut self.is_to_connect) {
            return self.connect(at);
        }
        self.pacer.holds(at);
        let now = self.epoch.instant(at);
        self.machine.on_timeout(now);
        if let (Some(asking), Some(connection)) = (&mut self.asking, self.machine.connection())
            && let Err(why) = asking.on_deadline(connection, at)
        {
            self.state = State::Closed(why);
        }
        self.attend();
        self.bound_what_is_kept();
        self.plan();
        self.note(at, Way::Sent, &[], 1);
    }

    fn room(&self, lane: Lane) -> usize {
        let has_room = self.asking.is_some() || self.lanes.has_room(lane);
        if self.state == State::Open && has_room { self.room } else { 0 }
    }

    fn write(&mut self, _now: Nanos, lane: Lane, bytes: &[u8], rest: Rest) -> io::Result<usize> {
        let Some(connection) = self.machine.connection() else { return Err(nowhere(lane)) };
        if let Some(asking) = &mut self.asking {
            return match rest {
                Rest::Kept => asking.ask(connection, bytes),
                Rest::Left => asking.give(connection, bytes),
            };
        }
        self.lanes.write(connection, lane, bytes, rest)
    }

    fn read(&mut self, _now: Nanos, take: &mut dyn FnMut(Lane, &[u8]) -> usize) {
        let Some(connection) = self.machine.connection() else { return };
        let read = match &mut self.asking {
            Some(asking) => asking.read(connection, take),
            None => self.lanes.read(connection, take),
        };
        if let Err(why) = read {
            self.state = State::Closed(why);
        }
    }

    fn finish(&mut self, _now: Nanos, lane: Lane) {
        match (&mut self.asking, self.machine.connection()) {
            (Some(asking), Some(connection)) => asking.finish(connection),
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
