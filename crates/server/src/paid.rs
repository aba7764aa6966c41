//! Account of the bytes that trials carried, and of the rest of the operator's allowance: in total, and for each
//! client.
//!
//! A trial takes its largest number of bytes out of the rest before it begins, and returns the bytes that it did not
//! carry at its end, however it ends: its agent counts in memory that outlives it ([`Account`]). So trials that run at
//! once cannot spend the same bytes twice, and bytes that are not carried are not charged.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deadheat_base::origins::origin;

use super::config::Allowance;
use deadheat_base::units::Bytes;
use deadheat_datapath::datapath::account::Account;

/// Largest number of clients with a sum of their own. Above it the smallest sum is dropped; the total still binds.
const MOST_CLIENTS: usize = 65_536;

/// Bytes sent and received.
pub(super) type Ways = [u64; 2];

/// Account of all trials.
#[derive(Debug)]
pub(super) struct ByteAccount {
    allowance: Allowance,
    state: Mutex<AccountState>,
}

#[derive(Debug, Default)]
struct AccountState {
    trials: u64,
    carried: Ways,
    /// Bytes granted to running trials.
    taken: u64,
    clients: HashMap<IpAddr, ClientAccount>,
}

#[derive(Debug, Default, Clone, Copy)]
struct ClientAccount {
    carried: Ways,
    taken: u64,
}

/// Share of the allowance for one trial; returned when dropped, less the bytes that it carried.
#[derive(Debug)]
pub(super) struct AllowanceShare {
    paid: Arc<ByteAccount>,
    client: IpAddr,
    /// Number of bytes per direction, as IP packets.
    pub(super) bytes: u64,
    account: Account,
}

impl ByteAccount {
    pub(super) fn new(allowance: Allowance) -> Arc<ByteAccount> {
        Arc::new(ByteAccount { allowance, state: Mutex::default() })
    }

    /// Takes a share of at most `bytes` per direction for a trial of `peer`; if nothing is left, the error is the
    /// reason.
    pub(super) fn share(
        self: &Arc<ByteAccount>,
        peer: IpAddr,
        bytes: u64,
    ) -> Result<AllowanceShare, String> {
        let client = origin(peer);
        let mut state = self.lock();
        let rest = state.rest(&self.allowance, client)?;
        let account = Account::new().map_err(|e| format!("no account can be kept for it: {e}"))?;
        let bytes = bytes.min(rest);
        state.taken = state.taken.saturating_add(bytes);
        state.make_room();
        let own = state.clients.entry(client).or_default();
        own.taken = own.taken.saturating_add(bytes);
        Ok(AllowanceShare { paid: Arc::clone(self), client, bytes, account })
    }

    /// Checks that `peer` has anything left; otherwise the error is the reason.
    pub(super) fn check(&self, peer: IpAddr) -> Result<(), String> {
        self.lock().rest(&self.allowance, origin(peer)).map(drop)
    }

    /// Adds bytes that pass beside trials: of probes of the path, and of responders.
    pub(super) fn add_beside(&self, peer: IpAddr, carried: Ways) {
        let mut state = self.lock();
        add(&mut state.carried, carried);
        state.make_room();
        add(&mut state.clients.entry(origin(peer)).or_default().carried, carried);
    }

    /// Returns a summary of the bytes carried, for an operator.
    pub(super) fn summary(&self) -> String {
        let state = self.lock();
        let [sent, received] = state.carried.map(Bytes);
        format!(
            "{} trials of {} clients; {sent} sent, {received} received",
            state.trials,
            state.clients.len()
        )
    }

    fn lock(&self) -> MutexGuard<'_, AccountState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AccountState {
    /// Returns the bytes that are left for a client; if there are none, the error is the reason.
    fn rest(&self, allowance: &Allowance, client: IpAddr) -> Result<u64, String> {
        let of_all = left(allowance.total, self.carried, self.taken);
        let own = self.clients.get(&client).copied().unwrap_or_default();
        let of_client = left(allowance.per_client, own.carried, own.taken);
        if of_all == 0 {
            return Err(used_up(allowance.total, "in all", "--max-total", self.taken));
        }
        if of_client == 0 {
            let of = allowance.per_client;
            return Err(used_up(of, "for one client", "--max-per-client", own.taken));
        }
        Ok(of_all.min(of_client))
    }

