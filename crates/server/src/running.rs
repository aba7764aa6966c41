//! Agents that run for a session: a far end that gets its connections from the server's port, or one behind a relay.
//! Such a far end listens at a loopback address, and the relay in front of it gets the connections at the server's port
//! that have the trial's token. The relay leads to where that far end says that it listens, and nowhere else. A relay to
//! the far end at another server leads where the operator allows it, and only once that server has proved the trial.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;

use serde::Serialize;

use super::echo::opened;
use super::framed_stream::{FrameEvent, FramedStream, SendBounds};
use super::grants::Grant;
use super::{Agent, Shared, Stop};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic};
use deadheat_datapath::transport::Address;
use deadheat_datapath::transport::handover::HandOver;
use deadheat_trial::between::commands::ServedCommand;
use deadheat_trial::control::{
    self, AgentPlan, ForwardPlan, FromAgent, LARGEST, OnwardPlan, RelayPlan, ToAgent,
};

/// Running agent, or keeper of a command; ended when dropped, in any case.
pub(super) struct RunningAgent {
    pub(super) agent: Box<dyn Agent>,
    pub(super) line: Option<FramedStream<UnixStream>>,
    /// Relay in front of it, if there is one.
    relay: Option<Box<RunningAgent>>,
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        self.agent.kill();
        if let Some(relay) = &mut self.relay {
            relay.agent.kill();
        }
    }
}

/// Setting in which a session starts agents.
#[derive(Clone, Copy)]
pub(super) struct AgentSetting<'a> {
    pub(super) shared: &'a Shared,
    pub(super) stop: &'a Stop,
    /// Grant of the trial.
    pub(super) grant: &'a Grant,
}

impl AgentSetting<'_> {
    /// Starts the far end of `plan`, which gets its connections from `door`.
    ///
    /// # Errors
    /// Fails with the failed operation on this host.
    pub(super) fn opened(self, door: HandOver, plan: AgentPlan) -> Result<RunningAgent> {
        self.start(Some(door), &opened(plan, &self.shared.config.clock))
    }

    /// Starts the far end of `plan` and a relay in front of it, which takes connections from `door`; both listen then.
    ///
    /// # Errors
    /// Fails with the fault of either, or if one does not listen in time.
    pub(super) fn behind_relay(
        self,
        door: HandOver,
        plan: AgentPlan,
        here: SocketAddr,
    ) -> Result<RunningAgent> {
        let token = plan.token;
        let mut far = self.start(None, &opened(plan, &self.shared.config.clock))?;
        let Address::Ip(to) = self.listens(&mut far)? else {
            return Err(Error::peer("far end", "it has no port that a relay could lead to"));
        };
        let forward = ForwardPlan { at: here, to, token: Some(token) };
        let plan = ToAgent::Relay(RelayPlan::Forward(forward));
        let mut relay = self.start(Some(door), &plan)?;
        self.listens(&mut relay)?;
        far.relay = Some(Box::new(relay));
        Ok(far)
    }

    /// Starts a relay from this server's port, the first address, to the far end at another server, the second one.
    ///
    /// # Errors
    /// Fails with the failed operation on this host.
    pub(super) fn relay(
        self,
        door: HandOver,
        plan: &AgentPlan,
        [at, to]: [SocketAddr; 2],
    ) -> Result<RunningAgent> {
        let (token, limits) = (plan.token, self.grant.limits());
        let onward = OnwardPlan { at, to, token, limits };
        self.start(Some(door), &ToAgent::Relay(RelayPlan::Onward(onward)))
    }

    /// Starts the keeper of a server command.
    ///
    /// # Errors
    /// Fails with the failed operation on this host.
    pub(super) fn command(self, command: &ServedCommand) -> Result<RunningAgent> {
        self.lead(self.shared.starter.start_keeper()?, command)
    }

    /// Starts an agent, and sends it its first message.
    fn start(self, door: Option<HandOver>, first: &ToAgent) -> Result<RunningAgent> {
        self.lead(self.shared.starter.start(door, self.grant.account())?, first)
    }

    /// Holds a new agent on the CPUs of its turn, and sends it its first message.
    fn lead(self, agent: Box<dyn Agent>, first: &impl Serialize) -> Result<RunningAgent> {
        let mut running = RunningAgent { agent, line: None, relay: None };
        if let Some(cpus) = self.shared.cpu_shares.of_place(self.grant.place()) {
            running.agent.hold_on(cpus)?;
        }
        let with = |e| Error::setup("speak to a new agent", e);
        let stream = running.agent.control().try_clone().map_err(with)?;
        stream.set_nonblocking(true).map_err(with)?;
        let line = FramedStream::new(stream, LARGEST as usize);
        let deadline = Monotonic.now() + self.shared.config.patience.partial;
        line.send(first, SendBounds { deadline, stop: self.stop }).map_err(with)?;
        running.line = Some(line);
        Ok(running)
    }

    /// Waits until an agent listens; returns where.
    fn listens(self, running: &mut RunningAgent) -> Result<Address> {
        let mute = || Error::peer("far end", "it did not listen in time");
        let patience = &self.shared.config.patience;
        let deadline = Monotonic.now() + patience.grace;
        let line = running.line.as_mut().ok_or_else(mute)?;
        let FrameEvent::Frame(frame) = line.receive(self.stop, Some(deadline), patience, None)
        else {
            return Err(mute());
        };
        match control::parse(&frame) {
            Ok(FromAgent::Ready { endpoint }) => Ok(endpoint),
            Ok(FromAgent::Fault(fault)) => Err(Error::peer("far end", fault.message)),
            _ => Err(mute()),
        }
    }
}
