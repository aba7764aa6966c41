//! Run of an agent: one end of a trial, in a process of its own. It listens or dials, runs its flows, and reports.

use std::os::unix::net::UnixStream;

use deadheat_base::panics::contained;

use crate::between::{relay, turn};
use crate::control::{self, AgentPlan, AgentReport, FromAgent, RelayPlan, ToAgent};
use crate::explain::Pass;
use crate::explain::probed::Probe;
use deadheat_base::error::{Error, Result};
use deadheat_contract::contract::{Direction, Exchange, Side};
use deadheat_datapath::datapath::account::Account;
use deadheat_datapath::datapath::{option, origin, own_host, policer};
use deadheat_datapath::transport::handover::ConnectionSource;
use deadheat_datapath::transport::{Conn, spent};

use super::driver::{Flow, limited};
use super::end::AgentEnd;
use super::exchange::Member;
use super::intervals::Sampler;
use super::parting::Parting;
use super::session::{Entrance, Session, control_failed, send_message};
use super::upkeep::{self, ControlEvent};
use super::{hole, means, stand_in};

/// Runs an agent on its control link; returns the process's exit code. The bytes that it sends and receives are added
/// to `account`, if the process that started it shares one.
pub(crate) fn run(
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
    let end = AgentEnd::open(plan)?;
    let AgentEnd { plan, contender, task, .. } = &end;
    if plan.pass == Pass::Explain {
        spent::begin();
    }
    let file = means::take(plan, &**task)?;
    means::limit(plan, &**task)?;
    let (conns, listener) = end.connect(door, &mut control)?;
    // The parts of a contender may differ in the size of their packets.
    let hole = plan.hole.filter(|_| contender.transport.parts().is_empty());
    hole::check(hole, plan.side, contender, &**task, &conns)?;
    let count = conns.len();
    let (mut flows, mut incoming) = (Vec::with_capacity(count), Vec::new());
    let mut members = end.exchange()?.into_iter();
    for (flow, conn) in end.flows().into_iter().zip(conns) {
        let member = members.next();
        let bell = member.as_ref().map(Member::waker);
        let exchange = member.map(|member| Box::new(member) as Box<dyn Exchange>);
        let half = end.half(flow, file.as_ref(), exchange)?;
        let is_up = task.info().flows.get(usize::from(flow)) == Some(&Some(Direction::Up));
        let (conn, probe) = match plan.pass {
            Pass::Figures => (conn, None),
            Pass::Explain => {
                let (conn, probe) =
                    Probe::wrap(conn, task.info().numbering, contender.transport.info().peer);
                (conn, Some(probe))
            }
        };
        let (further, come_in) = end.further(flow);
        incoming.extend(come_in);
        let sampler = Sampler::new(plan.interval_ns, count);
        let sampler = if plan.live { sampler.for_a_view() } else { sampler };
        let mut flow = Flow::new(conn, half, plan.wait, sampler, task.info().largest_message);
        (flow.further, flow.probe, flow.bell) = (further, probe, bell);
        flow.announces_at_end = plan.far_end.is_some() && is_up;
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
        at_others: plan.far_end.is_some() && !contender.transport.info().peer.has_session(),
    };
    let (own, flows_in_all) = (end.flows(), task.info().flows.len() as u16);
    let place = Box::new(move |number| {
        let flow = number % flows_in_all;
        own.iter().position(|own| *own == flow).unwrap_or(usize::MAX)
    });
    let entrance = listener.map(|listener| Entrance { listener, incoming, place });
    Session::start(control, flows, plan, parting, entrance)?.finish()
}
