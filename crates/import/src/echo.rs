//! Echoes of one run, of ping and its like: requests with their numbers, answers, and the program's own sums, put
//! together as a trial.

use std::collections::{BTreeMap, BTreeSet};

use super::rates::time;
use super::samples::{MessageCounts, MetricNaming, SampleBuffer};
use super::stamp::{LineStamp, StampBasis, ZONELESS};
use super::{FileContent, ImportedTrial, ReaderContext};
use deadheat_base::time::epoch_ms;
use deadheat_contract::measurements::name::RTT_MEAN;
use deadheat_contract::measurements::{Role, Unit};
use deadheat_result::imported::{Spread, SpreadOver};

/// Maximum gap between sequence numbers that is filled with lost samples.
const LONGEST_GAP: u64 = 1 << 20;

/// Information that no such program keeps.
pub(super) const DUE: &str = "when requests were due";

/// Information that is missing where a file has no sums at its end.
pub(super) const END: &str = "losses after the last answer";

/// Information that sums no longer have.
pub(super) const ONLY_SUMS: &str = "single round trips, of which only sums are there";

/// Round trip as printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EchoTime {
    /// Nanoseconds.
    Exact(u64),
    /// Less than these nanoseconds.
    Below(u64),
    /// Not printed.
    Unknown,
}

/// Answer to a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct TripAnswer {
    time: EchoTime,
    /// Time of its line, in seconds.
    at: Option<f64>,
}

/// Minimum, mean and maximum, in nanoseconds.
pub(super) type EchoSums = [u64; 3];

/// Echoes of one run.
#[derive(Default)]
pub(super) struct RoundTripRun {
    /// Name or address of the far end, as printed.
    pub target: String,
    /// Time of its first line.
    pub started: Option<LineStamp>,
    pub answers: BTreeMap<u64, TripAnswer>,
    /// Requests that had no answer when the program said so.
    open: BTreeSet<u64>,
    highest: Option<u64>,
    pub duplicates: u64,
    reordered: u64,
    /// Answers that were damaged, which are none.
    damaged: u64,
    /// Number of these that the program counts as answers.
    damaged_counted: u64,
    /// Request of the last answer.
    last: Option<u64>,
    /// Number of steps of the clock backwards, and their sum in microseconds.
    pub steps: (u64, u64),
    /// Errors about a request.
    errors_of: BTreeSet<u64>,
    /// Errors without a number.
    errors: u64,
    /// Requests and answers by the program's own count.
    pub counted: Option<(u64, u64)>,
    /// True if its count of answers holds errors, too.
    counts_errors: bool,
    pub sums: Option<EchoSums>,
}

impl RoundTripRun {
    /// Creates a run against a far end.
    pub(super) fn to(target: &str) -> RoundTripRun {
        RoundTripRun { target: target.to_owned(), ..RoundTripRun::default() }
    }

    /// Adds an answer to a request, by default the next one. A second answer to one is a duplicate.
    pub(super) fn answer(&mut self, number: Option<u64>, time: EchoTime, at: Option<f64>) {
        let number = self.number(number);
        if self.answers.contains_key(&number) {
            self.duplicates += 1;
            return;
        }
        self.reordered += u64::from(self.highest.is_some_and(|highest| number < highest));
        self.answers.insert(number, TripAnswer { time, at });
        self.passed(number);
        self.last = Some(number);
    }

    /// Adds an answer whose checksum is wrong, which the program does not count; returns false if the request has an answer.
    pub(super) fn damaged(&mut self, number: Option<u64>) -> bool {
        let number = self.number(number);
        if self.answers.contains_key(&number) {
            return false;
        }
        self.damaged += 1;
        self.unanswered(Some(number));
        true
    }

    /// Takes the last answer away, since its data are wrong.
    pub(super) fn spoil_last(&mut self) {
        let Some(number) = self.last.take() else { return };
        if self.answers.remove(&number).is_some() {
            self.damaged += 1;
            self.damaged_counted += 1;
            self.open.insert(number);
        }
    }

