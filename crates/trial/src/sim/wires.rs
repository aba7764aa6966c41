//! Links of a simulated network. A packet crosses one after another, by the same channels, seeds and routes as in an
//! emulated one. Hosts between others take no time, and have no network card.

use super::flight::{Flights, PacketRef};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;
use deadheat_contract::contract::{Direction, Side};
use deadheat_contract::measurements::path::{DirectionFigures, LinkFigures, PathFigures};
use deadheat_path::impair::Channel;
use deadheat_path::impair::packet::{Changes, End, Packet, Place};
use deadheat_path::network::{Network, Nic, USUAL_NIC};
use deadheat_path::observe::log::PacketLog;
use deadheat_path::observe::{Observation, Observer, Seen};
use deadheat_path::routes::{self, Routes};

/// Links with the packets on them.
pub(super) struct Wires {
    wires: Vec<Wire>,
    routes: Vec<Routes>,
    /// Indices of the near and the far host.
    roles: [usize; 2],
    /// Ends of links with the addresses of the near and the far host: a link, and its first (0) or second (1) host.
    addresses: [(usize, usize); 2],
    /// Length of an IP header in bits.
    header_bits: u32,
}

struct Wire {
    ends: [usize; 2],
    channels: [Channel<PacketRef>; 2],
    observers: [Option<Box<Observer>>; 2],
    /// Rates at which the first and the second host hand packets to it.
    nics: [BitRate; 2],
}

/// Packet that crosses no further link: it is at its end, or was dropped.
pub(super) struct Landed {
    pub(super) part: PacketRef,
    /// True if it arrived, and as it was sent.
    pub(super) is_sound: bool,
}

impl Wires {
    /// Creates the links of a network, empty, with `seed` for their draws.
    ///
    /// # Errors
    /// [`Error::Usage`] for a network without a way between its ends.
    pub(super) fn new(network: &Network, seed: u64, ip_header: u64) -> Result<Wires> {
        let wire = |(at, link): (usize, &deadheat_path::network::Link)| {
            let channel = |direction| {
                let place = Place { seed, link: at as u16, direction };
                Channel::new(link.toward(direction), place)
            };
            Wire {
                ends: link.ends,
                channels: [channel(Direction::Up), channel(Direction::Down)],
                observers: [None, None],
                nics: [&link.up, &link.down].map(|way| way.nic_rate().unwrap_or(USUAL_NIC)),
            }
        };
        let wires: Vec<Wire> = network.links.iter().enumerate().map(wire).collect();
        let routes = routes::over_time(network);
        let lost = || Error::usage("a path without a way between its ends");
        let end_on = |link: usize, host| wires.get(link)?.ends.iter().position(|end| *end == host);
        // The far host is dialled on its first link; the near one sends from its address on the link that leads there.
        let first = network.links_of(network.far).next().ok_or_else(lost)?;
        let far = (first, end_on(first, network.far).ok_or_else(lost)?);
        let out = routes.first().and_then(|first| first.link(network.near, far.0, far.1));
        let out = out.ok_or_else(lost)?;
        let near = (out, end_on(out, network.near).ok_or_else(lost)?);
        Ok(Wires {
            wires,
            routes,
            roles: [network.near, network.far],
            addresses: [near, far],
            header_bits: 8 * ip_header as u32,
        })
    }

    /// Observes the packets of all links, if the trial has an observation.
    ///
    /// # Errors
    /// Fails if a histogram cannot be made.
    pub(super) fn observe(&mut self, observation: Option<&Observation>) -> Result<()> {
        let Some(observation) = observation else { return Ok(()) };
        let ways = 2 * self.wires.len();
        for observer in self.wires.iter_mut().flat_map(|wire| &mut wire.observers) {
            *observer = Observer::new(observation, ways)?;
        }
        Ok(())
    }

    /// Removes the packets noted so far, with the name of each direction.
    pub(super) fn take_logs(&mut self, network: &Network) -> Vec<(String, PacketLog)> {
        let ways = self.wires.iter_mut().enumerate().flat_map(|(link, wire)| {
            let both = wire.observers.iter_mut().zip([Direction::Up, Direction::Down]);
            both.map(move |(observer, direction)| (link, direction, observer))
        });
        let log = |(link, direction, observer): (usize, Direction, &mut Option<Box<Observer>>)| {
            Some((network.way_name(link, direction), observer.as_mut()?.take_log()?))
        };
        ways.filter_map(log).collect()
    }

