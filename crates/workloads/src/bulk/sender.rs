//! The sending half: passes bytes or numbered messages to the transport until its time or its bytes are used up.

use deadheat_base::error::Error;
use deadheat_base::time::Nanos;
use deadheat_contract::buffer::{PERIOD, pattern};
use deadheat_contract::contract::{Action, FileAt, Lane, Source, Store};
use deadheat_contract::measurements::Tally;

use super::Stop;
use deadheat_contract::workload::header::{self, Header};
use deadheat_contract::workload::{BulkPart, Endpoint, EndpointReport, FlowEvent, Standing};

pub(super) struct BulkSender {
    stop: Stop,
    size: usize,
    call: usize,
    header: Header,
    sent: Tally,
    start: Option<Nanos>,
    last: Nanos,
    /// Bytes per call of the driver, so that the clock is read about once a millisecond.
    stretch: u64,
    left_in_stretch: u64,
    freight: Option<Freight>,
    failure: Option<Error>,
}

/// Content of this endpoint's messages, or of its byte stream if it comes from a file.
pub(super) struct Freight {
    from: FreightSource,
    /// Offset of its first byte in the whole content.
    start: u64,
    bytes: u64,
}

enum FreightSource {
    Store(Box<dyn Store>),
    Pattern(Box<[u8]>),
}

impl Freight {
    /// Creates freight of `bytes` of a file from `start` on.
    pub(super) fn from_file(store: Box<dyn Store>, start: u64, bytes: u64) -> Freight {
        Freight { from: FreightSource::Store(store), start, bytes }
    }

    /// Creates freight of `bytes` of the pattern.
    pub(super) fn made_up(bytes: u64) -> Freight {
        Freight { from: FreightSource::Pattern(pattern()), start: 0, bytes }
    }

    /// Copies the content from `at` on into `room`. The last message has more room than content.
    fn fill(&mut self, at: u64, room: &mut [u8]) -> Result<(), Error> {
        let left = self.bytes.saturating_sub(at);
        let len = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut room = &mut room[..len];
        match &mut self.from {
            FreightSource::Store(store) => return store.read(self.start + at, room),
            FreightSource::Pattern(pattern) => {
                let mut from = (at % PERIOD as u64) as usize;
                while !room.is_empty() {
                    let (now, later) = room.split_at_mut(room.len().min(PERIOD - from));
                    now.copy_from_slice(&pattern[from..from + now.len()]);
                    (room, from) = (later, 0);
                }
            }
        }
        Ok(())
    }
}

const SHORT_VISIT: Nanos = Nanos::from_millis(1);
const LONG_VISIT: Nanos = Nanos::from_millis(4);
const LONGEST_STRETCH: u64 = 8 << 20;

impl BulkSender {
    pub(super) fn new(stop: Stop, size: usize, call: usize, tag: u32) -> BulkSender {
        BulkSender {
            stop,
            size,
            call,
            header: Header { tag, seq: 0 },
            sent: Tally::default(),
            start: None,
            last: Nanos::ZERO,
            stretch: call as u64,
            left_in_stretch: 0,
            freight: None,
            failure: None,
        }
    }

    /// Sets the content.
    pub(super) fn carry(self, freight: Freight) -> BulkSender {
        BulkSender { freight: Some(freight), ..self }
    }

    fn left(&self, now: Nanos, start: Nanos) -> u64 {
        match self.stop {
            Stop::After { bytes } => bytes.saturating_sub(self.sent.bytes),
            Stop::At { time } if now - start < time => u64::MAX,
            Stop::At { .. } => 0,
        }
    }

    /// Returns the bytes and messages that were sent.
    fn sent(&self) -> Tally {
        let mut sent = self.sent;
        // A byte stream has no stamps, so it has sent no messages.
        if self.header.seq > 0 {
            sent.messages = sent.bytes.div_ceil(self.size as u64);
        }
        sent
    }

    /// Adapts the bytes per call to the duration of the last call: more on a fast path, fewer on a slow path.
    fn adapt(&mut self, visit: Nanos) {
        if visit < SHORT_VISIT {
            self.stretch = (self.stretch * 2).min(LONGEST_STRETCH);
        } else if visit > LONG_VISIT {
            self.stretch = (self.stretch / 2).max(self.call as u64);
        }
    }
}

impl Endpoint for BulkSender {
    fn poll(&mut self, now: Nanos, _out: &mut [u8]) -> Action {
        if self.failure.is_some() {
            return Action::Fail;
        }
        let start = match self.start {
            None => *self.start.insert(now),
            Some(start) => {
                self.adapt(now - self.last);
                start
            }
        };
        self.last = now;
        self.left_in_stretch = self.left(now, start).min(self.stretch);
        if self.left_in_stretch == 0 { Action::Done } else { Action::Pump }
    }

    fn bulk(&mut self) -> BulkPart<'_> {
        BulkPart::Sends(self)
    }

    fn failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    fn on_sent(&mut self, _now: Nanos) {}

    fn on_message(&mut self, _now: Nanos, _lane: Lane, _bytes: &[u8]) {}

    fn on_event(&mut self, _now: Nanos, _event: FlowEvent) {}

    fn has_sent_all(&self) -> bool {
        self.start.is_some() && self.left_in_stretch == 0
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        Standing { sent: self.sent(), ..Standing::default() }
    }

    fn report(&mut self, _now: Nanos) -> EndpointReport {
        EndpointReport {
            sent: self.sent(),
            send_began_ns: self.start.map(|start| start.0),
            send_span_ns: self.start.map(|start| (self.last - start).0),
            ..EndpointReport::default()
        }
    }
}

