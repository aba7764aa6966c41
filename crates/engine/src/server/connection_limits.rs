//! Limits of the number of control connections, in all and from one origin.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::config::{Config, ServedClients};
use super::log::origin;

/// Limits of control connections.
pub(super) struct ConnectionLimits {
    all: usize,
    /// Largest number of connections of one origin; `None` if there is a secret. A client that has proved the secret is
    /// trusted, and any number of them may share one address.
    each: Option<usize>,
    clients: ServedClients,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// Permit of one control connection; free again when dropped.
pub(super) struct Permit {
    limits: Arc<ConnectionLimits>,
    origin: IpAddr,
}

impl ConnectionLimits {
    /// Creates the limits of a server.
    pub(super) fn new(config: &Config) -> Arc<ConnectionLimits> {
        let each = config.secret.is_none().then_some(config.room.per_origin);
        Arc::new(ConnectionLimits {
            all: config.room.sessions,
            each,
            clients: config.clients,
            taken: Mutex::default(),
        })
    }

    /// Takes a permit for a control connection from `ip`; the error is the reason why there is none.
    pub(super) fn take(self: &Arc<ConnectionLimits>, ip: IpAddr) -> Result<Permit, String> {
        let origin = origin(ip);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.values().sum::<usize>() >= self.all {
            return Err(format!(
                "{} control connections are open already; try again later",
                self.all
            ));
        }
        let is_other = |(taken, count): (&IpAddr, &usize)| *taken != origin && *count > 0;
        if self.clients == ServedClients::One && taken.iter().any(is_other) {
            return Err("it serves one client (--once), and has one".into());
        }
        let mine = taken.entry(origin).or_default();
        if let Some(each) = self.each.filter(|each| *mine >= *each) {
            return Err(format!(
                "{each} control connections are open from {origin} already; end one of those races \
                 first"
            ));
        }
        *mine += 1;
        Ok(Permit { limits: Arc::clone(self), origin })
    }

    /// Returns true if no permit is taken.
    pub(super) fn are_free(&self) -> bool {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.limits.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.origin) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Room, Secret};
    use super::*;

    fn limits(sessions: usize, per_origin: usize, secret: Option<&str>) -> Arc<ConnectionLimits> {
        let room = Room { sessions, per_origin, ..Room::default() };
        let secret = secret.map(|secret| Secret::new(secret, "FILE").unwrap());
        ConnectionLimits::new(&Config { room, secret, ..Config::default() })
    }

    /// A whole company may race from behind one address, if it knows the secret.
    #[test]
    fn who_has_proved_the_secret_shares_with_nobody() {
        let limits = limits(3, 1, Some("open sesame"));
        let ip = "10.0.0.1".parse().unwrap();
        let taken: Vec<Permit> = (0..3).map(|_| limits.take(ip).ok().unwrap()).collect();
        assert!(limits.take(ip).is_err());
        drop(taken);
    }

    #[test]
    fn one_origin_cannot_take_all_and_seats_come_back() {
        let limits = limits(3, 2, None);
        let (a, b): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let first = limits.take(a).ok().unwrap();
        let _second = limits.take(a).ok().unwrap();
        let why = limits.take(a).err().unwrap();
        assert!(why.contains("2 control connections are open from 10.0.0.1"), "{why}");
        let _third = limits.take(b).ok().unwrap();
        let why = limits.take(b).err().unwrap();
        assert!(why.contains("3 control connections are open already"), "{why}");
        drop(first);
        assert!(limits.take(a).is_ok());
        assert_eq!(limits.taken.lock().unwrap().len(), 2);
    }

    #[test]
    fn a_server_for_one_client_admits_no_other_beside_it() {
        let config = Config { clients: ServedClients::One, ..Config::default() };
        let limits = ConnectionLimits::new(&config);
        let (a, b): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let taken = [limits.take(a), limits.take(a)];
        assert!(taken.iter().all(Result::is_ok), "a client may have several connections");
        assert!(limits.take(b).err().unwrap().contains("--once"));
        drop(taken);
        assert!(limits.take(b).is_ok());
    }
}
