//! Admission of the trials that clients request, and the server's own plan for each.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use deadheat_base::clocks::{ClockMap, LARGEST_GAIN_PPM};

use super::own_ports;
use super::relay_to::RelayTo;
use super::token_table::DataSource;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_base::units::{BitRate, Bytes};
use deadheat_contract::contract::{Direction, Reach, Side, WaitMode};
use deadheat_contract::workload::{ELSEWHERE, NamedFile, SharedTask, TaskInfo};
use deadheat_datapath::datapath::origin::Origin;
use deadheat_datapath::transport::via::{self, Via};
use deadheat_datapath::transport::{Address, Contender, Info, Place, unserved};
use deadheat_host::placement::listed;
use deadheat_trial::agent::means::NO_FILES;
use deadheat_trial::control::{AgentPlan, GrantPlace, GrantTask, Limits, MOST_FAR_ENDS, Share};
use deadheat_trial::{dealt, suited};

/// Largest number of flows of one trial. Each costs a connection and a thread.
pub(super) const MOST_FLOWS: usize = 128;

/// Largest number of connections of one trial, also one after the other: a hello has 16 bits for their number.
const MOST_CONNECTIONS: usize = 1 << 16;

/// Largest message in bytes. Each flow holds a few in memory.
const LARGEST_MESSAGE: usize = 16 << 20;

/// Admitted trial, which may run.
#[derive(Debug)]
pub(super) struct AdmittedTrial {
    /// Plan for the far agent.
    pub(super) plan: AgentPlan,
    /// Number of connections that its work may open, of all its far ends.
    pub(super) connections: usize,
    /// Number of the work's flows, of all its far ends.
    pub(super) flows: usize,
    /// Number of the contender's parts.
    pub(super) parts: usize,
    /// Longest duration, once started.
    pub(super) span: Nanos,
    /// Demand of this far end.
    pub(super) demand: Demand,
    /// Place among the trial's far ends here, if there are several.
    pub(super) place: Option<GrantPlace>,
    /// Part of it that this server runs.
    pub(super) part: ServerPart,
    /// Source of its data.
    pub(super) source: DataSource,
}

/// Part of a trial that a server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerPart {
    /// Far end.
    FarEnd,
    /// Far end, with a relay in front of it.
    BehindRelay,
    /// Relay to the far end at this other server.
    Relay(SocketAddr),
}

impl ServerPart {
    fn of(plan: &AgentPlan, contender: &Contender) -> ServerPart {
        match (plan.onward, &contender.via) {
            (Some(to), _) => ServerPart::Relay(to),
            (None, Via::Relay) => ServerPart::BehindRelay,
            (None, _) => ServerPart::FarEnd,
        }
    }

    /// Returns the address that its plan has, where `here` is the address of the server.
    fn endpoint(self, here: SocketAddr) -> SocketAddr {
        match self {
            ServerPart::FarEnd | ServerPart::Relay(_) => here,
            ServerPart::BehindRelay => behind_relay(here),
        }
    }
}

/// Terms of an operator that hold for each trial.
#[derive(Debug, Clone, Copy)]
pub(super) struct OperatorTerms<'a> {
    pub(super) limits: &'a Limits,
    /// CPUs of this host.
    pub(super) cpus: &'a [usize],
    /// Ports that are open beside the server's own.
    pub(super) also: &'a [&'static str],
    pub(super) relay_to: &'a RelayTo,
}

