//! Memory between two halves in virtual time. The far half acts whenever the near one is asked, and time moves on when
//! neither has anything to do.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deadheat::contract::{Action, Inbox, Lane, Patience, Sink, Source};
use deadheat::datapath::stamps::Stamps;
use deadheat::datapath::wait::Interest;
use deadheat::error::Error;
use deadheat::time::{Clock, Monotonic, Nanos};
use deadheat::transport::{Conn, ConnInfo, Effective, Progress, Readiness};
use deadheat::workload::load::Item;
use deadheat::workload::{BulkPart, Endpoint, EndpointReport, FlowEvent, RecentTimes, Standing};

/// Time at which a run begins: not 0, which some messages take for no time at all.
const BEGIN: Nanos = Nanos::from_secs(1);
/// Time that a message takes.
const TRAVEL: Nanos = Nanos::from_micros(1);
/// The longest that nothing may be due, at which a run has come to a stop that it should not.
const STUCK: Nanos = Nanos::from_secs(3_600);

/// Virtual time. Reading it costs what reading the real clock does.
#[derive(Clone)]
pub(super) struct Virtual(Arc<AtomicU64>);

impl Virtual {
    pub(super) fn new() -> Virtual {
        Virtual(Arc::new(AtomicU64::new(BEGIN.0)))
    }

    /// Returns the time since the beginning.
    pub(super) fn passed(&self) -> Nanos {
        self.present() - BEGIN
    }

    fn present(&self) -> Nanos {
        Nanos(self.0.load(Relaxed))
    }

    fn advance_to(&self, to: Nanos) {
        self.0.store(to.0, Relaxed);
    }
}

impl Clock for Virtual {
    fn now(&self) -> Nanos {
        std::hint::black_box(Monotonic.now());
        self.present()
    }
}

/// The far half, and the messages on their way from it.
pub(super) struct Between {
    far: Box<dyn Endpoint>,
    clock: Virtual,
    out: Vec<u8>,
    on_the_way: VecDeque<(Lane, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    /// Time at which the far half wants to act next.
    due: Option<Nanos>,
    far_is_done: bool,
    near_knows: bool,
}

impl Between {
    pub(super) fn new(
        far: Box<dyn Endpoint>,
        clock: Virtual,
        largest: usize,
    ) -> Arc<Mutex<Between>> {
        Arc::new(Mutex::new(Between {
            far,
            clock,
            out: vec![0; largest],
            on_the_way: VecDeque::new(),
            spare: Vec::new(),
            due: None,
            far_is_done: false,
            near_knows: false,
        }))
    }

    /// Lets the far half do all that it wants to do now.
    fn act(&mut self) {
        while !self.far_is_done {
            let now = self.clock.present();
            match self.far.poll(now, &mut self.out) {
                Action::Send { lane, len } => {
                    let mut message = self.spare.pop().unwrap_or_default();
                    message.clear();
                    message.extend_from_slice(&self.out[..len]);
                    self.on_the_way.push_back((lane, message));
                    self.far.on_sent(now);
                }
                Action::Wait(until) if until.is_some_and(|until| until <= now) => {
                    self.clock.advance_to(now + Nanos(1))
                }
                Action::Wait(until) => {
                    self.due = until;
                    return;
                }
                _ => self.far_is_done = true,
            }
        }
        self.due = None;
    }
}

fn lock(between: &Mutex<Between>) -> MutexGuard<'_, Between> {
    between.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The near half, which moves the clock on where it would wait.
pub(super) struct NearHalf {
    near: Box<dyn Endpoint>,
    between: Arc<Mutex<Between>>,
    clock: Virtual,
    far_knows: bool,
}

impl NearHalf {
    pub(super) fn new(near: Box<dyn Endpoint>, between: Arc<Mutex<Between>>) -> NearHalf {
        let clock = lock(&between).clock.clone();
        NearHalf { near, between, clock, far_knows: false }
    }

    /// Runs to the end over `conn` without the driver.
    pub(super) fn run(&mut self, conn: &mut Through, out: &mut [u8]) -> io::Result<()> {
        loop {
            let now = self.clock.present();
            match self.poll(now, out) {
                Action::Send { lane, len } => {
                    conn.send(lane, &out[..len])?;
                    self.on_sent(now);
                }
                Action::Wait(_) => {
                    conn.receive(Patience::None, &mut Taking(self))?;
                }
                Action::Done => return Ok(()),
                other => return Err(io::Error::other(format!("the near half asks for {other:?}"))),
            }
        }
    }

