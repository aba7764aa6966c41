//! quiche as a state machine: one connection, and the datagrams around it. The library reads the host's clock whenever it
//! is called, so the times that it is given here are unused: they are of the same clock, and only slightly earlier.

use std::net::SocketAddr;
use std::time::Instant;

use quiche::{Config, ConnectionId, Header, MAX_CONN_ID_LEN, RecvInfo, Type};

use super::connection::QuicheConnection;
use super::{CONTROL, setup};
use crate::quic::QuicControl;
use crate::quic::connection::ConnectionLook;
use crate::quic::machine::{Arrival, MachineEvent, Outgoing, QuicLibrary, QuicMachine};
use crate::quic::quinn::PEER;
use crate::quic::terms::{Configuration, OwnSizes};
use deadheat_base::ecn::Codepoint;
use deadheat_base::spec::Settings;
use deadheat_contract::contract::Side;
use deadheat_datapath::transport::identity::Failure;

/// Address of this end, which the library compares only, as [`PEER`].
const LOCAL: SocketAddr = SocketAddr::new(PEER.ip(), 5211);

/// Addresses of every datagram that arrives.
const ARRIVED: RecvInfo = RecvInfo { from: PEER, to: LOCAL };

/// Bytes of a connection ID, as many as with quinn.
const CONNECTION_ID: usize = 8;

/// Most bytes of a packet that only acknowledges: a short header with an ID and the longest number (13), the tag (16), and
/// a frame with two ranges. quiche counts packets, and not the frames in them; a packet with data is longer, unless its data
/// are a few bytes.
const ACKNOWLEDGEMENT: usize = 1 + CONNECTION_ID + 4 + 16 + 14;

/// One end.
pub(super) struct QuicheMachine {
    config: Config,
    id: [u8; CONNECTION_ID],
    is_far: bool,
    connection: Option<QuicheConnection>,
    /// True if ends were given the event.
    was_connected: bool,
    was_lost: bool,
    /// Largest datagram in bytes.
    payload: usize,
    /// True if the congestion control says when packets leave.
    is_paced: bool,
    /// Time before which no packet leaves.
    release: Option<Instant>,
    /// Datagram that is too long for the batch before it.
    held: Vec<u8>,
    scratch: Vec<u8>,
    data_packets: u64,
}

impl QuicheMachine {
    /// Creates the far end's connection, if the datagram begins one.
    fn accept(&mut self) -> Result<Option<QuicheConnection>, quiche::Error> {
        let Ok(header) = Header::from_slice(&mut self.scratch, MAX_CONN_ID_LEN) else {
            return Ok(None);
        };
        let begins = header.ty == Type::Initial && quiche::version_is_supported(header.version);
        if !self.is_far || !begins {
            return Ok(None);
        }
        let id = ConnectionId::from_ref(&self.id);
        let library = quiche::accept(&id, None, LOCAL, PEER, &mut self.config)?;
        Ok(Some(QuicheConnection::new(library)))
    }

    /// Appends the next packet of the connection; returns its length.
    fn write(&mut self, batch: &mut Vec<u8>) -> Option<usize> {
        let library = &mut self.connection.as_mut()?.library;
        if self.is_paced {
            let decision = library.get_next_release_time()?;
            self.release = if decision.can_burst() { None } else { decision.time(Instant::now()) };
            if self.release.is_some() {
                return None;
            }
        }
        let start = batch.len();
        batch.resize(start + self.payload, 0);
        // Without a packet, an error is the connection's, which says so itself.
        let written = library.send(&mut batch[start..]).map_or(0, |(len, _)| len);
        batch.truncate(start + written);
        self.data_packets += u64::from(self.was_connected && written > ACKNOWLEDGEMENT);
        (written > 0).then_some(written)
    }
}

impl QuicLibrary for QuicheMachine {
    const OWN: OwnSizes = OwnSizes { stream_window: setup::OWN_WINDOW, payload: 1_200 };

