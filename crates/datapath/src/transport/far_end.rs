//! Far ends of others: programs and protocols that exist already, and answer some contenders in some work. Each declares
//! what it carries, what it counts and what cannot be known from it; races, reports and lists follow from that.
//!
//! ```text
//! counts            near end                              far end                      far half of the work
//! Report            contender, greeted by the far end  →  sends each message back      none: as with a kernel that answers
//! Acknowledgements  the same                           →  takes bytes, counts none     the near kernel's acknowledgements
//! Session           the same                           →  takes or sends, and counts   a stand-in here, which drives its control
//! Answers           contender, with an application     →  answers with documents       what the near end got was sent
//!                   protocol of the far end on it
//! Confirmation      the same                           →  takes, and sends what it is  the end of its answer confirms all
//!                                                         asked for
//! ```
//! No far end is in this crate: the program hands them in ([`ALL`]). None names a transport or a workload: a transport
//! says of itself which protocol it is ([`PlainTransport`]), and a workload asks for facts of its peer ([`PeerFacts`]).

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::hello::Token;
use super::plain::{PlainProtocol, PlainTransport};
use super::via::Via;
use super::{
    Carrier, Conn, Contender, Dial, Effective, Info, Listen, Listener, Place, Transport, commands,
    external,
};
use deadheat_base::error::{Error, Result};
use deadheat_base::figures::list;
use deadheat_base::spec::Settings;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Framing, Guarantees, PeerFacts};
use deadheat_contract::handed_in::HandedIn;
use deadheat_contract::measurements::Tally;
use deadheat_contract::recorded::{FarEndFacts, RecordedFarEnd, Remark};
use deadheat_contract::workload::{AnswerSource, EndpointReport, Task, TaskInfo};

/// Every far end that the program has handed in, in the order in which lists show them.
pub static ALL: HandedIn<FarEnd> = HandedIn::new();

/// Separator of a far end's name and its host.
const SCHEME_END: &str = "://";

/// Description of a far end.
#[derive(Debug)]
pub struct FarEndInfo {
    /// Name before `://`.
    pub id: &'static str,
    /// Name for people.
    pub label: &'static str,
    /// Summary in one line, for lists.
    pub summary: &'static str,
    /// Port, unless the user gives another.
    pub port: u16,
    /// True if a path may follow its host, as of a document: `NAME://HOST[:PORT]/PATH`.
    pub takes_path: bool,
    /// Protocols that it carries.
    pub over: &'static [PlainProtocol],
    /// Facts of it as a peer.
    pub peer: PeerFacts,
    /// Numbers that it reports, in words; `None` if there are none.
    pub counts: Option<&'static str>,
    /// Facts that cannot be known from it, in words.
    pub unknown: &'static [&'static str],
    /// Environment variables that it reads, with their use, if there are any.
    pub variables: Option<FarEndVariables>,
}

/// Environment variables that a far end reads.
#[derive(Debug, Clone, Copy)]
pub struct FarEndVariables {
    /// Names.
    pub names: &'static [&'static str],
    /// Use, as a sentence.
    pub purpose: &'static str,
}

/// Far end of others.
pub struct FarEnd {
    /// Description.
    pub info: FarEndInfo,
    /// Reason why it cannot do this work over this protocol, which its facts allow, as a sentence; `None` if it can.
    pub misfit: Option<fn(PlainProtocol, &TaskInfo) -> Option<String>>,
    /// Connection of the transport to the object that a locator names there, for this work.
    ///
    /// # Errors
    /// As [`Transport::dial`].
    pub dial: DialFarEnd,
    /// Remarks for a reader of a race's figures on the far end as its trials found it.
    pub remarks: Option<Remark>,
    /// Session with a far end that counts, up to its readiness for the connections of the flows.
    ///
    /// # Errors
    /// The failed operation with the address; [`Error::Broken`] with the state in which the far end failed.
    pub session: Option<fn(&SessionOrder<'_>) -> Result<FarOpening>>,
}

/// Function that opens a connection to a far end.
pub type DialFarEnd = fn(&PlainTransport, &Dial<'_>, &TaskInfo, &Locator) -> Result<Box<dyn Conn>>;

impl fmt::Debug for FarEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info.id)
    }
}

