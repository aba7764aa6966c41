//! Two hosts of an emulated network: network namespaces with a device for each link, which only descriptors keep
//! alive, so that nothing remains once all descriptors are closed.
//!
//! Link `i` has the addresses `198.18.i.1` (near) and `198.18.i.2` (far), of the block that RFC 2544 reserves for
//! measurements, and `fd64:6864:6868:i::1` and `::2` (RFC 4193). With several links, the near host's address
//! decides which one a packet takes, in both directions: at the near host through a routing table for each of its
//! addresses, at the far host because each address is on a link of its own.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::card::{Card, Cards};
use super::namespace::{self, Namespace};
use super::netlink::{Netlink, Settings};
use super::packet::Wire;
use super::port::Port;
use super::sysctl;
use super::tun::{TUN_FILE, Tun};
use crate::netem::{self, NetemLink, Spaces};
use crate::network::{Backend, Impairments, Link, Network};
use deadheat_base::ends::Side;
use deadheat_base::error::{Error, Result};

/// Number of packets that may wait for a device: more than TCP has under way at 10 Gbit/s and 10 ms, so that only
/// the model loses packets.
const QUEUE: u32 = 10_000;
/// Least MTU that IPv6 requires of a link (RFC 8200, section 5).
const LEAST_IPV6_MTU: u16 = 1_280;
/// Largest number of links: one octet of an address counts them.
const MOST_LINKS: usize = 255;
/// Number of the routing table of link 0's near address.
const FIRST_TABLE: u32 = 1_000;

/// Network namespaces of the two hosts.
#[derive(Debug)]
pub struct Namespaces {
    /// User namespace that owns the other two, where the user is not root.
    user: Option<OwnedFd>,
    near: OwnedFd,
    far: OwnedFd,
}

impl Namespaces {
    /// Takes over namespaces that another process made.
    pub fn from_parts(user: Option<OwnedFd>, near: OwnedFd, far: OwnedFd) -> Namespaces {
        Namespaces { user, near, far }
    }

    /// Returns the descriptors: user namespace, near and far network namespace.
    pub fn parts(&self) -> (Option<BorrowedFd<'_>>, BorrowedFd<'_>, BorrowedFd<'_>) {
        (self.user.as_ref().map(AsFd::as_fd), self.near.as_fd(), self.far.as_fd())
    }

    /// Returns the entry to one of the hosts.
    pub fn entry(&self, side: Side) -> Entry<'_> {
        let net = match side {
            Side::Near => self.near.as_fd(),
            Side::Far => self.far.as_fd(),
        };
        Entry { user: self.user.as_ref().map(AsFd::as_fd), net }
    }
}

/// Entry into a host: the namespaces to join.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    user: Option<BorrowedFd<'a>>,
    net: BorrowedFd<'a>,
}

impl<'a> Entry<'a> {
    /// Creates an entry into a user namespace, where there is one, and a network namespace.
    pub fn new(user: Option<BorrowedFd<'a>>, net: BorrowedFd<'a>) -> Entry<'a> {
        Entry { user, net }
    }

    /// Returns the descriptors, for [`namespace::enter`].
    pub(super) fn raw(&self) -> (Option<RawFd>, RawFd) {
        (self.user.map(|fd| fd.as_raw_fd()), self.net.as_raw_fd())
    }

    /// Makes the command run in that host. The namespaces must exist until it is started.
    pub fn prepare(&self, command: &mut Command) {
        let (user, net) = self.raw();
        // SAFETY: the closure makes two system calls on integers and touches nothing else.
        unsafe { command.pre_exec(move || namespace::enter(user, net)) };
    }

    /// Makes the command run in that host, and keeps the namespaces alive until then with descriptors of its own.
    ///
    /// # Errors
    /// Fails if this process may have no more descriptors.
    pub fn prepare_for_later(&self, command: &mut Command) -> io::Result<()> {
        let user = self.user.map(|fd| fd.try_clone_to_owned()).transpose()?;
        let net = self.net.try_clone_to_owned()?;
        let enter =
            move || namespace::enter(user.as_ref().map(AsRawFd::as_raw_fd), net.as_raw_fd());
        // SAFETY: the closure makes two system calls on integers and touches nothing else.
        unsafe { command.pre_exec(enter) };
        Ok(())
    }
}

