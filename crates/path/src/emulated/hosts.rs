//! Hosts of an emulated network: network namespaces with a device for each of their links, which only descriptors
//! keep alive, so that nothing remains once all descriptors are closed.
//!
//! Link `i` has the addresses `198.18.i.1` (its first host, the near one of two) and `198.18.i.2` (its second), of
//! the block that RFC 2544 reserves for measurements, and `fd64:6864:6868:i::1` and `::2` (RFC 4193). Hosts between
//! others pass packets on, and each host has a route to each address that is on none of its own links
//! ([`super::routing`]). A NAT at the first host has the address `198.18.i.3`, which no host holds: packets to it go to
//! the link. With several links at the near host, its address decides which one a packet takes: through a
//! routing table for each of its addresses there, at the far host of two because each address is on a link of its own.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::card::{Card, Cards};
use super::entry::Namespaces;
use super::namespace::{self, Namespace};
use super::netlink::{Netlink, Settings};
use super::packet::Wire;
use super::port::Port;
use super::routing::{RouteTables, RoutedHost};
use super::sysctl;
use super::tun::{TUN_FILE, Tun};
use crate::Family;
use crate::addresses::addresses;
use crate::netem::{self, NetemLink, Spaces};
use crate::network::{Backend, Impairments, LEAST_IPV6_MTU, Link, Network};
use deadheat_base::error::{Error, Result};

/// Number of packets that may wait for a device: more than TCP has under way at 10 Gbit/s and 10 ms, so that only
/// the model loses packets.
const QUEUE: u32 = 10_000;
/// Largest number of links: one octet of an address counts them.
const MOST_LINKS: usize = 255;
/// Number of the routing table of link 0's near address.
const FIRST_TABLE: u32 = 1_000;

/// Hosts with their devices.
pub struct Hosts {
    /// Namespaces of the hosts.
    pub namespaces: Namespaces,
    /// Ports by link, at its first and its second host; empty where the kernel moves the packets.
    pub ports: Vec<[Box<dyn Port>; 2]>,
    /// Middle namespace with netem, where the kernel moves the packets.
    pub kernel: Option<Box<netem::Middle>>,
    /// Routes of the hosts, which are set.
    pub routes: RouteTables,
    /// Addresses by link, of its first and its second host: IPv4 and, where there is IPv6, IPv6.
    pub addresses: Vec<[Vec<IpAddr>; 2]>,
    /// Network cards of the hosts.
    pub cards: Cards,
    /// Kind of the devices.
    pub backend: Backend,
    /// Reason for this kind.
    pub why: String,
    /// Notes about settings that could not be made as intended.
    pub notes: Vec<String>,
}

impl Hosts {
    /// Builds the hosts. The calling process, which must have one thread only, is in another network namespace
    /// afterwards, and in another user namespace if it is not root.
    ///
    /// # Errors
    /// [`Error::Setup`] naming the missing right or device and the way to get it, [`Error::Unsupported`] where a
    /// requested backend is not available.
    pub fn build(network: &Network) -> Result<Hosts> {
        if network.links.len() > MOST_LINKS {
            return Err(Error::usage(format!("a path has at most {MOST_LINKS} links")));
        }
        let user = namespace::become_able()?;
        let mut notes = Vec::new();
        let mut hosts = Vec::new();
        for _ in &network.hosts {
            let notes = if hosts.is_empty() { &mut notes } else { &mut Vec::new() };
            hosts.push(HostBuilder::new(network.mtu(), notes)?);
        }
        let (made, backend, why) = make_devices(network, &hosts)?;
        let mut kernel = None;
        let ports = match made {
            NewDevices::Tun(ports) => {
                bring_up(network, &mut hosts)?;
                ports
            }
            NewDevices::Veth(mut middle) => {
                let links = network.links.iter().enumerate();
                links
                    .map(|(at, link)| middle.connect(at, link.mtu, link.ends, &mut hosts))
                    .collect::<Result<_>>()?
            }
            NewDevices::Kernel(middle) => {
                bring_up(network, &mut hosts)?;
                if !middle.is_seeded() {
                    notes.push("no seed: kernel or tc is older than 6.6".to_owned());
                }
                kernel = Some(middle);
                Vec::new()
            }
        };
        let (mut addresses, mut cards) = (Vec::new(), Vec::new());
        for (at, link) in network.links.iter().enumerate() {
            let mut place = |end: usize, way: &Impairments| -> Result<(Vec<IpAddr>, Card)> {
                let host = &mut hosts[link.ends[end]];
                Ok((host.addresses(end, at, link)?, host.card(at, way, &mut notes)?))
            };
            let ((first, up), (second, down)) = (place(0, &link.up)?, place(1, &link.down)?);
            addresses.push([first, second]);
            cards.push([up, down]);
        }
        notes.dedup();
        for at in (0..hosts.len()).filter(|at| network.forwards(*at)) {
            hosts[at].forward().map_err(failed("let a host pass packets on"))?;
        }
        if network.links_of(network.near).nth(1).is_some() {
            hosts[network.near].route_by_source()?;
            if let Err(error) = announce(&hosts[network.near], &hosts[network.far]) {
                notes.push(format!("multipath TCP uses one link only ({error})"));
            }
        }
        let (fds, routed) = hosts.into_iter().map(HostBuilder::into_parts).unzip();
        let routes = RouteTables::new(network, &addresses, routed)?;
        Ok(Hosts {
            namespaces: Namespaces::new(user, fds),
            ports,
            kernel,
            routes,
            addresses,
            cards: Cards(cards),
            backend,
            why,
            notes,
        })
    }
}

