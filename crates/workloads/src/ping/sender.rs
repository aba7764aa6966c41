//! The near endpoint: sends questions on schedule, matches answers, and passes the round trips to the recorder in the
//! order of their sequence numbers.

use deadheat_base::rng::SplitMix64;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Action, Lane};
use deadheat_contract::measurements::series::{Missing, RoundTrips};
use deadheat_contract::measurements::{Recorder, RoundTripSummary, Sample, Tally, WarmUp};

use super::far_side::{FarSide, TripTimes};
use super::{PingEnd, PingLoop, PingTask, fill, fill_from};
use crate::silence::Silence;
use deadheat_contract::workload::header::{Arrival, FarStamps, Header, SeqWindow, count};
use deadheat_contract::workload::{
    Endpoint, EndpointReport, FlowEvent, Part, RecentTimes, Standing,
};

/// Fate of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Open,
    Answered(u64),
    Lost,
}

#[derive(Debug, Clone, Copy)]
struct Question {
    intended: Nanos,
    sent: Nanos,
    fate: Fate,
}

pub(super) struct PingSender {
    size: usize,
    pace: PingLoop,
    stop: PingEnd,
    /// Number of the first question after the warm-up; earlier ones are in no figure.
    warmup: u64,
    warmed: WarmUp,
    /// The claimed quantile, in thousandths.
    claimed: u64,
    /// Lateness from which a send counts as late.
    late_from: Nanos,
    timeout: Nanos,
    tag: u32,
    dither: SplitMix64,
    recorder: Box<dyn Recorder>,
    /// Questions by sequence number modulo the length of the ring, a power of two.
    ring: Vec<Question>,
    /// The first question that is not yet recorded.
    oldest: u64,
    next: u64,
    start: Option<Nanos>,
    /// Time at which the first question after the warm-up was due.
    measures_from: Nanos,
    /// Time at which the next question is due: its slot on the grid, and with dither.
    slot: Nanos,
    due: Nanos,
    pattern: Vec<u8>,
    seen: SeqWindow,
    sent: Tally,
    received: Tally,
    /// Questions given up, and round trips since the last report.
    lost: u64,
    round_trips: RoundTrips,
    late_sends: u64,
    /// Number of the first question after the measured ones, once these are sent.
    end: Option<u64>,
    /// Time at which a question after the measured ones may be due.
    after_due: Nanos,
    slowest: Nanos,
    far: FarSide,
    silence: Silence,
    /// Due times of the questions that were given up since the last report.
    missing: Option<Missing>,
}

/// Questions after the measured ones, at most: they show a far end's counts, where the last answers are missing.
const MOST_AFTER: u64 = 8;

/// Longest time from the start until the first question is due, so that its phase against the kernel's tick
/// (1 to 10 ms) is random.
const PHASE: Nanos = Nanos::from_millis(4);

impl PingSender {
    pub(super) fn new(task: &PingTask, part: Part) -> PingSender {
        let open = task.most_open().next_power_of_two() as usize;
        let blank = Question { intended: Nanos::ZERO, sent: Nanos::ZERO, fate: Fate::Lost };
        let mut pattern = vec![0; task.size];
        fill(&mut pattern);
        let mut recorder = part.recorder;
        recorder.expect(match task.stop {
            PingEnd::After { count } => count,
            PingEnd::At { .. } => u64::MAX,
        });
        PingSender {
            size: task.size,
            pace: task.pace,
            stop: task.stop,
            warmup: task.warmup,
            warmed: WarmUp::default(),
            claimed: task.claim().per_mille(),
            late_from: task.late_from(part.transit),
            timeout: task.timeout,
            tag: part.tag,
            dither: SplitMix64::new(part.seed),
            recorder,
            ring: vec![blank; open],
            oldest: 0,
            next: 0,
            start: None,
            measures_from: Nanos::ZERO,
            slot: Nanos::ZERO,
            due: Nanos::ZERO,
            pattern,
            seen: SeqWindow::new(),
            sent: Tally::default(),
            received: Tally::default(),
            lost: 0,
            round_trips: RoundTrips::default(),
            late_sends: 0,
            end: None,
            after_due: Nanos::ZERO,
            slowest: Nanos::ZERO,
            far: FarSide::default(),
            silence: Silence::new(),
            missing: None,
        }
    }

