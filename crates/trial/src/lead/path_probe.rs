//! Probes of the paths to servers before the first trial, and once a trial has failed or lost much: the path MTU, and
//! whether UDP arrives at all. The contenders of a race share the findings, and a failure gets its cause.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::measurements::path_mtu::PathMtu;
use deadheat_datapath::transport::Contender;
use deadheat_datapath::transport::equal::Terms;
use deadheat_datapath::transport::userspace::MTU;
use deadheat_datapath::transport::via::Via;
use deadheat_records::probed::{ProbedPath, UnknownMtu};
use deadheat_records::trial::Record;

use super::cast::Group;
use super::far::{Far, FarHost};
use super::pairing::Pairing;
use exchange::{PathFinding, probe};

mod exchange;

/// Time for which a finding holds after a failure; later it is looked for again. It doubles with each finding that
/// repeats the last.
const HOLDS: Nanos = Nanos::from_secs(2);

/// Time after which the path is probed again in any case (`PMTU_RAISE_TIMER`, RFC 8899, section 5.1.1).
const LASTS: Nanos = Nanos::from_secs(600);

/// Packet in bytes that a path of which nothing is known is assumed to carry, as without probes.
const ASSUMED: u32 = 1_500;

/// Probes of the paths to the servers of a race.
#[derive(Debug, Default)]
pub(super) struct PathProbes {
    /// Findings, in the order of the servers.
    found: Vec<FoundPath>,
}

/// Path to one server.
#[derive(Debug)]
struct FoundPath {
    server: SocketAddr,
    /// Name of its host as typed.
    host: String,
    finding: PathFinding,
    /// Time of the finding.
    at: Nanos,
    /// Time for which it holds after a failure.
    holds: Nanos,
    /// True if the path may have changed since.
    is_stale: bool,
    /// Last path MTU without a black hole, and its time.
    whole: Option<(PathMtu, Nanos)>,
    /// Smallest path MTU of the race, which holds for the rest of it, so that packets do not grow amid a race.
    least: Option<u32>,
}

impl FoundPath {
    fn probed(host: &str, server: SocketAddr, finding: PathFinding, now: Nanos) -> FoundPath {
        let host = host.to_owned();
        let (whole, least) = (None, None);
        let (holds, is_stale) = (HOLDS, false);
        let mut found = FoundPath { server, host, finding, at: now, holds, is_stale, whole, least };
        found.sum_up();
        found
    }

    /// Takes a newer finding about the same path.
    fn again(&mut self, finding: PathFinding, now: Nanos) {
        let is_same = self.finding.is_like(&finding);
        self.holds = if is_same { LASTS.min(self.holds + self.holds) } else { HOLDS };
        (self.finding, self.at, self.is_stale) = (finding, now, false);
        self.sum_up();
    }

    fn sum_up(&mut self) {
        let PathFinding::Through(mtu) = self.finding else { return };
        self.least = Some(self.least.map_or(mtu.bytes(), |least| least.min(mtu.bytes())));
        if !mtu.is_black_hole() {
            self.whole = Some((mtu, self.at));
        }
    }

    fn age(&self, now: Nanos) -> Nanos {
        if self.is_stale { Nanos(u64::MAX) } else { now - self.at }
    }

    fn is_blocked(&self) -> bool {
        matches!(self.finding, PathFinding::Blocked { .. })
    }

    fn mtu(&self) -> Option<PathMtu> {
        if let PathFinding::Through(mtu) = self.finding { Some(mtu) } else { None }
    }

    /// Describes its black hole, and since when it is known to be there, if larger packets passed before.
    fn black_hole(&self) -> Option<String> {
        let mtu = self.mtu()?;
        let hole = mtu.black_hole(&self.host)?;
        Some(match self.whole {
            Some((before, at)) if before.bytes() > mtu.bytes() => format!(
                "{hole} that began within the last {}, as packets of {} bytes passed before",
                self.at - at,
                before.bytes()
            ),
            _ => hole,
        })
    }

    /// Returns the error of a contender whose datagrams do not get through, if they do not.
    fn no_udp(&self) -> Option<String> {
        let PathFinding::Blocked { arrived, evidence } = &self.finding else { return None };
        let (ip, port) = (self.server.ip(), self.server.port());
        let who = if *arrived {
            format!(
                "UDP to port {port} of {ip} arrives, and its answers do not come back; TCP's do: a firewall or NAT on the way \
                 back, or on this host, must let in UDP from port {port}"
            )
        } else {
            format!(
                "UDP to port {port} of {ip} does not arrive; TCP does: the operator of {ip}, or of a firewall on the way there, \
                 must let in UDP to port {port}"
            )
        };
        Some(format!("{who} ({evidence})"))
    }

