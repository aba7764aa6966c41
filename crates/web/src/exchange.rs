//! Works over requests of HTTP, as a page makes them with fetch: a request for each ping, one answer in pieces for what the
//! server sends, one body for what the page sends. All requests of a trial carry its ticket.

use std::io;

use serde_json::json;

use crate::channel::WaitFor;
use crate::http::{Answer, CONNECTION, PATIENCE, RequestHead, Requests};
use crate::server::WebServer;
use crate::work::{CHUNK, LONGEST, Work};
use deadheat_base::time::{Clock, Monotonic, Nanos};

/// Bytes of the longest setup.
const LONGEST_SETUP: usize = 1_000;

/// Type of a body of bytes.
const BYTES: &str = "application/octet-stream";

/// Works of one connection.
#[derive(Default)]
pub(crate) struct Exchanges {
    /// Work of the trial whose pings the connection carries, and its ticket.
    pings: Option<(String, Work)>,
    requests: u64,
}

impl Exchanges {
    /// Returns true while the connection waits for more: it belongs to a trial that runs, or to none and is new.
    pub(crate) fn is_kept(&self, server: &WebServer<'_>, since: Nanos) -> bool {
        match &self.pings {
            Some((ticket, _)) => server.tickets.is_running(ticket),
            None => Monotonic.now() - since < PATIENCE,
        }
    }

    /// Answers a request of a work; returns true if the connection stays.
    ///
    /// # Errors
    /// The error of a read or a write.
    pub(crate) fn answer(
        &mut self,
        server: &WebServer<'_>,
        requests: &mut Requests<'_>,
        head: &RequestHead,
    ) -> io::Result<bool> {
        self.requests += 1;
        let waited = (Monotonic.now() - requests.channel.since).0 / 1_000;
        let new = format!("{} {waited}", self.requests);
        match head.path.as_str() {
            "/fetch/ping" => self.ping(server, requests, head, new),
            "/fetch/stream" => stream(server, requests, head, new),
            "/fetch/up" => up(server, requests, head),
            _ => {
                requests.answer(&Answer::refusal(404, "there is no such work"))?;
                Ok(false)
            }
        }
    }

    /// Sends a ping back.
    fn ping(
        &mut self,
        server: &WebServer<'_>,
        requests: &mut Requests<'_>,
        head: &RequestHead,
        new: String,
    ) -> io::Result<bool> {
        let body = match requests.body(head, LONGEST) {
            Ok(body) => body,
            Err(bad) => {
                requests.answer(&bad.into())?;
                return Ok(false);
            }
        };
        let ticket = head.asked("ticket").unwrap_or_default();
        let now = Monotonic.now();
        if self.pings.as_ref().is_none_or(|(own, _)| own != ticket) {
            let mut work = Work::new(server.tickets.clone());
            work.received(now, json!({ "ticket": ticket, "work": "ping" }).to_string().as_bytes());
            let answer = work.next(now).unwrap_or_default();
            if work.is_over() {
                requests.answer(&refused(&answer))?;
                return Ok(false);
            }
            self.pings = Some((ticket.to_owned(), work));
        }
        let Some((_, work)) = &mut self.pings else { return Ok(false) };
        work.received(now, &body);
        let reads_from = work.reads_from();
        if reads_from > now {
            requests.channel.wait(WaitFor::Time, Some(reads_from))?;
        }
        let answer = wait_for(work, requests)?;
        if work.is_over() {
            requests.answer(&refused(&answer))?;
            return Ok(false);
        }
        let closes = head.closes || head.asked("last").is_some();
        let fields = vec![(CONNECTION, new)];
        requests.answer(&Answer { fields, closes, ..Answer::new(200, BYTES, answer) })?;
        Ok(!closes)
    }
}

