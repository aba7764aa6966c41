//! Routes of the hosts: to each address that is on none of a host's own links, by the ways of [`routes`]; of a host with one
//! link, one to all of them. Where routes change at times, a thread sets them then.

use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use super::netlink::Netlink;
use super::sysctl;
use crate::Family;
use crate::addresses::{ALL_ADDRESSES, public_address};
use crate::nat::nat64::{self, is_mapped};
use crate::network::{Link, Network};
use crate::routes::{self, Routes};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};

/// Host as far as its routes go.
pub(super) struct RoutedHost {
    /// Netlink socket in its namespace.
    pub(super) netlink: Netlink,
    /// Its links, with the interface index of its device of each.
    pub(super) devices: Vec<(usize, u32)>,
}

/// Routes of all hosts over time, and the hosts that have them.
pub struct RouteTables {
    routes: Vec<Routes>,
    /// Index of the routes that are set; `None` where a host has only those to the other ends of its links.
    set: Option<usize>,
    /// Links, and the addresses of their hosts on them: their own, and those by which a NAT64 reaches them.
    links: Vec<(Link, [Vec<IpAddr>; 2])>,
    hosts: Vec<RoutedHost>,
}

impl RouteTables {
    /// Sets the routes with which a trial begins.
    ///
    /// # Errors
    /// [`Error::Setup`] where the kernel refuses one.
    pub(super) fn new(
        network: &Network,
        addresses: &[[Vec<IpAddr>; 2]],
        hosts: Vec<RoutedHost>,
    ) -> Result<RouteTables> {
        let links = network.links.iter().zip(addresses).enumerate();
        let links = links.map(|(at, (link, own))| {
            let mut own = own.clone();
            if link.translates() {
                // From outside over the link itself, where another host can send over it.
                own[usize::from(network.forwards(link.ends[1]))].push(public_address(at));
            }
            if network.has_nat64() && sysctl::has_ipv6() {
                own.iter_mut().for_each(|own| own.extend(nat64::all_mapped(own)));
            }
            (link.clone(), own)
        });
        let links = links.collect();
        let mut tables =
            RouteTables { routes: routes::over_time(network), set: None, links, hosts };
        if network.has_others() {
            tables.begin_hosts_with_one_link()?;
        }
        tables.change(0)?;
        Ok(tables)
    }

    /// Routes all addresses by the only link of hosts with one: a route for each would take seconds among a hundred hosts.
    fn begin_hosts_with_one_link(&mut self) -> Result<()> {
        let known = self.links.iter().flat_map(|(_, [first, _])| first);
        let is_known = |(all, _): &(IpAddr, u8)| {
            let kind = |at: IpAddr| (at.is_ipv4(), is_mapped(at));
            known.clone().any(|at| kind(*at) == kind(*all))
        };
        let subnets: Vec<(IpAddr, u8)> = ALL_ADDRESSES.into_iter().filter(is_known).collect();
        for host in &mut self.hosts {
            let [(link, device)] = host.devices[..] else { continue };
            let link = &self.links[link].0;
            for (all, bits) in subnets.iter().filter(|(all, _)| link.carries(Family::of(*all))) {
                host.netlink.route_to(*all, *bits, device).map_err(|error| {
                    Error::setup(format!("give a host a route to {all}/{bits}"), error)
                })?;
            }
        }
        Ok(())
    }

    /// Replaces the routes that differ from those set.
    fn change(&mut self, to: usize) -> Result<()> {
        for host in 0..self.hosts.len() {
            for link in 0..self.links.len() {
                self.change_toward(to, host, (link, 0))?;
                self.change_toward(to, host, (link, 1))?;
            }
        }
        self.set = Some(to);
        Ok(())
    }

