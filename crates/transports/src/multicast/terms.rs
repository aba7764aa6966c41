//! Terms on which sender and receivers of a group agree: both ends have them from the same words.

use crate::error::Result;
use crate::transport::userspace::Opening;

use super::wire::{Call, HEADER, STATUS_LEN};
use super::{CONTROL, INFO, REPAIR, WINDOW};
use crate::transport::frame::PREFIX;

/// Rule by which lost data is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RepairRule {
    /// Only the segments that a receiver misses.
    Selective,
    /// All from the first packet on that a receiver misses; receivers keep nothing behind a gap.
    GoBackN,
}

/// Limit on what is under way, besides the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MulticastControl {
    /// Reno's congestion window (RFC 5681), for which the receiver that loses most counts.
    Reno,
    /// None.
    None,
}

/// Parameters of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupTerms {
    pub(super) repair: RepairRule,
    pub(super) control: MulticastControl,
    /// The most packets that any receiver may be behind.
    pub(super) packets: u64,
    /// The most bytes of the stream in a packet.
    pub(super) segment: usize,
    pub(super) receivers: u16,
    /// Window as asked for, in bytes.
    pub(super) window: u64,
    pub(super) mtu: u32,
    /// Bytes of the largest message, with its length in front.
    pub(super) message: usize,
}

impl GroupTerms {
    /// Reads a sender's terms from its contender's knobs.
    ///
    /// # Errors
    /// [`crate::error::Error::Usage`] where the path's packets are too small.
    pub(super) fn new(opening: &Opening<'_>, receivers: u16) -> Result<GroupTerms> {
        // A status has the longer header, and says nothing of a gap without a byte of a bitmap.
        let payload = opening.payload(INFO.id, STATUS_LEN as u32 + 1)?;
        let segment = payload as usize - HEADER;
        let segment = segment.min(u16::MAX.into());
        Ok(GroupTerms::read(opening, receivers.max(1), segment))
    }

    /// Reads a receiver's terms, as the sender calls it.
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

    /// Returns the number of bytes in the longest bitmap of a status, which is no longer than a packet.
    pub(super) fn longest_bitmap(&self) -> usize {
        (self.segment + HEADER).saturating_sub(STATUS_LEN).max(1)
    }

    /// Returns the number of packets for which a receiver answers once: the receivers take turns, as in Vrui's protocol,
    /// where each answers every n-th of n, and each answers several times in a window.
    pub(super) fn every(&self) -> u64 {
        u64::from(self.receivers).min(self.packets / 4).max(1)
    }
}
