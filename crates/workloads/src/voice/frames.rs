//! Arrivals of the frames of a voice, and the quality for the listener.

use deadheat_base::time::Nanos;
use deadheat_contract::measurements::Tally;
use deadheat_contract::measurements::series::RoundTrips;

use super::emodel::{Codec, rating};
use crate::paced::Measure;

/// Frames by number.
pub(crate) struct Frames {
    codec: Codec,
    frame: Nanos,
    buffer: Nanos,
    /// Delay of each frame; `None` if it did not arrive.
    delays: Vec<Option<Nanos>>,
    /// Number after the last frame that arrived.
    seen: usize,
    /// Delays of the frames that arrived since the last report.
    times: RoundTrips,
}

/// Quality for the listener with a playout delay.
#[derive(Debug, Clone, Copy, PartialEq)]
struct VoiceQuality {
    rating: f64,
    gaps: f64,
    mouth_to_ear: Nanos,
}

/// Buffers among which the best is searched, in milliseconds.
const BUFFERS: std::ops::RangeInclusive<u64> = 0..=500;

impl Frames {
    pub(crate) fn new(count: u64, codec: Codec, frame: Nanos, buffer: Nanos) -> Frames {
        let (delays, times) = (vec![None; count as usize], RoundTrips::default());
        Frames { codec, frame, buffer, delays, seen: 0, times }
    }

    /// Returns the frames that were sent, as far as the receiver can know: up to the last that arrived.
    fn sent(&self) -> &[Option<Nanos>] {
        &self.delays[..self.seen]
    }

    /// Returns the quality if each frame is played `playout` after it was due.
    fn quality(&self, playout: Nanos) -> VoiceQuality {
        let is_gap = |delay: &Option<Nanos>| delay.is_none_or(|delay| delay > playout);
        let (mut gaps, mut bursts, mut in_gap) = (0usize, 0usize, false);
        for delay in self.sent() {
            let gap = is_gap(delay);
            gaps += usize::from(gap);
            bursts += usize::from(gap && !in_gap);
            in_gap = gap;
        }
        let n = self.sent().len().max(1) as f64;
        let lost = gaps as f64 / n;
        // Mean length of bursts over the mean length under random loss, 1 / (1 - p) (G.107, 7.4.3).
        let burst_ratio = gaps as f64 / bursts.max(1) as f64 * (1.0 - lost);
        let mouth_to_ear = self.frame + playout;
        let rating = rating(self.codec, mouth_to_ear, lost, burst_ratio);
        VoiceQuality { rating, gaps: lost, mouth_to_ear }
    }
}

impl Measure for Frames {
    const BYTES_EACH: u64 = size_of::<Option<Nanos>>() as u64;

    #[inline]
    fn note(&mut self, now: Nanos, seq: u64, due: Option<Nanos>, _received: &Tally) {
        if let (Some(slot), Some(due)) = (self.delays.get_mut(seq as usize), due) {
            *slot = Some(now - due);
            self.times.add((now - due).0);
            self.seen = self.seen.max(seq as usize + 1);
        }
    }

    fn take_times(&mut self) -> RoundTrips {
        std::mem::take(&mut self.times)
    }

    fn figures(&self) -> Option<Vec<(&'static str, f64)>> {
        let least = self.sent().iter().flatten().min().copied()?;
        let quality = self.quality(least + self.buffer);
        let came = self.sent().iter().flatten().count() as f64;
        let best = BUFFERS
            .map(|ms| self.quality(least + Nanos::from_millis(ms)))
            .reduce(|best, next| if next.rating > best.rating { next } else { best })?;
        let never = 1.0 - came / self.sent().len() as f64;
        Some(vec![
            ("impairment_share", 1.0 - quality.rating / 100.0),
            ("rating_share", quality.rating / 100.0),
            ("gap_share", quality.gaps),
            ("late_share", (quality.gaps - never).max(0.0)),
            ("mouth_to_ear_ns", quality.mouth_to_ear.0 as f64),
            ("best_rating_share", best.rating / 100.0),
            ("best_mouth_to_ear_ns", best.mouth_to_ear.0 as f64),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns frames every 20 ms that take `delays` ms; 0 for one that never comes.
    fn frames(delays: &[u64]) -> Frames {
        let ms = Nanos::from_millis;
        let codec = Codec::G711_PLC;
        let mut frames = Frames::new(delays.len() as u64, codec, ms(20), ms(40));
        for (seq, delay) in delays.iter().enumerate().filter(|(_, delay)| **delay > 0) {
            let due = ms(20 * seq as u64);
            frames.note(due + ms(*delay), seq as u64, Some(due), &Tally::default());
        }
        frames
    }

    fn figure(frames: &Frames, name: &str) -> f64 {
        frames.figures().unwrap().into_iter().find(|(n, _)| *n == name).unwrap().1
    }

    #[test]
    fn what_comes_behind_the_buffer_is_a_gap() {
        let mut delays = vec![25; 100];
        (delays[10], delays[20], delays[30]) = (65, 66, 0);
        let frames = frames(&delays);
        assert_eq!(figure(&frames, "gap_share"), 0.02);
        assert!((figure(&frames, "late_share") - 0.01).abs() < 1e-12);
        assert_eq!(figure(&frames, "mouth_to_ear_ns"), 85e6);
        // 95 · 2 / (2 + 25.1) = 7.01 below 93.2.
        let rating = figure(&frames, "rating_share");
        assert!((rating - 0.8619).abs() < 1e-4, "{rating}");
        assert!((figure(&frames, "impairment_share") - (1.0 - rating)).abs() < 1e-12);
        // One millisecond more catches the second.
        assert_eq!(figure(&frames, "best_mouth_to_ear_ns"), 86e6);
        assert!(figure(&frames, "best_rating_share") > rating);
    }

    #[test]
    fn gaps_in_a_row_are_a_burst() {
        let spread: Vec<u64> = (0..100).map(|n| if n % 20 == 3 { 0 } else { 25 }).collect();
        let mut burst = vec![25; 100];
        burst[40..45].fill(0);
        let ratings = [spread, burst].map(|delays| figure(&frames(&delays), "rating_share"));
        assert!(ratings[1] < ratings[0] - 0.01, "{ratings:?}");
    }

    #[test]
    fn silence_has_no_figures() {
        assert!(frames(&[0, 0, 0]).figures().is_none());
    }

    #[test]
    fn live_times_are_those_of_the_frames_that_arrived_since_the_last_look() {
        let mut frames = frames(&[30, 0, 50]);
        let times = frames.take_times();
        let ms = [times.sum_ns, times.min_ns, times.max_ns].map(|ns| ns / 1_000_000);
        assert_eq!((times.n, ms), (2, [80, 30, 50]));
        assert!(frames.take_times().is_empty());
    }
}
