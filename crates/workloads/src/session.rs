//! A session of several people: each sends to each other what a presenter sends in `share`, a picture, a pen, a voice and
//! a pose, over connections to the others or over a server that hands every message on.
//!
//! ```text
//! via=peers         via=server             via=mix
//!   1 ─── 2         1 ──► server ──► 2     voice and poses as peers,
//!    ╲   ╱                   └─────► 3     pictures and pen over the server
//!      3
//! ```
//!
//! The figure is that of the pair of people between whom it is worst.

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::spec::{Key, Settings, Spec};
use deadheat_base::units::Bytes;
use deadheat_contract::contract::{Direction, Guarantees, LaneSet, PeerFacts, Service, Side};
use deadheat_contract::measurements::{Better, ClockNeed, Metric, Role, Unit, total};
use deadheat_contract::workload::header::account_of;
use deadheat_contract::workload::setting::{claiming, filled, fits_rate, needing};
use deadheat_contract::workload::theory::{Conditions, Prediction};
use deadheat_contract::workload::{
    EndMemory, Endpoint, EndpointReport, Info, Measurements, NodeHost, Part, PathKind, People,
    Reports, Setting, Task, TaskInfo, Workload,
};

use crate::paced::{self, DRAIN, MOST_MESSAGES, Measure, NamedLane, Pace, Receiver, Work};
use crate::share::parts::PartKind;
use crate::share::presenter::Presenter;
use crate::share::seen::{CLOCKS, FIGURES, SessionMeasure};
use crate::share::{self, Session};

mod forwarder;
mod person;
mod seen;

use forwarder::Forwarder;
use person::Person;
use seen::Others;

/// The workload.
pub(super) struct Meeting;

const KEYS: &[Key] = deadheat_base::keys![
    PEOPLE,
    VIA,
    share::PICTURE,
    share::PICTURES,
    share::MTU,
    share::PEN,
    share::PEN_SIZE,
    share::POSE,
    share::POSE_SIZE,
    share::VOICE_SIZE,
    share::BUFFER,
    share::SERVICE,
    share::COUNT,
    share::CLAIM
];

const PEOPLE: Preset<u64> = Optional::count("people", (2, 8))
    .or("3")
    .doc("people, each at a host of the path, or each a process");

const VIA: Preset<Via> = Optional::choice("via", &["peers", "server", "mix"], &[Via::Peers, Via::Server, Via::Mix])
    .or("server")
    .doc("the way between two people: a connection of their own, a server at the far host that hands every message on, or \
     their own for voice and poses and the server for pictures and pen");

static INFO: Info = Info {
    id: "session",
    label: "session of several people",
    summary: "several people who share pictures, pen, voice and poses, over a server or among themselves",
    keys: KEYS,
};

/// Way between two people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Via {
    Peers,
    Server,
    Mix,
}

/// Figures of the session as a whole: name, label, unit and the better end.
const WHOLE: &[(&str, &str, Unit, Better)] = &[
    (LOST, "voice and poses lost at the server", Unit::Share, Better::Lower),
    (SERVER_UPLOAD, "upload of the server", Unit::BitRate, Better::Lower),
];

/// Name of the share of voice and poses that did not fit into the server's queues.
const LOST: &str = "server_lost_share";
/// Name of the bits of messages that the server sends per second.
const SERVER_UPLOAD: &str = "server_upload_bps";

/// Time of voice or poses that waits at the server for a person at most: older ones are of no use.
const STALE_MS: u64 = 200;

/// Most bytes of pen and pictures that wait at the server for one person.
const MOST_QUEUED: u64 = 64 << 20;

impl Workload for Meeting {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec, setting: &Setting) -> Result<Box<dyn Task>> {
        let settings = Settings::check(spec, KEYS)?;
        let (people, via) = (settings.get(&PEOPLE) as u16, settings.get(&VIA));
        check_path(people, via, setting)?;
        let (pace, session) = share::read(INFO.id, settings, Direction::Up)?;
        // Over a server every message comes back to this host, whose clock stamped it.
        let compares_clocks = setting.kind != PathKind::Remote || via != Via::Server;
        let task = MeetingTask::new(pace, session, (people, via), compares_clocks)?;
        for direction in [Direction::Up, Direction::Down] {
            fits_rate(INFO.id, setting, direction, task.offered_bps(direction))?;
        }
        Ok(Box::new(task))
    }
}

