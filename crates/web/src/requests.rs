//! Requests of works, as a page makes them with fetch, and their answers, without a connection: a request for each ping, one
//! answer in pieces for what the server sends, one body for what the page sends. All requests of a trial carry its ticket.

use std::sync::Arc;

use serde_json::json;

use crate::work::{LONGEST, LONGEST_SETUP, Tickets, Work};
use deadheat_base::time::Nanos;

/// Field with the number of the request on its connection, and the time that the connection waited before in microseconds:
/// the page knows from it whether a connection is new.
pub(crate) const CONNECTION: &str = "deadheat-connection";

/// Request of a work, as far as it has arrived.
pub(crate) enum WorkRequest {
    /// A ping of the trial with this ticket.
    Ping(String, Vec<u8>),
    /// A setup, whose work sends.
    Setup(Vec<u8>),
    /// Bulk data, of which so many bytes are left.
    Up(Work, u64),
    /// The page has ended its trial.
    End,
    /// Refused with a status and a reason in JSON; its body is dropped.
    Refused(u16, Vec<u8>),
}

/// Request that is whole.
pub(crate) enum WholeRequest {
    Ping(String, Vec<u8>),
    Answered(Reply),
}

/// Answer to a request.
pub(crate) struct Reply {
    pub status: u16,
    bytes: Vec<u8>,
    /// Work whose messages follow.
    work: Option<Work>,
    framing: Framing,
    /// True if the connection ends with it, so that none is left over for the next trial.
    pub is_last: bool,
}

/// Form of a work's messages in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// All, each behind its length in four bytes.
    Lengths,
    /// The first as it is.
    One,
}

impl WorkRequest {
    /// Begins a request by POST of a path with its query, and with a body of this length, if that is known.
    pub(crate) fn new(
        now: Nanos,
        (path, query): (&str, &str),
        length: Option<u64>,
        tickets: &Arc<dyn Tickets>,
    ) -> WorkRequest {
        let ticket = query.strip_prefix("ticket=").unwrap_or_default();
        match path {
            "/fetch/ping" => WorkRequest::Ping(ticket.to_owned(), Vec::new()),
            "/fetch/stream" => WorkRequest::Setup(Vec::new()),
            "/fetch/end" => WorkRequest::End,
            "/fetch/up" => match length {
                Some(length) => up(now, ticket, length, tickets),
                None => WorkRequest::refused(411, "a body has a length here"),
            },
            _ => WorkRequest::refused(404, "there is no such work"),
        }
    }

    /// Refuses a request, with the reason.
    pub(crate) fn refused(status: u16, why: &str) -> WorkRequest {
        WorkRequest::Refused(status, json!({ "refused": why }).to_string().into_bytes())
    }

    /// Takes bytes of the body.
    pub(crate) fn take(&mut self, now: Nanos, bytes: &[u8]) {
        let (body, most) = match self {
            WorkRequest::Ping(_, body) => (body, LONGEST),
            WorkRequest::Setup(body) => (body, LONGEST_SETUP),
            WorkRequest::Up(work, left) => {
                match left.checked_sub(bytes.len() as u64) {
                    None => *self = WorkRequest::refused(400, "the body is longer than it says"),
                    Some(less) => {
                        *left = less;
                        work.received(now, bytes);
                    }
                }
                return;
            }
            WorkRequest::End | WorkRequest::Refused(..) => return,
        };
        body.extend_from_slice(bytes);
        if body.len() > most {
            *self = WorkRequest::refused(413, "the body is too long");
        }
    }

    /// Returns the number of bytes that wait for the rest of the request.
    pub(crate) fn held(&self) -> usize {
        match self {
            WorkRequest::Ping(_, body) | WorkRequest::Setup(body) => body.len(),
            _ => 0,
        }
    }

    /// Returns true if the rest of it makes no difference.
    pub(crate) fn is_settled(&self) -> bool {
        match self {
            WorkRequest::Up(work, _) => work.is_refused(),
            WorkRequest::Refused(..) => true,
            _ => false,
        }
    }

    /// Returns the time from which more of it may be read.
    pub(crate) fn reads_from(&self) -> Nanos {
        match self {
            WorkRequest::Up(work, _) => work.reads_from(),
            _ => Nanos::ZERO,
        }
    }

    /// Returns the time at which its trial must be over; `None` if that is not known yet.
    pub(crate) fn ends(&self) -> Option<Nanos> {
        match self {
            WorkRequest::Up(work, _) => work.ends(),
            _ => None,
        }
    }

