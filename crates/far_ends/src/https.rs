//! Web servers: documents over TLS (HTTP/2, RFC 9113, or HTTP/1.1, RFC 9112) and over QUIC (HTTP/3, RFC 9114), at a URL.
//!
//! ```text
//! exchange   requests of the work, answers to it, facts of the documents
//! http1      requests and answers on the byte stream of TLS, by httparse
//! http2      frames of many requests on that stream; http2_frames, and hpack for its headers
//! http3      requests and answers on streams of QUIC; frames, and qpack for its headers
//! wire       parts of HTTP/3 that a server has, too, as it has http2_frames
//! ```
//! A server gets requests for the one document that was named, with the name of this program (`User-Agent`).

use exchange::{Exchange, Use};
use request::Request;

use crate::around::Around;
use deadheat_base::error::Result;
use deadheat_contract::contract::{CountSource, Direction, PeerFacts};
use deadheat_contract::workload::TaskInfo;
use deadheat_datapath::transport::application::ApplicationTerms;
use deadheat_datapath::transport::far_end::{FarEnd, FarEndInfo, Locator};
use deadheat_datapath::transport::plain::{PlainProtocol, PlainTransport};
use deadheat_datapath::transport::{Conn, Dial};

mod document;
mod exchange;
mod fields;
mod frames;
mod head;
pub mod hpack;
mod http1;
mod http2;
pub mod http2_frames;
mod http3;
mod huffman;
mod qpack;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod reading;
mod remarks;
mod request;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod testing;
mod version;
pub mod wire;

/// Web server.
pub(super) static FAR_END: FarEnd = FarEnd {
    info: FarEndInfo {
        id: "https",
        label: "a web server",
        summary: "a web server, https://HOST/PATH: HTTP/2 or HTTP/1.1 over TLS, HTTP/3 over QUIC; answers with the document",
        port: 443,
        takes_path: true,
        over: &[PlainProtocol::TLS, PlainProtocol::QUIC],
        peer: PeerFacts {
            sends_data: true,
            answers_requests: true,
            has_documents: true,
            counts: CountSource::Answers,
            ..PeerFacts::OTHERS
        },
        counts: None,
        unknown: &[
            "how long it took to make an answer, which is part of each time",
            "whether a cache, a proxy or the host itself answered, and whether the same one for each contender",
            "which of its packets were lost",
            "cost and options of the far end, such as its congestion control",
        ],
        variables: None,
    },
    misfit: None,
    dial,
    remarks: Some(remarks::of),
    session: None,
};

/// Protocols inside TLS, the preferred first.
const OVER_TLS: &[&str] = &["h2", "http/1.1"];
/// Protocols inside QUIC.
const OVER_QUIC: &[&str] = &["h3"];

fn dial(
    inside: &PlainTransport,
    dial: &Dial<'_>,
    task: &TaskInfo,
    locator: &Locator,
) -> Result<Box<dyn Conn>> {
    let over = inside.protocol;
    let purpose = purpose(task, dial.hello.flow);
    let application = Box::new(Exchange::new(Request::of(locator), over, purpose));
    let protocols = if over.has_streams { OVER_QUIC } else { OVER_TLS };
    let (name, pin) = (locator.name.clone(), locator.pin.clone());
    let terms = ApplicationTerms { name, pin, protocols, application };
    let conn = inside.open_encrypted(dial, terms)?;
    let time = task.planned.filter(|_| purpose != Use::Messages);
    Ok(Around::visit(conn, time))
}

#[cfg(test)]
pub(crate) use steps::rows as steps;

/// Returns the use of the answers of a flow.
fn purpose(task: &TaskInfo, flow: u16) -> Use {
    let flows = task.flows.len().max(1) as u64;
    let flow = u64::from(flow) % flows;
    if task.flows.get(flow as usize) != Some(&Some(Direction::Down)) {
        return Use::Messages;
    }
    let most = task.most_bytes.filter(|_| task.planned.is_none());
    let cut = |bytes: u64, at: u64| (u128::from(bytes) * u128::from(at) / u128::from(flows)) as u64;
    Use::Bulk(most.map(|most| cut(most, flow + 1) - cut(most, flow)))
}
