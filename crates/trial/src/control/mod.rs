//! Control: the protocol between race, server and agents, with its connection, keys, and client. Messages are
//! length-prefixed JSON, versioned, with golden bytes in the tests. Control runs over TCP (or a socket pair on one
//! machine), never over the path's UDP.
//!
//! ```text
//! race                        server                       far agent      near agent
//!  | Greeting ------------------>|
//!  |<------------------ Welcome  |
//!  | Proof (if asked for) ------>|
//!  |<-------------------- Facts  |
//!  | Echo* --------------------->| (at any time)
//!  |<------------------- Echoed* |
//!  | Open ---------------------->| (Queued*, then relays) ------->|
//!  |<-------------------------------------------------- Ready     |
//!  | Open ---------------------------------------------------------------------->|
//!  |<------------------------------------------------ Connected, Connected       |
//!  | Start ------------------------------------------------------>| and near --->|
//!  |<------------------------------ Interval* (if the plan asks for it)          |
//!  |<------------------------------------------------- Finished, Finished        |
//!  | PeerFinished ----------------------------------------------->| and near --->|
//!  |<------------------------------------------------------ Done, Done           |
//! ```
//! A server whose operator allows pairs of commands starts the keeper of one in place of the far agent: `Pairs` asks which,
//! and `Command` takes the place of `Open` ([`pairs`]).
//!
//! An agent ends after `Done` or `Fault`; a server waits for the next `Open`. Where a trial has several far ends at one
//! server, each has a control connection of its own: the first `Open` waits for a turn and makes a grant, which the
//! others name ([`GrantPlace`]).

use std::net::SocketAddr;
use std::path::PathBuf;

use deadheat_base::unset::is_unset;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use deadheat_base::clocks::{ClockMap, HostClock};

use self::pairs::{CommandAsk, PairList};
use super::explain::{EndNotes, Pass};
use crate::between::turn::{CoturnPlan, TurnPlan};
use deadheat_base::error::{Error, Fault, Result};
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;
use deadheat_base::units::hex::{hex, unhex};
use deadheat_contract::contract::{Side, WaitMode};
use deadheat_contract::measurements::clock::Echo;
use deadheat_contract::measurements::series::{Point, Series};
use deadheat_contract::measurements::{ConnStats, Cost, HostCounters, Tally, Throttled};
use deadheat_contract::workload::{EndpointReport, TaskInfo};
use deadheat_datapath::datapath::origin::Origin;
use deadheat_datapath::transport::hello::Token;
use deadheat_datapath::transport::{Address, Effective};
use deadheat_records::commands::CommandReport;
use deadheat_records::host::HostFacts;

pub use deadheat_base::frame::{LARGEST, parse, read, read_frame, write, write_frame};

pub mod announcement;
pub mod eyeballs;
pub mod heartbeat;
pub mod key;
pub mod pairs;
pub(super) mod patient;
pub mod private_file;
pub mod reach;
pub mod remote;
pub mod stream;

/// Number of the protocol of this version.
pub const PROTOCOL: u32 = 4;

/// Oldest protocol that this version speaks as well, with servers and with clients. It has one far end in a trial.
pub const OLDEST_PROTOCOL: u32 = 3;

/// Largest number of far ends that one trial has at one server. Each costs a process and a control connection.
pub const MOST_FAR_ENDS: u16 = 16;

/// Environment variable that may hold a shared secret.
pub const SECRET_VARIABLE: &str = "DEADHEAT_SECRET";

/// First word of a greeting.
pub const MAGIC: &str = "deadheat";

/// First message from a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// [`MAGIC`].
    pub magic: String,
    /// Oldest protocol that the client speaks ([`OLDEST_PROTOCOL`]).
    pub protocol: u32,
    /// Version of the client.
    pub version: String,
    /// Newest protocol that the client speaks ([`PROTOCOL`]); absent if it speaks one only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<u32>,
    /// Random number of the client, which all its control connections give: a server counts them as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Token>,
}

impl Greeting {
    /// Returns the newest protocol that this client and this version both speak; `None` if there is none.
    pub fn common(&self) -> Option<u32> {
        let newest = self.newest.unwrap_or(self.protocol).min(PROTOCOL);
        (newest >= self.protocol.max(OLDEST_PROTOCOL)).then_some(newest)
    }
}

