//! Opening of a flow of datagrams, unless all packets are lost: the near end repeats its hello until the welcome
//! arrives, and confirms it; the far end repeats its welcome until it is confirmed.
//!
//! ```text
//! near  hello ──▶        hello ──▶          welcome ──▶ (confirms)   data …
//! far            (new socket)      ◀── welcome
//!
//! near  hello ──▶                  proof ──▶              an address that nothing has proved, as a TURN server's
//! far            ◀── challenge               ◀── welcome  relayed one: a round trip more, once for each
//! ```
//!
//! Each flow gets a far socket of its own, bound to the address that its hello was sent to and connected to the
//! peer. The kernel prefers a connected socket to an unconnected one on the same port (`compute_score` in
//! net/ipv4/udp.c), so the port stays free for further flows.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

mod prove;
mod settle;
mod silence;

use super::hello::{self, Challenge, Hello, Token};
use crate::datapath::datagram::{Binding, is_full, is_network_error};
use crate::datapath::destination::{announce_destination, at_port, canonical, receive_from};
use crate::datapath::ip_header::{self, ArrivedHeader};
use crate::datapath::{option, origin};
use crate::transport::handover::{ConnectionSource, HandOver, HandedConnection, readable};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::measurements::Headers;
pub use settle::settle;
pub use silence::{HelloFailure, Silence, send_hello};

/// Datagram protocol of the kernel that a flow uses.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    /// The transport's name.
    pub id: &'static str,
    /// Name for people.
    pub label: &'static str,
    /// Protocol number for socket(2).
    pub protocol: Protocol,
}

/// Plain UDP.
pub const UDP: Variant = Variant { id: "udp", label: "UDP", protocol: Protocol::UDP };

/// Checks that this host has UDP, for the transport `id`.
pub fn check(id: &str) -> Result<()> {
    // Either family is enough: a host may have IPv6 only.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0");
    match socket.or_else(|_| std::net::UdpSocket::bind("[::1]:0")) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::unsupported(
            id,
            format!("no UDP socket on loopback ({error}); is the interface lo up?"),
        )),
    }
}

/// Returns the headers of IP and of UDP (RFC 768) or ICMP (RFC 792), which have the same length, around each
/// message.
pub fn headers(socket: &socket2::Socket, mtu: Option<u64>) -> Headers {
    Headers {
        ip_bytes: option::ip_header_bytes(socket),
        transport_bytes: 8,
        framing_bytes: 0,
        mtu,
        packets: None,
    }
}

/// Flow that was dialled and welcomed.
#[derive(Debug)]
pub struct DialledFlow {
    /// Socket.
    pub socket: Socket,
    /// Header of the welcome.
    pub arrived: ArrivedHeader,
}

/// Terms of a flow that is dialled.
#[derive(Debug, Clone, Copy)]
pub struct FlowTerms {
    /// Token and flow.
    pub hello: Hello,
    /// Longest wait for the welcome.
    pub timeout: Nanos,
    /// Kind of the socket's tie to the peer.
    pub binding: Binding,
}

