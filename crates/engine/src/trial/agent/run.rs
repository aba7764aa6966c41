//! Run of an agent: one end of a trial, in a process of its own. It listens or dials, runs its flows, and reports.

use std::collections::BTreeMap;
use std::iter;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;

use deadheat_base::panics::contained;

use crate::contract::{Direction, LaneSet, PeerKind, Side, Store};
use crate::datapath::account::Account;
use crate::datapath::{option, origin, own_host, policer};
use crate::error::{Error, Result};
use crate::time::Nanos;
use crate::transport::far_end::{self, FarEndAt};
use crate::transport::handover::ConnectionSource;
use crate::transport::hello::Hello;
use crate::transport::{Address, Conn, Contender, Dial, Listen, Listener, Tickets, spent};
use crate::trial::between::{relay, turn};
use crate::trial::control::{self, AgentPlan, AgentReport, FromAgent, RelayPlan, Share, ToAgent};
use crate::trial::explain::Pass;
use crate::trial::explain::probed::Probe;
use crate::trial::path::model_time::{accept_timeout, dial_timeout};
use crate::trial::{dealt, misfit, suited_at};
use crate::workload::{Endpoint, NamedFile, Part, SharedTask, Task};

use super::driver::{Flow, Further, SentAllMoment, limited};
use super::hole;
use super::intervals::Sampler;
use super::means;
use super::parting::Parting;
use super::samples::Samples;
use super::session::{Entrance, Session, WayIn, control_failed, send_message};
use super::shifted::ShiftedEndpoint;
use super::stand_in;
use super::store::OpenFile;
use super::upkeep::{self, ControlEvent};

/// Runs an agent on its control link; returns the process's exit code. The bytes that it sends and receives are added
/// to `account`, if the process that started it shares one.
pub(in crate::trial) fn run(
    mut control: UnixStream,
    door: ConnectionSource,
    account: Option<Account>,
) -> i32 {
    let mut words = match control.try_clone() {
        Ok(words) => words,
        Err(_) => return 1,
    };
    let done = match control::read(&mut control).map_err(control_failed) {
        Ok(ToAgent::Open(plan)) if plan.side == Side::Far && plan.far_end.is_some() => {
            let id = plan.far_end.clone().unwrap_or_default();
            let ran = contained(&id, || stand_in::run(&plan, &id, control));
            ran.and_then(|report| send_message(&mut words, &FromAgent::Done(Box::new(report))))
        }
        Ok(ToAgent::Open(plan)) => {
            let contender = plan.contender.clone();
            let ran = contained(&contender, || trial(*plan, control, door, account));
            // If a limit was passed, that is the reason, whatever error the library made of it.
            let ran = ran.map_err(|error| policer::overrun().map_or(error, limited));
            ran.and_then(|(report, mut parting)| {
                parting.leave_others();
                send_message(&mut words, &FromAgent::Done(Box::new(report)))?;
                parting.wait(&words);
                Ok(())
            })
        }
        Ok(ToAgent::Relay(RelayPlan::Forward(plan))) => match door {
            ConnectionSource::Own => relay::run(&plan, control),
            ConnectionSource::Handed(door) => relay::handed::run(&plan, door, control),
        },
        Ok(ToAgent::Relay(RelayPlan::Onward(plan))) => match door {
            ConnectionSource::Own => Err(Error::usage("a relay to another host runs at a server")),
            ConnectionSource::Handed(door) => relay::onward::run(&plan, door, account, control)
                .map_err(|error| policer::overrun().map_or(error, limited)),
        },
        Ok(ToAgent::Relay(RelayPlan::Turn(plan))) => turn::carry(&plan, control),
        Ok(ToAgent::Relay(RelayPlan::Coturn(plan))) => turn::serve(&plan, control),
        Ok(_) => Err(Error::peer("control", "an agent is told to open, or to relay, first")),
        Err(error) => Err(error),
    };
    if let Err(error) = &done {
        let _ = send_message(&mut words, &FromAgent::Fault(error.to_fault()));
    }
    i32::from(done.is_err())
}

