//! Checks of a request. Everything that can be refused without running anything is refused here.

use super::race_path::RacePath;
use super::request::{CheckedRequest, MOST_BLOCKS, Request};
use super::{cells, every};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_path::PathKind;
use deadheat_records::placement::Placement;
use deadheat_trial::agent::intervals;

const MOST_CONTENDERS: usize = 32;

const CONFIDENCES: std::ops::RangeInclusive<f64> = 0.5..=0.99999;

const LONGEST_TEXT: usize = 1_000;

impl Request {
    /// Checks the request. Runs no trial.
    ///
    /// # Errors
    /// [`Error::Usage`] with the problem and a remedy; with the files and commands in the file of the request, if
    /// they are not allowed.
    pub fn check(&self) -> Result<CheckedRequest> {
        self.check_outside()?;
        self.check_numbers()?;
        let race_path = self.check_target()?;
        cells::check(self, &race_path)
    }

    fn check_numbers(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::usage(message));
        match self.asked.contenders.len() {
            0 => return refuse("a race needs a contender, such as tcp or udp".into()),
            1..=MOST_CONTENDERS => {}
            n => return refuse(format!("{n} contenders; at most {MOST_CONTENDERS}")),
        }
        if let Some(blocks) = self.asked.blocks
            && !(1..=MOST_BLOCKS).contains(&blocks)
        {
            return refuse(format!("{blocks} blocks; 1 to {MOST_BLOCKS} make sense"));
        }
        if self.asked.budget_ns == Some(0) {
            return refuse("a budget of no time; write --budget 60s, say".into());
        }
        every::check(self)?;
        self.check_all_blocks()?;
        if let Some(interval) = self.asked.interval_ns.map(Nanos)
            && !(intervals::SHORTEST_DENSE..=intervals::LONGEST).contains(&interval)
        {
            return refuse(format!(
                "an interval of {interval}; {} to {} make sense, such as 500ms",
                intervals::SHORTEST_DENSE,
                intervals::LONGEST
            ));
        }
        check_share("margin", self.asked.margin, "5%")?;
        check_share("resolution", self.asked.resolve, "2%")?;
        if !CONFIDENCES.contains(&self.asked.confidence) {
            return refuse(format!(
                "a confidence of {} %; 50 % to 99.999 % make sense, such as 95%",
                100.0 * self.asked.confidence
            ));
        }
        Ok(())
    }

    /// Parses the path to the far end, and checks the options that depend on it.
    fn check_target(&self) -> Result<RacePath> {
        if let Some(family) = self.asked.family
            && ![4, 6].contains(&family)
        {
            return Err(Error::usage(format!("IPv{family}; 4 or 6")));
        }
        self.check_origin()?;
        match &self.asked.to {
            Some(hosts) if hosts.names().iter().any(|host| host.trim().is_empty()) => {
                Err(Error::usage("the far end has no name; write --to HOST or --to HOST:PORT"))
            }
            Some(hosts) if has_twice(hosts.names()) => Err(Error::usage(format!(
                "--to names a host twice: {hosts}; each further --to is another host"
            ))),
            Some(_) if PathKind::of_typed(&self.asked.path) != PathKind::Loopback => {
                Err(Error::usage(format!(
                    "both a remote host and the path `{}`; give one of them",
                    self.asked.path
                )))
            }
            _ => {
                let race_path = self.race_path()?;
                if race_path.simulation.is_some() {
                    self.check_simulated()?;
                }
                self.check_texts()?;
                Ok(race_path)
            }
        }
    }

    /// Refuses options that have no meaning in virtual time.
    fn check_simulated(&self) -> Result<()> {
        if self.asked.every_ns.is_some() {
            return Err(Error::usage(format!(
                "path `{}`: nothing changes between two blocks in virtual time, so there is nothing to \
                 wait for; leave --every out (--all-blocks runs all blocks, whatever they decide)",
                self.asked.path
            )));
        }
        if self.asked.explain {
            return Err(Error::usage(format!(
                "path `{}`: --explain asks the kernel for its timestamps, and no kernel carries \
                 anything on a simulated path; leave it out",
                self.asked.path
            )));
        }
        match self.asked.placement.as_deref().map(Placement::parse).transpose()? {
            None | Some(Placement::Virtual) => Ok(()),
            Some(asked) => Err(Error::usage(format!(
                "placement {asked}: on a simulated path the ends run in virtual time and on no CPU; \
                 leave it out"
            ))),
        }
    }

    fn check_texts(&self) -> Result<()> {
        let texts = self.title.iter().chain(self.labels.keys());
        match texts.chain(self.labels.values()).find(|text| text.len() > LONGEST_TEXT) {
            Some(text) => Err(Error::usage(format!(
                "a title or label of {} bytes; at most {LONGEST_TEXT}",
                text.len()
            ))),
            None => Ok(()),
        }
    }
}

