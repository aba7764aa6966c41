//! Black holes on the paths to far hosts, and paths that were not probed.

use std::fmt;

use crate::outcome::{Outcome, Trial, Warning};
use deadheat_base::foreign::visible;
use deadheat_contract::measurements::path_mtu::PathMtu;
use deadheat_records::probed::{ProbedPath, UnknownMtu};

const ADVICE: &str = "have the firewalls on the way let ICMP pass (\"fragmentation needed\", \"packet too big\"), or \
                                 give the route at both hosts that MTU (`ip route change … mtu`)";

const NOT_PROBED: &str =
    "a black hole (large packets vanish) would show there as trials without an answer";

/// Black hole on the path to a far host.
struct BlackHole<'a> {
    /// Host as typed.
    host: &'a str,
    /// Path MTU that probes found.
    mtu: PathMtu,
    /// Block in which larger packets still passed, and their size, if the hole began amid the race.
    before: Option<(u64, u32)>,
}

impl fmt::Display for BlackHole<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hole = self.mtu.black_hole(&visible(self.host)).unwrap_or_default();
        write!(f, "{hole}")?;
        if let Some((block, bytes)) = self.before {
            write!(
                f,
                " that began amid the race, as packets of {bytes} bytes passed before block {block}"
            )?;
        }
        let bytes = self.mtu.bytes();
        write!(
            f,
            "; contenders over UDP send packets of at most {bytes} bytes where mtu= is not typed"
        )
    }
}

/// Returns a warning for each far host with a black hole on the path to it, and for each whose path was not probed.
pub(crate) fn warnings(outcome: &Outcome) -> Vec<Warning> {
    let mut hosts: Vec<&str> = Vec::new();
    for host in outcome.trials.iter().flat_map(|trial| &trial.record.path_mtu) {
        if !hosts.contains(&host.host.as_str()) {
            hosts.push(&host.host);
        }
    }
    hosts.into_iter().filter_map(|host| of_host(outcome, host)).collect()
}

fn of_host(outcome: &Outcome, host: &str) -> Option<Warning> {
    let found = |trial: &'_ Trial| -> Option<ProbedPath> {
        trial.record.path_mtu.iter().find(|path| path.host == host).cloned()
    };
    let all: Vec<(u64, ProbedPath)> =
        outcome.trials.iter().filter_map(|trial| Some((trial.block, found(trial)?))).collect();
    let known = || all.iter().filter_map(|(block, path)| Some((*block, path.mtu?)));
    if let Some((first, _)) = known().find(|(_, mtu)| mtu.is_black_hole()) {
        let (_, mtu) = known().rfind(|(_, mtu)| mtu.is_black_hole())?;
        let mut whole = known().take_while(|(_, mtu)| !mtu.is_black_hole());
        let before = whole.find(|(_, before)| before.bytes() > mtu.bytes());
        let before = before.map(|(_, before)| (first, before.bytes()));
        let hole = BlackHole { host, mtu, before };
        return Some(Warning::new("black_hole", hole.to_string(), ADVICE));
    }
    // A race with any probe of the path knows enough.
    let why = all.iter().rev().find_map(|(_, path)| path.unknown)?;
    let is_elsewhere = matches!(why, UnknownMtu::Relay | UnknownMtu::Turn);
    let is_known = known().next().is_some() && !is_elsewhere;
    let message = format!("the path to {} was not probed: {}", visible(host), why.words());
    (!is_known).then(|| Warning::new("path_not_probed", message, NOT_PROBED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use deadheat_contract::measurements::path_mtu::{LargerPackets, WayMtu};
    use deadheat_records::trial::Record;

    fn path(host: &str, up: u32, beyond: LargerPackets) -> ProbedPath {
        let down = WayMtu { bytes: 1_500, beyond: LargerPackets::Unsent };
        let mtu = PathMtu { kernel_bytes: 1_500, up: WayMtu { bytes: up, beyond }, down };
        ProbedPath { host: host.into(), mtu: Some(mtu), unknown: None }
    }

    fn unknown(host: &str, why: UnknownMtu) -> ProbedPath {
        ProbedPath { host: host.into(), mtu: None, unknown: Some(why) }
    }

    /// Returns the warnings of a race with a trial for each of these findings, a block each.
    fn warned(trials: &[Vec<ProbedPath>]) -> Vec<Warning> {
        let mut outcome = testing::outcome(2);
        for (block, path_mtu) in (0..).zip(trials) {
            let record = Record { path_mtu: path_mtu.clone(), ..Record::default() };
            outcome.trials.push(Trial { block, order: 0, contender: 0, control: false, record });
        }
        warnings(&outcome)
    }

    #[test]
    fn a_black_hole_is_named_with_its_size_and_its_host() {
        let hole = path("b.example", 1_280, LargerPackets::Vanish);
        let calm = path("a.example", 1_280, LargerPackets::Announced);
        let warned = warned(&[vec![calm.clone(), hole.clone()], vec![calm, hole]]);
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert_eq!(warned[0].code, "black_hole");
        let want = "packets of more than 1280 bytes vanish on the way to b.example (no ICMP): a black hole; contenders";
        assert!(warned[0].message.starts_with(want), "{}", warned[0].message);
    }

    #[test]
    fn a_black_hole_that_began_amid_the_race_is_named_with_its_block() {
        let whole = vec![path("h", 1_500, LargerPackets::Unsent)];
        let hole = vec![path("h", 1_400, LargerPackets::Vanish)];
        let said = warned(&[whole.clone(), whole, hole])[0].message.clone();
        let want = "a black hole that began amid the race, as packets of 1500 bytes passed before block 2;";
        assert!(said.contains(want), "{said}");
    }

    #[test]
    fn a_path_that_was_not_probed_is_named_with_the_reason() {
        let warned = warned(&[vec![
            path("a", 1_500, LargerPackets::Unsent),
            unknown("b", UnknownMtu::OldServer),
        ]]);
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert_eq!(warned[0].code, "path_not_probed");
        assert!(warned[0].message.starts_with("the path to b was not probed: its server"));
    }
}
