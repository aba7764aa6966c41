//! Transports: a [`Transport`] opens connections, a [`Conn`] moves messages or bulk bytes over one. A protocol in
//! user space is a [`userspace::Userspace`], and becomes a transport over UDP and on a simulated path here.
//!
//! No transport is in this crate. The program hands in its transports ([`ALL`]), and a [`Contender`] is one of them
//! with its knobs.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

use crate::datapath::stamps::Stamps;
use crate::datapath::wait::Interest;
use deadheat_base::error::{Error, Result};
use deadheat_base::figures::list;
use deadheat_base::spec::{Key, Settings};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{
    AsksLanes, Guarantees, Inbox, Lane, Patience, PeerFacts, Reach, Service, Sink, Source,
};
use deadheat_contract::handed_in::HandedIn;
pub use deadheat_contract::measurements::Effective;
use deadheat_contract::measurements::{ConnStats, TcpView};
use deadheat_contract::recorded::{Meaning, Readers};

pub mod application;
pub mod at_once;
pub mod bulk_message;
pub mod command_line;
pub mod commands;
mod contender;
pub mod equal;
pub mod external;
pub mod far_end;
pub mod frame;
pub mod handover;
pub mod header;
pub mod hello;
pub mod identity;
#[cfg(any(test, feature = "testing"))]
pub mod mem;
pub mod optional;
pub mod options;
pub mod own_port;
pub mod path_mtu;
pub mod plain;
pub mod prefers;
pub mod responder;
pub mod several;
pub mod spent;
pub mod step;
pub mod udp_handshake;
pub mod userspace;
pub mod via;

pub use contender::{Carrier, Contender};
use handover::ConnectionSource;
use hello::Hello;
pub use identity::Tickets;
use own_port::PortOpener;
use plain::PlainTransport;
pub use several::Part;
use userspace::Userspace;

/// Every transport that the program has handed in, in the order in which lists show them.
pub static ALL: HandedIn<dyn Transport> = HandedIn::new();

/// Readers of what a result has of contenders and far ends.
pub static READERS: Readers = Readers {
    contender: |typed, asked| Ok((&Contender::recorded(typed, asked)?).into()),
    far_end: far_end::recorded,
};

/// Description of a transport.
#[derive(Debug)]
pub struct Info {
    /// Name on the command line and in results.
    pub id: &'static str,
    /// Name for people.
    pub label: &'static str,
    /// Colour in plots, as `#rrggbb`.
    pub colour: &'static str,
    /// Implementer of the protocol, with a version if it is a library: `linux`.
    pub implementation: &'static str,
    /// Protocol, if other transports here are implementations of it, too.
    pub protocol: Option<&'static str>,
    /// Summary in one line, for lists.
    pub summary: &'static str,
    /// Guarantees that it makes.
    pub guarantees: Guarantees,
    /// Facts of the peer at the far end.
    pub peer: PeerFacts,
    /// Distance that it covers.
    pub reach: Reach,
    /// Number of bytes that it adds to each message to mark boundaries; 0 if the protocol has boundaries.
    pub framing_bytes: usize,
    /// Meanings of its options for a comparison, where they differ from the shared meanings (`options.rs`).
    pub options: &'static [Meaning],
    /// Knobs that it takes.
    pub keys: &'static [Key],
    /// Defaults of its implementation that [`equal`] replaces.
    pub deployed: &'static [equal::OwnDefault],
    /// Reason why it must run in real time, though its protocols are in user space.
    pub real_time: Option<&'static str>,
    /// True if each of its packets is a UDP datagram, which a TURN server relays.
    pub is_over_udp: bool,
    /// True if the timers of its connections must run while no flow runs on them, as with protocols in user space.
    pub is_kept_up: bool,
    /// True if its far end opens a connection while others are still being opened; else these wait for each other.
    pub opens_at_once: bool,
    /// Function that opens the port of its own protocol, for a server that hands its connections to trials, and fails
    /// with the operation and its address; absent if it runs over the server's TCP or UDP.
    pub own_port: Option<PortOpener>,
}

/// Placeholder for text that each transport must set.
pub const UNSAID: &str = "";

