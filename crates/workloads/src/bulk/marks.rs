//! Progress of a receiver at the ends of a flow's warm-up and of the parts of its measured time.

use deadheat_base::time::Nanos;
use deadheat_contract::measurements::SEGMENTS;

use deadheat_contract::workload::ReceiveSpan;

/// Warm-up of a flow, which no figure contains, and its measured time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Timing {
    /// Duration of the warm-up, from the first receive on.
    pub(crate) warmup: Nanos,
    /// Measured time after that; 0 if bytes decide and not time.
    pub(crate) measured: Nanos,
}

/// Bytes of a flow up to one time.
#[derive(Debug, Clone, Copy, Default)]
struct Level {
    /// Bytes that were passed to the receiver.
    had: u64,
    /// Amount that had arrived in any order, with copies, in a unit of the transport; `None` if unknown.
    brought: Option<u64>,
}

/// Question to a transport of the kernel for the amount that has arrived in any order; the answer takes a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum AmountQuestion {
    #[default]
    None,
    /// To be asked as the warm-up ends.
    Later,
    /// Asked, for the level at the end of the warm-up.
    Begin,
    /// Asked, for the level at the end.
    End,
}

/// Span of a flow, and its progress at some times, noted as bytes arrive.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    timing: Timing,
    /// First receive of all, and last.
    heard: Option<(Nanos, Nanos)>,
    /// Amount that has arrived in any order, for the next note.
    brought: Option<u64>,
    question: AmountQuestion,
    /// Levels at the first receive of all, and at the end of the warm-up.
    levels: [Level; 2],
    span: Option<ReceiveSpan>,
    /// Time and bytes at the end of each part but the last.
    ends: [(u64, u64); SEGMENTS - 1],
    passed: usize,
}

impl Marks {
    pub(crate) fn new(timing: Timing) -> Marks {
        Marks { timing, ..Marks::default() }
    }

    /// Asks for the amount that has arrived in any order as the warm-up ends.
    pub(crate) fn asking(self) -> Marks {
        Marks { question: AmountQuestion::Later, ..self }
    }

    /// Asks once more, if the amount at the end of the warm-up is known: a flow that is stopped sees no end of its stream.
    pub(crate) fn ask_at_stop(&mut self) {
        if self.span.is_some() && self.levels[1].brought.is_some() {
            self.question = AmountQuestion::End;
        }
    }

    /// Notes the amount that has arrived in any order; called before [`Marks::note`] of the same arrival, or as the
    /// answer to a question.
    #[inline]
    pub(crate) fn arrived(&mut self, amount: Option<u64>) {
        if self.question == AmountQuestion::Begin {
            self.levels[1].brought = amount;
            self.question = AmountQuestion::None;
        } else {
            self.brought = amount;
        }
    }

    /// Returns true if the amount that has arrived in any order is asked for now.
    #[inline]
    pub(crate) fn want_arrived(&self) -> bool {
        matches!(self.question, AmountQuestion::Begin | AmountQuestion::End)
    }

    /// Notes an arrival; `bytes` have now arrived in all.
    #[inline]
    pub(crate) fn note(&mut self, now: Nanos, bytes: u64) {
        let level = Level { had: bytes, brought: self.brought };
        if self.heard.is_none() {
            self.levels[0] = level;
        }
        let (first, last) = self.heard.get_or_insert((now, now));
        *last = now;
        let Some(span) = &mut self.span else {
            if now - *first >= self.timing.warmup {
                // The span begins now, and not with the answer's arrival: a gap may lie between.
                let warmed = self.timing.warmup > Nanos::ZERO;
                let asks =
                    warmed && level.brought.is_none() && self.question == AmountQuestion::Later;
                self.question = if asks { AmountQuestion::Begin } else { AmountQuestion::None };
                self.levels[1] = level;
                let (first_bytes, warmup_bytes) = if warmed { (0, bytes) } else { (bytes, 0) };
                let (first_ns, last_ns) = (now.0, now.0);
                self.span = Some(ReceiveSpan { first_ns, last_ns, first_bytes, warmup_bytes });
            }
            return;
        };
        span.last_ns = now.0;
        if self.passed < self.ends.len() {
            let part = self.timing.measured.0 / SEGMENTS as u64;
            if now.0 - span.first_ns >= part * (self.passed as u64 + 1) {
                self.ends[self.passed] = (now.0, bytes);
                self.passed += 1;
            }
        }
    }

