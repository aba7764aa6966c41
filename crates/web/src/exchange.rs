//! Requests of works on a connection of HTTP/1.1, one after the other.

use std::io;
use std::sync::Arc;

use crate::channel::WaitFor;
use crate::http::{Answer, PATIENCE, RequestHead, Requests};
use crate::pings::StreamPings;
use crate::requests::{CONNECTION, Reply, WholeRequest, WorkRequest};
use crate::server::WebServer;
use crate::work::{CHUNK, Tickets};
use deadheat_base::time::{Clock, Monotonic, Nanos};

/// Works of one connection.
#[derive(Default)]
pub(crate) struct Exchanges {
    pings: StreamPings,
    requests: u64,
}

impl Exchanges {
    /// Returns true while the connection waits for more: it belongs to a trial that runs, or to none and is new.
    pub(crate) fn is_kept(&self, server: &WebServer<'_>, since: Nanos) -> bool {
        match self.pings.ticket() {
            Some(ticket) => server.tickets.is_running(ticket),
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
        let (begun, since) = (Monotonic.now(), requests.channel.since);
        let fields = vec![(CONNECTION, format!("{} {}", self.requests, (begun - since).0 / 1_000))];
        let tickets: Arc<dyn Tickets> = server.tickets.clone();
        let (target, mut left) = ((head.path.as_str(), head.query.as_str()), head.length);
        let mut own = WorkRequest::new(begun, target, Some(left), &tickets);
        while left > 0 && !own.is_settled() {
            let piece = requests.piece(left, own.ends().unwrap_or(begun + PATIENCE))?;
            left -= piece.len() as u64;
            own.take(Monotonic.now(), &piece);
            wait_until(requests, own.reads_from())?;
        }
        let mut reply = match own.whole(Monotonic.now(), &tickets) {
            WholeRequest::Answered(reply) => reply,
            WholeRequest::Ping(ticket, body) => {
                self.pings.received(Monotonic.now(), &tickets, (0, &ticket), &body);
                wait_until(requests, self.pings.reads_from())?;
                self.pong(requests)?
            }
        };
        let closes = head.closes || reply.is_last || reply.status != 200;
        let answer = Answer { fields, closes, ..Answer::new(reply.status, BYTES, "") };
        give(requests, &mut reply, answer)?;
        Ok(!closes)
    }

    /// Returns the answer to a ping, once it may leave.
    fn pong(&mut self, requests: &Requests<'_>) -> io::Result<Reply> {
        loop {
            if let Some((_, answer)) = self.pings.next(Monotonic.now()) {
                return Ok(answer.map_or_else(|why| Reply::refusal(403, why), Reply::bytes));
            }
            let no_ping = || io::Error::new(io::ErrorKind::InvalidData, "this is no ping");
            wait_until(requests, self.pings.due().ok_or_else(no_ping)?)?;
        }
    }
}

/// Type of a body of bytes.
const BYTES: &str = "application/octet-stream";

/// Sends an answer: whole if it is, and else in chunks as it comes about.
fn give(requests: &mut Requests<'_>, reply: &mut Reply, answer: Answer) -> io::Result<()> {
    let (body, mut is_end) = reply.next(Monotonic.now(), CHUNK);
    if is_end {
        return requests.answer(&Answer { body, ..answer });
    }
    let mut out = answer.head(None).into_bytes();
    add_chunk(&mut out, &body);
    loop {
        let deadline = reply.ends().unwrap_or_else(|| Monotonic.now() + PATIENCE);
        requests.channel.write_until(&out, deadline)?;
        if is_end {
            return Ok(());
        }
        wait_until(requests, reply.due().unwrap_or_default())?;
        let piece;
        (piece, is_end) = reply.next(Monotonic.now(), CHUNK);
        out.clear();
        add_chunk(&mut out, &piece);
        if is_end {
            out.extend_from_slice(b"0\r\n\r\n");
        }
    }
}

/// Adds bytes as a chunk (RFC 9112, section 7.1); none for no bytes, which would end the body.
fn add_chunk(out: &mut Vec<u8>, bytes: &[u8]) {
    if !bytes.is_empty() {
        out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
        out.extend_from_slice(bytes);
        out.extend_from_slice(b"\r\n");
    }
}

fn wait_until(requests: &Requests<'_>, at: Nanos) -> io::Result<()> {
    if at > Monotonic.now() { requests.channel.wait(WaitFor::Time, Some(at)) } else { Ok(()) }
}