/// Two hosts with their devices.
pub struct Hosts {
    /// Namespaces of the hosts.
    pub namespaces: Namespaces,
    /// Ports by link: near and far; empty where the kernel moves the packets.
    pub ports: Vec<[Box<dyn Port>; 2]>,
    /// Middle namespace with netem, where the kernel moves the packets.
    pub kernel: Option<netem::Middle>,
    /// Addresses of the near host: IPv4 and, where there is IPv6, IPv6, link by link.
    pub near: Vec<IpAddr>,
    /// Addresses of the far host, in the same order.
    pub far: Vec<IpAddr>,
    /// Network cards of both hosts.
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
        let mut near = HostBuilder::new(network.mtu, &mut notes)?;
        let mut far = HostBuilder::new(network.mtu, &mut Vec::new())?;
        let (made, backend, why) = make_devices(network, &near, &far)?;
        let mut kernel = None;
        let ports = match made {
            NewDevices::Tun(ports) => {
                bring_up(network, [&mut near, &mut far])?;
                ports
            }
            NewDevices::Veth(mut middle) => (0..network.links.len())
                .map(|link| middle.connect(link, network.mtu, &mut near, &mut far))
                .collect::<Result<_>>()?,
            NewDevices::Kernel(middle) => {
                bring_up(network, [&mut near, &mut far])?;
                if !middle.is_seeded() {
                    notes.push("no seed: kernel or tc is older than 6.6".to_owned());
                }
                kernel = Some(middle);
                Vec::new()
            }
        };
        for (link, Link { up, down }) in network.links.iter().enumerate() {
            near.addresses(Side::Near, link)?;
            far.addresses(Side::Far, link)?;
            near.card(link, up, &mut notes)?;
            far.card(link, down, &mut notes)?;
        }
        notes.dedup();
        if network.links.len() > 1 {
            near.route_by_source()?;
            if let Err(error) = announce(&near, &far, network.links.len()) {
                notes.push(format!("multipath TCP uses one link only ({error})"));
            }
        }
        Ok(Hosts {
            namespaces: Namespaces { user, near: near.namespace.fd, far: far.namespace.fd },
            ports,
            kernel,
            near: near.addresses,
            far: far.addresses,
            cards: Cards::of(near.cards, far.cards),
            backend,
            why,
            notes,
        })
    }
}

