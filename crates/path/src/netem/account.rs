//! Counters of tc and the devices, as the figures of one direction.

use serde_json::Value;

use crate::measurements::{DirectionFigures, PacketOutcomes};
use crate::network::Impairments;
use deadheat_base::error::{Error, Result};

/// File of the devices' counters, of the calling thread's namespace.
const DEVICES: &str = "/proc/thread-self/net/dev";

/// Bytes by which a frame is longer than its IP packet.
const ETHERNET: u64 = 14;

/// Counters of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counters {
    /// Number of frames received.
    pub packets: u64,
    /// Bytes of those frames, with Ethernet headers.
    pub bytes: u64,
    /// Number of frames lost on receiving and sending, and errors.
    pub drops: u64,
}

impl Counters {
    /// Reads the counters of every device of the calling thread's namespace.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub(super) fn all() -> Result<Vec<(String, Counters)>> {
        let text = std::fs::read_to_string(DEVICES)
            .map_err(|e| Error::setup(format!("read {DEVICES}"), e))?;
        Ok(text.lines().filter_map(Counters::line).collect())
    }

    /// Parses a line: `name: bytes packets errs drop fifo frame compressed multicast` for receiving and the same
    /// for sending.
    fn line(line: &str) -> Option<(String, Counters)> {
        let (name, rest) = line.split_once(':')?;
        let fields: Vec<u64> = rest.split_whitespace().map_while(|f| f.parse().ok()).collect();
        let at = |n: usize| fields.get(n).copied();
        let drops = at(2)? + at(3)? + at(10)? + at(11)?;
        Some((name.trim().to_owned(), Counters { packets: at(1)?, bytes: at(0)?, drops }))
    }

    pub(super) fn since(&self, before: &Counters) -> Counters {
        Counters {
            packets: self.packets.saturating_sub(before.packets),
            bytes: self.bytes.saturating_sub(before.bytes),
            drops: self.drops.saturating_sub(before.drops),
        }
    }
}

/// Qdiscs as `tc -s -j qdisc show` has them.
pub(super) type Qdiscs = Vec<Value>;

/// Parses the output of tc.
///
/// # Errors
/// [`Error::Data`] where it is no list in JSON.
pub(super) fn parse(shown: &str) -> Result<Qdiscs> {
    serde_json::from_slice(shown.as_bytes())
        .map_err(|e| Error::data("tc -s -j qdisc show", format!("is not what tc shows: {e}")))
}