/// Brings up the devices of all links at their hosts.
fn bring_up(network: &Network, hosts: &mut [HostBuilder]) -> Result<()> {
    for (at, link) in network.links.iter().enumerate() {
        for end in link.ends {
            hosts[end].device(at, link.mtu, 0)?;
        }
    }
    Ok(())
}

fn device_name(link: usize) -> String {
    format!("dh{link}")
}

fn failed(what: &str) -> impl FnOnce(io::Error) -> Error + '_ {
    move |e| Error::setup(what, e)
}

/// Host under construction.
struct HostBuilder {
    namespace: Namespace,
    netlink: Netlink,
    version_6: bool,
    /// Links with its end of each, in order: the interface index of its device, and its addresses.
    ends: Vec<LinkEnd>,
}

/// End of a link at a host.
struct LinkEnd {
    link: usize,
    /// Interface index of the device.
    index: u32,
    addresses: Vec<IpAddr>,
}

impl HostBuilder {
    /// Creates a new namespace and moves the calling thread there.
    fn new(mtu: u16, notes: &mut Vec<String>) -> Result<HostBuilder> {
        let namespace = Namespace::new()?;
        sysctl::quiet();
        sysctl::host(notes);
        let version_6 = sysctl::has_ipv6() && mtu >= LEAST_IPV6_MTU;
        let mut netlink = Netlink::route().map_err(failed("open a netlink socket"))?;
        let up = netlink.device("lo").and_then(|lo| netlink.set_flags(lo.index, libc::IFF_UP));
        up.map_err(failed("bring up a host's loopback device"))?;
        Ok(HostBuilder { namespace, netlink, version_6, ends: Vec::new() })
    }

    /// Brings up the host's end of a link.
    fn device(&mut self, link: usize, mtu: u16, flags: libc::c_int) -> Result<()> {
        let name = device_name(link);
        let doing = format!("set up the device {name}");
        let index = self.netlink.device(&name).map_err(failed(&doing))?.index;
        set_up(&mut self.netlink, index, mtu, flags).map_err(failed(&doing))?;
        self.ends.push(LinkEnd { link, index, addresses: Vec::new() });
        Ok(())
    }

    /// Returns the interface index of its device of a link; 0, which no device has, where there is none.
    fn device_of(&self, link: usize) -> u32 {
        self.ends.iter().find(|end| end.link == link).map_or(0, |end| end.index)
    }

    /// Puts its network card before its device of a link, by which it sends in the direction `way`.
    fn card(&mut self, link: usize, way: &Impairments, notes: &mut Vec<String>) -> Result<Card> {
        let netlink = self.namespace.within(Netlink::route);
        let netlink = netlink.map_err(failed("open a netlink socket"))?;
        Card::new(netlink, &device_name(link), way, notes)
    }

    /// Returns the addresses that it will have as this end of a link.
    fn planned(&self, end: usize, at: usize, link: &Link) -> Vec<(IpAddr, u8)> {
        let all = addresses(end, at).into_iter();
        let is_there = |address: IpAddr| address.is_ipv4() || self.version_6;
        all.filter(|(address, _)| is_there(*address) && link.carries(Family::of(*address)))
            .collect()
    }

