//! Connection that control runs over: TCP, or TLS 1.3 over TCP.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::Connection;

use super::key::{Pin, ServerKey};
use deadheat_base::error::Result;

/// Stream that poll(2) can wait for, and that may hold bytes which poll(2) does not see.
pub trait Stream: AsFd {
    /// Returns true if bytes are buffered, so that the descriptor may not be readable.
    fn holds_more(&self) -> bool {
        false
    }
}

impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// Control connection. Its reads and writes yield the same bytes whether it is encrypted or not.
///
/// Reading an encrypted one takes at most one call on the socket, and fails with
/// [`WouldBlock`](io::ErrorKind::WouldBlock) if that call completed no record. If the connection is non-blocking,
/// `WouldBlock` of a write or flush means the same as for TCP: no byte was accepted, and the call may be repeated.
pub struct ControlStream {
    tcp: TcpStream,
    tls: Option<Mutex<Tls>>,
    /// True once the peer is known to be gone.
    is_lost: AtomicBool,
}

/// Channel binding: bytes that belong to one encrypted connection.
pub type Binding = [u8; 32];

/// State of an encrypted connection.
struct Tls {
    connection: Connection,
    /// Number of bytes that are decrypted and not yet read.
    decrypted: usize,
}

impl ControlStream {
    /// Creates a connection that is not encrypted.
    pub fn plain(tcp: TcpStream) -> ControlStream {
        ControlStream { tcp, tls: None, is_lost: AtomicBool::new(false) }
    }

    /// Creates the client's end of an encrypted connection to the server with this pin, or to any server.
    ///
    /// # Errors
    /// Fails if TLS cannot be set up.
    pub fn encrypted(tcp: TcpStream, pin: Option<&Pin>) -> Result<ControlStream> {
        let client = Pin::client(pin)?;
        let tls = Some(Mutex::new(Tls::new(client.into())));
        Ok(ControlStream { tls, ..ControlStream::plain(tcp) })
    }

    /// Returns bytes that both ends of an encrypted connection share, and no other connection has (RFC 9266); `None` if
    /// it is not encrypted.
    ///
    /// # Errors
    /// Fails before the end of TLS's handshake.
    pub fn binding(&self) -> io::Result<Option<Binding>> {
        let export = |tls: MutexGuard<'_, Tls>| {
            tls.connection.export_keying_material([0; 32], b"EXPORTER-Channel-Binding", None)
        };
        self.tls().map(export).transpose().map_err(io::Error::other)
    }

    /// Encrypts the server's end, starting with the bytes `first`, with which the client began TLS.
    ///
    /// # Errors
    /// Fails if TLS cannot be set up, or if `first` does not start a handshake.
    pub fn encrypt(&mut self, key: &ServerKey, first: &[u8]) -> io::Result<()> {
        let connection = key.server().map_err(|e| io::Error::other(e.to_string()))?;
        let mut tls = Tls::new(connection.into());
        // A read of zero bytes would count as the end of the connection.
        if !first.is_empty() {
            tls.take_in(&mut &first[..])?;
        }
        self.tls = Some(Mutex::new(tls));
        Ok(())
    }

    /// Records that the peer is gone: nothing more is to be expected on this connection.
    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
    }

    /// Returns true if the peer is known to be gone.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Returns the pin of the key that the server showed; `None` at the server's end, and if the connection is not
    /// encrypted.
    pub(crate) fn shown_pin(&self) -> Option<Pin> {
        let tls = self.tls()?;
        tls.connection.peer_certificates()?.first().map(|key| Pin::of(key))
    }

    /// Returns true if the connection is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the TCP connection below.
    pub fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// A thread that panicked while it held the lock has ended its own trial.
    fn tls(&self) -> Option<MutexGuard<'_, Tls>> {
        self.tls.as_ref().map(|tls| tls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Tls {
    fn new(connection: Connection) -> Tls {
        Tls { connection, decrypted: 0 }
    }

    /// Reads from `socket` once; returns the number of bytes, 0 at its end.
    fn take_in(&mut self, socket: &mut dyn Read) -> io::Result<usize> {
        let got = self.connection.read_tls(socket)?;
        let state = self.connection.process_new_packets().map_err(|e| match e {
            rustls::Error::General(why) => io::Error::new(io::ErrorKind::PermissionDenied, why),
            other => io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {other}")),
        })?;
        self.decrypted = state.plaintext_bytes_to_read();
        Ok(got)
    }

    /// Sends the bytes that wait to be sent.
    fn flush(&mut self, mut socket: &TcpStream) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut socket)?;
        }
        Ok(())
    }

    fn read(&mut self, mut socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        if self.decrypted == 0 {
            let taken = self.take_in(&mut socket);
            // An alert informs the peer of the error in its bytes.
            let flushed = self.flush(socket);
            taken?;
            flushed?;
        }
        let read = match self.connection.reader().read(buffer) {
            // The connection ended without TLS's close notification. A frame has a length, so a truncated one is never
            // taken as complete.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => 0,
            read => read?,
        };
        self.decrypted = self.decrypted.saturating_sub(read);
        Ok(read)
    }

    /// Accepts bytes once all earlier ones are sent. Bytes that do not fit into the socket wait for [`Tls::flush`]:
    /// encrypted bytes must not be passed in twice.
    fn write(&mut self, socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        self.flush(socket)?;
        let taken = self.connection.writer().write(bytes)?;
        match self.flush(socket) {
            Err(e) if e.kind() != io::ErrorKind::WouldBlock => Err(e),
            _ => Ok(taken),
        }
    }
}