/// Checks `plan` against the operator's terms, and makes it this server's own: with its limits, its address `here`, no
/// file of this host, and no path properties that only the client knows.
///
/// # Errors
/// Fails with a sentence that names the excess and the limit.
pub(super) fn admit(
    plan: AgentPlan,
    terms: OperatorTerms<'_>,
    here: SocketAddr,
) -> Result<AdmittedTrial> {
    let OperatorTerms { limits, cpus, also, relay_to } = terms;
    if plan.side != Side::Far {
        return Err(Error::peer(
            "server",
            "a server runs far ends only; the near end runs where the race does",
        ));
    }
    let contender = Contender::sent(&plan.contender)?;
    check_knobs(&contender)?;
    if contender.via == Via::Coturn {
        return Err(Error::usage(via::unserved_coturn(&contender.spec)));
    }
    let whole = SharedTask::parse(&plan.workload)?;
    let contender = suited(contender, &*whole)?;
    own_ports::check(&contender, plan.share, also)?;
    let task = dealt(&contender, whole);
    check_place(plan.grant, plan.share, task.info())?;
    let part = ServerPart::of(&plan, &contender);
    let demand = Demand::of(&plan, &contender, task.info());
    demand.check(limits, cpus)?;
    if let ServerPart::Relay(to) = part {
        check_relay(&contender, to, here)?;
        relay_to.check(to)?;
    }
    check_files(&task.info().files)?;
    check_clock(plan.clock.as_ref())?;
    // A relay forwards TCP and UDP, whatever they carry.
    if !matches!(part, ServerPart::Relay(_)) {
        own_ports::here(&contender, plan.share)
            .into_iter()
            .try_for_each(|one| one.check_at(Place::Server))
            .map_err(|e| Error::limited(format!("the server's host: {e}")))?;
    }
    let span = span(plan.grant, task.info(), limits);
    // A new field of a plan does not compile until it is listed here, so all that a client may set is in this list.
    let plan = AgentPlan {
        side: plan.side,
        contender: plan.contender,
        workload: plan.workload,
        token: plan.token,
        seed: plan.seed,
        cpu: plan.cpu,
        wait: plan.wait,
        interval_ns: plan.interval_ns,
        live: plan.live,
        pass: plan.pass,
        endpoint: Address::Ip(part.endpoint(here)),
        further: Vec::new(),
        share: plan.share,
        samples: None,
        limits: Some(*limits),
        emulated: None,
        // No IP network has a smaller MTU (RFC 791, section 3.1: every host accepts packets of 576 bytes).
        mtu: plan.mtu.map(|mtu| mtu.max(576)),
        origin: Origin::default(),
        hole: plan.hole,
        goes_first: false,
        blast: plan.blast,
        grant: plan.grant,
        clock: plan.clock,
        // A server drives no far end of others for its clients.
        far_end: None,
        onward: plan.onward,
        far_pin: None,
    };
    let (place, flows) = (plan.grant, task.info().flows.len());
    let connections = connections(&contender, task.info());
    let parts = contender.transport.parts().len().max(1);
    let source = match (part, &contender.via) {
        (ServerPart::FarEnd, Via::RelayAt { .. }) => DataSource::Relay,
        (ServerPart::FarEnd, Via::Turn { .. }) => DataSource::Turn,
        _ => DataSource::Client,
    };
    Ok(AdmittedTrial { plan, connections, flows, parts, span, demand, place, part, source })
}

/// Refuses a relay for a contender that goes through none, and one to the relay's own server.
fn check_relay(contender: &Contender, to: SocketAddr, here: SocketAddr) -> Result<()> {
    let of = |one: SocketAddr| (one.ip().to_canonical(), one.port());
    if !matches!(contender.via, Via::RelayAt { .. }) {
        return Err(Error::peer(
            "server",
            "you want a relay for a contender that goes through none",
        ));
    }
    if of(to) == of(here) {
        return Err(Error::usage(format!(
            "{}: relay and far end are one server, {to}; via=relay is a relay beside the far end",
            contender.spec
        )));
    }
    Ok(())
}

/// Returns the number of connections that a trial may open: of each flow, one after the other, and of each part of the
/// contender.
fn connections(contender: &Contender, info: &TaskInfo) -> usize {
    let parts = contender.transport.parts().len().max(1);
    info.flows.len().saturating_mul(info.connections.into()).saturating_mul(parts)
}

/// Returns the address at which a far end behind a relay listens, which is reached from this host only.
fn behind_relay(here: SocketAddr) -> SocketAddr {
    let ip = match here.ip().to_canonical() {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::LOCALHOST),
    };
    SocketAddr::new(ip, 0)
}

/// Checks the place of a far end among the far ends of its trial, and that it has some of the flows of the work.
fn check_place(place: Option<GrantPlace>, share: Option<Share>, info: &TaskInfo) -> Result<()> {
    if let Some(GrantPlace { nodes, node, .. }) = place
        && (nodes > MOST_FAR_ENDS || node >= nodes)
    {
        return Err(Error::usage(format!(
            "far end {} of {nodes} of one trial; a server runs {MOST_FAR_ENDS} of them at most, so spread them over more \
             servers (--to A --to B), or ask for fewer",
            u32::from(node) + 1
        )));
    }
    match share {
        Some(share @ Share { node, nodes })
            if node >= nodes || share.flows(info, Side::Far).is_empty() =>
        {
            let flows = info.flows.len();
            Err(Error::usage(format!("far end {node} of {nodes} has none of the {flows} flows")))
        }
        _ => Ok(()),
    }
}

