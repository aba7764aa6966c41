//! Noting layer between the driver and the transport: a connection that notes the messages that pass through it.
//! Neither side depends on it, and a usual trial has no cost for it.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{FlowNotes, MOST_ROWS, Row, STAMPED, Visits};
use deadheat_base::time::{self, Clock, Monotonic, Nanos, Realtime};
use deadheat_contract::contract::{Inbox, Lane, Patience, PeerFacts, Sink, Source};
use deadheat_contract::workload::Numbering;
use deadheat_datapath::datapath::stamps::{Stamp, StampPoint, Stamps};
use deadheat_datapath::transport::{Conn, ConnInfo, Effective, Progress, Readiness, spent};

/// Most sends that wait for their stamps, newest last; older ones are given up.
const AWAITED: usize = 256;

/// Number of stamped messages that an end in a hurry sends before it fetches their stamps, unless it is idle.
const HURRIED: u32 = 8;

/// Notes of one flow, shared with the code that reports them. The lock is never contended: the flow's thread takes it
/// while it runs, the report afterwards.
#[derive(Debug, Clone)]
pub struct Probe(Arc<Mutex<NoteStore>>);

impl Probe {
    /// Wraps a noting layer around `conn`. If its messages have numbers, the kernel is asked to stamp them.
    pub fn wrap(
        mut conn: Box<dyn Conn>,
        numbering: Option<Numbering>,
        peer: PeerFacts,
    ) -> (Box<dyn Conn>, Probe) {
        let mut noted = NoteStore::default();
        if numbering.is_some() {
            noted.unstamped = conn.stamps().err().map(|error| error.to_string());
            noted.slots = vec![EMPTY; MOST_ROWS];
            noted.awaited = Vec::with_capacity(AWAITED);
        }
        let has_stamps = numbering.is_some() && noted.unstamped.is_none();
        let probe = Probe(Arc::new(Mutex::new(noted)));
        let own = probe.clone();
        let probed =
            ProbedConn { inner: conn, numbering, peer, probe: own, has_stamps, unfetched: 0 };
        (Box::new(probed), probe)
    }

    /// Returns the notes of a flow that has ended; called on its thread, to read the thread's CPU time.
    pub fn conclude(&self, conn: &mut dyn Conn) -> FlowNotes {
        let mut noted = self.noted();
        if let Ok(stamps) = conn.stamps() {
            // Stamps that cannot be fetched any more are only missing.
            let _ = stamps.fetch(|passed| noted.passed(passed));
        }
        let mut rows: Vec<Row> =
            noted.slots.iter().filter(|slot| slot.number != u64::MAX).map(RowSlot::row).collect();
        rows.sort_unstable_by_key(|row| row.number);
        FlowNotes {
            unstamped: noted.unstamped.clone(),
            rows,
            sending: noted.sending.visits(),
            receiving: noted.receiving.visits(),
            thread_ns: thread_time().0,
            spent: spent::by_this_thread(noted.messages),
            view: conn.info().view,
        }
    }

    fn noted(&self) -> MutexGuard<'_, NoteStore> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the CPU time of the calling thread since it began.
fn thread_time() -> Nanos {
    time::read(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or_default()
}

/// Row in one cache line: unknown moments are 0.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct RowSlot {
    number: u64,
    call: u64,
    returned: u64,
    scheduled: u64,
    left: u64,
    acknowledged: u64,
    arrived: u64,
    got: u64,
}

const EMPTY: RowSlot = RowSlot {
    number: u64::MAX,
    call: 0,
    returned: 0,
    scheduled: 0,
    left: 0,
    acknowledged: 0,
    arrived: 0,
    got: 0,
};

impl RowSlot {
    fn row(&self) -> Row {
        let known = |moment: u64| (moment > 0).then_some(moment);
        Row {
            number: self.number,
            call: known(self.call),
            returned: known(self.returned),
            scheduled: known(self.scheduled),
            left: known(self.left),
            acknowledged: known(self.acknowledged),
            arrived: known(self.arrived),
            got: known(self.got),
        }
    }
}

/// Notes so far.
#[derive(Debug, Default)]
struct NoteStore {
    unstamped: Option<String>,
    /// Slots by message number modulo [`MOST_ROWS`]; an empty one has the number `u64::MAX`.
    slots: Vec<RowSlot>,
    /// Keys and numbers of sends; a new one replaces the oldest.
    awaited: Vec<(u32, u64)>,
    next: usize,
    /// Number of messages with numbers that were sent.
    messages: u64,
    sending: Span,
    receiving: Span,
}

impl NoteStore {
    /// Returns the slot of message `number`, cleared if an older message occupies it.
    fn slot(&mut self, number: u64) -> &mut RowSlot {
        let slot = &mut self.slots[number as usize % MOST_ROWS];
        if slot.number != number {
            *slot = RowSlot { number, ..EMPTY };
        }
        slot
    }

