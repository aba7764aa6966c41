//! Multipath TCP (RFC 8684) of the kernel: one byte stream over several TCP connections, the subflows, each of which
//! may take another link. If the peer or the path supports TCP only, the kernel falls back to it; such a connection is
//! refused here, since it would measure TCP.

use std::io;

use socket2::{Protocol, Socket};

use crate::stream::{self, Flavour, FlavourFacts};
use crate::tcp::{self, Variant};
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::{Key, Kind};
use deadheat_contract::contract::{Guarantees, Side};
use deadheat_contract::measurements::Headers;
use deadheat_datapath::datapath::option;
use deadheat_datapath::datapath::stream::CountedSocket;
use deadheat_datapath::datapath::tcp_info::subflows::{Subflows, subflows};
use deadheat_datapath::transport::plain::{Greeting, PlainOpening, PlainProtocol, PlainTransport};
use deadheat_datapath::transport::{
    Address, Conn, ConnInfo, Dial, Effective, Info, Listen, Listener, Transport, frame, options,
};

/// Multipath TCP over IPv4 and IPv6.
pub(super) struct Mptcp;

static INFO: Info = Info {
    id: "mptcp",
    label: "MPTCP",
    colour: "#7a4fa3",
    summary: "the kernel's multipath TCP: one byte stream over all links",
    guarantees: Guarantees::BYTE_STREAM,
    framing_bytes: frame::PREFIX,
    options: &[options::NODELAY],
    keys: KEYS,
    deployed: &[tcp::OWN_CC, tcp::OWN_NODELAY],
    opens_at_once: true,
    ..Info::KERNEL
};

const KEYS: &[Key] = &[
    tcp::CC.key(),
    tcp::NODELAY.key(),
    tcp::SNDBUF.key(),
    tcp::RCVBUF.key(),
    Key {
        kind: Kind::Choice(&["write", "writev"]),
        doc: "how bulk data is sent: write: send(2); writev: the same in 16 pieces",
        ..stream::IO.key()
    },
    Key {
        kind: Kind::Choice(&["read"]),
        doc: "how bulk data is received: recv(2)",
        ..stream::RX.key()
    },
];

const MPTCP: Variant = Variant { id: "mptcp", protocol: Protocol::MPTCP, ..tcp::TCP };

impl Transport for Mptcp {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn check(&self) -> Result<()> {
        tcp::any(MPTCP).map(drop).map_err(|e| {
            Error::unsupported(
                INFO.id,
                format!(
                    "this host gives no socket ({e}); it takes Linux 5.6 with CONFIG_MPTCP and sysctl \
                     net.mptcp.enabled=1"
                ),
            )
        })
    }

    fn plain(&self) -> Option<&'static PlainTransport> {
        Some(&PLAIN)
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        let options = tcp::TcpOptions::from(dial.knobs);
        tcp::dial(MPTCP, dial, MptcpFlavour { options, to: Some(dial.to.clone()) })
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        let options = tcp::TcpOptions::from(listen.knobs);
        tcp::listen(MPTCP, listen, MptcpFlavour { options, to: None })
    }
}

/// Connections to programs of others.
static PLAIN: PlainTransport =
    PlainTransport { protocol: PlainProtocol::MPTCP, opening: PlainOpening::Greeted(open_plain) };

fn open_plain(dial: &Dial<'_>, greeting: &Greeting<'_>) -> Result<Box<dyn Conn>> {
    let options = tcp::TcpOptions::from(dial.knobs);
    let flavour = MptcpFlavour { options, to: Some(dial.to.clone()) };
    tcp::greet(MPTCP, dial, flavour, greeting)
}

/// Properties of multipath TCP that TCP does not have.
#[derive(Debug, Clone)]
struct MptcpFlavour {
    options: tcp::TcpOptions,
    /// Address that a near end dials.
    to: Option<Address>,
}

