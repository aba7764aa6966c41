//! Live video, one way: frames of different sizes at a fixed rate, each cut into messages, and each shown a fixed time
//! after it was due. A frame that is incomplete by then is not shown, nor are the frames that refer to it.
//!
//! ```text
//! frames      I────  P─  P─  P─  P─  I────  P─      I refers to none, P to the one before
//! messages    ||||   ||  |x  ||  ||  ||||   ||
//! shown       I      P   .   .   .   I      P       one message is lost: a still until the next I
//! ```

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::spec::{Key, Settings, Spec};
use deadheat_base::time::Nanos;
use deadheat_base::units::{BitRate, parse_rate, span_text};
use deadheat_contract::contract::{
    Delivery, Direction, Guarantees, Lane, LaneSet, Ordering, Service,
};
use deadheat_contract::measurements::{Better, ClockNeed, Unit};

use crate::draw::{MOST_OVER_MEAN, Sizes};
use crate::paced::{
    BoxedPlan, DUE_LEN, Otherwise, Pace, PaceSettings, Paced, Period, Plan, Slot, Work, WorkFacts,
    direction_key,
};
use deadheat_contract::workload::setting::{fits_rate, ways};
use deadheat_contract::workload::theory::{Conditions, Prediction};
use deadheat_contract::workload::{Info, Setting, Task, Traffic, Workload, traffic};

pub(crate) mod pictures;

use pictures::Pictures;

/// The workload.
pub(super) struct Video;

const KEYS: &[Key] = deadheat_base::keys![
    HZ, RATE, GOP, KEYFRAME, SPREAD, MTU, DEADLINE, SERVICE, COUNT, DIRECTION, CLAIM
];

const HZ: Preset<u64> = Optional::count("hz", (1, 240)).or("30").doc("frames per second");

const RATE: Preset<BitRate> =
    Optional::rate("rate", (10_000, 1_000_000_000)).or("2mbit").doc("the mean rate of all frames");

const GOP: Preset<u64> = Optional::count("gop", (1, 10_000))
    .or("30")
    .doc("frames from a keyframe, which refers to no other, to the next");

const KEYFRAME: Preset<u64> = Optional::count("keyframe", (1, 100))
    .or("5")
    .doc("mean size of a keyframe, as a multiple of the other frames'");

const SPREAD: Preset<f64> = Optional::any_share("spread")
    .or("30%")
    .doc("standard deviation of the sizes of frames of a kind, as a share of the mean; lognormal");

const MTU: Preset<usize> = Optional::length("mtu", (2 * DUE_LEN as u64, 65_507))
    .or("1200")
    .doc("the largest message into which a frame is cut, its header of 20 bytes included");

const DEADLINE: Preset<Nanos> = Optional::span("deadline", (1_000_000, 10_000_000_000))
    .or("100ms")
    .doc("time from when a frame is due until it is shown");

const SERVICE: Preset<fn(Nanos) -> Option<Service>> = Optional::<fn(Nanos) -> Option<Service>>::choice("service", &["own", "reliable", "unreliable", "lifetime"], &[|_| None, |_| Some(Service::ORDERED), |_| Some(Service::BEST_EFFORT), expiring])
    .or("own")
    .doc("service asked of the transport: its usual one, every message in order, messages that may be lost, or messages \
     that are given up at the deadline");

const COUNT: Optional<u64> = Optional::count("count", (20, 1_000_000))
    .doc("frames (as many as the claim needs: 60, or two seconds)");

const DIRECTION: Preset<Direction> =
    direction_key("down", "near to far, or far to near as from a server");

const CLAIM: Preset<&'static str> =
    Optional::choice("claim", &["missed", "latency"], &["missed_share", "latency_mean_ns"])
        .or("missed")
        .doc(
            "the figure for verdicts: frames that do not arrive in time, or the mean latency of \
             those that arrive at all",
        );

/// Returns the service that gives messages up after `deadline`.
fn expiring(deadline: Nanos) -> Option<Service> {
    Some(Service { delivery: Delivery::Within(deadline), ordering: Ordering::Unordered })
}

static INFO: Info = Info {
    id: "video",
    label: "live video",
    summary: "live video: how many frames arrive in time and can be shown",
    keys: KEYS,
};

/// Number of frames for a share: two seconds with two keyframes, in which a loss of 1 % hits several.
const ENOUGH: u64 = 60;

