//! A [`Protocol`] around another one, through which all calls pass.

use std::io;

use super::protocol::{Protocol, ProtocolStats, Rest, State};
use crate::datapath::datagram::{Received, Transmit};
use crate::transport::Effective;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Lane;

/// Layer around a protocol.
pub trait ProtocolLayer: Send {
    /// Makes a call in which the protocol works.
    fn within<T>(&mut self, call: impl FnOnce() -> T) -> T;

    /// Makes a call of the protocol to the application.
    fn outside<T>(call: impl FnOnce() -> T) -> T {
        call()
    }

    /// Returns the time at which it is due, where the protocol itself returns `own`.
    fn deadline(&self, own: Option<Nanos>) -> Option<Nanos> {
        own
    }

    /// Returns the effective options, where the protocol itself returns `own`.
    fn effective(&self, own: Effective) -> Effective {
        own
    }
}

/// Protocol with a layer around it.
pub struct LayeredProtocol<A> {
    /// Layer around the protocol.
    pub around: A,
    /// Protocol.
    pub protocol: Box<dyn Protocol>,
}

impl<A: ProtocolLayer> Protocol for LayeredProtocol<A> {
    fn state(&self) -> State {
        self.protocol.state()
    }

    fn handle(&mut self, datagram: Received<'_>) {
        self.around.within(|| self.protocol.handle(datagram));
    }

    fn transmit(&mut self, now: Nanos, most: usize, batch: &mut Vec<u8>) -> Option<Transmit> {
        self.around.within(|| self.protocol.transmit(now, most, batch))
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.around.deadline(self.protocol.next_deadline())
    }

    fn on_deadline(&mut self, now: Nanos) {
        self.around.within(|| self.protocol.on_deadline(now));
    }

    fn room(&self, lane: Lane) -> usize {
        self.protocol.room(lane)
    }

    fn write(&mut self, now: Nanos, lane: Lane, bytes: &[u8], rest: Rest) -> io::Result<usize> {
        self.around.within(|| self.protocol.write(now, lane, bytes, rest))
    }

    /// Calls of `take` are the application's.
    fn read(&mut self, now: Nanos, take: &mut dyn FnMut(Lane, &[u8]) -> usize) {
        self.around.within(|| {
            self.protocol.read(now, &mut |lane, bytes| A::outside(|| take(lane, bytes)));
        });
    }

    fn finish(&mut self, now: Nanos, lane: Lane) {
        self.around.within(|| self.protocol.finish(now, lane));
    }

    fn has_ended(&self, lane: Lane) -> bool {
        self.protocol.has_ended(lane)
    }

    fn is_drained(&self) -> bool {
        self.protocol.is_drained()
    }

    fn stats(&self) -> ProtocolStats {
        self.protocol.stats()
    }

    fn effective(&self) -> Effective {
        self.around.effective(self.protocol.effective())
    }
}
