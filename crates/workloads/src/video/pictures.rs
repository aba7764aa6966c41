//! Arrivals of the frames of a video, and the quality for the viewer.

use deadheat_base::time::Nanos;
use deadheat_contract::measurements::Tally;
use deadheat_contract::measurements::series::RoundTrips;

use crate::paced::{Measure, Period, Quantiles};
use deadheat_contract::workload::load::Item;

/// A frame.
#[derive(Debug, Clone, Copy)]
struct Frame {
    /// Number of messages that have not arrived.
    missing: u64,
    due: Nanos,
    /// Time of the last arrival so far.
    came: Nanos,
    /// Bytes that have arrived.
    here: u64,
}

/// Frames by number.
pub(crate) struct Pictures {
    frames: Vec<Frame>,
    /// Frame and length of each message; [`HERE`] in place of the frame if it has arrived.
    messages: Vec<(u32, u32)>,
    gop: usize,
    deadline: Nanos,
    period: Period,
    /// Times of the frames that were complete since the last report.
    times: RoundTrips,
}

/// Placeholder for the frame of a message that has arrived.
const HERE: u32 = u32::MAX;

/// Counts of frames late, lost and frozen if each is shown a fixed time after it was due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct FrameCounts {
    late: u64,
    lost: u64,
    /// Number of frames that cannot be shown, and the longest run of them.
    frozen: u64,
    longest: u64,
}

impl Pictures {
    /// Creates the frames of a video: `parts` has the number of messages of each, `messages` the frame and the length
    /// of each message.
    pub(crate) fn new(
        parts: Vec<u64>,
        messages: Vec<(u32, u32)>,
        gop: u64,
        deadline: Nanos,
        period: Period,
    ) -> Pictures {
        let frame = |missing| Frame { missing, due: Nanos::ZERO, came: Nanos::ZERO, here: 0 };
        let frames = parts.into_iter().map(frame).collect();
        let times = RoundTrips::default();
        Pictures { frames, messages, gop: gop as usize, deadline, period, times }
    }

    /// Returns the times from the due time of each frame until it was complete; `None` if no frame is complete.
    pub(crate) fn latencies(&self) -> Option<Quantiles> {
        let whole = self.frames.iter().filter(|frame| frame.missing == 0);
        Quantiles::of(whole.map(|frame| (frame.came - frame.due).0).collect())
    }

    /// Returns the number of incomplete frames.
    pub(crate) fn missing(&self) -> usize {
        self.frames.iter().filter(|frame| frame.missing > 0).count()
    }

    fn counts(&self) -> FrameCounts {
        let mut counts = FrameCounts::default();
        // Time at which all frames that the next one refers to were complete; `None` if one is missing.
        let mut ready = None;
        let mut row = 0;
        for (number, frame) in self.frames.iter().enumerate() {
            let whole = (frame.missing == 0).then_some(frame.came);
            let shown_at = frame.due + self.deadline;
            counts.lost += u64::from(whole.is_none());
            counts.late += u64::from(whole.is_some_and(|came| came > shown_at));
            ready = match (number % self.gop, whole, ready) {
                (0, whole, _) => whole,
                (_, Some(came), Some(before)) => Some(came.max(before)),
                _ => None,
            };
            let is_shown = ready.is_some_and(|ready| ready <= shown_at);
            row = if is_shown { 0 } else { row + 1 };
            counts.frozen += u64::from(!is_shown);
            counts.longest = counts.longest.max(row);
        }
        counts
    }
}

impl Measure for Pictures {
    /// Bytes for a message and a frame: there are no more frames than messages.
    const BYTES_EACH: u64 = (size_of::<(u32, u32)>() + size_of::<Frame>()) as u64;

    #[inline]
    fn note(&mut self, now: Nanos, seq: u64, due: Option<Nanos>, _received: &Tally) {
        let Some((number, len)) = self.messages.get_mut(seq as usize) else { return };
        let len = u64::from(*len);
        let number = std::mem::replace(number, HERE);
        if let (Some(frame), Some(due)) = (self.frames.get_mut(number as usize), due) {
            frame.missing -= 1;
            (frame.due, frame.came) = (due, now);
            frame.here += len;
            if frame.missing == 0 {
                self.times.add((now - due).0);
            }
        }
    }

    fn numbered(&self, seq: u64, _bytes: &[u8]) -> (u64, Option<usize>) {
        (seq, self.length(seq))
    }

    fn items(&self) -> Vec<Item> {
        let item = |frame: &Frame| Item {
            due: (frame.here > 0).then_some(frame.due),
            took: (frame.missing == 0).then(|| frame.came - frame.due),
            bytes: frame.here,
        };
        self.frames.iter().map(item).collect()
    }

    fn take_times(&mut self) -> RoundTrips {
        std::mem::take(&mut self.times)
    }

