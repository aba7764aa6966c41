//! One end of a trial: the contender and the work of its plan, and the connections between both.

use std::collections::BTreeMap;
use std::iter;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;

use crate::control::{AgentPlan, FromAgent, Share};
use crate::path::model_time::{accept_timeout, dial_timeout};
use crate::{dealt, misfit, suited_at};
use deadheat_base::bell::Bell;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Exchange, LaneSet, Side, Store};
use deadheat_contract::workload::{Endpoint, NamedFile, Part, SharedTask};
use deadheat_datapath::transport::far_end::{self, FarEndAt};
use deadheat_datapath::transport::handover::ConnectionSource;
use deadheat_datapath::transport::hello::Hello;
use deadheat_datapath::transport::{Address, Conn, Contender, Dial, Listen, Listener, Tickets};

use super::driver::Further;
use super::exchange::{self, Member};
use super::session::{WayIn, send_message};
use super::shifted::ShiftedEndpoint;
use super::store::OpenFile;
use super::upkeep;
use deadheat_records::samples::Samples;

/// One end of a trial.
#[derive(Clone)]
pub(super) struct AgentEnd {
    pub(super) plan: AgentPlan,
    /// Contender and work of the plan, fitted to each other at this end.
    pub(super) contender: Contender,
    pub(super) task: SharedTask,
    tickets: Tickets,
}

/// Connections of this end's flows, by flow, and the listener if the connections still need it.
type Connected = (Vec<Box<dyn Conn>>, Option<Box<dyn Listener>>);

impl AgentEnd {
    /// Reads a plan.
    ///
    /// # Errors
    /// [`Error::Usage`] if its contender cannot carry its work.
    pub(super) fn open(plan: AgentPlan) -> Result<AgentEnd> {
        let whole = SharedTask::parse(&plan.workload)?;
        let node = plan.share.filter(|_| plan.side == Side::Far).map(|share| share.node);
        let contender = suited_at(Contender::sent(&plan.contender)?, &*whole, node)?;
        let at = plan.far_end.as_deref().map(far_end::parse).transpose()?.flatten();
        let contender = match at {
            Some(at) => {
                let at = FarEndAt { pin: plan.far_pin.as_deref(), ..at };
                far_end::against(at, contender, whole.info())?
            }
            None => contender,
        };
        if let Some(why) = misfit(&contender, &*whole) {
            let AgentPlan { contender, workload, .. } = plan;
            return Err(Error::usage(format!("{contender} cannot carry {workload}: {why}")));
        }
        let task = dealt(&contender, whole);
        Ok(AgentEnd { plan, contender, task, tickets: Tickets::default() })
    }

    /// Returns the share of this end in the flows of the trial.
    pub(super) fn share(&self) -> Share {
        self.plan.share.unwrap_or(Share::WHOLE)
    }

    /// Returns the numbers of this end's flows, in order.
    pub(super) fn flows(&self) -> Vec<u16> {
        self.share().flows(self.task.info(), self.plan.side)
    }

    /// Connects this end's flows.
    ///
    /// # Errors
    /// As [`deadheat_datapath::transport::Transport::dial`] and [`Listener::accept`].
    pub(super) fn connect(
        &self,
        door: ConnectionSource,
        control: &mut UnixStream,
    ) -> Result<Connected> {
        match self.plan.side {
            Side::Near => Ok((self.dial_all().map_err(|e| self.with_contender(e))?, None)),
            Side::Far => self.accept_all(door, control),
        }
    }

    fn dial_all(&self) -> Result<Vec<Box<dyn Conn>>> {
        let dial = |flow| self.dial(flow);
        let own = self.flows();
        let waits = self.contender.transport.info().is_kept_up || self.task.info().reconnects();
        if waits && own.len() > 1 {
            return upkeep::dial_at_once(&own, &dial);
        }
        own.into_iter().map(dial).collect()
    }

