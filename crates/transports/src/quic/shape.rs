//! State machine and its connection for libraries of the shape of quinn-proto: that library, and noq-proto, which
//! began as a copy of it. Their types differ, and the text that uses them does not.

/// Implements the methods of `QuicConnection` that are alike, for the library of this name.
macro_rules! streams_of {
    ($library:ident) => {
        fn open(&mut self, ways: StreamWays) -> Option<u64> {
            self.streams().open(direction(ways)).map(u64::from)
        }

        fn accept(&mut self, ways: StreamWays) -> Option<u64> {
            self.streams().accept(direction(ways)).map(u64::from)
        }

        #[inline]
        fn write(&mut self, number: u64, bytes: &[u8]) -> Result<usize, String> {
            match self.send_stream(stream(number)).write(bytes) {
                Ok(taken) => Ok(taken),
                Err($library::WriteError::Blocked) => Ok(0),
                Err($library::WriteError::Stopped(code)) => {
                    Err(format!("it stopped a request with the code {:#x}", code.into_inner()))
                }
                Err(error) => Err(error.to_string()),
            }
        }

        fn finish(&mut self, number: u64) {
            // It fails only for a stream that the peer no longer wants.
            let _ = self.send_stream(stream(number)).finish();
        }

        fn read(
            &mut self,
            number: u64,
            keep: &mut dyn FnMut(Bytes) -> bool,
        ) -> Result<bool, String> {
            let mut stream = self.recv_stream(stream(number));
            let Ok(mut chunks) = stream.read(true) else { return Ok(false) };
            let ended = loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => {
                        if !keep(chunk.bytes) {
                            break Ok(false);
                        }
                    }
                    Err($library::ReadError::Blocked) => break Ok(false),
                    Ok(None) => break Ok(true),
                    Err($library::ReadError::Reset(code)) => {
                        break Err(format!("the peer reset its stream with code {code}"));
                    }
                }
            };
            // The freed window is announced with the next packet, which follows since something arrived.
            let _ = chunks.finalize();
            ended
        }

        fn stop(&mut self, number: u64, code: u32) {
            let _ = self.recv_stream(stream(number)).stop($library::VarInt::from_u32(code));
        }

        fn send_datagram(&mut self, datagram: &[u8]) -> io::Result<bool> {
            match self.datagrams().send(Bytes::copy_from_slice(datagram), false) {
                Ok(()) => Ok(true),
                Err($library::SendDatagramError::Blocked(_)) => Ok(false),
                Err(error) => Err(io::Error::new(io::ErrorKind::InvalidInput, error)),
            }
        }

        fn receive_datagram(&mut self) -> Option<Bytes> {
            self.datagrams().recv()
        }
    };
}

/// Implements the methods of `QuicConnection` that are alike, for the library of this name.
macro_rules! state_of {
    ($library:ident) => {
        fn protocol(&self) -> Option<Vec<u8>> {
            let data = self.crypto_session().handshake_data()?;
            data.downcast::<$library::crypto::rustls::HandshakeData>().ok()?.protocol
        }

        fn close(&mut self, now: Instant, code: u32) {
            $library::Connection::close(self, now, $library::VarInt::from_u32(code), Bytes::new());
        }

        fn is_early(&self) -> bool {
            self.has_0rtt()
        }

        fn took_early(&self) -> bool {
            self.accepted_0rtt()
        }
    };
}

/// Defines the conversions between the words of the seam and the types of the library of this name.
macro_rules! conversions_of {
    ($library:ident) => {
        /// Returns the stream with this number.
        fn stream(number: u64) -> $library::StreamId {
            let number = $library::VarInt::from_u64(number).unwrap_or($library::VarInt::MAX);
            $library::StreamId::from(number)
        }

        fn outgoing(sent: $library::Transmit) -> Outgoing {
            Outgoing {
                segment: sent.segment_size.unwrap_or(sent.size),
                ecn: sent.ecn.map_or(Codepoint::NotEct, |ecn| Codepoint::of(ecn as u8)),
            }
        }

        fn direction(ways: StreamWays) -> $library::Dir {
            match ways {
                StreamWays::One => $library::Dir::Uni,
                StreamWays::Both => $library::Dir::Bi,
            }
        }

        /// Returns the event for ends; `None` if ends do not handle it.
        fn event_for_ends(event: $library::Event) -> Option<MachineEvent> {
            let ways = |direction| match direction {
                $library::Dir::Uni => StreamWays::One,
                $library::Dir::Bi => StreamWays::Both,
            };
            match event {
                $library::Event::Connected => Some(MachineEvent::Connected),
                $library::Event::ConnectionLost { reason } => {
                    Some(MachineEvent::Lost(reason.to_string()))
                }
                $library::Event::Stream($library::StreamEvent::Opened { dir }) => {
                    Some(MachineEvent::Opened(ways(dir)))
                }
                $library::Event::Stream($library::StreamEvent::Readable { id }) => {
                    Some(MachineEvent::Readable(id.into()))
                }
                _ => None,
            }
        }
    };
}

