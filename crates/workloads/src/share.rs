//! A session in which people work together: a presenter shows a picture and draws on it with a pen while speaking, and
//! the others see the head move. All parts go the same way over one connection; each part has needs of its own, and a
//! metric close to human perception.
//!
//! ```text
//! picture   ████████████████            must arrive whole, takes the remaining capacity
//! voice     |     |     |     |         a frame every 20 ms, useless if it is late
//! pose      | | | | | | | | | |         90 Hz, only the newest counts
//! pen       | | | | | | | | | |         100 Hz, every point, in order, and soon
//! ```
//!
//! Live messages go before the rest of a picture, as in an application that shares a connection.

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::spec::{Key, Settings, Spec};
use deadheat_base::time::Nanos;
use deadheat_base::units::Bytes;
use deadheat_contract::contract::{Direction, Guarantees, LaneSet, Service};

use crate::paced::{
    Claim, MOST_MESSAGES, NamedLane, Pace, PaceSettings, Paced, Period, Work, WorkFacts, count_key,
    direction_key,
};
use deadheat_contract::workload::setting::{fits_rate, ways};
use deadheat_contract::workload::{Endpoint, Info, Part, Setting, Task, Workload};

pub(crate) mod parts;
pub(crate) mod presenter;
pub(crate) mod rooms;
pub(crate) mod seen;

use parts::{LEAST, PartKind};
use presenter::Presenter;
use seen::SessionMeasure;

/// The workload.
pub(super) struct Share;

const KEYS: &[Key] = deadheat_base::keys![
    PICTURE, PICTURES, MTU, PEN, PEN_SIZE, POSE, POSE_SIZE, VOICE_SIZE, BUFFER, SERVICE, COUNT,
    DIRECTION, CLAIM
];

pub(crate) const PICTURE: Preset<Bytes> =
    Optional::size("picture", (1, 1 << 30)).or("500kB").doc("one picture, which must arrive whole");

pub(crate) const PICTURES: Preset<u64> = Optional::count("pictures", (0, 1_000)).or("1").doc(
    "pictures, the first at the start and the others evenly far apart; 0 for a session without",
);

pub(crate) const MTU: Preset<usize> = Optional::length("mtu", (2 * LEAST as u64, 65_507))
    .or("1200")
    .doc("the largest message into which a picture is cut, its header of 28 bytes included");

pub(crate) const PEN: Preset<u64> = Optional::count("pen", (1, 1_000))
    .or("100")
    .doc("points of the pen per second, all of which arrive in their order");

pub(crate) const PEN_SIZE: Preset<usize> =
    Optional::length("pen-size", (LEAST as u64, 65_507)).or("48").doc("one point of the pen");

pub(crate) const POSE: Preset<u64> = Optional::count("pose", (1, 1_000))
    .or("90")
    .doc("poses of the head per second, of which the newest counts");

pub(crate) const POSE_SIZE: Preset<usize> =
    Optional::length("pose-size", (LEAST as u64, 65_507)).or("64").doc("one pose");

pub(crate) const VOICE_SIZE: Preset<usize> = Optional::length("voice-size", (LEAST as u64, 65_507))
    .or("172")
    .doc("20 ms of the voice: 160 bytes of 64 kbit/s and an RTP header of 12");

pub(crate) const BUFFER: Preset<Nanos> = Optional::span("buffer", (0, 2_000_000_000))
    .or("40ms")
    .doc("the jitter buffer: how long after the fastest message each of the voice is played");

pub(crate) const SERVICE: Preset<bool> = Optional::choice("service", &["own", "latest"], &[false, true])
    .or("own")
    .doc("service of the lanes of voice and pose: the transport's usual one, or messages that may be lost; with own they \
     share the pen's lane where a connection has too few");

pub(crate) const COUNT: Optional<u64> =
    count_key("points of the pen (as many as the claim needs: 200, or 1000 for pen-p99)");

const DIRECTION: Preset<Direction> = direction_key("up", "near to far, or far to near");

pub(crate) const CLAIM: Preset<Claim> = Optional::choice("claim", &["pen", "pen-p99", "pose", "voice", "picture"], &[
        Claim::new("pen_mean_ns", ENOUGH),
        Claim::new("pen_p99_ns", ENOUGH_FOR_P99),
        Claim::new("pose_age_mean_ns", ENOUGH),
        Claim::new("voice_impairment_share", ENOUGH),
        Claim::new(seen::PICTURE, ENOUGH),
    ])
    .or("pen")
    .doc("the figure for verdicts: delivery of the pen's points, mean or p99; mean age of the pose; impairment of the \
     voice; mean time of a picture");