/// Parameters of a session.
#[derive(Debug, Clone, Copy)]
pub struct SessionOrder<'a> {
    /// Address of the far end.
    pub to: SocketAddr,
    /// Token of the trial, from which both ends of a session make its name.
    pub token: Token,
    /// Protocol of the flows.
    pub over: PlainProtocol,
    /// Description of the transport.
    pub transport: &'a Info,
    /// Knobs of the contender.
    pub knobs: &'a Settings,
    /// Work.
    pub task: &'a TaskInfo,
    /// Longest time for one step of the far end's protocol.
    pub patience: Nanos,
}

/// Outcome of the attempt to open a session.
pub enum FarOpening {
    /// The far end takes the flows of this session now.
    Open(Box<dyn FarSession>),
    /// It serves another client.
    Busy,
}

/// FarSession of a trial with a far end that counts.
pub trait FarSession: Send {
    /// Returns the descriptor of its control connection.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Waits until the far end has all flows, and runs the work.
    ///
    /// # Errors
    /// [`Error::Broken`] with the state.
    fn start(&mut self) -> Result<()>;

    /// Reads an unasked message of the far end; called when the descriptor is readable while the work runs.
    ///
    /// # Errors
    /// [`Error::Broken`] with the message, which ends the session.
    fn look(&mut self) -> Result<()>;

    /// Ends the work; `sent` is what the near end has sent, by flow, in messages and bytes. Returns the counts of the far
    /// end.
    ///
    /// # Errors
    /// [`Error::Broken`] with the state.
    fn end(&mut self, sent: &[Tally]) -> Result<FarCounts>;
}

/// Report of a far end on a trial.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FarCounts {
    /// Counts by flow.
    pub halves: Vec<EndpointReport>,
    /// Options in force there, as far as it says.
    pub effective: Effective,
    /// Most bytes of a flow that it sent and did not count, since the end of the work interrupted the call.
    pub uncounted: u64,
}

impl From<&FarEndInfo> for FarEndFacts {
    fn from(info: &FarEndInfo) -> FarEndFacts {
        FarEndFacts {
            id: info.id.to_owned(),
            label: info.label.to_owned(),
            counts: info.counts.map(str::to_owned),
            unknown: info.unknown.iter().map(|one| (*one).to_owned()).collect(),
        }
    }
}

/// Far end of others at a host, as typed: `NAME://HOST[:PORT][/PATH]`.
#[derive(Debug, Clone, Copy)]
pub struct FarEndAt<'a> {
    /// Far end.
    pub end: &'static FarEnd,
    /// Host, with its port if one was typed.
    pub host: &'a str,
    /// Path behind the host, with its slash; empty if none was typed.
    pub path: &'a str,
    /// SHA-256 of the public key that it has to prove, as typed; `None` if none was given.
    pub pin: Option<&'a str>,
}

/// Object at a host, as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locator {
    /// Host, with its port if one was typed.
    pub authority: String,
    /// Name or address of the host.
    pub name: String,
    /// Path behind the host, with its slash.
    pub path: String,
    /// SHA-256 of the public key that it has to prove, as typed; absent if authorities vouch for it.
    pub pin: Option<String>,
}

impl From<FarEndAt<'_>> for Locator {
    fn from(at: FarEndAt<'_>) -> Locator {
        let name = match at.host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address,
            None => match at.host.split_once(':') {
                // An address of IPv6 has several colons.
                Some((name, port)) if !port.contains(':') => name,
                _ => at.host,
            },
        };
        let name = name.split_once('%').map_or(name, |(address, _)| address);
        let path = if at.path.is_empty() { "/" } else { at.path };
        let [authority, name, path] = [at.host, name, path].map(str::to_owned);
        Locator { authority, name, path, pin: at.pin.map(str::to_owned) }
    }
}

