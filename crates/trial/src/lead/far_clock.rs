//! Clocks of the far hosts over a race: each is compared with this host's before and after each trial by echoes over
//! control, and steered between blocks, so that all contenders of a block share one line for each far host and the offset
//! cancels between them. Far nodes on several hosts each run on this host's time by the line of their own; the record has
//! the clock with the greatest bound, which holds for all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deadheat_base::clocks::{ClockMap, ClockStep, HostClock};

use super::both_reports::BothReports;
use super::cast::Cast;
use super::clock_reading::{ClockReading, bound, contradiction, within_kernels};
use super::far::Far;
use super::foreign_clock::ForeignClock;
use super::link::{Link, LinkMessage};
use super::nodes::refusal;
use crate::control::{FromServer, ToAgent};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::measurements::clock::{ClockLine, ClockTrack, Echo};
use deadheat_contract::measurements::{ClockEstimate, ClockNeed};
use deadheat_contract::workload::Task;
use deadheat_records::trial::Record;

/// Number of echoes of a comparison.
const ECHOES: usize = 10;
/// Largest number of rounds of a comparison.
const ROUNDS: u32 = 4;
/// Delay by which an echo may be slower than the fastest of the race for no reason that lasts.
const JITTER: Nanos = Nanos::from_micros(20);
/// Longest pause between two echoes: on a long path several are on their way at once.
const PAUSE: Nanos = Nanos::from_millis(1);
/// Longest wait for the answers.
const PATIENCE: Nanos = Nanos::from_secs(10);
/// Time between two looks at the stop flag.
const LOOK: Nanos = Nanos::from_millis(100);
/// Clocks of the far hosts over a race.
#[derive(Debug, Default)]
pub(super) struct FarClocks {
    /// Clocks of hosts with a server of ours, in their order.
    hosts: Vec<FarClock>,
    /// Clock of a far end of others, by the work's own messages.
    foreign: ForeignClock,
}

/// Comparison with the clock of one far host.
#[derive(Debug)]
pub(super) struct HostReading {
    /// Position of the host.
    host: usize,
    reading: ClockReading,
}

impl FarClocks {
    /// Compares the clocks of all far hosts of a trial with this host's before it, and sets the maps between them in its
    /// plans; nothing is compared if there is one clock, or if the far kernel answers.
    ///
    /// # Errors
    /// Fails if a server does not answer; [`Error::Peer`] if it cannot and the work needs it.
    pub(super) fn before(
        &mut self,
        far: &Far,
        cast: &mut Cast,
        stop: &Arc<AtomicBool>,
    ) -> Result<Vec<HostReading>> {
        self.hosts.resize_with(far.hosts().len(), FarClock::default);
        let mut readings = Vec::new();
        let mut maps = vec![None; far.hosts().len()];
        for (host, clock) in self.hosts.iter_mut().enumerate() {
            let Some(mut link) = link(far, host, cast, stop)? else { continue };
            let reading = clock.compare(&mut link, stop)?;
            maps[host] = clock.steer(cast.work.order.seed, &reading);
            readings.push(HostReading { host, reading });
        }
        cast.loads.iter_mut().chain([&mut cast.work]).for_each(|one| one.clocks.clone_from(&maps));
        Ok(readings)
    }