    fn figures(&self) -> Option<Vec<(&'static str, f64)>> {
        // If no frame is complete, all are missed, which is a figure; without any arrival there is no figure.
        if self.frames.iter().all(|frame| frame.here == 0) {
            return None;
        }
        let (counts, n) = (self.counts(), self.frames.len());
        let share = |frames: u64| frames as f64 / n as f64;
        let mut figures = vec![
            // Adds half a missed frame out of one more frame, so that a trial without misses has a ratio to others.
            ("missed_share", ((counts.late + counts.lost) as f64 + 0.5) / (n as f64 + 1.0)),
            ("late_share", share(counts.late)),
            ("lost_share", share(counts.lost)),
            ("frozen_share", share(counts.frozen)),
            ("frozen_max_ns", self.period.times(counts.longest).0 as f64),
        ];
        if let Some(latencies) = self.latencies() {
            figures.push(("latency_mean_ns", latencies.mean()));
            figures.extend(latencies.among(0.99, n).map(|p99| ("latency_p99_ns", p99 as f64)));
        }
        Some(figures)
    }
}

impl Pictures {
    /// Returns the length of message `seq`; `None` if it is not of the work.
    pub(crate) fn length(&self, seq: u64) -> Option<usize> {
        Some(self.messages.get(seq as usize)?.1 as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns frames of two messages every 20 ms, a keyframe each four, shown 50 ms later. Each is whole
    /// `delays` ms after it was due; of 0, one message is lost.
    fn pictures(delays: &[u64]) -> Pictures {
        let n = delays.len();
        let messages = (0..2 * n as u32).map(|message| (message / 2, 1_000)).collect();
        let period = Period::of_packets(50);
        let mut pictures = Pictures::new(vec![2; n], messages, 4, Nanos(50 * MS), period);
        for (frame, delay) in (0u64..).zip(delays) {
            let due = Nanos(20 * frame * MS);
            let came = due + Nanos(delay * MS);
            pictures.note(due, 2 * frame, Some(due), &Tally::default());
            if *delay > 0 {
                pictures.note(came, 2 * frame + 1, Some(due), &Tally::default());
                pictures.note(came + Nanos(MS), 2 * frame + 1, Some(due), &Tally::default());
            }
        }
        pictures
    }

    fn figure(pictures: &Pictures, name: &str) -> f64 {
        pictures.figures().unwrap().into_iter().find(|(n, _)| *n == name).unwrap().1
    }

    #[test]
    fn a_lost_frame_stops_the_picture_until_the_next_keyframe() {
        let all = pictures(&[30; 12]);
        assert_eq!(all.counts(), FrameCounts::default());
        assert_eq!(figure(&all, "missed_share"), 0.5 / 13.0);
        let some = pictures(&[30, 0, 30, 30, 30, 30, 30, 0, 30, 30, 30, 30]);
        assert_eq!(some.counts(), FrameCounts { late: 0, lost: 2, frozen: 4, longest: 3 });
        assert_eq!(figure(&some, "missed_share"), 2.5 / 13.0);
        assert_eq!(figure(&some, "frozen_share"), 4.0 / 12.0);
        assert_eq!(figure(&some, "frozen_max_ns"), 60e6);
        // A keyframe that is lost takes all that refer to it, too.
        let key = pictures(&[0, 30, 30, 30, 30, 30, 30, 30]);
        assert_eq!(key.counts(), FrameCounts { late: 0, lost: 1, frozen: 4, longest: 4 });
    }

    #[test]
    fn a_late_frame_is_not_shown_but_those_that_refer_to_it_may_be() {
        // The second is whole at 95, and was to be shown at 70. The third is shown at 90, the fourth at 110.
        let late = pictures(&[30, 75, 30, 30]);
        assert_eq!(late.counts(), FrameCounts { late: 1, lost: 0, frozen: 2, longest: 2 });
        assert_eq!(figure(&late, "latency_mean_ns"), (30.0 + 75.0 + 30.0 + 30.0) / 4.0 * 1e6);
        assert_eq!(figure(&late, "latency_p99_ns"), 75e6);
        // In time to the nanosecond.
        assert_eq!(pictures(&[50, 50]).counts(), FrameCounts::default());
    }

    #[test]
    fn frames_that_never_come_are_slower_than_all() {
        let lost = pictures(&[30, 0]);
        assert!(lost.figures().unwrap().iter().all(|(name, _)| *name != "latency_p99_ns"));
        assert_eq!(figure(&lost, "latency_mean_ns"), 30e6);
        assert_eq!((lost.length(3), lost.length(4)), (Some(1_000), None));
        // A part of each came, and no frame is whole: all are missed, and there is no latency.
        let parts = pictures(&[0, 0]);
        assert_eq!(figure(&parts, "missed_share"), 2.5 / 3.0);
        assert_eq!(figure(&parts, "frozen_share"), 1.0);
        assert!(parts.figures().unwrap().iter().all(|(name, _)| !name.starts_with("latency")));
        let nothing =
            Pictures::new(vec![2], vec![(0, 1_000); 2], 4, Nanos(MS), Period::of_packets(50));
        assert!(nothing.figures().is_none());
    }
}
