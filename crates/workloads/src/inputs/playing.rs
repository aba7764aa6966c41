//! Playing of a game: the arrivals of inputs, and the stalls for want of them.

use std::ops::RangeInclusive;

use deadheat_base::time::Nanos;
use deadheat_contract::measurements::series::RoundTrips;

use crate::paced::Period;
use deadheat_contract::workload::load::Item;

/// The other player's inputs, by number.
pub(super) struct Playing {
    period: Period,
    playout: Nanos,
    /// Bytes of an input.
    size: u64,
    /// Due time of the first input.
    begin: Option<Nanos>,
    came: Vec<Option<Nanos>>,
    /// Number of inputs that have arrived without a gap.
    have: u64,
    /// Delays of the inputs that could be played since the last report.
    times: RoundTrips,
}

/// Stalls of a game with a playout delay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Stalls {
    /// Total time of the stalls, longest stall, and their number.
    sum: u64,
    longest: u64,
    count: u64,
}

impl Playing {
    pub(super) fn new(count: u64, size: u64, period: Period, playout: Nanos) -> Playing {
        let (came, times) = (vec![None; count as usize], RoundTrips::default());
        Playing { period, playout, size, begin: None, came, have: 0, times }
    }

    /// Notes a message that arrived at `now` with the inputs from `first` to before `next`; the last of them was due at
    /// `due`.
    #[inline]
    pub(super) fn note(&mut self, now: Nanos, due: Nanos, first: u64, next: u64) {
        let Some(last) = next.checked_sub(1) else { return };
        let begin = *self.begin.get_or_insert(due - self.period.times(last));
        let (first, next) = (first as usize, (next as usize).min(self.came.len()));
        for came in self.came.get_mut(first..next).unwrap_or_default() {
            came.get_or_insert(now);
        }
        while let Some(Some(_)) = self.came.get(self.have as usize) {
            // It waited for this message, or for all before it that came with this message.
            self.times.add((now - (begin + self.period.times(self.have))).0);
            self.have += 1;
        }
    }

    /// Returns the delays of the inputs that could be played since the last call.
    pub(super) fn take_times(&mut self) -> RoundTrips {
        std::mem::take(&mut self.times)
    }

    /// Returns the number of inputs that have arrived without a gap.
    pub(super) fn have(&self) -> u64 {
        self.have
    }

    /// Returns true if all inputs have arrived.
    pub(super) fn is_whole(&self) -> bool {
        self.have == self.came.len() as u64
    }

    /// Returns for each input the time from when it was due until it and all earlier ones have arrived.
    fn delays(&self) -> Option<Vec<u64>> {
        let begin = self.begin?;
        let mut ready = Nanos::ZERO;
        let known = &self.came[..self.have as usize];
        let delays = (0..).zip(known.iter().flatten()).map(|(input, came)| {
            ready = ready.max(*came);
            (ready - (begin + self.period.times(input))).0
        });
        let delays: Vec<u64> = delays.collect();
        (!delays.is_empty()).then_some(delays)
    }

    /// Returns the inputs as items; each can be played once all earlier ones have arrived.
    pub(super) fn items(&self) -> Vec<Item> {
        let Some(begin) = self.begin else { return Vec::new() };
        let delays = self.delays().unwrap_or_default();
        let item = |input: u64| {
            let took = delays.get(input as usize).map(|delay| Nanos(*delay));
            let due = Some(begin + self.period.times(input));
            Item { due, took, bytes: if took.is_some() { self.size } else { 0 } }
        };
        (0..self.came.len() as u64).map(item).collect()
    }

    /// Returns the stalls if each input is played `delay` after it was due, or as soon as it has arrived; the game
    /// catches up at once after a stall.
    fn stalls(&self, delays: &[u64], delay: u64) -> Stalls {
        let (mut stalls, mut running, mut until) = (Stalls::default(), 0, 0);
        for (input, ready) in (0..).zip(delays) {
            let due = self.period.times(input).0;
            let (play, ready) = (due + delay, due + ready);
            if ready <= play.max(until) {
                continue;
            }
            let is_new = play > until;
            let stood = ready - play.max(until);
            stalls.count += u64::from(is_new || until == 0);
            running = if is_new { stood } else { running + stood };
            stalls.sum += stood;
            stalls.longest = stalls.longest.max(running);
            until = ready;
        }
        stalls
    }

