//! ndt7 (m-lab/ndt-server, spec/ndt7-protocol.md), M-Lab's speed test: a WebSocket over TLS that carries bulk data one way, and
//! measurements as JSON.
//!
//! ```text
//! near end                                                  server
//! GET /ndt/v7/download, Sec-WebSocket-Protocol ──▶
//!                        ◀──  binary messages of 8 KiB to 16 MiB, measurements; Close after ten seconds
//! GET /ndt/v7/upload ──▶
//! binary messages    ──▶  ◀──  measurements: bytes that its program has read
//! Close              ──▶  ◀──  Close: it has read all before
//! ```

use serde::Deserialize;

use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_base::units::Bytes;
use deadheat_contract::contract::{CountSource, Direction, PeerFacts};
use deadheat_contract::workload::TaskInfo;
use deadheat_datapath::transport::application::{MessageApplication, MessageTerms};
use deadheat_datapath::transport::far_end::{FarEnd, FarEndInfo, Locator};
use deadheat_datapath::transport::plain::{PlainProtocol, PlainTransport};
use deadheat_datapath::transport::{Conn, Dial, Effective};

#[cfg(any(test, feature = "testing"))]
pub(crate) mod reading;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::steps;

/// Server of ndt7.
pub(super) static FAR_END: FarEnd = FarEnd {
    info: FarEndInfo {
        id: "ndt7",
        label: "an ndt7 server",
        summary: "a server of M-Lab's speed test; one direction and one connection at a time, for ten seconds at most",
        port: 443,
        takes_path: true,
        over: &[PlainProtocol::WSS],
        peer: PeerFacts {
            takes_data: true,
            sends_data: true,
            ignores_boundaries: true,
            answers_requests: true,
            counts: CountSource::Confirmation,
            ..PeerFacts::OTHERS
        },
        counts: Some(
            "bytes that its program has read or sent so far, and its kernel's view of the connection (TCP_INFO)",
        ),
        unknown: &[
            "when bytes of an upload arrived there: its time is that of the far kernel's acknowledgements, and the far program's \
             answer to the Close frame confirms it whole",
            "how much it sent of a download that was stopped after its time, beyond what arrived",
            "cost and options of the far end, but for its congestion control, which should be BBR",
        ],
        variables: None,
    },
    misfit: Some(misfit),
    dial,
    remarks: None,
    session: None,
};

/// Protocol of the messages.
const SUBPROTOCOL: &str = "net.measurementlab.ndt.v7";

/// Largest message of a server: 16 MiB, and room for the text messages of later versions.
const LARGEST: usize = (16 << 20) + 4096;

/// Shortest and longest message that this end sends.
const MESSAGE: [usize; 2] = [1 << 13, 1 << 20];

/// Messages grow with the bytes that were sent: each is at most this part of them.
const PART: u64 = 16;

/// Longest work: the server ends each test after ten seconds.
const MOST: Nanos = Nanos::from_secs(9);

fn misfit(_over: PlainProtocol, task: &TaskInfo) -> Option<String> {
    let most = MOST.0 / 1_000_000_000;
    if task.flows.iter().any(Option::is_none) {
        return Some("ndt7 carries bulk data, and no requests; bulk fits".to_owned());
    }
    if task.flows.len() > 1 {
        return Some("ndt7 measures one connection and one direction at a time".to_owned());
    }
    match task.planned {
        None => Some(format!("ndt7 measures for a time; give time, of {most}s at most")),
        Some(planned) if planned > MOST => Some(format!(
            "an ndt7 server ends each test after ten seconds; give time and warmup of {most}s at most together"
        )),
        Some(_) => None,
    }
}