/// Implements the methods of `QuicLibrary` that are alike, for the library of this name.
macro_rules! library_of {
    () => {
        fn control(knobs: &Settings) -> &'static str {
            let scalable = $crate::quic::ecn::Ecn::of(knobs).is_l4s().then_some("prague");
            scalable.unwrap_or_else(|| CONTROL.word(knobs.get(&CONTROL)))
        }

        fn connect(&mut self, now: Instant, name: &str) -> Result<(), String> {
            let Some(client) = self.client.take() else { return Ok(()) };
            let connected = self.endpoint.connect(now, client, $crate::quic::quinn::PEER, name);
            let (handle, connection) = connected.map_err(|error| error.to_string())?;
            self.hold(handle, connection);
            Ok(())
        }
    };
}

/// Implements the methods of `QuicMachine` that are alike, for the library of this name.
macro_rules! machine_of {
    ($library:ident) => {
        type Connection = $library::Connection;

        fn answer(&mut self) -> Option<Vec<u8>> {
            self.answers.pop_front()
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
    };
}

/// Implements the methods of an end around its endpoint, for the library of this name.
macro_rules! endpoint_of {
    ($library:ident) => {
        /// Exchanges events between endpoint and connection.
        fn exchange(&mut self) {
            while let Some(event) = self.connection().and_then(|one| one.poll_endpoint_events()) {
                let event = self.endpoint.handle_event(self.handle, event);
                if let (Some(event), Some(connection)) = (event, self.connection()) {
                    connection.handle_event(event);
                }
            }
        }

        /// Takes the endpoint's event of a datagram; an answer of the endpoint is in `scratch`.
        fn take(&mut self, now: Instant, event: Option<$library::DatagramEvent>) -> Arrival {
            match event {
                Some($library::DatagramEvent::ConnectionEvent(_, event)) => {
                    if let Some(connection) = self.connection() {
                        connection.handle_event(event);
                    }
                }
                Some($library::DatagramEvent::NewConnection(incoming)) => {
                    return self.accept(now, incoming);
                }
                Some($library::DatagramEvent::Response(answer)) => self.keep_answer(answer),
                None => {}
            }
            Arrival::Taken
        }

        fn accept(&mut self, now: Instant, incoming: $library::Incoming) -> Arrival {
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
                    error.response.into_iter().for_each(|answer| self.keep_answer(answer));
                    Arrival::Refused(error.cause.to_string())
                }
            }
        }

        fn keep_answer(&mut self, answer: $library::Transmit) {
            self.answers.push_back(self.scratch[..answer.size].to_vec());
        }
    };
}

/// Returns the counters and the state of a connection from the library's statistics of its path and of its frames, with its
/// least round trip, the threshold of its slow start, and its acknowledged bytes.
macro_rules! look_of {
    ($path:expr, $frames:expr, $min_rtt:expr, $threshold:expr, $acked:expr) => {
        ConnectionLook {
            data_frames: $frames.frame_tx.stream + $frames.frame_tx.datagram,
            acknowledgements: $frames.frame_rx.acks,
            rtt: $path.rtt,
            min_rtt: $min_rtt,
            cwnd: $path.cwnd,
            threshold: $threshold,
            packet: u64::from($path.current_mtu),
            sent_packets: $path.sent_packets,
            lost_packets: $path.lost_packets,
            lost_bytes: $path.lost_bytes,
            congestion_events: Some($path.congestion_events),
            bytes_acked: $acked.as_ref().map(Acknowledged::bytes),
        }
    };
}

