//! The only I/O loop of a trial: asks one half of a workload what to do, and does it on one
//! connection. One thread per flow; nothing is allocated in the loop.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::contract::{Action, GUARD, Inbox, Lane, Patience, WaitMode};
use crate::datapath::wait::{Interest, Plan, Waiter, Woke, plan};
use crate::error::{Error, Result};
use crate::figures::Tally;
use crate::time::{Clock, Nanos};
use crate::transport::{Conn, Progress};
use crate::workload::Half;

use super::control::Limits;
use super::explain::probed::Probe;

/// What a flow's thread is told from outside, and what it tells.
#[derive(Debug, Default)]
pub struct Signal {
    news: AtomicBool,
    peer_sent: Mutex<Option<Tally>>,
    stop: AtomicBool,
}

impl Signal {
    /// Control says that the other end has sent all it will.
    pub fn peer_finished(&self, sent: Tally) {
        if let Ok(mut slot) = self.peer_sent.lock() {
            *slot = Some(sent);
        }
        self.news.store(true, Ordering::Release);
    }

    /// The trial is over, whatever the half thinks.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.news.store(true, Ordering::Release);
    }

    #[inline]
    fn has_news(&self) -> bool {
        self.news.load(Ordering::Relaxed) && self.news.swap(false, Ordering::AcqRel)
    }

    fn take_peer_sent(&self) -> Option<Tally> {
        self.peer_sent.lock().ok().and_then(|mut slot| slot.take())
    }
}

/// One flow at one end.
pub struct Flow {
    /// The connection.
    pub conn: Box<dyn Conn>,
    /// The half of the workload.
    pub half: Box<dyn Half>,
    /// How to wait.
    pub wait: WaitMode,
    /// Holds it to what a server allows, if this end is a server's.
    pub meter: Option<Arc<Meter>>,
    /// The largest message in bytes.
    pub largest_message: usize,
    /// System calls made to wait, so far.
    pub wait_calls: u64,
    /// Holds what the connection notes, in an instrumented trial.
    pub probe: Option<Probe>,
}

/// How many times a spinning end looks at the socket before it looks at the clock again, where
/// nothing is due for long.
const LOOKS: u32 = 64;
/// From here on a due time is far enough for [`LOOKS`] looks at the socket (0.3 µs each).
const FAR_OFF: Nanos = Nanos::from_micros(200);

impl Flow {
    /// Runs the flow to its end. `sent_all` is called once, with what was sent, as soon as this
    /// half will send no more.
    ///
    /// # Errors
    /// Where the connection fails, or a limit is passed.
    pub fn run(
        &mut self,
        clock: &impl Clock,
        signal: &Signal,
        sent_all: &mut dyn FnMut(Tally),
    ) -> Result<()> {
        let waiter = Waiter::new(self.wait);
        let done = self.steps(clock, signal, &waiter, sent_all);
        self.wait_calls += waiter.calls();
        done
    }

    fn steps(
        &mut self,
        clock: &impl Clock,
        signal: &Signal,
        waiter: &Waiter,
        sent_all: &mut dyn FnMut(Tally),
    ) -> Result<()> {
        let mut out = vec![0; self.largest_message];
        let next_look = clock.now() + LOOK_EVERY;
        let mut metering =
            self.meter.take().map(|meter| Metering { meter, next_look, seen: [0; 2] });
        let mut announced = false;
        let (mut now, mut stale) = (clock.now(), false);
        loop {
            if signal.has_news() {
                if signal.stop.load(Ordering::Acquire) {
                    return Ok(());
                }
                if let Some(sent) = signal.take_peer_sent() {
                    self.half.on_peer_finished(clock.now(), sent);
                }
            }
            let mut action = self.half.poll(now, &mut out);
            if stale && matches!(action, Action::Send { .. }) {
                now = clock.now();
                action = self.half.poll(now, &mut out);
            }
            let may_have_sent_all = !matches!(action, Action::Send { .. } | Action::Pump);
            if !announced && may_have_sent_all && self.half.has_sent_all() {
                announced = true;
                self.finish_sending()?;
                sent_all(self.half.report(now).sent);
            }
            if let Some(metering) = &mut metering {
                metering.check(now, &mut *self.half)?;
            }
            match action {
                Action::Send { lane, len } => self.send(now, lane, &out[..len], clock, waiter)?,
                Action::Wait(until) => self.wait(now, until, clock, waiter)?,
                Action::Pump => self.pump()?,
                Action::Drain => self.drain(clock)?,
                Action::Done => return Ok(()),
            }
            // After a send there is mostly nothing to do but wait, and the time before it serves for
            // that; a further message gets a time of its own.
            stale = matches!(action, Action::Send { .. });
            if !stale {
                now = clock.now();
            }
        }
    }

