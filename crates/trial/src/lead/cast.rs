//! Cast of a trial: the nodes and flows, with their data, over which contender, measured or as load, on which CPU, and
//! when.
//!
//! ```text
//! group      near node ──────────────► far nodes           flow f goes to the far node f modulo their number
//!            near nodes ─────────────► far nodes           among people: as the work says
//!            near node ──► relay ──► far node              with via=relay, at a third host with via=relay@HOST and relay=HOST
//!            near node ──► client ──► server ──► far node  with via=coturn and via=turn:HOST
//!            near node ──► command ──► command ──► far node   where it is external
//! cast       the work that is measured, and the groups that are load beside it, each with its time
//! ```
//! Each node is a process of its own. The groups share the path and nothing else.

use std::net::{IpAddr, SocketAddr};

use deadheat_base::clocks::ClockMap;

use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Side, WaitMode};
use deadheat_contract::measurements::path_mtu::PathMtu;
use deadheat_contract::measurements::{ClockNeed, Role};
use deadheat_contract::workload::SharedTask;
use deadheat_contract::workload::load::Stint;
use deadheat_datapath::datapath::origin::Origin;
use deadheat_datapath::transport::hello::Token;
use deadheat_datapath::transport::via::{self, Via};
use deadheat_datapath::transport::{Address, Contender, equal, external};

use super::far::Far;
use super::load;
use super::nodes::SLACK;
use crate::between::commands::{CommandOrder, NodePlan};
use crate::between::turn::way::RelayWay;
use crate::between::turn::{CoturnPlan, TurnPlan};
use crate::control::{self, AgentPlan, ForwardPlan, GrantPlace, RelayPlan, Share};
use crate::path::emulated::NodeHosts;
use crate::path::model_time::accept_timeout;
use crate::{Order, dealt, floods, suited};
use deadheat_host::placement::CpuAssignment;
use deadheat_host::topology::Topology;

/// Groups of a trial.
pub(super) struct Cast {
    /// Work that the trial measures.
    pub(super) work: Group,
    /// Groups of load beside the work: they begin first, and are stopped once the work is over.
    pub(super) loads: Vec<Group>,
    /// Time for which the loads run before the work begins, unless they have a stint.
    pub(super) lead: Nanos,
    /// Part of the work's time during which the loads run.
    pub(super) stint: Option<Stint>,
}

/// Contender with its work: near nodes, far nodes, and the flows between them.
pub(super) struct Group {
    pub(super) contender: Contender,
    pub(super) task: SharedTask,
    pub(super) order: Order,
    /// Work as the near end and as the far ends get it.
    pub(super) work_by_side: [SharedTask; 2],
    pub(super) assigned: CpuAssignment,
    pub(super) token: Token,
    /// Number of far nodes; 0 where the kernel answers.
    pub(super) far_nodes: u16,
    /// Positions of the far hosts in the list of a race, by far node; empty where nodes are dealt over them in order.
    pub(super) at: Vec<usize>,
    /// True if it is load beside the work.
    pub(super) is_load: bool,
    /// True if its progress is reported while the trial runs.
    pub(super) live: bool,
    /// True if a server starts its far end, which then opens no file.
    pub(super) is_served: bool,
    /// True if its ends run at a higher priority than other programs.
    pub(super) goes_first: bool,
    /// Most bytes per direction, if it is a blast towards another host.
    pub(super) blast: Option<u64>,
    /// Properties of the path, if the race emulates it.
    pub(super) emulated: Option<control::PathTerms>,
    /// Hosts of its nodes in the network that the race emulates, if it does.
    pub(super) hosts: NodeHosts,
    /// Relay that the group's traffic goes through, if any.
    pub(super) way: Option<RelayWay>,
    /// Local address and interface that its near end is bound to.
    pub(super) origin: Origin,
    /// Maps from the far hosts' clocks to this one's, in the order of the hosts, if they have clocks of their own.
    pub(super) clocks: Vec<Option<ClockMap>>,
    /// Size of the packets that the paths were found to take, if they were probed and the contender follows it.
    pub(super) packet: Option<u32>,
    /// Path MTU to each far host that probes found, in the order of the hosts.
    pub(super) paths: Vec<Option<PathMtu>>,
    /// Far end as typed, if it is one of others.
    pub(super) far_end: Option<String>,
    /// Public key that it has to prove, if one was given.
    pub(super) far_pin: Option<String>,
}

impl Group {
    /// Creates the group of the measured work; `work_by_side` is the work for each side.
    ///
    /// # Errors
    /// [`Error::Usage`] if the contender does not suit the work; [`Error::Setup`] without a source of randomness.
    pub(super) fn measured(
        order: &Order,
        work_by_side: [SharedTask; 2],
        assigned: CpuAssignment,
    ) -> Result<Group> {
        Group::new(order.clone(), work_by_side, assigned)
    }