    fn control(knobs: &Settings) -> &'static str {
        CONTROL.word(knobs.get(&CONTROL))
    }

    fn new(configuration: &Configuration<'_>) -> Result<QuicheMachine, Failure> {
        let mut id = [0; CONNECTION_ID];
        id.copy_from_slice(&configuration.seed()[..CONNECTION_ID]);
        Ok(QuicheMachine {
            config: setup::config(configuration)?,
            id,
            is_far: configuration.opening.side == Side::Far,
            connection: None,
            was_connected: false,
            was_lost: false,
            payload: configuration.payload.into(),
            is_paced: configuration.opening.knobs.get(&CONTROL) == QuicControl::Bbr,
            release: None,
            held: Vec::new(),
            scratch: Vec::new(),
            data_packets: 0,
        })
    }

    fn connect(&mut self, _: Instant, name: &str) -> Result<(), String> {
        let id = ConnectionId::from_ref(&self.id);
        let library = quiche::connect(Some(name), &id, LOCAL, PEER, &mut self.config);
        let library = library.map_err(|error| error.to_string())?;
        self.connection = Some(QuicheConnection::new(library));
        Ok(())
    }
}

impl QuicMachine for QuicheMachine {
    type Connection = QuicheConnection;

    fn handle(&mut self, _: Instant, datagram: &[u8], _: Codepoint) -> Arrival {
        self.scratch.clear();
        self.scratch.extend_from_slice(datagram);
        let is_first = self.connection.is_none();
        if is_first {
            match self.accept() {
                Ok(connection) => self.connection = connection,
                Err(error) => return Arrival::Refused(error.to_string()),
            }
        }
        let Some(connection) = &mut self.connection else { return Arrival::Taken };
        // An error of the connection closes it, which it says itself; a datagram that is invalid is ignored.
        let _ = connection.library.recv(&mut self.scratch, ARRIVED);
        match connection.library.stats().recv {
            // It began nothing, and another one may.
            0 if is_first => {
                self.connection = None;
                Arrival::Taken
            }
            _ if is_first => Arrival::Connected,
            _ => Arrival::Taken,
        }
    }

    fn answer(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn transmit(&mut self, _: Instant, most: usize, batch: &mut Vec<u8>) -> Option<Outgoing> {
        let mut segment = None;
        for _ in 0..most {
            let start = batch.len();
            let written = match self.held.len() {
                0 => self.write(batch),
                held => {
                    batch.append(&mut self.held);
                    Some(held)
                }
            };
            let Some(len) = written else { break };
            let first = *segment.get_or_insert(len);
            if len > first {
                self.held.extend_from_slice(&batch[start..]);
                batch.truncate(start);
            }
            if len != first {
                break;
            }
        }
        Some(Outgoing { segment: segment?, ecn: Codepoint::NotEct })
    }

    fn poll(&mut self) -> Option<MachineEvent> {
        let connection = self.connection.as_mut()?;
        if !self.was_lost
            && let Some(why) = connection.end()
        {
            self.was_lost = true;
            return Some(MachineEvent::Lost(why));
        }
        if !self.was_connected && connection.library.is_established() {
            self.was_connected = true;
            return Some(MachineEvent::Connected);
        }
        connection.event()
    }

    fn deadline(&mut self) -> Option<Instant> {
        let timer = self.connection.as_ref()?.library.timeout_instant();
        timer.into_iter().chain(self.release).min()
    }

    fn on_timeout(&mut self, _: Instant) {
        self.release = None;
        if let Some(connection) = &mut self.connection {
            connection.library.on_timeout();
        }
    }

    #[inline]
    fn connection(&mut self) -> Option<&mut QuicheConnection> {
        self.connection.as_mut()
    }

    fn look(&self) -> Option<ConnectionLook> {
        let path = self.connection.as_ref()?.library.path_stats().next()?;
        Some(ConnectionLook {
            data_frames: self.data_packets,
            acknowledgements: 0,
            rtt: path.rtt,
            min_rtt: path.min_rtt,
            cwnd: path.cwnd as u64,
            threshold: None,
            packet: path.pmtu as u64,
            sent_packets: path.sent as u64,
            lost_packets: path.lost as u64,
            lost_bytes: path.lost_bytes,
            congestion_events: None,
            bytes_acked: None,
        })
    }
}
