//! Keepers of the commands of a pair: in place of the agents of a trial, and for the race like them.
//!
//! ```text
//! race               keeper of the server                        keeper of the client
//!   ── NodePlan ──────► starts it, waits until it is ready
//!   ◄── Ready, Connected ──
//!   ── NodePlan ─────────────────────────────────────────────────────►
//!   ◄──────────────────────────────────────────────────── Connected ──
//!   ── Start ─────────► its CPU time counts from now on
//!   ── Start ────────────────────────────────────────────────────────► starts it, waits for its end, reads its output
//!   ◄───────────────────────────────────────────────────── Finished ──
//!   ── PeerFinished ──► ends it, and all that it started
//!   ◄── Finished, Done ──                                ── PeerFinished ──►   ◄── Done ──
//! ```
//! A command that carries a contender (`transport::external`) has a keeper like that of a server, at either side: it works from
//! its start to `Stop`. A keeper also ends its command when the link to the race closes, for any reason. Only its parent
//! sends a `NodePlan`, which is no message of the control protocol: the process that runs the race, or a server whose
//! operator allows the pair (`served`). Then the plan is made of the operator's own file.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::net::UnixStream;

use deadheat_base::frame;
use serde::{Deserialize, Serialize};

use crate::control::{self, FromAgent};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Direction, Side};
use deadheat_contract::measurements::Cost;
use deadheat_contract::workload::ProgramWork;
use deadheat_datapath::transport::commands::{
    CommandPair, CommandTemplate, CommandValues, FigureSource, FigureText, PairFigure, ReadySign,
    StopSignal, seconds,
};
use deadheat_datapath::transport::external::Pair;
use deadheat_host::idle;

mod builds;
mod client;
mod copies;
mod folder;
mod served;
mod server;

pub use builds::{FileStamps, builds};
pub use copies::ProgramCopies;
pub use served::{ServedCommand, ServedTerms};

/// Longest time until a server command is ready.
const UNTIL_READY: Nanos = Nanos::from_secs(10);

/// Returns the longest time that the server command of a pair may take until it is ready.
pub fn until_ready(pair: &CommandPair) -> Nanos {
    pair.timeout.min(UNTIL_READY)
}

/// Plan of one command of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodePlan {
    /// Side whose command it is.
    side: Side,
    /// Name of the command in messages: `FILE:LINE: server = ...`.
    who: String,
    /// True if the bytes of other ends go through it.
    carries: bool,
    /// Command.
    command: CommandTemplate,
    /// Values of its placeholders. Its keeper adds its folder, and the address at which it listens.
    values: CommandValues,
    /// Address at which the server listens; port 0 for any free port.
    server: SocketAddr,
    /// Number of bytes to move, if the work has one.
    bytes: Option<u64>,
    /// Sign that a server is ready.
    ready: ReadySign,
    /// Signal that ends a server.
    stop: StopSignal,
    /// Longest time that a client may take.
    timeout: Nanos,
    /// Direction of a transfer, if that is the work.
    transfer: Option<Direction>,
    /// File in this command's folder to which it writes the bytes that arrive, if it writes one.
    received: Option<String>,
    /// Figures to read.
    figures: Vec<FigurePlan>,
    /// CPU for the command and all its threads; absent if the kernel chooses.
    #[serde(default)]
    cpu: Option<usize>,
    /// True if it runs at a higher priority than other programs, as our ends do ([`deadheat_host::idle`]).
    #[serde(default)]
    goes_first: bool,
    /// Ports from which the server's is chosen, in the order in which they are tried; empty for any free port.
    #[serde(default)]
    ports: Vec<u16>,
    /// Largest file that the command may write, in bytes; absent if there is no limit.
    #[serde(default)]
    largest_file: Option<u64>,
}

/// Figure to read from a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct FigurePlan {
    /// Name of its metric.
    metric: String,
    /// Name of its unit.
    unit: String,
    source: FigureSource,
    text: FigureText,
    /// File and line, for messages.
    place: String,
}

/// Order of a trial, as far as a command needs it.
pub(crate) struct CommandOrder<'a> {
    pub(crate) pair: &'a CommandPair,
    pub(crate) work: &'a ProgramWork,
    /// Address at which the server listens; port 0 for any free port.
    pub(crate) server: SocketAddr,
    pub(crate) seed: u64,
}

impl CommandOrder<'_> {
    /// Returns the plan of the command of one side.
    pub(crate) fn plan(&self, side: Side) -> NodePlan {
        let pair = self.pair;
        let command = pair.command(side);
        let receives = match side {
            Side::Far => pair.direction == Direction::Up,
            Side::Near => pair.direction == Direction::Down,
        };
        let (bytes, time, transfer, figures) = match self.work {
            ProgramWork::Transfer { bytes, direction } => {
                (Some(*bytes), None, Some(*direction), Vec::new())
            }
            ProgramWork::Figures(asked) => {
                let own = asked.figures.iter().filter_map(|figure| pair.figure(figure));
                let own = own.filter(|figure| figure.source != FigureSource::Cpu);
                (asked.bytes, asked.time, None, own.map(|one| figure_plan(pair, one)).collect())
            }
            ProgramWork::None | ProgramWork::Refused(_) => (None, None, None, Vec::new()),
        };
        let values = CommandValues::default()
            .with("bytes", bytes.map_or_else(String::new, |bytes| bytes.to_string()))
            .with("seconds", time.map(seconds).unwrap_or_default())
            .with("seed", self.seed)
            .with("pair", pair.folder.display());
        let end = match side {
            Side::Far => "server",
            Side::Near => "client",
        };
        let who = format!("{}: {end} = `{}`", pair.place(command.line), command.typed);
        NodePlan {
            ready: pair.ready.clone(),
            stop: pair.stop,
            timeout: pair.timeout,
            bytes,
            transfer,
            received: pair.received.clone().filter(|_| receives),
            figures,
            ..NodePlan::new(side, who, command, values, self.server)
        }
    }
}