/// Checks that people can be where the path has hosts.
fn check_path(people: u16, via: Via, setting: &Setting) -> Result<()> {
    let why = match (setting.kind, via) {
        (PathKind::Remote, Via::Mix | Via::Peers) if people > 2 || via == Via::Mix => {
            "over a real network a far host answers and dials nobody, so all people dial from this host: race via=server; \
             or each pair alone, people=2,via=peers, from one of its hosts --to the other; or emulate the hosts with the \
             delays between them, --path a--b:delay=5ms+a--c:delay=9ms+b--c:delay=7ms,people=a/b/c"
        }
        _ => return Ok(()),
    };
    Err(Error::usage(format!("{}: {why}", INFO.id)))
}

/// A session of people with its settings.
struct MeetingTask {
    info: TaskInfo,
    session: Session,
    count: u16,
    via: Via,
}

/// Ends of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlowEnds {
    /// The person who dials and the one who listens.
    Pair(u16, u16),
    /// A person, and the server.
    ToServer(u16),
}

impl MeetingTask {
    fn new(
        pace: Pace,
        session: Session,
        (count, via): (u16, Via),
        compares_clocks: bool,
    ) -> Result<MeetingTask> {
        let others = u64::from(count - 1);
        let most = session.messages().saturating_mul(others);
        if most > MOST_MESSAGES {
            return Err(Error::usage(format!(
                "{}: each person receives {most} messages, and {MOST_MESSAGES} are remembered; have fewer people, or \
                 fewer or smaller pictures",
                INFO.id
            )));
        }
        let people = Self::people(&session, count, via)?;
        let planned = pace.period.times(pace.count);
        let kept = most.saturating_mul(<Others as Measure>::BYTES_EACH);
        let queued: usize = people.queues.iter().sum();
        let queued = (queued as u64).saturating_mul(u64::from(count));
        // The same whatever the way, so that ways can be set beside each other.
        let figures: Vec<_> = FIGURES.iter().chain(WHOLE).copied().collect();
        let mut metrics = claiming(&figures, session.claimed);
        if compares_clocks {
            metrics = needing(metrics, CLOCKS);
        }
        for metric in
            metrics.iter_mut().filter(|metric| !WHOLE.iter().any(|one| one.0 == metric.name))
        {
            metric.label += ", worst pair";
        }
        metrics.extend((0..count).map(upload));
        metrics.extend(seen::of_pairs(count, compares_clocks));
        let shown = pace.as_typed(&VIA);
        let info = TaskInfo {
            headline: format!("a session of {count} people, via={shown}"),
            spec: filled(INFO.id, &pace.settings, [("count", pace.count.to_string())]),
            metrics,
            lengths: pace.lengths,
            lane_names: NamedLane::names(&share::LANES),
            flows: vec![None; people.flows.len()],
            receivers: people.far.len() as u16,
            largest_message: pace.size,
            longest: planned + DRAIN,
            planned: Some(planned),
            most_bytes: Some(most.saturating_mul(u64::from(count) * pace.size as u64)),
            memory: EndMemory { near: kept, far: kept.saturating_add(queued) },
            is_paced: true,
            people: Some(people),
            ..TaskInfo::default()
        };
        Ok(MeetingTask { info, session, count, via })
    }

    /// Returns the nodes of the people and of the server, and the flows between them, of pairs first.
    fn people(session: &Session, count: u16, via: Via) -> Result<People> {
        let mut people = People {
            near: (0..count).map(NodeHost::Person).collect(),
            far: Vec::new(),
            flows: Vec::new(),
            queues: Vec::new(),
        };
        if via != Via::Server {
            people.far.extend((1..count).map(NodeHost::Person));
            let pairs =
                (0..count).flat_map(|one| (one + 1..count).map(move |other| [one, other - 1]));
            people.flows.extend(pairs);
        }
        if via == Via::Peers {
            // The last person only listens.
            people.near.pop();
            return Ok(people);
        }
        let server = people.far.len() as u16;
        people.far.push(NodeHost::Server);
        people.flows.extend((0..count).map(|person| [person, server]));
        people.queues = queues(session, count)?;
        Ok(people)
    }

    /// Returns the ends of a flow.
    fn ends(&self, flow: u16) -> FlowEnds {
        let people = self.info.people.as_ref();
        let of = |side| people.and_then(|people| people.node(side, flow)).unwrap_or_default();
        let (near, far) = (of(Side::Near), of(Side::Far));
        if people.is_some_and(|people| people.hands_on(Side::Far, far)) {
            FlowEnds::ToServer(near)
        } else {
            FlowEnds::Pair(near, far + 1)
        }
    }

