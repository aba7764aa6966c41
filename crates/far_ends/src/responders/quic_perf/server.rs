//! Connections of QUIC perf clients, without a socket and a clock.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};

use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, Incoming,
    StreamEvent, TransportErrorCode, VarInt,
};

use super::PerfSetup;
use super::answer::PerfAnswer;
use deadheat_base::time::Nanos;
use deadheat_datapath::datapath::answering::Arrived;
use deadheat_datapath::transport::responder::{NoGrant, ResponderHost, TestGrant};
use deadheat_datapath::transport::userspace::Epoch;

/// Most connections at once, those of ended tests for a moment included.
const MOST_CONNECTIONS: usize = 256;

/// Sender of datagrams to who sent the given one.
pub(super) type Send<'a> = &'a mut dyn FnMut(&[u8], &Arrived);

/// Code of a connection that the server closes.
const CLOSED: VarInt = VarInt::from_u32(0);

/// Connections of QUIC perf clients.
pub(super) struct PerfServer<'h> {
    host: &'h dyn ResponderHost,
    endpoint: Endpoint,
    epoch: Epoch,
    connections: Vec<PerfConnection<'h>>,
    /// Turns, which the connections of one client share.
    turns: Vec<Weak<PerfTurn<'h>>>,
    scratch: Vec<u8>,
}

/// Turn of a client, whose connections are one test.
struct PerfTurn<'h> {
    client: IpAddr,
    grant: Box<dyn TestGrant + 'h>,
    began: Nanos,
    /// True once a stream was opened.
    has_begun: Cell<bool>,
}

/// Connection of a client.
struct PerfConnection<'h> {
    handle: ConnectionHandle,
    connection: Connection,
    /// Way back to the client.
    way: Arrived,
    /// Turn, until the connection is closed.
    turn: Option<Rc<PerfTurn<'h>>>,
    /// Bytes of IP packets, sent and received, that are not charged yet.
    uncharged: [u64; 2],
    /// Times from which more may be sent, and received; 0 for at once.
    due: [Nanos; 2],
    answers: Vec<PerfAnswer>,
}

