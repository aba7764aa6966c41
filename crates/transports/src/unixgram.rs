//! Unix datagram sockets in the abstract namespace. Unlike UDP they are reliable and ordered on
//! Linux, and a full receiver makes the sender wait (unix(7)).
//!
//! Each connection has a socket of its own at both ends, connected to each other, so that the kernel rejects strangers.
//! An empty datagram ends a direction, as unix(7) has no half-close for datagrams.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{SockAddr, Socket, Type};

use crate::unix::{
    Buffers, RCVBUF, SNDBUF, address, bind, check, named, open, refuse_handed, unreached,
};
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::Key;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::{
    Congestion, Framing, Guarantees, Inbox, Lane, Patience, Reach, Sink, Source,
};
use deadheat_contract::measurements::ConnStats;
use deadheat_datapath::datapath::buffer::prefaulted;
use deadheat_datapath::datapath::stamps::Stamps;
use deadheat_datapath::datapath::stream::CountedSocket;
use deadheat_datapath::transport::bulk_message::BulkMessage;
use deadheat_datapath::transport::handover::readable;
use deadheat_datapath::transport::hello::{Hello, LEN, Token};
use deadheat_datapath::transport::{
    Address, Conn, ConnInfo, Dial, Effective, Info, Listen, Listener, Progress, Readiness,
    Transport, lane_0_only, unstamped,
};

/// Unix datagram sockets.
pub(super) struct UnixDatagram;

/// Largest message in bytes. The kernel's bound is the send buffer less 32 bytes, by default 212,960
/// (net.core.wmem_default).
const LARGEST: usize = 128 * 1024;

/// Bytes of the send buffer that the kernel reserves (unix_dgram_sendmsg in net/unix/af_unix.c).
const SPARE: usize = 32;

const KEYS: &[Key] = &[SNDBUF.key(), RCVBUF.key()];

static INFO: Info = Info {
    id: "unixgram",
    label: "Unix datagram",
    colour: "#56b4e9",
    summary: "Unix datagram socket: reliable messages inside one machine",
    guarantees: Guarantees {
        framing: Framing::Messages,
        congestion: Congestion::Backpressure,
        largest_message: Some(LARGEST as u64),
        ..Guarantees::BYTE_STREAM
    },
    reach: Reach::Machine,
    keys: KEYS,
    ..Info::KERNEL
};

impl Transport for UnixDatagram {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn check(&self) -> Result<()> {
        check(INFO.id, Type::DGRAM)
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        let listener = address(dial.to)?;
        let options = Buffers::from(dial.knobs);
        let socket = open_for(dial.largest_message, &options)?;
        bind(&socket, &named(&Address::Unix(String::new()))?)?;
        let began = Monotonic.now();
        let deadline = began + dial.timeout;
        socket
            .set_write_timeout(Some(dial.timeout.max(Nanos::from_millis(1)).into()))
            .and_then(|()| socket.send_to(&dial.hello.encode(), &listener))
            .map_err(|e| unreached(dial, e))?;
        let far = welcomed(&socket, dial, deadline)?;
        socket.connect(&far).map_err(|e| unreached(dial, e))?;
        let connect_ns = (Monotonic.now() - began).0;
        Ok(Box::new(DatagramConn::new(socket, connect_ns)?))
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        refuse_handed(INFO.id, &listen.door)?;
        let endpoint = named(listen.at)?;
        let options = Buffers::from(listen.knobs);
        // Refuses sizes now rather than at the first connection.
        open_for(listen.largest_message, &options)?;
        let socket = open(Type::DGRAM)?;
        bind(&socket, &endpoint)?;
        Ok(Box::new(DatagramListener {
            socket,
            endpoint,
            token: listen.token,
            options,
            largest_message: listen.largest_message,
            strangers: 0,
        }))
    }
}

