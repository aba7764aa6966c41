//! Keeper of a server command: in place of the far agent.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use deadheat_base::descriptor::ready;

use super::folder::OwnFolder;
use super::{NodePlan, UNTIL_READY, client, receive, send, with_usage};
use crate::between::launched::{CommandEnd, LaunchedCommand, StartingCpu, free_address, is_there};
use crate::between::output::CommandOutput;
use crate::control::{AgentReport, FromAgent, ToAgent};
use crate::meters::Meters;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::measurements::Tally;
use deadheat_datapath::transport::Address;
use deadheat_datapath::transport::commands::{LineSign, Port, ReadySign, StopSignal};
use deadheat_host::process_tree::TreeTimes;
use deadheat_records::commands::CommandReport;

/// Time between two looks at whether the command is ready.
const LOOK: Nanos = Nanos::from_millis(1);
/// Time that a server has to end after its signal.
const GRACE: Nanos = Nanos::from_secs(1);
/// Longest time until all its output is read, once it has ended.
const UNTIL_SAID: Duration = Duration::from_millis(500);

/// Runs a server command for a trial.
///
/// # Errors
/// The fault of the command, with its file and line, its last output, and what would be right.
pub(super) fn serve(plan: &NodePlan, control: &mut UnixStream) -> Result<AgentReport> {
    if let Some(bytes) = plan.largest_file {
        limit_files(bytes)?;
    }
    let mut server = RunningServer::start(plan)?;
    server.await_ready(control)?;
    send(control, &FromAgent::Ready { endpoint: Address::Ip(server.at) })?;
    send(control, &FromAgent::Connected)?;
    let (began, meters) = server.see_through(control)?;
    let cost = TreeTimes::read().since(&began);
    server.stop()?;
    let report = meters.report_with(with_usage(cost));
    let received = client::received(plan, &server.folder, control)?;
    let printed_bytes = server.output.bytes();
    send(control, &FromAgent::Finished { sent: vec![Tally::default()] })?;
    let command = CommandReport { took_ns: None, printed_bytes, received };
    Ok(AgentReport { command: Some(Box::new(command)), ..report })
}

/// Limits the size of each file that this process, which writes none, and all that it starts may write.
fn limit_files(bytes: u64) -> Result<()> {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the pointer is to one live rlimit.
    match unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) } {
        0 => Ok(()),
        _ => Err(Error::setup_advice(
            "limit the size of files that a command writes (setrlimit)",
            io::Error::last_os_error(),
            "a filter of system calls, as a service has one, has to allow prlimit64 and setrlimit",
        )),
    }
}

/// Server command that runs.
struct RunningServer<'a> {
    plan: &'a NodePlan,
    at: SocketAddr,
    launched: LaunchedCommand,
    output: CommandOutput,
    /// True once it has ended by itself, as a server of one client does.
    is_over: bool,
    // Last, so that the folder outlives the command.
    folder: OwnFolder,
}

/// Returns an address at which nothing listens over TCP and UDP: at the first free one of the plan's ports, if it names any.
fn free_port(plan: &NodePlan) -> Result<SocketAddr> {
    let listen = plan.server;
    let any = [listen.port()];
    let ports = if plan.ports.is_empty() { &any[..] } else { &plan.ports };
    let mut last = None;
    for port in ports {
        match free_address(SocketAddr::new(listen.ip(), *port)) {
            Ok(at) => return Ok(at),
            Err(error) => last = Some(error),
        }
    }
    let of = match plan.ports.iter().min().zip(plan.ports.iter().max()) {
        Some((first, last)) => format!(" among {first} to {last} (--command-ports)"),
        None => String::new(),
    };
    let why = last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into());
    Err(Error::setup(format!("find a free port of {}{of}", listen.ip()), why))
}

