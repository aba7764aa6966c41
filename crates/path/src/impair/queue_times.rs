//! Time in the queue over a trial: the longest in each of a bounded number of intervals.

use crate::measurements::QueueCourse;

/// Shortest interval, in nanoseconds.
const SHORTEST: u64 = 10_000_000;
/// Maximum number of intervals. With more, each two neighbours become one.
const MOST: usize = 128;
/// Shortest time in a queue that is worth a course, in nanoseconds.
const LEAST: u64 = 1_000_000;
/// Step of the times in a course, in nanoseconds, so that a file of them is small.
const STEP: u64 = 10_000;

/// Longest time in the queue by interval.
#[derive(Debug)]
pub(super) struct QueueTimes {
    every: u64,
    /// End of the last interval.
    end: u64,
    longest: Vec<u64>,
}

impl QueueTimes {
    pub(super) fn new() -> QueueTimes {
        QueueTimes { every: SHORTEST, end: 0, longest: Vec::with_capacity(MOST) }
    }

    /// Notes a packet that left the queue at `at`, after `queued` nanoseconds; `at` never decreases.
    #[inline]
    pub(super) fn note(&mut self, at: u64, queued: u64) {
        if at >= self.end {
            self.extend(at);
        }
        if let Some(last) = self.longest.last_mut() {
            *last = queued.max(*last);
        }
    }

    #[cold]
    fn extend(&mut self, at: u64) {
        while at / self.every >= MOST as u64 {
            let half = self.longest.len().div_ceil(2);
            for to in 0..half {
                let two = &self.longest[2 * to..];
                self.longest[to] = two.iter().take(2).copied().max().unwrap_or(0);
            }
            self.longest.truncate(half);
            self.every *= 2;
        }
        let index = (at / self.every) as usize;
        self.longest.resize(index + 1, 0);
        self.end = (index as u64 + 1) * self.every;
    }

    /// Returns the course so far, if a packet was in the queue for long enough.
    pub(super) fn course(&self) -> Option<QueueCourse> {
        let step = |ns: &u64| ns - ns % STEP;
        self.longest.iter().any(|ns| *ns >= LEAST).then(|| QueueCourse {
            began_ns: None,
            every_ns: self.every,
            longest_ns: self.longest.iter().map(step).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn each_interval_has_its_longest_time_and_one_without_packets_none() {
        let mut times = QueueTimes::new();
        for (at, queued) in [(0, 2), (9, 3), (10, 1), (41, 7), (42, 5)] {
            times.note(at * MS, queued * MS + 1);
        }
        let longest_ns = [3, 1, 0, 0, 7].map(|ms| ms * MS).to_vec();
        assert_eq!(
            times.course(),
            Some(QueueCourse { every_ns: 10 * MS, longest_ns, began_ns: None })
        );
    }

    #[test]
    fn a_long_trial_has_as_many_intervals_and_longer_ones() {
        let mut times = QueueTimes::new();
        for at in 0..100_000 {
            times.note(at * MS, at * MS / 100);
        }
        let course = times.course().unwrap();
        assert_eq!((course.every_ns, course.longest_ns.len()), (1_280 * MS, 79));
        for (at, longest) in (1..).zip(&course.longest_ns) {
            let last: u64 = (at * 1_280).min(100_000) - 1;
            assert_eq!(*longest, last * MS / 100, "{at}");
        }
        // A long time without a packet.
        times.note(1_000_000 * MS, 4 * MS);
        let course = times.course().unwrap();
        assert_eq!((course.every_ns, course.longest_ns.len()), (10_240 * MS, 98));
        assert_eq!((course.longest_ns[9], course.longest_ns[97]), (999_990_000, 4 * MS));
    }

    #[test]
    fn a_queue_in_which_nothing_waits_has_no_course() {
        let mut times = QueueTimes::new();
        times.note(5 * MS, MS - 1);
        assert_eq!(times.course(), None);
    }
}