/// Message from a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromServer {
    /// Answer to the greeting.
    Welcome {
        /// Protocol that both speak from now on.
        protocol: u32,
        /// Version of the server.
        #[serde(deserialize_with = "deadheat_base::foreign::text")]
        version: String,
        /// Hexadecimal nonce for the proof of the shared secret; absent if no proof is needed.
        nonce: Option<String>,
        /// Limits that the server sets.
        limits: Limits,
        /// True if it answers echoes for the comparison of clocks; servers of older versions do not.
        #[serde(default)]
        echoes: bool,
        /// True if it answers probes of the path ([`ToAgent::Probe`]).
        #[serde(default)]
        answers_probes: bool,
        /// True if it knows relays between its port and another server; servers of older versions do not.
        #[serde(default)]
        relays: bool,
        /// True if it knows commands as far ends ([`ToAgent::Command`]), whether its operator allows any or not.
        #[serde(default)]
        commands: bool,
    },
    /// Facts of the server's host, once the client is admitted.
    Facts(Box<HostFacts>),
    /// Answer to an echo.
    Echoed(EchoAnswer),
    /// The server awaits probes of the path.
    Probing,
    /// The probes are over.
    Probed {
        /// True if a hello of the client arrived over UDP.
        arrived: bool,
    },
    /// Pairs of commands with the name that was asked for.
    Pairs(Box<PairList>),
    /// The trial waits for others to end.
    Queued {
        /// Number of trials ahead of it.
        ahead: u32,
    },
    /// The server has no capacity now; the client may ask again soon.
    Full(Fault),
    /// The server refuses; with the reason and a remedy.
    Refused(Fault),
    /// The server's operator stopped it; its last message, whatever is in progress.
    Stopped(Fault),
}

impl FromServer {
    /// Returns true if a message is from a server, judged by its tag; an agent's messages have others.
    pub fn is_meant(body: &[u8]) -> bool {
        let space = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'{';
        let start = body.iter().position(|byte| !space(byte)).unwrap_or(body.len());
        let words = [
            "welcome", "facts", "echoed", "probing", "probed", "pairs", "queued", "full",
            "refused", "stopped",
        ];
        words.iter().any(|word| body[start..].starts_with(format!("\"{word}\"").as_bytes()))
    }
}

/// Proof of knowing the shared secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// HMAC-SHA-256 (RFC 2104) of the nonce's text under the secret, in hexadecimal; on an encrypted connection, of the
    /// nonce's text and the connection's channel binding (RFC 9266), so that the proof cannot be replayed on another.
    pub mac: String,
}

/// Limits that a server sets for one trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Duration of the trial.
    pub duration_ns: Nanos,
    /// Bytes per direction, as IP packets.
    pub bytes: u64,
    /// Mean rate per direction, over any second.
    pub rate_bps: BitRate,
    /// Trials that may run at once; further ones are queued.
    pub concurrent: u32,
}

/// Message to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToAgent {
    /// Prepare: listen (far) or dial (near).
    Open(Box<AgentPlan>),
    /// Start the server command of a pair that the operator allows, in place of an agent; only servers do.
    Command(Box<CommandAsk>),
    /// Answer which pairs of commands with this name the operator allows; only servers do.
    Pairs {
        /// Name of the pair.
        name: String,
    },
    /// Relay between two ends: listen, and forward to the far end's address. It ends with its link.
    Relay(RelayPlan),
    /// Connect to the far end that the relay's plan names, at another server, which is listening now.
    Onward,
    /// Start.
    Start,
    /// End the running flows and report, as a load does once the work beside it is over.
    Stop,
    /// Await probes of the path over UDP with this token until the next message; only servers do.
    Probe {
        /// Token of the probes' hello.
        token: Token,
    },
    /// Answer at once with the times of the far clock. A server answers itself, before, amid and after trials.
    Echo {
        /// Time of sending on the near clock, which is repeated in the answer.
        sent_ns: Nanos,
    },
    /// End the trial at once. A server answers with the agent's last message or a fault.
    CallOff,
    /// The other end has sent all it will, by flow.
    PeerFinished {
        /// Counters of the data that it sent, by flow.
        sent: Vec<Tally>,
    },
}

