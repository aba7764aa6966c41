//! Capture of a trial as a section of a pcapng file (IETF draft-ietf-opsawg-pcapng): an interface for each direction of
//! each link, times in nanoseconds, and in each packet's comment what the emulator did with it.
//!
//! A packet is shown as it entered the link, at that time. A packet that is under way at the end is not in the capture.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use super::log::{LoggedPacket, Outcome, PacketLog, SNAP};
use crate::impair::packet::Cause;
use crate::measurements::Captured;
use deadheat_base::error::{Error, Result};

/// Largest file, in bytes: a trial that would make it larger is left out.
pub const LARGEST_FILE: u64 = 1 << 30;

/// Types of blocks and options (sections 4.1 to 4.3 and 3.5).
const SECTION: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const COMMENT: u16 = 1;
const NAME: u16 = 2;
const APPLICATION: u16 = 4;
const RESOLUTION: u16 = 9;
/// `LINKTYPE_RAW`: packets begin with their IP header.
const RAW_IP: u16 = 101;

/// Trial, as the beginning of a section.
#[derive(Debug)]
pub struct Section<'a> {
    /// Title for its comment.
    pub title: &'a str,
    /// Time of the path's beginning, in nanoseconds since 1970; 0 in virtual time.
    pub began_ns: u64,
    /// Names of the directions, and the packets of each.
    pub ways: Vec<(String, PacketLog)>,
}

/// Creates an empty capture.
///
/// # Errors
/// [`Error::Usage`] if the file exists; [`Error::Setup`] if it cannot be created.
pub fn create(file: &Path) -> Result<()> {
    let made = OpenOptions::new().write(true).create_new(true).open(file);
    made.map(drop).map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => Error::usage(format!(
            "--pcap {}: it exists already, and is not replaced; remove it or name another",
            file.display()
        )),
        _ => Error::setup(format!("create the capture {}", file.display()), e),
    })
}

/// Appends a trial to a capture, whole or not at all, and returns the number of packets. A failed write is part of the
/// result, because it ends no trial.
pub fn append(file: &Path, section: &Section<'_>) -> Captured {
    let packets = |of: fn(&PacketLog) -> u64| section.ways.iter().map(|(_, log)| of(log)).sum();
    let logged: u64 = packets(|log| log.packets().len() as u64);
    let left_out: u64 = packets(|log| log.left_out);
    let bytes = encode(section);
    match write(file, &bytes) {
        Ok(true) => Captured { packets: logged, left_out, failure: None },
        Ok(false) => Captured { packets: 0, left_out: logged + left_out, failure: None },
        Err(e) => {
            let failure = Some(format!("{}: {e}", file.display()));
            Captured { packets: 0, left_out: logged + left_out, failure }
        }
    }
}

/// Writes bytes at the end of the file; returns false if it would be too large.
fn write(file: &Path, bytes: &[u8]) -> io::Result<bool> {
    let mut file: File = OpenOptions::new().write(true).open(file)?;
    let end = file.seek(SeekFrom::End(0))?;
    if end + bytes.len() as u64 > LARGEST_FILE {
        return Ok(false);
    }
    // A part of a section would make the file unreadable.
    file.write_all(bytes).inspect_err(|_| drop(file.set_len(end)))?;
    Ok(true)
}

