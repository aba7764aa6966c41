//! The smallest program around quinn-proto, and around noq-proto, which began as a copy of it: their types differ, and the
//! text that uses them does not. What differs is in front of the macro: `WINDOW`, `MOST`, `endpoint` and `handle`.

macro_rules! smallest_program {
    ($library:ident) => {
        use std::io;
        use std::net::{SocketAddr, UdpSocket};
        use std::sync::Arc;
        use std::time::{Duration, Instant};

        use bytes::BytesMut;
        use $library::congestion::CubicConfig;
        use $library::crypto::rustls::{QuicClientConfig, QuicServerConfig};
        use $library::{
            ClientConfig, Connection, ConnectionHandle, Dir, Event, ReadError, StreamEvent,
            StreamId, TransportConfig, VarInt, WriteError,
        };

        use super::sockets::{receive_coalesced, send_segmented};
        use super::{DATAGRAM, Failure, NAME, PIECE, Role, Secrets, Talker};

        fn transport() -> Arc<TransportConfig> {
            let mut transport = TransportConfig::default();
            transport
                .max_idle_timeout(None)
                .initial_mtu(DATAGRAM as u16)
                .mtu_discovery_config(None)
                .congestion_controller_factory(Arc::new(CubicConfig::default()))
                .stream_receive_window(VarInt::from_u32(WINDOW))
                .receive_window(VarInt::from_u32(WINDOW))
                .send_window(u64::from(WINDOW));
            Arc::new(transport)
        }

        pub(super) struct Machine {
            socket: UdpSocket,
            peer: SocketAddr,
            endpoint: Endpoint,
            connection: Option<(ConnectionHandle, Connection)>,
            /// Streams of this end and of the other.
            outgoing: Option<StreamId>,
            incoming: Option<StreamId>,
            is_open: bool,
            arriving: Vec<u8>,
            leaving: Vec<u8>,
            /// Size of the datagrams in `leaving`, while they wait for room.
            unsent: Option<usize>,
            piece: Vec<u8>,
        }

        impl Machine {
            pub(super) fn talker(
                socket: UdpSocket,
                secrets: &Secrets,
                role: Role,
            ) -> Result<Box<dyn Talker>, Failure> {
                let mut config = EndpointConfig::default();
                config.max_udp_payload_size(DATAGRAM as u16)?;
                let mut server = None;
                if role == Role::Far {
                    let tls = QuicServerConfig::try_from(secrets.server()?)?;
                    let mut far = ServerConfig::with_crypto(Arc::new(tls));
                    far.transport_config(transport()).migration(false);
                    server = Some(Arc::new(far));
                }
                let (peer, mut endpoint) = (socket.peer_addr()?, endpoint(config, server));
                let mut connection = None;
                if role == Role::Near {
                    let tls = QuicClientConfig::try_from(secrets.client()?)?;
                    let mut near = ClientConfig::new(Arc::new(tls));
                    near.transport_config(transport());
                    connection = Some(endpoint.connect(Instant::now(), near, peer, NAME)?);
                }
                Ok(Box::new(Machine {
                    socket,
                    peer,
                    endpoint,
                    connection,
                    outgoing: None,
                    incoming: None,
                    is_open: false,
                    arriving: vec![0; 65_536],
                    leaving: Vec::with_capacity(65_536),
                    unsent: None,
                    piece: vec![1; PIECE],
                }))
            }

            fn attend(&mut self) -> io::Result<()> {
                let Some((handle, connection)) = &mut self.connection else { return Ok(()) };
                while let Some(event) = connection.poll_endpoint_events() {
                    if let Some(event) = self.endpoint.handle_event(*handle, event) {
                        connection.handle_event(event);
                    }
                }
                while let Some(event) = connection.poll() {
                    match event {
                        Event::Connected => {
                            self.is_open = true;
                            self.outgoing = connection.streams().open(Dir::Uni);
                        }
                        Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                            self.incoming = connection.streams().accept(Dir::Uni);
                        }
                        Event::ConnectionLost { reason } => return Err(io::Error::other(reason)),
                        _ => {}
                    }
                }
                Ok(())
            }

            /// Hands datagrams of `size` bytes each, but the last, to the protocol.
            fn handle(&mut self, now: Instant, len: usize, size: usize) -> io::Result<()> {
                let mut datagrams = BytesMut::from(&self.arriving[..len]);
                while !datagrams.is_empty() {
                    let datagram = datagrams.split_to(size.clamp(1, datagrams.len()));
                    let mut answer = Vec::new();
                    let at = (now, self.peer);
                    match handle(&mut self.endpoint, at, datagram, &mut answer) {
                        Some(DatagramEvent::ConnectionEvent(_, event)) => {
                            if let Some((_, connection)) = &mut self.connection {
                                connection.handle_event(event);
                            }
                        }
                        Some(DatagramEvent::NewConnection(incoming)) => {
                            let made = self.endpoint.accept(incoming, now, &mut answer, None);
                            self.connection = Some(made.map_err(|e| io::Error::other(e.cause))?);
                        }
                        Some(DatagramEvent::Response(_)) | None => {}
                    }
                }
                Ok(())
            }
        }

        impl Talker for Machine {
            fn put(&mut self, piece: &[u8]) -> io::Result<usize> {
                let (Some((_, connection)), Some(stream)) = (&mut self.connection, self.outgoing)
                else {
                    return Ok(0);
                };
                match connection.send_stream(stream).write(piece) {
                    Ok(taken) => Ok(taken),
                    Err(WriteError::Blocked) => Ok(0),
                    Err(error) => Err(io::Error::other(error)),
                }
            }
        }

        impl super::super::Machine for Machine {
            fn take(&mut self) -> io::Result<bool> {
                let got = receive_coalesced(&self.socket, &mut self.arriving)?;
                let now = Instant::now();
                if let Some((len, size)) = got {
                    self.handle(now, len, size)?;
                }
                if let Some((_, connection)) = &mut self.connection
                    && connection.poll_timeout().is_some_and(|due| due <= now)
                {
                    connection.handle_timeout(now);
                }
                self.attend()?;
                Ok(got.is_some())
            }

            fn is_open(&self) -> bool {
                self.is_open
            }

            fn write(&mut self) -> io::Result<bool> {
                let piece = std::mem::take(&mut self.piece);
                let wrote = self.fill(&piece);
                self.piece = piece;
                wrote
            }

            fn give(&mut self) -> io::Result<()> {
                loop {
                    if let Some(size) = self.unsent {
                        if !send_segmented(&self.socket, &self.leaving, size)? {
                            return Ok(());
                        }
                        self.unsent = None;
                    }
                    let Some((_, connection)) = &mut self.connection else { return Ok(()) };
                    self.leaving.clear();
                    let sent = connection.poll_transmit(Instant::now(), MOST, &mut self.leaving);
                    self.unsent = sent.map(|sent| sent.segment_size.unwrap_or(sent.size));
                    if self.unsent.is_none() {
                        return self.attend();
                    }
                }
            }

            fn read(&mut self) -> io::Result<u64> {
                let (Some((_, connection)), Some(stream)) = (&mut self.connection, self.incoming)
                else {
                    return Ok(0);
                };
                let mut bytes = 0;
                let mut stream = connection.recv_stream(stream);
                let Ok(mut chunks) = stream.read(true) else { return Ok(0) };
                loop {
                    match chunks.next(usize::MAX) {
                        Ok(Some(chunk)) => bytes += chunk.bytes.len() as u64,
                        Ok(None) | Err(ReadError::Blocked) => break,
                        Err(error) => return Err(io::Error::other(error)),
                    }
                }
                // The next packet announces the room that this makes.
                let _ = chunks.finalize();
                Ok(bytes)
            }

            fn due(&mut self) -> Option<Duration> {
                if self.unsent.is_some() {
                    return Some(Duration::from_micros(50));
                }
                let (_, connection) = self.connection.as_mut()?;
                let due = connection.poll_timeout()?;
                Some(due.saturating_duration_since(Instant::now()))
            }
        }
    };
}

pub(super) use smallest_program;
