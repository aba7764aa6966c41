//! Rate at which packets leave: the server behind the queue, in logical time. Nothing is rounded on the way: the
//! remainder of a nanosecond is carried to the next packet.

use std::sync::Arc;

use crate::network::Rate;
use crate::trace::{Content, Step, Trace};
use deadheat_base::time::Nanos;

/// Unit of work: bits times the nanoseconds of a second, so that `rate * nanoseconds` is an amount of work.
const PER_BIT: u64 = 1_000_000_000;

/// Server that serves packets one after another.
#[derive(Debug)]
pub(super) enum Server {
    /// Server at one rate.
    Fixed(RateServer),
    /// Server at the rates of a trace.
    Steps(RateServer, Steps),
    /// Server at the opportunities of a trace.
    Opportunities(Opportunities),
}

impl Server {
    /// Creates the server; `None` if there is no rate limit.
    pub(super) fn new(rate: &Rate) -> Option<Server> {
        match rate {
            Rate::Unlimited => None,
            Rate::Fixed(rate) => Some(Server::Fixed(RateServer::new(rate.0))),
            Rate::Trace(trace) => Some(match &trace.content {
                Content::Steps(_) => Server::Steps(RateServer::new(0), Steps::new(trace)),
                Content::Opportunities { .. } => {
                    Server::Opportunities(Opportunities::new(Arc::clone(trace)))
                }
            }),
        }
    }

    /// Returns the first moment from `since` on at which a packet can begin to leave, if it is the next.
    pub(super) fn ready(&mut self, since: u64) -> u64 {
        match self {
            Server::Fixed(line) | Server::Steps(line, _) => since.max(line.free()),
            Server::Opportunities(opportunities) => opportunities.ready(since),
        }
    }

    /// Serves a packet from `start`, which [`Server::ready`] returned, and returns the time at which its last bit
    /// has left, rounded up to a nanosecond.
    pub(super) fn serve(&mut self, start: u64, bytes: u64) -> u64 {
        match self {
            Server::Fixed(line) => line.serve(start, bytes),
            Server::Steps(line, steps) => line.serve_in_steps(start, bytes, steps),
            Server::Opportunities(opportunities) => opportunities.serve(bytes),
        }
    }

    /// Returns the bytes that leave in this time from `now` on: at the current rate, or in the next opportunities.
    pub(super) fn bytes_in(&mut self, now: u64, span: Nanos) -> u64 {
        let rate = match self {
            Server::Fixed(line) => line.rate,
            Server::Steps(_, steps) => steps.at(Nanos(now)).map_or(0, |step| step.rate.0),
            Server::Opportunities(opportunities) => return opportunities.bytes_in(now, span.0),
        };
        let work = u128::from(rate) * u128::from(span.0);
        u64::try_from(work / u128::from(PER_BIT * 8)).unwrap_or(u64::MAX)
    }
}

/// End of the last service, exactly: `ns + rest / rate` nanoseconds.
#[derive(Debug)]
pub(super) struct RateServer {
    rate: u64,
    ns: u64,
    rest: u64,
}

impl RateServer {
    fn new(rate: u64) -> RateServer {
        RateServer { rate, ns: 0, rest: 0 }
    }

    fn free(&self) -> u64 {
        self.ns.saturating_add(u64::from(self.rest > 0))
    }

    /// Begins a packet; if it begins at the end of the last one, it continues from there exactly.
    fn begin(&mut self, start: u64) {
        if start > self.free() {
            (self.ns, self.rest) = (start, 0);
        }
    }

    fn never(&mut self) -> u64 {
        (self.ns, self.rest) = (u64::MAX, 0);
        u64::MAX
    }

    fn serve(&mut self, start: u64, bytes: u64) -> u64 {
        self.begin(start);
        if self.rate == 0 {
            return self.never();
        }
        let whole = match bytes.checked_mul(8 * PER_BIT).and_then(|w| w.checked_add(self.rest)) {
            Some(work) => {
                self.rest = work % self.rate;
                work / self.rate
            }
            None => {
                let work = work(bytes) + u128::from(self.rest);
                self.rest = (work % u128::from(self.rate)) as u64;
                u64::try_from(work / u128::from(self.rate)).unwrap_or(u64::MAX)
            }
        };
        self.ns = self.ns.saturating_add(whole);
        self.free()
    }

    /// Serves a packet at a rate that may change meanwhile; while it is 0 the packet waits.
    fn serve_in_steps(&mut self, start: u64, bytes: u64, steps: &mut Steps) -> u64 {
        self.begin(start);
        let mut work = work(bytes) + u128::from(self.rest);
        if work > steps.per_round {
            if steps.per_round == 0 {
                return self.never();
            }
            // A whole round does the same work wherever it begins.
            let rounds = (work - 1) / steps.per_round;
            work -= rounds * steps.per_round;
            let Ok(span) = u64::try_from(rounds * u128::from(steps.length)) else {
                return self.never();
            };
            self.ns = self.ns.saturating_add(span);
        }
        while self.ns < u64::MAX {
            let rate = steps.at(Nanos(self.ns)).map_or(0, |step| step.rate.0);
            let room = u128::from(rate) * u128::from(steps.until - self.ns);
            if work <= room {
                self.rate = rate;
                self.ns += (work / u128::from(rate.max(1))) as u64;
                self.rest = (work % u128::from(rate.max(1))) as u64;
                return self.free();
            }
            work -= room;
            self.ns = steps.until;
        }
        self.never()
    }
}