    fn begin(&mut self, now: Nanos) {
        self.start = Some(now);
        self.silence.begin(now);
        self.slot = match self.pace {
            PingLoop::Open { interval } => {
                now + Nanos(self.dither.below(interval.min(PHASE).0.max(1)))
            }
            PingLoop::Closed { .. } => now,
        };
        self.due = self.slot;
        self.measures_from = now;
    }

    /// Returns the number of the first question that is not measured any more, as far as is known.
    fn end(&self) -> u64 {
        self.end.unwrap_or(u64::MAX)
    }

    /// Returns the number of the first question that is not sent, or that is no measured one.
    fn awaited_to(&self) -> u64 {
        self.next.min(self.end())
    }

    fn place(&self, seq: u64) -> usize {
        seq as usize & (self.ring.len() - 1)
    }

    /// Returns true if another question will be sent.
    fn goes_on(&self, now: Nanos) -> bool {
        if self.next < self.warmup {
            return true;
        }
        match (self.stop, self.pace) {
            (PingEnd::After { count }, _) => self.next - self.warmup < count,
            (PingEnd::At { time }, PingLoop::Open { .. }) => self.slot - self.measures_from < time,
            (PingEnd::At { time }, PingLoop::Closed { .. }) => now - self.measures_from < time,
        }
    }

    /// Gives up on questions past their timeout, and records answered and lost questions in order.
    fn settle(&mut self, now: Nanos) {
        while self.oldest < self.awaited_to() {
            let place = self.place(self.oldest);
            let question = &mut self.ring[place];
            if question.fate == Fate::Open && now - question.intended >= self.timeout {
                question.fate = Fate::Lost;
            }
            let rtt_ns = match question.fate {
                Fate::Open => return,
                Fate::Answered(rtt_ns) => Some(rtt_ns),
                Fate::Lost => None,
            };
            let Some(seq) = self.oldest.checked_sub(self.warmup) else {
                self.oldest += 1;
                continue;
            };
            if rtt_ns.is_none() {
                self.lost += 1;
                let due = self.ring[place].intended - self.start.unwrap_or_default();
                self.missing = Some(Missing::with(self.missing, due));
            }
            let question = self.ring[place];
            self.recorder.record(Sample {
                seq,
                intended_ns: question.intended.0,
                lateness_ns: (question.sent - question.intended).0,
                rtt_ns,
            });
            self.oldest += 1;
        }
    }

    /// Returns the time at which the oldest open question will be given up.
    fn give_up_at(&self) -> Option<Nanos> {
        (self.oldest < self.awaited_to())
            .then(|| self.ring[self.place(self.oldest)].intended + self.timeout)
    }

    fn advance_schedule(&mut self) {
        if let PingLoop::Open { interval } = self.pace {
            self.slot += interval;
            // Up to a tenth either way, so that no beat with the kernel's tick builds up.
            let tenth = interval.0 / 10;
            self.due = Nanos(self.slot.0 - tenth + self.dither.below(2 * tenth + 1));
        }
    }

    /// Returns the time from which a question after the measured ones shows what became of the last of these; `None` if
    /// the far end counts nothing, or nothing is left to know.
    fn asks_after(&mut self) -> Option<Nanos> {
        let PingLoop::Open { interval } = self.pace else { return None };
        let end = self.end?;
        let is_due = self.oldest < end && self.next - end < MOST_AFTER;
        if !is_due || !self.far.counts.lacks_tail(end) {
            return None;
        }
        let last = self.ring[self.place(end.saturating_sub(1))].sent;
        let silent_for = Nanos(2 * self.slowest.0).max(interval);
        Some(self.after_due.max(last + silent_for))
    }