/// Adds the contender's name to the error of a connection that broke down while it was opened.
fn with_contender(plan: &AgentPlan, error: Error) -> Error {
    match error {
        Error::Broken { who, what } => Error::broken(&plan.contender, format!("{who}: {what}")),
        other => other,
    }
}

fn trial(
    plan: AgentPlan,
    mut control: UnixStream,
    door: ConnectionSource,
    account: Option<Account>,
) -> Result<(AgentReport, Parting)> {
    means::begin(&plan, account)?;
    option::limit_path_mtu(plan.mtu);
    origin::leave_from(plan.origin.clone());
    // A server's host is its operator's, whatever a peer's plan says.
    if plan.emulated.is_some() && plan.limits.is_none() {
        own_host::set();
    }
    let (contender, task) = contender_and_task(&plan)?;
    if plan.pass == Pass::Explain {
        spent::begin();
    }
    let file = means::take(&plan, &*task)?;
    means::limit(&plan, &*task)?;
    let tickets = Tickets::default();
    let (conns, listener) = connect(&plan, &contender, &*task, &tickets, door, &mut control)?;
    // The parts of a contender may differ in the size of their packets.
    let hole = plan.hole.filter(|_| contender.transport.parts().is_empty());
    hole::check(hole, plan.side, &contender, &*task, &conns)?;
    let count = conns.len();
    let (mut flows, mut incoming) = (Vec::with_capacity(count), Vec::new());
    for (flow, conn) in share(&plan).flows(task.info().flows.len()).zip(conns) {
        let half = make_half(&plan, &contender, &*task, flow, file.as_ref())?;
        let is_up = task.info().flows.get(usize::from(flow)) == Some(&Some(Direction::Up));
        let (conn, probe) = match plan.pass {
            Pass::Figures => (conn, None),
            Pass::Explain => {
                let (conn, probe) =
                    Probe::wrap(conn, task.info().numbering, contender.transport.info().peer);
                (conn, Some(probe))
            }
        };
        let (further, come_in) = further(&plan, &contender, &task, &tickets, flow);
        incoming.extend(come_in);
        let sampler = Sampler::new(plan.interval_ns, count);
        let sampler = if plan.live { sampler.for_a_view() } else { sampler };
        let mut flow = Flow::new(conn, half, plan.wait, sampler, task.info().largest_message);
        (flow.further, flow.probe) = (further, probe);
        if plan.far_end.is_some() && is_up {
            flow.announces_at = SentAllMoment::Acknowledged;
        }
        flows.push(flow);
    }
    send_message(&mut control, &FromAgent::Connected)?;
    let userspace = contender.transport.info().is_kept_up;
    if userspace {
        let mut conns: Vec<&mut dyn Conn> =
            flows.iter_mut().map(|flow| &mut *flow.conn as &mut dyn Conn).collect();
        upkeep::attend(&control, ControlEvent::Word, &mut conns);
    }
    let parting = Parting {
        conns: Vec::with_capacity(count),
        emulated: plan.emulated.is_some(),
        userspace,
        stopped: false,
        at_others: plan.far_end.is_some() && !contender.transport.info().peer.is_meter(),
    };
    let (share, flows_in_all) = (share(&plan), task.info().flows.len() as u16);
    let place = Box::new(move |number| share.place(number % flows_in_all));
    let entrance = listener.map(|listener| Entrance { listener, incoming, place });
    Session::start(control, flows, &plan, parting, entrance)?.finish()
}

/// Returns the contender and the work of a plan, fitted to each other at this end.
fn contender_and_task(plan: &AgentPlan) -> Result<(Contender, SharedTask)> {
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
    match misfit(&contender, &*whole) {
        Some(why) => {
            Err(Error::usage(format!("{} cannot carry {}: {why}", plan.contender, plan.workload)))
        }
        None => {
            let task = dealt(&contender, whole);
            Ok((contender, task))
        }
    }
}

/// Returns the flows of this end.
fn share(plan: &AgentPlan) -> Share {
    plan.share.unwrap_or(Share::WHOLE)
}

/// Connections of this end's flows, by flow, and the listener if the connections still need it.
type Connected = (Vec<Box<dyn Conn>>, Option<Box<dyn Listener>>);

