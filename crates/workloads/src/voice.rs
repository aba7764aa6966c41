//! A voice, one way: a frame every 20 ms, played at a fixed time after it was spoken. A later frame is as useless as a
//! lost one; a longer wait adds delay, which callers notice, too. The E-model (ITU-T G.107) weighs both.
//!
//! ```text
//! spoken   |--frame--|
//! due                | sent
//! arrives                 ┄┄┄┄|  in time        ┄┄┄┄┄┄┄┄┄┄┄| late: a gap
//! played             |◄── playout delay ──►|
//! ```

use deadheat_base::error::Result;
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::spec::{Key, Settings, Spec};
use deadheat_base::time::Nanos;
use deadheat_base::units::span_text;
use deadheat_contract::contract::{Direction, LaneSet};
use deadheat_contract::measurements::{Better, ClockNeed, Unit};

use crate::paced::{
    Pace, PaceSettings, Paced, Period, RECEIVERS, Work, WorkFacts, count_key, direction_key,
    size_key,
};
use deadheat_contract::workload::setting::{fits_rate, ways};
use deadheat_contract::workload::{Info, Setting, Task, Traffic, Workload, traffic};

pub(crate) mod emodel;
pub(crate) mod frames;

use emodel::Codec;
use frames::Frames;

/// The workload.
pub(super) struct Voice;

const KEYS: &[Key] = deadheat_base::keys![CODEC, FRAME, SIZE, BUFFER, COUNT, RECEIVERS, DIRECTION];

const CODEC: Preset<Codec> = Optional::choice(
    "codec",
    &["g711", "g711-plc", "g729a"],
    &[Codec::G711, Codec::G711_PLC, Codec::G729A],
)
.or("g711-plc")
.doc(
    "treatment of a lost frame: none (g711), or concealment by the decoder (g711-plc) \
     or by a codec of 8 kbit/s (g729a)",
);

const FRAME: Preset<Nanos> = Optional::span("frame", (2_500_000, 120_000_000))
    .or("20ms")
    .doc("duration of the speech in each message");

const SIZE: Preset<usize> =
    size_key("172", "one message: 160 bytes of 64 kbit/s and an RTP header of 12");

const BUFFER: Preset<Nanos> = Optional::span("buffer", (0, 2_000_000_000))
    .or("40ms")
    .doc("the jitter buffer: how long after the fastest message each is played");

const COUNT: Optional<u64> = count_key("messages (as many as the claim needs: 200, four seconds)");

const DIRECTION: Preset<Direction> = direction_key("up", "near to far, or far to near");

static INFO: Info = Info {
    id: "voice",
    label: "voice",
    summary: "a voice call with a jitter buffer: its rating by ITU-T G.107",
    keys: KEYS,
};

/// Number of frames of a few sentences, in which a loss of 1 % hits two.
const ENOUGH: u64 = 200;

impl Workload for Voice {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec, setting: &Setting) -> Result<Box<dyn Task>> {
        let task = task(Settings::check(spec, KEYS)?)?;
        fits_rate(INFO.id, setting, task.pace.direction, task.pace.offered_bps())?;
        Ok(Box::new(task))
    }

    fn stands_for(&self, traffic: &Traffic, _others: &[Traffic]) -> Option<Result<traffic::Work>> {
        (traffic.kind == traffic::Kind::Voice).then(|| {
            let frame = Traffic::span(traffic.every.as_ref())?.unwrap_or(Nanos::from_millis(20));
            let buffer = Traffic::span(traffic.deadline.as_ref())?;
            let size = Traffic::bytes(traffic.size.as_ref(), 172)?;
            let direction = traffic.direction(Direction::Up).to_string();
            let mut options = vec![
                ("frame", span_text(frame)),
                ("size", size.to_string()),
                ("direction", direction),
            ];
            options.extend(buffer.map(|buffer| ("buffer", span_text(buffer))));
            let bps = size as f64 * 8e9 / frame.0.max(1) as f64;
            let work = traffic::Work::new(INFO.id, options);
            Ok(traffic::Work { offered_bps: Some(bps), ..work })
        })
    }
}

/// A voice with its settings.
#[derive(Debug, Clone)]
struct Speech {
    codec: Codec,
    frame: Nanos,
    buffer: Nanos,
}

fn task(settings: Settings) -> Result<Paced<Speech>> {
    let work = Speech {
        codec: settings.get(&CODEC),
        frame: settings.get(&FRAME),
        buffer: settings.get(&BUFFER),
    };
    let period = Period { ns: work.frame.0, over: 1 };
    let wanted = PaceSettings {
        count: settings.find(&COUNT),
        fewest: ENOUGH,
        size: settings.get(&SIZE),
        direction: settings.get(&DIRECTION),
    };
    let pace = Pace::new(settings, period, wanted).with_receivers(INFO.id)?;
    Ok(Paced::new(pace, work))
}

impl Work for Speech {
    type Measure = Frames;

    fn facts(&self, pace: &Pace) -> WorkFacts {
        let (frame, buffer) = (pace.as_typed(&FRAME), pace.as_typed(&BUFFER));
        let ways = ways(&[pace.direction]);
        WorkFacts {
            id: INFO.id,
            headline: format!(
                "a voice in frames of {frame} with a jitter buffer of {buffer}, {ways}"
            ),
            figures: FIGURES,
            clocks: CLOCKS,
            claimed: CLAIMED.to_owned(),
            is_even: true,
            ..WorkFacts::default()
        }
    }

    fn measure(&self, slots: u64, _seed: u64, _carried: LaneSet) -> Frames {
        Frames::new(slots, self.codec, self.frame, self.buffer)
    }
}

/// The figure that verdicts are given for.
const CLAIMED: &str = "impairment_share";

/// Figures of the workload: name, label, unit and the better end. The claim is the impairment, 100 − R, because ratios
/// of ratings near 93 are all near 1.
const FIGURES: &[(&str, &str, Unit, Better)] = &[
    (CLAIMED, "impairment (100 − R)", Unit::Share, Better::Lower),
    ("rating_share", "E-model rating R, of 100", Unit::Share, Better::Higher),
    ("gap_share", "frames not played", Unit::Share, Better::Lower),
    ("late_share", "frames too late", Unit::Share, Better::Lower),
    ("mouth_to_ear_ns", "mouth to ear", Unit::Nanos, Better::Lower),
    ("best_rating_share", "rating with the best buffer", Unit::Share, Better::Higher),
    ("best_mouth_to_ear_ns", "mouth to ear with it", Unit::Nanos, Better::Lower),
];

/// Clocks that the figures need.
const CLOCKS: &[(&str, ClockNeed)] = &[
    ("impairment_share", ClockNeed::Offset),
    ("rating_share", ClockNeed::Offset),
    ("mouth_to_ear_ns", ClockNeed::Offset),
    ("best_rating_share", ClockNeed::Offset),
    ("best_mouth_to_ear_ns", ClockNeed::Offset),
    ("gap_share", ClockNeed::Relative),
    ("late_share", ClockNeed::Relative),
];

#[cfg(test)]
mod tests;
