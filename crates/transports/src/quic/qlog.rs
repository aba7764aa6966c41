//! Log of one end of a connection in the form of qlog 0.3 (draft-ietf-quic-qlog-main-schema and
//! draft-ietf-quic-qlog-quic-events), as JSON text sequences (RFC 7464), which viewers such as qvis open.
//!
//! It has each packet with its kind and length, with its number and frames where its key saw it ([`PacketTap`]), and
//! changes of round trips, window and losses. quinn-proto can write qlog itself (feature `qlog`), with numbers and without
//! frames; that needs nine more crates, one of which changes the order of all JSON of this program.
//!
//! Other protocols have no files. A log is for inspecting a connection; its cost is part of the figures.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::connection::ConnectionLook;
use super::frames::number;
use super::tap::{PacketTap, TappedPacket};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Side;
use deadheat_datapath::datapath::policer::Way;
use deadheat_datapath::transport::userspace::Opening;

/// Most files of one end of a trial, for its flows and the repetitions of a trial.
const MOST_FILES: u32 = 10_000;

/// Byte in front of each JSON text of a sequence (RFC 7464, 2.2).
const SEPARATOR: char = '\u{1e}';

/// Open log file.
pub(super) struct Qlog {
    file: File,
    tap: PacketTap,
    name: String,
    kept: String,
    side: Side,
    /// Time of the first event, the reference of all others.
    began: Option<Nanos>,
    /// Time of the last event; no later event has an earlier time. A datagram has the time of its arrival, and the
    /// event before it may be slightly later.
    latest: Nanos,
    last: Metrics,
    failed: Option<String>,
}

/// State of recovery, logged when it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Metrics {
    smoothed_rtt_ns: u64,
    min_rtt_ns: u64,
    window: u64,
    lost: (u64, u64),
}

