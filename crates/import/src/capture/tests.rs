//! Captures of a conversation that is known, at several places of its path, in both formats, and damaged.

use std::io::Cursor;

use etherparse::{PacketBuilder, TcpHeader, TcpOptionElement};

use super::*;
use crate::foreign_file::ForeignFile;
use deadheat_records::trial::Record;

/// Time of a packet from end to end, in nanoseconds, and the first number of the client's data.
const DELAY: u64 = 50_000_000;
const FIRST: u32 = u32::MAX - 5_000;
const MILLI: u64 = 1_000_000;

/// Place at which a packet is lost.
#[derive(Clone, Copy, PartialEq)]
enum Lost {
    Not,
    BeforeCapture,
    BehindCapture,
}

/// Conversation of a client, which sends, and a server, which acknowledges, as seen at a place between them.
struct Conversation {
    /// Share of the path between the client and the capture.
    place: f64,
    window: u16,
    packets: Vec<(u64, Vec<u8>)>,
}

impl Conversation {
    fn new(place: f64, window: u16) -> Conversation {
        let mut own = Conversation { place, window, packets: Vec::new() };
        let mss = [TcpOptionElement::MaximumSegmentSize(1_000), TcpOptionElement::WindowScale(0)];
        let syn =
            TcpHeader { syn: true, ..TcpHeader::new(4_000, 80, FIRST.wrapping_sub(1), window) };
        own.put(0, [true, true], Conversation::with(syn, &mss), 0);
        let answer = TcpHeader { syn: true, ..TcpHeader::new(80, 4_000, 77, window) };
        own.put(
            50 * MILLI,
            [false, true],
            Conversation::with(Conversation::acks(answer, FIRST), &mss),
            0,
        );
        own.sends(100 * MILLI, 0, 0, Lost::Not);
        own
    }

    fn with(mut header: TcpHeader, options: &[TcpOptionElement]) -> TcpHeader {
        header.set_options(options).unwrap();
        header
    }

    fn acks(mut header: TcpHeader, number: u32) -> TcpHeader {
        (header.ack, header.acknowledgment_number) = (true, number);
        header
    }

    /// Adds a packet that leaves its end at this time, if it is seen; `ways` is of the client, and true if it passes.
    fn put(&mut self, at: u64, [is_up, is_seen]: [bool; 2], header: TcpHeader, len: usize) {
        let share = if is_up { self.place } else { 1.0 - self.place };
        let ends =
            if is_up { [[10, 0, 0, 1], [10, 0, 0, 2]] } else { [[10, 0, 0, 2], [10, 0, 0, 1]] };
        let builder = PacketBuilder::ipv4(ends[0], ends[1], 64).tcp_header(header);
        let mut bytes = Vec::new();
        builder.write(&mut bytes, &vec![0; len]).unwrap();
        if is_seen {
            self.packets.push((at + (DELAY as f64 * share) as u64, bytes));
        }
    }

    /// Sends bytes of the client from this offset.
    fn sends(&mut self, at: u64, offset: u32, len: usize, lost: Lost) {
        let header = TcpHeader::new(4_000, 80, FIRST.wrapping_add(offset), self.window);
        let header = Conversation::acks(header, 78);
        self.put(at, [true, lost != Lost::BeforeCapture], header, len);
    }

    /// Acknowledges the client's bytes up to an offset.
    fn receives(&mut self, at: u64, offset: u32) {
        let header = TcpHeader::new(80, 4_000, 78, self.window);
        self.put(at, [false, true], Conversation::acks(header, FIRST.wrapping_add(offset)), 0);
    }