    /// Compares the clocks again after a trial that began with the readings `before`, and notes in its record how they
    /// were.
    ///
    /// # Errors
    /// Fails if a server does not answer and the work needs its clock.
    pub(super) fn after(
        &mut self,
        before: Vec<HostReading>,
        (far, cast, stop): (&Far, &Cast, &Arc<AtomicBool>),
        record: &mut Record,
    ) -> Result<()> {
        if let Some(seen) = self.foreign.take() {
            record.clock = Some(seen);
            return Ok(());
        }
        let need = cast.work.clock_need();
        let count = before.len();
        let mut found = Vec::with_capacity(count);
        for HostReading { host, reading } in before {
            let (Some(mut link), Some(clock)) =
                (link(far, host, cast, stop)?, self.hosts.get_mut(host))
            else {
                continue;
            };
            let after = match clock.compare(&mut link, stop) {
                // The trial is whole, and what it is about needs no clock.
                Err(_) if need == ClockNeed::None => continue,
                after => after?,
            };
            let name = match (count, far.hosts().get(host)) {
                (2.., Some(one)) => format!("the far host {}", one.server.address.ip()),
                _ => "the far host".to_owned(),
            };
            if clock.conclude([&reading, &after], &name, ClockNeed::Offset).1.is_some() {
                forget(ClockNeed::Relative, &*cast.work.task, record);
            }
            found.push(clock.conclude([&reading, &after], &name, need));
        }
        let hosts = far.hosts().len();
        let at_work = (0..hosts).filter(|host| cast.work.is_at(*host, hosts)).count();
        let clocks = hosts.min(at_work.max(1));
        if found.len() < clocks || far.others().is_some() {
            forget(ClockNeed::Offset, &*cast.work.task, record);
        }
        let (clock, why) = worst(found);
        record.on_clock(clock, why);
        Ok(())
    }

    /// Notes what the messages of a trial with a far end of others say of its clock, and the offset in its reports.
    pub(super) fn observe(&mut self, far: &Far, cast: &Cast, reports: BothReports) -> BothReports {
        match far.others() {
            Some(_) => self.foreign.observe(cast.work.order.seed, reports),
            None => reports,
        }
    }
}

/// Returns the estimate with the greatest bound, of the estimates of several hosts, and the first reason why the trial is
/// invalid.
fn worst(
    found: Vec<(Option<ClockEstimate>, Option<String>)>,
) -> (Option<ClockEstimate>, Option<String>) {
    let (clocks, reasons): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    let clocks: Vec<ClockEstimate> = clocks.into_iter().flatten().collect();
    let hosts = Some(clocks.len() as u64).filter(|hosts| *hosts > 1);
    let stepped = clocks.iter().any(|clock| clock.stepped);
    let greatest = clocks.into_iter().max_by_key(|clock| clock.error_bound_ns);
    let greatest = greatest.map(|clock| ClockEstimate { hosts, stepped, ..clock });
    (greatest, reasons.into_iter().flatten().next())
}

/// Clock of one far host over a race.
#[derive(Debug, Default)]
pub(super) struct FarClock {
    track: ClockTrack,
    /// Line for the trials of the running block.
    line: Option<ClockLine>,
    /// Seed of the running block.
    block: Option<u64>,
    /// Round trip of the fastest echo of the race, in nanoseconds.
    least_round_trip: Option<u64>,
}

impl FarClock {
    /// Compares the clocks by echoes over a link to the server, which runs no trial of this race now. While the echoes are
    /// much slower than the fastest so far, because a CPU or the path is busy, a few more rounds follow.
    ///
    /// # Errors
    /// Fails if the server does not answer.
    pub(super) fn compare(&mut self, link: &mut Link, stop: &AtomicBool) -> Result<ClockReading> {
        let (mut echoes, mut far) = (Vec::with_capacity(ECHOES), HostClock::default());
        for _ in 0..ROUNDS {
            far = exchange(link, stop, &mut echoes)?;
            let fastest = echoes.iter().map(Echo::round_trip).min().unwrap_or(u64::MAX);
            let least = self.least_round_trip.get_or_insert(fastest);
            *least = fastest.min(*least);
            if fastest <= *least + *least / 2 + JITTER.0 {
                break;
            }
        }
        echoes.iter().for_each(|echo| self.track.note(echo));
        Ok(ClockReading { echoes, near: HostClock::read(), far })
    }

    /// Returns the map from the far clock to the near one for the next trial. It changes only with the seed, which is the
    /// same for all trials of a block.
    pub(super) fn steer(&mut self, seed: u64, now: &ClockReading) -> Option<ClockMap> {
        if self.line.is_none() || self.block != Some(seed) {
            self.block = Some(seed);
            self.line = self.track.line().map(|line| within_kernels(line, now));
        }
        self.line.map(|line| line.to_near())
    }