static INFO: Info = Info {
    id: "share",
    label: "shared session",
    summary: "a picture, a pen, a voice and a head pose in one session",
    keys: KEYS,
};

/// Lanes, if there are four, in the order of the parts.
pub(crate) const LANES: [NamedLane; PartKind::ALL.len()] = [
    NamedLane { name: "picture" },
    NamedLane { name: "voice" },
    NamedLane { name: "pose" },
    NamedLane { name: "pen" },
];

/// Number of points of the pen for a mean: two seconds, in which a loss of 1 % hits two.
const ENOUGH: u64 = 200;

/// Number of points with ten beyond the 99th percentile.
const ENOUGH_FOR_P99: u64 = 1_000;

/// Duration of the speech in one message.
const FRAME: Nanos = Nanos::from_millis(20);

impl Workload for Share {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec, setting: &Setting) -> Result<Box<dyn Task>> {
        let task = task(Settings::check(spec, KEYS)?)?;
        fits_rate(INFO.id, setting, task.pace.direction, task.work.offered_bps())?;
        Ok(Box::new(task))
    }
}

/// A live part: its messages, and the interval between two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Live {
    pub(crate) period: Period,
    pub(crate) size: usize,
    pub(crate) count: u64,
}

/// A session with its settings.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) pen: Live,
    pub(crate) voice: Live,
    pub(crate) pose: Live,
    pub(crate) pictures: Slides,
    buffer: Nanos,
    /// True if voice and pose ask for lanes that may lose messages.
    may_lose: bool,
    pub(crate) claimed: &'static str,
    /// Time from the first point of the pen to the end of its last.
    pub(crate) span: Nanos,
    /// Person who sends, above the other bits of a message's number; 0 where there is one.
    origin: u64,
}

/// Pictures, and the messages that carry them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slides {
    bytes: u64,
    pub(crate) count: u64,
    pub(crate) mtu: usize,
    /// Interval between the beginnings of two pictures.
    every: Nanos,
}

impl Slides {
    /// Returns the bytes of a picture that one message carries.
    fn room(self) -> u64 {
        (self.mtu - LEAST) as u64
    }

    /// Returns the number of messages that carry one picture.
    fn pieces(self) -> u64 {
        self.bytes.div_ceil(self.room())
    }

    /// Returns the number of messages of all pictures.
    pub(crate) fn messages(self) -> u64 {
        self.count.saturating_mul(self.pieces())
    }

    /// Returns the number of the picture in this message, and the message's length.
    fn piece(self, index: u64) -> (u64, usize) {
        let (picture, piece) = (index / self.pieces(), index % self.pieces());
        let left = self.bytes - piece * self.room();
        (picture, LEAST + left.min(self.room()) as usize)
    }
}

fn task(settings: Settings) -> Result<Paced<Session>> {
    let direction = settings.get(&DIRECTION);
    let (pace, work) = read(INFO.id, settings, direction)?;
    Ok(Paced::new(pace, work))
}

/// Reads the session, and the pace of its pen, from the settings of the workload `id`.
pub(crate) fn read(id: &str, settings: Settings, direction: Direction) -> Result<(Pace, Session)> {
    let Claim { figure, fewest } = settings.get(&CLAIM);
    let pen = Period::of_packets(settings.get(&PEN));
    let pose = Period::of_packets(settings.get(&POSE));
    let voice = Period { ns: FRAME.0, over: 1 };
    let (pen_size, pose_size) = (settings.get(&PEN_SIZE), settings.get(&POSE_SIZE));
    let (voice_size, mtu) = (settings.get(&VOICE_SIZE), settings.get(&MTU));
    let (Bytes(bytes), pictures) = (settings.get(&PICTURE), settings.get(&PICTURES));
    let (buffer, may_lose) = (settings.get(&BUFFER), settings.get(&SERVICE));
    let wanted = PaceSettings {
        count: settings.find(&COUNT),
        fewest,
        size: mtu.max(pen_size).max(pose_size).max(voice_size),
        direction,
    };
    let pace = Pace::new(settings, pen, wanted);
    let span = pen.times(pace.count);
    let live = |period: Period, size| Live { period, size, count: period.within(span) };
    let work = Session {
        pen: Live { count: pace.count, ..live(pen, pen_size) },
        voice: live(voice, voice_size),
        pose: live(pose, pose_size),
        pictures: Slides { bytes, count: pictures, mtu, every: Nanos(span.0 / pictures.max(1)) },
        buffer,
        may_lose,
        claimed: figure,
        span,
        origin: 0,
    };
    if pictures == 0 && work.claimed == seen::PICTURE {
        return Err(Error::usage(format!(
            "{id}: claim=picture with pictures=0 has nothing to claim; have at least one, or claim another part"
        )));
    }
    if work.messages() > MOST_MESSAGES {
        return Err(Error::usage(format!(
            "{id}: {pictures} pictures of {} are cut into {} messages of {mtu} bytes, and {MOST_MESSAGES} are \
             remembered; have fewer or smaller pictures, or raise mtu",
            Bytes(bytes),
            work.pictures.messages()
        )));
    }
    Ok((pace, work))
}

