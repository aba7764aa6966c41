//! Links of a simulated network. A packet crosses one after another, by the same channels, seeds, routes, NATs and firewalls
//! as in an emulated one. Hosts between others take no time, and have no network card.

use super::flight::{Flights, PacketRef};
use super::header::{Endpoint, PacketHeader};
use super::middlebox::SimulatedMiddlebox;
use deadheat_base::ecn::Codepoint;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;
use deadheat_contract::contract::{Direction, Side};
use deadheat_contract::measurements::path::{
    DirectionFigures, LinkFigures, PathFigures, QueueCourse,
};
use deadheat_path::impair::Channel;
use deadheat_path::impair::packet::{Cause, Changes, End, Packet, Place};
use deadheat_path::nat::Verdict;
use deadheat_path::network::{Network, Nic, USUAL_NIC};
use deadheat_path::observe::log::{Outcome, PacketLog};
use deadheat_path::observe::{Observation, Observer, Seen};
use deadheat_path::routes::{self, Routes};

/// Links with the packets on them.
pub(super) struct Wires {
    wires: Vec<Wire>,
    routes: Vec<Routes>,
    /// Length of an IP header in bytes.
    ip_header: usize,
}

struct Wire {
    ends: [usize; 2],
    channels: [Channel<PacketRef>; 2],
    observers: [Option<Box<Observer>>; 2],
    /// Rates at which the first and the second host hand packets to it.
    nics: [BitRate; 2],
    /// NAT or firewall of the first host.
    middlebox: Option<SimulatedMiddlebox>,
    /// End of the link whose routes lead to the public address of a NAT.
    public_end: usize,
}

/// Packet that crosses no further link: it is at its end, or was dropped.
pub(super) struct Landed {
    pub(super) part: PacketRef,
    /// True if it arrived, and as it was sent.
    pub(super) is_sound: bool,
}

impl Wires {
    /// Creates the links of a network, empty, with `seed` for their draws.
    pub(super) fn new(network: &Network, seed: u64, ip_header: u64) -> Wires {
        let wire = |(at, link): (usize, &deadheat_path::network::Link)| {
            let channel = |direction| {
                let place = Place { seed, link: at as u16, direction };
                Channel::new(link.toward(direction), place)
            };
            let middlebox = link.middlebox.as_ref();
            Wire {
                ends: link.ends,
                channels: [channel(Direction::Up), channel(Direction::Down)],
                observers: [None, None],
                nics: [&link.up, &link.down].map(|way| way.nic_rate().unwrap_or(USUAL_NIC)),
                middlebox: middlebox.map(|one| SimulatedMiddlebox::new(one, at, network.mtu())),
                public_end: usize::from(network.forwards(link.ends[1])),
            }
        };
        Wires {
            wires: network.links.iter().enumerate().map(wire).collect(),
            routes: routes::over_time(network),
            ip_header: ip_header as usize,
        }
    }

    /// Returns the endpoints of a connection that one host opens to another, with these ports: the other is dialled on its
    /// first link, and the host sends from its address on the link that leads there.
    ///
    /// # Errors
    /// [`Error::Usage`] where there is no way.
    pub(super) fn join(&self, [near, far]: [usize; 2], ports: [u16; 2]) -> Result<[Endpoint; 2]> {
        let end_on =
            |link: usize, host| self.wires.get(link)?.ends.iter().position(|end| *end == host);
        let found = || {
            let first = self.wires.iter().position(|wire| wire.ends.contains(&far))?;
            let far = Endpoint::new(first, end_on(first, far)?, ports[1]);
            let out = self.routes.first()?.link(near, far.link(), far.end())?;
            Some([Endpoint::new(out, end_on(out, near)?, ports[0]), far])
        };
        found().ok_or_else(|| Error::usage("a path without a way between its ends"))
    }

