//! Connections of browsers, without a socket and a clock.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use deadheat_base::origins::{Admission, Shares};
use deadheat_datapath::datapath::answering::Arrived;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, Incoming,
};

use super::own_certificate::{LARGE_WINDOW, OwnCertificates};
use super::session::{BROKEN, Http3Session, NO_ERROR};
use crate::udp::Moment;
use crate::work::Tickets;
use deadheat_base::time::Nanos;

/// Connections, in all and of one origin; from half of the first on, a new one proves its address.
const CONNECTIONS: Shares = Shares { in_all: 64, of_one: 16 };

/// Time that a connection has for a trial to begin, and for the next one.
const GRACE: Nanos = Nanos::from_secs(10);

/// Most datagrams of one connection before others have their turn.
const MOST_AT_ONCE: usize = 64;

/// Sender of datagrams to the source of the given one, with a TOS byte if it has a particular one.
pub(super) type Send<'a> = &'a mut dyn FnMut(&[u8], &Arrived, Option<u8>);

/// Connections of browsers.
pub(super) struct Browsers {
    endpoint: Endpoint,
    certificates: Arc<OwnCertificates>,
    tickets: Arc<dyn Tickets>,
    connections: Vec<BrowserConnection>,
    scratch: Vec<u8>,
}

/// Connection of a browser.
struct BrowserConnection {
    handle: ConnectionHandle,
    connection: Connection,
    /// Way back to the browser.
    way: Arrived,
    http: Http3Session,
    /// Time since which no trial runs.
    idle_since: Nanos,
    /// True once the windows are large.
    is_wide: bool,
    /// True while more datagrams may leave than one turn allows.
    has_more: bool,
    unproved: Option<UnprovedWay>,
}

/// Way to an address that has not shown that it receives: no more bytes leave than came. The library would send three times
/// as many (RFC 9000, 8.1), to the host that a forged datagram names as its source.
#[derive(Default)]
struct UnprovedWay {
    /// Bytes that came and were not answered by as many.
    credit: usize,
    /// Datagrams that wait, with their TOS bytes: at most twice as many bytes as came.
    held: VecDeque<(Vec<u8>, Option<u8>)>,
}