    fn make_room(&mut self) {
        if self.clients.len() < MOST_CLIENTS {
            return;
        }
        let idle = self.clients.iter().filter(|(_, client)| client.taken == 0);
        let least = idle.min_by_key(|(_, client)| client.carried.iter().sum::<u64>());
        if let Some(ip) = least.map(|(ip, _)| *ip) {
            self.clients.remove(&ip);
        }
    }
}

impl AllowanceShare {
    /// Returns the account to which the trial's agent adds the bytes that it sends and receives.
    pub(super) fn account(&self) -> &Account {
        &self.account
    }
}

impl Drop for AllowanceShare {
    fn drop(&mut self) {
        let (mut state, carried) = (self.paid.lock(), self.account.read());
        state.trials += 1;
        state.taken = state.taken.saturating_sub(self.bytes);
        add(&mut state.carried, carried);
        if let Some(own) = state.clients.get_mut(&self.client) {
            own.taken = own.taken.saturating_sub(self.bytes);
            add(&mut own.carried, carried);
        }
    }
}

fn add(sum: &mut Ways, more: Ways) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum = sum.saturating_add(more);
    }
}

/// Returns the bytes left in the direction with fewer.
fn left(allowed: Option<u64>, carried: Ways, taken: u64) -> u64 {
    let Some(allowed) = allowed else { return u64::MAX };
    let most = carried.into_iter().max().unwrap_or(0);
    allowed.saturating_sub(most).saturating_sub(taken)
}

fn used_up(allowed: Option<u64>, what: &str, option: &str, taken: u64) -> String {
    let allowed = Bytes(allowed.unwrap_or(0));
    let then = if taken > 0 { "; trials that run now may give some back" } else { "" };
    format!(
        "this server carries {allowed} per direction {what}, and that is used up ({option}){then}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn paid(total: Option<u64>, per_client: Option<u64>) -> Arc<ByteAccount> {
        ByteAccount::new(Allowance { total, per_client })
    }

    #[test]
    fn what_was_not_carried_is_given_back() {
        let paid = paid(Some(1_000), None);
        let first = paid.share(ip("10.0.0.1"), 800).unwrap();
        let second = paid.share(ip("10.0.0.2"), 800).unwrap();
        assert_eq!((first.bytes, second.bytes), (800, 200));
        let why = paid.share(ip("10.0.0.3"), 1).unwrap_err();
        assert!(why.contains("1.00 kB") && why.contains("--max-total"), "{why}");
        assert!(why.contains("may give some back"), "{why}");
        first.account().add([100, 300]);
        drop(first);
        assert_eq!(paid.share(ip("10.0.0.3"), 800).unwrap().bytes, 500);
    }

    /// Cancelled trials are charged for the bytes that they have carried.
    #[test]
    fn what_was_opened_and_not_carried_costs_nothing() {
        let paid = paid(Some(1_000), Some(1_000));
        for _ in 0..76 {
            drop(paid.share(ip("10.0.0.1"), 1_000).unwrap());
        }
        assert_eq!(paid.share(ip("10.0.0.2"), 1_000).unwrap().bytes, 1_000);
    }

    #[test]
    fn an_origin_has_its_own_sum() {
        let paid = paid(None, Some(1_000));
        paid.share(ip("2001:db8::1"), 600).unwrap().account().add([600, 0]);
        let same = paid.share(ip("2001:db8::2"), 600).unwrap();
        assert_eq!(same.bytes, 400, "the same /64");
        same.account().add([0, 1_000]);
        drop(same);
        assert_eq!(paid.share(ip("10.0.0.1"), 600).unwrap().bytes, 600);
        assert!(paid.summary().contains("3 trials of 2 clients"), "{}", paid.summary());
        let why = paid.share(ip("2001:db8::3"), 1).unwrap_err();
        assert!(why.contains("for one client"), "{why}");
    }

    #[test]
    fn without_an_allowance_nothing_binds() {
        let paid = paid(None, None);
        assert_eq!(paid.share(ip("10.0.0.1"), u64::MAX).unwrap().bytes, u64::MAX);
        assert_eq!(paid.share(ip("10.0.0.1"), 7).unwrap().bytes, 7);
    }
}