    /// Returns the time at which a packet next leaves a link.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.wires.iter().flat_map(|wire| &wire.channels).filter_map(Channel::next).min()
    }

    /// Returns the rate at which a host hands packets to the link by which it sends now.
    pub(super) fn nic(&self, now: Nanos, from: Side) -> BitRate {
        let link = self.onward(now, self.role(from), from.other());
        link.map_or(USUAL_NIC, |(link, end)| self.wires[link].nics[end])
    }

    /// Makes a packet of a host enter the first link of its way.
    pub(super) fn send(&mut self, now: Nanos, from: Side, part: PacketRef, flights: &mut Flights) {
        self.enter(now, self.role(from), part, flights);
    }

    /// Moves packets from link to link until now, and returns the next that goes no further.
    pub(super) fn land(&mut self, now: Nanos, flights: &mut Flights) -> Option<Landed> {
        loop {
            let ways = (0..self.wires.len()).flat_map(|link| [(link, 0), (link, 1)]);
            let left = ways.into_iter().find_map(|(link, way)| {
                let wire = &mut self.wires[link];
                let departure = wire.channels[way].depart(now)?;
                if let Some(observer) = &mut wire.observers[way] {
                    let part = departure.handle;
                    let ip_header = self.header_bits as usize / 8;
                    let head = |room: &mut Vec<u8>| flights.beginning(part, ip_header, room);
                    observer.departed(&departure, seen(flights.packet(part)), head);
                }
                Some((wire.ends[1 - way], departure))
            });
            let (host, departure) = left?;
            let mut part = departure.handle;
            let End::Delivered(Changes { marked, flipped }) = departure.end else {
                return Some(Landed { part, is_sound: false });
            };
            part.is_marked |= marked;
            part.is_flipped |= flipped.is_some();
            // The checksums of IP and UDP detect every flip of a single bit: that of IP at the next host.
            let is_refused = flipped.is_some_and(|bit| bit < self.header_bits);
            if host == self.role(part.to) || is_refused {
                return Some(Landed { part, is_sound: !part.is_flipped });
            }
            self.enter(now, host, part, flights);
            flights.departed(part);
        }
    }

    /// Returns the index of the host of a side.
    fn role(&self, side: Side) -> usize {
        match side {
            Side::Near => self.roles[0],
            Side::Far => self.roles[1],
        }
    }

    fn enter(&mut self, now: Nanos, host: usize, part: PacketRef, flights: &mut Flights) {
        let Some((link, way)) = self.onward(now, host, part.to) else { return };
        let packet = flights.packet(part);
        let wire = &mut self.wires[link];
        if let Some(observer) = &mut wire.observers[way] {
            observer.arrived(now, seen(packet));
        }
        let channel = &mut wire.channels[way];
        flights.enter(part, |part| channel.arrive(now, &packet, part));
    }

    /// Returns the link by which a host sends to one side now, and which of its ends the host is.
    fn onward(&self, now: Nanos, host: usize, to: Side) -> Option<(usize, usize)> {
        let [near, far] = self.addresses;
        let link = match to {
            // The near host's address decides.
            Side::Far if host == self.roles[0] => near.0,
            side => {
                let (link, end) = if side == Side::Near { near } else { far };
                let routes = self.routes.iter().rfind(|routes| routes.from <= now)?;
                routes.link(host, link, end)?
            }
        };
        Some((link, self.wires[link].ends.iter().position(|end| *end == host)?))
    }

    /// Returns the figures of all links.
    pub(super) fn figures(&self) -> PathFigures {
        let way = |wire: &Wire, way: usize| DirectionFigures {
            fates: wire.channels[way].fates(),
            queue_course: wire.channels[way].queue_course(),
            losses: wire.channels[way].log().if_short(),
            wire: wire.observers[way].as_ref().and_then(|observer| observer.wire()).map(Box::new),
            ..DirectionFigures::default()
        };
        let link = |wire: &Wire| LinkFigures { up: way(wire, 0), down: way(wire, 1) };
        PathFigures { links: self.wires.iter().map(link).collect() }
    }
}

/// Returns what an observer needs of a packet. Datagrams do not tell which of them only acknowledge.
fn seen(packet: Packet) -> Seen {
    Seen { flow: packet.flow, bytes: packet.bytes, is_ack: false }
}

/// Checks that a network can be simulated.
///
/// # Errors
/// [`Error::Usage`] if a host between others has a network card of a given rate, or if two hosts have several links, of
/// which no contender would use but one.
pub(super) fn check(network: &Network) -> Result<()> {
    if !network.has_others() && network.links.len() != 1 {
        return Err(Error::usage(
            "simulated paths have one link between two hosts, as no contender that runs there uses several",
        ));
    }
    for (at, link) in network.links.iter().enumerate() {
        for (host, way) in link.ends.iter().zip([&link.up, &link.down]) {
            if ![network.near, network.far].contains(host) && way.nic != Nic::Usual {
                return Err(Error::usage(format!(
                    "link {}: a simulated host between others has no network card; leave out its nic=, or emulate the \
                     path without `sim:`",
                    network.link_name(at)
                )));
            }
        }
    }
    Ok(())
}
