//! E-processes against `tests/data/eprocess_golden.py`, which has them from their definitions.

#![allow(clippy::unwrap_used, reason = "a broken golden file is a failed test")]

use deadheat_stats::eprocess::{Side, evidence, interval};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Case {
    d: Vec<f64>,
    evidence: Vec<(f64, String, f64)>,
    interval: BTreeMap<String, Option<[f64; 2]>>,
}

#[test]
fn evidence_and_intervals_are_those_of_the_definitions() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("data/eprocess_golden.json")).unwrap();
    assert!(cases.len() >= 8);
    for case in cases {
        let n = case.d.len();
        for (shift, side, want) in case.evidence {
            let side = if side == "above" { Side::Above } else { Side::Below };
            let got = evidence(&case.d, shift, side).unwrap();
            assert!((got - want).abs() < 1e-9, "{n} values, {side:?} {shift}: {got} {want}");
        }
        for (level, want) in case.interval {
            let got = interval(&case.d, level.parse().unwrap()).map(|e| [e.low, e.high]);
            assert_eq!(got, want, "{n} values at {level}");
        }
    }
}
