//! Outgoing byte stream through io_uring: several of the application's calls at once.

use std::io;
use std::ops::Range;

use super::{DEPTH, Memory, Parts, RingSender, SendOutcome, unsupported};
use crate::datapath::buffer::PERIOD;
use crate::datapath::channel::Channel;
use crate::datapath::memory::{Region, patterned};
use crate::datapath::pump::read_exact;
use deadheat_contract::contract::Source;
use deadheat_contract::measurements::ZeroCopy;

/// Sender of a byte stream.
#[derive(Debug)]
pub(in crate::datapath) struct RingStream {
    sender: RingSender,
    memory: Memory,
    /// Pattern, long enough for a call that starts anywhere in its period. Never freed, because the kernel may read
    /// it after a zero-copy send; one per connection, in a process of one trial.
    pattern: &'static [u8],
    /// Bytes that were read from the source's file.
    read: Region,
    /// Range of those bytes that is not sent yet.
    waiting: Range<usize>,
}

/// Calls of an application, one after the other.
#[derive(Debug, Clone, Copy)]
pub(in crate::datapath) struct CallSequence {
    /// Offset in the pattern at which they begin.
    pub(in crate::datapath) at: usize,
    /// Number of bytes of the first call, which may be the rest of a call that was sent in part.
    pub(in crate::datapath) first: usize,
    /// Number of bytes of each further call.
    pub(in crate::datapath) size: usize,
}

impl RingStream {
    pub(in crate::datapath) fn copied() -> io::Result<RingStream> {
        RingStream::new(Memory::Copied)
    }

    pub(in crate::datapath) fn lent() -> io::Result<RingStream> {
        RingStream::new(Memory::Lent)
    }

    fn new(memory: Memory) -> io::Result<RingStream> {
        let (sender, read) = (RingSender::new(Parts::Stream)?, Region::zeroed(0)?);
        Ok(RingStream { sender, memory, pattern: &[], read, waiting: 0..0 })
    }

    /// Returns the outcome of zero-copy sends; `None` where the kernel copies.
    pub(in crate::datapath) fn outcome(&self) -> Option<ZeroCopy> {
        (self.memory == Memory::Lent).then(|| self.sender.outcome())
    }

    /// Sends as many of the calls as the source's budget and [`DEPTH`] allow. Returns the number of bytes sent,
    /// `None` if there were none, and the number of bytes that it should send.
    pub(in crate::datapath) fn send<C: Channel>(
        &mut self,
        channel: &mut C,
        source: &dyn Source,
        calls: CallSequence,
    ) -> io::Result<(Option<usize>, usize)> {
        let budget = usize::try_from(source.budget()).unwrap_or(usize::MAX);
        let before = self.sender.calls();
        let result = match source.file() {
            Some(_) => self.of_file(channel, source, budget, calls.size),
            None => self.made_up(channel, budget, calls),
        };
        channel.count().send += self.sender.calls() - before;
        result.map(|(sent, whole)| ((sent.bytes > 0).then_some(sent.bytes), whole))
    }

    fn made_up<C: Channel>(
        &mut self,
        channel: &C,
        budget: usize,
        calls: CallSequence,
    ) -> io::Result<(SendOutcome, usize)> {
        let CallSequence { at, first, size } = calls;
        if self.pattern.len() < PERIOD + size {
            let pattern: &'static mut Region = Box::leak(Box::new(patterned(PERIOD + size)?));
            self.pattern = pattern;
        }
        let whole = budget.min(first + (DEPTH - 1) * size);
        let (pattern, mut done) = (self.pattern, 0);
        let stretches = std::iter::from_fn(move || {
            let len = if done == 0 { first } else { size }.min(whole - done);
            let stretch = &pattern[(at + done) % PERIOD..][..len];
            done += len;
            (len > 0).then_some(stretch)
        });
        let sent = match self.memory {
            Memory::Copied => self.sender.send(channel.inlet(), stretches),
            Memory::Lent => self.sender.lend(channel.inlet(), stretches),
        };
        Ok((sent?, whole))
    }

    fn of_file<C: Channel>(
        &mut self,
        channel: &mut C,
        source: &dyn Source,
        budget: usize,
        size: usize,
    ) -> io::Result<(SendOutcome, usize)> {
        if self.memory == Memory::Lent {
            return Err(unsupported(
                "io=uring+zerocopy sends no file: the memory that it is read into would be \
                 overwritten while the kernel still sends from it; use io=uring or io=zerocopy"
                    .to_owned(),
            ));
        }
        if let (true, Some(from)) = (self.waiting.is_empty(), source.file()) {
            let len = budget.min(DEPTH * size);
            if self.read.len() < len {
                self.read = Region::zeroed(DEPTH * size)?;
            }
            read_exact(from, &mut self.read[..len], &mut channel.count().send)?;
            self.waiting = 0..len;
        }
        let bytes = &self.read[self.waiting.clone()];
        let sent = self.sender.send(channel.inlet(), bytes.chunks(size))?;
        let whole = bytes.len();
        self.waiting.start += sent.bytes;
        Ok((sent, whole))
    }

    /// Waits for all completions that the kernel will report.
    pub(in crate::datapath) fn finish<C: Channel>(&mut self, channel: &mut C) -> io::Result<()> {
        let before = self.sender.calls();
        let done = self.sender.finish();
        channel.count().send += self.sender.calls() - before;
        done
    }
}
