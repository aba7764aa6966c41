//! Causes planted in virtual time, at conditions drawn by seed, and what the judge says of them.

use deadheat::race::Race;
use deadheat::result::causes::Cause;
use deadheat::result::causes::race::of_difference;
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
    conditions: Conditions,
}

/// Knobs, workload and path at conditions drawn from a generator.
type Conditions = fn(&mut SplitMix64) -> [String; 3];

/// Range of a number that is drawn, with both ends.
type Range = (u64, u64);

impl Plant {
    pub(crate) const fn new(
        cause: Cause,
        contender: &'static str,
        conditions: Conditions,
    ) -> Plant {
        Plant { cause, contender, rival: "", conditions }
    }

    /// Races it beside a contender without the cause.
    pub(crate) const fn beside(mut self, rival: &'static str) -> Plant {
        self.rival = rival;
        self
    }
}

/// Returns a whole number of a range.
pub(crate) fn drawn(rng: &mut SplitMix64, (least, most): Range) -> u64 {
    least + (rng.unit() * (most - least + 1) as f64) as u64
}

/// Returns a path at a rate, with a queue as long as this in ms.
pub(crate) fn slow(rng: &mut SplitMix64, [delay, rate, queue]: [Range; 3]) -> String {
    let (delay, rate) = (drawn(rng, delay), drawn(rng, rate));
    format!("delay={delay}ms,rate={rate}mbit,queue={}ms", drawn(rng, queue))
}

/// Returns a path with room for more than a window, at this rate in Mbit/s.
pub(crate) fn wide(rng: &mut SplitMix64, delay: Range, rate: u64) -> String {
    format!("delay={}ms,rate={rate}mbit,queue=100ms", drawn(rng, delay))
}

/// Returns a path that loses so many thousandths of its packets.
pub(crate) fn lossy(rng: &mut SplitMix64, thousandths: Range, delay: Range) -> String {
    let loss = drawn(rng, thousandths) as f64 / 10.0;
    format!("delay={}ms,loss={loss}%", drawn(rng, delay))
}

/// Returns data whose transfer ends in slow start, and its path.
pub(crate) fn short(rng: &mut SplitMix64) -> [String; 2] {
    let (kilobytes, delay) = (drawn(rng, (150, 400)), drawn(rng, (20, 80)));
    [format!("bulk:bytes={kilobytes}kB"), format!("delay={delay}ms,rate=500mbit")]
}

/// Returns datagrams at a constant rate for a time, and a path that loses some of them.
pub(crate) fn lost(rng: &mut SplitMix64, time: &str) -> [String; 2] {
    let (loss, rate) = (drawn(rng, (2, 10)), drawn(rng, (1, 8)));
    let path = format!("delay={}ms,loss={loss}%", drawn(rng, (5, 50)));
    [format!("cbr:rate={rate}mbit,time={time}"), path]
}

/// Returns datagrams at twice the rate of a path for a time, and the path.
pub(crate) fn overload(rng: &mut SplitMix64, time: &str) -> [String; 2] {
    let rate = drawn(rng, (2, 8));
    let path = format!("delay={}ms,rate={rate}mbit,queue=50ms", drawn(rng, (5, 50)));
    [format!("cbr:rate={}mbit,time={time}", 2 * rate), path]
}

/// Work of the plants of bulk data.
const BULK: &str = "bulk:time=4s,warmup=1s";
/// Delay and rate of a path whose rate is the cause.
pub(crate) const SLOW: [Range; 2] = [(3, 40), (5, 40)];

