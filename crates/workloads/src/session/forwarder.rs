//! The server's end of one person's flow: hands on what the person sends, and sends what the others send.
//!
//! Each message that goes out gets the next number of its flow, as a selective forwarding unit rewrites sequence numbers
//! (RFC 7667, 3.7); part, index, person and due time stay as they are. Parts go out in the order in which a person sends
//! them: live ones before the rest of a picture.

use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Action, Exchange, Lane, Service};
use deadheat_contract::measurements::Tally;
use deadheat_contract::workload::header::Header;
use deadheat_contract::workload::{
    Endpoint, EndpointReport, FlowEvent, Part, RecentTimes, Standing,
};

use super::LOST;
use crate::paced::{self, Intake};
use crate::share::Session;
use crate::share::parts::{self, PartKind};
use crate::share::rooms::Rooms;
use crate::share::seen::SessionMeasure;

/// Bytes of a queue at the server that a message takes beyond its own.
const ENTRY: usize = size_of::<u32>();

/// Returns the bytes of a queue that a message of `size` bytes takes.
pub(super) fn room(size: usize) -> u64 {
    (size + ENTRY) as u64
}

pub(super) struct Forwarder {
    tag: u32,
    person: u16,
    others: u64,
    /// Lengths of the person's messages.
    lengths: SessionMeasure,
    intake: Intake,
    exchange: Option<Box<dyn Exchange>>,
    rooms: Rooms,
    /// Next message to send of each part, and its length.
    held: [(Vec<u8>, Option<usize>); PartKind::ALL.len()],
    polled: Option<PartKind>,
    sent: Tally,
    /// Times of the first and the last send.
    span: Option<(Nanos, Nanos)>,
    handed_on: u64,
    lost: u64,
    /// True once this end hands nothing on any more.
    has_left: bool,
    /// True once it has sent all.
    is_over: bool,
}

impl Forwarder {
    /// Creates the server's end of the flow of `person`, one of `count`, on lanes with these services.
    pub(super) fn new(
        person: u16,
        count: u16,
        session: &Session,
        lanes: &[Service],
        part: Part,
    ) -> Forwarder {
        let delivery = paced::delivery(lanes, part.carried);
        let sizes = PartKind::ALL.map(|kind| match kind {
            PartKind::Picture => session.pictures.mtu,
            PartKind::Voice => session.voice.size,
            PartKind::Pose => session.pose.size,
            PartKind::Pen => session.pen.size,
        });
        Forwarder {
            tag: part.tag,
            person,
            others: u64::from(count - 1),
            lengths: SessionMeasure::new(session),
            intake: Intake::new(part.tag, part.transit, delivery),
            exchange: part.exchange,
            rooms: Rooms::new(lanes.len()),
            held: sizes.map(|size| (vec![0; size], None)),
            polled: None,
            sent: Tally::default(),
            span: None,
            handed_on: 0,
            lost: 0,
            has_left: false,
            is_over: false,
        }
    }

    /// Declares that nothing more is handed on, once all of the person has arrived that will.
    fn leave(&mut self, now: Nanos) -> Option<Nanos> {
        let give_up = self.intake.give_up_at(false);
        if !self.has_left && (self.intake.is_over() || give_up.is_some_and(|at| at <= now)) {
            self.has_left = true;
            if let Some(exchange) = &mut self.exchange {
                exchange.leave();
            }
        }
        give_up.filter(|_| !self.has_left)
    }

    /// Takes the next message of each part, and returns the most urgent part that has one.
    fn next(&mut self, now: Nanos) -> Option<PartKind> {
        let exchange = self.exchange.as_mut()?;
        for (class, (message, len)) in self.held.iter_mut().enumerate() {
            if len.is_none() {
                *len = exchange.take(class, message);
            }
        }
        let urgent = [PartKind::Pen, PartKind::Voice, PartKind::Pose, PartKind::Picture];
        let ready = urgent.into_iter().filter(|kind| self.held[*kind as usize].1.is_some());
        ready.min_by_key(|kind| self.rooms.rank(*kind, now))
    }
}

impl Endpoint for Forwarder {
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        let give_up = self.leave(now);
        self.polled = None;
        if self.is_over {
            return if self.has_left { Action::Done } else { Action::Wait(give_up) };
        }
        // Asked before the queues are looked at: what came before the others left is in them.
        let is_last = self.exchange.as_ref().is_none_or(|exchange| exchange.is_last());
        let Some(kind) = self.next(now) else {
            self.is_over = is_last;
            return if is_last && self.has_left { Action::Done } else { Action::Wait(give_up) };
        };
        let (message, len) = &self.held[kind as usize];
        let len = len.unwrap_or(0).min(out.len());
        out[..len].copy_from_slice(&message[..len]);
        Header { tag: self.tag, seq: self.sent.messages }.write(out);
        self.polled = Some(kind);
        Action::Send { lane: self.rooms.lane(kind), len }
    }

    fn on_sent(&mut self, now: Nanos) {
        let Some(kind) = self.polled.take() else { return };
        self.rooms.note(kind, None);
        self.sent.messages += 1;
        self.sent.bytes += self.held[kind as usize].1.take().unwrap_or(0) as u64;
        let first = self.span.map_or(now, |(first, _)| first);
        self.span = Some((first, now));
    }

    fn on_no_room(&mut self, now: Nanos) -> Option<Nanos> {
        let kind = self.polled.take()?;
        self.rooms.note(kind, Some(now));
        None
    }

    fn on_message(&mut self, now: Nanos, _lane: Lane, bytes: &[u8]) {
        if self.intake.take(now, bytes).is_none() {
            return;
        }
        let number = parts::read(bytes);
        let (person, own) = parts::apart(number);
        let is_whole = person == u64::from(self.person) && self.lengths.length(own) == bytes.len();
        match (PartKind::of(own), &mut self.exchange) {
            (Some((kind, _)), Some(exchange)) if is_whole => {
                self.handed_on += self.others;
                self.lost += exchange.hand_on(kind as usize, bytes);
            }
            _ => self.intake.damaged(),
        }
    }

    fn on_event(&mut self, now: Nanos, event: FlowEvent) {
        match event {
            FlowEvent::Closed => {
                // While a message is to be sent, the person takes no more; else the person has ended the own direction.
                self.is_over |= self.polled.take().is_some();
                self.intake.close();
            }
            FlowEvent::PeerFinished { sent } => self.intake.peer_finished(now, sent),
            FlowEvent::Opened { .. } | FlowEvent::Drained => {}
        }
    }

    fn has_sent_all(&self) -> bool {
        self.is_over
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        Standing { sent: self.sent, received: *self.intake.received(), ..Standing::default() }
    }

    fn take_recent(&mut self) -> RecentTimes {
        RecentTimes::default()
    }

    fn report(&mut self, _now: Nanos) -> EndpointReport {
        let share = (self.handed_on > 0).then(|| self.lost as f64 / self.handed_on as f64);
        EndpointReport {
            sent: self.sent,
            received: *self.intake.received(),
            send_span_ns: self.span.map(|(first, last)| (last - first).0),
            figures: share.map(|share| (LOST.to_owned(), share)).into_iter().collect(),
            ..EndpointReport::default()
        }
    }
}