impl Info {
    /// Facts that transports of the kernel share; each transport adds its own.
    pub const KERNEL: Info = Info {
        id: UNSAID,
        label: UNSAID,
        colour: UNSAID,
        implementation: "linux",
        protocol: None,
        summary: UNSAID,
        guarantees: Guarantees::DATAGRAMS,
        peer: PeerFacts::OURS,
        reach: Reach::Network,
        framing_bytes: 0,
        options: &[],
        keys: &[],
        deployed: &[],
        real_time: None,
        is_over_udp: false,
        is_kept_up: false,
        opens_at_once: false,
        own_port: None,
    };

    /// Facts that protocols in user space share.
    pub const IN_USER_SPACE: Info =
        Info { implementation: "deadheat", is_over_udp: true, is_kept_up: true, ..Info::KERNEL };

    /// Returns the meanings of its options for a comparison, its own before the shared ones.
    pub fn meanings(&self) -> Vec<Meaning> {
        [self.options, &options::SHARED[..]].concat()
    }
}

/// Protocol or mechanism that carries messages or bulk bytes between two ends.
pub trait Transport: Send + Sync {
    /// Returns the description of the transport, with its guarantees.
    fn info(&self) -> &Info;

    /// Checks that this host supports the transport.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Unsupported`] naming the missing part and an alternative.
    fn check(&self) -> Result<()> {
        let parts = self.several().map_or(&[][..], Several::parts);
        parts.iter().try_for_each(|part| part.contender.transport.check())
    }

    /// Checks that one value of one of its [`deadheat_base::spec::Kind::Choice`] knobs works on this host, and that the
    /// settings (sysctls) of the hosts of a race at `_place` allow it; lists check each of them. Values that always work
    /// are not checked.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Unsupported`] naming the missing part, or the setting, and an alternative.
    fn check_knob(&self, _key: &str, _value: &str, _place: Place) -> Result<()> {
        Ok(())
    }

    /// Returns its protocol, if it runs in user space and so on a path in virtual time, too; `None` if only a
    /// kernel has it.
    fn userspace(&self) -> Option<&dyn Userspace> {
        None
    }

    /// Returns the way in which it opens connections to programs of others, if its packets carry the application's
    /// bytes alone; `None` if they carry more.
    fn plain(&self) -> Option<&'static PlainTransport> {
        None
    }

    /// Returns itself as several contenders; `None` if it is a single one.
    fn several(&self) -> Option<&dyn Several> {
        None
    }

    /// Opens a connection to a listener and proves the address with its token.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Blocked`] where control works but these packets do not get through, with the
    /// evidence; otherwise the failed operation with its address.
    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>>;

    /// Starts to listen.
    ///
    /// # Errors
    /// The failed operation with its address.
    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>>;
}

impl dyn Transport + '_ {
    /// Returns the contenders that it consists of, in their order; empty if it is a single one.
    pub fn parts(&self) -> &[Part] {
        self.several().map_or(&[], Several::parts)
    }
}

/// Transport that consists of several contenders.
pub trait Several {
    /// Returns the contenders that it consists of, in their order.
    fn parts(&self) -> &[Part];

    /// Returns a version of itself for work that needs these lanes.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Usage`] where it cannot carry them, with an alternative.
    fn suit(&self, work: &dyn AsksLanes) -> Result<Carrier>;
}

/// Place of a race, which decides about the hosts with relevant settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// This host alone.
    Loopback,
    /// The hosts of an emulated path, which the emulator sets up.
    Emulated,
    /// This host, at the near end of a race to a server.
    Remote,
    /// This host, as a server at the far end.
    Server,
}

/// Parameters with which a near end opens a connection.
#[derive(Debug, Clone, Copy)]
pub struct Dial<'a> {
    /// Endpoint of the listener.
    pub to: &'a Address,
    /// Token and flow to present.
    pub hello: Hello,
    /// Knobs of the contender.
    pub knobs: &'a Settings,
    /// Services of its lanes.
    pub lanes: &'a [Service],
    /// Size of the largest message to be sent, in bytes.
    pub largest_message: usize,
    /// Longest time to try.
    pub timeout: Nanos,
    /// Session tickets that connections of the same trial have left for this one.
    pub tickets: &'a Tickets,
}