    /// Opens the bindings on the way of a connection, as the hello of real trials does, which takes no time here. Returns
    /// the endpoint that the far end answers to.
    pub(super) fn greet(&mut self, now: Nanos, mut ends: [Endpoint; 2]) -> Endpoint {
        let (own, mut host) = (ends[0], self.host_of(ends[0]));
        for _ in 0..=self.wires.len() {
            if host == self.host_of(ends[1]) {
                return ends[0];
            }
            let Some((link, way)) = self.onward(now, host, ends, Side::Far) else { return own };
            let ip_header = self.ip_header;
            let hello = PacketHeader {
                ends,
                bytes: ip_header + 8,
                datagram: 8,
                codepoint: Codepoint::NotEct,
                fragment: None,
            };
            let head = |room: &mut Vec<u8>| _ = hello.write(ip_header, room);
            let wire = &mut self.wires[link];
            let passes = match &mut wire.middlebox {
                Some(middlebox) if way == 0 => {
                    middlebox.outward(now, &mut ends, head) == Verdict::Passes
                }
                Some(middlebox) => middlebox.inward(now, &mut ends, head),
                None => true,
            };
            if !passes {
                return own;
            }
            host = wire.ends[1 - way];
        }
        own
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

    /// Returns the rate at which a host hands a packet between these ends, to one side, to the link by which it sends now.
    pub(super) fn nic(&self, now: Nanos, ends: [Endpoint; 2], to: Side) -> BitRate {
        let link = self.onward(now, self.host_of(ends[0]), ends, to);
        link.map_or(USUAL_NIC, |(link, end)| self.wires[link].nics[end])
    }

    /// Makes a packet enter the first link of its way.
    pub(super) fn send(&mut self, now: Nanos, part: PacketRef, flights: &mut Flights) {
        self.enter(now, self.host_of(part.ends[0]), part, flights);
    }

    /// Moves packets from link to link until now, and returns the next that goes no further.
    pub(super) fn land(&mut self, now: Nanos, flights: &mut Flights) -> Option<Landed> {
        loop {
            let ways = (0..self.wires.len()).flat_map(|link| [(link, 0), (link, 1)]);
            let ip_header = self.ip_header;
            let left = ways
                .into_iter()
                .find_map(|(link, way)| self.wires[link].depart(now, way, flights, ip_header));
            let (host, mut part, changes) = left?;
            let Some(Changes { marked, flipped }) = changes else {
                return Some(Landed { part, is_sound: false });
            };
            part.is_marked |= marked;
            part.is_flipped |= flipped.is_some();
            // The checksums of IP and UDP detect every flip of a single bit: that of IP at the next host.
            let is_refused = flipped.is_some_and(|bit| bit < 8 * self.ip_header as u32);
            if host == self.host_of(part.ends[1]) || is_refused {
                return Some(Landed { part, is_sound: !part.is_flipped });
            }
            self.enter(now, host, part, flights);
            flights.departed(part);
        }
    }

    /// Returns the index of the host at an endpoint.
    pub(super) fn host_of(&self, end: Endpoint) -> usize {
        self.wires[end.link()].ends[end.host()]
    }

    fn enter(&mut self, now: Nanos, host: usize, mut part: PacketRef, flights: &mut Flights) {
        let Some((link, way)) = self.onward(now, host, part.ends, part.to) else { return };
        let (packet, ip_header) = (flights.packet(part), self.ip_header);
        let wire = &mut self.wires[link];
        let verdict = match &mut wire.middlebox {
            Some(middlebox) if way == 0 => {
                let header = flights.header(part);
                middlebox.outward(now, &mut part.ends, |room| _ = header.write(ip_header, room))
            }
            _ => Verdict::Passes,
        };
        if verdict == Verdict::Returns {
            return self.enter(now, host, part, flights);
        }
        if let Some(observer) = &mut wire.observers[way] {
            observer.arrived(now, seen(packet));
        }
        let channel = &mut wire.channels[way];
        flights.enter(part, |part| match verdict {
            Verdict::Blocked => channel.block(now, &packet, part),
            _ => channel.arrive(now, &packet, part),
        });
    }

    /// Returns the link by which a host sends a packet between these ends to one side now, and which of its ends the host
    /// is.
    fn onward(
        &self,
        now: Nanos,
        host: usize,
        [source, destination]: [Endpoint; 2],
        to: Side,
    ) -> Option<(usize, usize)> {
        let link = match destination.link() {
            // The near host's address decides.
            _ if to == Side::Far && !source.is_public() && host == self.host_of(source) => {
                source.link()
            }
            own if destination.is_public() && self.wires[own].ends[1] == host => own,
            own => {
                let is_public = destination.is_public();
                let end = if is_public { self.wires[own].public_end } else { destination.end() };
                let routes = self.routes.iter().rfind(|routes| routes.from <= now)?;
                routes.link(host, own, end)?
            }
        };
        Some((link, self.wires[link].ends.iter().position(|end| *end == host)?))
    }

    /// Returns the figures of all links.
    pub(super) fn figures(&self) -> PathFigures {
        let link = |wire: &Wire| LinkFigures { up: wire.figures(0), down: wire.figures(1) };
        PathFigures { links: self.wires.iter().map(link).collect() }
    }
}

impl Wire {
    /// Removes the next packet that leaves one direction until now: the host that it comes to, and its changes if it was
    /// delivered.
    fn depart(
        &mut self,
        now: Nanos,
        way: usize,
        flights: &Flights,
        ip_header: usize,
    ) -> Option<(usize, PacketRef, Option<Changes>)> {
        let departure = self.channels[way].depart(now)?;
        let mut part = departure.handle;
        let observer = &mut self.observers[way];
        if let Some(observer) = observer {
            let head = |room: &mut Vec<u8>| flights.beginning(part, ip_header, room);
            observer.departed(&departure, seen(flights.packet(part)), head);
        }
        let host = self.ends[1 - way];
        let End::Delivered(changes) = departure.end else { return Some((host, part, None)) };
        let Some(middlebox) = self.middlebox.as_mut().filter(|_| way == 1) else {
            return Some((host, part, Some(changes)));
        };
        let header = flights.header(part);
        let head = |room: &mut Vec<u8>| _ = header.write(ip_header, room);
        let passes = middlebox.inward(departure.at, &mut part.ends, head);
        if !passes {
            let (packets, bytes) = &mut middlebox.refused;
            *packets += 1;
            *bytes += u64::from(flights.packet(part).bytes);
        }
        let changes = Some(changes).filter(|_| passes);
        if let Some(observer) = observer {
            observer.settle(changes.map_or(Outcome::Dropped(Cause::Blocked), Outcome::Delivered));
        }
        Some((host, part, changes))
    }