/// Returns the section's bytes.
fn encode(section: &Section<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut comment = section.title.to_owned();
    for (name, log) in &section.ways {
        let more = [
            (log.left_out, "not in this capture, for which the log was full"),
            (log.refused, "never entered, for which the emulator had no memory"),
        ];
        for (count, what) in more.into_iter().filter(|(count, _)| *count > 0) {
            // Writing to a String cannot fail.
            let _ = write!(comment, "; {name}: {count} packets {what}");
        }
    }
    // Byte order, version 1.0, and a length that is not given.
    let mut head = Vec::new();
    head.extend_from_slice(&0x1A2B_3C4D_u32.to_le_bytes());
    head.extend_from_slice(&[1, 0, 0, 0]);
    head.extend_from_slice(&u64::MAX.to_le_bytes());
    option(&mut head, COMMENT, comment.as_bytes());
    option(&mut head, APPLICATION, concat!("deadheat ", env!("CARGO_PKG_VERSION")).as_bytes());
    block(&mut out, SECTION, head);
    for (name, _) in &section.ways {
        let mut interface = Vec::new();
        interface.extend_from_slice(&RAW_IP.to_le_bytes());
        interface.extend_from_slice(&[0, 0]);
        interface.extend_from_slice(&(SNAP as u32).to_le_bytes());
        option(&mut interface, NAME, name.as_bytes());
        option(&mut interface, RESOLUTION, &[9]);
        block(&mut out, INTERFACE, interface);
    }
    let mut all: Vec<(u64, usize, &LoggedPacket)> = Vec::new();
    for (way, (_, log)) in section.ways.iter().enumerate() {
        all.extend(log.packets().iter().map(|packet| (packet.arrived, way, packet)));
    }
    all.sort_by_key(|(arrived, ..)| *arrived);
    for (arrived, way, packet) in all {
        let bytes = section.ways[way].1.bytes(packet);
        let at = section.began_ns.saturating_add(arrived);
        let mut body = Vec::with_capacity(bytes.len() + 128);
        for word in [way as u32, (at >> 32) as u32, at as u32, bytes.len() as u32, packet.len] {
            body.extend_from_slice(&word.to_le_bytes());
        }
        padded(&mut body, bytes);
        option(&mut body, COMMENT, fate(packet).as_bytes());
        block(&mut out, PACKET, body);
    }
    out
}

/// Appends a block with its lengths; the body ends its options here.
fn block(out: &mut Vec<u8>, kind: u32, mut body: Vec<u8>) {
    body.extend_from_slice(&[0; 4]);
    let len = (body.len() as u32 + 12).to_le_bytes();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&len);
    out.extend_from_slice(&body);
    out.extend_from_slice(&len);
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    padded(out, value);
}

