//! A connection of a browser: its bytes, in TLS or not, none of which waits.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::carrier::PemPair;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::datapath::destination::canonical;

/// Time for which a browser may take the last bytes and close, and the bytes that it may still send.
const PARTING: Nanos = Nanos::from_secs(2);
const MOST_AT_PARTING: usize = 16 << 20;

/// Security of the page's port.
#[derive(Clone)]
pub(crate) enum Security {
    Plain,
    Tls {
        config: Arc<ServerConfig>,
        /// Certificate of the operator, for carriers with ports of their own.
        pair: Arc<PemPair>,
    },
}

impl PemPair {
    /// Reads both files.
    ///
    /// # Errors
    /// [`Error::Setup`] with the file that cannot be read.
    pub(crate) fn read(chain: &Path, key: &Path) -> Result<PemPair> {
        let read = |file: &Path| {
            std::fs::read(file).map_err(|e| Error::setup(format!("read {}", file.display()), e))
        };
        Ok(PemPair { chain: read(chain)?, key: read(key)? })
    }

    /// Returns the chain and the key.
    ///
    /// # Errors
    /// [`Error::Usage`] if one of them is none.
    pub(crate) fn parsed(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let chain: std::result::Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_slice_iter(&self.chain).collect();
        let chain = chain.map_err(|e| wrong("the chain cannot be read", &e))?;
        if chain.is_empty() {
            return Err(wrong("the chain", &"there is no certificate in it"));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|e| wrong("the key cannot be read", &e))?;
        Ok((chain, key))
    }
}

fn wrong(what: &str, e: &dyn std::fmt::Display) -> Error {
    Error::usage(format!("the certificate of the page: {what}: {e}; both files are in PEM"))
}

impl Security {
    /// Returns TLS with this certificate.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is none, or if the key is another's.
    pub(crate) fn of(pair: PemPair) -> Result<Security> {
        Security::within(Arc::new(pair), b"http/1.1")
    }

    /// Returns TLS with this certificate, and with this protocol alone (RFC 7301).
    ///
    /// # Errors
    /// As [`Security::of`].
    pub(crate) fn within(pair: Arc<PemPair>, protocol: &[u8]) -> Result<Security> {
        let (chain, key) = pair.parsed()?;
        let config = tls(chain, key, protocol).map_err(|e| wrong("chain and key", &e))?;
        Ok(Security::Tls { config: Arc::new(config), pair })
    }

    /// Returns the certificate of the operator, if there is one.
    pub(crate) fn pair(&self) -> Option<Arc<PemPair>> {
        match self {
            Security::Plain => None,
            Security::Tls { pair, .. } => Some(Arc::clone(pair)),
        }
    }

    /// Returns the scheme of the page's address.
    pub(crate) fn scheme(&self) -> &'static str {
        match self {
            Security::Plain => "http",
            Security::Tls { .. } => "https",
        }
    }
}

/// Returns TLS 1.3 with a certificate, and with this protocol alone (RFC 7301).
///
/// # Errors
/// If the key is another's.
pub(crate) fn tls(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    protocol: &[u8],
) -> std::result::Result<ServerConfig, rustls::Error> {
    let (_, provider) = deadheat_datapath::transport::identity::provider(None);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![protocol.to_vec()];
    // A connection of a trial is a new one, and pays for its handshake.
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Connection of a browser.
pub(crate) struct Channel<'a> {
    bytes: ChannelBytes,
    pub peer: SocketAddr,
    /// Time at which it was accepted.
    pub since: Nanos,
    stop: BorrowedFd<'a>,
}

/// Bytes of a connection.
enum ChannelBytes {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

/// Direction that a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitFor {
    Bytes,
    /// Bytes, or room for more.
    BytesOrRoom,
    /// Time alone.
    Time,
}