/// Message from an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromAgent {
    /// The far end listens.
    Ready {
        /// Endpoint to dial.
        endpoint: Address,
    },
    /// The far end of others serves another client, and is asked again soon (a stand-in here, before it is ready).
    Busy,
    /// Every flow is connected; of a relay, the server of its far end.
    Connected,
    /// State of a flow, if the plan asks for it while the trial runs.
    Interval {
        /// Number of the flow.
        flow: u16,
        /// Newest point of the flow.
        point: Box<Point>,
    },
    /// Every half has sent all it will.
    Finished {
        /// Counters of the data sent, by flow.
        sent: Vec<Tally>,
    },
    /// Figures; the last message.
    Done(Box<AgentReport>),
    /// Failure of the agent; the last message.
    Fault(Fault),
}

/// Plan of one end for a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentPlan {
    /// End that this plan is for.
    pub side: Side,
    /// Contender as typed.
    pub contender: String,
    /// Workload as typed.
    pub workload: String,
    /// Endpoint to dial (near) or bind (far).
    pub endpoint: Address,
    /// Endpoints of the other far nodes, if there are several: flow `f` goes to the node `f` modulo their number
    /// (near).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<Address>,
    /// Flows of this end if they are not all flows: its part among several far nodes (far), or the one flow that serves
    /// all of them (near).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// Token of the trial.
    pub token: Token,
    /// Seed of the trial.
    pub seed: u64,
    /// CPU to run on; absent for any.
    pub cpu: Option<usize>,
    /// Mode of waiting.
    pub wait: WaitMode,
    /// File for raw samples (near only; ignored by servers).
    pub samples: Option<PathBuf>,
    /// Limits that the server sets; absent without a server.
    pub limits: Option<Limits>,
    /// Time between two points of each flow's series.
    #[serde(default = "default_interval")]
    pub interval_ns: Nanos,
    /// True if the points are reported while the trial runs.
    #[serde(default)]
    pub live: bool,
    /// Purpose of the trial: for its figures, or to be explained.
    #[serde(default, skip_serializing_if = "Pass::is_usual")]
    pub pass: Pass,
    /// Properties of a path that the race itself emulates; absent on any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulated: Option<PathTerms>,
    /// Largest IP packet that passes unfragmented, if a relay on the way hides it from this end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Local address and interface of the sockets of this end (near); absent if the kernel chooses.
    #[serde(default, skip_serializing_if = "Origin::is_any")]
    pub origin: Origin,
    /// Size in bytes of IP packets beyond which this end's vanish on the way, if probes found that they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hole: Option<u32>,
    /// True if this end runs at a higher priority than other programs ([`deadheat_host::idle`]).
    #[serde(default)]
    pub goes_first: bool,
    /// Most bytes per direction, as IP packets, of work that fills a path to another host without a congestion
    /// control; absent if the work or the contender is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blast: Option<u64>,
    /// Place of this far end among the far ends of its trial at one server; absent if it is the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantPlace>,
    /// Map from this host's monotonic clock to the clock of the trial, which is the near host's; absent if that is the
    /// clock of this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockMap>,
    /// Name of the far end of others that `endpoint` is of; absent if it is one of ours. A server takes no such plan: it
    /// would connect to hosts that its operator has not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_end: Option<String>,
    /// Server of the far end, to which a server relays the work's traffic in place of running a far end itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onward: Option<SocketAddr>,
    /// SHA-256 of the public key that the far end of others has to prove, as typed; absent if authorities vouch for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_pin: Option<String>,
}

/// Answer to an echo, for the comparison of two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EchoAnswer {
    /// Time of sending as the echo gave it.
    pub near_sent_ns: Nanos,
    /// Time at which the echo was received, on the far clock.
    pub received_ns: Nanos,
    /// Time of this answer, on the far clock.
    pub sent_ns: Nanos,
    /// State of the far host's clocks.
    pub host: HostClock,
}

