//! Responders: answers of a server to the clients of other programs, so that people measure against it who do not have
//! deadheat.
//!
//! ```text
//! program ── list ──▶ server ── open(address, key) ──▶ sockets ── serve(host, stop) ──▶ answers
//!                        ▲                                               │
//!                        └──────── ResponderHost: limits, turns, log ────┘
//! ```
//! No responder is in this crate: the program hands them in ([`ALL`]). The server opens each that its operator asks for,
//! gives it a thread without privileges, and keeps it within the operator's limits: all that a responder sends passes
//! [`ResponderHost::beside`], for a trickle beside trials, or [`TestGrant::charge`], for a test that fills the line and so
//! takes the turn of a trial.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;
use deadheat_contract::handed_in::HandedIn;

/// Every responder that the program has handed in, in the order in which lists show them.
pub static ALL: HandedIn<dyn Responder> = HandedIn::new();

/// Description of a responder.
#[derive(Debug)]
pub struct ResponderInfo {
    /// Name, which is the option of `serve` that opens it.
    pub id: &'static str,
    /// Name of its clients, for people: `iperf3 clients`.
    pub clients: &'static str,
    /// Summary in one line, for help and lists.
    pub summary: &'static str,
    /// Port, unless the operator gives another.
    pub port: u16,
    /// Protocols that it takes, with its answer to each.
    pub answers: &'static [Answered],
    /// Key that its protocol can prove; `None` if it has no place for one.
    pub key: Option<ResponderKey>,
}

/// Protocol that a responder takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// Protocol below, in words: `TCP`.
    pub over: &'static str,
    /// Answer, in words.
    pub what: &'static str,
    /// Load that it makes.
    pub load: ResponderLoad,
}

/// Load that the clients of a responder make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponderLoad {
    /// A trickle that passes beside trials.
    Beside,
    /// As much as the line carries: each test takes the turn of a trial.
    Turn,
}

/// Key of a responder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponderKey {
    /// Option of `serve` with a file that holds it.
    pub option: &'static str,
    /// Environment variable that may hold it instead.
    pub variable: &'static str,
    /// Purpose, in words: `HMAC-MD5 of each packet`.
    pub what: &'static str,
}

/// Responder to the clients of another program.
pub trait Responder: Send + Sync {
    /// Returns its description.
    fn info(&self) -> &'static ResponderInfo;

    /// Opens its sockets at `at`. With a `key` it answers only those who prove it.
    ///
    /// # Errors
    /// The failed operation with its address.
    fn open(&self, at: SocketAddr, key: Option<&[u8]>) -> Result<Box<dyn OpenResponder>>;
}

impl fmt::Debug for dyn Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info().id)
    }
}

/// Responder with open sockets.
pub trait OpenResponder: Send {
    /// Returns the address of its port.
    fn local_addr(&self) -> SocketAddr;

    /// Returns what its clients need to know beside the address, as the end of a sentence.
    fn more(&self) -> Option<String> {
        None
    }

    /// Answers clients until `stop` is readable. The thread that calls it has no privileges: it opens no file, and binds
    /// no port below 1024.
    ///
    /// # Errors
    /// The failed operation; its clients get no answers from then on.
    fn serve(&mut self, host: &dyn ResponderHost, stop: BorrowedFd<'_>) -> Result<()>;
}

/// Limits of a test, per direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestLimits {
    /// Longest duration.
    pub duration: Nanos,
    /// Most bytes, as IP packets.
    pub bytes: u64,
    /// Highest rate, of IP packets.
    pub rate: BitRate,
    /// Time from the grant within which the test must begin.
    pub begin: Nanos,
}

/// Server that a responder runs in.
pub trait ResponderHost: Sync {
    /// Returns the limits of each test.
    fn limits(&self) -> TestLimits;

    /// Charges `peer` for `bytes` of IP packets, sent and received, beside trials. If it may not have them, nothing is
    /// charged, and the error is the wait until it may.
    ///
    /// # Errors
    /// The wait; `None` if the operator's allowance is used up.
    fn beside(&self, peer: IpAddr, bytes: [u64; 2]) -> std::result::Result<(), Option<Nanos>>;

    /// Counts a new client, and writes `what` it does to the log, within the limits of lines that strangers cause.
    fn greet(&self, peer: SocketAddr, what: &str);

    /// Writes a line about `peer` to the log, within the same limits.
    fn note(&self, peer: SocketAddr, what: &str);

    /// Returns true for a port of this server's own: a datagram from such a port may be a reply of this program.
    fn is_own_port(&self, port: u16) -> bool;

    /// Keeps the place of a client's origin among all who ask for turns, for a few seconds, without a turn for it. Returns the
    /// reason why it has to wait.
    fn knock(&self, peer: SocketAddr) -> NoGrant;

    /// Takes the turn of a trial for a test of `peer`, without waiting for it. Where it is another's, the place of this
    /// origin is kept for a few seconds, so that it has the turn before origins that had more of them if it asks again.
    ///
    /// # Errors
    /// The reason why there is none now.
    fn begin(&self, peer: SocketAddr) -> std::result::Result<Box<dyn TestGrant + '_>, NoGrant>;
}

/// Reason why a test may not begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoGrant {
    /// Trials or tests of others run or wait: ask again later.
    Busy,
    /// The turn is another's that has not begun: ask again within seconds.
    Soon,
    /// Refused, in words.
    Refused(String),
}

/// Turn of a test; returned when dropped, with a line in the log.
pub trait TestGrant: Send + Sync {
    /// Returns the limits that are left for it.
    fn limits(&self) -> TestLimits;

    /// Marks that the test has begun, `title` it is in words.
    fn begun(&self, title: &str);

    /// Lets the calling thread, and the threads that it starts from now on, run on the CPUs of its turn alone.
    fn hold(&self);

    /// Charges bytes of IP packets, sent and received since `last`.
    fn charge(&self, last: Nanos, bytes: [u64; 2]) -> Charged;

    /// Sets the failure of the test in words, for the log. A test that has begun is done without one.
    fn fail(&self, why: &str);
}

/// State of a test's limits after a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charged {
    /// True while no direction is beyond its sum of bytes.
    pub is_within_sum: bool,
    /// For each direction, sent and received, the time from which more may pass at the rate; a burst is allowed for.
    pub due: [Nanos; 2],
}

/// Returns the responder with this name.
///
/// # Errors
/// [`Error::Usage`] if there is none.
pub fn find(id: &str) -> Result<&'static dyn Responder> {
    let found = ALL.iter().find(|one| one.info().id == id);
    found.copied().ok_or_else(|| -> Error {
        let ids: Vec<&str> = ALL.iter().map(|one| one.info().id).collect();
        ALL.unknown("responder", id, &ids)
    })
}
