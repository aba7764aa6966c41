//! Player: sends its inputs, and receives the other player's.

use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Action, Delivery, Lane};
use deadheat_contract::measurements::Tally;
use deadheat_contract::measurements::name::SENT;

use super::Lockstep;
use super::playing::Playing;
use super::wire::Tick;
use crate::paced::{DRAIN, Intake, Otherwise, Pacer, Period, Plan, Slot, Turn};
use deadheat_contract::workload::header::{Header, add};
use deadheat_contract::workload::load::Item;
use deadheat_contract::workload::{
    Endpoint, EndpointReport, FlowEvent, Part, RecentTimes, Standing,
};

pub(super) struct Peer {
    tag: u32,
    input: usize,
    /// Number of inputs that fit into a message.
    most: u64,
    count: u64,
    period: Period,
    /// True if each message carries all inputs that are not acknowledged.
    repeats: bool,
    pacer: Pacer<Box<dyn Iterator<Item = Slot> + Send>>,
    intake: Intake,
    playing: Playing,
    /// Time at which the first input was due.
    begin: Nanos,
    /// Number of its inputs that the other player has without a gap.
    acknowledged: u64,
    /// Number of the next message, and length of the one from the last `poll`.
    seq: u64,
    polled: Option<usize>,
    tail: Tail,
    /// True if no more messages will be sent.
    is_settled: bool,
}

/// Messages after the last input was due, until both players have all inputs.
#[derive(Default)]
struct Tail {
    /// Time at which the next message is due.
    at: Option<Nanos>,
    sent: Tally,
    /// Messages since both players have all inputs: the last acknowledgement may be lost, too.
    farewells: u32,
}

/// Number of farewells: at a loss of one in two, all of them are lost once in a million times.
const FAREWELLS: u32 = 20;

/// Time that a player that has given up waits for messages of the other.
const GRACE: Nanos = Nanos::from_secs(15);

impl Peer {
    pub(super) fn new(task: &Lockstep, repeats: bool, part: Part) -> Peer {
        let (period, count) = (task.period(), task.count);
        // A message that repeats inputs replaces the skipped messages.
        let otherwise = if repeats { Otherwise::Skipped } else { Otherwise::Kept };
        let slots = (0..count).map(move |input| Slot {
            due: period.times(input),
            place: Some((input, Lane(0))),
            len: 0,
            otherwise,
        });
        let plan = Plan {
            slots: Box::new(slots) as Box<dyn Iterator<Item = Slot> + Send>,
            count,
            step: period.times(1),
            span: period.times(count),
            is_even: true,
        };
        let delivery = if repeats { Delivery::BestEffort } else { Delivery::Reliable };
        Peer {
            tag: part.tag,
            input: task.input,
            most: task.most(),
            count,
            period,
            repeats,
            intake: Intake::new(part.tag, part.transit, delivery).beating(period.times(1)),
            pacer: Pacer::new(plan, part),
            playing: Playing::new(count, task.input as u64, period, task.playout),
            begin: Nanos::ZERO,
            acknowledged: 0,
            seq: 0,
            polled: None,
            tail: Tail::default(),
            is_settled: false,
        }
    }

    /// Sends inputs up to before `next`.
    fn send(&mut self, next: u64, out: &mut [u8]) -> Action {
        let newest = next.saturating_sub(1);
        let (first, next) = if self.repeats {
            let first = self.acknowledged.min(next);
            (first, next.min(first + self.most))
        } else {
            (newest, next)
        };
        let due = self.begin + self.period.times(next.saturating_sub(1));
        let tick = Tick { due, first, next, acknowledged: self.playing.have() };
        let header = Header { tag: self.tag, seq: self.seq };
        let len = tick.write(header, self.input, out);
        self.polled = Some(len);
        Action::Send { lane: Lane(0), len }
    }

