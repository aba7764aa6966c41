//! quinn-proto as a state machine: its endpoint with one connection.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint,
    EndpointConfig, Incoming, ServerConfig,
};

use super::acknowledged::Acknowledged;
use super::machine::{
    Arrival, ConnectionLook, MachineEvent, Outgoing, QuicConnection, QuicMachine, StreamWays,
};
use super::shape::{conversions_of, streams_of, written_behind};
use super::terms::{Configuration, OwnSizes};
use super::{CONTROL, setup};
use crate::datapath::ecn::Codepoint;
use crate::spec::Settings;
use crate::transport::identity::Failure;

/// Address of the peer. State machines never use it but to tell paths apart; the socket below has the real one.
pub(crate) const PEER: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 5210);

/// One end.
pub(crate) struct QuinnMachine {
    endpoint: Endpoint,
    client: Option<ClientConfig>,
    /// Bytes of packets that a program of others has acknowledged.
    acked: Option<Acknowledged>,
    connection: Option<(ConnectionHandle, Connection)>,
    /// Answers of the endpoint outside of the connection.
    answers: VecDeque<Vec<u8>>,
    scratch: Vec<u8>,
}

impl QuinnMachine {
    /// Creates a near end with the configuration of a client, or a far one with that of a server.
    pub(super) fn of(
        endpoint: EndpointConfig,
        client: Option<ClientConfig>,
        server: Option<ServerConfig>,
        acked: Option<Acknowledged>,
    ) -> QuinnMachine {
        QuinnMachine {
            endpoint: Endpoint::new(Arc::new(endpoint), server.map(Arc::new), false, None),
            client,
            acked,
            connection: None,
            answers: VecDeque::new(),
            scratch: Vec::new(),
        }
    }

    /// Exchanges events between endpoint and connection.
    fn exchange(&mut self) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
    }

    fn accept(&mut self, now: Instant, incoming: Incoming) -> Arrival {
        if self.connection.is_some() {
            self.endpoint.ignore(incoming);
            return Arrival::Taken;
        }
        match self.endpoint.accept(incoming, now, &mut self.scratch, None) {
            Ok(accepted) => {
                self.connection = Some(accepted);
                Arrival::Connected
            }
            Err(error) => {
                if let Some(answer) = error.response {
                    self.answers.push_back(self.scratch[..answer.size].to_vec());
                }
                Arrival::Refused(error.cause.to_string())
            }
        }
    }
}

conversions_of!(quinn_proto);

impl QuicMachine for QuinnMachine {
    type Connection = Connection;

    const OWN: OwnSizes = setup::OWN;

    fn control(knobs: &Settings) -> &'static str {
        CONTROL.word(knobs.get(&CONTROL))
    }

    fn new(configuration: &Configuration<'_>) -> Result<QuinnMachine, Failure> {
        setup::machine(configuration)
    }

    fn connect(&mut self, now: Instant, name: &str) -> Result<(), String> {
        let Some(client) = self.client.take() else { return Ok(()) };
        let connected = self.endpoint.connect(now, client, PEER, name);
        self.connection = Some(connected.map_err(|error| error.to_string())?);
        Ok(())
    }

    fn handle(&mut self, now: Instant, datagram: &[u8], ecn: Codepoint) -> Arrival {
        let ecn = EcnCodepoint::from_bits(ecn as u8);
        self.scratch.clear();
        let data = BytesMut::from(datagram);
        match self.endpoint.handle(now, PEER, None, ecn, data, &mut self.scratch) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => return self.accept(now, incoming),
            Some(DatagramEvent::Response(answer)) => {
                self.answers.push_back(self.scratch[..answer.size].to_vec());
            }
            None => {}
        }
        Arrival::Taken
    }

    fn answer(&mut self) -> Option<Vec<u8>> {
        self.answers.pop_front()
    }

    fn transmit(&mut self, now: Instant, most: usize, batch: &mut Vec<u8>) -> Option<Outgoing> {
        let (_, connection) = self.connection.as_mut()?;
        let write = |buffer: &mut Vec<u8>| connection.poll_transmit(now, most, buffer);
        written_behind(batch, &mut self.scratch, write, |sent| sent.size).map(outgoing)
    }

    fn poll(&mut self) -> Option<MachineEvent> {
        self.exchange();
        let (_, connection) = self.connection.as_mut()?;
        std::iter::from_fn(|| connection.poll()).find_map(event_for_ends)
    }

    fn deadline(&mut self) -> Option<Instant> {
        self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout())
    }

    fn on_timeout(&mut self, now: Instant) {
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(now);
        }
    }

    #[inline]
    fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut().map(|(_, connection)| connection)
    }

    fn look(&self) -> Option<ConnectionLook> {
        let stats = self.connection.as_ref()?.1.stats();
        let path = &stats.path;
        Some(ConnectionLook {
            data_frames: stats.frame_tx.stream + stats.frame_tx.datagram,
            acknowledgements: stats.frame_rx.acks,
            rtt: path.rtt,
            min_rtt: Some(path.min_rtt),
            cwnd: path.cwnd,
            packet: u64::from(path.current_mtu),
            sent_packets: path.sent_packets,
            lost_packets: path.lost_packets,
            lost_bytes: path.lost_bytes,
            congestion_events: Some(path.congestion_events),
            bytes_acked: self.acked.as_ref().map(Acknowledged::bytes),
        })
    }
}

impl QuicConnection for Connection {
    streams_of!(quinn_proto);

    fn acknowledgements(&mut self) -> u64 {
        self.stats().frame_rx.acks
    }

    fn keep_at_most(&mut self, windows: u64, least: u64, most: u64) {
        let least = least * u64::from(self.current_mtu());
        let kept = windows * self.congestion_state().window().max(least);
        self.set_send_window(kept.min(most));
    }
}