impl<'a> RunningServer<'a> {
    /// Starts it, to listen at a port that is free for TCP and UDP.
    fn start(plan: &'a NodePlan) -> Result<RunningServer<'a>> {
        let at = free_port(plan)?;
        let folder = OwnFolder::fresh()?;
        let sign = match &plan.ready {
            ReadySign::Line(regex) => Some(LineSign::new(regex)?),
            ReadySign::Port(_) => None,
        };
        let (output, ends) = CommandOutput::new(sign.as_ref())?;
        let command = client::command(plan, at, &folder, ends)?;
        let place = StartingCpu::take(plan.cpu)?;
        let launched = LaunchedCommand::start(command).map_err(|e| plan.broke(&e.to_string()))?;
        drop(place);
        Ok(RunningServer { plan, at, launched, output, is_over: false, folder })
    }

    fn await_ready(&mut self, control: &UnixStream) -> Result<()> {
        let give_up = Monotonic.now() + self.patience();
        while !self.is_ready() {
            if Monotonic.now() >= give_up {
                return Err(self.unready());
            }
            let watched = [(control.as_fd(), libc::POLLIN), (self.launched.ended(), libc::POLLIN)];
            let ready =
                ready(watched, Some(LOOK)).map_err(|e| Error::setup("wait for a command", e))?;
            if ready[0] {
                return Err(Error::Interrupted);
            }
            if ready[1] {
                return Err(self.ended_early());
            }
        }
        Ok(())
    }

    /// Returns the longest time until it is ready.
    fn patience(&self) -> Nanos {
        self.plan.timeout.min(UNTIL_READY)
    }

    fn is_ready(&self) -> bool {
        match &self.plan.ready {
            ReadySign::Port(protocol) => is_there(self.at.port(), *protocol),
            ReadySign::Line(_) => self.output.has_matched(),
        }
    }

    fn unready(&self) -> Error {
        let patience = self.patience();
        let words = self.output.last_words();
        let what = match &self.plan.ready {
            ReadySign::Port(port) => {
                let over = match port {
                    Some(Port::Tcp) => "TCP",
                    Some(Port::Udp) => "UDP",
                    None => "TCP or UDP",
                };
                let remedy = if self.plan.carries {
                    "{listen}"
                } else {
                    "{port}, or `ready` and `ready-line` say otherwise"
                };
                format!(
                    "it did not listen at {} over {over} within {patience}{words}; it has to listen at {remedy}",
                    self.at
                )
            }
            ReadySign::Line(line) => {
                format!(
                    "it printed no line that matches ready-line = `{line}` within {patience}{words}"
                )
            }
        };
        self.plan.broke(&what)
    }

    fn ended_early(&mut self) -> Error {
        let left = self.launched.left_behind().len();
        let end = self.launched.how_ended();
        if left == 0 {
            self.output.await_end(UNTIL_SAID);
        }
        let what = match (end, left) {
            (CommandEnd::Exit(0), 1..) => format!(
                "it went into the background ({left} of its processes still run); start it in the foreground, as servers do with an \
                 option of their own"
            ),
            _ => format!(
                "it ended before it was ready ({end}){}{}",
                self.output.last_words(),
                self.plan.hint()
            ),
        };
        self.plan.broke(&what)
    }

    /// Waits until the work is over; returns the CPU time and all meters at its start.
    fn see_through(&mut self, control: &mut UnixStream) -> Result<(TreeTimes, Meters)> {
        let mut began = (TreeTimes::read(), Meters::read());
        loop {
            let ended = if self.is_over { control.as_fd() } else { self.launched.ended() };
            let watched = [(control.as_fd(), libc::POLLIN), (ended, libc::POLLIN)];
            let ready = ready(watched, None).map_err(|e| Error::setup("wait for a command", e))?;
            if !ready[0] {
                self.note_end()?;
                continue;
            }
            match receive(control)? {
                ToAgent::Start => began = (TreeTimes::read(), Meters::read()),
                ToAgent::PeerFinished { .. } | ToAgent::Stop => return Ok(began),
                ToAgent::CallOff => return Err(Error::Interrupted),
                _ => {
                    return Err(Error::peer(
                        "control",
                        "a server command is told to start or to stop",
                    ));
                }
            }
        }
    }

    /// Notes that it has ended by itself, which a server of one client may do, and a command that carries others' bytes may
    /// not.
    fn note_end(&mut self) -> Result<()> {
        let end = self.launched.how_ended();
        if end == CommandEnd::Exit(0) && !self.plan.carries {
            self.is_over = true;
            return Ok(());
        }
        self.output.await_end(UNTIL_SAID);
        let words = self.output.last_words();
        Err(self.plan.broke(&format!("it ended in the middle of a trial ({end}){words}")))
    }

    fn stop(&mut self) -> Result<()> {
        let signal = match self.plan.stop {
            StopSignal::Term => libc::SIGTERM,
            StopSignal::Int => libc::SIGINT,
            StopSignal::Kill => libc::SIGKILL,
        };
        let is_willing = self.launched.stop(signal, GRACE);
        self.output.await_end(UNTIL_SAID);
        if is_willing || self.plan.carries {
            Ok(())
        } else {
            Err(self.plan.broke(&format!(
            "it did not end within {GRACE} of {}, and was killed; make it end at that signal, or write stop = \"SIGINT\" or \
             \"SIGKILL\" into the file",
            self.plan.stop.name()
        )))
        }
    }
}
