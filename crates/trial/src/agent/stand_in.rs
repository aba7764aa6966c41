//! Stand-in for a far end of others that counts: the far node of a trial, a process on this host. It drives the control
//! protocol of the far end, and speaks with the race as a far agent does, so that the lead needs to know no more.
//!
//! ```text
//! race      Open ──▶  ◀── Busy*, Ready      Start ──▶       PeerFinished, Stop ──▶    ◀── Finished, Done
//! stand-in       session()        start() ◀── Connected       look()          end()
//! far end   ─────── its control protocol, and with the near end its flows ───────────────────────────────
//! ```
//! Data of the near end ends with `PeerFinished`: a near end says so towards a far end of others once its kernel has
//! everything acknowledged. Data of the far end ends after the time of the work. A test with both ends with the later one.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use deadheat_base::descriptor::ready;

use crate::control::{self, AgentPlan, AgentReport, FromAgent, ToAgent};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::Tally;
use deadheat_contract::workload::{self, Task};
use deadheat_datapath::datapath::origin;
use deadheat_datapath::transport::far_end::{
    self, FarCounts, FarOpening, FarSession, SessionOrder,
};
use deadheat_datapath::transport::step::STEP;
use deadheat_datapath::transport::{Address, Contender};

use super::session::{control_failed, send_message};

/// Pause before a far end that serves another client is asked again.
const RETRY: Nanos = Nanos::from_secs(1);

/// Runs the stand-in for the far end of others that `plan` names.
///
/// # Errors
/// The failed operation; [`Error::Broken`] with the state in which the far end failed.
pub(super) fn run(plan: &AgentPlan, id: &str, mut control: UnixStream) -> Result<AgentReport> {
    origin::leave_from(plan.origin.clone());
    let end = far_end::find(id)?;
    let Address::Ip(to) = plan.endpoint else {
        return Err(Error::usage(format!("{id} needs an IP address, not `{}`", plan.endpoint)));
    };
    let Some(open) = end.session else {
        return Err(Error::usage(format!("{} at {to} counts nothing", end.info.label)));
    };
    let contender = Contender::sent(&plan.contender)?;
    let task = workload::parse(&plan.workload)?;
    let Some(plain) = contender.transport.plain() else {
        return Err(Error::usage(format!("{id} does not carry `{}`", plan.contender)));
    };
    let order = SessionOrder {
        to,
        token: plan.token,
        over: plain.protocol,
        transport: contender.transport.info(),
        knobs: &contender.knobs,
        task: task.info(),
        patience: STEP,
    };
    let mut session = loop {
        match open(&order)? {
            FarOpening::Open(session) => break session,
            FarOpening::Busy => {
                send_message(&mut control, &FromAgent::Busy)?;
                pause(&control)?;
            }
        }
    };
    send_message(&mut control, &FromAgent::Ready { endpoint: plan.endpoint.clone() })?;
    session.start()?;
    send_message(&mut control, &FromAgent::Connected)?;
    let mut running = Running { session: &mut *session, control, sent: Vec::new() };
    running.see_through(&*task)
}

/// Waits before the next attempt; the race may call it off meanwhile.
fn pause(control: &UnixStream) -> Result<()> {
    let spoke = ready([(control.as_fd(), libc::POLLIN)], Some(RETRY));
    match spoke.map_err(|e| Error::setup("wait for the race", e))?.first() {
        Some(true) => Err(Error::Interrupted),
        _ => Ok(()),
    }
}

/// Session whose flows are connected.
struct Running<'a> {
    session: &'a mut dyn FarSession,
    control: UnixStream,
    /// Data that the near end has sent, by flow, once it has sent all.
    sent: Vec<Tally>,
}

impl Running<'_> {
    fn see_through(&mut self, task: &dyn Task) -> Result<AgentReport> {
        match control::read(&mut self.control).map_err(control_failed)? {
            ToAgent::Start => {}
            ToAgent::CallOff => return Err(Error::Interrupted),
            _ => return Err(Error::peer("control", "a connected stand-in is told to start")),
        }
        let has = |way| task.info().flows.contains(&Some(way));
        let planned = task.info().planned.filter(|_| has(Direction::Down));
        self.run_until(planned.map(|planned| Monotonic.now() + planned), has(Direction::Up))?;
        let FarCounts { halves, effective, uncounted } = self.session.end(&self.sent)?;
        let sent = halves.iter().map(|half| half.sent).collect();
        send_message(&mut self.control, &FromAgent::Finished { sent })?;
        Ok(AgentReport { halves, effective, uncounted, ..AgentReport::default() })
    }

    /// Waits until the work is over: from `end` on, if the far end sends, once the near end has sent all, if it `sends`, or
    /// when the race says so.
    fn run_until(&mut self, end: Option<Nanos>, sends: bool) -> Result<()> {
        let mut is_sent = !sends;
        loop {
            let left = end.map(|end| end - Monotonic.now());
            let is_past = left.is_none_or(|left| left == Nanos::ZERO);
            if is_past && is_sent {
                return Ok(());
            }
            let left = left.filter(|_| !is_past);
            let watched = [(self.control.as_fd(), libc::POLLIN), (self.session.fd(), libc::POLLIN)];
            let ready = ready(watched, left).map_err(|e| Error::setup("wait for a far end", e))?;
            if ready[0] {
                match control::read(&mut self.control).map_err(control_failed)? {
                    ToAgent::PeerFinished { sent } => (self.sent, is_sent) = (sent, true),
                    ToAgent::Stop => return Ok(()),
                    ToAgent::CallOff => return Err(Error::Interrupted),
                    _ => return Err(Error::peer("control", "a running stand-in is told to stop")),
                }
            } else if ready[1] {
                self.session.look()?;
            }
        }
    }
}
