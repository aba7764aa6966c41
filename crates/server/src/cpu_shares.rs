//! CPUs of trials that run at once: each has CPUs of its own where there are enough, so that one trial is not measured
//! by the threads of another.

use std::collections::BTreeMap;

use deadheat_base::error::{Error, Result};
use deadheat_host::placement::listed;
use deadheat_host::topology::Topology;

/// CPUs of each place among the trials that run at once.
#[derive(Debug)]
pub(super) struct CpuShares {
    trials: u32,
    /// CPUs of each place; empty if trials share all CPUs.
    shares: Vec<Vec<usize>>,
    /// True if trials share a core, as its hardware threads.
    share_cores: bool,
}

impl CpuShares {
    /// Divides the CPUs of this host among `trials` places: whole cores if there are enough, otherwise hardware
    /// threads; none if there are fewer than places, or only one place, whose trial is placed by the host.
    pub(super) fn of(topology: &Topology, trials: u32) -> CpuShares {
        let whole = |shares, share_cores| CpuShares { trials, shares, share_cores };
        let places = trials as usize;
        if places < 2 {
            return whole(Vec::new(), false);
        }
        let mut cores: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        // The best cores first, so that every place has a good one.
        let quiet = topology.by_quiet();
        let mut order = Vec::new();
        for cpu in &quiet {
            let of_core = cores.entry(cpu.core).or_default();
            if of_core.is_empty() {
                order.push(cpu.core);
            }
            of_core.push(cpu.id);
        }
        let units: Vec<Vec<usize>> = if order.len() >= places {
            order.iter().filter_map(|core| cores.remove(core)).collect()
        } else {
            quiet.iter().map(|cpu| vec![cpu.id]).collect()
        };
        if units.len() < places {
            return whole(Vec::new(), false);
        }
        let mut shares = vec![Vec::new(); places];
        for (at, unit) in units.into_iter().enumerate() {
            shares[at % places].extend(unit);
        }
        shares.iter_mut().for_each(|share| share.sort_unstable());
        whole(shares, order.len() < places)
    }

    /// Returns the CPUs of a place; `None` if its trial may run on all CPUs.
    pub(super) fn of_place(&self, place: u32) -> Option<&[usize]> {
        self.shares.get(place as usize).map(Vec::as_slice)
    }

    /// Refuses a CPU that a client chose, if the server chooses.
    ///
    /// # Errors
    /// [`Error::Usage`] with a placement that works.
    pub(super) fn check(&self, asked: Option<usize>) -> Result<()> {
        match asked.filter(|_| !self.shares.is_empty()) {
            None => Ok(()),
            Some(cpu) => Err(Error::usage(format!(
                "CPU {cpu} was asked for at the far end, and this server runs {} trials at once and chooses the CPUs \
                 of each; leave the far CPU to it (--placement cross-core)",
                self.trials
            ))),
        }
    }

    /// Returns the division in words for the log; `None` if trials run one at a time.
    pub(super) fn words(&self) -> Option<String> {
        let trials = self.trials;
        if trials < 2 {
            return None;
        }
        if self.shares.is_empty() {
            return Some(format!(
                "{trials} trials at once share this host's CPUs, which are fewer: they measure each other; lower \
                 --trials"
            ));
        }
        let each: Vec<String> = self.shares.iter().map(|share| listed(share)).collect();
        let cores = if self.share_cores {
            "; some are hardware threads of one core, and slow each other down"
        } else {
            ""
        };
        Some(format!(
            "each of {trials} trials at once has CPUs of its own: {}{cores}",
            each.join(" | ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_host::topology::Cpu;

    fn host(cores: &[usize]) -> Topology {
        let cpu = |(id, core): (usize, &usize)| Cpu {
            id,
            core: *core,
            package: 0,
            capacity: 1024,
            interrupts: id as u64,
        };
        Topology { cpus: cores.iter().enumerate().map(cpu).collect() }
    }

    #[test]
    fn each_place_has_cores_of_its_own_where_there_are_enough() {
        let shares = CpuShares::of(&host(&[0, 0, 2, 2, 4, 4]), 3);
        let all: Vec<&[usize]> = (0..3).map(|place| shares.of_place(place).unwrap()).collect();
        assert_eq!(all, [[0, 1], [2, 3], [4, 5]]);
        assert!(shares.words().unwrap().ends_with("CPUs of its own: 0, 1 | 2, 3 | 4, 5"));
        assert!(shares.check(Some(4)).unwrap_err().to_string().contains("--placement cross-core"));
        shares.check(None).unwrap();
        let more = CpuShares::of(&host(&[0, 1, 2]), 2);
        assert_eq!([more.of_place(0), more.of_place(1)], [Some(&[0, 2][..]), Some(&[1][..])]);
    }

    #[test]
    fn threads_of_a_core_are_shared_out_and_fewer_cpus_than_trials_are_shared_by_all() {
        let threads = CpuShares::of(&host(&[0, 0]), 2);
        assert_eq!([threads.of_place(0), threads.of_place(1)], [Some(&[0][..]), Some(&[1][..])]);
        assert!(threads.words().unwrap().contains("hardware threads of one core"));
        let few = CpuShares::of(&host(&[0, 1]), 4);
        assert_eq!(few.of_place(0), None);
        assert!(few.words().unwrap().contains("4 trials at once share this host's CPUs"));
        few.check(Some(1)).unwrap();
    }

    #[test]
    fn a_single_trial_is_placed_by_the_host() {
        let one = CpuShares::of(&host(&[0, 1]), 1);
        assert_eq!((one.of_place(0), one.words()), (None, None));
        one.check(Some(1)).unwrap();
    }
}
