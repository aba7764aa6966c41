//! The far end of one trial of a browser, without socket and clock: the far endpoint of the workload, as in every race, behind
//! the ticket of the trial. Every carrier hands it the messages that it receives, and sends the messages that it gives.
//!
//! The first message of the browser is its setup, a line of JSON: `{"ticket":"5e0f…"}`. The plan gave the ticket to this trial;
//! it allows the traffic, and the server knows the work of it. The answer is a line of JSON, too: `{"ready":true,"began_ns":NS}`
//! with the time on this host's clock at which the first message is due, or `{"refused":"why"}`. A setup that comes again (it may
//! be lost on the way, and so may its answer) has the same answer again. All later messages of the browser are messages of the
//! workload, with the tag 0 ([`deadheat_contract::workload::header`]); bulk data are bytes without a header.
//!
//! The end of a work is a line of JSON again, from the server: `{"sent":UPDATES}` after the last update, `{"sent":BYTES}` after
//! the last byte, `{"received":BYTES}` as the last byte of bulk data arrived.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Action, Guarantees, Lane, LaneSet, PeerFacts, Side};
use deadheat_contract::workload::{self, BulkPart, Endpoint, FlowEvent, Part};
use deadheat_datapath::transport::responder::Charged;
use deadheat_import::browser::BrowserWork;
use deadheat_records::samples::Samples;

/// Bytes of one message of bulk data: every data channel carries that (RFC 8831, section 6.6).
pub(crate) const CHUNK: usize = 16_384;

/// Bytes of the longest message that is taken from a browser.
pub(crate) const LONGEST: usize = 65_536;

/// Bytes of the longest setup.
pub(crate) const LONGEST_SETUP: usize = 1_000;

/// Answers to repeated setups that wait to be sent; setups beyond that are not answered.
const MOST_WAITING: usize = 64;

/// Work of a trial, and the seed of its random times.
pub(crate) type SeededWork = (BrowserWork, u64);

/// Account of a trial: what it does, what it may move, and what it has moved, over all of its connections.
pub(crate) trait TrialAccount: Send + Sync {
    /// Returns the work, whose numbers the plan has checked.
    fn work(&self) -> SeededWork;

    /// Charges bytes of messages, sent and received.
    fn charge(&self, now: Nanos, bytes: [u64; 2]) -> Charged;

    /// Returns the time at which the trial must be over.
    fn ends(&self) -> Nanos;
}

/// Tickets of trials, which the server of the page gives out.
pub(crate) trait Tickets: Send + Sync {
    /// Takes a connection with this ticket in.
    ///
    /// # Errors
    /// With a sentence for the page, if no trial that runs now has this ticket, or if it has had its connections.
    fn admit(&self, ticket: &str, now: Nanos) -> Result<Arc<dyn TrialAccount>, String>;
}

/// Setup of a trial, as a browser sends it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Setup {
    ticket: String,
}

/// Far end of one connection of a trial.
pub(crate) struct Work {
    tickets: Arc<dyn Tickets>,
    stage: Stage,
    /// Messages that leave as soon as the carrier takes them.
    answers: VecDeque<Vec<u8>>,
    /// Times from which more may be sent, and received.
    due: [Nanos; 2],
}

/// Stage of a connection.
enum Stage {
    /// Nothing was received yet.
    New,
    Admitted(Admitted),
    /// Refused; no message is taken any more.
    Over,
}

/// Connection whose ticket is good.
struct Admitted {
    setup: String,
    account: Arc<dyn TrialAccount>,
    began: Nanos,
    far: FarEndpoint,
}

impl Work {
    /// Creates the far end of a connection that was just accepted.
    pub(crate) fn new(tickets: Arc<dyn Tickets>) -> Work {
        Work { tickets, stage: Stage::New, answers: VecDeque::new(), due: [Nanos::ZERO; 2] }
    }

    /// Takes one whole message of the browser. A message that makes no sense ends the connection, and its reason is the last
    /// message that [`Work::next`] gives.
    pub(crate) fn received(&mut self, now: Nanos, message: &[u8]) {
        let outcome = match &mut self.stage {
            Stage::Over => Ok(()),
            Stage::New => self.admit(now, message),
            Stage::Admitted(own) => {
                own.take(now, message, &mut self.answers);
                Ok(())
            }
        };
        let outcome = outcome.and_then(|()| self.charge(now, [0, message.len()]));
        if let Err(why) = outcome {
            self.refuse(&why);
        }
    }

