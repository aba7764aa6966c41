//! Commands of an external contender while a trial runs. Each has a keeper, a process of this program at the host of
//! its side, which starts it, reports when it listens, counts its CPU time, and ends it with the trial.
//!
//! ```text
//! race ── Run ──► keeper ── starts ──► command      Listens, once its port is open
//!      ── Start ─►          reads the CPU time of the command and its children
//!      ── Stop ──►          reads it again, ends all of them, and sends Cost
//! ```
//! A keeper also ends its command when the link to the race closes, for any reason. No server starts keepers, and none
//! of these messages is in the control protocol.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use deadheat_base::frame;
use serde::{Deserialize, Serialize};

use deadheat_base::error::{Error, Fault, Result};
use deadheat_base::process::Helper;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::Side;
use deadheat_contract::measurements::Cost;
use deadheat_datapath::transport::commands::Port;
use deadheat_datapath::transport::external::{Command, Pair, Places};
use deadheat_datapath::transport::handover::readable;

mod keeper;

pub(crate) use keeper::keep;

/// Longest time until a command listens.
const UNTIL_LISTENING: Nanos = Nanos::from_secs(10);
/// Time for a keeper to send its last message, and to end.
const SLACK: Nanos = Nanos::from_secs(5);
/// Time between two looks at the flag that calls a trial off.
const LOOK: Nanos = Nanos::from_millis(100);

/// Command to run, with its addresses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CommandPlan {
    /// Command to start.
    pub(crate) command: Command,
    /// Addresses for its placeholders; the keeper chooses the port at which it listens.
    pub(crate) places: Places,
    /// Protocol of the port at which it listens; absent for either.
    pub(crate) port: Option<Port>,
    /// True if it runs at a higher priority than other programs, as our ends do.
    pub(crate) goes_first: bool,
}

/// Message to a keeper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ToKeeper {
    /// Run a command.
    Run(Box<CommandPlan>),
    /// The trial begins: CPU time counts from now on.
    Start,
    /// The trial is over.
    Stop,
}

/// Message from a keeper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FromKeeper {
    /// The command listens at this address.
    Listens(SocketAddr),
    /// CPU time of the command since the trial began; the last message.
    Cost(Cost),
    /// Fault of the command; the last message.
    Fault(Fault),
}

/// Starts the commands that forward a port to `target`, each with a keeper on its side; returns the address at which
/// the near one listens.
///
/// # Errors
/// Fails if a command cannot be started, ends at once, or does not listen in time.
pub(crate) fn forward(
    pair: &Pair,
    target: SocketAddr,
    keeper: impl Fn(Side) -> Result<Helper>,
    goes_first: bool,
    stop: &AtomicBool,
) -> Result<(SocketAddr, [RunningCommand; 2])> {
    let start = |side, command: &Command, port, places| {
        let plan = CommandPlan { command: command.clone(), places, port, goes_first };
        RunningCommand::start(keeper(side)?, side, &plan, stop)
    };
    let listen = SocketAddr::new(target.ip(), 0);
    let (far, far_command) =
        start(Side::Far, &pair.far, None, Places { listen, far: None, target })?;
    let here = match target.ip() {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::LOCALHOST),
    };
    let places = Places { listen: SocketAddr::new(here, 0), far: Some(far), target };
    let (near, near_command) = start(Side::Near, &pair.near, Some(pair.port), places)?;
    Ok((near, [near_command, far_command]))
}

/// Command that runs. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct RunningCommand {
    side: Side,
    who: String,
    keeper: Helper,
}

