//! WebTransport over HTTP/3 (draft-ietf-webtrans-http3) as browsers speak it: a stream in both directions, or datagrams.
//!
//! ```text
//! own_certificate  certificates of two weeks, whose SHA-256 the page gets, or the operator's, and the set-up of QUIC
//! browsers         connections, without socket and clock
//! session          HTTP/3 on one connection: SETTINGS, the request for the session, types of streams
//! request          field sections of requests and of answers
//! stream_lane      a stream of the session, with the work on it
//! datagram_lane    datagrams of the session, with the work on them
//! ```
//! The page asks for a session at `https://HOST:PORT/`. On a stream it opens, each message has its length in front, in 4 bytes,
//! big-endian; a datagram is a message. Each stream is a trial, and so are all datagrams of a session.
//!
//! A connection without a trial that has a ticket gets small windows and few seconds, and the number of connections is bounded,
//! in all and from each address. Where many are open, a new one proves its address first (Retry, RFC 9000, 8.1.2).

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use deadheat_base::panics::contained;
use serde_json::{Value, json};

use crate::carrier::{
    Carrier, CarrierGround, CarrierKind, MessagePromise, PageContender, PageSignal,
};
use crate::udp::{CarrierPort, Moment, Waker, send};
use crate::work::Tickets;
use browsers::Browsers;
use deadheat_datapath::datapath::answering::Arrived;
use own_certificate::OwnCertificates;

mod browsers;
mod datagram_lane;
mod own_certificate;
mod request;
mod session;
mod stream;
mod stream_lane;
#[cfg(test)]
mod tests;

/// The carrier.
pub(crate) const KIND: CarrierKind = CarrierKind {
    id: "webtransport",
    open,
    contenders: &[
        PageContender {
            id: "webtransport",
            label: "WebTransport, a stream",
            over: "QUIC",
            promise: MessagePromise::Ordered,
        },
        PageContender {
            id: "webtransport-datagrams",
            label: "WebTransport, datagrams",
            over: "QUIC",
            promise: MessagePromise::BestEffort,
        },
    ],
    script: include_str!("page/webtransport.js"),
};

/// Open carrier. Its thread ends with it.
struct WebTransportCarrier {
    port: u16,
    certificates: Arc<OwnCertificates>,
    _waker: Waker,
}

fn open(ground: &CarrierGround) -> Result<Box<dyn Carrier>, String> {
    let (port, waker) = CarrierPort::open(ground.page, 0)?;
    let certificates = match &ground.certificate {
        Some(pair) => OwnCertificates::of_operator(pair)?,
        None => OwnCertificates::new()?,
    };
    let certificates = Arc::new(certificates);
    let carrier = WebTransportCarrier {
        port: port.number(),
        certificates: Arc::clone(&certificates),
        _waker: waker,
    };
    let tickets = Arc::clone(&ground.tickets);
    std::thread::Builder::new()
        .name("webtransport".to_owned())
        .spawn(move || serve(port, &certificates, &tickets))
        .map_err(|e| format!("there is no thread for it: {e}"))?;
    Ok(Box::new(carrier))
}

impl Carrier for WebTransportCarrier {
    fn facts(&self) -> Value {
        let mut facts = json!({ "port": self.port });
        if let Some(digest) = self.certificates.digest() {
            facts["sha256"] = STANDARD.encode(digest).into();
        }
        facts
    }

    fn signal(&self, _signal: &PageSignal<'_>) -> Result<String, String> {
        Err("it takes no signals".to_owned())
    }
}

/// Serves browsers until the carrier is dropped.
fn serve(mut port: CarrierPort, certificates: &Arc<OwnCertificates>, tickets: &Arc<dyn Tickets>) {
    loop {
        let served = contained("QUIC", || {
            let mut browsers = Browsers::new(Arc::clone(certificates), Arc::clone(tickets));
            while port.wait(browsers.next_deadline(&Moment::now())) {
                port.receive(|socket, way, bytes| {
                    let answer = &mut |bytes: &[u8], way: &Arrived, field| {
                        send(socket, bytes, way, field);
                    };
                    browsers.handle(&Moment::now(), way, bytes, answer);
                });
                turn(&mut browsers, &port);
            }
            browsers.close(&Moment::now());
            turn(&mut browsers, &port);
            Ok(())
        });
        // After a panic of the library its connections are lost, and new ones are served.
        if served.is_ok() {
            return;
        }
    }
}

/// Moves all connections on.
fn turn(browsers: &mut Browsers, port: &CarrierPort) {
    let socket = port.socket();
    browsers.turn(&Moment::now(), &mut |bytes, way, field| send(socket, bytes, way, field));
}
