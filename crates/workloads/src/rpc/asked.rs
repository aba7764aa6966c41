//! Requests of the near endpoint, whatever answers them: sent when they are due, counted as they are answered, and given up
//! some time after the last.

use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Action, Lane};
use deadheat_contract::measurements::Tally;
use deadheat_contract::measurements::series::RoundTrips;

use super::Calls;
use super::answers::{Answer, figures, items};
use crate::paced::{DRAIN, Otherwise, Pacer, Plan, Slot, Turn};
use crate::silence::Silence;
use deadheat_contract::workload::load::Item;
use deadheat_contract::workload::{EndpointReport, Part, RecentTimes, Standing};

/// Requests of a flow.
pub(super) struct Asked {
    pacer: Pacer<Schedule>,
    answers: Vec<Answer>,
    answered: u64,
    /// Request of the last `poll`, until it is sent.
    polled: Option<u64>,
    /// Time at which it gives up on missing answers.
    gives_up_at: Option<Nanos>,
    is_settled: bool,
    silence: Silence,
    /// Response times since the last report.
    times: RoundTrips,
}

/// Request that is due.
pub(super) struct DueRequest {
    pub(super) number: u64,
    pub(super) lane: Lane,
    pub(super) len: usize,
    pub(super) due: Nanos,
}

impl Asked {
    /// Creates the requests of a plan, with the answer that each awaits.
    pub(super) fn new(plan: Plan<Schedule>, part: Part, answers: Vec<Answer>) -> Asked {
        Asked {
            pacer: Pacer::new(plan, part),
            answers,
            answered: 0,
            polled: None,
            gives_up_at: None,
            is_settled: false,
            silence: Silence::new(),
            times: RoundTrips::default(),
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.pacer.has_begun()
    }

    /// Returns the request that is due at `now` with its answer, which begins then; otherwise the action in its place. No
    /// answer is missing any more if `has_ended`.
    pub(super) fn poll(
        &mut self,
        now: Nanos,
        has_ended: bool,
    ) -> Result<(DueRequest, &mut Answer), Action> {
        self.polled = None;
        let (slot, due) = match self.pacer.turn(now) {
            Turn::At(at) => return Err(Action::Wait(Some(at))),
            Turn::Over => return Err(self.finish(now, has_ended)),
            Turn::Now(slot, due) => (slot, due),
        };
        let (number, lane) = slot.place.unwrap_or_default();
        let Some(answer) = self.answers.get_mut(number as usize) else { return Err(Action::Done) };
        self.polled = Some(number);
        Ok((DueRequest { number, lane, len: slot.len, due }, answer))
    }

    /// Waits for the missing answers, after all requests were sent.
    fn finish(&mut self, now: Nanos, has_ended: bool) -> Action {
        let at = *self.gives_up_at.get_or_insert(now + DRAIN);
        let is_answered = self.answered >= self.pacer.tally().messages;
        self.is_settled |= is_answered || has_ended || now >= at;
        if self.is_settled { Action::Done } else { Action::Wait(Some(at)) }
    }

    /// Notes that the request of the last `poll` was sent, in `len` bytes.
    pub(super) fn sent(&mut self, now: Nanos, len: usize) {
        if self.polled.take().is_some() {
            self.pacer.sent(now, len);
            self.silence.begin(now);
            self.silence.sent(now);
        }
    }

    pub(super) fn no_room(&mut self) {
        self.polled = None;
        self.pacer.no_room();
    }

    /// Returns the answer to a request; `None` if none with this number was sent.
    pub(super) fn answer(&mut self, number: u64) -> Option<&mut Answer> {
        let sent = self.pacer.tally().messages;
        self.answers.get_mut(number as usize).filter(|_| number < sent)
    }

    /// Notes an arrival, which completed an answer after the time `took`.
    pub(super) fn arrived(&mut self, now: Nanos, took: Option<Nanos>) {
        self.silence.arrived(now, took);
        if let Some(took) = took {
            self.answered += 1;
            self.times.add(took.0);
        }
    }

    /// Sends no more.
    pub(super) fn give_up(&mut self) {
        self.pacer.give_up();
    }

    /// Returns true once no answer is missing or awaited any more.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    pub(super) fn standing(&self, received: Tally) -> Standing {
        let sent = self.pacer.tally();
        Standing { awaited: sent.messages - self.answered, sent, received, ..Standing::default() }
    }

    pub(super) fn take_recent(&mut self) -> RecentTimes {
        RecentTimes { delays: std::mem::take(&mut self.times), ..RecentTimes::default() }
    }

    pub(super) fn items(&self) -> Vec<Item> {
        let left = (self.pacer.tally().messages as usize).min(self.answers.len());
        items(&self.answers[..left], Nanos::ZERO)
    }

    pub(super) fn report(&self, now: Nanos, received: Tally) -> EndpointReport {
        let mut report =
            EndpointReport { received, outages: self.silence.outages(now), ..self.pacer.report() };
        if self.is_settled {
            let figures = figures(&self.answers).into_iter().flatten();
            report.figures = figures.map(|(name, figure)| (name.to_owned(), figure)).collect();
        }
        report
    }
}

/// Slots of requests.
pub(super) type Schedule = Box<dyn Iterator<Item = Slot> + Send>;

/// Returns the requests as a plan: messages of `len` bytes, on `lanes` in turns.
pub(super) fn schedule(task: &Calls, lanes: u16, len: usize, seed: u64) -> Plan<Schedule> {
    let slots = (0..).zip(task.requests(seed)).map(move |(number, (due, _))| Slot {
        due,
        place: Some((number, Lane((number % u64::from(lanes)) as u16))),
        len,
        otherwise: Otherwise::Kept,
    });
    let period = task.period();
    Plan {
        slots: Box::new(slots),
        count: task.count,
        step: period.times(1),
        span: period.times(task.count),
        is_even: false,
    }
}
