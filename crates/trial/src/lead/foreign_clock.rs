//! Clock of a far end of others over a race: compared with this host's by the work's own messages, on which it writes
//! its times. As with a server of ours, all trials of a block are on one line, so that the offset cancels between them.

use deadheat_base::clocks::HostClock;

use super::both_reports::BothReports;
use super::clock_reading::{ClockReading, bound, contradiction, within_kernels};
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::clock::{ClockLine, ClockTrack, Echo};
use deadheat_contract::measurements::{ClockEstimate, FarView};
use deadheat_contract::workload::Clocks;

/// Lead of TAI over UTC since 2017, in nanoseconds (IERS, Bulletin C): times of PTP may be of either.
const TAI_AHEAD: i64 = 37_000_000_000;

/// Name of the host, where a reason has to name it.
const NAME: &str = "the far host";

/// Clock of a far end of others.
#[derive(Debug, Default)]
pub(super) struct ForeignClock {
    track: ClockTrack,
    /// Line for the trials of the running block.
    line: Option<ClockLine>,
    /// Seed of the running block.
    block: Option<u64>,
    /// Fastest echo of the trial before.
    last: Option<Echo>,
    /// Clock in the trial that was observed last.
    seen: Option<ClockEstimate>,
}

impl ForeignClock {
    /// Returns the far clock in the observed trial, once; `None` if its messages had no times of a clock to compare.
    pub(super) fn take(&mut self) -> Option<ClockEstimate> {
        self.seen.take()
    }

    /// Notes the clock by the reports of a trial, and adds the offset to them.
    pub(super) fn observe(&mut self, seed: u64, reports: BothReports) -> BothReports {
        let half = reports.near.halves.first();
        let view = half.and_then(|half| half.far_view.as_deref());
        let clocks = view.and_then(|view| self.offset(seed, view));
        match (clocks, view.is_some()) {
            (Some(ahead_ns), _) => BothReports { clocks: Clocks::Foreign { ahead_ns }, ..reports },
            (None, true) => BothReports { clocks: Clocks::Apart, ..reports },
            (None, false) => reports,
        }
    }

    /// Returns far minus near in the middle of a trial, in nanoseconds; `None` if its messages had no times to compare, or
    /// if a clock was set in the trial.
    fn offset(&mut self, seed: u64, view: &FarView) -> Option<i64> {
        self.seen = None;
        let (first, last) = view.echoes.split_at(view.echoes.len().div_ceil(2));
        let last = if last.is_empty() { first } else { last };
        let [first, last] = [first, last].map(|part| reading(part, view.clock_error_us));
        let (early, late) = (*first.fastest()?, *last.fastest()?);
        self.begin_anew_after_a_step(&early);
        self.last = Some(late);
        view.echoes.iter().for_each(|echo| self.track.note(echo));
        if self.line.is_none() || self.block != Some(seed) {
            self.block = Some(seed);
            self.line = self.track.line().map(|line| within_kernels(line, &last));
        }
        let line = self.line?;
        let middle = Nanos(early.near_sent / 2 + late.near_received / 2);
        let bounds = [&first, &last].map(|reading| bound(&line, reading));
        let (error_bound_ns, source) = bounds.into_iter().max_by_key(|bound| bound.0)?;
        let stepped = contradiction(&line, NAME, &early, &late).is_some();
        let offset_ns = line.offset_at(middle);
        self.seen = Some(ClockEstimate {
            offset_ns,
            error_bound_ns,
            drift_ppm: line.known_drift(),
            n: view.up.as_ref().map_or(0, |up| up.above.n),
            round_trip_ns: Some(early.round_trip().min(late.round_trip())),
            source,
            stepped,
            hosts: None,
        });
        if stepped {
            (self.track, self.line, self.last) = (ClockTrack::new(), None, None);
        }
        (!stepped).then_some(offset_ns)
    }

    /// Forgets the clock if it was set, or its program was started anew, since the trial before.
    fn begin_anew_after_a_step(&mut self, now: &Echo) {
        let moved = self.line.zip(self.last);
        if moved.is_some_and(|(line, last)| contradiction(&line, NAME, &last, now).is_some()) {
            (self.track, self.line) = (ClockTrack::new(), None);
        }
    }
}

/// Returns the comparison of the clocks by these echoes, with the error that the far end knows of its time of day.
fn reading(echoes: &[Echo], clock_error_us: Option<u32>) -> ClockReading {
    let near = HostClock::read();
    let far = HostClock {
        realtime_ahead_ns: realtime_ahead(echoes, near.realtime_ahead_ns),
        kernel_error_ns: clock_error_us.map(|us| u64::from(us) * 1_000),
        ..HostClock::default()
    };
    ClockReading { echoes: echoes.to_vec(), near, far }
}