    fn put_question(&self, out: &mut [u8]) -> Action {
        // The far stamps of a message must start out unset.
        FarStamps::of_ours(0, 0).write(&mut out[..self.size]);
        Header { tag: self.tag, seq: self.next }.write(&mut out[..self.size]);
        Action::Send { lane: Lane(0), len: self.size }
    }

    fn answer(&mut self, now: Nanos, seq: u64, bytes: &[u8]) {
        let arrival = self.seen.note(seq);
        let measured = self.warmup..self.end();
        let measures = measured.contains(&seq);
        let stamps = FarStamps::read(bytes);
        if let Some(count) = stamps.and_then(|stamps| stamps.reflected?.count) {
            self.far.counts.note(seq, count, arrival, [measured.start, measured.end]);
        }
        if measures {
            count(&mut self.received, arrival, bytes.len());
        }
        if arrival == Arrival::Duplicate {
            return;
        }
        let way = (seq >= self.oldest).then(|| now - self.ring[self.place(seq)].sent);
        self.silence.arrived(now, way);
        self.warmed.answered += u64::from(seq < self.warmup);
        let is_remade = stamps.is_some_and(|stamps| stamps.reflected.is_some());
        let from = fill_from(self.size);
        if measures
            && !is_remade
            && (bytes.len() != self.size || bytes[from..] != self.pattern[from..])
        {
            self.received.corrupted += 1;
        }
        let place = self.place(seq);
        let question = &mut self.ring[place];
        if seq < self.oldest
            || question.fate != Fate::Open
            || now - question.intended >= self.timeout
        {
            self.received.late += u64::from(measures);
            return;
        }
        let rtt_ns = (now - question.intended).0;
        question.fate = Fate::Answered(rtt_ns);
        if measures {
            self.round_trips.add(rtt_ns);
        }
        self.slowest = self.slowest.max(Nanos(rtt_ns));
        let times = TripTimes { due: question.intended, sent: question.sent, answered: now };
        if let Some(stamps) = stamps {
            self.far.note(times, measures, stamps);
        }
    }
}

