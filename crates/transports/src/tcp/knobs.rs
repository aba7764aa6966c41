//! Knobs of TCP: as typed, as a socket takes them, and as the kernel reports them.

use std::io;
use std::os::fd::AsFd;

use socket2::Socket;

use super::ecn::{ECN, EcnRequest};
use super::fastopen;
use crate::stream::{self, Flavour, FlavourFacts, StreamEngines};
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset, Text};
use deadheat_base::spec::{Key, Kind, Settings};
use deadheat_base::units::Bytes;
use deadheat_contract::contract::Side;
use deadheat_contract::measurements::{ConnStats, Headers};
use deadheat_datapath::datapath::stamps::{KeyUnit, Stamps};
use deadheat_datapath::datapath::stream::CountedSocket;
use deadheat_datapath::datapath::{option, tcp_info};
use deadheat_datapath::transport::equal::{self, OwnDefault};
use deadheat_datapath::transport::header::HeaderTerms;
use deadheat_datapath::transport::{ConnInfo, Effective, frame};

/// Congestion control.
pub(crate) const CC: Text =
    Text::word("cc").or(equal::CC).doc("congestion control; `host` leaves the host's default");

/// Nagle's algorithm.
pub(crate) const NODELAY: Preset<bool> = Optional::switch("nodelay")
    .or(equal::NODELAY)
    .doc("send small messages at once (TCP_NODELAY); off: Nagle's algorithm, RFC 896");

/// Defaults of a kernel by itself.
pub(crate) const OWN_CC: OwnDefault =
    OwnDefault { knob: CC.name(), value: "host", source: "sysctl net.ipv4.tcp_congestion_control" };
pub(crate) const OWN_NODELAY: OwnDefault = OwnDefault {
    knob: NODELAY.name(),
    value: "off",
    source: "tcp(7): Nagle's algorithm unless TCP_NODELAY",
};

/// Send buffer.
pub(crate) const SNDBUF: Optional<Bytes> = Optional::size("sndbuf", (2048, 1 << 30))
    .doc("send buffer (SO_SNDBUF, which Linux doubles); not set: the kernel tunes it");

/// Receive buffer.
pub(crate) const RCVBUF: Optional<Bytes> = Optional::size("rcvbuf", (2048, 1 << 30))
    .doc("receive buffer (SO_RCVBUF, which Linux doubles); not set: the kernel tunes it");

/// Data in the SYN.
pub(crate) const FASTOPEN: Preset<bool> = Optional::choice("fastopen", &["off", "on"], &[false, true])
    .or("off")
    .doc("on: TCP Fast Open (RFC 7413): data in the SYN, once a first connection of the trial has the cookie; takes bits 1 \
     (near end) and 2 (far end) of sysctl net.ipv4.tcp_fastopen");

/// Timeouts of streams with few packets under way.
pub(crate) const THIN: Preset<bool> = Optional::switch("thin").or("off").doc(
    "on: while fewer than 4 packets are under way, the first 6 retransmission timeouts \
     do not double (TCP_THIN_LINEAR_TIMEOUTS)",
);

pub(super) const KEYS: &[Key] = &[
    CC.key(),
    NODELAY.key(),
    SNDBUF.key(),
    RCVBUF.key(),
    FASTOPEN.key(),
    THIN.key(),
    ECN.key(),
    MSS.key(),
    QUICKACK.key(),
    NOTSENT_LOWAT.key(),
    Key {
        kind: Kind::Choice(&[
            "write",
            "writev",
            "sendfile",
            "splice",
            "zerocopy",
            "uring",
            "uring+zerocopy",
        ]),
        doc: "how bulk data is sent: write: send(2); writev: the same in 16 pieces; sendfile: from a file's pages; \
             splice: from them through a pipe, two calls; zerocopy: MSG_ZEROCOPY, with completions; uring: io_uring, up \
             to 16 linked sends at once",
        ..stream::IO.key()
    },
    Key {
        kind: Kind::Choice(&["read", "trunc", "splice", "uring"]),
        doc: "how bulk data is received: read: recv(2); trunc: dropped in the kernel, not copied (MSG_TRUNC); splice: \
             through a pipe into the sink's file or /dev/null, two calls; uring: io_uring, one request fills buffer after \
             buffer",
        ..stream::RX.key()
    },
];

const MSS: Optional<Bytes> = Optional::size("mss", (88, 32_767))
    .doc("largest segment (TCP_MAXSEG); not set: the largest that the path allows");

const QUICKACK: Optional<bool> = Optional::switch("quickack").doc(
    "acknowledge at once (TCP_QUICKACK), set again after each receive; not set: the \
     kernel decides",
);

