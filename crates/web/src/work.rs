//! The far end of one trial of a browser, without socket and clock: every carrier hands it the messages that it receives, and
//! sends the messages that it gives.
//!
//! The first message of the browser is its setup, a line of JSON that begins with `{`, such as
//! `{"ticket":"5e0f…","work":{"state":{"hz":60,"size":200,"count":120}}}` or `{"ticket":"5e0f…","work":"ping"}`. The plan gave
//! the ticket to this trial, and it allows the traffic. The answer is a line of JSON, too: `{"ready":true,"began_ns":NS}`, or
//! `{"refused":"why"}`. A setup that comes again (it may be lost on the way, and so may its answer) has the same answer again.
//! All later messages are binary:
//!
//! ```text
//! browser to server   ping       0x01, number (u32), anything; comes back as it is
//!                     bulk up    0x03, bytes
//! server to browser   update     0x02, number (u32), time at which it was due after the start of the work in ns (u64), zeros
//!                     bulk down  0x03, bytes
//! ```
//!
//! Numbers are big-endian. The end of a work is a line of JSON again, from the server: `{"sent":UPDATES}` after the last
//! update, `{"sent":BYTES}` after the last byte, `{"received":BYTES,"span_ns":NS}` as the last byte of bulk data arrived.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use deadheat_base::rng::SplitMix64;
use deadheat_base::time::Nanos;
use deadheat_datapath::transport::responder::Charged;

/// First byte of a ping, of an update, and of bulk data.
pub(crate) const PING: u8 = 1;
pub(crate) const UPDATE: u8 = 2;
pub(crate) const BULK: u8 = 3;

/// Bytes of one message of bulk data, with its first byte: every data channel carries that (RFC 8831, section 6.6).
pub(crate) const CHUNK: usize = 16_384;

/// Bytes of the longest message that is taken from a browser.
pub(crate) const LONGEST: usize = 65_536;

/// Bytes of the longest setup; it fits into one datagram of every path.
const LONGEST_SETUP: usize = 1_000;

/// Bytes of an update before its zeros.
const UPDATE_HEAD: usize = 13;

/// Bounds of an update in bytes (a datagram of every path), of updates per second, and of updates.
const UPDATE_LEN: (usize, usize) = (UPDATE_HEAD, 1_100);
const UPDATES_PER_SECOND: (u32, u32) = (1, 1_000);
const MOST_UPDATES: u32 = 100_000;

/// Largest number of bytes of bulk data; the account of the trial may allow less.
const MOST_BYTES: u64 = 1 << 40;

/// Answers that wait to be sent; pings beyond that are not answered.
const MOST_WAITING: usize = 4_096;

/// Account of a trial: what it may move, and what it has moved, over all of its connections.
pub(crate) trait TrialAccount: Send + Sync {
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
    work: AskedWork,
}

/// Work that a browser asks for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum AskedWork {
    /// Nothing but the answer to the setup.
    Connect,
    /// Messages come back.
    Ping,
    /// Updates from the server, equally far apart.
    State { hz: u32, size: usize, count: u32 },
    /// Messages from the server at random times (a Poisson process), from a seed.
    Events { hz: u32, size: usize, count: u32, seed: u32 },
    /// Bulk data to the browser.
    Down { bytes: u64 },
    /// Bulk data from the browser.
    Up { bytes: u64 },
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
    task: BrowserTask,
}

/// Progress of the work.
enum BrowserTask {
    Connect,
    Ping,
    Updates(Updates),
    Down {
        left: u64,
        all: u64,
    },
    Up {
        received: u64,
        all: u64,
        first: Option<Nanos>,
    },
    /// All was sent; late messages and repeated setups are still answered.
    Done,
}

/// Updates that are sent at their times.
struct Updates {
    next: u32,
    count: u32,
    size: usize,
    /// Time of the next one after the start.
    due: Nanos,
    /// Mean gap in nanoseconds.
    gap: f64,
    /// Draws for random times; `None` for equal gaps.
    draws: Option<SplitMix64>,
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
            Stage::Admitted(own) => own.take(now, message, &mut self.answers),
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
            (None, Stage::Admitted(own)) => own.next(now)?,
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
            Stage::Admitted(own) => own.due(),
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

