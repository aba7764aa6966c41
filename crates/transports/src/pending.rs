//! Handshake over a byte stream: a near end sends its hello, a far end admits connections with the token. Slow
//! connections do not block others: each sends its hello at its own pace, and is closed after [`PATIENCE`].

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::Socket;

use crate::stream::Flavour;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::Side;
use deadheat_datapath::datapath::destination::canonical;
use deadheat_datapath::transport::handover::{HandOver, HandedConnection, fill};
use deadheat_datapath::transport::hello::{Hello, LEN, Token};
use deadheat_datapath::transport::own_port::{OwnPort, PresentedConnection, wait_for};
use deadheat_datapath::transport::{Address, Conn, Listener};

/// Least time that a connection has for its hello.
const PATIENCE: Nanos = Nanos::from_secs(2);

/// Returns the time that a connection has for its hello if the listener waits for `timeout`: on a path with slow
/// handshakes the hello is slow, too.
fn patience(timeout: Nanos) -> Nanos {
    PATIENCE.max(Nanos(timeout.0 / 5 * 2))
}

/// Most connections that wait for a hello at once; a further one replaces the oldest.
const ROOM: usize = 64;

/// Connections that the kernel queues.
const BACKLOG: i32 = 128;

/// Sends `hello` on a connected socket and waits for the welcome until `deadline`.
///
/// # Errors
/// [`Error::Blocked`] if no answer arrived in time; [`Error::Peer`] if it was not the welcome.
pub(super) fn present(socket: &Socket, hello: &Hello, to: &Address, deadline: Nanos) -> Result<()> {
    send_hello(socket, hello, to)?;
    await_welcome(socket, hello, to, deadline)
}

/// Sends `hello` without waiting for room: the send buffer is empty.
///
/// # Errors
/// The error of send(2).
pub(super) fn send_hello(socket: &Socket, hello: &Hello, to: &Address) -> Result<()> {
    socket
        .send_with_flags(&hello.encode(), libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
        .map(drop)
        .map_err(|e| Error::setup(format!("send a hello to {to}"), e))
}

/// Waits for the welcome until `deadline`.
///
/// # Errors
/// As [`present`].
pub(super) fn await_welcome(
    socket: &Socket,
    hello: &Hello,
    to: &Address,
    deadline: Nanos,
) -> Result<()> {
    let began = Monotonic.now();
    let mut welcome = [0; LEN];
    let have = fill(socket, &mut welcome, deadline).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => turned_away(to),
        _ => Error::setup(format!("receive a welcome from {to}"), e),
    })?;
    if have < LEN {
        return Err(Error::blocked(format!(
            "connected to {to} and sent a hello of {LEN} bytes; in {} came {have} of the {LEN} bytes \
             that welcome it",
            Monotonic.now() - began
        )));
    }
    if Hello::decode_welcome(&welcome) == Some(*hello) {
        return Ok(());
    }
    Err(Error::peer(
        to.to_string(),
        "answered a hello with something that is not its welcome; not a deadheat far end?",
    ))
}

fn turned_away(to: &Address) -> Error {
    Error::peer(
        to.to_string(),
        "ended the connection instead of welcoming it: no trial there has this token \
         (has its far end given up?)",
    )
}

/// Makes one recv(2) that never sleeps; `None` if nothing has arrived.
fn read(mut socket: &Socket, room: &mut [u8]) -> io::Result<Option<usize>> {
    match socket.read(room) {
        Ok(got) => Ok(Some(got)),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(e) => Err(e),
    }
}

/// Far end of byte streams.
pub(super) struct StreamListener<F> {
    entrance: Entrance,
    endpoint: Address,
    token: Token,
    flavour: F,
    largest_message: usize,
}

/// Source of accepted sockets that have presented the token.
pub(super) enum Entrance {
    /// Listening socket of its own.
    Own(PendingAccepts),
    /// Server that has read the hellos.
    Handed(HandOver),
}

impl Entrance {
    /// Waits for the next connection with `token`, at most until `deadline`, after `timeout`; returns its flow and its
    /// socket, without a welcome yet.
    ///
    /// # Errors
    /// [`Error::Blocked`] with the evidence if none arrived.
    pub(super) fn next(
        &mut self,
        token: Token,
        endpoint: &Address,
        deadline: Nanos,
        timeout: Nanos,
    ) -> Result<(u16, Socket)> {
        match self {
            Entrance::Own(pending) => pending.next(token, endpoint, deadline, timeout),
            Entrance::Handed(door) => take(door, endpoint, deadline, timeout),
        }
    }
}