    /// Returns true if nothing has arrived so far.
    pub(crate) fn is_empty(&self) -> bool {
        self.heard.is_none()
    }

    /// Returns true if the warm-up is over.
    pub(crate) fn measures(&self) -> bool {
        self.span.is_some()
    }

    /// Returns the time of the last arrival.
    pub(crate) fn last(&self) -> Option<Nanos> {
        self.heard.map(|(_, last)| last)
    }

    /// Returns the span from the first receive after the warm-up to the last, with `bytes` in all.
    pub(crate) fn span(&self, bytes: u64) -> Option<ReceiveSpan> {
        let span = self.span?;
        Some(ReceiveSpan { warmup_bytes: self.there_before(span.warmup_bytes, bytes), ..span })
    }

    /// Returns the bytes that had arrived as the warm-up ended, of `bytes` in all: the bytes `handed_on`, and the bytes
    /// that waited behind a gap. Their number is estimated: at the end none wait, so the share of the path's bytes (or
    /// packets) that had arrived by then is also the share of the content. A transport that says nothing about the first
    /// receive counts from the connection's beginning.
    fn there_before(&self, handed_on: u64, bytes: u64) -> u64 {
        let [first, begin] = self.levels;
        let (had, from) = first.brought.map_or((0, 0), |from| (first.had, from));
        let (Some(then), Some(whole)) = (begin.brought, self.brought) else {
            return handed_on;
        };
        if handed_on == 0 || whole <= from {
            return handed_on;
        }
        let later = u128::from(bytes.saturating_sub(had));
        let by_then = later * u128::from(then.saturating_sub(from)) / u128::from(whole - from);
        (had + by_then as u64).clamp(handed_on, bytes.max(handed_on))
    }