    /// Returns true if there is nothing but steps of the clock.
    pub(super) fn has_steps_alone(&self) -> bool {
        self.steps.0 > 0 && self.is_empty()
    }

    /// Adds a request that has no answer so far, by default the next one.
    pub(super) fn unanswered(&mut self, number: Option<u64>) {
        let number = self.number(number);
        self.open.insert(number);
        self.passed(number);
    }

    /// Adds an error about a request, if its number is known.
    pub(super) fn error(&mut self, number: Option<u64>) {
        match number {
            Some(number) => {
                let number = self.number(Some(number));
                self.errors_of.insert(number);
                self.unanswered(Some(number));
            }
            None => self.errors += 1,
        }
    }

    /// Adds an error in place of an answer to the next request, which the program counts as an answer.
    pub(super) fn answered_by_error(&mut self) {
        self.counts_errors = true;
        self.errors += 1;
        self.unanswered(None);
    }

    /// Returns true if there is nothing that a trial could have. Requests without an answer count where a first line
    /// named their target.
    pub(super) fn is_empty(&self) -> bool {
        let is_open = !self.open.is_empty() && !self.target.is_empty();
        self.answers.is_empty() && self.counted.is_none() && self.sums.is_none() && !is_open
    }

    /// Returns the number of a request that counts from the first one: printed numbers have 16 bits, so one far below
    /// the highest has begun anew. Without a printed number it is the next.
    fn number(&self, printed: Option<u64>) -> u64 {
        let Some(highest) = self.highest else { return printed.unwrap_or(0) };
        match printed {
            None => highest.saturating_add(1),
            Some(printed) if printed > 0xffff => printed,
            Some(printed) => {
                let turn = highest & !0xffff;
                let turns = [turn.checked_sub(0x1_0000), Some(turn), turn.checked_add(0x1_0000)];
                let near = turns.into_iter().flatten().map(|turn| turn.saturating_add(printed));
                near.min_by_key(|number| number.abs_diff(highest)).unwrap_or(printed)
            }
        }
    }

    fn passed(&mut self, number: u64) {
        self.highest = Some(self.highest.map_or(number, |highest| highest.max(number)));
    }

