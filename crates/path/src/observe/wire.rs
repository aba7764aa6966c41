//! Trains, gaps and acknowledgements of the packets that enter and leave one direction of a link.

use deadheat_base::error::Result;
use deadheat_base::moments::Moments;

use super::Seen;
use crate::measurements::{WireEnd, WireFigures};

/// Longest gap within a train: as in "QUIC Steps" (CoNEXT 2025).
const TRAIN_GAP: u64 = 100_000;
/// Longest train that counts as short, in packets, likewise.
const SHORT_TRAIN: u64 = 5;
/// Number of flows whose gaps are counted; packets of further ones are not.
const MOST_FLOWS: usize = 64;
/// Number of packets over which a flow's rate is taken, for the pacing error.
const WINDOW: usize = 32;
const DIGITS: u8 = 3;

/// Notes at the entrance and at the exit.
#[derive(Debug)]
pub(super) struct WireNotes {
    entrance: EndNotes,
    exit: EndNotes,
    data: u64,
    acks: u64,
}

/// Notes at one end of the direction.
#[derive(Debug)]
struct EndNotes {
    flows: Vec<FlowNotes>,
    gaps: Moments,
    trains: Moments,
    errors: Moments,
    short: u64,
}

#[derive(Debug)]
struct FlowNotes {
    flow: u64,
    /// Packets of the train so far.
    train: u64,
    /// Arrival times and lengths of the last packets, as a ring.
    last: [(u64, u32); WINDOW],
    packets: usize,
    /// Bytes in the ring.
    bytes: u64,
}

impl WireNotes {
    pub(super) fn new() -> Result<WireNotes> {
        Ok(WireNotes { entrance: EndNotes::new()?, exit: EndNotes::new()?, data: 0, acks: 0 })
    }

    pub(super) fn arrived(&mut self, now: u64, packet: Seen) {
        if packet.is_ack {
            self.acks += 1;
        } else {
            self.data += 1;
        }
        self.entrance.note(now, packet);
    }

    pub(super) fn departed(&mut self, now: u64, packet: Seen) {
        self.exit.note(now, packet);
    }

    pub(super) fn figures(&self) -> WireFigures {
        WireFigures {
            data_packets: self.data,
            ack_packets: self.acks,
            entrance: self.entrance.figures(),
            exit: self.exit.figures(),
        }
    }
}

impl EndNotes {
    fn new() -> Result<EndNotes> {
        Ok(EndNotes {
            flows: Vec::with_capacity(MOST_FLOWS),
            gaps: Moments::new(DIGITS)?,
            trains: Moments::new(DIGITS)?,
            errors: Moments::new(DIGITS)?,
            short: 0,
        })
    }

    fn note(&mut self, now: u64, packet: Seen) {
        let Some(at) = self.flows.iter().position(|flow| flow.flow == packet.flow) else {
            if self.flows.len() < MOST_FLOWS {
                self.flows.push(FlowNotes::new(now, packet));
            }
            return;
        };
        let flow = &mut self.flows[at];
        let (before, bytes) = flow.last[(flow.packets - 1) % WINDOW];
        let gap = now.saturating_sub(before);
        self.gaps.add(gap);
        if let Some(error) = flow.pacing_error(gap, bytes) {
            self.errors.add(error);
        }
        if gap <= TRAIN_GAP {
            flow.train += 1;
        } else {
            let train = std::mem::replace(&mut flow.train, 1);
            self.end_train(train);
        }
        self.flows[at].push(now, packet.bytes);
    }

    fn end_train(&mut self, packets: u64) {
        self.trains.add(packets);
        if packets <= SHORT_TRAIN {
            self.short += packets;
        }
    }

