//! Wait for a host to settle before the first block.

use deadheat_base::time::Nanos;
use deadheat_records::quiet::{CALM_SHARE, Disturbance, Disturber, SettlingOutcome};

/// Longest wait for a host to settle.
pub const LONGEST_SETTLING: Nanos = Nanos::from_secs(10);

/// Largest ratio between the medians of two echoes in a row on a calm host. Forty echoes on a calm host give medians
/// within a few percent; a compiler beside them changes them by half and more.
const CALM_RATIO: f64 = 1.2;

/// Shares of CPU time of others.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Shares {
    /// Share of other programs.
    pub busy: f64,
    /// Share of the hypervisor.
    pub steal: f64,
}

/// Host that is watched while it settles.
pub trait SettlingHost {
    /// Returns the time.
    fn now(&self) -> Nanos;
    /// Returns the median of a short run of echoes, in nanoseconds; `None` if none was answered.
    fn echo(&mut self) -> Option<u64>;
    /// Sleeps for a moment, and returns the shares of CPU time that others used.
    fn sit_still(&mut self) -> Shares;
    /// Returns true if the wait is to be given up.
    fn stopped(&self) -> bool;
}

/// Waits until `host` is calm, at most [`LONGEST_SETTLING`]. `on_wait` gets the cause of the wait.
pub fn settle(
    host: &mut impl SettlingHost,
    on_wait: &mut dyn FnMut(&Disturbance),
) -> SettlingOutcome {
    let began = host.now();
    let mut last = host.echo();
    loop {
        let shares = host.sit_still();
        let echo = host.echo();
        let disturbed = disturbance(shares, last, echo);
        last = echo.or(last);
        let waited = host.now() - began;
        match disturbed {
            Some(disturbed) if waited < LONGEST_SETTLING && !host.stopped() => on_wait(&disturbed),
            disturbed => return SettlingOutcome { waited, disturbed },
        }
    }
}

fn disturbance(shares: Shares, last: Option<u64>, echo: Option<u64>) -> Option<Disturbance> {
    let Shares { busy, steal } = shares;
    if busy + steal >= CALM_SHARE {
        return Some(if busy >= steal {
            Disturbance { by: Disturber::Programs, share: busy }
        } else {
            Disturbance { by: Disturber::Hypervisor, share: steal }
        });
    }
    let (one, other) = last.zip(echo)?;
    let ratio = one.max(other) as f64 / one.min(other).max(1) as f64;
    let apart = Disturbance { by: Disturber::Echo, share: ratio - 1.0 };
    (ratio > CALM_RATIO).then_some(apart)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Host that plays back given values, a quarter of a second at a time.
    struct PlayedHost {
        now: Nanos,
        shares: Vec<(f64, f64)>,
        echoes: Vec<Option<u64>>,
        stops_at: Nanos,
    }

    impl SettlingHost for PlayedHost {
        fn now(&self) -> Nanos {
            self.now
        }
        fn echo(&mut self) -> Option<u64> {
            self.now += Nanos::from_millis(3);
            if self.echoes.len() > 1 { self.echoes.remove(0) } else { self.echoes[0] }
        }
        fn sit_still(&mut self) -> Shares {
            self.now += Nanos::from_millis(250);
            let all = &mut self.shares;
            let (busy, steal) = if all.len() > 1 { all.remove(0) } else { all[0] };
            Shares { busy, steal }
        }
        fn stopped(&self) -> bool {
            self.now >= self.stops_at
        }
    }

    fn play(
        shares: &[(f64, f64)],
        echoes: &[Option<u64>],
        stops_s: u64,
    ) -> (SettlingOutcome, Vec<String>) {
        let mut host = PlayedHost {
            now: Nanos::ZERO,
            shares: shares.to_vec(),
            echoes: echoes.to_vec(),
            stops_at: Nanos::from_secs(stops_s),
        };
        let mut waits = Vec::new();
        let settled = settle(&mut host, &mut |disturbance| waits.push(disturbance.words()));
        (settled, waits)
    }

    #[test]
    fn a_calm_host_is_not_waited_for() {
        let (settled, waits) = play(&[(0.04, 0.02)], &[Some(50_000), Some(55_000)], 60);
        assert_eq!((settled.disturbed, waits.len()), (None, 0));
        assert!(settled.waited < Nanos::from_millis(600));
        // Nor is one whose echo is not answered.
        assert_eq!(play(&[(0.0, 0.0)], &[None], 60).0.disturbed, None);
    }

    #[test]
    fn a_host_settles_when_others_are_done_and_its_echo_is_steady() {
        let shares = [(0.43, 0.0), (0.02, 0.3), (0.01, 0.0)];
        let echoes = [90_000, 90_000, 85_000, 50_000, 52_000].map(Some);
        let (settled, waits) = play(&shares, &echoes, 60);
        assert_eq!(settled.disturbed, None);
        assert_eq!(
            waits,
            [
                "other programs use 43 % of its CPUs",
                "the hypervisor takes 30 % of its CPU time",
                "two echoes in a row differ by 70 %",
            ]
        );
        assert_eq!(settled.waited, Nanos::from_millis(4 * 253 + 3));
    }

    #[test]
    fn nobody_waits_longer_than_ten_seconds_or_after_being_stopped() {
        let busy = Some(Disturbance { by: Disturber::Programs, share: 1.0 });
        let (settled, waits) = play(&[(1.0, 0.0)], &[Some(90_000)], 60);
        assert_eq!(settled.disturbed, busy);
        assert!(settled.waited < LONGEST_SETTLING + Nanos::from_millis(300));
        assert_eq!(waits.len(), 39);
        let (settled, _) = play(&[(1.0, 0.0)], &[Some(90_000)], 1);
        assert!(settled.waited < Nanos::from_millis(1_300));
    }
}
