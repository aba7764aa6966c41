//! The two ends of a group as protocols: the sending end and the receiving ends.

use std::io;

use super::receiver::MulticastReceiver;
use super::sender::MulticastSender;
use super::terms::GroupTerms;
use super::wire::{self, Call, HEADER, MulticastDatagram, Tag, write_call};
use super::{CONTROL, REPAIR};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Lane;
use deadheat_datapath::transport::userspace::{
    InOrder, Protocol, ProtocolStats, Received, Rest, State, Transmit,
};
use deadheat_datapath::transport::{Effective, effective_options};

/// Time between two calls of receivers that have not answered.
const BETWEEN_CALLS: Nanos = Nanos::from_millis(20);

impl GroupTerms {
    fn effective(&self) -> Effective {
        effective_options([
            (CONTROL.name(), CONTROL.word(self.control).to_owned()),
            (REPAIR.name(), REPAIR.word(self.repair).to_owned()),
            ("window", format!("{} B", self.window)),
            ("mtu", format!("{} B", self.mtu)),
        ])
    }
}

/// Sending end.
pub(super) struct SendingEnd {
    tag: Tag,
    terms: GroupTerms,
    sender: MulticastSender,
    /// Port for the receivers' answers.
    port: u16,
    /// Time of the next call; `None` once all have answered.
    calls: Option<Nanos>,
    closed: Option<String>,
}

impl SendingEnd {
    pub(super) fn new(tag: Tag, terms: GroupTerms, port: u16) -> SendingEnd {
        SendingEnd {
            tag,
            sender: MulticastSender::new(tag, terms),
            terms,
            port,
            calls: Some(Nanos::ZERO),
            closed: None,
        }
    }
}

impl Protocol for SendingEnd {
    fn state(&self) -> State {
        match (&self.closed, self.calls) {
            (Some(why), _) => State::Closed(why.clone()),
            (None, Some(_)) => State::Handshaking,
            (None, None) => State::Open,
        }
    }

    fn handle(&mut self, Received { at: now, bytes: datagram, .. }: Received<'_>) {
        if let Some(MulticastDatagram::Status(status)) = wire::read(self.tag, datagram) {
            self.sender.on_status(now, &status);
            if self.sender.is_complete() {
                self.calls = None;
            }
        }
    }

    fn transmit(&mut self, now: Nanos, most: usize, batch: &mut Vec<u8>) -> Option<Transmit> {
        if self.closed.is_some() {
            return None;
        }
        match self.calls {
            Some(due) if due > now => return None,
            Some(_) => self.calls = Some(now + BETWEEN_CALLS),
            None if self.sender.calls => self.sender.calls = false,
            None => return self.sender.transmit(now, most, batch).map(Transmit::plain),
        }
        let from = batch.len();
        let GroupTerms { receivers, segment, .. } = self.terms;
        let call = Call { port: self.port, receivers, segment: segment as u16 };
        write_call(self.tag, &call, batch);
        Some(Transmit::plain(batch.len() - from))
    }

    fn next_deadline(&self) -> Option<Nanos> {
        if self.closed.is_some() {
            return None;
        }
        self.calls.or(self.sender.timer())
    }

    fn on_deadline(&mut self, now: Nanos) {
        self.sender.on_timer(now);
        if let Some(receiver) = self.sender.silent(now) {
            self.closed.get_or_insert(format!(
                "receiver {receiver} of {} has not answered for {}, and nothing goes on without it",
                self.terms.receivers,
                super::sender::SILENCE
            ));
        }
    }

    fn room(&self, _lane: Lane) -> usize {
        self.sender.buffer.room() as usize
    }

    fn write(&mut self, _now: Nanos, _lane: Lane, bytes: &[u8], _: Rest) -> io::Result<usize> {
        self.sender.buffer.put(bytes);
        Ok(bytes.len())
    }

    fn read(&mut self, _now: Nanos, _take: &mut dyn FnMut(Lane, &[u8]) -> usize) {}

    fn finish(&mut self, _now: Nanos, _lane: Lane) {
        self.sender.buffer.finish();
    }

    /// Returns false: receivers send no stream that could end.
    fn has_ended(&self, _lane: Lane) -> bool {
        false
    }

    fn is_drained(&self) -> bool {
        self.sender.is_drained()
    }

    fn stats(&self) -> ProtocolStats {
        let stats = ProtocolStats::of(self.sender.sent, self.sender.resent, HEADER as u64);
        stats.seen(self.sender.view())
    }

    fn effective(&self) -> Effective {
        self.terms.effective()
    }
}

/// Receiving end.
pub(super) struct ReceivingEnd {
    tag: Tag,
    terms: GroupTerms,
    receiver: MulticastReceiver,
}

impl ReceivingEnd {
    pub(super) fn new(tag: Tag, terms: GroupTerms, index: u16) -> ReceivingEnd {
        let mut receiver = MulticastReceiver::new(tag, terms, index);
        // The sender's call created this end.
        receiver.called();
        ReceivingEnd { tag, terms, receiver }
    }
}

impl Protocol for ReceivingEnd {
    /// Returns [`State::Open`]: the sender's call created this end.
    fn state(&self) -> State {
        State::Open
    }

    fn handle(&mut self, Received { bytes: datagram, .. }: Received<'_>) {
        match wire::read(self.tag, datagram) {
            Some(MulticastDatagram::Data(data)) => self.receiver.take(&data),
            Some(MulticastDatagram::Call(_)) => self.receiver.called(),
            Some(MulticastDatagram::Status(_)) | None => {}
        }
    }

    fn transmit(&mut self, _now: Nanos, _most: usize, batch: &mut Vec<u8>) -> Option<Transmit> {
        let from = batch.len();
        self.receiver.transmit(batch).then(|| Transmit::plain(batch.len() - from))
    }

    fn next_deadline(&self) -> Option<Nanos> {
        None
    }

    fn on_deadline(&mut self, _now: Nanos) {}

    /// Returns 0: a receiver sends nothing.
    fn room(&self, _lane: Lane) -> usize {
        0
    }

    fn write(&mut self, _now: Nanos, _lane: Lane, _bytes: &[u8], _: Rest) -> io::Result<usize> {
        let why = "a receiver of a group sends nothing to it";
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }

    fn read(&mut self, _now: Nanos, take: &mut dyn FnMut(Lane, &[u8]) -> usize) {
        self.receiver.hand_over(&mut |bytes| take(Lane(0), bytes));
    }

    fn finish(&mut self, _now: Nanos, _lane: Lane) {}

    fn has_ended(&self, _lane: Lane) -> bool {
        self.receiver.is_over()
    }

    fn is_drained(&self) -> bool {
        true
    }

    fn stats(&self) -> ProtocolStats {
        ProtocolStats { header_bytes: HEADER as u64, ..ProtocolStats::default() }
    }

    fn effective(&self) -> Effective {
        self.terms.effective()
    }
}
