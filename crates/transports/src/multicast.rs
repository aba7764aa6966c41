//! Multicast with NACK repair: one sender sends each packet once to a group, and the network makes a copy for each
//! receiver (RFC 1112). Receivers report received and missing packets by unicast, and the sender sends missing packets
//! again to all.
//!
//! The protocol is modelled on Vrui, which feeds a cluster of displays (`Cluster/Multiplexer.cpp`): one window over all
//! receivers, limited by the slowest; each of n receivers answers every n-th packet, in turns, and reports a gap at
//! once. Vrui sends all packets from the gap on again and has no congestion control: `repair=go-back-n,cc=none`, with
//! `window=23136B` for the 16 packets of its default and `window=34704B` for the 24 of the configuration it ships. The
//! default here repairs missing packets only, and halves a congestion window at each loss.
//!
//! - The group's address is of the IPv4 local scope, 239.255.0.0/16 (RFC 2365, 6.1), its port from the range for
//!   private use (RFC 6335, 6); both follow from the trial's token, so the ends agree on nothing. Packets leave with a
//!   TTL of 1.
//! - Each receiver first proves its address as every flow of datagrams does. Then the sender calls the group until all
//!   have answered; from then on no receiver can join, and the transfer stops if one leaves.
//! - The UDP checksum (RFC 768) detects damaged packets, and the token's tag detects packets of strangers.
//!
//! [`wire`] has the formats.

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;

use socket2::{Domain, Protocol as IpProtocol, SockAddr, Socket, Type};

use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_base::units::Bytes;
use deadheat_contract::contract::{Guarantees, PeerFacts, Reach, Side};
use deadheat_datapath::datapath::datagram::{Binding, is_full, is_network_error};
use deadheat_datapath::datapath::destination;
use deadheat_datapath::datapath::ip_header::ArrivedHeader;
use deadheat_datapath::transport::frame::PREFIX;
use deadheat_datapath::transport::handover::readable;
use deadheat_datapath::transport::hello::{Hello, Token};
use deadheat_datapath::transport::udp_handshake::{self, DatagramListener, FlowTerms, UDP};
use deadheat_datapath::transport::userspace::parameters::{
    ConnParameters, Ends, ListenParameters, Sockets,
};
use deadheat_datapath::transport::userspace::{MTU, over_udp};
use deadheat_datapath::transport::*;
use ends::{ReceivingEnd, SendingEnd};
use terms::{GroupTerms, MulticastControl, RepairRule};
use wire::{Call, MulticastDatagram, Tag};

mod ends;
mod receiver;
mod sender;
mod terms;
#[cfg(test)]
mod tests;
mod wire;

/// The transport.
pub(super) struct Multicast;

static INFO: Info = Info {
    id: "multicast",
    label: "Multicast",
    colour: "#9a5fa8",
    summary: "UDP multicast with repair: one packet for all receivers",
    guarantees: Guarantees::BYTE_STREAM,
    peer: PeerFacts { is_group: true, ..PeerFacts::OURS },
    reach: Reach::Path,
    framing_bytes: PREFIX,
    keys: &[WINDOW.key(), REPAIR.key(), CONTROL.key(), MTU.key()],
    is_over_udp: false,
    ..Info::IN_USER_SPACE
};

const WINDOW: Preset<Bytes> = Optional::size("window", (576, 64 << 20))
    .or("256kB")
    .doc("the most bytes that any receiver may be behind, in whole packets and at least one");

const REPAIR: Preset<RepairRule> = Optional::choice(
    "repair",
    &["selective", "go-back-n"],
    &[RepairRule::Selective, RepairRule::GoBackN],
)
.or("selective")
.doc(
    "packets that are sent again: the missing ones of a receiver, or all from the first \
     missing one on",
);

const CONTROL: Preset<MulticastControl> =
    Optional::choice("cc", &["reno", "none"], &[MulticastControl::Reno, MulticastControl::None])
        .or("reno")
        .doc(
            "congestion control: RFC 5681 by the receiver that loses most, or nothing but the \
             window",
        );

