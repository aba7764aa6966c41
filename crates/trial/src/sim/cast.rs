//! Cast of a trial in virtual time: both ends of each flow, with their connections, and the hosts at which they are.

use std::sync::atomic::AtomicBool;

use super::carriers;
use super::end::{Next, SimulatedEnd, Stops};
use super::flight::Cutter;
use super::world::{Places, SimulatedFlows};
use crate::Order;
use crate::agent::driver::Flow;
use crate::agent::exchange::{self, Member};
use crate::agent::intervals::Sampler;
use crate::control::AgentReport;
use crate::path::emulated::NodeHosts;
use deadheat_base::error::{Error, Result};
use deadheat_base::rng::SplitMix64;
use deadheat_base::time::{Manual, Nanos};
use deadheat_contract::contract::{Exchange, LaneSet, Side, WaitMode};
use deadheat_contract::workload::{Part, Task, TaskInfo};
use deadheat_datapath::transport::hello::Token;
use deadheat_datapath::transport::several::JoinedConn;
use deadheat_datapath::transport::userspace::{Opening, OverPath};
use deadheat_datapath::transport::{Contender, Tickets};
use deadheat_records::samples::Samples;

/// Derives a token from the seed, in place of the token that a real end gets from the hello.
fn token(seed: u64, number: u16) -> Token {
    let mut draws = SplitMix64::new(seed ^ u64::from(number));
    let mut bytes = [0; 16];
    for half in bytes.chunks_exact_mut(8) {
        half.copy_from_slice(&draws.next_u64().to_be_bytes());
    }
    Token::from_bytes(bytes)
}

/// Participants of a trial.
#[derive(Clone, Copy)]
pub(super) struct SimulatedCast<'a> {
    pub(super) hosts: &'a NodeHosts,
    pub(super) order: &'a Order,
    pub(super) contender: &'a Contender,
    pub(super) task: &'a dyn Task,
    pub(super) cutter: Cutter,
    pub(super) transit: Nanos,
    pub(super) clock: &'a Manual,
    /// True if intervals are shown while it runs.
    pub(super) is_viewed: bool,
}

impl SimulatedCast<'_> {
    /// Creates both ends of each flow.
    pub(super) fn group(&self) -> Result<SimulatedFlows> {
        let flows = 0..self.task.info().flows.len() as u16;
        Ok(SimulatedFlows {
            ends: [self.side(Side::Near)?, self.side(Side::Far)?],
            places: flows.map(|flow| places(self.task.info(), self.hosts, flow)).collect(),
        })
    }

    /// Creates the ends of all flows on one side.
    fn side(&self, side: Side) -> Result<Vec<SimulatedEnd>> {
        let info = self.task.info();
        let flows = info.flows.len();
        let mut members: Vec<Option<Member<AtomicBool>>> = (0..flows).map(|_| None).collect();
        let people = info.people.iter().flat_map(|people| {
            let nodes = 0..people.hosts(side).len() as u16;
            nodes.filter(|node| people.hands_on(side, *node)).map(move |node| (people, node))
        });
        for (people, node) in people {
            let own = people.flows_of(side, node);
            let flags = own.iter().map(|_| AtomicBool::default()).collect();
            for (flow, member) in own.iter().zip(exchange::among(flags, &people.queues)) {
                members[usize::from(*flow)] = Some(member);
            }
        }
        (0..).zip(members).map(|(flow, member)| self.flow(side, flow, flows, member)).collect()
    }

    /// Makes the connections of a flow, in their order: the first, and as many more as its work asks for.
    fn connections(&self, side: Side, flow: u16, flows: u16) -> Next {
        let lanes = self.task.lanes(&self.contender.promised());
        let (contender, clock) = (self.contender.clone(), self.clock.clone());
        let (seed, largest_message, cutter) =
            (self.order.seed, self.task.info().largest_message, self.cutter);
        let tickets = Tickets::default();
        Box::new(move |connection| {
            let number = flow.wrapping_add(connection.wrapping_mul(flows));
            let mut strands = Vec::new();
            for (at, one) in (0..).zip(carriers(&contender)?) {
                let lanes = one.part.map_or(&lanes[..], |part| &part.lanes);
                let opening = Opening {
                    side,
                    token: token(seed ^ at << 32, number),
                    knobs: &one.contender.knobs,
                    lanes,
                    largest_message,
                    mtu: cutter.mtu as u32,
                    ip_header: cutter.ip_header as u32,
                    tickets: &tickets,
                };
                strands.push(one.strand(OverPath::open(one.protocol, &opening, &clock)?, lanes));
            }
            JoinedConn::new(strands).map_err(|e| Error::setup("join the connections of a mix", e))
        })
    }

    fn flow(
        &self,
        side: Side,
        flow: u16,
        flows: usize,
        member: Option<Member<AtomicBool>>,
    ) -> Result<SimulatedEnd> {
        let called = member.as_ref().map(Member::waker);
        let mut connections = self.connections(side, flow, flows as u16);
        let conn = Box::new(connections(0)?);
        let keep = self.order.samples.as_deref().filter(|_| side == Side::Near && flow == 0);
        let half = self.task.half(Part {
            side,
            flow,
            tag: SplitMix64::new(self.order.seed).next_u64() as u32,
            seed: self.order.seed,
            transit: self.transit,
            guarantees: self.contender.promised(),
            peer: self.contender.transport.info().peer,
            recorder: Box::new(Samples::new(keep, self.task.info().timeout.0)?),
            carried: LaneSet::ALL,
            store: None,
            exchange: member.map(|member| Box::new(member) as Box<dyn Exchange>),
        });
        let sampler = Sampler::new(self.order.interval, flows);
        let sampler = if self.is_viewed { sampler.for_a_view() } else { sampler };
        let largest_message = self.task.info().largest_message;
        let flow = Flow::new(conn, half, WaitMode::Spin, sampler, largest_message);
        Ok(SimulatedEnd::new(flow, connections, called))
    }
}

/// Returns the places of a flow's ends: of a work without people, one near node, and the far nodes in turn.
pub(super) fn places(info: &TaskInfo, hosts: &NodeHosts, flow: u16) -> Places {
    let near = info.people.as_ref().and_then(|people| people.node(Side::Near, flow));
    let nodes = [near.unwrap_or_default(), info.far_node(flow, info.receivers)];
    let at = |side: Side| {
        let node = nodes[side as usize];
        let dealt = usize::from(node).checked_rem(hosts.far.len());
        hosts.of(info, (side, node), dealt)
    };
    Places { hosts: [at(Side::Near), at(Side::Far)], nodes }
}

/// Returns the report that an agent would make. Nothing here cost any time.
pub(super) fn report(ends: Vec<Stops>) -> AgentReport {
    let mut report = AgentReport::default();
    for end in ends {
        if report.effective.is_empty() {
            report.effective = end.effective;
        }
        report.halves.push(end.report);
        report.series.push(end.series);
        report.conns.push(end.stats);
    }
    report
}
