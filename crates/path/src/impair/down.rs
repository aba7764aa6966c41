//! Channel of a link that is down at times. A packet is lost that arrives at such a time, waits in the queue or is on its
//! way out of it when the time begins, or would leave the link before it ends. All draws for a packet are made
//! anyway, so that the fates of others stay the same.

use super::packet::{Cause, DroppedPacket, Item};
use super::queue::QueueDrops;
use super::{Bottleneck, Channel};

impl<H: Copy> Channel<H> {
    /// Drops a packet that arrives while the link is down.
    #[cold]
    pub(super) fn come_down(&mut self, item: &Item<H>) {
        self.fates.down += 1;
        let Item { arrived, seq, is_copy, handle, .. } = *item;
        let dropped = DroppedPacket::at_once(arrived, seq, handle, Cause::Down);
        self.gone.push_back(DroppedPacket { is_copy, ..dropped });
    }
}

impl<H: Copy> Bottleneck<H> {
    /// Drops all packets in the queue, at the time at which the link goes down.
    #[cold]
    pub(super) fn go_down(&mut self, given: &mut QueueDrops<H>) {
        let at = self.goes_down;
        self.queue.empty(|item| given.push_back((item, at, Cause::Down)));
        let next = self.down.iter().map(|time| time.from.0).find(|from| *from > at);
        self.goes_down = next.unwrap_or(u64::MAX);
        self.plan();
    }
}