/// Defines the configurations of the library of this name that are alike: of connections, of endpoints, and of both ends.
macro_rules! configurations_of {
    ($library:ident) => {
        /// Configuration of an end.
        pub(super) struct EndParts {
            pub(super) endpoint: $library::EndpointConfig,
            /// Of a near end.
            pub(super) client: Option<$library::ClientConfig>,
            /// Of a far end.
            pub(super) server: Option<$library::ServerConfig>,
            /// Count of the bytes that a program of others has acknowledged, if it is at the far end.
            pub(super) acked: Option<Acknowledged>,
        }

        /// Returns the configuration of an end with these congestion controllers, from the configuration of a client or that
        /// of a server with its encryption.
        fn parts_of(
            configuration: &Configuration<'_>,
            controllers: Arc<dyn $library::congestion::ControllerFactory + Send + Sync>,
            client_of: impl FnOnce($library::crypto::rustls::QuicClientConfig) -> $library::ClientConfig,
            server_of: impl FnOnce($library::crypto::rustls::QuicServerConfig) -> $library::ServerConfig,
        ) -> Result<EndParts, Failure> {
            use $library::crypto::rustls::{QuicClientConfig, QuicServerConfig};
            let acked = configuration.others.map(|_| Acknowledged::default());
            let controllers = counted(controllers, acked.as_ref());
            let transport = Arc::new(transport_of(configuration, controllers)?);
            let endpoint = endpoint_of(configuration)?;
            let mut client = None;
            if let Some(near) = configuration.client()? {
                let suite = $crate::quic::terms::initial_suite()?;
                let mut config = client_of(QuicClientConfig::with_initial(near, suite)?);
                config.transport_config(Arc::clone(&transport));
                client = Some(config);
            }
            let mut server = None;
            if let Some(far) = configuration.server()? {
                let suite = $crate::quic::terms::initial_suite()?;
                let mut config = server_of(QuicServerConfig::with_initial(far, suite)?);
                config.transport_config(transport).migration(false);
                server = Some(config);
            }
            Ok(EndParts { endpoint, client, server, acked })
        }

        /// Returns the configuration of connections with these congestion controllers.
        fn transport_of(
            configuration: &Configuration<'_>,
            controllers: Arc<dyn $library::congestion::ControllerFactory + Send + Sync>,
        ) -> Result<$library::TransportConfig, Failure> {
            let mut transport = $library::TransportConfig::default();
            transport
                .max_concurrent_uni_streams(configuration.streams.into())
                .initial_mtu(configuration.first)
                .max_idle_timeout(None)
                .congestion_controller_factory(controllers);
            if configuration.is_mtu_fixed {
                transport.mtu_discovery_config(None);
            }
            if configuration.others.is_some() {
                transport.keep_alive_interval(Some($crate::quic::terms::ALIVE));
            }
            if let Some(window) = configuration.window {
                let room = $library::VarInt::from_u64(window)?;
                transport
                    .stream_receive_window(room)
                    .receive_window(room)
                    .send_window(window)
                    .datagram_receive_buffer_size(Some(window as usize))
                    .datagram_send_buffer_size(1 << 20);
            }
            Ok(transport)
        }

        fn endpoint_of(
            configuration: &Configuration<'_>,
        ) -> Result<$library::EndpointConfig, Failure> {
            let mut endpoint = $library::EndpointConfig::default();
            endpoint.max_udp_payload_size(configuration.payload)?;
            endpoint.rng_seed(Some(configuration.seed()));
            Ok(endpoint)
        }
    };
}

/// Has a library write datagrams behind the bytes in `batch`: it writes from a buffer's start only, so where there are some,
/// `scratch` is between. `size` returns the number of the written bytes.
pub(crate) fn written_behind<T>(
    batch: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Option<T>,
    size: impl FnOnce(&T) -> usize,
) -> Option<T> {
    if batch.is_empty() {
        return write(batch);
    }
    scratch.clear();
    let sent = write(scratch)?;
    batch.extend_from_slice(&scratch[..size(&sent)]);
    Some(sent)
}

pub(crate) use {
    configurations_of, conversions_of, endpoint_of, library_of, look_of, machine_of, state_of,
    streams_of,
};
