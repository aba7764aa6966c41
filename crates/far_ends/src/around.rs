//! Connection around another one, to a far end that has headers of its own in each datagram, or must not see the end of a
//! byte stream, or sends documents for a time.

use std::io;
use std::os::fd::BorrowedFd;

use crate::blocks::{Blocks, CuttingSink};
use crate::codec::Codec;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::{FileAt, Inbox, Lane, Patience, Sink, Source};
use deadheat_contract::workload::header::LEN;
use deadheat_datapath::datapath::stamps::Stamps;
use deadheat_datapath::transport::{Conn, ConnInfo, Effective, Progress, Readiness};

/// Connection around one of a plain transport.
pub(crate) struct Around {
    inside: Box<dyn Conn>,
    codec: Option<Translation>,
    /// Blocks of a byte stream that are messages.
    blocks: Option<Blocks>,
    /// True if the transport signals the end of this direction; else control does, and the byte stream stays open.
    signals_end: bool,
    visit: Option<Visit>,
}

/// Bulk data of a web server, and its end in time.
struct Visit {
    /// Longest time of bulk data; `None` for work of messages, and for bulk data that bytes end.
    time: Option<Nanos>,
    /// Start of the bulk data, which the first request is.
    began: Option<Nanos>,
}

impl Visit {
    fn drain(
        &mut self,
        inside: &mut dyn Conn,
        patience: Patience,
        sink: &mut dyn Sink,
    ) -> io::Result<Progress> {
        let now = Monotonic.now();
        let began = match self.began {
            Some(began) => began,
            None => {
                inside.send(Lane(0), &[0; LEN])?;
                *self.began.insert(now)
            }
        };
        if self.time.is_some_and(|time| now - began >= time) {
            return Ok(Progress::Closed);
        }
        let progress = inside.drain(patience, sink)?;
        if progress == Progress::Idle {
            inside.on_deadline(now)?;
        }
        Ok(progress)
    }
}

struct Translation {
    codec: Box<dyn Codec>,
    packet: Box<[u8]>,
    message: Box<[u8]>,
}

/// Room for the headers of a far end in a datagram.
pub(crate) const HEADERS: usize = 128;

impl Around {
    /// Wraps a connection of datagrams of up to `largest` bytes, without headers.
    pub(crate) fn datagrams(
        inside: Box<dyn Conn>,
        codec: Box<dyn Codec>,
        largest: usize,
    ) -> Box<dyn Conn> {
        let buffer = || vec![0; largest + HEADERS].into_boxed_slice();
        let codec = Some(Translation { codec, packet: buffer(), message: buffer() });
        Around::wrapped(inside, |around| (around.codec, around.signals_end) = (codec, true))
    }

    /// Wraps a byte stream that stays open until it is dropped.
    pub(crate) fn stream(inside: Box<dyn Conn>) -> Box<dyn Conn> {
        Around::wrapped(inside, |_| {})
    }

    fn wrapped(inside: Box<dyn Conn>, set: impl FnOnce(&mut Around)) -> Box<dyn Conn> {
        let mut around =
            Around { inside, codec: None, blocks: None, signals_end: false, visit: None };
        set(&mut around);
        Box::new(around)
    }

    /// Wraps a connection to a web server whose bulk data ends after `time`, and which is closed when it is dropped.
    pub(crate) fn visit(inside: Box<dyn Conn>, time: Option<Nanos>) -> Box<dyn Conn> {
        Around::wrapped(inside, |around| around.visit = Some(Visit { time, began: None }))
    }

    /// Wraps a byte stream on which the far end sends `blocks`.
    pub(crate) fn blocks(inside: Box<dyn Conn>, blocks: Blocks) -> Box<dyn Conn> {
        Around::wrapped(inside, |around| around.blocks = Some(blocks))
    }
}