impl Endpoint for PingSender {
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        if self.start.is_none() {
            self.begin(now);
            out[..self.size].copy_from_slice(&self.pattern);
        }
        self.settle(now);
        if self.end.is_some() || !self.goes_on(now) {
            self.end.get_or_insert(self.next);
            let Some(give_up_at) = self.give_up_at() else { return Action::Done };
            return match self.asks_after() {
                Some(due) if due <= now => self.put_question(out),
                due => Action::Wait(Some(due.map_or(give_up_at, |due| due.min(give_up_at)))),
            };
        }
        let wait_until = match self.pace {
            PingLoop::Open { .. } if now >= self.due => None,
            PingLoop::Open { .. } => {
                Some(self.give_up_at().map_or(self.due, |at| at.min(self.due)))
            }
            PingLoop::Closed { window } if self.next - self.oldest < window => None,
            PingLoop::Closed { .. } => Some(self.give_up_at().unwrap_or(now)),
        };
        if let Some(until) = wait_until {
            return Action::Wait(Some(until));
        }
        self.put_question(out)
    }

    fn on_sent(&mut self, now: Nanos) {
        if let (Some(_), PingLoop::Open { interval }) = (self.end, self.pace) {
            let place = self.place(self.next);
            self.ring[place] = Question { intended: now, sent: now, fate: Fate::Open };
            self.next += 1;
            self.after_due = now + interval;
            return;
        }
        let paced = matches!(self.pace, PingLoop::Open { .. });
        let intended = if paced { self.due } else { now };
        self.silence.sent(now);
        let place = self.place(self.next);
        self.ring[place] = Question { intended, sent: now, fate: Fate::Open };
        if self.next < self.warmup {
            self.warmed.sent += 1;
        } else {
            self.late_sends += u64::from(now - intended > self.late_from);
            self.sent.messages += 1;
            self.sent.bytes += self.size as u64;
        }
        self.next += 1;
        self.advance_schedule();
        if self.next == self.warmup {
            self.measures_from = if paced { self.slot } else { now };
        }
    }

    fn on_message(&mut self, now: Nanos, _lane: Lane, bytes: &[u8]) {
        match Header::read(bytes) {
            Some(Header { tag, seq }) if tag == self.tag && seq < self.next => {
                self.answer(now, seq, bytes);
                self.settle(now);
            }
            _ => self.received.foreign += 1,
        }
    }

    fn on_event(&mut self, now: Nanos, event: FlowEvent) {
        match event {
            FlowEvent::Closed => {
                // No answer will arrive any more: open questions are lost, and no more are sent.
                self.end.get_or_insert(self.next);
                for seq in self.oldest..self.next {
                    let place = self.place(seq);
                    if self.ring[place].fate == Fate::Open {
                        self.ring[place].fate = Fate::Lost;
                    }
                }
                self.settle(now);
            }
            FlowEvent::Opened { .. } | FlowEvent::Drained | FlowEvent::PeerFinished { .. } => {}
        }
    }

    fn has_sent_all(&self) -> bool {
        // The far end may end as soon as every question is answered or lost.
        self.end.is_some() && self.oldest == self.awaited_to()
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        Standing {
            sent: self.sent,
            received: self.received,
            lost: Some(self.lost),
            awaited: self.awaited_to() - self.oldest,
            jitter_ns: None,
        }
    }

    fn take_recent(&mut self) -> RecentTimes {
        RecentTimes {
            round_trips: std::mem::take(&mut self.round_trips),
            missing: self.missing.take(),
            ..RecentTimes::default()
        }
    }

    fn report(&mut self, now: Nanos) -> EndpointReport {
        let paced = matches!(self.pace, PingLoop::Open { .. });
        let RoundTripSummary { rtt, late_effect, segments, jitter_rfc3550_ns } =
            self.recorder.round_trips(self.timeout.0, self.claimed);
        let share = self.late_sends as f64 / self.sent.messages.max(1) as f64;
        EndpointReport {
            sent: self.sent,
            received: self.received,
            rtt_ns: Some(rtt),
            send_lateness_ns: paced.then(|| self.recorder.sends().lateness),
            late_send_share: paced.then_some(share),
            late_effect: late_effect.filter(|_| paced),
            segments,
            warmup: (self.warmup > 0).then_some(self.warmed),
            jitter_rfc3550_ns,
            clock: self.far.clock(),
            far_view: self.far.view(self.warmup, self.awaited_to()),
            outages: self.silence.outages(now),
            ..EndpointReport::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use deadheat_base::spec::{Settings, Spec};
    use deadheat_contract::contract::Side;
    use deadheat_contract::measurements::{OneWayDelays, SendSummary};
    use deadheat_contract::workload::Setting;

    /// Keeps every sample, for tests to look at.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<Sample>>>);

    impl Recorder for Kept {
        fn record(&mut self, sample: Sample) {
            self.0.lock().unwrap().push(sample);
        }
        fn record_send(&mut self, _: u64, _: Option<u64>) {}
        fn record_delay(&mut self, _: i64) {}
        fn round_trips(&self, _: u64, _: u64) -> RoundTripSummary {
            RoundTripSummary::default()
        }
        fn sends(&self) -> SendSummary {
            SendSummary::default()
        }
        fn delays(&self) -> OneWayDelays {
            OneWayDelays::default()
        }
    }

    /// Returns the sender without a warm-up, unless that is asked for.
    fn sender(typed: &str) -> (Box<dyn Endpoint>, Kept) {
        asker_over(typed, Nanos::ZERO)
    }

    fn asker_over(typed: &str, transit: Nanos) -> (Box<dyn Endpoint>, Kept) {
        let warmup = if typed.contains("warmup") { "" } else { ",warmup=0" };
        let typed = &format!("{typed}{warmup}");
        let kept = Kept::default();
        let guarantees = deadheat_contract::contract::Guarantees::DATAGRAMS;
        let recorder = Box::new(kept.clone());
        let store = None;
        let part = Part {
            side: Side::Near,
            flow: 0,
            tag: 7,
            seed: 1,
            transit,
            guarantees,
            peer: deadheat_contract::contract::PeerFacts::OURS,
            recorder,
            carried: deadheat_contract::contract::LaneSet::ALL,
            store,
            exchange: None,
        };
        let settings = Settings::check(&Spec::parse(typed).unwrap(), super::super::KEYS).unwrap();
        let task = PingTask::new(settings, &Setting::LOOPBACK).unwrap();
        (Box::new(PingSender::new(&task, part)), kept)
    }

    /// Runs the sender in virtual time against a network that answers message `seq` after
    /// `delay(seq)`, or never. Returns the samples and the report.
    fn run(typed: &str, delay: impl Fn(u64) -> Option<u64>) -> (Vec<Sample>, EndpointReport) {
        let (mut half, kept) = sender(typed);
        let mut out = vec![0; 2048];
        let mut flying: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut now = Nanos(1_000_000_000);
        loop {
            flying.sort_by_key(|(at, _)| *at);
            while flying.first().is_some_and(|(at, _)| *at <= now.0) {
                let (_, bytes) = flying.remove(0);
                half.on_message(now, Lane(0), &bytes);
            }
            match half.poll(now, &mut out) {
                Action::Send { len, .. } => {
                    half.on_sent(now);
                    let seq = Header::read(&out).unwrap().seq;
                    if let Some(delay) = delay(seq) {
                        flying.push((now.0 + delay, out[..len].to_vec()));
                    }
                }
                Action::Wait(until) => {
                    let next = flying.iter().map(|(at, _)| *at).chain(until.map(|at| at.0)).min();
                    now = Nanos(next.unwrap());
                }
                Action::Done => break,
                other => panic!("{other:?}"),
            }
        }
        let report = half.report(now);
        let samples = kept.0.lock().unwrap().clone();
        (samples, report)
    }

    #[test]
    fn an_open_loop_keeps_its_schedule_whatever_comes_back() {
        let (samples, report) = run("ping:interval=1ms,count=100", |_| Some(50_000_000));
        assert_eq!(report.sent.messages, 100);
        assert_eq!(report.late_send_share, Some(0.0));
        assert!(samples.iter().all(|sample| sample.rtt_ns == Some(50_000_000)));
        let span = samples[99].intended_ns - samples[0].intended_ns;
        assert!((98_700_000..=99_300_000).contains(&span), "{span}");
        let gaps: Vec<u64> =
            samples.windows(2).map(|w| w[1].intended_ns - w[0].intended_ns).collect();
        assert!(gaps.iter().any(|gap| *gap != gaps[0]), "dithered");
    }

    #[test]
    fn a_run_of_losses_is_an_outage_and_known_by_when_it_was_due() {
        let down = 300..900;
        let (_, report) = run("ping:interval=5ms,count=1500,timeout=1s", |seq| {
            (!down.contains(&seq)).then_some(10_000_000)
        });
        let [outage] = report.outages.as_slice() else { panic!("{:?}", report.outages) };
        // Ticks are dithered by a tenth of the interval, and the first is due up to 4 ms after the start.
        assert!(outage.from_ns.abs_diff(1_495_000_000) < 10_000_000, "{outage:?}");
        assert!(outage.length_ns.abs_diff(3_005_000_000) < 10_000_000, "{outage:?}");
        assert!(outage.messages.abs_diff(601) <= 3, "{outage:?}");
        let (_, sound) =
            run("ping:interval=5ms,count=300", |seq| (seq % 9 != 0).then_some(10_000_000));
        assert_eq!(sound.outages, []);
    }

    #[test]
    fn what_is_given_up_is_told_once_with_the_time_at_which_it_was_due() {
        let (mut half, _) = sender("ping:interval=10ms,count=50,timeout=100ms");
        let mut out = vec![0; 2048];
        let start = Nanos::from_secs(1);
        let mut now = start;
        while now < start + Nanos::from_millis(200) {
            match half.poll(now, &mut out) {
                Action::Send { .. } => half.on_sent(now),
                Action::Wait(until) => now = until.unwrap(),
                other => panic!("{other:?}"),
            }
        }
        let lost = half.standing(now).lost.unwrap();
        let missing = half.take_recent().missing.unwrap();
        assert!((9..=11).contains(&lost), "{lost}");
        assert!(
            missing.from_ns < 15_000_000 && missing.to_ns.abs_diff(95_000_000) < 16_000_000,
            "{missing:?}"
        );
        assert_eq!(half.take_recent().missing, None);
    }

    #[test]
    fn lost_answers_are_recorded_as_lost_and_in_order() {
        let (samples, report) =
            run("ping:interval=1ms,count=10,timeout=20ms", |seq| (seq != 3).then_some(100_000));
        let lost: Vec<u64> = samples.iter().filter(|s| s.rtt_ns.is_none()).map(|s| s.seq).collect();
        assert_eq!(lost, [3]);
        assert!(samples.windows(2).all(|w| w[1].seq == w[0].seq + 1));
        assert_eq!(report.received.messages, 9);
    }

    #[test]
    fn a_look_in_between_tells_how_far_it_is_and_each_round_trip_once() {
        let (mut half, _) = sender("ping:window=3,count=3,timeout=20ms");
        let mut out = vec![0; 64];
        for _ in 0..3 {
            assert!(matches!(half.poll(Nanos(5), &mut out), Action::Send { .. }));
            half.on_sent(Nanos(5));
            let seq = Header::read(&out).unwrap().seq;
            if seq < 2 {
                half.on_message(Nanos(105 + 100 * seq), Lane(0), &out);
            }
        }
        let at = Nanos::from_millis(1);
        assert_eq!((half.standing(at).awaited, half.standing(at).lost), (1, Some(0)));
        let rtt = half.take_recent().round_trips;
        assert_eq!(rtt, RoundTrips { n: 2, sum_ns: 300, min_ns: 100, max_ns: 200 });
        assert_eq!(half.take_recent().round_trips.n, 0);
        let after = Nanos::from_millis(30);
        half.poll(after, &mut out);
        let standing = half.standing(after);
        assert_eq!((standing.awaited, standing.lost), (0, Some(1)));
        assert_eq!((standing.sent.messages, standing.received.messages), (3, 2));
    }

    #[test]
    fn an_answer_after_the_timeout_is_late_and_censored() {
        let (samples, report) = run("ping:interval=1ms,count=10,timeout=5ms", |seq| {
            Some(if seq == 2 { 6_000_000 } else { 100_000 })
        });
        assert_eq!(samples[2].rtt_ns, None);
        assert_eq!(report.received.late, 1);
        assert_eq!(report.received.messages, 10);
        assert_eq!(report.received.reordered, 1);
    }

    #[test]
    fn a_closed_loop_has_never_more_than_its_window_open() {
        let (samples, report) = run("ping:window=4,count=40", |_| Some(1_000));
        assert_eq!(report.sent.messages, 40);
        assert_eq!(report.late_send_share, None);
        for pair in samples.windows(5) {
            assert!(pair[4].intended_ns >= pair[0].intended_ns + 1_000);
        }
    }

    #[test]
    fn a_late_poll_counts_from_the_intended_time() {
        let (mut half, kept) = sender("ping:interval=1ms,count=1");
        let mut out = vec![0; 64];
        let Action::Wait(Some(due)) = half.poll(Nanos(0), &mut out) else { panic!("not due yet") };
        let late = due + Nanos(300_000);
        assert!(matches!(half.poll(late, &mut out), Action::Send { .. }));
        half.on_sent(late);
        half.on_message(late + Nanos(1_000), Lane(0), &out);
        let sample = kept.0.lock().unwrap()[0];
        assert_eq!((sample.lateness_ns, sample.rtt_ns), (300_000, Some(301_000)));
        assert_eq!(half.report(late).late_send_share, Some(0.0), "less than an interval");
    }

    #[test]
    fn strangers_copies_and_damage_are_told_apart() {
        let (mut half, _) = sender("ping:window=2,count=2");
        let mut out = vec![0; 64];
        assert!(matches!(half.poll(Nanos(5), &mut out), Action::Send { .. }));
        half.on_sent(Nanos(5));
        let mut damaged = out.clone();
        damaged[60] ^= 1;
        half.on_message(Nanos(9), Lane(0), &damaged);
        half.on_message(Nanos(9), Lane(0), &out);
        half.on_message(Nanos(9), Lane(0), b"hello");
        let mut future = out.clone();
        Header { tag: 7, seq: 99 }.write(&mut future);
        half.on_message(Nanos(9), Lane(0), &future);
        let got = half.report(Nanos(9)).received;
        assert_eq!((got.messages, got.corrupted, got.duplicates, got.foreign), (1, 1, 1, 2));
    }

    #[test]
    fn a_closed_connection_loses_what_is_open() {
        let (mut half, kept) = sender("ping:window=2,count=2");
        let mut out = vec![0; 64];
        for now in [1, 2] {
            assert!(matches!(half.poll(Nanos(now), &mut out), Action::Send { .. }));
            half.on_sent(Nanos(now));
        }
        half.on_event(Nanos(3), FlowEvent::Closed);
        assert_eq!(half.poll(Nanos(3), &mut out), Action::Done);
        assert!(kept.0.lock().unwrap().iter().all(|sample| sample.rtt_ns.is_none()));
    }

    #[test]
    fn time_ends_a_ping_too() {
        for warmup in [0, 10] {
            let typed = format!("ping:interval=1ms,time=50ms,warmup={warmup}");
            let (samples, report) = run(&typed, |_| Some(10_000));
            assert!((49..=51).contains(&samples.len()), "{}", samples.len());
            assert_eq!(report.warmup.unwrap_or_default().sent, warmup);
        }
    }

    #[test]
    fn what_warms_up_is_counted_apart() {
        for typed in ["ping:interval=1ms,count=30,warmup=5", "ping:window=2,count=30,warmup=5"] {
            // The second is lost, and the fourth slow; of the measured ones the last is lost.
            let (samples, report) = run(typed, |seq| match seq {
                1 | 34 => None,
                3 => Some(9_000_000),
                _ => Some(100_000),
            });
            assert_eq!(samples.len(), 30, "{typed}");
            assert!(samples.iter().enumerate().all(|(at, sample)| sample.seq == at as u64));
            assert_eq!(samples.iter().filter(|s| s.rtt_ns == Some(100_000)).count(), 29);
            assert_eq!((report.sent.messages, report.received.messages), (30, 29), "{typed}");
            assert_eq!(report.received.reordered, 0, "{typed}");
            assert_eq!(report.warmup, Some(WarmUp { sent: 5, answered: 4 }), "{typed}");
        }
    }

    #[test]
    fn a_send_is_late_after_an_interval_or_the_paths_time() {
        for (ms, transit, late) in [(2, 0, 1.0), (2, 5, 0.0), (11, 5, 1.0)] {
            let (mut half, _) =
                asker_over("ping:interval=1ms,count=1", Nanos::from_millis(transit));
            let mut out = vec![0; 64];
            let Action::Wait(Some(due)) = half.poll(Nanos(0), &mut out) else { panic!("not due") };
            let now = due + Nanos::from_millis(ms);
            assert!(matches!(half.poll(now, &mut out), Action::Send { .. }));
            half.on_sent(now);
            assert_eq!(half.report(now).late_send_share, Some(late), "{ms} ms, {transit} ms");
        }
    }
}