fn work(bytes: u64) -> u128 {
    u128::from(bytes) * u128::from(8 * PER_BIT)
}

/// Position in the steps of a trace, which repeat.
#[derive(Debug)]
pub(super) struct Steps {
    trace: Arc<Trace>,
    length: u64,
    /// Work that one round does.
    per_round: u128,
    /// Step of the last call, with its start and its end.
    index: usize,
    from: u64,
    until: u64,
}

impl Steps {
    pub(super) fn new(trace: &Arc<Trace>) -> Steps {
        let length = trace.length.0.max(1);
        let mut steps =
            Steps { trace: Arc::clone(trace), length, per_round: 0, index: 0, from: 0, until: 0 };
        let mut at = 0;
        while at < length {
            let rate = steps.at(Nanos(at)).map_or(0, |step| step.rate.0);
            steps.per_round += u128::from(rate) * u128::from(steps.until - at);
            at = steps.until;
        }
        steps
    }

    fn list(&self) -> &[Step] {
        match &self.trace.content {
            Content::Steps(steps) => steps,
            Content::Opportunities { .. } => &[],
        }
    }

    /// Returns the step of the trace at this time.
    pub(super) fn at(&mut self, now: Nanos) -> Option<&Step> {
        if !(self.from..self.until).contains(&now.0) {
            let (round, phase) = (now.0 / self.length, now.0 % self.length);
            let list = self.list();
            let index = list.partition_point(|step| step.from.0 <= phase).saturating_sub(1);
            let end = list.get(index + 1).map_or(self.length, |next| next.from.0.min(self.length));
            let start = round * self.length;
            self.index = index;
            self.from = now.0;
            self.until = start.saturating_add(end.max(phase + 1));
        }
        self.list().get(self.index)
    }
}

/// Opportunities of a trace, which repeat. An opportunity that no packet uses is lost; if it is larger than the
/// packet, it serves the next packet too, if that is waiting; a packet that is larger takes several.
#[derive(Debug)]
pub(super) struct Opportunities {
    trace: Arc<Trace>,
    length: u64,
    /// Number of the next opportunity to begin, counted through all rounds.
    next: u64,
    /// Time of the opportunity in use, and the bytes left of it.
    now: u64,
    left: u64,
}

impl Opportunities {
    fn new(trace: Arc<Trace>) -> Opportunities {
        let length = trace.length.0.max(1);
        Opportunities { trace, length, next: 0, now: 0, left: 0 }
    }

    fn list(&self) -> (u64, &[Nanos]) {
        match &self.trace.content {
            Content::Opportunities { bytes, at } => (u64::from(*bytes), at),
            Content::Steps(_) => (0, &[]),
        }
    }

    /// Returns the time of the opportunity with this number.
    fn time(&self, number: u64) -> u64 {
        let (_, at) = self.list();
        let (round, place) = (number / at.len() as u64, number % at.len() as u64);
        round.saturating_mul(self.length).saturating_add(at[place as usize].0)
    }

    /// Returns the number of the first opportunity from `since` on.
    fn first_from(&self, since: u64) -> u64 {
        let (_, at) = self.list();
        let (round, phase) = (since / self.length, since % self.length);
        let place = at.partition_point(|time| time.0 < phase) as u64;
        let mut number = round * at.len() as u64 + place;
        // The last ones of a round may be at its very end, which is the start of the next round.
        while number > 0 && self.time(number - 1) >= since {
            number -= 1;
        }
        number
    }

    fn useless(&self) -> bool {
        let (bytes, at) = self.list();
        bytes == 0 || at.is_empty()
    }

    fn ready(&mut self, since: u64) -> u64 {
        if self.useless() || since == u64::MAX {
            return u64::MAX;
        }
        if self.left == 0 || self.now < since {
            let number = self.next.max(self.first_from(since));
            self.now = self.time(number);
            self.left = self.list().0;
            self.next = number + 1;
        }
        self.now
    }

    fn serve(&mut self, bytes: u64) -> u64 {
        if self.useless() {
            return u64::MAX;
        }
        if let Some(lacking) = bytes.checked_sub(self.left).filter(|lacking| *lacking > 0) {
            let each = self.list().0;
            let more = lacking.div_ceil(each);
            self.now = self.time(self.next.saturating_add(more - 1));
            self.next = self.next.saturating_add(more);
            self.left = more * each - lacking;
        } else {
            self.left -= bytes;
        }
        self.now
    }

    fn bytes_in(&self, now: u64, span: u64) -> u64 {
        if self.useless() {
            return 0;
        }
        let count = self.first_from(now.saturating_add(span)) - self.first_from(now);
        count.saturating_mul(self.list().0)
    }
}