const NOTSENT_LOWAT: Optional<Bytes> = Optional::size("notsent_lowat", (1, 1 << 30))
    .doc("unsent bytes above which the socket has no room (TCP_NOTSENT_LOWAT)");

/// Knobs as the socket takes them.
#[derive(Debug, Clone)]
pub(crate) struct TcpOptions {
    pub(super) cc: CongestionChoice,
    nodelay: bool,
    sndbuf: Option<usize>,
    rcvbuf: Option<usize>,
    mss: Option<u32>,
    quickack: Option<bool>,
    notsent_lowat: Option<u32>,
    fastopen: bool,
    thin: bool,
    ecn: Option<EcnRequest>,
    engines: StreamEngines,
    header: HeaderTerms,
}

#[derive(Debug, Clone)]
pub(super) enum CongestionChoice {
    /// Default of the host.
    Host,
    /// Default of the race: this one, or the host's default if the kernel lacks it.
    Preferred(String),
    /// Typed by the user: this one, or an error.
    Asked(String),
}

impl From<&Settings> for TcpOptions {
    fn from(knobs: &Settings) -> TcpOptions {
        // The keys' ranges keep every size within 32 bits.
        let size = |key| knobs.find(key).and_then(|size: Bytes| u32::try_from(size.0).ok());
        TcpOptions {
            cc: match knobs.text_of(&CC) {
                None | Some("host") => CongestionChoice::Host,
                Some(name) if knobs.given(CC.name()) => CongestionChoice::Asked(name.to_owned()),
                Some(name) => CongestionChoice::Preferred(name.to_owned()),
            },
            nodelay: knobs.get(&NODELAY),
            sndbuf: size(&SNDBUF).map(|size| size as usize),
            rcvbuf: size(&RCVBUF).map(|size| size as usize),
            mss: size(&MSS),
            quickack: knobs.find(&QUICKACK),
            notsent_lowat: size(&NOTSENT_LOWAT),
            fastopen: knobs.get(&FASTOPEN),
            thin: knobs.get(&THIN),
            ecn: knobs.find(&ECN),
            engines: StreamEngines::from(knobs),
            header: HeaderTerms::of(knobs),
        }
    }
}

impl TcpOptions {
    fn set_congestion_control(&self, socket: &Socket) -> Result<()> {
        match &self.cc {
            // A connection that a server handed over has what its listener has.
            CongestionChoice::Host => {
                if let Ok(name) =
                    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")
                {
                    let _ = socket.set_tcp_congestion(name.trim().as_bytes());
                }
                Ok(())
            }
            CongestionChoice::Preferred(name) => {
                // If this fails, the host's default stays, and `effective` shows it.
                let _ = socket.set_tcp_congestion(name.as_bytes());
                Ok(())
            }
            CongestionChoice::Asked(name) => socket
                .set_tcp_congestion(name.as_bytes())
                .map_err(|e| no_congestion_control(name, &e)),
        }
    }
}

fn no_congestion_control(name: &str, error: &io::Error) -> Error {
    let list = |file| std::fs::read_to_string(format!("/proc/sys/net/ipv4/{file}"));
    let (lacks, file) = match error.kind() {
        io::ErrorKind::PermissionDenied => (
            "only root may choose it (sysctl net.ipv4.tcp_allowed_congestion_control)",
            "tcp_allowed_congestion_control",
        ),
        _ => ("the kernel has no such congestion control", "tcp_available_congestion_control"),
    };
    let valid = list(file).unwrap_or_default();
    let valid: Vec<&str> = valid.split_whitespace().chain(["host"]).collect();
    Error::unsupported(
        format!("tcp:cc={name}"),
        format!("{lacks}: {error}; available here: {}", valid.join(", ")),
    )
}

/// Returns true if timeouts of a thin stream are linear; `None` if the kernel does not report it.
fn thin(socket: &Socket) -> Option<bool> {
    let mut value = [0];
    let name = libc::TCP_THIN_LINEAR_TIMEOUTS;
    option::get(socket.as_fd(), libc::IPPROTO_TCP, name, &mut value)?;
    Some(value[0] != 0)
}

/// Returns the method of loss detection, from `net.ipv4.tcp_recovery` of this thread's network namespace
/// (ip-sysctl.rst): its first bit is RACK (RFC 8985). There is no option of a connection.
fn recovery() -> Option<String> {
    let value = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_recovery").ok()?;
    let is_rack = value.trim().parse::<u32>().ok()? & 1 != 0;
    Some(if is_rack { "rack" } else { "duplicate acknowledgements" }.to_owned())
}