    /// Returns it in the form of results; `None` if there is nothing to know.
    fn recorded(&self) -> Option<ProbedPath> {
        let (mtu, unknown) = match self.finding {
            PathFinding::Local => return None,
            PathFinding::Through(mtu) => (Some(mtu), None),
            PathFinding::Blocked { .. } => (None, Some(UnknownMtu::UdpBlocked)),
            PathFinding::Unknown(why) => (None, Some(why)),
        };
        Some(ProbedPath { host: self.host.clone(), mtu, unknown })
    }
}

impl PathProbes {
    /// Probes the paths of a race before its first trial, every ten minutes, and before a trial over UDP where UDP was
    /// blocked.
    ///
    /// # Errors
    /// [`Error::Blocked`] if it is blocked, so that the contender need not try.
    pub(super) fn prepare(
        &mut self,
        far: &Far,
        pairing: &Pairing,
        stop: &AtomicBool,
    ) -> Result<()> {
        let udp = over_udp(pairing);
        self.refresh(far, stop, |found, now| {
            let lasts = if found.is_blocked() && udp.is_some() { found.holds } else { LASTS };
            found.age(now) >= lasts
        });
        match self.blocked(pairing) {
            Some(why) => Err(Error::blocked(why)),
            None => Ok(()),
        }
    }

    /// Notes that the paths may have changed, as with a connection that was lost.
    pub(super) fn doubt(&mut self) {
        self.found.iter_mut().for_each(|found| found.is_stale = true);
    }

    /// Sets what a group of a trial has to know of the paths.
    pub(super) fn fit(&self, group: &mut Group) {
        if unprobed(&group.contender).is_some() {
            return;
        }
        group.paths = self.found.iter().map(FoundPath::mtu).collect();
        group.packet = self.packet_for(&group.contender);
    }

    /// Returns the size of the packets of a contender, which pass on all probed paths; `None` where it has its own: where
    /// `mtu` was typed, or where the implementation chooses.
    fn packet_for(&self, contender: &Contender) -> Option<u32> {
        let parts = contender.transport.parts();
        let is_over_udp = contender.transport.info().is_over_udp
            || parts.iter().any(|part| part.contender.transport.info().is_over_udp);
        let is_open =
            is_over_udp && !contender.knobs.given(MTU.name()) && contender.terms == Terms::Equal;
        let known = self.found.iter().any(|found| found.least.is_some());
        let least = self.found.iter().map(|found| found.least.unwrap_or(ASSUMED)).min();
        least.filter(|_| is_open && known)
    }

    /// Adds the findings to the record of a trial of the group `work`, and the black hole behind it to the reason for
    /// which it is invalid. After a trial that is invalid or lost much they are looked for again.
    pub(super) fn note(&mut self, far: &Far, work: &Group, stop: &AtomicBool, record: &mut Record) {
        if far.servers().is_empty() {
            return;
        }
        if let (Some(packet), Some(narrow)) = (work.packet, work.narrowest()) {
            for effective in [&mut record.effective, &mut record.far_effective] {
                effective.insert("path_mtu".to_owned(), packet.to_string());
                effective.insert("path_mtu_by".to_owned(), narrow.source().to_owned());
            }
        }
        let count = far.hosts().len();
        let nodes = 0..work.far_nodes.max(1);
        let hosts: Vec<usize> = nodes.filter_map(|node| work.host_of(node, count)).collect();
        let before = self.hole(&hosts);
        if !record.valid || is_lossy(record) {
            self.refresh(far, stop, |found, now| found.age(now) >= found.holds);
        }
        let unknown = unprobed(&work.contender);
        let paths = self.found.iter().filter_map(FoundPath::recorded);
        record.path_mtu = paths
            .map(|path| match unknown {
                Some(_) => ProbedPath { mtu: None, unknown, ..path },
                None => path,
            })
            .collect();
        let is_new = before.is_none() || is_lossy(record);
        let hole = self.hole(&hosts).filter(|_| unknown.is_none() && is_new);
        if let (Some(why), Some(hole)) = (&mut record.why_invalid, hole) {
            why.push_str(&format!("; {hole}"));
        }
    }

    /// Returns the error of a failed trial with its cause, if a path is one: a black hole, or UDP that is blocked.
    pub(super) fn explain(
        &mut self,
        far: &Far,
        pairing: &Pairing,
        stop: &AtomicBool,
        error: Error,
    ) -> Error {
        let is_broken = matches!(error, Error::Broken { .. });
        let may_be_the_path =
            is_broken || matches!(error, Error::Blocked { .. } | Error::Peer { .. });
        if far.servers().is_empty()
            || far.is_lost()
            || !may_be_the_path
            || unprobed(&pairing.contender).is_some()
        {
            return error;
        }
        let hosts = hosts_of(far, pairing);
        let before = self.hole(&hosts);
        self.refresh(far, stop, |found, now| found.age(now) >= found.holds);
        // A hole that was known stops ends before they start, so what breaks down amid the work does so for another reason.
        let hole = self.hole(&hosts).filter(|_| !is_broken || before.is_none());
        let blocked = self.blocked(pairing);
        match (hole, blocked) {
            (None, None) => error,
            (_, Some(blocked)) => Error::blocked(blocked),
            (Some(hole), None) => {
                Error::blocked(format!("{hole}; {} ({})", self.remedy(), evidence(error)))
            }
        }
    }