impl EchoAnswer {
    /// Returns the four times of the echo, whose answer arrived at `received` on the near clock.
    pub fn received_at(&self, received: Nanos) -> Echo {
        Echo {
            near_sent: self.near_sent_ns.0.min(received.0),
            far_received: self.received_ns.0,
            far_sent: self.sent_ns.0,
            near_received: received.0,
        }
    }
}

/// Place of a far end in the grant of its trial: the permission of a server to run a trial, with the turn, the limits
/// and the share of the allowance that all its far ends there have together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantPlace {
    /// Name of the grant: 128 fresh random bits.
    pub token: Token,
    /// Number of the trial's far ends at this server.
    pub nodes: u16,
    /// Number of this one, from 0; the first makes the grant.
    pub node: u16,
    /// Task of this one.
    #[serde(default)]
    pub task: GrantTask,
}

/// Task of a far end within its trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantTask {
    /// Measured work, which ends by itself.
    #[default]
    Work,
    /// Load beside it, which is stopped once the work is over.
    Load,
}

/// Plan of a node between the ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RelayPlan {
    /// Relay that accepts and forwards.
    Forward(ForwardPlan),
    /// Relay at a server, to the far end at another one.
    Onward(OnwardPlan),
    /// TURN client beside the near end.
    Turn(TurnPlan),
    /// TURN server at the far end's host.
    Coturn(CoturnPlan),
}

/// Plan of a relay: a node between the near end and a far one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForwardPlan {
    /// Address to listen at; port 0 for any free port.
    pub at: SocketAddr,
    /// Address of the far end to forward to.
    pub to: SocketAddr,
    /// Token of the trial, at a server, which reads the hellos of near ends; absent elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
}

/// Plan of a relay at a server, to the far end of the trial at another server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OnwardPlan {
    /// Address of this server, where near ends come in.
    pub at: SocketAddr,
    /// Address of the far end's server.
    pub to: SocketAddr,
    /// Token of the trial.
    pub token: Token,
    /// Limits of this server, for all that the relay sends and receives.
    pub limits: Limits,
}

/// Flows of one far node among several: every `nodes`-th, from `node` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Number of the node, from 0.
    pub node: u16,
    /// Number of nodes of its side.
    pub nodes: u16,
}

impl Share {
    /// All flows.
    pub const WHOLE: Share = Share { node: 0, nodes: 1 };

    /// Returns the flows of this node of a side in a work, in order.
    pub fn flows(self, work: &TaskInfo, side: Side) -> Vec<u16> {
        work.flows_of(side, self.node, self.nodes)
    }
}

/// Properties of an emulated path that an end has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathTerms {
    /// Longest time that the path may hold a message that is not queued behind others.
    pub transit_ns: Nanos,
    /// Time for which a near end tries to connect.
    pub dial_ns: Nanos,
}

fn default_interval() -> Nanos {
    crate::agent::intervals::DEFAULT
}

/// Figures of one end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AgentReport {
    /// Reports of the endpoints, by flow.
    pub halves: Vec<EndpointReport>,
    /// Counters of the connections, by flow.
    pub conns: Vec<ConnStats>,
    /// Time series, by flow.
    #[serde(default)]
    pub series: Vec<Series>,
    /// Options as read back from the first flow.
    pub effective: Effective,
    /// Options of each flow; empty if all flows have the same as the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effective_by_flow: Vec<Effective>,
    /// Cost of the trial at this end.
    pub cost: Cost,
    /// Share of CPU time that the hypervisor took during the trial; absent if the kernel does not show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal_share: Option<f64>,
    /// Load average (1 minute) at the start; absent likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// Counters of the network code over the trial, for the whole network namespace.
    #[serde(default)]
    pub counters: Option<HostCounters>,
    /// Throttling of this end's control group by a CPU quota over the trial; absent if it was not throttled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<Throttled>,
    /// Notes of this end, in an instrumented trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<Box<EndNotes>>,
    /// Report on the command that did this end's work, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Box<CommandReport>>,
    /// Most bytes of a flow that a far end of others sent and did not count.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub uncounted: u64,
}