    /// Returns the numbers of the first and the last request that the lines know of.
    fn span(&self) -> Option<(u64, u64)> {
        let ends = |first: Option<&u64>, last: Option<&u64>| first.copied().zip(last.copied());
        let answered = ends(self.answers.keys().next(), self.answers.keys().next_back());
        let open = ends(self.open.first(), self.open.last());
        match (answered, open) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (one, other) => one.or(other),
        }
    }

    /// Returns the run as a trial.
    ///
    /// # Errors
    /// If its numbers jump, or its samples cannot be stored.
    pub(super) fn trial(
        mut self,
        context: &mut ReaderContext<'_>,
    ) -> Result<ImportedTrial, String> {
        let mut doubts = Vec::new();
        let counts = self.counts(&mut doubts);
        let zeros = self.leave_out_zeros(&mut doubts);
        let has_times = self.answers.values().any(|answer| answer.time != EchoTime::Unknown);
        let mut trial = if has_times {
            let mut trial = self.samples(&counts)?.trial(&MetricNaming::rtt(), context)?;
            // Few answers have no percentiles; their mean is the figure to compare.
            let is_claim = trial.record.metrics.is_empty();
            let role = if is_claim { Role::Claim } else { Role::Descriptive };
            let mean = self.mean(&counts, zeros);
            mean.into_iter().for_each(|mean| trial.add(time("rtt_mean", "RTT mean", role), mean));
            trial
        } else {
            sums_only(&counts, self.sums)
        };
        trial.unknown.push(DUE);
        trial.unknown.extend(self.counted.is_none().then_some(END));
        trial.unknown.extend((!has_times && self.sums.is_some()).then_some(ONLY_SUMS));
        counts.enter(&mut trial);
        let is_untimed = |one: &&TripAnswer| one.time == EchoTime::Unknown;
        let untimed = self.answers.values().filter(is_untimed).count() as u64 - zeros;
        if untimed > 0 {
            doubts.push(format!("{} without a time.", many(untimed, "answer")));
        }
        if self.damaged > 0 {
            doubts.push(format!("{} damaged, and counts as lost.", many(self.damaged, "answer")));
        }
        let unanswered = self.errors_of.iter().filter(|own| !self.answers.contains_key(own));
        let errors = self.errors + unanswered.count() as u64;
        if errors > 0 {
            trial.record.network_errors = errors;
            doubts.push(format!("{} came back instead of answers.", many(errors, "error")));
        }
        let started = self.started.and_then(|stamp| stamp.at());
        trial.record.started_ms = started.map_or(0, epoch_ms);
        trial.doubts.extend(doubts);
        Ok(trial)
    }

    /// Takes the times of 0 away, and the program's sums with them: no round trip is that short, but ping prints one where a
    /// step of the clock would make it negative. Returns their number.
    fn leave_out_zeros(&mut self, doubts: &mut Vec<String>) -> u64 {
        let mut zeros = 0;
        for answer in self.answers.values_mut().filter(|own| own.time == EchoTime::Exact(0)) {
            answer.time = EchoTime::Unknown;
            zeros += 1;
        }
        let is_summed = self.answers.is_empty() && self.sums.is_some_and(|[min, ..]| min == 0);
        if zeros > 0 || self.steps.0 > 0 && is_summed {
            self.sums = None;
        }
        if self.steps.0 > 0 {
            doubts.push(format!(
                "The host's clock was set back by {} ms in {}, as ping noted: round trips beside them may be wrong.",
                self.steps.1 as f64 / 1e3,
                many(self.steps.0, "step")
            ));
        }
        if zeros > 0 {
            doubts.push(format!(
                "{} of 0 ms, in no figure: none is that short.",
                many(zeros, "round trip")
            ));
        }
        zeros
    }

    /// Returns the mean of the round trips of answers, each counted once, or the program's own where not all of them are
    /// known. Lost ones are in neither.
    fn mean(&self, counts: &MessageCounts, zeros: u64) -> Option<f64> {
        let exact = |answer: &TripAnswer| match answer.time {
            EchoTime::Exact(ns) => Some(ns as f64),
            EchoTime::Below(_) | EchoTime::Unknown => None,
        };
        let known: Option<Vec<f64>> = self.answers.values().map(exact).collect();
        let whole = known.filter(|known| known.len() as u64 == counts.received).or_else(|| {
            // The program's own mean has its zeros in it.
            let rest: Vec<f64> = self.answers.values().filter_map(exact).collect();
            (zeros > 0 && !rest.is_empty()).then_some(rest)
        });
        let own = self.sums.map(|[_, mean, _]| mean as f64).filter(|mean| *mean > 0.0);
        whole.map(|known| known.iter().sum::<f64>() / known.len() as f64).or(own)
    }

    /// Returns the counts: the program's own, as far as the lines do not know better.
    fn counts(&self, doubts: &mut Vec<String>) -> MessageCounts {
        let seen = self.answers.len() as u64;
        let duplicates = Some(self.duplicates);
        // Without a line for each answer their order is not known.
        let reordered = (seen > 0).then_some(self.reordered);
        let spanned = self.span().map_or(0, |(first, last)| (last - first).saturating_add(1));
        let (sent, received) = match self.counted {
            None => (spanned, seen),
            Some((sent, _)) if self.counts_errors => (sent, seen),
            Some((sent, received)) => {
                let received = received.saturating_sub(self.damaged_counted);
                if (1..received).contains(&seen) {
                    let missing = many(received - seen, "answer");
                    doubts.push(format!("{missing} of its sum are not in the file."));
                }
                (sent, received.max(seen))
            }
        };
        MessageCounts { sent, received, duplicates, reordered }
    }

    /// Returns the samples in order of their requests; lost ones stand where a number is missing, as far as the count
    /// of losses goes, the others at the end.
    fn samples(&self, counts: &MessageCounts) -> Result<SampleBuffer, String> {
        let times = SendTimes::of(&self.answers);
        let mut values = SampleBuffer::default();
        let mut left = counts.sent.saturating_sub(counts.received);
        // Most programs count from 1; a 0 among the numbers says otherwise.
        let mut next = self.span().map_or(0, |(first, _)| first.min(1));
        for (number, answer) in &self.answers {
            let gap = number.saturating_sub(next);
            if gap > LONGEST_GAP && left > 0 {
                return Err(format!("the sequence numbers jump from {next} to {number}"));
            }
            for lost in (next..*number).take(left.min(gap) as usize) {
                values.put(None, times.at_ns(lost))?;
            }
            left -= left.min(gap);
            next = number.saturating_add(1);
            match answer.time {
                EchoTime::Exact(ns) => values.put(Some(ns), times.at_ns(*number))?,
                // Such a sample is no number to store, with its time or without.
                EchoTime::Below(ns) => values.push_below(ns)?,
                EchoTime::Unknown => {}
            }
        }
        for lost in next..next.saturating_add(left) {
            values.put(None, times.at_ns(lost))?;
        }
        Ok(values)
    }
}

