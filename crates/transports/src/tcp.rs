//! TCP (RFC 9293) of the kernel. Options follow tcp(7) and socket(7).

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::pending::{StreamListener, await_welcome, present};
use crate::stream::{Flavour, check_engine};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic};
use deadheat_contract::contract::{Guarantees, Side};
use deadheat_datapath::datapath::origin;
use deadheat_datapath::datapath::stream::CountedSocket;
use deadheat_datapath::transport::handover::ConnectionSource;
use deadheat_datapath::transport::plain::{Greeting, PlainOpening, PlainProtocol, PlainTransport};
use deadheat_datapath::transport::{
    Address, Conn, Dial, Info, Listen, Listener, Place, Transport, frame, options,
};
use ecn::AskedEcn;
use knobs::KEYS;
pub(super) use knobs::{
    CC, FASTOPEN, NODELAY, OWN_CC, OWN_NODELAY, RCVBUF, SNDBUF, THIN, TcpOptions,
};

pub(crate) mod ecn;
mod fastopen;
mod knobs;

/// TCP over IPv4 and IPv6.
pub(super) struct Tcp;

static INFO: Info = Info {
    id: "tcp",
    label: "TCP",
    colour: "#0072b2",
    summary: "the kernel's TCP: one reliable, ordered byte stream",
    guarantees: Guarantees::BYTE_STREAM,
    framing_bytes: frame::PREFIX,
    options: &[options::NODELAY],
    keys: KEYS,
    deployed: &[OWN_CC, OWN_NODELAY],
    opens_at_once: true,
    ..Info::KERNEL
};

impl Transport for Tcp {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn check(&self) -> Result<()> {
        check(TCP)
    }

    fn check_knob(&self, key: &str, value: &str, place: Place) -> Result<()> {
        check_engine(INFO.id, key, value, || CountedSocket::new(any(TCP)?))?;
        check_settings(TCP, key, value, place)
    }

    fn plain(&self) -> Option<&'static PlainTransport> {
        Some(&PLAIN)
    }

    fn dial(&self, to: &Dial<'_>) -> Result<Box<dyn Conn>> {
        dial(TCP, to, TcpOptions::from(to.knobs))
    }

    fn listen(&self, at: Listen<'_>) -> Result<Box<dyn Listener>> {
        let options = TcpOptions::from(at.knobs);
        listen(TCP, at, options)
    }
}

/// Connections to programs of others.
static PLAIN: PlainTransport =
    PlainTransport { protocol: PlainProtocol::TCP, opening: PlainOpening::Greeted(open_plain) };

fn open_plain(dial: &Dial<'_>, greeting: &Greeting<'_>) -> Result<Box<dyn Conn>> {
    greet(TCP, dial, TcpOptions::from(dial.knobs), greeting)
}

/// Connection-oriented protocol of the kernel that a socket uses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Variant {
    /// Name of the transport.
    pub(super) id: &'static str,
    /// Type for socket(2).
    pub(super) kind: Type,
    /// Protocol for socket(2).
    pub(super) protocol: Protocol,
    /// Packet that requests a connection.
    pub(super) request: &'static str,
}

/// TCP itself.
pub(super) const TCP: Variant =
    Variant { id: "tcp", kind: Type::STREAM, protocol: Protocol::TCP, request: "SYN" };

/// Checks that this host provides a socket of a variant.
///
/// # Errors
/// [`Error::Unsupported`] with the kernel's error.
pub(super) fn check(variant: Variant) -> Result<()> {
    any(variant)
        .map(drop)
        .map_err(|e| Error::unsupported(variant.id, format!("this host gives no socket: {e}")))
}

/// Checks that the hosts' settings permit the value of a knob.
///
/// # Errors
/// As [`Transport::check_knob`].
pub(super) fn check_settings(variant: Variant, key: &str, value: &str, place: Place) -> Result<()> {
    if (key, value) == (FASTOPEN.name(), "on") {
        fastopen::check(variant.id, place)
    } else if key == ecn::ECN.name() {
        ecn::check(variant.id, value, place)
    } else {
        Ok(())
    }
}

/// Creates a socket of either family: a host may have IPv6 only.
pub(super) fn any(variant: Variant) -> io::Result<Socket> {
    let open = |domain| Socket::new(domain, variant.kind, Some(variant.protocol));
    open(Domain::IPV4).or_else(|_| open(Domain::IPV6))
}

