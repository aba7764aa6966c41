//! Pings of one connection: each is on a stream of its own, and one work answers them in their order.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::json;

use crate::work::{Tickets, Work};
use deadheat_base::time::Nanos;

/// Answer to a ping, or the refusal of it.
type PingAnswer = Result<Vec<u8>, Vec<u8>>;

/// Pings of a connection.
#[derive(Default)]
pub(crate) struct StreamPings {
    /// Work of the trial, and its ticket.
    own: Option<(String, Work)>,
    /// Streams whose pings have no answer yet.
    asked: VecDeque<u32>,
    refusal: Option<Vec<u8>>,
}

impl StreamPings {
    /// Returns the ticket of the trial, if there was a ping.
    pub(crate) fn ticket(&self) -> Option<&str> {
        self.own.as_ref().map(|(ticket, _)| ticket.as_str())
    }

    /// Takes a ping on a stream.
    pub(crate) fn received(
        &mut self,
        now: Nanos,
        tickets: &Arc<dyn Tickets>,
        (stream, ticket): (u32, &str),
        body: &[u8],
    ) {
        self.asked.push_back(stream);
        if self.own.as_ref().is_none_or(|(own, _)| own != ticket) {
            let mut work = Work::new(Arc::clone(tickets));
            work.received(now, json!({ "ticket": ticket }).to_string().as_bytes());
            self.own = Some((ticket.to_owned(), work));
            self.refusal = None;
        }
        if let Some((_, work)) = &mut self.own {
            work.received(now, body);
        }
    }

    /// Returns the next stream with its answer, or with its refusal.
    pub(crate) fn next(&mut self, now: Nanos) -> Option<(u32, PingAnswer)> {
        while self.refusal.is_none() && !self.asked.is_empty() {
            let message = self.own.as_mut()?.1.next(now)?;
            if message.starts_with(b"{\"refused") {
                self.refusal = Some(message);
            } else if message.first() != Some(&b'{') {
                return Some((self.asked.pop_front()?, Ok(message)));
            }
        }
        let refusal = self.refusal.clone()?;
        Some((self.asked.pop_front()?, Err(refusal)))
    }

    /// Returns the time at which there is an answer.
    pub(crate) fn due(&self) -> Option<Nanos> {
        let (_, work) = self.own.as_ref().filter(|_| !self.asked.is_empty())?;
        work.due()
    }

    /// Returns the time from which more may be read.
    pub(crate) fn reads_from(&self) -> Nanos {
        self.own.as_ref().map_or(Nanos::ZERO, |(_, work)| work.reads_from())
    }

    /// Returns the time at which its trial must be over; `None` without one.
    pub(crate) fn ends(&self) -> Option<Nanos> {
        self.own.as_ref().and_then(|(_, work)| work.ends())
    }
}
