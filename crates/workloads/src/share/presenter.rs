//! The sending endpoint: sends live messages when they are due, and pictures with the remaining capacity.
//!
//! Each part waits for room separately, because each may have a connection of its own: if a picture has filled one, a
//! voice on another still leaves on time.

use std::sync::{Arc, Mutex, PoisonError};

use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Action, Lane};
use deadheat_contract::measurements::{
    OneWayDelays, Pacing, Recorder, RoundTripSummary, Sample, SendSummary, Tally,
};

use super::parts::{self, PartKind};
use super::rooms::Rooms;
use super::{Live, Session, Slides};
use crate::paced::{Otherwise, Pacer, Plan, Slot, Turn, fill, write_due};
use deadheat_contract::workload::header::Header;
use deadheat_contract::workload::{Endpoint, EndpointReport, FlowEvent, Part, Standing};

pub(crate) struct Presenter {
    tag: u32,
    /// Person who sends, in the numbers of the messages.
    origin: u64,
    /// Live parts, the most urgent first.
    live: Vec<Stream>,
    album: Album,
    rooms: Rooms,
    has_begun: bool,
    sent: Tally,
    /// Message of the last `poll`.
    polled: Option<Polled>,
    /// Earliest due time of the other parts.
    next: Option<Nanos>,
}

/// A part with messages at fixed times.
struct Stream {
    kind: PartKind,
    pacer: Pacer<Box<dyn Iterator<Item = Slot> + Send>>,
}

/// Sending of the pictures.
struct Album {
    pictures: Slides,
    start: Nanos,
    /// Index of the next message, over all pictures.
    next: u64,
    last: Option<Nanos>,
}

#[derive(Debug, Clone, Copy)]
struct Polled {
    kind: PartKind,
    len: usize,
}

/// A message that may be sent.
#[derive(Debug, Clone, Copy)]
struct Ready {
    kind: PartKind,
    index: u64,
    due: Nanos,
    len: usize,
}

/// Recorder that several parts share.
#[derive(Clone)]
struct Common(Arc<Mutex<Box<dyn Recorder>>>);