    /// Returns the clock of the host `far` in a trial, by the comparisons before and after it, and the reason why the trial
    /// is invalid if its work needs the clocks and one of them was not steady.
    pub(super) fn conclude(
        &self,
        [before, after]: [&ClockReading; 2],
        far: &str,
        need: ClockNeed,
    ) -> (Option<ClockEstimate>, Option<String>) {
        let (Some(line), Some(first), Some(last)) = (self.line, before.fastest(), after.fastest())
        else {
            return (None, None);
        };
        let changed = [("this host", after.near, before.near), (far, after.far, before.far)]
            .into_iter()
            .find_map(|(host, now, then)| Some((host, now.changed_since(&then)?)));
        // A line and a steady clock differ most at an end of a trial.
        let bounds = [before, after].map(|reading| bound(&line, reading));
        let (error_bound_ns, source) =
            bounds.into_iter().max_by_key(|bound| bound.0).unwrap_or_default();
        let middle = Nanos(first.near_sent / 2 + last.near_received / 2);
        let estimate = ClockEstimate {
            offset_ns: line.offset_at(middle),
            error_bound_ns,
            drift_ppm: line.known_drift(),
            n: (before.echoes.len() + after.echoes.len()) as u64,
            round_trip_ns: Some(first.round_trip().min(last.round_trip())),
            source,
            stepped: changed.is_some(),
            hosts: None,
        };
        let why = match changed {
            Some((host, ClockStep::Suspended(span))) => {
                Some(format!("{host} was suspended for {span} during the trial"))
            }
            Some((host, ClockStep::Set(step))) if need != ClockNeed::None => {
                let by = Nanos(step.unsigned_abs());
                Some(format!("the clock of {host} was set by {by} during the trial"))
            }
            _ if need == ClockNeed::None => None,
            _ => contradiction(&line, far, first, last),
        };
        (Some(estimate), why)
    }
}

/// Returns a link for echoes to a far host of a trial; `None` if its clock is not compared.
fn link(far: &Far, host: usize, cast: &Cast, stop: &Arc<AtomicBool>) -> Result<Option<Link>> {
    let has_work = cast.work.is_at(host, far.hosts().len());
    let Some(server) = far.hosts().get(host).filter(|_| has_work).map(|one| &one.server) else {
        return Ok(None);
    };
    let who = format!("server {}", server.address);
    if server.spoken.echoes {
        return Ok(Some(Link::to_server(&who, &server.control, Arc::clone(stop))));
    }
    // Work that is not about times of both ends may describe some that need no common clock.
    match cast.work.task.info().claim().map_or(ClockNeed::None, |claim| claim.clock) {
        ClockNeed::Offset | ClockNeed::Relative => Err(Error::peer(
            &who,
            "this work compares times of both ends, and the server is too old to compare clocks; update \
             deadheat there",
        )),
        ClockNeed::None => Ok(None),
    }
}

/// Removes the figures with this need of the clocks, or a greater one, from the record of a trial whose clocks were not
/// compared, or not steady.
fn forget(need: ClockNeed, task: &dyn Task, record: &mut Record) {
    let metrics = &task.info().metrics;
    let has_need = |name: &str| metrics.iter().any(|one| one.clock >= need && one.name == name);
    record.metrics.retain(|name, _| !has_need(name));
}

