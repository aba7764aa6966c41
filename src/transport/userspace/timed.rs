//! A [`Protocol`] whose calls are timed, in the explaining pass ([`spent`]).

use std::io;

use super::protocol::{Counts, Protocol, State};
use crate::contract::Lane;
use crate::datapath::ecn::Codepoint;
use crate::measurements::TcpView;
use crate::time::Nanos;
use crate::transport::Effective;
use crate::transport::spent::{self, Part};

/// Returns `protocol`, timed if this process times protocols.
pub(super) fn timed(protocol: Box<dyn Protocol>) -> Box<dyn Protocol> {
    if spent::is_on() { Box::new(Timed(protocol)) } else { protocol }
}

/// Times the calls in which a protocol works. The others only tell something.
struct Timed(Box<dyn Protocol>);

impl Protocol for Timed {
    fn state(&self) -> State {
        self.0.state()
    }

    fn start(&mut self, now: Nanos) {
        spent::within(Part::Protocol, || self.0.start(now));
    }

    fn handle(&mut self, now: Nanos, datagram: &[u8]) {
        spent::within(Part::Protocol, || self.0.handle(now, datagram));
    }

    fn uses_ecn(&self) -> bool {
        self.0.uses_ecn()
    }

    fn codepoint(&self) -> Codepoint {
        self.0.codepoint()
    }

    fn handle_marked(&mut self, now: Nanos, datagram: &[u8], codepoint: Codepoint) {
        spent::within(Part::Protocol, || self.0.handle_marked(now, datagram, codepoint));
    }

    fn transmit(&mut self, now: Nanos, most: usize, batch: &mut Vec<u8>) -> Option<usize> {
        spent::within(Part::Protocol, || self.0.transmit(now, most, batch))
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.0.next_deadline()
    }

    fn on_deadline(&mut self, now: Nanos) {
        spent::within(Part::Protocol, || self.0.on_deadline(now));
    }

    fn room(&self, lane: Lane) -> usize {
        self.0.room(lane)
    }

    fn write(&mut self, now: Nanos, lane: Lane, bytes: &[u8]) -> io::Result<()> {
        spent::within(Part::Protocol, || self.0.write(now, lane, bytes))
    }

    /// What `take` does is the application's.
    fn read(&mut self, now: Nanos, take: &mut dyn FnMut(Lane, &[u8]) -> usize) {
        spent::within(Part::Protocol, || {
            self.0.read(now, &mut |lane, bytes| spent::within(Part::Outside, || take(lane, bytes)));
        });
    }

    fn finish(&mut self, now: Nanos, lane: Lane) {
        spent::within(Part::Protocol, || self.0.finish(now, lane));
    }

    fn has_ended(&self, lane: Lane) -> bool {
        self.0.has_ended(lane)
    }

    fn is_drained(&self) -> bool {
        self.0.is_drained()
    }

    fn counts(&self) -> Counts {
        self.0.counts()
    }

    fn view(&self) -> Option<TcpView> {
        self.0.view()
    }

    fn effective(&self) -> Effective {
        self.0.effective()
    }
}