/// Shared secret. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Creates a secret from the text of a file or variable; surrounding white space is ignored.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is empty: a secret that everyone knows is worse than none.
    pub fn new(text: &str, from: &str) -> Result<Secret> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Error::usage(format!(
                "the secret from {from} is empty; write one into it, such as the output of \
                 `openssl rand -hex 16`, or leave it away to let everyone in"
            )));
        }
        Ok(Secret(text.to_owned()))
    }

    /// Reads the secret in `DEADHEAT_SECRET`, if it is set.
    ///
    /// # Errors
    /// Fails like [`Secret::new`].
    pub fn from_environment() -> Result<Option<Secret>> {
        let Ok(text) = std::env::var(SECRET_VARIABLE) else { return Ok(None) };
        Secret::new(&text, SECRET_VARIABLE).map(Some)
    }

    /// Returns the text of the secret.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Returns the proof of knowing `secret`, for a server's `nonce` and the connection's channel binding, if it has one.
pub fn prove(secret: &str, nonce: &str, binding: Option<[u8; 32]>) -> Proof {
    let mac = keyed(secret, nonce, binding).finalize().into_bytes();
    Proof { mac: hex(&mac) }
}

/// Returns true if `proof` shows knowledge of `secret`. Takes the same time wherever they differ.
pub fn proved(secret: &str, nonce: &str, binding: Option<[u8; 32]>, proof: &Proof) -> bool {
    let bytes = unhex::<32>(&proof.mac);
    bytes.is_some_and(|bytes| keyed(secret, nonce, binding).verify_slice(&bytes).is_ok())
}

fn keyed(secret: &str, nonce: &str, binding: Option<[u8; 32]>) -> Hmac<Sha256> {
    // HMAC takes keys of any length, so this cannot fail; an all-zero key would still be safe to refuse.
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes())
        .unwrap_or_else(|_| Hmac::<Sha256>::new(&Default::default()));
    mac.update(nonce.as_bytes());
    // A nonce has a fixed length, so its end is never ambiguous.
    mac.update(binding.as_ref().map_or(&[], |binding| &binding[..]));
    mac
}