    /// Returns the lanes of the parts on a flow, of a connection with a lane for each.
    fn carried(&self, ends: FlowEnds) -> LaneSet {
        let is_live = |kind: &PartKind| matches!(kind, PartKind::Voice | PartKind::Pose);
        let on = |kind: &PartKind| match ends {
            _ if self.via != Via::Mix => true,
            FlowEnds::Pair(..) => is_live(kind),
            FlowEnds::ToServer(_) => !is_live(kind),
        };
        let lanes = PartKind::ALL.len();
        LaneSet::of(PartKind::ALL.iter().filter(|kind| on(kind)).map(|kind| kind.lane(lanes)))
    }

    /// Returns the bits of data per second between the first person and everybody else.
    fn offered_bps(&self, direction: Direction) -> f64 {
        let flows = (0..self.info.flows.len() as u16).map(|flow| self.ends(flow));
        let own = flows.filter(|ends| matches!(ends, FlowEnds::Pair(0, _) | FlowEnds::ToServer(0)));
        let bps = own.map(|ends| {
            let one = self.session.carrying(self.carried(ends)).offered_bps();
            let is_all = direction == Direction::Down && matches!(ends, FlowEnds::ToServer(_));
            if is_all { one * f64::from(self.count - 1) } else { one }
        });
        bps.sum()
    }

    /// Creates a person's endpoint of a flow on which these other people are received.
    fn person(&self, part: Part, me: u16, others: Vec<u16>) -> Box<dyn Endpoint> {
        let lanes = self.lanes(&part.guarantees);
        let session = self.session.carrying(part.carried);
        let own = session.clone().of(me);
        let delivery = paced::delivery(&lanes, part.carried);
        let measures = others.into_iter().map(|other| (other, SessionMeasure::new(&session)));
        let measure = Others::new(me, measures.collect());
        let receiver = Receiver::new(0, part.tag, part.transit, delivery, measure);
        // Each person begins at another time within a period.
        let seed = part.seed ^ (u64::from(me) << 8);
        let presenter = Presenter::new(&own, lanes.len(), Part { seed, ..part });
        Box::new(Person::new(presenter, receiver))
    }

    /// Adds the worst of each figure, over all pairs of people if all have it, and the worst share that the server lost.
    fn conclude_worst(&self, reports: &Reports<'_>, findings: &mut Measurements) {
        for (name, _, _, better) in FIGURES {
            let part = PartKind::ALL.into_iter().find(|kind| kind.is_of(name));
            let Some(lane) = part.map(|kind| kind.lane(PartKind::ALL.len())) else { continue };
            let flows = (0..).zip(reports.near.iter().zip(reports.far));
            let seeing = flows.flat_map(|(flow, (near, far))| {
                let ends = self.ends(flow);
                let is_seen = self.carried(ends).has(lane);
                let far = matches!(ends, FlowEnds::Pair(..)).then_some(far);
                [Some(near), far].into_iter().flatten().filter(move |_| is_seen)
            });
            let figures: Option<Vec<f64>> =
                seeing.map(|half| half.figures.get(*name).copied()).collect();
            let worst = figures.into_iter().flatten().reduce(|a, b| seen::worse(*better, a, b));
            findings.metrics.extend(worst.map(|worst| ((*name).to_owned(), worst)));
        }
        let lost = reports.far.iter().filter_map(|half| half.figures.get(LOST).copied());
        findings.metrics.extend(lost.reduce(f64::max).map(|lost| (LOST.to_owned(), lost)));
    }

    /// Adds the uploads of the people and of the server.
    fn conclude_uploads(&self, reports: &Reports<'_>, findings: &mut Measurements) {
        let span =
            reports.near.iter().chain(reports.far).filter_map(|half| half.send_span_ns).max();
        let Some(seconds) = span.filter(|ns| *ns > 0).map(|ns| ns as f64 / 1e9) else { return };
        let [mut sent, mut by_server] = [vec![0; usize::from(self.count)], Vec::new()];
        for (flow, (near, far)) in (0..).zip(reports.near.iter().zip(reports.far)) {
            let mut add = |person: u16, half: &EndpointReport| {
                let sum: &mut u64 = &mut sent[usize::from(person)];
                *sum = sum.saturating_add(half.sent.bytes);
            };
            match self.ends(flow) {
                FlowEnds::Pair(one, other) => {
                    add(one, near);
                    add(other, far);
                }
                FlowEnds::ToServer(one) => {
                    add(one, near);
                    by_server.push(far.sent.bytes);
                }
            }
        }
        let rate = |bytes: u64| bytes as f64 * 8.0 / seconds;
        findings
            .metrics
            .extend((0..).zip(sent).map(|(one, bytes)| (upload(one).name, rate(bytes))));
        if self.via != Via::Peers {
            findings.metrics.insert(SERVER_UPLOAD.to_owned(), rate(total(by_server)));
        }
    }
}

