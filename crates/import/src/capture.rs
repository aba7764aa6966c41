//! Captures of packets, pcap and pcapng: each connection is a trial, and the connections of a client to a service are trials
//! of one contender. A capture is read once, in bounded memory.
//!
//! | file | content |
//! |---|---|
//! | `blocks` | packets of a file, with their times and interfaces |
//! | `packet` | headers of a packet |
//! | `connection` | connections, their ends, packets captured twice |
//! | `way`, `sequence` | a direction of TCP: losses, round trips, bytes in flight, windows |
//! | `quic` | visible parts of QUIC |
//! | `points` | counters over time |
//! | `figures` | the trial of a connection |

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, UNIX_EPOCH};

use super::foreign_file::ForeignFile;
use super::{Arm, FileContent, Format, NONE, ReaderContext};
use deadheat_contract::measurements::{Role, Unit};

mod blocks;
mod connection;
mod figures;
mod packet;
mod points;
mod quic;
mod sequence;
mod way;

use blocks::CaptureReader;
pub(crate) use blocks::MAGICS;
use connection::{Connection, Connections, MOST_CONNECTIONS};
use packet::{Packet, Unusable};

/// Largest number of contenders: those with the most bytes.
const MOST_CONTENDERS: usize = 32;
/// Time by which packets of an interface may be out of order in a file without a step of the clock.
const OUT_OF_ORDER_NS: u64 = 20_000_000;

/// Sentence about the order of connections.
const AS_CAPTURED: &str = "Connections ran in the order of the capture, which is not random, and those at the same time \
                           shared their path.";

/// The format.
pub(super) static FORMAT: Format = Format {
    id: "capture",
    summary: "pcap and pcapng of tcpdump, tshark and --pcap: each connection of TCP or QUIC is a trial",
    read: Some(read),
    unit: "ns, bit/s",
    trial: "a connection",
    nothing: "there is no connection of TCP or UDP in it",
    ..NONE
};

fn read(file: &mut ForeignFile, context: &mut ReaderContext<'_>) -> Result<FileContent, String> {
    let mut reader = CaptureReader::new(file.bytes())?;
    let mut gathered = CaptureContent::default();
    while let Some(frame) = reader.next()? {
        gathered.clock(frame.interface, frame.at_ns);
        match Packet::of(&frame) {
            Ok(packet) => {
                let from = (frame.section, frame.title);
                gathered.connections.take(&packet, from, gathered.steps);
            }
            Err(why) => *gathered.unusable.entry(why).or_default() += 1,
        }
    }
    let mut content = FileContent {
        program: reader
            .application
            .take()
            .map(|name| deadheat_base::foreign::short(&name))
            .unwrap_or_default(),
        ..FileContent::default()
    };
    if let Some(dropped) = reader.dropped().filter(|dropped| *dropped > 0) {
        content
            .doubts
            .push(format!("The capture itself dropped {dropped} packets, which are in no figure."));
    } else if reader.dropped().is_none() {
        content.lacks("packets that the capture dropped");
    }
    if let Some(place) = reader.cut_at {
        content.doubts.push(format!("The file ends in the middle of a packet, at byte {place}."));
    }
    gathered.into_content(content, context)
}

/// Content of a capture, read so far.
#[derive(Default)]
struct CaptureContent {
    connections: Connections,
    unusable: BTreeMap<Unusable, u64>,
    /// Latest time of each interface, and the number of times at which a clock was set back.
    latest: BTreeMap<u32, u64>,
    steps: u64,
}

impl CaptureContent {
    /// Notes the time of a packet.
    fn clock(&mut self, interface: u32, at_ns: u64) {
        if self.latest.len() > MOST_CONNECTIONS {
            self.latest.clear();
        }
        let latest = self.latest.entry(interface).or_insert(at_ns);
        self.steps += u64::from(at_ns.saturating_add(OUT_OF_ORDER_NS) < *latest);
        *latest = at_ns;
    }