    /// Sends rounds of four segments, a round trip each, and loses the second of the sixth round.
    fn bulk(mut self, rounds: u32, lost: Lost) -> Conversation {
        let mut hole = None;
        for round in 0..rounds {
            let start = 100 * MILLI * u64::from(round + 1);
            for n in 0..4 {
                let (at, offset) = (start + u64::from(n) * MILLI, (round * 4 + n) * 1_000);
                let is_lost = lost != Lost::Not && (round, n) == (5, 1);
                self.sends(at, offset, 1_000, if is_lost { lost } else { Lost::Not });
                hole = hole.or(is_lost.then_some(offset));
                self.receives(at + DELAY, hole.unwrap_or(offset + 1_000));
            }
            if let Some(offset) = hole.filter(|_| round == 6) {
                self.sends(start + 5 * MILLI, offset, 1_000, Lost::Not);
                self.receives(start + 5 * MILLI + DELAY, (round + 1) * 4_000);
                hole = None;
            }
        }
        self
    }

    fn pcap(mut self) -> Vec<u8> {
        self.packets.sort_by_key(|(at, _)| *at);
        let mut out =
            b"\x4d\x3c\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x65\0\0\0".to_vec();
        for (at, bytes) in &self.packets {
            let at = at + 1_700_000_000_000_000_000;
            for word in
                [at / 1_000_000_000, at % 1_000_000_000, bytes.len() as u64, bytes.len() as u64]
            {
                out.extend_from_slice(&(word as u32).to_le_bytes());
            }
            out.extend_from_slice(bytes);
        }
        out
    }

    /// Returns the same as pcapng in a byte order, with two packets that the capture dropped.
    fn pcapng(mut self, word: fn(u32) -> [u8; 4]) -> Vec<u8> {
        self.packets.sort_by_key(|(at, _)| *at);
        let half = |n: u32| word(n << 16 | n)[..2].to_vec();
        let block = |kind: u32, body: &[u8]| {
            let mut body = body.to_vec();
            body.resize(body.len().next_multiple_of(4), 0);
            let len = word(body.len() as u32 + 12);
            [&word(kind)[..], &len, &body, &len].concat()
        };
        let words = |all: &[u32]| all.iter().flat_map(|n| word(*n)).collect::<Vec<u8>>();
        let version = [half(1), half(0)].concat();
        let length = u64::MAX.to_le_bytes();
        let mut out = block(0x0A0D_0D0A, &[&words(&[0x1A2B_3C4D])[..], &version, &length].concat());
        let resolution = [half(9), half(1), vec![9, 0, 0, 0]].concat();
        out.extend(block(1, &[half(101), half(0), words(&[0]), resolution].concat()));
        for (at, bytes) in &self.packets {
            let at = at + 1_700_000_000_000_000_000;
            let len = bytes.len() as u32;
            let head = words(&[0, (at >> 32) as u32, at as u32, len, len]);
            out.extend(block(6, &[head, bytes.clone()].concat()));
        }
        let mut two = words(&[0, 2]);
        if word(1) == 1_u32.to_le_bytes() {
            two.rotate_left(4);
        }
        out.extend(block(5, &[words(&[0, 0, 0]), half(5), half(8), two].concat()));
        out
    }
}

fn read_bytes(bytes: &[u8]) -> Result<FileContent, String> {
    let raw = Box::new(Cursor::new(bytes.to_vec()));
    let mut file = ForeignFile::of("x.pcap", raw).map_err(|e| e.to_string())?;
    FORMAT.read(&mut file, &mut ReaderContext::default())
}

/// The record of the only trial.
fn record(bytes: &[u8]) -> Record {
    let mut content = read_bytes(bytes).unwrap();
    assert_eq!((content.arms.len(), content.arms[0].trials.len()), (1, 1));
    content.arms[0].trials.remove(0).record
}