/// Send times, from the times at which answers were printed. That of a lost request lies between its neighbours, as
/// requests leave at equal intervals.
struct SendTimes {
    /// Numbers of requests, with seconds since the first known one.
    known: Vec<(u64, f64)>,
}

impl SendTimes {
    fn of(answers: &BTreeMap<u64, TripAnswer>) -> SendTimes {
        let mut known = Vec::new();
        for (number, answer) in answers {
            let Some(at) = answer.at else { continue };
            let trip = match answer.time {
                EchoTime::Exact(ns) => ns as f64 / 1e9,
                EchoTime::Below(_) | EchoTime::Unknown => 0.0,
            };
            known.push((*number, at - trip));
        }
        let first = known.first().map_or(0.0, |(_, at)| *at);
        known.iter_mut().for_each(|(_, at)| *at -= first);
        SendTimes { known }
    }

    /// Returns the send time of a request, in nanoseconds after the first known one; `None` if no time is known.
    fn at_ns(&self, number: u64) -> Option<u64> {
        let (first, last) = (self.known.first()?, self.known.last()?);
        let behind = self.known.partition_point(|(known, _)| *known < number);
        let (a, b) = match (behind.checked_sub(1), self.known.get(behind)) {
            (_, Some(known)) if known.0 == number => (known, known),
            (Some(before), Some(after)) => (&self.known[before], after),
            _ => (first, last),
        };
        let step = if a.0 == b.0 { 0.0 } else { (b.1 - a.1) / (b.0 - a.0) as f64 };
        let seconds = a.1 + step * (number as f64 - a.0 as f64);
        Some((seconds.max(0.0) * 1e9) as u64)
    }
}

/// Returns a trial of which only sums are known. A mean leaves lost ones out.
pub(super) fn sums_only(counts: &MessageCounts, sums: Option<EchoSums>) -> ImportedTrial {
    let mut trial = ImportedTrial::complete();
    trial.metrics.push(time("rtt_mean", "RTT mean", Role::Claim));
    let Some([min, mean, max]) = sums else { return trial };
    if mean > 0 {
        trial.record.metrics.insert(RTT_MEAN.to_owned(), mean as f64);
    } else {
        let doubt = "Its mean was printed as 0: it is below the last printed digit.";
        trial.doubts.push(doubt.to_owned());
    }
    trial.spreads.push(Spread {
        contender: 0,
        what: "RTT".into(),
        unit: Unit::Nanos,
        over: SpreadOver::Samples,
        n: counts.received,
        lost: counts.sent.saturating_sub(counts.received),
        min: min as f64,
        q1: None,
        median: None,
        q3: None,
        max: max as f64,
    });
    trial
}