    /// Returns the next message for the browser, if one may leave now. The carrier asks only while it has room for one, so
    /// that bulk data waits in no queue.
    pub(crate) fn next(&mut self, now: Nanos) -> Option<Vec<u8>> {
        if matches!(self.stage, Stage::Over) {
            return self.answers.pop_front();
        }
        if self.due[0] > now {
            return None;
        }
        let message = match (self.answers.pop_front(), &mut self.stage) {
            (Some(answer), _) => answer,
            (None, Stage::Admitted(own)) => own.far.next(now)?,
            (None, _) => return None,
        };
        if let Err(why) = self.charge(now, [message.len(), 0]) {
            self.refuse(&why);
            return self.answers.pop_front();
        }
        Some(message)
    }

    /// Returns the time at which [`Work::next`] may have a message; a time in the past if it has one. `None` while it waits for
    /// the browser.
    pub(crate) fn due(&self) -> Option<Nanos> {
        let own = match &self.stage {
            _ if !self.answers.is_empty() => Some(Nanos::ZERO),
            Stage::Admitted(own) => own.far.due,
            Stage::New | Stage::Over => None,
        };
        own.map(|due| due.max(self.due[0]))
    }

    /// Returns the time from which the carrier may read more; a carrier over UDP, which cannot hold its peer back, need not
    /// look at it.
    pub(crate) fn reads_from(&self) -> Nanos {
        self.due[1]
    }

    /// Returns the time at which its trial must be over; `None` before its ticket was shown.
    pub(crate) fn ends(&self) -> Option<Nanos> {
        match &self.stage {
            Stage::Admitted(own) => Some(own.account.ends()),
            Stage::New | Stage::Over => None,
        }
    }

    /// Returns true once the connection was refused, or broke off.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Returns true once the connection was refused, or broke off, and its last message was taken: the carrier closes it. One
    /// that went well is closed by the browser.
    pub(crate) fn is_over(&self) -> bool {
        self.is_refused() && self.answers.is_empty()
    }

    fn admit(&mut self, now: Nanos, message: &[u8]) -> Result<(), String> {
        let setup = as_setup(message).ok_or("the first message is no setup")?;
        let asked: Setup = deadheat_base::json::read(setup.as_bytes())
            .map_err(|e| format!("the setup cannot be read: {e}"))?;
        let account = self.tickets.admit(&asked.ticket, now)?;
        let mut far = FarEndpoint::new(account.work())?;
        let began = far.begin(now);
        self.answers.push_back(ready(began));
        self.stage = Stage::Admitted(Admitted { setup: setup.to_owned(), account, began, far });
        Ok(())
    }

    /// Charges the bytes of a message to the account of the trial.
    fn charge(&mut self, now: Nanos, bytes: [usize; 2]) -> Result<(), String> {
        let Stage::Admitted(own) = &self.stage else { return Ok(()) };
        let charged = own.account.charge(now, bytes.map(|bytes| bytes as u64));
        self.due = charged.due;
        if !charged.is_within_sum {
            return Err("the most bytes of a trial have passed".to_owned());
        }
        if now > own.account.ends() {
            Err("the longest time of a trial is over".to_owned())
        } else {
            Ok(())
        }
    }

    fn refuse(&mut self, why: &str) {
        self.stage = Stage::Over;
        self.answers.clear();
        self.answers.push_back(json!({ "refused": why }).to_string().into_bytes());
    }
}

impl Admitted {
    fn take(&mut self, now: Nanos, message: &[u8], answers: &mut VecDeque<Vec<u8>>) {
        if as_setup(message).is_none_or(|again| again != self.setup) {
            self.far.take(now, message);
        } else if answers.len() < MOST_WAITING {
            answers.push_back(ready(self.began));
        }
    }
}