    /// Tells each half once that the other has sent all, as control does; whether anything was told.
    fn tell(&mut self, between: &mut Between) -> bool {
        let now = self.clock.present();
        let mut told = false;
        if !self.far_knows && self.near.has_sent_all() {
            self.far_knows = true;
            let sent = self.near.standing(now).sent;
            between.far.on_event(now, FlowEvent::PeerFinished { sent });
            told = true;
        }
        if !between.near_knows && between.far.has_sent_all() {
            between.near_knows = true;
            let sent = between.far.standing(now).sent;
            self.near.on_event(now, FlowEvent::PeerFinished { sent });
            told = true;
        }
        told
    }
}

/// Hands messages to the near half.
struct Taking<'a>(&'a mut NearHalf);

impl Inbox for Taking<'_> {
    fn message(&mut self, lane: Lane, bytes: &[u8]) {
        self.0.on_message(Nanos::ZERO, lane, bytes);
    }
}

/// Times are those of the virtual clock: the driver's were read before it moved on.
#[deny(clippy::missing_trait_methods)]
impl Endpoint for NearHalf {
    fn poll(&mut self, _: Nanos, out: &mut [u8]) -> Action {
        let shared = Arc::clone(&self.between);
        let mut between = lock(&shared);
        loop {
            between.act();
            if !between.on_the_way.is_empty() {
                return Action::Wait(None);
            }
            let now = self.clock.present();
            let until = match self.near.poll(now, out) {
                Action::Wait(until) => until,
                action => return action,
            };
            if self.tell(&mut between) {
                continue;
            }
            let due = [until, between.due].into_iter().flatten().min();
            match due {
                Some(due) if due - now < STUCK => self.clock.advance_to(due.max(now + Nanos(1))),
                _ => return Action::Fail,
            }
        }
    }

    fn on_sent(&mut self, _: Nanos) {
        self.near.on_sent(self.clock.present());
    }

    fn on_message(&mut self, _: Nanos, lane: Lane, bytes: &[u8]) {
        self.near.on_message(self.clock.present(), lane, bytes);
    }

    fn on_event(&mut self, now: Nanos, event: FlowEvent) {
        self.near.on_event(now, event);
    }

    fn has_sent_all(&self) -> bool {
        self.near.has_sent_all()
    }

    fn on_no_room(&mut self, _: Nanos) -> Option<Nanos> {
        self.near.on_no_room(self.clock.present())
    }

    fn bulk(&mut self) -> BulkPart<'_> {
        self.near.bulk()
    }

    fn failure(&mut self) -> Option<Error> {
        self.near.failure()
    }

    fn standing(&mut self, now: Nanos) -> Standing {
        self.near.standing(now)
    }

    fn take_recent(&mut self) -> RecentTimes {
        self.near.take_recent()
    }

    fn items(&self) -> Vec<Item> {
        self.near.items()
    }

    fn report(&mut self, now: Nanos) -> EndpointReport {
        self.near.report(now)
    }
}

/// The near end's connection.
pub(super) struct Through {
    between: Arc<Mutex<Between>>,
    clock: Virtual,
    messages: u64,
}

impl Through {
    pub(super) fn new(between: Arc<Mutex<Between>>) -> Through {
        let clock = lock(&between).clock.clone();
        Through { between, clock, messages: 0 }
    }

    /// Returns the number of messages that the near end has sent and received.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }
}

impl Conn for Through {
    fn readiness(&self) -> Readiness<'_> {
        Readiness { fd: None, room: Interest::ReadWrite, has_backlog: false }
    }

    fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn flush(&mut self) -> io::Result<Progress> {
        Ok(Progress::Moved)
    }

    fn is_drained(&self) -> bool {
        true
    }

    fn next_deadline(&self) -> Option<Nanos> {
        None
    }

    fn on_deadline(&mut self, _: Nanos) -> io::Result<()> {
        Ok(())
    }

    fn stamps(&mut self) -> io::Result<&mut Stamps> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn send(&mut self, lane: Lane, message: &[u8]) -> io::Result<Progress> {
        let now = self.clock.present() + TRAVEL;
        self.clock.advance_to(now);
        lock(&self.between).far.on_message(now, lane, message);
        self.messages += 1;
        Ok(Progress::Moved)
    }

    fn receive(&mut self, _: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        let Some((lane, message)) = lock(&self.between).on_the_way.pop_front() else {
            return Ok(Progress::Idle);
        };
        self.clock.advance_to(self.clock.present() + TRAVEL);
        inbox.message(lane, &message);
        lock(&self.between).spare.push(message);
        self.messages += 1;
        Ok(Progress::Moved)
    }

    fn pump(&mut self, _: &mut dyn Source) -> io::Result<Progress> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn drain(&mut self, _: Patience, _: &mut dyn Sink) -> io::Result<Progress> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn effective(&self) -> Effective {
        Effective::default()
    }

    fn info(&self) -> ConnInfo {
        ConnInfo::default()
    }
}
