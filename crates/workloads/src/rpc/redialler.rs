//! The near endpoint if each request has a connection of its own: opens a connection when the request is due and the
//! earlier one has its response, sends the request, receives the response, and leaves the connection. With several flows
//! the requests go to them in turns, so that as many connections may be open at a time.
//!
//! ```text
//! due     | request 1                      | 2, while 1 is under way
//! near    ├─ set-up ─┼─ exchange ──────────┼─ set-up ─┼─ exchange ─┤
//!                                          |◄ waited
//! ```
//!
//! Time of a connection beside set-up and exchange, such as for a trial's token, is subtracted from the response times
//! of its own request and of the requests that waited for it.

use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Action, Delivery, Lane};
use deadheat_contract::measurements::Tally;
use deadheat_contract::measurements::series::RoundTrips;

use super::Calls;
use super::answers::{Answer, items};
use crate::paced::{DRAIN, DUE_LEN, Intake, fill, read_due, write_due};
use deadheat_contract::workload::header::Header;
use deadheat_contract::workload::load::Item;
use deadheat_contract::workload::{
    Endpoint, EndpointReport, FlowEvent, Part, RecentTimes, RequestTimes, Standing,
};

/// Progress with the current request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallPhase {
    /// Not due yet, or the connection is not being opened yet.
    Rests,
    /// The connection is being opened.
    Opens,
    /// The connection is open.
    Asks,
    /// The request was sent.
    Awaits,
}

pub(super) struct Redialler {
    tag: u32,
    request: usize,
    intake: Intake,
    start: Option<Nanos>,
    /// End of the schedule of all flows, after the start.
    span: Nanos,
    answers: Vec<Answer>,
    /// Index of the current request, or of the next.
    at: usize,
    phase: CallPhase,
    /// Set-up time of the connection, and the time at which it was open.
    set_up: Nanos,
    opened: Nanos,
    /// Time at which the earlier request would have been done with set-up and exchange alone.
    free: Nanos,
    /// Requests that were due before the earlier one was done.
    waited: u64,
    /// Bytes of responses that arrived before the end of the schedule.
    carried: u64,
    sent: Tally,
    /// Response times since the last report.
    times: RoundTrips,
}

impl Redialler {
    pub(super) fn new(task: &Calls, part: &Part) -> Redialler {
        let own = task.requests(part.seed).skip(part.flow.into()).step_by(task.at_once.into());
        Redialler {
            tag: part.tag,
            request: task.request,
            intake: Intake::new(part.tag, part.transit, Delivery::Reliable),
            start: None,
            span: task.period().times(task.count),
            answers: own.map(|(due, size)| Answer::of(due, size)).collect(),
            at: 0,
            phase: CallPhase::Rests,
            set_up: Nanos::ZERO,
            opened: Nanos::ZERO,
            free: Nanos::ZERO,
            waited: 0,
            carried: 0,
            sent: Tally::default(),
            times: RoundTrips::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.at >= self.answers.len()
    }

    /// Leaves the current request, answered or not, and moves on to the next.
    fn go_on(&mut self) {
        self.at += 1;
        self.phase = CallPhase::Rests;
    }

    /// Returns the time at which all requests without a response are given up.
    fn end(&self) -> Nanos {
        self.start.unwrap_or_default() + self.span + DRAIN
    }

    /// Returns the time to report for an arrival at `now`: set-up and exchange, added to the later of the request's due
    /// time and the end of the earlier request.
    fn reported_time(&self, now: Nanos, due: Nanos) -> Nanos {
        due.max(self.free) + self.set_up + (now - self.opened)
    }
}

impl Endpoint for Redialler {
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        let start = match self.start {
            Some(start) => start,
            None => {
                fill(out);
                *self.start.insert(now)
            }
        };
        if now >= self.end() {
            self.at = self.answers.len();
        }
        let Some(answer) = self.answers.get(self.at) else { return Action::Done };
        match self.phase {
            CallPhase::Rests if now < start + answer.due => Action::Wait(Some(start + answer.due)),
            CallPhase::Rests => {
                self.waited += u64::from(self.free > answer.due);
                self.phase = CallPhase::Opens;
                Action::Open
            }
            CallPhase::Opens => Action::Wait(None),
            CallPhase::Asks => {
                Header { tag: self.tag, seq: self.at as u64 }.write(out);
                write_due(&mut out[..self.request], Nanos(answer.size));
                Action::Send { lane: Lane(0), len: self.request }
            }
            CallPhase::Awaits => Action::Wait(Some(self.end())),
        }
    }

    fn on_sent(&mut self, _now: Nanos) {
        if self.phase == CallPhase::Asks {
            self.phase = CallPhase::Awaits;
            self.sent.messages += 1;
            self.sent.bytes += self.request as u64;
        }
    }

    fn on_message(&mut self, now: Nanos, _lane: Lane, bytes: &[u8]) {
        if self.intake.take(now, bytes).is_none() {
            return;
        }
        let number = read_due(bytes).map_or(u64::MAX, |number| number.0);
        let part = bytes.len().saturating_sub(DUE_LEN) as u64;
        let is_awaited = self.phase == CallPhase::Awaits && number == self.at as u64;
        let due = self.answers.get(self.at).map_or(Nanos::ZERO, |answer| answer.due);
        let reported = self.reported_time(now, due);
        let answer = self.answers.get_mut(self.at).filter(|_| is_awaited);
        let Some(is_whole) = answer.and_then(|answer| answer.take(reported, part)) else {
            self.intake.damaged();
            return;
        };
        if now < self.start.unwrap_or_default() + self.span {
            self.carried += part;
        }
        if is_whole {
            self.free = reported;
            self.times.add((reported - due).0);
            self.go_on();
        }
    }

    fn on_event(&mut self, now: Nanos, event: FlowEvent) {
        match event {
            FlowEvent::Opened { set_up } => {
                (self.opened, self.set_up, self.phase) = (now, set_up, CallPhase::Asks)
            }
            // Goes on with the next request if the peer has left this one without a complete response.
            FlowEvent::Closed => {
                if matches!(self.phase, CallPhase::Asks | CallPhase::Awaits) {
                    self.free = now - self.start.unwrap_or_default();
                    self.go_on();
                }
            }
            FlowEvent::Drained | FlowEvent::PeerFinished { .. } => {}
        }
    }

    fn has_sent_all(&self) -> bool {
        self.is_over()
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        let awaited = u64::from(self.phase == CallPhase::Awaits);
        let received = *self.intake.received();
        Standing { sent: self.sent, received, awaited, ..Standing::default() }
    }

    fn take_recent(&mut self) -> RecentTimes {
        RecentTimes { delays: std::mem::take(&mut self.times), ..RecentTimes::default() }
    }

    fn items(&self) -> Vec<Item> {
        items(&self.answers[..self.at.min(self.answers.len())], self.start.unwrap_or_default())
    }

    fn report(&mut self, now: Nanos) -> EndpointReport {
        let mut times = RequestTimes {
            waited: self.waited,
            carried_bytes: self.carried,
            ..RequestTimes::default()
        };
        let end = now - self.start.unwrap_or(now);
        self.answers.iter().for_each(|answer| answer.add_to(&mut times, end));
        EndpointReport {
            sent: self.sent,
            received: *self.intake.received(),
            requests: self.is_over().then(|| Box::new(times)),
            ..EndpointReport::default()
        }
    }
}