/// Opens a near end.
///
/// # Errors
/// As [`Transport::dial`].
pub(super) fn dial<F: Flavour>(
    variant: Variant,
    dial: &Dial<'_>,
    flavour: F,
) -> Result<Box<dyn Conn>> {
    let deadline = Monotonic.now() + dial.timeout;
    let asked = AskedEcn::of(variant, flavour.facts().ecn)?;
    let (socket, mut connect_ns) = connect(variant, dial, |socket| {
        flavour.apply(socket)?;
        if flavour.facts().opens_fast { fastopen::delay_syn(variant.id, socket) } else { Ok(()) }
    })?;
    if flavour.facts().opens_fast {
        connect_ns = fastopen::open(variant, dial, &socket, connect_ns, deadline)?;
        drop(asked);
        flavour.connected(&socket)?;
        await_welcome(&socket, &dial.hello, dial.to, deadline)?;
    } else {
        drop(asked);
        flavour.connected(&socket)?;
        present(&socket, &dial.hello, dial.to, deadline)?;
    }
    flavour
        .connection(socket, Side::Near, dial.largest_message, connect_ns)
        .map_err(|e| Error::setup(format!("set up a connection to {}", dial.to), e))
}

/// Opens a near end of a connection to a program of others, which `greeting` greets.
///
/// # Errors
/// As [`PlainOpening::Greeted`].
pub(super) fn greet<F: Flavour>(
    variant: Variant,
    dial: &Dial<'_>,
    flavour: F,
    greeting: &Greeting<'_>,
) -> Result<Box<dyn Conn>> {
    let deadline = Monotonic.now() + dial.timeout;
    let to = dial.to.ip(variant.id)?;
    let asked = AskedEcn::of(variant, flavour.facts().ecn)?;
    let (socket, connect_ns) = connect(variant, dial, |socket| flavour.apply(socket))?;
    drop(asked);
    flavour.connected(&socket)?;
    greeting(&socket, to, deadline)?;
    flavour
        .connection(socket, Side::Near, dial.largest_message, connect_ns)
        .map_err(|e| Error::setup(format!("set up a connection to {to}"), e))
}

/// Connects a socket; returns it, and the time that connecting took in nanoseconds.
///
/// # Errors
/// As [`Transport::dial`].
pub(super) fn connect(
    variant: Variant,
    dial: &Dial<'_>,
    apply: impl FnOnce(&Socket) -> Result<()>,
) -> Result<(Socket, u64)> {
    let address = dial.to.ip(variant.id)?;
    let socket = open(variant, address)?;
    origin::bind(&socket, address)?;
    apply(&socket)?;
    let began = Monotonic.now();
    socket
        .connect_timeout(&SockAddr::from(address), dial.timeout.into())
        .map_err(|e| unreached(variant, dial, e))?;
    Ok((socket, (Monotonic.now() - began).0))
}

/// Opens a far end.
///
/// # Errors
/// As [`Transport::listen`].
pub(super) fn listen<F: Flavour>(
    variant: Variant,
    listen: Listen<'_>,
    flavour: F,
) -> Result<Box<dyn Listener>> {
    let address = listen.at.ip(variant.id)?;
    let largest = listen.largest_message;
    ecn::accept(variant, flavour.facts().ecn)?;
    if let ConnectionSource::Handed(door) = listen.door {
        let at = listen.at.clone();
        let listener = StreamListener::handed(door, at, listen.token, flavour, largest);
        return Ok(Box::new(listener));
    }
    let (socket, at) = bind(variant, address, |socket| {
        flavour.apply(socket)?;
        if flavour.facts().opens_fast {
            fastopen::offer(variant.id, socket, listen.token)?;
        }
        Ok(())
    })?;
    let listener = StreamListener::own(socket, at, listen.token, flavour, largest)?;
    Ok(Box::new(listener))
}

/// Binds a socket to an address; returns both.
///
/// # Errors
/// As [`Transport::listen`].
pub(super) fn bind(
    variant: Variant,
    address: SocketAddr,
    apply: impl FnOnce(&Socket) -> Result<()>,
) -> Result<(Socket, Address)> {
    let socket = open(variant, address)?;
    apply(&socket)?;
    let bound = socket
        .set_reuse_address(true)
        .and_then(|()| socket.bind(&address.into()))
        .and_then(|()| socket.local_addr())
        .map_err(|e| bind_failed(variant, address, e))?;
    Ok((socket, Address::Ip(bound.as_socket().unwrap_or(address))))
}

fn open(variant: Variant, address: SocketAddr) -> Result<Socket> {
    Socket::new(Domain::for_address(address), variant.kind, Some(variant.protocol))
        .map_err(|e| Error::setup(format!("open a {} socket for {address}", variant.id), e))
}

