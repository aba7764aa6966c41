//! Runners of a race's trials: agents on this machine or at a server, or a simulation.

use std::net::SocketAddr;

use super::request::Request;
use deadheat_base::error::{Error, Result};
use deadheat_contract::workload::{self, AnswerSource, Task};
use deadheat_datapath::datapath::origin::Origin;
use deadheat_datapath::transport::far_end::{self, FarEndAt};
use deadheat_datapath::transport::plain::PlainProtocol;
use deadheat_datapath::transport::{self, Contender, Transport, several};
use deadheat_path::{Family, Network, PathSpec};
use deadheat_trial::EmulatedPath;
use deadheat_trial::control::MOST_FAR_ENDS;
use deadheat_trial::control::reach::{self, Route};
use deadheat_trial::control::remote::{Credentials, RemoteServer, ServerWait};
use deadheat_trial::lead::far::{Far, FarHost, FarServers};
use deadheat_trial::sim::Simulation;

impl Request {
    /// Returns the simulation that runs the race's trials in virtual time, if its path is simulated.
    ///
    /// Use its clock as the context's clock ([`crate::race::RaceContext::at`]): a budget then counts virtual time,
    /// and the race does not depend on the speed of the machine.
    ///
    /// # Errors
    /// [`Error::Usage`] if the path cannot be simulated.
    pub fn simulation(&self) -> Result<Option<Simulation>> {
        if self.is_simulated() { Ok(self.race_path()?.simulation) } else { Ok(None) }
    }

    pub(super) fn simulated(&self, network: Network) -> Result<Simulation> {
        Simulation::new(&self.asked.path, network, self.ip())
    }

    /// Binds control and all data sockets of the near end to an address of this host: `192.0.2.7`, `fe80::1%eth0`.
    pub fn source(mut self, address: impl Into<String>) -> Request {
        self.asked.source = Some(address.into());
        self
    }

    /// Binds control and all data sockets of the near end to an interface of this host: `eth0`.
    pub fn device(mut self, interface: impl Into<String>) -> Request {
        self.asked.device = Some(interface.into());
        self
    }

    /// Checks the source address and the interface, which only a race to another host has.
    pub(super) fn check_origin(&self) -> Result<()> {
        let given = [("--source", &self.asked.source), ("--device", &self.asked.device)];
        let given = given.into_iter().find_map(|(name, value)| Some((name, value.as_ref()?)));
        match given {
            Some((name, value)) if self.asked.to.is_none() => Err(Error::usage(format!(
                "{name} {value}: both ends are on this machine, which chooses their addresses; race another host with --to, \
                 or leave {name} out"
            ))),
            _ => self.far_end().and_then(|_| self.route()).map(drop),
        }
    }

    /// Returns the limits of the way to the far host.
    ///
    /// # Errors
    /// [`Error::Usage`] where the source address or the interface cannot be read.
    pub(super) fn route(&self) -> Result<Route> {
        let origin = Origin::parse(self.asked.source.as_deref(), self.asked.device.as_deref())?;
        let source = origin.source.map(|source| SocketAddr::new(source.ip(), 0));
        match source.filter(|source| !self.ip().has(source)) {
            Some(source) => Err(Error::usage(format!(
                "--source {} and -{} exclude each other; leave one of them out",
                source.ip(),
                self.asked.family.unwrap_or_default()
            ))),
            None => Ok(Route { family: self.ip(), origin }),
        }
    }

    fn ip(&self) -> Family {
        match self.asked.family {
            Some(4) => Family::V4,
            Some(6) => Family::V6,
            _ => Family::Any,
        }
    }

