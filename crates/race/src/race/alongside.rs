//! Races that run side by side, each on a network of its own: which may, and how many. What others need would change
//! a race whose limit is a CPU; one whose limit is the rate of its path leaves the CPUs idle, and its path's gate sees
//! in each trial whether packets were on time.

use super::request::{CheckedRequest, Request};
use deadheat_base::units::BitRate;
use deadheat_path::PathKind;
use deadheat_path::network::{Network, ReleaseWait};
use deadheat_records::placement::Placement;

/// Sum of the rates of networks side by side for each CPU of the host. A cautious limit, not a measured one: whether
/// packets were on time is for the gate of each path to say.
pub const MOST_PER_CPU: BitRate = BitRate(100_000_000);

impl Request {
    /// Returns the greatest rate of the network of a race that may run beside others.
    ///
    /// # Errors
    /// A sentence with what would disturb others or be disturbed, and with a remedy.
    pub fn rate_beside_others(&self, checked: &CheckedRequest) -> Result<BitRate, String> {
        let network = match (PathKind::of_typed(&self.asked.path), &checked.network) {
            (PathKind::Emulated, Some(network)) => network,
            (PathKind::Simulated, _) => {
                return Err("its virtual time goes on as fast as a CPU does; run it alone".into());
            }
            _ => {
                return Err(
                    "its limit is a CPU, as it is not on an emulated path; run it alone".into()
                );
            }
        };
        if network.wait != ReleaseWait::Sleep {
            return Err(format!(
                "the threads of its path poll (wait={}); write wait=sleep in the path, or run it alone",
                network.wait.name()
            ));
        }
        if checked.placement != Some(Placement::Host) {
            return Err(
                "its ends are held on CPUs that others need, too; write placement = \"host\", or \
                        run it alone"
                    .into(),
            );
        }
        bottleneck(network).ok_or_else(|| {
            "its path has no rate, so its limit is a CPU; give the path a rate, or run it alone"
                .into()
        })
    }
}

/// Returns the least rate of a network's links: the bottleneck, which all of its load passes.
fn bottleneck(network: &Network) -> Option<BitRate> {
    let ways = network.links.iter().flat_map(|link| [&link.up, &link.down]);
    ways.filter_map(|way| way.rate.highest()).min_by_key(|rate| rate.0)
}

/// Returns the most races with such rates that run side by side on so many CPUs, at least one: the fastest of them
/// may all be at once.
pub fn most_beside(rates: &[BitRate], cpus: usize) -> usize {
    let mut rates: Vec<u64> = rates.iter().map(|rate| rate.0).collect();
    rates.sort_unstable_by(|a, b| b.cmp(a));
    let room = MOST_PER_CPU.0.saturating_mul(cpus as u64);
    let mut sum = 0_u64;
    let fits = |rate: &&u64| {
        sum = sum.saturating_add(**rate);
        sum <= room
    };
    rates.iter().take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, placement: &str) -> Result<BitRate, String> {
        let request = Request::new(["tcp"]).workload("bulk:time=2s").path(path);
        let is_chosen = placement.is_empty();
        let request = if is_chosen { request } else { request.placement(placement) };
        request.rate_beside_others(&request.check().unwrap())
    }

    #[test]
    fn races_that_a_cpu_limits_are_refused_by_what_they_are() {
        for (path, placement, wanted) in [
            ("loopback", "host", "its limit is a CPU"),
            ("delay=5ms,wait=sleep", "host", "no rate"),
            ("rate=10mbit,delay=5ms", "host", "wait=hybrid"),
            ("rate=10mbit,wait=sleep", "", "placement"),
            ("rate=10mbit,wait=sleep", "busy", "placement"),
        ] {
            let said = of(path, placement).unwrap_err();
            assert!(said.contains(wanted), "{path}: {said}");
        }
        assert_eq!(
            of("up.rate=10mbit,down.delay=40ms,wait=sleep", "host"),
            Ok(BitRate(10_000_000))
        );
    }

    #[test]
    fn as_many_run_side_by_side_as_the_fastest_leave_room_for() {
        let mbit = |rates: &[u64]| -> Vec<BitRate> {
            rates.iter().map(|rate| BitRate(rate * 1_000_000)).collect()
        };
        assert_eq!(most_beside(&mbit(&[10; 30]), 2), 20);
        assert_eq!(most_beside(&mbit(&[10, 50, 10, 50, 50, 50]), 2), 4);
        assert_eq!(most_beside(&mbit(&[1_000]), 1), 1);
        assert_eq!(most_beside(&[], 4), 1);
    }
}