/// Default port of servers, TCP and UDP.
pub const DEFAULT_PORT: u16 = 5210;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let greeting = Greeting {
            magic: MAGIC.into(),
            protocol: 1,
            version: "0.1.0".into(),
            newest: None,
            client: None,
        };
        let mut wire = Vec::new();
        write(&mut wire, &greeting).unwrap();
        let json = br#"{"magic":"deadheat","protocol":1,"version":"0.1.0"}"#;
        assert_eq!(wire[..4], (json.len() as u32).to_be_bytes());
        assert_eq!(&wire[4..], json);
        assert_eq!(read::<Greeting>(&mut wire.as_slice()).unwrap(), greeting);
    }

    #[test]
    fn two_versions_agree_on_the_newest_protocol_that_both_speak() {
        let of = |protocol, newest| {
            let (magic, version) = (MAGIC.to_owned(), "0.1.0".to_owned());
            Greeting { magic, protocol, version, newest, client: None }.common()
        };
        assert_eq!(of(OLDEST_PROTOCOL, None), Some(OLDEST_PROTOCOL), "the last version's client");
        assert_eq!(of(OLDEST_PROTOCOL, Some(PROTOCOL)), Some(PROTOCOL), "this one's");
        assert_eq!(of(OLDEST_PROTOCOL, Some(PROTOCOL + 1)), Some(PROTOCOL), "the next one's");
        assert_eq!(of(PROTOCOL, None), Some(PROTOCOL));
        assert_eq!(of(OLDEST_PROTOCOL - 1, None), None);
        assert_eq!(of(PROTOCOL + 1, Some(PROTOCOL + 2)), None);
    }

    #[test]
    fn each_kind_of_garbage_is_named() {
        let say = |bytes: &[u8]| read::<Greeting>(&mut &bytes[..]).unwrap_err().to_string();
        assert!(say(b"GET / HTTP/1.1\r\n\r\n").contains("not a deadheat peer?"));
        assert!(say(&[0, 0, 0, 9, b'{']).contains("stopped after 1 of 9 bytes"));
        assert!(say(&[0, 0, 0, 2, b'{', b'}']).contains("makes no sense: missing field"));
        assert!(say(&[0, 0, 0, 0]).contains("1 to 1048576 expected"));
    }

    #[test]
    fn what_is_wrong_in_a_message_is_shown_with_its_place() {
        let say = |body: &str| parse::<FromAgent>(body.as_bytes()).unwrap_err().to_string();
        let report = AgentReport { steal_share: Some(0.0), ..AgentReport::default() };
        let done = serde_json::to_string(&FromAgent::Done(Box::new(report))).unwrap();
        for (figure, why) in [
            ("NaN", "expected value"),
            ("Infinity", "expected value"),
            ("1e999", "number out of range"),
            ("\"0\"", "invalid type: string \"0\", expected f64"),
        ] {
            for between in ["", "\n"] {
                let said = say(&done
                    .replace("\"steal_share\":0.0", &format!("{between}\"steal_share\":{figure}")));
                assert!(said.contains(why), "{said}");
                assert!(said.contains(&format!("\"steal_share\":{figure}")), "{said}");
            }
        }
        let said = say(r#"{"dane":{}}"#);
        assert!(said.contains("unknown variant `dane`") && said.contains("`done`"), "{said}");
    }

    #[test]
    fn every_word_of_a_server_is_known_for_one() {
        let fault = || Fault { kind: deadheat_base::error::FaultKind::Peer, message: "no".into() };
        let limits =
            Limits { duration_ns: Nanos(1), bytes: 1, rate_bps: BitRate(1), concurrent: 1 };
        let (version, host) = ("1".to_owned(), HostClock::default());
        let welcome = FromServer::Welcome {
            protocol: 1,
            version,
            nonce: None,
            limits,
            echoes: true,
            answers_probes: true,
            relays: true,
            commands: true,
        };
        let (near_sent_ns, received_ns, sent_ns) = (Nanos(1), Nanos(2), Nanos(3));
        let echoed = EchoAnswer { near_sent_ns, received_ns, sent_ns, host };
        let words = [
            welcome,
            FromServer::Facts(Box::default()),
            FromServer::Echoed(echoed),
            FromServer::Queued { ahead: 1 },
            FromServer::Probing,
            FromServer::Probed { arrived: true },
            FromServer::Pairs(Box::default()),
            FromServer::Full(fault()),
            FromServer::Refused(fault()),
            FromServer::Stopped(fault()),
        ];
        for word in words {
            // A new variant fails to compile here until it is in the list above.
            match word {
                FromServer::Welcome { .. }
                | FromServer::Facts(_)
                | FromServer::Echoed(_)
                | FromServer::Queued { .. }
                | FromServer::Probing
                | FromServer::Probed { .. }
                | FromServer::Pairs(_)
                | FromServer::Full(_)
                | FromServer::Refused(_)
                | FromServer::Stopped(_) => {}
            }
            let body = serde_json::to_vec(&word).unwrap();
            assert!(FromServer::is_meant(&body), "{}", String::from_utf8_lossy(&body));
            assert!(FromServer::is_meant(&serde_json::to_vec_pretty(&word).unwrap()));
        }
        for word in [FromAgent::Connected, FromAgent::Fault(fault())] {
            assert!(!FromServer::is_meant(&serde_json::to_vec(&word).unwrap()));
        }
        assert!(!FromServer::is_meant(b"") && !FromServer::is_meant(b"{"));
    }

    #[test]
    fn a_secret_is_proved_without_being_sent() {
        let proof = prove("open sesame", "00ff", None);
        let is_proved = |secret, nonce, binding| proved(secret, nonce, binding, &proof);
        assert!(is_proved("open sesame", "00ff", None));
        assert!(!is_proved("open sesame", "00fe", None));
        assert!(!is_proved("open sesame", "00ff", Some([0; 32])), "it is for another connection");
        assert!(!is_proved("other", "00ff", None));
        assert!(!proved("open sesame", "00ff", None, &Proof { mac: "é".repeat(32) }));
        let bound = prove("open sesame", "00ff", Some([1; 32]));
        assert!(proved("open sesame", "00ff", Some([1; 32]), &bound));
        assert!(!proved("open sesame", "00ff", Some([2; 32]), &bound));
        // RFC 4231, test case 2.
        assert_eq!(
            prove("Jefe", "what do ya want for nothing?", None).mac,
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }
}
