//! Requests of works on streams of HTTP/2, and their answers, as `exchange.rs` has them over HTTP/1.1.

use std::sync::Arc;

use deadheat_far_ends::hpack::{self, HeaderField};
use serde_json::json;

use crate::http::CONNECTION;
use crate::work::{LONGEST, Tickets, Work};
use deadheat_base::time::Nanos;

/// Bytes of the longest setup.
const LONGEST_SETUP: usize = 1_000;

/// Terms on which requests are answered.
pub(super) struct Terms {
    pub tickets: Arc<dyn Tickets>,
    /// Port of the page, which alone may ask.
    pub page: u16,
}

/// Request on a stream, as far as it has arrived.
pub(super) struct StreamRequest {
    /// Origin of the page.
    pub origin: String,
    state: RequestState,
}

/// State of a request.
enum RequestState {
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
pub(super) enum WholeRequest {
    Ping(String, Vec<u8>),
    Answered(Reply),
}

/// Answer on a stream.
pub(super) struct Reply {
    status: u16,
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

impl StreamRequest {
    /// Reads the header of a request.
    pub(super) fn read(now: Nanos, fields: &[HeaderField], terms: &Terms) -> StreamRequest {
        let field = |name: &str| {
            let found = fields.iter().find(|(own, _)| own == name.as_bytes());
            found.and_then(|(_, value)| std::str::from_utf8(value).ok()).unwrap_or_default()
        };
        let origin = field("origin");
        let refused = |status, why: &str| {
            RequestState::Refused(status, json!({ "refused": why }).to_string().into_bytes())
        };
        let (path, query) = field(":path").split_once('?').unwrap_or((field(":path"), ""));
        let ticket = query.strip_prefix("ticket=").unwrap_or_default().to_owned();
        let state = match path {
            _ if !is_of_page(origin, field(":authority"), terms.page) => {
                refused(403, "only this server's page may ask that")
            }
            _ if field(":method") != "POST" => refused(405, "the page asks with POST"),
            "/fetch/ping" => RequestState::Ping(ticket, Vec::new()),
            "/fetch/stream" => RequestState::Setup(Vec::new()),
            "/fetch/end" => RequestState::End,
            "/fetch/up" => match field("content-length").parse() {
                Ok(length) => up(now, &ticket, length, terms),
                Err(_) => refused(411, "a body has a length here"),
            },
            _ => refused(404, "there is no such work"),
        };
        StreamRequest { origin: origin.to_owned(), state }
    }

    /// Takes bytes of the body.
    ///
    /// # Errors
    /// The violation, as a sentence.
    pub(super) fn take(&mut self, now: Nanos, bytes: &[u8]) -> Result<(), String> {
        let (body, most) = match &mut self.state {
            RequestState::Ping(_, body) => (body, LONGEST),
            RequestState::Setup(body) => (body, LONGEST_SETUP),
            RequestState::Up(work, left) => {
                *left =
                    left.checked_sub(bytes.len() as u64).ok_or("a body is longer than it says")?;
                if !bytes.is_empty() {
                    work.received(now, bytes);
                }
                return Ok(());
            }
            RequestState::End | RequestState::Refused(..) => return Ok(()),
        };
        body.extend_from_slice(bytes);
        if body.len() > most { Err(format!("a body is longer than {most} bytes")) } else { Ok(()) }
    }

    /// Returns the number of bytes that wait for the rest of the request.
    pub(super) fn held(&self) -> usize {
        match &self.state {
            RequestState::Ping(_, body) | RequestState::Setup(body) => body.len(),
            _ => 0,
        }
    }

    /// Returns the time from which more of it may be read.
    pub(super) fn reads_from(&self) -> Nanos {
        match &self.state {
            RequestState::Up(work, _) => work.reads_from(),
            _ => Nanos::ZERO,
        }
    }