impl Transport for Multicast {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn check(&self) -> Result<()> {
        udp_handshake::check(INFO.id)?;
        let socket = socket().and_then(|socket| {
            socket.join_multicast_v4(&Ipv4Addr::new(239, 255, 0, 1), &Ipv4Addr::LOCALHOST)
        });
        socket.map_err(|error| {
            Error::unsupported(
                INFO.id,
                format!(
                    "this kernel lets nobody join a group ({error}); it needs CONFIG_IP_MULTICAST"
                ),
            )
        })
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        let deadline = Monotonic.now() + dial.timeout;
        let Address::Several(far) = dial.to else { return Err(no_group()) };
        let mut proofs = Vec::with_capacity(far.len());
        for (number, to) in (0..).zip(far) {
            let to = SocketAddr::V4(v4(to)?);
            let hello = Hello { token: dial.hello.token, flow: number };
            let timeout = deadline - Monotonic.now();
            let flow = FlowTerms { hello, timeout, binding: Binding::Connected };
            proofs.push(udp_handshake::dial(UDP, to, flow, &|_| Ok(()))?.socket);
        }
        let group = group_of(&dial.hello.token);
        let failed = |source| Error::setup(format!("open a socket to the group {group}"), source);
        let near = proofs.first().and_then(|proof| proof.local_addr().ok()?.as_socket_ipv4());
        let near = *near.ok_or_else(no_group)?.ip();
        let sockets = senders(near, group).map_err(failed)?;
        let port = answered_at(&sockets).map_err(failed)?;
        [Some(&sockets.out), sockets.arrivals.as_ref()]
            .into_iter()
            .flatten()
            .try_for_each(over_udp::prepare)?;
        let ends = Ends { side: Side::Near, hello: dial.hello, peer: group.into() };
        let asked = ConnParameters::of(dial, deadline);
        let tag = Tag::of(&dial.hello.token);
        let conn = over_udp::connect(&INFO, sockets, &ends, asked, &|opening| {
            let terms = GroupTerms::new(opening, far.len() as u16)?;
            Ok(Box::new(SendingEnd::new(tag, terms, port)))
        });
        conn.map_err(|error| match error {
            Error::Blocked { evidence } => Error::blocked(format!(
                "each of {} receivers answers at its own address, and not all of them heard what was sent to the group \
                 {group}, of which they are members: {evidence}",
                far.len()
            )),
            error => error,
        })
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        refuse_server(&listen.door, INFO.id)?;
        let at = v4(listen.at)?;
        let group = group_of(&listen.token);
        let failed = |source| Error::setup(format!("join the group {group} at {at}"), source);
        let arrivals = member(*at.ip(), group).map_err(failed)?;
        over_udp::prepare(&arrivals)?;
        Ok(Box::new(MemberListener {
            arrivals,
            asked: ListenParameters::of(&listen),
            gate: DatagramListener::open(UDP, SocketAddr::V4(at), listen.token, listen.door)?,
            token: listen.token,
        }))
    }
}

struct MemberListener {
    /// Socket that receives the group's packets.
    arrivals: Socket,
    gate: DatagramListener,
    token: Token,
    asked: ListenParameters,
}

impl Listener for MemberListener {
    fn endpoint(&self) -> Address {
        Address::Ip(self.gate.at())
    }

    fn accept(&mut self, timeout: Nanos) -> Result<(u16, Box<dyn Conn>)> {
        let deadline = Monotonic.now() + timeout;
        let guest = self.gate.accept(timeout, &over_udp::prepare)?;
        let group = group_of(&self.token);
        let failed = |source| Error::setup(format!("hear the group {group}"), source);
        // The socket of the group stays unconnected: for frames without an address of their own (a TUN device), Linux
        // looks for a connected socket first, finds one of several, and the others receive nothing
        // (`udp_v4_early_demux`).
        let call = self.called(deadline)?;
        let answers = SocketAddr::new(guest.peer.ip(), call.port);
        guest.socket.connect(&answers.into()).map_err(failed)?;
        let ends = Ends { side: Side::Far, hello: guest.hello, peer: answers };
        let asked = self.asked.until(deadline);
        let arrivals = self.arrivals.try_clone().map_err(failed)?;
        let sockets =
            Sockets { out: guest.socket, arrivals: Some(arrivals), arrived: guest.arrived };
        let (tag, index) = (Tag::of(&self.token), guest.hello.flow);
        let conn = over_udp::connect(&INFO, sockets, &ends, asked, &|opening| {
            Ok(Box::new(ReceivingEnd::new(tag, GroupTerms::called(opening, &call), index)))
        })?;
        Ok((index, conn))
    }
}