    /// Returns the figures, the trains that have not ended included.
    fn figures(&self) -> WireEnd {
        let (mut trains, mut short) = (self.trains.clone(), self.short);
        let mut packets = 0;
        for flow in &self.flows {
            trains.add(flow.train);
            short += if flow.train <= SHORT_TRAIN { flow.train } else { 0 };
            packets += flow.packets as u64;
        }
        WireEnd {
            packets,
            gaps_ns: self.gaps.distribution(0, 0),
            train_packets: trains.distribution(0, 0),
            in_short_trains: short,
            pacing_error_ns: self.errors.distribution(0, 0),
        }
    }
}

impl FlowNotes {
    fn new(now: u64, packet: Seen) -> FlowNotes {
        let mut flow =
            FlowNotes { flow: packet.flow, train: 1, last: [(0, 0); WINDOW], packets: 0, bytes: 0 };
        flow.push(now, packet.bytes);
        flow
    }

    fn push(&mut self, now: u64, bytes: u32) {
        let slot = &mut self.last[self.packets % WINDOW];
        self.bytes = self.bytes + u64::from(bytes) - u64::from(slot.1);
        *slot = (now, bytes);
        self.packets += 1;
    }

    /// Returns how far a gap behind a packet of `bytes` is from the gap at the flow's own rate, which is that of the last
    /// packets; `None` before there are enough of them.
    fn pacing_error(&self, gap: u64, bytes: u32) -> Option<u64> {
        if self.packets < WINDOW {
            return None;
        }
        let (first, _) = self.last[self.packets % WINDOW];
        let (last, latest) = self.last[(self.packets - 1) % WINDOW];
        // The packet that ends the window is followed by the gap in question.
        let carried = self.bytes - u64::from(latest);
        let took = u128::from(last.saturating_sub(first));
        let even = took * u128::from(bytes) / u128::from(carried.max(1));
        Some(gap.abs_diff(u64::try_from(even).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(flow: u64) -> Seen {
        Seen { flow, bytes: 1_000, is_ack: false }
    }

    #[test]
    fn an_even_flow_has_trains_of_one_and_no_pacing_error() {
        let mut notes = WireNotes::new().unwrap();
        for at in 0..200 {
            notes.arrived(at * 1_000_000, packet(1));
            // Another flow in between changes nothing.
            notes.arrived(at * 1_000_000 + 10_000, packet(2));
        }
        let figures = notes.figures();
        let WireEnd { packets, gaps_ns, train_packets, in_short_trains, pacing_error_ns } =
            figures.entrance;
        assert_eq!((packets, in_short_trains, figures.data_packets), (400, 400, 400));
        assert_eq!((gaps_ns.min, gaps_ns.max), (Some(1_000_000), Some(1_000_000)));
        assert_eq!((train_packets.n, train_packets.max), (400, Some(1)));
        assert_eq!((pacing_error_ns.n, pacing_error_ns.max), (2 * (200 - 32), Some(0)));
        assert_eq!(figures.exit.packets, 0);
    }

    #[test]
    fn a_burst_is_a_train_and_its_gaps_are_no_even_ones() {
        let mut notes = WireNotes::new().unwrap();
        // Trains of 8 packets in each 8 ms.
        for at in 0..256u64 {
            notes.departed(at / 8 * 8_000_000 + at % 8 * 1_000, packet(1));
        }
        let exit = notes.figures().exit;
        assert_eq!((exit.train_packets.n, exit.train_packets.min), (32, Some(8)));
        assert_eq!(exit.in_short_trains, 0);
        // Within a train, nearly the whole even gap of a millisecond is missing.
        assert!(exit.pacing_error_ns.mean.unwrap() > 800_000.0, "{:?}", exit.pacing_error_ns);
    }

    #[test]
    fn what_only_acknowledges_is_no_data() {
        let mut notes = WireNotes::new().unwrap();
        for at in 0..10 {
            notes.arrived(at, Seen { is_ack: at % 2 == 0, ..packet(1) });
        }
        let figures = notes.figures();
        assert_eq!((figures.data_packets, figures.ack_packets), (5, 5));
    }
}