fn bind_failed(variant: Variant, address: SocketAddr, error: io::Error) -> Error {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => "another program has this port; port 0 takes a free one",
        io::ErrorKind::AddrNotAvailable => "no interface of this host has this address",
        io::ErrorKind::PermissionDenied => "ports below 1024 need root or CAP_NET_BIND_SERVICE",
        _ => "",
    };
    Error::setup_advice(format!("bind {} to {address}", variant.id), error, advice)
}

fn unreached(variant: Variant, dial: &Dial<'_>, error: io::Error) -> Error {
    let (Variant { id, request, .. }, to) = (variant, dial.to);
    match error.kind() {
        io::ErrorKind::AddrNotAvailable => Error::setup_advice(
            format!("connect to {id} {to}"),
            error,
            "this host has no free port left for one more connection to there: each that it has closed holds one for a \
             minute (TIME-WAIT); open fewer, or more slowly (pause=), or have `sysctl net.ipv4.tcp_tw_reuse=1` reuse them",
        ),
        io::ErrorKind::TimedOut => Error::blocked(format!(
            "sent {request}s to {id} {to} for {}; nothing came back",
            dial.timeout
        )),
        io::ErrorKind::HostUnreachable => {
            Error::blocked(format!("sent {request} to {id} {to}; the network answered: {error}"))
        }
        io::ErrorKind::ConnectionRefused => Error::setup_advice(
            format!("connect to {id} {to}"),
            error,
            "is a far end running there, `deadheat serve` or the program that --to names?",
        ),
        _ => Error::setup(format!("connect to {id} {to}"), error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{Ipv4Addr, TcpListener};
    use std::os::fd::AsFd;
    use std::thread;

    use super::knobs::CongestionChoice;
    use super::*;
    use crate::testing::{ConnRig, HELLO, LONG};
    use deadheat_base::spec::{Settings, Spec};
    use deadheat_base::time::Nanos;
    use deadheat_contract::contract::Source;
    use deadheat_datapath::transport::Effective;
    use deadheat_datapath::transport::handover::HandOver;
    use deadheat_datapath::transport::hello::{Hello, LEN, Token};

    const SHORT: Nanos = Nanos::from_millis(50);

    fn knobs(typed: &str) -> Settings {
        Settings::check(&Spec::parse(typed).unwrap(), KEYS).unwrap()
    }

    fn knobs_of(typed: &str) -> TcpOptions {
        TcpOptions::from(&knobs(typed))
    }

    fn anywhere() -> Address {
        Address::Ip((Ipv4Addr::LOCALHOST, 0).into())
    }

    fn dial(to: &Address, knobs: &Settings, timeout: Nanos) -> Result<Box<dyn Conn>> {
        ConnRig::ordered(&Tcp, knobs, 100).dial(to, timeout)
    }

    fn listen(at: &Address, knobs: &Settings, door: ConnectionSource) -> Result<Box<dyn Listener>> {
        ConnRig::ordered(&Tcp, knobs, 100).listen(at, door)
    }

    /// Returns the effective options of both ends of a connection with these knobs.
    fn effective(typed: &str) -> [Effective; 2] {
        let knobs = &knobs(typed);
        ConnRig::ordered(&Tcp, knobs, 100).ends(&anywhere()).map(|end| end.effective())
    }

    #[test]
    fn knobs_take_effect_at_both_ends() {
        let typed = "tcp:cc=reno,nodelay=off,sndbuf=20000,rcvbuf=30000,mss=1000,notsent_lowat=5000";
        for end in effective(typed) {
            assert_eq!(end["cc"], "reno");
            assert_eq!(end["nodelay"], "off");
            assert_eq!(end["sndbuf"], "40000");
            assert_eq!(end["rcvbuf"], "60000");
            // Timestamps (RFC 7323) take 12 bytes if both hosts have them on.
            assert!(["1000", "988"].contains(&end["mss"].as_str()), "{end:?}");
            assert_eq!(end["notsent_lowat"], "5000");
        }
        for end in effective("tcp") {
            assert_eq!(end["nodelay"], "on");
            assert!(!end.contains_key("notsent_lowat"));
        }
    }

    #[test]
    fn headers_are_counted_by_the_segment() {
        let knobs = knobs("tcp");
        let mut listener = listen(&anywhere(), &knobs, ConnectionSource::Own).unwrap();
        let to = listener.endpoint();
        let (mut near, _far) = std::thread::scope(|scope| {
            let far = scope.spawn(move || listener.accept(Nanos::from_secs(5)).unwrap().1);
            let near = dial(&to, &knobs, Nanos::from_secs(5)).unwrap();
            (near, far.join().unwrap())
        });
        let before = near.info().stats.headers.unwrap();
        assert_eq!((before.ip_bytes, before.framing_bytes), (20, 4));
        assert!([20, 32].contains(&before.transport_bytes));
        for _ in 0..10 {
            near.send(deadheat_contract::contract::Lane(0), &[7; 100]).unwrap();
        }
        let sent = near.info().stats.headers.unwrap().packets.unwrap() - before.packets.unwrap();
        assert!((1..=10).contains(&sent), "{sent} segments for 10 messages");
    }

    #[test]
    fn the_default_congestion_control_gives_way_and_an_asked_one_does_not() {
        let socket = open(TCP, (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let host = socket.tcp_congestion().unwrap();
        let mut options = TcpOptions::from(&knobs("tcp"));
        assert!(matches!(&options.cc, CongestionChoice::Preferred(name) if name == "cubic"));
        options.cc = CongestionChoice::Preferred("no_such_cc".into());
        options.apply(&socket).unwrap();
        assert_eq!(socket.tcp_congestion().unwrap(), host);

        let error = dial(&anywhere(), &knobs("tcp:cc=no_such_cc"), SHORT).err().unwrap();
        assert!(matches!(error, Error::Unsupported { .. }));
        let text = error.to_string();
        assert!(text.starts_with("tcp:cc=no_such_cc: "), "{text}");
        assert!(text.contains("reno") && text.ends_with("host"), "{text}");
    }

    /// Opens a connection to a listener that stays; returns an option at each end, and the time that connecting took.
    fn through(listener: &mut dyn Listener, knobs: &Settings, option: &str) -> ([String; 2], u64) {
        let to = listener.endpoint();
        thread::scope(|scope| {
            let far = scope.spawn(move || listener.accept(LONG).unwrap().1);
            let near = dial(&to, knobs, LONG).unwrap();
            let far = far.join().unwrap();
            let [near_says, far_says] = [&near, &far].map(|end| end.effective()[option].clone());
            ([near_says, far_says], near.info().stats.connect_ns)
        })
    }

    /// If this host's sysctl forbids it, the error has a value that permits it.
    #[test]
    fn data_travels_in_the_syn_from_the_second_connection_on() {
        let knobs = &knobs("tcp:fastopen=on");
        if let Err(why) = Tcp.check_knob("fastopen", "on", Place::Loopback) {
            assert!(why.to_string().contains("sysctl net.ipv4.tcp_fastopen="), "{why}");
            let refused = listen(&anywhere(), knobs, ConnectionSource::Own).err();
            let refused = refused.or_else(|| {
                let to = Address::Ip((Ipv4Addr::LOCALHOST, 9).into());
                dial(&to, knobs, SHORT).err()
            });
            assert!(matches!(refused, Some(Error::Unsupported { .. })), "{refused:?}");
            return;
        }
        let mut listener = listen(&anywhere(), knobs, ConnectionSource::Own).unwrap();
        let (first, _) = through(&mut *listener, knobs, "fastopen");
        assert!(first.iter().all(|says| says.starts_with("off (no data")), "{first:?}");
        for _ in 0..3 {
            let (later, connect_ns) = through(&mut *listener, knobs, "fastopen");
            assert_eq!(later, ["on", "on"]);
            assert!(connect_ns > 0);
        }
        // Another trial's cookies are unknown to it.
        let hello = Hello { token: Token::from_bytes([4; 16]), flow: 7 };
        let other = ConnRig { hello, ..ConnRig::ordered(&Tcp, knobs, 100) };
        let [near, _far] = other.ends(&anywhere());
        assert!(near.effective()["fastopen"].starts_with("off (no data"));
        assert!(near.info().stats.connect_ns > 0);
    }

    #[test]
    fn what_the_handshake_and_the_host_decide_is_told_and_nothing_keeps_it_alive() {
        for (typed, thin) in [("tcp:thin=on", "on"), ("tcp", "off")] {
            for end in effective(typed) {
                assert_eq!((end["thin"].as_str(), end["fastopen"].as_str()), (thin, "off"));
                assert!(end["ecn"].starts_with("on") || end["ecn"] == "off", "{end:?}");
                let recovery = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_recovery").unwrap();
                let is_rack = recovery.trim().parse::<u32>().unwrap() % 2 == 1;
                assert_eq!(end["recovery"] == "rack", is_rack, "{end:?}");
            }
        }
        let socket = any(TCP).unwrap();
        knobs_of("tcp").apply(&socket).unwrap();
        assert!(!socket.keepalive().unwrap());
    }

    /// Number of bytes of artificial content.
    struct Bytes(u64);

    impl Source for Bytes {
        fn budget(&self) -> u64 {
            self.0
        }
        fn message_size(&self) -> usize {
            1
        }
        fn call_size(&self) -> usize {
            10_000
        }
        fn stamp(&mut self, _message: &mut [u8]) {}
        fn accepted(&mut self, bytes: u64) {
            self.0 -= bytes;
        }
    }

    #[test]
    fn engines_are_told_and_that_loopback_copies_all_the_same() {
        for end in effective("tcp:io=splice,rx=trunc") {
            assert_eq!((end["io"].as_str(), end["rx"].as_str()), ("splice", "trunc"));
        }
        let knobs = &knobs("tcp:io=zerocopy");
        let mut listener = listen(&anywhere(), knobs, ConnectionSource::Own).unwrap();
        let to = listener.endpoint();
        thread::scope(|scope| {
            let far = scope.spawn(move || listener.accept(LONG).unwrap().1);
            let mut near = dial(&to, knobs, LONG).unwrap();
            let _far = far.join().unwrap();
            assert_eq!(near.effective()["io"], "zerocopy");
            let mut source = Bytes(50_000);
            while source.0 > 0 {
                near.pump(&mut source).unwrap();
            }
            near.finish().unwrap();
            let told = near.info().stats.zerocopy.unwrap();
            assert_eq!((told.completed, told.copied), (5, 5));
            let io = &near.effective()["io"];
            assert!(io.starts_with("zerocopy (the kernel copied every call"), "{io}");
        });
    }

    #[test]
    fn each_way_not_to_be_reached_is_told_apart() {
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = Address::Ip(silent.local_addr().unwrap());
        let say = |to: &Address| dial(to, &knobs("tcp"), SHORT).err().unwrap();
        let error = say(&to);
        assert!(matches!(error, Error::Blocked { .. }), "{error}");
        assert!(error.to_string().contains("came 0 of the 24 bytes"), "{error}");

        drop(silent);
        let text = say(&to).to_string();
        assert!(text.contains(&to.to_string()), "{text}");
        assert!(text.contains("is a far end running there, `deadheat serve` or"), "{text}");

        assert!(matches!(say(&Address::Process(1)), Error::Usage(_)));
    }

    #[test]
    fn syns_into_the_void_are_blocked_with_the_evidence() {
        // A listener whose queue of one is full drops every further SYN.
        let full = open(TCP, (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        full.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        full.listen(0).unwrap();
        let address = full.local_addr().unwrap().as_socket().unwrap();
        let _first = std::net::TcpStream::connect(address).unwrap();
        let error = dial(&Address::Ip(address), &knobs("tcp"), SHORT).err().unwrap();
        assert_eq!(
            error.to_string(),
            format!("blocked: sent SYNs to tcp {address} for 50.0 ms; nothing came back")
        );
    }

    #[test]
    fn a_connection_from_a_server_gets_its_knobs_and_its_welcome() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = Address::Ip(server.local_addr().unwrap());
        let knobs = &knobs("tcp:cc=reno");
        let (give, door) = HandOver::pair().unwrap();
        let mut listener = listen(&to, knobs, ConnectionSource::Handed(door)).unwrap();
        assert_eq!(listener.endpoint(), to);
        thread::scope(|scope| {
            let near = scope.spawn(|| dial(&to, knobs, LONG).map(|conn| conn.info().stats));
            let (mut stream, _) = server.accept().unwrap();
            let mut hello = [0; LEN];
            stream.read_exact(&mut hello).unwrap();
            assert_eq!(Hello::decode(&hello), Some(HELLO));
            give.give_stream(HELLO.flow, stream.as_fd()).unwrap();
            let (flow, far) = listener.accept(LONG).unwrap();
            assert_eq!((flow, far.effective()["cc"].as_str()), (HELLO.flow, "reno"));
            let near = near.join().unwrap().unwrap();
            assert!(near.connect_ns > 0);
            assert_eq!(near.retransmits, Some(0));
        });
    }

    #[test]
    fn a_port_that_is_taken_is_named() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = Address::Ip(taken.local_addr().unwrap());
        let text = listen(&at, &knobs("tcp"), ConnectionSource::Own).err().unwrap().to_string();
        assert!(text.contains(&at.to_string()), "{text}");
        assert!(text.contains("another program has this port"), "{text}");
    }
}
