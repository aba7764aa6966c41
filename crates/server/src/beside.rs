//! Limits of what responders send beside trials: a trickle for each client and for all of them, of exchanges and of bytes.
//! All of it counts for the operator's allowance.
//!
//! The memory is bounded: it knows a number of clients at most, and of these it forgets the silent ones first. While all
//! of them are talking, a new one gets no answer.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use deadheat_base::origins::origin;

use super::paid::{ByteAccount, Ways};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_base::units::BitRate;
use deadheat_datapath::datapath::policer::time_at;

/// Largest number of clients that are remembered.
const MOST_CLIENTS: usize = 4_096;

/// Rates of one client, and of all: exchanges a second, and bytes of IP packets in each direction.
const OF_ONE: TrickleRate =
    TrickleRate { exchanges: 2_000, bytes: BitRate(10_000_000), burst: Nanos::from_millis(250) };
const OF_ALL: TrickleRate =
    TrickleRate { exchanges: 20_000, bytes: BitRate(100_000_000), burst: Nanos::from_millis(100) };

/// Silence after which a client may be forgotten.
const SILENT: Nanos = Nanos::from_secs(1);

/// Shortest time between two searches for silent clients.
const SEARCH: Nanos = Nanos::from_millis(100);

/// Bytes of a client, and time, after which they are charged to the allowance.
const UNPAID_BYTES: u64 = 64 << 10;
const UNPAID_TIME: Nanos = Nanos::from_secs(1);

/// Rate of exchanges, with the time by which they may be ahead of it.
#[derive(Debug, Clone, Copy)]
struct TrickleRate {
    exchanges: u64,
    bytes: BitRate,
    burst: Nanos,
}

impl TrickleRate {
    fn at_most(self, rate: BitRate) -> TrickleRate {
        TrickleRate { bytes: BitRate(self.bytes.0.min(rate.0)), ..self }
    }
}

/// Bucket of exchanges and one of bytes, each as the time at which all so far would have passed at the rate.
#[derive(Debug, Clone, Copy, Default)]
struct TrickleBucket {
    exchanges: Nanos,
    bytes: Nanos,
}

impl TrickleBucket {
    /// Returns the wait until another exchange may pass; zero if it may now.
    fn wait(&self, rate: TrickleRate, now: Nanos) -> Nanos {
        self.exchanges.max(self.bytes) - (now + rate.burst)
    }

    fn charge(&mut self, rate: TrickleRate, bytes: u64, now: Nanos) {
        self.exchanges = self.exchanges.max(now) + Nanos(1_000_000_000 / rate.exchanges);
        self.bytes = self.bytes.max(now) + time_at(rate.bytes, bytes);
    }
}

/// Client of responders.
#[derive(Debug, Default)]
struct TrickleClient {
    bucket: TrickleBucket,
    last: Nanos,
    /// Bytes that are not charged to the allowance yet, and the time of the last charge.
    unpaid: Ways,
    paid_at: Nanos,
    /// True if nothing was left of the allowance then.
    is_used_up: bool,
}

/// Limits of all clients of all responders.
pub(super) struct Beside {
    of_one: TrickleRate,
    of_all: TrickleRate,
    paid: Arc<ByteAccount>,
    state: Mutex<TrickleState>,
}

#[derive(Default)]
struct TrickleState {
    all: TrickleBucket,
    clients: HashMap<IpAddr, TrickleClient>,
    searched: Nanos,
}

impl Beside {
    /// Creates the limits of a server with this rate.
    pub(super) fn new(rate: BitRate, paid: Arc<ByteAccount>) -> Beside {
        let (of_one, of_all) = (OF_ONE.at_most(rate), OF_ALL.at_most(rate));
        Beside { of_one, of_all, paid, state: Mutex::default() }
    }

    /// Charges `peer` for bytes sent and received; the error is the wait until it may have them, or `None` if the
    /// allowance is used up.
    pub(super) fn charge(&self, peer: IpAddr, bytes: Ways) -> Result<(), Option<Nanos>> {
        self.charge_at(peer, bytes, Monotonic.now())
    }

    fn charge_at(&self, peer: IpAddr, bytes: Ways, now: Nanos) -> Result<(), Option<Nanos>> {
        let origin = origin(peer);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.clients.contains_key(&origin) && !self.make_room(&mut state, now) {
            return Err(Some(SILENT));
        }
        let TrickleState { all, clients, .. } = &mut *state;
        let client = clients.entry(origin).or_default();
        client.last = now;
        if client.unpaid.iter().sum::<u64>() >= UNPAID_BYTES || now - client.paid_at >= UNPAID_TIME
        {
            self.pay(origin, client, now);
        }
        if client.is_used_up {
            return Err(None);
        }
        let wait = client.bucket.wait(self.of_one, now).max(all.wait(self.of_all, now));
        if wait > Nanos::ZERO {
            return Err(Some(wait));
        }
        let most = bytes.into_iter().max().unwrap_or(0);
        client.bucket.charge(self.of_one, most, now);
        all.charge(self.of_all, most, now);
        for (unpaid, more) in client.unpaid.iter_mut().zip(bytes) {
            *unpaid += more;
        }
        Ok(())
    }