    /// Takes the whole request.
    pub(crate) fn whole(self, now: Nanos, tickets: &Arc<dyn Tickets>) -> WholeRequest {
        WholeRequest::Answered(match self {
            WorkRequest::Ping(ticket, body) => return WholeRequest::Ping(ticket, body),
            WorkRequest::Setup(setup) => {
                let mut work = Work::new(Arc::clone(tickets));
                work.received(now, &setup);
                Reply::of(work, now, Framing::Lengths)
            }
            WorkRequest::Up(work, 1..) if !work.is_refused() => {
                return WorkRequest::refused(400, "the body is shorter than it says")
                    .whole(now, tickets);
            }
            WorkRequest::Up(work, _) => Reply::of(work, now, Framing::One),
            WorkRequest::End => Reply { is_last: true, ..Reply::bytes(Vec::new()) },
            WorkRequest::Refused(status, why) => Reply::refusal(status, why),
        })
    }
}

impl Reply {
    /// Returns an answer with these bytes.
    pub(crate) fn bytes(bytes: Vec<u8>) -> Reply {
        Reply { status: 200, bytes, work: None, framing: Framing::One, is_last: false }
    }

    /// Returns a refusal with its reason, a line of JSON.
    pub(crate) fn refusal(status: u16, why: Vec<u8>) -> Reply {
        Reply { status, ..Reply::bytes(why) }
    }

    /// Returns an answer with the messages of a work, or with its refusal.
    fn of(mut work: Work, now: Nanos, framing: Framing) -> Reply {
        match work.next(now) {
            Some(refused) if work.is_over() => Reply::refusal(403, refused),
            first => {
                let work = Some(work);
                let mut reply = Reply { work, framing, is_last: true, ..Reply::bytes(Vec::new()) };
                first.iter().for_each(|message| reply.add(message));
                reply
            }
        }
    }

    fn add(&mut self, message: &[u8]) {
        match self.framing {
            Framing::Lengths => self.bytes.extend_from_slice(&(message.len() as u32).to_be_bytes()),
            Framing::One => self.work = None,
        }
        self.bytes.extend_from_slice(message);
    }

    /// Returns the next bytes, as many as there is room for, and true with the last.
    pub(crate) fn next(&mut self, now: Nanos, room: usize) -> (Vec<u8>, bool) {
        while self.bytes.len() < room
            && let Some(message) = self.work.as_mut().and_then(|work| work.next(now))
        {
            self.add(&message);
        }
        let piece = self.bytes.drain(..room.min(self.bytes.len())).collect();
        let goes_on = self.work.as_ref().is_some_and(|work| work.due().is_some());
        (piece, self.bytes.is_empty() && !goes_on)
    }

    /// Returns the time at which there is more of it.
    pub(crate) fn due(&self) -> Option<Nanos> {
        if self.bytes.is_empty() {
            self.work.as_ref().and_then(Work::due)
        } else {
            Some(Nanos::ZERO)
        }
    }

    /// Returns the time at which its trial must be over; `None` if it is of none.
    pub(crate) fn ends(&self) -> Option<Nanos> {
        self.work.as_ref().and_then(Work::ends)
    }
}

/// Begins to take bulk data.
fn up(now: Nanos, ticket: &str, length: u64, tickets: &Arc<dyn Tickets>) -> WorkRequest {
    let mut work = Work::new(Arc::clone(tickets));
    work.received(now, json!({ "ticket": ticket }).to_string().as_bytes());
    match work.next(now) {
        Some(refused) if work.is_over() => WorkRequest::Refused(403, refused),
        _ => WorkRequest::Up(work, length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::testing::AnyTickets;

    const NOW: Nanos = Nanos::from_secs(1);

    #[test]
    fn a_body_of_bulk_data_is_taken_to_its_end_and_a_shorter_one_is_refused() {
        let tickets: Arc<dyn Tickets> = Arc::new(AnyTickets::default());
        let answer = |pieces: usize| {
            let target = ("/fetch/up", "ticket=up:3000");
            let mut own = WorkRequest::new(NOW, target, Some(3_000), &tickets);
            for _ in 0..pieces {
                assert!(!own.is_settled());
                own.take(NOW, &[7; 1_000]);
            }
            let WholeRequest::Answered(mut reply) = own.whole(NOW, &tickets) else { panic!() };
            (reply.status, reply.next(NOW, 1_000))
        };
        assert_eq!(answer(3), (200, (b"{\"received\":3000}".to_vec(), true)));
        let (status, (why, _)) = answer(2);
        assert!(status == 400 && String::from_utf8(why).unwrap().contains("shorter"));
    }
}
