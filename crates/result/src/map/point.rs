//! Result of the race at a point of a map: its leaders, or the reason why there is none. Pure.

use crate::analysis::claims;
use crate::causes::Cause;
use crate::causes::race::of_difference;
use serde::{Deserialize, Serialize};

use crate::outcome::{Outcome, Summary, Verdict};
use deadheat_stats::Outcome as Ruled;

/// Point of a map, with the relevant results of its race.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MapPoint {
    /// Level of each key, in the order of the grid's keys.
    pub at: Vec<String>,
    /// Seed of the race.
    pub seed: u64,
    /// Result at the point.
    pub outcome: PointAnswer,
    /// Ids of contenders that no other is ahead of: the leader, a dead heat, or contenders without a decision
    /// between them. Empty if there is no result.
    pub leaders: Vec<usize>,
    /// Reason why there is no leader; absent with a leader and in a dead heat.
    pub why: Option<String>,
    /// True if the race is trusted; otherwise it has no leader.
    pub trusted: bool,
    /// Workload of each trial; absent if no block is complete.
    pub workload: Option<String>,
    /// Number of complete blocks.
    pub blocks: u64,
    /// Estimate of each contender.
    pub summary: Vec<Summary>,
    /// Verdict on each pair.
    pub verdicts: Vec<Verdict>,
    /// Contenders that are behind here, each with the cause that makes the difference, where it is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub behind: Vec<CauseBehind>,
    /// Contenders that are not in the verdicts here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub out: Vec<FailedContender>,
}

/// Contender that is behind at a point, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseBehind {
    /// Id of the contender.
    pub contender: usize,
    /// The cause.
    pub cause: Cause,
}

/// Result at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PointAnswer {
    /// A single contender is ahead of all others.
    Ahead,
    /// Several contenders are equal within the margin, each with each, and ahead of all others.
    DeadHeat,
    /// The race has no decision on the leader.
    Undecided,
    /// Only one contender was able to run.
    Alone,
    /// No contender ran.
    Failed,
    /// The map has one contender, and the point its figure.
    Figure,
}

/// Contender that could not run at a point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedContender {
    /// Id of the contender.
    pub contender: usize,
    /// Reason.
    pub why: String,
}

impl MapPoint {
    /// Creates a point from its race. `racing` has the ids of its contenders in the map; `out` has the contenders
    /// that failed in an earlier race at this point.
    pub fn of(
        at: Vec<String>,
        racing: &[usize],
        mut out: Vec<FailedContender>,
        race: &Outcome,
    ) -> MapPoint {
        let metric = claims::claimed(&race.metrics).next().map_or("", |metric| &metric.name);
        let id = |own: usize| racing.get(own).copied().unwrap_or(own);
        let summary: Vec<Summary> = race
            .summary
            .iter()
            .filter(|summary| summary.metric == metric)
            .map(|summary| Summary { contender: id(summary.contender), ..summary.clone() })
            .collect();
        let verdicts: Vec<Verdict> = race
            .verdicts
            .iter()
            .filter(|verdict| verdict.metric == metric)
            .map(|verdict| Verdict {
                a: id(verdict.a),
                b: id(verdict.b),
                ahead: verdict.ahead.map(id),
                direction: verdict.direction.map(id),
                ..verdict.clone()
            })
            .collect();
        let before = out.len();
        let has_figures = |id: usize| summary.iter().any(|summary| summary.contender == id);
        for (own, contender) in racing.iter().enumerate() {
            let blocked = race.contenders.get(own).and_then(|entrant| entrant.out());
            match blocked {
                Some((word, why)) => {
                    out.push(FailedContender {
                        contender: *contender,
                        why: format!("{word}: {why}"),
                    });
                }
                None if !has_figures(*contender) => {
                    out.push(FailedContender { contender: *contender, why: no_figures(race, own) });
                }
                None => {}
            }
        }
        let asked = racing.len() + before;
        out.sort_by_key(|out| out.contender);
        let ran: Vec<usize> = racing
            .iter()
            .copied()
            .filter(|id| out.iter().all(|out| out.contender != *id))
            .collect();
        let (outcome, leaders, why) = match doubt(race) {
            Some(doubt) if ran.len() > 1 => (PointAnswer::Undecided, Vec::new(), Some(doubt)),
            doubt if asked == 1 && ran.len() == 1 => (PointAnswer::Figure, ran, doubt),
            _ => combine(&ran, &verdicts),
        };
        let last = race.trials.iter().map(|trial| trial.block).max();
        MapPoint {
            at,
            seed: race.seed,
            outcome,
            leaders,
            why,
            trusted: race.trusted(),
            workload: Some(race.plan.workload.as_ref().unwrap_or(&race.asked.workload).clone()),
            blocks: last.map_or(0, |last| last.saturating_add(1)),
            summary,
            verdicts,
            behind: causes_behind(race, metric, id),
            out,
        }
    }

