//! The kernel's own emulator, sch_netem, on a host between the two: `backend=netem`.
//!
//! ```text
//! near ── veth ── middle ── veth ── far
//!            ◄ down     up ►            a netem at each way out of the middle
//! ```
//!
//! The middle forwards IPv4 and IPv6 and does nothing else: its devices have no addresses, ask no other host for
//! hardware addresses (both ends of a pair have the same one) and belong to no multicast group, so that only
//! packets of the two hosts pass the impairments. netem is there, and never at a sender's own device, where the
//! sending stack sees a drop and a packet under way counts against the sender's small queues. No device segments or
//! joins packets, so that netem, which decides once per buffer, decides once per packet. A packet's hop limit is
//! one less behind it.
//!
//! Qdiscs are set with `tc` and devices with `ip` (iproute2): tc has the tables of netem's distributions, and a log
//! shows the settings of this module in a form that administrators know.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::network::{Backend, Network};
use crate::measurements::{LinkFigures, PathFigures};
use deadheat_base::ends::Direction;
use deadheat_base::error::{Error, Result};
use deadheat_base::rng::SplitMix64;

mod account;
mod inside;
pub mod offload;
pub mod translate;

use account::Counters;
use inside::{input, within};

/// Queueing disciplines that a kernel may lack; each has a module `sch_NAME`.
const MODULES: [&str; 5] = ["netem", "tbf", "codel", "fq_codel", "pie"];

/// Network namespaces of the near host, the middle and the far host, by descriptors.
#[derive(Debug, Clone, Copy)]
pub struct Spaces<'a> {
    /// Namespace of the near host.
    pub near: BorrowedFd<'a>,
    /// Namespace between the hosts.
    pub middle: BorrowedFd<'a>,
    /// Namespace of the far host.
    pub far: BorrowedFd<'a>,
}

/// Names and addresses of a link at the two hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetemLink {
    /// Name of its device at both hosts; made here, and left without an address.
    pub device: String,
    /// Addresses that the near host will have there.
    pub near: Vec<IpAddr>,
    /// Addresses that the far host will have there.
    pub far: Vec<IpAddr>,
}

/// Host in the middle. Its devices end with its namespace.
#[derive(Debug)]
pub struct Middle {
    spaces: [OwnedFd; 3],
    network: Box<Network>,
    devices: Vec<String>,
    is_seeded: bool,
    began: Option<Vec<Counters>>,
}

