//! Races that run side by side, each on a network of its own: which may, and how many. One whose limit is a CPU runs alone,
//! as what others need would change it. One whose limit is the rate of its path leaves the CPUs idle, and its path's gate
//! sees in each trial whether packets were on time.

use std::sync::{Condvar, Mutex, PoisonError};

use super::request::{CheckedRequest, Request};
use deadheat_base::units::BitRate;
use deadheat_path::PathKind;
use deadheat_path::network::{Network, ReleaseWait};
use deadheat_records::placement::Placement;

/// Sum of the rates of networks side by side for each CPU of the host. A cautious limit, not a measured one: whether
/// packets were on time is for the gate of each path to say.
const MOST_PER_CPU: BitRate = BitRate(100_000_000);

impl Request {
    /// Returns the greatest rate of the race's network, if the race may run beside others. `None` where it runs alone: its
    /// limit is a CPU, its path's threads poll, its ends are held on CPUs that others need, or its time is virtual and
    /// goes on as fast as a CPU does.
    pub fn rate_beside_others(&self, checked: &CheckedRequest) -> Option<BitRate> {
        let is_emulated = PathKind::of_typed(&self.asked.path) == PathKind::Emulated;
        let network = checked.network.as_ref().filter(|_| is_emulated)?;
        let sleeps = network.wait == ReleaseWait::Sleep;
        let is_placed_by_host = checked.placement == Some(Placement::Host);
        bottleneck(network).filter(|_| sleeps && is_placed_by_host)
    }
}

/// Returns the least rate of a network's links: the bottleneck, which all of its load passes.
fn bottleneck(network: &Network) -> Option<BitRate> {
    let ways = network.links.iter().flat_map(|link| [&link.up, &link.down]);
    ways.filter_map(|way| way.rate.highest()).min_by_key(|rate| rate.0)
}

/// Queue of jobs that run side by side: each waits until so few others run, and at such rates, that it changes nothing.
#[derive(Debug)]
pub struct SideBySide<T> {
    jobs: Mutex<Jobs<T>>,
    ended: Condvar,
}

#[derive(Debug)]
struct Jobs<T> {
    /// Jobs that have not begun, each with its rate; `None` if it runs alone.
    waiting: Vec<(Option<BitRate>, T)>,
    /// Number of jobs that run, and the sum of their rates.
    running: usize,
    rates: u64,
    most: usize,
    room: u64,
}

impl<T> SideBySide<T> {
    /// Creates the queue of `jobs`, each with its rate or `None` if it runs alone, of which `most` may run at once on a
    /// host with `cpus` CPUs.
    pub fn new(jobs: Vec<(Option<BitRate>, T)>, most: usize, cpus: usize) -> SideBySide<T> {
        let room = MOST_PER_CPU.0.saturating_mul(cpus as u64);
        let jobs = Jobs { waiting: jobs, running: 0, rates: 0, most, room };
        SideBySide { jobs: Mutex::new(jobs), ended: Condvar::new() }
    }

    /// Runs the first job that may begin, as soon as one may; returns false once none is left.
    pub fn run_next(&self, run: impl FnOnce(T)) -> bool {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let (taken, job) = loop {
            if let Some(job) = jobs.begin() {
                break job;
            }
            if jobs.waiting.is_empty() {
                return false;
            }
            jobs = self.ended.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        };
        drop(jobs);
        run(job);
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).end(taken);
        self.ended.notify_all();
        true
    }
}

impl<T> Jobs<T> {
    /// Takes the first job that may begin now, and the room that it needs; `None` if it has to wait, or none is left.
    fn begin(&mut self) -> Option<(u64, T)> {
        let left = self.room.saturating_sub(self.rates);
        let may = |rate: Option<BitRate>| {
            self.running == 0
                || (self.running < self.most && rate.is_some_and(|rate| rate.0 <= left))
        };
        let at = self.waiting.iter().position(|(rate, _)| may(*rate))?;
        let (rate, job) = self.waiting.remove(at);
        let taken = rate.map_or(self.room, |rate| rate.0);
        self.running += 1;
        self.rates = self.rates.saturating_add(taken);
        Some((taken, job))
    }

    fn end(&mut self, taken: u64) {
        self.running -= 1;
        self.rates = self.rates.saturating_sub(taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, placement: &str) -> Option<BitRate> {
        let request = Request::new(["tcp"]).workload("bulk:time=2s").path(path);
        let is_chosen = placement.is_empty();
        let request = if is_chosen { request } else { request.placement(placement) };
        request.rate_beside_others(&request.check().unwrap())
    }

    #[test]
    fn races_that_a_cpu_limits_run_alone() {
        for (path, placement) in [
            ("loopback", "host"),
            ("delay=5ms,wait=sleep", "host"),
            ("rate=10mbit,delay=5ms", "host"),
            ("rate=10mbit,wait=sleep", ""),
            ("rate=10mbit,wait=sleep", "busy"),
        ] {
            assert_eq!(of(path, placement), None, "{path}");
        }
        let slow_up = of("up.rate=10mbit,down.delay=40ms,wait=sleep", "host");
        assert_eq!(slow_up, Some(BitRate(10_000_000)));
    }

    fn queue(rates: &[Option<u64>], most: usize) -> Jobs<usize> {
        let of = |rate: &Option<u64>| rate.map(|mbit| BitRate(mbit * 1_000_000));
        let waiting = rates.iter().map(of).zip(0..).collect();
        SideBySide::new(waiting, most, 2).jobs.into_inner().unwrap()
    }

    /// Begins all jobs that may begin now.
    fn begun(jobs: &mut Jobs<usize>) -> Vec<(u64, usize)> {
        std::iter::from_fn(|| jobs.begin()).collect()
    }

    #[test]
    fn as_many_run_side_by_side_as_their_rates_leave_room_for() {
        let names = |begun: &[(u64, usize)]| -> Vec<usize> {
            begun.iter().map(|(_, name)| *name).collect()
        };
        assert_eq!(names(&begun(&mut queue(&[Some(10); 30], 30))).len(), 20);
        assert_eq!(names(&begun(&mut queue(&[Some(10); 30], 3))), [0, 1, 2]);
        // What is too fast for two CPUs, and what has no rate, run alone.
        assert_eq!(names(&begun(&mut queue(&[Some(1_000), Some(10)], 4))), [0]);
        assert_eq!(names(&begun(&mut queue(&[None, Some(10)], 4))), [0]);
        // The job at 100 Mbit/s waits, and the job at 50 begins before it; the first begins once the job at 150 has ended.
        let mut jobs = queue(&[Some(150), Some(100), Some(50), None], 4);
        let first = begun(&mut jobs);
        assert_eq!(names(&first), [0, 2]);
        jobs.end(first[1].0);
        assert_eq!(begun(&mut jobs), []);
        jobs.end(first[0].0);
        let second = begun(&mut jobs);
        assert_eq!(names(&second), [1]);
        jobs.end(second[0].0);
        let last = begun(&mut jobs);
        assert_eq!(names(&last), [3]);
        jobs.end(last[0].0);
        assert!(begun(&mut jobs).is_empty() && jobs.waiting.is_empty());
    }
}
