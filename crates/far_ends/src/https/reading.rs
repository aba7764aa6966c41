//! Readers for fuzz targets.

use super::exchange::{Exchange, Use};
use super::remarks;
use super::request::Request;
use crate::readers::streams::{FedStreams, look, pieces};
use deadheat_contract::recorded::SeenTrial;
use deadheat_contract::workload::header::{DUE_LEN, DocumentPart, Header};
use deadheat_datapath::transport::application::{Application, TakesRequests};
use deadheat_datapath::transport::plain::PlainProtocol;

/// Bytes of bulk data that are wanted.
const WANTED: u64 = 300;

/// Reads answers of HTTP/1.1, with chunked bodies among them.
pub(crate) fn http1(bytes: &[u8]) {
    visits(bytes, PlainProtocol::TLS, b"http/1.1");
}

/// Reads frames of HTTP/2, with HPACK in them.
pub(crate) fn http2(bytes: &[u8]) {
    visits(bytes, PlainProtocol::TLS, b"h2");
}

/// Reads frames of HTTP/3, with QPACK in them, on the streams of requests and on those that the server opens.
pub(crate) fn http3(bytes: &[u8]) {
    visits(bytes, PlainProtocol::QUIC, b"h3");
}

fn visits(bytes: &[u8], over: PlainProtocol, protocol: &[u8]) {
    for purpose in [Use::Messages, Use::Bulk(Some(WANTED)), Use::Bulk(None)] {
        visit(bytes, over, protocol, purpose);
    }
}

/// Asks once for each piece of an answer that arrives, and looks at what the work gets of it.
fn visit(bytes: &[u8], over: PlainProtocol, protocol: &[u8], purpose: Use) {
    let [authority, path, agent] = ["far.example", "/", "deadheat"].map(str::to_owned);
    let mut exchange = Exchange::new(Request { authority, path, agent }, over, purpose);
    let (mut streams, mut message, mut got) = (FedStreams::default(), [0; DUE_LEN], 0);
    if exchange.begin(Some(protocol), &mut streams).is_err() {
        return;
    }
    for (seq, (place, piece)) in pieces(bytes).enumerate() {
        Header { tag: 1, seq: seq as u64 }.write(&mut message);
        let asks = purpose == Use::Messages || seq == 0;
        if asks && exchange.ask(&message, &mut streams).is_err() {
            break;
        }
        if over.has_streams {
            streams.feed(place, piece)
        } else {
            streams.feed_the_one(place, piece)
        }
        let read = exchange.read(&mut streams, &mut |part| match purpose {
            Use::Messages => assert!(DocumentPart::read(part).is_some(), "a part of a document"),
            Use::Bulk(_) => got += part.len() as u64,
        });
        assert!(purpose != Use::Bulk(Some(WANTED)) || got <= WANTED, "{got} bytes");
        if read.is_err() || exchange.state().has_ended {
            break;
        }
    }
    look(&exchange);
    let effective = exchange.facts().effective;
    let _ = remarks::of(&[SeenTrial { label: "one", effective: &effective }]);
}