fn dial(
    inside: &PlainTransport,
    dial: &Dial<'_>,
    task: &TaskInfo,
    locator: &Locator,
) -> Result<Box<dyn Conn>> {
    let is_up = task.flows.first() == Some(&Some(Direction::Up));
    let (test, way) = if is_up { ("upload", Direction::Up) } else { ("download", Direction::Down) };
    let terms = MessageTerms {
        name: locator.name.clone(),
        pin: locator.pin.clone(),
        authority: locator.authority.clone(),
        resource: resource(&locator.path, test)?,
        subprotocol: SUBPROTOCOL,
        largest: LARGEST,
        way,
        stops_after: task.planned.filter(|_| !is_up),
        application: Box::new(Measurements { way, last: None }),
    };
    inside.open_messages(dial, terms)
}

/// Returns the path of a test, with the query that was typed: an access token of a fleet that hands them out.
///
/// # Errors
/// [`Error::Usage`] for another path.
fn resource(typed: &str, test: &str) -> Result<String> {
    let (path, query) = typed.split_once('?').unwrap_or((typed, ""));
    let own = ["", "/", "/ndt/v7/download", "/ndt/v7/upload"];
    if !own.contains(&path) {
        return Err(Error::usage(format!(
            "--to ndt7://…{path}: ndt7 has paths of its own; leave it out, or give what follows ? in the server's URL"
        )));
    }
    let more = if query.is_empty() { String::new() } else { format!("&{query}") };
    Ok(format!("/ndt/v7/{test}?client_name=deadheat{more}"))
}

/// Measurement of a server; each part is optional.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Measurement {
    app_info: Option<AppInfo>,
    #[serde(rename = "TCPInfo")]
    tcp_info: Option<TcpFacts>,
}

/// Counts of the far program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct AppInfo {
    num_bytes: f64,
    /// Microseconds since the start.
    elapsed_time: f64,
}

/// Facts of the far kernel that are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct TcpFacts {
    /// Microseconds.
    #[serde(rename = "MinRTT")]
    min_rtt: f64,
    bytes_sent: f64,
    bytes_retrans: f64,
}

/// Measurements of a test.
struct Measurements {
    way: Direction,
    last: Option<Measurement>,
}

impl MessageApplication for Measurements {
    fn text(&mut self, message: &str, sent: u64) -> std::result::Result<(), String> {
        let measurement: Measurement = deadheat_base::json::read(message.as_bytes())
            .map_err(|e| format!("it sent a measurement that is none: {e}"))?;
        if let (Some(app), Direction::Up) = (measurement.app_info, self.way)
            && app.num_bytes > sent as f64
        {
            return Err(format!(
                "it counts {:.0} bytes received, and {sent} were sent",
                app.num_bytes
            ));
        }
        self.last = Some(measurement);
        Ok(())
    }

    fn next_len(&self, sent: u64) -> usize {
        let [least, most] = MESSAGE;
        let part = usize::try_from(sent / PART).unwrap_or(most);
        // Powers of two, as other clients send.
        let len = if part < least { least } else { 1 << part.ilog2() };
        len.min(most)
    }

    fn awaits(&self) -> String {
        match self.way {
            Direction::Up => "before the answer to the Close frame of the upload".to_owned(),
            Direction::Down => "before the end of the download".to_owned(),
        }
    }

    fn effective(&self) -> Effective {
        let Some(Measurement { app_info, tcp_info }) = &self.last else {
            return Effective::default();
        };
        let mut facts = Vec::new();
        if let Some(app) = app_info {
            let did = if self.way == Direction::Up { "read" } else { "sent" };
            let (bytes, secs) = (Bytes(app.num_bytes.max(0.0) as u64), app.elapsed_time / 1e6);
            facts.push(format!("{bytes} {did} after {secs:.2} s"));
        }
        if let Some(tcp) = tcp_info {
            facts.push(format!("RTT at least {:.1} ms", tcp.min_rtt / 1e3));
            if tcp.bytes_sent > 0.0 {
                let share = 100.0 * tcp.bytes_retrans / tcp.bytes_sent;
                facts.push(format!("{share:.2} % sent again"));
            }
        }
        let name = "far_measurement".to_owned();
        std::iter::once((name, facts.join(", "))).filter(|_| !facts.is_empty()).collect()
    }
}
