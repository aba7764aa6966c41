//! WebSocket (RFC 6455) by tungstenite: messages over the kernel's TCP (`ws`), or over TLS on it (`wss`), as in
//! browsers. The near end is the client and masks its frames, as the standard demands; compression is not negotiated.
//!
//! The close of a WebSocket ends both directions, so an empty message ends one direction, and the end that finishes
//! second closes.

use std::io;

use socket2::Socket;

use crate::stream::{self, Flavour, FlavourFacts};
use crate::tcp::{self, Variant};
use crate::tls::{self, OFFLOAD, RECORD, TlsFlavour};
use deadheat_base::error::Result;
use deadheat_base::spec::{Key, Kind};
use deadheat_contract::contract::{Framing, Guarantees, Side};
use deadheat_datapath::transport::application::MessageTerms;
use deadheat_datapath::transport::plain::{PlainOpening, PlainProtocol, PlainTransport};
use deadheat_datapath::transport::{
    Conn, ConnInfo, Dial, Effective, Info, Listen, Listener, Place, Transport, identity, options,
};

mod conn;
mod others;

use conn::WsConn;
pub use others::read_frames;

/// WebSocket over TCP.
pub(super) struct Ws;

/// WebSocket over TLS.
pub(super) struct Wss;

/// Largest message in bytes: the library's default limit of a frame.
const LARGEST: u64 = 16 << 20;

/// Bytes of a frame's header, for messages of 126 to 65,535 bytes; shorter ones take 2, longer ones 10. The client adds
/// a mask of 4 (RFC 6455, 5.2).
const HEADER: usize = 4;

const PROMISED: Guarantees = Guarantees {
    framing: Framing::Messages,
    largest_message: Some(LARGEST),
    ..Guarantees::BYTE_STREAM
};

static WS_INFO: Info = Info {
    id: "ws",
    label: "WebSocket",
    colour: "#c0602f",
    implementation: env!("DEADHEAT_TUNGSTENITE"),
    summary: "WebSocket over the kernel's TCP, as in browsers",
    guarantees: PROMISED,
    framing_bytes: HEADER,
    options: &[options::NODELAY],
    keys: deadheat_base::keys![
        tcp::CC,
        tcp::NODELAY,
        tcp::SNDBUF,
        tcp::RCVBUF,
        tcp::FASTOPEN,
        tcp::THIN,
        IO,
        RX
    ],
    // Nagle's algorithm is off: tungstenite's own client switches it off.
    deployed: &[tcp::OWN_CC],
    ..Info::KERNEL
};

static WSS_INFO: Info = Info {
    id: "wss",
    label: "WebSocket over TLS",
    colour: "#7d3a1a",
    summary: "WebSocket over TLS 1.3, as in browsers",
    guarantees: Guarantees { encrypted: true, ..PROMISED },
    framing_bytes: HEADER + RECORD,
    options: &[options::NODELAY],
    keys: deadheat_base::keys![
        tcp::CC,
        tcp::NODELAY,
        tcp::SNDBUF,
        tcp::RCVBUF,
        tcp::FASTOPEN,
        tcp::THIN,
        identity::CIPHER,
        identity::CERTIFICATE,
        identity::RESUME,
        OFFLOAD,
        IO,
        RX
    ],
    implementation: env!("DEADHEAT_TUNGSTENITE"),
    deployed: &[tcp::OWN_CC, identity::OWN_CIPHER, identity::OWN_RESUME],
    ..Info::KERNEL
};

const IO: Key = Key {
    kind: Kind::Choice(&["write"]),
    doc: "how bulk data is sent: frames are put together, and handed over by 128 KiB",
    ..stream::IO.key()
};

const RX: Key = Key {
    kind: Kind::Choice(&["read"]),
    doc: "how bulk data is received: by up to 128 KiB, and taken apart",
    ..stream::RX.key()
};

const WS: Variant = Variant { id: "ws", ..tcp::TCP };
const WSS: Variant = Variant { id: "wss", ..tcp::TCP };

impl Transport for Ws {
    fn info(&self) -> &'static Info {
        &WS_INFO
    }

    fn check(&self) -> Result<()> {
        tcp::check(WS)
    }

    fn check_knob(&self, key: &str, value: &str, place: Place) -> Result<()> {
        tcp::check_settings(WS, key, value, place)
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        let flavour = WsFlavour { below: tcp::TcpOptions::from(dial.knobs), around: 0 };
        tcp::dial(WS, dial, flavour)
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        let flavour = WsFlavour { below: tcp::TcpOptions::from(listen.knobs), around: 0 };
        tcp::listen(WS, listen, flavour)
    }
}

impl Transport for Wss {
    fn info(&self) -> &'static Info {
        &WSS_INFO
    }

    fn check(&self) -> Result<()> {
        tcp::check(WSS)
    }

    fn check_knob(&self, key: &str, value: &str, place: Place) -> Result<()> {
        tls::check_knob(WSS.id, key, value)?;
        tcp::check_settings(WSS, key, value, place)
    }

    fn plain(&self) -> Option<&'static PlainTransport> {
        Some(&PLAIN)
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        let below = TlsFlavour::new(WSS.id, dial.knobs, dial.hello.token, dial.tickets)?;
        tcp::dial(WSS, dial, WsFlavour { below, around: RECORD })
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        let below = TlsFlavour::new(WSS.id, listen.knobs, listen.token, &listen.tickets)?;
        tcp::listen(WSS, listen, WsFlavour { below, around: RECORD })
    }
}