impl RunningCommand {
    /// Makes a keeper start a command, and waits until it listens; returns its address. `stop` calls that off.
    ///
    /// # Errors
    /// Fault of the command, with its last output.
    pub(crate) fn start(
        keeper: Helper,
        side: Side,
        plan: &CommandPlan,
        stop: &AtomicBool,
    ) -> Result<(SocketAddr, RunningCommand)> {
        let end = match side {
            Side::Near => "near",
            Side::Far => "far",
        };
        let who = format!("{end} command `{}`", plan.command.typed);
        let running = RunningCommand { side, who, keeper };
        running.send(&ToKeeper::Run(Box::new(plan.clone())))?;
        let give_up = Monotonic.now() + UNTIL_LISTENING + SLACK;
        while !running.has_message(LOOK)? {
            if stop.load(Ordering::Acquire) {
                return Err(Error::Interrupted);
            }
            if Monotonic.now() >= give_up {
                return Err(running.mute());
            }
        }
        match running.receive()? {
            FromKeeper::Listens(at) => Ok((at, running)),
            FromKeeper::Fault(fault) => Err(running.failed(fault)),
            FromKeeper::Cost(_) => Err(running.mute()),
        }
    }

    /// Starts to count its CPU time.
    ///
    /// # Errors
    /// Fails with the reason if it has ended.
    pub(crate) fn begin(&mut self) -> Result<()> {
        let done = self.send(&ToKeeper::Start);
        done.map_err(|error| self.fault().unwrap_or(error))
    }

    /// Ends it; returns its cost.
    fn end(&mut self) -> Result<Cost> {
        let done = self.send(&ToKeeper::Stop);
        done.map_err(|error| self.fault().unwrap_or(error))?;
        if !self.has_message(SLACK)? {
            return Err(self.mute());
        }
        match self.receive()? {
            FromKeeper::Cost(cost) => Ok(cost),
            FromKeeper::Fault(fault) => Err(self.failed(fault)),
            FromKeeper::Listens(_) => Err(self.mute()),
        }
    }

    /// Returns the error that ended it, if it has ended by itself.
    fn fault(&mut self) -> Option<Error> {
        match self.has_message(LOOK) {
            Ok(true) => match self.receive() {
                Ok(FromKeeper::Fault(fault)) => Some(self.failed(fault)),
                _ => None,
            },
            _ => None,
        }
    }

    fn failed(&self, fault: Fault) -> Error {
        Error::broken(&self.who, fault.message)
    }

    fn mute(&self) -> Error {
        Error::broken(&self.who, "its keeper does not answer")
    }

    fn send(&self, word: &ToKeeper) -> Result<()> {
        frame::write(&mut self.keeper.control(), word)
            .map_err(|e| Error::peer(&self.who, e.to_string()))
    }

    fn receive(&self) -> Result<FromKeeper> {
        frame::read(&mut self.keeper.control()).map_err(|e| Error::peer(&self.who, e.to_string()))
    }

    fn has_message(&self, timeout: Nanos) -> Result<bool> {
        use std::os::fd::AsFd;
        readable(self.keeper.control().as_fd(), timeout)
            .map_err(|e| Error::setup(format!("wait for the {}", self.who), e))
    }
}

impl Drop for RunningCommand {
    /// The keeper is not killed, because it then could not end the command's children.
    fn drop(&mut self) {
        let _ = self.keeper.control().shutdown(std::net::Shutdown::Write);
        self.keeper.ended(SLACK);
    }
}

/// Ends commands; returns their cost by side.
///
/// # Errors
/// Fails if one of them ended before, with the reason.
pub(crate) fn end(commands: &mut Vec<RunningCommand>) -> Result<[Cost; 2]> {
    let mut costs: [Cost; 2] = Default::default();
    for mut command in commands.drain(..) {
        let cost = &mut costs[usize::from(command.side == Side::Far)];
        *cost = cost.plus(&command.end()?);
    }
    Ok(costs)
}

/// Returns the error of a command that has ended by itself, if one has, in place of an error that follows from it.
pub(crate) fn blame(commands: &mut [RunningCommand], error: Error) -> Error {
    match error {
        Error::Interrupted => error,
        error => commands.iter_mut().find_map(RunningCommand::fault).unwrap_or(error),
    }
}