/// Parameters with which a far end listens.
#[derive(Debug)]
pub struct Listen<'a> {
    /// Address to bind; port 0 or an empty name for one of the system's choice.
    pub at: &'a Address,
    /// Token that every connection must present.
    pub token: hello::Token,
    /// Knobs of the contender.
    pub knobs: &'a Settings,
    /// Services of the lanes of each connection.
    pub lanes: &'a [Service],
    /// Size of the largest message that will arrive, in bytes.
    pub largest_message: usize,
    /// Source of connections: the listener's own socket, or a server that owns the port.
    pub door: ConnectionSource,
    /// Session tickets that connections leave for later ones.
    pub tickets: Tickets,
}

/// Listener that accepts connections that present the token.
pub trait Listener: Send {
    /// Returns the endpoint for a near end to dial.
    fn endpoint(&self) -> Address;

    /// Waits for the next flow, at most `timeout`. It refuses strangers without an answer.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Blocked`] with the evidence if nothing valid arrived in time.
    fn accept(&mut self, timeout: Nanos) -> Result<(u16, Box<dyn Conn>)>;

    /// Returns true if the listener must stay open as long as its connections, since further subflows of these
    /// connections arrive through it.
    fn stays(&self) -> bool {
        false
    }
}

/// Address of a listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Address {
    /// IP address and port.
    Ip(SocketAddr),
    /// Name in the abstract Unix socket namespace (unix(7)), without the leading NUL.
    Unix(String),
    /// Slot in this process, for tests.
    Process(u64),
    /// Address for each part of a contender that consists of several.
    Several(Vec<Address>),
}

impl Address {
    /// Returns the IP address and port that the transport `id` needs.
    ///
    /// # Errors
    /// [`Error::Usage`] if this is an address of another kind.
    pub fn ip(&self, id: &str) -> Result<SocketAddr> {
        match self {
            Address::Ip(address) => Ok(*address),
            other => Err(Error::usage(format!("{id} needs an IP address and port, not `{other}`"))),
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Ip(address) => address.fmt(f),
            Address::Unix(name) => write!(f, "unix:@{name}"),
            Address::Process(slot) => write!(f, "process:{slot}"),
            Address::Several(all) => {
                let all: Vec<String> = all.iter().map(ToString::to_string).collect();
                f.write_str(&list(&all))
            }
        }
    }
}

/// Result of a call on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Progress was made: something was sent or received.
    Moved,
    /// No progress was possible: no room to send, or nothing to receive.
    Idle,
    /// The peer ended its direction; nothing more will arrive.
    Closed,
}