impl Middle {
    /// Makes the middle of a network and, at both hosts, the devices in `lines`, one for each link; they carry
    /// packets once they have their addresses. Nothing is impaired before [`Middle::begin`].
    ///
    /// # Errors
    /// [`Error::Usage`] where netem cannot do all that the network requires; [`Error::Unsupported`] where the kernel
    /// has no netem or there is no `tc`; [`Error::Setup`] where something else fails.
    pub fn set_up(network: &Network, spaces: Spaces<'_>, lines: &[NetemLink]) -> Result<Middle> {
        translate::check(network)?;
        let own = |space: BorrowedFd<'_>| {
            space.try_clone_to_owned().map_err(|e| Error::setup("keep a namespace open", e))
        };
        let spaces = [own(spaces.near)?, own(spaces.middle)?, own(spaces.far)?];
        let is_seeded = probe(&spaces[1])?;
        let middle = Middle {
            spaces,
            network: Box::new(network.clone()),
            devices: lines.iter().map(|line| line.device.clone()).collect(),
            is_seeded,
            began: None,
        };
        middle.connect(lines)?;
        Ok(middle)
    }

    /// Returns true if the next trial's losses, copies and delays will follow its seed, which takes kernel and tc of 6.6 or
    /// later; the choice of the bit that is flipped does not.
    pub fn is_seeded(&self) -> bool {
        self.is_seeded
    }

    /// Empties all queues, sets counters to zero, and impairs from now on, with this seed if the kernel supports
    /// one.
    ///
    /// # Errors
    /// The error of tc.
    pub fn begin(&mut self, seed: u64) -> Result<()> {
        let mut batch = String::new();
        let mut seeds = SplitMix64::new(seed);
        for (index, link) in self.network.links.iter().enumerate() {
            for direction in [Direction::Up, Direction::Down] {
                let device = way_out(index, direction);
                if self.began.is_some() {
                    batch.push_str(&format!("qdisc del dev {device} root\n"));
                }
                let seed = seeds.next_u64();
                let seed = self.is_seeded.then_some(seed);
                let qdiscs = translate::qdiscs(link.toward(direction), link.mtu, seed)?;
                for words in qdiscs {
                    batch.push_str(&format!("qdisc add dev {device} {words}\n"));
                }
            }
        }
        // From now on there may be qdiscs to remove.
        self.began = Some(Vec::new());
        inside::batch("tc", &self.spaces[1], &batch, &[]).map_err(|e| lacking(e, &batch))?;
        self.began = Some(self.counters()?);
        Ok(())
    }

    /// Returns the fates of the packets since [`Middle::begin`]. netem does not report the times of its drops, the
    /// lateness of its releases, or the number of packets that it damaged.
    ///
    /// # Errors
    /// Fails if tc cannot be read.
    pub fn end(&mut self) -> Result<PathFigures> {
        let Some(before) = &self.began else {
            return Ok(PathFigures::default());
        };
        let now = self.counters()?;
        let shown = input("tc", &self.spaces[1], &["-s", "-j", "qdisc", "show"], "", &[])?;
        let qdiscs = account::parse(&shown)?;
        let mut links = Vec::new();
        for (index, link) in self.network.links.iter().enumerate() {
            let grown = now.iter().zip(before).skip(2 * index).take(2);
            let grown: Vec<Counters> = grown.map(|(now, before)| now.since(before)).collect();
            let drops = |side: usize| grown.get(side).map_or(0, |counters| counters.drops);
            let came = |side: usize| grown.get(side).copied().unwrap_or_default();
            let way = |direction, from: usize| {
                let device = way_out(index, direction);
                let drops = drops(0) + drops(1);
                account::way(&qdiscs, &device, link.toward(direction), came(from), drops)
            };
            links.push(LinkFigures { up: way(Direction::Up, 0), down: way(Direction::Down, 1) });
        }
        Ok(PathFigures { links })
    }

    fn connect(&self, lines: &[NetemLink]) -> Result<()> {
        let [near, middle, far] = &self.spaces;
        let mut batch = String::new();
        let mut routes = String::new();
        for (index, (line, link)) in lines.iter().zip(&self.network.links).enumerate() {
            let mtu = link.mtu;
            for (side, addresses) in [("n", &line.near), ("f", &line.far)] {
                let device = &line.device;
                let mac = format!("02:00:00:00:{index:02x}:{:02x}", u8::from(side == "f"));
                // The namespaces of the two hosts are descriptors, which `ip` takes as files.
                let there = if side == "n" { inside::FIRST } else { inside::FIRST + 1 };
                batch.push_str(&format!(
                    "link add {side}{index} mtu {mtu} address {mac} type veth peer name {device} \
                     mtu {mtu} address {mac} netns /proc/self/fd/{there}\n\
                     link set dev {side}{index} addrgenmode none arp off multicast off up\n",
                ));
                for address in addresses {
                    let bits = if address.is_ipv4() { 32 } else { 128 };
                    routes.push_str(&format!("route add {address}/{bits} dev {side}{index}\n"));
                }
            }
        }
        inside::batch("ip", middle, &batch, &[near, far])?;
        let there: String = self
            .devices
            .iter()
            .map(|name| format!("link set dev {name} addrgenmode none arp off multicast off up\n"))
            .collect();
        inside::batch("ip", near, &there, &[])?;
        inside::batch("ip", far, &there, &[])?;
        within(middle, forward)??;
        inside::batch("ip", middle, &routes, &[])?;
        self.switch_offloads_off(lines.len())
    }

    fn switch_offloads_off(&self, links: usize) -> Result<()> {
        let [near, middle, far] = &self.spaces;
        let inner: Vec<String> =
            (0..links).flat_map(|index| [format!("n{index}"), format!("f{index}")]).collect();
        for (space, devices) in [(near, &self.devices), (middle, &inner), (far, &self.devices)] {
            within(space, || {
                let socket = offload::control()
                    .map_err(|e| Error::setup("open a socket for the devices of a path", e))?;
                devices.iter().try_for_each(|device| {
                    offload::switch_off(socket.as_fd(), device).map_err(|e| {
                        Error::setup(format!("switch the offloads of {device} off"), e)
                    })
                })
            })??;
        }
        Ok(())
    }

    /// Reads the counters of the middle's devices, link by link, the near side first.
    fn counters(&self) -> Result<Vec<Counters>> {
        let all = within(&self.spaces[1], Counters::all)??;
        let of = |device: String| {
            all.iter().find(|(name, _)| *name == device).map(|(_, counters)| *counters)
        };
        let names = (0..self.network.links.len())
            .flat_map(|index| [format!("n{index}"), format!("f{index}")]);
        Ok(names.map(|name| of(name).unwrap_or_default()).collect())
    }
}