/// Returns the bytes of each queue for one person at the server, by part: pen and pictures have room for all that the
/// others send, voice and poses for 200 ms.
///
/// # Errors
/// [`Error::Usage`] if that is too much.
fn queues(session: &Session, count: u16) -> Result<Vec<usize>> {
    let others = u64::from(count - 1);
    let whole = |messages: u64, size: usize| messages.saturating_mul(forwarder::room(size));
    let fresh = |live: &share::Live| {
        let every = live.period.times(1).0.max(1);
        whole((STALE_MS * 1_000_000).div_ceil(every) + 1, live.size)
    };
    let rooms = PartKind::ALL.map(|kind| {
        others.saturating_mul(match kind {
            PartKind::Picture => whole(session.pictures.messages(), session.pictures.mtu),
            PartKind::Pen => whole(session.pen.count, session.pen.size),
            PartKind::Voice => fresh(&session.voice),
            PartKind::Pose => fresh(&session.pose),
        })
    });
    let sum = rooms.iter().fold(0, |sum: u64, room| sum.saturating_add(*room));
    if sum > MOST_QUEUED {
        return Err(Error::usage(format!(
            "{}: up to {} of pen and pictures wait at the server for each person, and {} fit; have fewer people, or \
             fewer or smaller pictures",
            INFO.id,
            Bytes(sum),
            Bytes(MOST_QUEUED)
        )));
    }
    Ok(rooms.map(|room| room as usize).to_vec())
}

/// Returns the metric of the upload of a person.
fn upload(person: u16) -> Metric {
    let number = person + 1;
    Metric {
        name: format!("upload_{number}_bps"),
        label: format!("upload of person {number}"),
        unit: Unit::BitRate,
        better: Better::Lower,
        role: Role::Descriptive,
        clock: ClockNeed::None,
    }
}

impl Task for MeetingTask {
    fn info(&self) -> &TaskInfo {
        &self.info
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        Work::lanes(&self.session, promised)
    }

    fn misfit(&self, _promised: &Guarantees, peer: PeerFacts) -> Option<String> {
        (!peer.is_ours).then(|| "its far ends are people of ours, who send as well".to_owned())
    }

    /// Returns nothing: the forms are for two ends.
    fn theory(&self, _on: &Conditions<'_>) -> Vec<Prediction> {
        Vec::new()
    }

    fn half(&self, part: Part) -> Box<dyn Endpoint> {
        let ends = self.ends(part.flow);
        let part = Part { carried: self.carried(ends), ..part };
        match (ends, part.side) {
            (FlowEnds::Pair(near, far), Side::Near) => self.person(part, near, vec![far]),
            (FlowEnds::Pair(near, far), Side::Far) => self.person(part, far, vec![near]),
            (FlowEnds::ToServer(me), Side::Near) => {
                let others = (0..self.count).filter(|other| *other != me).collect();
                self.person(part, me, others)
            }
            (FlowEnds::ToServer(person), Side::Far) => {
                let lanes = self.lanes(&part.guarantees);
                let session = self.session.carrying(part.carried);
                Box::new(Forwarder::new(person, self.count, &session, &lanes, part))
            }
        }
    }

    fn conclude(&self, reports: &Reports<'_>) -> Measurements {
        let mut findings = Measurements::default();
        for direction in [Direction::Up, Direction::Down] {
            let (senders, receivers, conns) = reports.of(direction);
            paced::conclude(&mut findings, direction, senders);
            findings.ledger.set(direction, account_of(senders, receivers, conns));
        }
        let halves = || reports.near.iter().chain(reports.far);
        let pairs = seen::of_pairs(self.count, false).into_iter();
        let seen = pairs.filter_map(|metric| {
            let figure = halves().find_map(|half| half.figures.get(&metric.name))?;
            Some((metric.name, *figure))
        });
        findings.metrics.extend(seen);
        self.conclude_worst(reports, &mut findings);
        self.conclude_uploads(reports, &mut findings);
        let claimed = self.session.claimed;
        if findings.why_invalid.is_none() && !findings.metrics.contains_key(claimed) {
            findings.why_invalid = Some(
                match seen::unseen(&findings.metrics, claimed, self.count) {
                    Some((from, to)) => format!(
                        "too little of person {} arrived at person {} to have the figure that is claimed",
                        from + 1,
                        to + 1
                    ),
                    None => "too little arrived to have the figure that is claimed".to_owned(),
                },
            );
        }
        findings
    }
}

#[cfg(test)]
mod tests;