    /// Creates the group of the load beside the work, if it has one. It gets the CPUs that the work leaves free; if
    /// there are none, the kernel chooses, and the work has priority there.
    ///
    /// # Errors
    /// As of [`Group::measured`].
    pub(super) fn load(work: &Group, topology: &Topology) -> Result<Option<Group>> {
        let Some(order) = load::order(&work.order) else { return Ok(None) };
        let work_by_side = [order.pairing.task.clone(), order.pairing.task.clone()];
        let group = Group::new(order, work_by_side, free(&work.assigned, topology))?;
        let origin = work.origin.clone();
        let group = Group { emulated: work.emulated, is_load: true, origin, ..group };
        if !work.is_served {
            return Ok(Some(group));
        }
        // The CPUs of the far host are its own affair.
        let assigned = CpuAssignment { far: None, ..group.assigned };
        Group { assigned, ..group }.served().map(Some)
    }

    fn new(order: Order, work_by_side: [SharedTask; 2], assigned: CpuAssignment) -> Result<Group> {
        // The near end's work has the length of its file.
        let task = work_by_side[0].clone();
        let contender = suited(order.pairing.contender.clone(), &*task)?;
        let task = dealt(&contender, task);
        let peer = contender.transport.info().peer;
        // A stand-in here, which speaks the control protocol of the far end; or a keeper of the server command.
        let has_one = peer.has_session() || peer.is_command;
        let far_nodes = if peer.is_ours { task.info().receivers } else { u16::from(has_one) };
        Ok(Group {
            contender,
            task,
            order,
            work_by_side,
            assigned,
            token: Token::fresh()?,
            far_nodes,
            at: Vec::new(),
            is_load: false,
            live: false,
            is_served: false,
            goes_first: false,
            blast: None,
            emulated: None,
            hosts: NodeHosts::default(),
            way: None,
            origin: Origin::default(),
            clocks: Vec::new(),
            packet: None,
            paths: Vec::new(),
            far_end: None,
            far_pin: None,
        })
    }

    /// Makes a server start the group's far nodes.
    ///
    /// # Errors
    /// [`Error::Usage`] if a command that carries a contender or a TURN server is asked for, which a server does not start.
    pub(super) fn served(mut self) -> Result<Group> {
        if self.contender.external.is_some() {
            return Err(Error::usage(external::unserved(&self.order.contender())));
        }
        self.is_served = true;
        match self.contender.via {
            Via::Direct | Via::Relay | Via::RelayAt { .. } | Via::Turn { .. } => Ok(self),
            Via::Coturn => Err(Error::usage(via::unserved_coturn(&self.contender.spec))),
        }
    }

    /// Makes the far end one of others, as typed; connections to it leave from `origin`, and floods end after `blast`
    /// bytes.
    pub(super) fn at_others(self, typed: &str, origin: &Origin, blast: Option<u64>) -> Group {
        let blast = blast.filter(|_| floods(&self.contender, &*self.task));
        // What runs on the CPUs of the far host is its own affair, and a stand-in here needs none of its own.
        let assigned = CpuAssignment { far: None, ..self.assigned };
        Group { assigned, origin: origin.clone(), blast, far_end: Some(typed.to_owned()), ..self }
    }

    /// Returns the clock that the claims of the work need: the greatest need of any.
    pub(super) fn clock_need(&self) -> ClockNeed {
        let claims = self.task.info().metrics.iter().filter(|one| one.role == Role::Claim);
        claims.map(|metric| metric.clock).max().unwrap_or_default()
    }

    /// Returns the longest time until all nodes are connected: a little more than the far nodes wait.
    pub(super) fn longest_to_connect(&self) -> Nanos {
        let far = self.emulated.map(|path| accept_timeout(path.dial_ns));
        far.map_or(SLACK, |far| far + SLACK)
    }

    /// Returns the plan of a near node, which dials these endpoints.
    pub(super) fn near(&self, node: u16, mut far: Vec<Address>) -> AgentPlan {
        let first = far.remove(0);
        AgentPlan {
            samples: self.order.samples.clone(),
            further: far,
            origin: self.near_origin(),
            hole: self.paths.iter().flatten().filter_map(|mtu| mtu.hole(Side::Near)).min(),
            share: Some(self.share(Side::Near, node)).filter(|share| *share != Share::WHOLE),
            ..self.plan(Side::Near, first)
        }
    }