/// Returns options with their values, as [`Conn::effective`] reports them.
pub fn effective_options<const N: usize>(options: [(&str, String); N]) -> Effective {
    options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// End of an open connection.
///
/// Messages and bulk are two uses of it, never mixed on one connection. No call allocates once warm. System errors
/// are returned unchanged; the driver names the operation and the peer.
pub trait Conn: Send {
    /// Returns the descriptor to wait on, and the events that it shows.
    fn readiness(&self) -> Readiness<'_>;

    /// Returns its sockets: where it has several, the descriptor of [`Conn::readiness`] is none of them.
    fn sockets(&self) -> Vec<BorrowedFd<'_>>;

    /// Sends one message whole, or not at all (`Idle`, no room). Never blocks. A byte stream that accepted part of
    /// a message keeps the rest as backlog and returns `Moved`.
    fn send(&mut self, lane: Lane, message: &[u8]) -> io::Result<Progress>;

    /// Makes at most one receiving system call and hands over every whole message that it returned.
    fn receive(&mut self, patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress>;

    /// Sends backlog. Never blocks.
    fn flush(&mut self) -> io::Result<Progress>;

    /// Sends from `source` until its budget is used, or there is no room after waiting at most
    /// [`deadheat_contract::contract::GUARD`] for it.
    fn pump(&mut self, source: &mut dyn Source) -> io::Result<Progress>;

    /// Makes at most one receiving system call and hands over the bytes that it returned.
    fn drain(&mut self, patience: Patience, sink: &mut dyn Sink) -> io::Result<Progress>;

    /// Ends this direction, so that the peer's `drain` returns `Closed` where the transport can do that.
    fn finish(&mut self) -> io::Result<()>;

    /// Returns true if the peer has acknowledged everything sent, so that nothing is sent again and the counters
    /// are final. Always true where messages may be lost, or stay within this machine: no peer acknowledges them.
    fn is_drained(&self) -> bool;

    /// Returns the time at which a protocol in user space next needs `on_deadline`. Of the kernel's transports only
    /// those with a backlog have this, if their descriptor does not show when there is room again. No flow may
    /// sleep past it, and so not in a call with [`Patience::Block`].
    fn next_deadline(&self) -> Option<Nanos>;

    /// Runs a protocol in user space: takes the datagrams that have arrived, without handing them over yet, runs
    /// the timers that are due at `now`, and sends. May be called at any time.
    fn on_deadline(&mut self, now: Nanos) -> io::Result<()>;

    /// Returns the kernel's stamps, for an instrumented pass; the first call makes the kernel stamp each message
    /// from then on.
    ///
    /// # Errors
    /// `Unsupported` where no kernel sees single messages of this transport; otherwise the error of setsockopt(2).
    fn stamps(&mut self) -> io::Result<&mut Stamps>;

    /// Returns the options as read back.
    fn effective(&self) -> Effective;

    /// Returns the counters so far, and the current state. At most a few system calls, and no allocation.
    fn info(&self) -> ConnInfo;
}

/// Descriptor of a connection to wait on, and the events that it shows.
#[derive(Debug, Clone, Copy)]
pub struct Readiness<'a> {
    /// Descriptor to poll; `None` for transports without a kernel.
    pub fd: Option<BorrowedFd<'a>>,
    /// Event of the descriptor that shows room to send again.
    pub room: Interest,
    /// True if part of a sent message still waits for room.
    pub has_backlog: bool,
}

impl<'a> Readiness<'a> {
    /// Creates the readiness of a socket that shows arrivals and room, and has no backlog.
    #[inline]
    pub fn of(fd: BorrowedFd<'a>) -> Readiness<'a> {
        Readiness { fd: Some(fd), room: Interest::ReadWrite, has_backlog: false }
    }
}

/// Counters of a connection, and its state.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ConnInfo {
    /// Counters so far, with the duration of the set-up.
    pub stats: ConnStats,
    /// Current congestion control and round-trip time, as the kernel's TCP or the protocol reports them; `None` if
    /// there are none.
    pub view: Option<TcpView>,
}

impl ConnInfo {
    /// Creates the information of a connection of which only counters are known.
    pub fn counted(stats: ConnStats) -> ConnInfo {
        ConnInfo { stats, view: None }
    }
}

/// Returns the error of a connection without messages that a kernel stamps.
#[cold]
pub fn unstamped() -> io::Error {
    let why = "the kernel stamps no messages of this transport";
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// Returns the reason why the transport `id` cannot be raced to a server.
pub fn unserved(id: &str) -> String {
    format!(
        "`{id}` needs a far end with an address of its own, a group that receivers join or a command that listens, to \
         which routers and a server's port do not lead; race it on loopback or with --path, without --to"
    )
}

/// Returns the reason why the transport `id`, which has a port of its own, cannot be raced to a server that does not
/// open it.
pub fn unopened(id: &str) -> String {
    format!(
        "`{id}` has a port of its own, beside TCP's and UDP's, and this server does not open it; its operator can, with \
         `deadheat serve --also {id}`"
    )
}

/// Refuses connections from a server, which cannot have any of this transport.
pub fn refuse_server(door: &ConnectionSource, id: &str) -> Result<()> {
    match door {
        ConnectionSource::Own => Ok(()),
        ConnectionSource::Handed(_) => Err(Error::unsupported(id, unserved(id))),
    }
}

/// Refuses every lane but the first, for transports without lanes.
pub fn lane_0_only(lane: Lane) -> io::Result<()> {
    if lane == Lane(0) {
        return Ok(());
    }
    let why = format!("this transport has lane 0 only, not {}", lane.0);
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}
