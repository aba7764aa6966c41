//! UDP-Lite (RFC 3828): UDP with a checksum over the part of a datagram that the sender chooses. The rest may arrive
//! damaged, for codecs that prefer damaged data to none.
//!
//! Its sockets and calls are UDP's except the offloads, which the kernel lacks for it.

use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

use crate::udp::{self, BATCH, CONNECTED, COVERAGE, DF, IO, LARGEST, RCVBUF, RX, SNDBUF};
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::{Key, Kind};
use deadheat_contract::contract::{Guarantees, Reach};
use deadheat_datapath::transport::own_port::{DatagramPort, OwnPort};
use deadheat_datapath::transport::udp_handshake::Variant;
use deadheat_datapath::transport::{Conn, Dial, Info, Listen, Listener, Transport};

/// UDP-Lite of the kernel.
pub(super) struct UdpLite;

const UDP_LITE: Variant = Variant { id: "udplite", label: "UDP-Lite", protocol: Protocol::UDPLITE };

static INFO: Info = Info {
    id: UDP_LITE.id,
    label: UDP_LITE.label,
    colour: "#c9a227",
    summary: "datagrams with a checksum over a part that you choose",
    guarantees: Guarantees { largest_message: Some(LARGEST), ..Guarantees::DATAGRAMS },
    reach: Reach::OwnPort,
    keys: &[
        COVERAGE.key(),
        Key {
            kind: Kind::Choice(&["send", "sendmmsg"]),
            default: "sendmmsg",
            doc: "how bulk data is sent: a datagram a call, or many",
            ..IO.key()
        },
        Key {
            kind: Kind::Choice(&["recv", "recvmmsg"]),
            default: "recvmmsg",
            doc: "how bulk data is received: a datagram a call, or many",
            ..RX.key()
        },
        Key {
            doc: "most datagrams per sendmmsg or recvmmsg, within the workload's call size; not set: 64",
            ..BATCH.key()
        },
        CONNECTED.key(),
        DF.key(),
        RCVBUF.key(),
        SNDBUF.key(),
    ],
    own_port: Some(own_port),
    ..Info::KERNEL
};

impl Transport for UdpLite {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn check(&self) -> Result<()> {
        let open = |domain| Socket::new(domain, Type::DGRAM, Some(UDP_LITE.protocol));
        open(Domain::IPV4).or_else(|_| open(Domain::IPV6)).map(drop).map_err(|e| {
            Error::unsupported(INFO.id, format!("kernel has no UDP-Lite (socket: {e}); udp works"))
        })
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        udp::dial(UDP_LITE, dial)
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        udp::listen(UDP_LITE, listen)
    }
}

/// Opens the port of a server for this protocol.
fn own_port(at: SocketAddr) -> Result<Box<dyn OwnPort>> {
    UdpLite.check()?;
    Ok(Box::new(DatagramPort::open(UDP_LITE, at)?))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;
    use crate::testing::{ConnRig, Kept, knobs};
    use deadheat_base::units::Bytes;
    use deadheat_contract::contract::{Lane, Patience};
    use deadheat_datapath::datapath::option;
    use deadheat_datapath::transport::Address;

    #[test]
    fn the_coverage_is_what_was_asked_for_at_both_ends() {
        if UdpLite.check().is_err() {
            return;
        }
        for (typed, tells) in [("udplite", "all"), ("udplite:coverage=20", "20 B")] {
            let knobs = knobs(typed, INFO.keys);
            let at = Address::Ip((Ipv4Addr::LOCALHOST, 0).into());
            let [mut near, mut far] = ConnRig::best_effort(&UdpLite, &knobs, 2_000).ends(&at);
            assert_eq!(near.effective()["coverage"], tells);
            assert_eq!(far.effective()["coverage"], tells);
            near.send(Lane(0), &[7; 2_000]).unwrap();
            let mut kept = Kept::default();
            far.receive(Patience::Block, &mut kept).unwrap();
            assert_eq!(kept.0, [[7; 2_000]]);
        }
    }

    /// The kernel drops datagrams covered less than the receiver requires, and never fully covered ones.
    #[test]
    fn a_receiver_drops_what_is_covered_too_little() {
        if UdpLite.check().is_err() {
            return;
        }
        let open = |coverage: Option<u64>| {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDPLITE)).unwrap();
            socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
            option::cover(&socket, coverage.map(Bytes)).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            socket
        };
        let far = open(Some(100));
        for (coverage, arrives) in [(Some(99), false), (Some(100), true), (None, true)] {
            open(coverage).send_to(&[1; 200], &far.local_addr().unwrap()).unwrap();
            let got = far.recv(&mut [std::mem::MaybeUninit::uninit(); 300]).ok();
            assert_eq!(got, arrives.then_some(200), "{coverage:?}");
        }
    }
}