impl Flavour for MptcpFlavour {
    type Channel = CountedSocket;

    /// Returns the facts: subflows arrive at the listener, as connections that name the one they belong to.
    fn facts(&self) -> FlavourFacts {
        let FlavourFacts { engines, header, acknowledges, .. } = self.options.facts();
        let facts = FlavourFacts::moved_by(engines);
        FlavourFacts { joins: true, header, acknowledges, ..facts }
    }

    fn apply(&self, socket: &Socket) -> Result<()> {
        self.options.apply(socket)
    }

    /// Checks that the first packets did not fall back to TCP: both ends and all boxes between them must support the
    /// protocol.
    fn connected(&self, socket: &Socket) -> Result<()> {
        match (&self.to, subflows(socket)) {
            (Some(to), Err(e)) => Err(Error::blocked(format!(
                "connected to {to} by TCP alone, without multipath: the far end does not speak it, or the path \
                 removes its options ({e})"
            ))),
            _ => Ok(()),
        }
    }

    fn open(&self, socket: Socket, side: Side) -> io::Result<CountedSocket> {
        self.options.open(socket, side)
    }

    /// Returns TCP's options and the number of subflows, known after the first data.
    fn effective(&self, channel: &CountedSocket) -> Effective {
        let mut read = self.options.effective(channel);
        // These belong to the first of several subflows.
        let of_one = ["mss", "quickack", "notsent_lowat", "thin", "fastopen", "ecn", "recovery"];
        read.retain(|key, _| !of_one.contains(&key.as_str()));
        let subflows = match subflows(channel.socket()) {
            Ok(subflows) => subflows.count().to_string(),
            Err(_) => "none: it fell back to TCP".to_owned(),
        };
        read.insert("subflows".to_owned(), subflows);
        read
    }

    /// Returns the sum over all subflows.
    fn info(&self, channel: &CountedSocket, connect_ns: u64) -> ConnInfo {
        let counted = stream::counted(channel, connect_ns);
        let Ok(subflows) = subflows(channel.socket()) else { return counted };
        let Some(view) = subflows.together() else { return counted };
        let headers = Headers {
            ip_bytes: option::ip_header_bytes(channel.socket()),
            transport_bytes: Subflows::HEADER,
            framing_bytes: frame::PREFIX as u64,
            mtu: Some(subflows.pmtu_bytes()),
            packets: view.data_segs_out.map(|out| out.saturating_sub(view.retransmits)),
        };
        stream::reported(counted, view, headers)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::testing::{ConnRig, LONG, knobs};

    #[test]
    fn both_ends_speak_it_and_say_over_how_many_subflows() {
        if Mptcp.check().is_err() {
            return;
        }
        let knobs = knobs("mptcp:cc=reno", KEYS);
        let rig = ConnRig::ordered(&Mptcp, &knobs, 100);
        let at = Address::Ip((Ipv4Addr::LOCALHOST, 0).into());
        let [near, far] = rig.ends(&at);
        for end in [near.effective(), far.effective()] {
            assert_eq!((end["subflows"].as_str(), end["cc"].as_str()), ("1", "reno"));
        }
        let stats = near.info().stats;
        assert!(stats.connect_ns > 0);
        assert_eq!(stats.retransmits, Some(0));
        assert!(stats.headers.unwrap().packets.unwrap() >= 1);
    }

    #[test]
    fn a_far_end_that_speaks_tcp_alone_is_told_apart() {
        if Mptcp.check().is_err() {
            return;
        }
        let plain = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let knobs = knobs("mptcp:cc=reno", KEYS);
        let rig = ConnRig::ordered(&Mptcp, &knobs, 100);
        let to = Address::Ip(plain.local_addr().unwrap());
        let error = rig.dial(&to, LONG).err().unwrap();
        assert!(matches!(error, Error::Blocked { .. }), "{error}");
        assert!(error.to_string().contains("by TCP alone"), "{error}");
    }
}
