//! Parameters of a group, which sender and receivers derive from the same knobs.

use deadheat_base::error::Result;
use deadheat_datapath::transport::userspace::Opening;

use super::wire::{Call, HEADER, STATUS_LEN};
use super::{CONTROL, INFO, REPAIR, WINDOW};
use deadheat_datapath::transport::frame::PREFIX;

/// Rule by which lost packets are sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RepairRule {
    /// Only the packets that a receiver misses.
    Selective,
    /// All from the first missing packet on; receivers store nothing behind a gap.
    GoBackN,
}

/// Limit on the packets under way, besides the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MulticastControl {
    /// Reno's congestion window (RFC 5681), set by the receiver that loses most.
    Reno,
    /// No limit.
    None,
}

/// Parameters of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupTerms {
    pub(super) repair: RepairRule,
    pub(super) control: MulticastControl,
    /// Most packets that any receiver may be behind.
    pub(super) packets: u64,
    /// Most bytes of the stream in a packet.
    pub(super) segment: usize,
    pub(super) receivers: u16,
    /// Window that the knob asks for, in bytes.
    pub(super) window: u64,
    pub(super) mtu: u32,
    /// Bytes of the largest message, with its length prefix.
    pub(super) message: usize,
}

impl GroupTerms {
    /// Reads a sender's terms from its contender's knobs.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Usage`] where the path's packets are too small.
    pub(super) fn new(opening: &Opening<'_>, receivers: u16) -> Result<GroupTerms> {
        // A status has the longer header, and covers no gap without a byte of a bitmap.
        let payload = opening.payload(INFO.id, STATUS_LEN as u32 + 1)?;
        let segment = payload as usize - HEADER;
        let segment = segment.min(u16::MAX.into());
        Ok(GroupTerms::read(opening, receivers.max(1), segment))
    }

    /// Reads a receiver's terms from its knobs and the sender's call.
    pub(super) fn called(opening: &Opening<'_>, call: &Call) -> GroupTerms {
        GroupTerms::read(opening, call.receivers, call.segment.into())
    }

    fn read(opening: &Opening<'_>, receivers: u16, segment: usize) -> GroupTerms {
        let window = opening.knobs.get(&WINDOW).0;
        GroupTerms {
            repair: opening.knobs.get(&REPAIR),
            control: opening.knobs.get(&CONTROL),
            packets: (window / segment as u64).max(1),
            segment,
            receivers,
            window,
            mtu: opening.mtu,
            message: PREFIX + opening.largest_message,
        }
    }

    /// Returns the number of bytes of the longest bitmap in a status, which is no longer than a packet.
    pub(super) fn longest_bitmap(&self) -> usize {
        (self.segment + HEADER).saturating_sub(STATUS_LEN).max(1)
    }

    /// Returns the number of packets for which a receiver answers once: receivers take turns, as in Vrui's protocol, in
    /// which each of n answers every n-th packet, and each answers several times in a window.
    pub(super) fn every(&self) -> u64 {
        u64::from(self.receivers).min(self.packets / 4).max(1)
    }
}