impl<F: Flavour> StreamListener<F> {
    /// Listens on `socket`, which is bound to `endpoint`.
    ///
    /// # Errors
    /// The failed operation with its address.
    pub(super) fn own(
        socket: Socket,
        endpoint: Address,
        token: Token,
        flavour: F,
        largest_message: usize,
    ) -> Result<Self> {
        Ok(StreamListener {
            entrance: Entrance::Own(PendingAccepts::open(socket, &endpoint)?),
            endpoint,
            token,
            flavour,
            largest_message,
        })
    }

    /// Takes the connections that a server hands over; `endpoint` is the address where that server listens.
    pub(super) fn handed(
        door: HandOver,
        endpoint: Address,
        token: Token,
        flavour: F,
        largest_message: usize,
    ) -> Self {
        StreamListener {
            entrance: Entrance::Handed(door),
            endpoint,
            token,
            flavour,
            largest_message,
        }
    }
}

impl<F: Flavour> Listener for StreamListener<F> {
    fn endpoint(&self) -> Address {
        self.endpoint.clone()
    }

    fn accept(&mut self, timeout: Nanos) -> Result<(u16, Box<dyn Conn>)> {
        let deadline = Monotonic.now() + timeout;
        loop {
            let (flow, socket) =
                self.entrance.next(self.token, &self.endpoint, deadline, timeout)?;
            self.flavour.apply(&socket)?;
            self.flavour.connected(&socket)?;
            let token = self.token;
            let welcome = Hello { token, flow }.encode_welcome();
            // A peer that leaves before its welcome does not end the wait for the others.
            if socket.send_with_flags(&welcome, libc::MSG_NOSIGNAL).ok() != Some(LEN) {
                continue;
            }
            let conn =
                self.flavour.connection(socket, Side::Far, self.largest_message, 0).map_err(
                    |e| Error::setup(format!("set up a connection on {}", self.endpoint), e),
                )?;
            return Ok((flow, conn));
        }
    }

    fn stays(&self) -> bool {
        self.flavour.facts().joins
    }
}

fn take(
    door: &HandOver,
    endpoint: &Address,
    deadline: Nanos,
    timeout: Nanos,
) -> Result<(u16, Socket)> {
    loop {
        let now = Monotonic.now();
        let handed = door
            .take(deadline - now)
            .map_err(|e| Error::setup(format!("take a connection to {endpoint} over"), e))?;
        match handed {
            Some(HandedConnection::Stream { flow, socket }) => {
                return Ok((flow, Socket::from(socket)));
            }
            Some(HandedConnection::Datagrams { .. }) => {
                return Err(Error::peer(
                    format!("server on {endpoint}"),
                    "handed over a datagram flow where a connection was expected",
                ));
            }
            None if now >= deadline => {
                return Err(Error::blocked(format!(
                    "the server on {endpoint} handed no connection over in {timeout}"
                )));
            }
            None => {}
        }
    }
}

/// Listening socket, with the connections that have not sent their hello.
pub(super) struct PendingAccepts {
    socket: Socket,
    visitors: Vec<Visitor>,
    /// Visitors with a hello that is not checked yet.
    presented: Vec<(Hello, Socket)>,
    counts: VisitorCounts,
}

/// Counts of connections, as evidence if none was admitted.
#[derive(Default)]
struct VisitorCounts {
    arrived: u64,
    wrong: u64,
    silent: u64,
}

struct Visitor {
    socket: Socket,
    hello: [u8; LEN],
    have: usize,
    until: Nanos,
}

enum HelloState {
    NothingYet,
    Hello(Hello),
    Nonsense,
}

impl PendingAccepts {
    /// Listens on `socket`, which is bound to `endpoint`.
    ///
    /// # Errors
    /// The failed operation with its address.
    pub(super) fn open(socket: Socket, endpoint: &Address) -> Result<PendingAccepts> {
        socket
            .listen(BACKLOG)
            .and_then(|()| socket.set_nonblocking(true))
            .map_err(|e| Error::setup(format!("listen on {endpoint}"), e))?;
        Ok(PendingAccepts {
            socket,
            visitors: Vec::with_capacity(ROOM),
            presented: Vec::new(),
            counts: VisitorCounts::default(),
        })
    }

    /// Waits for the next connection with `token`; returns its flow and its socket, without a welcome yet.
    ///
    /// # Errors
    /// [`Error::Blocked`] with the counts if none arrived until `deadline`, after `timeout`.
    fn next(
        &mut self,
        token: Token,
        endpoint: &Address,
        deadline: Nanos,
        timeout: Nanos,
    ) -> Result<(u16, Socket)> {
        self.admit(token, deadline, patience(timeout))
            .map_err(|e| Error::setup(format!("accept on {endpoint}"), e))?
            .ok_or_else(|| self.nobody(endpoint, timeout))
    }