    /// Replaces the route of a host to one end of a link, if it differs from that set.
    fn change_toward(&mut self, to: usize, at: usize, (link, end): (usize, usize)) -> Result<()> {
        let (Link { ends, .. }, addresses) = &self.links[link];
        let own = Some(link).filter(|_| ends.contains(&at));
        let before = self.set.map_or(own, |set| self.routes[set].link(at, link, end));
        let by = self.routes[to].link(at, link, end);
        let host = &mut self.hosts[at];
        let device = host.devices.iter().find(|(own, _)| Some(*own) == by);
        let Some((by, device)) = device.filter(|_| host.devices.len() > 1) else { return Ok(()) };
        let via = &self.links[*by].0;
        for address in &addresses[end] {
            let is_mapped = is_mapped(*address);
            // What only a NAT64 knows is on no link.
            let is_set = before == Some(*by) && !(is_mapped && self.set.is_none());
            let passes = via.carries(Family::of(*address))
                || is_mapped && via.is_nat64() && via.ends[0] == at;
            if is_set || !passes {
                continue;
            }
            let bits = if address.is_ipv4() { 32 } else { 128 };
            host.netlink.route_to(*address, bits, *device).map_err(|error| {
                Error::setup(format!("give a host a route to {address}"), error)
            })?;
        }
        Ok(())
    }
}

/// Thread that changes the routes at their times; it runs until it is dropped. There is none where they stay.
pub struct Rerouter(Option<RouterThread>);

struct RouterThread {
    orders: Sender<RouterOrder>,
    thread: JoinHandle<()>,
}

/// Order for the thread, with a place for the answer.
struct RouterOrder {
    /// True to set the first routes again, with now as time 0; false to report whether all changes could be made.
    begins: bool,
    done: Sender<Result<()>>,
}

impl Rerouter {
    /// Starts to change the routes.
    ///
    /// # Errors
    /// [`Error::Setup`] where the thread is refused.
    pub fn start(tables: RouteTables) -> Result<Rerouter> {
        if tables.routes.len() < 2 {
            return Ok(Rerouter(None));
        }
        let (orders, taken) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("routes".to_owned())
            .spawn(move || keep(tables, &taken))
            .map_err(|e| Error::setup("start a thread that changes routes", e))?;
        Ok(Rerouter(Some(RouterThread { orders, thread })))
    }

    /// Sets the first routes again; now is time 0.
    ///
    /// # Errors
    /// [`Error::Setup`] where the kernel refuses one.
    pub fn begin(&mut self) -> Result<()> {
        self.ask(true)
    }

    /// Checks that all changes since the beginning could be made.
    ///
    /// # Errors
    /// [`Error::Setup`] of the first that could not.
    pub fn check(&mut self) -> Result<()> {
        self.ask(false)
    }

    fn ask(&mut self, begins: bool) -> Result<()> {
        let Some(own) = &self.0 else { return Ok(()) };
        let (done, answer) = mpsc::channel();
        let gone = || Error::setup("change routes", io::Error::other("the thread has ended"));
        own.orders.send(RouterOrder { begins, done }).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}

impl Drop for Rerouter {
    fn drop(&mut self) {
        if let Some(RouterThread { orders, thread }) = self.0.take() {
            drop(orders);
            let _ = thread.join();
        }
    }
}

/// Carries out orders and changes until the other end of the orders is gone.
fn keep(mut tables: RouteTables, orders: &Receiver<RouterOrder>) {
    let mut origin = Monotonic.now();
    let mut next = tables.routes.len();
    let mut outcome = Ok(());
    loop {
        let due = tables.routes.get(next).map(|routes| origin + routes.from);
        let order = match due {
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => {
                let rest: Nanos = due - Monotonic.now();
                orders.recv_timeout(Duration::from_nanos(rest.0))
            }
        };
        match order {
            Ok(RouterOrder { begins: true, done }) => {
                outcome = tables.change(0);
                (origin, next) = (Monotonic.now(), 1);
                // The sender of an order may be gone meanwhile.
                let _ = done.send(std::mem::replace(&mut outcome, Ok(())));
            }
            Ok(RouterOrder { begins: false, done }) => {
                let _ = done.send(std::mem::replace(&mut outcome, Ok(())));
            }
            Err(RecvTimeoutError::Timeout) => {
                outcome = outcome.and_then(|()| tables.change(next));
                next += 1;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