/// Opens a connection of datagrams to `to`: a fresh socket, prepared by `prepare`.
///
/// # Errors
/// [`Error::Blocked`] with the evidence if no welcome arrived, or the failed operation.
pub fn dial(
    variant: Variant,
    to: SocketAddr,
    FlowTerms { hello, timeout, binding }: FlowTerms,
    prepare: &dyn Fn(&Socket) -> Result<()>,
) -> Result<DialledFlow> {
    let to = canonical(to);
    let address = SockAddr::from(to);
    let label = variant.label;
    let failed = |source| Error::setup(format!("open a {label} socket to {to}"), source);
    let socket = opened(variant, to, prepare)?;
    let is_announced = ArrivedHeader::announce(&socket, true).is_ok();
    let mut arrived = ArrivedHeader::default();
    if binding == Binding::Connected {
        socket.connect(&address).map_err(failed)?;
    }
    let say = |message: &[u8]| match binding {
        Binding::Connected => socket.send_with_flags(message, libc::MSG_DONTWAIT),
        Binding::Loose => socket.send_to_with_flags(message, &address, libc::MSG_DONTWAIT),
    };
    let (question, answer) = (hello.encode(), hello.encode_welcome());
    let welcomed = send_hello(
        &socket,
        u32::MAX,
        timeout,
        || say(&question).map(|_| ()),
        || {
            let (datagram, header) = read_with_header(&socket, 0)?;
            let is_answer = datagram == HandshakeDatagram::Exactly(answer);
            if let Some(asked) = datagram.challenge(hello.flow) {
                say(&asked.answer())?;
            }
            arrived = if is_answer { header } else { arrived };
            Ok(is_answer)
        },
    );
    match welcomed {
        Ok(()) => {
            // No need to wait, and the far end manages without it.
            let _ = say(&answer);
            if is_announced {
                ArrivedHeader::announce(&socket, false).map_err(failed)?;
            }
            Ok(DialledFlow { socket, arrived })
        }
        Err(HelloFailure::Failed(source)) => {
            Err(Error::setup(format!("say hello to {to}"), source))
        }
        Err(HelloFailure::Silent(silence)) => Err(Error::blocked(format!(
            "{}; control over TCP works, so a firewall or NAT drops {label} over {}",
            silence.describe(&format!("{label} hellos of {} B", hello::LEN), &to.to_string()),
            if to.is_ipv4() {
                "IPv4; if the host has IPv6, -6 takes that"
            } else {
                "IPv6; if the host has IPv4, -4 takes that"
            }
        ))),
    }
}

/// Opens a fresh socket, prepared by `prepare`, and connects it to a program of others.
///
/// # Errors
/// The failed operation with the address.
pub fn connected(
    variant: Variant,
    to: SocketAddr,
    prepare: &dyn Fn(&Socket) -> Result<()>,
) -> Result<Socket> {
    let to = canonical(to);
    let socket = opened(variant, to, prepare)?;
    socket.connect(&SockAddr::from(to)).map_err(|source| {
        Error::setup(format!("connect a {} socket to {to}", variant.label), source)
    })?;
    Ok(socket)
}

fn opened(
    variant: Variant,
    to: SocketAddr,
    prepare: &dyn Fn(&Socket) -> Result<()>,
) -> Result<Socket> {
    let Variant { label, protocol, .. } = variant;
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(protocol))
        .map_err(|source| Error::setup(format!("open a {label} socket to {to}"), source))?;
    origin::bind(&socket, to)?;
    prepare(&socket)?;
    Ok(socket)
}

/// Kind of a datagram during the opening of a flow.
#[derive(Debug, PartialEq, Eq)]
enum HandshakeDatagram {
    /// Datagram as long as a hello.
    Exactly([u8; hello::LEN]),
    /// An empty datagram, or the end of a connection that has one.
    Nothing,
    /// Any other datagram.
    Other,
}

impl HandshakeDatagram {
    /// Returns the challenge of this flow, if it is one.
    fn challenge(&self, flow: u16) -> Option<Challenge> {
        match self {
            HandshakeDatagram::Exactly(bytes) => Challenge::decode(bytes, flow),
            HandshakeDatagram::Nothing | HandshakeDatagram::Other => None,
        }
    }
}

fn read(socket: &Socket, flags: libc::c_int) -> io::Result<HandshakeDatagram> {
    read_with_header(socket, flags).map(|(datagram, _)| datagram)
}

fn read_with_header(
    socket: &Socket,
    flags: libc::c_int,
) -> io::Result<(HandshakeDatagram, ArrivedHeader)> {
    let mut bytes = [0u8; hello::LEN + 1];
    let (len, arrived) = ip_header::receive(socket, &mut bytes, flags)?;
    let datagram = match len {
        hello::LEN => {
            let mut exact = [0; hello::LEN];
            exact.copy_from_slice(&bytes[..hello::LEN]);
            HandshakeDatagram::Exactly(exact)
        }
        0 => HandshakeDatagram::Nothing,
        _ => HandshakeDatagram::Other,
    };
    Ok((datagram, arrived))
}

/// Reads one datagram of a connected socket without waiting; returns whether it is the answer.
///
/// # Errors
/// The error of recv(2), and `UnexpectedEof` if the peer has ended the connection, which is not possible with UDP.
pub fn is_answer(socket: &Socket, answer: &[u8; hello::LEN]) -> io::Result<bool> {
    match read(socket, 0)? {
        HandshakeDatagram::Exactly(bytes) => Ok(bytes == *answer),
        HandshakeDatagram::Nothing => Err(io::ErrorKind::UnexpectedEof.into()),
        HandshakeDatagram::Other => Ok(false),
    }
}

