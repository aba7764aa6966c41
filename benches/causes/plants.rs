//! Causes planted in virtual time, at conditions drawn by seed, and what the judge says of them.

use deadheat::race::Race;
use deadheat::result::causes::Cause;
use deadheat::result::causes::race::{VerdictCause, of_verdict};
use deadheat::result::outcome::Outcome;
use deadheat::rng::SplitMix64;

/// Cause that is planted.
pub(crate) struct Plant {
    /// Cause that the judge has to name first.
    pub(crate) cause: Cause,
    /// Contender that has it.
    pub(crate) contender: &'static str,
    /// Contender that does not have it: the judge has to name what makes the difference between both; empty for none.
    pub(crate) rival: &'static str,
    /// Knobs, workload and path at conditions drawn from this generator.
    pub(crate) conditions: fn(&mut SplitMix64) -> [String; 3],
}

/// Returns a whole number from `least` to `most`.
pub(crate) fn between(rng: &mut SplitMix64, least: u64, most: u64) -> u64 {
    least + (rng.unit() * (most - least + 1) as f64) as u64
}

/// Plants in virtual time.
pub(crate) static PLANTS: &[Plant] = &[
    Plant {
        cause: Cause::PathRate,
        contender: "quic",
        rival: "",
        conditions: |rng| {
            let (delay, rate) = (between(rng, 3, 40), between(rng, 5, 40));
            let path = format!("delay={delay}ms,rate={rate}mbit,queue={}ms", between(rng, 40, 200));
            ["".into(), "bulk:time=4s,warmup=1s".into(), path]
        },
    },
    Plant {
        cause: Cause::PathRate,
        contender: "arq",
        rival: "",
        conditions: |rng| {
            let (delay, rate) = (between(rng, 3, 40), between(rng, 5, 40));
            let path = format!("delay={delay}ms,rate={rate}mbit,queue={}ms", between(rng, 60, 200));
            ["".into(), "bulk:time=4s,warmup=1s".into(), path]
        },
    },
    Plant {
        cause: Cause::LibraryWindow,
        contender: "quic",
        rival: "",
        conditions: |rng| {
            let window = between(rng, 24, 120);
            let path = format!("delay={}ms,rate=200mbit,queue=100ms", between(rng, 15, 60));
            [format!("window={window}kB"), "bulk:time=3s,warmup=1s".into(), path]
        },
    },
    Plant {
        cause: Cause::CongestionWindow,
        contender: "quic",
        rival: "",
        conditions: |rng| {
            let loss = between(rng, 5, 30) as f64 / 10.0;
            let path = format!("delay={}ms,loss={loss}%,rate=200mbit", between(rng, 10, 50));
            ["".into(), "bulk:time=4s,warmup=1s".into(), path]
        },
    },
    Plant {
        cause: Cause::CongestionWindow,
        contender: "arq",
        rival: "",
        conditions: |rng| {
            let loss = between(rng, 5, 30) as f64 / 10.0;
            let path = format!("delay={}ms,loss={loss}%,rate=200mbit", between(rng, 10, 50));
            ["".into(), "bulk:time=4s,warmup=1s".into(), path]
        },
    },
    Plant {
        cause: Cause::SlowStart,
        contender: "quic",
        rival: "",
        conditions: |rng| {
            let (kilobytes, delay) = (between(rng, 150, 400), between(rng, 20, 80));
            let path = format!("delay={delay}ms,rate=500mbit");
            ["".into(), format!("bulk:bytes={kilobytes}kB"), path]
        },
    },
    Plant {
        cause: Cause::PathLoss,
        contender: "sim-datagram",
        rival: "",
        conditions: |rng| {
            let (loss, rate) = (between(rng, 2, 10), between(rng, 1, 8));
            let path = format!("delay={}ms,loss={loss}%", between(rng, 5, 50));
            ["".into(), format!("cbr:rate={rate}mbit,time=3s"), path]
        },
    },
    Plant {
        cause: Cause::PathRate,
        contender: "sim-datagram",
        rival: "",
        conditions: |rng| {
            let rate = between(rng, 2, 8);
            let path = format!("delay={}ms,rate={rate}mbit,queue=50ms", between(rng, 5, 50));
            ["".into(), format!("cbr:rate={}mbit,time=3s", 2 * rate), path]
        },
    },
    Plant {
        cause: Cause::Queue,
        contender: "sim-datagram",
        rival: "",
        conditions: |rng| {
            let (delay, rate) = (between(rng, 2, 15), between(rng, 5, 30));
            let path = format!("delay={delay}ms,rate={rate}mbit,queue={}ms", between(rng, 80, 200));
            ["".into(), "ping:count=200,load=quic".into(), path]
        },
    },
    Plant {
        cause: Cause::PathDelay,
        contender: "quic",
        rival: "",
        conditions: |rng| {
            ["".into(), "ping:count=200".into(), format!("delay={}ms", between(rng, 5, 150))]
        },
    },
    Plant {
        cause: Cause::Handshake,
        contender: "quic",
        rival: "",
        conditions: |rng| {
            ["".into(), "connect:count=30".into(), format!("delay={}ms", between(rng, 5, 100))]
        },
    },
    Plant {
        cause: Cause::Retransmission,
        contender: "arq",
        rival: "",
        conditions: |rng| {
            let loss = between(rng, 20, 40) as f64 / 10.0;
            let path = format!("delay={}ms,loss={loss}%", between(rng, 10, 40));
            ["".into(), "ping:claim=p99,interval=5ms,count=2000".into(), path]
        },
    },
    Plant {
        cause: Cause::Outage,
        contender: "sim-datagram",
        rival: "",
        conditions: |rng| {
            let (delay, from, length) =
                (between(rng, 2, 40), between(rng, 2, 9), between(rng, 5, 9));
            let path = format!("delay={delay}ms,down={}ms-{}ms", 100 * from, 100 * (from + length));
            ["".into(), "cbr:rate=1mbit,time=3s".into(), path]
        },
    },
];

