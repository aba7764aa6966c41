//! The tests and intervals of `stats` against SciPy. How the numbers were made, and with which
//! version, is in `tests/data/stats_golden.py`.

#![allow(clippy::unwrap_used, reason = "a broken golden file is a failed test")]

use deadheat_stats::{Estimate, Tail, mann_whitney, signed_rank};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Golden {
    signed_rank: Vec<Paired>,
    mann_whitney: Vec<Independent>,
}

#[derive(Deserialize)]
struct Paired {
    d: Vec<f64>,
    shift: f64,
    hl: f64,
    p: BTreeMap<String, f64>,
    #[serde(default)]
    interval: BTreeMap<String, Option<[f64; 2]>>,
}

#[derive(Deserialize)]
struct Independent {
    a: Vec<f64>,
    b: Vec<f64>,
    shift: f64,
    #[serde(default)]
    interval: BTreeMap<String, Option<[f64; 2]>>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("data/stats_golden.json")).unwrap()
}

#[track_caller]
fn close(got: f64, want: f64, what: &str) {
    assert!((got - want).abs() < 1e-12, "{what}: {got} instead of {want}");
}

#[track_caller]
fn same_interval(got: Option<Estimate>, want: Option<[f64; 2]>, what: &str) {
    assert_eq!(got.is_some(), want.is_some(), "{what}");
    if let (Some(got), Some([low, high])) = (got, want) {
        close(got.low, low, what);
        close(got.high, high, what);
    }
}

#[test]
fn signed_rank_is_that_of_scipy() {
    for case in golden().signed_rank {
        let n = case.d.len();
        close(signed_rank::hodges_lehmann(&case.d).unwrap(), case.hl, "estimate");
        for (name, tail) in [("two", Tail::Two), ("greater", Tail::Greater), ("less", Tail::Less)] {
            let p = signed_rank::p_value(&case.d, case.shift, tail).unwrap();
            close(p, case.p[name], &format!("n = {n}, {name}"));
        }
        for (confidence, want) in case.interval {
            let got = signed_rank::interval(&case.d, confidence.parse().unwrap());
            same_interval(got, want, &format!("n = {n} at {confidence}"));
        }
    }
}

#[test]
fn mann_whitney_is_that_of_scipy() {
    for case in golden().mann_whitney {
        let what = format!("{} against {}", case.a.len(), case.b.len());
        for (confidence, want) in case.interval {
            let got = mann_whitney::interval(&case.a, &case.b, confidence.parse().unwrap());
            got.iter().for_each(|found| close(found.point, case.shift, &what));
            same_interval(got, want, &what);
        }
    }
}