    fn send(
        &mut self,
        now: Nanos,
        lane: Lane,
        message: &[u8],
        clock: &impl Clock,
        waiter: &Waiter,
    ) -> Result<()> {
        match self.conn.send(lane, message).map_err(|e| failed("send", e))? {
            Progress::Moved => self.half.on_sent(now),
            // No room: take what has arrived meanwhile, so that two full ends do not wait for each
            // other, and try again.
            Progress::Idle => {
                self.await_room(clock, waiter)?;
                self.receive(Patience::None, clock)?;
            }
            Progress::Closed => self.half.on_closed(now),
        }
        Ok(())
    }

    fn wait(
        &mut self,
        now: Nanos,
        until: Option<Nanos>,
        clock: &impl Clock,
        waiter: &Waiter,
    ) -> Result<()> {
        if self.conn.has_backlog() {
            self.conn.flush().map_err(|e| failed("send", e))?;
        }
        let own = self.conn.next_deadline();
        if own.is_some_and(|own| own <= now) {
            return self.conn.on_deadline(now).map_err(|e| failed("keep the connection up", e));
        }
        let until = [until, own].into_iter().flatten().min();
        match plan(now, until, self.wait) {
            // Nothing is due for long: one receiving call does for waiting and receiving.
            Plan::Sleep(to) if to - now >= GUARD && !self.conn.has_backlog() => {
                self.receive(Patience::UntilNudged, clock)
            }
            Plan::Poll if until.is_none_or(|until| until - now > FAR_OFF) => {
                for _ in 0..LOOKS {
                    if self.receive_once(Patience::None, clock)? != Progress::Idle {
                        break;
                    }
                }
                Ok(())
            }
            _ => {
                let interest =
                    if self.conn.has_backlog() { Interest::ReadWrite } else { Interest::Read };
                let woke = waiter
                    .wait(clock, self.conn.fd(), until, interest)
                    .map_err(|e| failed("wait", e))?;
                match woke {
                    Woke::Readable | Woke::Near => self.receive(Patience::None, clock),
                    Woke::Writable | Woke::Due | Woke::Interrupted => Ok(()),
                }
            }
        }
    }

    fn await_room(&mut self, clock: &impl Clock, waiter: &Waiter) -> Result<()> {
        let soon = clock.now() + Nanos::from_millis(1);
        waiter
            .wait(clock, self.conn.fd(), Some(soon), Interest::ReadWrite)
            .map_err(|e| failed("wait for room to send", e))?;
        Ok(())
    }

    fn receive(&mut self, patience: Patience, clock: &impl Clock) -> Result<()> {
        self.receive_once(patience, clock).map(|_| ())
    }

    #[inline]
    fn receive_once(&mut self, patience: Patience, clock: &impl Clock) -> Result<Progress> {
        let mut inbox = Stamped { half: &mut *self.half, clock };
        let progress = self.conn.receive(patience, &mut inbox).map_err(|e| failed("receive", e))?;
        if progress == Progress::Closed {
            self.half.on_closed(clock.now());
        }
        Ok(progress)
    }

    fn pump(&mut self) -> Result<()> {
        let source = self.half.source().ok_or_else(no_bulk)?;
        self.conn.pump(source).map_err(|e| failed("send", e))?;
        Ok(())
    }

    fn drain(&mut self, clock: &impl Clock) -> Result<()> {
        let patience = match self.wait {
            WaitMode::Hybrid => Patience::Block,
            WaitMode::Spin => Patience::None,
        };
        let sink = self.half.sink().ok_or_else(no_bulk)?;
        match self.conn.drain(patience, sink).map_err(|e| failed("receive", e))? {
            Progress::Moved => self.half.on_drained(clock.now()),
            Progress::Idle => {}
            Progress::Closed => self.half.on_closed(clock.now()),
        }
        Ok(())
    }