    /// Notes a sent message; returns true if it is a question, and false if it is an answer.
    fn sent(&mut self, number: u64, call: Nanos, returned: Nanos, key: Option<u32>) -> bool {
        self.messages += 1;
        let slot = self.slot(number);
        let is_question = slot.got == 0;
        (slot.call, slot.returned) = (call.0, returned.0);
        let Some(key) = key else { return is_question };
        if self.awaited.len() < AWAITED {
            self.awaited.push((key, number));
        } else {
            self.awaited[self.next] = (key, number);
        }
        self.next = (self.next + 1) % AWAITED;
        is_question
    }

    fn passed(&mut self, passed: Stamp) {
        // The wanted one is mostly the newest.
        let (newer, older) = self.awaited.split_at(self.next.min(self.awaited.len()));
        let mut all = newer.iter().rev().chain(older.iter().rev());
        let Some(&(_, number)) = all.find(|(key, _)| *key == passed.key) else { return };
        let slot = &mut self.slots[number as usize % MOST_ROWS];
        if slot.number != number {
            return;
        }
        let moment = match passed.point {
            StampPoint::Scheduled => &mut slot.scheduled,
            StampPoint::Left => &mut slot.left,
            StampPoint::Acknowledged => &mut slot.acknowledged,
        };
        // A retransmitted segment is stamped again.
        if *moment == 0 {
            *moment = passed.at_ns;
        }
    }
}

/// Visits to move bulk data.
#[derive(Debug, Default)]
struct Span {
    visits: u64,
    inside: Nanos,
    first: Option<Nanos>,
    last: Nanos,
}

impl Span {
    fn visited(&mut self, from: Nanos, to: Nanos) {
        self.visits += 1;
        self.inside += to - from;
        self.first.get_or_insert(from);
        self.last = to;
    }

    fn visits(&self) -> Visits {
        let span = self.first.map_or(Nanos::ZERO, |first| self.last - first);
        Visits { visits: self.visits, inside_ns: self.inside.0, span_ns: span.0 }
    }
}

/// The noting layer.
struct ProbedConn {
    inner: Box<dyn Conn>,
    numbering: Option<Numbering>,
    peer: PeerFacts,
    probe: Probe,
    has_stamps: bool,
    unfetched: u32,
}

impl ProbedConn {
    /// Fetches the available stamps: a non-empty error queue would end every wait at once.
    fn fetch(&mut self) -> io::Result<()> {
        self.unfetched = 0;
        if !self.has_stamps {
            return Ok(());
        }
        let stamps = self.inner.stamps()?;
        let mut noted = self.probe.noted();
        stamps.fetch(|passed| noted.passed(passed))
    }

    /// Returns true if the flow has time to fetch the stamps of this message at once. An end that answers sleeps in
    /// receiving calls, which stamps do not disturb; the sooner it does so, the sooner a near end on the same CPU
    /// continues. A kernel answers so fast that the answer may have arrived already.
    fn has_time_after(&self, is_question: bool) -> bool {
        is_question && self.peer.is_process_of_ours() || self.unfetched >= HURRIED
    }

    /// Returns the stamps, if they are enabled.
    fn own_stamps(&mut self) -> Option<&mut Stamps> {
        if self.has_stamps { self.inner.stamps().ok() } else { None }
    }

