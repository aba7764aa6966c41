//! Both ends of a trial under way: what each says is heard, passed on to the other where it concerns
//! it, and turned into reports or one error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::contract::Side;
use crate::error::{Error, FaultKind, Result};
use crate::figures::Tally;
use crate::figures::series::Point;
use crate::time::{Clock, Monotonic, Nanos};
use crate::transport::Endpoint;
use crate::workload::Task;

use super::End;
use super::control::{AgentReport, FromAgent, FromServer, ToAgent};
use super::credible::{Known, check_tallies};
use super::link::{Link, Word};
use super::patient::sleep;

/// Time that both ends may take for anything but the work itself.
pub(super) const SLACK: Nanos = Nanos::from_secs(20);
/// Longest time that a server may keep a trial waiting for others.
const QUEUE_TIMEOUT: Nanos = Nanos::from_secs(3600);

/// Pause before a server that has no room for a trial is asked again.
const RETRY: Nanos = Nanos::from_secs(1);

/// Tells the far agent to `open`, and waits until it listens. A server without room is asked again.
pub(super) fn await_ready(
    link: &mut Link,
    open: &ToAgent,
    stop: &AtomicBool,
    on_queued: &mut dyn FnMut(u32),
) -> Result<Endpoint> {
    let give_up = Monotonic.now() + QUEUE_TIMEOUT;
    let mut left = SLACK;
    link.tell(open)?;
    loop {
        if !link.has_word(left)? {
            return Err(Error::peer(link.who(), "it did not get ready in time"));
        }
        match link.hear()? {
            Word::Agent(FromAgent::Ready { endpoint }) => return Ok(endpoint),
            Word::Server(FromServer::Queued { ahead }) => {
                on_queued(ahead);
                left = QUEUE_TIMEOUT;
            }
            Word::Server(FromServer::Full(fault)) if Monotonic.now() >= give_up => {
                return Err(Error::peer(link.who(), fault.message));
            }
            Word::Server(FromServer::Full(_)) => {
                on_queued(u32::MAX);
                sleep(RETRY, stop).map_err(|_| Error::Interrupted)?;
                link.tell(open)?;
            }
            word => return Err(refusal(link, word)),
        }
    }
}

/// Returns the error in a word that should have been another.
fn refusal(link: &Link, word: Word) -> Error {
    match word {
        Word::Agent(FromAgent::Fault(fault)) => match End::from(fault) {
            End::Blocked(evidence) => Error::blocked(evidence),
            End::Failed(Error::Peer { what, .. }) => Error::peer(link.who(), what),
            End::Failed(error) => error,
            End::Ran(_) => Error::peer(link.who(), "a fault that is none"),
        },
        Word::Server(FromServer::Refused(fault)) => {
            Error::peer(link.who(), format!("it refused: {fault}"))
        }
        _ => Error::peer(link.who(), "it spoke out of turn; use the same version on both ends"),
    }
}

/// Both ends of a trial.
pub(super) struct Pair {
    near: Link,
    far: Option<Link>,
    near_report: Option<AgentReport>,
    far_report: Option<AgentReport>,
    /// True once the far end has said its last word.
    far_ended: bool,
    stop: Arc<AtomicBool>,
    /// Time at which they were told to start.
    began: Nanos,
}

/// End that a word comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Near,
    Far,
}

pub(super) struct BothReports {
    pub(super) near: AgentReport,
    pub(super) far: Option<AgentReport>,
    /// Time from the word to start to the far end's report.
    pub(super) took: Nanos,
    /// Reason why the far end's report was dropped: it cannot be true.
    pub(super) doubt: Option<String>,
}

impl BothReports {
    /// Drops the far end's report if it cannot be true, so that nothing of it becomes a figure.
    pub(super) fn checked(mut self, task: &dyn Task) -> BothReports {
        let known = Known { near: &self.near, task, took: self.took };
        self.doubt = self.far.as_ref().and_then(|far| known.check(far).err());
        if self.doubt.is_some() {
            self.far = None;
        }
        self
    }
}

impl Pair {
    /// Creates both ends, told to open and not yet connected. `stop` calls the trial off.
    pub(super) fn new(near: Link, far: Option<Link>, stop: Arc<AtomicBool>) -> Pair {
        Pair {
            near,
            far,
            near_report: None,
            far_report: None,
            far_ended: false,
            stop,
            began: Monotonic.now(),
        }
    }