    fn finish_sending(&mut self) -> Result<()> {
        if self.half.source().is_none() {
            return Ok(());
        }
        match self.conn.finish() {
            // The peer may have closed first; there is nothing left to end.
            Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(()),
            other => other.map_err(|e| failed("end the transfer", e)),
        }
    }
}

/// Hands each message to the half with the time at which it was there.
struct Stamped<'a, C> {
    half: &'a mut dyn Half,
    clock: &'a C,
}

impl<C: Clock> Inbox for Stamped<'_, C> {
    #[inline]
    fn message(&mut self, lane: Lane, bytes: &[u8]) {
        self.half.on_message(self.clock.now(), lane, bytes);
    }
}

/// Holds all flows of a trial together to a server's limits.
#[derive(Debug)]
pub struct Meter {
    limits: Limits,
    state: Mutex<Metered>,
}

#[derive(Debug)]
struct Metered {
    start: Nanos,
    window: Nanos,
    /// Sent and received, all flows, so far and when the window began.
    bytes: [u64; 2],
    before: [u64; 2],
}

/// One flow's part in a [`Meter`].
struct Metering {
    meter: Arc<Meter>,
    next_look: Nanos,
    seen: [u64; 2],
}

/// How often a flow adds what it carried.
const LOOK_EVERY: Nanos = Nanos::from_millis(250);
/// Over how long a rate is taken.
const WINDOW: Nanos = Nanos::from_secs(1);
/// What setting up and ending may take on top of the allowed duration.
const GRACE: Nanos = Nanos::from_secs(10);

impl Meter {
    /// A meter for a trial that begins at `now`.
    pub fn new(limits: Limits, now: Nanos) -> Meter {
        let state = Metered { start: now, window: now, bytes: [0; 2], before: [0; 2] };
        Meter { limits, state: Mutex::new(state) }
    }

    fn add(&self, now: Nanos, more: [u64; 2]) -> Result<()> {
        let Ok(mut state) = self.state.lock() else { return Ok(()) };
        for (sum, more) in state.bytes.iter_mut().zip(more) {
            *sum += more;
        }
        let limits = &self.limits;
        if now - state.start > limits.duration_ns + GRACE {
            return Err(over(&format!("a trial may last {}", limits.duration_ns)));
        }
        if state.bytes.iter().any(|bytes| *bytes > limits.bytes) {
            return Err(over(&format!(
                "a trial may carry {} per direction; its operator can raise --max-bytes",
                crate::units::Bytes(limits.bytes)
            )));
        }
        let span = now - state.window;
        if span < WINDOW {
            return Ok(());
        }
        let moved = (0..2).map(|way| state.bytes[way] - state.before[way]).max().unwrap_or(0);
        let rate = crate::units::BitRate((moved as f64 * 8.0 / span.as_secs_f64()) as u64);
        (state.window, state.before) = (now, state.bytes);
        if rate > limits.rate_bps {
            return Err(over(&format!(
                "a trial may run at {} per direction, and this one ran at {rate}; its operator can \
                 raise --max-rate",
                limits.rate_bps
            )));
        }
        Ok(())
    }
}

impl Metering {
    fn check(&mut self, now: Nanos, half: &mut dyn Half) -> Result<()> {
        if now < self.next_look {
            return Ok(());
        }
        self.next_look = now + LOOK_EVERY;
        let report = half.report(now);
        let carried = [report.sent.bytes, report.received.bytes];
        let more = [carried[0] - self.seen[0], carried[1] - self.seen[1]];
        self.seen = carried;
        self.meter.add(now, more)
    }
}

/// A limit concerns this contender only; the race can go on with the others.
fn over(what: &str) -> Error {
    Error::blocked(format!("the server's limits end it: {what}"))
}

fn failed(op: &str, source: io::Error) -> Error {
    Error::setup(format!("{op} over the connection under test"), source)
}

fn no_bulk() -> Error {
    Error::setup("move bulk data", io::Error::other("this workload has none (a defect)"))
}