    /// Returns the content of the file: contenders with the most bytes, and sentences about the rest.
    fn into_content(
        mut self,
        mut content: FileContent,
        context: &mut ReaderContext<'_>,
    ) -> Result<FileContent, String> {
        let mut all = std::mem::take(&mut self.connections.all);
        all.iter_mut().for_each(Connection::finish);
        let before = all.len();
        all.retain(|own| !own.is_short_exchange());
        let short = before - all.len();
        self.remarks(short, &mut content);
        let names = named(&all);
        let chosen = largest(&all, &names);
        let services = names.iter().collect::<BTreeSet<_>>().len();
        if chosen.len() < services {
            content.doubts.push(format!(
                "Left out: {} services with fewer bytes than the {MOST_CONTENDERS} largest.",
                services - chosen.len()
            ));
        }
        let mut own = all.iter().zip(&names).filter(|(_, name)| chosen.contains(*name));
        let is_mixed = own.clone().any(|(own, _)| !own.is_tcp());
        let rates = if is_mixed { Role::Claim } else { Role::Descriptive };
        own.try_for_each(|(own, name)| {
            let trial = own.trial(rates, context)?;
            if trial.record.started_ms > 0 {
                let at = UNIX_EPOCH.checked_add(Duration::from_millis(trial.record.started_ms));
                content.began = content.began.or(at).min(at);
            }
            content.add(name, trial);
            Ok::<(), String>(())
        })?;
        if content.arms.len() > 1 {
            content.doubts.push(AS_CAPTURED.to_owned());
        }
        for Arm { metrics, trials, .. } in &mut content.arms {
            // Nothing is said of what never happened, but losses.
            let happened = |name: &str| {
                trials
                    .iter()
                    .any(|own| own.record.metrics.get(name).is_some_and(|value| *value > 0.0))
            };
            metrics.retain(|own| own.unit == Unit::Share || happened(&own.name));
        }
        Ok(content.unnamed_alone())
    }

    /// Adds the sentences about packets that are in no trial.
    fn remarks(&self, short: usize, content: &mut FileContent) {
        let (packets, bytes) = self.connections.left_out;
        let mut parts = Vec::new();
        if packets > 0 {
            parts.push(format!(
                "{packets} packets ({bytes} bytes) of connections behind the first {MOST_CONNECTIONS}"
            ));
        }
        if short > 0 {
            parts.push(format!("{short} short exchanges over UDP"));
        }
        for (why, count) in &self.unusable {
            parts.push(match why {
                Unusable::Link(link) => {
                    format!("{count} packets of link type {link}, which is not read")
                }
                Unusable::Other => format!("{count} packets of other protocols"),
                Unusable::Fragment => format!("{count} fragments"),
                Unusable::Cut => format!("{count} packets cut or damaged within their headers"),
            });
        }
        if !parts.is_empty() {
            content.doubts.push(format!("Left out: {}.", parts.join(", ")));
        }
    }
}

/// Returns the contender of each connection: its service, with the client where several use it.
fn named(all: &[Connection]) -> Vec<String> {
    let mut clients: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
    for own in all {
        clients.entry(own.service()).or_default().insert(own.ends[0].ip());
    }
    let name = |own: &Connection| {
        let service = own.service();
        let is_shared =
            own.title.is_none() && clients.get(&service).is_some_and(|own| own.len() > 1);
        if is_shared {
            format!("{service} from {}", own.ends[0].ip().to_canonical())
        } else {
            service
        }
    };
    all.iter().map(name).collect()
}

/// Returns the names with the most bytes.
fn largest<'a>(all: &[Connection], names: &'a [String]) -> BTreeSet<&'a String> {
    let mut bytes: BTreeMap<&String, u64> = BTreeMap::new();
    for (own, name) in all.iter().zip(names) {
        *bytes.entry(name).or_default() += own.bytes.iter().sum::<u64>();
    }
    let mut sorted: Vec<(&String, u64)> = bytes.into_iter().collect();
    sorted.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    sorted.into_iter().take(MOST_CONTENDERS).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests;
