//! Agents as processes: a new process of this program per trial.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use super::{Agent, AgentStarter};
use deadheat_base::error::Result;
use deadheat_base::time::Nanos;
use deadheat_datapath::datapath::account::Account;
use deadheat_datapath::datapath::cpu::hold;
use deadheat_datapath::transport::handover::HandOver;
use deadheat_trial::process::{self, AgentProcess};

/// Starter of processes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Processes;

impl AgentStarter for Processes {
    fn start(&self, door: Option<HandOver>, account: &Account) -> Result<Box<dyn Agent>> {
        Ok(Box::new(process::served_agent(door, account)?))
    }

    fn start_keeper(&self) -> Result<Box<dyn Agent>> {
        Ok(Box::new(CommandKeeper(process::served_keeper()?)))
    }
}

/// Keeper of a server command, as a process. Killed, it could not end the command and all that this has started, so it is
/// asked first, and ends by itself.
struct CommandKeeper(AgentProcess);

/// Longest time until a keeper has ended its command: the command's own time after its signal, and then that to end the rest.
const UNTIL_ENDED: Nanos = Nanos::from_secs(5);

impl Agent for CommandKeeper {
    fn control(&self) -> &UnixStream {
        self.0.control()
    }

    fn ended(&mut self, timeout: Nanos) -> bool {
        self.0.ended(timeout)
    }

    fn hold_on(&mut self, cpus: &[usize]) -> Result<()> {
        hold(self.0.id(), cpus)
    }

    fn kill(&mut self) {
        // A keeper ends its command once this link is closed.
        let _ = self.0.control().shutdown(Shutdown::Both);
        self.0.ended(UNTIL_ENDED);
        self.0.kill();
    }

    fn last_words(&mut self) -> Option<String> {
        self.0.last_words()
    }
}

impl Agent for AgentProcess {
    fn control(&self) -> &UnixStream {
        AgentProcess::control(self)
    }

    fn ended(&mut self, timeout: Nanos) -> bool {
        AgentProcess::ended(self, timeout)
    }

    fn hold_on(&mut self, cpus: &[usize]) -> Result<()> {
        hold(AgentProcess::id(self), cpus)
    }

    fn kill(&mut self) {
        AgentProcess::kill(self);
    }

    fn last_words(&mut self) -> Option<String> {
        AgentProcess::last_words(self)
    }
}