    /// Takes the whole request.
    pub(super) fn whole(&mut self, now: Nanos, terms: &Terms) -> WholeRequest {
        WholeRequest::Answered(match std::mem::replace(&mut self.state, RequestState::End) {
            RequestState::Ping(ticket, body) => return WholeRequest::Ping(ticket, body),
            RequestState::Setup(setup) => {
                let mut work = Work::new(Arc::clone(&terms.tickets));
                work.received(now, &setup);
                match work.next(now) {
                    Some(refused) if work.is_over() => Reply::refusal(403, refused),
                    first => Reply::of(work, first, Framing::Lengths),
                }
            }
            RequestState::Up(_, 1..) => {
                Reply::refusal(400, b"{\"refused\":\"the body is shorter than it says\"}".to_vec())
            }
            RequestState::Up(work, 0) => Reply::of(work, None, Framing::One),
            RequestState::End => Reply { is_last: true, ..Reply::bytes(Vec::new()) },
            RequestState::Refused(status, why) => Reply::refusal(status, why),
        })
    }
}

impl Reply {
    /// Returns an answer with these bytes.
    pub(super) fn bytes(bytes: Vec<u8>) -> Reply {
        Reply { status: 200, bytes, work: None, framing: Framing::One, is_last: false }
    }

    /// Returns a refusal with its reason, a line of JSON.
    pub(super) fn refusal(status: u16, why: Vec<u8>) -> Reply {
        Reply { status, ..Reply::bytes(why) }
    }

    fn of(work: Work, first: Option<Vec<u8>>, framing: Framing) -> Reply {
        let mut reply =
            Reply { work: Some(work), framing, is_last: true, ..Reply::bytes(Vec::new()) };
        first.iter().for_each(|message| reply.add(message));
        reply
    }

    fn add(&mut self, message: &[u8]) {
        match self.framing {
            Framing::Lengths => self.bytes.extend_from_slice(&(message.len() as u32).to_be_bytes()),
            Framing::One => self.work = None,
        }
        self.bytes.extend_from_slice(message);
    }

    /// Returns the header, with the number of the request on its connection and the time before it.
    pub(super) fn header(&self, origin: &str, connection: &str) -> Vec<u8> {
        hpack::header(&[
            (":status", &self.status.to_string()),
            ("content-type", "application/octet-stream"),
            ("cache-control", "no-store"),
            (CONNECTION, connection),
            ("access-control-allow-origin", origin),
            ("access-control-expose-headers", CONNECTION),
            ("timing-allow-origin", origin),
            ("cross-origin-resource-policy", "same-site"),
            ("vary", "origin"),
        ])
    }

    /// Returns the next bytes, as many as there is room for, and true with the last.
    pub(super) fn next(&mut self, now: Nanos, room: usize) -> (Vec<u8>, bool) {
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
    pub(super) fn due(&self) -> Option<Nanos> {
        if self.bytes.is_empty() {
            self.work.as_ref().and_then(Work::due)
        } else {
            Some(Nanos::ZERO)
        }
    }

    /// Returns the time at which its trial must be over; `None` if it is of none.
    pub(super) fn ends(&self) -> Option<Nanos> {
        self.work.as_ref().and_then(Work::ends)
    }
}

/// Begins to take bulk data.
fn up(now: Nanos, ticket: &str, length: u64, terms: &Terms) -> RequestState {
    let setup = json!({ "ticket": ticket, "work": { "up": { "bytes": length } } });
    let mut work = Work::new(Arc::clone(&terms.tickets));
    work.received(now, setup.to_string().as_bytes());
    match work.next(now) {
        Some(refused) if work.is_over() => RequestState::Refused(403, refused),
        _ => RequestState::Up(work, length),
    }
}

/// Returns true for the origin of the page: this host by the same name, at the page's port.
fn is_of_page(origin: &str, authority: &str, page: u16) -> bool {
    let port_and_name = |text: &str| -> Option<(String, u16)> {
        match text.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => {
                Some((name.to_owned(), port.parse().ok()?))
            }
            _ => Some((text.to_owned(), 443)),
        }
    };
    let own = origin.strip_prefix("https://").and_then(port_and_name);
    let reached = port_and_name(authority);
    matches!((own, reached), (Some((own, port)), Some((name, _))) if own == name && port == page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_alone_may_ask() {
        assert!(is_of_page("https://far:5280", "far:5282", 5_280));
        assert!(is_of_page("https://far", "far:445", 443));
        assert!(is_of_page("https://[::1]:5280", "[::1]:5282", 5_280));
        for (origin, authority) in [
            ("https://far:5281", "far:5282"),
            ("http://far:5280", "far:5282"),
            ("https://evil:5280", "far:5282"),
            ("https://far", "far:5282"),
            ("null", "far:5282"),
            ("", ""),
        ] {
            assert!(!is_of_page(origin, authority, 5_280), "{origin}");
        }
    }
}