/// Creates a socket with a send buffer for a message of `largest` bytes.
fn open_for(largest: usize, options: &Buffers) -> Result<Socket> {
    let socket = open(Type::DGRAM)?;
    options.apply(&socket)?;
    let sndbuf = socket
        .send_buffer_size()
        .map_err(|e| Error::setup("read SO_SNDBUF of a unix socket", e))?;
    let fits = sndbuf.saturating_sub(SPARE).min(LARGEST);
    if largest > fits {
        return Err(Error::unsupported(
            format!("unixgram with messages of {largest} bytes"),
            format!(
                "at most {fits} fit (send buffer {sndbuf}, never more than {LARGEST}); raise \
                 sndbuf, or take smaller messages"
            ),
        ));
    }
    Ok(socket)
}

/// Waits for the welcome; returns its sender's address.
fn welcomed(socket: &Socket, dial: &Dial<'_>, deadline: Nanos) -> Result<SockAddr> {
    let failed = |e| Error::setup(format!("receive a welcome from {}", dial.to), e);
    let mut strangers = 0;
    loop {
        let now = Monotonic.now();
        if now >= deadline {
            return Err(Error::blocked(format!(
                "sent a hello of {LEN} bytes to {}; no welcome came in {} ({strangers} other \
                 datagrams did)",
                dial.to, dial.timeout
            )));
        }
        if !readable(socket.as_fd(), deadline - now).map_err(failed)? {
            continue;
        }
        let Some((bytes, far)) = receive_from(socket).map_err(failed)? else {
            continue;
        };
        if Hello::decode_welcome(&bytes) == Some(dial.hello) {
            return Ok(far);
        }
        strangers += 1;
    }
}

/// Receives one datagram of exactly a hello's length, with its sender's address; `None` for any
/// other.
fn receive_from(socket: &Socket) -> io::Result<Option<([u8; LEN], SockAddr)>> {
    // One byte more, so that the length shows a longer datagram.
    let mut room = [std::mem::MaybeUninit::<u8>::uninit(); LEN + 1];
    let flags = libc::MSG_DONTWAIT;
    let (got, from) = match socket.recv_from_with_flags(&mut room, flags) {
        Ok(got) => got,
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(None),
        Err(e) => return Err(e),
    };
    if got != LEN || from.as_abstract_namespace().is_none() {
        return Ok(None);
    }
    // SAFETY: the kernel wrote the first LEN bytes.
    let bytes = std::array::from_fn(|i| unsafe { room[i].assume_init() });
    Ok(Some((bytes, from)))
}

struct DatagramListener {
    socket: Socket,
    endpoint: Address,
    token: Token,
    options: Buffers,
    largest_message: usize,
    strangers: u64,
}

impl Listener for DatagramListener {
    fn endpoint(&self) -> Address {
        self.endpoint.clone()
    }

    fn accept(&mut self, timeout: Nanos) -> Result<(u16, Box<dyn Conn>)> {
        let deadline = Monotonic.now() + timeout;
        loop {
            let now = Monotonic.now();
            if let Some((flow, conn)) = self.accept_next(deadline - now)? {
                return Ok((flow, Box::new(conn)));
            }
            if now >= deadline {
                return Err(Error::blocked(format!(
                    "listened on {} for {timeout}: {} datagrams came, none with this trial's token",
                    self.endpoint, self.strangers
                )));
            }
        }
    }
}

impl DatagramListener {
    /// Waits for one datagram, at most for `left`; returns the flow and its connection if it is a hello of this trial.
    fn accept_next(&mut self, left: Nanos) -> Result<Option<(u16, DatagramConn)>> {
        let failed = |e| Error::setup(format!("accept on {}", self.endpoint), e);
        if !readable(self.socket.as_fd(), left).map_err(failed)? {
            return Ok(None);
        }
        let datagram = receive_from(&self.socket).map_err(failed)?;
        let hello = datagram.and_then(|(bytes, near)| Some((Hello::decode(&bytes)?, near)));
        let Some((hello, near)) = hello.filter(|(hello, _)| hello.token == self.token) else {
            self.strangers += 1;
            return Ok(None);
        };
        Ok(self.welcome(hello, &near)?.map(|conn| (hello.flow, conn)))
    }

