//! Packet on its way through a channel, from its arrival to its departure.

use deadheat_base::ecn::Codepoint;
use deadheat_base::ends::Direction;
use deadheat_base::time::Nanos;

/// Seed, link and direction: together with the model and the packet number, they fix every draw of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Seed of the path.
    pub seed: u64,
    /// Number of the link, from 0.
    pub link: u16,
    /// Direction of the link.
    pub direction: Direction,
}

/// Properties of a packet that a channel needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Length as an IP packet, in bytes.
    pub bytes: u32,
    /// Flow of the packet: a hash of addresses, protocol and ports.
    pub flow: u64,
    /// Protocol number of the IP packet's payload; 0 if unknown.
    pub protocol: u8,
    /// Codepoint of ECN (RFC 3168).
    pub codepoint: Codepoint,
}

/// Departure of a packet: how it left the channel, and the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure<H> {
    /// Time of departure.
    pub at: Nanos,
    /// Time of arrival.
    pub arrived: Nanos,
    /// Sequence number among packets and copies in order of arrival.
    pub seq: u64,
    /// True for the copy of a packet.
    pub is_copy: bool,
    /// Time spent in the queue, the packet's own transmission not counted.
    pub queued: Nanos,
    /// Handle that the owner gave the packet.
    pub handle: H,
    /// End: delivery or drop.
    pub end: End,
}

/// End of a packet, or of a copy, in the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Delivered at the other side, with these changes.
    Delivered(Changes),
    /// Dropped, for this cause.
    Dropped(Cause),
}

/// Changes made to a packet that is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// True if its congestion mark is set (CE).
    pub marked: bool,
    /// Number of the flipped bit, counted from the first of its IP packet.
    pub flipped: Option<u32>,
}

/// Cause of a drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Dropped by a firewall, for its protocol.
    Blocked,
    /// Dropped by the loss model.
    Lost,
    /// Full queue.
    Full,
    /// Early drop by the queue, to stay short.
    Early,
    /// Link that is down.
    Down,
}

/// Packet that was dropped, until its departure is reported.
#[derive(Debug)]
pub(super) struct DroppedPacket<H> {
    pub(super) at: u64,
    pub(super) seq: u64,
    pub(super) is_copy: bool,
    pub(super) queued: u64,
    pub(super) handle: H,
    pub(super) cause: Cause,
}

impl<H> DroppedPacket<H> {
    /// Returns a packet that is dropped as it arrives.
    pub(super) fn at_once(at: u64, seq: u64, handle: H, cause: Cause) -> DroppedPacket<H> {
        DroppedPacket { at, seq, is_copy: false, queued: 0, handle, cause }
    }

    pub(super) fn departure(self) -> Departure<H> {
        Departure {
            at: Nanos(self.at),
            arrived: Nanos(self.at - self.queued),
            seq: self.seq,
            is_copy: self.is_copy,
            queued: Nanos(self.queued),
            handle: self.handle,
            end: End::Dropped(self.cause),
        }
    }
}

/// Packet inside the channel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item<H> {
    pub(super) handle: H,
    /// Arrival time.
    pub(super) arrived: u64,
    /// Sequence number among packets and copies in order of arrival.
    pub(super) seq: u64,
    /// True for the copy of a packet.
    pub(super) is_copy: bool,
    /// Offset of its delay from the model's, in nanoseconds.
    pub(super) offset: i64,
    /// Length with link-layer overhead, which the rate and the queue count.
    pub(super) wire: u64,
    /// Length as an IP packet.
    pub(super) bytes: u32,
    /// Number of the bit that is flipped.
    pub(super) flip: Option<u32>,
    pub(super) turn: Turn,
    pub(super) codepoint: Codepoint,
    pub(super) is_marked: bool,
    /// True if the link goes down while the packet is on its way out of the queue.
    pub(super) is_cut: bool,
}

/// Turn of a packet: kept, or given up to later packets that overtake it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Kept,
    Given,
}