impl Browsers {
    pub(super) fn new(certificates: Arc<OwnCertificates>, tickets: Arc<dyn Tickets>) -> Browsers {
        let (config, server) = (Arc::new(EndpointConfig::default()), certificates.config());
        Browsers {
            endpoint: Endpoint::new(config, Some(server), true, None),
            certificates,
            tickets,
            connections: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Returns the time of the next turn without an arrival.
    pub(super) fn next_deadline(&mut self, moment: &Moment) -> Option<Nanos> {
        self.connections.iter_mut().filter_map(|own| own.next_deadline(moment)).min()
    }

    /// Handles a datagram.
    pub(super) fn handle(&mut self, moment: &Moment, way: &Arrived, bytes: &[u8], send: Send<'_>) {
        self.scratch.clear();
        let (data, local) = (BytesMut::from(bytes), way.to.map(|to| to.ip));
        let ecn = way.field.and_then(|field| EcnCodepoint::from_bits(field & 0b11));
        let scratch = &mut self.scratch;
        match self.endpoint.handle(moment.instant, way.peer, local, ecn, data, scratch) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                // A packet with the numbers of a connection may have a forged source, to which no data must go.
                let is_its =
                    |own: &&mut BrowserConnection| own.handle == handle && own.way.peer == way.peer;
                if let Some(own) = self.connections.iter_mut().find(is_its) {
                    own.way = *way;
                    if let Some(unproved) = &mut own.unproved {
                        unproved.credit += bytes.len();
                    }
                    own.connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.meet(moment, way, incoming, send),
            Some(DatagramEvent::Response(answer)) => self.answer(answer.size, way, send),
            None => {}
        }
    }

    /// Sends an answer outside of a connection, never larger than the datagram that it answers.
    fn answer(&self, size: usize, way: &Arrived, send: Send<'_>) {
        if size <= way.len {
            send(&self.scratch[..size], way, None);
        }
    }

    fn meet(&mut self, moment: &Moment, way: &Arrived, incoming: Incoming, send: Send<'_>) {
        self.scratch.clear();
        let is_proved = incoming.remote_address_validated();
        let open: Vec<usize> = (0..self.connections.len())
            .rev()
            .filter(|at| !self.connections[*at].connection.is_closed())
            .collect();
        let of = |at: &usize| self.connections[*at].way.peer.ip();
        let admission = CONNECTIONS.admit(way.peer.ip(), open.iter().map(of));
        let lost = match admission {
            // Closed ones are known for a moment, and are bounded, too.
            _ if self.connections.len() >= 2 * CONNECTIONS.in_all => {
                let answer = self.endpoint.refuse(incoming, &mut self.scratch);
                return self.answer(answer.size, way, send);
            }
            Admission::Free => None,
            // Who gets another's place proves its address first, below.
            Admission::Replaces(back) => Some(open[back]),
            Admission::OwnShare | Admission::Full => {
                let answer = self.endpoint.refuse(incoming, &mut self.scratch);
                return self.answer(answer.size, way, send);
            }
        };
        if open.len() >= CONNECTIONS.in_all / 2 && !is_proved {
            if let Ok(answer) = self.endpoint.retry(incoming, &mut self.scratch) {
                self.answer(answer.size, way, send);
            }
            return;
        }
        if let Some(lost) = lost {
            self.connections[lost].close(moment, "its place is another's");
        }
        let config = Some(self.certificates.config());
        match self.endpoint.accept(incoming, moment.instant, &mut self.scratch, config) {
            Ok((handle, connection)) => self.connections.push(BrowserConnection {
                handle,
                connection,
                way: *way,
                http: Http3Session::default(),
                idle_since: moment.now,
                is_wide: false,
                has_more: false,
                unproved: (!is_proved)
                    .then(|| UnprovedWay { credit: way.len, held: VecDeque::new() }),
            }),
            Err(error) => {
                if let Some(answer) = error.response {
                    self.answer(answer.size, way, send);
                }
            }
        }
    }

    /// Closes all connections.
    pub(super) fn close(&mut self, moment: &Moment) {
        for own in &mut self.connections {
            own.connection.close(moment.instant, NO_ERROR, Bytes::from_static(b"the server ends"));
        }
    }

    /// Moves all connections on.
    pub(super) fn turn(&mut self, moment: &Moment, send: Send<'_>) {
        let endpoint = &mut self.endpoint;
        for own in &mut self.connections {
            own.connection.handle_timeout(moment.instant);
            own.exchange(endpoint);
            own.attend(moment, &self.tickets);
            own.transmit(moment, &mut self.scratch, send);
        }
        self.connections.retain_mut(|own| {
            let is_over = own.connection.is_drained();
            if is_over {
                own.exchange(endpoint);
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

impl BrowserConnection {
    fn next_deadline(&mut self, moment: &Moment) -> Option<Nanos> {
        if self.has_more {
            return Some(moment.now);
        }
        let timer = self.connection.poll_timeout().map(|at| moment.nanos(at));
        if self.connection.is_closed() {
            return timer;
        }
        // Just past the end, so that it has passed by then.
        let end = self.http.ends().filter(|end| *end > moment.now);
        let end = end.unwrap_or(self.idle_since + GRACE) + Nanos(1);
        [timer, Some(end), self.http.due()].into_iter().flatten().min()
    }

    fn exchange(&mut self, endpoint: &mut Endpoint) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
    }

    fn attend(&mut self, moment: &Moment, tickets: &Arc<dyn Tickets>) {
        // Each turn looks at all streams, so that no event brings news.
        while self.connection.poll().is_some() {}
        if self.connection.is_closed() {
            return;
        }
        if let Err(why) = self.http.attend(&mut self.connection, moment.now, tickets) {
            self.connection.close(moment.instant, BROKEN, Bytes::from(why));
        } else if self.http.is_over() {
            self.close(moment, "the session is over");
        } else if self.http.ends().is_some_and(|end| end > moment.now) {
            self.idle_since = moment.now;
            if !self.is_wide {
                self.is_wide = true;
                self.connection.set_receive_window(LARGE_WINDOW.into());
                self.connection.set_send_window(LARGE_WINDOW.into());
            }
        } else if moment.now - self.idle_since > GRACE {
            self.close(moment, "no trial began in time");
        }
    }

    fn close(&mut self, moment: &Moment, why: &'static str) {
        if !self.connection.is_closed() {
            self.connection.close(moment.instant, NO_ERROR, Bytes::from_static(why.as_bytes()));
        }
    }

    fn transmit(&mut self, moment: &Moment, scratch: &mut Vec<u8>, send: Send<'_>) {
        // A datagram of the handshake's second flight shows that the first one arrived.
        if !self.connection.is_handshaking()
            && !self.connection.is_closed()
            && let Some(proved) = self.unproved.take()
        {
            proved.held.iter().for_each(|(bytes, ecn)| send(bytes, &self.way, *ecn));
        }
        self.has_more = true;
        for _ in 0..MOST_AT_ONCE {
            scratch.clear();
            let Some(sent) = self.connection.poll_transmit(moment.instant, 1, scratch) else {
                self.has_more = false;
                break;
            };
            let (bytes, ecn) = (&scratch[..sent.size], sent.ecn.map(|ecn| ecn as u8));
            match &mut self.unproved {
                Some(unproved) => unproved.held.push_back((bytes.to_vec(), ecn)),
                None => send(bytes, &self.way, ecn),
            }
        }
        let Some(unproved) = &mut self.unproved else { return };
        while unproved.held.front().is_some_and(|(bytes, _)| bytes.len() <= unproved.credit)
            && let Some((bytes, ecn)) = unproved.held.pop_front()
        {
            unproved.credit -= bytes.len();
            send(&bytes, &self.way, ecn);
        }
    }
}