    /// Returns true once the connection was refused, or broke off, and its last message was taken: the carrier closes it. One
    /// that went well is closed by the browser.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over) && self.answers.is_empty()
    }

    fn admit(&mut self, now: Nanos, message: &[u8]) -> Result<(), String> {
        let setup = as_setup(message).ok_or("the first message is no setup")?;
        let asked: Setup = deadheat_base::json::read(setup.as_bytes())
            .map_err(|e| format!("the setup cannot be read: {e}"))?;
        let task = asked.work.task()?;
        let account = self.tickets.admit(&asked.ticket, now)?;
        self.answers.push_back(ready(now));
        let setup = setup.to_owned();
        self.stage = Stage::Admitted(Admitted { setup, account, began: now, task });
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
    fn take(
        &mut self,
        now: Nanos,
        message: &[u8],
        answers: &mut VecDeque<Vec<u8>>,
    ) -> Result<(), String> {
        if as_setup(message).is_some_and(|again| again == self.setup) {
            if answers.len() < MOST_WAITING {
                answers.push_back(ready(self.began));
            }
            return Ok(());
        }
        match (&mut self.task, message.first()) {
            (BrowserTask::Ping, Some(&PING)) if message.len() <= LONGEST => {
                if answers.len() < MOST_WAITING {
                    answers.push_back(message.to_vec());
                }
                Ok(())
            }
            (BrowserTask::Up { received, all, first }, Some(&BULK)) => {
                let first = *first.get_or_insert(now);
                *received += message.len() as u64;
                if *received >= *all {
                    let end = json!({ "received": *received, "span_ns": (now - first).0 });
                    answers.push_back(end.to_string().into_bytes());
                    self.task = BrowserTask::Done;
                }
                Ok(())
            }
            (BrowserTask::Done, _) => Ok(()),
            _ => Err("a message does not belong to the work of this trial".to_owned()),
        }
    }

    fn next(&mut self, now: Nanos) -> Option<Vec<u8>> {
        let end = match &mut self.task {
            BrowserTask::Updates(updates) if updates.next == updates.count => {
                json!({ "sent": updates.count })
            }
            BrowserTask::Updates(updates) => return updates.next(now - self.began),
            BrowserTask::Down { left: 0, all } => json!({ "sent": *all }),
            BrowserTask::Down { left, .. } => {
                let len = (*left).min(CHUNK as u64);
                *left -= len;
                let mut chunk = vec![0; len as usize];
                chunk[0] = BULK;
                return Some(chunk);
            }
            BrowserTask::Connect
            | BrowserTask::Ping
            | BrowserTask::Up { .. }
            | BrowserTask::Done => return None,
        };
        self.task = BrowserTask::Done;
        Some(end.to_string().into_bytes())
    }

    fn due(&self) -> Option<Nanos> {
        match &self.task {
            BrowserTask::Updates(updates) if updates.next == updates.count => Some(Nanos::ZERO),
            BrowserTask::Updates(updates) => Some(self.began + updates.due),
            BrowserTask::Down { .. } => Some(Nanos::ZERO),
            _ => None,
        }
    }
}

impl Updates {
    fn new(hz: u32, size: usize, count: u32, seed: Option<u64>) -> Result<Updates, String> {
        within("hz", hz, UPDATES_PER_SECOND)?;
        within("size", size, UPDATE_LEN)?;
        within("count", count, (1, MOST_UPDATES))?;
        let draws = seed.map(SplitMix64::new);
        Ok(Updates { next: 0, count, size, due: Nanos::ZERO, gap: 1e9 / f64::from(hz), draws })
    }

    /// Returns the next update, if it is due at a time after the start.
    fn next(&mut self, now: Nanos) -> Option<Vec<u8>> {
        if now < self.due {
            return None;
        }
        let mut update = vec![0; self.size];
        update[0] = UPDATE;
        update[1..5].copy_from_slice(&self.next.to_be_bytes());
        update[5..UPDATE_HEAD].copy_from_slice(&self.due.0.to_be_bytes());
        self.next += 1;
        self.due = match &mut self.draws {
            None => Nanos((f64::from(self.next) * self.gap) as u64),
            // Gaps of a Poisson process, of at most ten times the mean.
            Some(draws) => {
                let drawn = -(1.0 - draws.unit()).ln();
                self.due + Nanos((drawn.min(10.0) * self.gap) as u64)
            }
        };
        Some(update)
    }
}

impl AskedWork {
    fn task(&self) -> Result<BrowserTask, String> {
        Ok(match *self {
            AskedWork::Connect => BrowserTask::Connect,
            AskedWork::Ping => BrowserTask::Ping,
            AskedWork::State { hz, size, count } => {
                BrowserTask::Updates(Updates::new(hz, size, count, None)?)
            }
            AskedWork::Events { hz, size, count, seed } => {
                BrowserTask::Updates(Updates::new(hz, size, count, Some(u64::from(seed)))?)
            }
            AskedWork::Down { bytes } => {
                within("bytes", bytes, (1, MOST_BYTES))?;
                BrowserTask::Down { left: bytes, all: bytes }
            }
            AskedWork::Up { bytes } => {
                within("bytes", bytes, (1, MOST_BYTES))?;
                BrowserTask::Up { received: 0, all: bytes, first: None }
            }
        })
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

/// Refuses a number outside its bounds.
fn within<T: PartialOrd + std::fmt::Display>(
    name: &str,
    value: T,
    (least, most): (T, T),
) -> Result<(), String> {
    if value < least || value > most {
        return Err(format!("{name} is {value}, and may be {least} to {most}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