/// Kind of a handshake datagram that arrives on an open connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateDatagram {
    /// Repeated hello.
    Hello,
    /// Repeated welcome, or its confirmation.
    Welcome,
}

/// Classifies a datagram that is the connection's own hello or welcome, and late; `None` if it is a message.
#[inline]
pub fn late(
    bytes: &[u8],
    question: &[u8; hello::LEN],
    answer: &[u8; hello::LEN],
) -> Option<LateDatagram> {
    if bytes.len() != hello::LEN {
        None
    } else if bytes == question {
        Some(LateDatagram::Hello)
    } else {
        (bytes == answer).then_some(LateDatagram::Welcome)
    }
}

/// Flow that was accepted.
#[derive(Debug)]
pub struct AcceptedFlow {
    /// Hello that it presented.
    pub hello: Hello,
    /// Socket that is connected to it.
    pub socket: Socket,
    /// Address of the near end.
    pub peer: SocketAddr,
    /// Header of a packet of the near end, if one arrived before the flow counted as open.
    pub arrived: ArrivedHeader,
}

/// Listener that accepts flows of datagrams that present the token.
#[derive(Debug)]
pub struct DatagramListener {
    variant: Variant,
    from: FlowOrigin,
    at: SocketAddr,
    token: Token,
    /// Flows that were accepted already: their late hellos open no further flows.
    met: HashSet<(u16, SocketAddr)>,
    /// Hosts that have answered a challenge.
    proved: HashSet<IpAddr>,
    strangers: u64,
}

#[derive(Debug)]
enum FlowOrigin {
    Own(Socket),
    Handed(HandOver),
}

/// Hello that arrived.
#[derive(Debug)]
struct ArrivedHello {
    flow: u16,
    local: SocketAddr,
    peer: SocketAddr,
    is_proved: bool,
}

impl DatagramListener {
    /// Listens at `at`, or accepts the flows that a server hands over.
    ///
    /// # Errors
    /// The failed operation with its address.
    pub fn open(
        variant: Variant,
        at: SocketAddr,
        token: Token,
        door: ConnectionSource,
    ) -> Result<DatagramListener> {
        let (from, at) = match door {
            ConnectionSource::Handed(hand_over) => (FlowOrigin::Handed(hand_over), at),
            ConnectionSource::Own => {
                let failed =
                    |source| Error::setup(format!("listen on {at} ({})", variant.label), source);
                let socket = bound(variant, at).map_err(failed)?;
                announce_destination(&socket, at).map_err(failed)?;
                let at = local_of(&socket).map_err(failed)?;
                (FlowOrigin::Own(socket), at)
            }
        };
        let (met, proved) = (HashSet::new(), HashSet::new());
        Ok(DatagramListener { variant, from, at, token, met, proved, strangers: 0 })
    }

    /// Returns the address to dial.
    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// Waits for the next flow, at most `timeout`; `prepare` sets its socket up before anything can arrive on it.
    ///
    /// # Errors
    /// [`Error::Blocked`] with the evidence if none arrived, or the failed operation.
    pub fn accept(
        &mut self,
        timeout: Nanos,
        prepare: &dyn Fn(&Socket) -> Result<()>,
    ) -> Result<AcceptedFlow> {
        let label = self.variant.label;
        let deadline = Monotonic.now() + timeout;
        loop {
            let now = Monotonic.now();
            let call = self.listen(deadline - now).map_err(|source| {
                Error::setup(format!("wait for hellos on {} ({label})", self.at), source)
            })?;
            let Some(ArrivedHello { flow, local, peer, is_proved }) = call else {
                if Monotonic.now() < deadline {
                    continue;
                }
                return Err(Error::blocked(format!(
                    "no {label} hello with this trial's token reached {} within {timeout}; {} other \
                     datagrams did",
                    self.at, self.strangers
                )));
            };
            if self.met.contains(&(flow, peer)) {
                continue;
            }
            let hello = Hello { token: self.token, flow };
            let socket = answer(self.variant, local, peer, prepare)?;
            if !is_proved && !self.proved.contains(&peer.ip()) {
                if !prove::proves(&socket, flow, deadline)? {
                    continue;
                }
                self.proved.insert(peer.ip());
            }
            self.met.insert((flow, peer));
            let arrived = settle(&socket, &hello, deadline).map_err(|source| {
                Error::setup(format!("welcome {peer} from {local} ({label})"), source)
            })?;
            return Ok(AcceptedFlow { hello, socket, peer, arrived });
        }
    }