impl Common {
    fn with<T>(&self, act: impl FnOnce(&mut dyn Recorder) -> T) -> T {
        act(&mut **self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Recorder for Common {
    fn record(&mut self, sample: Sample) {
        self.with(|one| one.record(sample));
    }

    fn record_send(&mut self, lateness_ns: u64, gap_error_ns: Option<u64>) {
        self.with(|one| one.record_send(lateness_ns, gap_error_ns));
    }

    fn record_delay(&mut self, deviation_ns: i64) {
        self.with(|one| one.record_delay(deviation_ns));
    }

    fn round_trips(&self, timeout_ns: u64, per_mille: u64) -> RoundTripSummary {
        self.with(|one| one.round_trips(timeout_ns, per_mille))
    }

    fn sends(&self) -> SendSummary {
        self.with(|one| one.sends())
    }

    fn delays(&self) -> OneWayDelays {
        self.with(|one| one.delays())
    }
}

impl Presenter {
    /// Creates the sender of a session on `lanes` lanes.
    pub(crate) fn new(session: &Session, lanes: usize, part: Part) -> Presenter {
        let Part { tag, side, flow, seed, transit, guarantees, peer, recorder, carried, .. } = part;
        let common = Common(Arc::new(Mutex::new(recorder)));
        let stream = |kind: PartKind, of: Live, otherwise| {
            let Live { period, size, count } = of;
            let slots = (0..count).map(move |index| Slot {
                due: period.times(index),
                place: Some((index, Lane(0))),
                len: size,
                otherwise,
            });
            let plan = Plan {
                slots: Box::new(slots) as Box<dyn Iterator<Item = Slot> + Send>,
                count,
                step: period.times(1),
                span: session.span,
                is_even: true,
            };
            let recorder = Box::new(common.clone());
            // The phases of the parts are independent.
            let seed = seed ^ kind as u64;
            let part = Part {
                side,
                flow,
                tag,
                seed,
                transit,
                guarantees,
                peer,
                recorder,
                carried,
                store: None,
                exchange: None,
            };
            Stream { kind, pacer: Pacer::new(plan, part) }
        };
        let start = Nanos::ZERO;
        let pictures = session.pictures;
        Presenter {
            tag,
            origin: session.origin,
            rooms: Rooms::new(lanes),
            live: vec![
                stream(PartKind::Pen, session.pen, Otherwise::Kept),
                stream(PartKind::Voice, session.voice, Otherwise::Skipped),
                stream(PartKind::Pose, session.pose, Otherwise::Skipped),
            ],
            album: Album { pictures, start, next: 0, last: None },
            has_begun: false,
            sent: Tally::default(),
            polled: None,
            next: None,
        }
    }

    /// Returns the message to send now, and the time at which more is due; neither at the end.
    fn turn(&mut self, now: Nanos) -> (Option<Ready>, Option<Nanos>) {
        let mut ready: [Option<Ready>; PartKind::ALL.len()] = [None; PartKind::ALL.len()];
        let mut next: Option<Nanos> = None;
        let live = self.live.iter_mut().map(|stream| (stream.kind, stream.pacer.turn(now)));
        let turns = live.chain([(PartKind::Picture, self.album.turn(now))]);
        for (place, (kind, turn)) in ready.iter_mut().zip(turns) {
            match turn {
                Turn::Over => {}
                Turn::At(at) => next = Some(next.map_or(at, |next| next.min(at))),
                Turn::Now(slot, due) => {
                    let (index, _) = slot.place.unwrap_or_default();
                    *place = Some(Ready { kind, index, due, len: slot.len });
                }
            }
        }
        let first = ready.into_iter().flatten().min_by_key(|one| self.rooms.rank(one.kind, now));
        (first, next)
    }

    fn stream(&mut self, kind: PartKind) -> Option<&mut Stream> {
        self.live.iter_mut().find(|stream| stream.kind == kind)
    }

    fn is_over(&self) -> bool {
        self.has_begun && self.album.is_over() && self.live.iter().all(|one| one.pacer.is_over())
    }

    /// Returns the joint outcome of the schedules; pictures have none.
    fn pacing(&self) -> Option<Pacing> {
        let each = self.live.iter().map(|stream| stream.pacer.report().pacing);
        each.reduce(|sum, one| {
            let (sum, one) = (sum?, one?);
            Some(Pacing {
                slots: sum.slots + one.slots,
                sent: sum.sent + one.sent,
                missed_no_room: sum.missed_no_room + one.missed_no_room,
                missed_no_time: sum.missed_no_time + one.missed_no_time,
                late: sum.late + one.late,
                // The shared recorder has the sends of all parts, so each part reports the same distribution.
                lateness_ns: one.lateness_ns,
                gap_error_ns: one.gap_error_ns,
            })
        })?
    }
}

impl Album {
    fn is_over(&self) -> bool {
        self.next >= self.pictures.messages()
    }

    fn turn(&self, now: Nanos) -> Turn {
        if self.is_over() {
            return Turn::Over;
        }
        let (picture, len) = self.pictures.piece(self.next);
        let due = Nanos(self.pictures.every.0 * picture);
        let at = self.start + due;
        if now < at {
            return Turn::At(at);
        }
        let place = Some((self.next, Lane(0)));
        Turn::Now(Slot { due, place, len, otherwise: Otherwise::Kept }, at)
    }
}

impl Endpoint for Presenter {
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        if !self.has_begun {
            fill(out);
            (self.has_begun, self.album.start) = (true, now);
        }
        let (ready, next) = self.turn(now);
        (self.polled, self.next) = (None, next);
        let Some(Ready { kind, index, due, len, .. }) = ready else {
            return if self.is_over() { Action::Done } else { Action::Wait(next) };
        };
        Header { tag: self.tag, seq: self.sent.messages }.write(out);
        write_due(&mut out[..len], due);
        parts::write(&mut out[..len], kind.number(index) | self.origin);
        self.polled = Some(Polled { kind, len });
        Action::Send { lane: self.rooms.lane(kind), len }
    }

    fn on_sent(&mut self, now: Nanos) {
        let Some(Polled { kind, len }) = self.polled.take() else { return };
        self.sent.messages += 1;
        self.sent.bytes += len as u64;
        self.rooms.note(kind, None);
        match self.stream(kind) {
            Some(stream) => stream.pacer.sent(now, len),
            None => (self.album.next, self.album.last) = (self.album.next + 1, Some(now)),
        }
    }

    fn on_no_room(&mut self, now: Nanos) -> Option<Nanos> {
        let Some(Polled { kind, .. }) = self.polled.take() else { return self.next };
        self.rooms.note(kind, Some(now));
        let lane = self.rooms.lane(kind);
        let rooms = &self.rooms;
        for stream in self.live.iter_mut().filter(|one| rooms.lane(one.kind) == lane) {
            // Other messages due on the same lane wait for the same room.
            if matches!(stream.pacer.turn(now), Turn::Now(..)) {
                stream.pacer.no_room();
            }
        }
        self.next
    }

    fn on_message(&mut self, _now: Nanos, _lane: Lane, _bytes: &[u8]) {}

    fn on_event(&mut self, _now: Nanos, event: FlowEvent) {
        match event {
            FlowEvent::Closed => {
                for stream in &mut self.live {
                    stream.pacer.give_up();
                }
                self.album.next = self.album.pictures.messages();
            }
            FlowEvent::Opened { .. } | FlowEvent::Drained | FlowEvent::PeerFinished { .. } => {}
        }
    }

    fn has_sent_all(&self) -> bool {
        self.is_over()
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        Standing { sent: self.sent, ..Standing::default() }
    }

    fn report(&mut self, _now: Nanos) -> EndpointReport {
        let live = self.live.iter().filter_map(|stream| stream.pacer.report().send_span_ns);
        let pictures = self.album.last.map(|last| (last - self.album.start).0);
        EndpointReport {
            sent: self.sent,
            send_span_ns: live.chain(pictures).max(),
            pacing: self.pacing().filter(|_| self.is_over()),
            ..EndpointReport::default()
        }
    }
}