/// Returns the longest duration of a far end, once started. A load ends with the work beside it, which sets the time of
/// both; without any work it has the longest that the limits allow.
fn span(place: Option<GrantPlace>, info: &TaskInfo, limits: &Limits) -> Nanos {
    match place {
        Some(GrantPlace { task: GrantTask::Load, node, .. }) if node > 0 => Nanos::ZERO,
        Some(GrantPlace { task: GrantTask::Load, .. }) => limits.duration_ns,
        _ => {
            // The load runs for a while before the work begins.
            let lead = info.load.as_ref().map_or(Nanos::ZERO, |load| load.lead);
            info.longest.saturating_add(lead).min(limits.duration_ns.saturating_add(info.timeout))
        }
    }
}

/// Refuses knobs that name a file. An honest client does not send them, and its near end writes the file.
fn check_knobs(contender: &Contender) -> Result<()> {
    contender.file().map_or(Ok(()), |knob| {
        Err(Error::unsupported(
            format!("{}:{knob}=FILE", contender.transport.info().id),
            "a server opens no file because a client says so; leave it out of the far end's plan",
        ))
    })
}

/// Refuses a map of this host's clock to none that runs like a clock.
fn check_clock(clock: Option<&ClockMap>) -> Result<()> {
    match clock.filter(|map| !map.is_plausible()) {
        None => Ok(()),
        Some(map) => Err(Error::peer(
            "server",
            format!(
                "you want the far clock to gain {} ppm, and clocks differ by {LARGEST_GAIN_PPM} at most",
                map.gain_ppm
            ),
        )),
    }
}

/// Refuses files of this host: a server neither reads nor writes a file because a client asks for it. An honest client
/// names none: it replaces the names of its own files by [`ELSEWHERE`]. (The agent refuses them, too, if this check
/// ever misses one.)
fn check_files(files: &[NamedFile]) -> Result<()> {
    let wrong = |file: &NamedFile| file.side == Side::Far || file.path != ELSEWHERE;
    if files.iter().any(wrong) { Err(Error::usage(NO_FILES)) } else { Ok(()) }
}

/// Demand of a trial on a server: of one far end, or of several together.
#[derive(Debug, Clone)]
pub(super) struct Demand {
    transport: &'static str,
    reach: Reach,
    planned: Nanos,
    /// Largest number of bytes that one direction is known to carry.
    pub(super) most_bytes: Option<u64>,
    /// Rate of work on a schedule.
    rate: Option<BitRate>,
    flows: usize,
    /// Number of connections that its flows open in all.
    connections: usize,
    /// Number of flows that take a CPU each.
    spinning: usize,
    largest_message: usize,
    cpu: Option<usize>,
}

