//! A map with every kind of point.

use deadheat::result::causes::Cause;
use deadheat::result::map::file::{FORMAT, Map, MapContender, MapFileKind};
use deadheat::result::map::levels;
use deadheat::result::map::point::{CauseBehind, FailedContender, MapPoint, PointAnswer};
use deadheat::result::map::request::MapRequest;
use deadheat::result::map::shard::Shard;
use deadheat::result::outcome::{Program, Ratio, Verdict};

use super::everything;

/// Returns a part of a map of the contenders of [`everything`].
pub(crate) fn map() -> Map {
    let race = everything();
    let contenders: Vec<MapContender> = race
        .contenders
        .iter()
        .map(|entrant| MapContender {
            id: entrant.id,
            spec: entrant.spec.clone(),
            label: entrant.label.clone(),
            colour: entrant.colour.clone(),
            implementation: entrant.implementation.clone(),
        })
        .collect();
    let over = ["delay=1ms..100ms/3", "loss=0..2%/2", "rate=1mbit|10mbit"];
    let asked = MapRequest {
        contenders: contenders.iter().map(|contender| contender.spec.clone()).collect(),
        workload: "ping".into(),
        path: "queue=50ms".into(),
        over: over.iter().map(|typed| levels::parse(typed).unwrap()).collect(),
        blocks: Some(20),
        budget_ns: Some(60_000_000_000),
        margin: 0.05,
        confidence: 0.95,
    };
    let standings = [
        (PointAnswer::Ahead, vec![1]),
        (PointAnswer::DeadHeat, vec![0, 1]),
        (PointAnswer::Undecided, vec![0, 2]),
        (PointAnswer::Alone, vec![2]),
        (PointAnswer::Failed, vec![]),
        (PointAnswer::DeadHeat, vec![0, 1, 2, 3]),
    ];
    let point = |(index, (outcome, leaders)): (usize, (PointAnswer, Vec<usize>))| {
        let at = asked.at(index);
        let has_out = !matches!(outcome, PointAnswer::Ahead | PointAnswer::DeadHeat);
        MapPoint {
            seed: asked.seed(7, &at),
            at,
            outcome,
            leaders,
            why: has_out.then(|| "<i>nobody</i> & \"nothing\"".to_owned()),
            trusted: outcome != PointAnswer::Undecided,
            workload: Some("ping:count=100".into()),
            blocks: 20,
            summary: race.summary.clone(),
            verdicts: race.verdicts.iter().map(decided).collect(),
            behind: behind(outcome),
            out: has_out
                .then(|| FailedContender { contender: 3, why: "failed: lost".into() })
                .into_iter()
                .collect(),
        }
    };
    let points = standings.into_iter().enumerate().map(point).collect();
    Map {
        kind: MapFileKind::Map,
        format: FORMAT,
        deadheat: Program { version: "0.1.0".into() },
        seed: 7,
        metric: race.metrics[0].clone(),
        contenders,
        hosts: vec![race.host.clone()],
        shard: Some(Shard { part: 1, of: 2 }),
        points,
        asked,
    }
}

/// Returns contenders that are behind at a point with this answer.
fn behind(answer: PointAnswer) -> Vec<CauseBehind> {
    let of = |contender, cause| CauseBehind { contender, cause };
    match answer {
        PointAnswer::Ahead => vec![of(0, Cause::Retransmission), of(2, Cause::Queue)],
        PointAnswer::DeadHeat => vec![of(2, Cause::Retransmission)],
        _ => Vec::new(),
    }
}

/// Returns the verdict with a ratio that a report can show.
fn decided(verdict: &Verdict) -> Verdict {
    let ratio = Some(Ratio { point: 0.8, low: 0.75, high: 0.85 });
    Verdict { ratio: verdict.ratio.or(ratio), ..verdict.clone() }
}
