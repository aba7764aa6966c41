//! QUIC by quinn-proto, with the settings that `quic` has in a race and the datapath of quinn's own sockets: one
//! `UDP_SEGMENT` buffer a send, one `UDP_GRO` buffer a receive.

use std::io;
use std::mem::zeroed;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::congestion::CubicConfig;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, ReadError, ServerConfig, StreamEvent, StreamId, TransportConfig, VarInt, WriteError,
};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider, kx_group};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use super::DATAGRAM;
use crate::floor::sys;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Flow control and what a sender keeps, in bytes.
const WINDOW: u32 = 8_000_000;
/// Bytes that are handed over at once.
const PIECE: usize = 64 << 10;
/// The most datagrams of a segmented buffer: what fits into 64 KiB.
const SEGMENTS: usize = (65_535 - 28) / DATAGRAM;
const NAME: &str = "localhost";

/// Certificate and key of the far end.
pub(super) struct Secrets {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Secrets {
    pub(super) fn new() -> Result<Secrets, rcgen::Error> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
        let key = made.signing_key.serialize_der();
        Ok(Secrets { certificate: made.cert.der().clone(), key })
    }

    fn client(&self) -> Result<ClientConfig, Failure> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let mut tls = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![NAME.into()];
        let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
        client.transport_config(transport());
        Ok(client)
    }

    fn server(&self) -> Result<ServerConfig, Failure> {
        let key = PrivatePkcs8KeyDer::from(self.key.clone());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key.into())?;
        tls.alpn_protocols = vec![NAME.into()];
        let mut server = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
        server.transport_config(transport()).migration(false);
        Ok(server)
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: vec![cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![kx_group::X25519],
        ..default_provider()
    })
}

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
    stream: Option<StreamId>,
    is_open: bool,
    arriving: Vec<u8>,
    leaving: Vec<u8>,
    /// Size of the datagrams in `leaving`, while they wait for room.
    unsent: Option<usize>,
    piece: Vec<u8>,
}

impl Machine {
    pub(super) fn near(
        socket: UdpSocket,
        peer: SocketAddr,
        secrets: &Secrets,
    ) -> io::Result<Machine> {
        let client = secrets.client().map_err(io::Error::other)?;
        let mut machine = Machine::new(socket, peer, None)?;
        let connection = machine.endpoint.connect(Instant::now(), client, peer, NAME);
        machine.connection = Some(connection.map_err(io::Error::other)?);
        Ok(machine)
    }

    pub(super) fn far(
        socket: UdpSocket,
        peer: SocketAddr,
        secrets: &Secrets,
    ) -> io::Result<Machine> {
        let server = secrets.server().map_err(io::Error::other)?;
        Machine::new(socket, peer, Some(Arc::new(server)))
    }

    fn new(
        socket: UdpSocket,
        peer: SocketAddr,
        server: Option<Arc<ServerConfig>>,
    ) -> io::Result<Machine> {
        sys::set(&socket, libc::IPPROTO_UDP, libc::UDP_GRO, 1)?;
        let mut config = EndpointConfig::default();
        config.max_udp_payload_size(DATAGRAM as u16).map_err(io::Error::other)?;
        Ok(Machine {
            socket,
            peer,
            endpoint: Endpoint::new(Arc::new(config), server, false, None),
            connection: None,
            stream: None,
            is_open: false,
            arriving: vec![0; 65_536],
            leaving: Vec::with_capacity(65_536),
            unsent: None,
            piece: vec![1; PIECE],
        })
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
                    if connection.side().is_client() {
                        self.stream = connection.streams().open(Dir::Uni);
                    }
                }
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                    self.stream = connection.streams().accept(Dir::Uni);
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
            match self.endpoint.handle(now, self.peer, None, None, datagram, &mut answer) {
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

impl super::Machine for Machine {
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
        let (Some((_, connection)), Some(stream)) = (&mut self.connection, self.stream) else {
            return Ok(false);
        };
        let mut wrote = false;
        loop {
            match connection.send_stream(stream).write(&self.piece) {
                Ok(_) => wrote = true,
                Err(WriteError::Blocked) => return Ok(wrote),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
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
            let sent = connection.poll_transmit(Instant::now(), SEGMENTS, &mut self.leaving);
            self.unsent = sent.map(|sent| sent.segment_size.unwrap_or(sent.size));
            if self.unsent.is_none() {
                return self.attend();
            }
        }
    }

    fn read(&mut self) -> io::Result<u64> {
        let (Some((_, connection)), Some(stream)) = (&mut self.connection, self.stream) else {
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
        // What this frees is told with the next packet.
        let _ = chunks.finalize();
        Ok(bytes)
    }

    fn due(&mut self) -> Option<Duration> {
        if self.unsent.is_some() {
            return Some(Duration::from_micros(50));
        }
        let due = self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout());
        due.map(|due| due.saturating_duration_since(Instant::now()))
    }
}

/// A control buffer with the alignment of `cmsghdr` and room for one number.
#[repr(align(8))]
struct Control([u8; 32]);

/// Receives datagrams that the kernel has put together: the bytes, and the size of each but the last; `None` if nothing
/// is there.
fn receive_coalesced(socket: &UdpSocket, into: &mut [u8]) -> io::Result<Option<(usize, usize)>> {
    let mut control = Control([0; 32]);
    let mut iovec = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: an all-zero header is valid and describes nothing.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &mut iovec;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    // SAFETY: the header points to buffers of the lengths given that outlive the call.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_DONTWAIT) };
    let len = match sys::check(got as i64) {
        Ok(len) => len,
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(e) => return Err(e),
    };
    // SAFETY: the kernel filled in the control buffer; a message of this kind holds an int.
    let size = unsafe {
        let message = libc::CMSG_FIRSTHDR(&header);
        let is_size = !message.is_null()
            && ((*message).cmsg_level, (*message).cmsg_type) == (libc::SOL_UDP, libc::UDP_GRO);
        is_size.then(|| libc::CMSG_DATA(message).cast::<libc::c_int>().read_unaligned())
    };
    Ok(Some((len, size.map_or(len, |size| size as usize))))
}

/// Sends datagrams of `size` bytes each, but the last, in one call; whether there was room.
fn send_segmented(socket: &UdpSocket, datagrams: &[u8], size: usize) -> io::Result<bool> {
    let mut control = Control([0; 32]);
    let mut iovec =
        libc::iovec { iov_base: datagrams.as_ptr().cast_mut().cast(), iov_len: datagrams.len() };
    // SAFETY: an all-zero header is valid and describes nothing.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &mut iovec;
    header.msg_iovlen = 1;
    if datagrams.len() > size {
        header.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: both only compute; the buffer has room for one u16 and is aligned for cmsghdr.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(2) as _;
            let message = libc::CMSG_FIRSTHDR(&header);
            (*message).cmsg_level = libc::SOL_UDP;
            (*message).cmsg_type = libc::UDP_SEGMENT;
            (*message).cmsg_len = libc::CMSG_LEN(2) as _;
            libc::CMSG_DATA(message).cast::<u16>().write_unaligned(size as u16);
        }
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the header points to buffers of the lengths given that outlive the call.
    match sys::check(unsafe { libc::sendmsg(socket.as_raw_fd(), &header, flags) } as i64) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(e) => Err(e),
    }
}