    /// Returns the plan of the command of one side, with the server's at `server`.
    ///
    /// # Errors
    /// [`Error::Usage`] if the contender has no commands, or the server no IP address.
    pub(super) fn command(&self, side: Side, server: &Address) -> Result<NodePlan> {
        let typed = self.order.contender();
        let (Some(commands), Address::Ip(server)) = (&self.contender.commands, server) else {
            return Err(Error::usage(format!(
                "`{typed}`: a command needs an IP address, not `{server}`"
            )));
        };
        let (pair, work) = (&*commands.pair, &self.task.info().programs);
        let cpu = match side {
            Side::Near => self.assigned.near,
            Side::Far => self.assigned.far,
        };
        let order = CommandOrder { pair, work, server: *server, seed: self.order.seed };
        Ok(order.plan(side).on(cpu).first(self.goes_first))
    }

    /// Returns the number of near nodes.
    pub(super) fn near_nodes(&self) -> u16 {
        self.task.info().dialling_nodes()
    }

    /// Returns the number of far nodes that one connection of the near node serves.
    pub(super) fn served_at_once(&self) -> u16 {
        if self.contender.transport.info().peer.is_group { self.far_nodes.max(1) } else { 1 }
    }

    /// Returns the share of a node in the flows; if one connection serves all far nodes, the near node has the flows of the
    /// first of them.
    pub(super) fn share(&self, side: Side, node: u16) -> Share {
        match side {
            Side::Near => Share { node, nodes: self.near_nodes().max(self.served_at_once()) },
            Side::Far => Share { node, nodes: self.far_nodes },
        }
    }

    /// Returns the flows of a node.
    pub(super) fn flows(&self, side: Side, node: u16) -> Vec<u16> {
        self.share(side, node).flows(self.task.info(), side)
    }

    /// Returns the plan of a far node, which listens at this endpoint; `grant` is its place at a server, if it shares
    /// one with others.
    pub(super) fn far(&self, node: u16, at: Address, grant: Option<GrantPlace>) -> AgentPlan {
        let share = Some(self.share(Side::Far, node)).filter(|_| self.far_nodes > 1);
        let path = self.host_of(node, self.paths.len()).and_then(|host| self.paths[host]);
        let hole = path.and_then(|mtu| mtu.hole(Side::Far));
        let clock = self.host_of(node, self.clocks.len()).and_then(|host| self.clocks[host]);
        let plan = AgentPlan { share, grant, hole, clock, ..self.plan(Side::Far, at) };
        if self.far_end.is_some() {
            // The stand-in is on this host, and connects.
            return AgentPlan { origin: self.origin.clone(), ..plan };
        }
        if self.is_served {
            AgentPlan { contender: self.sized(self.contender.without_files()), ..plan }
        } else {
            plan
        }
    }

    /// Returns the position of the host of a far node, out of `hosts` in all; `None` without any.
    pub(super) fn host_of(&self, node: u16, hosts: usize) -> Option<usize> {
        let named = self.at.get(usize::from(node)).copied();
        named.or_else(|| usize::from(node).checked_rem(hosts)).filter(|host| *host < hosts)
    }

    /// Returns the host of a node of one side in the network that the race emulates, by index.
    pub(super) fn host(&self, side: Side, node: u16) -> usize {
        let dealt = self.host_of(node, self.hosts.far.len());
        self.hosts.of(self.task.info(), (side, node), dealt)
    }

    /// Returns the address of the server of a far node; `None` without a server.
    pub(super) fn server_of(&self, node: u16, far: &Far) -> Option<SocketAddr> {
        let host = self.host_of(node, far.hosts().len())?;
        far.hosts().get(host).map(|far| far.server.address)
    }

    /// Returns true if a far node is at the host with this position, out of `hosts` in all.
    pub(super) fn is_at(&self, host: usize, hosts: usize) -> bool {
        (0..self.far_nodes).any(|node| self.host_of(node, hosts) == Some(host))
    }

    /// Returns the plan of a relay at a third host, in front of a far node at the server `to`; `grant` is its place there.
    pub(super) fn onward(&self, node: u16, to: SocketAddr, grant: GrantPlace) -> AgentPlan {
        let plan = self.far(node, Address::Ip(to), Some(grant));
        // The CPUs of that host are its own affair, and a relay sleeps while it waits.
        AgentPlan { onward: Some(to), cpu: None, wait: WaitMode::Hybrid, clock: None, ..plan }
    }

    /// Returns the host of the relay that the group's traffic goes through, if that is a third one.
    pub(super) fn relay_host(&self) -> Option<&str> {
        match &self.contender.via {
            Via::RelayAt { host } => Some(host),
            _ => None,
        }
    }