/// Returns the lead of the far time of day over the times that the far end writes, which are of UTC or of TAI.
fn realtime_ahead(echoes: &[Echo], near_ahead: i64) -> i64 {
    let off = echoes.first().map_or(0, |echo| echo.offset().saturating_sub(near_ahead));
    if off.abs_diff(TAI_AHEAD) < off.unsigned_abs() { -TAI_AHEAD } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::AgentReport;
    use deadheat_contract::measurements::ClockSource;
    use deadheat_contract::workload::EndpointReport;

    const MS: u64 = 1_000_000;

    /// View of a trial that begins at `at` over 8 ms up and 2 ms down, to a clock that is `ahead`.
    fn view(at: u64, ahead: i64) -> FarView {
        let echo = |number: u64| {
            let near_sent = at + number * 100 * MS;
            let far = (near_sent + 8 * MS).wrapping_add_signed(ahead);
            let near_received = near_sent + 10 * MS;
            Echo { near_sent, far_received: far, far_sent: far, near_received }
        };
        FarView { echoes: (0..10).map(echo).collect(), ..FarView::default() }
    }

    fn observed(clock: &mut ForeignClock, seed: u64, view: FarView) -> Clocks {
        let half = EndpointReport { far_view: Some(Box::new(view)), ..EndpointReport::default() };
        let reports = BothReports {
            near: AgentReport { halves: vec![half], ..AgentReport::default() },
            far: None,
            took: Nanos::ZERO,
            clocks: Clocks::Shared,
            doubt: None,
            carriers: Default::default(),
        };
        clock.observe(seed, reports).clocks
    }

    #[test]
    fn all_trials_of_a_block_are_on_one_line_and_the_bound_holds_the_asymmetry() {
        let mut clock = ForeignClock::default();
        let Clocks::Foreign { ahead_ns } = observed(&mut clock, 1, view(MS, 5_000)) else {
            panic!("the clocks were compared")
        };
        let seen = clock.take().unwrap();
        assert_eq!(seen.offset_ns, ahead_ns);
        assert_eq!(ahead_ns.abs_diff(5_000), 3 * MS, "half of what the ways differ by");
        assert_eq!((seen.error_bound_ns, seen.round_trip_ns), (5 * MS, Some(10 * MS)));
        // 30 ppm of drift within the block stay out of the offset, and are in the bound.
        let later = observed(&mut clock, 1, view(10_001 * MS, 305_000));
        let seen = clock.take().unwrap();
        assert!(
            matches!(later, Clocks::Foreign { ahead_ns: same } if same.abs_diff(ahead_ns) < 100_000)
        );
        assert!(seen.error_bound_ns >= 5 * MS + 100_000, "{seen:?}");
        assert_eq!(clock.take(), None);
    }

    #[test]
    fn a_clock_that_is_set_is_said_and_known_again_afterwards() {
        let mut clock = ForeignClock::default();
        observed(&mut clock, 1, view(MS, 0));
        // The far program was started anew between two trials, and its clock with it.
        let anew = observed(&mut clock, 1, view(3_000 * MS, -500 * MS as i64));
        assert!(
            matches!(anew, Clocks::Foreign { ahead_ns } if ahead_ns.abs_diff(-500 * MS as i64) < 4 * MS)
        );
        let mut set = view(6_000 * MS, -500 * MS as i64);
        for echo in &mut set.echoes[5..] {
            (echo.far_received, echo.far_sent) =
                (echo.far_received + 900 * MS, echo.far_sent + 900 * MS);
        }
        assert_eq!(observed(&mut clock, 1, set), Clocks::Apart);
        assert!(clock.take().unwrap().stepped);
        let after = observed(&mut clock, 1, view(9_000 * MS, 400 * MS as i64));
        assert!(matches!(after, Clocks::Foreign { .. }) && !clock.take().unwrap().stepped);
        assert_eq!(observed(&mut clock, 1, FarView::default()), Clocks::Apart, "no times");
    }

    #[test]
    fn a_far_clock_that_knows_its_error_bounds_the_offset_where_ours_does_too() {
        let near = HostClock::read();
        let synchronised = |ahead_of_day: i64| {
            let mut reading =
                reading(&view(MS, near.realtime_ahead_ns + ahead_of_day).echoes, Some(100));
            reading.near = HostClock { kernel_error_ns: Some(100_000), ..reading.near };
            let mut track = ClockTrack::new();
            reading.echoes.iter().for_each(|echo| track.note(echo));
            let line = within_kernels(track.line().unwrap(), &reading);
            (line.offset_ns - near.realtime_ahead_ns - ahead_of_day, bound(&line, &reading))
        };
        for ahead in [0, TAI_AHEAD] {
            let (off, (bound, source)) = synchronised(ahead);
            assert!(off.unsigned_abs() <= MS, "{off}: the ways differ by 6 ms, and it is seen");
            assert!(bound < 2 * MS && source == ClockSource::Kernel, "{bound}");
        }
        // A reflector that is sure, and a second off, is not believed.
        assert_eq!(synchronised(1_000_000_000).1.1, ClockSource::Echoes);
    }
}
