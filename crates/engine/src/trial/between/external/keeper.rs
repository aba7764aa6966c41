//! Keeper of a command: starts it in a process group of its own, waits until its port is open, and ends it and its
//! children.

use std::collections::VecDeque;
use std::io::{self, PipeReader, Read};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadheat_base::descriptor::ready;
use deadheat_base::frame;
use deadheat_base::process::spawn;

use super::{CommandPlan, FromKeeper, ToKeeper, UNTIL_LISTENING};
use crate::error::{Error, Fault, Result};
use crate::host::process_tree::TreeTimes;
use crate::time::{Clock, Monotonic, Nanos};
use crate::transport::external::Port;
use crate::trial::between::launched::{LaunchedCommand, adopt_all, is_there};
use crate::trial::between::relay::bind;

/// Time between two looks at whether the command listens, or has ended.
const LOOK: Nanos = Nanos::from_millis(5);
/// Longest time until all its output is read, once it has ended.
const UNTIL_SAID: Duration = Duration::from_millis(500);
/// Bytes of a command's output that are stored.
const LAST_WORDS: usize = 1024;

/// Runs the command that the race names; returns the process's exit code.
pub(in crate::trial) fn keep(mut control: UnixStream) -> i32 {
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
    said: Arc<Mutex<VecDeque<u8>>>,
    /// Receiver of a message once the command's output is complete.
    all_said: Receiver<()>,
}

impl CommandProcess {
    /// Starts the command, to listen at a port that is free for TCP and UDP; also returns its address.
    fn start(plan: &CommandPlan) -> Result<(CommandProcess, SocketAddr)> {
        let listen = plan.places.listen;
        let free = bind(listen).and_then(|(listener, _)| listener.local_addr());
        let at =
            free.map_err(|e| Error::setup(format!("find a free port of {}", listen.ip()), e))?;
        let mut places = plan.places;
        places.listen = at;
        let words = plan.command.words(&places);
        let (reader, writer) = io::pipe().map_err(|e| Error::setup("make a pipe", e))?;
        let (program, arguments) =
            words.split_first().ok_or_else(|| Error::usage("an empty command"))?;
        let mut command = Command::new(program);
        command.args(arguments);
        let copy = writer.try_clone().map_err(|e| Error::setup("copy a pipe", e))?;
        command.stdout(copy).stderr(writer);
        // From here on a failure ends the command, too.
        let launched = LaunchedCommand::start(command)?;
        let (sender, all_said) = channel();
        let kept = CommandProcess { launched, said: Arc::default(), all_said };
        kept.listen_to(reader, sender)?;
        Ok((kept, at))
    }

    fn listen_to(&self, mut from: PipeReader, sender: Sender<()>) -> Result<()> {
        let said = Arc::clone(&self.said);
        spawn("last words", move || {
            let mut chunk = [0; 1024];
            while let Ok(count @ 1..) = from.read(&mut chunk) {
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                said.extend(&chunk[..count]);
                let excess = said.len().saturating_sub(LAST_WORDS);
                said.drain(..excess);
            }
            let _ = sender.send(());
        })?;
        Ok(())
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
        match ready[1] {
            true => Err(self.end_of_it()),
            false => Ok(None),
        }
    }

    /// Returns the error of a command that has ended by itself.
    fn end_of_it(&self) -> Error {
        // The last output may still be in the pipe, for its reader to take; or never complete, if children still hold
        // the pipe.
        let _ = self.all_said.recv_timeout(UNTIL_SAID);
        self.complaint(&format!("it ended by itself ({})", self.launched.how_ended()))
    }

    fn complaint(&self, what: &str) -> Error {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = said.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        match text.is_empty() {
            true => Error::peer("", format!("{what} and said nothing")),
            false => Error::peer("", format!("{what}; its last words: {text}")),
        }
    }
}