fn has_twice(names: &[String]) -> bool {
    names.iter().enumerate().any(|(at, name)| names[..at].contains(name))
}

/// Refuses a share that is not strictly between 0 and 1.
fn check_share(what: &str, share: Option<f64>, example: &str) -> Result<()> {
    match share {
        // Written so that NaN is refused too.
        Some(share) if !(share > 0.0 && share < 1.0) => Err(Error::usage(format!(
            "a {what} of {} %: it must lie above 0 % and below 100 %, such as {example}",
            100.0 * share
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::request::DEFAULT_BUDGET;

    fn refusal(request: Request) -> String {
        let error = request.check().expect_err("must be refused");
        assert_eq!(error.exit_code(), 2, "{error}");
        error.to_string()
    }

    #[test]
    fn absurd_numbers_are_refused_by_name() {
        let ask = || Request::new(["tcp", "udp"]);
        assert!(refusal(Request::new(Vec::<String>::new())).contains("needs a contender"));
        assert!(refusal(Request::new(vec!["tcp"; 33])).contains("at most 32"));
        assert!(refusal(ask().blocks(0)).contains("0 blocks"));
        assert!(refusal(ask().blocks(10_001)).contains("10001 blocks"));
        assert!(refusal(ask().budget(Nanos::ZERO)).contains("budget"));
        for margin in [0.0, -0.1, 1.0, f64::NAN, f64::INFINITY] {
            assert!(refusal(ask().margin(margin)).contains("margin"), "{margin}");
            assert!(refusal(ask().resolve(margin)).contains("resolution"), "{margin}");
        }
        for confidence in [0.4, 1.0, f64::NAN] {
            assert!(refusal(ask().confidence(confidence)).contains("confidence"));
        }
        assert!(refusal(ask().family(5)).contains("4 or 6"));
        assert!(refusal(ask().title("x".repeat(1_001))).contains("1001 bytes"));
    }

    #[test]
    fn unknown_words_are_refused_by_name() {
        let say = |contender: &str| refusal(Request::new(["tcp", contender]));
        assert!(say("upd").contains("did you mean `udp`?"));
        assert!(refusal(Request::new(["tcp"]).workload("pong")).contains("`ping`"));
        assert!(refusal(Request::new(["tcp"]).path("moon")).contains("valid: loopback"));
        assert!(refusal(Request::new(["tcp"]).path("moon").to("h")).contains("one of them"));
        assert!(refusal(Request::new(["tcp"]).to(" ")).contains("no name"));
        assert!(refusal(Request::new(["tcp"]).to("h").to("i").to("h")).contains("a host twice"));
        let several = |work: &str| Request::new(["tcp"]).workload(work).to("h").to("i");
        let said = refusal(several("ping"));
        assert!(said.contains("has 1 far end, and --to names 2 hosts"), "{said}");
        several("fanout:receivers=3,bytes=1MB").check().unwrap();
        several("fanout:receivers=32,bytes=1MB").check().unwrap();
        several("state:direction=up,receivers=3").check().unwrap();
        let said = refusal(several("fanout:receivers=33,bytes=1MB"));
        assert!(said.contains("a server runs 16 in a trial"), "{said}");
        let mixed = |contenders: &[&str]| {
            Request::new(contenders.iter().copied()).workload("events").to("h").to("i")
        };
        let (one, two) = ("mix:events=tcp,state=udp", "mix:events=tcp,state=udp:to=i");
        mixed(&[one, two]).check().unwrap();
        let said = refusal(mixed(&["tcp", one]));
        assert!(said.contains("or a mix with a part there (mix:state=CONTENDER:to=i,"), "{said}");
        let said = refusal(mixed(&[two, "mix:events=tcp,state=udp:to=j"]));
        assert!(said.contains("j, which is no far host of the race (h, i)"), "{said}");
        assert!(refusal(Request::new([two]).workload("events")).contains("add --to i"));
        let said = refusal(mixed(&[two]).workload("events:receivers=2,direction=up"));
        assert!(said.contains("at several far hosts, and each receiver gets all"), "{said}");
        let relayed = || Request::new(["udp:via=relay@h"]);
        relayed().to("i").check().unwrap();
        assert!(refusal(relayed()).contains("name the far host with --to"));
        assert!(refusal(relayed().to("h")).contains("h is the far host itself; via=relay"));
        assert!(refusal(Request::new(["tcp"]).placement("samecore")).contains("same-core"));
    }

    #[test]
    fn a_contender_that_cannot_do_the_work_is_named_with_the_reason() {
        let said = refusal(Request::new(["icmp"]).workload("bulk"));
        assert!(said.starts_with("`icmp` cannot carry `bulk`: "), "{said}");
        // Beside others it does not run.
        let checked = Request::new(["icmp", "tcp", "udp"]).workload("bulk").check().unwrap();
        let [icmp, tcp, udp] = &checked.entrants[..] else { panic!("three") };
        assert_eq!(icmp.out().unwrap().0, "not applicable");
        assert!(!icmp.is_racing() && tcp.is_racing() && udp.is_racing());
        // If no contender can, or conditions vary, it is a mistake.
        let said = refusal(Request::new(["tcp", "udp"]).workload("streams:order=none"));
        assert!(said.contains("no lane that is reliable, unordered"), "{said}");
    }

    /// Guarantees decide, and no name.
    #[test]
    fn nothing_floods_the_line_to_another_host_unless_a_person_allows_it() {
        let to = |host: &str| Request::new(["tcp", "udp"]).workload("bulk:time=1s").to(host);
        let sits_out = |request: Request| {
            let checked = request.check().unwrap();
            assert!(checked.entrants[0].is_racing());
            checked.entrants[1].not_applicable.clone()
        };
        let why = sits_out(to("far.example")).unwrap();
        assert!(why.contains("no congestion control") && why.contains("cbr:rate="), "{why}");
        assert!(why.contains("--blast allows the flood, up to 1.00 GB a trial"), "{why}");
        assert_eq!(sits_out(to("far.example").blast(1)), None);
        for here in ["127.0.0.1", "localhost:5210", "[::1]:7", "::1"] {
            assert_eq!(sits_out(to(here)), None, "{here} is no line");
        }
        let alone = |work: &str| Request::new(["udp"]).workload(work).to("far.example");
        assert!(refusal(alone("bulk")).contains("--blast"));
        assert!(alone("cbr:rate=1mbit").check().is_ok(), "it has a rate");
        assert!(alone("ping").check().is_ok());
        assert!(Request::new(["udp"]).workload("bulk").path("delay=5ms").check().is_ok());
    }

    #[test]
    fn what_stays_on_this_machine_is_refused_for_a_remote_host() {
        let said = refusal(Request::new(["tcp", "unix"]).to("far.example"));
        assert!(said.contains("`unix` does not leave its host"), "{said}");
        assert!(Request::new(["tcp", "unix"]).check().is_ok());
    }

    #[test]
    fn what_stays_on_one_host_is_refused_for_an_emulated_path() {
        for contender in ["unix", "unixgram", "pipe"] {
            let said = refusal(Request::new(["tcp", contender]).path("delay=5ms"));
            assert!(said.contains("cannot reach the far host of an emulated path"), "{said}");
        }
        assert!(Request::new(["tcp", "udp", "icmp"]).path("delay=5ms,rate=20mbit").check().is_ok());
    }

    #[test]
    fn a_timeout_below_the_round_trip_is_refused() {
        let ask = |workload: &str| {
            Request::new(["udp"]).path("up.delay=2s,down.delay=1s").workload(workload)
        };
        let said = refusal(ask("ping:timeout=3s"));
        assert!(
            said.contains("at least 3.00 s on this path and counts as lost after 3.00 s"),
            "{said}"
        );
        assert!(ask("ping:timeout=4s").check().is_ok());
        assert!(ask("ping").check().is_ok(), "the default fits the path");
        assert!(ask("bulk").check().is_ok());
    }

    #[test]
    fn a_path_is_not_varied() {
        let said = refusal(Request::new(["tcp"]).vary("path", ["delay=1ms", "delay=2ms"]));
        assert!(said.contains("run one race for each path"), "{said}");
    }

    #[test]
    fn labels_are_unique() {
        let checked = Request::new(["udp", "tcp", "udp", "udp"]).check().unwrap();
        let labels: Vec<&str> = checked.entrants.iter().map(|e| e.label.as_str()).collect();
        assert_eq!(labels, ["udp", "tcp", "udp #2", "udp #3"]);
    }

    #[test]
    fn defaults_are_written_down() {
        let budget = |request: Request| request.asked().budget_ns;
        assert_eq!(budget(Request::new(["tcp"])), Some(DEFAULT_BUDGET.0));
        assert_eq!(budget(Request::new(["tcp"]).blocks(8)), None);
        let asked = Request::new(["tcp"]).to("far.example").asked();
        assert_eq!((asked.path.as_str(), asked.confidence), ("", 0.95));
    }
}
