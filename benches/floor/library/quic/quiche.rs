//! QUIC by quiche. Its buffers of segments are filled as its own examples fill them: with packets of one size, up to a
//! shorter one.

use std::io::{self, Write};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use quiche::{Config, Connection, ConnectionId, Error, RecvInfo};
use tempfile::NamedTempFile;

use super::sockets::{receive_coalesced, send_segmented};
use super::{DATAGRAM, Failure, NAME, PIECE, Role, SEGMENTS, Secrets, Talker};

#[path = "../../../../tests/common/pem.rs"]
mod pem;

/// Flow control in bytes.
const WINDOW: u64 = 8_000_000;

pub(super) struct Machine {
    socket: UdpSocket,
    config: Config,
    role: Role,
    path: RecvInfo,
    connection: Option<Connection>,
    arriving: Vec<u8>,
    leaving: Vec<u8>,
    /// Bytes in `leaving`, and the size of each datagram, while they wait for room.
    unsent: Option<(usize, usize)>,
    piece: Vec<u8>,
    read: Vec<u8>,
}

fn config(secrets: &Secrets, role: Role) -> Result<Config, Failure> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[NAME.as_bytes()])?;
    config.set_curves_list("X25519")?;
    config.set_max_recv_udp_payload_size(DATAGRAM);
    config.set_max_send_udp_payload_size(DATAGRAM);
    config.set_initial_max_streams_uni(1);
    config.set_initial_max_data(WINDOW);
    config.set_initial_max_stream_data_uni(WINDOW);
    config.set_max_connection_window(WINDOW);
    config.set_max_stream_window(WINDOW);
    if role == Role::Far {
        // quiche reads a certificate from files, and once.
        let certificate = file("CERTIFICATE", secrets.0.cert.der())?;
        let key = file("PRIVATE KEY", &secrets.0.signing_key.serialize_der())?;
        config.load_cert_chain_from_pem_file(&certificate.path().to_string_lossy())?;
        config.load_priv_key_from_pem_file(&key.path().to_string_lossy())?;
    }
    Ok(config)
}

fn file(label: &str, der: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    file.write_all(pem::pem(label, der).as_bytes())?;
    Ok(file)
}

impl Machine {
    pub(super) fn talker(
        socket: UdpSocket,
        secrets: &Secrets,
        role: Role,
    ) -> Result<Box<dyn Talker>, Failure> {
        let path = RecvInfo { from: socket.peer_addr()?, to: socket.local_addr()? };
        let mut machine = Machine {
            socket,
            config: config(secrets, role)?,
            role,
            path,
            connection: None,
            arriving: vec![0; 65_536],
            leaving: vec![0; SEGMENTS * DATAGRAM],
            unsent: None,
            piece: vec![1; PIECE],
            read: vec![0; PIECE],
        };
        if role == Role::Near {
            let (id, config) = (ConnectionId::from_ref(&[1; 8]), &mut machine.config);
            let made = quiche::connect(Some(NAME), &id, path.to, path.from, config)?;
            machine.connection = Some(made);
        }
        Ok(Box::new(machine))
    }

    /// Number of the stream of an end (RFC 9000, 2.1).
    fn stream(of: Role) -> u64 {
        match of {
            Role::Near => 2,
            Role::Far => 3,
        }
    }

    fn handle(&mut self, len: usize, size: usize) -> io::Result<()> {
        for datagram in self.arriving[..len].chunks_mut(size.max(1)) {
            let connection = match &mut self.connection {
                Some(connection) => connection,
                none => {
                    let (id, path) = (ConnectionId::from_ref(&[2; 8]), self.path);
                    let made = quiche::accept(&id, None, path.to, path.from, &mut self.config);
                    none.insert(made.map_err(io::Error::other)?)
                }
            };
            connection.recv(datagram, self.path).map_err(io::Error::other)?;
        }
        Ok(())
    }
}

impl Talker for Machine {
    fn put(&mut self, piece: &[u8]) -> io::Result<usize> {
        let Some(connection) = &mut self.connection else { return Ok(0) };
        match connection.stream_send(Machine::stream(self.role), piece, false) {
            Ok(taken) => Ok(taken),
            Err(Error::Done) => Ok(0),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

impl super::super::Machine for Machine {
    fn take(&mut self) -> io::Result<bool> {
        let got = receive_coalesced(&self.socket, &mut self.arriving)?;
        if let Some((len, size)) = got {
            self.handle(len, size)?;
        }
        if let Some(connection) = &mut self.connection
            && connection.timeout_instant().is_some_and(|due| due <= Instant::now())
        {
            connection.on_timeout();
        }
        Ok(got.is_some())
    }

    fn is_open(&self) -> bool {
        self.connection.as_ref().is_some_and(Connection::is_established)
    }

    fn write(&mut self) -> io::Result<bool> {
        let piece = std::mem::take(&mut self.piece);
        let wrote = self.fill(&piece);
        self.piece = piece;
        wrote
    }

    fn give(&mut self) -> io::Result<()> {
        loop {
            if let Some((len, size)) = self.unsent {
                if !send_segmented(&self.socket, &self.leaving[..len], size)? {
                    return Ok(());
                }
                self.unsent = None;
            }
            let Some(connection) = &mut self.connection else { return Ok(()) };
            let (mut len, mut size) = (0, DATAGRAM);
            while len + size <= self.leaving.len() {
                let written = match connection.send(&mut self.leaving[len..len + size]) {
                    Ok((written, _)) => written,
                    Err(Error::Done) => break,
                    Err(error) => return Err(io::Error::other(error)),
                };
                if len == 0 {
                    size = written;
                }
                len += written;
                // A shorter one is the last, and behind a short one a full one would not fit.
                if written < size || size < DATAGRAM {
                    break;
                }
            }
            if len == 0 {
                return Ok(());
            }
            self.unsent = Some((len, size));
        }
    }

    fn read(&mut self) -> io::Result<u64> {
        let Some(connection) = &mut self.connection else { return Ok(0) };
        let from = match self.role {
            Role::Near => Role::Far,
            Role::Far => Role::Near,
        };
        let mut bytes = 0;
        loop {
            match connection.stream_recv(Machine::stream(from), &mut self.read) {
                Ok((len, _)) => bytes += len as u64,
                // The stream is not there before its first bytes are.
                Err(Error::Done | Error::InvalidStreamState(_)) => return Ok(bytes),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }

    fn due(&mut self) -> Option<Duration> {
        if self.unsent.is_some() {
            return Some(Duration::from_micros(50));
        }
        self.connection.as_ref().and_then(Connection::timeout)
    }
}