/// Returns the content of a file with these runs, each with its words if it failed: trials by far end, in the order in
/// which each first appears.
///
/// # Errors
/// See [`RoundTripRun::trial`].
pub(super) fn content(
    runs: impl IntoIterator<Item = (RoundTripRun, Option<String>)>,
    context: &mut ReaderContext<'_>,
) -> Result<FileContent, String> {
    let mut content = FileContent::default();
    for (run, words) in runs {
        let target = run.target.clone();
        content.began = content.began.or(run.started.and_then(|at| at.at()));
        let is_zoneless = run.started.is_some_and(|at| at.basis == StampBasis::Zoneless);
        if is_zoneless && content.doubts.is_empty() {
            content.doubts.push(ZONELESS.to_owned());
        }
        let trial = match words {
            _ if !run.is_empty() => run.trial(context)?,
            Some(words) => ImportedTrial::failed(&words),
            None => ImportedTrial::complete().unfinished("it has neither an answer nor a sum"),
        };
        content.add(&target, trial);
    }
    Ok(content.unnamed_alone())
}

/// Returns a count with its noun.
pub(super) fn many(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(run: &RoundTripRun) -> (u64, u64, u64) {
        let counts = run.counts(&mut Vec::new());
        (counts.sent, counts.received, counts.duplicates.unwrap_or(0))
    }

    #[test]
    fn sequence_numbers_turn_over() {
        let mut run = RoundTripRun::default();
        for number in [65_534, 65_535, 0, 2, 1] {
            run.answer(Some(number), EchoTime::Exact(1), None);
        }
        let numbers: Vec<u64> = run.answers.keys().copied().collect();
        assert_eq!(numbers, [65_534, 65_535, 65_536, 65_537, 65_538]);
        assert_eq!(run.reordered, 1);
    }

    #[test]
    fn a_second_answer_is_a_duplicate_and_a_late_one_is_not_lost() {
        let mut run = RoundTripRun::default();
        for number in [1, 2, 2] {
            run.answer(Some(number), EchoTime::Exact(1), None);
        }
        run.unanswered(Some(3));
        run.answer(Some(4), EchoTime::Exact(1), None);
        assert_eq!(counted(&run), (4, 3, 1));
        run.answer(Some(3), EchoTime::Exact(1), None);
        assert_eq!(counted(&run), (4, 4, 1));
        assert_eq!(run.mean(&run.counts(&mut Vec::new()), 0), Some(1.0));
        assert_eq!(run.samples(&run.counts(&mut Vec::new())).unwrap().into_vec().len(), 4);
    }

    #[test]
    fn lost_requests_left_between_their_neighbours() {
        let mut run = RoundTripRun::default();
        for (number, at) in [(1, 100.0), (2, 101.0), (5, 104.0)] {
            run.answer(Some(number), EchoTime::Exact(0), Some(at));
        }
        run.counted = Some((6, 3));
        let times = SendTimes::of(&run.answers);
        let at: Vec<u64> =
            (1..=6).map(|number| times.at_ns(number).unwrap() / 1_000_000_000).collect();
        assert_eq!(at, [0, 1, 2, 3, 4, 5]);
        let values = run.samples(&run.counts(&mut Vec::new())).unwrap().into_vec();
        assert_eq!(
            values.iter().map(|value| *value == 0).collect::<Vec<_>>(),
            [true, true, false, false, true, false]
        );
    }

    #[test]
    fn lines_that_are_cut_off_are_neither_lost_nor_samples() {
        let mut run = RoundTripRun::default();
        for number in 57..=60 {
            run.answer(Some(number), EchoTime::Exact(1), None);
        }
        run.counted = Some((60, 58));
        let mut doubts = Vec::new();
        let counts = run.counts(&mut doubts);
        assert_eq!((counts.sent, counts.received), (60, 58));
        assert_eq!(run.samples(&counts).unwrap().into_vec().len(), 6);
        assert_eq!(doubts, ["54 answers of its sum are not in the file."]);
    }
}