/// Connections to programs of others.
static PLAIN: PlainTransport =
    PlainTransport { protocol: PlainProtocol::WSS, opening: PlainOpening::Messages(open_plain) };

fn open_plain(dial: &Dial<'_>, terms: MessageTerms) -> Result<Box<dyn Conn>> {
    let own = TlsFlavour::new(WSS.id, dial.knobs, dial.hello.token, dial.tickets)?;
    let flavour = own.against_others(&terms.name, terms.pin.as_deref(), BELOW)?;
    let (socket, connect_ns) = tcp::connect(WSS, dial, |socket| flavour.apply(socket))?;
    flavour.connected(&socket)?;
    others::connect(socket, flavour, terms, (dial, connect_ns))
}

/// Protocol that a WebSocket begins with (RFC 7301).
const BELOW: &[&str] = &["http/1.1"];

/// WebSocket over a byte stream.
#[derive(Clone)]
struct WsFlavour<F> {
    /// Flavour of the byte stream below.
    below: F,
    /// Bytes that it adds to each frame.
    around: usize,
}

impl<F: Flavour> Flavour for WsFlavour<F> {
    type Channel = F::Channel;

    fn facts(&self) -> FlavourFacts {
        FlavourFacts { rearms: false, joins: false, ..self.below.facts() }
    }

    fn apply(&self, socket: &Socket) -> Result<()> {
        self.below.apply(socket)
    }

    fn connected(&self, socket: &Socket) -> Result<()> {
        self.below.connected(socket)
    }

    fn connection(
        &self,
        socket: Socket,
        side: Side,
        largest_message: usize,
        connect_ns: u64,
    ) -> io::Result<Box<dyn Conn>> {
        let channel = self.open(socket, side)?;
        let conn = WsConn::open(channel, self.clone(), side, largest_message, connect_ns)?;
        Ok(Box::new(conn))
    }

    fn open(&self, socket: Socket, side: Side) -> io::Result<F::Channel> {
        self.below.open(socket, side)
    }

    fn effective(&self, channel: &F::Channel) -> Effective {
        let mut read = self.below.effective(channel);
        read.extend([("io", "write"), ("rx", "read")].map(|(k, v)| (k.to_owned(), v.to_owned())));
        read
    }

    fn info(&self, channel: &F::Channel, connect_ns: u64) -> ConnInfo {
        let ConnInfo { mut stats, view } = self.below.info(channel, connect_ns);
        if let Some(headers) = &mut stats.headers {
            headers.framing_bytes = self.around as u64;
        }
        ConnInfo { stats, view }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::testing::{ConnRig, Kept, knobs};
    use deadheat_base::time::Nanos;
    use deadheat_contract::contract::{Lane, Patience};
    use deadheat_datapath::transport::{Address, Progress};

    /// Returns the near and the far end.
    fn ends(transport: &dyn Transport) -> [Box<dyn Conn>; 2] {
        let info = transport.info();
        let knobs = knobs(info.id, info.keys);
        let at = Address::Ip((Ipv4Addr::LOCALHOST, 0).into());
        ConnRig::ordered(transport, &knobs, 100_000).ends(&at)
    }

    #[test]
    fn headers_are_those_of_the_frames_and_the_client_masks() {
        for (transport, around) in [(&Ws as &dyn Transport, 0), (&Wss, RECORD as u64)] {
            let [mut near, mut far] = ends(transport);
            for (len, header) in [(1, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10)] {
                assert_eq!(near.send(Lane(0), &vec![7; len]).unwrap(), Progress::Moved);
                let mut kept = Kept::default();
                while kept.0.is_empty() {
                    near.flush().unwrap();
                    far.receive(Patience::Block, &mut kept).unwrap();
                }
                assert_eq!(kept.0, [vec![7; len]]);
                assert_eq!(near.info().stats.headers.unwrap().framing_bytes, header + 4 + around);
                assert_eq!(far.send(Lane(0), &kept.0[0]).unwrap(), Progress::Moved);
                let mut back = Kept::default();
                while back.0.is_empty() {
                    far.flush().unwrap();
                    near.receive(Patience::Block, &mut back).unwrap();
                }
                assert_eq!(far.info().stats.headers.unwrap().framing_bytes, header + around);
            }
            assert!(near.info().stats.connect_ns > 0);
        }
    }

    #[test]
    fn what_came_with_the_answer_to_the_handshake_is_due_at_once() {
        let [mut near, mut far] = ends(&Ws);
        assert_eq!(near.next_deadline(), Some(Nanos::ZERO));
        assert_eq!(near.receive(Patience::None, &mut Kept::default()).unwrap(), Progress::Idle);
        assert_eq!(near.next_deadline(), None);
        // The second end to finish closes, and the other receives that.
        near.finish().unwrap();
        while far.receive(Patience::Block, &mut Kept::default()).unwrap() != Progress::Closed {}
        far.finish().unwrap();
        while near.receive(Patience::Block, &mut Kept::default()).unwrap() != Progress::Closed {}
    }
}