impl Qlog {
    /// Creates the file of this end, beside the name that was typed: `quic.sqlog` becomes `quic-00c0ffee-near.sqlog`,
    /// with a mark of the trial, and `quic-00c0ffee-near-2.sqlog` if that exists already. No file is replaced.
    ///
    /// # Errors
    /// Error of the system, with the name of the file.
    pub(super) fn create(typed: &str, opening: &Opening<'_>) -> io::Result<Qlog> {
        let side = opening.side;
        for number in 1..=MOST_FILES {
            let path = named(typed, opening.token.tag(), side, number);
            let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Qlog::new(file, &path, side)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(named(e)),
            }
        }
        let full = format!("{typed}: {MOST_FILES} files of this trial are there; remove them");
        Err(io::Error::new(io::ErrorKind::AlreadyExists, full))
    }

    fn new(file: File, path: &Path, side: Side) -> Qlog {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Qlog {
            file,
            tap: PacketTap::default(),
            name,
            kept: String::new(),
            side,
            began: None,
            latest: Nanos::ZERO,
            last: Metrics::default(),
            failed: None,
        }
    }

    /// Returns the tap for the keys of its connection.
    pub(super) fn tap(&self) -> &PacketTap {
        &self.tap
    }

    /// Returns the name of its file, as an option in effect.
    pub(super) fn effective(&self) -> String {
        match &self.failed {
            None => format!("on ({})", self.name),
            Some(why) => format!("on ({}, which is incomplete: {why})", self.name),
        }
    }

    /// Logs the packets of datagrams, all of `size` bytes but the last. A packet that no key took, because it
    /// cannot be decrypted yet, has neither number nor frames.
    pub(super) fn datagrams(&mut self, now: Nanos, way: Way, datagrams: &[u8], size: usize) {
        let name = match way {
            Way::Sent => "transport:packet_sent",
            Way::Received => "transport:packet_received",
        };
        let mut seen: VecDeque<TappedPacket> = self.tap.take().into();
        for (kind, length) in datagrams.chunks(size.max(1)).flat_map(packets) {
            let is_it =
                |own: &TappedPacket| (own.direction, own.kind, own.length) == (way, kind, length);
            let own = seen.iter().position(is_it).and_then(|at| seen.remove(at));
            let (number, frames) = own.map_or_else(Default::default, |own| {
                (
                    format!(",\"packet_number\":{}", own.number),
                    format!(",\"frames\":[{}]", own.frames),
                )
            });
            let data = format!(
                "{{\"header\":{{\"packet_type\":\"{kind}\"{number}}},\"raw\":{{\"length\":{length}}}{frames}}}"
            );
            self.event(now, name, &data);
        }
    }

    /// Logs changes of the state of recovery.
    pub(super) fn look(&mut self, now: Nanos, look: &ConnectionLook) {
        let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let is = Metrics {
            smoothed_rtt_ns: ns(look.rtt),
            min_rtt_ns: look.min_rtt.map_or(0, ns),
            window: look.cwnd,
            lost: (look.lost_packets, look.lost_bytes),
        };
        let was = std::mem::replace(&mut self.last, is);
        let changed = [
            (is.smoothed_rtt_ns != was.smoothed_rtt_ns, "smoothed_rtt", ms(is.smoothed_rtt_ns)),
            (is.min_rtt_ns != was.min_rtt_ns, "min_rtt", ms(is.min_rtt_ns)),
            (is.window != was.window, "congestion_window", is.window.to_string()),
        ];
        let changed = changed.iter().filter(|(changed, ..)| *changed);
        let data: Vec<String> =
            changed.map(|(_, name, value)| format!("\"{name}\":{value}")).collect();
        if !data.is_empty() {
            self.event(now, "recovery:metrics_updated", &format!("{{{}}}", data.join(",")));
        }
        if is.lost != was.lost {
            let packets = is.lost.0.saturating_sub(was.lost.0);
            let bytes = is.lost.1.saturating_sub(was.lost.1);
            // An event `recovery:packet_lost` needs the number of its packet, which is unknown here.
            let data = format!("{{\"packets\":{packets},\"bytes\":{bytes}}}");
            self.event(now, "deadheat:packets_lost", &data);
        }
    }

    fn event(&mut self, now: Nanos, name: &str, data: &str) {
        let now = now.max(self.latest);
        self.latest = now;
        let began = match self.began {
            Some(began) => began,
            None => {
                self.kept.push_str(&header(self.side, now));
                *self.began.insert(now)
            }
        };
        let time = ms((now - began).0);
        self.kept.push_str(&format!(
            "{SEPARATOR}{{\"time\":{time},\"name\":\"{name}\",\"data\":{data}}}\n"
        ));
    }

    /// Writes the logged events to the file, so that none is missing if the process is killed. A failed write is not
    /// repeated, and shown with the options.
    pub(super) fn write(&mut self) {
        if self.failed.is_none()
            && let Err(e) = self.file.write_all(self.kept.as_bytes())
        {
            self.failed = Some(e.to_string());
        }
        self.kept.clear();
    }
}

/// Returns exact milliseconds.
fn ms(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000)
}

/// Returns the first text of a sequence. Times are relative to the first event; its time on the host's clock
/// (CLOCK_MONOTONIC), or in virtual time, is the reference: the same clock for both ends on one host.
fn header(side: Side, began: Nanos) -> String {
    let (name, kind) = match side {
        Side::Near => ("near", "client"),
        Side::Far => ("far", "server"),
    };
    format!(
        "{SEPARATOR}{{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"title\":\"deadheat\",\"trace\":{{\
         \"vantage_point\":{{\"name\":\"{name}\",\"type\":\"{kind}\"}},\"common_fields\":{{\
         \"protocol_type\":[\"QUIC\"],\"time_format\":\"relative\",\"reference_time\":{}}}}}}}\n",
        ms(began.0)
    )
}

/// Returns the name of a file.
fn named(typed: &str, tag: u32, side: Side, number: u32) -> PathBuf {
    let path = Path::new(typed);
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map_or("sqlog".into(), |e| e.to_string_lossy());
    let side = match side {
        Side::Near => "near",
        Side::Far => "far",
    };
    let number = if number == 1 { String::new() } else { format!("-{number}") };
    path.with_file_name(format!("{stem}-{tag:08x}-{side}{number}.{extension}"))
}

