//! Origins of clients, and the share of each in places that are few: the one rule for connections, sessions, races and
//! waiting trials alike.

use std::collections::HashMap;
use std::net::IpAddr;

/// Returns the origin of an address: the IPv4 address itself, or the IPv6 /64, which may belong to one host as a whole.
pub fn origin(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => IpAddr::V4(ip),
        IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) >> 64 << 64).into()),
    }
}

/// Number of places, in all and of one origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// Places in all.
    pub in_all: usize,
    /// Places of one origin at most.
    pub of_one: usize,
}

/// Answer to a newcomer that asks for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// A place is free.
    Free,
    /// The place with this index goes to the newcomer: its origin has most, and at least two more than the newcomer's.
    Replaces(usize),
    /// The newcomer's origin has as many as one may have.
    OwnShare,
    /// All are taken, and no origin has two more than the newcomer's.
    Full,
}

impl Shares {
    /// Decides about one more place for an address. `taken` are the addresses that have places, the least valuable place
    /// of an origin first.
    pub fn admit(self, newcomer: IpAddr, taken: impl IntoIterator<Item = IpAddr>) -> Admission {
        let taken: Vec<IpAddr> = taken.into_iter().map(origin).collect();
        let mut crowd: HashMap<IpAddr, usize> = HashMap::new();
        for one in &taken {
            *crowd.entry(*one).or_default() += 1;
        }
        let own = crowd.get(&origin(newcomer)).copied().unwrap_or(0);
        if own >= self.of_one {
            return Admission::OwnShare;
        }
        if taken.len() < self.in_all {
            return Admission::Free;
        }
        let most = crowd.values().copied().max().unwrap_or(0);
        let first = taken.iter().position(|one| crowd.get(one) == Some(&most));
        // With one more only, the two would replace each other for ever.
        first.filter(|_| most >= own + 2).map_or(Admission::Full, Admission::Replaces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_ipv6_host_is_its_64_and_a_mapped_address_is_ipv4() {
        assert_eq!(origin(ip("2001:db8:1:2:3::4")), ip("2001:db8:1:2::"));
        assert_eq!(origin(ip("::ffff:10.0.0.1")), ip("10.0.0.1"));
    }

    #[test]
    fn who_has_most_makes_room_for_who_has_least() {
        let shares = Shares { in_all: 4, of_one: 3 };
        let of = |newcomer: u8, taken: &[u8]| {
            let address = |last: u8| IpAddr::from([10, 0, 0, last]);
            shares.admit(address(newcomer), taken.iter().map(|last| address(*last)))
        };
        assert_eq!(of(1, &[1, 1]), Admission::Free);
        assert_eq!(of(1, &[1, 1, 1]), Admission::OwnShare);
        assert_eq!(of(3, &[2, 1, 1, 1]), Admission::Replaces(1));
        assert_eq!(of(2, &[2, 1, 1, 1]), Admission::Replaces(1));
        assert_eq!(of(3, &[1, 1, 2, 2]), Admission::Replaces(0));
        assert_eq!(
            of(2, &[1, 1, 2, 3]),
            Admission::Full,
            "one more would only change who is left out"
        );
        assert_eq!(of(5, &[1, 2, 3, 4]), Admission::Full, "each has one");
    }

    /// Whatever one origin does, another has its place in the next moment.
    #[test]
    fn a_crowd_of_a_few_origins_keeps_no_other_out() {
        let shares = Shares { in_all: 128, of_one: 32 };
        let mut taken: Vec<IpAddr> = Vec::new();
        for n in 0..1_000_u32 {
            let crowd = IpAddr::from([10, 0, 0, (n % 4) as u8]);
            if let Admission::Free = shares.admit(crowd, taken.iter().copied()) {
                taken.push(crowd);
            }
        }
        assert_eq!(taken.len(), 128);
        let honest = ip("192.0.2.1");
        for _ in 0..20 {
            let Admission::Replaces(at) = shares.admit(honest, taken.iter().copied()) else {
                panic!("no place")
            };
            taken[at] = honest;
        }
    }
}