impl Stream for ControlStream {
    fn holds_more(&self) -> bool {
        self.tls().is_some_and(|tls| tls.decrypted > 0)
    }
}

impl AsFd for ControlStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}

impl Read for &ControlStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.tls() {
            Some(mut tls) => tls.read(&self.tcp, buffer),
            None => (&self.tcp).read(buffer),
        }
    }
}

impl Write for &ControlStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.tls() {
            Some(mut tls) => tls.write(&self.tcp, bytes),
            None => (&self.tcp).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.tls() {
            Some(mut tls) => tls.flush(&self.tcp),
            None => (&self.tcp).flush(),
        }
    }
}

impl fmt::Debug for ControlStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.is_encrypted() { "TLS over " } else { "" };
        write!(f, "ControlStream({how}{:?})", self.tcp)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::atomic::AtomicBool;

    use super::super::patient::Patient;
    use super::super::{read_frame, write_frame};
    use super::*;
    use deadheat_base::time::{Clock, Monotonic, Nanos};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    fn frame_from(stream: &ControlStream, patience: Nanos) -> io::Result<Vec<u8>> {
        let (deadline, stop) = (Monotonic.now() + patience, AtomicBool::new(false));
        read_frame(&mut Patient { stream, deadline, stop: &stop })
    }

    /// Carries bytes one at a time, so that no record arrives whole.
    fn drip(mut from: TcpStream, mut to: TcpStream) {
        let mut byte = [0];
        while from.read_exact(&mut byte).is_ok() && to.write_all(&byte).is_ok() {}
    }

    #[test]
    fn frames_arrive_whole_however_records_are_cut() {
        let key = ServerKey::fresh().unwrap();
        let ((near, to_far), (from_near, far)) = (pair(), pair());
        for (from, to) in [(&to_far, &from_near), (&from_near, &to_far)] {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            std::thread::spawn(move || drip(from, to));
        }
        let near = ControlStream::encrypted(near, Some(&key.pin())).unwrap();
        let mut far = ControlStream::plain(far);
        far.encrypt(&key, &[]).unwrap();
        let frames = [1, 100, 17_000].map(|len| vec![b'x'; len]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for frame in &frames {
                    let heard = frame_from(&far, Nanos::from_secs(20)).unwrap();
                    assert_eq!(heard, *frame);
                    write_frame(&mut &far, &heard).unwrap();
                }
            });
            for frame in &frames {
                write_frame(&mut &near, frame).unwrap();
                assert_eq!(frame_from(&near, Nanos::from_secs(20)).unwrap(), *frame);
            }
        });
    }

    #[test]
    fn a_record_that_never_ends_does_not_hold_a_reader() {
        let key = ServerKey::fresh().unwrap();
        let (near, mut far) = pair();
        let near = ControlStream::encrypted(near, Some(&key.pin())).unwrap();
        let dripping = std::thread::spawn(move || {
            // A record of 16 kB is announced.
            far.write_all(&[22, 3, 3, 0x40, 0]).unwrap();
            while far.write_all(&[2]).is_ok() {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        });
        let error = frame_from(&near, Nanos::from_millis(60)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(near);
        dripping.join().unwrap();
    }

    #[test]
    fn a_server_with_another_key_is_not_talked_to() {
        let (expected, other) = (ServerKey::fresh().unwrap(), ServerKey::fresh().unwrap());
        let (near, far) = pair();
        let near = ControlStream::encrypted(near, Some(&expected.pin())).unwrap();
        let mut far = ControlStream::plain(far);
        far.encrypt(&other, &[]).unwrap();
        let heard = std::thread::spawn(move || {
            let heard = frame_from(&far, Nanos::from_secs(20));
            drop(far);
            heard
        });
        write_frame(&mut &near, b"a secret").unwrap();
        let error = frame_from(&near, Nanos::from_secs(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        for pin in [expected.pin(), other.pin()] {
            assert!(error.to_string().contains(&pin.to_string()), "{error}");
        }
        assert!(heard.join().unwrap().is_err(), "nothing was said");
    }
}