/// Returns kind and length of each packet of a datagram. Both are unencrypted in a long header (RFC 9000, 17.2); a
/// packet with a short header extends to the end (12.2).
fn packets(datagram: &[u8]) -> Vec<(&'static str, usize)> {
    let mut found = Vec::new();
    let mut rest = datagram;
    while let Some(first) = rest.first() {
        let (kind, length) = match first >> 6 {
            // An end may clear the second bit, if the other understands that (RFC 9287), as quinn does by chance.
            0b00 | 0b01 => ("1RTT", rest.len()),
            _ => long(rest).unwrap_or(("unknown", rest.len())),
        };
        found.push((kind, length));
        rest = rest.get(length..).unwrap_or_default();
    }
    found
}

/// Reads the long header at the start of `bytes`; `None` if it is malformed.
fn long(bytes: &[u8]) -> Option<(&'static str, usize)> {
    let kind = ["initial", "0RTT", "handshake", "retry"][usize::from(bytes[0] >> 4 & 3)];
    if bytes.get(1..5)? == [0; 4] {
        return Some(("version_negotiation", bytes.len()));
    }
    let mut at = 5;
    for _ in 0..2 {
        at += 1 + usize::from(*bytes.get(at)?);
    }
    match kind {
        "retry" => return Some((kind, bytes.len())),
        "initial" => {
            let token = number(bytes, &mut at)?;
            at = at.checked_add(usize::try_from(token).ok()?)?;
        }
        _ => {}
    }
    let length = usize::try_from(number(bytes, &mut at)?).ok()?.checked_add(at)?;
    (length <= bytes.len()).then_some((kind, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a long header of these types, with connection IDs of 8 and 4 bytes, and `len` bytes behind it.
    fn packet(first: u8, token: &[u8], len: usize) -> Vec<u8> {
        let mut packet = vec![first, 0, 0, 0, 1, 8];
        packet.extend([1; 8]);
        packet.push(4);
        packet.extend([2; 4]);
        packet.extend(token);
        packet.extend([0x40 | (len >> 8) as u8, len as u8]);
        packet.extend(vec![9; len]);
        packet
    }

    #[test]
    fn packets_of_a_datagram_are_told_apart() {
        let initial = packet(0xc3, &[0], 300);
        let handshake = packet(0xe1, &[], 80);
        let mut datagram = [initial.clone(), handshake.clone()].concat();
        datagram.extend([0x41; 33]);
        let expected = [("initial", initial.len()), ("handshake", handshake.len()), ("1RTT", 33)];
        assert_eq!(packets(&datagram), expected);
        let with_token = packet(0xc0, &[3, 7, 7, 7], 100);
        assert_eq!(packets(&with_token), [("initial", with_token.len())]);
        let early = packet(0xd0, &[], 70);
        assert_eq!(packets(&early), [("0RTT", early.len())]);
    }

    #[test]
    fn what_makes_no_sense_is_unknown_and_no_panic() {
        assert_eq!(packets(&[]), []);
        assert_eq!(packets(&[0x80, 0, 0, 0, 0, 1]), [("version_negotiation", 6)]);
        let whole = packet(0xc3, &[0], 300);
        for len in 1..whole.len() {
            assert_eq!(packets(&whole[..len]), [("unknown", len)]);
        }
        let longest = [&[0xc0, 0, 0, 0, 1, 0, 0, 0xff][..], &[0xff; 20]].concat();
        assert_eq!(packets(&longest), [("unknown", 28)]);
        assert_eq!(packets(&[0; 5]), [("1RTT", 5)], "the fixed bit may be cleared");
    }

    #[test]
    fn files_are_named_after_trial_and_end() {
        let name = |typed, side, number| named(typed, 0xc0ffee, side, number);
        assert_eq!(name("a/q.sqlog", Side::Near, 1), Path::new("a/q-00c0ffee-near.sqlog"));
        assert_eq!(name("q", Side::Far, 3), Path::new("q-00c0ffee-far-3.sqlog"));
    }
}