/// Returns the next message of a work, once it may leave; empty if there is none.
fn wait_for(work: &mut Work, requests: &Requests<'_>) -> io::Result<Vec<u8>> {
    loop {
        if let Some(message) = work.next(Monotonic.now()) {
            return Ok(message);
        }
        let Some(due) = work.due() else { return Ok(Vec::new()) };
        requests.channel.wait(WaitFor::Time, Some(due))?;
    }
}

/// Returns the answer to a connection that the work refuses.
fn refused(message: &[u8]) -> Answer {
    Answer::new(403, "application/json", message)
}

/// Answers a setup with all messages of its work, one after the other: the length of each in four bytes, and the message.
fn stream(
    server: &WebServer<'_>,
    requests: &mut Requests<'_>,
    head: &RequestHead,
    new: String,
) -> io::Result<bool> {
    let setup = match requests.body(head, LONGEST_SETUP) {
        Ok(setup) => setup,
        Err(bad) => {
            requests.answer(&bad.into())?;
            return Ok(false);
        }
    };
    let mut work = Work::new(server.tickets.clone());
    work.received(Monotonic.now(), &setup);
    let first = work.next(Monotonic.now()).unwrap_or_default();
    if work.is_over() {
        requests.answer(&refused(&first))?;
        return Ok(false);
    }
    let answer = Answer { fields: vec![(CONNECTION, new)], ..Answer::new(200, BYTES, "") };
    let mut piece = answer.head(None).into_bytes();
    add_chunk(&mut piece, &first);
    write(requests, &piece, &work)?;
    while let Some(due) = work.due() {
        let mut piece = Vec::new();
        let now = Monotonic.now();
        while piece.len() < CHUNK
            && let Some(message) = work.next(now)
        {
            add_chunk(&mut piece, &message);
        }
        if piece.is_empty() {
            requests.channel.wait(WaitFor::Time, Some(due))?
        } else {
            write(requests, &piece, &work)?
        }
    }
    requests.channel.write_until(b"0\r\n\r\n", Monotonic.now() + PATIENCE)?;
    Ok(false)
}

/// Adds a message as a chunk (RFC 9112, section 7.1), behind its length.
fn add_chunk(piece: &mut Vec<u8>, message: &[u8]) {
    piece.extend_from_slice(format!("{:x}\r\n", message.len() + 4).as_bytes());
    piece.extend_from_slice(&(message.len() as u32).to_be_bytes());
    piece.extend_from_slice(message);
    piece.extend_from_slice(b"\r\n");
}

/// Writes a piece, as long as the trial may last.
fn write(requests: &mut Requests<'_>, piece: &[u8], work: &Work) -> io::Result<()> {
    let deadline = work.ends().unwrap_or_else(|| Monotonic.now() + PATIENCE);
    requests.channel.write_until(piece, deadline)
}

/// Takes a body, and answers with the account of it.
fn up(server: &WebServer<'_>, requests: &mut Requests<'_>, head: &RequestHead) -> io::Result<bool> {
    let ticket = head.asked("ticket").unwrap_or_default();
    let setup = json!({ "ticket": ticket, "work": { "up": { "bytes": head.length } } });
    let mut work = Work::new(server.tickets.clone());
    work.received(Monotonic.now(), setup.to_string().as_bytes());
    let mut said = work.next(Monotonic.now()).unwrap_or_default();
    let mut left = head.length;
    while left > 0 && !work.is_over() {
        let deadline = work.ends().unwrap_or(Nanos::ZERO);
        let piece = requests.piece(left, deadline)?;
        left -= piece.len() as u64;
        work.received(Monotonic.now(), &piece);
        let reads_from = work.reads_from();
        if reads_from > Monotonic.now() {
            requests.channel.wait(WaitFor::Time, Some(reads_from))?;
        }
        if left == 0 || work.due().is_some() {
            said = wait_for(&mut work, requests)?;
        }
    }
    let answer =
        if work.is_over() { refused(&said) } else { Answer::new(200, "application/json", said) };
    requests.answer(&answer)?;
    Ok(false)
}
