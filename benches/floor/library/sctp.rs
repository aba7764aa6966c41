//! SCTP in UDP datagrams, with the settings that `sctp-udp` has in a race.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sctp_proto::{
    Association, AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig, Event,
    Payload, PayloadProtocolIdentifier, ServerConfig, TransportConfig,
};

use super::{DATAGRAM, MESSAGE, TAKEN, receive_one, send_one};

/// The receiver's buffer, and the most bytes that wait at the sender.
const WINDOW: u32 = 1 << 20;
const LARGEST: u32 = 65_536;
/// Bytes of the common header and of a DATA chunk's (RFC 9260, 3 and 3.3.1).
const HEADERS: usize = 12 + 16;
const STREAM: u16 = 0;

pub(super) struct Machine {
    socket: UdpSocket,
    peer: SocketAddr,
    endpoint: Endpoint,
    association: Option<(AssociationHandle, Association)>,
    packets: VecDeque<Bytes>,
    is_open: bool,
    buffer: Vec<u8>,
    message: [u8; MESSAGE],
}

impl Machine {
    /// Creates an end, which connects `to` the other one or waits for it.
    pub(super) fn new(
        socket: UdpSocket,
        peer: SocketAddr,
        to: Option<SocketAddr>,
    ) -> io::Result<Machine> {
        let transport = Arc::new(
            TransportConfig::default()
                .with_max_receive_buffer_size(WINDOW)
                .with_max_send_message_size(LARGEST)
                .with_max_receive_message_size(LARGEST)
                .with_rto_initial_ms(1_000)
                .with_rto_min_ms(1_000),
        );
        let mut config = EndpointConfig::new();
        config.max_payload_size(((DATAGRAM - HEADERS) / 4 * 4) as u32);
        let mut server = ServerConfig::new();
        server.transport = Arc::clone(&transport);
        let server = to.is_none().then(|| Arc::new(server));
        let mut endpoint = Endpoint::new(Arc::new(config), server);
        let association = match to {
            Some(to) => {
                let mut client = ClientConfig::new();
                client.transport = transport;
                Some(endpoint.connect(client, to).map_err(io::Error::other)?)
            }
            None => None,
        };
        Ok(Machine {
            socket,
            peer,
            endpoint,
            association,
            packets: VecDeque::new(),
            is_open: false,
            buffer: vec![0; 65_536],
            message: [1; MESSAGE],
        })
    }

    fn attend(&mut self) -> io::Result<()> {
        let Some((handle, association)) = &mut self.association else { return Ok(()) };
        while let Some(event) = association.poll_endpoint_event() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                association.handle_event(event);
            }
        }
        while let Some(event) = association.poll() {
            match event {
                Event::Connected => {
                    self.is_open = true;
                    // The peer's first message may have opened it already.
                    let _ = association.open_stream(STREAM, PayloadProtocolIdentifier::Binary);
                }
                Event::HandshakeFailed { reason } | Event::AssociationLost { reason } => {
                    return Err(io::Error::other(reason.to_string()));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl super::Machine for Machine {
    fn take(&mut self) -> io::Result<bool> {
        let now = Instant::now();
        let mut arrived = false;
        for _ in 0..TAKEN {
            let Some(len) = receive_one(&self.socket, &mut self.buffer)? else { break };
            arrived = true;
            let datagram = Bytes::copy_from_slice(&self.buffer[..len]);
            match self.endpoint.handle(now, self.peer, None, None, datagram) {
                Some((_, DatagramEvent::AssociationEvent(event))) => {
                    if let Some((_, association)) = &mut self.association {
                        association.handle_event(event);
                    }
                }
                Some((handle, DatagramEvent::NewAssociation(association))) => {
                    self.association.get_or_insert((handle, association));
                }
                None => {}
            }
        }
        if let Some((_, association)) = &mut self.association
            && association.poll_timeout().is_some_and(|due| due <= now)
        {
            association.handle_timeout(now);
        }
        self.attend()?;
        Ok(arrived)
    }

    fn is_open(&self) -> bool {
        self.is_open
    }

    fn write(&mut self) -> io::Result<bool> {
        let Some((_, association)) = &mut self.association else { return Ok(false) };
        let mut stream = association.stream(STREAM).map_err(io::Error::other)?;
        let mut wrote = false;
        while stream.buffered_amount().map_err(io::Error::other)? < WINDOW as usize {
            stream
                .write_with_ppi(&self.message, PayloadProtocolIdentifier::Binary)
                .map_err(io::Error::other)?;
            wrote = true;
        }
        Ok(wrote)
    }

    fn give(&mut self) -> io::Result<()> {
        loop {
            let now = Instant::now();
            let own = self.association.as_mut().and_then(|(_, own)| own.poll_transmit(now));
            for transmit in self.endpoint.poll_transmit().into_iter().chain(own) {
                if let Payload::RawEncode(packets) = transmit.payload {
                    self.packets.extend(packets);
                }
            }
            if self.packets.is_empty() {
                return self.attend();
            }
            for packet in self.packets.drain(..) {
                send_one(&self.socket, &packet)?;
            }
        }
    }

    fn read(&mut self) -> io::Result<u64> {
        let Some((_, association)) = &mut self.association else { return Ok(0) };
        let Ok(mut stream) = association.stream(STREAM) else { return Ok(0) };
        let mut bytes = 0;
        while let Ok(Some(chunks)) = stream.read_sctp() {
            bytes += chunks.read(&mut self.buffer).map_err(io::Error::other)? as u64;
        }
        Ok(bytes)
    }

    fn due(&mut self) -> Option<Duration> {
        let due = self.association.as_mut().and_then(|(_, association)| association.poll_timeout());
        due.map(|due| due.saturating_duration_since(Instant::now()))
    }
}