    /// Creates a point at which every contender failed.
    pub fn failed(at: Vec<String>, seed: u64, mut out: Vec<FailedContender>) -> MapPoint {
        out.sort_by_key(|out| out.contender);
        MapPoint {
            at,
            seed,
            outcome: PointAnswer::Failed,
            leaders: Vec::new(),
            why: Some(NOBODY.to_owned()),
            trusted: true,
            workload: None,
            blocks: 0,
            summary: Vec::new(),
            verdicts: Vec::new(),
            behind: Vec::new(),
            out,
        }
    }

    /// Returns the verdict that decides the leader: of the verdicts about a leader, the one with the ratio nearest
    /// to 1.
    pub fn closest(&self) -> Option<&Verdict> {
        let leads = |id: usize| self.leaders.contains(&id);
        let distance = |verdict: &&Verdict| {
            verdict.ratio.map_or(f64::INFINITY, |ratio| ratio.point.ln().abs())
        };
        let pairs = self.verdicts.iter().filter(|verdict| match self.outcome {
            PointAnswer::Ahead => leads(verdict.a) || leads(verdict.b),
            _ => leads(verdict.a) && leads(verdict.b),
        });
        pairs.min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }
}

const NOBODY: &str = "no contender got through";

/// Returns the combined result of the verdicts on the contenders that ran, the leaders, and the reason if there is
/// none.
fn combine(ran: &[usize], verdicts: &[Verdict]) -> (PointAnswer, Vec<usize>, Option<String>) {
    match ran {
        [] => return (PointAnswer::Failed, Vec::new(), Some(NOBODY.to_owned())),
        [only] => return (PointAnswer::Alone, vec![*only], None),
        _ => {}
    }
    let counts = |v: &&Verdict| ran.contains(&v.a) && ran.contains(&v.b);
    let verdicts: Vec<&Verdict> = verdicts.iter().filter(counts).collect();
    let is_behind = |id: usize| {
        let own = verdicts.iter().filter(|v| v.a == id || v.b == id);
        own.filter_map(|v| v.ahead).any(|ahead| ahead != id)
    };
    let front: Vec<usize> = ran.iter().copied().filter(|id| !is_behind(*id)).collect();
    let between = |v: &&&Verdict| front.contains(&v.a) && front.contains(&v.b);
    let open = verdicts.iter().filter(between).find(|v| v.outcome == Ruled::Undecided);
    let pairs = verdicts.iter().filter(between).count();
    match (front.len(), open) {
        (1, _) => (PointAnswer::Ahead, front, None),
        (n, None) if n > 1 && pairs == n * (n - 1) / 2 => (PointAnswer::DeadHeat, front, None),
        (_, open) => {
            let why =
                open.map_or_else(|| "no verdict on some pairs".to_owned(), |v| v.note.clone());
            (PointAnswer::Undecided, front, Some(why))
        }
    }
}

