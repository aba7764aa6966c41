//! A map in which everything that can happen has happened.

use deadheat::map::asked::Asked;
use deadheat::map::file::{Contender, FORMAT, Kind, Map};
use deadheat::map::levels;
use deadheat::map::point::{Out, Point, Standing};
use deadheat::map::shard::Shard;
use deadheat::result::outcome::{Program, Ratio, Verdict};

use super::everything;

/// Returns a part of a map of the contenders of a race that has everything.
pub(crate) fn map() -> Map {
    let race = everything();
    let contenders: Vec<Contender> = race
        .contenders
        .iter()
        .map(|entrant| Contender {
            id: entrant.id,
            spec: entrant.spec.clone(),
            label: entrant.label.clone(),
            colour: entrant.colour.clone(),
            implementation: entrant.implementation.clone(),
        })
        .collect();
    let over = ["delay=1ms..100ms/3", "loss=0..2%/2", "rate=1mbit|10mbit"];
    let asked = Asked {
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
        (Standing::Ahead, vec![1]),
        (Standing::DeadHeat, vec![0, 1]),
        (Standing::Undecided, vec![0, 2]),
        (Standing::Alone, vec![2]),
        (Standing::Failed, vec![]),
        (Standing::DeadHeat, vec![0, 1, 2, 3]),
    ];
    let point = |(index, (outcome, leaders)): (usize, (Standing, Vec<usize>))| {
        let at = asked.at(index);
        let has_out = !matches!(outcome, Standing::Ahead | Standing::DeadHeat);
        Point {
            seed: asked.seed(7, &at),
            at,
            outcome,
            leaders,
            why: has_out.then(|| "<i>nobody</i> & \"nothing\"".to_owned()),
            trusted: outcome != Standing::Undecided,
            workload: Some("ping:count=100".into()),
            blocks: 20,
            summary: race.summary.clone(),
            verdicts: race.verdicts.iter().map(decided).collect(),
            out: has_out
                .then(|| Out { contender: 3, why: "failed: lost".into() })
                .into_iter()
                .collect(),
        }
    };
    let points = standings.into_iter().enumerate().map(point).collect();
    Map {
        kind: Kind::Map,
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

/// Returns the verdict with a ratio that a report can show.
fn decided(verdict: &Verdict) -> Verdict {
    let ratio = Some(Ratio { point: 0.8, low: 0.75, high: 0.85 });
    Verdict { ratio: verdict.ratio.or(ratio), ..verdict.clone() }
}