/// Sends a round of echoes, adds them with their answers to `echoes`, and returns the state of the far clocks.
fn exchange(link: &mut Link, stop: &AtomicBool, echoes: &mut Vec<Echo>) -> Result<HostClock> {
    let deadline = Monotonic.now() + PATIENCE;
    let (mut far, mut sent, mut answered) = (HostClock::default(), 0, 0);
    while answered < ECHOES {
        if sent < ECHOES {
            link.send(&ToAgent::Echo { sent_ns: Monotonic.now() })?;
            sent += 1;
        }
        let left = deadline - Monotonic.now();
        if left == Nanos::ZERO {
            return Err(link.broken("it did not answer echoes in time"));
        }
        if stop.load(Ordering::Acquire) {
            return Err(Error::Interrupted);
        }
        if !link.has_message(left.min(if sent < ECHOES { PAUSE } else { LOOK }))? {
            continue;
        }
        let received = Monotonic.now();
        match link.receive()? {
            LinkMessage::Server(FromServer::Echoed(answer)) => {
                far = answer.host;
                echoes.push(answer.received_at(received));
                answered += 1;
            }
            word => return Err(refusal(link, word)),
        }
    }
    Ok(far)
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::measurements::ClockSource;
    use deadheat_contract::workload;

    const MS: u64 = 1_000_000;

    /// Comparison at `at`, of a far clock that is `ahead`, on a path of `up` and `down`.
    fn reading(at: u64, ahead: u64, [up, down]: [u64; 2]) -> ClockReading {
        let echo = |number: u64| {
            let near_sent = at + number * MS;
            let far_received = near_sent + up + ahead;
            let near_received = near_sent + up + 1_000 + down;
            Echo { near_sent, far_received, far_sent: far_received + 1_000, near_received }
        };
        let host = HostClock::default();
        ClockReading { echoes: (0..10).map(echo).collect(), near: host, far: host }
    }

    fn steered(reading: &ClockReading) -> FarClock {
        let mut clock = FarClock::default();
        reading.echoes.iter().for_each(|echo| clock.track.note(echo));
        clock.steer(1, reading);
        clock
    }

    #[test]
    fn all_trials_of_a_block_are_on_one_line() {
        let first = reading(MS, 0, [2 * MS, MS]);
        let mut clock = steered(&first);
        let map = clock.steer(1, &first);
        let later = reading(1_000 * MS, 900_000, [MS, MS]);
        later.echoes.iter().for_each(|echo| clock.track.note(echo));
        assert_eq!(clock.steer(1, &later), map);
        assert_ne!(clock.steer(2, &later), map);
    }

    #[test]
    fn a_clock_that_is_set_invalidates_work_that_compares_times_and_a_suspended_host_any() {
        let (before, mut after) = (reading(MS, 0, [MS; 2]), reading(900 * MS, 0, [MS; 2]));
        let clock = steered(&before);
        let far = "the far host";
        let conclude = |after: &ClockReading, need| clock.conclude([&before, after], far, need);
        let (estimate, why) = conclude(&after, ClockNeed::Offset);
        assert_eq!(why, None);
        let estimate = estimate.unwrap();
        assert_eq!((estimate.error_bound_ns, estimate.round_trip_ns), (MS, Some(2 * MS)));
        assert!(!estimate.stepped);
        after.far.realtime_ahead_ns -= 2_000 * MS as i64;
        let (estimate, why) = conclude(&after, ClockNeed::Offset);
        assert_eq!(
            why.as_deref(),
            Some("the clock of the far host was set by 2.00 s during the trial")
        );
        assert!(estimate.unwrap().stepped);
        assert_eq!(conclude(&after, ClockNeed::None).1, None);
        after.near.suspended_ns += 3_000 * MS;
        let why = conclude(&after, ClockNeed::None).1.unwrap();
        assert_eq!(why, "this host was suspended for 3.00 s during the trial");
    }

    #[test]
    fn without_a_comparison_no_figure_of_two_clocks_stays() {
        let task = workload::parse("cbr:rate=1mbit,direction=both").unwrap();
        let names = ["goodput_bps", "pdv_p50_ns", "one_way_p50_ns", "one_way_down_p50_ns"];
        let metrics = names.iter().map(|name| ((*name).to_owned(), 1.0)).collect();
        let mut record = Record { metrics, ..Record::default() };
        for (need, left) in [
            (ClockNeed::Offset, &["goodput_bps", "pdv_p50_ns"][..]),
            (ClockNeed::Relative, &["goodput_bps"]),
        ] {
            forget(need, &*task, &mut record);
            assert_eq!(record.metrics.keys().collect::<Vec<_>>(), left);
        }
    }

    #[test]
    fn clocks_that_jump_apart_are_named_and_clocks_that_are_slewed_are_bounded() {
        let before = reading(MS, 0, [MS; 2]);
        let clock = steered(&before);
        let slewed = reading(1_001 * MS, 500_000, [MS; 2]);
        let conclude = |after| clock.conclude([&before, after], "the far host", ClockNeed::Offset);
        let (estimate, why) = conclude(&slewed);
        assert_eq!((why, estimate.unwrap().error_bound_ns), (None, MS + 500_000));
        let jumped = reading(1_001 * MS, 5 * MS, [MS; 2]);
        let (_, why) = conclude(&jumped);
        assert!(why.as_ref().is_some_and(|why| why.contains("moved apart by 5.00 ms")), "{why:?}");
    }

    #[test]
    fn the_kernels_bound_counts_where_it_is_tighter_and_true() {
        let mut now = reading(MS, 0, [20 * MS, 5 * MS]);
        for (near, far, source) in [
            (Some(100_000), Some(200_000), ClockSource::Kernel),
            (Some(100_000), None, ClockSource::Echoes),
            (Some(30 * MS), Some(30 * MS), ClockSource::Echoes),
        ] {
            (now.near.kernel_error_ns, now.far.kernel_error_ns) = (near, far);
            let clock = steered(&now);
            let (estimate, _) = clock.conclude([&now, &now], "the far host", ClockNeed::Offset);
            let ClockEstimate { offset_ns, error_bound_ns, source: by, .. } = estimate.unwrap();
            assert_eq!(by, source);
            assert!(offset_ns.unsigned_abs() <= error_bound_ns, "{offset_ns}");
            assert_eq!(source == ClockSource::Kernel, error_bound_ns < MS, "{error_bound_ns}");
        }
        // A daemon that is sure, and wrong by a second.
        (now.near.kernel_error_ns, now.far.kernel_error_ns) = (Some(1_000), Some(1_000));
        now.far.realtime_ahead_ns = 1_000 * MS as i64;
        let (estimate, _) = steered(&now).conclude([&now, &now], "the far host", ClockNeed::Offset);
        assert_eq!(estimate.unwrap().source, ClockSource::Echoes);
    }

    /// A near clock against three far ones on paths of different lengths.
    #[test]
    fn of_several_far_hosts_the_greatest_bound_counts_and_each_is_named() {
        let of = |far: &str, ways: [u64; 2], set: i64| {
            let before = reading(MS, 0, ways);
            let mut after = reading(900 * MS, 0, ways);
            after.far.realtime_ahead_ns -= set;
            steered(&before).conclude([&before, &after], far, ClockNeed::Offset)
        };
        let steady = |ways| of("the far host", ways, 0);
        let (clock, why) = worst(vec![steady([MS; 2]), steady([9 * MS, 7 * MS]), steady([MS; 2])]);
        let clock = clock.unwrap();
        assert_eq!((clock.error_bound_ns, clock.hosts, why), (8 * MS, Some(3), None));
        assert!(!clock.stepped);
        let set = of("the far host 192.0.2.7", [MS; 2], 2_000 * MS as i64);
        let (clock, why) = worst(vec![steady([3 * MS; 2]), set]);
        assert_eq!(
            why.as_deref(),
            Some("the clock of the far host 192.0.2.7 was set by 2.00 s during the trial")
        );
        assert!(clock.is_some_and(|clock| clock.stepped && clock.error_bound_ns == 3 * MS));
        let (clock, _) = worst(vec![steady([MS; 2])]);
        assert_eq!(clock.unwrap().hosts, None);
        assert_eq!(worst(Vec::new()), (None, None));
    }
}