    fn accept_all(&self, door: ConnectionSource, control: &mut UnixStream) -> Result<Connected> {
        let (plan, info) = (&self.plan, self.task.info());
        let listen = Listen {
            at: &plan.endpoint,
            token: plan.token,
            knobs: &self.contender.knobs,
            lanes: &self.task.lanes(&self.contender.promised()),
            largest_message: info.largest_message,
            door,
            tickets: self.tickets.clone(),
        };
        let mut listener = self.contender.transport.listen(listen)?;
        send_message(control, &FromAgent::Ready { endpoint: listener.endpoint() })?;
        let mut conns: BTreeMap<u16, Option<Box<dyn Conn>>> =
            self.flows().into_iter().map(|flow| (flow, None)).collect();
        let missing = |conns: &BTreeMap<u16, Option<_>>| {
            conns.iter().find(|(_, conn)| conn.is_none()).map(|(flow, _)| *flow)
        };
        while let Some(missing) = missing(&conns) {
            let (flow, conn) = listener.accept(accept_timeout(dial_timeout(plan.emulated)))?;
            let Some(slot @ None) = conns.get_mut(&flow) else {
                let flows = info.flows.len();
                return Err(Error::peer(
                    "near end",
                    format!("it opened flow {flow} where flow {missing} of {flows} was missing"),
                ));
            };
            *slot = Some(conn);
        }
        let stays = (listener.stays() || info.reconnects()).then_some(listener);
        Ok((conns.into_values().flatten().collect(), stays))
    }

    /// Opens a connection. The numbers of one flow's connections differ by multiples of the number of flows, so that a late
    /// hello of one is not mistaken for the next.
    fn dial(&self, number: u16) -> Result<Box<dyn Conn>> {
        let AgentEnd { plan, contender, task, tickets } = self;
        let nodes = || iter::once(&plan.endpoint).chain(&plan.further);
        let all;
        let to = if contender.transport.info().peer.is_group {
            all = Address::Several(nodes().cloned().collect());
            &all
        } else {
            let flow = usize::from(number) % task.info().flows.len().max(1);
            let node = task.info().far_node(flow as u16, nodes().count() as u16);
            nodes().nth(node.into()).unwrap_or(&plan.endpoint)
        };
        contender.transport.dial(&Dial {
            to,
            hello: Hello { token: plan.token, flow: number },
            knobs: &contender.knobs,
            lanes: &task.lanes(&contender.promised()),
            largest_message: task.info().largest_message,
            timeout: dial_timeout(plan.emulated),
            tickets,
        })
    }

    /// Adds the contender's name to the error of a connection that broke down while it was opened.
    fn with_contender(&self, error: Error) -> Error {
        match error {
            Error::Broken { who, what } => {
                Error::broken(&self.plan.contender, format!("{who}: {what}"))
            }
            other => other,
        }
    }

    /// Returns the source of the connections after a flow's first, and, if this end accepts them, the sender that passes
    /// them on.
    pub(super) fn further(&self, flow: u16) -> (Further<dyn Conn>, Option<WayIn>) {
        if !self.task.info().reconnects() {
            return (Further::None, None);
        }
        if self.plan.side == Side::Far {
            let (come_in, came_in) = channel();
            return (Further::Accept(came_in), Some(come_in));
        }
        let (end, mut number) = (self.clone(), flow);
        let dial = move || {
            number += end.task.info().flows.len() as u16;
            end.dial(number)
        };
        (Further::Dial(Box::new(dial)), None)
    }

    /// Creates the exchange among this end's flows, if they hand on to each other what they receive; one member each.
    ///
    /// # Errors
    /// [`Error::Setup`] if the kernel refuses.
    pub(super) fn exchange(&self) -> Result<Vec<Member<Bell>>> {
        let people = self.task.info().people.as_ref();
        match people.filter(|people| people.hands_on(self.plan.side, self.share().node)) {
            Some(people) => exchange::among_threads(self.flows().len(), &people.queues),
            None => Ok(Vec::new()),
        }
    }

    /// Makes the half of the work that a flow runs, with the file that it reads or writes.
    pub(super) fn half(
        &self,
        flow: u16,
        file: Option<&NamedFile>,
        exchange: Option<Box<dyn Exchange>>,
    ) -> Result<Box<dyn Endpoint>> {
        let AgentEnd { plan, contender, task, .. } = self;
        // One file holds one flow's samples; workloads that measure round trips have one flow.
        let keep = plan.samples.as_deref().filter(|_| plan.side == Side::Near && flow == 0);
        let store = file.map(OpenFile::open).transpose()?;
        let half = task.half(Part {
            side: plan.side,
            flow,
            tag: plan.token.tag(),
            seed: plan.seed,
            transit: plan.emulated.map_or(Nanos::ZERO, |path| path.transit_ns),
            guarantees: contender.promised(),
            peer: contender.transport.info().peer,
            recorder: Box::new(Samples::new(keep, task.info().timeout.0)?),
            carried: LaneSet::ALL,
            store: store.map(|store| Box::new(store) as Box<dyn Store>),
            exchange,
        });
        Ok(match plan.clock {
            None => half,
            Some(clock) => Box::new(ShiftedEndpoint::new(half, clock)),
        })
    }
}
