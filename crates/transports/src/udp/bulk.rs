//! Bulk data on its way out of a UDP connection, batch by batch, with another engine if a device or path does not
//! accept segments.

use std::io;

use super::UdpConn;
use super::knobs::{self, ValueOrigin};
use deadheat_contract::contract::Source;
use deadheat_datapath::datapath::datagram::{
    Room, SendBatch, SendEngine, is_full, is_segmentation_refused, past_network_errors,
};
use deadheat_datapath::transport::Progress;

impl UdpConn {
    pub(super) fn pump_batches(
        &mut self,
        batch: &mut SendBatch,
        source: &mut dyn Source,
    ) -> io::Result<Progress> {
        let size = batch.size() as u64;
        let mut progress = Progress::Idle;
        while source.budget() > 0 {
            if batch.waiting() == 0 {
                // A message is never cut, so the last one may exceed the budget.
                let most = source.budget().div_ceil(size).min(batch.capacity() as u64);
                batch.fill(most as usize, |slot| source.stamp(slot));
            }
            match self.send_batch(batch) {
                Ok(sent) => {
                    source.accepted(sent as u64 * size);
                    progress = Progress::Moved;
                }
                Err(error) if is_full(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(progress)
    }

    /// Creates the buffers for bulk sending: as many messages as the application passes per call.
    pub(super) fn start_pumping(&mut self, source: &dyn Source) -> io::Result<SendBatch> {
        let size = source.message_size().max(1);
        let packet = size as u64 + self.headers().in_each_packet();
        if self.engines.io.engine.segments()
            && let Some(mtu) = self.path_mtu()
            && packet > mtu
        {
            let why = format!("a message of {size} B exceeds the path MTU of {mtu} B");
            self.do_without_segmentation(why)?;
        }
        let room = Room { messages: source.call_size() / size, batch: self.knobs.send_batch() };
        SendBatch::new(&self.socket, size, room, self.engines.io.engine)
    }

    /// Switches to another engine, unless this one was typed.
    fn do_without_segmentation(&mut self, why: String) -> io::Result<()> {
        let (asked, wish) = self.knobs.io;
        if wish == ValueOrigin::Named {
            let error = knobs::unsupported("io", asked.word(), &why);
            return Err(io::Error::new(io::ErrorKind::Unsupported, error.to_string()));
        }
        self.engines.io.fall_back(SendEngine::SendMmsg, why);
        Ok(())
    }

    /// Sends the messages in `batch`; returns the number that left, including refused ones.
    #[inline]
    fn send_batch(&mut self, batch: &mut SendBatch) -> io::Result<usize> {
        let Self { socket, network_errors, .. } = self;
        match past_network_errors(network_errors, || batch.send(socket)) {
            Ok(Some(sent)) => Ok(sent),
            Ok(None) => Ok(batch.discard()),
            Err(error) if is_full(&error) => Err(error),
            Err(error) => self.without_offload(batch, error),
        }
    }

    /// Sends in another way if a device or path does not accept segments.
    #[cold]
    fn without_offload(&mut self, batch: &mut SendBatch, error: io::Error) -> io::Result<usize> {
        if self.engines.io.engine.segments() && is_segmentation_refused(&error) {
            self.do_without_segmentation(error.to_string())?;
            batch.stop_segmenting(&self.socket)?;
            return self.send_batch(batch);
        }
        Err(self.explain(error, batch.size()))
    }
}