    /// Gives it the addresses of this end of a link, and returns them.
    fn addresses(&mut self, end: usize, at: usize, link: &Link) -> Result<Vec<IpAddr>> {
        let index = self.device_of(at);
        let mut given = Vec::new();
        for (address, bits) in self.planned(end, at, link) {
            let done = self.netlink.add_address(index, address, bits);
            done.map_err(failed(&format!("give a host the address {address}")))?;
            given.push(address);
        }
        let own = self.ends.iter_mut().find(|own| own.link == at);
        own.into_iter().for_each(|own| own.addresses.clone_from(&given));
        Ok(given)
    }

    /// Lets it pass packets on. Its devices take no multicast: on each that does, a router joins groups of IPv6 and says so
    /// in packets that would be in the account.
    fn forward(&mut self) -> io::Result<()> {
        for end in &self.ends {
            self.netlink.clear_flags(end.index, libc::IFF_MULTICAST)?;
        }
        self.namespace.within(sysctl::forward)
    }

    /// Returns its namespace, and what its routes need.
    fn into_parts(self) -> (OwnedFd, RoutedHost) {
        let devices = self.ends.iter().map(|end| (end.link, end.index)).collect();
        (self.namespace.fd, RoutedHost { netlink: self.netlink, devices })
    }

    fn route_by_source(&mut self) -> Result<()> {
        for (at, end) in self.ends.iter().enumerate() {
            for address in &end.addresses {
                let table = FIRST_TABLE + at as u32;
                let done = self.netlink.route_by_source(*address, end.index, table);
                done.map_err(failed(&format!("route what is from {address} by its link")))?;
            }
        }
        Ok(())
    }
}

fn set_up(netlink: &mut Netlink, index: u32, mtu: u16, flags: libc::c_int) -> io::Result<()> {
    let gso_segments = (flags & libc::IFF_NOARP != 0 && !sysctl::takes_udp_super_packets())
        // Packet sockets would lose super-packets of UDP.
        .then_some(1);
    let settings = Settings { mtu: Some(mtu.into()), queue: Some(QUEUE), gso_segments };
    netlink.set(index, settings)?;
    if flags != 0 {
        netlink.set_flags(index, flags)?;
    }
    netlink.set_flags(index, libc::IFF_UP)
}

/// Devices that exist and are not set up yet.
enum NewDevices {
    Tun(Vec<[Box<dyn Port>; 2]>),
    Veth(VethMiddle),
    Kernel(Box<netem::Middle>),
}

fn make_devices(network: &Network, hosts: &[HostBuilder]) -> Result<(NewDevices, Backend, String)> {
    let asked = "as asked";
    let tuns = || tuns(network, hosts);
    match network.backend {
        Some(Backend::Tun) => match tuns() {
            Ok(ports) => Ok((NewDevices::Tun(ports), Backend::Tun, asked.to_owned())),
            Err(error) => Err(Error::unsupported(
                "backend=tun",
                format!(
                    "{TUN_FILE}: {error}; backend=packet works without it, and \
                     `chmod 0666 {TUN_FILE}` (or, for a container, --device {TUN_FILE}) lets \
                     everyone make TUN devices"
                ),
            )),
        },
        Some(Backend::Packet) => {
            Ok((NewDevices::Veth(VethMiddle::new()?), Backend::Packet, asked.to_owned()))
        }
        Some(Backend::Netem) => {
            Ok((NewDevices::Kernel(between(network, hosts)?), Backend::Netem, asked.to_owned()))
        }
        None => match tuns() {
            Ok(ports) => {
                Ok((NewDevices::Tun(ports), Backend::Tun, format!("{TUN_FILE} can be used")))
            }
            Err(error) => {
                let why = format!("no TUN device: {TUN_FILE}: {error}");
                Ok((NewDevices::Veth(VethMiddle::new()?), Backend::Packet, why))
            }
        },
    }
}