/// Returns the contenders that are behind by a verdict on the metric, each with its first known cause.
fn causes_behind(race: &Outcome, metric: &str, id: impl Fn(usize) -> usize) -> Vec<CauseBehind> {
    let mut all: Vec<CauseBehind> = Vec::new();
    if !race.trusted() {
        return all;
    }
    let verdicts = race.verdicts.iter().filter(|verdict| verdict.metric == metric);
    for (own, finding) in verdicts.filter_map(|verdict| of_difference(race, verdict)) {
        let contender = id(own);
        if all.iter().all(|known| known.contender != contender) {
            all.push(CauseBehind { contender, cause: finding.cause });
        }
    }
    all
}

/// Returns the reason why a race is not trusted; `None` if it is.
fn doubt(race: &Outcome) -> Option<String> {
    race.why_not_trusted().map(|why| format!("not trusted: {why}"))
}

/// Returns the reason why a contender that ran has no figures.
fn no_figures(race: &Outcome, own: usize) -> String {
    let trials = race.trials.iter().filter(|trial| trial.contender == own);
    let why = trials.filter_map(|trial| trial.record.why_invalid.as_deref()).next_back();
    format!("none of its trials counts: {}", why.unwrap_or("they lack this figure"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Ratio;

    fn verdict(a: usize, b: usize, ahead: Option<usize>, tie: bool) -> Verdict {
        let outcome = match (ahead, tie) {
            (Some(_), _) => Ruled::Ahead,
            (None, true) => Ruled::DeadHeat,
            (None, false) => Ruled::Undecided,
        };
        Verdict {
            metric: "m".into(),
            a,
            b,
            outcome,
            ahead,
            ratio: Some(Ratio { point: 1.0 + (a + b) as f64, low: 1.0, high: 9.0 }),
            margin: 0.05,
            confidence: 0.99,
            blocks: 20,
            note: format!("{a} and {b}"),
            ..Verdict::default()
        }
    }

    /// Returns the combined result of the verdicts on 0, 1 and 2: the leader of each pair, or `=` or `?`.
    fn told(pairs: [&str; 3]) -> (PointAnswer, Vec<usize>, Option<String>) {
        let all = [(0, 1), (0, 2), (1, 2)];
        let verdicts = all
            .into_iter()
            .zip(pairs)
            .map(|((a, b), said)| verdict(a, b, said.parse().ok(), said == "="));
        combine(&[0, 1, 2], &verdicts.collect::<Vec<_>>())
    }

    #[test]
    fn who_is_behind_nobody_leads() {
        assert_eq!(told(["0", "0", "?"]), (PointAnswer::Ahead, vec![0], None));
        // Behind a contender that is behind: no verdict on the first and the third is needed.
        assert_eq!(told(["0", "?", "1"]), (PointAnswer::Ahead, vec![0], None));
        assert_eq!(told(["=", "0", "1"]), (PointAnswer::DeadHeat, vec![0, 1], None));
        assert_eq!(told(["=", "=", "="]), (PointAnswer::DeadHeat, vec![0, 1, 2], None));
        // Two that tie with a third may differ from each other.
        let open = (PointAnswer::Undecided, vec![0, 1, 2], Some("1 and 2".to_owned()));
        assert_eq!(told(["=", "=", "?"]), open);
        assert_eq!(
            told(["?", "0", "1"]),
            (PointAnswer::Undecided, vec![0, 1], Some("0 and 1".into()))
        );
        // Figures cannot give a cycle, but a file can.
        assert_eq!(told(["0", "2", "1"]).0, PointAnswer::Undecided);
    }

    #[test]
    fn who_runs_alone_is_ahead_of_nobody() {
        assert_eq!(combine(&[2], &[]), (PointAnswer::Alone, vec![2], None));
        assert_eq!(combine(&[], &[]).0, PointAnswer::Failed);
        // A verdict on a contender that failed does not count.
        let behind = [verdict(0, 1, Some(1), false), verdict(0, 2, Some(0), false)];
        assert_eq!(combine(&[0, 2], &behind), (PointAnswer::Ahead, vec![0], None));
    }
}