    /// Returns the figures of this end; `None` if no input arrived.
    pub(super) fn figures(&self) -> Option<Vec<(&'static str, f64)>> {
        let mut delays = self.delays()?;
        let least = *delays.iter().min()?;
        // An input that never arrives stops the game until its end.
        let total = self.period.times(self.came.len() as u64).0;
        let missing = self.came.len() - delays.len();
        let end = total + least + self.playout.0;
        delays.extend((self.have..self.came.len() as u64).map(|k| end - self.period.times(k).0));
        let smooth = *delays.iter().max()?;
        let stalls = self.stalls(&delays, least + self.playout.0);
        let mut figures = vec![
            ("delay_p99_ns", self.delay_for(&delays, total / 100, least..=smooth) as f64),
            ("stalled_share", (stalls.sum as f64 / total as f64).min(1.0)),
            ("stall_max_ns", stalls.longest as f64),
        ];
        if missing == 0 {
            figures.push(("delay_smooth_ns", smooth as f64));
        }
        if stalls.count > 0 {
            figures.push(("between_stalls_ns", total as f64 / stalls.count as f64));
        }
        Some(figures)
    }

    /// Returns the shortest delay among these with which the game stands still for at most `most` in total.
    fn delay_for(&self, delays: &[u64], most: u64, among: RangeInclusive<u64>) -> u64 {
        let (mut low, mut high) = among.into_inner();
        while low < high {
            let middle = low + (high - low) / 2;
            if self.stalls(delays, middle).sum <= most {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns inputs every 10 ms, played 20 ms after the fastest would be there. Each came `delays` ms
    /// after it was due; of 0, never.
    fn playing(delays: &[u64]) -> Playing {
        let (period, playout) = (Period::of_packets(100), Nanos(20 * MS));
        let mut playing = Playing::new(delays.len() as u64, 1, period, playout);
        for (input, delay) in (0..).zip(delays).filter(|(_, delay)| **delay > 0) {
            let due = Nanos(7 * MS) + period.times(input);
            playing.note(due + Nanos(delay * MS), due, input, input + 1);
        }
        playing
    }

    fn figure(playing: &Playing, name: &str) -> f64 {
        playing.figures().unwrap().into_iter().find(|(n, _)| *n == name).unwrap().1
    }

    #[test]
    fn the_game_stands_still_from_when_an_input_is_to_be_played_until_it_is_there() {
        // The second comes 55 ms late of 30; what came behind it in time is played with it.
        let mut delays = vec![10; 100];
        delays[1] = 55;
        let one = playing(&delays);
        assert_eq!(
            one.stalls(&one.delays().unwrap(), 30 * MS),
            Stalls { sum: 25 * MS, longest: 25 * MS, count: 1 }
        );
        assert_eq!(figure(&one, "stalled_share"), 0.025);
        assert_eq!(figure(&one, "stall_max_ns"), 25e6);
        assert_eq!(figure(&one, "between_stalls_ns"), 1e9);
        assert_eq!(figure(&one, "delay_smooth_ns"), 55e6);
        // 1 % of a second is 10 ms.
        assert_eq!(figure(&one, "delay_p99_ns"), 45e6);
    }

    #[test]
    fn late_ones_in_a_row_are_one_hitch_and_those_apart_are_two() {
        let mut delays = vec![10; 100];
        // Played at 60, there at 95; played at 70, there at 110; then one 5 ms late, much later.
        (delays[3], delays[4], delays[50]) = (65, 70, 35);
        let late = playing(&delays);
        let stalls = late.stalls(&late.delays().unwrap(), 30 * MS);
        assert_eq!(stalls, Stalls { sum: (35 + 15 + 5) * MS, longest: 50 * MS, count: 2 });
    }

    #[test]
    fn inputs_are_played_in_order_and_once() {
        let mut playing = playing(&[10, 0, 0, 0]);
        assert_eq!((playing.have(), playing.is_whole()), (1, false));
        // All that is missing in one message, then some of it again.
        let due = Nanos(37 * MS);
        playing.note(Nanos(50 * MS), due, 1, 4);
        playing.note(Nanos(90 * MS), due, 2, 4);
        assert_eq!(playing.delays().unwrap(), [10, 33, 23, 13].map(|ms| ms * MS));
        assert!(playing.is_whole());
        let times = playing.take_times();
        let ms = [times.sum_ns, times.min_ns, times.max_ns].map(|ns| ns / MS);
        assert_eq!((times.n, ms), (4, [79, 10, 33]));
        assert!(playing.take_times().is_empty());
        playing.note(Nanos(90 * MS), due, 9, 12);
        playing.note(Nanos(90 * MS), due, 0, 0);
        assert_eq!(playing.have(), 4);
    }

    #[test]
    fn what_never_comes_stops_the_game_to_its_end() {
        let mut delays = vec![10; 100];
        delays[40] = 0;
        let lost = playing(&delays);
        // From 400 ms to the end of 1 s.
        assert_eq!(figure(&lost, "stalled_share"), 0.6);
        assert!(lost.figures().unwrap().iter().all(|(name, _)| *name != "delay_smooth_ns"));
        assert!(playing(&[0, 0]).figures().is_none());
    }
}