    /// Waits until both ends are connected, at most for `longest`.
    pub(super) fn await_connected(&mut self, longest: Nanos) -> Result<()> {
        let mut missing = 1 + usize::from(self.far.is_some());
        let deadline = Monotonic.now() + longest;
        while missing > 0 {
            match self.hear(deadline)? {
                (_, FromAgent::Connected) => missing -= 1,
                (from, word) => return Err(self.refused(from, word)),
            }
        }
        Ok(())
    }

    /// Starts both.
    pub(super) fn start(&mut self) -> Result<()> {
        self.began = Monotonic.now();
        self.tell_both(&ToAgent::Start)
    }

    /// Stops both where they are, and sees them through to their reports.
    pub(super) fn stop(&mut self) -> Result<BothReports> {
        self.tell_both(&ToAgent::Stop)?;
        self.finish(SLACK, &mut |_, _, _| {})
    }

    /// Tells both the same; the far end first.
    fn tell_both(&mut self, word: &ToAgent) -> Result<()> {
        if let Some(far) = &mut self.far {
            far.tell(word)?;
        }
        self.near.tell(word)
    }

    /// Sees both through to their reports, at most for `longest` from here. `on_point` is told how their flows
    /// go, if the plans ask for that.
    pub(super) fn finish(
        &mut self,
        longest: Nanos,
        on_point: &mut dyn FnMut(Side, u16, Point),
    ) -> Result<BothReports> {
        let mut took = Nanos::ZERO;
        let deadline = Monotonic.now() + longest;
        loop {
            match self.hear(deadline)? {
                (from, FromAgent::Finished { sent }) => self.pass_on(from, sent)?,
                (From::Near, FromAgent::Interval { flow, point }) => {
                    on_point(Side::Near, flow, *point);
                }
                (From::Far, FromAgent::Interval { flow, point }) => {
                    on_point(Side::Far, flow, *point);
                }
                (From::Near, FromAgent::Done(report)) => self.near_report = Some(*report),
                (From::Far, FromAgent::Done(report)) => {
                    took = Monotonic.now() - self.began;
                    self.far_report = Some(*report);
                }
                (from, word) => return Err(self.refused(from, word)),
            }
            // An agent that has reported is gone, and its line with it; it is not listened to again.
            if let (Some(near), false) = (&self.near_report, self.far_is_awaited()) {
                let (near, far) = (near.clone(), self.far_report.take());
                return Ok(BothReports { near, far, took, doubt: None });
            }
        }
    }

    fn far_is_awaited(&self) -> bool {
        self.far.is_some() && self.far_report.is_none()
    }

    /// Tells the other end that this one has sent all it will.
    fn pass_on(&mut self, from: From, sent: Vec<Tally>) -> Result<()> {
        if let (From::Far, Some(far)) = (from, &self.far) {
            check_tallies(&sent).map_err(|what| Error::peer(far.who(), what))?;
        }
        let other = match from {
            From::Near => self.far.as_mut(),
            From::Far => Some(&mut self.near),
        };
        let Some(other) = other else { return Ok(()) };
        match other.tell(&ToAgent::PeerFinished { sent }) {
            // It has reported already and needs no telling.
            Err(_) if !other.is_through_server() => Ok(()),
            told => told,
        }
    }

    /// Waits for the next word of either end.
    fn hear(&mut self, deadline: Nanos) -> Result<(From, FromAgent)> {
        loop {
            if self.stop.load(Ordering::Acquire) {
                return Err(Error::Interrupted);
            }
            let left = deadline - Monotonic.now();
            if left == Nanos::ZERO {
                return Err(Error::peer("trial", "it did not end in time; one end hangs"));
            }
            let near = self.near_report.is_none().then_some(&self.near);
            let far = self.far.as_ref().filter(|_| self.far_report.is_none());
            let from = first_of(near, far, left)?;
            let Some(from) = from else { continue };
            if let Some(word) = self.hear_one(from, deadline)? {
                return Ok((from, word));
            }
        }
    }

