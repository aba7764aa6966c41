//! Throttling of a program by a CPU quota: number of times, and total time.

use serde::{Deserialize, Serialize};

use deadheat_base::time::Nanos;

/// Throttling of a control group by a quota of CPU time (cpu.max, cpu.cfs_quota_us).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Throttled {
    /// Number of periods in which its quota was used up (`nr_throttled`).
    pub times: u64,
    /// Total time of its throttled CPUs (`throttled_usec`). The kernel adds a stop when it ends, so the last one may be
    /// missing.
    pub held_ns: u64,
}

impl Throttled {
    /// Returns the sums of both.
    pub fn plus(self, other: Throttled) -> Throttled {
        Throttled {
            times: self.times.saturating_add(other.times),
            held_ns: self.held_ns.saturating_add(other.held_ns),
        }
    }
}

impl std::fmt::Display for Throttled {
    /// Writes `12 times, 340 ms in all`, or only the first half if the kernel counted no time yet.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let times =
            if self.times == 1 { "once".to_owned() } else { format!("{} times", self.times) };
        match self.held_ns {
            0 => f.write_str(&times),
            held_ns => write!(f, "{times}, {} in all", Nanos(held_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_as_a_sentence_and_adds_up() {
        let once = Throttled { times: 1, held_ns: 40_000_000 };
        assert_eq!(once.to_string(), "once, 40.0 ms in all");
        assert_eq!(once.plus(once).to_string(), "2 times, 80.0 ms in all");
        assert_eq!(Throttled { times: 1, held_ns: 0 }.to_string(), "once");
        let most = Throttled { times: u64::MAX, held_ns: u64::MAX };
        assert_eq!(most.plus(once), most);
    }
}
