//! Bulk data of a flow: pumped from its source, and drained into its sink.

use std::io;

use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Nanos};
use deadheat_contract::contract::{GUARD, Patience, WaitMode};
use deadheat_contract::workload::{BulkPart, FlowEvent};
use deadheat_datapath::datapath::wait::{Interest, Waiter};
use deadheat_datapath::transport::{Conn, Progress};

use super::{Flow, failed};

impl<C: Conn + ?Sized> Flow<C> {
    /// Sends bulk data as far as there is space.
    ///
    /// # Errors
    /// Fails if the workload has no bulk data to send, or if the connection fails.
    pub fn pump(&mut self) -> Result<Progress> {
        let BulkPart::Sends(source) = self.half.bulk() else { return Err(no_bulk()) };
        self.conn.pump(source).map_err(|e| failed("send", e))
    }

    /// Receives bulk data; if the mode is to sleep, sleeps until some arrives.
    pub(super) fn wait_and_drain(
        &mut self,
        clock: &impl Clock,
        waiter: &Waiter,
    ) -> Result<Progress> {
        let due = [self.conn.next_deadline(), self.sampler.wakes()].into_iter().flatten().min();
        let patience = match (self.wait, due) {
            (WaitMode::Spin, _) => Patience::None,
            (WaitMode::Hybrid, None) => Patience::Block,
            (WaitMode::Hybrid, Some(due)) => {
                let until = due.min(clock.now() + GUARD);
                waiter
                    .wait(clock, self.conn.readiness().fd, Some(until), Interest::Read)
                    .map_err(|e| failed("wait", e))?;
                Patience::None
            }
        };
        self.drain(patience, clock)
    }

    /// Has the bursts measured in which bulk data arrives, where this end receives it and knows the round trip.
    pub(super) fn measure_rounds(&mut self) {
        if matches!(self.half.bulk(), BulkPart::Receives(_))
            && let Some(rtt_ns) = self.conn.info().view.and_then(|view| view.min_rtt_ns)
        {
            self.sampler.measure_rounds(Nanos(rtt_ns));
        }
    }

    /// Receives the bulk data that has arrived.
    ///
    /// # Errors
    /// Fails if the workload receives no bulk data, or if the connection fails.
    pub fn drain(&mut self, patience: Patience, clock: &impl Clock) -> Result<Progress> {
        let BulkPart::Receives(sink) = self.half.bulk() else { return Err(no_bulk()) };
        let progress = self.conn.drain(patience, sink).map_err(|e| failed("receive", e))?;
        match progress {
            Progress::Moved => {
                let now = clock.now();
                self.half.on_event(now, FlowEvent::Drained);
                if let Some(rounds) = self.sampler.rounds() {
                    rounds.arrived(now, self.half.standing(now).received.bytes);
                }
            }
            Progress::Idle => {}
            Progress::Closed => self.half.on_event(clock.now(), FlowEvent::Closed),
        }
        Ok(progress)
    }

    /// Receives the data that has arrived as the flow is stopped. The peer stops too, so an error here is not reported.
    #[cold]
    pub(super) fn stop_draining(&mut self, clock: &impl Clock) {
        if let BulkPart::Receives(sink) = self.half.bulk() {
            sink.stopped();
            let _ = self.drain(Patience::None, clock);
        }
    }

    pub(super) fn finish_sending(&mut self) -> Result<()> {
        if !matches!(self.half.bulk(), BulkPart::Sends(_)) {
            return Ok(());
        }
        match self.conn.finish() {
            // The peer may have closed first; then nothing is left to close.
            Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(()),
            other => other.map_err(|e| failed("end the transfer", e)),
        }
    }
}

fn no_bulk() -> Error {
    Error::setup("move bulk data", io::Error::other("this workload has none (a defect)"))
}
