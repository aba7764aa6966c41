//! State of the kernel's TCP at each millisecond, beside the emulator's own account of the same packets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.

use std::process::Command;

use serde_json::Value;

use super::emulated::{CapturedPacket, DEADHEAT, can, sections};

/// Payload of a full segment over IPv4 with timestamps.
const SEGMENT: u64 = 1_448;

/// Bytes between what the sender's host had sent and what the emulator had delivered to it as acknowledged: times in
/// nanoseconds since 1970, and the value from then on.
struct FlightSize(Vec<(u64, u64)>);

impl FlightSize {
    fn new(packets: &[CapturedPacket]) -> FlightSize {
        let word =
            |bytes: &[u8], at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        let mut first = None;
        let mut events: Vec<(u64, [u64; 2])> = Vec::new();
        for (way, at, len, bytes, fate) in packets.iter().filter(|packet| packet.3[9] == 6) {
            let ip = usize::from(bytes[0] & 15) * 4;
            let (tcp, flags) = (ip + usize::from(bytes[ip + 12] >> 4) * 4, bytes[ip + 13]);
            if *way == 0 {
                let first = *first.get_or_insert(word(bytes, ip + 4));
                // A SYN and a FIN are a byte each.
                let payload = *len - tcp as u32 + u32::from(flags & 3 != 0);
                let end = word(bytes, ip + 4).wrapping_sub(first).wrapping_add(payload);
                events.push((*at, [end.into(), 0]));
            } else if let Some(first) = first
                && let Some(rest) = fate.strip_prefix("delivered after ")
            {
                let took: u64 = rest.split(' ').next().unwrap().parse().unwrap();
                let acknowledged = word(bytes, ip + 8).wrapping_sub(first);
                events.push((at + took, [0, acknowledged.into()]));
            }
        }
        events.sort_unstable();
        let (mut next, mut oldest) = (0, 0);
        let value = |(at, [sent, acknowledged]): (u64, [u64; 2])| {
            (next, oldest) = (next.max(sent), oldest.max(acknowledged));
            (at, next - oldest)
        };
        FlightSize(events.into_iter().map(value).collect())
    }

    /// Returns true if it was within a segment of `bytes` at any time from `from` to `to`.
    fn was(&self, bytes: u64, (from, to): (u64, u64)) -> bool {
        let first = self.0.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        let mut then = self.0[first..].iter().take_while(|(at, _)| *at <= to);
        then.any(|(_, value)| value.abs_diff(bytes) <= SEGMENT)
    }
}

/// SND.NXT less SND.UNA by the kernel (`bytes_sent - bytes_retrans - bytes_acked` of TCP_INFO) is what entered the link, by
/// its highest sequence number, less the highest acknowledgement that left the link back to the sender. Both are taken at
/// one time; a packet between the kernel and the emulator, and an acknowledgement that the emulator is late to hand over,
/// are the difference. A busy machine makes it longer and more frequent, so the median alone is held to a packet here.
#[test]
fn the_kernels_flight_size_at_each_millisecond_is_what_the_emulator_carries() {
    if !can() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = "delay=20ms,rate=50mbit,queue=2bdp";
    let ran = Command::new(DEADHEAT)
        .args(["race", "tcp:cc=cubic", "--path", path, "-w", "bulk:time=600ms,warmup=0s"])
        .args(["--blocks", "1", "-o", "r.json", "--series", "1ms", "--pcap", "r.pcapng", "-q"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let result = std::fs::read(dir.path().join("r.json")).unwrap();
    let result: Value = serde_json::from_slice(&result).expect("a result");
    let said = String::from_utf8_lossy(&ran.stderr);
    let sections = sections(&std::fs::read(dir.path().join("r.pcapng")).unwrap());
    let trials = result["trials"].as_array().unwrap();
    let last = trials.iter().max_by_key(|trial| trial["order"].as_u64()).unwrap();
    let emulators = FlightSize::new(sections.last().unwrap());
    let series = last["intervals"].as_array().unwrap();
    let sender = series.iter().find(|one| one["tcp"].is_object()).unwrap();
    let numbers = |column: &Value| -> Vec<u64> {
        column.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
    };
    let at = numbers(&sender["at_ns"]);
    let (end, grid) = (at.last().unwrap(), sender["interval_ns"].as_u64().unwrap());
    let due = end / grid;
    let missed = sender["missed_points"].as_u64().unwrap_or(0);
    assert!((due..=due + 1).contains(&(at.len() as u64 + missed)), "{due} {missed} {}", at.len());
    assert_eq!(grid, 1_000_000);
    let began = sender["began_ns"].as_u64().unwrap();
    let agree =
        at.iter().zip(numbers(&sender["tcp"]["flight_size_bytes"])).filter(|(at, bytes)| {
            let then = began + *at;
            emulators.was(*bytes, (then, then))
        });
    let agree = agree.count();
    assert!(agree * 2 > at.len(), "{agree} of {}; {said}", at.len());
}