impl Demand {
    /// Returns the demand of the far end with this plan: its part of the work's flows, and of the bytes.
    fn of(plan: &AgentPlan, contender: &Contender, task: &TaskInfo) -> Demand {
        let transport: &Info = contender.transport.info();
        let all = task.flows.len();
        let flows = plan.share.map_or(all, |share| share.flows(task, plan.side).len());
        let part = |bytes: u64| {
            let part = u128::from(bytes) * flows as u128 / all.max(1) as u128;
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        let is_load = plan.grant.is_some_and(|place| place.task == GrantTask::Load);
        let planned = task.planned.filter(|_| !is_load).unwrap_or_default();
        let most_bytes = task.most_bytes.filter(|_| !is_load).map(part);
        let spins = plan.wait == WaitMode::Spin;
        // A relay sends what either end sends.
        let is_both = task.flows.iter().any(|flow| *flow != Some(Direction::Up))
            && task.flows.iter().any(|flow| *flow != Some(Direction::Down));
        let ways = if plan.onward.is_some() && is_both { 2 } else { 1 };
        let most_bytes = most_bytes.map(|bytes| bytes.saturating_mul(ways));
        let rate = most_bytes.filter(|_| task.is_paced && planned > Nanos::ZERO);
        Demand {
            transport: transport.id,
            reach: transport.reach,
            planned,
            most_bytes,
            rate: rate.map(|bytes| BitRate((bytes as f64 * 8e9 / planned.0 as f64) as u64)),
            flows,
            connections: part(connections(contender, task) as u64) as usize,
            spinning: if spins { flows } else { 0 },
            largest_message: task.largest_message,
            cpu: plan.cpu,
        }
    }

    /// Returns the demand of a server command that moves so many bytes, or works for so long, as far as it is asked to.
    pub(super) fn of_command(bytes: Option<u64>, time: Option<Nanos>) -> Demand {
        Demand {
            transport: "a command",
            reach: Reach::Network,
            planned: time.unwrap_or_default(),
            most_bytes: bytes,
            rate: None,
            flows: 1,
            connections: 1,
            spinning: 0,
            largest_message: 0,
            cpu: None,
        }
    }

    /// Returns the demand of these far ends and another one together.
    pub(super) fn beside(&self, other: &Demand) -> Demand {
        let rates = [self.rate, other.rate].into_iter().flatten();
        Demand {
            planned: self.planned.max(other.planned),
            most_bytes: match (self.most_bytes, other.most_bytes) {
                (Some(a), Some(b)) => Some(a.saturating_add(b)),
                (a, b) => a.or(b),
            },
            rate: rates.reduce(|a, b| BitRate(a.0.saturating_add(b.0))),
            flows: self.flows + other.flows,
            connections: self.connections.saturating_add(other.connections),
            spinning: self.spinning + other.spinning,
            largest_message: self.largest_message.max(other.largest_message),
            ..other.clone()
        }
    }

    /// Checks the demand against the limits, and against the CPUs of this host.
    ///
    /// # Errors
    /// Fails with a sentence that names the excess and the limit.
    pub(super) fn check(&self, limits: &Limits, cpus: &[usize]) -> Result<()> {
        if self.reach == Reach::Path {
            return Err(Error::usage(unserved(self.transport)));
        }
        if !matches!(self.reach, Reach::Network | Reach::OwnPort) {
            return Err(Error::usage(format!(
                "{} does not leave its machine; race it without --to",
                self.transport
            )));
        }
        if self.planned > limits.duration_ns {
            return Err(Error::usage(format!(
                "a trial of this workload is meant to last {}, and this server allows {}; ask for less, or \
                 raise --max-duration there",
                self.planned, limits.duration_ns
            )));
        }
        if let Some(bytes) = self.most_bytes.filter(|bytes| *bytes > limits.bytes) {
            return Err(Error::usage(format!(
                "a trial of this workload carries up to {}, and this server allows {}; ask for \
                 less, or raise --max-bytes there",
                Bytes(bytes),
                Bytes(limits.bytes)
            )));
        }
        if let Some(rate) = self.rate.filter(|rate| *rate > limits.rate_bps) {
            return Err(Error::usage(format!(
                "this workload offers {rate} per direction, and this server allows {}; ask for less, or \
                 raise --max-rate there",
                limits.rate_bps
            )));
        }
        if self.flows > MOST_FLOWS {
            return Err(Error::usage(format!(
                "this workload has {} flows, and a server takes {MOST_FLOWS} at most",
                self.flows
            )));
        }
        if self.connections > MOST_CONNECTIONS {
            return Err(Error::usage(format!(
                "a trial of this workload opens {} connections, and a server takes {MOST_CONNECTIONS} at most, as their \
                 numbers have 16 bits; ask for fewer",
                self.connections
            )));
        }
        let spinning = self.spinning.saturating_mul(limits.concurrent as usize);
        if self.spinning > 1 && spinning > cpus.len() {
            return Err(Error::usage(format!(
                "{} flows that spin take a CPU each, and this server has {} for the {} that may run at \
                 once; race with fewer flows, or without --placement busy",
                self.spinning,
                cpus.len(),
                count(limits.concurrent)
            )));
        }
        if self.largest_message > LARGEST_MESSAGE {
            return Err(Error::usage(format!(
                "messages of {} are larger than the {} that a server takes",
                Bytes(self.largest_message as u64),
                Bytes(LARGEST_MESSAGE as u64)
            )));
        }
        match self.cpu {
            Some(cpu) if !cpus.contains(&cpu) => Err(Error::usage(format!(
                "the far host has no CPU {cpu} for this server (it has {}); choose another \
                 --placement",
                listed(cpus)
            ))),
            _ => Ok(()),
        }
    }
}

fn count(trials: u32) -> String {
    if trials == 1 { "trial".into() } else { format!("{trials} trials") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DEFAULT_LIMITS;
    use deadheat_contract::workload;

    const FINE: Demand = Demand {
        transport: "udp",
        reach: Reach::Network,
        planned: Nanos::from_secs(60),
        most_bytes: Some(100_000_000_000),
        rate: None,
        flows: 128,
        connections: 1 << 16,
        spinning: 0,
        largest_message: LARGEST_MESSAGE,
        cpu: Some(1),
    };

    fn refusal(demand: &Demand) -> String {
        demand.check(&DEFAULT_LIMITS, &[0, 1]).unwrap_err().to_string()
    }

    #[test]
    fn sized_work_may_take_as_long_as_the_path_takes_and_timed_work_may_not() {
        let planned = |typed| workload::parse(typed).unwrap().info().planned.unwrap_or_default();
        assert_eq!(planned("bulk:bytes=1GB"), Nanos::ZERO);
        assert!(planned("bulk:time=90s") >= Nanos::from_secs(90));
        assert!(planned("ping:count=1000,interval=1s") >= Nanos::from_secs(999));
    }

    #[test]
    fn what_just_fits_is_taken() {
        FINE.check(&DEFAULT_LIMITS, &[0, 1]).unwrap();
    }

    #[test]
    fn no_file_is_read_or_written_for_a_client() {
        let ask = |typed| check_files(&workload::parse(typed).unwrap().info().files);
        for typed in [
            "bulk:file=/etc/passwd,direction=down",
            "bulk:sink=/tmp/x,bytes=1MB",
            "bulk:sink=-,bytes=1MB",
            "bulk:file=-,bytes=1MB,direction=down",
            "bulk:file=/etc/passwd",
        ] {
            let why = ask(typed).unwrap_err().to_string();
            assert!(why.contains("a server reads and writes no files"), "{typed}: {why}");
        }
        assert!(ask("bulk:file=-,bytes=1MB").is_ok(), "the client's own");
        assert!(ask("bulk:sink=-,bytes=1MB,direction=down").is_ok());
    }

    #[test]
    fn no_knob_names_a_file_of_a_server() {
        let parse = |typed: &str| Contender::parse(typed).unwrap();
        let logging = parse("quic:qlog=/tmp/x,mtu=1400B");
        let why = check_knobs(&logging).unwrap_err().to_string();
        assert!(why.contains("a server opens no file"), "{why}");
        assert_eq!(logging.without_files(), "quic:mtu=1400B");
        check_knobs(&parse(&logging.without_files())).unwrap();
        assert!(check_knobs(&parse("mix:a=udp,others=quic:qlog=x")).is_err());
    }

    #[test]
    fn each_limit_is_refused_in_its_own_words() {
        let mut demand = FINE;
        demand.planned = Nanos(60_000_000_001);
        let say = refusal(&demand);
        assert!(say.contains("meant to last 60.0 s") && say.contains("--max-duration"), "{say}");

        let mut demand = FINE;
        demand.most_bytes = Some(200_000_000_000);
        let say = refusal(&demand);
        assert!(say.contains("up to 200 GB, and this server allows 100 GB"), "{say}");

        let mut demand = FINE;
        demand.rate = Some(BitRate(16_000_000_000));
        let say = refusal(&demand);
        assert!(say.contains("offers 16.0 Gbit/s") && say.contains("--max-rate"), "{say}");

        let mut demand = FINE;
        demand.cpu = Some(7);
        let say = refusal(&demand);
        assert!(say.contains("no CPU 7 for this server (it has 0, 1)"), "{say}");

        let mut demand = FINE;
        (demand.spinning, demand.flows) = (3, 3);
        let say = refusal(&demand);
        assert!(say.contains("3 flows that spin") && say.contains("has 2 for the trial"), "{say}");
        demand.spinning = 2;
        demand.check(&DEFAULT_LIMITS, &[0, 1]).unwrap();
        (demand.spinning, demand.cpu) = (1, None);
        demand.check(&DEFAULT_LIMITS, &[0]).unwrap();

        let mut demand = FINE;
        demand.reach = Reach::Machine;
        assert!(refusal(&demand).contains("race it without --to"));

        let mut demand = FINE;
        demand.flows = 129;
        assert!(refusal(&demand).contains("129 flows"));

        let mut demand = FINE;
        demand.connections += 1;
        assert!(refusal(&demand).contains("opens 65537 connections"));

        let mut demand = FINE;
        demand.largest_message += 1;
        assert!(refusal(&demand).contains("16.8 MB"));
    }
}