    /// Opens a connection back to `near`; `None` if it is gone.
    fn welcome(&self, hello: Hello, near: &SockAddr) -> Result<Option<DatagramConn>> {
        let socket = open_for(self.largest_message, &self.options)?;
        bind(&socket, &named(&Address::Unix(String::new()))?)?;
        let welcome = hello.encode_welcome();
        let sent = socket.connect(near).and_then(|()| {
            socket.send_with_flags(&welcome, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
        });
        if sent.is_err() {
            return Ok(None);
        }
        DatagramConn::new(socket, 0).map(Some)
    }
}

/// End of a pair of datagram sockets that are connected to each other.
struct DatagramConn {
    socket: CountedSocket,
    incoming: Box<[u8]>,
    bulk: BulkMessage,
    /// True if the empty datagram that ends this direction waits for room.
    ending: bool,
    connect_ns: u64,
}

impl DatagramConn {
    fn new(socket: Socket, connect_ns: u64) -> Result<DatagramConn> {
        Ok(DatagramConn {
            socket: CountedSocket::new(socket)
                .map_err(|e| Error::setup("set up a unix datagram connection", e))?,
            incoming: prefaulted(LARGEST),
            bulk: BulkMessage::of(LARGEST),
            ending: false,
            connect_ns,
        })
    }

    /// Makes one receiving call; returns the length of the message in `incoming`.
    fn next(&mut self, patience: Patience) -> io::Result<Option<usize>> {
        let got = self.socket.receive_datagram(&mut self.incoming, patience)?;
        match got {
            Some(len) if len > LARGEST => Err(wrong_length(io::ErrorKind::InvalidData, len)),
            got => Ok(got),
        }
    }
}

impl Conn for DatagramConn {
    fn readiness(&self) -> Readiness<'_> {
        Readiness { has_backlog: self.ending, ..Readiness::of(self.socket.as_fd()) }
    }

    fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.socket.as_fd()]
    }

    fn send(&mut self, lane: Lane, message: &[u8]) -> io::Result<Progress> {
        lane_0_only(lane)?;
        if message.is_empty() || message.len() > LARGEST {
            return Err(wrong_length(io::ErrorKind::InvalidInput, message.len()));
        }
        Ok(match self.socket.send(message, Patience::None)? {
            Some(_) => Progress::Moved,
            None => Progress::Idle,
        })
    }

    fn receive(&mut self, patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        Ok(match self.next(patience)? {
            None => Progress::Idle,
            Some(0) => Progress::Closed,
            Some(len) => {
                inbox.message(Lane(0), &self.incoming[..len]);
                Progress::Moved
            }
        })
    }

    fn flush(&mut self) -> io::Result<Progress> {
        if self.ending && self.socket.send(&[], Patience::None)?.is_none() {
            return Ok(Progress::Idle);
        }
        self.ending = false;
        Ok(Progress::Moved)
    }

    fn pump(&mut self, source: &mut dyn Source) -> io::Result<Progress> {
        let socket = &mut self.socket;
        self.bulk.pump(source, |message| {
            if message.len() > LARGEST {
                return Err(wrong_length(io::ErrorKind::InvalidInput, message.len()));
            }
            let sent = socket.send(message, Patience::Block)?;
            Ok(if sent.is_some() { Progress::Moved } else { Progress::Idle })
        })
    }

    fn drain(&mut self, patience: Patience, sink: &mut dyn Sink) -> io::Result<Progress> {
        Ok(match self.next(patience)? {
            None => Progress::Idle,
            Some(0) => Progress::Closed,
            Some(len) => {
                sink.take(&self.incoming[..len]);
                Progress::Moved
            }
        })
    }

    /// Sends the empty datagram that ends this direction; without room it becomes backlog.
    fn finish(&mut self) -> io::Result<()> {
        self.ending = true;
        match self.flush() {
            Ok(_) => Ok(()),
            // The peer is gone, and so is this direction.
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                self.ending = false;
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    fn is_drained(&self) -> bool {
        !self.ending
    }

    fn next_deadline(&self) -> Option<Nanos> {
        None
    }

    fn on_deadline(&mut self, _now: Nanos) -> io::Result<()> {
        Ok(())
    }

    fn stamps(&mut self) -> io::Result<&mut Stamps> {
        Err(unstamped())
    }

    fn effective(&self) -> Effective {
        Buffers::effective(self.socket.socket())
    }

    fn info(&self) -> ConnInfo {
        ConnInfo::counted(ConnStats {
            connect_ns: self.connect_ns,
            send_calls: self.socket.send_calls(),
            receive_calls: self.socket.receive_calls(),
            ..ConnStats::default()
        })
    }
}

#[cold]
fn wrong_length(kind: io::ErrorKind, len: usize) -> io::Error {
    io::Error::new(kind, format!("a datagram of {len} bytes where 1 to {LARGEST} fit"))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::testing::{ConnRig, HELLO, LONG, knobs};
    use deadheat_datapath::transport::handover::ConnectionSource;

    fn anywhere() -> Address {
        Address::Unix(String::new())
    }

    #[test]
    fn strangers_are_turned_away_before_and_after_the_handshake() {
        let knobs = &knobs("unixgram", KEYS);
        let rig = ConnRig::ordered(&UnixDatagram, knobs, 100);
        let mut listener = rig.listen(&anywhere(), ConnectionSource::Own).unwrap();
        let to = &listener.endpoint();
        let stranger = open(Type::DGRAM).unwrap();
        bind(&stranger, &named(&anywhere()).unwrap()).unwrap();
        for junk in [&b"junk"[..], &[0; LEN], &[0; LEN + 1], &HELLO.encode_welcome()] {
            stranger.send_to(junk, &address(to).unwrap()).unwrap();
        }
        let (mut near, far) = thread::scope(|scope| {
            let far = scope.spawn(move || listener.accept(LONG).unwrap());
            let near = rig.dial(to, LONG);
            (near.unwrap(), far.join().unwrap())
        });
        assert_eq!(far.0, HELLO.flow);
        let near_name = {
            let fd = near.readiness().fd.unwrap().try_clone_to_owned().unwrap();
            Socket::from(fd).local_addr().unwrap()
        };
        let refused = stranger.send_to(b"junk", &near_name).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        let mut nothing = Nothing;
        assert_eq!(near.receive(Patience::None, &mut nothing).unwrap(), Progress::Idle);
    }

    #[test]
    fn a_send_buffer_too_small_for_the_messages_is_refused_by_its_size() {
        let listen = |typed, largest| {
            let knobs = knobs(typed, KEYS);
            let rig = ConnRig::ordered(&UnixDatagram, &knobs, largest);
            rig.listen(&anywhere(), ConnectionSource::Own)
        };
        let error = listen("unixgram:sndbuf=4000", 9000).err().unwrap();
        let text = error.to_string();
        assert!(matches!(error, Error::Unsupported { .. }));
        assert!(text.contains("messages of 9000 bytes") && text.contains("raise sndbuf"), "{text}");
        assert!(listen("unixgram", LARGEST + 1).is_err());
    }

    #[test]
    fn an_end_that_found_no_room_is_backlog() {
        let (a, b) = Socket::pair(socket2::Domain::UNIX, Type::DGRAM, None).unwrap();
        let mut a = DatagramConn::new(a, 0).unwrap();
        let mut b = DatagramConn::new(b, 0).unwrap();
        while a.send(Lane(0), &[1; 1000]).unwrap() == Progress::Moved {}
        a.finish().unwrap();
        assert!(a.readiness().has_backlog);
        assert_eq!(a.flush().unwrap(), Progress::Idle);
        while b.receive(Patience::None, &mut Nothing).unwrap() == Progress::Moved {}
        assert_eq!(a.flush().unwrap(), Progress::Moved);
        assert!(!a.readiness().has_backlog);
        assert_eq!(b.receive(Patience::None, &mut Nothing).unwrap(), Progress::Closed);
    }

    struct Nothing;

    impl Inbox for Nothing {
        fn message(&mut self, _: Lane, _: &[u8]) {}
    }
}
