//! Measurement of a session at the receivers: each part as the workload of its kind measures it.

use deadheat_base::time::Nanos;
use deadheat_contract::measurements::series::RoundTrips;
use deadheat_contract::measurements::{Better, ClockNeed, Tally, Unit};

use super::parts::{self, PartKind};
use super::{FRAME, Session};
use crate::events::deliveries::Deliveries;
use crate::paced::{Measure, NamedLane, Period};
use crate::state::ages::{Ages, Showing};
use crate::state::motion::{Display, Motion};
use crate::video::pictures::Pictures;
use crate::voice::emodel::Codec;
use crate::voice::frames::Frames;
use deadheat_contract::workload::load::Item;

/// Arrivals of all parts.
pub(crate) struct SessionMeasure {
    /// Messages and their size, by part; the last piece of a picture is shorter.
    parts: [(u64, usize); PartKind::ALL.len()],
    pictures: Pictures,
    voice: Frames,
    pose: Ages,
    pen: Deliveries,
}

/// Name of the figure of pictures that can be claimed.
pub(crate) const PICTURE: &str = "picture_mean_ns";

/// Figures of the workload: name, label, unit and the better end.
pub(crate) const FIGURES: &[(&str, &str, Unit, Better)] = &[
    ("pen_mean_ns", "pen: mean delivery", Unit::Nanos, Better::Lower),
    ("pen_p50_ns", "pen: delivery p50", Unit::Nanos, Better::Lower),
    ("pen_p99_ns", "pen: delivery p99", Unit::Nanos, Better::Lower),
    ("pen_max_ns", "pen: slowest delivery", Unit::Nanos, Better::Lower),
    ("pen_undelivered_share", "pen: points not delivered", Unit::Share, Better::Lower),
    ("pose_age_mean_ns", "pose: mean age", Unit::Nanos, Better::Lower),
    ("pose_age_p99_ns", "pose: age p99", Unit::Nanos, Better::Lower),
    ("pose_age_max_ns", "pose: greatest age", Unit::Nanos, Better::Lower),
    ("voice_impairment_share", "voice: impairment (100 − R)", Unit::Share, Better::Lower),
    ("voice_rating_share", "voice: E-model rating R, of 100", Unit::Share, Better::Higher),
    ("voice_gap_share", "voice: frames not played", Unit::Share, Better::Lower),
    ("voice_late_share", "voice: frames too late", Unit::Share, Better::Lower),
    (PICTURE, "picture: mean time to complete", Unit::Nanos, Better::Lower),
    ("picture_max_ns", "picture: slowest", Unit::Nanos, Better::Lower),
    ("picture_unfinished_share", "pictures not whole", Unit::Share, Better::Lower),
];

/// Returns the figures of each part.
pub(crate) fn by_lane(lanes: &[NamedLane]) -> Vec<Vec<&'static str>> {
    let of = |lane: &NamedLane| {
        let names = FIGURES.iter().map(|(name, ..)| *name);
        names.filter(|name| name.split('_').next() == Some(lane.name)).collect()
    };
    lanes.iter().map(of).collect()
}

/// Clocks that the figures need.
pub(crate) const CLOCKS: &[(&str, ClockNeed)] = &[
    ("pen_mean_ns", ClockNeed::Offset),
    ("pen_p50_ns", ClockNeed::Offset),
    ("pen_p99_ns", ClockNeed::Offset),
    ("pen_max_ns", ClockNeed::Offset),
    ("pose_age_mean_ns", ClockNeed::Offset),
    ("pose_age_p99_ns", ClockNeed::Offset),
    ("pose_age_max_ns", ClockNeed::Offset),
    ("voice_impairment_share", ClockNeed::Offset),
    ("voice_rating_share", ClockNeed::Offset),
    ("picture_mean_ns", ClockNeed::Offset),
    ("picture_max_ns", ClockNeed::Offset),
    ("voice_gap_share", ClockNeed::Relative),
    ("voice_late_share", ClockNeed::Relative),
];

/// Names of figures here, and in the workload that measures them.
const OF_PEN: &[(&str, &str)] = &[
    ("pen_mean_ns", "delivery_mean_ns"),
    ("pen_p50_ns", "delivery_p50_ns"),
    ("pen_p99_ns", "delivery_p99_ns"),
    ("pen_max_ns", "delivery_max_ns"),
    ("pen_undelivered_share", "undelivered_share"),
];
const OF_POSE: &[(&str, &str)] = &[
    ("pose_age_mean_ns", "age_mean_ns"),
    ("pose_age_p99_ns", "age_p99_ns"),
    ("pose_age_max_ns", "age_max_ns"),
];
const OF_VOICE: &[(&str, &str)] = &[
    ("voice_impairment_share", "impairment_share"),
    ("voice_rating_share", "rating_share"),
    ("voice_gap_share", "gap_share"),
    ("voice_late_share", "late_share"),
];

