//! quinn-proto as a state machine: its endpoint with one connection.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use quinn_proto::{ClientConfig, Connection, ConnectionHandle, EcnCodepoint, Endpoint};

use super::CONTROL;
use super::acknowledged::Acknowledged;
use super::connection::{ConnectionLook, QuicConnection, QuicData, StreamWays};
use super::machine::{Arrival, MachineEvent, Outgoing, QuicLibrary, QuicMachine};
use super::setup::{self, EndParts};
use super::shape::{
    conversions_of, endpoint_of, library_of, look_of, machine_of, state_of, streams_of,
    written_behind,
};
use super::terms::{Configuration, OwnSizes};
use deadheat_base::ecn::Codepoint;
use deadheat_base::spec::Settings;
use deadheat_datapath::transport::identity::Failure;

/// Address of the peer. State machines never use it but to tell paths apart; the socket below has the real one.
pub(crate) const PEER: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 5210);

/// One end.
pub(crate) struct QuinnMachine {
    endpoint: Endpoint,
    client: Option<ClientConfig>,
    /// Bytes of packets that a program of others has acknowledged.
    acked: Option<Acknowledged>,
    handle: ConnectionHandle,
    connection: Option<Connection>,
    /// Answers of the endpoint outside of the connection.
    answers: VecDeque<Vec<u8>>,
    scratch: Vec<u8>,
}

impl QuinnMachine {
    /// Creates a near end with the configuration of a client, or a far one with that of a server.
    fn of(EndParts { endpoint, client, server, acked }: EndParts) -> QuinnMachine {
        QuinnMachine {
            endpoint: Endpoint::new(Arc::new(endpoint), server.map(Arc::new), false, None),
            client,
            acked,
            handle: ConnectionHandle(0),
            connection: None,
            answers: VecDeque::new(),
            scratch: Vec::new(),
        }
    }

    endpoint_of!(quinn_proto);

    fn hold(&mut self, handle: ConnectionHandle, connection: Connection) {
        (self.handle, self.connection) = (handle, Some(connection));
    }
}

conversions_of!(quinn_proto);

impl QuicLibrary for QuinnMachine {
    const OWN: OwnSizes = setup::OWN;

    library_of!();

    fn new(configuration: &Configuration<'_>) -> Result<QuinnMachine, Failure> {
        setup::parts(configuration).map(QuinnMachine::of)
    }
}

impl QuicMachine for QuinnMachine {
    machine_of!(quinn_proto);

    fn handle(&mut self, now: Instant, datagram: &[u8], ecn: Codepoint) -> Arrival {
        let ecn = EcnCodepoint::from_bits(ecn as u8);
        self.scratch.clear();
        let data = BytesMut::from(datagram);
        let event = self.endpoint.handle(now, PEER, None, ecn, data, &mut self.scratch);
        self.take(now, event)
    }

    fn transmit(&mut self, now: Instant, most: usize, batch: &mut Vec<u8>) -> Option<Outgoing> {
        let connection = self.connection.as_mut()?;
        let write = |buffer: &mut Vec<u8>| connection.poll_transmit(now, most, buffer);
        written_behind(batch, &mut self.scratch, write, |sent| sent.size).map(outgoing)
    }

    #[inline]
    fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut()
    }

    fn look(&self) -> Option<ConnectionLook> {
        let connection = self.connection.as_ref()?;
        let (stats, control) = (connection.stats(), connection.congestion_state().metrics());
        Some(look_of!(stats.path, stats, Some(stats.path.min_rtt), control.ssthresh, self.acked))
    }
}

impl QuicData for Connection {
    streams_of!(quinn_proto);
}

impl QuicConnection for Connection {
    state_of!(quinn_proto);

    fn acknowledgements(&mut self) -> u64 {
        self.stats().frame_rx.acks
    }

    fn keep_at_most(&mut self, windows: u64, least: u64, most: u64) {
        let least = least * u64::from(self.current_mtu());
        let kept = windows * self.congestion_state().window().max(least);
        self.set_send_window(kept.min(most));
    }
}