    /// Waits for the next hello with the right token, if one arrives in time. It may also return early with `None`.
    fn listen(&mut self, patience: Nanos) -> io::Result<Option<ArrivedHello>> {
        match &self.from {
            FlowOrigin::Handed(hand_over) => match hand_over.take(patience)? {
                Some(HandedConnection::Datagrams { flow, local, peer, is_proved }) => {
                    let (local, peer) = (canonical(local), canonical(peer));
                    Ok(Some(ArrivedHello { flow, local, peer, is_proved }))
                }
                Some(HandedConnection::Stream { .. }) => Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the server handed over a stream",
                )),
                None => Ok(None),
            },
            FlowOrigin::Own(socket) => {
                if !readable(socket.as_fd(), patience)? {
                    return Ok(None);
                }
                let mut bytes = [0; hello::LEN + 1];
                let (len, peer, to) = match receive_from(socket, &mut bytes) {
                    Ok(got) => got,
                    Err(error) if is_full(&error) || is_network_error(&error) => return Ok(None),
                    Err(error) => return Err(error),
                };
                let hello = Hello::decode(&bytes[..len]).filter(|hello| hello.token == self.token);
                let (Some(hello), Some(peer)) = (hello, peer) else {
                    self.strangers += 1;
                    return Ok(None);
                };
                Ok(Some(ArrivedHello {
                    flow: hello.flow,
                    local: canonical(to.map_or(self.at, |to| at_port(to, self.at.port()))),
                    peer: canonical(peer),
                    is_proved: true,
                }))
            }
        }
    }
}

/// Returns a socket for one flow, on the address that its hello was sent to.
fn answer(
    variant: Variant,
    local: SocketAddr,
    peer: SocketAddr,
    prepare: &dyn Fn(&Socket) -> Result<()>,
) -> Result<Socket> {
    let what = || format!("open a {} socket from {local} to {peer}", variant.label);
    let failed = |source| Error::setup(what(), source);
    let socket = bound(variant, local).map_err(failed)?;
    prepare(&socket)?;
    socket.connect(&peer.into()).map_err(failed)?;
    // Between bind and connect, hellos of other flows may have arrived here; they will be repeated.
    while !matches!(read(&socket, 0), Err(error) if is_full(&error)) {}
    Ok(socket)
}

/// Creates a bound socket that shares its address with the sockets of its flows (socket(7), `SO_REUSEADDR`; all of
/// them must set it). A port of the system's choice is asked for before that: among sockets that share, the system may
/// choose the port of another one, whose datagrams would arrive here.
fn bound(variant: Variant, at: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(variant.protocol))?;
    socket.set_reuse_address(at.port() != 0)?;
    socket.bind(&at.into())?;
    socket.set_reuse_address(true)?;
    Ok(socket)
}