    fn pay(&self, origin: IpAddr, client: &mut TrickleClient, now: Nanos) {
        let unpaid = std::mem::take(&mut client.unpaid);
        if unpaid != [0, 0] {
            self.paid.add_beside(origin, unpaid);
        }
        client.paid_at = now;
        client.is_used_up = self.paid.check(origin).is_err();
    }

    /// Makes room for one more client; returns false if all are talking.
    fn make_room(&self, state: &mut TrickleState, now: Nanos) -> bool {
        if state.clients.len() < MOST_CLIENTS {
            return true;
        }
        if now - state.searched < SEARCH {
            return false;
        }
        state.searched = now;
        state.clients.retain(|origin, client| {
            let stays = now - client.last < SILENT;
            if !stays {
                self.pay(*origin, client, now);
            }
            stays
        });
        state.clients.len() < MOST_CLIENTS
    }

    /// Charges all that is not charged yet to the allowance.
    pub(super) fn settle(&self) {
        let now = Monotonic.now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for (origin, client) in &mut state.clients {
            self.pay(*origin, client, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::Allowance;
    use super::*;

    fn beside(total: Option<u64>) -> Beside {
        let paid = ByteAccount::new(Allowance { total, per_client: None });
        Beside::new(BitRate(10_000_000_000), paid)
    }

    fn ip(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    /// Returns how many of `asked` exchanges at one time pass.
    fn passed(beside: &Beside, who: IpAddr, asked: u32, now: Nanos) -> usize {
        (0..asked).filter(|_| beside.charge_at(who, [64, 64], now).is_ok()).count()
    }

    #[test]
    fn a_client_has_a_burst_and_then_its_rate() {
        let (beside, start) = (beside(None), Nanos::from_secs(100));
        assert_eq!(passed(&beside, ip(1), 10_000, start), 501);
        let wait = beside.charge_at(ip(1), [64, 64], start).unwrap_err().unwrap();
        assert_eq!(wait, Nanos::from_micros(500));
        assert_eq!(passed(&beside, ip(2), 10, start), 10, "another has its own");
        assert_eq!(passed(&beside, ip(1), 10_000, start + Nanos::from_secs(1)), 501);
    }

    #[test]
    fn large_exchanges_are_bounded_by_their_bytes_and_by_the_operators_rate() {
        let start = Nanos::from_secs(100);
        let large = |beside: &Beside| {
            (0..1_000).filter(|_| beside.charge_at(ip(1), [1_000, 1_000], start).is_ok()).count()
        };
        // 250 ms of 10 Mbit/s are 312.5 kB, and one call goes beyond.
        assert_eq!(large(&beside(None)), 313);
        let paid = ByteAccount::new(Allowance::default());
        assert_eq!(large(&Beside::new(BitRate(80_000), paid)), 2, "all clients have 100 ms");
    }

    #[test]
    fn many_clients_are_bounded_in_sum_and_in_memory() {
        let (beside, start) = (beside(None), Nanos::from_secs(100));
        let passed = (0..10_000).filter(|n| passed(&beside, ip(*n), 1, start) == 1).count();
        assert_eq!(passed, 2_001, "100 ms of 20,000 a second");
        assert_eq!(beside.state.lock().unwrap().clients.len(), MOST_CLIENTS);
        let later = start + SILENT;
        assert!(beside.charge_at(ip(20_000), [64, 64], later).is_ok(), "the silent are forgotten");
        assert_eq!(beside.state.lock().unwrap().clients.len(), 1);
    }

    #[test]
    fn what_passes_counts_for_the_allowance_and_ends_with_it() {
        let (beside, start) = (beside(Some(1_000)), Nanos::from_secs(100));
        assert_eq!(passed(&beside, ip(1), 20, start), 20);
        let later = start + UNPAID_TIME;
        assert_eq!(beside.charge_at(ip(1), [64, 64], later), Err(None));
        assert_eq!(beside.charge_at(ip(2), [64, 64], later), Err(None), "the total is everyone's");
        beside.settle();
        assert!(beside.paid.summary().contains("1.28 kB sent"), "{}", beside.paid.summary());
    }
}