/// In place of a path: loopback, and both ends on one CPU.
pub(crate) const SAME_CORE: &str = "same-core";

impl Plant {
    /// Returns the race of this plant with a seed, with the kind of its path in front (`sim:` or nothing).
    fn race(&self, kind: &str, seed: u64) -> (Race, String) {
        let mut rng = SplitMix64::new(seed);
        let [knobs, workload, path] = (self.conditions)(&mut rng);
        let spec = match knobs.as_str() {
            "" => self.contender.to_owned(),
            knobs => format!("{}:{knobs}", self.contender),
        };
        let specs: Vec<String> = [spec.as_str(), self.rival]
            .iter()
            .filter(|one| !one.is_empty())
            .map(|one| (*one).to_owned())
            .collect();
        let race = Race::new(specs.clone()).workload(&workload);
        let race = match path.as_str() {
            SAME_CORE => race.placement(SAME_CORE),
            path => race.path(format!("{kind}{path}")),
        };
        let said = format!("{} -w {workload} --path {kind}{path}", specs.join(" "));
        (race.blocks(if self.rival.is_empty() { 2 } else { BLOCKS }).seed(seed), said)
    }

    /// Runs it once. Returns the cause that the judge names, and the race.
    pub(crate) fn run(&self, kind: &str, seed: u64) -> Result<(Option<Cause>, String), String> {
        let (race, said) = self.race(kind, seed);
        let outcome = race.run().map_err(|error| format!("{said}: {error}"))?;
        Ok((self.named(&outcome), said))
    }

    /// Returns the first cause of the contender, or the cause that makes the difference between it and its rival.
    fn named(&self, outcome: &Outcome) -> Option<Cause> {
        if self.rival.is_empty() {
            return Some(outcome.causes.first()?.findings.first()?.cause);
        }
        outcome.verdicts.iter().find_map(|verdict| match of_verdict(outcome, verdict)? {
            VerdictCause::Difference { behind: 0, finding, .. } => Some(finding.cause),
            _ => None,
        })
    }
}

/// Most blocks of a race of two; it ends with a verdict.
const BLOCKS: u64 = 12;