impl Source for BulkSender {
    #[inline]
    fn budget(&self) -> u64 {
        self.left_in_stretch
    }

    fn message_size(&self) -> usize {
        self.size
    }

    fn call_size(&self) -> usize {
        self.call
    }

    #[inline]
    fn stamp(&mut self, message: &mut [u8]) {
        if message.len() >= header::LEN {
            self.header.write(message);
            if let (Some(freight), None) = (&mut self.freight, &self.failure) {
                let payload = (self.size - header::LEN) as u64;
                let at = self.header.seq * payload;
                if let Err(error) = freight.fill(at, &mut message[header::LEN..]) {
                    // Sends no more; the next poll returns the failure.
                    (self.failure, self.left_in_stretch) = (Some(error), 0);
                }
            }
        }
        self.header.seq += 1;
    }

    #[inline]
    fn accepted(&mut self, bytes: u64) {
        self.left_in_stretch = self.left_in_stretch.saturating_sub(bytes);
        self.sent.bytes += bytes;
    }

    fn file(&self) -> Option<FileAt<'_>> {
        match self.freight.as_ref()? {
            Freight { from: FreightSource::Store(store), start, .. } => {
                Some(store.at(start + self.sent.bytes))
            }
            Freight { from: FreightSource::Pattern(_), .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::shelf::Shelf;

    /// Runs a transport that takes everything, `per_visit` nanoseconds a visit; returns the sender.
    fn run(stop: Stop, per_visit: u64) -> BulkSender {
        let mut sender = BulkSender::new(stop, 1000, 4000, 7);
        let mut now = Nanos(50);
        while sender.poll(now, &mut []) == Action::Pump {
            let mut message = [0; 1000];
            while sender.budget() > 0 {
                sender.stamp(&mut message);
                sender.accepted(1000.min(sender.budget()));
            }
            now += Nanos(per_visit);
        }
        sender
    }

    #[test]
    fn bytes_end_it_exactly() {
        let mut sender = run(Stop::After { bytes: 123_000 }, 10);
        assert_eq!(sender.report(Nanos(0)).sent.bytes, 123_000);
        assert_eq!(sender.report(Nanos(0)).sent.messages, 123);
        assert_eq!(sender.header.seq, 123);
        let told = sender.standing(Nanos(0)).sent;
        assert_eq!(told, sender.report(Nanos(0)).sent, "the other end waits for as many");
    }

    #[test]
    fn time_ends_it_within_a_visit_and_visits_grow_on_a_fast_path() {
        let mut sender = run(Stop::At { time: Nanos::from_millis(10) }, 500_000);
        let span = sender.report(Nanos(0)).send_span_ns.unwrap();
        assert!((10_000_000..10_500_001).contains(&span), "{span}");
        assert!(sender.stretch > 4000);
        let slow = run(Stop::At { time: Nanos::from_millis(100) }, 9_000_000);
        assert_eq!(slow.stretch, 4000);
    }

    #[test]
    fn messages_carry_the_file_behind_their_headers() {
        let file: Vec<u8> = (0..100).collect();
        let mut sender = BulkSender::new(Stop::After { bytes: 60 }, 20, 40, 7)
            .carry(Freight::from_file(Shelf::of(&file).store(), 50, 20));
        let mut message = [0xee; 20];
        sender.stamp(&mut message);
        assert_eq!(message[header::LEN..], [50, 51, 52, 53, 54, 55, 56, 57]);
        sender.stamp(&mut message);
        sender.stamp(&mut message);
        assert_eq!(message[header::LEN..], [66, 67, 68, 69, 62, 63, 64, 65], "four more are room");
        assert_eq!(Header::read(&message).unwrap().seq, 2);
    }

    #[test]
    fn a_stream_says_where_in_the_file_it_is() {
        let shelf = Shelf::default();
        let mut sender = BulkSender::new(Stop::After { bytes: 1000 }, 1400, 400, 7)
            .carry(Freight::from_file(shelf.store(), 5000, 1000));
        sender.poll(Nanos(1), &mut []);
        sender.accepted(300);
        assert_eq!(sender.file().unwrap().offset, 5300);
    }

    #[test]
    fn a_file_that_ends_too_early_ends_the_transfer_with_the_reason() {
        let mut sender = BulkSender::new(Stop::After { bytes: 60 }, 20, 40, 7)
            .carry(Freight::from_file(Shelf::of(&[1; 10]).store(), 0, 20));
        assert_eq!(sender.poll(Nanos(1), &mut []), Action::Pump);
        sender.stamp(&mut [0; 20]);
        assert!(sender.budget() > 0);
        sender.stamp(&mut [0; 20]);
        assert_eq!(sender.budget(), 0);
        assert_eq!(sender.poll(Nanos(2), &mut []), Action::Fail);
        assert!(sender.failure().unwrap().to_string().contains("ends before 8"));
    }
}