/// Far endpoint of a workload, whose messages a browser sends and receives.
struct FarEndpoint {
    endpoint: Box<dyn Endpoint>,
    /// Room for its longest message.
    room: Vec<u8>,
    /// Bytes of bulk data from the browser, if that sends any.
    all: u64,
    /// Time at which it is asked again; `None` for as soon as a message arrives.
    due: Option<Nanos>,
    has_ended: bool,
}

impl FarEndpoint {
    fn new((work, seed): SeededWork) -> Result<FarEndpoint, String> {
        let task = workload::parse(&spec(work)).map_err(|e| e.to_string())?;
        let recorder = Box::new(Samples::new(None, 0).map_err(|e| e.to_string())?);
        let endpoint = task.half(Part {
            side: Side::Far,
            flow: 0,
            tag: 0,
            seed,
            transit: Nanos::ZERO,
            guarantees: Guarantees::BYTE_STREAM,
            peer: PeerFacts::OURS,
            recorder,
            carried: LaneSet::ALL,
            store: None,
            exchange: None,
        });
        let info = task.info();
        let (room, all) = (vec![0; info.largest_message], info.most_bytes.unwrap_or(u64::MAX));
        Ok(FarEndpoint { endpoint, room, all, due: Some(Nanos::ZERO), has_ended: false })
    }

    /// Begins its schedule, and returns the time at which its first message is due; `now` without one.
    fn begin(&mut self, now: Nanos) -> Nanos {
        match self.endpoint.poll(now, &mut self.room) {
            Action::Wait(Some(due)) => due,
            _ => now,
        }
    }

    fn take(&mut self, now: Nanos, message: &[u8]) {
        if let BulkPart::Receives(sink) = self.endpoint.bulk() {
            sink.take(message);
            self.endpoint.on_event(now, FlowEvent::Drained);
        } else {
            self.endpoint.on_message(now, Lane(0), message);
        }
        self.due = (!self.has_ended).then_some(Nanos::ZERO);
    }

    fn next(&mut self, now: Nanos) -> Option<Vec<u8>> {
        if self.has_ended {
            return None;
        }
        let end = match self.endpoint.poll(now, &mut self.room) {
            Action::Send { len, .. } => {
                self.endpoint.on_sent(now);
                return Some(self.room[..len].to_vec());
            }
            Action::Pump => return self.chunk(),
            Action::Wait(due) => {
                self.due = due;
                return None;
            }
            Action::Drain => {
                self.due = None;
                let received = self.endpoint.standing(now).received.bytes;
                (received >= self.all).then(|| json!({ "received": received }))?
            }
            Action::Done | Action::Open | Action::Fail => {
                let sent = self.endpoint.standing(now).sent;
                let is_bulk = matches!(self.endpoint.bulk(), BulkPart::Sends(_));
                json!({ "sent": if is_bulk { sent.bytes } else { sent.messages } })
            }
        };
        (self.due, self.has_ended) = (None, true);
        Some(end.to_string().into_bytes())
    }

    /// Returns the next message of bulk data.
    fn chunk(&mut self) -> Option<Vec<u8>> {
        let BulkPart::Sends(source) = self.endpoint.bulk() else { return None };
        let len = source.budget().min(CHUNK as u64);
        source.accepted(len);
        Some(vec![0; len as usize])
    }
}

/// Returns the settings of the workload: the answers on a connection do not depend on how many there are, and a message of bulk
/// data has [`CHUNK`] bytes at most.
fn spec(work: BrowserWork) -> String {
    match work {
        BrowserWork::Connect { .. } => "connect".to_owned(),
        BrowserWork::Down { bytes } | BrowserWork::Up { bytes } => {
            format!("{},call={}B", work.text(), bytes.clamp(64, CHUNK as u64))
        }
        _ => work.text(),
    }
}

/// Returns the text of a setup, if the message may be one.
fn as_setup(message: &[u8]) -> Option<&str> {
    let is_setup = message.first() == Some(&b'{') && message.len() <= LONGEST_SETUP;
    is_setup.then(|| std::str::from_utf8(message).ok())?
}

/// Returns the answer to a good setup, with the time of the work's start on the clock of this host.
fn ready(began: Nanos) -> Vec<u8> {
    json!({ "ready": true, "began_ns": began.0 }).to_string().into_bytes()
}

#[cfg(test)]
mod tests;
