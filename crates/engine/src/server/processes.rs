//! Agents as processes: a new process of this program per trial.

use std::os::unix::net::UnixStream;

use super::{Agent, AgentStarter};
use crate::datapath::account::Account;
use crate::datapath::cpu::hold;
use crate::error::Result;
use crate::time::Nanos;
use crate::transport::handover::HandOver;
use crate::trial::process::{self, AgentProcess};

/// Starter of processes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Processes;

impl AgentStarter for Processes {
    fn start(&self, door: Option<HandOver>, account: &Account) -> Result<Box<dyn Agent>> {
        Ok(Box::new(process::served_agent(door, account)?))
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
