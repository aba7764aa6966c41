//! Streams and datagrams of a connection for libraries of the shape of quinn-proto: that library, and noq-proto, which
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

/// Defines the configurations of the library of this name that are alike: of connections, and of endpoints.
macro_rules! configurations_of {
    ($library:ident) => {
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

pub(crate) use {configurations_of, conversions_of, streams_of};
