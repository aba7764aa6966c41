//! Unix stream sockets in the abstract namespace (unix(7)): the cost of a byte stream without a network protocol.

use std::io;

use socket2::{Domain, SockAddr, Socket, Type};

use crate::pending::{StreamListener, present};
use crate::stream::{self, Flavour, FlavourFacts, StreamConn, StreamEngines, check_engine};
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::Optional;
use deadheat_base::spec::{Key, Kind, Settings};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_base::units::Bytes;
use deadheat_contract::contract::{Congestion, Guarantees, Reach, Side};
use deadheat_datapath::datapath::stream::CountedSocket;
use deadheat_datapath::transport::handover::ConnectionSource;
use deadheat_datapath::transport::hello::Token;
use deadheat_datapath::transport::{
    Address, Conn, Dial, Effective, Info, Listen, Listener, Place, Transport, frame,
};

/// Unix stream sockets.
pub(super) struct UnixStream;

static INFO: Info = Info {
    id: "unix",
    label: "Unix stream",
    colour: "#009e73",
    summary: "Unix stream socket: a byte stream inside one machine",
    guarantees: Guarantees { congestion: Congestion::Backpressure, ..Guarantees::BYTE_STREAM },
    reach: Reach::Machine,
    framing_bytes: frame::PREFIX,
    keys: &[
        SNDBUF.key(),
        RCVBUF.key(),
        Key {
            // No zerocopy: SO_ZEROCOPY is for TCP, UDP, RDS and VSOCK only.
            kind: Kind::Choice(&["write", "writev", "sendfile", "splice", "uring"]),
            doc: "how bulk data is sent: write: send(2); writev: the same in 16 pieces; sendfile: from a file's \
                 pages; splice: from them through a pipe, two calls; uring: io_uring, up to 16 linked sends at once",
            ..stream::IO.key()
        },
        Key {
            // No trunc: on a Unix stream MSG_TRUNC has no effect, and the bytes are copied.
            kind: Kind::Choice(&["read", "splice", "uring"]),
            doc: "how bulk data is received: read: recv(2); splice: through a pipe into the sink's file or /dev/null, \
                 two calls; uring: io_uring, one request fills buffer after buffer",
            ..stream::RX.key()
        },
    ],
    opens_at_once: true,
    ..Info::KERNEL
};

/// Send buffer of Unix sockets, streams and datagrams alike.
pub(super) const SNDBUF: Optional<Bytes> = Optional::size("sndbuf", (2048, 1 << 30))
    .doc("send buffer (SO_SNDBUF, which Linux doubles); it bounds the bytes under way");

/// Receive buffer of Unix sockets, streams and datagrams alike.
pub(super) const RCVBUF: Optional<Bytes> = Optional::size("rcvbuf", (2048, 1 << 30))
    .doc("receive buffer (SO_RCVBUF); settable, but without effect on Unix sockets, unix(7)");

impl Transport for UnixStream {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn check(&self) -> Result<()> {
        check(INFO.id, Type::STREAM)
    }

    fn check_knob(&self, key: &str, value: &str, _: Place) -> Result<()> {
        check_engine(INFO.id, key, value, || {
            CountedSocket::new(Socket::pair(Domain::UNIX, Type::STREAM, None)?.0)
        })
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        dial_stream(dial, UnixOptions::from(dial.knobs))
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        refuse_handed(INFO.id, &listen.door)?;
        let options = UnixOptions::from(listen.knobs);
        listen_stream(&listen, options)
    }
}

/// Connects to a Unix stream listener and opens a flow.
pub(super) fn dial_stream<F: Flavour>(dial: &Dial<'_>, options: F) -> Result<Box<dyn Conn>> {
    let address = address(dial.to)?;
    let socket = open(Type::STREAM)?;
    options.apply(&socket)?;
    let began = Monotonic.now();
    let deadline = began + dial.timeout;
    // A connect(2) waits for room in the listener's queue as long as a send may (socket(7)). Zero would mean no limit.
    socket
        .set_write_timeout(Some(dial.timeout.max(Nanos::from_millis(1)).into()))
        .and_then(|()| socket.connect(&address))
        .map_err(|e| unreached(dial, e))?;
    let connect_ns = (Monotonic.now() - began).0;
    present(&socket, &dial.hello, dial.to, deadline)?;
    StreamConn::new(socket, Side::Near, options, dial.largest_message, connect_ns)
        .map(|conn| Box::new(conn) as Box<dyn Conn>)
        .map_err(|e| Error::setup(format!("set up a connection to {}", dial.to), e))
}

/// Listens on a Unix stream socket.
pub(super) fn listen_stream<F: Flavour>(
    listen: &Listen<'_>,
    options: F,
) -> Result<Box<dyn Listener>> {
    let at = named(listen.at)?;
    let socket = open(Type::STREAM)?;
    options.apply(&socket)?;
    bind(&socket, &at)?;
    let largest = listen.largest_message;
    let listener = StreamListener::own(socket, at, listen.token, options, largest)?;
    Ok(Box::new(listener))
}

/// Checks that this host has Unix sockets of this kind.
pub(super) fn check(id: &str, kind: Type) -> Result<()> {
    Socket::new(Domain::UNIX, kind, None)
        .map(drop)
        .map_err(|e| Error::unsupported(id, format!("this host gives no Unix socket: {e}")))
}