fn set<T>(key: &str, value: Option<T>, setter: impl FnOnce(T) -> io::Result<()>) -> Result<()> {
    value.map_or(Ok(()), setter).map_err(|e| Error::setup(format!("set {key} on a tcp socket"), e))
}

impl Flavour for TcpOptions {
    type Channel = CountedSocket;

    /// Returns the facts. TCP_QUICKACK is not permanent: the kernel may leave the mode at any time (tcp(7)).
    fn facts(&self) -> FlavourFacts {
        FlavourFacts {
            engines: self.engines,
            header: self.header,
            opens_fast: self.fastopen,
            ecn: self.ecn,
            joins: false,
            rearms: self.quickack == Some(true),
            acknowledges: true,
            counts_arrivals: true,
        }
    }

    fn open(&self, socket: Socket, _side: Side) -> io::Result<CountedSocket> {
        CountedSocket::new(socket)
    }

    fn stamps<'a>(&self, channel: &'a mut CountedSocket) -> Option<io::Result<&'a mut Stamps>> {
        if channel.stamps().is_none()
            && let Err(error) = channel.switch_stamps_on(KeyUnit::Bytes)
        {
            return Some(Err(error));
        }
        channel.stamps().map(Ok)
    }

    fn apply(&self, socket: &Socket) -> Result<()> {
        self.set_congestion_control(socket)?;
        self.header.set(socket)?;
        set("nodelay", Some(self.nodelay), |on| socket.set_tcp_nodelay(on))?;
        set("sndbuf", self.sndbuf, |size| socket.set_send_buffer_size(size))?;
        set("rcvbuf", self.rcvbuf, |size| socket.set_recv_buffer_size(size))?;
        set("mss", self.mss, |size| socket.set_tcp_mss(size))?;
        set("thin", self.thin.then_some(1), |on| {
            // TCP_THIN_DUPACK, its companion, does nothing since Linux 4.11 (commit 4a7f60094411).
            option::set_int(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS, on)
        })?;
        set("notsent_lowat", self.notsent_lowat, |size| socket.set_tcp_notsent_lowat(size))
    }

    /// Sets TCP_QUICKACK after the handshake, which changes the mode itself.
    fn connected(&self, socket: &Socket) -> Result<()> {
        set("quickack", self.quickack, |on| socket.set_tcp_quickack(on))
    }

    fn effective(&self, channel: &CountedSocket) -> Effective {
        let socket = channel.socket();
        let word = |on| if on { "on" } else { "off" }.to_owned();
        let name =
            |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned();
        let negotiated = tcp_info::read(socket).ok().map(|info| info.negotiated);
        let read = [
            ("cc", socket.tcp_congestion().ok().map(name)),
            ("nodelay", socket.tcp_nodelay().ok().map(word)),
            ("sndbuf", socket.send_buffer_size().ok().map(|n| n.to_string())),
            ("rcvbuf", socket.recv_buffer_size().ok().map(|n| n.to_string())),
            ("mss", socket.tcp_mss().ok().map(|n| n.to_string())),
            ("quickack", socket.tcp_quickack().ok().map(word)),
            // The kernel returns 0 for "not set: net.ipv4.tcp_notsent_lowat decides".
            (
                "notsent_lowat",
                socket.tcp_notsent_lowat().ok().filter(|n| *n > 0).map(|n| n.to_string()),
            ),
            ("thin", thin(socket).map(word)),
            ("fastopen", negotiated.map(|state| fastopen::word(self.fastopen, state))),
            ("ecn", negotiated.map(|state| state.ecn_word().to_owned())),
            ("recovery", recovery()),
        ];
        read.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }

    fn info(&self, channel: &CountedSocket, connect_ns: u64) -> ConnInfo {
        let counted = stream::counted(channel, connect_ns);
        let Ok(info) = tcp_info::read(channel.socket()) else { return counted };
        let headers = Headers {
            ip_bytes: option::ip_header_bytes(channel.socket()),
            // 10 bytes of timestamps, padded to 12 (RFC 7323, appendix A).
            transport_bytes: if info.negotiated.timestamps { 32 } else { 20 },
            framing_bytes: frame::PREFIX as u64,
            mtu: Some(info.pmtu_bytes),
            packets: info.view.data_segs_out.map(|out| out.saturating_sub(info.view.retransmits)),
        };
        let marks = info.marks;
        let reported = stream::reported(counted, info.view, headers);
        ConnInfo { stats: ConnStats { marks, ..reported.stats }, ..reported }
    }
}