    /// Ends the game, after all inputs were due.
    fn finish(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        let end = self.begin + self.period.times(self.count);
        let has_all = self.playing.is_whole() && (!self.repeats || self.acknowledged == self.count);
        let has_said = !self.repeats || self.tail.farewells >= FAREWELLS;
        self.is_settled |= (has_all && has_said) || self.intake.is_over() || now >= end + DRAIN;
        if self.is_settled {
            return match self.intake.give_up_at(false) {
                _ if self.intake.is_over() || now >= end + DRAIN + GRACE => Action::Done,
                Some(at) if at <= now => Action::Done,
                at => Action::Wait(Some(at.unwrap_or(end + DRAIN + GRACE))),
            };
        }
        let at = *self.tail.at.get_or_insert(end);
        match self.repeats {
            false => Action::Wait(Some(end + DRAIN)),
            true if now < at => Action::Wait(Some(at)),
            true => self.send(self.count, out),
        }
    }

    fn sent(&self) -> Tally {
        let mut sent = self.pacer.tally();
        add(&mut sent, &self.tail.sent);
        sent
    }
}

impl Endpoint for Peer {
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        self.polled = None;
        self.intake.begin(now);
        match self.pacer.turn(now) {
            Turn::At(at) => Action::Wait(Some(at)),
            Turn::Over => self.finish(now, out),
            Turn::Now(slot, due) => {
                let input = slot.place.map_or(0, |(input, _)| input);
                self.begin = due - self.period.times(input);
                self.send(input + 1, out)
            }
        }
    }

    fn on_sent(&mut self, now: Nanos) {
        let Some(bytes) = self.polled.take() else { return };
        self.seq += 1;
        let Some(at) = self.tail.at else {
            self.pacer.sent(now, bytes);
            return;
        };
        self.tail.sent.messages += 1;
        self.tail.sent.bytes += bytes as u64;
        self.tail.at = Some((at + self.period.times(1)).max(now));
        let has_all = self.playing.is_whole() && self.acknowledged == self.count;
        self.tail.farewells += u32::from(has_all);
    }

    fn on_no_room(&mut self, _now: Nanos) -> Option<Nanos> {
        self.polled = None;
        match &mut self.tail.at {
            Some(at) => *at += self.period.times(1),
            None => self.pacer.no_room(),
        }
        None
    }

    fn on_message(&mut self, now: Nanos, _lane: Lane, bytes: &[u8]) {
        if self.intake.take(now, bytes).is_none() {
            return;
        }
        match Tick::read(bytes, self.input, self.count) {
            Some(Tick { due, first, next, acknowledged }) => {
                self.acknowledged = self.acknowledged.max(acknowledged);
                self.playing.note(now, due, first, next);
            }
            None => self.intake.damaged(),
        }
    }

    fn on_event(&mut self, now: Nanos, event: FlowEvent) {
        match event {
            // Settles the game if a message was polled, because the peer takes no more; else the peer has ended its own
            // direction.
            FlowEvent::Closed => {
                if self.polled.take().is_some() {
                    self.pacer.give_up();
                    self.is_settled = true;
                }
                self.intake.close();
            }
            FlowEvent::PeerFinished { sent } => self.intake.peer_finished(now, sent),
            FlowEvent::Opened { .. } | FlowEvent::Drained => {}
        }
    }

    fn has_sent_all(&self) -> bool {
        self.is_settled
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        Standing { sent: self.sent(), received: *self.intake.received(), ..Standing::default() }
    }

    fn take_recent(&mut self) -> RecentTimes {
        RecentTimes { delays: self.playing.take_times(), ..RecentTimes::default() }
    }

    fn items(&self) -> Vec<Item> {
        self.playing.items()
    }

    fn report(&mut self, _now: Nanos) -> EndpointReport {
        let mut report = EndpointReport {
            sent: self.sent(),
            received: *self.intake.received(),
            outages: self.intake.outages(),
            ..self.pacer.report()
        };
        if self.is_settled {
            let game = self.period.times(self.count).0 as f64;
            let sent_bps = self.pacer.tally().bytes as f64 * 8e9 / game;
            let figures = self.playing.figures().into_iter().flatten();
            let figures = figures.chain([(SENT, sent_bps)]);
            report.figures = figures.map(|(name, figure)| (name.to_owned(), figure)).collect();
        }
        report
    }
}
