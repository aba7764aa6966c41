//! Link to an agent: to a child process here, or through a server to a remote host.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::between::commands::{self, NodePlan};
use crate::control::patient::Patient;
use crate::control::stream::{ControlStream, Stream};
use crate::control::{self, FromAgent, FromServer, ToAgent, heartbeat};
use crate::process::{self, AgentProcess};
use deadheat_base::error::{Error, Fault, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::transport::handover::readable;
use deadheat_host::process_tree::cpu_ns;
use deadheat_path::emulated::entry::Entry;

/// Longest time between the first and the last byte of a message from a peer.
const MESSAGE_TIMEOUT: Nanos = Nanos::from_secs(10);

/// Largest number of unread messages before a server's last one.
const MOST_UNREAD: u32 = 64;

/// Stop flag of links that have none: a local agent is a child of this process.
static NEVER: AtomicBool = AtomicBool::new(false);

/// Link to an agent. Dropping it ends a local agent, and calls off the trial of one at a server, which otherwise goes
/// on with it and accepts no new one.
pub struct Link {
    who: String,
    line: LinkChannel,
    /// True for a keeper of a command, which ends by itself once the link is closed: killed, it could not end the command.
    ends_itself: bool,
    /// True while an agent runs for it: `Open` or `Command` was sent, and no last message has arrived.
    is_running: bool,
}

enum LinkChannel {
    Process(AgentProcess),
    Server { stream: Arc<ControlStream>, stop: Arc<AtomicBool> },
}

impl Link {
    /// Creates a link to an agent in a child process.
    ///
    /// # Errors
    /// Fails if the agent cannot be started.
    pub fn to_process(who: &str) -> Result<Link> {
        Link::to(who, process::agent()?)
    }

    /// Creates a link to an agent in a child process on one of the hosts of an emulated path. Control itself does not
    /// travel on that path.
    ///
    /// # Errors
    /// Fails if the agent cannot be started there.
    pub fn to_process_on(who: &str, host: &Entry<'_>) -> Result<Link> {
        Link::to(who, process::agent_on(host)?)
    }

    fn to(who: &str, process: AgentProcess) -> Result<Link> {
        let line = LinkChannel::Process(process);
        Ok(Link { who: who.to_owned(), line, ends_itself: false, is_running: false })
    }

    /// Creates a link to the keeper of a command, which gets its plan.
    ///
    /// # Errors
    /// Fails if the keeper is gone.
    pub(crate) fn to_command(who: &str, keeper: AgentProcess, plan: &NodePlan) -> Result<Link> {
        commands::send_plan(keeper.control(), plan)?;
        let mut link = Link::to(who, keeper)?;
        link.ends_itself = true;
        Ok(link)
    }

    /// Creates a link through a server, on its control connection, which lasts until `stop` is set.
    pub fn to_server(who: &str, control: &Arc<ControlStream>, stop: Arc<AtomicBool>) -> Link {
        let stream = Arc::clone(control);
        let line = LinkChannel::Server { stream, stop };
        Link { who: who.to_owned(), line, ends_itself: false, is_running: false }
    }

    /// Sends a message to the agent.
    ///
    /// # Errors
    /// Fails if the agent is gone.
    pub fn send(&mut self, message: &ToAgent) -> Result<()> {
        let done = match &mut self.line {
            LinkChannel::Process(process) => control::write(&mut process.control(), message),
            LinkChannel::Server { stream, .. } => control::write(&mut &**stream, message),
        };
        self.is_running |=
            done.is_ok() && matches!(message, ToAgent::Open(_) | ToAgent::Command(_));
        done.map_err(|e| self.last_message().unwrap_or_else(|| self.gone(e)))
    }

    /// Returns the error in the last message of a server that has closed the connection: its operator stopped it.
    fn last_message(&mut self) -> Option<Error> {
        if !self.is_through_server() {
            return None;
        }
        for _ in 0..MOST_UNREAD {
            let message = self.has_message(Nanos::ZERO).ok()?.then(|| self.receive())?.ok()?;
            if let LinkMessage::Server(FromServer::Stopped(fault)) = message {
                return Some(stopped(&self.who, &fault));
            }
        }
        None
    }

    /// Waits for the agent's next message, or for one of the server.
    ///
    /// # Errors
    /// Fails if the agent is gone; [`Error::Nonsense`] if the message makes no sense.
    pub fn receive(&mut self) -> Result<LinkMessage> {
        let received = self.read();
        self.is_running &= received.as_ref().is_ok_and(LinkMessage::is_followed);
        received
    }

    fn read(&mut self) -> Result<LinkMessage> {
        let deadline = Monotonic.now() + MESSAGE_TIMEOUT;
        let frame = match &self.line {
            LinkChannel::Process(process) => {
                let stream = process.control();
                control::read_frame(&mut Patient { stream, deadline, stop: &NEVER })
            }
            LinkChannel::Server { stream, stop } => {
                control::read_frame(&mut Patient { stream: &**stream, deadline, stop })
            }
        };
        let frame = frame.map_err(|e| self.gone(e))?;
        let message = if self.is_through_server() && FromServer::is_meant(&frame) {
            control::parse(&frame).map(LinkMessage::Server)
        } else {
            control::parse(&frame).map(LinkMessage::Agent)
        };
        if matches!(message, Ok(LinkMessage::Server(FromServer::Stopped(_)))) {
            self.lose();
        }
        message.map_err(|e| Error::Nonsense {
            who: self.who.clone(),
            what: format!("{e}; use the same version on both ends"),
        })
    }

    /// Returns the descriptor to poll for the next message.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.line {
            LinkChannel::Process(process) => process.control().as_fd(),
            LinkChannel::Server { stream, .. } => stream.as_fd(),
        }
    }

    /// Returns true if a message arrives within `timeout`.
    ///
    /// # Errors
    /// Fails if the link cannot be polled.
    pub fn has_message(&self, timeout: Nanos) -> Result<bool> {
        let timeout = if self.holds_more() { Nanos::ZERO } else { timeout };
        let seen = readable(self.fd(), timeout).map(|is_readable| is_readable || self.holds_more());
        seen.map_err(|e| Error::setup(format!("wait for {}", self.who), e))
    }

    /// Returns true if a message is buffered, so that the descriptor may not be readable.
    pub fn holds_more(&self) -> bool {
        match &self.line {
            LinkChannel::Process(_) => false,
            LinkChannel::Server { stream, .. } => stream.holds_more(),
        }
    }

    /// Returns the name of the peer at the other end.
    pub fn who(&self) -> &str {
        &self.who
    }

    /// Returns true if the agent is reached through a server, which outlives the trial.
    pub fn is_through_server(&self) -> bool {
        matches!(self.line, LinkChannel::Server { .. })
    }

    /// Sets the heartbeat of control to a server: it rests while a trial is measured. An agent here needs none.
    pub(super) fn keep_heartbeat(&self, phase: RacePhase) {
        let LinkChannel::Server { stream, .. } = &self.line else { return };
        let set = match phase {
            RacePhase::Measured => heartbeat::rest(stream.tcp()),
            RacePhase::Between => heartbeat::beat(stream.tcp()),
        };
        // A connection that takes no options any more is gone, which the next message shows.
        drop(set);
    }

    /// Returns true if the agent is reached through a server that does not answer any more.
    pub(super) fn is_lost(&self) -> bool {
        matches!(&self.line, LinkChannel::Server { stream, .. } if stream.is_lost())
    }

    /// Records that a server does not answer any more.
    pub(super) fn lose(&self) {
        if let LinkChannel::Server { stream, .. } = &self.line {
            stream.lose();
        }
    }

    /// Returns the error for an agent, or a server, that broke down.
    pub fn broken(&self, what: &str) -> Error {
        match self.line {
            LinkChannel::Process(_) => Error::broken(&self.who, what),
            LinkChannel::Server { .. } => Error::peer(&self.who, what),
        }
    }

    /// Returns the CPU time that the agent has used so far; `None` if it is remote, or gone.
    pub fn cpu_time(&self) -> Option<Nanos> {
        match &self.line {
            LinkChannel::Process(process) => cpu_ns(process.id()).map(Nanos),
            LinkChannel::Server { .. } => None,
        }
    }

    fn gone(&self, error: io::Error) -> Error {
        self.lose();
        let last_words = match &self.line {
            LinkChannel::Process(process) => process.last_words(),
            LinkChannel::Server { .. } => None,
        };
        let what = match (error.kind(), last_words) {
            (_, Some(words)) => {
                format!("it ended in the middle of the trial; its last words: {words}")
            }
            (
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe,
                _,
            ) => "it vanished in the middle of the trial".to_owned(),
            // From the kernel: the heartbeat.
            (io::ErrorKind::TimedOut, _) if error.raw_os_error().is_some() => {
                "it no longer answers".to_owned()
            }
            (io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut, _) => {
                format!("its message was not whole after {MESSAGE_TIMEOUT}")
            }
            _ => error.to_string(),
        };
        self.broken(&what)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let stream = match &mut self.line {
            LinkChannel::Process(keeper) if self.ends_itself => {
                let _ = keeper.control().shutdown(std::net::Shutdown::Write);
                keeper.ended(MESSAGE_TIMEOUT);
                return;
            }
            LinkChannel::Process(_) => return,
            LinkChannel::Server { stream, .. } => stream,
        };
        if !self.is_running || stream.is_lost() {
            return;
        }
        self.keep_heartbeat(RacePhase::Between);
        if self.send(&ToAgent::CallOff).is_err() {
            return;
        }
        let deadline = Monotonic.now() + MESSAGE_TIMEOUT;
        while self.is_running && self.has_message(deadline - Monotonic.now()).unwrap_or(false) {
            let _ = self.receive();
        }
        if self.is_running {
            self.lose();
        }
    }
}

/// Returns the error of a server that its operator stopped.
pub(super) fn stopped(who: &str, fault: &Fault) -> Error {
    Error::stopped(who, fault.to_string())
}

/// Part of a race, for the heartbeat of control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RacePhase {
    /// A trial is measured.
    Measured,
    /// Before, between and after trials.
    Between,
}

/// Message received over a link.
#[derive(Debug)]
pub enum LinkMessage {
    /// Message from the agent.
    Agent(FromAgent),
    /// Message from the server in front of the agent.
    Server(FromServer),
}

impl LinkMessage {
    /// Returns true if an agent sends others after it.
    fn is_followed(&self) -> bool {
        match self {
            LinkMessage::Agent(word) => match word {
                FromAgent::Ready { .. }
                | FromAgent::Busy
                | FromAgent::Connected
                | FromAgent::Interval { .. }
                | FromAgent::Finished { .. } => true,
                FromAgent::Done(_) | FromAgent::Fault(_) => false,
            },
            LinkMessage::Server(word) => matches!(word, FromServer::Queued { .. }),
        }
    }
}