/// Connects this end's flows.
fn connect(
    plan: &AgentPlan,
    contender: &Contender,
    task: &dyn Task,
    tickets: &Tickets,
    door: ConnectionSource,
    control: &mut UnixStream,
) -> Result<Connected> {
    let flows = task.info().flows.len();
    let largest_message = task.info().largest_message;
    let lanes = &task.lanes(&contender.promised())[..];
    let knobs = &contender.knobs;
    if plan.side == Side::Near {
        let dial = |flow| dial(plan, contender, task, tickets, flow);
        let own = share(plan).flows(flows).count();
        let dial_all = match contender.transport.info().is_kept_up {
            true if own > 1 => upkeep::dial_at_once,
            _ => |flows, dial: &_| (0..flows).map(dial).collect(),
        };
        return Ok((dial_all(own as u16, &dial).map_err(|e| with_contender(plan, e))?, None));
    }
    let at = &plan.endpoint;
    let tickets = tickets.clone();
    let listen = Listen { at, token: plan.token, knobs, lanes, largest_message, door, tickets };
    let mut listener = contender.transport.listen(listen)?;
    send_message(control, &FromAgent::Ready { endpoint: listener.endpoint() })?;
    let mut conns: BTreeMap<u16, Option<Box<dyn Conn>>> =
        share(plan).flows(flows).map(|flow| (flow, None)).collect();
    let missing = |conns: &BTreeMap<u16, Option<_>>| {
        conns.iter().find(|(_, conn)| conn.is_none()).map(|(flow, _)| *flow)
    };
    while let Some(missing) = missing(&conns) {
        let (flow, conn) = listener.accept(accept_timeout(dial_timeout(plan.emulated)))?;
        match conns.get_mut(&flow) {
            Some(slot @ None) => *slot = Some(conn),
            _ => {
                return Err(Error::peer(
                    "near end",
                    format!("it opened flow {flow} where flow {missing} of {flows} was missing"),
                ));
            }
        }
    }
    let stays = (listener.stays() || task.info().reconnects()).then_some(listener);
    Ok((conns.into_values().flatten().collect(), stays))
}

/// Opens a connection. The numbers of one flow's connections differ by multiples of the number of flows, so that a late
/// hello of one is not mistaken for the next.
fn dial(
    plan: &AgentPlan,
    contender: &Contender,
    task: &dyn Task,
    tickets: &Tickets,
    number: u16,
) -> Result<Box<dyn Conn>> {
    let nodes = || iter::once(&plan.endpoint).chain(&plan.further);
    let all;
    let to = match contender.transport.info().peer {
        PeerKind::Group => {
            all = Address::Several(nodes().cloned().collect());
            &all
        }
        _ => {
            let node = usize::from(number) % task.info().flows.len().max(1) % nodes().count();
            nodes().nth(node).unwrap_or(&plan.endpoint)
        }
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

/// Returns the source of the connections after a flow's first, and, if this end accepts them, the sender that passes
/// them on.
fn further(
    plan: &AgentPlan,
    contender: &Contender,
    task: &SharedTask,
    tickets: &Tickets,
    flow: u16,
) -> (Further<dyn Conn>, Option<WayIn>) {
    if !task.info().reconnects() {
        return (Further::None, None);
    }
    if plan.side == Side::Far {
        let (come_in, came_in) = channel();
        return (Further::Accept(came_in), Some(come_in));
    }
    let (plan, contender, task) = (plan.clone(), contender.clone(), task.clone());
    let tickets = tickets.clone();
    let mut number = flow;
    let dial = move || {
        number += task.info().flows.len() as u16;
        dial(&plan, &contender, &*task, &tickets, number)
    };
    (Further::Dial(Box::new(dial)), None)
}

fn make_half(
    plan: &AgentPlan,
    contender: &Contender,
    task: &dyn Task,
    flow: u16,
    file: Option<&NamedFile>,
) -> Result<Box<dyn Endpoint>> {
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
    });
    Ok(match plan.clock {
        None => half,
        Some(clock) => Box::new(ShiftedEndpoint::new(half, clock)),
    })
}