    /// Probes the paths that were not probed yet, and those for which `is_due` is true.
    fn refresh(
        &mut self,
        far: &Far,
        stop: &AtomicBool,
        is_due: impl Fn(&FoundPath, Nanos) -> bool,
    ) {
        for (at, FarHost { host, server }) in far.hosts().iter().enumerate() {
            let known = self.found.get_mut(at).filter(|found| found.server == server.address);
            match known {
                Some(found) if !is_due(found, Monotonic.now()) => {}
                Some(found) => found.again(probe(server, stop), Monotonic.now()),
                None => {
                    self.found.truncate(at);
                    let finding = probe(server, stop);
                    let now = Monotonic.now();
                    self.found.push(FoundPath::probed(host, server.address, finding, now));
                }
            }
        }
    }

    /// Describes the black holes on the paths to these hosts, if there are any.
    fn hole(&self, hosts: &[usize]) -> Option<String> {
        let found = hosts.iter().filter_map(|host| self.found.get(*host));
        let holes: Vec<String> = found.filter_map(FoundPath::black_hole).collect();
        (!holes.is_empty()).then(|| holes.join("; "))
    }

    /// Returns the reason why a contender over UDP of a trial cannot get through, if there is one.
    fn blocked(&self, pairing: &Pairing) -> Option<String> {
        let (contender, is_load) = over_udp(pairing)?;
        let hosts = if is_load { 1 } else { pairing.task.info().receivers.into() };
        let why = self.found.iter().take(hosts).find_map(FoundPath::no_udp)?;
        let spec = &contender.spec;
        Some(if is_load { format!("the load {spec} beside it: {why}") } else { why })
    }

    /// Returns the remedy for a black hole.
    fn remedy(&self) -> String {
        let holes = self.found.iter().filter_map(FoundPath::mtu).filter(PathMtu::is_black_hole);
        let mtu = holes.map(|mtu| mtu.bytes()).min().unwrap_or_default();
        format!(
            "lower the MTU (mtu={mtu}B for contenders that have it, `ip route change … mtu {mtu}` at both hosts for all), set \
             net.ipv4.tcp_mtu_probing=1 for TCP, send smaller messages, or have the firewalls on the way let ICMP pass"
        )
    }
}

/// Returns the positions of the far hosts that a trial of this pairing reaches.
fn hosts_of(far: &Far, pairing: &Pairing) -> Vec<usize> {
    match far.places(&pairing.contender) {
        Ok(places) if !places.is_empty() => places,
        _ => (0..far.hosts().len()).take(pairing.task.info().receivers.into()).collect(),
    }
}

/// Returns the first contender of a trial that needs UDP on the probed path, and true if it is that of the load beside the
/// work. One of several parts may do without.
fn over_udp(pairing: &Pairing) -> Option<(&Contender, bool)> {
    let load = pairing.load.as_deref().map(|load| (&load.contender, true));
    let mut all = [(&pairing.contender, false)].into_iter().chain(load);
    all.find(|(contender, _)| {
        contender.transport.info().is_over_udp
            && contender.transport.parts().is_empty()
            && unprobed(contender).is_none()
    })
}

/// Returns the reason why nothing is known of the way of a contender, if it is another than that of the probes, which go
/// straight to the server of the far end.
fn unprobed(contender: &Contender) -> Option<UnknownMtu> {
    match &contender.via {
        Via::Direct | Via::Relay => None,
        Via::RelayAt { .. } => Some(UnknownMtu::Relay),
        Via::Coturn | Via::Turn { .. } => Some(UnknownMtu::Turn),
    }
}

/// Returns true if a trial lost half of its messages, as where large ones vanish from some moment on.
fn is_lossy(record: &Record) -> bool {
    let mut accounts = record.ledger.accounts();
    accounts.any(|(_, account)| account.delivered < account.sent.div_ceil(2))
}

/// Returns the evidence of an error, without the kind.
fn evidence(error: Error) -> String {
    match error {
        Error::Blocked { evidence } => evidence,
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_say_nothing_of_a_way_through_another_host() {
        let of = |typed: &str| unprobed(&Contender::parse(typed).unwrap());
        assert_eq!((of("udp"), of("udp:via=relay")), (None, None));
        assert_eq!(of("tcp:via=relay@relay.example"), Some(UnknownMtu::Relay));
        assert_eq!(of("udp:via=turn:turn.example"), Some(UnknownMtu::Turn));
    }
}