    /// Opens the far end of the request: connects to the server, or builds the emulated path. Waits for a server
    /// that is full.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses the connection; if this host cannot emulate the path; if the path
    /// is simulated, and has no far end.
    pub fn far(&self, credentials: &Credentials, waiting: &mut ServerWait<'_>) -> Result<Far> {
        let asked = self.asked();
        let family = self.ip();
        let Some(hosts) = asked.to else {
            return match self.parsed_path()? {
                PathSpec::Emulated(network) => {
                    let path = EmulatedPath::start(&asked.path, network, family)?;
                    Ok(Far::Emulated(Box::new(path)))
                }
                PathSpec::Loopback => Ok(Far::Loopback(family)),
                PathSpec::Simulated(_) => Err(Error::usage(
                    "a simulated path has no far end; `Request::simulation` runs its trials",
                )),
            };
        };
        let route = self.route()?;
        if let [typed] = hosts.names()
            && let Some(FarEndAt { end, host, .. }) = far_end::parse(typed)?
        {
            let address = reach::find(host, end.info.port, &route)?;
            let pin = credentials.pin.as_ref().map(ToString::to_string);
            let (typed, origin) = (typed.clone(), route.origin);
            return Ok(Far::Others { typed, end, address, origin, pin });
        }
        let mut servers: Vec<FarHost> = Vec::new();
        for host in hosts.names() {
            let server = RemoteServer::connect(host, &route, credentials, waiting)?;
            if let Some(same) = servers.iter().find(|one| one.server.address == server.address) {
                return Err(Error::usage(format!(
                    "--to: {} and {host} are one server, {}; each further --to is another host",
                    same.host, server.address
                )));
            }
            servers.push(FarHost { host: host.clone(), server: Box::new(server) });
        }
        Ok(Far::Servers(FarServers::new(servers)))
    }