/// Plants in virtual time.
pub(crate) static PLANTS: &[Plant] = &[
    Plant::new(Cause::PathRate, "quic", |rng| {
        ["".into(), BULK.into(), slow(rng, [SLOW[0], SLOW[1], (40, 200)])]
    }),
    Plant::new(Cause::PathRate, "arq", |rng| {
        ["".into(), BULK.into(), slow(rng, [SLOW[0], SLOW[1], (60, 200)])]
    }),
    Plant::new(Cause::LibraryWindow, "quic", |rng| {
        let window = drawn(rng, (24, 120));
        [format!("window={window}kB"), "bulk:time=3s,warmup=1s".into(), wide(rng, (15, 60), 200)]
    }),
    Plant::new(Cause::CongestionWindow, "quic", |rng| {
        let path = lossy(rng, (5, 30), (10, 50));
        ["".into(), BULK.into(), format!("{path},rate=200mbit")]
    }),
    Plant::new(Cause::CongestionWindow, "arq", |rng| {
        let path = lossy(rng, (5, 30), (10, 50));
        ["".into(), BULK.into(), format!("{path},rate=200mbit")]
    }),
    Plant::new(Cause::SlowStart, "quic", |rng| {
        let [work, path] = short(rng);
        ["".into(), work, path]
    }),
    Plant::new(Cause::PathLoss, "sim-datagram", |rng| {
        let [work, path] = lost(rng, "3s");
        ["".into(), work, path]
    }),
    Plant::new(Cause::PathRate, "sim-datagram", |rng| {
        let [work, path] = overload(rng, "3s");
        ["".into(), work, path]
    }),
    Plant::new(Cause::Queue, "sim-datagram", |rng| {
        let path = slow(rng, [(2, 15), (5, 30), (80, 200)]);
        ["".into(), "ping:count=200,load=quic".into(), path]
    }),
    Plant::new(Cause::PathDelay, "quic", |rng| {
        ["".into(), "ping:count=200".into(), format!("delay={}ms", drawn(rng, (5, 150)))]
    }),
    Plant::new(Cause::Handshake, "quic", |rng| {
        ["".into(), "connect:count=30".into(), format!("delay={}ms", drawn(rng, (5, 100)))]
    }),
    Plant::new(Cause::Retransmission, "arq", |rng| {
        let path = lossy(rng, (20, 40), (10, 40));
        ["".into(), "ping:claim=p90,interval=5ms,count=2000".into(), path]
    })
    .beside("sim-datagram"),
    Plant::new(Cause::Outage, "sim-datagram", |rng| {
        let [delay, from, length] = [(2, 40), (2, 9), (5, 9)].map(|range| drawn(rng, range));
        let path = format!("delay={delay}ms,down={}ms-{}ms", 100 * from, 100 * (from + length));
        ["".into(), "cbr:rate=1mbit,time=3s".into(), path]
    }),
];

/// In place of a path: loopback, and both ends on one CPU.
pub(crate) const SAME_CORE: &str = "same-core";

impl Plant {
    /// Returns the race of this plant with a seed, with the kind of its path in front (`sim:` or nothing); beside a copy
    /// of its own where it `is_alike`.
    fn race(&self, kind: &str, seed: u64, is_alike: bool) -> (Race, String) {
        let mut rng = SplitMix64::new(seed);
        let [knobs, workload, path] = (self.conditions)(&mut rng);
        let spec = match knobs.as_str() {
            "" => self.contender.to_owned(),
            knobs => format!("{}:{knobs}", self.contender),
        };
        let (specs, blocks) = match self.rival {
            _ if is_alike => (vec![spec.clone(), spec], BLOCKS),
            "" => (vec![spec], 2),
            rival => (vec![spec, rival.to_owned()], BLOCKS),
        };
        let said = format!("{} -w {workload}", specs.join(" "));
        let race = Race::new(specs).workload(workload).blocks(blocks).seed(seed);
        if path == SAME_CORE {
            return (race.placement(SAME_CORE), format!("{said} --placement {SAME_CORE}"));
        }
        let path = format!("{kind}{path}");
        let said = format!("{said} --path {path}");
        (race.path(path), said)
    }

    /// Runs it once. Returns the cause that the judge names, and the race.
    pub(crate) fn run(&self, kind: &str, seed: u64) -> Result<(Option<Cause>, String), String> {
        let (outcome, said) = self.ran(kind, seed, false)?;
        Ok((self.named(&outcome), said))
    }

    /// Runs it once beside a copy of its own. Returns the cause that is said to make a difference, and the race.
    pub(crate) fn run_alike(
        &self,
        kind: &str,
        seed: u64,
    ) -> Result<(Option<Cause>, String), String> {
        let (outcome, said) = self.ran(kind, seed, true)?;
        Ok((differences(&outcome).next().map(|(_, cause)| cause), said))
    }

    fn ran(&self, kind: &str, seed: u64, is_alike: bool) -> Result<(Outcome, String), String> {
        let (race, said) = self.race(kind, seed, is_alike);
        let outcome = race.run().map_err(|error| format!("{said}: {error}"))?;
        Ok((outcome, said))
    }

    /// Returns the first cause of the contender, or the cause that makes the difference between it and its rival.
    fn named(&self, outcome: &Outcome) -> Option<Cause> {
        if self.rival.is_empty() {
            return Some(outcome.causes.first()?.findings.first()?.cause);
        }
        differences(outcome).find(|(behind, _)| *behind == 0).map(|(_, cause)| cause)
    }
}

/// Returns the contender that is behind by each verdict, and the cause that makes the difference, where it is known.
fn differences(outcome: &Outcome) -> impl Iterator<Item = (usize, Cause)> {
    let known = outcome.verdicts.iter().filter_map(|verdict| of_difference(outcome, verdict));
    known.map(|(behind, finding)| (behind, finding.cause))
}

/// Most blocks of a race of two; it ends with a verdict.
const BLOCKS: u64 = 12;
