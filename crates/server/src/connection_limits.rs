//! Limits of the number of control connections, in all and from one origin.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use deadheat_base::origins::origin;

use super::config::{Config, Room};
use deadheat_datapath::transport::hello::Token;
use deadheat_trial::control::MOST_FAR_ENDS;

/// Limits of control connections.
pub(super) struct ConnectionLimits {
    all: usize,
    /// Largest number of clients of one origin, and of further connections that they have beside their first; `None` if
    /// there is a secret. A client that has proved the secret is trusted, and any number of them may share one address.
    each: Option<[usize; 2]>,
    serves_one: bool,
    taken: Mutex<HashMap<IpAddr, OriginCount>>,
}

/// Connections of one origin.
#[derive(Debug, Default)]
struct OriginCount {
    /// Number of clients: of connections that are the first of theirs.
    clients: usize,
    /// Number of connections that a client has beside its first, one for each further far end of a trial.
    beside: usize,
    /// Number of connections of each client that may have several.
    by_client: HashMap<Token, usize>,
}

/// Permit of one control connection; free again when dropped.
pub(super) struct Permit {
    limits: Arc<ConnectionLimits>,
    origin: IpAddr,
    client: Option<Token>,
    is_beside: bool,
}

impl ConnectionLimits {
    /// Creates the limits of a server.
    pub(super) fn new(config: &Config) -> Arc<ConnectionLimits> {
        let Room { sessions, per_origin, .. } = config.room;
        let each = config.secret.is_none().then_some([per_origin, per_origin * 2]);
        let (serves_one, taken) = (config.serves_one, Mutex::default());
        Arc::new(ConnectionLimits { all: sessions, each, serves_one, taken })
    }

    /// Takes a permit for a control connection from `ip`; the error is the reason why there is none. Of the connections
    /// that give the same number of a client, the first counts as that client, and the others are beside it: as many as
    /// the far ends of one trial, in all and for each origin no more than a bound of their own.
    pub(super) fn take(
        self: &Arc<ConnectionLimits>,
        ip: IpAddr,
        client: Option<Token>,
    ) -> Result<Permit, String> {
        let origin = origin(ip);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = client.and_then(|client| taken.get(&origin)?.by_client.get(&client).copied());
        let is_beside = own.is_some();
        if own.is_some_and(|own| own >= usize::from(MOST_FAR_ENDS)) {
            return Err(format!("a trial has {MOST_FAR_ENDS} far ends here at most"));
        }
        let count = |one: &OriginCount| if is_beside { one.beside } else { one.clients };
        if taken.values().map(count).sum::<usize>() >= self.all {
            return Err(format!(
                "{} control connections are open already; try again later",
                self.all
            ));
        }
        self.check_once(&taken, origin)?;
        let mine = taken.entry(origin).or_default();
        let each = self.each.map(|each| each[usize::from(is_beside)]);
        if let Some(each) = each.filter(|each| count(mine) >= *each) {
            return Err(format!(
                "{each} control connections are open from {origin} already; end one of those races \
                 first"
            ));
        }
        *if is_beside { &mut mine.beside } else { &mut mine.clients } += 1;
        if let Some(client) = client {
            *mine.by_client.entry(client).or_default() += 1;
        }
        Ok(Permit { limits: Arc::clone(self), origin, client, is_beside })
    }

    /// Takes a permit for the test of another program's client. The queue bounds their number, so that control
    /// connections that idle keep none out.
    pub(super) fn take_test(self: &Arc<ConnectionLimits>, ip: IpAddr) -> Result<Permit, String> {
        let origin = origin(ip);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_once(&taken, origin)?;
        taken.entry(origin).or_default().clients += 1;
        Ok(Permit { limits: Arc::clone(self), origin, client: None, is_beside: false })
    }

    /// Refuses a second client of a server that serves one.
    fn check_once(
        &self,
        taken: &HashMap<IpAddr, OriginCount>,
        origin: IpAddr,
    ) -> Result<(), String> {
        if self.serves_one && taken.keys().any(|taken| *taken != origin) {
            Err("it serves one client (--once), and has one".into())
        } else {
            Ok(())
        }
    }

    /// Returns true if no permit is taken.
    pub(super) fn are_free(&self) -> bool {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.limits.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(own) = taken.get_mut(&self.origin) else { return };
        *if self.is_beside { &mut own.beside } else { &mut own.clients } -= 1;
        if let Some(client) = self.client
            && let Some(count) = own.by_client.get_mut(&client)
        {
            *count -= 1;
            if *count == 0 {
                own.by_client.remove(&client);
            }
        }
        if own.clients + own.beside == 0 {
            taken.remove(&self.origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Secret;
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
        let taken: Vec<Permit> = (0..3).map(|_| limits.take(ip, None).ok().unwrap()).collect();
        assert!(limits.take(ip, None).is_err());
        drop(taken);
    }

    #[test]
    fn one_origin_cannot_take_all_and_seats_come_back() {
        let limits = limits(3, 2, None);
        let (a, b): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let first = limits.take(a, None).ok().unwrap();
        let _second = limits.take(a, None).ok().unwrap();
        let why = limits.take(a, None).err().unwrap();
        assert!(why.contains("2 control connections are open from 10.0.0.1"), "{why}");
        let _third = limits.take(b, None).ok().unwrap();
        let why = limits.take(b, None).err().unwrap();
        assert!(why.contains("3 control connections are open already"), "{why}");
        drop(first);
        assert!(limits.take(a, None).is_ok());
        assert_eq!(limits.taken.lock().unwrap().len(), 2);
    }

    #[test]
    fn a_server_for_one_client_admits_no_other_beside_it() {
        let config = Config { serves_one: true, ..Config::default() };
        let limits = ConnectionLimits::new(&config);
        let (a, b): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let taken = [limits.take(a, None), limits.take(a, None)];
        assert!(taken.iter().all(Result::is_ok), "a client may have several connections");
        assert!(limits.take(b, None).err().unwrap().contains("--once"));
        drop(taken);
        assert!(limits.take(b, None).is_ok());
    }

    /// The far ends of one trial have a connection each, which count as one client.
    #[test]
    fn the_connections_of_one_client_count_as_one_within_a_bound() {
        let limits = limits(64, 2, None);
        let [a, b]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().unwrap());
        let [one, other, third] = [1, 2, 3].map(|n| Some(Token::from_bytes([n; 16])));
        let first = limits.take(a, one).ok().unwrap();
        let beside: Vec<Permit> = (0..3).map(|_| limits.take(a, one).ok().unwrap()).collect();
        let _second = limits.take(a, other).ok().unwrap();
        assert!(limits.take(a, third).is_err(), "two clients are enough");
        let _fourth = limits.take(a, other).ok().unwrap();
        let why = limits.take(a, one).err().unwrap();
        assert!(why.contains("4 control connections are open from 10.0.0.1"), "{why}");
        assert!(limits.take(b, one).is_ok(), "another origin has its own");
        drop((first, beside));
        assert!(limits.take(a, third).is_ok());
    }

    #[test]
    fn one_client_has_no_more_connections_than_a_trial_has_far_ends() {
        let limits = limits(64, 8, Some("open sesame"));
        let (ip, client) = ("10.0.0.1".parse().unwrap(), Some(Token::from_bytes([1; 16])));
        let taken: Vec<Permit> =
            (0..MOST_FAR_ENDS).map(|_| limits.take(ip, client).ok().unwrap()).collect();
        assert!(limits.take(ip, client).err().unwrap().contains("16 far ends"));
        drop(taken);
        assert!(limits.are_free());
    }
}