fn local_of(socket: &Socket) -> io::Result<SocketAddr> {
    socket.local_addr()?.as_socket().ok_or_else(|| io::Error::other("a socket without IP address"))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::silence::due;
    use super::*;

    const HELLO: Hello = Hello { token: Token::from_bytes([3; 16]), flow: 2 };
    /// Longer than anything here takes; only a failing test waits for it.
    const LONG: Nanos = Nanos::from_secs(20);
    const FLOW: FlowTerms = FlowTerms { hello: HELLO, timeout: LONG, binding: Binding::Connected };

    fn gate(at: &str) -> DatagramListener {
        DatagramListener::open(UDP, at.parse().unwrap(), HELLO.token, ConnectionSource::Own)
            .unwrap()
    }

    fn accept(gate: &mut DatagramListener) -> Result<AcceptedFlow> {
        gate.accept(LONG, &|_| Ok(()))
    }

    #[test]
    fn hellos_back_off_and_then_keep_a_pace() {
        let ms: Vec<u64> = (0..8).map(|n| due(n).0 / 1_000_000).collect();
        assert_eq!(ms, [0, 50, 100, 200, 400, 800, 1_200, 1_600]);
    }

    #[test]
    fn a_flow_opens_on_the_address_its_hello_came_to() {
        for (listen, dialed) in [
            ("127.0.0.1:0", "127.0.0.1"),
            ("[::1]:0", "::1"),
            ("0.0.0.0:0", "127.0.0.7"),
            ("[::]:0", "::1"),
            ("[::]:0", "127.0.0.9"),
        ] {
            let mut gate = gate(listen);
            let to = SocketAddr::new(dialed.parse().unwrap(), gate.at().port());
            let near = std::thread::spawn(move || dial(UDP, to, FLOW, &|_| Ok(())).unwrap().socket);
            let far = accept(&mut gate).unwrap();
            let near = near.join().unwrap();
            assert_eq!(far.hello, HELLO);
            assert_eq!(local_of(&far.socket).unwrap(), to);
            near.send(b"data").unwrap();
            assert!(readable(far.socket.as_fd(), LONG).unwrap());
            assert_eq!(read(&far.socket, 0).unwrap(), HandshakeDatagram::Other);
        }
    }

    #[test]
    fn a_repeated_hello_is_welcomed_again_and_is_no_second_flow() {
        let mut gate = gate("127.0.0.1:0");
        let at = gate.at();
        let far = std::thread::spawn(move || {
            let guest = accept(&mut gate);
            (gate, guest)
        });
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.set_read_timeout(Some(LONG.into())).unwrap();
        near.connect(at).unwrap();
        let mut bytes = [0; 100];
        for _ in 0..3 {
            near.send(&HELLO.encode()).unwrap();
            let len = near.recv(&mut bytes).unwrap();
            assert_eq!(Hello::decode_welcome(&bytes[..len]), Some(HELLO));
        }
        near.send(&HELLO.encode_welcome()).unwrap();
        let (mut gate, guest) = far.join().unwrap();
        assert_eq!(guest.unwrap().hello, HELLO);
        let again = gate.accept(Nanos::from_millis(20), &|_| Ok(()));
        assert!(matches!(again, Err(Error::Blocked { .. })));
    }

    #[test]
    fn data_that_overtakes_the_confirmation_is_kept() {
        let mut gate = gate("127.0.0.1:0");
        let at = gate.at();
        let far = std::thread::spawn(move || accept(&mut gate).unwrap().socket);
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(at).unwrap();
        near.send(&HELLO.encode()).unwrap();
        near.recv(&mut [0; 100]).unwrap();
        near.send(&[9; 24]).unwrap();
        let far = far.join().unwrap();
        assert_eq!(read(&far, 0).unwrap(), HandshakeDatagram::Exactly([9; 24]));
    }

    #[test]
    fn strangers_are_counted_and_get_no_answer() {
        let mut gate = gate("[::1]:0");
        let stranger = UdpSocket::bind("[::1]:0").unwrap();
        stranger.set_nonblocking(true).unwrap();
        stranger.connect(gate.at()).unwrap();
        let wrong = Hello { token: Token::from_bytes([4; 16]), flow: 2 };
        let mut long = HELLO.encode().to_vec();
        long.push(0);
        for bytes in [&wrong.encode()[..], &HELLO.encode_welcome(), &long, b""] {
            stranger.send(bytes).unwrap();
        }
        for _ in 0..4 {
            assert!(gate.listen(LONG).unwrap().is_none());
        }
        let error = gate.accept(Nanos::ZERO, &|_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("4 other datagrams did"), "{error}");
        assert_eq!(stranger.recv(&mut [0; 9]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_handed_over_flow_shares_the_servers_port() {
        let server = bound(UDP, "127.0.0.1:0".parse().unwrap()).unwrap();
        let local = local_of(&server).unwrap();
        let (give, take) = HandOver::pair().unwrap();
        let mut gate =
            DatagramListener::open(UDP, local, HELLO.token, ConnectionSource::Handed(take))
                .unwrap();
        let near = std::thread::spawn(move || dial(UDP, local, FLOW, &|_| Ok(())).unwrap().socket);
        let mut bytes = [0; 24];
        assert!(readable(server.as_fd(), LONG).unwrap());
        let (_, peer, _) = receive_from(&server, &mut bytes).unwrap();
        give.give_datagrams(HELLO.flow, local, peer.unwrap()).unwrap();
        give.give_datagrams(HELLO.flow, local, peer.unwrap()).unwrap();
        let far = accept(&mut gate).unwrap();
        let near = near.join().unwrap();
        far.socket.send(b"to the dialing port").unwrap();
        assert!(readable(near.as_fd(), LONG).unwrap());
        let once = gate.accept(Nanos::ZERO, &|_| Ok(()));
        assert!(matches!(once, Err(Error::Blocked { .. })));
    }

    /// The second flow of the same host is not asked again.
    #[test]
    fn an_address_that_nothing_has_proved_gets_a_challenge_and_no_more() {
        let server = bound(UDP, "127.0.0.1:0".parse().unwrap()).unwrap();
        let local = local_of(&server).unwrap();
        let (give, take) = HandOver::pair().unwrap();
        let source = ConnectionSource::Handed(take);
        let mut gate = DatagramListener::open(UDP, local, HELLO.token, source).unwrap();
        let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
        give.give_unproved(9, local, mute.local_addr().unwrap()).unwrap();
        let refused = gate.accept(Nanos::from_millis(20), &|_| Ok(()));
        assert!(matches!(refused, Err(Error::Blocked { .. })));
        let near = std::thread::spawn(move || {
            let dial = |flow| {
                let flow = FlowTerms { hello: Hello { flow, ..HELLO }, ..FLOW };
                dial(UDP, local, flow, &|_| Ok(())).unwrap().socket
            };
            [dial(2), dial(3)]
        });
        let mut accepted = Vec::new();
        let mut bytes = [0; 24];
        for flow in [2, 3] {
            let peer = loop {
                assert!(readable(server.as_fd(), LONG).unwrap());
                let (_, peer, _) = receive_from(&server, &mut bytes).unwrap();
                // The one before may have been repeated.
                if Hello::decode(&bytes).unwrap().flow == flow {
                    break peer;
                }
            };
            give.give_unproved(flow, local, peer.unwrap()).unwrap();
            accepted.push(gate.accept(Nanos::from_secs(5), &|_| Ok(())).unwrap().hello.flow);
        }
        near.join().unwrap();
        assert_eq!(accepted, [2, 3]);
        // The first one never answered: it got what it was asked, and as many bytes as a hello has.
        mute.set_nonblocking(true).unwrap();
        let mut got = [0; 64];
        let len = mute.recv(&mut got).unwrap();
        assert!(Challenge::decode(&got[..len], 9).is_some());
        assert_eq!(mute.recv(&mut got).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    /// A busy host held up this end, and not the other.
    #[test]
    fn an_answer_that_waits_when_the_time_is_over_counts_and_other_datagrams_buy_no_time() {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(far.local_addr().unwrap()).unwrap();
        let (to, near) = (near.local_addr().unwrap(), Socket::from(near));
        let welcome = HELLO.encode_welcome();
        let over = |hear: &mut dyn FnMut() -> io::Result<bool>| {
            send_hello(&near, 9, Nanos::ZERO, || Ok(()), hear)
        };
        for datagram in [&b"noise"[..], &welcome] {
            far.send_to(datagram, to).unwrap();
        }
        over(&mut || is_answer(&near, &welcome)).unwrap();
        far.send_to(b"noise", to).unwrap();
        let without_end = over(&mut || {
            far.send_to(b"noise", to)?;
            is_answer(&near, &welcome)
        });
        assert!(matches!(without_end, Err(HelloFailure::Silent(_))));
    }

    #[test]
    fn silence_is_told_with_its_evidence() {
        let deaf = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = deaf.local_addr().unwrap();
        let short = FlowTerms { timeout: Nanos::from_millis(120), ..FLOW };
        let error = dial(UDP, to, short, &|_| Ok(())).unwrap_err().to_string();
        assert!(error.starts_with("blocked: sent "), "{error}");
        assert!(error.contains(&format!("UDP hellos of 24 B to {to} over ")), "{error}");
        assert!(error.contains("no network error either"), "{error}");
        drop(deaf);
        let error = dial(UDP, to, short, &|_| Ok(())).unwrap_err().to_string();
        assert!(error.contains("network errors, the last: Connection refused"), "{error}");
    }
}