impl<'h> PerfServer<'h> {
    pub(super) fn new(host: &'h dyn ResponderHost, setup: &PerfSetup) -> PerfServer<'h> {
        let (config, server) = (Arc::clone(&setup.endpoint), Arc::clone(&setup.server));
        PerfServer {
            host,
            endpoint: Endpoint::new(config, Some(server), true, None),
            epoch: Epoch::default(),
            connections: Vec::new(),
            turns: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Returns the time of the next turn without an arrival.
    pub(super) fn next_deadline(&mut self) -> Option<Nanos> {
        let epoch = &self.epoch;
        let of = |test: &mut PerfConnection<'_>| {
            let timer = test.connection.poll_timeout().and_then(|due| epoch.nanos(due));
            [timer, test.waits_until()]
        };
        self.connections.iter_mut().flat_map(of).flatten().min()
    }

    /// Handles a datagram of a client.
    pub(super) fn handle(&mut self, at: Nanos, arrived: &Arrived, bytes: &[u8], send: Send<'_>) {
        if !arrived.is_unicast() {
            return;
        }
        let now = self.epoch.instant(at);
        self.scratch.clear();
        let (data, local) = (BytesMut::from(bytes), arrived.to.map(|to| to.ip));
        let event = self.endpoint.handle(now, arrived.peer, local, None, data, &mut self.scratch);
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                // A packet with the numbers of a connection may have a forged source, to which no data must go.
                let is_its = |test: &&mut PerfConnection<'_>| {
                    test.handle == handle && test.way.peer == arrived.peer
                };
                if let Some(test) = self.connections.iter_mut().find(is_its) {
                    test.way = *arrived;
                    test.uncharged[1] += arrived.packet(bytes.len());
                    test.connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.meet(at, arrived, incoming, send),
            Some(DatagramEvent::Response(answer)) => self.answer(answer.size, arrived, send),
            None => {}
        }
    }

    /// Sends an answer outside of a connection, within the limits of what passes beside trials, and never more than came.
    fn answer(&self, size: usize, arrived: &Arrived, send: Send<'_>) {
        let bytes = [size, arrived.len].map(|len| arrived.packet(len));
        if size <= arrived.len && self.host.beside(arrived.peer.ip(), bytes).is_ok() {
            send(&self.scratch[..size], arrived);
        }
    }

    /// Asks a new client for the proof of its address, or takes it in if it has given one and there is a turn for it.
    fn meet(&mut self, at: Nanos, arrived: &Arrived, incoming: Incoming, send: Send<'_>) {
        self.scratch.clear();
        if !incoming.remote_address_validated() {
            if let Ok(answer) = self.endpoint.retry(incoming, &mut self.scratch) {
                self.answer(answer.size, arrived, send);
            }
            return;
        }
        let client = arrived.peer.ip();
        self.turns.retain(|turn| turn.strong_count() > 0);
        let own = self.turns.iter().filter_map(Weak::upgrade).find(|turn| turn.client == client);
        if self.connections.len() >= MOST_CONNECTIONS {
            let answer = self.endpoint.refuse(incoming, &mut self.scratch);
            return self.answer(answer.size, arrived, send);
        }
        if let Some(turn) = own {
            return self.take_in(at, arrived, incoming, turn);
        }
        let refused = match self.host.begin(arrived.peer) {
            Ok(grant) => {
                let turn = PerfTurn { client, grant, began: at, has_begun: Cell::new(false) };
                let turn = Rc::new(turn);
                self.turns.push(Rc::downgrade(&turn));
                return self.take_in(at, arrived, incoming, turn);
            }
            Err(NoGrant::Busy | NoGrant::Soon) => "refused: another test or trial runs".to_owned(),
            Err(NoGrant::Refused(why)) => format!("refused: {why}"),
        };
        self.host.note(arrived.peer, &refused);
        let answer = self.endpoint.refuse(incoming, &mut self.scratch);
        self.answer(answer.size, arrived, send);
    }

    fn take_in(
        &mut self,
        at: Nanos,
        arrived: &Arrived,
        incoming: Incoming,
        turn: Rc<PerfTurn<'h>>,
    ) {
        let now = self.epoch.instant(at);
        match self.endpoint.accept(incoming, now, &mut self.scratch, None) {
            Ok((handle, connection)) => {
                self.host.greet(arrived.peer, "a connection");
                self.connections.push(PerfConnection {
                    handle,
                    connection,
                    way: *arrived,
                    turn: Some(turn),
                    uncharged: [0, arrived.packet(arrived.len)],
                    due: [Nanos::ZERO; 2],
                    answers: Vec::new(),
                });
            }
            Err(error) => turn.grant.fail(&error.cause.to_string()),
        }
    }

    /// Closes all connections.
    pub(super) fn close(&mut self, why: &'static str) {
        let now = Instant::now();
        for test in &mut self.connections {
            test.connection.close(now, CLOSED, Bytes::from_static(why.as_bytes()));
        }
    }

    /// Moves all connections on.
    pub(super) fn turn(&mut self, at: Nanos, send: Send<'_>) {
        let now = self.epoch.instant(at);
        for test in &mut self.connections {
            test.wait_no_longer(at);
            test.connection.handle_timeout(now);
            while let Some(event) = test.connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(test.handle, event) {
                    test.connection.handle_event(event);
                }
            }
            test.attend();
            test.keep_to_limits(at, now);
            test.transmit(at, now, &mut self.scratch, send);
            test.charge(at, now);
            if test.connection.is_closed() {
                test.turn = None;
            }
        }
        let endpoint = &mut self.endpoint;
        self.connections.retain_mut(|test| {
            let is_over = test.connection.is_drained();
            if is_over {
                while let Some(event) = test.connection.poll_endpoint_events() {
                    let _ = endpoint.handle_event(test.handle, event);
                }
            }
            !is_over
        });
    }

    /// Returns the number of connections.
    #[cfg(test)]
    pub(super) fn connections(&self) -> usize {
        self.connections.len()
    }
}

