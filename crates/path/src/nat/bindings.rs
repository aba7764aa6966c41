//! Table of bindings: which endpoint outside stands for which inside, and which remote ones may answer.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{Dependence, Middlebox};
use deadheat_base::time::Nanos;

/// Idle time after which a binding of an open connection of TCP ends: the least allowed, 2 hours and 4 minutes
/// (RFC 5382, REQ-5).
const TCP_OPEN: Nanos = Nanos::from_secs(7_440);
/// The same for a connection that begins or ends: the least allowed (RFC 5382, REQ-5).
const TCP_TRANSITORY: Nanos = Nanos::from_secs(240);
/// Idle time after which a binding of ICMP ends: the least allowed (RFC 5508, REQ-2).
const ICMP: Nanos = Nanos::from_secs(60);

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;

/// Largest number of sessions: half as many as there are ports, so that the search for a free one is short.
const MOST: usize = 1 << 15;
/// Least time between two searches for sessions that are over.
const SWEEP: Nanos = Nanos::from_secs(1);
/// First port that is given where the port inside is taken already.
const FIRST_PORT: u16 = 1_024;

/// Packet as a table sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) protocol: u8,
    /// Endpoint on this side: inside where the packet leaves, outside where it enters.
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// Flags of TCP.
    pub(super) flags: u8,
    /// True if the packet opens bindings and keeps them open.
    pub(super) renews: bool,
}

#[derive(Debug)]
pub(super) struct Bindings {
    mapping: Dependence,
    filtering: Dependence,
    timeout: Nanos,
    by_inside: HashMap<Inside, Binding>,
    by_outside: HashMap<(u8, SocketAddr), Inside>,
    /// Number of sessions of all bindings.
    sessions: usize,
    last_port: u16,
    /// Time of the last search for sessions that are over.
    swept: Nanos,
}

/// Endpoint inside, with as much of the remote one as the mapping depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Inside {
    protocol: u8,
    host: SocketAddr,
    remote: SocketAddr,
}

#[derive(Debug)]
struct Binding {
    outside: SocketAddr,
    /// End, unless a packet passes before.
    until: Nanos,
    /// Sessions by as much of the remote endpoint as the filter depends on.
    sessions: HashMap<SocketAddr, Session>,
}

#[derive(Debug, Default)]
struct Session {
    until: Nanos,
    is_closing: bool,
}

impl Dependence {
    /// Returns a remote endpoint without the parts that do not matter.
    fn part(self, remote: SocketAddr) -> SocketAddr {
        match self {
            Dependence::Independent => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            Dependence::Address => SocketAddr::new(remote.ip(), 0),
            Dependence::AddressAndPort => remote,
        }
    }
}

impl Bindings {
    pub(super) fn new(middlebox: &Middlebox) -> Bindings {
        Bindings {
            mapping: middlebox.mapping.unwrap_or(Dependence::Independent),
            filtering: middlebox.filtering,
            timeout: middlebox.timeout,
            by_inside: HashMap::new(),
            by_outside: HashMap::new(),
            sessions: 0,
            last_port: u16::MAX,
            swept: Nanos::ZERO,
        }
    }

    /// Forgets all bindings.
    pub(super) fn clear(&mut self) {
        self.by_inside.clear();
        self.by_outside.clear();
        (self.sessions, self.last_port, self.swept) = (0, u16::MAX, Nanos::ZERO);
    }

    /// Returns the endpoint outside of a flow that leaves: of the `public` address, or the one inside where there is
    /// none. `None` if no port or no memory is left, and for a flow without a binding that opens none.
    pub(super) fn leave(
        &mut self,
        now: Nanos,
        flow: &Flow,
        public: Option<IpAddr>,
    ) -> Option<SocketAddr> {
        let has_room = self.has_room(now);
        let mapping = public.map_or(Dependence::Independent, |_| self.mapping);
        let remote = mapping.part(flow.remote);
        let inside = Inside { protocol: flow.protocol, host: flow.local, remote };
        let alive = self.by_inside.get(&inside).filter(|binding| now < binding.until);
        if !flow.renews {
            return alive.map(|binding| binding.outside);
        }
        let peer = self.filtering.part(flow.remote);
        let is_known = alive.is_some_and(|binding| binding.sessions.contains_key(&peer));
        if !is_known && !has_room {
            return None;
        }
        if alive.is_none() {
            self.open(now, inside, public)?;
        }
        let binding = self.by_inside.get_mut(&inside)?;
        self.sessions += usize::from(!is_known);
        binding.renew(now, flow, peer, self.timeout);
        Some(binding.outside)
    }