impl Conn for Around {
    fn readiness(&self) -> Readiness<'_> {
        self.inside.readiness()
    }

    fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        self.inside.sockets()
    }

    #[inline]
    fn send(&mut self, lane: Lane, message: &[u8]) -> io::Result<Progress> {
        let Some(Translation { codec, packet, .. }) = &mut self.codec else {
            return self.inside.send(lane, message);
        };
        if !codec.has_room() {
            return Ok(Progress::Idle);
        }
        let len = codec.encode(message, packet);
        let progress = self.inside.send(lane, &packet[..len])?;
        if progress == Progress::Moved {
            codec.sent();
        }
        Ok(progress)
    }

    #[inline]
    fn receive(&mut self, patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        if let Some(blocks) = &mut self.blocks {
            return self.inside.drain(patience, &mut CuttingSink { inbox, blocks });
        }
        let Some(Translation { codec, message, .. }) = &mut self.codec else {
            return self.inside.receive(patience, inbox);
        };
        self.inside.receive(patience, &mut DecodingInbox { inbox, codec: &mut **codec, message })
    }

    fn flush(&mut self) -> io::Result<Progress> {
        self.inside.flush()
    }

    fn pump(&mut self, source: &mut dyn Source) -> io::Result<Progress> {
        match &mut self.codec {
            None => self.inside.pump(source),
            Some(Translation { codec, .. }) => {
                self.inside.pump(&mut StampingSource { source, codec: &mut **codec })
            }
        }
    }

    fn drain(&mut self, patience: Patience, sink: &mut dyn Sink) -> io::Result<Progress> {
        if let Some(visit) = &mut self.visit {
            return visit.drain(&mut *self.inside, patience, sink);
        }
        match &mut self.codec {
            None => self.inside.drain(patience, sink),
            Some(Translation { codec, message, .. }) => {
                let mut sink = DecodingSink { sink, codec: &mut **codec, message };
                self.inside.drain(patience, &mut sink)
            }
        }
    }

    /// Ends the direction, unless control does; a backlog leaves first.
    fn finish(&mut self) -> io::Result<()> {
        if self.signals_end { self.inside.finish() } else { self.inside.flush().map(drop) }
    }

    fn is_drained(&self) -> bool {
        self.inside.is_drained()
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.inside.next_deadline()
    }

    fn on_deadline(&mut self, now: Nanos) -> io::Result<()> {
        self.inside.on_deadline(now)
    }

    fn stamps(&mut self) -> io::Result<&mut Stamps> {
        self.inside.stamps()
    }

    fn effective(&self) -> Effective {
        self.inside.effective()
    }

    fn info(&self) -> ConnInfo {
        self.inside.info()
    }
}

impl Drop for Around {
    fn drop(&mut self) {
        if self.visit.is_some() {
            // This tells the far end that no request follows. The error of a far end that is gone does not matter.
            let _ = self.inside.finish();
        }
        if let Some(Translation { codec, packet, .. }) = &mut self.codec
            && let Some(len) = codec.farewell(packet)
        {
            // Without it the far end gives the connection up by itself.
            let _ = self.inside.send(Lane::default(), &packet[..len]);
        }
    }
}

struct DecodingInbox<'a> {
    inbox: &'a mut dyn Inbox,
    codec: &'a mut dyn Codec,
    message: &'a mut [u8],
}

impl Inbox for DecodingInbox<'_> {
    #[inline]
    fn message(&mut self, lane: Lane, bytes: &[u8]) {
        if let Some(len) = self.codec.decode(bytes, self.message) {
            self.inbox.message(lane, &self.message[..len]);
        }
    }
}

struct StampingSource<'a> {
    source: &'a mut dyn Source,
    codec: &'a mut dyn Codec,
}

impl Source for StampingSource<'_> {
    fn budget(&self) -> u64 {
        self.source.budget()
    }

    fn message_size(&self) -> usize {
        self.source.message_size()
    }

    fn call_size(&self) -> usize {
        self.source.call_size()
    }

    #[inline]
    fn stamp(&mut self, message: &mut [u8]) {
        self.source.stamp(message);
        self.codec.stamp(message);
    }

    fn accepted(&mut self, bytes: u64) {
        self.source.accepted(bytes);
    }

    fn file(&self) -> Option<FileAt<'_>> {
        self.source.file()
    }
}

struct DecodingSink<'a> {
    sink: &'a mut dyn Sink,
    codec: &'a mut dyn Codec,
    message: &'a mut [u8],
}

impl Sink for DecodingSink<'_> {
    #[inline]
    fn take(&mut self, bytes: &[u8]) {
        if let Some(len) = self.codec.decode(bytes, self.message) {
            self.sink.take(&self.message[..len]);
        }
    }

    fn pass(&mut self, bytes: u64) {
        self.sink.pass(bytes);
    }

    fn arrived(&mut self, amount: Option<u64>) {
        self.sink.arrived(amount);
    }

    fn wants_arrived(&self) -> bool {
        self.sink.wants_arrived()
    }
}