impl MemberListener {
    /// Waits for the sender's call of the group, at most until `deadline`.
    fn called(&self, deadline: Nanos) -> Result<Call> {
        let group = group_of(&self.token);
        let failed = |source| Error::setup(format!("hear the group {group}"), source);
        let (tag, mut strangers) = (Tag::of(&self.token), 0u64);
        loop {
            let now = Monotonic.now();
            if now >= deadline {
                return Err(Error::blocked(format!(
                    "the sender proved its address, and none of its calls to the group {group} arrived; {strangers} other \
                     datagrams to it did: what is between drops or does not forward multicast"
                )));
            }
            if !readable(self.arrivals.as_fd(), deadline - now).map_err(failed)? {
                continue;
            }
            let mut bytes = [0; 64];
            match destination::receive_from(&self.arrivals, &mut bytes) {
                Ok((len, ..)) => match wire::read(tag, &bytes[..len]) {
                    Some(MulticastDatagram::Call(call)) => return Ok(call),
                    _ => strangers += 1,
                },
                Err(error) if is_full(&error) || is_network_error(&error) => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

/// Returns the group of a trial: address and port are derived from bytes of the token that mark no datagram.
fn group_of(token: &Token) -> SocketAddrV4 {
    let [a, b, c, d] = [12, 13, 14, 15].map(|at| token.bytes()[at]);
    let port = 49_152 + (u16::from_be_bytes([c, d]) & 0x3fff);
    SocketAddrV4::new(Ipv4Addr::new(239, 255, a, b), port)
}

/// Returns an address of IPv4.
///
/// # Errors
/// [`Error::Usage`] for any other.
fn v4(address: &Address) -> Result<SocketAddrV4> {
    match address.ip(INFO.id)? {
        SocketAddr::V4(address) => Ok(address),
        SocketAddr::V6(address) => match address.ip().to_canonical() {
            IpAddr::V4(ip) => Ok(SocketAddrV4::new(ip, address.port())),
            IpAddr::V6(ip) => Err(Error::usage(format!(
                "{}: {ip} is of IPv6, and groups are of IPv4 here; race it over IPv4",
                INFO.id
            ))),
        },
    }
}

fn no_group() -> Error {
    Error::usage(format!(
        "{}: it sends to all receivers of a trial at once, and there are none",
        INFO.id
    ))
}

fn socket() -> io::Result<Socket> {
    Socket::new(Domain::IPV4, Type::DGRAM, Some(IpProtocol::UDP))
}

/// Opens the sockets of a sender at the host's address `near`: one to the group, and one for answers.
fn senders(near: Ipv4Addr, group: SocketAddrV4) -> io::Result<Sockets> {
    let here = SockAddr::from(SocketAddrV4::new(near, 0));
    let out = socket()?;
    // Selects the interface by its address, whatever the routing table has for groups (ip(7)).
    out.set_multicast_if_v4(&near)?;
    out.set_multicast_ttl_v4(1)?;
    // Receivers may be on this host.
    out.set_multicast_loop_v4(true)?;
    out.bind(&here)?;
    out.connect(&group.into())?;
    let arrivals = socket()?;
    arrivals.bind(&here)?;
    Ok(Sockets { out, arrivals: Some(arrivals), arrived: ArrivedHeader::default() })
}

/// Returns the port that receives answers.
fn answered_at(sockets: &Sockets) -> io::Result<u16> {
    let at = sockets.arrivals.as_ref().unwrap_or(&sockets.out).local_addr()?;
    at.as_socket()
        .map(|at| at.port())
        .ok_or_else(|| io::Error::other("a socket without IP address"))
}

/// Opens the socket of a receiver at the host's address `at`. All receivers of a host share the group's port, and each gets
/// a copy (socket(7), `SO_REUSEADDR`).
fn member(at: Ipv4Addr, group: SocketAddrV4) -> io::Result<Socket> {
    let arrivals = socket()?;
    arrivals.set_reuse_address(true)?;
    // Bound to the group, the socket receives nothing sent to another group on this port.
    arrivals.bind(&group.into())?;
    arrivals.join_multicast_v4(group.ip(), &at)?;
    Ok(arrivals)
}