    /// Returns the plan of the relay in front of a far node, which listens at `own` or, without one, at the address of the
    /// far node's host; `None` if no relay is to be started.
    ///
    /// # Errors
    /// [`Error::Usage`] if the far node has no port to forward to.
    pub(super) fn relay(&self, far: &Address, own: Option<IpAddr>) -> Result<Option<RelayPlan>> {
        // A server starts the relay in front of a far node by itself.
        let Some(way) = self.way.as_ref().filter(|_| !self.is_served) else { return Ok(None) };
        let to = self.behind_relay(far)?;
        let at = SocketAddr::new(own.unwrap_or(to.ip()), 0);
        Ok(match (&self.contender.via, &way.credentials) {
            (Via::Relay, _) => Some(RelayPlan::Forward(ForwardPlan { at, to, token: None })),
            (Via::Coturn, Some(credentials)) => {
                Some(RelayPlan::Coturn(CoturnPlan { at, credentials: credentials.clone() }))
            }
            (Via::Coturn | Via::Direct | Via::RelayAt { .. } | Via::Turn { .. }, _) => None,
        })
    }

    /// Returns the plan of the TURN client beside the near node, for one far node, through the server that was started
    /// for it or named by the user; `None` if the way is another.
    ///
    /// # Errors
    /// As of [`Group::relay`].
    pub(super) fn carrier(
        &self,
        far: &Address,
        started: Option<SocketAddr>,
    ) -> Result<Option<TurnPlan>> {
        let Some(way) = self.way.as_ref().filter(|_| self.contender.via.is_turn()) else {
            return Ok(None);
        };
        let Some(server) = started.or(way.server) else { return Ok(None) };
        let flows = self.task.info().flows.len().div_ceil(usize::from(self.far_nodes.max(1)));
        Ok(Some(TurnPlan {
            server,
            to: self.behind_relay(far)?,
            credentials: way.credentials.clone(),
            allocations: flows as u16,
            origin: self.origin.clone(),
        }))
    }

    fn behind_relay(&self, far: &Address) -> Result<SocketAddr> {
        match far {
            Address::Ip(to) => Ok(*to),
            _ => Err(Error::usage(format!(
                "{}: its far end has no port that a relay could forward to",
                self.contender.spec
            ))),
        }
    }

    /// Returns the path MTU of the narrowest probed path.
    pub(super) fn narrowest(&self) -> Option<PathMtu> {
        self.paths.iter().flatten().copied().min_by_key(PathMtu::bytes)
    }

    /// Returns the contender as its ends get it: without its commands, which the ends do not use.
    fn contender_for_ends(&self) -> String {
        let external = self.contender.external.as_ref();
        external.map_or_else(|| self.sized(self.order.contender()), |pair| pair.carries.clone())
    }

    /// Returns a contender as typed, with packets as large as the path takes.
    fn sized(&self, typed: String) -> String {
        let larger = self.packet.map(|packet| equal::with_packets(&typed, packet));
        larger.and_then(Result::ok).unwrap_or(typed)
    }

    fn plan(&self, side: Side, endpoint: Address) -> AgentPlan {
        let (work_by_side, cpu) = match side {
            Side::Near => (&self.work_by_side[0], self.assigned.near),
            Side::Far => (&self.work_by_side[1], self.assigned.far),
        };
        AgentPlan {
            side,
            contender: self.contender_for_ends(),
            workload: work_by_side.to_string(),
            endpoint,
            further: Vec::new(),
            share: None,
            token: self.token,
            seed: self.order.seed,
            cpu,
            wait: self.assigned.wait,
            samples: None,
            limits: None,
            interval_ns: self.order.interval,
            live: self.live,
            pass: self.order.pass,
            emulated: self.emulated,
            origin: Origin::default(),
            mtu: [self.way.as_ref().and_then(|way| way.mtu), self.packet]
                .into_iter()
                .flatten()
                .min(),
            hole: None,
            goes_first: self.goes_first,
            blast: self.blast,
            grant: None,
            clock: None,
            far_end: self.far_end.clone(),
            onward: None,
            far_pin: self.far_pin.clone(),
        }
    }

    /// Returns the origin of the near end's sockets. Towards a TURN client beside it there is none: that client has it.
    fn near_origin(&self) -> Origin {
        if self.contender.via.is_turn() { Origin::default() } else { self.origin.clone() }
    }
}

/// Returns the CPUs that the work leaves free, for the ends of a load.
fn free(work: &CpuAssignment, topology: &Topology) -> CpuAssignment {
    let is_free = |id: &usize| Some(*id) != work.near && Some(*id) != work.far;
    let mut free = topology.ids().into_iter().filter(is_free);
    let near = free.next();
    // One more free CPU is left to the threads of an emulated path.
    let far = free.next().filter(|_| free.next().is_some());
    match far {
        Some(_) => CpuAssignment { near, far, wait: WaitMode::Hybrid },
        None => CpuAssignment { near: None, far: None, wait: WaitMode::Hybrid },
    }
}
