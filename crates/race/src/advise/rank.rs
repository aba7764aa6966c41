//! Places from pairwise verdicts. The most important traffic decides first; the next one decides pairs that are
//! still open or tied. A contender that no other is ahead of is first, and contenders without a decision between
//! them share a place.

use deadheat_result::advise::search::Lead;
use deadheat_result::outcome::{Outcome, Verdict};
use deadheat_stats as stats;

/// Returns the place of each of `n` contenders, from 1. Of the remaining contenders, all that no other remaining
/// one is ahead of share the next place, so an open verdict is no disadvantage. A cycle, which can result from
/// unlike traffic, shares one place.
pub fn places(n: usize, ahead: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let mut places = vec![0; n];
    let mut left: Vec<usize> = (0..n).collect();
    while !left.is_empty() {
        let place = 1 + n - left.len();
        let is_behind = |id: usize| left.iter().any(|other| *other != id && ahead(*other, id));
        let mut best: Vec<usize> = left.iter().copied().filter(|id| !is_behind(*id)).collect();
        if best.is_empty() {
            best.clone_from(&left);
        }
        for id in &best {
            places[*id] = place;
        }
        left.retain(|id| !best.contains(id));
    }
    places
}

/// Returns the first verdict, in the order of importance, with a lead; otherwise the first of all.
pub fn first<T>(leads: impl IntoIterator<Item = (Lead, T)>) -> Option<(Lead, T)> {
    let mut best: Option<(Lead, T)> = None;
    for (lead, of) in leads {
        match lead {
            Lead::First | Lead::Second => return Some((lead, of)),
            _ if best.is_none() => best = Some((lead, of)),
            Lead::Tie | Lead::Open => {}
        }
    }
    best
}

/// Returns the verdict of a race on two contenders as typed, and its lead; `None` if there is none, or if the race
/// is not trusted.
pub fn verdict<'a>(outcome: &'a Outcome, a: &str, b: &str) -> Option<(Lead, &'a Verdict)> {
    let id = |typed: &str| Some(outcome.contenders.iter().find(|one| one.label == typed)?.id);
    let (a, b) = (id(a)?, id(b)?);
    let of = |verdict: &&Verdict| [(a, b), (b, a)].contains(&(verdict.a, verdict.b));
    let found = outcome.verdicts.iter().find(of).filter(|_| outcome.trusted())?;
    let lead = match (found.outcome, found.ahead) {
        (stats::Outcome::Ahead, Some(id)) if id == a => Lead::First,
        (stats::Outcome::Ahead, Some(_)) => Lead::Second,
        (stats::Outcome::DeadHeat, _) => Lead::Tie,
        (stats::Outcome::Ahead | stats::Outcome::Undecided, _) => Lead::Open,
    };
    Some((lead, found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::{Request, testing};

    #[test]
    fn dead_heats_share_a_place() {
        // 0 is ahead of 2 and 3; 1 of 3; 0 and 1 are a dead heat.
        let ahead = |a, b| matches!((a, b), (0, 2) | (0, 3) | (1, 3) | (1, 2));
        assert_eq!(places(4, ahead), [1, 1, 3, 3]);
        assert_eq!(places(3, |_, _| false), [1, 1, 1]);
        // 0 is ahead of 2, and both 0 and 1 of 3; there is no decision between 2 and 3.
        assert_eq!(places(4, |a, b| matches!((a, b), (0, 2) | (0, 3) | (1, 3))), [1, 1, 3, 3]);
        assert_eq!(places(3, |a, b| a < b), [1, 2, 3]);
        // A cycle, which can result from unlike traffic, has no first.
        assert_eq!(places(3, |a, b| (a + 1) % 3 == b), [1, 1, 1]);
    }

    #[test]
    fn the_most_important_traffic_that_decides_speaks() {
        let first = |leads: &[Lead]| first(leads.iter().copied().zip(0..)).unwrap();
        assert_eq!(first(&[Lead::Tie, Lead::Second, Lead::First]), (Lead::Second, 1));
        assert_eq!(first(&[Lead::Open, Lead::Tie]), (Lead::Open, 0));
        assert!(super::first::<()>([]).is_none());
    }

    #[test]
    fn verdicts_count_from_races_that_are_trusted() {
        let request = Request::new(["udp", "tcp"]).blocks(12).seed(1);
        let level = |contender: &str| if contender == "tcp" { 100.0 } else { 80.0 };
        let mut outcome = testing::run(&request, testing::noisy(1, 0.001, level)).unwrap();
        let lead =
            |outcome: &Outcome, a: &str, b: &str| verdict(outcome, a, b).map(|(lead, _)| lead);
        assert_eq!(lead(&outcome, "tcp", "udp"), Some(Lead::Second));
        assert_eq!(lead(&outcome, "udp", "tcp"), Some(Lead::First));
        assert_eq!(lead(&outcome, "udp", "quic"), None);
        outcome.control.as_mut().unwrap().trusted = false;
        assert_eq!(lead(&outcome, "udp", "tcp"), None);
    }
}
