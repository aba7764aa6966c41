//! QUIC perf (draft-banks-quic-performance-00, ALPN `perf`), as quic-go, msquic, picoquic and s2n-quic have it.
//!
//! ```text
//! near end opens a stream        8 bytes: how many it wants back, big-endian  ──▶
//!                                its bytes, and its end                       ──▶  drained to the end
//!                          ◀──   as many bytes as were wanted, and the end of the stream
//! ```
//! There is no control connection and no token, and nothing is counted. But the server ends its answer after it has read
//! all, so the end of the answer confirms an upload. A wish of 2^64-1 bytes has no end: the near end stops it
//! (STOP_SENDING).

use bulk::{Download, Upload, Wish};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::{CountSource, Direction, PeerFacts};
use deadheat_contract::workload::TaskInfo;
use deadheat_datapath::transport::application::{Application, ApplicationTerms};
use deadheat_datapath::transport::far_end::{FarEnd, FarEndInfo, Locator};
use deadheat_datapath::transport::plain::{PlainProtocol, PlainTransport};
use deadheat_datapath::transport::{Conn, Dial};
use requests::Requests;

mod bulk;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod reading;
mod requests;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::steps;

/// Server of QUIC perf.
pub(super) static FAR_END: FarEnd = FarEnd {
    info: FarEndInfo {
        id: "quicperf",
        label: "a QUIC perf server",
        summary: "a QUIC perf server (ALPN perf: quic-go, msquic, picoquic, s2n-quic); takes and sends as many bytes as the client asks for",
        port: 443,
        takes_path: false,
        over: &[PlainProtocol::QUIC],
        peer: PeerFacts {
            takes_data: true,
            sends_data: true,
            ignores_boundaries: true,
            answers_requests: true,
            counts: CountSource::Confirmation,
            ..PeerFacts::OTHERS
        },
        counts: None,
        unknown: &[
            "when bytes of an upload arrived there: its time is that of the far end's acknowledgements, and the end of the far \
             program's answer confirms it whole",
            "how much it sent of a download that was stopped after its time, beyond what arrived",
            "how long the far program took to answer a request: that is part of the response time",
            "congestion control, windows, cost and options of the far end",
        ],
        variables: None,
    },
    misfit: None,
    dial,
    remarks: None,
    session: None,
};

/// Protocol in the handshake (RFC 7301).
const PROTOCOLS: &[&str] = &["perf"];

/// Pause before a server that refused a connection is asked again.
const AGAIN: Nanos = Nanos::from_millis(200);

/// Bytes of a wish at the start of a stream.
const WISH_LEN: usize = 8;

/// Wish without an end.
const ENDLESS: u64 = u64::MAX;

/// Code of a stream that this end stops.
const STOPPED: u32 = 0;

fn dial(
    inside: &PlainTransport,
    dial: &Dial<'_>,
    task: &TaskInfo,
    locator: &Locator,
) -> Result<Box<dyn Conn>> {
    let give_up = Monotonic.now() + dial.timeout;
    loop {
        let terms = ApplicationTerms {
            name: locator.name.clone(),
            pin: locator.pin.clone(),
            protocols: PROTOCOLS,
            application: application(dial, task),
        };
        let left = Dial { timeout: give_up - Monotonic.now(), ..*dial };
        match inside.open_encrypted(&left, terms) {
            // A server that serves others, or closes the test before, refuses at once.
            Err(Error::Blocked { .. }) if Monotonic.now() + AGAIN < give_up => {
                std::thread::sleep(AGAIN.into());
            }
            opened => return opened,
        }
    }
}

/// Returns the state machine of a flow of the work.
fn application(dial: &Dial<'_>, task: &TaskInfo) -> Box<dyn Application> {
    let flow = usize::from(dial.hello.flow);
    match task.flows.get(flow).copied().flatten() {
        Some(Direction::Up) => Box::new(Upload::default()),
        Some(Direction::Down) => Box::new(Download::new(wish(flow, task))),
        None => Box::new(Requests::new(dial.hello.token.tag(), dial.largest_message)),
    }
}

/// Returns the wish of a flow that receives: its share of the bytes of its direction, or data for the time of the work.
fn wish(flow: usize, task: &TaskInfo) -> Wish {
    let Some(bytes) = task.most_bytes.filter(|_| task.planned.is_none()) else {
        return Wish::For(task.planned.unwrap_or(task.longest));
    };
    let is_down = |flow: &&Option<Direction>| **flow == Some(Direction::Down);
    let flows = task.flows.iter().filter(is_down).count().max(1) as u128;
    let before = task.flows[..flow].iter().filter(is_down).count() as u128;
    let cut = |flow: u128| (u128::from(bytes) * flow / flows) as u64;
    Wish::Bytes(cut(before + 1) - cut(before))
}