impl Session {
    /// Returns the maximum number of messages of all parts.
    pub(crate) fn messages(&self) -> u64 {
        [self.pen, self.voice, self.pose]
            .iter()
            .fold(self.pictures.messages(), |sum, live| sum.saturating_add(live.count))
    }

    /// Returns the session with the parts on these lanes of a connection with a lane for each.
    pub(crate) fn carrying(&self, carried: LaneSet) -> Session {
        let has = |kind: PartKind| carried.has(kind.lane(PartKind::ALL.len()));
        let kept =
            |kind, live: Live| Live { count: if has(kind) { live.count } else { 0 }, ..live };
        let pictures = if has(PartKind::Picture) { self.pictures.count } else { 0 };
        Session {
            pen: kept(PartKind::Pen, self.pen),
            voice: kept(PartKind::Voice, self.voice),
            pose: kept(PartKind::Pose, self.pose),
            pictures: Slides { count: pictures, ..self.pictures },
            ..self.clone()
        }
    }

    /// Returns the same session as the person with this number, from 0, sends it.
    pub(crate) fn of(self, person: u16) -> Session {
        Session { origin: parts::origin(person), ..self }
    }

    /// Returns the application bits per second throughout the session: a single picture has no rate.
    pub(crate) fn offered_bps(&self) -> f64 {
        let bps = |live: &Live| {
            live.size as f64 * 8e9 * live.period.over as f64 / live.period.ns.max(1) as f64
        };
        let live: f64 = [self.pen, self.voice, self.pose].iter().map(bps).sum();
        let Slides { bytes, count, every, .. } = self.pictures;
        let pictures = if count > 1 { bytes as f64 * 8e9 / every.0.max(1) as f64 } else { 0.0 };
        live + pictures
    }
}

impl Work for Session {
    type Measure = SessionMeasure;

    fn facts(&self, pace: &Pace) -> WorkFacts {
        let (picture, pictures) = (pace.as_typed(&PICTURE), pace.as_typed(&PICTURES));
        let (pen, pose) = (pace.as_typed(&PEN), pace.as_typed(&POSE));
        let shown = match self.pictures.count {
            0 => "no picture".to_owned(),
            1 => format!("a picture of {picture}"),
            _ => format!("{pictures} pictures of {picture}"),
        };
        let ways = ways(&[pace.direction]);
        WorkFacts {
            id: INFO.id,
            headline: format!(
                "{shown}, a pen at {pen} Hz, a voice, and a pose at {pose} Hz on one connection, {ways}"
            ),
            figures: seen::FIGURES,
            clocks: seen::CLOCKS,
            claimed: self.claimed.to_owned(),
            lane_names: NamedLane::names(&LANES),
            figures_by_lane: seen::by_lane(&LANES),
            messages: Some(self.messages()),
            is_even: true,
            items: Some((["pen", "delay of the pen"], None)),
        }
    }

    /// Returns a lane for each part, the pen's last; with fewer lanes, the last parts share the pen's.
    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        let lossy = if self.may_lose { Service::BEST_EFFORT } else { promised.service };
        let all = PartKind::ALL.map(|of| match of {
            PartKind::Picture | PartKind::Pen => Service::ORDERED,
            PartKind::Voice | PartKind::Pose => lossy,
        });
        let most = if self.may_lose { all.len() } else { usize::from(promised.lanes).max(1) };
        if most < all.len() { vec![Service::ORDERED; most] } else { all.to_vec() }
    }

    fn sender(&self, _pace: &Pace, lanes: &[Service], part: Part) -> Box<dyn Endpoint> {
        Box::new(Presenter::new(&self.carrying(part.carried), lanes.len(), part))
    }

    fn measure(&self, _slots: u64, _seed: u64, carried: LaneSet) -> SessionMeasure {
        SessionMeasure::new(&self.carrying(carried))
    }
}

#[cfg(test)]
mod tests;