/// Returns the middle's device by which packets of this direction leave.
fn way_out(index: usize, direction: Direction) -> String {
    match direction {
        Direction::Up => format!("f{index}"),
        Direction::Down => format!("n{index}"),
    }
}

/// Returns true if a network requires netem.
pub fn is_asked(network: &Network) -> bool {
    network.backend == Some(Backend::Netem)
}

/// Converts an error of tc from a batch: the error for a kernel without one of its queueing disciplines says that.
fn lacking(error: Error, batch: &str) -> Error {
    match error {
        Error::Setup { source, .. } if source.to_string().contains("qdisc kind is unknown") => {
            let asked = |kind: &&&str| batch.split_whitespace().any(|word| word == **kind);
            let modules: Vec<String> =
                MODULES.iter().filter(asked).map(|kind| format!("sch_{kind}")).collect();
            without(&format!("not all of {}", modules.join(", ")), "these modules", &source)
        }
        other => other,
    }
}

/// Returns the error for a kernel without a feature that this backend needs.
fn without(what: &str, load: &str, source: &std::io::Error) -> Error {
    Error::unsupported(
        "backend=netem",
        format!(
            "kernel has {what} (tc: {source}); load {load}, or leave `backend` out: backend=tun \
             does all of it and more"
        ),
    )
}

/// Tests whether there is a netem; returns true if there is one with a seed.
fn probe(middle: &OwnedFd) -> Result<bool> {
    let lo = ["dev", "lo", "root"];
    let add = |more: &[&str]| {
        let words = [&["qdisc", "add"][..], &lo, &["netem"], more].concat();
        input("tc", middle, &words, "", &[])
    };
    add(&[]).map_err(|error| match error {
        // Any failure is conclusive: only a missing netem could make this call fail.
        Error::Setup { source, .. } if source.kind() == std::io::ErrorKind::Other => {
            without("no sch_netem", "that module", &source)
        }
        other => other,
    })?;
    let remove = || input("tc", middle, &[&["qdisc", "del"][..], &lo].concat(), "", &[]);
    remove()?;
    if add(&["seed", "1"]).is_err() {
        return Ok(false);
    }
    // A kernel before 6.6 accepts the word from a newer tc and ignores it.
    let shown = input("tc", middle, &["-j", "qdisc", "show", "dev", "lo"], "", &[])?;
    remove()?;
    Ok(shown.contains("\"seed\""))
}

/// Makes the calling thread's network namespace a router.
fn forward() -> Result<()> {
    let set = |name: &str, value: &str| {
        let file = format!("/proc/sys/net/{name}");
        std::fs::write(&file, value).map_err(|e| Error::setup(format!("write {file}"), e))
    };
    set("ipv4/ip_forward", "1")?;
    set("ipv4/conf/all/rp_filter", "0")?;
    // It is absent where the kernel has no IPv6; then there is nothing to forward.
    if std::path::Path::new("/proc/sys/net/ipv6").exists() {
        set("ipv6/conf/all/forwarding", "1")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_a_queueing_discipline_is_told_which_modules_to_load() {
        let batch = "qdisc add dev n0 root handle 1: stab overhead -14 netem limit 9\n\
                     qdisc add dev n0 parent 1:1 handle 2: tbf rate 5bit\n\
                     qdisc add dev n0 parent 2:1 handle 3: bfifo limit 9\n";
        let said = |words: &str| Error::setup("run `tc`", std::io::Error::other(words.to_owned()));
        let unknown = lacking(said("Error: Specified qdisc kind is unknown."), batch);
        assert!(matches!(unknown, Error::Unsupported { .. }), "{unknown:?}");
        assert!(unknown.to_string().contains("not all of sch_netem, sch_tbf (tc: "), "{unknown}");
        let other = lacking(said("Error: Exclusivity flag on."), batch);
        assert_eq!(other.to_string(), said("Error: Exclusivity flag on.").to_string());
    }
}
