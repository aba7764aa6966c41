//! Admission of the trials that clients request, and the server's own plan for each.

use std::net::SocketAddr;

use super::own_ports;
use crate::contract::{Reach, Side, WaitMode};
use crate::error::{Error, Result};
use crate::host::placement::listed;
use crate::time::Nanos;
use crate::transport::{Address, Contender, Place, unserved};
use crate::trial::agent::means::NO_FILES;
use crate::trial::control::{AgentPlan, Limits};
use crate::units::{BitRate, Bytes};
use crate::workload::{self, ELSEWHERE, NamedFile, TaskInfo};

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
    /// Number of connections that it may open.
    pub(super) connections: usize,
    /// Longest duration, once started.
    pub(super) span: Nanos,
    /// Largest number of bytes that one direction is known to carry.
    pub(super) most_bytes: Option<u64>,
}

/// Checks `plan` against `limits`, the CPUs of this host and the ports that are `also` open, and makes it this server's own: with its limits, its
/// address `here`, no file of this host, and no path properties that only the client knows.
///
/// # Errors
/// Fails with a sentence that names the excess and the limit.
pub(super) fn admit(
    plan: AgentPlan,
    limits: &Limits,
    cpus: &[usize],
    also: &[&str],
    here: SocketAddr,
) -> Result<AdmittedTrial> {
    if plan.side != Side::Far {
        return Err(Error::peer(
            "server",
            "a server runs far ends only; the near end runs where the race does",
        ));
    }
    let contender = Contender::sent(&plan.contender)?;
    check_knobs(&contender)?;
    own_ports::check(&contender, also)?;
    let task = workload::parse(&plan.workload)?;
    let info = contender.transport.info();
    let demand = Demand {
        transport: info.id,
        reach: info.reach,
        planned: task.info().planned.unwrap_or_default(),
        most_bytes: task.info().most_bytes,
        is_paced: task.info().is_paced,
        flows: task.info().flows.len(),
        connections: connections(&contender, task.info()),
        largest_message: task.info().largest_message,
        cpu: plan.cpu,
        wait: plan.wait,
    };
    demand.check(limits, cpus)?;
    check_files(&task.info().files)?;
    contender
        .check_at(Place::Server)
        .map_err(|e| Error::limited(format!("the server's host: {e}")))?;
    let span = task.info().longest.min(limits.duration_ns.saturating_add(task.info().timeout));
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
        endpoint: Address::Ip(here),
        further: Vec::new(),
        share: None,
        samples: None,
        limits: Some(*limits),
        emulated: None,
        // No IP network has a smaller MTU (RFC 791, section 3.1: every host accepts packets of 576 bytes).
        mtu: plan.mtu.map(|mtu| mtu.max(576)),
        goes_first: false,
        blast: plan.blast,
    };
    let Demand { connections, most_bytes, .. } = demand;
    Ok(AdmittedTrial { plan, connections, span, most_bytes })
}

/// Returns the number of connections that a trial may open: of each flow, one after the other, and of each part of the
/// contender.
fn connections(contender: &Contender, info: &TaskInfo) -> usize {
    let parts = contender.transport.parts().len().max(1);
    info.flows.len().saturating_mul(info.connections.into()).saturating_mul(parts)
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

/// Refuses files of this host: a server neither reads nor writes a file because a client asks for it. An honest client
/// names none: it replaces the names of its own files by [`ELSEWHERE`]. (The agent refuses them, too, if this check
/// ever misses one.)
fn check_files(files: &[NamedFile]) -> Result<()> {
    let wrong = |file: &NamedFile| file.side == Side::Far || file.path != ELSEWHERE;
    if files.iter().any(wrong) { Err(Error::usage(NO_FILES)) } else { Ok(()) }
}

/// Demand of a trial on a server.
#[derive(Debug, Clone)]
struct Demand {
    transport: &'static str,
    reach: Reach,
    planned: Nanos,
    most_bytes: Option<u64>,
    is_paced: bool,
    flows: usize,
    /// Number of connections that its flows open in all.
    connections: usize,
    largest_message: usize,
    cpu: Option<usize>,
    wait: WaitMode,
}

impl Demand {
    /// Returns the rate of work on a schedule.
    fn rate(&self) -> Option<BitRate> {
        let bytes = self.most_bytes.filter(|_| self.is_paced && self.planned > Nanos::ZERO)?;
        Some(BitRate((bytes as f64 * 8e9 / self.planned.0 as f64) as u64))
    }

    fn check(&self, limits: &Limits, cpus: &[usize]) -> Result<()> {
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
        if let Some(rate) = self.rate().filter(|rate| *rate > limits.rate_bps) {
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
        let spinning = self.flows.saturating_mul(limits.concurrent as usize);
        if self.wait == WaitMode::Spin && self.flows > 1 && spinning > cpus.len() {
            return Err(Error::usage(format!(
                "{} flows that spin take a CPU each, and this server has {} for the {} that may run at \
                 once; race with fewer flows, or without --placement busy",
                self.flows,
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
    use crate::server::DEFAULT_LIMITS;

    const FINE: Demand = Demand {
        transport: "udp",
        reach: Reach::Network,
        planned: Nanos::from_secs(60),
        most_bytes: Some(100_000_000_000),
        is_paced: false,
        flows: 128,
        connections: 1 << 16,
        largest_message: LARGEST_MESSAGE,
        cpu: Some(1),
        wait: WaitMode::Hybrid,
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
        demand.is_paced = true;
        (demand.planned, demand.most_bytes) = (Nanos::from_secs(1), Some(2_000_000_000));
        let say = refusal(&demand);
        assert!(say.contains("offers 16.0 Gbit/s") && say.contains("--max-rate"), "{say}");

        let mut demand = FINE;
        demand.cpu = Some(7);
        let say = refusal(&demand);
        assert!(say.contains("no CPU 7 for this server (it has 0, 1)"), "{say}");

        let mut demand = FINE;
        (demand.wait, demand.flows) = (WaitMode::Spin, 3);
        let say = refusal(&demand);
        assert!(say.contains("3 flows that spin") && say.contains("has 2 for the trial"), "{say}");
        demand.flows = 2;
        demand.check(&DEFAULT_LIMITS, &[0, 1]).unwrap();
        (demand.flows, demand.cpu) = (1, None);
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