    /// Returns the error in a word that should have been another. Where one end failed the other
    /// often does, too, and knows more or less about it: what was blocked comes first, then a file,
    /// which is never the consequence, then the near end, which dialled.
    fn refused(&mut self, from: From, word: FromAgent) -> Error {
        let soon = Monotonic.now() + Nanos::from_millis(200);
        let other = match from {
            From::Near => (self.far_is_awaited() && !self.far_ended).then_some(From::Far),
            From::Far => self.near_report.is_none().then_some(From::Near),
        };
        let mut words = vec![(from, word)];
        while let Some(other) = other {
            match self.hear_one(other, soon) {
                Ok(Some(word @ (FromAgent::Fault(_) | FromAgent::Done(_)))) => {
                    words.push((other, word));
                    break;
                }
                Ok(Some(_)) => {}
                _ => break,
            }
        }
        words.retain(|(_, word)| !matches!(word, FromAgent::Done(_)));
        words.sort_by_key(|(from, word)| {
            let is = |kind| matches!(word, FromAgent::Fault(fault) if fault.kind == kind);
            (!is(FaultKind::Blocked), !is(FaultKind::Data), *from == From::Far)
        });
        let Some((from, word)) = words.into_iter().next() else {
            return Error::peer("trial", "it ended without a reason");
        };
        match (from, &self.far) {
            (From::Far, Some(far)) => refusal(far, Word::Agent(word)),
            _ => refusal(&self.near, Word::Agent(word)),
        }
    }

    /// Waits for the next word of one end before `deadline`, if there is one.
    fn hear_one(&mut self, from: From, deadline: Nanos) -> Result<Option<FromAgent>> {
        let link = match (from, &mut self.far) {
            (From::Far, Some(far)) => far,
            _ => &mut self.near,
        };
        if !link.has_word(deadline - Monotonic.now())? {
            return Ok(None);
        }
        let heard = link.hear();
        // Nothing that it may say yet is worth waiting for.
        self.far_ended |= from == From::Far && matches!(heard, Err(Error::Nonsense { .. }));
        let heard = heard?;
        let is_last = !matches!(
            heard,
            Word::Agent(
                FromAgent::Ready { .. }
                    | FromAgent::Connected
                    | FromAgent::Interval { .. }
                    | FromAgent::Finished { .. }
            )
        );
        self.far_ended |= from == From::Far && is_last;
        match heard {
            Word::Agent(word) => Ok(Some(word)),
            word @ Word::Server(_) => Err(refusal(link, word)),
        }
    }
}

impl Drop for Pair {
    /// A server goes on with a trial until it is told otherwise, and takes no new one before.
    fn drop(&mut self) {
        let through_server = self.far.as_ref().is_some_and(Link::is_through_server);
        if !through_server || self.far_ended {
            return;
        }
        if let Some(far) = &mut self.far
            && far.tell(&ToAgent::CallOff).is_err()
        {
            return;
        }
        let deadline = Monotonic.now() + SLACK;
        while !self.far_ended {
            let Ok(Some(_)) = self.hear_one(From::Far, deadline) else { return };
        }
    }
}

/// Waits for the first of these links to have a word; `None` after `timeout`.
fn first_of(near: Option<&Link>, far: Option<&Link>, timeout: Nanos) -> Result<Option<From>> {
    use std::os::fd::AsRawFd;
    // poll(2) ignores negative descriptors.
    let poll = |link: Option<&Link>| libc::pollfd {
        fd: link.map_or(-1, |link| link.fd().as_raw_fd()),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut fds = [poll(near), poll(far)];
    for (link, from) in [(near, From::Near), (far, From::Far)] {
        if link.is_some_and(Link::holds_more) {
            return Ok(Some(from));
        }
    }
    let ms = i32::try_from(timeout.0.div_ceil(1_000_000)).unwrap_or(i32::MAX);
    // SAFETY: `fds` is an array of two valid pollfds.
    if unsafe { libc::poll(fds.as_mut_ptr(), 2, ms) } < 0 {
        let error = std::io::Error::last_os_error();
        let interrupted = error.kind() == std::io::ErrorKind::Interrupted;
        return if interrupted {
            Ok(None)
        } else {
            Err(Error::setup("wait for both agents", error))
        };
    }
    Ok(match fds.map(|fd| fd.revents != 0) {
        [true, _] => Some(From::Near),
        [_, true] => Some(From::Far),
        _ => None,
    })
}