impl Workload for Video {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec, setting: &Setting) -> Result<Box<dyn Task>> {
        let settings = Settings::check(spec, KEYS)?;
        let rate = settings.get(&RATE).0 as f64;
        let task = task(settings);
        let direction = task.pace.direction;
        fits_rate(INFO.id, setting, direction, rate)?;
        let deadline = task.work.deadline;
        match setting.bounds(direction).delay {
            Some(least) if least >= deadline => Err(Error::usage(format!(
                "video: nothing is there in time: the deadline is {deadline}, and the path takes {least} {direction}; \
                 allow more, or take a shorter path"
            ))),
            _ => Ok(Box::new(task)),
        }
    }

    fn stands_for(&self, traffic: &Traffic, _others: &[Traffic]) -> Option<Result<traffic::Work>> {
        (traffic.kind == traffic::Kind::Video).then(|| {
            let rate = traffic.rate.clone().unwrap_or_else(|| "2mbit".to_owned());
            let bps = parse_rate(&rate)?.0 as f64;
            let direction = traffic.direction(Direction::Down).to_string();
            let mut options = vec![("rate", rate), ("direction", direction)];
            options.extend(traffic.per_second.map(|hz| ("hz", hz.to_string())));
            let deadline = Traffic::span(traffic.deadline.as_ref())?;
            options.extend(deadline.map(|deadline| ("deadline", span_text(deadline))));
            let work = traffic::Work::new(INFO.id, options);
            Ok(traffic::Work { offered_bps: Some(bps), ..work })
        })
    }
}

/// A picture that moves, with its settings.
#[derive(Debug, Clone)]
struct Moving {
    frames: FrameSizes,
    deadline: Nanos,
    /// Service to ask for; `None` for the transport's own.
    service: Option<Service>,
    claimed: &'static str,
}

/// Sizes of frames, and of the messages that carry them.
#[derive(Debug, Clone, Copy)]
struct FrameSizes {
    period: Period,
    count: u64,
    /// Mean size of a frame other than a keyframe, in bytes.
    mean: f64,
    keyframe: f64,
    gop: u64,
    spread: f64,
    mtu: usize,
}

fn task(settings: Settings) -> Paced<Moving> {
    let (hz, gop) = (settings.get(&HZ), settings.get(&GOP));
    let keyframe = settings.get(&KEYFRAME) as f64;
    let period = Period::of_packets(hz);
    let mean = settings.get(&RATE).0 as f64 / 8.0 / hz as f64;
    let deadline = settings.get(&DEADLINE);
    let mut frames = FrameSizes {
        period,
        count: 0,
        mean: mean * gop as f64 / ((gop - 1) as f64 + keyframe),
        keyframe,
        gop,
        spread: settings.get(&SPREAD),
        mtu: settings.get(&MTU),
    };
    let (service, claimed) = (settings.get(&SERVICE)(deadline), settings.get(&CLAIM));
    let wanted = PaceSettings {
        count: settings.find(&COUNT),
        fewest: ENOUGH,
        size: frames.mtu,
        direction: settings.get(&DIRECTION),
    };
    let pace = Pace::new(settings, period, wanted);
    frames.count = pace.count;
    Paced::new(pace, Moving { frames, deadline, service, claimed })
}

impl FrameSizes {
    /// Returns the size of each frame, at least one byte. The sizes are the same at both ends.
    fn sizes(self, seed: u64) -> impl Iterator<Item = u64> {
        let mut factors = Sizes::new(self.spread, seed);
        (0..self.count).map(move |frame| {
            let kind = if frame % self.gop == 0 { self.keyframe } else { 1.0 };
            ((self.mean * kind * factors.factor()).round() as u64).max(1)
        })
    }

    /// Returns the bytes of a frame that one message carries.
    fn room(self) -> u64 {
        (self.mtu - DUE_LEN) as u64
    }

    /// Returns the number of messages that carry a frame of this size.
    fn parts(self, size: u64) -> u64 {
        size.div_ceil(self.room())
    }

    /// Returns the length of part `part` of a frame of this size.
    fn length(self, size: u64, part: u64) -> usize {
        DUE_LEN + (size - part * self.room()).min(self.room()) as usize
    }

    /// Returns all messages: the frame of each, and its length.
    fn messages(self, seed: u64) -> impl Iterator<Item = (u64, usize)> {
        (0..).zip(self.sizes(seed)).flat_map(move |(frame, size)| {
            (0..self.parts(size)).map(move |part| (frame, self.length(size, part)))
        })
    }

    /// Returns the maximum number of messages, with each frame as large as its kind can be.
    fn most(self) -> u64 {
        let parts = |mean: f64| self.parts((mean * MOST_OVER_MEAN).ceil() as u64 + 1);
        let keyframes = self.count.div_ceil(self.gop);
        let others = (self.count - keyframes).saturating_mul(parts(self.mean));
        others.saturating_add(keyframes.saturating_mul(parts(self.mean * self.keyframe)))
    }
}

impl Work for Moving {
    type Measure = Pictures;