    /// Returns the endpoint inside for a flow that enters; `None` if it may not.
    pub(super) fn enter(&mut self, now: Nanos, flow: &Flow) -> Option<SocketAddr> {
        let inside = self.by_outside.get(&(flow.protocol, flow.local))?;
        let binding = self.by_inside.get_mut(inside)?;
        let peer = self.filtering.part(flow.remote);
        binding.sessions.get(&peer).filter(|session| now < session.until)?;
        if flow.renews {
            binding.renew(now, flow, peer, self.timeout);
        }
        Some(inside.host)
    }

    /// Opens a binding, at the same port outside as inside if that is free.
    fn open(&mut self, now: Nanos, inside: Inside, public: Option<IpAddr>) -> Option<()> {
        self.forget(inside);
        let outside = match public {
            Some(address) => self.free(now, inside, address)?,
            None => inside.host,
        };
        self.by_outside.insert((inside.protocol, outside), inside);
        let binding = Binding { outside, until: now, sessions: HashMap::new() };
        self.by_inside.insert(inside, binding);
        Some(())
    }

    /// Returns a free endpoint of the public address.
    fn free(&mut self, now: Nanos, inside: Inside, address: IpAddr) -> Option<SocketAddr> {
        let wanted = SocketAddr::new(address, inside.host.port());
        if self.is_free(now, inside.protocol, wanted) {
            return Some(wanted);
        }
        (FIRST_PORT..=u16::MAX).find_map(|_| {
            self.last_port = self.last_port.checked_add(1).unwrap_or(FIRST_PORT);
            let next = SocketAddr::new(address, self.last_port);
            self.is_free(now, inside.protocol, next).then_some(next)
        })
    }

    /// Returns true if no live binding has an endpoint outside; forgets a binding that is over.
    fn is_free(&mut self, now: Nanos, protocol: u8, outside: SocketAddr) -> bool {
        let Some(inside) = self.by_outside.get(&(protocol, outside)).copied() else { return true };
        let is_over = self.by_inside.get(&inside).is_none_or(|binding| binding.until <= now);
        if is_over {
            self.forget(inside);
        }
        is_over
    }

    fn forget(&mut self, inside: Inside) {
        if let Some(binding) = self.by_inside.remove(&inside) {
            self.by_outside.remove(&(inside.protocol, binding.outside));
            self.sessions -= binding.sessions.len();
        }
    }

    /// Returns true if there is room for a session, if need be after a search for sessions that are over.
    fn has_room(&mut self, now: Nanos) -> bool {
        if self.sessions >= MOST && now >= self.swept + SWEEP {
            self.swept = now;
            self.by_inside.retain(|_, binding| {
                binding.sessions.retain(|_, session| now < session.until);
                now < binding.until && !binding.sessions.is_empty()
            });
            self.by_outside.retain(|_, inside| self.by_inside.contains_key(inside));
            self.sessions = self.by_inside.values().map(|binding| binding.sessions.len()).sum();
        }
        self.sessions < MOST
    }
}

impl Binding {
    /// Keeps the binding and a session of it open.
    fn renew(&mut self, now: Nanos, flow: &Flow, peer: SocketAddr, timeout: Nanos) {
        let session = self.sessions.entry(peer).or_default();
        let lifetime = match flow.protocol {
            1 | 58 => ICMP,
            6 => {
                session.is_closing |= flow.flags & (FIN | RST) != 0;
                // A new connection between the same endpoints.
                session.is_closing &= flow.flags & SYN == 0;
                let is_open = flow.flags & SYN == 0 && !session.is_closing;
                if is_open { TCP_OPEN } else { TCP_TRANSITORY }
            }
            _ => timeout,
        };
        session.until = now + lifetime;
        let until = session.until;
        self.until = if self.sessions.len() == 1 { until } else { self.until.max(until) };
    }
}