/// Reads what follows `--to`; `None` for a host with `deadheat serve`.
///
/// # Errors
/// [`Error::Usage`] if no far end has the name.
pub fn parse(typed: &str) -> Result<Option<FarEndAt<'_>>> {
    let Some((id, rest)) = typed.split_once(SCHEME_END) else { return Ok(None) };
    let end = find(id)?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if host.is_empty() || (host.starts_with(':') && !host.starts_with("::")) {
        return Err(Error::usage(format!(
            "--to {typed} names no host; write {id}{SCHEME_END}HOST or {id}{SCHEME_END}HOST:PORT"
        )));
    }
    if !end.info.takes_path {
        return match path.trim_matches('/') {
            "" => Ok(Some(FarEndAt { end, host, path: "", pin: None })),
            _ => Err(Error::usage(format!(
                "--to {typed}: {} has no path; leave out {path}",
                end.info.label
            ))),
        };
    }
    match path.chars().find(|c| !c.is_ascii_graphic() || *c == '#') {
        None => Ok(Some(FarEndAt { end, host, path, pin: None })),
        Some(c) => Err(Error::usage(format!(
            "--to {typed}: {c:?} has no place in the path; a URL has it as %{:02X}, and # with what follows stays with a browser",
            u32::from(c)
        ))),
    }
}

/// Returns the far end with this name, or of what follows `--to`.
///
/// # Errors
/// [`Error::Usage`] if there is none.
pub fn find(typed: &str) -> Result<&'static FarEnd> {
    let id = typed.split_once(SCHEME_END).map_or(typed, |(id, _)| id);
    let found = ALL.iter().find(|end| end.info.id == id);
    found.copied().ok_or_else(|| {
        let ids: Vec<&str> = ALL.iter().map(|end| end.info.id).collect();
        ALL.unknown("far end", id, &ids)
    })
}

/// Returns the facts of the far end with this name that readers of a result need; `None` if this program has none.
pub fn recorded(id: &str) -> Option<RecordedFarEnd> {
    let end = find(id).ok()?;
    Some(RecordedFarEnd { answers: answers(end), remarks: end.remarks })
}

/// Returns the source of the answers of work that asks a far end.
pub fn answers(end: &FarEnd) -> AnswerSource {
    if end.info.peer.has_documents { AnswerSource::Origin } else { AnswerSource::Ours }
}

/// Returns the host of what follows `--to`, without the name of a far end.
pub fn host_of(typed: &str) -> &str {
    typed.split_once(SCHEME_END).map_or(typed, |(_, host)| host)
}

/// Returns `contender` as it runs against a far end, for this work.
///
/// # Errors
/// [`Error::Usage`] with the reason if the far end does not carry it.
pub fn against(at: FarEndAt<'_>, contender: Contender, task: &TaskInfo) -> Result<Contender> {
    let end = at.end;
    if let Some(why) = refusal(end, &contender) {
        return Err(Error::usage(format!("`{}`: {why}", contender.spec)));
    }
    if !carries(end, &*contender.transport) {
        return Ok(contender);
    }
    let info = info_of(contender.transport.info(), end.info.peer);
    let (inside, task, locator) = (contender.transport, task.clone(), Locator::from(at));
    let transport = AgainstFarEnd { end, info, inside, task, locator };
    Ok(Contender { transport: Carrier::Made(Arc::new(transport)), ..contender })
}

/// Returns true if `end` carries the protocol of `transport`.
pub fn carries(end: &FarEnd, transport: &dyn Transport) -> bool {
    transport.plain().is_some_and(|plain| end.info.over.contains(&plain.protocol))
}