impl<'a> Channel<'a> {
    /// Takes a connection that was accepted, until `stop` is readable.
    ///
    /// # Errors
    /// If it cannot be set up.
    pub(crate) fn new(
        socket: TcpStream,
        peer: SocketAddr,
        security: &Security,
        stop: BorrowedFd<'a>,
    ) -> io::Result<Channel<'a>> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let bytes = match security {
            Security::Plain => ChannelBytes::Plain(socket),
            Security::Tls { config, .. } => {
                let own = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
                ChannelBytes::Tls(Box::new(StreamOwned::new(own, socket)))
            }
        };
        Ok(Channel { bytes, peer, since: Monotonic.now(), stop })
    }

    /// Returns the address of this host that the browser reached.
    ///
    /// # Errors
    /// The error of getsockname(2).
    pub(crate) fn reached(&self) -> io::Result<IpAddr> {
        let local = self.socket().local_addr()?;
        Ok(canonical(local).ip())
    }

    fn socket(&self) -> &TcpStream {
        match &self.bytes {
            ChannelBytes::Plain(socket) => socket,
            ChannelBytes::Tls(own) => own.get_ref(),
        }
    }

    /// Waits until there is something to do, or until `until`.
    ///
    /// # Errors
    /// `Interrupted` as the server stops; otherwise the error of poll(2).
    pub(crate) fn wait(&self, wanted: WaitFor, until: Option<Nanos>) -> io::Result<()> {
        let has_rest = match &self.bytes {
            ChannelBytes::Plain(_) => false,
            ChannelBytes::Tls(own) => own.conn.wants_write(),
        };
        let room = if has_rest { libc::POLLOUT } else { 0 };
        let events = match wanted {
            WaitFor::Bytes => libc::POLLIN | room,
            WaitFor::BytesOrRoom => libc::POLLIN | libc::POLLOUT,
            WaitFor::Time => 0,
        };
        // poll(2) passes over a negative descriptor.
        let own = if events == 0 { -1 } else { self.socket().as_raw_fd() };
        let mut entries =
            [poll_entry(self.stop.as_raw_fd(), libc::POLLIN), poll_entry(own, events)];
        poll_until(&mut entries, until)?;
        match entries[0].revents {
            0 => Ok(()),
            _ => Err(io::Error::from(io::ErrorKind::Interrupted)),
        }
    }

    /// Reads, at the latest until `deadline`.
    ///
    /// # Errors
    /// `TimedOut` after the deadline; `UnexpectedEof` if the peer closed; otherwise the error of a read.
    pub(crate) fn read_until(&mut self, into: &mut [u8], deadline: Nanos) -> io::Result<usize> {
        loop {
            match self.read(into) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if Monotonic.now() >= deadline {
                        return Err(io::Error::from(io::ErrorKind::TimedOut));
                    }
                    self.wait(WaitFor::Bytes, Some(deadline))?;
                }
                done => return done,
            }
        }
    }

    /// Writes all, at the latest until `deadline`.
    ///
    /// # Errors
    /// `TimedOut` after the deadline; otherwise the error of a write.
    pub(crate) fn write_until(&mut self, bytes: &[u8], deadline: Nanos) -> io::Result<()> {
        let mut left = bytes;
        loop {
            let done = if left.is_empty() {
                self.flush()
            } else {
                self.write(left).map(|len| left = &left[len..])
            };
            match done {
                Ok(()) if left.is_empty() && self.is_flushed() => return Ok(()),
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if Monotonic.now() >= deadline {
                        return Err(io::Error::from(io::ErrorKind::TimedOut));
                    }
                    self.wait(WaitFor::BytesOrRoom, Some(deadline))?;
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Says that nothing more is sent, and lets the browser take the last bytes and close: a close of this end with
    /// bytes unread would reset the connection, and the browser would lose the answer (RFC 9112, section 9.6).
    ///
    /// # Errors
    /// The error of shutdown(2).
    pub(crate) fn part(&mut self) -> io::Result<()> {
        self.socket().shutdown(Shutdown::Write)?;
        let until = Monotonic.now() + PARTING;
        let (mut piece, mut read) = (vec![0; 16 << 10], 0);
        while read < MOST_AT_PARTING
            && let Ok(len) = self.read_until(&mut piece, until)
        {
            read += len;
        }
        Ok(())
    }

    fn is_flushed(&self) -> bool {
        match &self.bytes {
            ChannelBytes::Plain(_) => true,
            ChannelBytes::Tls(own) => !own.conn.wants_write(),
        }
    }
}

/// Returns an entry for [`poll_until`].
pub(crate) fn poll_entry(fd: RawFd, events: libc::c_short) -> libc::pollfd {
    libc::pollfd { fd, events, revents: 0 }
}

/// Waits until a descriptor is ready, a signal arrives or a time has come: updates leave at their times, so the wait is not
/// rounded to milliseconds, as that of poll(2) is.
///
/// # Errors
/// The error of ppoll(2), save for a signal.
pub(crate) fn poll_until(entries: &mut [libc::pollfd], until: Option<Nanos>) -> io::Result<()> {
    let left = until.map(|until| {
        let Nanos(ns) = until - Monotonic.now();
        libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ }
    });
    let (first, count) = (entries.as_mut_ptr(), entries.len() as libc::nfds_t);
    let span = left.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `entries` are so many valid pollfds, `span` is null or a valid timespec, and a null signal mask leaves the mask as
    // it is; all outlive the call.
    if unsafe { libc::ppoll(first, count, span, std::ptr::null()) } < 0 {
        let error = io::Error::last_os_error();
        entries.iter_mut().for_each(|entry| entry.revents = 0);
        return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
    }
    Ok(())
}

impl Read for Channel<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.bytes {
            ChannelBytes::Plain(socket) => socket.read(into),
            ChannelBytes::Tls(own) => own.read(into),
        }
    }
}

