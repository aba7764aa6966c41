//! fetch over HTTP/2 (RFC 9113): a port of its own for TLS, at which no other protocol is offered, so that a page can race it
//! against HTTP/1.1 at its own port.
//!
//! ```text
//! session  a connection, without a socket: frames, streams, windows
//! request  headers of requests, and of their answers
//! ```
//! Browsers take HTTP/2 within TLS alone, so it takes the certificate of the operator. The requests are as in `exchange.rs`;
//! they are of another origin than the page (the port differs), which each answer allows (CORS).

use std::io::{self, PipeWriter, Read};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::carrier::{
    Carrier, CarrierGround, CarrierKind, MessagePromise, PageContender, PageSignal,
};
use crate::channel::{Channel, Security, WaitFor};
use crate::connections::{Port, Service};
use crate::http::PATIENCE;
use crate::work::Tickets;
use deadheat_base::error::Error;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::datapath::answering;
use request::Terms;
use session::Http2Session;

mod request;
mod session;
#[cfg(test)]
mod tests;

/// The carrier.
pub(crate) const KIND: CarrierKind = CarrierKind {
    id: "http2",
    open,
    contenders: &[PageContender {
        id: "fetch-h2",
        label: "fetch, HTTP/2",
        over: "TCP",
        promise: MessagePromise::Unordered,
    }],
    script: include_str!("page/http2.js"),
};

/// Its port is so many above the page's, unless that is in use.
const ABOVE: u16 = 2;

/// Most connections, in all and of one address.
const MOST: (usize, usize) = (32, 8);

/// Bytes that are read at once.
const PIECE: usize = 16 << 10;

/// Open carrier. Its threads end with it.
struct Http2Carrier {
    port: u16,
    _stop: PipeWriter,
}

/// Terms of all its connections.
struct Http2Ground {
    security: Security,
    tickets: Arc<dyn Tickets>,
    page: u16,
}

fn open(ground: &CarrierGround) -> Result<Box<dyn Carrier>, String> {
    let pair = ground.certificate.as_ref().ok_or(
        "browsers take HTTP/2 within TLS alone, so the operator has to give a certificate (--web-cert, --web-key)",
    )?;
    let own = |e: Error| e.to_string();
    let security = Security::within(Arc::clone(pair), b"h2").map_err(own)?;
    let at = |port| answering::listen(SocketAddr::new(ground.page.ip(), port));
    let above = ground.page.port().checked_add(ABOVE).and_then(|port| at(port).ok());
    let listener = above.map_or_else(|| at(0), Ok).map_err(own)?;
    let local = listener.local_addr().map_err(|e| format!("its port has no address: {e}"))?;
    let (stop, stopper) = io::pipe().map_err(|e| format!("there is no pipe for it: {e}"))?;
    let (tickets, page) = (Arc::clone(&ground.tickets), ground.page.port());
    let own = Http2Ground { security, tickets, page };
    std::thread::Builder::new()
        .name("http2".to_owned())
        .spawn(move || {
            let (security, stop) = (&own.security, stop.as_fd());
            Port { listener: &listener, security, most: MOST, looks: None, stop }.serve(&own)
        })
        .map_err(|e| format!("there is no thread for it: {e}"))?;
    Ok(Box::new(Http2Carrier { port: local.port(), _stop: stopper }))
}

impl Carrier for Http2Carrier {
    fn facts(&self) -> Value {
        json!({ "port": self.port, "over": "TCP" })
    }

    fn signal(&self, _signal: &PageSignal<'_>) -> Result<String, String> {
        Err("it takes no signals".to_owned())
    }
}

impl Service for Http2Ground {
    fn carry(&self, channel: Channel<'_>) {
        // Its end in any state costs this connection alone.
        let _ = carry(channel, self);
    }

    fn note(&self, _peer: SocketAddr, _what: &str) {}

    fn look(&self) {}
}

/// Carries a connection until it is over.
///
/// # Errors
/// The error of a read or a write.
fn carry(mut channel: Channel<'_>, ground: &Http2Ground) -> io::Result<()> {
    let terms = Terms { tickets: Arc::clone(&ground.tickets), page: ground.page };
    let mut session = Http2Session::new(terms, channel.since);
    let mut piece = vec![0; PIECE];
    loop {
        let now = Monotonic.now();
        let mut has_moved = false;
        if session.reads_from() <= now {
            match channel.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(len) => {
                    has_moved = true;
                    session.feed(now, &piece[..len]).map_err(io::Error::other)?;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
        let out = session.turn(now);
        if !out.is_empty() {
            has_moved = true;
            channel.write_until(&out, now + PATIENCE)?;
        }
        let end = session.ends().unwrap_or_default().max(session.idle_since() + PATIENCE);
        if session.is_over() || now > end {
            return channel.part();
        }
        if !has_moved {
            let reads_from = Some(session.reads_from()).filter(|from| *from > now);
            let wanted = if reads_from.is_some() { WaitFor::Time } else { WaitFor::Bytes };
            let until =
                [session.due(), reads_from, Some(end + Nanos(1))].into_iter().flatten().min();
            channel.wait(wanted, until)?;
        }
    }
}