    /// Waits for the next connection with `token`; returns `None` at the deadline.
    fn admit(
        &mut self,
        token: Token,
        deadline: Nanos,
        patience: Nanos,
    ) -> io::Result<Option<(u16, Socket)>> {
        loop {
            while let Some((hello, socket)) = self.presented.pop() {
                if hello.token == token {
                    return Ok(Some((hello.flow, socket)));
                }
                self.counts.wrong += 1;
            }
            self.turn(None, Some(deadline), patience)?;
            if self.presented.is_empty() && Monotonic.now() >= deadline {
                return Ok(None);
            }
        }
    }

    /// Waits for a visitor's bytes or for a new connection, at most until `deadline`, and notes the visitors that have
    /// presented a hello. Returns true if `stop` was readable.
    fn turn(
        &mut self,
        stop: Option<BorrowedFd<'_>>,
        deadline: Option<Nanos>,
        patience: Nanos,
    ) -> io::Result<bool> {
        let next = self.visitors.iter().map(|visitor| visitor.until);
        let wake = next.chain(deadline).min();
        let sockets = self.visitors.iter().map(|visitor| visitor.socket.as_fd());
        let fds: Vec<BorrowedFd<'_>> = sockets.chain([self.socket.as_fd()]).chain(stop).collect();
        let ready = wait_for(&fds, wake)?;
        for index in (0..self.visitors.len()).rev().filter(|&index| ready[index]) {
            match self.visitors[index].listen() {
                HelloState::NothingYet => {}
                HelloState::Hello(hello) => {
                    self.presented.push((hello, self.visitors.remove(index).socket));
                }
                HelloState::Nonsense => {
                    self.counts.wrong += 1;
                    self.visitors.remove(index);
                }
            }
        }
        // Only now: a hello that came in time may have waited for this end.
        let now = Monotonic.now();
        let before = self.visitors.len();
        self.visitors.retain(|visitor| now < visitor.until);
        self.counts.silent += (before - self.visitors.len()) as u64;
        self.let_in(patience)?;
        Ok(stop.is_some() && ready.last().copied().unwrap_or_default())
    }