/// Appends bytes, filled up to a multiple of 4.
fn padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Describes the outcome of a packet: `delivered after 25000000 ns, 1200 ns of it in the queue, marked`.
fn fate(packet: &LoggedPacket) -> String {
    let took = packet.at - packet.arrived.min(packet.at);
    let mut text = match packet.outcome {
        Outcome::Delivered(_) => format!("delivered after {took} ns"),
        Outcome::Dropped(cause) => {
            let why = match cause {
                Cause::Blocked => "blocked by a firewall or NAT",
                Cause::Lost => "lost: loss model",
                Cause::Full => "lost: queue full",
                Cause::Early => "lost: dropped early by the queue",
                Cause::Down => "lost: link down",
            };
            format!("{why}, after {took} ns")
        }
        Outcome::Refused => format!("lost: device, outside the model, after {took} ns"),
    };
    if packet.queued > 0 {
        let _ = write!(text, ", {} ns of it in the queue", packet.queued);
    }
    if let Outcome::Delivered(changes) = packet.outcome {
        if changes.marked {
            text.push_str(", marked");
        }
        if let Some(bit) = changes.flipped {
            let _ = write!(text, ", bit {bit} flipped");
        }
        if packet.overtaken > 0 {
            let _ = write!(text, ", reordered: overtaken by {} places", packet.overtaken);
        }
    }
    if packet.is_copy {
        text.push_str(", copy");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::impair::Channel;
    use crate::impair::packet::{Packet, Place};
    use crate::network::Network;
    use crate::observe::{Capture, Observation, Observer, Seen};
    use deadheat_base::ecn::Codepoint;
    use deadheat_base::ends::Direction;
    use deadheat_base::time::Nanos;

    /// Packet that was read back: its interface, time, length and comment.
    type Read = (u32, u64, u32, String);

    /// Reads the packets of a capture of one byte order, and checks all lengths.
    fn read(mut bytes: &[u8]) -> Vec<Read> {
        let word =
            |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let mut packets = Vec::new();
        while !bytes.is_empty() {
            let (kind, len) = (word(bytes, 0), word(bytes, 4) as usize);
            assert_eq!((word(bytes, len - 4) as usize, len % 4), (len, 0));
            let body = &bytes[8..len - 4];
            if kind == PACKET {
                let at = u64::from(word(body, 4)) << 32 | u64::from(word(body, 8));
                let option = 20 + (word(body, 12) as usize).next_multiple_of(4);
                let length = usize::from(u16::from_le_bytes([body[option + 2], body[option + 3]]));
                let comment = &body[option + 4..][..length];
                let comment = String::from_utf8(comment.to_vec()).unwrap();
                packets.push((word(body, 0), at, word(body, 16), comment));
            }
            bytes = &bytes[len..];
        }
        packets
    }

    /// Sends packets through the channel of a link, and returns the account and what was captured.
    fn captured(typed: &str, packets: u64) -> (crate::measurements::PacketOutcomes, Vec<Read>) {
        let network = Network::parse(typed).unwrap();
        let place = Place { seed: 7, link: 0, direction: Direction::Up };
        let mut channel = Channel::new(&network.links[0].up, place);
        let capture = Capture { file: "unused".into(), title: "test".into() };
        let observation = Observation { capture: Some(capture), wire: false };
        let mut observer = Observer::new(&observation, 1).unwrap().unwrap();
        let mut take = |channel: &mut Channel<u64>, until| {
            while let Some(departure) = channel.depart(until) {
                let bytes = 100 + departure.handle as u32;
                let seen = Seen { flow: 0, bytes, is_ack: false };
                observer.departed(&departure, seen, |room| room.extend_from_slice(&[0x45; 500]));
            }
        };
        for n in 0..packets {
            let now = Nanos(n * 1_000_000);
            take(&mut channel, now);
            let codepoint = if n % 2 == 0 { Codepoint::Ect0 } else { Codepoint::NotEct };
            let packet = Packet { codepoint, ..Packet::of_bytes(100 + n as u32) };
            channel.arrive(now, &packet, n);
        }
        take(&mut channel, Nanos::from_secs(3_600));
        let log = observer.take_log().unwrap();
        let section = Section { title: "t", began_ns: 5, ways: vec![("up".into(), log)] };
        (channel.fates(), read(&encode(&section)))
    }

    #[test]
    fn every_fate_of_the_account_is_in_the_capture_and_no_other() {
        let typed = "delay=20ms,reordering-jitter=5ms,loss=10%,duplicate=5%,corrupt=3%,rate=2mbit,queue=8pkt,down=300ms-350ms";
        let (fates, read) = captured(typed, 900);
        let count =
            |what: &str| read.iter().filter(|packet| packet.3.contains(what)).count() as u64;
        assert!(fates.lost > 50 && fates.full > 50 && fates.down > 10, "{fates:?}");
        assert_eq!(count("lost: loss model"), fates.lost);
        assert_eq!(count("lost: queue full"), fates.full);
        assert_eq!(count("lost: link down"), fates.down);
        assert_eq!(count("delivered"), fates.delivered);
        assert_eq!(count("reordered"), fates.reordered);
        assert_eq!(count(", copy"), fates.duplicated);
        assert_eq!(read.len() as u64, fates.arrived + fates.duplicated);
        assert!(fates.reordered > 0 && fates.duplicated > 0 && count("flipped") > 0);
        // In order of arrival, at their times; each packet's length is its own.
        assert!(read.is_sorted_by_key(|packet| packet.1));
        for (_, at, length, _) in &read {
            assert_eq!(at - 5, u64::from(length - 100) * 1_000_000);
        }
    }

    #[test]
    fn marks_and_times_in_the_queue_are_told() {
        let (fates, read) = captured("rate=400kbit,queue=1MB,aqm=codel,ecn=on,delay=1ms", 900);
        let count =
            |what: &str| read.iter().filter(|packet| packet.3.contains(what)).count() as u64;
        assert!(fates.marked > 0 && fates.early > 0, "{fates:?}");
        assert_eq!((count("marked"), count("dropped early")), (fates.marked, fates.early));
        assert!(count("in the queue") > 800);
    }

    #[test]
    fn a_file_is_never_replaced_and_a_full_disk_leaves_it_as_it_was() {
        let file = std::env::temp_dir().join(format!("deadheat-{}.pcapng", std::process::id()));
        create(&file).unwrap();
        let said = create(&file).unwrap_err().to_string();
        assert!(said.contains("exists already") && said.contains("name another"), "{said}");
        let section =
            |title| Section { title, began_ns: 0, ways: vec![("up".into(), PacketLog::new(1))] };
        assert_eq!(append(&file, &section("a")), Captured::default());
        let length = std::fs::metadata(&file).unwrap().len();
        append(&file, &section("b"));
        assert_eq!(std::fs::metadata(&file).unwrap().len(), 2 * length);
        std::fs::remove_file(&file).unwrap();
        let full = append(Path::new("/dev/full"), &section("c"));
        assert!(full.failure.unwrap().contains("No space left"));
    }
}