/// Refuses connections from a server, which arrive from another host.
pub(super) fn refuse_handed(id: &str, door: &ConnectionSource) -> Result<()> {
    match door {
        ConnectionSource::Own => Ok(()),
        ConnectionSource::Handed(_) => Err(Error::unsupported(
            id,
            "unix sockets reach one machine only; leave unix out of a race to another host",
        )),
    }
}

/// Returns the endpoint with a name: a random one if it has none.
pub(super) fn named(endpoint: &Address) -> Result<Address> {
    match endpoint {
        Address::Unix(name) if name.is_empty() => {
            let token = String::from(Token::fresh()?);
            Ok(Address::Unix(format!("deadheat-{token}")))
        }
        other => Ok(other.clone()),
    }
}

/// Returns the socket address of an endpoint in the abstract namespace.
pub(super) fn address(endpoint: &Address) -> Result<SockAddr> {
    let Address::Unix(name) = endpoint else {
        return Err(Error::usage(format!("a unix socket needs a name, not {endpoint}")));
    };
    SockAddr::unix(format!("\0{name}"))
        .map_err(|e| Error::setup_advice(format!("name {endpoint}"), e, "at most 107 bytes"))
}

/// Creates a socket of this kind.
pub(super) fn open(kind: Type) -> Result<Socket> {
    Socket::new(Domain::UNIX, kind, None).map_err(|e| Error::setup("open a unix socket", e))
}

/// Binds `socket` to a name.
pub(super) fn bind(socket: &Socket, at: &Address) -> Result<()> {
    socket.bind(&address(at)?).map_err(|e| Error::setup(format!("bind {at}"), e))
}

/// Returns the error of a dial that did not reach its listener.
pub(super) fn unreached(dial: &Dial<'_>, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Error::setup_advice(
            format!("connect to {}", dial.to),
            error,
            "no process listens under this name in this network namespace; has the far end ended?",
        ),
        io::ErrorKind::WouldBlock => {
            Error::blocked(format!("the queue of {} had no room for {}", dial.to, dial.timeout))
        }
        _ => Error::setup(format!("connect to {}", dial.to), error),
    }
}

/// Buffers that the knobs ask for.
#[derive(Debug, Clone)]
pub(super) struct Buffers {
    sndbuf: Option<usize>,
    rcvbuf: Option<usize>,
}

impl From<&Settings> for Buffers {
    fn from(knobs: &Settings) -> Buffers {
        let size = |key| knobs.find(key).and_then(|size: Bytes| usize::try_from(size.0).ok());
        Buffers { sndbuf: size(&SNDBUF), rcvbuf: size(&RCVBUF) }
    }
}

impl Buffers {
    /// Sets the buffers that were asked for.
    pub(super) fn apply(&self, socket: &Socket) -> Result<()> {
        let failed = |key| move |e| Error::setup(format!("set {key} on a unix socket"), e);
        if let Some(size) = self.sndbuf {
            socket.set_send_buffer_size(size).map_err(failed("sndbuf"))?;
        }
        if let Some(size) = self.rcvbuf {
            socket.set_recv_buffer_size(size).map_err(failed("rcvbuf"))?;
        }
        Ok(())
    }

    /// Returns the options of both ends as the kernel reports them.
    pub(super) fn effective(socket: &Socket) -> Effective {
        [("sndbuf", socket.send_buffer_size()), ("rcvbuf", socket.recv_buffer_size())]
            .into_iter()
            .filter_map(|(key, size)| Some((key.to_owned(), size.ok()?.to_string())))
            .collect()
    }
}

/// Knobs as a Unix stream takes them.
#[derive(Debug, Clone)]
struct UnixOptions {
    buffers: Buffers,
    engines: StreamEngines,
}

impl From<&Settings> for UnixOptions {
    fn from(knobs: &Settings) -> UnixOptions {
        UnixOptions { buffers: Buffers::from(knobs), engines: StreamEngines::from(knobs) }
    }
}

impl Flavour for UnixOptions {
    type Channel = CountedSocket;

    fn facts(&self) -> FlavourFacts {
        FlavourFacts::moved_by(self.engines)
    }

    fn apply(&self, socket: &Socket) -> Result<()> {
        self.buffers.apply(socket)
    }

    fn open(&self, socket: Socket, _side: Side) -> io::Result<CountedSocket> {
        CountedSocket::new(socket)
    }

    fn effective(&self, channel: &CountedSocket) -> Effective {
        Buffers::effective(channel.socket())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_copy_is_no_knob_because_the_kernel_refuses_it() {
        let check = |value| {
            check_engine(INFO.id, "io", value, || {
                CountedSocket::new(Socket::pair(Domain::UNIX, Type::STREAM, None)?.0)
            })
        };
        let error = check("zerocopy").unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("unix:io=zerocopy") && text.contains("io=write"), "{text}");
        for (key, value) in [("io", "sendfile"), ("io", "splice"), ("rx", "splice")] {
            UnixStream.check_knob(key, value, Place::Loopback).unwrap();
        }
        let typed = deadheat_base::spec::Spec::parse("unix:io=zerocopy").unwrap();
        let text = Settings::check(&typed, INFO.keys).unwrap_err().to_string();
        assert!(text.contains("valid: write, writev, sendfile, splice"), "{text}");
    }
}