/// Brings up the devices of all links at both hosts.
fn bring_up(network: &Network, hosts: [&mut HostBuilder; 2]) -> Result<()> {
    for host in hosts {
        for link in 0..network.links.len() {
            host.device(&device_name(link), network.mtu, 0)?;
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
    /// Interface indices of its devices, by link.
    devices: Vec<u32>,
    addresses: Vec<IpAddr>,
    /// Network cards, by link.
    cards: Vec<Card>,
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
        let (devices, addresses, cards) = (Vec::new(), Vec::new(), Vec::new());
        Ok(HostBuilder { namespace, netlink, version_6, devices, addresses, cards })
    }

    /// Brings up the host's end of the next link.
    fn device(&mut self, name: &str, mtu: u16, flags: libc::c_int) -> Result<()> {
        let doing = format!("set up the device {name}");
        let index = self.netlink.device(name).map_err(failed(&doing))?.index;
        set_up(&mut self.netlink, index, mtu, flags).map_err(failed(&doing))?;
        self.devices.push(index);
        Ok(())
    }

    /// Puts its network card before its device of the next link, by which it sends in the direction `way`.
    fn card(&mut self, link: usize, way: &Impairments, notes: &mut Vec<String>) -> Result<()> {
        let netlink = self.namespace.within(Netlink::route);
        let netlink = netlink.map_err(failed("open a netlink socket"))?;
        self.cards.push(Card::new(netlink, &device_name(link), way, notes)?);
        Ok(())
    }

    /// Returns the addresses that it will have on a link.
    fn planned(&self, side: Side, link: usize) -> Vec<IpAddr> {
        let all = addresses(side, link).into_iter().map(|(address, _)| address);
        all.filter(|address| address.is_ipv4() || self.version_6).collect()
    }

    fn addresses(&mut self, side: Side, link: usize) -> Result<()> {
        for (address, bits) in addresses(side, link) {
            if address.is_ipv6() && !self.version_6 {
                continue;
            }
            let done = self.netlink.add_address(self.devices[link], address, bits);
            done.map_err(failed(&format!("give a host the address {address}")))?;
            self.addresses.push(address);
        }
        Ok(())
    }

    fn route_by_source(&mut self) -> Result<()> {
        for (link, index) in self.devices.iter().enumerate() {
            for (address, _) in addresses(Side::Near, link) {
                if self.addresses.contains(&address) {
                    let table = FIRST_TABLE + link as u32;
                    let done = self.netlink.route_by_source(address, *index, table);
                    done.map_err(failed(&format!("route what is from {address} by its link")))?;
                }
            }
        }
        Ok(())
    }
}

/// Returns a link's addresses at one of the hosts, and the bits of their subnets.
fn addresses(side: Side, link: usize) -> [(IpAddr, u8); 2] {
    let host = match side {
        Side::Near => 1,
        Side::Far => 2,
    };
    let v4 = Ipv4Addr::new(198, 18, link as u8, host);
    let v6 = Ipv6Addr::new(0xfd64, 0x6864, 0x6868, link as u16, 0, 0, 0, u16::from(host));
    [(IpAddr::V4(v4), 24), (IpAddr::V6(v6), 64)]
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
    Kernel(netem::Middle),
}

fn make_devices(
    network: &Network,
    near: &HostBuilder,
    far: &HostBuilder,
) -> Result<(NewDevices, Backend, String)> {
    let asked = "as asked";
    let tuns = || tuns(network.links.len(), near, far);
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
            Ok((NewDevices::Kernel(between(network, near, far)?), Backend::Netem, asked.to_owned()))
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
fn between(network: &Network, near: &HostBuilder, far: &HostBuilder) -> Result<netem::Middle> {
    let middle = Namespace::new()?;
    sysctl::quiet();
    let spaces = Spaces {
        near: near.namespace.fd.as_fd(),
        middle: middle.fd.as_fd(),
        far: far.namespace.fd.as_fd(),
    };
    let lines: Vec<NetemLink> = (0..network.links.len())
        .map(|link| NetemLink {
            device: device_name(link),
            near: near.planned(Side::Near, link),
            far: far.planned(Side::Far, link),
        })
        .collect();
    netem::Middle::set_up(network, spaces, &lines)
}

fn tuns(
    links: usize,
    near: &HostBuilder,
    far: &HostBuilder,
) -> io::Result<Vec<[Box<dyn Port>; 2]>> {
    let all = |host: &HostBuilder| -> io::Result<Vec<Tun>> {
        host.namespace.join()?;
        (0..links).map(|link| Tun::make(&device_name(link))).collect()
    };
    let both = all(near)?.into_iter().zip(all(far)?);
    Ok(both.map(|(near, far)| [Box::new(near) as Box<dyn Port>, Box::new(far) as _]).collect())
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

    /// Connects the veth pairs of a link, one to each host.
    fn connect(
        &mut self,
        link: usize,
        mtu: u16,
        near: &mut HostBuilder,
        far: &mut HostBuilder,
    ) -> Result<[Box<dyn Port>; 2]> {
        let near = self.pair(&format!("near{link}"), link, mtu, near)?;
        let far = self.pair(&format!("far{link}"), link, mtu, far)?;
        Ok([Box::new(near), Box::new(far)])
    }

    fn pair(&mut self, inner: &str, link: usize, mtu: u16, host: &mut HostBuilder) -> Result<Wire> {
        let outer = device_name(link);
        let doing = format!("make the veth pair {outer}");
        let there = host.namespace.fd.as_raw_fd();
        self.netlink.add_veth(inner, &outer, there).map_err(failed(&doing))?;
        host.device(&outer, mtu, libc::IFF_NOARP)?;
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
fn announce(near: &HostBuilder, far: &HostBuilder, links: usize) -> io::Result<()> {
    let limits = |host: &HostBuilder| -> io::Result<(Netlink, u16)> {
        let mut netlink = host.namespace.within(Netlink::generic)?;
        let family = netlink.family("mptcp_pm")?;
        netlink.mptcp_limits(family, links as u32 - 1)?;
        Ok((netlink, family))
    };
    limits(far)?;
    let (mut netlink, family) = limits(near)?;
    for address in near.addresses.iter().filter(|address| !is_of_first_link(address)) {
        netlink.mptcp_subflow(family, *address)?;
    }
    Ok(())
}

fn is_of_first_link(address: &IpAddr) -> bool {
    addresses(Side::Near, 0).iter().any(|(first, _)| first == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_and_host_has_addresses_of_its_own() {
        let mut all: Vec<IpAddr> = [Side::Near, Side::Far]
            .iter()
            .flat_map(|side| (0..MOST_LINKS).flat_map(|link| addresses(*side, link)))
            .map(|(address, _)| address)
            .collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 4 * MOST_LINKS);
        let text = addresses(Side::Far, 1).map(|(address, bits)| format!("{address}/{bits}"));
        assert_eq!(text, ["198.18.1.2/24", "fd64:6864:6868:1::2/64"]);
        assert!(is_of_first_link(&addresses(Side::Near, 0)[1].0));
        assert!(!is_of_first_link(&addresses(Side::Near, 1)[0].0));
    }
}
