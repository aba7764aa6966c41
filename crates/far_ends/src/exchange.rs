//! Bytes that are sent while a connection opens, and the answer to them, with a deadline.

use std::io;
use std::net::SocketAddr;

use socket2::Socket;

use crate::datapath::ip_header;
use crate::error::{Error, Result};
use crate::time::{Clock, Monotonic, Nanos};
use crate::transport::udp_handshake::{HelloFailure, send_hello};

/// Sends `bytes` on a connected byte stream whose send buffer is empty, without waiting.
pub(crate) fn say(socket: &Socket, bytes: &[u8]) -> io::Result<()> {
    match socket.send_with_flags(bytes, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)? {
        sent if sent == bytes.len() => Ok(()),
        sent => Err(io::Error::new(
            io::ErrorKind::WouldBlock,
            format!("{sent} of {} bytes found room", bytes.len()),
        )),
    }
}

/// Question that is sent in datagrams until one is its answer.
pub(crate) struct Question<'a> {
    /// Name of the question, for errors.
    pub(crate) what: &'a str,
    /// Bytes to send.
    pub(crate) bytes: &'a [u8],
    /// Largest number of times to send it.
    pub(crate) most: u32,
}

impl Question<'_> {
    /// Asks over a connected socket until `deadline`; `is_answer` says which datagram answers.
    ///
    /// # Errors
    /// [`Error::Blocked`] with the evidence if no answer came; [`Error::Setup`] if this host could not send.
    pub(crate) fn ask(
        &self,
        socket: &Socket,
        to: SocketAddr,
        deadline: Nanos,
        mut is_answer: impl FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        let timeout = deadline - Monotonic.now();
        let mut buffer = [0; 2048];
        let asked = send_hello(
            socket,
            self.most,
            timeout,
            || socket.send_with_flags(self.bytes, libc::MSG_DONTWAIT).map(drop),
            || {
                let (got, _) = ip_header::receive(socket, &mut buffer, 0)?;
                Ok(is_answer(&buffer[..got]))
            },
        );
        match asked {
            Ok(()) => Ok(()),
            Err(HelloFailure::Failed(source)) => {
                Err(Error::setup(format!("send {} to {to}", self.what), source))
            }
            Err(HelloFailure::Silent(silence)) => Err(Error::blocked(format!(
                "{}; is the far end of that name running there, and does UDP get through?",
                silence.describe(self.what, &to.to_string())
            ))),
        }
    }
}