    fn key(&mut self) -> Option<u32> {
        self.own_stamps().map(|stamps| stamps.last_key())
    }
}

/// Inbox that notes each message on its way to the endpoint.
struct NotingInbox<'a> {
    inbox: &'a mut dyn Inbox,
    numbering: Option<Numbering>,
    probe: &'a Probe,
    last: Option<u64>,
}

impl Inbox for NotingInbox<'_> {
    fn message(&mut self, lane: Lane, bytes: &[u8]) {
        if let Some(number) = self.numbering.and_then(|number| number(bytes)) {
            let now = Realtime.now().0;
            let mut noted = self.probe.noted();
            let slot = noted.slot(number);
            // A copy has no information about the way of the first one.
            self.last = (slot.got == 0).then_some(number);
            if slot.got == 0 {
                slot.got = now;
            }
        }
        self.inbox.message(lane, bytes);
    }
}

impl Conn for ProbedConn {
    fn readiness(&self) -> Readiness<'_> {
        self.inner.readiness()
    }

    fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        self.inner.sockets()
    }

    fn send(&mut self, lane: Lane, message: &[u8]) -> io::Result<Progress> {
        let Some(number) = self.numbering.and_then(|number| number(message)) else {
            return self.inner.send(lane, message);
        };
        let is_stamped = number.is_multiple_of(STAMPED);
        let before = self.key();
        if let (true, Some(stamps)) = (is_stamped, self.own_stamps()) {
            stamps.want();
        }
        let call = Realtime.now();
        let progress = self.inner.send(lane, message)?;
        let returned = Realtime.now();
        if progress != Progress::Moved {
            return Ok(progress);
        }
        // Without a new key, or with part of the message still unsent, no stamp would belong to it alone.
        let key = self.key().filter(|key| is_stamped && Some(*key) != before);
        let key = key.filter(|_| !self.inner.readiness().has_backlog);
        let is_question = self.probe.noted().sent(number, call, returned, key);
        if is_stamped {
            self.unfetched += 1;
            if self.has_time_after(is_question) {
                self.fetch()?;
            }
        }
        Ok(progress)
    }

    fn receive(&mut self, patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        let (numbering, probe) = (self.numbering, &self.probe);
        let mut noting = NotingInbox { inbox, numbering, probe, last: None };
        let progress = self.inner.receive(patience, &mut noting)?;
        let last = noting.last;
        let are_due = |stamps: &mut Stamps| stamps.are_due();
        if progress == Progress::Idle && self.own_stamps().is_some_and(are_due) {
            self.fetch()?;
        }
        let arrived = self.own_stamps().and_then(|stamps| stamps.received_ns());
        if let (Some(number), Some(arrived)) = (last, arrived) {
            self.probe.noted().slot(number).arrived = arrived;
        }
        Ok(progress)
    }

    fn flush(&mut self) -> io::Result<Progress> {
        self.inner.flush()
    }

    fn pump(&mut self, source: &mut dyn Source) -> io::Result<Progress> {
        let from = Monotonic.now();
        let progress = self.inner.pump(source);
        self.probe.noted().sending.visited(from, Monotonic.now());
        progress
    }

    fn drain(&mut self, patience: Patience, sink: &mut dyn Sink) -> io::Result<Progress> {
        let from = Monotonic.now();
        let progress = self.inner.drain(patience, sink)?;
        if progress == Progress::Moved {
            let (mut noted, to) = (self.probe.noted(), Monotonic.now());
            // The wait for the first bytes is no part of receiving.
            let from = if noted.receiving.visits == 0 { to } else { from };
            noted.receiving.visited(from, to);
        }
        Ok(progress)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.inner.finish()
    }

    fn is_drained(&self) -> bool {
        self.inner.is_drained()
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.inner.next_deadline()
    }

    fn on_deadline(&mut self, now: Nanos) -> io::Result<()> {
        self.inner.on_deadline(now)
    }

    fn stamps(&mut self) -> io::Result<&mut Stamps> {
        self.own_stamps().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    fn effective(&self) -> Effective {
        self.inner.effective()
    }

    fn info(&self) -> ConnInfo {
        self.inner.info()
    }
}
