//! noq-proto as a state machine: its endpoint with one connection of one path.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use noq_proto::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, EcnCodepoint, Endpoint, FourTuple, PathId,
    ServerConfig,
};

use super::CONTROL;
use crate::quic::QuicControl;
use crate::quic::acknowledged::{Acknowledged, counting_of};
use crate::quic::connection::{ConnectionLook, QuicConnection, QuicData, StreamWays};
use crate::quic::machine::{Arrival, MachineEvent, Outgoing, QuicLibrary, QuicMachine};
use crate::quic::quinn::PEER;
use crate::quic::shape::{
    configurations_of, conversions_of, endpoint_of, library_of, look_of, machine_of, state_of,
    streams_of, written_behind,
};
use crate::quic::terms::{Configuration, OwnSizes};
use deadheat_base::ecn::Codepoint;
use deadheat_base::spec::Settings;
use deadheat_datapath::transport::identity::Failure;

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
    endpoint_of!(noq_proto);

    fn hold(&mut self, handle: ConnectionHandle, connection: Connection) {
        self.handle = handle;
        self.connection = Some(RefCell::new(connection));
    }
}

fn controllers(control: QuicControl) -> Arc<dyn ControllerFactory + Send + Sync> {
    match control {
        QuicControl::Cubic => Arc::new(CubicConfig::default()),
        QuicControl::Reno => Arc::new(NewRenoConfig::default()),
        QuicControl::Bbr => Arc::new(Bbr3Config::default()),
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

impl QuicLibrary for NoqMachine {
    const OWN: OwnSizes = OwnSizes { stream_window: 1_250_000, payload: 1_472 };

    library_of!();

    fn new(configuration: &Configuration<'_>) -> Result<NoqMachine, Failure> {
        let controllers = controllers(configuration.opening.knobs.get(&CONTROL));
        let parts = parts_of(
            configuration,
            controllers,
            |near| ClientConfig::new(Arc::new(near)),
            |far| ServerConfig::with_crypto(Arc::new(far)),
        )?;
        let server = parts.server.map(Arc::new);
        Ok(NoqMachine {
            endpoint: Endpoint::new(Arc::new(parts.endpoint), server, false),
            client: parts.client,
            acked: parts.acked,
            handle: ConnectionHandle(0),
            connection: None,
            answers: VecDeque::new(),
            scratch: Vec::new(),
        })
    }
}

impl QuicMachine for NoqMachine {
    machine_of!(noq_proto);

    fn handle(&mut self, now: Instant, datagram: &[u8], ecn: Codepoint) -> Arrival {
        let ecn = EcnCodepoint::from_bits(ecn as u8);
        self.scratch.clear();
        let (path, data) = (FourTuple::from_remote(PEER), BytesMut::from(datagram));
        let event = self.endpoint.handle(now, path, ecn, data, &mut self.scratch);
        self.take(now, event)
    }

    fn transmit(&mut self, now: Instant, most: usize, batch: &mut Vec<u8>) -> Option<Outgoing> {
        let connection = self.connection.as_mut()?.get_mut();
        let most = NonZeroUsize::new(most)?;
        let write = |buffer: &mut Vec<u8>| connection.poll_transmit(now, most, buffer);
        written_behind(batch, &mut self.scratch, write, |sent| sent.size).map(outgoing)
    }

    #[inline]
    fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut().map(RefCell::get_mut)
    }

    fn look(&self) -> Option<ConnectionLook> {
        let mut connection = self.connection.as_ref()?.borrow_mut();
        let path = connection.path_stats(PathId::ZERO)?;
        let control = connection.congestion_state(PathId::ZERO).map(|state| state.metrics());
        let threshold = control.and_then(|control| control.ssthresh);
        Some(look_of!(path, path, None, threshold, self.acked))
    }
}

impl QuicData for Connection {
    streams_of!(noq_proto);
}

impl QuicConnection for Connection {
    state_of!(noq_proto);

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