impl Write for Channel<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.bytes {
            ChannelBytes::Plain(socket) => socket.write(bytes),
            ChannelBytes::Tls(own) => own.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.bytes {
            ChannelBytes::Plain(socket) => socket.flush(),
            ChannelBytes::Tls(own) => own.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use rustls::ClientConnection;
    use rustls::pki_types::ServerName;

    use super::*;
    use crate::testing::pair;

    #[test]
    fn bytes_pass_both_ways_within_tls() {
        let (pair, config) = pair();
        let security = Security::of(pair).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, peer) = listener.accept().unwrap();
        let (stop, stopper) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut channel = Channel::new(socket, peer, &security, stop.as_fd()).unwrap();
                let until = Monotonic.now() + Nanos::from_secs(10);
                let mut piece = [0; 16];
                let len = channel.read_until(&mut piece, until).unwrap();
                channel.write_until(&piece[..len].repeat(100_000), until).unwrap();
                drop(stopper);
                let ended = channel.wait(WaitFor::Time, None).unwrap_err();
                assert_eq!(ended.kind(), io::ErrorKind::Interrupted);
            });
            let name = ServerName::try_from("far").unwrap();
            let client = ClientConnection::new(Arc::new(config), name).unwrap();
            let mut near = StreamOwned::new(client, near);
            near.write_all(b"hello").unwrap();
            let mut back = vec![0; 500_000];
            near.read_exact(&mut back).unwrap();
            assert!(back.chunks(5).all(|piece| piece == b"hello"));
        });
    }

    #[test]
    fn files_that_are_no_certificate_are_named() {
        let (good, _) = pair();
        let refusal = |chain: &[u8], key: &[u8]| {
            let pair = PemPair { chain: chain.to_vec(), key: key.to_vec() };
            Security::of(pair).err().unwrap().to_string()
        };
        assert!(refusal(b"", &good.key).contains("no certificate"));
        assert!(refusal(&good.chain, b"none").contains("the key cannot be read"));
        let (other, _) = pair();
        assert!(refusal(&good.chain, &other.key).contains("chain and key"));
        let missing = PemPair::read(Path::new("/nonexistent/chain"), Path::new("/nonexistent/key"));
        assert!(missing.err().unwrap().to_string().contains("/nonexistent/chain"));
    }
}
