//! Bytes that are sent while a connection opens, and the answer to them, with a deadline.

use std::io;
use std::net::SocketAddr;

use socket2::Socket;

use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::datapath::ip_header;
use deadheat_datapath::transport::udp_handshake::{HelloFailure, send_hello};

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
        is_answer: impl FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        self.ask_anew(socket, to, deadline, || self.bytes.to_vec(), is_answer)
    }

    /// Asks as [`Question::ask`], with bytes that `next` makes anew each time.
    ///
    /// # Errors
    /// As [`Question::ask`].
    pub(crate) fn ask_anew(
        &self,
        socket: &Socket,
        to: SocketAddr,
        deadline: Nanos,
        mut next: impl FnMut() -> Vec<u8>,
        mut is_answer: impl FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        let timeout = deadline - Monotonic.now();
        let mut buffer = [0; 2048];
        let asked = send_hello(
            socket,
            self.most,
            timeout,
            || socket.send_with_flags(&next(), libc::MSG_DONTWAIT).map(drop),
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

#[cfg(test)]
pub(crate) mod tests {
    use std::net::UdpSocket;

    use super::*;
    use deadheat_datapath::transport::plain::Greeting;

    /// Greets a peer that has sent these datagrams already and answers nothing more; `None` for a peer that is gone.
    pub(crate) fn greeted(greeting: &Greeting<'_>, said: Option<&[Vec<u8>]>) -> Result<()> {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = far.local_addr().unwrap();
        near.connect(to).unwrap();
        near.set_nonblocking(true).unwrap();
        for datagram in said.unwrap_or_default() {
            far.send_to(datagram, near.local_addr().unwrap()).unwrap();
        }
        let _far = said.map(|_| far);
        let deadline = Monotonic.now() + Nanos::from_millis(60);
        greeting(&near.into(), to, deadline)
    }

    /// Datagrams of every length up to 200, of bytes that follow from a number.
    pub(crate) fn garbage() -> impl Iterator<Item = Vec<u8>> {
        let byte = |len: usize, at: usize| (len * 31 + at * at * 7 + 3) as u8;
        (0..200).map(move |len| (0..len).map(|at| byte(len, at)).collect())
    }
}