/// Returns the figures of the direction that leaves by `device`, of packets that arrived at another device, which
/// counted `came`; devices lost `drops` besides.
pub(super) fn way(
    qdiscs: &Qdiscs,
    device: &str,
    model: &Impairments,
    came: Counters,
    drops: u64,
) -> DirectionFigures {
    let one = |handle: &str| {
        qdiscs.iter().find(|qdisc| {
            qdisc["handle"] == handle && qdisc["dev"].as_str().is_none_or(|dev| dev == device)
        })
    };
    let count =
        |qdisc: Option<&Value>, name: &str| qdisc.and_then(|q| q[name].as_u64()).unwrap_or(0);
    let (root, rate, queue) = (one("1:"), one("2:"), one("3:"));
    let early = match queue.and_then(|queue| queue["kind"].as_str()) {
        Some("codel" | "fq_codel") => {
            count(queue, "drops").saturating_sub(count(queue, "drop_overlimit"))
        }
        Some("pie") => count(queue, "drops").saturating_sub(count(queue, "overlimit")),
        _ => 0,
    };
    let delivered = count(root, "packets");
    // A packet that is dropped in a qdisc also counts as dropped in all qdiscs above it.
    let full = count(rate, "drops").saturating_sub(early);
    let lost = count(root, "drops").saturating_sub(full + early);
    let waiting = count(root, "qlen");
    let accounted = delivered + lost + full + early + waiting;
    // Only copies make the sum larger than the arrivals; it is smaller by packets to a multicast group, which the
    // middle does not forward.
    let copies = if model.duplicate > 0.0 { accounted.saturating_sub(came.packets) } else { 0 };
    let arrived = accounted - copies;
    let overhead = delivered * u64::from(model.overhead);
    DirectionFigures {
        fates: PacketOutcomes {
            arrived,
            arrived_bytes: came.bytes.saturating_sub(ETHERNET * came.packets),
            delivered,
            delivered_bytes: count(root, "bytes").saturating_sub(overhead),
            lost,
            full,
            early,
            marked: count(queue, "ecn_mark"),
            duplicated: copies,
            waiting,
            ..PacketOutcomes::default()
        },
        device_drops: drops,
        writes: delivered,
        ..DirectionFigures::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_counters_is_read() {
        let line = "    n0:  123456     789    1    2    0     0          0         0   654321     \
                    987    3    4    0     0       0          0";
        let counters = Counters { packets: 789, bytes: 123_456, drops: 10 };
        assert_eq!(Counters::line(line), Some(("n0".to_owned(), counters)));
        assert_eq!(Counters::line("Inter-|   Receive  |  Transmit"), None);
        assert_eq!(Counters::line("face: bytes packets"), None);
        let later = Counters { packets: 800, bytes: 123_500, drops: 11 };
        assert_eq!(later.since(&counters), Counters { packets: 11, bytes: 44, drops: 1 });
    }

    /// Output of iproute2 6.1, shortened to the fields that are read.
    const SHOWN: &str = r#"[
      {"kind":"netem","handle":"1:","dev":"f0","root":true,"options":{"limit":200000},
       "bytes":90000,"packets":900,"drops":75,"overlimits":0,"requeues":0,"backlog":300,"qlen":3},
      {"kind":"tbf","handle":"2:","dev":"f0","parent":"1:1","options":{"rate":2500000},
       "bytes":90000,"packets":900,"drops":60,"overlimits":70,"requeues":0,"backlog":0,"qlen":3},
      {"kind":"codel","handle":"3:","dev":"f0","parent":"2:1","options":{"limit":1000},
       "bytes":90000,"packets":900,"drops":60,"drop_overlimit":40,"ecn_mark":7,"qlen":3},
      {"kind":"netem","handle":"1:","dev":"n0","root":true,"options":{"limit":200000},
       "bytes":1000,"packets":10,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0}]"#;

    #[test]
    fn every_packet_has_one_fate() {
        let qdiscs = parse(SHOWN).unwrap();
        let model = Impairments { overhead: 24, ..Impairments::default() };
        let came = Counters { packets: 978, bytes: 978 * 114, drops: 0 };
        let up = way(&qdiscs, "f0", &model, came, 0);
        let want = PacketOutcomes {
            arrived: 978,
            arrived_bytes: 97_800,
            delivered: 900,
            delivered_bytes: 90_000 - 900 * 24,
            lost: 15,
            full: 40,
            early: 20,
            marked: 7,
            waiting: 3,
            ..PacketOutcomes::default()
        };
        assert_eq!((up.fates, up.device_drops), (want, 0));
        // A packet that arrived and was not forwarded has no fate; a packet that a device dropped is in its
        // counter.
        let came = Counters { packets: 12, bytes: 1_368, drops: 0 };
        let down = way(&qdiscs, "n0", &model, came, 1);
        assert_eq!((down.fates.arrived, down.device_drops), (10, 1));
        // With copies, more packets leave than arrive.
        let copying = Impairments { duplicate: 0.5, ..Impairments::default() };
        let came = Counters { packets: 7, bytes: 798, drops: 0 };
        let down = way(&qdiscs, "n0", &copying, came, 0);
        assert_eq!((down.fates.arrived, down.fates.duplicated), (7, 3));
        assert!(parse("no JSON").is_err());
    }
}