/// Builds the host in between with the kernel's netem; the calling thread stays in it.
fn between(network: &Network, hosts: &[HostBuilder]) -> Result<Box<netem::Middle>> {
    if network.has_others() {
        return Err(Error::unsupported(
            "backend=netem",
            "it stands between two hosts, and this network has more; backend=tun and backend=packet take them",
        ));
    }
    let (near, far) = (&hosts[network.near], &hosts[network.far]);
    let middle = Namespace::new()?;
    sysctl::quiet();
    let spaces = Spaces {
        near: near.namespace.fd.as_fd(),
        middle: middle.fd.as_fd(),
        far: far.namespace.fd.as_fd(),
    };
    let planned = |host: &HostBuilder, end, at, link| {
        host.planned(end, at, link).into_iter().map(|(address, _)| address).collect()
    };
    let links = network.links.iter().enumerate();
    let lines: Vec<NetemLink> = links
        .map(|(at, link)| NetemLink {
            device: device_name(at),
            near: planned(near, 0, at, link),
            far: planned(far, 1, at, link),
        })
        .collect();
    netem::Middle::set_up(network, spaces, &lines).map(Box::new)
}

fn tuns(network: &Network, hosts: &[HostBuilder]) -> io::Result<Vec<[Box<dyn Port>; 2]>> {
    let at = |link: usize, host: usize| -> io::Result<Box<dyn Port>> {
        hosts[host].namespace.join()?;
        Ok(Box::new(Tun::make(&device_name(link))?))
    };
    let links = network.links.iter().enumerate();
    links.map(|(link, Link { ends: [a, b], .. })| Ok([at(link, *a)?, at(link, *b)?])).collect()
}

/// Namespace between the hosts, with the inner ends of veth pairs; the calling thread stays in it.
struct VethMiddle {
    netlink: Netlink,
    _namespace: Namespace,
}

impl VethMiddle {
    fn new() -> Result<VethMiddle> {
        let namespace = Namespace::new()?;
        sysctl::mute();
        let netlink = Netlink::route().map_err(failed("open a netlink socket"))?;
        Ok(VethMiddle { netlink, _namespace: namespace })
    }

    /// Connects the veth pairs of a link, one to each of its hosts.
    fn connect(
        &mut self,
        link: usize,
        mtu: u16,
        [first, second]: [usize; 2],
        hosts: &mut [HostBuilder],
    ) -> Result<[Box<dyn Port>; 2]> {
        let first = self.pair(&format!("a{link}"), link, mtu, &mut hosts[first])?;
        let second = self.pair(&format!("b{link}"), link, mtu, &mut hosts[second])?;
        Ok([Box::new(first), Box::new(second)])
    }

    fn pair(&mut self, inner: &str, link: usize, mtu: u16, host: &mut HostBuilder) -> Result<Wire> {
        let outer = device_name(link);
        let doing = format!("make the veth pair {outer}");
        let there = host.namespace.fd.as_raw_fd();
        self.netlink.add_veth(inner, &outer, there).map_err(failed(&doing))?;
        host.device(link, mtu, libc::IFF_NOARP)?;
        self.open(inner, &outer, mtu, host).map_err(failed(&doing))
    }

    fn open(
        &mut self,
        inner: &str,
        outer: &str,
        mtu: u16,
        host: &mut HostBuilder,
    ) -> io::Result<Wire> {
        let index = self.netlink.device(inner)?.index;
        set_up(&mut self.netlink, index, mtu, libc::IFF_NOARP)?;
        Wire::open(&self.netlink.device(inner)?, host.netlink.device(outer)?.address)
    }
}

/// Sets up multipath TCP (RFC 8684) from the near host over every link, by the kernel's path manager: a subflow
/// from each of its addresses. The far host announces no address, since a subflow to an announced address would be
/// a second one on the same link.
fn announce(near: &HostBuilder, far: &HostBuilder) -> io::Result<()> {
    let further = near.ends.len() as u32 - 1;
    let limits = |host: &HostBuilder| -> io::Result<(Netlink, u16)> {
        let mut netlink = host.namespace.within(Netlink::generic)?;
        let family = netlink.family("mptcp_pm")?;
        netlink.mptcp_limits(family, further)?;
        Ok((netlink, family))
    };
    limits(far)?;
    let (mut netlink, family) = limits(near)?;
    for address in near.ends.iter().skip(1).flat_map(|end| &end.addresses) {
        netlink.mptcp_subflow(family, *address)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_and_host_has_addresses_of_its_own() {
        let mut all: Vec<IpAddr> = [0, 1]
            .iter()
            .flat_map(|end| (0..MOST_LINKS).flat_map(|link| addresses(*end, link)))
            .map(|(address, _)| address)
            .collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 4 * MOST_LINKS);
        let text = addresses(1, 1).map(|(address, bits)| format!("{address}/{bits}"));
        assert_eq!(text, ["198.18.1.2/24", "fd64:6864:6868:1::2/64"]);
    }
}
