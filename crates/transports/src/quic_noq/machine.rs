//! noq-proto as a state machine: its endpoint with one connection of one path.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use noq_proto::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};
use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, FourTuple,
    Incoming, PathId, ServerConfig,
};

use super::{CONTROL, NoqControl};
use crate::datapath::ecn::Codepoint;
use crate::quic::acknowledged::{Acknowledged, counting_of};
use crate::quic::machine::{
    Arrival, ConnectionLook, MachineEvent, Outgoing, QuicConnection, QuicMachine, StreamWays,
};
use crate::quic::quinn::PEER;
use crate::quic::shape::{configurations_of, conversions_of, streams_of, written_behind};
use crate::quic::terms::{Configuration, OwnSizes, initial_suite};
use crate::spec::Settings;
use crate::transport::identity::Failure;

/// One end.
pub(super) struct NoqMachine {
    endpoint: Endpoint,
    client: Option<ClientConfig>,
    /// Bytes of packets that a program of others has acknowledged.
    acked: Option<Acknowledged>,
    handle: ConnectionHandle,
    /// In a cell, because asking the library for counters changes it.
    connection: Option<RefCell<Connection>>,
    /// Answers of the endpoint outside of the connection.
    answers: VecDeque<Vec<u8>>,
    scratch: Vec<u8>,
}

impl NoqMachine {
    /// Exchanges events between endpoint and connection.
    fn exchange(&mut self) {
        let Some(connection) = self.connection.as_mut().map(RefCell::get_mut) else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
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
            Ok((handle, connection)) => {
                self.hold(handle, connection);
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

    fn hold(&mut self, handle: ConnectionHandle, connection: Connection) {
        self.handle = handle;
        self.connection = Some(RefCell::new(connection));
    }
}

fn controllers(control: NoqControl) -> Arc<dyn ControllerFactory + Send + Sync> {
    match control {
        NoqControl::Cubic => Arc::new(CubicConfig::default()),
        NoqControl::Reno => Arc::new(NewRenoConfig::default()),
        NoqControl::Bbr => Arc::new(Bbr3Config::default()),
    }
}

configurations_of!(noq_proto);
conversions_of!(noq_proto);

counting_of!(noq_proto, ack(number), loss(is_ecn, largest), {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, number: u64) {
        self.inside.on_packet_sent(now, bytes, number);
    }

    fn on_cwnd_limited(&mut self) {
        self.inside.on_cwnd_limited();
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, number: u64, now: Instant) {
        self.inside.on_packet_lost(lost_bytes, number, now);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.inside.on_spurious_congestion_event();
    }

    fn on_ack_frequency_update(&mut self, threshold: u64, most_delay: Duration) {
        self.inside.on_ack_frequency_update(threshold, most_delay);
    }
});

impl QuicMachine for NoqMachine {
    type Connection = Connection;

    const OWN: OwnSizes = OwnSizes { stream_window: 1_250_000, payload: 1_472 };

    fn control(knobs: &Settings) -> &'static str {
        CONTROL.word(knobs.get(&CONTROL))
    }

    fn new(configuration: &Configuration<'_>) -> Result<NoqMachine, Failure> {
        let acked = configuration.others.map(|_| Acknowledged::default());
        let controllers = controllers(configuration.opening.knobs.get(&CONTROL));
        let controllers = counted(controllers, acked.as_ref());
        let transport = Arc::new(transport_of(configuration, controllers)?);
        let endpoint = endpoint_of(configuration)?;
        let mut client = None;
        if let Some(near) = configuration.client()? {
            let near = QuicClientConfig::with_initial(near, initial_suite()?)?;
            let mut config = ClientConfig::new(Arc::new(near));
            config.transport_config(Arc::clone(&transport));
            client = Some(config);
        }
        let mut server = None;
        if let Some(far) = configuration.server()? {
            let far = QuicServerConfig::with_initial(far, initial_suite()?)?;
            let mut config = ServerConfig::with_crypto(Arc::new(far));
            config.transport_config(transport).migration(false);
            server = Some(Arc::new(config));
        }
        Ok(NoqMachine {
            endpoint: Endpoint::new(Arc::new(endpoint), server, false),
            client,
            acked,
            handle: ConnectionHandle(0),
            connection: None,
            answers: VecDeque::new(),
            scratch: Vec::new(),
        })
    }

    fn connect(&mut self, now: Instant, name: &str) -> Result<(), String> {
        let Some(client) = self.client.take() else { return Ok(()) };
        let connected = self.endpoint.connect(now, client, PEER, name);
        let (handle, connection) = connected.map_err(|error| error.to_string())?;
        self.hold(handle, connection);
        Ok(())
    }

    fn handle(&mut self, now: Instant, datagram: &[u8], ecn: Codepoint) -> Arrival {
        let ecn = EcnCodepoint::from_bits(ecn as u8);
        self.scratch.clear();
        let (path, data) = (FourTuple::from_remote(PEER), BytesMut::from(datagram));
        match self.endpoint.handle(now, path, ecn, data, &mut self.scratch) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some(connection) = self.connection() {
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
        let connection = self.connection.as_mut()?.get_mut();
        let most = NonZeroUsize::new(most)?;
        let write = |buffer: &mut Vec<u8>| connection.poll_transmit(now, most, buffer);
        written_behind(batch, &mut self.scratch, write, |sent| sent.size).map(outgoing)
    }

    fn poll(&mut self) -> Option<MachineEvent> {
        self.exchange();
        let connection = self.connection()?;
        std::iter::from_fn(|| connection.poll()).find_map(event_for_ends)
    }

    fn deadline(&mut self) -> Option<Instant> {
        self.connection()?.poll_timeout()
    }

    fn on_timeout(&mut self, now: Instant) {
        if let Some(connection) = self.connection() {
            connection.handle_timeout(now);
        }
    }

    #[inline]
    fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut().map(RefCell::get_mut)
    }

    fn look(&self) -> Option<ConnectionLook> {
        let mut connection = self.connection.as_ref()?.borrow_mut();
        let path = connection.path_stats(PathId::ZERO)?;
        Some(ConnectionLook {
            data_frames: path.frame_tx.stream + path.frame_tx.datagram,
            acknowledgements: path.frame_rx.acks,
            rtt: path.rtt,
            min_rtt: None,
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
    streams_of!(noq_proto);

    fn acknowledgements(&mut self) -> u64 {
        self.path_stats(PathId::ZERO).map_or(0, |path| path.frame_rx.acks)
    }

    fn keep_at_most(&mut self, windows: u64, least: u64, most: u64) {
        let least = least * u64::from(self.current_mtu());
        let Some(window) = self.congestion_state(PathId::ZERO).map(|state| state.window()) else {
            return;
        };
        self.set_send_window((windows * window.max(least)).min(most));
    }
}