    /// Returns the figures of one direction.
    fn figures(&self, way: usize) -> DirectionFigures {
        let behind = self.middlebox.as_ref().filter(|_| way == 1);
        let refused = behind.map_or((0, 0), |middlebox| middlebox.refused);
        let course = self.channels[way].queue_course();
        DirectionFigures {
            fates: self.channels[way].fates().blocked_behind(refused),
            queue_course: course.map(|course| QueueCourse { began_ns: Some(0), ..course }),
            losses: self.channels[way].log().if_short(),
            wire: self.observers[way].as_ref().and_then(|observer| observer.wire()).map(Box::new),
            ..DirectionFigures::default()
        }
    }
}

/// Returns what an observer needs of a packet. Datagrams do not tell which of them only acknowledge.
fn seen(packet: Packet) -> Seen {
    Seen { flow: packet.flow, bytes: packet.bytes, is_ack: false }
}

/// Checks that a network can be simulated.
///
/// # Errors
/// [`Error::Usage`] if a host between others has a network card of a given rate, if two hosts have several links, of which
/// no contender would use but one, or if a host makes IPv4 of IPv6.
pub(super) fn check(network: &Network) -> Result<()> {
    if !network.has_others() && network.links.len() != 1 {
        return Err(Error::usage(
            "simulated paths have one link between two hosts, as no contender that runs there uses several",
        ));
    }
    if network.has_nat64() {
        return Err(Error::usage(
            "nat=64 makes IPv4 of IPv6, and simulated packets have one version of IP; leave out \
             `sim:`, and it is emulated",
        ));
    }
    let ends: Vec<usize> = network.roles().into_iter().flat_map(|(_, hosts)| hosts).collect();
    for (at, link) in network.links.iter().enumerate() {
        for (host, way) in link.ends.iter().zip([&link.up, &link.down]) {
            if !ends.contains(host) && way.nic != Nic::Usual {
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
