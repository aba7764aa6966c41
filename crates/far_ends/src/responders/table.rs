//! State of the clients of a responder, by their address: bounded in number, in all and for each host, and forgotten after
//! a time of silence.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use deadheat_base::origins::origin;

use deadheat_base::time::Nanos;

/// Limits of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableLimits {
    /// Number of entries in all, and of one host.
    pub(super) in_all: usize,
    pub(super) of_one: usize,
    /// Silence after which an entry is forgotten.
    pub(super) silence: Nanos,
}

/// Shortest time between two searches of a full table for silent clients.
const SEARCH: Nanos = Nanos::from_millis(100);

/// Client with its state.
#[derive(Debug)]
struct Known<T> {
    host: IpAddr,
    last: Nanos,
    state: T,
}

/// Clients by `K`.
#[derive(Debug)]
pub(super) struct Table<K, T> {
    limits: TableLimits,
    known: HashMap<K, Known<T>>,
    by_host: HashMap<IpAddr, usize>,
    searched: Option<Nanos>,
}

impl<K: Eq + Hash + Copy, T> Table<K, T> {
    /// Creates an empty table.
    pub(super) fn new(limits: TableLimits) -> Table<K, T> {
        Table { limits, known: HashMap::new(), by_host: HashMap::new(), searched: None }
    }

    /// Returns the state of a known client, and notes that it spoke.
    pub(super) fn get(&mut self, key: K, now: Nanos) -> Option<&mut T> {
        let silence = self.limits.silence;
        if self.known.get(&key).is_some_and(|known| now - known.last >= silence) {
            self.remove(key);
        }
        let known = self.known.get_mut(&key)?;
        known.last = now;
        Some(&mut known.state)
    }

    /// Adds a client at `host`; `None` if there is no room for it.
    pub(super) fn add(&mut self, key: K, host: IpAddr, now: Nanos, state: T) -> Option<&mut T> {
        self.remove(key);
        let host = origin(host);
        let is_full = |table: &Table<K, T>| {
            let own = table.by_host.get(&host).copied().unwrap_or(0);
            table.known.len() >= table.limits.in_all || own >= table.limits.of_one
        };
        if is_full(self) && self.searched.is_none_or(|last| now - last >= SEARCH) {
            self.searched = Some(now);
            self.forget_the_silent(now);
        }
        if is_full(self) {
            return None;
        }
        *self.by_host.entry(host).or_default() += 1;
        let known = Known { host, last: now, state };
        Some(&mut self.known.entry(key).insert_entry(known).into_mut().state)
    }

    /// Forgets a client; returns its state.
    pub(super) fn remove(&mut self, key: K) -> Option<T> {
        let known = self.known.remove(&key)?;
        if let Some(own) = self.by_host.get_mut(&known.host) {
            *own -= 1;
            if *own == 0 {
                self.by_host.remove(&known.host);
            }
        }
        Some(known.state)
    }

    fn forget_the_silent(&mut self, now: Nanos) {
        let silence = self.limits.silence;
        let silent = self.known.iter().filter(|(_, known)| now - known.last >= silence);
        let silent: Vec<K> = silent.map(|(key, _)| *key).collect();
        for key in silent {
            self.remove(key);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: TableLimits = TableLimits { in_all: 4, of_one: 2, silence: Nanos::from_secs(1) };

    fn host(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn a_host_has_its_share_and_all_have_theirs() {
        let mut table = Table::new(LIMITS);
        let at = Nanos::from_secs(9);
        let added: Vec<bool> = [1, 1, 1, 2, 3, 4]
            .iter()
            .enumerate()
            .map(|(key, n)| table.add(key, host(*n), at, ()).is_some())
            .collect();
        assert_eq!(added, [true, true, false, true, true, false]);
        table.remove(0);
        assert!(table.add(9, host(1), at, ()).is_some());
        assert!(table.add(9, host(1), at, ()).is_some(), "the same client anew");
        assert_eq!(table.len(), 4);
    }

    #[test]
    fn the_silent_are_forgotten_and_who_speaks_is_not() {
        let mut table = Table::new(LIMITS);
        let at = Nanos::from_millis;
        for key in 0..4 {
            table.add(key, host(key), at(0), key).unwrap();
        }
        assert_eq!(table.get(2, at(900)), Some(&mut 2));
        assert!(table.add(7, host(7), at(950), 7).is_none());
        assert!(table.add(7, host(7), at(1_100), 7).is_some());
        assert_eq!((table.len(), table.get(2, at(1_200))), (2, Some(&mut 2)));
        assert_eq!(table.get(2, at(2_200)), None, "silent for a second");
        assert_eq!(table.len(), 1);
    }
}