#[test]
fn the_same_figures_are_seen_at_each_place_of_the_path() {
    for place in [0.0, 0.3, 1.0] {
        for lost in [Lost::Not, Lost::BeforeCapture, Lost::BehindCapture] {
            if lost == Lost::BeforeCapture && place == 0.0 {
                continue;
            }
            let record = record(&Conversation::new(place, 65_000).bulk(30, lost).pcap());
            let metrics = &record.metrics;
            assert_eq!(record.connect_ns, 100 * MILLI);
            assert_eq!(metrics["rtt_p50_ns"], 1e8, "{place}");
            assert_eq!(metrics["rtt_min_ns"], 1e8, "{place}");
            assert_eq!(record.delivered_bytes, Some(120_000));
            let expected = u64::from(lost != Lost::Not);
            assert_eq!(record.retransmits, Some(expected), "{place}");
            let segments = if lost == Lost::BehindCapture { 121.0 } else { 120.0 };
            assert_eq!(metrics["lost_segments_share"], expected as f64 / segments);
            assert_eq!(metrics["reordered_count"], 0.0);
            // Behind the loss, what was sent since it waits for the repair.
            let most = if lost == Lost::Not { 4_000.0 } else { 11_000.0 };
            assert!((most - metrics["in_flight_bytes"]).abs() <= 1_000.0, "{place} {metrics:?}");
            assert!((metrics["goodput_bps"] / (120_000.0 * 8.0 / 3.0) - 1.0).abs() < 0.05);
            assert!(metrics["rwnd_limited_share"] < 0.01 && metrics["busy_share"] > 0.95);
            let word = match place {
                0.0 => "at the client",
                1.0 => "at the server",
                _ => "between the ends",
            };
            assert_eq!(record.effective["captured"], word);
        }
    }
}

#[test]
fn a_full_receive_window_is_the_limit_and_a_wide_one_is_not() {
    for place in [0.0, 0.5, 1.0] {
        let record = record(&Conversation::new(place, 4_000).bulk(30, Lost::Not).pcap());
        let share = record.metrics["rwnd_limited_share"];
        assert!(share > 0.9, "{place}: {share}");
        assert_eq!(record.metrics["receive_window_bytes"], 4_000.0);
    }
}

#[test]
fn small_segments_that_wait_for_delayed_acknowledgements_are_counted() {
    for place in [0.0, 0.5, 1.0] {
        let mut small = Conversation::new(place, 65_000);
        for n in 0..12_u32 {
            let at = 200 * MILLI + u64::from(n) * 140 * MILLI;
            small.sends(at, n * 10, 10, Lost::Not);
            small.receives(at + DELAY + 40 * MILLI, (n + 1) * 10);
        }
        let record = record(&small.pcap());
        assert_eq!(record.metrics["delayed_acks_count"], 12.0, "{place}");
        assert_eq!(record.metrics["nagle_waits_count"], 11.0, "{place}");
        assert_eq!(record.metrics["nagle_waits_ns"], 11.0 * 4e7, "{place}");
    }
}

#[test]
fn a_time_out_and_a_closed_window_have_their_times() {
    let mut own = Conversation::new(0.0, 2_000);
    own.sends(200 * MILLI, 0, 1_000, Lost::BehindCapture);
    own.sends(900 * MILLI, 0, 1_000, Lost::Not);
    own.window = 0;
    own.receives(950 * MILLI, 1_000);
    own.window = 2_000;
    // A probe of the window is no segment that was lost.
    own.sends(1_200 * MILLI, 1_000, 1, Lost::Not);
    own.receives(1_450 * MILLI, 1_000);
    own.sends(1_500 * MILLI, 1_000, 1_000, Lost::Not);
    own.receives(1_550 * MILLI, 2_000);
    let record = record(&own.pcap());
    assert_eq!((record.metrics["timeouts_count"], record.retransmits), (1.0, Some(1)));
    assert_eq!(record.metrics["zero_windows_count"], 1.0);
    assert_eq!(record.metrics["zero_windows_ns"], 5e8);
    assert_eq!(record.outages.len(), 1);
    assert_eq!(
        (record.outages[0].from_ns, record.outages[0].length_ns),
        (200 * MILLI, 800 * MILLI)
    );
}