    /// Returns the goodput of each part in bits per second, with `bytes` in all; empty without parts.
    pub(crate) fn segments(&self, bytes: u64) -> Vec<f64> {
        let Some(span) = self.span(bytes).filter(|_| self.passed == self.ends.len()) else {
            return Vec::new();
        };
        if self.timing.measured == Nanos::ZERO {
            return Vec::new();
        }
        let begin = (span.first_ns, span.first_bytes + span.warmup_bytes);
        let ends = self.ends.iter().copied().chain([(span.last_ns, bytes)]);
        let mut from = begin;
        let mut parts = Vec::with_capacity(SEGMENTS);
        for (ns, bytes) in ends {
            if ns <= from.0 {
                return Vec::new();
            }
            parts.push(bytes.saturating_sub(from.1) as f64 * 8e9 / (ns - from.0) as f64);
            from = (ns, bytes);
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Receives a byte each microsecond for `time_us` after 100 µs, noted every 10 µs.
    fn run(warmup_us: u64, measured_us: u64, time_us: u64) -> Marks {
        let us = Nanos::from_micros;
        let mut marks = Marks::new(Timing { warmup: us(warmup_us), measured: us(measured_us) });
        for at in (0..=time_us).step_by(10) {
            marks.note(us(100 + at), at + 10);
        }
        marks
    }

    #[test]
    fn the_warm_up_is_left_out_of_the_span() {
        let span = run(50, 400, 500).span(510).unwrap();
        assert_eq!((span.first_ns, span.last_ns), (150_000, 600_000));
        assert_eq!((span.first_bytes, span.warmup_bytes), (0, 60));
        let whole = run(0, 400, 500).span(510).unwrap();
        assert_eq!((whole.first_ns, whole.first_bytes, whole.warmup_bytes), (100_000, 10, 0));
        let short = run(50, 400, 40);
        assert_eq!((short.span(50), short.measures()), (None, false));
        assert_eq!(short.last(), Some(Nanos::from_micros(140)));
    }

    #[test]
    fn what_waited_behind_a_gap_as_the_warm_up_ended_was_there_before() {
        let us = Nanos::from_micros;
        let mut marks = Marks::new(Timing { warmup: us(100), measured: us(400) });
        // The path brings 100 bytes a microsecond, 80 of them content. From 80 to 200 a gap holds all back, and ends in turns.
        let mut note = |at: u64, had: u64| {
            marks.arrived(Some(1000 + at * 100));
            marks.note(us(50 + at), had);
        };
        note(0, 80);
        note(80, 80 + 6400);
        note(200, 80 + 12_000);
        note(201, 80 + 16_080);
        note(600, 80 + 48_000);
        let span = marks.span(80 + 48_000).unwrap();
        assert_eq!((span.first_ns, span.last_ns), (250_000, 650_000));
        assert_eq!(span.warmup_bytes, 80 + 16_000, "and not the 12,080 that were handed on");
        // A flow that is stopped sees no end: it asks once more, but only where the answer serves.
        marks.ask_at_stop();
        assert!(marks.want_arrived());
        let begin = marks.levels[1];
        marks.levels[1] = Level { brought: None, ..begin };
        assert_eq!(marks.span(80 + 48_000).unwrap().warmup_bytes, 12_080, "nobody knows");
    }

    #[test]
    fn a_kernel_is_asked_once_and_its_answer_counts_if_it_gives_another_in_the_end() {
        let us = Nanos::from_micros;
        let run = |answers: [Option<u64>; 2]| {
            let timing = Timing { warmup: us(100), measured: us(400) };
            let mut marks = Marks::new(timing).asking();
            let mut asked = Vec::new();
            for (at, had) in [(0, 1000), (90, 2000), (100, 3000), (120, 8000), (500, 40_000)] {
                if marks.want_arrived() {
                    asked.push(at);
                    marks.arrived(answers[0]);
                }
                marks.note(us(at), had);
            }
            marks.arrived(answers[1]);
            let span = marks.span(40_000).unwrap();
            (asked, span.first_ns, span.warmup_bytes)
        };
        // A tenth of all packets had arrived; 1000 of their bytes waited. The question is asked before the next read.
        assert_eq!(run([Some(4), Some(40)]), (vec![120], 100_000, 4000));
        for answers in [[None, None], [Some(4), None], [None, Some(40)]] {
            assert_eq!(run(answers), (vec![120], 100_000, 3000), "{answers:?}");
        }
        assert_eq!(run([Some(40), Some(40)]).2, 40_000, "all had arrived");
    }

    #[test]
    fn a_gap_right_after_the_warm_up_is_in_the_span() {
        let us = Nanos::from_micros;
        let timing = Timing { warmup: us(100), measured: us(400) };
        let mut marks = Marks::new(timing).asking();
        for (at, had) in [(0, 1000), (100, 101_000)] {
            marks.note(us(at), had);
        }
        // Nothing has overtaken anything as the warm-up ends. Then a loss holds 250 µs of data back.
        assert!(marks.want_arrived());
        marks.arrived(None);
        assert!(!marks.want_arrived(), "an answer of nothing is an answer");
        for (at, had) in [(350, 351_000), (500, 501_000)] {
            marks.note(us(at), had);
        }
        marks.arrived(Some(501));
        let span = marks.span(501_000).unwrap();
        assert_eq!((span.first_ns, span.last_ns, span.warmup_bytes), (100_000, 500_000, 101_000));
    }

    #[test]
    fn each_part_has_its_rate() {
        let parts = run(50, 400, 450).segments(460);
        assert_eq!(parts, [8e6; SEGMENTS]);
        assert!(run(50, 0, 450).segments(460).is_empty(), "bytes decide");
        assert!(run(50, 400, 200).segments(210).is_empty(), "it ended early");
    }
}