/// Returns the reason why `end` does not carry `contender`, whatever the work; `None` if it does.
pub fn refusal(end: &FarEnd, contender: &Contender) -> Option<String> {
    let info = &end.info;
    if contender.external.is_some() {
        return Some(external::unserved(&contender.spec.to_string()));
    }
    if contender.commands.is_some() {
        return Some(commands::UNSERVED.to_owned());
    }
    if contender.via != Via::Direct {
        return Some(format!(
            "a relay stands in front of a far end of ours, and {} is none",
            info.label
        ));
    }
    if contender.transport.info().peer.is_floor() || carries(end, &*contender.transport) {
        return None;
    }
    let over: Vec<String> = info.over.iter().map(ToString::to_string).collect();
    let over = if over.is_empty() {
        "what the far kernel answers".to_owned()
    } else {
        format!("{}, and contenders that the far kernel answers", list(&over))
    };
    let label = info.label;
    Some(match by_another(end, contender) {
        Some((protocol, others)) => format!(
            "{label} carries {protocol} by {}; this one's implementation speaks to ends of ours alone, such as `deadheat serve`",
            list(&others)
        ),
        None => format!("{label} carries {over}; `deadheat serve` there carries all"),
    })
}

/// Returns the protocol of a contender that is not carried, and the transports by which a far end carries it, if any.
fn by_another(end: &FarEnd, contender: &Contender) -> Option<(&'static str, Vec<String>)> {
    let protocol = contender.transport.info().protocol?;
    let is_other =
        |one: &&&dyn Transport| one.info().protocol == Some(protocol) && carries(end, **one);
    let others = super::ALL.iter().filter(is_other).map(|one| format!("`{}`", one.info().id));
    Some((protocol, others.collect())).filter(|(_, others): &(_, Vec<String>)| !others.is_empty())
}

/// Returns the reason why `contender`, which runs [`against`] `end`, cannot do this work there; `None` if it can.
pub fn misfit(end: &FarEnd, contender: &Contender, task: &dyn Task) -> Option<String> {
    let (info, label) = (task.info(), end.info.label);
    let plain = contender.transport.plain();
    let own = || (end.misfit?)(plain?.protocol, info);
    if info.load.is_some() {
        let why = format!("a load beside the work takes a far end of ours, and {label} is none");
        return own().or(Some(why));
    }
    let peer = contender.transport.info().peer;
    let opens = peer.has_documents || peer.only_connects;
    if info.receivers > 1 || (info.reconnects() && !opens) {
        return Some(format!("it takes far ends that do their part of it, and {label} is none"));
    }
    own()
}

/// Transport that dials a far end of others.
struct AgainstFarEnd {
    end: &'static FarEnd,
    info: Info,
    inside: Carrier,
    task: TaskInfo,
    locator: Locator,
}

fn info_of(inside: &Info, peer: PeerFacts) -> Info {
    let guarantees = if peer.ignores_boundaries {
        let framing = Framing::ByteStream;
        Guarantees { framing, largest_message: None, ..inside.guarantees }
    } else if peer.only_connects {
        // Attempts to connect are messages that nobody repeats.
        Guarantees::DATAGRAMS
    } else {
        inside.guarantees
    };
    Info { guarantees, peer, ..*inside }
}

impl Transport for AgainstFarEnd {
    fn info(&self) -> &Info {
        &self.info
    }

    fn check(&self) -> Result<()> {
        self.inside.check()
    }

    fn check_knob(&self, key: &str, value: &str, place: Place) -> Result<()> {
        self.inside.check_knob(key, value, place)
    }

    fn plain(&self) -> Option<&'static PlainTransport> {
        self.inside.plain()
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        match self.inside.plain() {
            Some(plain) => (self.end.dial)(plain, dial, &self.task, &self.locator),
            None => Err(self.not_ours()),
        }
    }

    fn listen(&self, _listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        Err(self.not_ours())
    }
}

impl AgainstFarEnd {
    fn not_ours(&self) -> Error {
        let label = self.end.info.label;
        Error::usage(format!("{} runs against {label}, which is no far end of ours", self.info.id))
    }
}