fn figure_plan(pair: &CommandPair, figure: &PairFigure) -> FigurePlan {
    FigurePlan {
        metric: figure.figure.metric_name(),
        unit: figure.figure.unit.name().to_owned(),
        source: figure.source.clone(),
        text: figure.text.clone(),
        place: pair.place(figure.line),
    }
}

impl NodePlan {
    fn new(
        side: Side,
        who: String,
        command: &CommandTemplate,
        values: CommandValues,
        server: SocketAddr,
    ) -> NodePlan {
        NodePlan {
            side,
            who,
            carries: false,
            command: command.clone(),
            values,
            server,
            bytes: None,
            ready: ReadySign::Port(None),
            stop: StopSignal::Term,
            timeout: UNTIL_READY,
            transfer: None,
            received: None,
            figures: Vec::new(),
            cpu: None,
            goes_first: false,
            ports: Vec::new(),
            largest_file: None,
        }
    }

    /// Returns the plan of a command of an external contender, which passes on to `target`: of the near one with the
    /// address at which the far one listens, and without it of the far one.
    pub(crate) fn carrier(pair: &Pair, far: Option<SocketAddr>, target: SocketAddr) -> NodePlan {
        let values = CommandValues::default().with_address("target", target);
        let (side, end, command, values) = match far {
            Some(far) => (Side::Near, "near", &pair.near, values.with_address("far", far)),
            None => (Side::Far, "far", &pair.far, values),
        };
        let ip = match (far, target.ip()) {
            (None, ip) => ip,
            (Some(_), IpAddr::V4(_)) => Ipv4Addr::LOCALHOST.into(),
            (Some(_), IpAddr::V6(_)) => Ipv6Addr::LOCALHOST.into(),
        };
        let who = format!("{end} command `{}`", command.typed);
        let ready = ReadySign::Port(far.map(|_| pair.port));
        let plan = NodePlan::new(side, who, command, values, SocketAddr::new(ip, 0));
        NodePlan { carries: true, ready, ..plan }
    }

    /// Holds the command on a CPU, if one is given.
    pub(crate) fn on(self, cpu: Option<usize>) -> NodePlan {
        NodePlan { cpu, ..self }
    }

    /// Sets whether the command runs at a higher priority than other programs.
    pub(crate) fn first(self, goes_first: bool) -> NodePlan {
        NodePlan { goes_first, ..self }
    }

    /// Returns a hint for a command that failed: a copy misses the files beside its program.
    fn hint(&self) -> &'static str {
        if self.command.is_copy {
            "; a copy of its program ran: if that looks for files beside itself, write copy = \"none\" into the file"
        } else {
            ""
        }
    }

    /// Returns an error about the command.
    fn wrong(&self, what: &str) -> Error {
        Error::peer(&self.who, what)
    }

    /// Returns the error of a command that broke down, which is no consequence of another's.
    fn broke(&self, what: &str) -> Error {
        Error::broken(&self.who, what)
    }
}

/// Sends the plan of a command to its keeper, before any message.
///
/// # Errors
/// Fails if the keeper is gone.
pub(crate) fn send_plan(mut keeper: &UnixStream, plan: &NodePlan) -> Result<()> {
    let sent = frame::write(&mut keeper, plan);
    sent.map_err(|e| Error::broken(&plan.who, format!("its keeper is gone: {e}")))
}

/// Runs the keeper of a command on its link to the race; returns the process's exit code.
pub(crate) fn run(mut control: UnixStream) -> i32 {
    let plan: NodePlan = match frame::read(&mut control) {
        Ok(plan) => plan,
        Err(_) => return 1,
    };
    super::launched::adopt_all();
    if plan.goes_first {
        // The command inherits it.
        idle::go_first();
    }
    let done = if plan.carries || plan.side == Side::Far {
        server::serve(&plan, &mut control)
    } else {
        client::run(&plan, &mut control)
    };
    let word = match done {
        Ok(report) => FromAgent::Done(Box::new(report)),
        Err(error) => FromAgent::Fault(error.to_fault()),
    };
    let is_fault = matches!(word, FromAgent::Fault(_));
    let sent = control::write(&mut control, &word);
    i32::from(is_fault || sent.is_err())
}

fn send(control: &mut UnixStream, word: &FromAgent) -> Result<()> {
    control::write(control, word).map_err(|e| Error::peer("control", e.to_string()))
}

fn receive(control: &mut UnixStream) -> Result<control::ToAgent> {
    control::read(control).map_err(|e| Error::peer("control", e.to_string()))
}

/// Adds the kernel's other counts to the CPU time of all commands that this process has started, once all have ended.
fn with_usage(cost: Cost) -> Cost {
    // SAFETY: rusage is plain integers, for which all-zero is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let mut own = usage;
    // SAFETY: both are valid rusages to write to. The calls fail on bad arguments only.
    unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        libc::getrusage(libc::RUSAGE_SELF, &raw mut own);
    }
    let count = |count: libc::c_long| u64::try_from(count).unwrap_or(0);
    // Between fork and exec a command has this process's memory, and the kernel remembers the largest.
    let peak = (usage.ru_maxrss > own.ru_maxrss).then(|| count(usage.ru_maxrss) * 1024);
    Cost {
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
        peak_memory_bytes: peak,
        ..cost
    }
}
