//! Shared fixtures for the tests of this crate and of its dependents (feature `testing`): a result to fill.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a fixture that fails is a failed test"
)]

use deadheat_contract::measurements::Metrics;
use deadheat_contract::{recorded, workload};
use deadheat_path::PathKind;
use deadheat_path::network::Network;
use deadheat_records::path::{BuiltPath, How};
use deadheat_records::placement::Placement;
use deadheat_records::trial::{PathFacts, Record};
use deadheat_stats::Plan;

use crate::analysis::claims;
use crate::map::file::Map;
use crate::map::levels;
use crate::map::point::{FailedContender, MapPoint};
use crate::map::request::MapRequest;
use crate::outcome::{Entrant, Outcome, Program, RecordedPlan, RecordedRequest};

/// Workload of all tests.
pub const WORKLOAD: &str = "ping:count=200";

/// Returns a contender with the facts of its transport.
fn entrant(id: usize, label: &str, spec: &str) -> Entrant {
    Entrant::of(id, label, &recorded::contender(spec, &Default::default()).unwrap())
}

/// Returns a race of `tcp`, `udp`, … before its first block, with one claimed metric.
pub fn outcome(contenders: usize) -> Outcome {
    let names = [("tcp", "tcp"), ("udp", "udp"), ("udp #2", "udp")];
    let entrants: Vec<Entrant> = names[..contenders.min(3)]
        .iter()
        .enumerate()
        .map(|(id, (label, spec))| entrant(id, label, spec))
        .collect();
    let task = workload::parse(WORKLOAD).unwrap();
    let metrics = task.info().metrics[..1].to_vec();
    let asked = RecordedRequest {
        contenders: entrants.iter().map(|entrant| entrant.spec.clone()).collect(),
        workload: task.info().spec.to_string(),
        path: "loopback".into(),
        blocks: Some(40),
        confidence: 0.95,
        ..RecordedRequest::default()
    };
    let plan = RecordedPlan {
        margin: 0.05,
        placement: Placement::SameCore.to_string(),
        blocks_max: 40,
        looks: Plan::new(40, 1, 0.05).looks,
        claims: claims::claims(&entrants, &metrics) as u64,
        ..RecordedPlan::default()
    };
    let path = PathFacts {
        spec: "loopback".into(),
        kind: PathKind::Loopback,
        address: "127.0.0.1".into(),
        built: None,
        reached: None,
        far_end: None,
    };
    Outcome {
        deadheat: Program { version: "0.1.0".into() },
        started: "2026-01-01T00:00:00Z".into(),
        seed: 1,
        metrics,
        contenders: entrants,
        ..Outcome::new(asked, plan, path)
    }
}

/// Creates a valid record that has only `metrics`.
pub fn record(metrics: Metrics) -> Record {
    Record {
        valid: true,
        implementation: "fake".into(),
        metrics,
        took_ns: 1_000_000,
        ..Record::default()
    }
}

/// Returns an emulated path with its own seed, if any.
pub fn built(seed: Option<u64>) -> PathFacts {
    let text = seed.map_or(String::new(), |seed| format!(",seed={seed}"));
    let spec = format!("delay=25ms,loss=1%{text}");
    let network = Network::parse(&spec).unwrap();
    let how = How {
        backend: "tun".into(),
        why: String::new(),
        grouping: "strict".into(),
        wait: "hybrid".into(),
        addresses: Vec::new(),
        nics: Vec::new(),
    };
    let built = Some(Box::new(BuiltPath::of(&network, how)));
    let address = "198.18.0.2".into();
    PathFacts { spec, kind: PathKind::Emulated, address, built, reached: None, far_end: None }
}

/// Returns a map of two simulated contenders over three delays and two losses.
pub fn map_request() -> MapRequest {
    MapRequest {
        contenders: vec!["arq".into(), "kcp".into()],
        workload: "state:count=30".into(),
        path: "sim:rate=20mbit".into(),
        over: ["delay=1ms..100ms/3", "loss=0..5%/2"].map(|o| levels::parse(o).unwrap()).into(),
        blocks: Some(6),
        budget_ns: None,
        margin: 0.05,
        confidence: 0.95,
    }
}

/// Returns a map of six points, all of which failed.
pub fn map() -> Map {
    let asked = map_request();
    let named = asked.contenders.iter().enumerate();
    let entrant = |(id, spec): (usize, &String)| self::entrant(id, spec, spec);
    let entrants = named.map(entrant).collect();
    let task = workload::parse(&asked.workload).unwrap();
    let metric = claims::claimed(&task.info().metrics).next().unwrap().clone();
    let mut map = Map::new(asked, entrants, metric, 7, None);
    for index in [3, 0, 5, 1, 2, 4] {
        let at = map.asked.at(index);
        let out = vec![FailedContender { contender: 1, why: format!("at {index}") }];
        map.add(MapPoint::failed(at.clone(), map.asked.seed(7, &at), out));
    }
    map
}