impl PerfConnection<'_> {
    /// Returns the time of a limit: the end of the test, or that from which more may pass.
    fn waits_until(&self) -> Option<Nanos> {
        let turn = self.turn.as_ref()?;
        let limits = turn.grant.limits();
        let end = if turn.has_begun.get() {
            turn.began + limits.duration
        } else {
            turn.began + limits.begin
        };
        self.due.into_iter().filter(|due| *due > Nanos::ZERO).chain([end]).min()
    }

    /// Forgets the times that have come.
    fn wait_no_longer(&mut self, at: Nanos) {
        for due in self.due.iter_mut().filter(|due| **due <= at) {
            *due = Nanos::ZERO;
        }
    }

    /// Handles the events of the connection, and moves its answers on.
    fn attend(&mut self) {
        while let Some(event) = self.connection.poll() {
            match (event, &self.turn) {
                (Event::Stream(StreamEvent::Opened { .. }), Some(turn))
                    if !turn.has_begun.replace(true) =>
                {
                    turn.grant.begun("QUIC perf");
                }
                // A client ends its test by closing the connection.
                (Event::ConnectionLost { reason: ConnectionError::ApplicationClosed(_) }, _) => {}
                (Event::ConnectionLost { reason: ConnectionError::ConnectionClosed(close) }, _)
                    if close.error_code == TransportErrorCode::NO_ERROR => {}
                (Event::ConnectionLost { reason }, Some(turn)) => {
                    turn.grant.fail(&reason.to_string());
                }
                _ => {}
            }
        }
        for dir in [Dir::Bi, Dir::Uni] {
            while let Some(stream) = self.connection.streams().accept(dir) {
                self.answers.push(PerfAnswer::new(stream));
            }
        }
        // What is not read fills the window, and so slows the client down.
        if self.due[1] == Nanos::ZERO {
            let connection = &mut self.connection;
            self.answers.retain_mut(|answer| !answer.step(connection));
        }
    }

    /// Closes the connection after the time that its test has.
    fn keep_to_limits(&mut self, at: Nanos, now: Instant) {
        let Some(turn) = self.turn.as_ref().filter(|_| !self.connection.is_closed()) else {
            return;
        };
        let (limits, lasted) = (turn.grant.limits(), at - turn.began);
        let why = match turn.has_begun.get() {
            false if lasted >= limits.begin => "no stream came in time",
            true if lasted >= limits.duration => "the longest time of a test is over",
            _ => return,
        };
        turn.grant.fail(why);
        self.connection.close(now, CLOSED, Bytes::from_static(why.as_bytes()));
    }

    /// Sends what is due, as far as the rate allows.
    fn transmit(&mut self, at: Nanos, now: Instant, scratch: &mut Vec<u8>, send: Send<'_>) {
        let mut batch = 0..MOST_AT_ONCE;
        while self.due[0] <= at && batch.next().is_some() {
            scratch.clear();
            let Some(sent) = self.connection.poll_transmit(now, 1, scratch) else { return };
            send(&scratch[..sent.size], &self.way);
            self.uncharged[0] += self.way.packet(sent.size);
            if self.uncharged[0] >= CHARGED_AT_ONCE {
                self.charge(at, now);
            }
        }
    }

    /// Charges the bytes that passed, and closes the connection if they are more than its test has.
    fn charge(&mut self, at: Nanos, now: Instant) {
        let bytes = std::mem::take(&mut self.uncharged);
        let Some(turn) = self.turn.clone().filter(|_| bytes != [0; 2]) else { return };
        let charged = turn.grant.charge(at, bytes);
        self.due = charged.due;
        self.wait_no_longer(at);
        if !charged.is_within_sum && !self.connection.is_closed() {
            let why = "the most bytes of a test have passed";
            turn.grant.fail(why);
            self.connection.close(now, CLOSED, Bytes::from_static(why.as_bytes()));
        }
    }
}

/// Most datagrams of one connection before others have their turn.
const MOST_AT_ONCE: usize = 64;

/// Bytes after which a charge is made.
const CHARGED_AT_ONCE: u64 = 16 * 1024;