    fn facts(&self, pace: &Pace) -> WorkFacts {
        let (rate, hz, deadline) =
            (pace.as_typed(&RATE), pace.as_typed(&HZ), pace.as_typed(&DEADLINE));
        let ways = ways(&[pace.direction]);
        WorkFacts {
            id: INFO.id,
            headline: format!("{rate} of video at {hz} Hz, shown {deadline} later, {ways}"),
            figures: FIGURES,
            clocks: CLOCKS,
            claimed: self.claimed.to_owned(),
            messages: Some(self.frames.most()),
            items: Some((["latency", "latency"], Some(self.deadline))),
            ..WorkFacts::default()
        }
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        vec![self.service.unwrap_or(promised.service)]
    }

    fn plan(&self, pace: &Pace, _lanes: &[Service], seed: u64) -> Option<BoxedPlan> {
        let (period, deadline) = (self.frames.period, self.deadline);
        let slots = (0..).zip(self.frames.messages(seed)).map(move |(seq, (frame, len))| Slot {
            due: period.times(frame),
            place: Some((seq, Lane(0))),
            len,
            // A message that cannot arrive in time any more is not sent.
            otherwise: Otherwise::KeptFor(deadline),
        });
        Some(Plan {
            slots: Box::new(slots),
            count: self.frames.messages(seed).count() as u64,
            step: period.times(1),
            span: period.times(pace.count),
            is_even: false,
        })
    }

    /// Predicts the shares of incomplete frames and of frames that cannot be shown, if no message is sent again.
    fn theory(&self, pace: &Pace, on: &Conditions<'_>) -> Vec<Prediction> {
        let lane = self.lanes(on.guarantees).first().map(|service| service.delivery);
        if lane != Some(Delivery::BestEffort) {
            return Vec::new();
        }
        let way = pace.direction;
        // All messages have the largest size, except the last of each frame.
        let whole = 1.0 - on.lost(way, self.frames.mtu);
        let (mut lost, mut frozen, mut shown) = (0.0, 0.0, 1.0);
        for (frame, size) in (0u64..).zip(self.frames.sizes(0)) {
            let own = whole.powi(self.frames.parts(size).min(1 << 20) as i32);
            shown = if frame % self.frames.gop == 0 { own } else { shown * own };
            lost += 1.0 - own;
            frozen += 1.0 - shown;
        }
        let n = self.frames.count.max(1) as f64;
        let late = on.transit(way, self.frames.mtu) >= self.deadline.0 as f64;
        let late = late.then(|| "no frame is there in time".to_owned());
        let bps = self.frames.mean * 8e9 / pace.period_ns();
        let outside = late.or(on.crowded(way, bps));
        let of = |metric, sum: f64, form| Prediction {
            metric,
            value: sum / n,
            form,
            source: "independent losses",
            tolerance: 0.1,
            outside: outside.clone(),
        };
        vec![
            of("lost_share", lost, "1 - (1 - p)^k, for k messages a frame"),
            of("frozen_share", frozen, "1 - (1 - p)^(k of all frames back to the keyframe)"),
        ]
    }

    fn measure(&self, _slots: u64, seed: u64, _carried: LaneSet) -> Pictures {
        let parts = self.frames.sizes(seed).map(|size| self.frames.parts(size)).collect();
        let lengths = self.frames.messages(seed).map(|(frame, len)| (frame as u32, len as u32));
        let period = self.frames.period;
        Pictures::new(parts, lengths.collect(), self.frames.gop, self.deadline, period)
    }
}

/// Figures of the workload: name, label, unit and the better end.
const FIGURES: &[(&str, &str, Unit, Better)] = &[
    ("missed_share", "frames not in time", Unit::Share, Better::Lower),
    ("late_share", "frames too late", Unit::Share, Better::Lower),
    ("lost_share", "frames never whole", Unit::Share, Better::Lower),
    ("frozen_share", "time without a new picture", Unit::Share, Better::Lower),
    ("frozen_max_ns", "longest still", Unit::Nanos, Better::Lower),
    ("latency_mean_ns", "mean latency of a frame", Unit::Nanos, Better::Lower),
    ("latency_p99_ns", "latency p99 of a frame", Unit::Nanos, Better::Lower),
];

/// Clocks that the figures need.
const CLOCKS: &[(&str, ClockNeed)] = &[
    ("missed_share", ClockNeed::Offset),
    ("late_share", ClockNeed::Offset),
    ("frozen_share", ClockNeed::Offset),
    ("frozen_max_ns", ClockNeed::Offset),
    ("latency_mean_ns", ClockNeed::Offset),
    ("latency_p99_ns", ClockNeed::Offset),
];

#[cfg(test)]
mod tests;