#[test]
fn both_formats_and_byte_orders_are_the_same_capture() {
    let own = || Conversation::new(0.3, 65_000).bulk(30, Lost::BehindCapture);
    let pcap = record(&own().pcap());
    for word in [u32::to_le_bytes, u32::to_be_bytes] {
        let bytes = own().pcapng(word);
        assert_eq!(record(&bytes), pcap);
        let doubts = read_bytes(&bytes).unwrap().doubts;
        assert!(doubts[0].contains("itself dropped 2 packets"), "{doubts:?}");
    }
}

#[test]
fn a_capture_amid_a_connection_and_one_that_lacks_packets_conclude_less() {
    let mut own = Conversation::new(0.0, 65_000).bulk(30, Lost::Not);
    own.packets.drain(..25);
    let content = read_bytes(&own.pcap()).unwrap();
    let trial = &content.arms[0].trials[0];
    assert!(trial.doubts[0].starts_with("It began before the capture"), "{:?}", trial.doubts);
    assert_eq!(trial.record.retransmits, Some(0));
    assert!(!trial.record.metrics.contains_key("rwnd_limited_share"));
    let mut own = Conversation::new(0.0, 65_000).bulk(30, Lost::Not);
    own.packets.sort_by_key(|(at, _)| *at);
    own.packets
        .retain(|(at, bytes)| !(bytes.len() > 1_000 && (1_000..1_002).contains(&(at / MILLI))));
    let content = read_bytes(&own.pcap()).unwrap();
    let trial = &content.arms[0].trials[0];
    assert!(trial.doubts[0].contains("no losses are concluded"), "{:?}", trial.doubts);
    assert!(!trial.record.metrics.contains_key("lost_segments_share"));
}

#[test]
fn packets_captured_twice_count_once_and_a_clock_that_is_set_back_is_named() {
    let own = || Conversation::new(0.0, 65_000).bulk(30, Lost::Not);
    let mut twice = own();
    let again: Vec<_> =
        twice.packets.iter().map(|(at, bytes)| (at + 10_000, bytes.clone())).collect();
    twice.packets.extend(again);
    // The builder's packets have an identification of 0; acknowledgements alone are alike.
    let seen = record(&twice.pcap());
    let once = record(&own().pcap());
    assert_eq!(seen.delivered_bytes, once.delivered_bytes);
    assert_eq!((seen.retransmits, once.retransmits), (Some(0), Some(0)));
    let mut bytes = own().pcap();
    let at = bytes.len() - 56;
    bytes[at..at + 4].copy_from_slice(&1_699_999_000_u32.to_le_bytes());
    let stepped = record(&bytes);
    assert!(stepped.why_invalid.unwrap().contains("set back"));
}

#[test]
fn damaged_captures_are_refused_with_the_place_or_read_and_never_panic() {
    let own = || Conversation::new(0.3, 65_000).bulk(6, Lost::BehindCapture);
    for whole in [own().pcap(), own().pcapng(u32::to_le_bytes), own().pcapng(u32::to_be_bytes)] {
        for at in (4..whole.len()).step_by(31) {
            let _ = read_bytes(&whole[..at]);
            for value in [0, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                if let Err(said) = read_bytes(&changed) {
                    assert!(said.contains("at byte ") || said == FORMAT.nothing, "{said}");
                }
            }
        }
        let cut = read_bytes(&whole[..whole.len() - 3]).unwrap();
        let said = cut.doubts.iter().find(|own| own.contains("at byte")).unwrap();
        assert!(said.starts_with("The file ends in the middle of a packet"), "{said}");
    }
    let said = read_bytes(b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0\
                            \x06\0\0\0\xf0\xff\xff\xff").err().unwrap();
    assert_eq!(
        said,
        "at byte 28: a block of 4294967280 bytes; its length is a multiple of 4 from 12 to 16777216"
    );
}
