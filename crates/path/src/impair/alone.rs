//! Channel by itself, in virtual time: for tests of protocols without a kernel.

use super::Channel;
use super::packet::{Departure, Packet, Place};
use crate::network::{Impairments, Network};
use deadheat_base::ecn::Codepoint;
use deadheat_base::ends::Direction;
use deadheat_base::time::Nanos;

impl Packet {
    /// Creates a packet of this many bytes, IP header included, with unknown flow and protocol.
    pub fn of_bytes(bytes: u32) -> Packet {
        Packet { bytes, flow: 0, protocol: 0, codepoint: Codepoint::NotEct }
    }
}

impl<H: Copy> Channel<H> {
    /// Creates the channel for a direction of the first link of a network, at its time 0. `seed` counts where the
    /// network has none of its own.
    pub fn of(network: &Network, direction: Direction, seed: u64) -> Channel<H> {
        let place = Place { seed: network.seed.unwrap_or(seed), link: 0, direction };
        match network.links.first() {
            Some(link) => Channel::new(link.toward(direction), place),
            None => Channel::new(&Impairments::default(), place),
        }
    }

    /// Iterates over all remaining departures, if nothing more arrives.
    pub fn rest(&mut self) -> impl Iterator<Item = Departure<H>> + '_ {
        let mut now = Nanos::ZERO;
        std::iter::from_fn(move || {
            loop {
                if let Some(departure) = self.depart(now) {
                    return Some(departure);
                }
                now = now.max(self.next()?);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::impair::packet::End;

    #[test]
    fn the_rest_is_all_there_is_and_in_order() {
        for typed in [
            "delay=20ms,loss=10%,jitter=5ms,order=free",
            "delay=1ms,rate=1mbit,queue=10pkt,aqm=codel,reorder=5%,duplicate=5%",
        ] {
            let network = Network::parse(typed).unwrap();
            let mut channel = Channel::of(&network, Direction::Down, 3);
            let copies: u32 = (0..500_u64)
                .map(|n| channel.arrive(Nanos::from_millis(n), &Packet::of_bytes(1_000), n))
                .sum();
            let rest: Vec<_> = channel.rest().collect();
            assert_eq!(rest.len(), copies as usize, "{typed}");
            assert!(rest.is_sorted_by_key(|departure| departure.at), "{typed}");
            let came = rest.iter().filter(|d| matches!(d.end, End::Delivered(_))).count() as u64;
            assert_eq!((channel.fates().delivered, channel.fates().waiting), (came, 0), "{typed}");
        }
    }

    #[test]
    fn a_seed_of_the_networks_own_counts() {
        let lost = |typed: &str, seed| {
            let mut channel = Channel::of(&Network::parse(typed).unwrap(), Direction::Up, seed);
            (0..1_000_u32).for_each(|n| {
                channel.arrive(Nanos::ZERO, &Packet::of_bytes(100), n);
            });
            channel.log().to_string()
        };
        assert_eq!(lost("loss=5%,seed=9", 1), lost("loss=5%", 9));
        assert_ne!(lost("loss=5%", 1), lost("loss=5%", 9));
    }
}