    /// Accepts one new connection, if there is one.
    fn let_in(&mut self, patience: Nanos) -> io::Result<()> {
        use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
        let socket = match self.socket.accept() {
            Ok((socket, _)) => socket,
            Err(e) if [WouldBlock, Interrupted, ConnectionAborted].contains(&e.kind()) => {
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        socket.set_nonblocking(true)?;
        self.counts.arrived += 1;
        if self.visitors.len() == ROOM {
            self.visitors.remove(0);
            self.counts.silent += 1;
        }
        self.visitors.push(Visitor {
            socket,
            hello: [0; LEN],
            have: 0,
            until: Monotonic.now() + patience,
        });
        Ok(())
    }

    fn nobody(&self, endpoint: &Address, timeout: Nanos) -> Error {
        let VisitorCounts { arrived, wrong, silent } = self.counts;
        Error::blocked(format!(
            "listened on {endpoint} for {timeout}: {arrived} connections came, {wrong} of them with \
             something other than this trial's token, {silent} without a hello in {}",
            patience(timeout)
        ))
    }
}

impl OwnPort for PendingAccepts {
    fn next(&mut self, stop: BorrowedFd<'_>) -> io::Result<Option<PresentedConnection>> {
        loop {
            while let Some((hello, socket)) = self.presented.pop() {
                let peer = socket.peer_addr().ok().and_then(|peer| peer.as_socket());
                // Its agent expects an ordinary accepted socket. A peer that is gone has no address.
                if let (Some(peer), Ok(())) = (peer, socket.set_nonblocking(false)) {
                    let (peer, socket) = (canonical(peer), socket.into());
                    return Ok(Some(PresentedConnection::Stream { hello, peer, socket }));
                }
            }
            if self.turn(Some(stop), None, PATIENCE)? {
                return Ok(None);
            }
        }
    }
}

impl Visitor {
    fn listen(&mut self) -> HelloState {
        match read(&self.socket, &mut self.hello[self.have..]) {
            Ok(None) => return HelloState::NothingYet,
            Ok(Some(0)) | Err(_) => return HelloState::Nonsense,
            Ok(Some(got)) => self.have += got,
        }
        if self.have < LEN {
            return HelloState::NothingYet;
        }
        Hello::decode(&self.hello).map_or(HelloState::Nonsense, HelloState::Hello)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use socket2::{Domain, SockAddr, Type};

    use super::*;
    use crate::stream::{FlavourFacts, StreamEngines};
    use deadheat_base::spec::Settings;
    use deadheat_datapath::datapath::stream::CountedSocket;
    use deadheat_datapath::transport::Effective;

    const RIGHT: Hello = Hello { token: Token::from_bytes([1; 16]), flow: 5 };
    const WRONG: Hello = Hello { token: Token::from_bytes([2; 16]), flow: 5 };

    #[derive(Clone)]
    struct Plain;

    impl Flavour for Plain {
        type Channel = CountedSocket;

        fn facts(&self) -> FlavourFacts {
            FlavourFacts::moved_by(StreamEngines::from(&Settings::default()))
        }
        fn apply(&self, _: &Socket) -> Result<()> {
            Ok(())
        }
        fn open(&self, socket: Socket, _: Side) -> io::Result<CountedSocket> {
            CountedSocket::new(socket)
        }
        fn effective(&self, _: &CountedSocket) -> Effective {
            BTreeMap::new()
        }
    }

    fn endpoint() -> Address {
        Address::Ip(([127, 0, 0, 1], 9).into())
    }

    fn pair() -> (Socket, UnixStream) {
        let (a, b) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
        (a, UnixStream::from(OwnedFd::from(b)))
    }

    fn presented(far: impl FnOnce(UnixStream)) -> Result<()> {
        let (socket, peer) = pair();
        far(peer);
        present(&socket, &RIGHT, &endpoint(), Monotonic.now() + Nanos::from_millis(20))
    }

    #[test]
    fn each_answer_to_a_hello_is_told_apart() {
        let (keep, _hold) = UnixStream::pair().unwrap();
        let mut keep = Some(keep);
        let say = |r: Result<()>| r.unwrap_err().to_string();
        presented(|mut peer| {
            peer.write_all(&RIGHT.encode_welcome()).unwrap();
            keep = Some(peer);
        })
        .unwrap();
        assert!(say(presented(|peer| keep = Some(peer))).contains("came 0 of the 24 bytes"));
        assert!(
            say(presented(|mut peer| {
                peer.write_all(&WRONG.encode_welcome()).unwrap();
                keep = Some(peer);
            }))
            .contains("not its welcome")
        );
        let (socket, peer) = pair();
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        let deadline = Monotonic.now() + Nanos::from_secs(5);
        let error = present(&socket, &RIGHT, &endpoint(), deadline).unwrap_err();
        assert!(error.to_string().contains("instead of welcoming it"));
        drop(keep);
    }

    /// A busy host held up this end, and not the visitors: of two whose time is over, one has said who it is.
    #[test]
    fn a_hello_that_waits_when_the_time_of_its_connection_is_over_counts() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("door");
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        socket.bind(&SockAddr::unix(&at).unwrap()).unwrap();
        let mut pending = PendingAccepts::open(socket, &endpoint()).unwrap();
        let [mut mute, mut speaks] = [0, 1].map(|_| {
            let visitor = UnixStream::connect(&at).unwrap();
            pending.let_in(Nanos::ZERO).unwrap();
            visitor
        });
        mute.write_all(&RIGHT.encode()[1..]).unwrap();
        speaks.write_all(&RIGHT.encode()).unwrap();
        let admitted = pending.admit(RIGHT.token, Nanos::ZERO, Nanos::ZERO).unwrap();
        assert_eq!(admitted.map(|(flow, _)| flow), Some(RIGHT.flow));
        assert!(pending.admit(RIGHT.token, Nanos::ZERO, Nanos::ZERO).unwrap().is_none());
        let VisitorCounts { arrived, wrong, silent } = pending.counts;
        assert_eq!((arrived, wrong, silent), (2, 0, 1));
    }

    #[test]
    fn a_handed_stream_is_welcomed_and_a_datagram_flow_is_refused() {
        let (server, agent) = HandOver::pair().unwrap();
        let mut listener = StreamListener::handed(agent, endpoint(), RIGHT.token, Plain, 100);
        let error = listener.accept(Nanos::ZERO).err().unwrap();
        assert!(matches!(error, Error::Blocked { .. }), "{error}");

        let (socket, mut peer) = pair();
        server.give_stream(5, socket.as_fd()).unwrap();
        let (flow, _conn) = listener.accept(Nanos::from_secs(5)).unwrap();
        let mut welcome = [0; LEN];
        peer.read_exact(&mut welcome).unwrap();
        assert_eq!((flow, Hello::decode_welcome(&welcome)), (5, Some(RIGHT)));

        let at = "127.0.0.1:9".parse().unwrap();
        server.give_datagrams(0, at, at).unwrap();
        let error = listener.accept(Nanos::from_secs(5)).err().unwrap();
        assert!(error.to_string().contains("datagram flow"));
    }
}