    /// Returns the far end of others that is asked for; `None` if it is one of ours.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no far end of that name, or another host beside it.
    pub(super) fn far_end(&self) -> Result<Option<FarEndAt<'_>>> {
        let Some(hosts) = &self.asked.to else { return Ok(None) };
        let found = hosts.names().iter().map(|typed| far_end::parse(typed));
        let found = found.collect::<Result<Vec<_>>>()?;
        let Some(at) = found.iter().flatten().next() else { return Ok(None) };
        let FarEndAt { end, host, .. } = at;
        if found.len() > 1 {
            return Err(Error::usage(format!(
                "--to names {hosts}: {} is the only far end of a race; several hosts take `deadheat serve`",
                end.info.label
            )));
        }
        reach::check(host)?;
        if self.asked.explain {
            return Err(Error::usage(format!(
                "--explain sees where the time goes at both ends, and {} is not ours; leave it out",
                end.info.label
            )));
        }
        Ok(Some(*at))
    }

    /// Returns a contender as it runs against the far end, and the reason why it cannot if that is one of others.
    ///
    /// # Errors
    /// As of [`Request::far_end`].
    pub(super) fn at_far_end(
        &self,
        contender: Contender,
        task: &dyn Task,
    ) -> Result<(Contender, Option<String>)> {
        let Some(at) = self.far_end()? else { return Ok((contender, None)) };
        if let Some(why) = far_end::refusal(at.end, &contender) {
            return Ok((contender, Some(why)));
        }
        let contender = far_end::against(at, contender, task.info())?;
        let why = far_end::misfit(at.end, &contender, task);
        Ok((contender, why))
    }

    /// Returns true if claims are made about all contenders; `answered` says which of them the far kernel answers. Against a
    /// far end of others, which carries few, a single competitor is compared with what the kernel answers.
    ///
    /// # Errors
    /// As of [`Request::far_end`].
    pub(super) fn claims_at_far_end(&self, answered: &[bool]) -> Result<bool> {
        let competitors = answered.iter().filter(|by_kernel| !**by_kernel).count();
        Ok(self.asked.claims_all || self.far_end()?.is_some() && competitors < 2)
    }

    /// Returns the source of the answers of work that asks: documents, if the far end is an origin.
    ///
    /// # Errors
    /// As of [`Request::far_end`].
    pub(super) fn answers(&self) -> Result<AnswerSource> {
        Ok(self.far_end()?.map_or(AnswerSource::Ours, |at| far_end::answers(at.end)))
    }

    /// Sets the contenders to one for each protocol that the far end carries, the first transport of each, if the far end is an
    /// origin, or carries none of the request's.
    ///
    /// # Errors
    /// As of `Request::far_end`.
    pub fn usual_contenders(mut self) -> Result<Request> {
        let Some(end) = self.far_end()?.map(|at| at.end) else { return Ok(self) };
        let own = self.asked.contenders.iter().map(|typed| Contender::parse(typed));
        let own = own.collect::<Result<Vec<_>>>()?;
        if far_end::answers(end) == AnswerSource::Origin
            || !own.iter().any(|contender| far_end::carries(end, &*contender.transport))
        {
            let first_over = |over: PlainProtocol| {
                let is_over =
                    |one: &&&dyn Transport| one.plain().is_some_and(|plain| plain.protocol == over);
                transport::ALL.iter().find(is_over).map(|one| one.info().id.to_owned())
            };
            let firsts = end.info.over.iter().filter_map(|over| first_over(*over));
            self.asked.contenders = firsts.collect();
        }
        Ok(self)
    }

    /// Sets the workload to the usual one at the far end: the first that suits it best, or else the first
    /// of all.
    ///
    /// # Errors
    /// As of `Request::far_end`.
    pub fn usual_work(mut self) -> Result<Request> {
        let Some(peer) = self.far_end()?.map(|at| at.end.info.peer) else { return Ok(self) };
        if let Some(work) = workload::ALL.iter().find(|work| work.is_usual_for(peer)) {
            self.asked.workload = work.info().id.to_owned();
        }
        Ok(self)
    }

    /// Checks that every far host has a far end of the work, or a part of one of the contenders, and that all parts of
    /// `contender` have a far host.
    pub(super) fn check_hosts(
        &self,
        task: &dyn Task,
        contender: &Contender,
        all: &[Contender],
    ) -> Result<()> {
        let names: Vec<&str> =
            self.asked.to.iter().flat_map(|hosts| hosts.names()).map(String::as_str).collect();
        let named = |contender: &Contender, name: &str| {
            several::hosts(contender.transport.parts()).contains(&Some(name))
        };
        for host in several::hosts(contender.transport.parts()).into_iter().flatten() {
            if !names.contains(&host) {
                return Err(several::no_such_host(&contender.spec.to_string(), host, &names));
            }
        }
        let hosts = names.len().max(1);
        let ends = task.info().receivers;
        let most = usize::from(ends).div_ceil(hosts) + usize::from(task.info().load.is_some());
        if self.asked.to.is_some() && most > usize::from(MOST_FAR_ENDS) {
            return Err(Error::usage(format!(
                "`{}` has {ends} far ends, and a server runs {MOST_FAR_ENDS} in a trial, a load among them; ask for fewer, or \
                 spread them over more hosts, --to A --to B",
                task.info().spec.name
            )));
        }
        let mut others = names.iter().skip(ends.into());
        if others.all(|name| all.iter().any(|contender| named(contender, name))) {
            return Ok(());
        }
        let s = if ends == 1 { "" } else { "s" };
        Err(Error::usage(format!(
            "`{}` has {ends} far end{s}, and --to names {hosts} hosts; name fewer, or race work with more far ends, \
             such as fanout:receivers={hosts}{}",
            task.info().spec.name,
            match task.info().lane_names.first().filter(|_| !task.info().figures_by_lane.is_empty())
            {
                Some(lane) =>
                    format!(", or a mix with a part there (mix:{lane}=CONTENDER:to={},…)", names[1]),
                None => String::new(),
            }
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::Race;

    fn refused(request: Request) -> String {
        request.check().unwrap_err().to_string()
    }

    #[test]
    fn far_ends_of_others_are_read_by_their_name() {
        let named = |to: &str| {
            let request = Race::new(["icmp"]).to(to);
            request.far_end().unwrap().map(|at| at.end.info.id)
        };
        assert!(named("far.example").is_none());
        assert_eq!(named("iperf3://far.example:5300").unwrap(), "iperf3");
        assert_eq!(named("echo://[2001:db8::1]:7/").unwrap(), "echo");
        let said = refused(Race::new(["tcp"]).to("iperf://far.example"));
        assert!(said.contains("did you mean `iperf3`?"), "{said}");
        for (to, wanted) in [
            ("iperf3://far:example:1", "is no host"),
            ("iperf3://far.example/path", "an iperf3 server has no path; leave out /path"),
            ("https://", "names no host; write https://HOST or https://HOST:PORT"),
            ("https:///index", "names no host"),
            ("stamp://:862", "names no host"),
        ] {
            let said = refused(Race::new(["tcp"]).to(to));
            assert!(said.contains(wanted), "{to}: {said}");
        }
        assert_eq!(named("irtt://::1").unwrap(), "irtt");
        let said = refused(Race::new(["udp"]).to("echo://a").to("echo://b"));
        assert!(said.contains("the only far end of a race"), "{said}");
        let said = refused(Race::new(["udp"]).to("echo://a").explain());
        assert!(said.contains("--explain sees"), "{said}");
    }

    #[test]
    fn a_race_without_contenders_is_one_of_the_protocols_that_the_far_end_carries() {
        let usual = |to: &str| {
            let request = Race::new(["tcp", "udp", "icmp"]).to(to).usual_contenders().unwrap();
            request.usual_work().unwrap()
        };
        for (to, contenders) in [
            ("far.example", &["tcp", "udp", "icmp"][..]),
            ("irtt://far.example", &["tcp", "udp", "icmp"]),
            ("iperf3://far.example", &["tcp", "udp", "icmp"]),
            ("discard://far.example", &["tcp", "udp", "icmp"]),
            ("https://far.example", &["tls", "quic"]),
            ("quicperf://far.example", &["quic"]),
            ("ndt7://far.example", &["wss"]),
        ] {
            let request = usual(to);
            assert_eq!(request.asked.contenders, contenders, "{to}");
            assert!(request.check().is_ok(), "{to}");
        }
    }

    #[test]
    fn a_far_end_of_others_runs_what_it_carries_and_the_rest_is_refused_by_name() {
        let at = |contender: &str, work: &str, to: &str| {
            Race::new([contender]).workload(work).to(to).check().map_err(|e| e.to_string())
        };
        let iperf3 = |contender, work| at(contender, work, "iperf3://far.example");
        for (contender, work) in [
            ("tcp", "bulk"),
            ("tcp:cc=bbr", "bulk:direction=down,streams=4"),
            ("mptcp", "bulk:bytes=1MB"),
            ("udp", "cbr"),
            ("udp", "cbr:direction=down"),
            ("udp", "cbr:direction=both"),
            ("tcp", "cbr:direction=down"),
            ("tcp", "bulk:direction=both,streams=2"),
            ("sctp", "bulk"),
            ("icmp", "ping"),
        ] {
            assert!(iperf3(contender, work).is_ok(), "{contender} {work}");
        }
        for (contender, work, why) in [
            (
                "quic",
                "bulk",
                "an iperf3 server carries TCP, MPTCP, UDP and SCTP, and contenders that the far kernel",
            ),
            ("tcp:via=relay", "bulk", "a relay stands in front of a far end of ours"),
            ("tcp", "ping", "sends no message back"),
            ("tcp", "bulk:direction=both,bytes=1MB", "sends until it is stopped"),
            ("tcp", "bulk:direction=down,bytes=1MB", "sends until it is stopped"),
            ("tcp", "bulk:verify=on", "neither stores nor checks"),
            ("udp", "bulk:direction=both", "would flood the line with datagrams"),
            ("udp", "cbr:size=12", "takes 16 bytes of each datagram"),
            ("udp", "bulk", "--blast allows the flood"),
            ("udp", "bulk:direction=down", "would flood the line with datagrams"),
            ("tcp", "rpc", "only echoes or counts"),
            ("tcp", "bulk:load=tcp", "one test at a time, all of whose streams carry one work"),
            ("tcp", "fanout", "far ends that do their part"),
        ] {
            let said = iperf3(contender, work).unwrap_err();
            assert!(said.contains(why), "{contender} {work}: {said}");
        }
        let said = at("udp", "ping:window=1", "irtt://far.example").unwrap_err();
        assert!(said.contains("leave out window"), "{said}");
        let said = at("udp", "ping:size=40", "stamp://far.example").unwrap_err();
        assert!(said.contains("give size=44"), "{said}");
        let said = at("udp", "ping", "host://far.example").unwrap_err();
        assert!(
            said.contains("a host alone carries TCP, and contenders that the far kernel"),
            "{said}"
        );
        let said = at("tcp", "ping:interval=5ms", "host://far.example").unwrap_err();
        assert!(said.contains("give interval=10ms"), "{said}");
        let said = at("tcp", "connect", "host://far.example").unwrap_err();
        assert!(said.contains("claim=set_up fits"), "{said}");
        assert!(at("tcp", "connect:claim=set_up", "host://far.example").is_ok());
    }

    /// On other paths the kernel's answer is a floor, and is compared with nobody.
    #[test]
    fn a_single_competitor_is_compared_with_the_far_kernel_at_a_far_end_of_others() {
        let floors = |contenders: &[&str], to: &str| {
            let checked = Race::new(contenders.iter().copied()).to(to).check().unwrap();
            checked.entrants.iter().map(|entrant| entrant.floor).collect::<Vec<bool>>()
        };
        assert_eq!(floors(&["udp", "icmp"], "far.example"), [false, true]);
        assert_eq!(floors(&["udp", "icmp"], "irtt://far.example"), [false, false]);
        assert_eq!(floors(&["tcp", "udp", "icmp"], "echo://far.example"), [false, false, true]);
    }
}
