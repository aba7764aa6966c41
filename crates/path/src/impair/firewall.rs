//! Firewall in front of a channel: blocked packets go no further, and have no number.

use super::Channel;
use super::packet::{Cause, DroppedPacket, Packet};
use deadheat_base::time::Nanos;

impl<H: Copy> Channel<H> {
    /// Returns the number, from 0, of the next packet that is not blocked.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.fates.arrived - self.fates.blocked
    }

    /// Counts a packet that enters now, and returns the time.
    #[inline]
    pub(super) fn come(&mut self, now: Nanos, packet: &Packet) -> u64 {
        let now = now.0.max(self.now);
        self.now = now;
        self.serve(now);
        self.fates.arrived += 1;
        self.fates.arrived_bytes += u64::from(packet.bytes);
        now
    }

    #[inline]
    pub(super) fn blocks(&self, now: Nanos, packet: &Packet) -> bool {
        self.blocks.iter().any(|rule| rule.takes(packet, now))
    }

    /// Accepts a packet that arrives at `now` and is dropped at a firewall in front. Returns its number of departures, 1.
    #[cold]
    pub fn block(&mut self, now: Nanos, packet: &Packet, handle: H) -> u32 {
        let at = self.come(now, packet);
        self.fates.blocked += 1;
        self.gone.push_back(DroppedPacket::at_once(at, self.entered, handle, Cause::Blocked));
        self.entered += 1;
        1
    }
}
