//! Keeper of a command: starts it in a process group of its own, waits until its port is open, and ends it and its
//! children.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use deadheat_base::descriptor::ready;
use deadheat_base::frame;

use super::{CommandPlan, FromKeeper, ToKeeper, UNTIL_LISTENING};
use crate::between::launched::{LaunchedCommand, adopt_all, free_address, is_there};
use crate::between::output::CommandOutput;
use deadheat_base::error::{Error, Fault, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::transport::commands::Port;
use deadheat_host::idle;
use deadheat_host::process_tree::TreeTimes;

/// Time between two looks at whether the command listens, or has ended.
const LOOK: Nanos = Nanos::from_millis(5);
/// Longest time until all its output is read, once it has ended.
const UNTIL_SAID: Duration = Duration::from_millis(500);

/// Runs the command that the race names; returns the process's exit code.
pub(crate) fn keep(mut control: UnixStream) -> i32 {
    let done = match frame::read(&mut control) {
        Ok(ToKeeper::Run(plan)) => kept(&plan, &mut control),
        Ok(_) => Err(Error::peer("control", "a keeper is told to run a command first")),
        Err(error) => Err(Error::peer("control", error.to_string())),
    };
    if let Err(error) = &done {
        // The race adds whose command it is.
        let message = match error {
            Error::Peer { what, .. } => what.clone(),
            other => other.to_string(),
        };
        let fault = Fault { message, ..error.to_fault() };
        let _ = frame::write(&mut control, &FromKeeper::Fault(fault));
    }
    i32::from(done.is_err())
}

fn kept(plan: &CommandPlan, control: &mut UnixStream) -> Result<()> {
    adopt_all();
    if plan.goes_first {
        // The command inherits it.
        idle::go_first();
    }
    let (mut command, at) = CommandProcess::start(plan)?;
    command.await_port(plan, at, control)?;
    send_message(control, &FromKeeper::Listens(at))?;
    let mut began = TreeTimes::read();
    loop {
        match command.next_word(control, None)? {
            Some(ToKeeper::Start) => began = TreeTimes::read(),
            Some(ToKeeper::Stop) => {
                let cost = TreeTimes::read().since(&began);
                return send_message(control, &FromKeeper::Cost(cost));
            }
            Some(ToKeeper::Run(_)) => {
                return Err(Error::peer("control", "it runs a command already"));
            }
            None => {}
        }
    }
}

fn send_message(control: &mut UnixStream, word: &FromKeeper) -> Result<()> {
    frame::write(control, word).map_err(|e| Error::peer("control", e.to_string()))
}

/// Command that runs. Dropping it ends it and all processes that it has started.
struct CommandProcess {
    launched: LaunchedCommand,
    output: CommandOutput,
}

impl CommandProcess {
    /// Starts the command, to listen at a port that is free for TCP and UDP; also returns its address.
    fn start(plan: &CommandPlan) -> Result<(CommandProcess, SocketAddr)> {
        let listen = plan.places.listen;
        let at = free_address(listen)
            .map_err(|e| Error::setup(format!("find a free port of {}", listen.ip()), e))?;
        let mut places = plan.places;
        places.listen = at;
        let words = plan.command.words(&places);
        let (output, [stdout, stderr]) = CommandOutput::new(None)?;
        let (program, arguments) =
            words.split_first().ok_or_else(|| Error::usage("an empty command"))?;
        let mut command = Command::new(program);
        command.args(arguments).stdout(stdout).stderr(stderr);
        let launched = LaunchedCommand::start(command)?;
        Ok((CommandProcess { launched, output }, at))
    }

    /// Waits until the command listens.
    fn await_port(
        &mut self,
        plan: &CommandPlan,
        at: SocketAddr,
        control: &mut UnixStream,
    ) -> Result<()> {
        let give_up = Monotonic.now() + UNTIL_LISTENING;
        while !is_there(at.port(), plan.port) {
            if Monotonic.now() >= give_up {
                let protocol = match plan.port {
                    Some(Port::Tcp) => "TCP",
                    Some(Port::Udp) => "UDP",
                    None => "TCP or UDP",
                };
                return Err(self.complaint(&format!(
                    "it did not listen at {at} over {protocol} within {UNTIL_LISTENING}"
                )));
            }
            if self.next_word(control, Some(LOOK))?.is_some() {
                return Err(Error::Interrupted);
            }
        }
        Ok(())
    }

    /// Waits for the race's next message, at most for `timeout` if there is one.
    fn next_word(
        &mut self,
        control: &mut UnixStream,
        timeout: Option<Nanos>,
    ) -> Result<Option<ToKeeper>> {
        let fds = [(control.as_fd(), libc::POLLIN), (self.launched.ended(), libc::POLLIN)];
        let ready = ready(fds, timeout).map_err(|e| Error::setup("wait for a command", e))?;
        // The race's message goes first: if it ends the command, that end was requested.
        if ready[0] {
            let word = frame::read(control);
            return word.map(Some).map_err(|e| Error::peer("control", e.to_string()));
        }
        if ready[1] { Err(self.end_of_it()) } else { Ok(None) }
    }

    /// Returns the error of a command that has ended by itself.
    fn end_of_it(&mut self) -> Error {
        // The last output may still be in a pipe, for its reader to take; or never complete, if children still hold
        // the pipe.
        self.output.await_end(UNTIL_SAID);
        self.complaint(&format!("it ended by itself ({})", self.launched.how_ended()))
    }

    fn complaint(&self, what: &str) -> Error {
        Error::peer("", format!("{what}{}", self.output.last_words()))
    }
}