/// Returns the figures of a part that a session reports, with their names here.
fn reported(
    part: &impl Measure,
    names: &'static [(&'static str, &'static str)],
) -> impl Iterator<Item = (&'static str, f64)> {
    let figures = part.figures().unwrap_or_default();
    names.iter().filter_map(move |(name, theirs)| {
        let (_, figure) = figures.iter().find(|(name, _)| name == theirs)?;
        Some((*name, *figure))
    })
}

impl SessionMeasure {
    pub(crate) fn new(session: &Session) -> SessionMeasure {
        let pictures = session.pictures;
        let messages = (0..pictures.messages()).map(|index| pictures.piece(index));
        let messages = messages.map(|(picture, len)| (picture as u32, len as u32)).collect();
        let parts = vec![pictures.pieces(); pictures.count as usize];
        let every = Period { ns: pictures.every.0.max(1), over: 1 };
        let (display, motion) = (Display::Hold, Motion::Sine);
        let (phase, period) = (Nanos::ZERO, session.pose.period.times(1));
        let showing = Showing { motion, display, phase, period };
        let pen = vec![true; session.pen.count as usize];
        SessionMeasure {
            parts: PartKind::ALL.map(|kind| match kind {
                PartKind::Picture => (pictures.messages(), pictures.mtu),
                PartKind::Voice => (session.voice.count, session.voice.size),
                PartKind::Pose => (session.pose.count, session.pose.size),
                PartKind::Pen => (session.pen.count, session.pen.size),
            }),
            // Each picture is shown once it is complete, and refers to no other.
            pictures: Pictures::new(parts, messages, 1, Nanos(u64::MAX / 2), every),
            voice: Frames::new(session.voice.count, Codec::G711_PLC, FRAME, session.buffer),
            pose: Ages::new(session.pose.count, showing),
            pen: Deliveries::new(pen, session.pen.size, 0),
        }
    }

    /// Returns the length of the message with this number; 0 if there is none.
    pub(crate) fn length(&self, number: u64) -> usize {
        let Some((kind, index)) = PartKind::of(number) else { return 0 };
        let (count, size) = self.parts[kind as usize];
        match kind {
            PartKind::Picture => self.pictures.length(index).unwrap_or(0),
            _ if index < count => size,
            _ => 0,
        }
    }

    /// Returns the figures of the pictures; empty if no picture is complete.
    fn of_pictures(&self) -> Vec<(&'static str, f64)> {
        let unfinished = self.pictures.missing() as f64;
        let Some(times) = self.pictures.latencies() else { return Vec::new() };
        vec![
            (PICTURE, times.mean()),
            ("picture_max_ns", times.greatest() as f64),
            ("picture_unfinished_share", unfinished / (unfinished + times.count())),
        ]
    }
}

impl Measure for SessionMeasure {
    const BYTES_EACH: u64 = {
        let [a, b] = [Pictures::BYTES_EACH, Frames::BYTES_EACH];
        let [c, d] = [Ages::BYTES_EACH, Deliveries::BYTES_EACH];
        let (a, c) = (if a > b { a } else { b }, if c > d { c } else { d });
        if a > c { a } else { c }
    };

    #[inline]
    fn note(&mut self, now: Nanos, number: u64, due: Option<Nanos>, received: &Tally) {
        let Some((kind, index)) = PartKind::of(number) else { return };
        match kind {
            PartKind::Picture => self.pictures.note(now, index, due, received),
            PartKind::Voice => self.voice.note(now, index, due, received),
            PartKind::Pose => self.pose.note(now, index, due, received),
            PartKind::Pen => self.pen.note(now, index, due, received),
        }
    }

    fn numbered(&self, _seq: u64, bytes: &[u8]) -> (u64, Option<usize>) {
        let number = parts::read(bytes);
        (number, Some(self.length(number)))
    }

    /// Waits for points of the pen and pictures, which arrive even if voice and pose are lost.
    fn is_waiting(&self) -> bool {
        self.pen.is_waiting() || self.pictures.missing() > 0
    }

    /// Returns the points of the pen.
    fn items(&self) -> Vec<Item> {
        self.pen.items()
    }

    fn take_times(&mut self) -> RoundTrips {
        self.pen.take_times()
    }

    fn figures(&self) -> Option<Vec<(&'static str, f64)>> {
        let live = reported(&self.pen, OF_PEN)
            .chain(reported(&self.pose, OF_POSE))
            .chain(reported(&self.voice, OF_VOICE));
        let all: Vec<_> = live.chain(self.of_pictures()).collect();
        (!all.is_empty()).then_some(all)
    }
}
